#!/usr/bin/env python3
"""Runs the engine against cocotbext-axi's bus models under Icarus Verilog.

  run.py [--rtl DIR] [--vectors DIR] [--seed S] [--only TEST]

DIR holds what `keywalk-gen rtl --preset small --out DIR` wrote. Prints cocotb's table and at the end
`N passed, M failed`.

Exit status: 0 all passed, 1 something failed, 2 wrong usage, 3 a tool is missing.
"""

import argparse
import os
import random
import re
import shutil
import sys
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Small files of every kind: hops, page sizes, damaged lives, contexts. All 47 take too long in an event simulator.
VECTORS = [
    "key_wrap.json",
    "pbl_adapt_hop0_612.json",
    "pbl_fixed_hop1_4kba.json",
    "pbl_fixed_hop2_64kpg.json",
    "rereg_hop_change.json",
    "hem_alias_bt12.json",
    "ctx_hop2.json",
    "mw_dma.json",
]


REGISTER = re.compile(r"^ *(?:\(\*.*?\*\) *)?reg (?:\[(\d+):0\] )?(\w+)(?: \[0:(\d+)\])?;", re.MULTILINE)


def power_up(source, rng):
    """The module with random content in every register and memory, as a card has it after power-up.

    Without it an event simulator begins with unknown values, and a choice among ways by unknown bits makes everything
    behind it unknown, though every choice is right.
    """
    text = source.read_text()
    body = []
    for bits, name, last in REGISTER.findall(text):
        width = int(bits or 0) + 1
        words = ", ".join(["$urandom"] * -(-width // 32))
        if last:
            body.append(f"for (power_up = 0; power_up <= {last}; power_up = power_up + 1) {name}[power_up] = {{{words}}};")
        else:
            body.append(f"{name} = {{{words}}};")
    if not body:
        return text
    seed = rng.getrandbits(31)
    lines = ["integer power_up;", "initial begin", f"power_up = {seed};", "power_up = $urandom(power_up);", *body, "end"]
    head, end = text.rsplit("endmodule", 1)
    return head + "\n".join(lines) + "\nendmodule" + end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rtl", type=Path, default=ROOT / "build/bfm/rtl", help="generated Verilog of preset small")
    parser.add_argument("--vectors", type=Path, default=ROOT / "verify/vectors", help="directory of the vectors")
    parser.add_argument("--seed", type=int, default=1, help="everything random follows from it")
    parser.add_argument("--only", help="tests whose name matches this regular expression")
    args = parser.parse_args()
    try:
        import cocotbext.axi  # noqa: F401  (only whether it is there)
        from cocotb_tools.runner import get_runner
    except ImportError as error:
        print(f"run.py: {error}: `make test-bfm` installs cocotb and cocotbext-axi", file=sys.stderr)
        return 3
    if not shutil.which("iverilog"):
        print("run.py: no iverilog on the path: on Debian, as root: apt-get install iverilog", file=sys.stderr)
        return 3
    sources = sorted(args.rtl.glob("*.v"))
    paths = [args.vectors / name for name in VECTORS]
    missing = [str(path) for path in paths if not path.is_file()]
    if not sources or missing:
        what = ", ".join(missing) or f"{args.rtl}: no Verilog; run keywalk-gen rtl --preset small --out {args.rtl}"
        print(f"run.py: {what}", file=sys.stderr)
        return 2
    build = ROOT / "build/bfm"
    environment = {
        "KEYWALK_RTL": str(args.rtl.resolve()),
        "KEYWALK_VECTORS": os.pathsep.join(str(path.resolve()) for path in paths),
        "KEYWALK_SEED": str(args.seed),
        "COCOTB_LOG_LEVEL": "WARNING",
    }
    powered_up = build / "powered_up"
    shutil.rmtree(powered_up, ignore_errors=True)
    powered_up.mkdir(parents=True)
    rng = random.Random(args.seed)
    for source in sources:
        (powered_up / source.name).write_text(power_up(source, rng))
    sources = sorted(powered_up.glob("*.v"))
    runner = get_runner("icarus")
    runner.build(sources=sources, hdl_toplevel="keywalk", build_dir=build / "sim", always=True, timescale=("1ns", "1ps"))
    sys.path.insert(0, str(ROOT / "verify/bfm"))
    results = runner.test(
        hdl_toplevel="keywalk",
        test_module="test_engine",
        build_dir=build / "sim",
        test_dir=build,
        extra_env=environment,
        test_filter=args.only,
    )
    if not results.is_file():
        print("run.py: the simulator wrote no results", file=sys.stderr)
        return 1
    cases = list(xml.etree.ElementTree.parse(results).iter("testcase"))
    failed = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
    ran = sum(1 for case in cases if case.find("skipped") is None)
    print(f"{ran - failed} passed, {failed} failed")
    if not ran:
        print("run.py: no test ran", file=sys.stderr)
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
