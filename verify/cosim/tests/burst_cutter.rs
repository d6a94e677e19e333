//! The cutter of segments in every configuration of this build, against a reference in plain integers.

use keywalk_contract::Config;
use keywalk_cosim::{Bench, Dut, Error, Handle, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Every model of the block.
fn designs() -> Vec<&'static Dut> {
    let designs: Vec<_> = dut::ALL.iter().copied().filter(|dut| dut.top == "burst_cutter").collect();
    assert!(!designs.is_empty(), "no model of burst_cutter in this build");
    designs
}

/// A segment; what travels along is derived from `mark`.
#[derive(Clone, Copy, Debug)]
struct Segment {
    pa: u64,
    length: u64,
    is_empty: bool,
    last: bool,
    mark: u32,
}

/// Fields that every burst takes over from its segment.
const COPIED: [(&str, u32, u32); 5] =
    [("kind", 0, 2), ("tag", 2, 16), ("function", 18, 8), ("status", 26, 3), ("refusal", 4, 8)];

fn copied(config: &Config, name: &str, low: u32, width: u32, mark: u32) -> u128 {
    let width = match name {
        "tag" => config.tag_bits,
        "function" => config.function_bits,
        _ => width,
    };
    u128::from(mark >> low) & ((1 << width) - 1)
}

/// A burst: address of its first beat, beats, first byte of the first and last byte of the last beat, end of the response.
type Burst = (u64, u64, u64, u64, bool);

/// The bursts of a segment with bytes.
fn bursts(config: &Config, segment: &Segment) -> Vec<Burst> {
    let beat = u128::from(config.mover_beat_bytes());
    let longest = beat * u128::from(config.mover_burst_beats);
    let (mut at, end) = (u128::from(segment.pa), u128::from(segment.pa) + u128::from(segment.length));
    let mut bursts = Vec::new();
    while at < end {
        let to = end.min((at / longest + 1) * longest);
        let (first, last) = (at / beat, (to - 1) / beat);
        bursts.push((
            (first * beat) as u64,
            (last - first + 1) as u64,
            (at % beat) as u64,
            ((to - 1) % beat) as u64,
            segment.last && to == end,
        ));
        at = to;
    }
    bursts
}

struct Cutter {
    bench: Bench,
    config: Config,
    input: Handle<StreamDriver>,
    output: Handle<StreamSink>,
}

impl Cutter {
    fn new(design: &'static Dut, seed: u64, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(design, seed);
        let input = bench.driver("segment", stall)?;
        let output = bench.sink("burst", stall)?;
        bench.reset(3)?;
        Ok(Self { bench, config: design.config().expect("it was generated"), input, output })
    }

    /// Sends segments and checks their bursts; gives the cycles that it took.
    fn run(&mut self, segments: &[Segment]) -> Result<u64, Error> {
        for segment in segments {
            let mut values = vec![
                ("pa", u128::from(segment.pa)),
                ("extent", u128::from(segment.length.wrapping_sub(1) as u32)),
                ("is_empty", segment.is_empty.into()),
                ("last", segment.last.into()),
            ];
            let own = |(name, low, width): &(&'static str, u32, u32)| {
                (*name, copied(&self.config, name, *low, *width, segment.mark))
            };
            values.extend(COPIED.iter().map(own));
            self.bench[self.input].push_fields(&values)?;
        }
        let start = self.bench.cycles();
        for segment in segments {
            let expected = if segment.is_empty { vec![(0, 0, 0, 0, true)] } else { bursts(&self.config, segment) };
            for expected in expected {
                let output = self.output;
                self.bench.run_until("a burst", 200, |bench| !bench[output].is_empty())?;
                let burst = self.bench[output].pop().expect("there is one");
                for (name, low, width) in COPIED {
                    assert_eq!(burst.get(name)?, copied(&self.config, name, low, width, segment.mark), "{segment:x?}");
                }
                assert_eq!(burst.get("is_empty")? == 1, segment.is_empty, "{segment:x?}");
                if segment.is_empty {
                    assert_eq!(burst.get("last")?, 1, "{segment:x?}");
                    continue;
                }
                let field = |name| burst.get(name).map(|value| value as u64);
                let bytes = u64::from(self.config.mover_beat_bytes());
                let found = (
                    field("beat")? * bytes,
                    field("beats")? + 1,
                    field("first_byte")?,
                    field("last_byte")?,
                    field("last")? == 1,
                );
                assert_eq!(found, expected, "{}: {segment:x?}", self.bench.model().dut().name);
                assert!(found.0 % 4096 + found.1 * bytes <= 4096, "a burst crosses 4 KiB: {found:x?}");
            }
        }
        let cycles = self.bench.cycles() - start;
        self.bench.run(20)?;
        assert!(self.bench[self.output].is_empty(), "more bursts than there are");
        Ok(cycles)
    }
}

fn any_segment(random: &mut ChaCha8Rng) -> Segment {
    let length = match random.random_range(0..6) {
        0 => random.random_range(1..=16),
        1 => random.random_range(1..=200),
        2 => random.random_range(4090..=4100),
        _ => random.random_range(1..=9_000),
    };
    // Below a page's end, at one, or anywhere.
    let pa = match random.random_range(0..3) {
        0 => random.random::<u64>() & !4095,
        1 => (random.random::<u64>() | 4095) - random.random_range(0..130),
        _ => random.random(),
    };
    Segment {
        pa: pa.min(u64::MAX - length),
        length,
        is_empty: random.random_range(0..10) == 0,
        last: random.random(),
        mark: random.random(),
    }
}

#[test]
fn random_segments_are_cut_as_the_reference_says() -> Result<(), Error> {
    for design in designs() {
        for (seed, stall) in [(1, Stall::NEVER), (2, Stall::percent(30).up_to(3))] {
            let mut cutter = Cutter::new(design, seed, stall)?;
            let mut random = cutter.bench.random();
            let mut segments: Vec<_> = (0..300).map(|_| any_segment(&mut random)).collect();
            // What has no bytes ends its response.
            segments.iter_mut().for_each(|segment| segment.last |= segment.is_empty);
            cutter.run(&segments)?;
        }
    }
    Ok(())
}

#[test]
fn every_offset_and_length_around_a_beat_is_exact() -> Result<(), Error> {
    for design in designs() {
        let mut cutter = Cutter::new(design, 3, Stall::NEVER)?;
        let bytes = u64::from(cutter.config.mover_beat_bytes());
        let mut segments = Vec::new();
        for offset in 0..bytes {
            for length in [1, 2, bytes - 1, bytes, bytes + 1, 2 * bytes] {
                let pa = 0x1234_5000_0000 - 2 * bytes + offset;
                segments.push(Segment { pa, length, is_empty: false, last: true, mark: length as u32 });
            }
        }
        cutter.run(&segments)?;
    }
    Ok(())
}

/// The longest segment that there is begins as it should, and a burst comes in every cycle.
#[test]
fn a_burst_comes_in_every_cycle() -> Result<(), Error> {
    for design in designs() {
        let mut cutter = Cutter::new(design, 4, Stall::NEVER)?;
        let longest = u64::from(cutter.config.mover_beat_bytes() * cutter.config.mover_burst_beats);
        let segment = Segment { pa: 3 * longest, length: 500 * longest, is_empty: false, last: true, mark: 7 };
        let cycles = cutter.run(&[segment])?;
        assert!(cycles <= 505, "{}: {cycles} cycles for 500 bursts", design.name);
        // 2^32 bytes without the last one.
        let extent = [("pa", 0), ("extent", 0xffff_fffe), ("last", 1)];
        let (input, output) = (cutter.input, cutter.output);
        cutter.bench[input].push_fields(&extent)?;
        for number in 0..100u64 {
            cutter.bench.run_until("a burst", 10, |bench| !bench[output].is_empty())?;
            let burst = cutter.bench[output].pop().expect("there is one");
            assert_eq!(burst.get("beat")? as u64, number * u64::from(cutter.config.mover_burst_beats));
            assert_eq!(burst.get("last")?, 0);
        }
    }
    Ok(())
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_cutter() -> Result<(), Error> {
    for design in designs() {
        let mut cutter = Cutter::new(design, 5, Stall::percent(20))?;
        let mut random = cutter.bench.random();
        for cycles in 1..30 {
            let segment = Segment { is_empty: false, ..any_segment(&mut random) };
            let input = cutter.input;
            for _ in 0..4 {
                cutter.bench[input].push_fields(&[("pa", segment.pa.into()), ("extent", segment.length.into())])?;
            }
            cutter.bench.run(cycles)?;
            cutter.bench.reset(2)?;
            cutter.run(&[segment])?;
        }
    }
    Ok(())
}

/// From a segment to its first burst, as documented.
#[test]
fn the_first_burst_comes_two_cycles_after_its_segment() -> Result<(), Error> {
    for design in designs() {
        let mut cutter = Cutter::new(design, 6, Stall::NEVER)?;
        let (input, output) = (cutter.input, cutter.output);
        cutter.bench[input].record_acceptances();
        cutter.bench[input].push_fields(&[("pa", 100), ("extent", 5)])?;
        cutter.bench.run_until("a burst", 20, |bench| !bench[output].is_empty())?;
        let accepted = cutter.bench[input].pop_acceptance().expect("it was accepted");
        assert_eq!(cutter.bench[output].pop().expect("there is one").valid_cycle - accepted, 2);
    }
    Ok(())
}
