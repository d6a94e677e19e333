#!/usr/bin/env python3
"""Runs engine, data mover, card and shells against cocotbext-axi's bus models under Icarus Verilog.

  run.py [--rtl DIR] [--card DIR] [--shells DIR] [--vectors DIR] [--seed S] [--bench BENCH]... [--only TEST | --planted]

--rtl holds what `keywalk-gen rtl --preset small` wrote, --card what `keywalk-gen card --preset small_card` wrote, each
directory of --shells what `keywalk-gen shell` wrote. A bench is `engine`, `mover`, `card` or the name of a shell's directory;
without --bench all run. Prints cocotb's tables and at the end `N passed, M failed`, or of planted faults `N found, M not
found`.

Exit status: 0 all passed, 1 something failed, 2 wrong usage, 3 a tool is missing.
"""

import argparse
import os
import random
import re
import shutil
import sys
import xml.etree.ElementTree
from dataclasses import dataclass
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


REGISTER = re.compile(r"^ *(?:\(\*.*?\*\) *)?reg (?:\[(\d+):0\] )?(\w+)(?: \[(?:0:)?(\d+)(?::0)?\])?;", re.MULTILINE)
INITIAL = re.compile(r"^ *initial begin$.*?^ *end$", re.MULTILINE | re.DOTALL)
KNOWN = re.compile(r"^ *(\w+)(?:\[\d+\])? = ", re.MULTILINE)


def power_up(source, rng):
    """The module with random content in every register and memory, as a card has it after power-up.

    Without it an event simulator begins with unknown values, and a choice among ways by unknown bits makes everything
    behind it unknown, though every choice is right. What the module says itself of its begin holds, and where a `reg` may be
    a wire, as in what rust-hdl prints, memories alone are meant.
    """
    text = source.read_text()
    has_wires = "always @(*)" in text
    known = set(KNOWN.findall("".join(INITIAL.findall(text))))
    body = []
    for bits, name, last in REGISTER.findall(text):
        if name in known:
            continue
        width = int(bits or 0) + 1
        words = ", ".join(["$urandom"] * -(-width // 32))
        if last:
            body.append(f"for (power_up = 0; power_up <= {last}; power_up = power_up + 1) {name}[power_up] = {{{words}}};")
        elif not has_wires:
            body.append(f"{name} = {{{words}}};")
    if not body:
        return text
    seed = rng.getrandbits(31)
    lines = ["integer power_up;", "initial begin", f"power_up = {seed};", "power_up = $urandom(power_up);", *body, "end"]
    head, end = text.rsplit("endmodule", 1)
    return head + "\n".join(lines) + "\nendmodule" + end


# Faults that a test must find: bench, module, what is replaced by what, the test.
PLANTED = [
    ("mover", "write_port", "mem_wstrb = w_strobes;", "mem_wstrb = w_strobes | w_strobes << 1;", "every_alignment"),
    ("mover", "mover_read", "packet_error = ", "packet_error = 1'b0 & ", "any_jobs"),
    ("shell_wider", "host_port", "m_wstrb = w_offered_strb;", "m_wstrb = w_offered_strb | 64'h1;", "byte_enables"),
    ("shell_narrower", "width_converter", "(r_lower_resp < r_resp)", "1'b1", "traffic"),
    ("card", "host_port", "m_wstrb = w_offered_strb;", "m_wstrb = w_offered_strb | w_offered_strb >> 1;", "accesses/number=0"),
    ("shell_same", "register_port", "s_bresp = ", "s_bresp = 2'h0 & ", "registers_while"),
]


@dataclass
class Bench:
    """A top module with its Verilog, and the tests of it."""

    name: str
    top: str
    tests: str
    sources: Path

    def run(self, runner, build, rng, environment, only, fault=None):
        """Gives how many tests ran and how many failed, with a fault if one is given."""
        build.mkdir(parents=True)
        sources = []
        for source in sorted(self.sources.glob("*.v")):
            text = power_up(source, rng)
            if fault and fault[0] == source.stem:
                _, old, new = fault
                assert text.count(old) == 1, f"{source.name} has {text.count(old)} places `{old}`, one is needed"
                text = text.replace(old, new)
            sources.append(build / source.name)
            sources[-1].write_text(text)
        simulation = build / "sim"
        runner.build(
            sources=sources, hdl_toplevel=self.top, build_dir=simulation, always=True, timescale=("1ns", "1ps")
        )
        results = runner.test(
            hdl_toplevel=self.top,
            test_module=self.tests,
            build_dir=simulation,
            test_dir=build,
            results_xml=str(build / "results.xml"),
            extra_env=environment,
            test_filter=only,
        )
        if not results.is_file():
            print(f"run.py: {self.name}: the simulator wrote no results", file=sys.stderr)
            return 1, 1
        cases = list(xml.etree.ElementTree.parse(results).iter("testcase"))
        failed = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
        return sum(1 for case in cases if case.find("skipped") is None), failed


def plant(benches, runner, build, rng, environment):
    """Whether the tests find every planted fault; gives the exit status."""
    by_name = {bench.name: bench for bench in benches}
    missed = []
    for number, (name, module, old, new, test) in enumerate(PLANTED):
        directory = build / f"planted_{number}"
        ran, failed = by_name[name].run(runner, directory, rng, environment, test, (module, old, new))
        if not ran or not failed:
            missed.append(f"{name}: {module}: `{new}` in place of `{old}`")
    for what in missed:
        print(f"run.py: not found by its test: {what}", file=sys.stderr)
    print(f"{len(PLANTED) - len(missed)} found, {len(missed)} not found")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rtl", type=Path, default=ROOT / "build/bfm/rtl", help="generated Verilog of preset small")
    parser.add_argument("--card", type=Path, default=ROOT / "build/bfm/card", help="generated card of preset small_card")
    parser.add_argument("--shells", type=Path, default=ROOT / "build/bfm/shells", help="directory of generated shells")
    parser.add_argument("--vectors", type=Path, default=ROOT / "verify/vectors", help="directory of the vectors")
    parser.add_argument("--seed", type=int, default=1, help="everything random follows from it")
    parser.add_argument("--bench", action="append", help="run this bench alone, or these")
    parser.add_argument("--planted", action="store_true", help="plant faults instead: each must make its test fail")
    parser.add_argument("--only", help="tests whose name matches this regular expression")
    args = parser.parse_args()
    try:
        import cocotbext.axi  # noqa: F401  (only whether they are there)
        import cocotbext.pcie  # noqa: F401
        from cocotb_tools.runner import get_runner
    except ImportError as error:
        print(f"run.py: {error}: `make test-bfm` installs cocotb and the bus models", file=sys.stderr)
        return 3
    if not shutil.which("iverilog"):
        print("run.py: no iverilog on the path: on Debian, as root: apt-get install iverilog", file=sys.stderr)
        return 3
    benches = [
        Bench("engine", "keywalk", "test_engine", args.rtl),
        Bench("mover", "keywalk_mover", "test_mover", args.rtl),
    ]
    shells = sorted(args.shells.iterdir()) if args.shells.is_dir() else []
    benches.append(Bench("card", "keywalk_card", "test_card", args.card))
    benches += [Bench(shell.name, "keywalk_shell", "test_shell", shell) for shell in shells]
    known = [bench.name for bench in benches]
    unknown = [name for name in args.bench or [] if name not in known]
    if unknown:
        print(f"run.py: no bench {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    paths = [args.vectors / name for name in VECTORS]
    missing = [f"{path}: no such file" for path in paths if not path.is_file()]
    missing += [f"{bench.sources}: no Verilog; run `make test-bfm`" for bench in benches if not any(bench.sources.glob("*.v"))]
    if not shells:
        missing.append(f"{args.shells}: no shells; run `make test-bfm`")
    if missing:
        print(f"run.py: {missing[0]}", file=sys.stderr)
        return 2
    environment = {
        "KEYWALK_RTL": str(args.rtl.resolve()),
        "KEYWALK_CARD": str(args.card.resolve()),
        "KEYWALK_VECTORS": os.pathsep.join(str(path.resolve()) for path in paths),
        "KEYWALK_SEED": str(args.seed),
        "COCOTB_LOG_LEVEL": "WARNING",
        # What the models' authors are told to change in them.
        "PYTHONWARNINGS": "ignore::DeprecationWarning",
    }
    build = ROOT / "build/bfm/benches"
    shutil.rmtree(build, ignore_errors=True)
    rng = random.Random(args.seed)
    sys.path.insert(0, str(ROOT / "verify/bfm"))
    runner = get_runner("icarus")
    if args.planted:
        return plant(benches, runner, build, rng, environment)
    counts = [
        bench.run(runner, build / bench.name, rng, environment, args.only)
        for bench in benches
        if not args.bench or bench.name in args.bench
    ]
    ran, failed = (sum(numbers) for numbers in zip(*counts))
    print(f"{ran - failed} passed, {failed} failed")
    if not ran:
        print("run.py: no test ran", file=sys.stderr)
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
