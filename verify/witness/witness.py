#!/usr/bin/env python3
"""Checks answers with a second reading of the table formats (reading.py), which shares no code with the golden model.

  witness.py vectors PATH...   every xlate, bad, ctx and mtrs row of vector files, or of all those in a directory
  witness.py answers FILE...   answers of the RTL and of the golden model, as `keywalk-verify scenario` writes them

Prints each disagreement with the request, the answers and the rule, up to --show of them, and at the end
`N agreed, M disagreed`. --json FILE writes the counts, with the requests by status.

Exit status: 0 all agreed, 1 something disagreed, 2 wrong usage or unreadable input.
"""

import argparse
import collections
import gzip
import json
import os
import sys
import zlib

import reading
from reading import CODE, OPERATIONS, STATUSES, Memory, Reader, Refused, Request, Switches, Table, TableSet

ANSWERS_FORMAT = "keywalk-scenario/1"
VECTOR_FORMAT = "hns-v2-vector/1"
BEAT = ["status", "wire_class", "table", "hop", "segment", "first", "last", "pa", "length"]


# What reading damaged input may raise: wrong types and numbers, missing keys, depth without end, a broken stream.
DAMAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, zlib.error, EOFError)


class Unusable(Exception):
    """Input that cannot be read."""


class Tally:
    """What agreed and what did not."""

    def __init__(self, show):
        self.show = show
        self.agreed = 0
        self.disagreed = 0
        self.statuses = collections.Counter()

    def add(self, holds, status, describe):
        """Counts one check; `describe` gives the lines that explain a disagreement."""
        self.statuses[STATUSES[status][0]] += 1
        if holds:
            self.agreed += 1
            return
        self.disagreed += 1
        if self.disagreed <= self.show:
            print("\n".join(describe()))


def number(value):
    """A number of a vector file: plain, or a string such as "0x7f00"."""
    return int(value, 16) if isinstance(value, str) else value


def rule(status, refusal, claimed=0):
    """Says by which rule the witness answers, or, where it finds nothing wrong, which rule the other one sees broken."""
    if refusal:
        found = f" ({refusal.found})" if refusal.found else ""
        return f"    rule:    {STATUSES[status][0]}{found}: {STATUSES[status][2]}"
    if 0 < claimed < len(STATUSES):
        return f"    rule:    every check holds, this one too: {STATUSES[claimed][0]}: {STATUSES[claimed][2]}"
    return f"    rule:    {STATUSES[0][2]}; contract 4 says where the bytes are, behaviour 4 how they are cut and merged"


# Vector files.


def vector_files(paths):
    """The files, and those in the directories."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        names = sorted(name for name in os.listdir(path) if name.endswith((".json", ".json.gz")))
        if not names:
            raise Unusable(f"{path}: no *.json or *.json.gz file in this directory")
        for name in names:
            yield os.path.join(path, name)


def load_vector(path):
    with open(path, "rb") as file:
        data = file.read()
    vector = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    if not isinstance(vector, dict) or vector.get("format") != VECTOR_FORMAT:
        raise Unusable(f"{path}: no vector file: `format` is not {VECTOR_FORMAT}")
    return vector


def vector_reader(vector):
    """The tables of a vector as the engine is told of them. Atomic rows test rights only: their shape is not checked."""
    memory = Memory()
    for run in vector["image"]:
        address = number(run["addr"])
        memory.back(address, run["size"])
        for offset, digits in run["data"]:
            memory.write(address + offset, bytes.fromhex(digits))
    tables = TableSet(num_mpts=vector["caps"]["num_mtpts"])
    for name, hem in vector["hem"].items():
        slots = {int(slot): number(base) for slot, base in hem["bt0"].items()}
        tables.tables[reading.TABLES.index(name)] = Table(
            hem["hop"], hem["ba_pg_sz"], hem["buf_pg_sz"], hem["entry_size"], hem["bt_num"], 0, slots
        )
    return Reader(memory, tables, Switches(atomic_shape_check=False))


# An entry that is not there shows itself where the walk ends.
REASONS = {
    "ok": ["ok"],
    "no_mpt": ["bt0_unset", "hem_pointer_zero", "hem_bus_error", "entry_state"],
    "state": ["entry_state"],
    "key": ["entry_key"],
    "pd": ["protection_domain"],
    "access": ["access_right"],
    "bounds": ["bounds"],
}
WIRE_CLASSES = {"ok": 0, "remote_access_error": 2, "local_protection_error": 3}


def place(row):
    return number(row["key"]), number(row["va"]), row["pd"]


def check_translations(vector, reader, tally, name):
    """xlate and bad rows, with the literal reading where the driver's tables do not say what it meant."""
    walkers, reasons, unmapped = {}, {}, collections.defaultdict(list)
    for row in vector["known_mismatch"]:
        if row["what"] == "xlate":
            walkers[place(row["entry"])] = row["walker"]
            if row["walker"].startswith("unmapped"):
                key, va, pd = place(row["entry"])
                unmapped[key, pd].append(va)
        elif row["what"] in ("check", "bad"):
            reasons[place(row["entry"])] = row["walker"]

    def check(what, request, holds_for, expected):
        segments, refusal = reader.translate(request)
        status = refusal.status if refusal else 0

        def describe():
            answer = f"status {STATUSES[status][0]}" if refusal else ", ".join(f"{a:#x} +{n}" for a, n in segments[:4])
            return [
                f"{name}: {what}: {request_text(vars(request))}",
                f"    row:     {expected}",
                f"    witness: {answer}",
                rule(status, refusal),
            ]

        tally.add(holds_for(segments, status), status, describe)

    for position, row in enumerate(vector["xlate"]):
        key, va, pd = place(row)
        request = Request(reading.LOCAL_READ, key, pd, 0, va, 1)
        reason = reasons.get(place(row), "ok")
        walker = walkers.get(place(row), row["pa"])
        if reason != "ok":
            names = REASONS[reason]
        else:
            names = ["mtr_bus_error"] if walker.startswith("unmapped") else ["ok"]
        wanted = [(number(walker), 1)] if names == ["ok"] else []
        holds = lambda segments, status: STATUSES[status][0] in names and segments == wanted
        check(f"xlate[{position}] of {row['mr']}", request, holds, f"{' or '.join(names)} {walker}")

    for position, row in enumerate(vector["bad"]):
        key, va, pd = place(row)
        operation = OPERATIONS.index(row["op"])
        request = Request(operation, key, pd, 0, va, row["len"])
        reason = reasons.get(place(row), row["reason"]) if row["len"] else "ok"
        names = REASONS[reason]
        if reason == "ok" and any(va <= other < va + row["len"] for other in unmapped[key, pd]):
            names = ["mtr_bus_error"]
        # The wire class is the row's own where its reason is.
        wanted_class = WIRE_CLASSES[row["expect"]] if reason == row["reason"] and names != ["mtr_bus_error"] else None

        def holds(segments, status):
            is_class = wanted_class in (None, reading.wire_class(status, operation))
            is_whole = status or sum(length for _, length in segments) == row["len"]
            return STATUSES[status][0] in names and is_class and is_whole

        check(f"bad[{position}]", request, holds, f"{' or '.join(names)}, {row['expect']}")


def check_contexts(vector, reader, tally, name):
    """ctx and mtrs rows."""

    def check(what, wanted, marker, ask):
        refusal, address = None, 0
        try:
            address = ask()
        except Refused as error:
            refusal = error
        status = refusal.status if refusal else 0
        holds = not refusal and address == wanted
        if holds and marker is not None:
            holds = reader.memory.read(address, 8) == marker
        lines = [f"{name}: {what}", f"    row:     {wanted:#x}", f"    witness: {address:#x}", rule(status, refusal)]
        tally.add(holds, status, lambda: lines)

    for position, row in enumerate(vector["ctx"]):
        code, index = reading.TABLES.index(row["table"]), row["obj"]
        marker = 0xC0DE << 48 | code << 40 | index
        check(f"ctx[{position}]", number(row["pa"]), marker, lambda: reader.context(code, index))

    for position, buffer in enumerate(vector["mtrs"]):
        # Contract 4, queue buffers: the regions share one root page, each root as large as it needs to be; without
        # hops they follow each other page by page.
        entries = (1 << buffer["ba_pg_shift"]) // 8
        roots, root = [], number(buffer["root_ba"])
        for region in buffer["regions"]:
            hop = 0 if buffer["is_direct"] else region["hop"]
            offset = region["offset"] << buffer["buf_pg_shift"] if buffer["is_direct"] else 0
            roots.append((root + offset, hop, region["count"]))
            if hop:
                root += 8 * -(-region["count"] // entries ** (hop - 1))
        sizes = buffer["ba_pg_shift"] - 12, buffer["buf_pg_shift"] - 12
        for row, (region, page, pa) in enumerate(buffer["expect"]):
            root_of, hop, count = roots[region]
            ask = lambda: reader.queue_page(root_of, hop, *sizes, page, count)
            check(f"mtrs[{position}].expect[{row}] of {buffer['name']}", number(pa), None, ask)


def check_vector(path, tally):
    vector = load_vector(path)
    reader = vector_reader(vector)
    before = tally.agreed, tally.disagreed
    check_translations(vector, reader, tally, path)
    check_contexts(vector, reader, tally, path)
    agreed, disagreed = tally.agreed - before[0], tally.disagreed - before[1]
    print(f"{path}: {agreed} agreed, {disagreed} disagreed")


# Answers of an engine.


def request_text(request):
    operation = request["operation"]
    name = OPERATIONS[operation] if operation < len(OPERATIONS) else f"operation {operation}"
    rest = f"pd {request['pd']:#x} qpn {request['qpn']:#x} va {request['va']:#x} length {request['length']}"
    return f"{name} key {request['key']:#010x} {rest}"


def beat_text(beat):
    fields = dict(zip(BEAT, beat))
    status = fields["status"]
    name = STATUSES[status][0] if status < len(STATUSES) else "undefined"
    rest = " ".join(f"{key} {fields[key]}" for key in BEAT[1:7])
    return f"{name} {rest} pa {fields['pa']:#x} length {fields['length']}"


def answer_lines(who, beats, other):
    """An answer around the first beat that differs from the witness's."""
    if who != "witness:" and beats == other:
        return f"    {who:8} as the witness"
    at = next((n for n, pair in enumerate(zip(beats, other)) if pair[0] != pair[1]), min(len(beats), len(other)))
    text = beat_text(beats[at]) if at < len(beats) else "no beat"
    return f"    {who:8} {len(beats)} beats, beat {at}: {text}"


class Scenario:
    """Tables and registers of a scenario, from its first lines."""

    def __init__(self, line):
        if line.get("format") != ANSWERS_FORMAT:
            raise Unusable(f"`format` is {line.get('format')!r}, legal is {ANSWERS_FORMAT}")
        self.name = f"{line['engine']} engine, seed {line['seed']}"
        self.again = f"    again:   {line['again']}"
        self.memory = Memory()
        for first, end in line["backed_pages"]:
            self.memory.back(first << 12, (end - first) << 12)
        switches = Switches(**line["switches"])
        self.readers = [Reader(self.memory, self.table_set(described), switches) for described in line["table_sets"]]
        self.function_map = dict(line["function_map"])
        self.counts = collections.Counter()

    @staticmethod
    def table_set(described):
        tables = TableSet(1 << described["num_mpts_log2"], described["page_shift_base"])
        for code, table in enumerate(described["tables"]):
            fields = {key: table[key] for key in ("hop", "ba_pg_sz", "buf_pg_sz", "bt_num", "object_count")}
            entry_bytes = 1 << table["entry_bytes_log2"]
            tables.tables[code] = Table(**fields, entry_bytes=entry_bytes, bt0=dict(table["bt0"]))
        return tables

    def reader(self, function):
        return self.readers[self.function_map.get(function, 0)]

    def page(self, line):
        if not 0 <= line["address"] < 1 << 64:
            raise Unusable(f"address {line['address']}, legal is 0 to 2^64 - 1")
        for position, word in line["words"]:
            self.memory.write(line["address"] + 8 * position, word.to_bytes(8, "little"))

    def request(self, line, tally):
        asked = line["request"]
        request = Request(*(asked[key] for key in ("operation", "key", "pd", "qpn", "va", "length")))
        beats, refusal = self.reader(asked["function"]).beats(request)
        wanted = [list(beat) for beat in beats]
        status = beats[-1][0]

        def describe():
            other = next(line[who] for who in ("rtl", "model") if line[who] != wanted)
            return [
                f"{self.name}: tag {asked['tag']} function {asked['function']}: {request_text(asked)}",
                answer_lines("RTL:", line["rtl"], wanted),
                answer_lines("model:", line["model"], wanted),
                answer_lines("witness:", wanted, other),
                rule(status, refusal, other[-1][0] if other else 0),
                self.again,
            ]

        tally.add(line["rtl"] == wanted and line["model"] == wanted, status, describe)

    def context(self, line, tally):
        asked = line["request"]
        reader = self.reader(asked["function"])
        refusal = None
        try:
            if asked["is_walk"]:
                fields = (asked[key] for key in ("root", "hop", "ba_pg_sz", "buf_pg_sz", "index", "count"))
                wanted = [0, 0, 0, reader.queue_page(*fields)]
            else:
                wanted = [0, 0, 0, reader.context(asked["table"], asked["index"])]
        except Refused as error:
            refusal = error
            wanted = [error.status, error.table, error.hop, 0]

        def describe():
            answers = [("RTL:", line["rtl"]), ("model:", line["model"]), ("witness:", wanted)]
            texts = [f"    {who:8} status {s} table {t} hop {h} address {a:#x}" for who, (s, t, h, a) in answers]
            return [f"{self.name}: context port: {asked}", *texts, rule(wanted[0], refusal, line["rtl"][0]), self.again]

        tally.add(line["rtl"] == wanted and line["model"] == wanted, wanted[0], describe)


def check_answers(path, tally):
    """A file of scenarios: each a head, its memory, its answers, and a line that counts them."""
    scenario = None
    scenarios = 0
    with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
        for position, text in enumerate(file, 1):
            try:
                line = json.loads(text)
                kind = line["kind"]
                if kind == "scenario" and scenario is None:
                    scenario = Scenario(line)
                elif kind == "page" and scenario:
                    scenario.page(line)
                elif kind in ("request", "context") and scenario:
                    getattr(scenario, kind)(line, tally)
                    scenario.counts[kind] += 1
                elif kind == "end" and scenario:
                    counted = line["requests"], line["contexts"]
                    if counted != (scenario.counts["request"], scenario.counts["context"]):
                        raise Unusable(f"{counted} answers were written, the file has {dict(scenario.counts)}")
                    scenario = None
                    scenarios += 1
                else:
                    raise Unusable(f"a line of kind {kind!r} does not belong here")
            except Unusable as error:
                raise Unusable(f"{path}:{position}: {error}") from None
            except DAMAGE as error:
                raise Unusable(f"{path}:{position}: {type(error).__name__}: {error}") from None
    if scenario or not scenarios:
        raise Unusable(f"{path}: ends in the middle of a scenario" if scenario else f"{path}: holds no scenario")
    print(f"{path}: {scenarios} scenarios, {tally.agreed} agreed, {tally.disagreed} disagreed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["vectors", "answers"])
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="disagreements that are printed")
    parser.add_argument("--json", metavar="FILE", help="write the counts as JSON")
    arguments = parser.parse_args()
    tally = Tally(arguments.show)
    try:
        if arguments.what == "vectors":
            for path in vector_files(arguments.paths):
                try:
                    check_vector(path, tally)
                except DAMAGE as error:
                    raise Unusable(f"{path}: no vector file: {type(error).__name__}: {error}") from None
        else:
            for path in arguments.paths:
                check_answers(path, tally)
        if arguments.json:
            counts = {"agreed": tally.agreed, "disagreed": tally.disagreed, "statuses": dict(tally.statuses)}
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(counts, file, indent=2)
                file.write("\n")
    except (OSError, UnicodeDecodeError, Unusable) as error:
        print(f"witness: {error}", file=sys.stderr)
        return 2
    print(f"{tally.agreed} agreed, {tally.disagreed} disagreed")
    if tally.agreed + tally.disagreed == 0:
        print("witness: the files hold no row to check", file=sys.stderr)
        return 2
    return 1 if tally.disagreed else 0


if __name__ == "__main__":
    sys.exit(main())
