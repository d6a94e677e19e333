//! The engine's figures in simulated clock cycles, against their targets.
//!
//! Every figure has an engine of its own, fresh from reset, with the same seed, no stalls and a fixed memory latency, so
//! it is the same number on every machine. [`jobs`] lists them, [`run`] takes them on several threads. Every answer of
//! the engine is compared with the golden model's: there is no figure for wrong answers. [`rates`] measures the programs
//! around the engine in processor time.

pub mod chart;
pub mod hits;
pub mod misses;
pub mod rates;
pub mod rig;
pub mod scene;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use keywalk_contract::Config;
use keywalk_contract::ports::Scope;
use keywalk_cosim::Dut;

pub use chart::{Curve, Point};
pub use rig::BenchError;

use crate::figures::{Row, Sense};
use misses::{Case, Scenes};

/// What is measured, and how much of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine.
    pub dut: &'static Dut,
    /// Its configuration.
    pub config: Config,
    /// Few figures and short runs, for tests.
    pub is_quick: bool,
}

impl Settings {
    /// For the engine of a preset; `None` when this build does not have it.
    #[must_use]
    pub fn new(preset: &str, is_quick: bool) -> Option<Self> {
        let dut = Dut::named(preset).filter(|dut| dut.top == "keywalk")?;
        Some(Self { dut, config: dut.config()?, is_quick })
    }
}

/// Reads per miss of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Reads {
    /// Cases that make one row together.
    pub group: String,
    /// Reads issued per miss.
    pub issued: f64,
    /// Reads that the tables need per miss.
    pub least: f64,
}

/// What a job found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// Its rows.
    pub rows: Vec<Row>,
    /// Its points on curves.
    pub points: Vec<Point>,
    /// Reads per miss.
    pub reads: Option<Reads>,
    /// Table reads of a line that was under way already.
    pub duplicates: u64,
}

impl Finding {
    /// One row and nothing else.
    #[must_use]
    pub fn of(row: Row) -> Self {
        Self { rows: vec![row], ..Self::default() }
    }

    /// Points only.
    fn points(points: Vec<Point>) -> Self {
        Self { points, ..Self::default() }
    }
}

type Work = Box<dyn Fn(&Settings, &Scenes) -> Result<Finding, BenchError> + Send + Sync>;

/// One figure, or a few that come together.
pub struct Job {
    /// Name, which the names of its rows begin with.
    pub name: String,
    work: Work,
}

impl Job {
    fn new(
        name: impl Into<String>,
        work: impl Fn(&Settings, &Scenes, &str) -> Result<Finding, BenchError> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        let of = name.clone();
        Self { name, work: Box::new(move |settings, scenes| work(settings, scenes, &of)) }
    }
}

/// Hits of pages of these sizes.
const PAGE_SIZES: [(&str, u64); 4] = [("4 KiB", 1 << 12), ("64 KiB", 1 << 16), ("2 MiB", 1 << 21), ("1 GiB", 1 << 30)];
/// Pages of a request.
const REQUEST_PAGES: [u64; 4] = [2, 4, 16, 256];
/// Scopes of invalidations.
const SCOPES: [(&str, Scope); 5] = [
    ("one MR", Scope::Region),
    ("range of an MR", Scope::Range),
    ("PD", Scope::ProtectionDomain),
    ("function", Scope::Function),
    ("everything", Scope::All),
];
/// Reads in flight.
const READS_IN_FLIGHT: [u32; 4] = [16, 64, 128, 256];
/// The default engine with more reads in flight than it has by itself.
const READS_256: &str = "reads_256";
/// Pages of the working set where its size does not vary, so that its bytes can: 1 GiB of 4 KiB pages.
const PAGE_SIZE_CURVE_BYTES: u64 = 1 << 30;

/// Every job, in the order of the table.
#[must_use]
pub fn jobs(settings: &Settings) -> Vec<Job> {
    let quick = settings.is_quick;
    let mut jobs = Vec::new();
    for (size, page_bytes) in PAGE_SIZES.into_iter().filter(|(_, bytes)| !quick || *bytes == 4096) {
        jobs.push(Job::new(format!("hits, {size} pages"), move |settings, _, name| {
            hits::throughput(settings, name, page_bytes)
        }));
    }
    jobs.push(Job::new("hit latency", |settings, _, name| hits::latency(settings, name, 1)));
    jobs.push(Job::new("hit latency, two pages", |settings, _, name| hits::latency(settings, name, 2)));
    let pages_max = hits::request_pages_max(&settings.config);
    for pages in REQUEST_PAGES.into_iter().filter(|pages| *pages <= pages_max && (!quick || *pages <= 4)) {
        jobs.push(Job::new(format!("hits, requests of {pages} pages"), move |settings, _, name| {
            hits::segments(settings, name, pages)
        }));
    }
    jobs.push(Job::new("hits under misses", |settings, _, name| hits::under_misses(settings, name)));
    jobs.push(Job::new("hit latency under misses", |settings, _, name| hits::latency_under_misses(settings, name)));
    jobs.push(Job::new("64 requests for one cold page", |settings, _, name| hits::joined(settings, name)));
    jobs.extend(cold_jobs(quick));
    jobs.extend(
        miss_cases(settings)
            .into_iter()
            .map(|case| Job::new(case.name(), move |settings, scenes, _| misses::case(settings, scenes, &case))),
    );
    for (what, scope) in SCOPES.into_iter().filter(|(_, scope)| !quick || *scope == Scope::All) {
        jobs.push(Job::new(format!("invalidation of {what}"), move |settings, _, name| {
            hits::invalidation_alone(settings, name, scope)
        }));
    }
    // A function is its table set here, and everything is everything: the traffic would be invalidated as well.
    for (what, scope) in SCOPES.into_iter().take(if quick { 1 } else { 3 }) {
        jobs.push(Job::new(format!("hits beside invalidations of {what}"), move |settings, _, name| {
            hits::invalidation_beside_hits(settings, name, scope)
        }));
    }
    jobs.extend(curve_jobs(quick));
    jobs
}

fn cold_jobs(is_quick: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    for hem_hops in 0..=3 {
        for mtr_hops in 0..=3 {
            for latency_cycles in misses::LATENCIES {
                if is_quick && (hem_hops, mtr_hops, latency_cycles) != (1, 2, 50) {
                    continue;
                }
                let name = format!("cold latency, HEM hops {hem_hops}, MTR hops {mtr_hops}, L {latency_cycles}");
                jobs.push(Job::new(name, move |settings, _, name| {
                    misses::cold_latency(settings, name, hem_hops, mtr_hops, latency_cycles)
                }));
            }
        }
    }
    jobs
}

fn miss_cases(settings: &Settings) -> Vec<Case> {
    let own = settings.config.reads_in_flight;
    let more = Dut::named(READS_256).filter(|_| settings.dut.name == "default");
    let dut_for = |reads: u32| if reads <= own { Some(settings.dut) } else { more };
    let mut depths: Vec<(u32, &'static Dut)> =
        READS_IN_FLIGHT.iter().filter_map(|reads| dut_for(*reads).map(|dut| (*reads, dut))).collect();
    if depths.is_empty() {
        depths.push((own, settings.dut));
    }
    let mut cases = Vec::new();
    for is_mpt_warm in [true, false] {
        for hops in 1..=3 {
            for latency_cycles in misses::LATENCIES {
                for &(reads_in_flight, dut) in &depths {
                    if settings.is_quick && (hops > 2 || latency_cycles != 50 || reads_in_flight != depths[0].0) {
                        continue;
                    }
                    cases.push(Case { dut, reads_in_flight, latency_cycles, hops, is_mpt_warm });
                }
            }
        }
    }
    cases
}

fn curve_jobs(is_quick: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut add = |curve: Curve, series: String, x: f64, pages: u64, page_bytes: u64, latency_cycles: u32| {
        let name = format!("{}, {series}, at {x}", curve.title());
        jobs.push(Job::new(name, move |settings, _, _| {
            let y = hits::working_set(settings, pages, page_bytes, latency_cycles)?;
            Ok(Finding::points(vec![Point { curve, series: series.clone(), x, y }]))
        }));
    };
    let latencies = if is_quick { &[50][..] } else { &[50, 250, 1000] };
    for latency in latencies {
        for pages_log2 in (4..=16).filter(|log2| if is_quick { log2 % 6 == 4 } else { log2 % 2 == 0 || *log2 > 10 }) {
            let pages = 1_u64 << pages_log2;
            add(Curve::WorkingSet, format!("latency {latency}"), pages as f64, pages, 4096, *latency);
        }
        for shift in [12, 14, 16, 18, 21, 24, 27, 30].into_iter().filter(|shift| !is_quick || shift % 9 == 3) {
            let page_bytes = 1_u64 << shift;
            let pages = PAGE_SIZE_CURVE_BYTES / page_bytes;
            add(Curve::PageSize, format!("latency {latency}"), page_bytes as f64 / 1024.0, pages, page_bytes, *latency);
        }
    }
    jobs
}

/// What all jobs found, in their order, and why those that found nothing did not.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The rows of the table.
    pub rows: Vec<Row>,
    /// Points on curves.
    pub points: Vec<Point>,
    /// Name of a job and why it found nothing. It has a failed row, or missing points.
    pub failures: Vec<(String, String)>,
}

/// A shorter list: of the rows of a family, which differ in memory latency, reads in flight and hops of the MPT only, the
/// one with the worst ratio.
#[must_use]
pub fn worst_of_families(rows: &[Row]) -> Vec<Row> {
    let family = |name: &str| match name.split_once(", HEM hops ").or_else(|| name.split_once(", L ")) {
        Some((family, _)) => family.to_owned(),
        None => name.to_owned(),
    };
    let mut families: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let family = family(&row.name);
        match families.last_mut() {
            Some((last, members)) if *last == family => members.push(row),
            _ => families.push((family, vec![row])),
        }
    }
    let worst = |(_, members): (String, Vec<&Row>)| {
        let ratio = |row: &Row| row.ratio.unwrap_or(f64::INFINITY);
        let worst = members.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))).copied()?;
        let note = if members.len() > 1 { format!(" (worst of {})", members.len()) } else { String::new() };
        Some(Row { name: worst.name.clone() + &note, ..worst.clone() })
    };
    families.into_iter().filter_map(worst).collect()
}

/// Runs jobs, `threads` at a time. `on_done` hears the name of each as it is finished.
pub fn run(settings: &Settings, jobs: &[Job], threads: usize, on_done: impl Fn(&str) + Sync) -> Findings {
    let scenes = Scenes::default();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<Finding, BenchError>>>> = Mutex::new((0..jobs.len()).map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, job)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(index).map(|job| (index, job))
                } {
                    let result = (job.work)(settings, &scenes);
                    on_done(&job.name);
                    results.lock().expect("no worker panics")[index] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no worker panics");
    gather(jobs.iter().map(|job| job.name.as_str()).zip(results.into_iter().flatten()))
}

/// Puts findings together. The rows that need those of several jobs come behind the last of them.
fn gather<'a>(results: impl Iterator<Item = (&'a str, Result<Finding, BenchError>)>) -> Findings {
    let mut all = Findings::default();
    let mut reads: Vec<Reads> = Vec::new();
    let mut reads_place = None;
    let mut duplicates = None;
    for (name, result) in results {
        match result {
            Ok(finding) => {
                all.rows.extend(finding.rows);
                all.points.extend(finding.points);
                if let Some(found) = finding.reads {
                    reads.push(found);
                    reads_place = Some(all.rows.len());
                    *duplicates.get_or_insert(0) += finding.duplicates;
                }
            }
            Err(error) => {
                let is_of_curves = Curve::ALL.iter().any(|curve| name.starts_with(curve.title()));
                if !is_of_curves {
                    all.rows.push(Row::informative(name, f64::NAN, "failed", Sense::Max));
                }
                all.failures.push((name.into(), error.to_string()));
            }
        }
    }
    let mut groups: BTreeMap<&str, Vec<&Reads>> = BTreeMap::new();
    for found in &reads {
        groups.entry(&found.group).or_default().push(found);
    }
    let mut behind: Vec<Row> = groups.into_iter().map(|(group, reads)| misses::reads_row(group, &reads)).collect();
    let duplicates =
        duplicates.map(|count| Row::at_most("duplicate reads of a line in flight", count as f64, "reads", 0.0));
    behind.extend(duplicates);
    let place = reads_place.unwrap_or(all.rows.len());
    all.rows.splice(place..place, behind);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_family_stands_for_it() {
        let rows = [
            Row::at_most("hit latency", 7.0, "cycles", 7.0),
            Row::at_most("miss, MPT warm, hops 1, L 50, n 16", 1.0, "cycles", 2.0),
            Row::at_most("miss, MPT warm, hops 1, L 250, n 16", 3.0, "cycles", 2.0),
            Row::at_most("miss, MPT warm, hops 2, L 50, n 16", 1.0, "cycles", 2.0),
        ];
        let names: Vec<_> = worst_of_families(&rows).into_iter().map(|row| row.name).collect();
        let expected =
            ["hit latency", "miss, MPT warm, hops 1, L 250, n 16 (worst of 2)", "miss, MPT warm, hops 2, L 50, n 16"];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_needs_several_jobs_comes_behind_the_last_of_them_and_failures_stay_visible() {
        let reads = |issued| Some(Reads { group: "table reads per miss".into(), issued, least: 1.0 });
        let miss = |name: &str, issued, duplicates| {
            let rows = vec![Row::at_most(name, 1.0, "cycles", 1.0)];
            Ok(Finding { rows, reads: reads(issued), duplicates, ..Finding::default() })
        };
        let results =
            [("first", miss("first", 1.0, 0)), ("second", miss("second", 1.2, 3)), ("third", Err(BenchError::Replay))];
        let found = gather(results.into_iter());
        let names: Vec<_> = found.rows.iter().map(|row| (row.name.as_str(), row.pass)).collect();
        let expected = [
            ("first", true),
            ("second", true),
            ("table reads per miss", false),
            ("duplicate reads of a line in flight", false),
            ("third", false),
        ];
        assert_eq!(names, expected);
        assert_eq!(found.failures.len(), 1);
    }
}
