"""The engine's faces exercised by cocotbext-axi's models with random stalls, on the tables of the vectors.

Expected answers are the witness's (verify/witness), which agrees with every row of the vectors.
"""

import os

import cocotb
from cocotb.triggers import RisingEdge

# The witness is found by the path that `engine` sets.
from engine import LINE_BYTES, Engine, reading, witness

Refused, Request = reading.Refused, reading.Request

# Scope of an invalidation that takes everything.
ALL = 4
SEED = int(os.environ.get("KEYWALK_SEED", "1"))
VECTORS = os.environ["KEYWALK_VECTORS"].split(os.pathsep)
# Requests for each vector and round.
REQUESTS = 60


def requests_of(vector, rng):
    """Single pages of xlate rows, every bad row, and accesses across pages from the rows on."""
    requests = [
        Request(reading.LOCAL_READ, *_place(row), length) for row in vector["xlate"] for length in (1, 4096, 9000)
    ]
    for row in vector["bad"]:
        operation = reading.OPERATIONS.index(row["op"])
        requests.append(Request(operation, *_place(row), row["len"]))
    rng.shuffle(requests)
    return requests[:REQUESTS]


def _place(row):
    key, va, pd = witness.place(row)
    return key, pd, 0, va


async def prepared(dut, path, seed, chance):
    """A fresh engine that knows the tables of a vector."""
    engine = Engine(dut, seed)
    await engine.start()
    vector = witness.load_vector(path)
    reader = witness.vector_reader(vector)
    await engine.set_up(reader)
    engine.stall(chance)
    return engine, vector, reader


async def check_translations(engine, reader, requests):
    answers = await engine.translate(requests)
    for request, answer in zip(requests, answers):
        beats, _ = reader.beats(request)
        wanted = [list(beat) for beat in beats]
        assert answer == wanted, f"{witness.request_text(vars(request))}: {answer}, expected {wanted}"


@cocotb.test()
@cocotb.parametrize(path=VECTORS, chance=[0.0, 0.4])
async def translations(dut, path, chance):
    """Cold, warm, and after an invalidation of everything; the counters agree."""
    engine, vector, reader = await prepared(dut, path, SEED, chance)
    requests = requests_of(vector, engine.random)
    await check_translations(engine, reader, requests)
    await check_translations(engine, reader, requests)
    before, reads = engine.memory.reads, await engine.counter("TABLE_READS")
    await engine.invalidate(7, scope=ALL)
    await check_translations(engine, reader, requests)
    # Of tables that cannot be reached nothing is read.
    assert not reads or engine.memory.reads > before, "nothing was read again"
    await engine.quiet()
    assert await engine.counter("REQUESTS") == 3 * len(requests)
    beats = engine.manifest["configuration"]["table_data_bits"] // 8
    assert await engine.counter("TABLE_READS") * (LINE_BYTES // beats) == engine.memory.reads


@cocotb.test()
@cocotb.parametrize(path=VECTORS)
async def contexts(dut, path):
    """Context lookups of the rows, and of objects around them."""
    engine, vector, reader = await prepared(dut, path, SEED + 1, 0.3)
    codes = [(reading.TABLES.index(row["table"]), row["obj"]) for row in vector["ctx"]]
    codes += [(code, index ^ engine.random.getrandbits(12)) for code, index in codes]
    codes += [(reading.MPT, engine.random.getrandbits(16)) for _ in range(20)]
    questions = [{"is_walk": 0, "table": code, "index": index} for code, index in codes[:REQUESTS]]
    answers = await engine.ask_contexts(questions)
    for question, answer in zip(questions, answers):
        try:
            wanted = [0, 0, 0, reader.context(question["table"], question["index"])]
        except Refused as error:
            wanted = [error.status, error.table, error.hop, 0]
        assert answer == wanted, f"{question}: {answer}, expected {wanted}"
    await engine.quiet()


@cocotb.test()
async def registers_by_bytes(dut):
    """Byte strobes, registers that only read, offsets without a register."""
    engine, _, _ = await prepared(dut, VECTORS[0], SEED + 2, 0.3)
    offset = engine.registers.offset("MERGE_BYTES_MAX")
    await engine.write("MERGE_BYTES_MAX", 0x1122_3344)
    await engine.lite.write(offset + 1, b"\xaa\xbb")
    assert await engine.read("MERGE_BYTES_MAX") == 0x11BB_AA44
    version = await engine.read("VERSION")
    assert version != 0, "no version"
    await engine.lite.write(engine.registers.offset("VERSION"), b"\xff\xff\xff\xff")
    assert await engine.read("VERSION") == version
    # Nothing is behind the last register; the engine must answer and go on.
    answer = await engine.lite.read(0x3FFC, 4)
    assert int(answer.resp) != 0, f"offset 0x3ffc answered {answer.resp!s}"
    assert await engine.read("MERGE_BYTES_MAX") == 0x11BB_AA44


@cocotb.test()
async def reset_in_traffic(dut):
    """A reset while requests and table reads are under way leaves a working engine."""
    engine, vector, reader = await prepared(dut, VECTORS[0], SEED + 3, 0.3)
    requests = requests_of(vector, engine.random)
    for tag, request in enumerate(requests[:20]):
        fields = {name: getattr(request, name) for name in ("operation", "key", "pd", "qpn", "va", "length")}
        await engine.send("s_axis_req", tag=tag, function=0, **fields)
    for _ in range(60):
        await RisingEdge(dut.aclk)
    await engine.reset()
    await engine.set_up(reader)
    await check_translations(engine, reader, requests)
    await engine.quiet()
