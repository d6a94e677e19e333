//! Invalidation is a fence: after its completion no answer uses what the tables held before; and a reset at any moment
//! leaves a working engine.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use keywalk_contract::ports::Scope;
use keywalk_contract::regs::CounterName;
use keywalk_contract::{Config, Table};
use keywalk_cosim::{Dut, Engine, EngineOptions, Invalidation, LineMemory, Setup, dut};
use keywalk_image::{
    Description, Image, PageList, RegionDescription, Rights, SparseMemory, TableDescription, TableSetDescription,
};
use keywalk_model::{Beat, Request};
use keywalk_verify::hardware::{self, SharedMemory};
use keywalk_verify::scenario::{Scenario, model_table_set};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Pages of each region: more than a split context of any engine here holds.
const PAGES: u64 = 40;
const FIRST_VA: u64 = 0x10_0000;
const LIMIT_CYCLES: u64 = 400_000;
/// MPT indices of the region that changes and of one that does not. They have different epochs.
const TARGET: u32 = 5;
const OTHER: u32 = 6;
const SCOPES: [Scope; 5] = [Scope::Region, Scope::Range, Scope::ProtectionDomain, Scope::Function, Scope::All];

/// Memory whose tables change under the engine.
#[derive(Clone)]
struct Changing(Rc<RefCell<Arc<SparseMemory>>>);

impl LineMemory for Changing {
    fn line(&self, address: u64) -> Option<[u8; keywalk_image::LINE_BYTES]> {
        self.0.borrow().line(address)
    }
}

/// The MPT, of one hop.
fn mpt() -> TableDescription {
    TableDescription {
        table: Table::Mpt,
        hop: 1,
        ba_pg_sz: 0,
        buf_pg_sz: 0,
        entry_bytes: 64,
        bt_num: 1,
        object_count: 0,
    }
}

/// Two regions of scattered pages. Of two images with one seed for the tables, the tables lie at the same places.
fn image(tables_seed: u64, pages_seed: u64, target_pd: u32) -> Image {
    let region = |index, pd, seed| RegionDescription {
        name: format!("region_{index}"),
        length_bytes: PAGES * 4096,
        va: FIRST_VA,
        pd,
        rights: Rights::ALL,
        index: Some(index),
        hop: Some(2),
        pages: PageList::Scattered { seed, run_pages: 1 },
        ..RegionDescription::default()
    };
    let set = TableSetDescription {
        num_mpts_log2: 10,
        tables: vec![mpt()],
        regions: vec![region(TARGET, target_pd, pages_seed), region(OTHER, 7, 1)],
        ..TableSetDescription::default()
    };
    let description = Description { seed: tables_seed, table_sets: vec![set], ..Description::default() };
    description.build().expect("plain regions")
}

/// What the tables are before and after a change.
struct World {
    memory: SharedMemory,
    model: keywalk_model::Engine,
}

impl World {
    fn new(image: &Image) -> Self {
        let mut model = keywalk_model::Engine::new(vec![model_table_set(&image.table_sets[0])]);
        model.controls.merge_bytes_max = 0;
        Self { memory: SharedMemory(Arc::new(image.memory.clone())), model }
    }

    fn beats(&self, request: &Request) -> Vec<Beat> {
        self.model.translate(&self.memory, request).beats(request)
    }
}

fn request_of(index: u32, pd: u32, tag: u16, page: u64, pages: u64) -> Request {
    let length = if pages == 1 { 64 } else { (pages * 4096 - 128) as u32 };
    let va = FIRST_VA + page * 4096 + 64;
    Request { tag, function: 0, operation: 0, key: index << 8, pd, qpn: 0, va, length }
}

/// What is under way when the invalidation comes.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The translation is cached.
    Hit,
    /// Nothing is.
    MptMiss,
    /// The MPT entry is.
    TlbMiss,
    /// A request of several pages.
    Pages,
    /// A request of more pages than are held at once.
    Long,
    /// Many requests for the same lines.
    Shared,
}

const KINDS: [Kind; 6] = [Kind::Hit, Kind::MptMiss, Kind::TlbMiss, Kind::Pages, Kind::Long, Kind::Shared];

/// The adversary: an engine, tables that change, and a caller that reports when it likes.
struct Adversary {
    engine: Engine<Changing>,
    memory: Changing,
    worlds: [World; 2],
    /// Which of the worlds is in memory.
    current: usize,
    random: ChaCha8Rng,
    next_tag: u16,
    /// Requests that are not answered, by tag.
    asked: HashMap<u16, Request>,
    /// Answered responses with the cycle of their report.
    unreported: Vec<(u64, u16)>,
    report_cycles_max: u64,
    /// Tags whose DMA is reported.
    reported: HashSet<u16>,
    /// Since the invalidation in progress was sent: the world before it, and whether it is complete.
    fence: Option<usize>,
    /// PD of requests and invalidations.
    pd: u32,
    /// Function of requests, invalidations and reports. Function 0 has table set 0, any other table set 1.
    function: u8,
    stale_answers: u64,
    strays: u64,
}

impl Adversary {
    fn new(dut: &'static Dut, images: [&Image; 2], options: EngineOptions) -> Self {
        let seed = options.seed;
        let worlds = images.map(World::new);
        let memory = Changing(Rc::new(RefCell::new(worlds[0].memory.0.clone())));
        let options = EngineOptions { automatic_done: false, done_delay_cycles: 0..=0, ..options };
        let engine = Engine::new(dut, memory.clone(), options).expect("the bench starts");
        let mut adversary = Self {
            engine,
            memory,
            worlds,
            current: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
            next_tag: 0,
            asked: HashMap::new(),
            unreported: Vec::new(),
            report_cycles_max: 30,
            reported: HashSet::new(),
            fence: None,
            pd: 7,
            function: 0,
            stale_answers: 0,
            strays: 0,
        };
        adversary.set_up();
        adversary
    }

    fn set_up(&mut self) {
        let mut controls = hardware::controls(self.worlds[0].model.controls);
        controls.merge_bytes_max = 0;
        let set = hardware::table_set(&self.worlds[self.current].model.table_sets[0]);
        let mut setup = Setup { table_sets: vec![set], controls, ..Setup::default() };
        if self.function != 0 {
            setup.table_sets.insert(0, hardware::table_set(&keywalk_model::TableSet::default()));
            setup.function_map = vec![(self.function, 1)];
        }
        self.engine.setup(&setup).expect("registers answer");
    }

    fn submit(&mut self, index: u32, page: u64, pages: u64) -> u16 {
        self.submit_of(index, self.pd, page, pages)
    }

    fn submit_of(&mut self, index: u32, pd: u32, page: u64, pages: u64) -> u16 {
        let tag = self.next_tag;
        self.next_tag += 1;
        let request = Request { function: self.function, ..request_of(index, pd, tag, page, pages) };
        self.asked.insert(tag, request);
        self.engine.submit(&hardware::request(&request, tag)).expect("a legal request");
        tag
    }

    /// Whether the beats are those of the old tables, of the new ones, or beat for beat of either.
    fn check(&mut self, request: &Request, beats: &[Beat], may_be_old: bool) {
        let new = self.worlds[self.current].beats(request);
        if beats == new {
            return;
        }
        let old = self.fence.map(|old| self.worlds[old].beats(request)).unwrap_or_default();
        let is_one_of =
            |(position, beat): (usize, &Beat)| old.get(position) == Some(beat) || new.get(position) == Some(beat);
        let is_mixed = beats.iter().enumerate().all(is_one_of) && beats.last().is_some_and(|beat| beat.last);
        assert!(may_be_old && is_mixed, "got {beats:x?}\nold {old:x?}\nnew {new:x?}");
        self.stale_answers += 1;
    }

    /// One cycle. `may_be_old`: no completion has been sent since the tables were changed.
    fn step(&mut self, may_be_old: bool) {
        let now = self.engine.cycles();
        let mut index = 0;
        while index < self.unreported.len() {
            let (cycle, tag) = self.unreported[index];
            if cycle <= now {
                self.unreported.swap_remove(index);
                self.reported.insert(tag);
                self.engine.report_done(self.function, tag).expect("a legal report");
            } else {
                index += 1;
            }
        }
        self.engine.step().expect("the bus rules hold");
        while let Some(response) = self.engine.pop_response() {
            let request = self.asked.remove(&response.tag).expect("it was asked for");
            let beats: Vec<_> =
                response.segments.iter().map(|segment| hardware::beat(segment).expect("a legal beat")).collect();
            self.check(&request, &beats, may_be_old);
            let delay = self.random.random_range(0..=self.report_cycles_max);
            self.unreported.push((self.engine.cycles() + delay, response.tag));
        }
    }

    fn run(&mut self, cycles: u64) {
        for _ in 0..cycles {
            self.step(self.fence.is_some());
        }
    }

    /// Until everything is answered and reported.
    fn drain(&mut self) {
        let end = self.engine.cycles() + LIMIT_CYCLES;
        while !(self.asked.is_empty() && self.unreported.is_empty()) {
            assert!(self.engine.cycles() < end, "{} requests are not answered", self.asked.len());
            self.step(self.fence.is_some());
        }
    }

    /// Changes the tables and sends an invalidation.
    fn change(&mut self, scope: Scope) {
        self.fence = Some(self.current);
        self.current = 1 - self.current;
        *self.memory.0.borrow_mut() = self.worlds[self.current].memory.0.clone();
        self.invalidate(scope);
    }

    fn invalidate(&mut self, scope: Scope) {
        let key = TARGET << 8;
        let length_bytes = PAGES * 4096;
        let invalidation =
            Invalidation { tag: 77, function: self.function, scope, key, pd: self.pd, va: FIRST_VA, length_bytes };
        self.engine.submit_invalidation(&invalidation).expect("a legal invalidation");
    }

    /// Runs until the completion; asks for the target now and then. Everything asked for before must be answered and
    /// reported by then. Returns the cycles that it took.
    fn complete(&mut self, asks_every: u64) -> u64 {
        let start = self.engine.cycles();
        let before: HashSet<_> = self.asked.keys().copied().collect();
        let unreported: HashSet<_> = self.unreported.iter().map(|(_, tag)| *tag).collect();
        // Of these some may not be accepted yet.
        let waiting = self.engine.request_driver().pending();
        loop {
            let cycles = self.engine.cycles() - start;
            assert!(cycles < LIMIT_CYCLES, "no completion, not answered: {:x?}", self.asked);
            if asks_every > 0 && cycles.is_multiple_of(asks_every) {
                let page = self.random.random_range(0..PAGES);
                self.submit(TARGET, page, 1);
            }
            self.step(true);
            if let Some(tag) = self.engine.pop_invalidated() {
                assert_eq!(tag, 77);
                break;
            }
        }
        if waiting == 0 {
            let unanswered = before.iter().find(|tag| self.asked.contains_key(tag));
            assert_eq!(unanswered, None, "complete before an earlier response has left");
            let late = before.union(&unreported).find(|tag| !self.reported.contains(tag));
            assert_eq!(late, None, "complete before an earlier response was reported done");
        }
        self.fence = None;
        self.engine.cycles() - start
    }

    /// Brings the target into the caches, as far as the kind wants it, and sends the requests of the kind.
    fn prepare(&mut self, kind: Kind) {
        match kind {
            Kind::Hit | Kind::TlbMiss | Kind::Shared => {
                self.submit(TARGET, 0, 1);
                self.drain();
            }
            Kind::MptMiss | Kind::Pages | Kind::Long => {}
        }
        match kind {
            Kind::Hit => (0..3).for_each(|_| _ = self.submit(TARGET, 0, 1)),
            Kind::MptMiss => (0..2).for_each(|page| _ = self.submit(TARGET, page, 1)),
            Kind::TlbMiss => (0..2).for_each(|page| _ = self.submit(TARGET, 9 * page + 3, 1)),
            Kind::Pages => (0..2).for_each(|page| _ = self.submit(TARGET, page, 4)),
            Kind::Long => _ = self.submit(TARGET, 0, PAGES),
            Kind::Shared => (8..14).for_each(|page| _ = self.submit(TARGET, page, 1)),
        }
    }

    /// One attempt: requests, a change of the tables `offset` cycles later, and requests after the completion.
    fn attempt(&mut self, kind: Kind, scope: Scope, offset: u64) {
        self.prepare(kind);
        self.run(offset);
        self.change(scope);
        let asks_every = self.random.random_range(0..8);
        self.complete(asks_every);
        for page in [0, 3, 9, 12] {
            self.submit(TARGET, page, 1);
        }
        self.submit(OTHER, 1, 1);
        self.drain();
        self.next_tag %= 1 << 14;
        self.reported.clear();
    }

    /// Reports of responses that nobody waits for, while nothing is outstanding.
    fn report_strays(&mut self, count: u64) {
        self.drain();
        self.engine.run(20).expect("the bus rules hold");
        for _ in 0..count {
            let tag = self.random.random();
            self.engine.report_done(0, tag).expect("a legal report");
        }
        self.strays += count;
        self.engine.run(20 + count).expect("the bus rules hold");
    }
}

#[test]
fn nothing_old_is_answered_after_the_completion_at_any_offset() {
    let images = [image(1, 100, 7), image(1, 200, 7)];
    for (dut, step) in [(&dut::SMALL, 1), (&dut::DEFAULT, 13)] {
        let mut stale_answers = 0;
        for options in [EngineOptions { seed: 5, ..EngineOptions::default() }, EngineOptions::rough(10, 6)] {
            let mut adversary = Adversary::new(dut, [&images[0], &images[1]], options);
            for kind in KINDS {
                for scope in SCOPES {
                    for offset in (0..100).step_by(step) {
                        adversary.attempt(kind, scope, offset);
                    }
                }
                adversary.report_strays(5);
            }
            let counted = adversary.engine.counter(CounterName::StrayReports).expect("registers answer");
            assert_eq!(counted, adversary.strays);
            stale_answers += adversary.stale_answers;
        }
        assert!(stale_answers > 0, "the test never saw an old answer: it changes the tables too early");
    }
}

#[test]
fn a_region_that_is_taken_away_is_refused_after_the_completion() {
    // The entry itself changes: another protection domain, and back.
    let images = [image(1, 100, 7), image(1, 100, 9)];
    let mut adversary = Adversary::new(&dut::SMALL, [&images[0], &images[1]], EngineOptions::rough(10, 7));
    for offset in 0..80 {
        for kind in [Kind::Hit, Kind::MptMiss, Kind::TlbMiss] {
            adversary.attempt(kind, SCOPES[offset as usize % 5], offset);
        }
    }
    assert!(adversary.stale_answers > 0);
}

#[test]
fn a_region_that_goes_to_another_pd_is_told_by_an_invalidation_of_the_old_pd_alone() {
    // PDs of three buckets, and one of the first one's bucket. Requests of any of them ask for the region, so that an entry
    // is fetched by others than its owner, too.
    const PDS: [u32; 4] = [7, 9, 0x30, 0x1007];
    for (dut, seed) in [(&dut::SMALL, 17), (&dut::SMALL, 18), (&dut::DEFAULT, 19)] {
        let mut stale_answers = 0;
        for (first, second) in [(7, 9), (7, 0x1007), (9, 0x30)] {
            // While requests are under way the pages stay, since an old entry may be used with new pages then.
            for is_quiet in [false, true] {
                let images = [image(1, 100, first), image(1, if is_quiet { 200 } else { 100 }, second)];
                let options = if seed == 17 { EngineOptions::default() } else { EngineOptions::rough(10, seed) };
                let mut adversary = Adversary::new(dut, [&images[0], &images[1]], EngineOptions { seed, ..options });
                for offset in 0..80 {
                    for _ in 0..2 {
                        let pd = PDS[adversary.random.random_range(0..4)];
                        let page = adversary.random.random_range(0..4);
                        adversary.submit_of(TARGET, pd, page, 1);
                        if adversary.random.random() {
                            adversary.drain();
                        }
                    }
                    for pd in PDS {
                        adversary.submit_of(TARGET, pd, 0, 1);
                    }
                    if is_quiet {
                        adversary.drain();
                    } else {
                        adversary.run(offset % 60);
                    }
                    adversary.pd = [first, second][adversary.current];
                    adversary.change(Scope::ProtectionDomain);
                    adversary.complete(if is_quiet { 0 } else { offset % 5 });
                    for pd in PDS {
                        adversary.submit_of(TARGET, pd, offset % 4, 1);
                        adversary.submit_of(TARGET, pd, 0, 2);
                    }
                    adversary.submit_of(OTHER, 7, 1, 1);
                    adversary.drain();
                    adversary.next_tag %= 1 << 14;
                    adversary.reported.clear();
                }
                stale_answers += adversary.stale_answers;
            }
        }
        assert!(stale_answers > 0, "the test never saw an old answer: it changes the tables too early");
    }
}

#[test]
fn tables_that_move_are_found_after_bt0_is_rewritten() {
    let images = [image(1, 100, 7), image(2, 200, 7)];
    for dut in [&dut::SMALL, &dut::DEFAULT] {
        let mut adversary = Adversary::new(dut, [&images[0], &images[1]], EngineOptions::rough(10, 8));
        for round in 0..60 {
            adversary.submit(TARGET, round % PAGES, 1);
            adversary.drain();
            // The old tables stay where they are, for requests under way; the caller has none here.
            adversary.fence = Some(adversary.current);
            adversary.current = 1 - adversary.current;
            *adversary.memory.0.borrow_mut() = adversary.worlds[adversary.current].memory.0.clone();
            adversary.set_up();
            adversary.invalidate(Scope::All);
            adversary.complete(0);
            for page in 0..6 {
                adversary.submit(TARGET, page, 1);
                adversary.submit(OTHER, page, 1);
            }
            adversary.drain();
        }
    }
}

#[test]
fn an_invalidation_finds_the_tables_of_its_function() {
    let images = [image(1, 100, 7), image(1, 200, 7)];
    for dut in [&dut::SMALL, &dut::SMALL_ORDERED] {
        for function in [1, 0x35, 0xff] {
            let mut adversary = Adversary::new(dut, [&images[0], &images[1]], EngineOptions::rough(10, 9));
            adversary.function = function;
            adversary.set_up();
            for scope in SCOPES.into_iter().cycle().take(20) {
                let ask = |adversary: &mut Adversary| {
                    for page in 0..6 {
                        adversary.submit(TARGET, page, 1);
                    }
                    adversary.drain();
                };
                ask(&mut adversary);
                adversary.change(scope);
                adversary.complete(0);
                ask(&mut adversary);
            }
            assert_eq!(adversary.stale_answers, 0, "none was under way");
        }
    }
}

#[test]
fn hundreds_of_invalidations_wrap_every_epoch_and_let_nothing_through() {
    let images = [image(1, 100, 7), image(1, 200, 7)];
    for (scope, count) in
        [(Scope::Region, 1100), (Scope::ProtectionDomain, 600), (Scope::Function, 150), (Scope::All, 150)]
    {
        let mut adversary = Adversary::new(&dut::SMALL, [&images[0], &images[1]], EngineOptions::default());
        for round in 0..count {
            // Something is cached under every value of the epochs.
            adversary.submit(TARGET, round % PAGES, 1);
            adversary.submit(OTHER, round % PAGES, 1);
            adversary.run(round % 40);
            adversary.change(scope);
            adversary.complete(0);
            adversary.submit(TARGET, round % PAGES, 1);
            adversary.drain();
            adversary.next_tag %= 1 << 14;
            adversary.reported.clear();
        }
    }
}

#[test]
fn invalidations_back_to_back_share_a_drain() {
    let images = [image(1, 100, 7), image(1, 200, 7)];
    let options = EngineOptions::default();
    let mut adversary = Adversary::new(&dut::DEFAULT, [&images[0], &images[1]], options);
    adversary.report_cycles_max = 0;
    adversary.submit(TARGET, 0, 1);
    while adversary.unreported.is_empty() {
        adversary.step(false);
    }
    // Its DMA takes long: the first invalidation waits for it, the others wait together.
    adversary.unreported[0].0 = adversary.engine.cycles() + 1_000;
    for _ in 0..12 {
        adversary.invalidate(Scope::Region);
    }
    let mut cycles = Vec::new();
    while cycles.len() < 12 {
        adversary.step(true);
        while adversary.engine.pop_invalidated().is_some() {
            cycles.push(adversary.engine.cycles());
        }
        assert!(adversary.engine.cycles() < LIMIT_CYCLES, "{cycles:?}");
    }
    assert!(cycles[11] - cycles[0] < 60, "{cycles:?}");
}

#[test]
fn hits_of_other_regions_go_on_at_full_rate_during_a_fence() {
    let images = [image(1, 100, 7), image(1, 200, 7)];
    let options = EngineOptions::default();
    let mut adversary = Adversary::new(&dut::DEFAULT, [&images[0], &images[1]], options);
    adversary.report_cycles_max = 3;
    for page in 0..PAGES {
        adversary.submit(OTHER, page, 1);
    }
    adversary.submit(TARGET, 0, 1);
    adversary.drain();
    // The DMA of one response of the target is not reported for a long time.
    let held = adversary.submit(TARGET, 0, 1);
    while adversary.unreported.is_empty() {
        adversary.step(false);
    }
    adversary.unreported[0].0 = u64::MAX;
    for request in 0..6_000 {
        adversary.submit(OTHER, request % PAGES, 1);
    }
    let answered = |adversary: &Adversary| 6_000 - adversary.asked.len();
    let measure = |adversary: &mut Adversary, cycles: u64| {
        let before = answered(adversary);
        adversary.run(cycles);
        answered(adversary) - before
    };
    adversary.run(50);
    assert_eq!(measure(&mut adversary, 1_000), 1_000, "before the fence");
    adversary.fence = Some(0);
    adversary.invalidate(Scope::Region);
    assert_eq!(measure(&mut adversary, 2_000), 2_000, "while the fence waits");
    assert_eq!(adversary.engine.pop_invalidated(), None);
    let position = adversary.unreported.iter().position(|(_, tag)| *tag == held).expect("it is held");
    adversary.unreported[position].0 = 0;
    assert_eq!(measure(&mut adversary, 1_000), 1_000, "around its completion");
    assert_eq!(adversary.engine.pop_invalidated(), Some(77));
    adversary.drain();
}

#[test]
fn the_completion_waits_until_earlier_dma_is_reported_done() {
    let images = [image(1, 100, 7), image(1, 200, 7)];
    let mut adversary = Adversary::new(&dut::SMALL, [&images[0], &images[1]], EngineOptions::default());
    let tags: Vec<_> = (0..20).map(|page| adversary.submit(TARGET, page, 1)).collect();
    adversary.report_cycles_max = LIMIT_CYCLES;
    while !adversary.asked.is_empty() {
        adversary.step(false);
    }
    adversary.unreported.clear();
    adversary.invalidate(Scope::All);
    // In another order than the responses, and late.
    for position in [7, 3, 19, 0, 1, 18, 2, 11, 10, 9, 8, 17, 12, 16, 4, 13, 15, 5, 6, 14] {
        adversary.run(300);
        assert_eq!(adversary.engine.pop_invalidated(), None, "completed although DMA is under way");
        adversary.engine.report_done(0, tags[position]).expect("a legal report");
    }
    adversary.run(50);
    assert_eq!(adversary.engine.pop_invalidated(), Some(77));
    assert!(adversary.engine.is_idle().expect("registers answer"));
}

#[test]
fn a_long_request_that_failed_holds_up_no_fence() {
    // None of so many pages is there: whoever cut the request to its end would take as many cycles.
    const MANY: u64 = 1 << 15;
    let region = RegionDescription {
        name: "holes".into(),
        length_bytes: MANY * 4096,
        va: FIRST_VA,
        pd: 7,
        rights: Rights::ALL,
        index: Some(TARGET),
        hop: Some(2),
        pages: PageList::Explicit { addresses: vec![0; MANY as usize] },
        allow_holes: true,
        ..RegionDescription::default()
    };
    let set = TableSetDescription {
        num_mpts_log2: 10,
        tables: vec![mpt()],
        regions: vec![region],
        ..TableSetDescription::default()
    };
    let description = Description { seed: 1, table_sets: vec![set], ..Description::default() };
    let image = description.build().expect("a region without pages");
    for dut in [&dut::SMALL, &dut::DEFAULT] {
        let mut adversary = Adversary::new(dut, [&image, &image], EngineOptions::default());
        // Two of them, since two long requests may be open.
        for _ in 0..2 {
            adversary.submit(TARGET, 0, MANY);
        }
        adversary.drain();
        let before = adversary.engine.cycles();
        adversary.invalidate(Scope::All);
        adversary.complete(0);
        let cycles = adversary.engine.cycles() - before;
        assert!(cycles < MANY / 8, "the fence took {cycles} cycles");
    }
}

#[test]
fn a_reset_in_the_middle_of_a_fence_leaves_a_working_fence() {
    let images = [image(1, 100, 7), image(1, 200, 7)];
    let mut adversary = Adversary::new(&dut::SMALL, [&images[0], &images[1]], EngineOptions::rough(10, 9));
    for offset in 0..60 {
        adversary.prepare(KINDS[offset as usize % KINDS.len()]);
        adversary.run(offset % 7 * 5);
        adversary.change(SCOPES[offset as usize % 5]);
        adversary.invalidate(Scope::All);
        adversary.run(offset);
        adversary.engine.reset().expect("the engine becomes ready");
        adversary.asked.clear();
        adversary.unreported.clear();
        adversary.fence = None;
        adversary.set_up();
        // Reports of responses from before the reset are strays.
        adversary.engine.report_done(0, adversary.next_tag.wrapping_sub(1)).expect("a legal report");
        adversary.engine.run(20).expect("the bus rules hold");
        adversary.attempt(KINDS[offset as usize / 2 % KINDS.len()], SCOPES[offset as usize / 3 % 5], offset % 50);
    }
}

#[test]
fn a_reset_at_any_moment_leaves_a_working_engine() {
    let config: Config = dut::SMALL.config().expect("the engine was generated");
    for seed in 0..25u64 {
        let mut scenario = Scenario::draw(seed, &config);
        let mut engine = scenario.engine(&dut::SMALL, EngineOptions::rough(30, seed)).expect("the engine starts");
        for tag in 0..200 {
            let request = scenario.request(tag);
            engine.submit(&hardware::request(&request, tag)).expect("a legal request");
        }
        engine.run(seed * 37).expect("the bus rules hold");
        engine.reset().expect("the engine becomes ready again");
        engine.setup(&scenario.setup).expect("registers answer");
        let outcome = scenario.run(&mut engine, 200, 50).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!((outcome.responses, outcome.context_answers), (200, 50), "seed {seed}");
    }
}
