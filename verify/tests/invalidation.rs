//! Invalidation is a fence: after its completion no answer uses what the tables held before; and a reset at any moment
//! leaves a working engine.

use keywalk_contract::ports::Scope;
use keywalk_contract::{Config, Table};
use keywalk_cosim::{Dut, Engine, EngineOptions, Invalidation, LineMemory, Request, Setup, dut};
use keywalk_image::{
    Description, Image, PageList, RegionDescription, Rights, SparseMemory, TableDescription, TableSetDescription,
};
use keywalk_verify::hardware;
use keywalk_verify::scenario::{Scenario, model_table_set};
use std::cell::RefCell;
use std::rc::Rc;

const PAGES: u64 = 24;
const LIMIT_CYCLES: u64 = 400_000;

/// Memory whose tables change under the engine.
#[derive(Clone)]
struct Changing(Rc<RefCell<SparseMemory>>);

impl LineMemory for Changing {
    fn line(&self, address: u64) -> Option<[u8; keywalk_image::LINE_BYTES]> {
        self.0.borrow().line(address)
    }
}

/// One region of scattered pages.
fn image(seed: u64) -> Image {
    let table = |table| TableDescription {
        table,
        hop: 1,
        ba_pg_sz: 0,
        buf_pg_sz: 0,
        entry_bytes: 64,
        bt_num: 1,
        object_count: 0,
    };
    let region = RegionDescription {
        name: "region".into(),
        length_bytes: PAGES * 4096,
        va: 0x10_0000,
        pd: 7,
        rights: Rights::ALL,
        index: Some(5),
        pages: PageList::Scattered { seed, run_pages: 1 },
        ..RegionDescription::default()
    };
    let set = TableSetDescription {
        num_mpts_log2: 10,
        tables: vec![table(Table::Mpt)],
        regions: vec![region],
        ..TableSetDescription::default()
    };
    let description = Description { seed: 1, table_sets: vec![set], ..Description::default() };
    description.build().expect("a plain region")
}

fn engine(dut: &'static Dut, image: &Image, options: EngineOptions) -> (Engine<Changing>, Changing) {
    let memory = Changing(Rc::new(RefCell::new(image.memory.clone())));
    let mut engine = Engine::new(dut, memory.clone(), options).expect("the bench starts");
    engine.reset().expect("the engine becomes ready");
    let set = hardware::table_set(&model_table_set(&image.table_sets[0]));
    engine.setup(&Setup { table_sets: vec![set], ..Setup::default() }).expect("registers answer");
    (engine, memory)
}

fn read_of_page(tag: u16, page: u64) -> Request {
    let va = 0x10_0000 + page * 4096;
    Request { tag, operation: 0, key: 5 << 8, pd: 7, va, length_bytes: 64, ..Request::default() }
}

/// Old and new page addresses. The tables of both images lie at the same places: only the leaves differ.
fn pages(image: &Image) -> Vec<u64> {
    let region = &image.table_sets[0].regions[0];
    (0..PAGES).map(|page| region.pages.get(page).expect("the page exists")).collect()
}

#[test]
fn nothing_old_is_answered_after_the_completion_whatever_the_timing() {
    let (old, new) = (image(100), image(200));
    let (old_pages, new_pages) = (pages(&old), pages(&new));
    for dut in [&dut::SMALL, &dut::DEFAULT] {
        let offsets: Vec<u64> = if dut.name == "small" { (0..300).collect() } else { (0..300).step_by(15).collect() };
        let mut old_answers = 0;
        for offset in offsets {
            let (mut engine, memory) = engine(dut, &old, EngineOptions::rough(10, offset));
            for page in 0..PAGES {
                engine.submit(&read_of_page(page as u16, page)).expect("a legal request");
            }
            engine.run(offset).expect("the bus rules hold");
            // The driver changes the tables, invalidates, and may reuse the pages after the completion.
            *memory.0.borrow_mut() = new.memory.clone();
            let scope = [Scope::Region, Scope::Range, Scope::ProtectionDomain, Scope::Function, Scope::All]
                [offset as usize % 5];
            let invalidation =
                Invalidation { tag: 77, function: 0, scope, key: 5 << 8, pd: 7, va: 0x10_0000, length_bytes: 1 << 20 };
            engine.submit_invalidation(&invalidation).expect("a legal invalidation");
            let mut tag = None;
            for _ in 0..LIMIT_CYCLES {
                engine.step().expect("the bus rules hold");
                tag = engine.pop_invalidated();
                if tag.is_some() {
                    break;
                }
            }
            assert_eq!(tag, Some(77), "offset {offset}: no completion");
            let completed = engine.cycles();
            for page in 0..PAGES {
                engine.submit(&read_of_page(100 + page as u16, page)).expect("a legal request");
            }
            engine.drain(LIMIT_CYCLES).expect("everything is answered");
            let mut answers = 0;
            while let Some(response) = engine.pop_response() {
                let beat = response.segments[0];
                let page = usize::from(beat.tag % 100);
                assert_eq!(beat.status, 0, "offset {offset}");
                if beat.cycle >= completed || beat.tag >= 100 {
                    assert_eq!(beat.pa, new_pages[page], "{}, offset {offset}: a stale answer to {beat:x?}", dut.name);
                } else {
                    assert!([old_pages[page], new_pages[page]].contains(&beat.pa), "offset {offset}: {beat:x?}");
                    old_answers += u64::from(beat.pa == old_pages[page]);
                }
                answers += 1;
            }
            assert_eq!(answers, 2 * PAGES);
        }
        assert!(old_answers > 0, "the test never saw an old answer: it changes the tables too early");
    }
}

#[test]
fn the_completion_waits_until_earlier_dma_is_reported_done() {
    let image = image(100);
    let options = EngineOptions { automatic_done: false, ..EngineOptions::default() };
    let (mut engine, _) = engine(&dut::SMALL, &image, options);
    engine.translate(&read_of_page(3, 0), LIMIT_CYCLES).expect("an answer");
    let invalidation = Invalidation { tag: 1, function: 0, scope: Scope::All, key: 0, pd: 0, va: 0, length_bytes: 0 };
    engine.submit_invalidation(&invalidation).expect("a legal invalidation");
    engine.run(5_000).expect("the bus rules hold");
    assert_eq!(engine.pop_invalidated(), None, "completed although DMA is under way");
    engine.report_done(0, 3).expect("a legal report");
    engine.run(5_000).expect("the bus rules hold");
    assert_eq!(engine.pop_invalidated(), Some(1));
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
