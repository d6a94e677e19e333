//! The pairing of responses with their operations.

use keywalk_contract::{MoverStatus, Operation};
use keywalk_cosim::{Bench, Error, Handle, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Codes of what is to be done, in the mover.
const NOTHING: u128 = 0;
const READ: u128 = 1;
const WRITE: u128 = 2;
const ATOMIC: u128 = 3;

struct Dispatch {
    bench: Bench,
    operation: Handle<StreamDriver>,
    response: Handle<StreamDriver>,
    read: Handle<StreamSink>,
    write: Handle<StreamSink>,
}

/// A beat of a response.
#[derive(Clone, Copy, Debug)]
struct Beat {
    tag: u128,
    function: u128,
    status: u128,
    first: bool,
    last: bool,
    pa: u128,
    length: u128,
}

/// What must come of it: kind, status, refusal, end, whether there are bytes, address, bytes less one.
type Segment = (u128, u128, u128, u128, u128, bool, bool, u128, u128);

fn kind(operation: u128) -> u128 {
    match Operation::from_code(operation as u8) {
        Some(Operation::LocalRead | Operation::RemoteRead) => READ,
        Some(Operation::LocalWrite | Operation::RemoteWrite) => WRITE,
        Some(Operation::RemoteAtomic) => ATOMIC,
        _ => NOTHING,
    }
}

/// The segment of a beat, where it is passed on.
fn segment(tag: u128, function: u128, operation: u128, beat: &Beat) -> Option<Segment> {
    let kind = kind(operation);
    let is_word = beat.first && beat.last && beat.length == 8 && beat.pa.is_multiple_of(8);
    let status = if (tag, function) != (beat.tag, beat.function) {
        MoverStatus::OutOfOrder
    } else if beat.status != 0 {
        MoverStatus::Refused
    } else if kind == ATOMIC && !is_word {
        MoverStatus::AtomicShape
    } else {
        MoverStatus::Ok
    };
    let is_empty = status != MoverStatus::Ok || beat.length == 0 || kind == NOTHING;
    let code = u128::from(status.code());
    let extent = (beat.length as u32).wrapping_sub(1).into();
    let segment = (kind, tag, function, code, beat.status, beat.last, is_empty, beat.pa, extent);
    (!is_empty || beat.last).then_some(segment)
}

impl Dispatch {
    fn new(seed: u64, stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::MOVER_DISPATCH, seed);
        let (operation, response) = (bench.driver("operation", stall)?, bench.driver("response", stall)?);
        let (read, write) = (bench.sink("read", stall)?, bench.sink("write", stall)?);
        bench.reset(3)?;
        Ok(Self { bench, operation, response, read, write })
    }

    /// Sends requests, each an operation with its beats, and compares what comes out.
    fn run(&mut self, requests: &[(u128, u128, u128, Vec<Beat>)]) -> Result<u64, Error> {
        let mut expected = [Vec::new(), Vec::new()];
        for (tag, function, operation, beats) in requests {
            let fields = [("tag", *tag), ("function", *function), ("operation", *operation)];
            self.bench[self.operation].push_fields(&fields)?;
            for beat in beats {
                let fields = [
                    ("tag", beat.tag),
                    ("function", beat.function),
                    ("status", beat.status),
                    ("first", beat.first.into()),
                    ("last", beat.last.into()),
                    ("pa", beat.pa),
                    ("length", beat.length),
                ];
                self.bench[self.response].push_fields(&fields)?;
                let is_write = kind(*operation) == WRITE;
                expected[usize::from(is_write)].extend(segment(*tag, *function, *operation, beat));
            }
        }
        let sinks = [self.read, self.write];
        let start = self.bench.cycles();
        let counts = [expected[0].len(), expected[1].len()];
        self.bench
            .run_until("every segment", 20_000, |bench| (0..2).all(|side| bench[sinks[side]].len() >= counts[side]))?;
        let cycles = self.bench.cycles() - start;
        self.bench.run(30)?;
        for (sink, expected) in sinks.into_iter().zip(&expected) {
            assert_eq!(self.bench[sink].len(), expected.len());
            for expected in expected {
                let found = self.bench[sink].pop().expect("it was counted");
                let get = |name| found.get(name);
                let flag = |name| found.get(name).map(|value| value == 1);
                let found: Segment = (
                    get("kind")?,
                    get("tag")?,
                    get("function")?,
                    get("status")?,
                    get("refusal")?,
                    flag("last")?,
                    flag("is_empty")?,
                    get("pa")?,
                    get("extent")?,
                );
                assert_eq!(found, *expected);
            }
        }
        Ok(cycles)
    }
}

fn any_request(random: &mut ChaCha8Rng) -> (u128, u128, u128, Vec<Beat>) {
    let tag = u128::from(random.random::<u16>());
    let function = u128::from(random.random::<u8>());
    let operation = random.random_range(0..8);
    let count = random.random_range(1..4);
    let is_foreign = random.random_range(0..8) == 0;
    let (tag_bit, function_bit) = (1 << random.random_range(0..16), 1 << random.random_range(0..8));
    let foreign_tag = is_foreign && random.random();
    let beats = (0..count).map(|number| {
        let last = number + 1 == count;
        Beat {
            tag: if foreign_tag { tag ^ tag_bit } else { tag },
            function: if is_foreign && !foreign_tag { function ^ function_bit } else { function },
            status: if last && random.random_range(0..4) == 0 { random.random_range(1..27) } else { 0 },
            first: number == 0,
            last,
            pa: u128::from(random.random::<u64>() & !if random.random() { 7 } else { 0 }),
            length: [0, 1, 7, 8, 8, 9, 4096, 1 << 31][random.random_range(0..8)],
        }
    });
    (tag, function, operation, beats.collect())
}

#[test]
fn random_responses_are_sent_where_they_belong() -> Result<(), Error> {
    for (seed, stall) in [(1, Stall::NEVER), (2, Stall::percent(40).up_to(4))] {
        let mut dispatch = Dispatch::new(seed, stall)?;
        let mut random = dispatch.bench.random();
        let requests: Vec<_> = (0..1_000).map(|_| any_request(&mut random)).collect();
        dispatch.run(&requests)?;
    }
    Ok(())
}

/// Every bit of the tag and the function is compared.
#[test]
fn a_response_of_any_other_request_is_dropped() -> Result<(), Error> {
    let mut dispatch = Dispatch::new(3, Stall::NEVER)?;
    let mut requests = Vec::new();
    for operation in 0..6 {
        for bit in 0..24 {
            let other = 1 << bit;
            let (tag, function) = (0x5a5a ^ (other & 0xffff), 0x3c ^ (other >> 16));
            let beat = Beat { tag, function, status: 0, first: true, last: true, pa: 64, length: 8 };
            requests.push((0x5a5a, 0x3c, operation, vec![beat]));
        }
    }
    dispatch.run(&requests)?;
    Ok(())
}

#[test]
fn a_segment_comes_in_every_cycle() -> Result<(), Error> {
    let mut dispatch = Dispatch::new(4, Stall::NEVER)?;
    let beat = Beat { tag: 1, function: 2, status: 0, first: true, last: true, pa: 64, length: 8 };
    let requests: Vec<_> = (0..500).map(|number| (1, 2, number % 5, vec![beat])).collect();
    let cycles = dispatch.run(&requests)?;
    assert!(cycles <= 510, "{cycles} cycles for 500 segments");
    Ok(())
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_dispatch() -> Result<(), Error> {
    let mut dispatch = Dispatch::new(5, Stall::percent(30))?;
    let mut random = dispatch.bench.random();
    for cycles in 1..30 {
        let beat = Beat { tag: 1, function: 2, status: 0, first: true, last: true, pa: 64, length: 8 };
        for _ in 0..5 {
            let (operation, response) = (dispatch.operation, dispatch.response);
            dispatch.bench[operation].push_fields(&[("operation", u128::from(random.random_range(0..5u8)))])?;
            dispatch.bench[response].push_fields(&[("tag", beat.tag), ("last", 1), ("length", beat.length)])?;
        }
        dispatch.bench.run(cycles)?;
        dispatch.bench.reset(2)?;
        let requests: Vec<_> = (0..5).map(|_| any_request(&mut random)).collect();
        dispatch.run(&requests)?;
    }
    Ok(())
}

/// From a response to its segment, as documented.
#[test]
fn a_segment_comes_three_cycles_after_its_response() -> Result<(), Error> {
    let mut dispatch = Dispatch::new(6, Stall::NEVER)?;
    let (operation, response, read) = (dispatch.operation, dispatch.response, dispatch.read);
    dispatch.bench[operation].push_fields(&[])?;
    dispatch.bench.run(10)?;
    dispatch.bench[response].record_acceptances();
    dispatch.bench[response].push_fields(&[("last", 1), ("length", 64)])?;
    dispatch.bench.run_until("a segment", 20, |bench| !bench[read].is_empty())?;
    let accepted = dispatch.bench[response].pop_acceptance().expect("it was accepted");
    assert_eq!(dispatch.bench[read].pop().expect("there is one").valid_cycle - accepted, 3);
    Ok(())
}
