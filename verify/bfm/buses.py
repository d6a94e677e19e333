"""What all benches share: stalls, host memory as a target of the bus models, and buses without signals that have defaults."""

import random

import cocotb
from cocotb.triggers import Timer
from cocotbext.axi import AxiBus, AxiReadBus, AxiWriteBus
from cocotbext.axi.axi_channels import AxiARBus, AxiAWBus, AxiBBus, AxiRBus, AxiWBus

PAGE_BYTES = 4096


async def start_clocks(clocks):
    """Clocks begin when the models have driven every input: what is unknown before would stay where no reset reaches."""
    await Timer(1, "ns")
    for clock in clocks:
        cocotb.start_soon(clock.start())


def pauses(rng, chance):
    """A pause of the bus in each cycle with that chance."""
    while True:
        yield rng.random() < chance


def stall(channels, rng, chance):
    """Pauses on every one of these channels; none with chance 0."""
    for channel in channels:
        if chance:
            channel.set_pause_generator(pauses(random.Random(rng.random()), chance))
        else:
            channel.clear_pause_generator()
            channel.pause = False


def axi_channels(interface):
    """The five channels of a master or slave of AXI4 or AXI4-Lite."""
    write, read = interface.write_if, interface.read_if
    return [write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel]


class HostMemory:
    """Pages of known bytes. Anything else is nowhere: what goes there is noted and answered with an error, and so is what
    touches a beat that is broken."""

    def __init__(self, beat_bytes):
        self.beat_bytes = beat_bytes
        self.pages = {}
        self.broken = set()
        self.strays = []

    def add(self, address, count, rng):
        """Backs so many pages from an address on."""
        for page in range(address // PAGE_BYTES, address // PAGE_BYTES + count):
            self.pages[page] = bytearray(rng.randbytes(PAGE_BYTES))

    def copy(self):
        """The bytes as they are, with the same broken beats."""
        other = HostMemory(self.beat_bytes)
        other.pages = {page: bytearray(content) for page, content in self.pages.items()}
        other.broken = self.broken
        return other

    def is_broken(self, address, length):
        first, last = address // self.beat_bytes, (address + length - 1) // self.beat_bytes
        return any(beat in self.broken for beat in range(first, last + 1))

    def peek(self, address, length):
        """Bytes, across pages."""
        taken = bytearray()
        while len(taken) < length:
            page, offset = divmod(address + len(taken), PAGE_BYTES)
            taken += self.pages[page][offset : offset + length - len(taken)]
        return bytes(taken)

    def poke(self, address, data):
        """Writes bytes, across pages."""
        done = 0
        while done < len(data):
            page, offset = divmod(address + done, PAGE_BYTES)
            part = data[done : done + PAGE_BYTES - offset]
            self.pages[page][offset : offset + len(part)] = part
            done += len(part)

    def check(self, address, length):
        if address // PAGE_BYTES not in self.pages:
            self.strays.append(f"{address:#x}, {length} bytes")
            raise ValueError(f"nothing is behind {address:#x}")
        if self.is_broken(address, length):
            raise ValueError(f"{address:#x} is broken")

    async def read(self, address, length):
        self.check(address, length)
        return self.peek(address, length)

    async def write(self, address, data):
        self.check(address, len(data))
        self.poke(address, data)

    def compare(self, expected):
        """Every byte of every page, and that nothing went elsewhere."""
        assert not self.strays, f"accesses where nothing is: {self.strays}"
        assert self.pages.keys() == expected.pages.keys()
        for page, content in self.pages.items():
            wanted = expected.pages[page]
            if content != wanted:
                offset = next(n for n in range(PAGE_BYTES) if content[n] != wanted[n])
                found = f"{content[offset]:#04x}, expected {wanted[offset]:#04x}"
                raise AssertionError(f"byte {page * PAGE_BYTES + offset:#x} is {found}")


class _PlainAW(AxiAWBus):
    _signals = [name for name in AxiAWBus._signals if name not in ("awsize", "awburst")]


class _PlainAR(AxiARBus):
    _signals = [name for name in AxiARBus._signals if name not in ("arsize", "arburst")]


def plain_axi_bus(dut, prefix):
    """An AXI4 slave without AxSIZE and AxBURST, which have their defaults: whole beats, INCR."""
    write = AxiWriteBus(*(bus.from_prefix(dut, prefix) for bus in (_PlainAW, AxiWBus, AxiBBus)))
    read = AxiReadBus(*(bus.from_prefix(dut, prefix) for bus in (_PlainAR, AxiRBus)))
    return AxiBus(write, read)
