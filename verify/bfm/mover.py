"""The generated data mover in cocotb, with a third party's bus models at every port, and what it must do on plain bytes.

Expected outcomes are written from the meaning of its streams (hdl/contract), not from the hardware or its other tests.
"""

import json
import logging
import os
import random
from dataclasses import dataclass, replace
from pathlib import Path

import cocotb
from buses import HostMemory, axi_channels, stall
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Timer, with_timeout
from cocotbext.axi import AxiBus, AxiSlave, AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource
from engine import Layouts

OK, REFUSED, OUT_OF_ORDER, ATOMIC_SHAPE, PAYLOAD_LENGTH, READ_ERROR, WRITE_ERROR = range(7)
LOCAL_READ, LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC, BIND = range(6)
READS, WRITES = (LOCAL_READ, REMOTE_READ), (LOCAL_WRITE, REMOTE_WRITE)
# Longest wait for one outcome.
PATIENCE_NS = 400_000


@dataclass(frozen=True)
class Job:
    """A request with its response and what belongs to it."""

    operation: int
    # Address and bytes.
    segments: list
    payload: bytes = b""
    # Status of the response: where it is not 0, a beat that carries it follows the segments.
    status: int = 0
    # The response is another request's.
    is_foreign: bool = False
    is_swap: bool = False
    value: int = 0
    compare: int = 0

    def with_changes(self, **changes):
        return replace(self, **changes)


@dataclass
class Packet:
    """What is to come of a read: `None` for a byte that may be anything."""

    content: list
    is_bad: bool
    # Its end comes in a beat without bytes where the last byte ends a beat.
    ends_late: bool = False


def write(segments, rng, **changes):
    """A write with payload of the right length."""
    payload = rng.randbytes(sum(length for _, length in segments))
    return Job(rng.choice(WRITES), segments, payload).with_changes(**changes)


def carry_out(job, memory):
    """Status and packet of a job, which it carries out on the memory."""
    refused = OUT_OF_ORDER if job.is_foreign else REFUSED if job.status else OK
    segments = [] if job.is_foreign else [segment for segment in job.segments if segment[1]]
    is_hit = any(memory.is_broken(at, length) for at, length in segments)
    if job.operation in READS:
        content = []
        for at, length in segments:
            content += [None if memory.is_broken(at + n, 1) else memory.peek(at + n, 1)[0] for n in range(length)]
        status = READ_ERROR if is_hit else refused
        return status, Packet(content, status != OK, bool(content) and job.status != 0)
    if job.operation in WRITES:
        return _write(job, segments, is_hit, refused, memory), None
    if job.operation == REMOTE_ATOMIC:
        return _atomic(job, segments, is_hit, refused, memory)
    return refused, None


def _write(job, segments, is_hit, refused, memory):
    position = 0
    for at, length in segments:
        end = at + length
        while at < end:
            beat_end = min(end, (at // memory.beat_bytes + 1) * memory.beat_bytes)
            part = job.payload[position : position + beat_end - at]
            # Of the beat in which the payload ends too early nothing is written, nor of any behind it.
            if len(part) == beat_end - at and not memory.is_broken(at, 1):
                memory.poke(at, part)
            position += beat_end - at
            at = beat_end
    if is_hit:
        return WRITE_ERROR
    return PAYLOAD_LENGTH if segments and refused == OK and position != len(job.payload) else refused


def _atomic(job, segments, is_hit, refused, memory):
    nothing = Packet([], True)
    if refused != OK:
        return refused, nothing
    if len(segments) != 1 or segments[0][1] != 8 or segments[0][0] % 8:
        return ATOMIC_SHAPE, nothing
    at = segments[0][0]
    if is_hit:
        return READ_ERROR, Packet([None] * 8, True)
    old = memory.peek(at, 8)
    number = int.from_bytes(old, "little")
    if not job.is_swap:
        memory.poke(at, ((number + job.value) % 2**64).to_bytes(8, "little"))
    elif number == job.compare:
        memory.poke(at, job.value.to_bytes(8, "little"))
    return OK, Packet(list(old), False)


class Moves:
    """Data that is moved, and its outcome: needs `streams`, `layouts`, `beat_bytes`, `memory` and `reference`."""

    def put(self, stream, **values):
        self.streams[stream].send_nowait(AxiStreamFrame([self.layouts.pack(stream, values)]))

    async def take(self, stream):
        frame = await with_timeout(self.streams[stream].recv(compact=False), PATIENCE_NS, "ns")
        return frame if stream == "m_axis_rd" else self.layouts.unpack(stream, frame.tdata[0])

    def offer_data(self, job):
        """Payload or operands of a job."""
        if job.operation in WRITES:
            # A packet without bytes is a beat without bytes.
            frame = AxiStreamFrame(job.payload) if job.payload else AxiStreamFrame(b"\xee", tkeep=[0])
            self.streams["s_axis_wr"].send_nowait(frame)
        if job.operation == REMOTE_ATOMIC:
            operands = {"is_swap": int(job.is_swap), "value": job.value, "compare": job.compare}
            self.put("s_axis_atomic", **operands)

    async def check(self, outcomes):
        """Waits for outcomes (tag, function, job, status, packet), and compares them, packets and every byte of memory."""
        completions = {}
        for tag, function, job, status, _ in outcomes:
            # Writes end in order, atomics do, and all else does.
            path = WRITES if job.operation in WRITES else job.operation == REMOTE_ATOMIC
            completions.setdefault(path, []).append((tag, function, status, job.status))
        await cocotb.start_soon(self.check_completions(completions, len(outcomes)))
        packets = [packet for *_, packet in outcomes if packet]
        for number, packet in enumerate(packets):
            self.check_packet(number, packet, await self.take("m_axis_rd"))
        await Timer(200, "ns")
        left = {name: stream.count() for name, stream in self.streams.items() if not stream.empty()}
        left.pop("m_axis_fault", None)
        assert not left, f"in the queues of ports at the end: {left}"
        self.memory.compare(self.reference)

    async def check_completions(self, expected, count):
        """Completions by path, each in order, and reports where they can be seen."""
        for _ in range(count):
            completion = await self.take("m_axis_cpl")
            found = tuple(completion[name] for name in ("tag", "function", "status", "refusal"))
            path = next((path for path in expected.values() if path and path[0][0] == found[0]), None)
            assert path, f"completion {found}; next are {[path[:1] for path in expected.values()]}"
            wanted = path.pop(0)
            assert found == wanted, f"completion {found}, expected {wanted}"
            if "m_axis_done" in self.streams:
                done = await self.take("m_axis_done")
                assert (done["tag"], done["function"]) == found[:2], f"done {done} with completion {found}"

    def check_packet(self, number, packet, frame):
        length = len(packet.content)
        beats = max(1, -(-length // self.beat_bytes))
        if packet.ends_late and length % self.beat_bytes == 0:
            beats += 1
        total = beats * self.beat_bytes
        where = f"packet {number}, {length} bytes"
        assert len(frame.tdata) == total, f"{where}: {len(frame.tdata) // self.beat_bytes} beats, expected {beats}"
        assert frame.tkeep == [1] * length + [0] * (total - length), f"{where}: TKEEP {frame.tkeep}"
        bad = [0] * (total - self.beat_bytes) + [int(packet.is_bad)] * self.beat_bytes
        assert frame.tuser == bad, f"{where}: TUSER {frame.tuser[:: self.beat_bytes]}, bad {packet.is_bad}"
        for position, wanted in enumerate(packet.content):
            found = frame.tdata[position]
            assert wanted in (None, found), f"{where}: byte {position} is {found:#04x}, expected {wanted:#04x}"


class Mover(Moves):
    """The mover, a bus model at each of its ports, and memory with its reference."""

    def __init__(self, dut, seed):
        self.dut = dut
        self.random = random.Random(seed)
        manifest = json.loads((Path(os.environ["KEYWALK_RTL"]) / "manifest.json").read_text())
        self.layouts = Layouts(manifest["mover_streams"])
        clock = (dut.aclk, dut.aresetn)
        reset = {"reset_active_level": False}
        self.streams = {}
        for stream in manifest["mover_streams"]:
            kind = AxiStreamSource if stream["direction"] == "input" else AxiStreamSink
            bus = AxiStreamBus.from_prefix(dut, stream["name"])
            self.streams[stream["name"]] = kind(bus, *clock, byte_lanes=1, **reset)
        self.streams["s_axis_wr"] = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis_wr"), *clock, **reset)
        self.streams["m_axis_rd"] = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_rd"), *clock, **reset)
        self.beat_bytes = len(dut.m_axi_dma_wstrb)
        self.memory = HostMemory(self.beat_bytes)
        # The models report every error of the memory and every frame that a reset drops, with all bytes: both are wanted here.
        logging.getLogger("cocotb.keywalk_mover").setLevel(logging.ERROR)
        self.slave = AxiSlave(AxiBus.from_prefix(dut, "m_axi_dma"), *clock, target=self.memory, **reset)
        self.tag_mask = (1 << self.layouts.width("s_axis_op", "tag")) - 1
        self.function_mask = (1 << self.layouts.width("s_axis_op", "function")) - 1
        self.next_tag = 0

    def stall(self, chance):
        stall([*self.streams.values(), *axi_channels(self.slave)], self.random, chance)

    async def start(self):
        cocotb.start_soon(Clock(self.dut.aclk, 4, unit="ns").start())
        await self.reset()

    async def reset(self):
        """Everything is dropped; the reference begins with what memory holds."""
        self.dut.aresetn.value = 0
        # The models leave data unknown that is not valid. A beat without bytes carries any data on.
        self.dut.m_axi_dma_rdata.value = self.random.getrandbits(8 * self.beat_bytes)
        await ClockCycles(self.dut.aclk, 8)
        # Only now: in the cycle in which the reset began a sink may have taken something.
        for stream in self.streams.values():
            stream.clear()
        self.dut.aresetn.value = 1
        await ClockCycles(self.dut.aclk, 2)
        self.reference = self.memory.copy()

    def back(self, address, pages):
        """Pages of known bytes in memory and reference."""
        self.memory.add(address, pages, self.random)
        self.reference = self.memory.copy()

    def offer(self, job):
        """Puts everything of a job into the queues of its ports; gives tag and function."""
        tag, function = self.next_tag & self.tag_mask, self.next_tag & self.function_mask
        self.next_tag += 1
        name = {"tag": tag, "function": function}
        self.put("s_axis_op", operation=job.operation, **name)
        if job.is_foreign:
            name["tag"] ^= 1
        beats = [(pa, length, 0) for pa, length in job.segments]
        if job.status:
            beats.append((0, 0, job.status))
        for number, (pa, length, status) in enumerate(beats):
            ends = {"first": int(number == 0), "last": int(number + 1 == len(beats))}
            self.put("s_axis_rsp", pa=pa, length=length, status=status, segment=number, **ends, **name)
        self.offer_data(job)
        return tag, function

    async def run(self, jobs):
        """Offers jobs, and compares outcomes, packets and every byte of memory."""
        offered = [(*self.offer(job), job) for job in jobs]
        await self.check([(tag, function, job, *carry_out(job, self.reference)) for tag, function, job in offered])
