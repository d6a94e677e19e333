//! The queue of pages to be walked: fields, order, taking turns, and the places that are given back.

use std::collections::VecDeque;

use keywalk_cosim::{Beat, Bench, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Places that the page split reserves.
const PLACES: usize = 128;
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
/// Cycles from a piece to its walk.
const LATENCY_CYCLES: u64 = 2;

/// How the sources behave.
#[derive(Clone, Copy)]
struct Traffic {
    /// Cycles of 100 in which a piece comes, while there are places.
    piece_percent: u32,
    /// Pieces of 100 that miss.
    miss_percent: u32,
    context_stall: Stall,
    walk_stall: Stall,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    traffic: Traffic,
    pieces: Handle<StreamDriver>,
    contexts: Handle<StreamDriver>,
    walks: Handle<StreamSink>,
    old_toggle: Input,
    index_check: Input,
    place_freed: Output,
    place_unused: Output,
    is_index_checked: bool,
    next_tag: u128,
    places: usize,
    /// Walks of pieces, in order, with the cycle of the piece.
    expected_pieces: VecDeque<(Beat, u64)>,
    expected_contexts: VecDeque<Beat>,
    /// Whether each walk that came out was one of the context port.
    served: Vec<bool>,
}

impl Rig {
    fn new(seed: u64, traffic: Traffic, is_index_checked: bool) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::WALK_QUEUE, seed);
        let mut rig = Self {
            random: bench.random(),
            traffic,
            pieces: bench.driver("looked_up", Stall::NEVER)?,
            contexts: bench.driver("context_walk", traffic.context_stall)?,
            walks: bench.sink("walk", traffic.walk_stall)?,
            old_toggle: bench.model().input("old_toggle")?,
            index_check: bench.model().input("index_check")?,
            place_freed: bench.model().output("place_freed")?,
            place_unused: bench.model().output("place_unused")?,
            is_index_checked,
            next_tag: 0,
            places: PLACES,
            expected_pieces: VecDeque::new(),
            expected_contexts: VecDeque::new(),
            served: Vec::new(),
            bench,
        };
        let walks = rig.walks;
        rig.bench[walks].ignore_where("is_context", &FIELDS_OF_PIECES)?;
        let index_check = rig.index_check;
        rig.bench.model_mut().set(index_check, is_index_checked.into());
        rig.reset()?;
        Ok(rig)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.places = PLACES;
        self.expected_pieces.clear();
        self.expected_contexts.clear();
        self.bench.reset(2)
    }

    fn tag(&mut self) -> u128 {
        self.next_tag = (self.next_tag + 1) & 0xffff;
        self.next_tag
    }

    /// A piece for the coming cycle.
    fn push_piece(&mut self, is_miss: bool) -> Result<(), Error> {
        let tag = self.tag();
        let old_toggle = self.random.random_range(0..2);
        let input = self.old_toggle;
        self.bench.model_mut().set(input, old_toggle);
        let shape = self.bench[self.pieces].channel().shape().clone();
        let piece = Beat::random_with(&shape, &[("tag", tag), ("is_miss", is_miss.into())], &mut self.random)?;
        self.places -= 1;
        if is_miss {
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
            self.expected_pieces.push_back((walk, self.bench.cycles()));
        }
        self.bench[self.pieces].push(piece);
        Ok(())
    }

    fn push_context(&mut self) -> Result<(), Error> {
        let tag = self.tag();
        let shape = self.bench[self.contexts].channel().shape().clone();
        let walk = Beat::random_with(&shape, &[("is_context", 1), ("tag", tag)], &mut self.random)?;
        // The two channels have the same fields.
        let mut expected = Beat::zero(self.bench[self.walks].channel().shape());
        expected.words_mut().copy_from_slice(walk.words());
        for name in FIELDS_OF_PIECES {
            expected.set(name, 0)?;
        }
        self.expected_contexts.push_back(expected);
        self.bench[self.contexts].push(walk);
        Ok(())
    }

    /// One cycle, with a piece or none.
    fn cycle_with(&mut self, piece: Option<bool>) -> Result<(), Error> {
        if let Some(is_miss) = piece {
            self.push_piece(is_miss)?;
        } else {
            let (input, garbage) = (self.old_toggle, self.random.random_range(0..2));
            self.bench.model_mut().set(input, garbage);
        }
        self.bench.cycle()?;
        let model = self.bench.model();
        let pulse = |output| model.get(output) == 1;
        let (freed, unused) = (pulse(self.place_freed), pulse(self.place_unused));
        assert_eq!(unused, piece == Some(false), "place_unused in cycle {}", self.bench.cycles());
        self.places += usize::from(freed) + usize::from(unused);
        let mut frees = false;
        while let Some(received) = self.bench[self.walks].pop() {
            let is_context = received.get("is_context")? == 1;
            self.served.push(is_context);
            let expected = if is_context {
                self.expected_contexts.pop_front()
            } else {
                frees = true;
                self.expected_pieces.pop_front().map(|(walk, cycle)| {
                    assert!(received.valid_cycle >= cycle + LATENCY_CYCLES);
                    walk
                })
            };
            let expected = expected.expect("no walk comes out twice");
            assert_eq!(received.beat, expected);
        }
        assert_eq!(freed, frees, "place_freed in cycle {}", self.bench.cycles());
        Ok(())
    }

    fn cycle(&mut self) -> Result<(), Error> {
        let comes = self.places > 0 && self.random.random_range(0..100) < self.traffic.piece_percent;
        let is_miss = self.random.random_range(0..100) < self.traffic.miss_percent;
        self.cycle_with(comes.then_some(is_miss))
    }

    fn run_until_empty(&mut self, limit_cycles: u64) -> Result<(), Error> {
        let end = self.bench.cycles() + limit_cycles;
        while !(self.expected_pieces.is_empty() && self.expected_contexts.is_empty()) {
            assert!(self.bench.cycles() < end, "walks wait after {limit_cycles} cycles");
            self.cycle_with(None)?;
        }
        for _ in 0..10 {
            self.cycle_with(None)?;
        }
        assert_eq!(self.places, PLACES, "every place comes back once");
        Ok(())
    }
}

const BUSY: Traffic =
    Traffic { piece_percent: 100, miss_percent: 100, context_stall: Stall::NEVER, walk_stall: Stall::NEVER };

#[test]
fn every_walk_has_its_fields_and_its_place_comes_back() -> Result<(), Error> {
    let cases = [
        BUSY,
        Traffic { piece_percent: 50, miss_percent: 50, ..BUSY },
        Traffic { miss_percent: 70, walk_stall: Stall::percent(50).up_to(4), ..BUSY },
        Traffic {
            miss_percent: 10,
            context_stall: Stall::percent(80).up_to(3),
            walk_stall: Stall::percent(70),
            ..BUSY
        },
        Traffic {
            piece_percent: 40,
            context_stall: Stall::percent(50),
            walk_stall: Stall::percent(20).up_to(60),
            ..BUSY
        },
    ];
    for (case, traffic) in cases.into_iter().enumerate() {
        for is_index_checked in [false, true] {
            let mut rig = Rig::new(case as u64, traffic, is_index_checked)?;
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
fn the_sources_take_turns_while_both_wait() -> Result<(), Error> {
    for walk_stall in [Stall::NEVER, Stall::percent(50).up_to(5)] {
        let mut rig = Rig::new(20, Traffic { walk_stall, ..BUSY }, true)?;
        for _ in 0..10 {
            rig.cycle()?;
        }
        for _ in 0..300 {
            rig.push_context()?;
        }
        // The first walk of the context port waits for one turn at most.
        rig.served.clear();
        while rig.expected_contexts.len() > 100 {
            rig.cycle()?;
            assert!(rig.bench.cycles() < 5000, "{} walks wait", rig.expected_contexts.len());
        }
        let first = rig.served.iter().position(|is_context| *is_context).expect("a walk of the context port is served");
        assert!(first <= 1, "{first} pieces went before");
        let is_alternating = rig.served[first..].windows(2).all(|pair| pair[0] != pair[1]);
        assert!(is_alternating, "{:?}", rig.served);
        rig.run_until_empty(5000)?;
    }
    Ok(())
}

#[test]
fn a_piece_takes_two_cycles_and_one_follows_per_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(21, BUSY, true)?;
    let start = rig.bench.cycles();
    for _ in 0..200 {
        rig.cycle_with(Some(true))?;
    }
    while rig.served.len() < 200 {
        rig.cycle_with(None)?;
        assert!(rig.bench.cycles() - start < 250, "{} of 200 walks", rig.served.len());
    }
    assert_eq!(rig.bench.cycles() - start, 200 + LATENCY_CYCLES);
    Ok(())
}

#[test]
fn both_sources_together_fill_every_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(22, BUSY, true)?;
    for _ in 0..1000 {
        rig.push_context()?;
    }
    for _ in 0..10 {
        rig.cycle()?;
    }
    rig.served.clear();
    for _ in 0..500 {
        rig.cycle()?;
    }
    assert_eq!(rig.served.len(), 500);
    Ok(())
}

#[test]
fn every_place_holds_a_walk() -> Result<(), Error> {
    // A walker that takes nothing for long.
    let mut rig = Rig::new(24, Traffic { walk_stall: Stall::percent(100).up_to(60_000), ..BUSY }, true)?;
    for _ in 0..3 {
        while rig.places > 0 {
            rig.cycle_with(Some(true))?;
            assert!(rig.bench.cycles() < 2000, "{} places are left", rig.places);
        }
        // One of the context port waits behind them, in vain.
        rig.push_context()?;
        for _ in 0..20 {
            rig.cycle_with(None)?;
        }
        let walks = rig.walks;
        rig.bench[walks].set_stall(Stall::NEVER);
        rig.served.clear();
        rig.run_until_empty(200)?;
        assert_eq!(rig.served.len(), PLACES + 1);
        assert!(rig.served[0] || rig.served[1], "the context port was served second at the latest");
        rig.bench[walks].set_stall(rig.traffic.walk_stall);
    }
    Ok(())
}

#[test]
fn a_walk_of_the_context_port_passes_in_its_cycle() -> Result<(), Error> {
    let mut rig = Rig::new(25, BUSY, true)?;
    let walks = rig.walks;
    for _ in 0..20 {
        rig.push_context()?;
        rig.cycle_with(None)?;
        assert!(rig.expected_contexts.is_empty());
    }
    // It is offered and stays, while pieces come and could be served.
    rig.bench[walks].set_stall(Stall::percent(100).up_to(60_000));
    rig.cycle_with(None)?;
    rig.push_context()?;
    rig.cycle_with(None)?;
    for _ in 0..20 {
        rig.cycle_with(Some(true))?;
    }
    rig.bench[walks].set_stall(Stall::NEVER);
    rig.served.clear();
    rig.run_until_empty(100)?;
    assert!(rig.served[0], "the one that was offered first is served first");
    Ok(())
}

#[test]
fn reset_drops_all_walks() -> Result<(), Error> {
    let mut rig = Rig::new(23, Traffic { miss_percent: 60, walk_stall: Stall::percent(70), ..BUSY }, false)?;
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
        for _ in 0..20 {
            rig.cycle()?;
        }
        rig.run_until_empty(500)?;
    }
    Ok(())
}
