//! The register in front of the walker: fields, pieces first, the credit of the context port, and walks that end.

use std::collections::VecDeque;
use std::ops::Range;

use keywalk_contract::Config;
use keywalk_cosim::{Beat, Bench, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Fields that mean nothing in a walk of the context port: they are those of any piece.
const FIELDS_OF_PIECES: [&str; 11] = [
    "is_remote",
    "table_set",
    "mpt_index",
    "virtual_page",
    "va",
    "length",
    "is_split",
    "split_context",
    "split_slot",
    "split_toggle",
    "epoch",
];
/// Pulses beside channel `walk`, which are received with it, for their names.
const PULSES: [&str; 2] = ["ended", "unused"];
/// Cycles from a piece, or from the cycle in which a walk of the context port is taken, to the walk.
const LATENCY_CYCLES: u64 = 1;
/// Cycles from the end of a walk of the context port to the first that can take its place, if another place is free.
const REUSE_CYCLES: u64 = 3;

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

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    traffic: Traffic,
    pieces: Handle<StreamDriver>,
    contexts: Handle<StreamDriver>,
    walks: Handle<StreamSink>,
    old_toggle: Input,
    index_check: Input,
    result_valid: Input,
    result_is_context: Input,
    walk_ended: Output,
    walk_unused: Output,
    is_index_checked: bool,
    next_tag: u128,
    /// Walks of pieces that the page split may still send.
    places: u32,
    /// The walk of a piece of the last cycle.
    expected_piece: Option<Beat>,
    expected_contexts: VecDeque<Beat>,
    /// A walk of the context port was there in the last cycle.
    was_offered: bool,
    /// Cycles in which walks of the context port were taken, and in which they ended.
    context_starts: Vec<u64>,
    context_ends: Vec<u64>,
    /// Walks in the walker: the cycle from which it may end, and whether it is one of the context port.
    walking: Vec<(u64, bool)>,
    /// No walk ends.
    is_holding_walks: bool,
    /// Whether each walk that came out was one of the context port.
    served: Vec<bool>,
}

impl Rig {
    fn new(seed: u64, traffic: Traffic, is_index_checked: bool) -> Result<Self, Error> {
        let config = dut::WALK_QUEUE.config().expect("the block is generated from a configuration");
        let mut bench = Bench::new(&dut::WALK_QUEUE, seed);
        let mut rig = Self {
            random: bench.random(),
            pieces: bench.driver("looked_up", Stall::NEVER)?,
            contexts: bench.driver("context_walk", traffic.context_stall)?,
            walks: bench.sink("walk", Stall::NEVER)?,
            old_toggle: bench.model().input("old_toggle")?,
            index_check: bench.model().input("index_check")?,
            result_valid: bench.model().input("result_valid")?,
            result_is_context: bench.model().input("result_is_context")?,
            walk_ended: bench.model().output("walk_ended")?,
            walk_unused: bench.model().output("walk_unused")?,
            traffic,
            is_index_checked,
            next_tag: 0,
            places: 0,
            expected_piece: None,
            expected_contexts: VecDeque::new(),
            was_offered: false,
            context_starts: Vec::new(),
            context_ends: Vec::new(),
            walking: Vec::new(),
            is_holding_walks: false,
            served: Vec::new(),
            bench,
            config,
        };
        let walks = rig.walks;
        rig.bench[walks].ignore_where("is_context", &FIELDS_OF_PIECES)?;
        let index_check = rig.index_check;
        rig.bench.model_mut().set(index_check, is_index_checked.into());
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.places = self.config.request_walks();
        self.expected_piece = None;
        self.expected_contexts.clear();
        self.was_offered = false;
        self.context_starts.clear();
        self.context_ends.clear();
        self.walking.clear();
        let result_valid = self.result_valid;
        self.bench.model_mut().set(result_valid, 0);
        self.bench.reset(2)
    }

    fn tag(&mut self) -> u128 {
        self.next_tag = (self.next_tag + 1) & 0xffff;
        self.next_tag
    }

    /// A piece for the coming cycle. Gives its walk, if it needs one.
    fn push_piece(&mut self, is_miss: bool) -> Result<Option<Beat>, Error> {
        let tag = self.tag();
        let old_toggle = self.random.random_range(0..2);
        let input = self.old_toggle;
        self.bench.model_mut().set(input, old_toggle);
        let shape = self.bench[self.pieces].channel().shape().clone();
        let piece = Beat::random_with(&shape, &[("tag", tag), ("is_miss", is_miss.into())], &mut self.random)?;
        self.places -= 1;
        let mut walk = Beat::zero(self.bench[self.walks].channel().shape());
        const OTHERS: [&str; 7] =
            ["is_split", "split_context", "split_slot", "ba_pg_sz", "offset", "admission", "epoch"];
        let same = ["tag", "function", "is_remote", "table_set", "mpt_index", "virtual_page", "va", "length"];
        for field in same.into_iter().chain(OTHERS) {
            walk.set(field, piece.get(field)?)?;
        }
        walk.set("hop", piece.get("hop_num")?)?;
        walk.set("index", piece.get("page_index")?)?;
        walk.set("count", piece.get("page_count")?)?;
        walk.set("root", piece.get("root")? << 3)?;
        walk.set("split_toggle", (1 - old_toggle).into())?;
        walk.set("check_index", self.is_index_checked.into())?;
        self.bench[self.pieces].push(piece);
        Ok(is_miss.then_some(walk))
    }

    fn push_context(&mut self) -> Result<(), Error> {
        let tag = self.tag();
        let shape = self.bench[self.contexts].channel().shape().clone();
        let walk = Beat::random_with(&shape, &[("is_context", 1), ("tag", tag)], &mut self.random)?;
        let mut expected = Beat::zero(self.bench[self.walks].channel().shape());
        let names = shape.fields().iter().map(|field| field.name.as_str());
        for name in names.filter(|name| !FIELDS_OF_PIECES.contains(name)) {
            expected.set(name, walk.get(name)?)?;
        }
        self.expected_contexts.push_back(expected);
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

    /// One cycle, with a piece or none.
    fn cycle_with(&mut self, piece: Option<bool>) -> Result<(), Error> {
        let cycle = self.bench.cycles();
        let next_piece = if let Some(is_miss) = piece {
            self.push_piece(is_miss)?
        } else {
            let (input, garbage) = (self.old_toggle, self.random.random_range(0..2));
            self.bench.model_mut().set(input, garbage);
            None
        };
        let ended = self.end_walk();
        self.bench.cycle()?;
        let model = self.bench.model();
        let pulse = |output| model.get(output) == 1;
        let (walk_ended, walk_unused) = (pulse(self.walk_ended), pulse(self.walk_unused));
        assert_eq!(walk_unused, piece == Some(false), "walk_unused behind cycle {cycle}");
        assert_eq!(walk_ended, ended == Some(false), "walk_ended behind cycle {cycle}");
        self.places += u32::from(walk_ended) + u32::from(walk_unused);
        // What comes out was chosen in the cycle before.
        let mut received = self.bench[self.walks].pop().map(|received| received.beat);
        if let Some(walk) = &mut received {
            PULSES.into_iter().try_for_each(|pulse| walk.set(pulse, 0))?;
        }
        let chosen_cycle = cycle.saturating_sub(LATENCY_CYCLES);
        let may_take_context = self.expected_piece.is_none() && self.has_context_place(chosen_cycle);
        let is_context = received.as_ref().map(|walk| walk.get("is_context")).transpose()?.map(|flag| flag == 1);
        match (is_context, self.expected_piece.take()) {
            (Some(false), Some(walk)) => {
                assert_eq!(received, Some(walk));
            }
            (None, None) => {
                let waits = self.was_offered && may_take_context && self.traffic.context_stall == Stall::NEVER;
                assert!(!waits, "a walk of the context port was not taken in cycle {chosen_cycle}");
            }
            (Some(true), None) => {
                assert!(may_take_context, "a walk of the context port without a place in cycle {chosen_cycle}");
                let expected = self.expected_contexts.pop_front();
                assert_eq!(received, expected, "no walk comes out twice");
                self.context_starts.push(chosen_cycle);
                let in_flight = self.context_starts.len() - self.context_ends.len();
                assert!(in_flight as u32 <= self.config.context_walks(), "{in_flight} walks of the context port");
            }
            (_, piece) => panic!("{received:?} came out in cycle {cycle}, the piece is {piece:?}"),
        }
        if let Some(is_context) = is_context {
            let due = cycle + self.random.random_range(self.traffic.walk_cycles.clone());
            self.walking.push((due, is_context));
            self.served.push(is_context);
        }
        self.was_offered = !self.expected_contexts.is_empty();
        self.expected_piece = next_piece;
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), Error> {
        let comes = self.places > 0 && self.random.random_range(0..100) < self.traffic.piece_percent;
        let is_miss = self.random.random_range(0..100) < self.traffic.miss_percent;
        self.cycle_with(comes.then_some(is_miss))
    }

    fn run_idle(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.cycle_with(None))
    }

    fn run_until_empty(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while !(self.expected_piece.is_none() && self.expected_contexts.is_empty() && self.walking.is_empty()) {
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
fn pieces_go_first_and_the_context_port_takes_the_first_cycle_without_a_miss() -> Result<(), Error> {
    let mut rig = Rig::new(20, BUSY, true)?;
    let places = rig.places as usize;
    // As the last of so many misses there is a hit, a cycle without a piece, or the end of the places.
    for (misses, between) in (1..=places).flat_map(|misses| [Some(false), None].map(|between| (misses, between))) {
        rig.served.clear();
        rig.is_holding_walks = true;
        rig.push_context()?;
        for _ in 0..misses {
            rig.cycle_with(Some(true))?;
        }
        assert_eq!(rig.expected_contexts.len(), 1, "it waits");
        let between = between.filter(|_| misses < places);
        rig.cycle_with(between)?;
        rig.run_idle(1)?;
        let mut wanted = vec![false; misses];
        wanted.push(true);
        assert_eq!(rig.served, wanted);
        rig.is_holding_walks = false;
        rig.run_until_empty(100)?;
    }
    Ok(())
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
        assert_eq!(rig.bench.cycles() - start, WALKS + LATENCY_CYCLES);
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
    rig.run_idle(1)?;
    rig.run_idle(REUSE_CYCLES + LATENCY_CYCLES - 1)?;
    assert!(rig.served.is_empty());
    rig.run_idle(2)?;
    assert_eq!(rig.served, [true, true]);
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
