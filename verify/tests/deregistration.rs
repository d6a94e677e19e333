//! DESTROY_MPT under traffic: whenever it comes, after its answer no request is served by the region, every access that was
//! served before has been reported done, and the host may use the memory for something else; other regions are served
//! meanwhile. An engine whose command unit does not wait for its fence does not pass.

use std::collections::{HashMap, HashSet};

use keywalk_contract::command::Opcode;
use keywalk_contract::{CommandStatus, Status, Table, regs};
use keywalk_cosim::{Dut, Engine, EngineOptions, MemoryOptions, Setup, dut};
use keywalk_image::{
    BuiltRegion, Description, Image, PageList, RegionDescription, Rights, TableDescription, TableSetDescription,
};
use keywalk_model::{Engine as Model, Request};
use keywalk_verify::hardware;
use keywalk_verify::scenario::model_table_set;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// MPT indices of the region that goes and of one that stays.
const TARGET: u32 = 5;
const OTHER: u32 = 6;
const PAGES: u64 = 40;
const FIRST_VA: u64 = 0x10_0000;
const PD: u32 = 7;
/// Code of the mailbox command DESTROY_MPT.
const DESTROY_MPT: u32 = 0x0f;
/// Bit of the last dword that asks for an interrupt.
const EVENT: u32 = 1 << 16;
const REQUESTS: u16 = 900;
/// What the host keeps in the freed table afterwards: an address that no page of the regions has.
const POISON: u64 = 0x5_0150_0000_0000;
const LIMIT_CYCLES: u64 = 200_000;

fn image() -> Image {
    let mpt = TableDescription {
        table: Table::Mpt,
        hop: 1,
        ba_pg_sz: 0,
        buf_pg_sz: 0,
        entry_bytes: 64,
        bt_num: 1,
        object_count: 0,
    };
    let region = |index: u32| RegionDescription {
        name: format!("region_{index}"),
        length_bytes: PAGES * 4096,
        va: FIRST_VA,
        pd: PD,
        rights: Rights::ALL,
        index: Some(index),
        hop: Some(1),
        pages: PageList::Scattered { seed: index.into(), run_pages: 1 },
        ..RegionDescription::default()
    };
    let set = TableSetDescription {
        num_mpts_log2: 10,
        tables: vec![mpt],
        regions: vec![region(TARGET), region(OTHER)],
        ..TableSetDescription::default()
    };
    Description { seed: 1, table_sets: vec![set], ..Description::default() }.build().expect("plain regions")
}

/// What has come of a run.
#[derive(Default)]
struct Outcome {
    /// Requests to the region that were served after the command had begun.
    served: u32,
    /// Those that were refused.
    refused: u32,
}

/// One destruction, `offset` cycles after the traffic has begun; an error is what must not happen.
fn destroy(dut: &'static Dut, image: &Image, offset: u64, latency: u32, is_warm: bool) -> Result<Outcome, String> {
    let what = format!("{offset} cycles, latency {latency}, warm {is_warm}");
    let options = EngineOptions {
        memory: MemoryOptions { latency_cycles: latency..=latency, ..MemoryOptions::default() },
        automatic_done: false,
        done_delay_cycles: 0..=0,
        seed: offset,
        ..EngineOptions::default()
    };
    let built = &image.table_sets[0];
    let regions: HashMap<u32, &BuiltRegion> = built.regions.iter().map(|region| (region.index, region)).collect();
    let model = Model::new(vec![model_table_set(built)]);
    let mut engine = Engine::new(dut, image.memory.clone(), options).expect("the bench starts");
    let setup = Setup {
        table_sets: vec![hardware::table_set(&model.table_sets[0])],
        controls: hardware::controls(model.controls),
        ..Setup::default()
    };
    engine.setup(&setup).expect("registers answer");
    let enable = 1 << regs::interrupt_enable::COMMAND.low;
    engine.write_register(regs::interrupt_enable::REGISTER.offset, enable).expect("it is written");

    let mut random = ChaCha8Rng::seed_from_u64(offset);
    let mut requests: Vec<Request> = Vec::new();
    let mut submit = |engine: &mut Engine<_>, index: u32, page: u64| {
        let tag = requests.len() as u16;
        let va = FIRST_VA + page * 4096 + 64;
        let request = Request { tag, function: 0, operation: 0, key: index << 8, pd: PD, qpn: 0, va, length: 64 };
        engine.submit(&hardware::request(&request, tag)).expect("a legal request");
        requests.push(request);
    };
    if is_warm {
        (0..PAGES).for_each(|page| submit(&mut engine, TARGET, page));
        engine.drain(LIMIT_CYCLES).expect("all are answered");
    }
    for number in 0..REQUESTS {
        let index = if number % 4 == 3 { OTHER } else { TARGET };
        submit(&mut engine, index, random.random_range(0..PAGES));
    }
    let traffic = requests.len();
    engine.run(offset).expect("it runs");
    let data = [0, 0, 0, 0, TARGET << 8 | DESTROY_MPT, EVENT | 1];
    assert!(engine.start_command(Opcode::PostMailbox as u16, 0, &data).expect("it is written"), "{what}: not taken");
    let begun = engine.cycles();

    let mut outcome = Outcome::default();
    let mut reports: Vec<(u64, u16)> = Vec::new();
    // Accesses by the region that are not reported done.
    let mut open: HashSet<u16> = HashSet::new();
    let (mut answered, mut is_complete) = (0, false);
    while answered < requests.len() || !is_complete || !reports.is_empty() {
        if engine.cycles() >= begun + LIMIT_CYCLES {
            let state = engine.mailbox();
            panic!("{what}: {answered} answers of {}, complete {is_complete}, {state:?}", requests.len());
        }
        engine.step().expect("no rule is broken");
        while let Some(response) = engine.pop_response() {
            answered += 1;
            let request = requests[usize::from(response.tag)];
            let index = request.key >> 8;
            let beat = &response.segments[0];
            if beat.status() == Some(Status::Ok) {
                if index == TARGET && is_complete {
                    return Err(format!("{what}: {request:x?} is served after the answer"));
                }
                assert_eq!(Some(beat.pa), regions[&index].pa(request.va), "{what}: {request:x?}");
            } else {
                assert_eq!((beat.status(), index), (Some(Status::EntryState), TARGET), "{what}: {request:x?}");
            }
            if index == TARGET && beat.status() == Some(Status::Ok) {
                open.insert(response.tag);
                outcome.served += u32::from(beat.cycle >= begun);
            }
            // Those that are sent after the answer are not counted.
            let is_of_traffic = usize::from(response.tag) < traffic;
            outcome.refused += u32::from(is_of_traffic && beat.status() != Some(Status::Ok));
            reports.push((engine.cycles() + random.random_range(0..60), response.tag));
        }
        if !is_complete && engine.interrupt() {
            is_complete = true;
            if !open.is_empty() {
                return Err(format!("{what}: accesses of {open:?} are not reported done"));
            }
            // The memory is the host's again.
            let root = regions[&TARGET].root;
            for page in 0..PAGES {
                let memory = engine.memory().memory_mut();
                memory.write_u64(root + 8 * page, POISON + (page << 12)).expect("it is backed");
            }
            // More requests find nothing.
            (0..PAGES).for_each(|page| {
                let tag = requests.len() as u16;
                let va = FIRST_VA + page * 4096;
                let key = TARGET << 8;
                let request = Request { tag, function: 0, operation: 0, key, pd: PD, qpn: 0, va, length: 64 };
                engine.submit(&hardware::request(&request, tag)).expect("a legal request");
                requests.push(request);
            });
        }
        let now = engine.cycles();
        for (_, tag) in reports.extract_if(.., |(due, _)| *due <= now) {
            engine.report_done(0, tag).expect("a legal report");
            open.remove(&tag);
        }
    }
    let state = engine.mailbox().expect("it is read");
    assert_eq!((state.status, state.token), (CommandStatus::Ok as u8, 1), "{what}");
    Ok(outcome)
}

#[test]
fn a_region_may_be_destroyed_at_every_cycle_of_its_traffic() {
    let image = image();
    let (mut served, mut refused) = (0, 0);
    for (latency, is_warm) in [(1, true), (30, false), (30, true)] {
        for offset in 0..70 {
            let outcome = destroy(&dut::SMALL_COMMAND, &image, offset, latency, is_warm);
            let outcome = outcome.unwrap_or_else(|broken| panic!("{broken}"));
            served += outcome.served;
            refused += outcome.refused;
        }
    }
    println!("{served} requests served while the command was under way, {refused} refused");
    assert!(served > 1000 && refused > 1000, "{served} served, {refused} refused");
}

#[test]
fn a_command_unit_that_does_not_wait_for_its_fence_is_found() {
    let image = image();
    let broken: Vec<_> =
        (0..20).filter_map(|offset| destroy(&dut::SMALL_COMMAND_FENCE_FAULT, &image, offset, 30, true).err()).collect();
    println!("{broken:?}");
    assert!(broken.len() >= 10, "of 20 destructions {broken:?}");
}
