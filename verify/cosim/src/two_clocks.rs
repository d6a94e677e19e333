//! A model with two clocks of its own.

use crate::dut::Dut;
use crate::error::Error;
use crate::model::{Input, Model};

/// A model whose two clocks rise when their periods say.
pub struct TwoClocks {
    /// The model.
    pub model: Model,
    clocks: [Clock; 2],
    /// Clocks that rise next.
    rising: [bool; 2],
}

struct Clock {
    input: Input,
    half_period: u64,
    next_time: u64,
    is_high: bool,
    edges: u64,
}

impl TwoClocks {
    /// A model with clocks of these ports and half periods, in any unit of time.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`].
    pub fn new(design: &'static Dut, seed: u64, ports: [&str; 2], half_periods: [u64; 2]) -> Result<Self, Error> {
        let model = Model::new(design, seed);
        let clock = |number: usize| {
            let half_period = half_periods[number];
            let input = model.input(ports[number])?;
            // Not both at once from the begin.
            Ok(Clock { input, half_period, next_time: half_period + seed % half_period, is_high: false, edges: 0 })
        };
        let clocks = [clock(0)?, clock(1)?];
        Ok(Self { model, clocks, rising: [false; 2] })
    }

    /// Runs to a moment before the next rising edge, and says which clocks will rise; they may both.
    pub fn approach(&mut self) -> [bool; 2] {
        loop {
            let time = self.clocks[0].next_time.min(self.clocks[1].next_time);
            let at = |clock: &Clock| clock.next_time == time;
            let falling = self.clocks.each_ref().map(|clock| at(clock) && clock.is_high);
            self.rising = self.clocks.each_ref().map(|clock| at(clock) && !clock.is_high);
            if falling.contains(&true) {
                for clock in self.clocks.iter_mut().filter(|clock| clock.next_time == time && clock.is_high) {
                    clock.is_high = false;
                    clock.next_time += clock.half_period;
                    self.model.set(clock.input, 0);
                }
                self.model.settle();
            }
            if self.rising.contains(&true) {
                return self.rising;
            }
        }
    }

    /// Lets the clocks rise.
    pub fn rise(&mut self) {
        for (clock, _) in self.clocks.iter_mut().zip(self.rising).filter(|(_, rises)| *rises) {
            clock.is_high = true;
            clock.next_time += clock.half_period;
            clock.edges += 1;
            self.model.set(clock.input, 1);
        }
        self.model.edge();
    }

    /// Rising edges of a clock so far.
    #[must_use]
    pub fn edges(&self, clock: usize) -> u64 {
        self.clocks[clock].edges
    }
}
