//! How fast the programs around the engine are. Wall time: these figures depend on the machine and its load, so each is
//! the best of several tries.

use std::hint::black_box;
use std::time::{Duration, Instant};

use keywalk_cosim::{EngineOptions, Model};
use keywalk_model::Request;

use super::hits::{LATENCY_CYCLES, warm_size};
use super::rig::{BenchError, Rig, options};
use super::scene::{Plan, Scene, anywhere};
use super::{Finding, Settings};
use crate::figures::{Row, Sense};

/// Translations of the golden model per second.
const TRANSLATIONS_PER_SECOND_MIN: f64 = 5e6;
/// Speed of the Rust bench as a share of a bare C++ loop's.
const SIMULATOR_RATIO_MIN: f64 = 0.8;
/// Tries, of which the best counts.
const TRIES: u32 = 7;

fn best(tries: impl Iterator<Item = Duration>) -> f64 {
    tries.min().unwrap_or_default().as_secs_f64()
}

/// The scene of [`translate_all`]: a region of 65536 pages behind one hop of the MPT and two of its own, and random
/// requests of one page each.
///
/// # Errors
/// What tables cannot hold.
pub fn model_scene() -> Result<(Scene, Vec<Request>), BenchError> {
    const PAGES: u64 = 1 << 16;
    let scene = Scene::build(&Plan::small_pages(1, PAGES, Some(2)))?;
    let requests = anywhere(&scene, PAGES, 100_000);
    Ok((scene, requests))
}

/// Translates all requests with the golden model. Returns a number that depends on every answer.
#[must_use]
pub fn translate_all(scene: &Scene, requests: &[Request]) -> u64 {
    let segments = requests.iter().flat_map(|request| scene.model.segments(&scene.memory, request, ()));
    segments.fold(0, |sum, segment| segment.map_or(sum, |segment| sum.wrapping_add(segment.pa)))
}

/// Single-page translations of the golden model per second, on one core.
///
/// # Errors
/// What tables cannot hold.
pub fn model() -> Result<Finding, BenchError> {
    let (scene, requests) = model_scene()?;
    let seconds = best((0..TRIES).map(|_| {
        let begin = Instant::now();
        black_box(translate_all(&scene, black_box(&requests)));
        begin.elapsed()
    }));
    let rate = requests.len() as f64 / seconds;
    Ok(Finding::of(Row::at_least("golden model, wall time", rate, "translations/s", TRANSLATIONS_PER_SECOND_MIN)))
}

/// A stream of hits through the Rust bench, and the same inputs through a bare C++ loop.
pub struct Simulation {
    settings: Settings,
    scene: Scene,
    requests: Vec<Request>,
    recording: keywalk_cosim::Recording,
    /// First cycle of the stream in the recording.
    begin: u64,
}

impl Simulation {
    /// Records the stream.
    ///
    /// # Errors
    /// Those of the bench, and a replay that ends elsewhere than the recording.
    pub fn record(settings: &Settings) -> Result<Self, BenchError> {
        const REQUESTS: u64 = 20_000;
        let (regions, pages) = warm_size(&settings.config);
        let scene = Scene::build(&Plan::small_pages(regions, pages, None))?;
        let requests = scene.everywhere(0..regions as usize, pages, REQUESTS.div_ceil(regions * pages));
        let options = EngineOptions { record: true, ..options(LATENCY_CYCLES, u32::MAX) };
        let mut rig = Rig::with_options(settings.dut, &scene, options)?;
        rig.warm(&scene.everywhere(0..regions as usize, pages, 1))?;
        let begin = rig.engine.cycles();
        rig.run(&requests)?;
        let model = rig.engine.bench().model_mut();
        let recording = model.take_recording().ok_or(BenchError::Replay)?;
        let mut replayed = Model::new(settings.dut, super::scene::SEED);
        replayed.replay(&recording, 0..recording.cycles());
        let is_same = settings.dut.ports.iter().all(|port| {
            let value = |model: &Model| model.signal(port.name).map(|signal| model.get_wide(signal));
            port.name == "aclk" || value(model).ok() == value(&replayed).ok()
        });
        if !is_same {
            return Err(BenchError::Replay);
        }
        Ok(Self { settings: settings.clone(), scene, requests, recording, begin })
    }

    /// Clock cycles of the stream.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.recording.cycles() - self.begin
    }

    /// Time of the stream through the Rust bench: drivers, sinks, memory and every check of the bus rules.
    ///
    /// # Errors
    /// Those of the bench.
    pub fn through_bench(&self) -> Result<Duration, BenchError> {
        let (regions, pages) = warm_size(&self.settings.config);
        let mut rig = Rig::new(self.settings.dut, &self.scene, LATENCY_CYCLES, u32::MAX)?;
        rig.warm(&self.scene.everywhere(0..regions as usize, pages, 1))?;
        rig.submit(&self.requests)?;
        let begin = Instant::now();
        rig.engine.run(self.cycles())?;
        Ok(begin.elapsed())
    }

    /// Time of the stream through the bare loop.
    #[must_use]
    pub fn through_bare_loop(&self) -> Duration {
        let mut model = Model::new(self.settings.dut, super::scene::SEED);
        model.replay(&self.recording, 0..self.begin);
        let begin = Instant::now();
        model.replay(&self.recording, self.begin..self.recording.cycles());
        begin.elapsed()
    }
}

/// Clock cycles per second of the Rust bench, and its speed as a share of the bare C++ loop's. Both take turns, so that
/// load on the machine meets both.
///
/// # Errors
/// Those of the bench.
pub fn simulator(settings: &Settings) -> Result<Finding, BenchError> {
    let simulation = Simulation::record(settings)?;
    let (mut bench, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        bench.push(simulation.through_bench()?);
        bare.push(simulation.through_bare_loop());
    }
    let (bench, bare) = (best(bench.into_iter()), best(bare.into_iter()));
    let cycles = simulation.cycles() as f64;
    Ok(Finding {
        rows: vec![
            Row::informative("simulator, wall time", cycles / bench, "cycles/s", Sense::Min).with_bound(cycles / bare),
            Row::at_least("simulator, share of a bare C++ loop", bare / bench, "of its speed", SIMULATOR_RATIO_MIN)
                .with_bound(1.0),
        ],
        ..Finding::default()
    })
}
