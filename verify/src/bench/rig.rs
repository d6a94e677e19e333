//! An engine before a scene, and what it does with requests.

use keywalk_cosim::{self as cosim, Dut, Engine, EngineOptions, MemoryOptions};
use keywalk_image::BuildError;
use keywalk_model::{Beat, Request};

use super::scene::{SEED, Scene};
use crate::hardware::{self, SharedMemory};

/// Cycles without any answer after which an engine counts as stuck.
const STUCK_CYCLES: u64 = 200_000;
/// Cycles after which reports and updates that nobody waits for are through.
const SETTLE_CYCLES: u64 = 400;
/// Passes after which a cache that holds everything must be warm.
const WARM_PASSES_MAX: u32 = 4;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The bench: a broken bus rule, a wait that did not end.
    #[error(transparent)]
    Bench(#[from] cosim::Error),
    /// Tables that cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A wrong answer, which no figure can be given for.
    #[error("wrong answer to {request:x?}: expected {expected:x?}, got {got:x?}")]
    WrongAnswer {
        /// The request.
        request: Request,
        /// The model's answer.
        expected: Vec<Beat>,
        /// The hardware's answer.
        got: Vec<cosim::Segment>,
    },
    /// Caches that should hold everything do not.
    #[error("{reads} table reads in pass {passes} over pages that the caches should hold")]
    NotWarm {
        /// Reads in the last pass.
        reads: u64,
        /// Passes.
        passes: u32,
    },
    /// A replay of recorded inputs.
    #[error("the replay of the recorded inputs ends in another state than the recording")]
    Replay,
    /// A drawing.
    #[error("{0}")]
    Chart(String),
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// Cycle in which the request was accepted.
    pub accepted: u64,
    /// First cycle in which the first beat of the response was valid.
    pub first_valid: u64,
    /// First cycle in which the last beat was valid.
    pub last_valid: u64,
}

impl Answer {
    /// Clock edges from the one that accepts the request to the cycle in which a response is valid: through seven
    /// registers and nothing else it is 7.
    #[must_use]
    pub fn latency(&self) -> u64 {
        self.first_valid - self.accepted
    }

    /// The same to the last beat.
    #[must_use]
    pub fn latency_to_last(&self) -> u64 {
        self.last_valid - self.accepted
    }
}

/// What happened to requests that were offered back to back.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The answers, in the order of the requests.
    pub answers: Vec<Answer>,
    /// Cycles of all beats, in order.
    pub beats: Vec<u64>,
    /// Cycles of the last beats of all responses, in order.
    pub responses: Vec<u64>,
    /// Table reads.
    pub reads: u64,
    /// Table reads of a line that was under way already.
    pub duplicates: u64,
}

/// Cycles per item between the first and the last.
#[must_use]
pub fn rate(cycles: &[u64]) -> f64 {
    match cycles {
        [first, .., last] => (last - first) as f64 / (cycles.len() - 1) as f64,
        _ => f64::NAN,
    }
}

/// The part of a stream in which the engine is neither filling nor emptying.
///
/// It leaves out the first and last tenth of the responses, and is a whole number of memory latencies (and one cycle:
/// the time after which the memory accepts the next read in place of one) long: with all reads in flight at once
/// responses come in waves of that period, and a part of a wave would count too much or too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steady {
    /// Its cycles.
    pub window: std::ops::Range<u64>,
    /// Responses in it.
    pub responses: usize,
}

impl Steady {
    /// Of the cycles of all responses, in order.
    #[must_use]
    pub fn of(responses: &[u64], latency_cycles: u32) -> Self {
        let margin = responses.len() / 10;
        let (Some(first), Some(last)) = (responses.get(margin), responses.get((responses.len() - margin).max(1) - 1))
        else {
            return Self { window: 0..0, responses: 0 };
        };
        let period = u64::from(latency_cycles) + 1;
        let length = last - first;
        let window = *first..first + if length >= period { length / period * period } else { length };
        let responses = responses.iter().filter(|cycle| window.contains(cycle)).count();
        Self { window, responses }
    }

    /// Cycles per response; no number where there are none.
    #[must_use]
    pub fn cycles_per_response(&self) -> f64 {
        match self.responses {
            0 => f64::NAN,
            responses => (self.window.end - self.window.start) as f64 / responses as f64,
        }
    }
}

/// An engine, reset and configured, with memory that answers in order after a fixed latency.
pub struct Rig<'a> {
    scene: &'a Scene,
    /// The engine.
    pub engine: Engine<SharedMemory>,
}

/// Options under which figures are taken: no stalls, nothing random.
#[must_use]
pub fn options(latency_cycles: u32, reads_in_flight: u32) -> EngineOptions {
    EngineOptions {
        seed: SEED,
        memory: MemoryOptions { in_flight_max: reads_in_flight, ..MemoryOptions::fixed(latency_cycles) },
        done_delay_cycles: 1..=1,
        poison: false,
        ..EngineOptions::default()
    }
}

impl<'a> Rig<'a> {
    /// A fresh engine. The memory accepts a read only while fewer than `reads_in_flight` are under way.
    ///
    /// # Errors
    /// Those of the bench.
    pub fn new(
        dut: &'static Dut,
        scene: &'a Scene,
        latency_cycles: u32,
        reads_in_flight: u32,
    ) -> Result<Self, BenchError> {
        Self::with_options(dut, scene, options(latency_cycles, reads_in_flight))
    }

    /// A fresh engine.
    ///
    /// # Errors
    /// Those of the bench.
    pub fn with_options(dut: &'static Dut, scene: &'a Scene, options: EngineOptions) -> Result<Self, BenchError> {
        let mut engine = Engine::new(dut, scene.memory.clone(), options)?;
        engine.setup(&scene.setup)?;
        engine.memory().set_recording(false);
        engine.request_driver().record_acceptances();
        Ok(Self { scene, engine })
    }

    /// Offers requests back to back and waits for all answers, which are compared with the model's.
    ///
    /// # Errors
    /// A wrong answer, or those of the bench.
    ///
    /// # Panics
    /// When there are more requests than tags.
    pub fn run(&mut self, requests: &[Request]) -> Result<Run, BenchError> {
        self.submit(requests)?;
        let (reads, duplicates) = (self.engine.memory().accepted(), self.engine.memory().duplicates());
        self.engine.drain(STUCK_CYCLES)?;
        let mut run = self.collect(requests)?;
        run.reads = self.engine.memory().accepted() - reads;
        run.duplicates = self.engine.memory().duplicates() - duplicates;
        Ok(run)
    }

    /// Queues requests whose tags are their positions.
    ///
    /// # Errors
    /// Those of the bench.
    ///
    /// # Panics
    /// When there are more requests than tags.
    pub fn submit(&mut self, requests: &[Request]) -> Result<(), BenchError> {
        assert!(requests.len() <= 1 << self.engine.config().tag_bits, "every request has a tag of its own");
        for (tag, request) in requests.iter().enumerate() {
            self.engine.submit(&hardware::request(request, tag as u16))?;
        }
        Ok(())
    }

    /// Takes the answers that have come.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn collect(&mut self, requests: &[Request]) -> Result<Run, BenchError> {
        let mut run = Run { answers: vec![Answer::default(); requests.len()], ..Run::default() };
        for answer in &mut run.answers {
            match self.engine.request_driver().pop_acceptance() {
                Some(cycle) => answer.accepted = cycle,
                None => break,
            }
        }
        while let Some(response) = self.engine.pop_response() {
            let position = usize::from(response.tag);
            let request = Request { tag: response.tag, ..requests[position] };
            let expected = self.scene.model.translate(&self.scene.memory, &request).beats(&request);
            let got: Result<Vec<Beat>, _> = response.segments.iter().map(hardware::beat).collect();
            if got.as_ref() != Ok(&expected) {
                return Err(BenchError::WrongAnswer { request, expected, got: response.segments });
            }
            let answer = &mut run.answers[position];
            answer.first_valid = response.segments.first().map_or(0, |segment| segment.valid_cycle);
            answer.last_valid = response.segments.last().map_or(0, |segment| segment.valid_cycle);
            run.beats.extend(response.segments.iter().map(|segment| segment.cycle));
            run.responses.extend(response.segments.last().map(|segment| segment.cycle));
        }
        Ok(run)
    }

    /// Makes requests one after the other, each when the engine has nothing else to do.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_apart(&mut self, requests: &[Request]) -> Result<Vec<Answer>, BenchError> {
        let mut answers = Vec::new();
        for request in requests {
            self.settle()?;
            answers.extend(self.run(std::slice::from_ref(request))?.answers);
        }
        Ok(answers)
    }

    /// Makes the requests until none of them reads a table.
    ///
    /// # Errors
    /// [`BenchError::NotWarm`], and as [`run`](Self::run).
    pub fn warm(&mut self, requests: &[Request]) -> Result<(), BenchError> {
        let mut passes = 0;
        loop {
            let run = self.run(requests)?;
            passes += 1;
            self.settle()?;
            if run.reads == 0 {
                return Ok(());
            }
            if passes == WARM_PASSES_MAX {
                return Err(BenchError::NotWarm { reads: run.reads, passes });
            }
        }
    }

    /// Lets everything end that nobody waits for.
    ///
    /// # Errors
    /// Those of the bench.
    pub fn settle(&mut self) -> Result<(), BenchError> {
        Ok(self.engine.run(SETTLE_CYCLES)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_the_first_and_the_last() {
        assert_eq!(rate(&[10, 12, 20]), 5.0);
        assert!(rate(&[10]).is_nan() && rate(&[]).is_nan());
    }

    #[test]
    fn a_steady_stream_is_measured_in_whole_waves() {
        // Waves of 10 responses every 100 cycles, one response per cycle, behind a slow start.
        let wave = |item: u64| 1000 + item / 10 * 100 + item % 10;
        let cycles: Vec<u64> = (0..205).map(|item| if item < 15 { item } else { wave(item) }).collect();
        let steady = Steady::of(&cycles, 99);
        assert_eq!(steady.cycles_per_response(), 10.0);
        assert_eq!((steady.window.end - steady.window.start) % 100, 0);
        assert!(Steady::of(&[], 99).cycles_per_response().is_nan());
        assert_eq!(Steady::of(&[4, 6, 8, 10], 99).cycles_per_response(), 2.0, "shorter than a wave");
    }
}
