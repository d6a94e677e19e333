//! The resets of the shell, and the handshake by which both sides of the crossing are reset together.
//!
//! Purpose: every queue between the clocks has a half on each side, and halves must never work on each other's old
//! pointers. So whichever side is reset, in whatever order and however often, both halves are stopped, then emptied, then
//! started. Requests that are in flight at the PCIe slave by then are answered to nobody: the start waits until the
//! port has `drained`.
//!
//! Handshake, between registers that no reset reaches and that begin at zero when the device is configured:
//!
//! | register | side | meaning |
//! | --- | --- | --- |
//! | `run` | engine | the PCIe side may work; low is the request to stop |
//! | `ack` | PCIe | stopped, and this side's halves are held empty |
//! | `wish` | PCIe | this side was reset, and asks for `run` to go low |
//! | `engine_up` | engine | the engine and everything on its side is out of reset |
//! | `pcie_up` | PCIe | requests and answers may pass |
//!
//! 1. The engine side's reset, or `wish`, takes `run` and `engine_up` down, once `ack` is low.
//! 2. The PCIe side sees `run` low and empties its halves; `pcie_up` falls and `ack` rises. The halves are empty when `ack` is on
//!    its way, so that the other side has seen their pointers at zero by the time it hears of it, however slow this clock is.
//! 3. The engine side sees `ack`, empties its own halves (`engine_clear`) for `SETTLE_CYCLES`, and sets `run` when its
//!    reset and `wish` have gone.
//! 4. The PCIe side sees `run`, waits `SETTLE_CYCLES` more and until the port has drained, drops `ack`, and works.
//! 5. The engine side sees `ack` low and works.
//!
//! `run` and `ack` are a handshake of four phases: each stays until the other has answered, so none is missed whatever the
//! clocks are. A reset in the middle only sets `wish` or holds step 3; it never moves `run` or `ack` out of turn.
//! Reset: `engine_reset_n` belongs to no clock and may be of any length. The edges of `pcie_reset_n` belong to
//! `pcie_clock`, because the port must forget what is in flight in the same cycle as the IP; should it come and go
//! while the clock stands, it is caught all the same.
//! Limits: a slave that does not answer what it accepted keeps the link down until it is reset itself.

use crate::crossing::{ResetCatcher, Synchroniser};
use rust_hdl_core::prelude::*;
use rust_hdl_widgets::prelude::DFF;

/// Bits of the counters that let pointers settle.
const SETTLE_BITS: usize = 3;
/// Cycles of each side for which its halves stay empty before the other hears of it.
pub const SETTLE_CYCLES: u32 = (1 << SETTLE_BITS) - 1;

/// See the module.
#[derive(LogicBlock)]
pub struct ResetLink {
    /// Clock of the engine.
    pub engine_clock: Signal<In, Clock>,
    /// Reset of the engine's side, active low, of no clock.
    pub engine_reset_n: Signal<In, Bit>,
    /// Reset of the engine and of everything on its side, active low.
    pub engine_up: Signal<Out, Bit>,
    /// Empties the queues' halves on the engine's side.
    pub engine_clear: Signal<Out, Bit>,
    /// Clock of the PCIe IP.
    pub pcie_clock: Signal<In, Clock>,
    /// Reset of the PCIe IP, active low, of `pcie_clock`.
    pub pcie_reset_n: Signal<In, Bit>,
    /// Reset of what speaks to the PCIe IP, active low.
    pub port_reset_n: Signal<Out, Bit>,
    /// Nothing is in flight at the PCIe slave.
    pub drained: Signal<In, Bit>,
    /// Requests and answers may pass.
    pub pcie_up: Signal<Out, Bit>,
    /// Empties the queues' halves on the PCIe side.
    pub pcie_clear: Signal<Out, Bit>,

    engine_reset: ResetCatcher,
    ack_at_engine: Synchroniser<1>,
    wish_at_engine: Synchroniser<1>,
    run: DFF<Bits<1>>,
    engine_settle: DFF<Bits<SETTLE_BITS>>,
    engine_works: DFF<Bit>,
    pcie_reset: ResetCatcher,
    run_at_pcie: Synchroniser<1>,
    ack: DFF<Bits<1>>,
    wish: DFF<Bits<1>>,
    pcie_settle: DFF<Bits<SETTLE_BITS>>,
    pcie_works: DFF<Bit>,

    may_run: Signal<Local, Bit>,
    engine_settled: Signal<Local, Bit>,
    is_running: Signal<Local, Bit>,
    is_acknowledged: Signal<Local, Bit>,
    asked: Signal<Local, Bit>,
    acknowledges: Signal<Local, Bit>,
    wishes: Signal<Local, Bit>,
    pcie_settled: Signal<Local, Bit>,
    pcie_own_n: Signal<Local, Bit>,
    settle_end: Constant<Bits<SETTLE_BITS>>,
}

impl ResetLink {
    /// A link whose signals pass through synchronisers of that many stages.
    #[must_use]
    pub fn new(stages: usize) -> Self {
        Self {
            engine_clock: Signal::default(),
            engine_reset_n: Signal::default(),
            engine_up: Signal::default(),
            engine_clear: Signal::default(),
            pcie_clock: Signal::default(),
            pcie_reset_n: Signal::default(),
            port_reset_n: Signal::default(),
            drained: Signal::default(),
            pcie_up: Signal::default(),
            pcie_clear: Signal::default(),
            engine_reset: ResetCatcher::new(stages),
            ack_at_engine: Synchroniser::new(stages),
            wish_at_engine: Synchroniser::new(stages),
            run: DFF::default(),
            engine_settle: DFF::default(),
            engine_works: DFF::default(),
            pcie_reset: ResetCatcher::new(stages),
            run_at_pcie: Synchroniser::new(stages),
            ack: DFF::default(),
            wish: DFF::default(),
            pcie_settle: DFF::default(),
            pcie_works: DFF::default(),
            may_run: Signal::default(),
            engine_settled: Signal::default(),
            is_running: Signal::default(),
            is_acknowledged: Signal::default(),
            asked: Signal::default(),
            acknowledges: Signal::default(),
            wishes: Signal::default(),
            pcie_settled: Signal::default(),
            pcie_own_n: Signal::default(),
            settle_end: Constant::new(SETTLE_CYCLES.to_bits()),
        }
    }
}

impl Logic for ResetLink {
    #[hdl_gen]
    fn update(&mut self) {
        self.engine_reset.clock.next = self.engine_clock.val();
        self.ack_at_engine.clock.next = self.engine_clock.val();
        self.wish_at_engine.clock.next = self.engine_clock.val();
        self.run.clock.next = self.engine_clock.val();
        self.engine_settle.clock.next = self.engine_clock.val();
        self.engine_works.clock.next = self.engine_clock.val();
        self.pcie_reset.clock.next = self.pcie_clock.val();
        self.run_at_pcie.clock.next = self.pcie_clock.val();
        self.ack.clock.next = self.pcie_clock.val();
        self.wish.clock.next = self.pcie_clock.val();
        self.pcie_settle.clock.next = self.pcie_clock.val();
        self.pcie_works.clock.next = self.pcie_clock.val();

        // The engine's side.
        self.engine_reset.reset_n.next = self.engine_reset_n.val();
        self.ack_at_engine.d.next = self.ack.q.val();
        self.wish_at_engine.d.next = self.wish.q.val();
        self.is_running.next = self.run.q.val().any();
        self.is_acknowledged.next = self.ack_at_engine.q.val().any();
        self.may_run.next = self.engine_reset.q.val() & !self.wish_at_engine.q.val().any();
        self.engine_settled.next = self.engine_settle.q.val() == self.settle_end.val();
        self.run.d.next = self.run.q.val();
        self.engine_settle.d.next = 0.into();
        if self.is_running.val() {
            if !self.may_run.val() & !self.is_acknowledged.val() {
                self.run.d.next = 0.into();
            }
        } else {
            if self.is_acknowledged.val() {
                self.engine_settle.d.next = self.engine_settle.q.val();
                if !self.engine_settled.val() {
                    self.engine_settle.d.next = self.engine_settle.q.val() + 1;
                }
                if self.engine_settled.val() & self.may_run.val() {
                    self.run.d.next = 1.into();
                }
            }
        }
        self.engine_works.d.next = self.is_running.val() & !self.is_acknowledged.val() & self.may_run.val();
        self.engine_up.next = self.engine_works.q.val();
        self.engine_clear.next = !self.is_running.val() & self.is_acknowledged.val();

        // The PCIe side.
        self.pcie_reset.reset_n.next = self.pcie_reset_n.val();
        self.run_at_pcie.d.next = self.run.q.val();
        self.pcie_own_n.next = self.pcie_reset_n.val() & self.pcie_reset.q.val();
        self.port_reset_n.next = self.pcie_own_n.val();
        self.asked.next = !self.run_at_pcie.q.val().any();
        self.acknowledges.next = self.ack.q.val().any();
        self.wishes.next = self.wish.q.val().any();
        self.pcie_settled.next = self.pcie_settle.q.val() == self.settle_end.val();
        self.ack.d.next = self.ack.q.val();
        self.wish.d.next = self.wish.q.val();
        self.pcie_settle.d.next = 0.into();
        if self.asked.val() {
            self.ack.d.next = 1.into();
            if self.acknowledges.val() {
                self.wish.d.next = 0.into();
            }
        } else {
            if self.acknowledges.val() {
                self.pcie_settle.d.next = self.pcie_settle.q.val();
                if !self.pcie_settled.val() {
                    self.pcie_settle.d.next = self.pcie_settle.q.val() + 1;
                }
                if self.pcie_settled.val() & self.drained.val() {
                    self.ack.d.next = 0.into();
                }
            }
        }
        if !self.pcie_own_n.val() {
            self.wish.d.next = 1.into();
        }
        self.pcie_works.d.next =
            self.pcie_own_n.val() & !self.wishes.val() & !self.acknowledges.val() & !self.asked.val();
        self.pcie_up.next = self.pcie_works.q.val();
        self.pcie_clear.next = self.asked.val() | self.acknowledges.val();
    }
}

/// Carries a level, such as an interrupt, to another clock.
#[derive(LogicBlock)]
pub struct LevelCrossing {
    /// Clock of `d`.
    pub from_clock: Signal<In, Clock>,
    /// The level.
    pub d: Signal<In, Bits<1>>,
    /// Clock of `q`.
    pub to_clock: Signal<In, Clock>,
    /// The level, later.
    pub q: Signal<Out, Bits<1>>,
    level: DFF<Bits<1>>,
    level_at_other: Synchroniser<1>,
}

impl LevelCrossing {
    /// A crossing with that many stages.
    #[must_use]
    pub fn new(stages: usize) -> Self {
        Self {
            from_clock: Signal::default(),
            d: Signal::default(),
            to_clock: Signal::default(),
            q: Signal::default(),
            level: DFF::default(),
            level_at_other: Synchroniser::new(stages),
        }
    }
}

impl Logic for LevelCrossing {
    #[hdl_gen]
    fn update(&mut self) {
        self.level.clock.next = self.from_clock.val();
        self.level_at_other.clock.next = self.to_clock.val();
        self.level.d.next = self.d.val();
        self.level_at_other.d.next = self.level.q.val();
        self.q.next = self.level_at_other.q.val();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_comes_up_and_comes_up_again_in_the_simulator_of_rust_hdl() {
        let mut simulation = Simulation::new();
        simulation.add_clock(5, |x: &mut Box<ResetLink>| x.engine_clock.next = !x.engine_clock.val());
        simulation.add_clock(7, |x: &mut Box<ResetLink>| x.pcie_clock.next = !x.pcie_clock.val());
        simulation.add_testbench(|mut sim: Sim<ResetLink>| {
            let mut x = sim.init()?;
            x.engine_reset_n.next = true;
            x.pcie_reset_n.next = true;
            x.drained.next = true;
            for _ in 0..3 {
                x = sim.watch(|x| x.engine_up.val() && x.pcie_up.val(), x)?;
                // Shorter than a cycle.
                x.engine_reset_n.next = false;
                x = sim.wait(1, x)?;
                x.engine_reset_n.next = true;
                x = sim.watch(|x| !x.engine_up.val(), x)?;
                x = sim.watch(|x| !x.pcie_up.val() && x.engine_clear.val() && x.pcie_clear.val(), x)?;
            }
            sim.done(x)
        });
        let mut link = ResetLink::new(3);
        link.connect_all();
        simulation.run(Box::new(link), 10_000).expect("the link comes up before the time is over");
    }
}
