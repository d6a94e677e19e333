//! The way of walks to the walker: what it begins with, what follows two cycles later, pieces first, the credit of the context
//! port and its gaps, and walks that end.

#[path = "common/late_inputs.rs"]
mod late_inputs;
#[path = "common/outputs.rs"]
mod outputs;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use keywalk_contract::Config;
use keywalk_cosim::{Beat, Bench, Error, Handle, Input, Stall, StreamDriver, dut};
use late_inputs::LateInputs;
use outputs::Outputs;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Cycles from the start of a walk to the walk.
const WALK_CYCLES: u64 = 2;
/// Cycles from the start to the pulse of a piece that needs no walk.
const UNUSED_CYCLES: u64 = 2;
/// Cycles from the end of a walk of the context port to the first that can take its place, if another place is free.
const REUSE_CYCLES: u64 = 3;
/// Cycles that a walk of the context port waits before a gap is asked for, and until the request for it shows.
const PATIENCE_CYCLES: u64 = 15 + 2;

/// How the surroundings behave.
#[derive(Clone)]
struct Traffic {
    /// Cycles of 100 in which a piece comes, while there are places.
    piece_percent: u32,
    /// Pieces of 100 that miss.
    miss_percent: u32,
    context_stall: Stall,
    /// Cycles that a walk takes at least; one ends per cycle.
    walk_cycles: Range<u64>,
}

/// What a walk consists of, by field; none where the block may give anything.
type Fields = BTreeMap<String, u128>;

/// What is to come out.
#[derive(Clone)]
struct Expected {
    start_cycle: u64,
    is_context: bool,
    /// There is a walk.
    is_walk: bool,
    start: Fields,
    offset: u128,
    walk: Fields,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    traffic: Traffic,
    /// `piece_start` and `looked_up`.
    pieces: Handle<LateInputs>,
    contexts: Handle<StreamDriver>,
    outputs: Handle<Outputs>,
    index_check: Input,
    result_valid: Input,
    result_is_context: Input,
    is_index_checked: bool,
    next_tag: u128,
    /// Walks of pieces that the page split may still send.
    places: u32,
    waiting_contexts: VecDeque<Beat>,
    /// The walk of the context port that is in the block and has not begun.
    held: Option<Beat>,
    under_way: VecDeque<Expected>,
    /// Cycles in which walks of the context port were taken, and in which they ended.
    context_starts: Vec<u64>,
    context_ends: Vec<u64>,
    /// Walks in the walker: the cycle from which it may end, and whether it is one of the context port.
    walking: Vec<(u64, bool)>,
    /// No walk ends.
    is_holding_walks: bool,
    /// Whether each walk that came out was one of the context port.
    served: Vec<bool>,
    /// The block asks for a cycle without a piece.
    is_gap_wanted: bool,
}

impl Rig {
    fn new(seed: u64, traffic: Traffic, is_index_checked: bool) -> Result<Self, Error> {
        let config = dut::WALK_QUEUE.config().expect("the block is generated from a configuration");
        let mut bench = Bench::new(&dut::WALK_QUEUE, seed);
        let is_of_pieces = |name: &str| name.starts_with("piece_start_") || name.starts_with("looked_up_");
        let mut rig = Self {
            random: bench.random(),
            contexts: bench.driver("context_walk", traffic.context_stall)?,
            pieces: LateInputs::drive(&mut bench, |name| is_of_pieces(name) || name == "old_toggle")?,
            outputs: Outputs::watch(&mut bench, |_| true)?,
            index_check: bench.model().input("index_check")?,
            result_valid: bench.model().input("result_valid")?,
            result_is_context: bench.model().input("result_is_context")?,
            traffic,
            is_index_checked,
            next_tag: 0,
            places: 0,
            waiting_contexts: VecDeque::new(),
            held: None,
            under_way: VecDeque::new(),
            context_starts: Vec::new(),
            context_ends: Vec::new(),
            walking: Vec::new(),
            is_holding_walks: false,
            served: Vec::new(),
            is_gap_wanted: false,
            bench,
            config,
        };
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.places = self.config.request_walks();
        self.waiting_contexts.clear();
        self.held = None;
        self.under_way.clear();
        self.context_starts.clear();
        self.context_ends.clear();
        self.walking.clear();
        self.is_gap_wanted = false;
        let (result_valid, index_check) = (self.result_valid, self.index_check);
        self.bench.model_mut().set(result_valid, 0);
        self.bench.model_mut().set(index_check, self.is_index_checked.into());
        self.bench.reset(2)
    }

    fn tag(&mut self) -> u128 {
        self.next_tag = (self.next_tag + 1) & 0xffff;
        self.next_tag
    }

    /// Random values for the inputs of a channel, by field.
    fn random_fields(&mut self, channel: &str) -> Fields {
        let ports: Vec<_> = self.bench[self.pieces].ports().collect();
        let fields = ports.into_iter().filter_map(|(name, width)| Some((name.strip_prefix(channel)?, width)));
        fields
            .filter(|(field, _)| *field != "valid")
            .map(|(field, width)| (field.into(), self.random.random::<u128>() & ((1 << width) - 1)))
            .collect()
    }

    /// A piece that starts in the coming cycle.
    fn push_piece(&mut self, is_miss: bool) {
        let cycle = self.bench.cycles();
        let mut start = self.random_fields("piece_start_");
        let mut piece = self.random_fields("looked_up_");
        let old_toggle = self.random.random_range(0..2);
        piece.extend([("tag".into(), self.tag()), ("is_miss".into(), is_miss.into())]);
        self.places -= 1;
        let named = |channel: &str, fields: &Fields| -> Vec<(String, u128)> {
            let valid = (format!("{channel}valid"), 1);
            let fields = fields.iter().map(|(name, value)| (format!("{channel}{name}"), *value));
            fields.chain([valid]).collect()
        };
        let (start_values, piece_values) = (named("piece_start_", &start), named("looked_up_", &piece));
        let pieces = self.pieces;
        self.bench[pieces].push(cycle, start_values);
        self.bench[pieces].push(cycle + 1, piece_values);
        self.bench[pieces].push(cycle + 1, [("old_toggle".to_owned(), old_toggle)]);
        start.insert("is_context".into(), 0);
        start.insert("check_index".into(), self.is_index_checked.into());
        let offset = piece["offset"];
        const SAME: [&str; 10] = [
            "tag",
            "function",
            "is_remote",
            "virtual_page",
            "va",
            "length",
            "is_split",
            "split_context",
            "split_slot",
            "admission",
        ];
        let mut walk: Fields = SAME.map(|name| (name.to_owned(), piece[name])).into();
        walk.insert("split_toggle".into(), 1 - old_toggle);
        let is_context = false;
        self.under_way.push_back(Expected { start_cycle: cycle, is_context, is_walk: is_miss, start, offset, walk });
    }

    fn push_context(&mut self) -> Result<(), Error> {
        let tag = self.tag();
        let shape = self.bench[self.contexts].channel().shape().clone();
        let walk = Beat::random_with(&shape, &[("tag", tag)], &mut self.random)?;
        self.waiting_contexts.push_back(walk.clone());
        self.bench[self.contexts].push(walk);
        Ok(())
    }

    /// Whether the block has to offer a place to the context port in that cycle: two were free in the cycle before.
    fn has_context_place(&self, cycle: u64) -> bool {
        let taken = self.context_starts.iter().filter(|start| **start + 1 < cycle).count();
        let ended = self.context_ends.iter().filter(|end| **end + REUSE_CYCLES <= cycle).count();
        self.config.context_walks() as usize + ended >= taken + 2
    }

    /// Perhaps the end of a walk in the coming cycle; gives whether it is one of the context port.
    fn end_walk(&mut self) -> Option<bool> {
        let cycle = self.bench.cycles();
        let due: Vec<_> = (0..self.walking.len()).filter(|&walk| self.walking[walk].0 <= cycle).collect();
        let is_ending = !due.is_empty() && !self.is_holding_walks;
        let ended = is_ending.then(|| self.walking.swap_remove(due[self.random.random_range(0..due.len())]).1);
        if ended == Some(true) {
            self.context_ends.push(cycle);
        }
        let is_context = ended.unwrap_or_else(|| self.random.random());
        let (result_valid, result_is_context) = (self.result_valid, self.result_is_context);
        let model = self.bench.model_mut();
        model.set(result_valid, ended.is_some().into());
        model.set(result_is_context, is_context.into());
        ended
    }

    /// One cycle, with a piece or none; checks every output.
    fn cycle_with(&mut self, piece: Option<bool>) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        if let Some(is_miss) = piece {
            self.push_piece(is_miss);
        }
        let ended = self.end_walk();
        let accepted = self.bench[self.contexts].accepted();
        self.bench.cycle()?;

        let has_place = self.has_context_place(cycle);
        let is_accepted = self.bench[self.contexts].accepted() > accepted;
        let outputs = &self.bench[self.outputs];
        // The walk in the register goes on where there is no piece, and only then another one is accepted.
        let goes_on = self.held.is_some() && piece.is_none() && has_place;
        let is_ready = outputs.get("context_walk_ready") == 1;
        assert_eq!(is_ready, self.held.is_none() || goes_on, "context_walk_ready in cycle {cycle}");
        let walk = if goes_on { self.held.take() } else { None };
        if is_accepted {
            self.held = Some(self.waiting_contexts.pop_front().expect("only what was offered is taken"));
        }
        if let Some(walk) = walk {
            let fields = |names: &[&str]| -> Result<Fields, Error> {
                names.iter().map(|name| Ok(((*name).to_owned(), walk.get(name)?))).collect()
            };
            let mut start = fields(&["root", "hop", "ba_pg_sz", "index", "check_index", "count"])?;
            start.insert("is_context".into(), 1);
            self.under_way.push_back(Expected {
                start_cycle: cycle,
                is_context: true,
                is_walk: true,
                start,
                offset: walk.get("offset")?,
                walk: fields(&["tag", "function", "admission"])?,
            });
            self.context_starts.push(cycle);
            let in_flight = self.context_starts.len() - self.context_ends.len();
            assert!(in_flight as u32 <= self.config.context_walks(), "{in_flight} walks of the context port");
        }

        let started = |age: u64| self.under_way.iter().find(|expected| expected.start_cycle + age == cycle);
        if let Some(expected) = started(0) {
            for (name, value) in &expected.start {
                assert_eq!(outputs.get(&format!("start_{name}")), *value, "start_{name} in cycle {cycle}");
            }
        }
        if let Some(expected) = started(1) {
            assert_eq!(outputs.get("start_offset"), expected.offset, "start_offset in cycle {cycle}");
        }
        let walked = started(WALK_CYCLES).filter(|expected| expected.is_walk).cloned();
        assert_eq!(outputs.get("walk_valid") == 1, walked.is_some(), "walk_valid in cycle {cycle}");
        if let Some(expected) = &walked {
            for (name, value) in &expected.walk {
                assert_eq!(outputs.get(&format!("walk_{name}")), *value, "walk_{name} in cycle {cycle}");
            }
        }
        let is_unused = started(UNUSED_CYCLES).is_some_and(|expected| !expected.is_walk);
        assert_eq!(outputs.get("walk_unused") == 1, is_unused, "walk_unused in cycle {cycle}");
        self.is_gap_wanted = outputs.get("gap_wanted") == 1;
        let model = self.bench.model();
        let walk_ended = model.get(model.output("walk_ended")?) == 1;
        assert_eq!(walk_ended, ended == Some(false), "walk_ended behind cycle {cycle}");
        self.places += u32::from(walk_ended) + u32::from(is_unused);
        if let Some(expected) = walked {
            let due = cycle + self.random.random_range(self.traffic.walk_cycles.clone());
            self.walking.push((due, expected.is_context));
            self.served.push(expected.is_context);
        }
        self.under_way.retain(|expected| expected.start_cycle + WALK_CYCLES > cycle);
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), Error> {
        let comes = self.places > 0 && !self.is_gap_wanted;
        let comes = comes && self.random.random_range(0..100) < self.traffic.piece_percent;
        let is_miss = self.random.random_range(0..100) < self.traffic.miss_percent;
        self.cycle_with(comes.then_some(is_miss))
    }

    fn is_any_waiting(&self) -> bool {
        self.held.is_some() || !self.waiting_contexts.is_empty()
    }

    fn run_idle(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle_with(None))
    }

    fn run_until_empty(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while self.is_any_waiting() || !(self.under_way.is_empty() && self.walking.is_empty()) {
            assert!(self.bench.cycles() < end, "walks wait after {limit_cycles} cycles");
            self.cycle_with(None)?;
        }
        self.run_idle(10)?;
        assert_eq!(self.places, self.config.request_walks(), "every walk of a piece ends once");
        Ok(())
    }
}

const BUSY: Traffic = Traffic { piece_percent: 100, miss_percent: 100, context_stall: Stall::NEVER, walk_cycles: 1..2 };

#[test]
fn every_walk_has_its_fields_and_ends_once() -> Result<(), Error> {
    let cases = [
        BUSY,
        Traffic { piece_percent: 50, miss_percent: 50, ..BUSY },
        Traffic { miss_percent: 70, walk_cycles: 1..10, ..BUSY },
        Traffic { miss_percent: 10, context_stall: Stall::percent(80).up_to(3), walk_cycles: 5..40, ..BUSY },
        Traffic { piece_percent: 40, context_stall: Stall::percent(50), walk_cycles: 1..60, ..BUSY },
    ];
    for (case, traffic) in cases.into_iter().enumerate() {
        for is_index_checked in [false, true] {
            let mut rig = Rig::new(case as u64, traffic.clone(), is_index_checked)?;
            for _ in 0..500 {
                rig.push_context()?;
            }
            for _ in 0..3000 {
                rig.cycle()?;
            }
            rig.run_until_empty(20_000)?;
            assert!(rig.served.contains(&true) && rig.served.contains(&false));
        }
    }
    Ok(())
}

#[test]
fn pieces_go_first_and_the_context_port_takes_the_first_cycle_without_one() -> Result<(), Error> {
    let mut rig = Rig::new(20, BUSY, true)?;
    let places = rig.places as usize;
    for pieces in 1..=places {
        for is_miss in [true, false] {
            rig.served.clear();
            rig.is_holding_walks = true;
            rig.push_context()?;
            for _ in 0..pieces {
                rig.cycle_with(Some(is_miss))?;
            }
            assert!(rig.held.is_some(), "it waits");
            rig.cycle_with(None)?;
            assert!(rig.held.is_none(), "it goes on");
            rig.run_idle(WALK_CYCLES)?;
            let mut wanted = vec![false; if is_miss { pieces } else { 0 }];
            wanted.push(true);
            assert_eq!(rig.served, wanted);
            rig.is_holding_walks = false;
            rig.run_until_empty(100)?;
        }
    }
    Ok(())
}

#[test]
fn the_context_port_asks_for_a_gap_when_it_has_waited_for_long() -> Result<(), Error> {
    let mut rig = Rig::new(21, Traffic { miss_percent: 0, ..BUSY }, true)?;
    // Nobody waits: no gap is asked for.
    for _ in 0..200 {
        rig.cycle()?;
        assert!(!rig.is_gap_wanted);
    }
    for _ in 0..5 {
        rig.push_context()?;
        let start = rig.bench.cycles();
        while rig.is_any_waiting() {
            rig.cycle()?;
            assert!(rig.bench.cycles() - start <= PATIENCE_CYCLES + 3, "the walk of the context port starves");
        }
        assert!(rig.bench.cycles() - start > 10, "pieces go first");
        while rig.is_gap_wanted {
            rig.cycle()?;
        }
    }
    rig.run_until_empty(100)
}

#[test]
fn one_walk_follows_per_cycle() -> Result<(), Error> {
    const WALKS: u64 = 500;
    // A piece in every cycle, or in every other one and walks of the context port between them.
    for piece_cycles in [1, 2] {
        let mut rig = Rig::new(22, BUSY, true)?;
        for _ in 0..WALKS {
            rig.push_context()?;
        }
        let start = rig.bench.cycles();
        for number in 0..WALKS {
            rig.cycle_with((number % piece_cycles == 0).then_some(true))?;
        }
        while (rig.served.len() as u64) < WALKS {
            rig.cycle_with(None)?;
        }
        let fills_register = u64::from(piece_cycles == 2);
        assert!(rig.bench.cycles() - start <= WALKS + WALK_CYCLES + fills_register);
        let pieces = rig.served.iter().filter(|is_context| !**is_context).count() as u64;
        assert_eq!(pieces, WALKS / piece_cycles);
        rig.run_until_empty(3000)?;
    }
    Ok(())
}

#[test]
fn walks_of_the_context_port_stop_when_their_places_are_used_up() -> Result<(), Error> {
    let mut rig = Rig::new(24, BUSY, true)?;
    let places = rig.config.context_walks() as usize;
    rig.is_holding_walks = true;
    for _ in 0..places + 5 {
        rig.push_context()?;
    }
    rig.run_idle(50)?;
    assert_eq!(rig.served, vec![true; places]);
    // Walks of pieces have places of their own, and none of them that ends makes room here.
    let pieces = rig.places as usize;
    for _ in 0..pieces {
        rig.cycle_with(Some(true))?;
    }
    rig.run_idle(10)?;
    assert_eq!(rig.served[places..], vec![false; pieces]);
    let of_contexts: Vec<_> = rig.walking.extract_if(.., |(_, is_context)| *is_context).collect();
    rig.is_holding_walks = false;
    rig.run_idle(50)?;
    assert_eq!(rig.places as usize, pieces);
    assert_eq!(rig.served.len(), places + pieces);
    // A single place that comes back is kept in reserve; with another one there is room for two.
    rig.served.clear();
    rig.walking.push(of_contexts[0]);
    rig.run_idle(20)?;
    assert!(rig.served.is_empty(), "the last place is kept");
    rig.traffic.walk_cycles = 1000..1001;
    rig.walking.push(of_contexts[1]);
    rig.run_idle(20)?;
    assert_eq!(rig.served, [true, true]);
    rig.walking.extend(&of_contexts[2..]);
    rig.run_until_empty(5000)
}

#[test]
fn reset_drops_the_walk_and_gives_every_place_back() -> Result<(), Error> {
    let mut rig = Rig::new(23, Traffic { miss_percent: 60, walk_cycles: 1..20, ..BUSY }, false)?;
    for cycles in 0..30 {
        for _ in 0..5 {
            rig.push_context()?;
        }
        for _ in 0..cycles {
            rig.cycle()?;
        }
        rig.reset()?;
        // Whatever comes out now was not expected.
        rig.run_until_empty(0)?;
        // Every place of the context port is there again.
        rig.served.clear();
        rig.is_holding_walks = true;
        let places = rig.config.context_walks();
        for _ in 0..=places {
            rig.push_context()?;
        }
        rig.run_idle(20)?;
        assert_eq!(rig.served, vec![true; places as usize]);
        rig.is_holding_walks = false;
        for _ in 0..20 {
            rig.cycle()?;
        }
        rig.run_until_empty(500)?;
    }
    Ok(())
}
