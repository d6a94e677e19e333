"""The generated engine in cocotb, with a third party's bus models (cocotbext-axi) at every port.

The only things here that know the engine are what the generator wrote beside the Verilog: the fields of the streams
(manifest.json) and the registers (keywalk_regs.h).
"""

import json
import os
import random
import re
import sys
from pathlib import Path

import cocotb
from buses import axi_channels, stall
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiReadBus,
    AxiSlaveRead,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "witness"))

import reading  # noqa: E402  (found by the path above)
import witness  # noqa: E402

LINE_BYTES = 64
# Longest wait for one answer: far beyond the longest walk with every stall.
PATIENCE_NS = 200_000


class Layouts:
    """The streams' fields, from the manifest."""

    def __init__(self, streams):
        self.fields = {
            stream["name"]: [(field["name"], field["low"], field["width_bits"]) for field in stream["fields"]]
            for stream in streams
        }

    def width(self, stream, wanted):
        return next(width for name, _, width in self.fields[stream] if name == wanted)

    def pack(self, stream, values):
        word, known = 0, set()
        for name, low, width in self.fields[stream]:
            known.add(name)
            value = values.get(name, 0)
            assert 0 <= value < 1 << width, f"{stream}.{name} has {width} bits and cannot hold {value:#x}"
            word |= value << low
        assert set(values) <= known, f"{stream} has no field {set(values) - known}"
        return word

    def unpack(self, stream, word):
        return {name: (word >> low) & ((1 << width) - 1) for name, low, width in self.fields[stream]}


class Registers:
    """Offsets and fields of the registers, from the C header."""

    def __init__(self, header):
        self.values = {
            name: int(value, 0) for name, value in re.findall(r"#define KEYWALK_(\w+) (0x[0-9a-f]+|\d+)u", header)
        }

    def offset(self, register):
        return self.values[f"REGISTER_{register}_OFFSET"]

    def word(self, register, **fields):
        word = 0
        for name, value in fields.items():
            mask = self.values[f"REGISTER_{register}_{name.upper()}_MASK"]
            shifted = value << self.values[f"REGISTER_{register}_{name.upper()}_SHIFT"]
            assert shifted & ~mask == 0, f"{register}.{name} cannot hold {value:#x}"
            word |= shifted
        return word

    def get(self, register, field, word):
        mask = self.values[f"REGISTER_{register}_{field}_MASK"]
        return (word & mask) >> self.values[f"REGISTER_{register}_{field}_SHIFT"]


class TableMemory:
    """The witness's memory as a target of the AXI model: bytes where something is backed, an error elsewhere."""

    def __init__(self):
        self.memory = reading.Memory()
        self.reads = 0

    async def read(self, address, length):
        self.reads += 1
        if not self.memory.is_backed(address):
            raise ValueError(f"{address:#x} is not backed")
        page = self.memory.pages.get(address >> 12, bytes(4096))
        offset = address & 4095
        return bytes(page[offset : offset + length])


class RegisterAccess:
    """What is done through the registers, whatever is in front of them: needs `lite` and `registers`."""

    async def read(self, register):
        return await self.read_at(self.registers.offset(register))

    async def read_at(self, offset):
        return await with_timeout(self.lite.read_dword(offset), PATIENCE_NS, "ns")

    async def write(self, register, word):
        await with_timeout(self.lite.write_dword(self.registers.offset(register), word), PATIENCE_NS, "ns")

    async def counter(self, name):
        offset = self.registers.values[f"COUNTER_{name}_OFFSET"]
        low = await self.read_at(offset)
        return low | await self.read_at(offset + 4) << 32

    async def wait_until_ready(self):
        while not self.registers.get("STATUS", "READY", await self.read("STATUS")):
            pass

    async def set_tables(self, reader):
        """Tells table set 0 of the tables that a reader of the witness has, and the switches."""
        word = self.registers.word
        for code, table in reader.set.tables.items():
            await self.write("TABLE_SELECT", word("TABLE_SELECT", table=code, table_set=0))
            geometry = word(
                "TABLE_GEOMETRY",
                hop_num=table.hop,
                ba_pg_sz=table.ba_pg_sz,
                buf_pg_sz=table.buf_pg_sz,
                entry_bytes_log2=table.entry_bytes.bit_length() - 1,
                bt_num=table.bt_num,
            )
            await self.write("TABLE_GEOMETRY", geometry)
            await self.write("TABLE_OBJECT_COUNT", table.object_count)
            await self.write("TABLE_COMMIT", 1)
            for slot, base in table.bt0.items():
                await self.write("BT0_LOW", base & 0xFFFF_FFFF)
                await self.write("BT0_HIGH", base >> 32)
                await self.write("BT0_COMMIT", word("BT0_COMMIT", slot=slot, valid=1))
        key_space = word(
            "KEY_SPACE",
            num_mpts_log2=reader.set.num_mpts.bit_length() - 1,
            page_shift_base=reader.set.page_shift_base - 12,
            table_set=0,
        )
        await self.write("KEY_SPACE", key_space)
        switches = reader.switches
        names = ["atomic_shape_check", "zero_entry_literal", "index_check", "alignment_check", "hold_mode"]
        control = {name: int(getattr(switches, name)) for name in names}
        await self.write("CONTROL", word("CONTROL", **control))
        await self.write("MERGE_BYTES_MAX", min(switches.merge_bytes_max, 0xFFFF_FFFF))


class Engine(RegisterAccess):
    """The engine and a bus model at each of its ports."""

    def __init__(self, dut, seed):
        out = Path(os.environ["KEYWALK_RTL"])
        self.dut = dut
        self.random = random.Random(seed)
        self.manifest = json.loads((out / "manifest.json").read_text())
        self.layouts = Layouts(self.manifest["streams"])
        self.registers = Registers((out / "keywalk_regs.h").read_text())
        clock = (dut.aclk, dut.aresetn)
        reset = {"reset_active_level": False}
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), *clock, **reset)
        self.memory = TableMemory()
        self.table_slave = AxiSlaveRead(
            AxiReadBus.from_prefix(dut, "m_axi_tbl"), *clock, target=self.memory, **reset
        )
        self.streams = {}
        for stream in self.manifest["streams"]:
            kind = AxiStreamSource if stream["direction"] == "input" else AxiStreamSink
            bus = AxiStreamBus.from_prefix(dut, stream["name"])
            self.streams[stream["name"]] = kind(bus, *clock, byte_lanes=1, **reset)

    def stall(self, chance):
        """Pauses on every channel of every port; none with chance 0."""
        channels = [*self.streams.values(), self.table_slave.ar_channel, self.table_slave.r_channel]
        stall(channels + axi_channels(self.lite), self.random, chance)

    async def start(self):
        """Clock, reset, and the wait until every RAM is scrubbed."""
        cocotb.start_soon(Clock(self.dut.aclk, 4, unit="ns").start())
        await self.reset()

    async def reset(self):
        self.dut.aresetn.value = 0
        for stream in self.streams.values():
            stream.clear()
        for _ in range(8):
            await RisingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        await RisingEdge(self.dut.aclk)
        await self.wait_until_ready()

    async def set_up(self, reader):
        """Tells table set 0 of the tables that a reader of the witness has, and the switches."""
        self.memory.memory = reader.memory
        await self.set_tables(reader)

    async def send(self, stream, **values):
        await self.streams[stream].send(AxiStreamFrame([self.layouts.pack(stream, values)]))

    async def receive(self, stream):
        frame = await with_timeout(self.streams[stream].recv(), PATIENCE_NS, "ns")
        # A stream without TLAST: every beat is a frame.
        (word,) = frame.tdata
        return self.layouts.unpack(stream, word)

    async def translate(self, requests):
        """Answers of requests, by tag = position: the beats as the witness writes them. Reports every response done."""

        async def send():
            for tag, request in enumerate(requests):
                fields = {name: getattr(request, name) for name in ("operation", "key", "pd", "qpn", "va", "length")}
                await self.send("s_axis_req", tag=tag, function=0, **fields)

        sender = cocotb.start_soon(send())
        answers = {}
        open_tag = None
        while len(answers) < len(requests) or open_tag is not None:
            beat = await self.receive("m_axis_rsp")
            tag = beat["tag"]
            assert open_tag in (None, tag), f"response {tag} among the segments of response {open_tag}"
            assert beat["first"] == (open_tag is None), f"response {tag}: first {beat['first']}"
            if beat["first"]:
                assert tag not in answers, f"response {tag} came twice"
                answers[tag] = []
            answers[tag].append([beat[name] for name in witness.BEAT])
            open_tag = None if beat["last"] else tag
            if beat["last"]:
                await self.send("s_axis_done", tag=tag, function=0)
        await sender
        return [answers[tag] for tag in range(len(requests))]

    async def ask_contexts(self, questions):
        """Answers of the context port, by tag = position: status, table, hop, address."""

        async def send():
            for tag, question in enumerate(questions):
                await self.send("s_axis_ctx", tag=tag, function=0, **question)

        sender = cocotb.start_soon(send())
        answers = {}
        for _ in questions:
            answer = await self.receive("m_axis_ctx")
            assert answer["tag"] not in answers, f"answer {answer['tag']} came twice"
            answers[answer["tag"]] = [answer[name] for name in ("status", "table", "hop", "address")]
        await sender
        return [answers[tag] for tag in range(len(questions))]

    async def invalidate(self, tag, **scope):
        await self.send("s_axis_inv", tag=tag, function=0, **scope)
        completion = await self.receive("m_axis_inv")
        assert completion["tag"] == tag, f"completion of invalidation {completion['tag']}, asked for {tag}"

    async def quiet(self):
        """Waits until the engine says that it is idle; then nothing may be left at any port."""
        for _ in range(1000):
            if self.registers.get("STATUS", "IDLE", await self.read("STATUS")):
                break
        else:
            raise AssertionError("`status.idle` stays 0 after everything is answered")
        for name in ("m_axis_rsp", "m_axis_ctx", "m_axis_inv"):
            assert self.streams[name].empty(), f"{name}: an answer that nobody asked for"
