//! Figures of requests that hit, and of what happens to them beside misses and invalidations.

use keywalk_contract::Config;
use keywalk_contract::ports::Scope;
use keywalk_cosim::{Dut, Invalidation, Stall};
use keywalk_model::Request;

use super::rig::{Answer, BenchError, Rig, Run, Steady, rate};
use super::scene::{self, Plan, RegionPlan, Scene};
use super::{Finding, Settings};
use crate::figures::{Row, Sense};

/// Memory latency where none should matter.
pub const LATENCY_CYCLES: u32 = 50;
/// Requests of a stream of hits.
const HITS: u64 = 4096;
/// Target of the latency of a hit.
pub const HIT_LATENCY_CYCLES: f64 = 7.0;
/// Latency of a two-page hit of the best engine that was measured elsewhere.
const TWO_PAGES_LATENCY_CYCLES: f64 = 30.0;
/// Largest rate that counts as one per cycle.
const ONE_PER_CYCLE: f64 = 1.001;
/// The same for segments: whoever sends hundreds of them may lose a cycle between two requests.
const ONE_SEGMENT_PER_CYCLE: f64 = 1.01;

/// Translations and MPT entries that the caches of a configuration hold.
fn capacities(config: &Config) -> (u64, u64) {
    let lines = u64::from(config.mpt_sets * config.mpt_ways);
    (u64::from(config.tlb_sets * config.tlb_ways), lines)
}

/// Several regions whose pages together take an eighth of the TLB: number of regions, pages of each.
#[must_use]
pub fn warm_size(config: &Config) -> (u64, u64) {
    let (pages, lines) = capacities(config);
    let regions = (lines / 4).clamp(1, 8);
    (regions, (pages / 8 / regions).clamp(1, 64))
}

fn warm_plan(config: &Config) -> (Plan, u64) {
    let (regions, pages) = warm_size(config);
    (Plan::small_pages(regions, pages, None), pages)
}

/// Requests that hit, in random order, `count` of them or a few more.
fn hits(scene: &Scene, pages: u64, count: u64) -> Vec<Request> {
    let regions = scene.regions.len();
    scene.everywhere(0..regions, pages, count.div_ceil(regions as u64 * pages))
}

/// A rig whose caches hold all of a scene.
fn warm_rig<'a>(dut: &'static Dut, scene: &'a Scene, pages: u64) -> Result<Rig<'a>, BenchError> {
    let mut rig = Rig::new(dut, scene, LATENCY_CYCLES, u32::MAX)?;
    rig.warm(&hits(scene, pages, 1))?;
    Ok(rig)
}

fn expect_no_reads(run: &Run) -> Result<(), BenchError> {
    if run.reads > 0 { Err(BenchError::NotWarm { reads: run.reads, passes: 0 }) } else { Ok(()) }
}

/// One-page hits back to back, with pages of some size.
///
/// # Errors
/// Those of the bench.
pub fn throughput(settings: &Settings, name: &str, page_bytes: u64) -> Result<Finding, BenchError> {
    let (regions, pages) = warm_size(&settings.config);
    let scene = Scene::build(&Plan::with_pages(regions, RegionPlan { pages, page_bytes, hops: None }))?;
    let mut rig = warm_rig(settings.dut, &scene, pages)?;
    let count = if settings.is_quick { HITS / 4 } else { HITS };
    let run = rig.run(&hits(&scene, pages, count))?;
    expect_no_reads(&run)?;
    let row = Row::at_most(name, rate(&run.responses), "cycles/request", ONE_PER_CYCLE).with_bound(1.0);
    Ok(Finding::of(row))
}

/// Latency of a hit of one or two pages, one request in flight.
///
/// # Errors
/// Those of the bench.
pub fn latency(settings: &Settings, name: &str, request_pages: u64) -> Result<Finding, BenchError> {
    const SAMPLES: usize = 32;
    let (mut plan, mut pages) = warm_plan(&settings.config);
    if pages < request_pages {
        plan = Plan::small_pages(1, request_pages, None);
        pages = request_pages;
    }
    let scene = Scene::build(&plan)?;
    let mut rig = warm_rig(settings.dut, &scene, pages)?;
    let regions = scene.regions.len();
    let request = |number: usize| {
        let page = (number as u64 * 5) % (pages - request_pages + 1);
        scene.request(number % regions, page, request_pages, number as u64)
    };
    let answers = rig.run_apart(&(0..SAMPLES).map(request).collect::<Vec<_>>())?;
    let worst = answers.iter().map(Answer::latency_to_last).max().unwrap_or(0) as f64;
    let target = if request_pages == 1 { HIT_LATENCY_CYCLES } else { TWO_PAGES_LATENCY_CYCLES };
    Ok(Finding::of(Row::at_most(name, worst, "cycles", target)))
}

/// Requests of many pages that hit, back to back: cycles per segment from the first beat to the last. No start-up is
/// in it.
///
/// # Errors
/// Those of the bench.
pub fn segments(settings: &Settings, name: &str, request_pages: u64) -> Result<Finding, BenchError> {
    let pages = region_pages(&settings.config).max(request_pages);
    let scene = Scene::build(&Plan::small_pages(1, pages, None))?;
    let mut rig = warm_rig(settings.dut, &scene, pages)?;
    let count = (if settings.is_quick { HITS / 4 } else { HITS } / request_pages).max(8);
    let page = |number: u64| number * 37 % (pages - request_pages + 1);
    let requests: Vec<_> = (0..count).map(|number| scene.request(0, page(number), request_pages, number)).collect();
    let run = rig.run(&requests)?;
    expect_no_reads(&run)?;
    let row = Row::at_most(name, rate(&run.beats), "cycles/segment", ONE_SEGMENT_PER_CYCLE).with_bound(1.0);
    Ok(Finding::of(row))
}

/// Pages of a region that the TLB holds with room to spare.
fn region_pages(config: &Config) -> u64 {
    (capacities(config).0 / 4).min(512)
}

/// Largest request of hits that a configuration's TLB has room for.
#[must_use]
pub fn request_pages_max(config: &Config) -> u64 {
    region_pages(config)
}

/// A stream of hits in which a request of another region misses now and then, no more of them than the engine has reads
/// for.
struct Mixed {
    scene: Scene,
    warm_up: Vec<Request>,
    requests: Vec<Request>,
    /// One of so many requests misses.
    period: usize,
}

impl Mixed {
    const LATENCY_CYCLES: u32 = 1000;

    fn new(settings: &Settings) -> Result<Self, BenchError> {
        let config = &settings.config;
        let (regions, pages) = warm_size(config);
        let period = (2 * Self::LATENCY_CYCLES / config.reads_in_flight).max(16) as usize;
        let misses = if settings.is_quick { 64 } else { 256 };
        // The regions that hit, then the one that misses.
        let mut plan = Plan::small_pages(regions, pages, None);
        plan.regions.push(RegionPlan { pages: 8 * (misses + 2), page_bytes: 4096, hops: Some(1) });
        let scene = Scene::build(&plan)?;
        let hit_regions = 0..regions as usize;
        let cold_region = hit_regions.end;
        let mut warm_up = scene.everywhere(hit_regions.clone(), pages, 1);
        // Page 0 fills its own line at most, and with an unaligned root the next page's.
        warm_up.push(scene.request(cold_region, 0, 1, 0));
        let hits = scene.everywhere(hit_regions, pages, (misses * period as u64).div_ceil(regions * pages) + 1);
        let mut hits = hits.into_iter();
        let requests = (0..misses).flat_map(|number| {
            let miss = scene.request(cold_region, 8 * (number + 2), 1, number);
            hits.by_ref().take(period - 1).chain(std::iter::once(miss)).collect::<Vec<_>>()
        });
        let requests = requests.collect();
        Ok(Self { scene, warm_up, requests, period })
    }

    /// The answers to the hits; nothing where not every miss has read its table, so that there was nothing to pass.
    fn run(&self, settings: &Settings, stall: Stall) -> Result<Option<Vec<Answer>>, BenchError> {
        let mut rig = Rig::new(settings.dut, &self.scene, Self::LATENCY_CYCLES, u32::MAX)?;
        rig.warm(&self.warm_up)?;
        rig.engine.request_driver().set_stall(stall);
        let run = rig.run(&self.requests)?;
        if run.reads < (self.requests.len() / self.period) as u64 {
            return Ok(None);
        }
        let is_hit = |number: usize| !(number + 1).is_multiple_of(self.period);
        let hits = run.answers.into_iter().enumerate().filter(|(number, _)| is_hit(*number));
        Ok(Some(hits.map(|(_, answer)| answer).collect()))
    }
}

/// Hits among misses, back to back: cycles per request.
///
/// # Errors
/// Those of the bench.
pub fn under_misses(settings: &Settings, name: &str) -> Result<Finding, BenchError> {
    let mixed = Mixed::new(settings)?;
    let Some(answers) = mixed.run(settings, Stall::NEVER)? else {
        return Ok(Finding::of(Row::at_most(name, f64::NAN, "cycles/request", ONE_SEGMENT_PER_CYCLE)));
    };
    let mut cycles: Vec<u64> = answers.iter().map(|answer| answer.last_valid).collect();
    cycles.sort_unstable();
    let share = answers.len() as f64 / mixed.requests.len() as f64;
    let value = Steady::of(&cycles, Mixed::LATENCY_CYCLES).cycles_per_response() * share;
    Ok(Finding::of(Row::at_most(name, value, "cycles/request", ONE_SEGMENT_PER_CYCLE).with_bound(1.0)))
}

/// Hits among misses: their latency. One cycle in ten is left free, because at full load the port of responses is never
/// idle, and a hit that once had to wait for the answer to a miss would make every hit behind it wait. The largest
/// latency may be two cycles more than that of a hit alone, for answers to misses that come in between.
///
/// # Errors
/// Those of the bench.
pub fn latency_under_misses(settings: &Settings, name: &str) -> Result<Finding, BenchError> {
    const WAIT_CYCLES: f64 = 2.0;
    let answers = Mixed::new(settings)?.run(settings, Stall::percent(10))?.unwrap_or_default();
    let mut latencies: Vec<u64> = answers.iter().map(Answer::latency).collect();
    latencies.sort_unstable();
    // A figure that nobody measured is none.
    let figure = |latency: Option<&u64>| latency.map_or(f64::NAN, |cycles| *cycles as f64);
    let (median, largest) = (figure(latencies.get(latencies.len() / 2)), figure(latencies.last()));
    let largest_max = HIT_LATENCY_CYCLES + WAIT_CYCLES;
    Ok(Finding {
        rows: vec![
            Row::at_most(format!("{name}, median"), median, "cycles", HIT_LATENCY_CYCLES),
            Row::at_most(format!("{name}, largest"), largest, "cycles", largest_max),
        ],
        ..Finding::default()
    })
}

/// Many requests for the same page of a cold engine at once: table reads, at most those that one request needs.
///
/// # Errors
/// Those of the bench.
pub fn joined(settings: &Settings, name: &str) -> Result<Finding, BenchError> {
    const REQUESTS: u64 = 64;
    let scene = Scene::build(&Plan::small_pages(1, 8, Some(2)))?;
    let mut rig = Rig::new(settings.dut, &scene, 250, u32::MAX)?;
    let mut requests: Vec<_> = (0..REQUESTS).map(|number| scene.request(0, 3, 1, number)).collect();
    for (request, offset) in requests.iter_mut().zip((0..).step_by(64)) {
        request.va += offset % 4096;
    }
    let least = scene.lines(&requests).len() as f64;
    let run = rig.run(&requests)?;
    Ok(Finding { duplicates: run.duplicates, ..Finding::of(Row::at_most(name, run.reads as f64, "reads", least)) })
}

/// An invalidation of `scope` that concerns a region, its whole range, its PD and its function.
fn invalidation(scene: &Scene, region: usize, scope: Scope, tag: u16) -> Invalidation {
    let region = &scene.regions[region];
    Invalidation {
        tag,
        function: 0,
        scope,
        key: region.key,
        pd: region.pd,
        va: region.va,
        length_bytes: region.length_bytes,
    }
}

/// An invalidation while nothing else happens: cycles from its acceptance to its completion.
///
/// # Errors
/// Those of the bench.
pub fn invalidation_alone(settings: &Settings, name: &str, scope: Scope) -> Result<Finding, BenchError> {
    const LIMIT_CYCLES: u64 = 200_000;
    let (plan, pages) = warm_plan(&settings.config);
    let scene = Scene::build(&plan)?;
    let mut rig = warm_rig(settings.dut, &scene, pages)?;
    rig.engine.invalidation_driver().record_acceptances();
    rig.engine.submit_invalidation(&invalidation(&scene, 0, scope, 1))?;
    rig.engine.drain(LIMIT_CYCLES)?;
    let accepted = rig.engine.invalidation_driver().pop_acceptance();
    let completed = rig.engine.pop_completion().map(|completion| completion.valid_cycle);
    let cycles = accepted.zip(completed).and_then(|(accepted, completed)| completed.checked_sub(accepted));
    // What was invalidated still has the right answer.
    rig.run(&hits(&scene, pages, 1))?;
    Ok(Finding::of(Row::informative(name, cycles.map_or(f64::NAN, |cycles| cycles as f64), "cycles", Sense::Max)))
}

/// Hits while a region that they do not use is invalidated again and again, one invalidation after the other: their
/// rate, as a share of that without invalidations.
///
/// # Errors
/// Those of the bench.
pub fn invalidation_beside_hits(settings: &Settings, name: &str, scope: Scope) -> Result<Finding, BenchError> {
    const SHARE_MIN: f64 = 0.9;
    /// So many times the undisturbed run are waited for.
    const PATIENCE: u64 = 20;
    let (mut plan, pages) = warm_plan(&settings.config);
    let hit_regions = 0..plan.regions.len();
    plan.regions.push(RegionPlan { pages, page_bytes: 4096, hops: None });
    let victim = hit_regions.end;
    let scene = Scene::build(&plan)?;
    let count = if settings.is_quick { HITS / 4 } else { HITS };
    let repeats = count.div_ceil(hit_regions.len() as u64 * pages);
    let requests = scene.everywhere(hit_regions.clone(), pages, repeats);
    let mut rig = Rig::new(settings.dut, &scene, LATENCY_CYCLES, u32::MAX)?;
    rig.warm(&scene.everywhere(0..victim + 1, pages, 1))?;
    let alone = rig.run(&requests)?;
    expect_no_reads(&alone)?;
    rig.settle()?;
    let cycles_alone = alone.responses.last().unwrap_or(&0) - alone.responses.first().unwrap_or(&0);

    let mut completions = 0_u64;
    rig.engine.submit_invalidation(&invalidation(&scene, victim, scope, 0))?;
    rig.submit(&requests)?;
    let limit = rig.engine.cycles() + PATIENCE * (cycles_alone + 1000);
    while rig.engine.responses().len() < requests.len() && rig.engine.cycles() < limit {
        rig.engine.step()?;
        while rig.engine.pop_completion().is_some() {
            completions += 1;
            rig.engine.submit_invalidation(&invalidation(&scene, victim, scope, completions as u16))?;
        }
    }
    let end = rig.engine.cycles();
    let run = rig.collect(&requests)?;
    let share = match run.responses.as_slice() {
        // The rate over what came, up to the end of the patience if not everything did.
        [first, .., last] => {
            let last = if run.responses.len() < requests.len() { end } else { *last };
            run.responses.len() as f64 / (last - first + 1) as f64 * (cycles_alone + 1) as f64 / requests.len() as f64
        }
        _ => 0.0,
    };
    // Without any completion this is infinite, and the row has missed.
    let per_invalidation = (end.saturating_sub(limit - PATIENCE * (cycles_alone + 1000))) as f64 / completions as f64;
    Ok(Finding {
        rows: vec![
            Row::at_least(name, share, "of undisturbed", SHARE_MIN).with_bound(1.0),
            Row::informative(format!("{name}, time of one"), per_invalidation, "cycles", Sense::Max),
        ],
        ..Finding::default()
    })
}

/// Random single-page requests all over a working set that caches may or may not hold.
///
/// # Errors
/// Those of the bench.
pub fn working_set(settings: &Settings, pages: u64, page_bytes: u64, latency_cycles: u32) -> Result<f64, BenchError> {
    let scene = Scene::build(&Plan::with_pages(1, RegionPlan { pages, page_bytes, hops: None }))?;
    let mut rig = Rig::new(settings.dut, &scene, latency_cycles, u32::MAX)?;
    let (measured, warm_up) = if settings.is_quick { (500, 1000) } else { (3000, 9000) };
    let requests = scene::anywhere(&scene, pages, warm_up + measured);
    rig.run(&requests[..warm_up])?;
    let run = rig.run(&requests[warm_up..])?;
    Ok(Steady::of(&run.responses, latency_cycles).cycles_per_response())
}
