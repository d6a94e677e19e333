"""The generated shell in cocotb between a third party's bus models, and, in place of a card's PCIe IP, a stand-in for the IP's
bridge under that third party's root complex."""

import logging
import random

import cocotb
from buses import HostMemory, axi_channels, plain_axi_bus, stall, start_clocks
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiLiteSlave, AxiMaster, AxiResp, AxiSlave, Region
from cocotbext.pcie.core import Device, MemoryEndpoint, RootComplex

# Longest wait for one answer, and for the link.
PATIENCE_NS = 400_000
REGISTER_BYTES = 1 << 14
# Where host memory is for the root complex: above what it keeps for BARs and messages.
HOST_BEGIN, HOST_END = 1 << 32, 1 << 63


class RegisterFile:
    """What stands for the engine's registers: bytes, and a last part that refuses."""

    refused_from = REGISTER_BYTES - 64

    def __init__(self, rng):
        self.content = bytearray(rng.randbytes(REGISTER_BYTES))

    async def read(self, address, length):
        if address >= self.refused_from:
            raise ValueError(f"register {address:#x} refuses")
        return bytes(self.content[address : address + length])

    async def write(self, address, data):
        if address >= self.refused_from:
            raise ValueError(f"register {address:#x} refuses")
        self.content[address : address + len(data)] = data


class Shell:
    """The shell with clocks, resets, the engine's buses, and what stands at the PCIe IP's."""

    def __init__(self, dut, seed, periods_ps, has_root=False, has_master=True):
        self.dut = dut
        self.random = random.Random(seed)
        reset = {"reset_active_level": False}
        # The models report every error of the memory, every access that a reset drops, and every place on the link where
        # enumeration finds nothing: all are wanted here.
        for name in ("cocotb.keywalk_shell", "cocotb.pcie"):
            logging.getLogger(name).setLevel(logging.ERROR)
        dut.engine_aresetn.value = 1
        dut.pcie_aresetn.value = 0
        dut.interrupt_level.value = 0
        dut.usr_irq_ack.value = 0
        self.clocks = [
            Clock(clock, period, unit="ps") for clock, period in zip((dut.engine_aclk, dut.pcie_aclk), periods_ps)
        ]
        engine, pcie = (dut.engine_aclk, dut.keywalk_aresetn), (dut.pcie_aclk, dut.pcie_aresetn)
        self.engine_bytes, self.pcie_bytes = len(dut.s_axi_mem_wstrb), len(dut.m_axi_host_wstrb)
        self.memory = HostMemory(self.pcie_bytes)
        self.registers = RegisterFile(self.random)
        self.bridge = Bridge(self.memory, REGISTER_BYTES) if has_root else None
        target = self.bridge or self.memory
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi_host"), *pcie, target=target, **reset)
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil_host"), *pcie, **reset)
        self.register_slave = AxiLiteSlave(
            AxiLiteBus.from_prefix(dut, "m_axil_reg"), *engine, target=self.registers, **reset
        )
        self.interfaces = [self.slave, self.lite, self.register_slave]
        # Without it a test drives the channels itself.
        if has_master:
            self.master = AxiMaster(plain_axi_bus(dut, "s_axi_mem"), *engine, **reset)
            self.interfaces.append(self.master)

    def stall(self, chance):
        stall([channel for bus in self.interfaces for channel in axi_channels(bus)], self.random, chance)

    async def start(self):
        """The IP's reset ends; nobody resets the engine's side."""
        await start_clocks(self.clocks)
        await ClockCycles(self.dut.pcie_aclk, 10)
        self.dut.pcie_aresetn.value = 1
        await self.wait_for_link()

    async def wait_for_link(self):
        """Until the engine may work and the PCIe side knows it."""

        async def both():
            while not (self.dut.keywalk_aresetn.value == 1 and self.dut.link_up.value == 1):
                await RisingEdge(self.dut.pcie_aclk)

        await with_timeout(cocotb.start_soon(both()), PATIENCE_NS, "ns")

    async def reset_engine(self, for_ps):
        """A reset of the engine's side, of no clock."""
        self.dut.engine_aresetn.value = 0
        await Timer(for_ps, "ps")
        self.dut.engine_aresetn.value = 1

    async def reset_pcie(self, cycles):
        await RisingEdge(self.dut.pcie_aclk)
        self.dut.pcie_aresetn.value = 0
        await ClockCycles(self.dut.pcie_aclk, cycles)
        self.dut.pcie_aresetn.value = 1

    async def read(self, address, length):
        """What a read brought, or `None` where a reset took it."""
        return await with_timeout(cocotb.start_soon(self.master.read(address, length)), PATIENCE_NS, "ns")

    async def write(self, address, data):
        """How a write was answered, or `None` where a reset took it."""
        return await with_timeout(cocotb.start_soon(self.master.write(address, data)), PATIENCE_NS, "ns")

    async def read_register(self, address, length):
        return await with_timeout(cocotb.start_soon(self.lite.read(address, length)), PATIENCE_NS, "ns")

    async def write_register(self, address, data):
        return await with_timeout(cocotb.start_soon(self.lite.write(address, data)), PATIENCE_NS, "ns")


def is_ok(answer):
    return answer.resp == AxiResp.OKAY


class HostRegion(Region):
    """Host memory as the root complex reaches it, by bus address."""

    def __init__(self, memory):
        super().__init__(HOST_END - HOST_BEGIN)
        self.memory = memory

    async def read(self, address, length, **_):
        return await self.memory.read(HOST_BEGIN + address, length)

    async def write(self, address, data, **_):
        await self.memory.write(HOST_BEGIN + address, bytes(data))


class Bridge:
    """Stand-in for the bridge of a card's PCIe IP: what the card reads and writes becomes requests of an endpoint, and what
    the host does to its BAR becomes register accesses. Above it are a root port, enumeration, and host memory.

    It is the target of the card's AXI4 slave, and an AXI4-Lite master for whoever takes it for one.
    """

    def __init__(self, memory, register_bytes):
        self.root = RootComplex()
        self.endpoint = MemoryEndpoint()
        self.endpoint.add_mem_region(register_bytes, read=self._read_register, write=self._write_register)
        self.root.make_port().connect(Device(self.endpoint))
        # Completions of a read come in as many parts as a root complex may make of them.
        self.root.split_on_all_rcb = True
        self.root.mem_address_space.register_region(HostRegion(memory), HOST_BEGIN, HOST_END - HOST_BEGIN)

    async def start(self, lite):
        """Enumerates, and lets the card be master. Register accesses go to that AXI4-Lite master."""
        self.lite = lite
        await self.root.enumerate()
        device = self.root.find_device(self.endpoint.pcie_id)
        await device.enable_device()
        await device.set_master()
        self.registers = device.bar_window[0]

    async def read(self, address, length):
        return await self.endpoint.mem_read(address, length)

    async def write(self, address, data):
        await self.endpoint.mem_write(address, data)

    async def _read_register(self, address, length):
        answer = await self.lite.read(address, length)
        assert is_ok(answer), f"register {address:#x}: {answer.resp!s}"
        return answer.data

    async def _write_register(self, address, data):
        answer = await self.lite.write(address, data)
        assert is_ok(answer), f"register {address:#x}: {answer.resp!s}"
