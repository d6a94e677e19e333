//! The queue between two clocks.

use keywalk_cosim::{Dut, Error, Input, Output, TwoClocks, bits, dut};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The shallowest queue, a deep one, the deep one whose synchronisers see each changed bit an edge late at random, and the
/// shallow one likewise.
const QUEUES: [&Dut; 4] =
    [&dut::ASYNC_FIFO_SHALLOW, &dut::ASYNC_FIFO_DEEP, &dut::ASYNC_FIFO_DEEP_LATE, &dut::ASYNC_FIFO_SHALLOW_LATE];

/// Half periods of the writing and the reading clock: faster, equal, slower, far apart, and nearly equal.
const CLOCKS: [[u64; 2]; 7] =
    [[1600, 2000], [2000, 2000], [2000, 1600], [500, 4100], [4100, 500], [2000, 2001], [2001, 2000]];

const WRITE: usize = 0;
const READ: usize = 1;

struct Queue {
    bench: TwoClocks,
    random: ChaCha8Rng,
    words: u64,
    width: u32,
    /// Chance of a cycle without a word or without ready, by side, of 256.
    stalls: [u8; 2],
    write_valid: Input,
    write_ready: Output,
    write_data: Input,
    read_valid: Output,
    read_ready: Input,
    read_data: Output,
    offers: bool,
    written: u64,
    read: u64,
    was_waiting: bool,
}

impl Queue {
    fn new(design: &'static Dut, seed: u64, clocks: [u64; 2], stalls: [u8; 2]) -> Result<Self, Error> {
        let mut bench = TwoClocks::new(design, seed, ["write_clock", "read_clock"], clocks)?;
        for (reset, input) in ["write_reset", "read_reset"].map(|name| (name, bench.model.input(name))) {
            bench.model.set(input.unwrap_or_else(|error| panic!("{reset}: {error}")), 0);
        }
        let (words, _) = design.top.trim_start_matches("async_fifo_").split_once('x').expect("named by its size");
        let model = &bench.model;
        let read_data = model.output("read_data")?;
        Ok(Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            words: words.parse().expect("a number"),
            width: keywalk_cosim::Signal::from(read_data).width(),
            stalls,
            write_valid: model.input("write_valid")?,
            write_ready: model.output("write_ready")?,
            write_data: model.input("write_data")?,
            read_valid: model.output("read_valid")?,
            read_ready: model.input("read_ready")?,
            read_data,
            offers: false,
            written: 0,
            read: 0,
            was_waiting: false,
            bench,
        })
    }

    /// The word of a number, which differs from those around it in all parts.
    fn word(&self, number: u64) -> Vec<u32> {
        let mut random = ChaCha8Rng::seed_from_u64(number);
        let mut words: Vec<u32> = (0..bits::words(self.width)).map(|_| random.next_u32()).collect();
        if let Some(last) = words.last_mut()
            && !self.width.is_multiple_of(32)
        {
            *last &= (1 << (self.width % 32)) - 1;
        }
        words
    }

    fn stalls(&mut self, side: usize) -> bool {
        (self.random.next_u32() as u8) < self.stalls[side]
    }

    /// An edge of one clock or of both.
    fn step(&mut self) {
        let rising = self.bench.approach();
        if rising[WRITE] && !self.offers {
            self.offers = !self.stalls(WRITE);
            let number = if self.offers { self.written } else { self.random.random() };
            let word = self.word(number);
            self.bench.model.set(self.write_valid, self.offers.into());
            self.bench.model.set_words(self.write_data, &word);
        }
        let takes = !self.stalls(READ);
        if rising[READ] {
            self.bench.model.set(self.read_ready, takes.into());
        }
        self.bench.model.settle();
        if rising[WRITE] && self.offers && self.bench.model.get(self.write_ready) == 1 {
            self.written += 1;
            self.offers = false;
        }
        if rising[READ] {
            let is_offered = self.bench.model.get(self.read_valid) == 1;
            assert!(is_offered || !self.was_waiting, "a word that waited was withdrawn");
            if is_offered {
                assert!(self.read < self.written, "a word that was not written is offered");
                let mut word = vec![0; bits::words(self.width)];
                self.bench.model.get_words(self.read_data, &mut word, 0);
                assert_eq!(word, self.word(self.read), "word {}", self.read);
                self.read += u64::from(takes);
            }
            self.was_waiting = is_offered && !takes;
        }
        assert!(self.written - self.read <= self.words, "more words than there are places");
        self.bench.rise();
    }

    /// Runs until so many words were read.
    fn run(&mut self, count: u64) {
        let limit = self.bench.edges(READ) + self.bench.edges(WRITE) + 200 * count + 1000;
        while self.read < count {
            assert!(self.bench.edges(READ) + self.bench.edges(WRITE) < limit, "stuck at word {} of {count}", self.read);
            self.step();
        }
    }
}

#[test]
fn a_queue_keeps_every_word_and_their_order() -> Result<(), Error> {
    for design in QUEUES {
        for (number, clocks) in CLOCKS.into_iter().enumerate() {
            for stalls in [[0, 0], [0, 128], [128, 0], [200, 200], [40, 60]] {
                Queue::new(design, 1 + number as u64, clocks, stalls)?.run(1000);
            }
        }
    }
    Ok(())
}

#[test]
fn a_queue_fills_to_its_last_place_and_empties() -> Result<(), Error> {
    for design in QUEUES {
        let mut queue = Queue::new(design, 3, [2000, 1700], [0, 255])?;
        let mut most = 0;
        for _ in 0..400 {
            queue.step();
            most = most.max(queue.written - queue.read);
        }
        assert_eq!(most, queue.words, "{}", design.name);
        queue.stalls = [255, 0];
        for _ in 0..400 {
            queue.step();
        }
        assert!(queue.written - queue.read <= 1, "{}: {} words stay", design.name, queue.written - queue.read);
    }
    Ok(())
}

#[test]
fn a_deep_queue_takes_a_word_per_cycle_of_the_slower_clock() -> Result<(), Error> {
    for design in [&dut::ASYNC_FIFO_DEEP, &dut::ASYNC_FIFO_DEEP_LATE] {
        for clocks in CLOCKS {
            let mut queue = Queue::new(design, 1, clocks, [0, 0])?;
            queue.run(100);
            let slower = if clocks[WRITE] > clocks[READ] { WRITE } else { READ };
            let (words, edges) = (queue.read, queue.bench.edges(slower));
            queue.run(10_000);
            let rate = (queue.read - words) as f64 / (queue.bench.edges(slower) - edges) as f64;
            println!("{}: half periods {clocks:?}: {rate:.4} words per cycle of the slower clock", design.name);
            assert!(rate >= 0.999, "{}: half periods {clocks:?}: {rate:.4}", design.name);
        }
    }
    Ok(())
}

#[test]
fn a_queue_offers_nothing_and_takes_nothing_in_reset() -> Result<(), Error> {
    for design in QUEUES {
        let mut queue = Queue::new(design, 5, [2000, 2300], [0, 255])?;
        for _ in 0..100 {
            queue.step();
        }
        let inputs = [queue.bench.model.input("write_reset")?, queue.bench.model.input("read_reset")?];
        queue.bench.model.set(queue.write_valid, 0);
        for reset in inputs {
            queue.bench.model.set(reset, 1);
        }
        for edge in 0..40 {
            queue.bench.approach();
            if edge > 4 {
                assert_eq!(queue.bench.model.get(queue.write_ready), 0, "{}", design.name);
                assert_eq!(queue.bench.model.get(queue.read_valid), 0, "{}", design.name);
            }
            queue.bench.rise();
        }
        for reset in inputs {
            queue.bench.model.set(reset, 0);
        }
        (queue.written, queue.read, queue.offers, queue.was_waiting) = (0, 0, false, false);
        queue.stalls = [60, 60];
        queue.run(500);
    }
    Ok(())
}
