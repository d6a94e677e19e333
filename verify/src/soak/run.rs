//! Runs a case: drives the engine event by event and checks all that comes out of it, in every cycle.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use keywalk_contract::coverage::GroupName;
use keywalk_contract::ports::Scope;
use keywalk_contract::regs::CounterName;
use keywalk_contract::{Status, mpt_entry};
use keywalk_cosim::{self as cosim, ContextAnswer, Engine, FaultEvent, Invalidation, Response};
use keywalk_model::{Beat, ContextQuery, ContextRequest, ContextResponse, Failure, Request};

use super::answer::{Answer, by_page, is_mixture};
use super::case::{Case, Change, ChangeKind, Chapter, Event, READ_WAIT_CYCLES, Tables};
use super::sample;
use crate::coverage::Coverage;
use crate::hardware::{self, SharedMemory};
use crate::rtl_coverage::RtlCoverage;

/// Cycles without any progress after which the engine counts as stuck: far above what the slowest surroundings explain.
const PATIENCE_CYCLES: u64 = 2_000_000;
/// Reads of the status register after which an engine that has answered everything must say that it is idle. Of a long
/// request that has failed, the pages that were on their way end first: each read takes some cycles.
const IDLE_POLLS: u32 = 20_000;
/// Cycles in which all events that wait must come, whoever stalls.
const EVENT_CYCLES: u64 = 50_000;

/// What is wrong, in a word: shrinking looks for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An answer that the tables do not give.
    Answer,
    /// A response out of order.
    Order,
    /// A completion before what it has to wait for.
    Fence,
    /// A counter that does not agree with what was seen.
    Counter,
    /// An event of the fault port that does not belong to an answer, or is missing.
    FaultEvent,
    /// A broken rule of a bus or port.
    Rule,
    /// Something does not come.
    Stuck,
}

impl Kind {
    /// Name for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Order => "order",
            Self::Fence => "fence",
            Self::Counter => "counter",
            Self::FaultEvent => "fault_event",
            Self::Rule => "rule",
            Self::Stuck => "stuck",
        }
    }
}

/// Why a case failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Trouble {
    /// What kind of thing is wrong.
    pub kind: Kind,
    /// All about it.
    pub text: String,
    /// Number of the event that had been begun.
    pub event: usize,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests answered.
    pub requests: u64,
    /// Context requests answered.
    pub context_requests: u64,
    /// Invalidations completed.
    pub invalidations: u64,
    /// Clock cycles.
    pub cycles: u64,
}

impl Counts {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.context_requests += other.context_requests;
        self.invalidations += other.invalidations;
        self.cycles += other.cycles;
    }
}

/// A request under way.
struct Asked {
    request: Request,
    /// Its number since the last reset.
    sequence: u64,
}

/// An invalidation under way.
struct Fence {
    invalidation: Invalidation,
    /// The old tables end with it.
    ends_old: bool,
    /// Requests and context requests that had been accepted in the cycles before it was; none while it is not accepted.
    before: Option<(u64, u64)>,
}

/// Tables that are being replaced.
struct Old {
    tables: Tables,
    kind: ChangeKind,
    scope: Scope,
    /// The completion has come: answers from them are wrong now. Kept to see that they would have been other ones.
    is_over: bool,
}

/// What the fault port has to say about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    is_context: bool,
    function: u8,
    tag: u16,
    failure: Failure,
    index: u32,
    /// First and last possible `va`.
    va: (u64, u64),
}

/// Accepted and answered since the last reset.
#[derive(Default)]
struct SinceReset {
    requests: u64,
    errors: u64,
    context_requests: u64,
    invalidations: u64,
    lost: u64,
}

struct Runner<'a> {
    case: &'a Case,
    chapter: &'a Chapter,
    coverage: &'a mut Coverage,
    engine: Engine<SharedMemory>,
    tables: Tables,
    old: Option<Old>,
    asked: HashMap<u16, Asked>,
    contexts: HashMap<u16, (ContextRequest, u64)>,
    unanswered: BTreeSet<u64>,
    unreported: BTreeSet<u64>,
    unanswered_contexts: BTreeSet<u64>,
    /// Reports to come: cycle, function, tag, number of the request.
    reports: VecDeque<(u64, u8, u16, u64)>,
    fences: VecDeque<Fence>,
    expected_events: Vec<Expected>,
    events: Vec<FaultEvent>,
    since_reset: SinceReset,
    /// Beats accepted on request, context and invalidation port when the last reset came, and in the last cycle.
    accepted_base: [u64; 3],
    accepted: [u64; 3],
    submitted: u64,
    submitted_contexts: u64,
    counts: Counts,
    last_progress: u64,
    event: usize,
    random_state: u64,
}

/// Runs a case. What was seen is added to `coverage`; with `trace` a VCD file is written.
///
/// # Errors
/// The first thing that is wrong.
pub fn run(case: &Case, coverage: &mut Coverage, trace: Option<&Path>) -> Result<Counts, Trouble> {
    let Some(first) = case.chapters.first() else { return Ok(Counts::default()) };
    let data_bits = case.config.table_data_bits;
    let bench = |error: cosim::Error| Trouble { kind: kind_of(&error), text: error.to_string(), event: 0 };
    let engine = Engine::new(case.dut, first.scenario.shared_memory(), case.options.clone()).map_err(bench)?;
    let rtl_before = rtl_counts(case, &engine)?;
    let mut runner = Runner {
        case,
        chapter: first,
        coverage,
        engine,
        tables: first.tables(data_bits),
        old: None,
        asked: HashMap::new(),
        contexts: HashMap::new(),
        unanswered: BTreeSet::new(),
        unreported: BTreeSet::new(),
        unanswered_contexts: BTreeSet::new(),
        reports: VecDeque::new(),
        fences: VecDeque::new(),
        expected_events: Vec::new(),
        events: Vec::new(),
        since_reset: SinceReset::default(),
        accepted_base: [0; 3],
        accepted: [0; 3],
        submitted: 0,
        submitted_contexts: 0,
        counts: Counts::default(),
        last_progress: 0,
        event: 0,
        random_state: case.options.seed | 1,
    };
    runner.engine.memory().set_recording(false);
    if let Some(path) = trace {
        runner.engine.start_trace(path).map_err(bench)?;
    }
    runner.case()?;
    runner.counts.cycles = runner.engine.cycles();
    sample::case(runner.coverage, case);
    if let (Some(before), Some(counted)) = (rtl_before, rtl_counts(case, &runner.engine)?) {
        runner.coverage.rtl.merge(&counted.since(&before));
    }
    Ok(runner.counts)
}

/// What Verilator has counted so far, where it counts in this engine.
fn rtl_counts(case: &Case, engine: &Engine<SharedMemory>) -> Result<Option<RtlCoverage>, Trouble> {
    if !case.dut.is_covered() {
        return Ok(None);
    }
    let trouble = |text: String| Trouble { kind: Kind::Rule, text, event: 0 };
    let file = tempfile::NamedTempFile::new().map_err(|error| trouble(format!("a temporary file: {error}")))?;
    engine.write_coverage(file.path()).map_err(|error| trouble(error.to_string()))?;
    let text = fs::read_to_string(file.path()).map_err(|error| trouble(format!("Verilator's coverage: {error}")))?;
    RtlCoverage::from_verilator(&text).map(Some).map_err(|error| trouble(error.to_string()))
}

fn kind_of(error: &cosim::Error) -> Kind {
    match error {
        cosim::Error::Timeout { .. } => Kind::Stuck,
        _ => Kind::Rule,
    }
}

impl<'a> Runner<'a> {
    fn trouble<T>(&self, kind: Kind, text: impl Into<String>) -> Result<T, Trouble> {
        let text = format!("cycle {}: {}", self.engine.cycles(), text.into());
        Err(Trouble { kind, text, event: self.event })
    }

    fn bench<T>(&self, result: Result<T, cosim::Error>) -> Result<T, Trouble> {
        result.map_err(|error| Trouble { kind: kind_of(&error), text: error.to_string(), event: self.event })
    }

    fn case(&mut self) -> Result<(), Trouble> {
        let case = self.case;
        for (position, chapter) in case.chapters.iter().enumerate() {
            if let Some((number, _)) = chapter.events.first() {
                self.event = *number;
            }
            self.begin(chapter, position == 0)?;
            for (number, event) in &chapter.events {
                self.event = *number;
                self.perform(event)?;
            }
            if case.chapters.get(position + 1).is_none_or(|next| !next.begins_with_reset) {
                self.drain()?;
                self.check_idle()?;
            }
        }
        Ok(())
    }

    /// Exchanges the tables.
    fn begin(&mut self, chapter: &'a Chapter, is_first: bool) -> Result<(), Trouble> {
        let case = self.case;
        if !is_first && chapter.begins_with_reset {
            self.reset()?;
        }
        self.chapter = chapter;
        self.tables = chapter.tables(case.config.table_data_bits);
        self.old = None;
        let memory = self.engine.memory();
        *memory.memory_mut() = SharedMemory(Arc::clone(&self.tables.memory));
        memory.heal_all();
        for (address, fault) in &chapter.faults {
            memory.inject(*address, *fault);
        }
        let result = self.engine.setup(&chapter.scenario.setup);
        self.bench(result)?;
        if is_first {
            return Ok(());
        }
        let by = if chapter.begins_with_reset { "reset" } else { "invalidation" };
        self.coverage.hit(GroupName::Exchange, &[by]);
        if !chapter.begins_with_reset {
            let invalidation =
                Invalidation { tag: 0, function: 0, scope: Scope::All, key: 0, pd: 0, va: 0, length_bytes: 0 };
            self.invalidate(invalidation, false)?;
            self.drain()?;
        }
        Ok(())
    }

    fn perform(&mut self, event: &Event) -> Result<(), Trouble> {
        match event {
            Event::Request(request) => self.submit(request),
            Event::Context(request) => {
                while self.engine.context_driver().pending() >= self.case.waiting_max {
                    self.step_patiently()?;
                }
                let sequence = self.submitted_contexts;
                self.submitted_contexts += 1;
                self.contexts.insert(request.tag, (*request, sequence));
                self.unanswered_contexts.insert(sequence);
                let result = hardware::submit_context(&mut self.engine, request, request.tag);
                self.bench(result)
            }
            Event::Alone(request) => self.alone(request),
            Event::Change(change) => self.change(change),
            Event::Invalidate(invalidation) => self.invalidate(*invalidation, false),
            Event::Pause(cycles) => (0..*cycles).try_for_each(|_| self.step()),
            Event::Drain => self.drain(),
            Event::UntilRead(address) => {
                self.engine.memory().watch(*address);
                let end = self.engine.cycles() + READ_WAIT_CYCLES;
                while self.engine.cycles() < end && self.engine.memory().watched_reads() == 0 {
                    self.step()?;
                }
                Ok(())
            }
            Event::Reset => {
                self.reset()?;
                let result = self.engine.setup(&self.chapter.scenario.setup);
                self.bench(result)
            }
        }
    }

    fn submit(&mut self, request: &Request) -> Result<(), Trouble> {
        while self.engine.request_driver().pending() >= self.case.waiting_max {
            self.step_patiently()?;
        }
        let sequence = self.submitted;
        self.submitted += 1;
        self.asked.insert(request.tag, Asked { request: *request, sequence });
        self.unanswered.insert(sequence);
        self.unreported.insert(sequence);
        let result = self.engine.submit(&hardware::request(request, request.tag));
        self.bench(result)
    }

    /// A request with nothing beside it: the counters tell what was cached.
    fn alone(&mut self, request: &Request) -> Result<(), Trouble> {
        const WATCHED: [CounterName; 8] = [
            CounterName::MptHits,
            CounterName::TlbHits,
            CounterName::TlbMisses,
            CounterName::HemHits,
            CounterName::HemMisses,
            CounterName::MtrLowerHits,
            CounterName::MtrUpperHits,
            CounterName::MtrUpperMisses,
        ];
        self.drain()?;
        self.wait_until_idle()?;
        let read = |runner: &mut Self| -> Result<[u64; 8], Trouble> {
            let mut values = [0; 8];
            for (value, name) in values.iter_mut().zip(WATCHED) {
                let result = runner.engine.counter(name);
                *value = runner.bench(result)?;
            }
            Ok(values)
        };
        let before = read(self)?;
        self.submit(request)?;
        self.drain()?;
        self.wait_until_idle()?;
        let after = read(self)?;
        let mut difference = [0; 8];
        for (position, value) in difference.iter_mut().enumerate() {
            *value = after[position] - before[position];
        }
        let answer = Answer::of(&self.chapter.scenario.model, &self.tables, request);
        sample::alone(self.coverage, &answer, difference);
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), Trouble> {
        // One change at a time, so that an answer is from old tables or from new ones.
        while self.fences.iter().any(|fence| fence.ends_old) {
            self.step_patiently()?;
        }
        let mut memory = (*self.tables.memory).clone();
        change.apply(&mut memory);
        let new = Tables { memory: Arc::new(memory), faults: Arc::clone(&self.tables.faults) };
        *self.engine.memory().memory_mut() = SharedMemory(Arc::clone(&new.memory));
        let tables = std::mem::replace(&mut self.tables, new);
        self.old = Some(Old { tables, kind: change.kind, scope: change.invalidation.scope, is_over: false });
        for (cycles, request) in &change.during {
            (0..*cycles).try_for_each(|_| self.step())?;
            self.submit(request)?;
        }
        (0..change.delay_cycles).try_for_each(|_| self.step())?;
        self.invalidate(change.invalidation, true)
    }

    fn invalidate(&mut self, invalidation: Invalidation, ends_old: bool) -> Result<(), Trouble> {
        let result = self.engine.submit_invalidation(&invalidation);
        self.bench(result)?;
        self.fences.push_back(Fence { invalidation, ends_old, before: None });
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Trouble> {
        let in_flight = match (self.fences.is_empty(), self.unanswered.is_empty()) {
            (false, _) => "fence",
            (true, false) => "requests",
            (true, true) => "nothing",
        };
        self.coverage.hit(GroupName::Reset, &[in_flight]);
        let result = self.engine.reset();
        self.bench(result)?;
        self.old = None;
        self.asked.clear();
        self.contexts.clear();
        self.unanswered.clear();
        self.unreported.clear();
        self.unanswered_contexts.clear();
        self.reports.clear();
        self.fences.clear();
        self.expected_events.clear();
        self.events.clear();
        self.since_reset = SinceReset::default();
        self.submitted = 0;
        self.submitted_contexts = 0;
        self.accepted_base = self.accepted_now();
        self.accepted = [0; 3];
        self.last_progress = self.engine.cycles();
        Ok(())
    }

    fn accepted_now(&mut self) -> [u64; 3] {
        [
            self.engine.request_driver().accepted(),
            self.engine.context_driver().accepted(),
            self.engine.invalidation_driver().accepted(),
        ]
    }

    /// A step of a wait, which must not last for ever.
    fn step_patiently(&mut self) -> Result<(), Trouble> {
        if self.engine.cycles() - self.last_progress > PATIENCE_CYCLES {
            let (requests, contexts) = (self.unanswered.len(), self.unanswered_contexts.len());
            let unreported = self.unreported.len();
            let fences = self.fences.len();
            return self.trouble(
                Kind::Stuck,
                format!(
                    "nothing came for {PATIENCE_CYCLES} cycles; without answer: {requests} requests, {contexts} context \
                     requests, {fences} invalidations; {unreported} requests not reported done"
                ),
            );
        }
        self.step()
    }

    /// Until everything is answered, reported and completed.
    fn drain(&mut self) -> Result<(), Trouble> {
        self.last_progress = self.engine.cycles();
        while !(self.unreported.is_empty() && self.unanswered_contexts.is_empty() && self.fences.is_empty()) {
            self.step_patiently()?;
        }
        Ok(())
    }

    fn wait_until_idle(&mut self) -> Result<(), Trouble> {
        for _ in 0..IDLE_POLLS {
            let result = self.engine.is_idle();
            let is_idle = self.bench(result)?;
            self.collect()?;
            if is_idle {
                return Ok(());
            }
        }
        self.trouble(Kind::Stuck, "`status.idle` stays 0 although everything is answered and reported")
    }

    /// A number below `end` that follows from the case, whatever parts of it are left out.
    fn next_below(&mut self, end: u64) -> u64 {
        self.random_state ^= self.random_state << 13;
        self.random_state ^= self.random_state >> 7;
        self.random_state ^= self.random_state << 17;
        self.random_state % end
    }

    fn step(&mut self) -> Result<(), Trouble> {
        let now = self.engine.cycles();
        let mut position = 0;
        while let Some((cycle, function, tag, sequence)) = self.reports.get(position).copied() {
            if cycle > now {
                position += 1;
                continue;
            }
            self.reports.swap_remove_back(position);
            self.unreported.remove(&sequence);
            let result = self.engine.report_done(function, tag);
            self.bench(result)?;
        }
        let result = self.engine.step();
        self.bench(result)?;
        self.collect()
    }

    /// Takes and checks what came out.
    fn collect(&mut self) -> Result<(), Trouble> {
        while let Some(response) = self.engine.pop_response() {
            self.response(&response)?;
        }
        while let Some(answer) = self.engine.pop_context() {
            self.context_answer(&answer)?;
        }
        self.note_invalidations();
        while let Some(tag) = self.engine.pop_invalidated() {
            self.completion(tag)?;
        }
        while let Some(event) = self.engine.pop_fault() {
            self.events.push(event);
        }
        Ok(())
    }

    /// Notes what had been accepted before an invalidation.
    fn note_invalidations(&mut self) {
        let now = self.accepted_now();
        let accepted: [u64; 3] = std::array::from_fn(|port| now[port] - self.accepted_base[port]);
        // Those accepted in the same cycle may be on either side of it.
        let before = (self.accepted[0], self.accepted[1]);
        for _ in self.accepted[2]..accepted[2] {
            let waiting = self.fences.iter().filter(|fence| fence.before.is_some()).count();
            let Some(fence) = self.fences.iter_mut().find(|fence| fence.before.is_none()) else { break };
            fence.before = Some(before);
            let requests = self.unanswered.first().is_some_and(|first| *first < before.0);
            let contexts = self.unanswered_contexts.first().is_some_and(|first| *first < before.1);
            let in_flight = match (requests, contexts) {
                (true, true) => "requests_and_context",
                (true, false) => "requests",
                (false, true) => "context",
                (false, false) if !self.unreported.is_empty() => "dma",
                (false, false) => "nothing",
            };
            let scope = sample::scope(fence.invalidation.scope);
            self.coverage.hit(GroupName::Invalidation, &[scope, in_flight]);
            self.coverage.hit(GroupName::InvalidationDepth, &[["0", "1", "2", "3_or_more"][waiting.min(3)]]);
        }
        self.accepted = accepted;
        self.since_reset.requests = accepted[0];
        self.since_reset.context_requests = accepted[1];
    }

    fn completion(&mut self, tag: u16) -> Result<(), Trouble> {
        self.last_progress = self.engine.cycles();
        let Some(fence) = self.fences.pop_front() else {
            return self
                .trouble(Kind::Fence, format!("a completion with tag {tag:#x}, and no invalidation is waiting"));
        };
        let wanted = fence.invalidation.tag;
        if tag != wanted {
            return self.trouble(Kind::Fence, format!("the completion has tag {tag:#x}, not {wanted:#x}"));
        }
        let Some((requests, contexts)) = fence.before else {
            return self.trouble(Kind::Fence, format!("invalidation {tag:#x} is complete before it was accepted"));
        };
        let is_before = |set: &BTreeSet<u64>, end: u64| set.first().copied().filter(|first| *first < end);
        let late = [
            (is_before(&self.unanswered, requests), "request", "answered"),
            (is_before(&self.unanswered_contexts, contexts), "context request", "answered"),
            (
                is_before(&self.unreported, requests).filter(|_| self.case.config.done_tracking),
                "request",
                "reported done",
            ),
        ];
        if let Some((Some(number), what, state)) = late.into_iter().find(|(number, ..)| number.is_some()) {
            return self.trouble(
                Kind::Fence,
                format!(
                    "invalidation {tag:#x} is complete although {what} {number} since reset, accepted before it, is not \
                     {state}; {:?}",
                    fence.invalidation
                ),
            );
        }
        self.since_reset.invalidations += 1;
        self.counts.invalidations += 1;
        if fence.ends_old
            && let Some(old) = &mut self.old
        {
            old.is_over = true;
        }
        Ok(())
    }

    fn response(&mut self, response: &Response) -> Result<(), Trouble> {
        self.last_progress = self.engine.cycles();
        let Some(Asked { request, sequence }) = self.asked.remove(&response.tag) else {
            return self.trouble(Kind::Answer, format!("a response to tag {:#x}, which nobody asked", response.tag));
        };
        let is_in_turn = self.unanswered.first() == Some(&sequence);
        if self.case.config.in_order && !is_in_turn {
            let first = self.unanswered.first().copied();
            return self.trouble(
                Kind::Order,
                format!("response to request {sequence} since reset before that to {first:?}: {request:x?}"),
            );
        }
        self.unanswered.remove(&sequence);
        let delay = self.next_below(self.case.surroundings.report_cycles_max + 1);
        self.reports.push_back((self.engine.cycles() + delay, response.function, response.tag, sequence));
        let beats: Result<Vec<Beat>, _> = response.segments.iter().map(hardware::beat).collect();
        let beats = match beats {
            Ok(beats) => beats,
            Err(undefined) => {
                return self.trouble(Kind::Answer, format!("{undefined} in the response to {request:x?}"));
            }
        };

        let model = &self.chapter.scenario.model;
        let new = Answer::of(model, &self.tables, &request);
        let new_beats = new.response.beats(&request);
        let old = self.old.as_ref().map(|old| (old, Answer::of(model, &old.tables, &request)));
        let old_beats = old.as_ref().map(|(_, answer)| answer.response.beats(&request));
        let differs = old_beats.as_ref().is_some_and(|old| *old != new_beats);
        // Where both tables refuse the whole, page by page they may still grant it.
        let is_racing = old.as_ref().is_some_and(|(old, _)| !old.is_over);
        let verdict = if beats == new_beats {
            Some("new")
        } else if !is_racing {
            None
        } else if old_beats.as_ref() == Some(&beats) {
            Some("old")
        } else {
            let is_mixed = old.as_ref().is_some_and(|(old, answer)| {
                // A zero-based region that changes between two looks at its entry is not VALID in between.
                let is_zero_based = |answer: &Answer| answer.own_va(&request) != request.va;
                let refused =
                    keywalk_model::Response { segments: Vec::new(), failure: Some(Failure::of(Status::EntryState)) };
                let is_between = answer.own_va(&request) != new.own_va(&request);
                if is_between && is_zero_based(answer) && beats == refused.beats(&request) {
                    return true;
                }
                // With a new entry, too, what is cached of the pages may be old. Pages of another size are other pages.
                let size = |answer: &Answer| answer.mapping_entry().map(|entry| entry.get(mpt_entry::PBL_BUF_PG_SZ));
                let is_by_page = old.kind.is_by_page() || size(answer) == size(&new);
                let Some(entry) = answer.mapping_entry().filter(|_| is_by_page) else { return false };
                let base = model.table_set(request.function).page_shift_base;
                let page_shift = u32::from(base) + entry.get(mpt_entry::PBL_BUF_PG_SZ) as u32;
                let own_va = answer.own_va(&request);
                let [old_pages, new_pages] =
                    [&old.tables, &self.tables].map(|tables| by_page(model, tables, &request, own_va, page_shift));
                is_mixture(&old_pages, &new_pages, &request, &beats, &model.controls)
            });
            is_mixed.then_some("mixed")
        };
        let Some(verdict) = verdict else {
            let (_, steps) = model.explain(&self.tables, &request);
            let steps: Vec<_> = steps.iter().take(60).map(|step| format!("    {step}")).collect();
            let old_text = match (&old, &old_beats) {
                (Some((old, _)), Some(beats)) if differs => format!(
                    "\nof the old tables ({} changed, {}): {beats:x?}",
                    old.kind.name(),
                    if old.is_over { "invalidation complete" } else { "invalidation not complete" }
                ),
                _ => String::new(),
            };
            let walk = steps.join("\n");
            return self.trouble(
                Kind::Answer,
                format!("{request:x?}\nexpected {new_beats:x?}{old_text}\ngot      {beats:x?}\nthe walk:\n{walk}"),
            );
        };
        let order = if self.case.config.in_order { "in_order" } else { "any" };
        self.coverage.hit(GroupName::Overtaking, &[order, if is_in_turn { "in_turn" } else { "overtook" }]);
        if let Some((old, _)) = &old
            && (differs || verdict == "mixed")
        {
            let (scope, change) = (sample::scope(old.scope), old.kind.name());
            if old.is_over {
                self.coverage.hit(GroupName::AfterFence, &[scope, change]);
            } else if verdict != "mixed" || old.kind.is_by_page() {
                self.coverage.hit(GroupName::Race, &[scope, change, verdict]);
            }
        }
        let answer = match (verdict, old) {
            ("old", Some((_, answer))) => answer,
            _ => new,
        };
        let last = beats.last().copied();
        if verdict != "mixed" {
            sample::response(self.coverage, self.case, self.chapter, &self.tables, &request, &answer, &beats);
        }
        self.counts.requests += 1;
        if let Some(last) = last {
            self.since_reset.errors += u64::from(last.status != Status::Ok);
            if last.status.names_a_table() {
                let set = model.table_set(request.function);
                let is_of_entry = last.table != keywalk_contract::hem::TABLE_CODE_MTR;
                let va = answer.own_va(&request);
                let last_va = if is_of_entry { va } else { va.wrapping_add(u64::from(request.length) - 1) };
                self.expected_events.push(Expected {
                    is_context: false,
                    function: request.function,
                    tag: request.tag,
                    failure: Failure { status: last.status, table: last.table, hop: last.hop },
                    index: set.mpt_index(answer.last_key(&request)),
                    va: (va, last_va),
                });
            }
        }
        Ok(())
    }

    fn context_answer(&mut self, answer: &ContextAnswer) -> Result<(), Trouble> {
        self.last_progress = self.engine.cycles();
        let Some((request, sequence)) = self.contexts.remove(&answer.tag) else {
            return self
                .trouble(Kind::Answer, format!("an answer to context tag {:#x}, which nobody asked", answer.tag));
        };
        self.unanswered_contexts.remove(&sequence);
        let model = &self.chapter.scenario.model;
        let new = model.context(&self.tables, &request);
        let is_answer = |expected: &ContextResponse| {
            (answer.function, answer.status, answer.table, answer.hop, answer.address)
                == (expected.function, expected.status.code(), expected.table, expected.hop, expected.address)
        };
        let old = self.old.as_ref().filter(|old| !old.is_over).map(|old| model.context(&old.tables, &request));
        let Some(found) = [Some(new), old].into_iter().flatten().find(is_answer) else {
            let (_, steps) = model.explain_context(&self.tables, &request);
            let steps: Vec<_> = steps.iter().map(|step| format!("    {step}")).collect();
            let walk = steps.join("\n");
            return self.trouble(
                Kind::Answer,
                format!("{request:x?}\nexpected {new:x?}\nor       {old:x?}\ngot      {answer:x?}\nthe walk:\n{walk}"),
            );
        };
        sample::context(self.coverage, self.chapter, &request, &found);
        self.counts.context_requests += 1;
        if found.status.names_a_table() {
            let (index, va) = match request.query {
                ContextQuery::Lookup { index, .. } => (index & 0xff_ffff, 0),
                ContextQuery::Walk { index, .. } => (0, u64::from(index)),
            };
            self.expected_events.push(Expected {
                is_context: true,
                function: request.function,
                tag: request.tag,
                failure: Failure { status: found.status, table: found.table, hop: found.hop },
                index,
                va: (va, va),
            });
        }
        Ok(())
    }

    /// After everything has ended: counters and events agree with what was seen.
    fn check_idle(&mut self) -> Result<(), Trouble> {
        self.wait_until_idle()?;
        let mut counter = |name: CounterName| {
            let result = self.engine.counter(name);
            result.map_err(|error| Trouble { kind: kind_of(&error), text: error.to_string(), event: self.event })
        };
        let lost = counter(CounterName::FaultsLost)?;
        let pairs = [
            ("requests", counter(CounterName::Requests)?, self.since_reset.requests),
            ("errors", counter(CounterName::Errors)?, self.since_reset.errors),
            ("context_requests", counter(CounterName::ContextRequests)?, self.since_reset.context_requests),
            ("invalidations", counter(CounterName::Invalidations)?, self.since_reset.invalidations),
            ("stray_reports", counter(CounterName::StrayReports)?, 0),
        ];
        if let Some((name, counted, seen)) = pairs.into_iter().find(|(_, counted, seen)| counted != seen) {
            return self.trouble(Kind::Counter, format!("counter `{name}` is {counted}, {seen} were seen since reset"));
        }
        // The rest may wait at a port that is not drained at once.
        let come = (self.expected_events.len() as u64).saturating_sub(lost - self.since_reset.lost);
        let end = self.engine.cycles() + EVENT_CYCLES;
        while (self.events.len() as u64) < come && self.engine.cycles() < end {
            self.step()?;
        }
        self.check_events(lost)
    }

    /// Every event belongs to an answer, and only as many are missing as were lost.
    fn check_events(&mut self, lost: u64) -> Result<(), Trouble> {
        let events = std::mem::take(&mut self.events);
        let mut expected: HashMap<(bool, u16), Expected> =
            std::mem::take(&mut self.expected_events).into_iter().map(|one| ((one.is_context, one.tag), one)).collect();
        for event in events {
            let Some(one) = expected.remove(&(event.is_context, event.tag)) else {
                return self.trouble(Kind::FaultEvent, format!("{event:x?} belongs to no answer that names a table"));
            };
            let failure = (event.status, event.table, event.hop);
            let is_right = event.function == one.function
                && failure == (one.failure.status.code(), one.failure.table, one.failure.hop)
                && event.index == one.index
                && (one.va.0..=one.va.1).contains(&event.va);
            if !is_right {
                return self.trouble(Kind::FaultEvent, format!("got {event:x?}, expected {one:x?}"));
            }
            self.coverage.hit(GroupName::FaultPort, &[if event.is_context { "context" } else { "request" }, "sent"]);
        }
        for one in expected.values() {
            self.coverage.hit(GroupName::FaultPort, &[if one.is_context { "context" } else { "request" }, "lost"]);
        }
        // Of the whole time since reset; those of earlier chapters have been counted.
        let missing = expected.len() as u64;
        self.since_reset.lost += missing;
        if self.since_reset.lost != lost {
            let seen = self.since_reset.lost;
            let first = expected.values().next();
            return self.trouble(
                Kind::FaultEvent,
                format!(
                    "{seen} events are missing since reset, the engine says that it lost {lost}; one is {first:x?}"
                ),
            );
        }
        Ok(())
    }
}
