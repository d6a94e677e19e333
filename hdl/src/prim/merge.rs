//! Merges two streams that cannot wait into one that can.
//!
//! Handshake: a record of either stream is accepted in the cycle in which it is valid, always. The merged record is
//! offered in the same cycle if nothing goes before it, else it waits in its stream's queue; the offered record may change
//! until it is taken, so that the taker registers it. Order of preference: queue of the first stream, first stream, queue
//! of the second stream, second stream. Records may pass each other. Throughput: one out per cycle. Reset: empties the
//! queues. Limits: each queue holds `depth` records, which must be the most that can be under way in a stream.

use super::builder::{Builder, Design};
use super::fifo::{Fifo, FifoPort};
use super::record::Record;
use super::signal::Signal;

/// Two streams merged.
pub struct Merge<'a, R: Record<u32>>
where
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    /// A record is offered.
    pub valid: Signal<'a>,
    /// The record.
    pub out: R::With<Signal<'a>>,
    first: Lane<'a, R>,
    second: Lane<'a, R>,
    holds_second: Signal<'a>,
}

/// A stream with its queue.
struct Lane<'a, R: Record<u32>>
where
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    arrives: Signal<'a>,
    arrival: R::With<Signal<'a>>,
    queue: Fifo<'a, R>,
    port: FifoPort<'a, R::With<Signal<'a>>>,
}

impl<'a, R: Record<u32>> Merge<'a, R>
where
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    /// Merges two streams of pairs of valid and record. While `holds_second` is set, nothing of the second one is offered.
    /// `depth` is a power of two of at least 2.
    #[expect(clippy::too_many_arguments, reason = "two streams and what governs them")]
    pub fn new(
        design: &Design<'_>,
        builder: &'a Builder<'a>,
        name: &str,
        depth: u32,
        widths: R,
        first: (Signal<'a>, R::With<Signal<'a>>),
        second: (Signal<'a>, R::With<Signal<'a>>),
        holds_second: Signal<'a>,
    ) -> Self {
        let lane = |which, (arrives, arrival)| {
            let (queue, port) = Fifo::new(design, builder, &format!("{name}_{which}"), depth, widths.clone());
            Lane { arrives, arrival, queue, port }
        };
        let (first, second) = (lane("first", first), lane("second", second));
        // Two select bits and four records fit one 6-input LUT per bit.
        let is_first = first.any();
        let is_arrival = is_first.mux(!first.port.out_valid, !second.port.out_valid);
        let sources = [&first.port.out, &first.arrival, &second.port.out, &second.arrival];
        let fields = sources.map(|record| record.clone().list());
        let mut index = 0;
        let out = widths.map(&mut |_, _| {
            let [first_queued, first_arrival, second_queued, second_arrival] =
                std::array::from_fn(|source| fields[source][index].1);
            index += 1;
            is_first.mux(is_arrival.mux(first_arrival, first_queued), is_arrival.mux(second_arrival, second_queued))
        });
        Self { valid: is_first | (second.any() & !holds_second), out, first, second, holds_second }
    }

    /// Drives the output side: the offered record is taken where `valid` and `take` are set.
    pub fn take(&self, take: Signal<'a>) {
        self.first.take(take);
        self.second.take(take & !self.first.any() & !self.holds_second);
    }
}

impl<'a, R: Record<u32>> Lane<'a, R>
where
    R::With<Signal<'a>>: Record<Signal<'a>>,
{
    /// The stream has a record.
    fn any(&self) -> Signal<'a> {
        self.port.out_valid | self.arrives
    }

    /// `take` takes the queue's oldest record, or what arrives where the queue offers none.
    fn take(&self, take: Signal<'a>) {
        self.queue.pop(take);
        self.queue.push(self.arrives & !(take & !self.port.out_valid), self.arrival.clone());
    }
}
