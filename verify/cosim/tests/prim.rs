//! The queues and free lists that all blocks share.

use std::collections::VecDeque;

use keywalk_cosim::{Beat, Bench, Dut, Error, Handle, Input, Output, Stall, StreamDriver, StreamSink, dut};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// The shallowest queue, one in between, and one whose entries take several memory lanes.
const QUEUES: [&Dut; 3] = [&dut::FIFO_LEAST, &dut::FIFO_NARROW, &dut::FIFO_WIDE];

/// Free lists of 2, 8 and 128 numbers.
const FREE_LISTS: [&Dut; 3] = [&dut::FREE_LIST_LEAST, &dut::FREE_LIST_SMALL, &dut::FREE_LIST_DEFAULT];

/// Cycles from a push into an empty queue to the entry at its output.
const LATENCY_CYCLES: u64 = 2;

/// Waits for longer than any test takes, nearly from the start.
const BLOCKED: Stall = Stall::percent(100).up_to(60_000);

struct Queue {
    bench: Bench,
    random: ChaCha8Rng,
    input: Handle<StreamDriver>,
    output: Handle<StreamSink>,
    in_ready: Output,
    /// Entries that the memory holds; one more stands at the output.
    depth: u64,
    expected: VecDeque<Beat>,
}

impl Queue {
    fn new(design: &'static Dut, seed: u64, input_stall: Stall, output_stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(design, seed);
        let (depth, _) = design.top.trim_start_matches("fifo_").split_once('x').expect("a queue is named by its size");
        let mut queue = Self {
            random: bench.random(),
            input: bench.driver("in", input_stall)?,
            output: bench.sink("out", output_stall)?,
            in_ready: bench.model().output("in_ready")?,
            depth: depth.parse().expect("the depth is a number"),
            expected: VecDeque::new(),
            bench,
        };
        queue.bench[queue.input].record_acceptances();
        queue.reset()?;
        Ok(queue)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.expected.clear();
        self.bench.reset(2)
    }

    fn push(&mut self) -> Result<(), Error> {
        let shape = self.bench[self.input].channel().shape().clone();
        let beat = Beat::random_with(&shape, &[], &mut self.random)?;
        self.expected.push_back(beat.clone());
        self.bench[self.input].push(beat);
        Ok(())
    }

    /// Entries in the queue.
    fn held(&self) -> u64 {
        self.bench[self.input].accepted() - self.bench[self.output].received_total()
    }

    /// Waits for every entry, compares it, and gives the first cycle of each at the output.
    fn finish(&mut self, limit_cycles: u64) -> Result<Vec<u64>, Error> {
        let (output, count) = (self.output, self.expected.len());
        self.bench.run_until("all entries", limit_cycles, |bench| bench[output].len() >= count)?;
        self.bench.run(10)?;
        let mut cycles = Vec::new();
        while let Some(received) = self.bench[self.output].pop() {
            let expected = self.expected.pop_front().expect("nothing comes out twice");
            assert_eq!(received.beat.words(), expected.words(), "entry {} of {count}", cycles.len());
            cycles.push(received.valid_cycle);
        }
        assert_eq!(cycles.len(), count);
        Ok(cycles)
    }
}

#[test]
fn a_queue_keeps_every_entry_and_their_order() -> Result<(), Error> {
    let stalls = [
        (Stall::NEVER, Stall::NEVER),
        (Stall::NEVER, Stall::percent(50)),
        (Stall::percent(50), Stall::NEVER),
        (Stall::percent(20).up_to(30), Stall::percent(20).up_to(30)),
        (Stall::percent(70).up_to(4), Stall::percent(70).up_to(4)),
    ];
    for design in QUEUES {
        for (case, (input_stall, output_stall)) in stalls.into_iter().enumerate() {
            let mut queue = Queue::new(design, case as u64, input_stall, output_stall)?;
            for _ in 0..1000 {
                queue.push()?;
            }
            queue.finish(20_000)?;
        }
    }
    Ok(())
}

#[test]
fn a_queue_holds_its_depth_and_one_at_the_output() -> Result<(), Error> {
    for design in QUEUES {
        let mut queue = Queue::new(design, 1, Stall::NEVER, BLOCKED)?;
        for _ in 0..100 {
            queue.push()?;
        }
        let mut most = 0;
        for _ in 0..queue.depth + 20 {
            queue.bench.cycle()?;
            most = most.max(queue.held());
        }
        assert_eq!(most, queue.depth + 1, "{}", design.name);
        assert_eq!(queue.held(), most, "{}", design.name);
        assert_eq!(queue.bench.model().get(queue.in_ready), 0, "{}", design.name);
        let output = queue.output;
        queue.bench[output].set_stall(Stall::NEVER);
        queue.finish(200)?;
    }
    Ok(())
}

#[test]
fn an_entry_passes_an_empty_queue_in_two_cycles() -> Result<(), Error> {
    for design in QUEUES {
        let mut queue = Queue::new(design, 2, Stall::NEVER, Stall::percent(30).up_to(5))?;
        for _ in 0..50 {
            queue.push()?;
            let valid_cycle = queue.finish(20)?[0];
            let input = queue.input;
            let accepted_cycle = queue.bench[input].pop_acceptance().expect("it was accepted");
            assert_eq!(valid_cycle - accepted_cycle, LATENCY_CYCLES, "{}", design.name);
        }
    }
    Ok(())
}

#[test]
fn a_queue_takes_and_gives_one_entry_per_cycle() -> Result<(), Error> {
    for design in QUEUES {
        // Once empty, once full at first: then it stays full.
        for is_full in [false, true] {
            let mut queue = Queue::new(design, 3, Stall::NEVER, if is_full { BLOCKED } else { Stall::NEVER })?;
            for _ in 0..500 {
                queue.push()?;
            }
            if is_full {
                queue.bench.run(queue.depth + 20)?;
                let output = queue.output;
                queue.bench[output].set_stall(Stall::NEVER);
            }
            let before = queue.bench[queue.output].received_total() as usize;
            let start = queue.bench.cycles();
            let cycles = queue.finish(600)?;
            let took = cycles.last().expect("there are entries") + 1 - start;
            let least = (500 - before) as u64 + if is_full { 0 } else { LATENCY_CYCLES };
            assert_eq!(took, least, "{}, full at first: {is_full}", design.name);
        }
    }
    Ok(())
}

#[test]
fn reset_empties_a_queue() -> Result<(), Error> {
    for design in QUEUES {
        let mut queue = Queue::new(design, 4, Stall::percent(20), Stall::percent(60))?;
        for cycles in 0..40 {
            for _ in 0..50 {
                queue.push()?;
            }
            queue.bench.run(cycles)?;
            queue.reset()?;
            queue.bench.run(10)?;
            assert!(queue.bench[queue.output].is_empty(), "{}: an entry survived", design.name);
            queue.push()?;
            queue.push()?;
            queue.finish(100)?;
        }
    }
    Ok(())
}

/// A free list and the queue of numbers that it should be.
struct FreeList {
    bench: Bench,
    random: ChaCha8Rng,
    give: Input,
    give_number: Input,
    take: Input,
    ready: Output,
    take_valid: Output,
    take_number: Output,
    numbers: u64,
    free: VecDeque<u64>,
    taken: Vec<u64>,
}

impl FreeList {
    fn new(design: &'static Dut, seed: u64) -> Result<Self, Error> {
        let mut bench = Bench::new(design, seed);
        let mut list = Self {
            random: bench.random(),
            give: bench.model().input("give")?,
            give_number: bench.model().input("give_number")?,
            take: bench.model().input("take")?,
            ready: bench.model().output("ready")?,
            take_valid: bench.model().output("take_valid")?,
            take_number: bench.model().output("take_number")?,
            numbers: design.top.trim_start_matches("free_list_").parse().expect("a list is named by its size"),
            free: VecDeque::new(),
            taken: Vec::new(),
            bench,
        };
        list.reset()?;
        Ok(list)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.free = (0..self.numbers).collect();
        self.taken.clear();
        self.bench.model_mut().set(self.give, 0);
        self.bench.model_mut().set(self.take, 0);
        self.bench.reset(2)
    }

    fn is_ready(&self) -> bool {
        self.bench.model().get(self.ready) == 1
    }

    fn offer(&self) -> Option<u64> {
        let model = self.bench.model();
        (model.get(self.take_valid) == 1).then(|| model.get(self.take_number))
    }

    /// One cycle. Gives back the taken number at that position. Returns whether a number was taken.
    fn cycle(&mut self, take: bool, give: Option<usize>) -> Result<bool, Error> {
        let offer = self.offer();
        let given = give.map(|position| self.taken.swap_remove(position));
        let number = given.unwrap_or_else(|| self.random.random_range(0..self.numbers));
        let model = self.bench.model_mut();
        model.set(self.take, take.into());
        model.set(self.give, given.is_some().into());
        model.set(self.give_number, number);
        self.bench.cycle()?;
        self.free.extend(given);
        let Some(offer) = offer else { return Ok(false) };
        if take {
            assert_eq!(Some(offer), self.free.pop_front(), "cycle {}", self.bench.cycles());
            self.taken.push(offer);
        } else {
            assert_eq!(self.offer(), Some(offer), "an offer stays until it is taken, cycle {}", self.bench.cycles());
        }
        Ok(take)
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let start = self.bench.cycles();
        while !self.is_ready() {
            self.cycle(false, None)?;
            assert!(self.bench.cycles() - start <= self.numbers, "not ready after {} cycles", self.numbers);
        }
        assert_eq!(self.bench.cycles() - start, self.numbers, "one number per cycle is entered");
        Ok(())
    }

    /// Takes every number there is, and checks that they are all there, once.
    fn take_all(&mut self) -> Result<(), Error> {
        for _ in 0..2 * self.numbers + 10 {
            self.cycle(true, None)?;
        }
        let mut taken = self.taken.clone();
        taken.sort_unstable();
        assert_eq!(taken, (0..self.numbers).collect::<Vec<_>>());
        Ok(())
    }
}

#[test]
fn every_number_is_handed_out_once_after_reset() -> Result<(), Error> {
    for design in FREE_LISTS {
        // Before the list is ready, and after.
        for waits in [false, true] {
            let mut list = FreeList::new(design, 1)?;
            if waits {
                list.wait_until_ready()?;
            }
            list.take_all()?;
            assert!(list.is_ready());
        }
    }
    Ok(())
}

#[test]
fn random_takes_and_gives_lose_and_double_nothing() -> Result<(), Error> {
    for design in FREE_LISTS {
        let mut list = FreeList::new(design, 2)?;
        list.wait_until_ready()?;
        for _ in 0..40 {
            // Some time mostly taking, some time mostly giving.
            let (take_percent, give_percent) = (list.random.random_range(0..=100), list.random.random_range(0..=100));
            for _ in 0..200 {
                let take = list.random.random_range(0..100) < take_percent;
                let gives = !list.taken.is_empty() && list.random.random_range(0..100) < give_percent;
                let position = list.random.next_u32() as usize % list.taken.len().max(1);
                list.cycle(take, gives.then_some(position))?;
            }
        }
        list.take_all()?;
    }
    Ok(())
}

#[test]
fn a_number_given_back_can_be_taken_two_cycles_later() -> Result<(), Error> {
    for design in FREE_LISTS {
        let mut list = FreeList::new(design, 3)?;
        list.take_all()?;
        for _ in 0..10 {
            list.cycle(false, Some(0))?;
            assert!(!list.cycle(true, None)?, "{}", design.name);
            assert!(list.cycle(true, None)?, "{}", design.name);
        }
    }
    Ok(())
}

#[test]
fn a_number_per_cycle_is_taken_and_given_back() -> Result<(), Error> {
    for design in FREE_LISTS {
        let mut list = FreeList::new(design, 4)?;
        // A number is away for one cycle and its way back takes two.
        if list.numbers < 4 {
            continue;
        }
        list.wait_until_ready()?;
        for cycle in 0..10 * list.numbers {
            let give = (!list.taken.is_empty()).then_some(0);
            assert!(list.cycle(true, give)?, "{}: nothing to take in cycle {cycle}", design.name);
        }
    }
    Ok(())
}

#[test]
fn reset_refills_a_free_list() -> Result<(), Error> {
    for design in FREE_LISTS {
        let mut list = FreeList::new(design, 5)?;
        for cycles in 0..20 {
            for _ in 0..cycles {
                list.cycle(true, None)?;
            }
            list.reset()?;
            list.take_all()?;
            list.reset()?;
        }
    }
    Ok(())
}
