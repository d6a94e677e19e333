"""The shell's faces exercised by cocotbext-axi's models, in two clocks: AXI4 in and out, AXI4-Lite in and out, every byte compared."""

import os

import cocotb
from buses import PAGE_BYTES, plain_axi_bus, stall
from cocotb.triggers import Timer, with_timeout
from cocotbext.axi import AxiBurstType
from cocotbext.axi.axi_channels import AxiAWSource, AxiBSink, AxiWSource
from shell import PATIENCE_NS, REGISTER_BYTES, RegisterFile, Shell, is_ok

SEED = int(os.environ.get("KEYWALK_SEED", "1"))
# Periods of the engine's and the PCIe clock in picoseconds: faster, slower, far apart.
CLOCKS = [(3200, 4000), (4000, 3200), (1400, 6200)]
MEMORY = 0x12_3456_7000
# Each worker has a page of its own; pages that nobody is to touch are around them.
WORKERS = 6
BROKEN_PAGE = MEMORY + (WORKERS + 1) * PAGE_BYTES


async def prepared(dut, seed, clocks, chance, **options):
    shell = Shell(dut, seed, clocks, **options)
    shell.memory.add(MEMORY, WORKERS + 3, shell.random)
    first, last = (at // shell.memory.beat_bytes for at in (BROKEN_PAGE, BROKEN_PAGE + PAGE_BYTES))
    shell.memory.broken = {beat for beat in range(first, last) if shell.random.random() < 0.2}
    await shell.start()
    shell.stall(chance)
    return shell, shell.memory.copy()


def part_of_page(rng):
    """First byte and length of any part of a page."""
    offset = rng.randrange(PAGE_BYTES)
    longest = PAGE_BYTES - offset
    return offset, min(longest, rng.choice([1, 2, 3, 64, rng.randint(1, 200), rng.randint(1, longest), longest]))


async def memory_worker(shell, expected, page, rounds):
    """Writes and reads of one page, one after the other."""
    rng = shell.random
    for _ in range(rounds):
        offset, length = part_of_page(rng)
        if rng.random() < 0.5:
            data = rng.randbytes(length)
            answer = await shell.write(page + offset, data)
            expected.poke(page + offset, data)
            assert is_ok(answer), f"{length} bytes to {page + offset:#x}: {answer.resp!s}"
        else:
            answer = await shell.read(page + offset, length)
            assert is_ok(answer), f"{length} bytes from {page + offset:#x}: {answer.resp!s}"
            assert answer.data == expected.peek(page + offset, length), f"{length} bytes from {page + offset:#x}"


async def broken_worker(shell, expected, rounds):
    """A page of which some beats answer with an error: it comes back, and only to those who asked there."""
    rng, size = shell.random, expected.beat_bytes
    for _ in range(rounds):
        offset, length = part_of_page(rng)
        at, data = BROKEN_PAGE + offset, rng.randbytes(length)
        for start in range(at // size * size, at + length, size):
            first, end = max(start, at), min(start + size, at + length)
            if not expected.is_broken(start, 1):
                expected.poke(first, data[first - at : end - at])
        answer = await shell.write(at, data)
        assert is_ok(answer) != expected.is_broken(at, length), f"{length} bytes to {at:#x}: {answer.resp!s}"
        # Whole beats of both sides are read.
        widest = max(size, shell.engine_bytes)
        cover = at // widest * widest
        is_hit = expected.is_broken(cover, -(-(at + length - cover) // widest) * widest)
        answer = await shell.read(at, length)
        assert is_ok(answer) != is_hit, f"{length} bytes from {at:#x}: {answer.resp!s}"
        assert is_hit or answer.data == expected.peek(at, length), f"{length} bytes from {at:#x}"


async def register_worker(shell, first, bytes_, rounds):
    """Accesses of one to four bytes to registers that nobody else touches."""
    rng, content = shell.random, bytearray(shell.registers.content)
    for _ in range(rounds):
        offset = rng.randrange(4)
        length = rng.randint(1, 4 - offset)
        address = first + 4 * rng.randrange(bytes_ // 4) + offset
        if rng.random() < 0.5:
            data = rng.randbytes(length)
            answer = await shell.write_register(address, data)
            content[address : address + length] = data
        else:
            answer = await shell.read_register(address, length)
            assert answer.data == content[address : address + length], f"register {address:#x}: {answer.data.hex()}"
        assert is_ok(answer), f"register {address:#x}: {answer.resp!s}"
        refused = RegisterFile.refused_from + 4 * rng.randrange(16)
        answer = await shell.read_register(refused, 4)
        assert not is_ok(answer), f"register {refused:#x} answered well"
        answer = await shell.write_register(refused, b"\xff" * 4)
        assert not is_ok(answer), f"register {refused:#x} was written well"
    return first, content[first : first + bytes_]


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS, chance=[0.0, 0.4])
async def traffic(dut, clocks, chance):
    """Reads and writes of host memory, unaligned and of any length, errors among them, while the host accesses registers."""
    shell, expected = await prepared(dut, SEED, clocks, chance)
    pages = [MEMORY + (1 + n) * PAGE_BYTES for n in range(WORKERS)]
    workers = [cocotb.start_soon(memory_worker(shell, expected, page, 16)) for page in pages]
    workers.append(cocotb.start_soon(broken_worker(shell, expected, 16)))
    registers = [cocotb.start_soon(register_worker(shell, 512 * n, 512, 8)) for n in range(2)]
    for worker in workers:
        await worker
    before = bytearray(shell.registers.content)
    for worker in registers:
        first, content = await worker
        before[first : first + len(content)] = content
    assert shell.registers.content == before, "registers that nobody wrote have changed"
    shell.memory.compare(expected)


@cocotb.test()
async def every_alignment_and_length(dut):
    """Every first byte of a beat with lengths around whole beats, written and read."""
    shell, expected = await prepared(dut, SEED + 1, CLOCKS[0], 0.0)
    size = max(shell.engine_bytes, shell.pcie_bytes)
    lengths = sorted({1, 2, size // 2 - 1, size // 2, size // 2 + 1, size - 1, size, size + 1, 3 * size + 5})
    for first in range(size):
        page = MEMORY + (1 + first % WORKERS) * PAGE_BYTES
        done = []
        for number, length in enumerate(lengths):
            at = page + number * 6 * size + first
            data = shell.random.randbytes(length)
            expected.poke(at, data)
            done.append((cocotb.start_soon(shell.write(at, data)), at, length))
        for write, at, length in done:
            assert is_ok(await write), f"{length} bytes to {at:#x}"
        for read, at, length in [(cocotb.start_soon(shell.read(at, length)), at, length) for _, at, length in done]:
            answer = await read
            assert is_ok(answer) and answer.data == expected.peek(at, length), f"{length} bytes from {at:#x}"
    shell.memory.compare(expected)


@cocotb.test()
@cocotb.parametrize(chance=[0.0, 0.4])
async def byte_enables(dut, chance):
    """Writes with any bytes enabled, none at all among them; each changes those bytes and no others."""
    shell, expected = await prepared(dut, SEED + 2, CLOCKS[1], chance, has_master=False)
    rng, bus = shell.random, plain_axi_bus(dut, "s_axi_mem").write
    clock = (dut.engine_aclk, dut.keywalk_aresetn)
    addresses, data, answers = (
        kind(channel, *clock, reset_active_level=False)
        for kind, channel in ((AxiAWSource, bus.aw), (AxiWSource, bus.w), (AxiBSink, bus.b))
    )
    stall([addresses, data, answers], rng, chance)
    size, count = shell.engine_bytes, 60
    for number in range(count):
        beats = rng.randint(1, 8)
        at = MEMORY + PAGE_BYTES + rng.randrange((WORKERS * PAGE_BYTES) // size) * size
        beats = min(beats, (PAGE_BYTES - at % PAGE_BYTES) // size)
        await addresses.send(
            addresses._transaction_obj(
                awid=number, awaddr=at, awlen=beats - 1, awsize=size.bit_length() - 1, awburst=AxiBurstType.INCR
            )
        )
        for beat in range(beats):
            word = rng.randbytes(size)
            enables = rng.choice([0, (1 << size) - 1, rng.getrandbits(size), 1 << rng.randrange(size)])
            for byte in range(size):
                if enables >> byte & 1:
                    expected.poke(at + beat * size + byte, word[byte : byte + 1])
            await data.send(
                data._transaction_obj(
                    wdata=int.from_bytes(word, "little"), wstrb=enables, wlast=int(beat + 1 == beats)
                )
            )
    for number in range(count):
        answer = await with_timeout(answers.recv(), PATIENCE_NS, "ns")
        assert (int(answer.bid), int(answer.bresp)) == (number, 0), f"answer {number}: {answer}"
    shell.memory.compare(expected)


async def until_taken(shell, page, shadow):
    """Writes and reads of one page until a reset takes one: gives the bytes that may be old or new."""
    while True:
        offset, length = part_of_page(shell.random)
        data = shell.random.randbytes(length)
        answer = await shell.write(page + offset, data)
        if answer is None:
            return offset, data
        assert is_ok(answer)
        shadow[offset : offset + length] = data
        answer = await shell.read(page + offset, length)
        if answer is None:
            return 0, b""
        assert is_ok(answer) and answer.data == data, f"{length} bytes from {page + offset:#x}"


async def poll_registers(shell):
    """The host reads a register over and over: what it reads is right, or refused, or taken by a reset."""
    while True:
        answer = await shell.read_register(64, 4)
        if answer is not None and is_ok(answer):
            assert answer.data == shell.registers.content[64:68], f"register: {answer.data.hex()}"


@cocotb.test()
@cocotb.parametrize(clocks=CLOCKS)
async def resets(dut, clocks):
    """Resets of either side or of both in traffic: afterwards all works, and only the writes under way may be half done."""
    shell, expected = await prepared(dut, SEED + 3, clocks, 0.2)
    rng = shell.random
    poll = cocotb.start_soon(poll_registers(shell))
    pages = [MEMORY + (1 + n) * PAGE_BYTES for n in range(WORKERS)]
    for turn in range(9):
        shadows = [bytearray(expected.peek(page, PAGE_BYTES)) for page in pages]
        workers = [cocotb.start_soon(until_taken(shell, page, shadow)) for page, shadow in zip(pages, shadows)]
        await Timer(rng.randint(1, 3000), "ns")
        if turn % 3 != 0:
            cocotb.start_soon(shell.reset_engine(rng.choice([100, 9000, 200_000])))
        if turn % 3 != 1:
            await shell.reset_pcie(rng.choice([1, 3, 40]))
        taken = [await worker for worker in workers]
        await shell.wait_for_link()
        # What was under way ends before the link is up again, at the latest some cycles later.
        await Timer(2, "us")
        for page, shadow, (offset, data) in zip(pages, shadows, taken):
            found = shell.memory.peek(page, PAGE_BYTES)
            for position, (byte, wanted) in enumerate(zip(found, shadow)):
                may_be = data[position - offset] if offset <= position < offset + len(data) else wanted
                assert byte in (wanted, may_be), f"byte {page + position:#x} after reset {turn}: {byte:#04x}"
            expected.poke(page, found)
    poll.cancel()
    await memory_worker(shell, expected, pages[0], 10)
    shell.memory.compare(expected)


@cocotb.test()
async def registers_while_the_link_is_down(dut):
    """The host's accesses are refused while the engine is in reset, and work again behind it."""
    shell, _ = await prepared(dut, SEED + 4, CLOCKS[0], 0.2)
    dut.engine_aresetn.value = 0
    await Timer(1, "us")
    for address in range(0, REGISTER_BYTES, 1024):
        assert not is_ok(await shell.read_register(address, 4)), f"register {address:#x} answered in reset"
        assert not is_ok(await shell.write_register(address, bytes(4))), f"register {address:#x} was written in reset"
    dut.engine_aresetn.value = 1
    await shell.wait_for_link()
    await register_worker(shell, 0, 512, 8)


@cocotb.test()
@cocotb.parametrize(chance=[0.0, 0.4])
async def under_a_root_complex(dut, chance):
    """The same through a root complex: enumeration, the host's accesses through a BAR, the card's as requests over the link."""
    shell, expected = await prepared(dut, SEED + 5, CLOCKS[0], 0.0, has_root=True)
    rng = shell.random
    # Writes are posted: the root complex tells nobody of one that goes wrong.
    shell.memory.broken = set()
    await shell.bridge.start(shell.lite)
    shell.stall(chance)
    pages = [MEMORY + (1 + n) * PAGE_BYTES for n in range(WORKERS)]
    workers = [cocotb.start_soon(memory_worker(shell, expected, page, 6)) for page in pages]
    content, registers = bytearray(shell.registers.content), shell.bridge.registers
    for _ in range(20):
        address = 4 * rng.randrange(RegisterFile.refused_from // 4)
        if rng.random() < 0.5:
            content[address : address + 4] = rng.randbytes(4)
            await registers.write(address, content[address : address + 4])
        # A read comes behind the writes before it.
        data = await with_timeout(cocotb.start_soon(registers.read(address, 4)), PATIENCE_NS, "ns")
        assert data == content[address : address + 4], f"register {address:#x}: {data.hex()}"
    for worker in workers:
        await worker
    # The last writes may still be on the link.
    await Timer(20, "us")
    assert shell.registers.content == content, "registers that nobody wrote have changed"
    shell.memory.compare(expected)
    nowhere = MEMORY + (1 << 30)
    assert not is_ok(await shell.read(nowhere, 8)), "a read of nothing went well"
