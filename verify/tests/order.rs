//! The order mode: every response comes in the order in which its request was accepted, whatever held up the others.

use keywalk_contract::ports::Scope;
use keywalk_cosim::{Dut, Engine, EngineOptions, Invalidation, dut};
use keywalk_model::Request;
use keywalk_verify::bench::rig::{self, Rig};
use keywalk_verify::bench::scene::{Plan, Scene};
use keywalk_verify::hardware::{self, SharedMemory};
use keywalk_verify::scenario::Scenario;
use std::collections::BTreeMap;

const DUT: &Dut = &dut::SMALL_ORDERED;
const LIMIT_CYCLES: u64 = 400_000;

/// Takes all responses. They must be those of `requests`, in order, beat by beat as the model has them.
fn check(
    engine: &mut Engine<SharedMemory>,
    model: &keywalk_model::Engine,
    memory: &SharedMemory,
    requests: &[Request],
    statuses: &mut BTreeMap<&'static str, usize>,
) {
    for (position, request) in requests.iter().enumerate() {
        let response = engine.pop_response().unwrap_or_else(|| panic!("response {position} is missing"));
        assert_eq!(response.tag, request.tag, "response {position} is another request's");
        let expected = model.translate(memory, request);
        let beats: Vec<_> = response.segments.iter().map(|segment| hardware::beat(segment).expect("defined")).collect();
        assert_eq!(beats, expected.beats(request), "response {position} to {request:x?}");
        *statuses.entry(expected.status().name()).or_default() += 1;
    }
    assert_eq!(engine.pop_response(), None, "more responses than requests");
}

#[test]
fn responses_come_in_order_on_random_tables() {
    let config = DUT.config().expect("the engine was generated");
    let mut statuses = BTreeMap::new();
    let mut with_hold_mode = 0;
    for seed in 0..200 {
        let options = match seed % 4 {
            0 => EngineOptions { seed, ..EngineOptions::default() },
            1 => EngineOptions::rough(1, seed),
            2 => EngineOptions::rough(40, seed),
            _ => EngineOptions::rough(250, seed),
        };
        let mut scenario = Scenario::draw(5000 + seed, &config);
        let mut engine = scenario.engine(DUT, options).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let requests: Vec<Request> = (0..400).map(|tag| scenario.request(tag)).collect();
        for request in &requests {
            engine.submit(&hardware::request(request, request.tag)).expect("a legal request");
        }
        for tag in 0..50 {
            hardware::submit_context(&mut engine, &scenario.context_request(tag), tag).expect("a legal request");
        }
        // The tables stay as they are, so an invalidation changes nothing but the time that everything takes.
        for tag in 0..4 {
            engine.run(50 + seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let scope = if tag == 3 { Scope::All } else { Scope::Region };
            let key = requests[usize::from(tag)].key;
            let invalidation = Invalidation { tag, function: 0, scope, key, pd: 0, va: 0, length_bytes: 1 };
            engine.submit_invalidation(&invalidation).expect("a legal invalidation");
        }
        engine.drain(LIMIT_CYCLES).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let memory = scenario.shared_memory();
        with_hold_mode += usize::from(scenario.model.controls.hold_mode);
        check(&mut engine, &scenario.model, &memory, &requests, &mut statuses);
        assert_eq!(engine.context_answers().len(), 50, "seed {seed}");
    }
    assert!(with_hold_mode > 10, "{with_hold_mode} runs in hold mode");
    assert!(statuses["ok"] > 10_000, "{statuses:?}");
    for status in keywalk_contract::Status::ALL {
        let needs_silence = matches!(status.name(), "hem_timeout" | "mtr_timeout");
        assert!(needs_silence || statuses.contains_key(status.name()), "never seen: {}", status.name());
    }
}

#[test]
fn hits_come_once_per_cycle() {
    let scene = Scene::build(&Plan::small_pages(1, 8, None)).expect("plain tables");
    let mut rig = Rig::new(DUT, &scene, 20, 8).expect("the engine starts");
    let requests: Vec<Request> = (0..2000).map(|number| scene.request(0, number % 8, 1, number)).collect();
    rig.warm(&requests[..8]).expect("the TLB holds eight pages");
    let run = rig.run(&requests).expect("all are answered");
    let cycles = rig::rate(&run.responses);
    let apart = rig.run_apart(&requests[..8]).expect("all are answered");
    let latencies: Vec<u64> = apart.iter().map(rig::Answer::latency).collect();
    println!("{cycles:.3} cycles per hit, latency {latencies:?}");
    assert!(cycles < 1.01, "{cycles} cycles per hit");
    assert!(latencies.iter().all(|latency| *latency == HIT_CYCLES), "{latencies:?}");
}

/// Requests of one page and of many, long ones among them, to regions that are all cold: whatever is behind a miss fills
/// the ring, the contexts and the slots.
#[test]
fn long_requests_behind_misses_do_not_lock() {
    const REGIONS: u64 = 60;
    const PAGES: u64 = 40;
    let config = DUT.config().expect("the engine was generated");
    assert!(PAGES > 2 * u64::from(config.split_pages));
    let scene = Scene::build(&Plan::small_pages(REGIONS, PAGES, Some(2))).expect("plain tables");
    for latency_cycles in [1, 60, 500] {
        let mut engine = scene_engine(&scene, EngineOptions { seed: 3, ..EngineOptions::rough(latency_cycles, 3) });
        let mut requests = Vec::new();
        for number in 0..6 * REGIONS {
            // A cold region, then long requests to regions that were asked for before.
            let (region, page, pages) = match number % 6 {
                0 => (number / 6, number % PAGES, 1),
                1 | 2 => (number / 12, 0, PAGES),
                3 => (number / 12, 3, u64::from(config.split_pages) + 1),
                4 => (number / 7, 5, 2),
                _ => (number / 8, number % PAGES, 1),
            };
            let request = scene.request(region as usize, page, pages, number);
            requests.push(Request { tag: number as u16, ..request });
        }
        for request in &requests {
            engine.submit(&hardware::request(request, request.tag)).expect("a legal request");
        }
        engine.drain(LIMIT_CYCLES).unwrap_or_else(|error| panic!("latency {latency_cycles}: {error}"));
        check(&mut engine, &scene.model, &scene.memory, &requests, &mut BTreeMap::new());
    }
}

/// One slow request holds up the younger ones, and they follow it at one per cycle as far as contexts reach.
#[test]
fn a_slow_request_is_waited_for() {
    let scene = Scene::build(&Plan::small_pages(2, 8, Some(1))).expect("plain tables");
    let mut rig = Rig::new(DUT, &scene, 400, 8).expect("the engine starts");
    let hits: Vec<Request> = (0..8).map(|page| scene.request(0, page, 1, page)).collect();
    rig.warm(&hits).expect("the TLB holds eight pages");
    let slow = scene.request(1, 0, 1, 0);
    let requests: Vec<Request> = [slow].into_iter().chain(hits).collect();
    let run = rig.run(&requests).expect("all are answered");
    // The model compared what came; the cycles tell the order.
    let cycles: Vec<u64> = run.answers.iter().map(|answer| answer.last_valid).collect();
    assert!(cycles[0] - run.answers[0].accepted > 2 * 400, "{cycles:?}");
    assert!(cycles.windows(2).all(|pair| pair[1] == pair[0] + 1), "{cycles:?}");
}

fn scene_engine(scene: &Scene, options: EngineOptions) -> Engine<SharedMemory> {
    let mut engine = Engine::new(DUT, scene.memory.clone(), options).expect("the bench starts");
    engine.reset().expect("the engine becomes ready");
    engine.setup(&scene.setup).expect("registers answer");
    engine
}

/// Cycles from a request to its response where every cache hits and nothing else is under way.
const HIT_CYCLES: u64 = 25;
