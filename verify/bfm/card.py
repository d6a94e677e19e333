"""The generated card, engine, data mover and shell in one, in cocotb with a third party's bus models at every port."""

import json
import logging
import os
import random
from pathlib import Path

import cocotb
from buses import PAGE_BYTES, HostMemory, axi_channels, stall, start_clocks
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiLiteRam,
    AxiSlave,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)
from engine import Layouts, RegisterAccess, Registers
from mover import READS, REMOTE_ATOMIC, WRITES, Job, Moves, carry_out
from shell import Bridge

# The user's own registers begin behind the engine's, as many bytes.
USER_BASE = 1 << 14
REGISTER_BYTES = 2 * USER_BASE
# Longest wait for the link.
PATIENCE_NS = 400_000


class TablesAndData(HostMemory):
    """Host memory with a witness's tables. The engine may look where nothing is, and gets an error; a write there is noted."""

    def __init__(self, beat_bytes, tables):
        super().__init__(beat_bytes)
        for first, end in tables.runs:
            for page in range(first // PAGE_BYTES, end // PAGE_BYTES):
                self.pages[page] = bytearray(tables.pages.get(page, bytes(PAGE_BYTES)))
        self.table_pages = set(self.pages)

    async def read(self, address, length):
        if address // PAGE_BYTES not in self.pages:
            raise ValueError(f"nothing is behind {address:#x}")
        return await super().read(address, length)


class Card(RegisterAccess, Moves):
    """The card with clocks, resets, host memory and the requester's streams."""

    def __init__(self, dut, seed, periods_ps, reader, has_root=False):
        out = Path(os.environ["KEYWALK_CARD"])
        self.dut, self.reader, self.random = dut, reader, random.Random(seed)
        for name in ("cocotb.keywalk_card", "cocotb.pcie"):
            logging.getLogger(name).setLevel(logging.ERROR)
        manifest = json.loads((out / "manifest.json").read_text())
        self.configuration = manifest["configuration"]
        self.registers = Registers((Path(os.environ["KEYWALK_RTL"]) / "keywalk_regs.h").read_text())
        dut.engine_aresetn.value = 1
        dut.pcie_aresetn.value = 0
        dut.usr_irq_ack.value = 0
        self.clocks = [
            Clock(clock, period, unit="ps") for clock, period in zip((dut.engine_aclk, dut.pcie_aclk), periods_ps)
        ]
        reset = {"reset_active_level": False}
        engine, pcie = (dut.engine_aclk, dut.keywalk_aresetn), (dut.pcie_aclk, dut.pcie_aresetn)
        self.beat_bytes = len(dut.m_axi_host_wstrb)
        self.memory = TablesAndData(self.beat_bytes, reader.memory)
        self.bridge = Bridge(self.memory, REGISTER_BYTES) if has_root else None
        target = self.bridge or self.memory
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi_host"), *pcie, target=target, **reset)
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil_host"), *pcie, **reset)
        user = AxiLiteBus.from_prefix(dut, "m_axil_user")
        self.user = AxiLiteRam(user, *engine, size=USER_BASE, **reset)
        streams = {stream["name"]: stream for stream in manifest["streams"] + manifest["mover_streams"]}
        streams = {name: stream for name, stream in streams.items() if hasattr(dut, f"{name}_tvalid")}
        self.layouts = Layouts(streams.values())
        self.streams = {}
        for name, stream in streams.items():
            kind = AxiStreamSource if stream["direction"] == "input" else AxiStreamSink
            self.streams[name] = kind(AxiStreamBus.from_prefix(dut, name), *engine, byte_lanes=1, **reset)
        self.streams["s_axis_wr"] = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_wr"), *engine, **reset)
        self.streams["m_axis_rd"] = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_rd"), *engine, **reset)
        self.next_tag = 0

    def stall(self, chance):
        buses = axi_channels(self.slave) + axi_channels(self.lite) + axi_channels(self.user)
        stall([*self.streams.values(), *buses], self.random, chance)

    async def start(self):
        """The IP's reset ends; the tables are made known."""
        await start_clocks(self.clocks)
        # The models leave data unknown that is not valid. A beat without bytes carries any data on.
        self.dut.m_axi_host_rdata.value = self.random.getrandbits(8 * self.beat_bytes)
        await ClockCycles(self.dut.pcie_aclk, 10)
        self.dut.pcie_aresetn.value = 1

        async def up():
            while self.dut.keywalk_aresetn.value != 1:
                await RisingEdge(self.dut.pcie_aclk)

        await with_timeout(cocotb.start_soon(up()), PATIENCE_NS, "ns")
        # What the test before has left, before the reset reached the engine.
        for stream in self.streams.values():
            stream.clear()
        if self.bridge:
            await self.bridge.start(self.lite)
        await self.wait_until_ready()
        await self.set_tables(self.reader)

    def accesses(self, requests):
        """Requests that do not race with each other, and what the witness says of them, with data pages behind them."""
        used, accesses = {}, []
        for request in requests:
            beats, _ = self.reader.beats(request)
            segments = [(pa, length) for *_, pa, length in beats if length]
            status = beats[-1][0]
            kind = next((kind for kind in (READS, WRITES) if request.operation in kind), request.operation)
            words = {word for at, length in segments for word in range(at // 8, (at + length - 1) // 8 + 1)}
            pages = {word * 8 // PAGE_BYTES for word in words}
            if any(used.get(word, kind) != kind for word in words) or pages & self.memory.table_pages:
                continue
            used.update(dict.fromkeys(words, kind))
            for page in pages - self.memory.pages.keys():
                self.memory.add(page * PAGE_BYTES, 1, self.random)
            rng = self.random
            job = Job(request.operation, segments, status=status)
            if kind == WRITES:
                job = job.with_changes(payload=rng.randbytes(request.length))
            elif kind == REMOTE_ATOMIC:
                job = job.with_changes(is_swap=rng.random() < 0.5, value=rng.getrandbits(64), compare=rng.getrandbits(1))
            accesses.append((request, job))
        return accesses

    def offer(self, request, job):
        """Puts a request and everything that belongs to it into the queues of its ports; gives tag and function."""
        tag = self.next_tag & 0xFFFF
        self.next_tag += 1
        fields = {name: getattr(request, name) for name in ("operation", "key", "pd", "qpn", "va", "length")}
        self.put("s_axis_req", tag=tag, function=0, **fields)
        self.offer_data(job)
        return tag, 0

    async def run(self, accesses):
        """Offers accesses, and compares outcomes, packets and every byte of host memory."""
        self.reference = self.memory.copy()
        offered = [(*self.offer(request, job), job) for request, job in accesses]
        await self.check([(tag, function, job, *carry_out(job, self.reference)) for tag, function, job in offered])
