"""The whole card between cocotbext-axi's models: tables of the vectors in host memory, remote accesses, every byte compared.

Where an access leads, and whether it is refused, is the witness's to say.
"""

import os

import cocotb
from buses import PAGE_BYTES
from card import USER_BASE, Card
from engine import reading, witness

Request = reading.Request

SEED = int(os.environ.get("KEYWALK_SEED", "1"))
VECTORS = os.environ["KEYWALK_VECTORS"].split(os.pathsep)
CLOCKS = [(3200, 4000), (4000, 3200), (1400, 6200)]
# Accesses of each round.
ACCESSES = 30
# Longest access.
LENGTH_MAX = 3000


def requests_of(vector, rng):
    """Accesses around the rows, and those that are to be refused."""
    requests = []
    for row in vector["xlate"]:
        key, va, pd = witness.place(row)
        operation = rng.randrange(5)
        if operation == reading.OPERATIONS.index("remote_atomic"):
            requests.append(Request(operation, key, pd, 0, va & ~7 if rng.random() < 0.9 else va, 8))
        else:
            requests.append(Request(operation, key, pd, 0, va, rng.choice([1, 8, 64, 100, LENGTH_MAX])))
    for row in vector["bad"]:
        key, va, pd = witness.place(row)
        if row["len"] <= LENGTH_MAX:
            requests.append(Request(reading.OPERATIONS.index(row["op"]), key, pd, 0, va, row["len"]))
    rng.shuffle(requests)
    return requests[:ACCESSES]


async def prepared(dut, number, chance, **options):
    """A card with the tables of a vector, which it knows."""
    vector = witness.load_vector(VECTORS[number])
    reader = witness.vector_reader(vector)
    reader.switches.hold_mode = number % 2 == 1
    card = Card(dut, SEED + number, CLOCKS[number % len(CLOCKS)], reader, **options)
    # As many pages as a response is held for, whatever its alignment.
    reader.switches.hold_bytes_max = (card.configuration["split_pages"] - 1) * PAGE_BYTES
    await card.start()
    card.stall(chance)
    return card, vector


@cocotb.test()
@cocotb.parametrize(number=list(range(len(VECTORS))))
async def accesses(dut, number):
    """Reads, writes and atomics, cold and warm, in hold mode and not."""
    card, vector = await prepared(dut, number, [0.0, 0.3, 0.1][number % 3])
    for _ in range(2):
        await card.run(card.accesses(requests_of(vector, card.random)))


@cocotb.test()
async def accesses_under_a_root_complex(dut):
    """The same with tables and data behind a root complex and its link, and registers behind a BAR."""
    card, vector = await prepared(dut, 0, 0.1, has_root=True)
    await card.run(card.accesses(requests_of(vector, card.random)))
    version = await card.read("VERSION")
    data = await card.bridge.registers.read(card.registers.offset("VERSION"), 4)
    assert int.from_bytes(data, "little") == version, f"version {data.hex()} through the BAR, {version:#x} without it"


@cocotb.test()
async def registers_of_the_user(dut):
    """The user's registers, by bytes; the engine's stay as they are."""
    card, _ = await prepared(dut, 1, 0.3)
    rng, content = card.random, bytearray(USER_BASE)
    card.user.write(0, bytes(content))
    version = await card.read("VERSION")
    for _ in range(60):
        length = rng.randint(1, 9)
        address = rng.randrange(USER_BASE - length)
        content[address : address + length] = rng.randbytes(length)
        await card.lite.write(USER_BASE + address, content[address : address + length])
        answer = await card.lite.read(USER_BASE + address, length)
        assert answer.data == content[address : address + length], f"register {address:#x} of the user's"
    assert card.user.read(0, USER_BASE) == content, "registers of the user's that nobody wrote have changed"
    assert await card.read("VERSION") == version
