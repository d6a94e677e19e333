//! How fast the programs around the engine are. These figures depend on the machine. So that its load matters little,
//! time is processor time of the thread, and each is the best of several tries.

use std::hint::black_box;
use std::time::Duration;

use keywalk_cosim::{EngineOptions, Model};
use keywalk_model::Request;

use super::hits::{LATENCY_CYCLES, warm_size};
use super::rig::{BenchError, Rig, options};
use super::scene::{Plan, Scene, anywhere};
use super::{Finding, Settings};
use crate::figures::{Row, Sense};
use crate::hardware;

/// Translations of the golden model per second.
const TRANSLATIONS_PER_SECOND_MIN: f64 = 5e6;
/// Speed of the Rust bench as a share of a bare C++ loop's.
const SIMULATOR_RATIO_MIN: f64 = 0.8;
/// Tries, of which the best counts.
const TRIES: u32 = 9;

fn best(tries: impl Iterator<Item = Duration>) -> f64 {
    tries.min().unwrap_or_default().as_secs_f64()
}

/// Processor time that this thread has used.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Processor time of `work`.
fn time_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = processor_time();
    let result = work();
    (result, processor_time() - begin)
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
    let time = |_| time_of(|| black_box(translate_all(&scene, black_box(&requests)))).1;
    let seconds = best((0..TRIES).map(time));
    let rate = requests.len() as f64 / seconds;
    Ok(Finding::of(Row::at_least(
        "golden model, per second of processor time",
        rate,
        "translations/s",
        TRANSLATIONS_PER_SECOND_MIN,
    )))
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

    /// Processor time of the stream through the Rust bench: drivers, sinks, memory and every check of the bus rules.
    ///
    /// # Errors
    /// Those of the bench.
    pub fn through_bench(&self) -> Result<Duration, BenchError> {
        const BATCH: usize = 32;
        let (regions, pages) = warm_size(&self.settings.config);
        let mut rig = Rig::new(self.settings.dut, &self.scene, LATENCY_CYCLES, u32::MAX)?;
        rig.warm(&self.scene.everywhere(0..regions as usize, pages, 1))?;
        let mut requests = self.requests.iter().zip(0..).map(|(request, tag)| hardware::request(request, tag));
        let (result, time) = time_of(|| {
            for _ in 0..self.cycles() {
                // As many as keep the engine busy: a longer queue would measure the caches of the machine.
                if rig.engine.request_driver().pending() < BATCH {
                    requests.by_ref().take(BATCH).try_for_each(|request| rig.engine.submit(&request))?;
                }
                rig.engine.step()?;
                black_box(rig.engine.pop_response());
            }
            Ok(())
        });
        result.map(|()| time)
    }

    /// Processor time of the stream through the bare loop.
    #[must_use]
    pub fn through_bare_loop(&self) -> Duration {
        let mut model = Model::new(self.settings.dut, super::scene::SEED);
        model.replay(&self.recording, 0..self.begin);
        time_of(|| model.replay(&self.recording, self.begin..self.recording.cycles())).1
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
            Row::informative("simulator, per second of processor time", cycles / bench, "cycles/s", Sense::Min)
                .with_bound(cycles / bare),
            Row::at_least("simulator, share of a bare C++ loop", bare / bench, "of its speed", SIMULATOR_RATIO_MIN)
                .with_bound(1.0),
        ],
        ..Finding::default()
    })
}
