"""The data mover's faces exercised by cocotbext-axi's models: AXI4 memory port, payload and packet streams, every byte compared."""

import os

import cocotb
from cocotb.triggers import ClockCycles
from mover import BIND, READS, REMOTE_ATOMIC, Job, Mover, write

SEED = int(os.environ.get("KEYWALK_SEED", "1"))
# A status of a response, any that is not 0.
REFUSAL = 20
# Two halves that jobs read and write by turns, and words for atomics.
HALVES = (0x1_0000_0000, 0x1_0001_0000)
HALF_PAGES = 16
WORDS = 0xFFFF_FFFF_FFFF_E000


async def prepared(dut, seed, chance):
    """A fresh mover with memory, and a page that nobody is to touch at each end of each part."""
    mover = Mover(dut, seed)
    await mover.start()
    for half in HALVES:
        mover.back(half, HALF_PAGES)
    mover.back(WORDS, 2)
    mover.stall(chance)
    return mover


def segment(rng, half, longest):
    """Bytes inside a half, away from its first and last page."""
    length = rng.choice([rng.randint(1, 16), rng.randint(1, 200), rng.randint(1, longest)])
    room = (HALF_PAGES - 2) * 4096 - length
    return half + 4096 + rng.randint(0, room), length


def any_job(rng, turn, may_be_short=True):
    """A job that reads one half, writes the other, or is an atomic on one of few words."""
    source, sink = HALVES[turn % 2], HALVES[1 - turn % 2]
    count = rng.randint(1, 5) if rng.random() < 0.3 else 1
    kind = rng.choice("rrrrwwwwaab")
    if kind == "r":
        job = Job(rng.choice(READS), [segment(rng, source, 2500) for _ in range(count)])
    elif kind == "w":
        job = write([segment(rng, sink, 2500) for _ in range(count)], rng)
    elif kind == "a":
        word = WORDS + 8 * rng.randrange(6)
        numbers = {"value": rng.choice([0, 1, 2, rng.getrandbits(64)]), "compare": rng.randrange(3)}
        job = Job(REMOTE_ATOMIC, [(word, 8)], is_swap=rng.random() < 0.5, **numbers)
    else:
        job = Job(BIND, [segment(rng, source, 100)])
    change = rng.randrange(20)
    if change == 0:
        return job.with_changes(status=REFUSAL)
    if change == 1:
        return job.with_changes(status=REFUSAL, segments=[])
    if change == 2:
        return job.with_changes(is_foreign=True)
    if change == 3 and kind != "a":
        return job.with_changes(segments=[(0, 0)])
    if change == 4 and kind == "w" and may_be_short:
        return job.with_changes(payload=rng.randbytes(rng.randint(0, 2 * len(job.payload))))
    return job


@cocotb.test()
@cocotb.parametrize(chance=[0.0, 0.4])
async def any_jobs(dut, chance):
    """Jobs of every kind, refused ones among them, with and without beats of memory that answer with an error."""
    mover = await prepared(dut, SEED, chance)
    for turn in range(6):
        is_broken = turn >= 4
        if is_broken:
            for _ in range(12):
                at = mover.random.choice(HALVES) + mover.random.randrange(HALF_PAGES * 4096)
                mover.memory.broken.add(at // mover.beat_bytes)
            mover.memory.broken.add(WORDS // mover.beat_bytes)
        await mover.run([any_job(mover.random, turn, not is_broken) for _ in range(50)])


@cocotb.test()
async def every_alignment_and_length(dut):
    """Every first and last byte of a beat in bursts of one beat, of two, and of more than the longest burst."""
    mover = await prepared(dut, SEED + 1, 0.0)
    size = mover.beat_bytes
    places = [(first, length) for first in range(size) for length in range(1, 2 * size + 1)]
    mover.random.shuffle(places)
    places = places[:600] + [(first, 5 * size + last) for first in range(0, size, 5) for last in range(size)]
    # Each in a line of its own, in several batches, so that a byte beside it shows.
    room, step = (HALF_PAGES - 2) * 4096, 8 * size
    for start in range(0, len(places), room // step):
        batch = places[start : start + room // step]
        segments = [(HALVES[0] + 4096 + n * step + first, length) for n, (first, length) in enumerate(batch)]
        await mover.run([write([part], mover.random) for part in segments])
        await mover.run([Job(READS[0], [part]) for part in segments])


@cocotb.test()
async def segments_are_packed(dut):
    """Many segments of one response are one packet without gaps, and share one payload."""
    mover = await prepared(dut, SEED + 2, 0.2)
    lengths = [1, 2, 3, 31, 32, 33, 1, 64, 127, 4096, 5]
    for turn in range(3):
        at, segments = HALVES[turn % 2] + 4096, []
        for length in lengths:
            segments.append((at, length))
            at += length + mover.random.randint(0, 70)
        await mover.run([write(segments, mover.random)])
        await mover.run([Job(READS[1], segments)])
        mover.random.shuffle(lengths)


@cocotb.test()
async def what_is_refused_moves_nothing(dut):
    """Neither refused requests, nor those that meet another's response, nor atomics of another shape change a byte."""
    mover = await prepared(dut, SEED + 3, 0.3)
    rng, place = mover.random, [(HALVES[0] + 5000, 700)]
    atomic = Job(REMOTE_ATOMIC, [(WORDS, 8)], value=1)
    jobs = [job.with_changes(segments=[], status=REFUSAL) for job in (write(place, rng), Job(READS[0], place), atomic)]
    jobs += [job.with_changes(is_foreign=True) for job in (write(place, rng), Job(READS[0], place), atomic)]
    for parts in ([(WORDS + 4, 8)], [(WORDS, 4)], [(WORDS, 16)], [(WORDS, 4), (WORDS + 4, 4)], [(0, 0)]):
        jobs.append(atomic.with_changes(segments=parts))
    jobs += [Job(BIND, place), write([(0, 0)], rng), Job(READS[1], [(0, 0)])]
    before = mover.memory.copy()
    await mover.run(jobs * 4)
    mover.memory.compare(before)


@cocotb.test()
async def reset_in_traffic(dut):
    """A reset at any moment of traffic leaves a working mover."""
    mover = await prepared(dut, SEED + 4, 0.2)
    for cycles in range(5, 400, 45):
        for turn in range(12):
            mover.offer(any_job(mover.random, turn % 2))
        await ClockCycles(dut.aclk, cycles)
        await mover.reset()
        await mover.run([any_job(mover.random, cycles) for _ in range(8)])
