//! Figures of requests that miss.

use std::sync::{Arc, Mutex, PoisonError};

use keywalk_cosim::Dut;

use super::rig::{BenchError, Rig, Steady};
use super::scene::{MissScene, Plan, Scene};
use super::{Curve, Finding, Point, Reads, Settings};
use crate::figures::Row;

/// How far a value may be above its bound.
const RATIO_MAX: f64 = 1.10;
/// Requests of a run: so many, and so many times the reads in flight.
const REQUESTS_MIN: u64 = 2000;
const REQUESTS_PER_READ: u64 = 20;
const REQUESTS_MIN_QUICK: u64 = 300;
/// Requests of the largest run.
const REQUESTS_MAX: u64 = 256 * REQUESTS_PER_READ;

/// Memory latencies that misses are measured at.
pub const LATENCIES: [u32; 3] = [50, 250, 1000];

/// A case of the table of misses.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The engine.
    pub dut: &'static Dut,
    /// Reads that the memory lets be in flight.
    pub reads_in_flight: u32,
    /// Cycles of a read.
    pub latency_cycles: u32,
    /// Hops of the page table.
    pub hops: u8,
    /// The MPT cache holds the entry.
    pub is_mpt_warm: bool,
}

impl Case {
    fn mpt(&self) -> &'static str {
        if self.is_mpt_warm { "MPT warm" } else { "MPT cold" }
    }

    /// Name of its row.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { reads_in_flight, latency_cycles, hops, .. } = self;
        format!("miss, {}, hops {hops}, L {latency_cycles}, n {reads_in_flight}", self.mpt())
    }
}

/// Tables of misses, built when first needed: by hops, warm and cold.
#[derive(Default)]
pub struct Scenes([[Mutex<Option<Arc<MissScene>>>; 2]; 4]);

impl Scenes {
    fn get(&self, case: &Case, count: u64) -> Result<Arc<MissScene>, BenchError> {
        let place = &self.0[usize::from(case.hops)][usize::from(case.is_mpt_warm)];
        // What a thread that panicked left is a scene or none.
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scene) = place.as_ref() {
            return Ok(Arc::clone(scene));
        }
        let build = if case.is_mpt_warm { MissScene::warm } else { MissScene::cold };
        Ok(Arc::clone(place.insert(Arc::new(build(case.hops, count)?))))
    }
}

/// Single-page requests that all miss the TLB, and where the MPT is cold the MPT cache as well, back to back.
///
/// Cycles per miss and the reads per miss of the bound are taken without the start and the end, see [`Steady`]. Reads
/// against the least are those of the whole run: the least are the distinct lines that the requests need and the warm-up
/// did not. The last levels are never read twice, and upper levels are small enough for any cache (at most 85 pointers
/// to page tables, in 12 lines, and 80 to chunks of the MPT, in 11), so no cache's size comes into it.
///
/// # Errors
/// Those of the bench.
pub fn case(settings: &Settings, scenes: &Scenes, case: &Case) -> Result<Finding, BenchError> {
    let least = if settings.is_quick { REQUESTS_MIN_QUICK } else { REQUESTS_MIN };
    let count = least.max(u64::from(case.reads_in_flight) * if settings.is_quick { 4 } else { REQUESTS_PER_READ });
    let miss_scene = scenes.get(case, if settings.is_quick { count } else { REQUESTS_MAX })?;
    let scene = &miss_scene.scene;
    let requests = &miss_scene.misses[..count as usize];
    let mut rig = Rig::new(case.dut, scene, case.latency_cycles, case.reads_in_flight)?;
    rig.run(&miss_scene.warm_up)?;
    rig.settle()?;
    rig.engine.memory().set_recording(true);
    let run = rig.run(requests)?;
    let steady = Steady::of(&run.responses, case.latency_cycles);
    let records = rig.engine.memory().take_records();
    let steady_reads = records.iter().filter(|read| steady.window.contains(&read.cycle)).count();
    let reads = steady_reads as f64 / steady.responses as f64;
    let value = steady.cycles_per_response();
    let beats = f64::from(512 / settings.config.table_data_bits);
    let latency = f64::from(case.latency_cycles) / f64::from(case.reads_in_flight);
    let bound = [1.0, reads, reads * beats, reads * latency].into_iter().fold(0.0, f64::max);
    let row = Row::at_most(case.name(), value, "cycles/miss", RATIO_MAX * bound).with_bound(bound);
    let before = scene.lines(&miss_scene.warm_up);
    let least = scene.lines(requests).difference(&before).count() as f64 / count as f64;
    let group = format!("table reads per miss, {}, hops {}", case.mpt(), case.hops);
    Ok(Finding {
        rows: vec![row],
        points: points(case, value, bound),
        reads: Some(Reads { group, issued: run.reads as f64 / count as f64, least }),
        duplicates: run.duplicates,
    })
}

/// The row of a group: the most reads per miss of all its cases. Fewer than the least in any of them is a mistake of the
/// measurement, and no figure.
#[must_use]
pub fn reads_row(group: &str, reads: &[&Reads]) -> Row {
    let ratio = |reads: &Reads| reads.issued / reads.least;
    let worst = reads.iter().copied().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    // A rounding error is none.
    let is_sound = reads.iter().all(|reads| ratio(reads) >= 1.0 - 1e-9);
    let worst = worst.filter(|_| is_sound);
    let (issued, least) = worst.map_or((f64::NAN, f64::NAN), |reads| (reads.issued, reads.least));
    Row::at_most(group, issued, "reads/miss", RATIO_MAX * least).with_bound(least)
}

/// Where the case is on the curves.
fn points(case: &Case, value: f64, bound: f64) -> Vec<Point> {
    let Case { reads_in_flight, latency_cycles, hops, .. } = *case;
    let mpt = case.mpt();
    let mut points = Vec::new();
    let mut add = |curve, series: String, x: f64, y| points.push(Point { curve, series, x, y });
    if latency_cycles == 250 && reads_in_flight == 128 {
        add(Curve::Hops, mpt.into(), hops.into(), value);
        add(Curve::Hops, format!("{mpt}, bound"), hops.into(), bound);
    }
    if hops == 2 && case.is_mpt_warm {
        add(Curve::Latency, format!("{reads_in_flight} reads in flight"), latency_cycles.into(), value);
        add(Curve::ReadsInFlight, format!("latency {latency_cycles}"), reads_in_flight.into(), value);
        add(Curve::ReadsInFlight, format!("latency {latency_cycles}, bound"), reads_in_flight.into(), bound);
    }
    points
}

/// A request to an engine that has nothing cached and nothing else to do: cycles to the response. The bound is H x
/// (L + 5) + 12 with H dependent reads.
///
/// # Errors
/// Those of the bench.
pub fn cold_latency(
    settings: &Settings,
    name: &str,
    hem_hops: u8,
    mtr_hops: u8,
    latency_cycles: u32,
) -> Result<Finding, BenchError> {
    let pages = if mtr_hops == 0 { 1 } else { 8 };
    let plan = Plan { hem_hops, ..Plan::small_pages(1, pages, Some(mtr_hops)) };
    let scene = Scene::build(&plan)?;
    let mut rig = Rig::new(settings.dut, &scene, latency_cycles, u32::MAX)?;
    rig.settle()?;
    let run = rig.run(&[scene.request(0, pages / 2, 1, 0)])?;
    let reads = f64::from(hem_hops) + 1.0 + f64::from(mtr_hops);
    let bound = reads * (f64::from(latency_cycles) + 5.0) + 12.0;
    Ok(Finding::of(Row::at_most(name, run.answers[0].latency() as f64, "cycles", bound)))
}
