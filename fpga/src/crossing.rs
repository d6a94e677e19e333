//! What carries a signal from one clock to another: synchronisers, and the catcher of a reset.
//!
//! Registers that may become metastable stand in the attribute `ASYNC_REG`, and are called `stage_0`, `stage_1`, ...
//! behind the name of their instance: constraints and tests find them by these names. Nothing here has a reset; all begin at zero when the device is
//! configured.

use rust_hdl_core::prelude::*;
use std::fmt::Write;

/// Least and most stages of a synchroniser.
pub const STAGES: std::ops::RangeInclusive<usize> = 2..=4;

/// Declarations and first values of registers `stage_0` and on, each of `width` bits.
fn stage_registers(stages: usize, width: usize) -> String {
    let range = if width == 1 { String::new() } else { format!(" [{}:0]", width - 1) };
    let mut text = String::new();
    for stage in 0..stages {
        let _ = writeln!(text, "(* ASYNC_REG = \"TRUE\" *) reg{range} stage_{stage};");
    }
    text.push_str("initial begin\n");
    for stage in 0..stages {
        let _ = writeln!(text, "    stage_{stage} = {width}'h0;");
    }
    text.push_str("end\n");
    text
}

/// Brings `W` bits, of which at most one changes at a time, into the domain of `clock`.
///
/// The value comes out after as many edges as there are stages.
#[derive(LogicBlock)]
pub struct Synchroniser<const W: usize> {
    /// The clock of `q`.
    pub clock: Signal<In, Clock>,
    /// A register of another clock.
    pub d: Signal<In, Bits<W>>,
    /// The last stage.
    pub q: Signal<Out, Bits<W>>,
    _stages: Vec<Bits<W>>,
}

impl<const W: usize> Synchroniser<W> {
    /// A synchroniser of that many stages.
    #[must_use]
    pub fn new(stages: usize) -> Self {
        Self {
            clock: Signal::default(),
            d: Signal::default(),
            q: Signal::default(),
            _stages: vec![Bits::default(); stages],
        }
    }
}

impl<const W: usize> Logic for Synchroniser<W> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            self._stages.rotate_right(1);
            self._stages[0] = self.d.val();
        }
        self.q.next = self._stages[self._stages.len() - 1];
    }

    fn connect(&mut self) {
        self.q.connect();
    }

    fn hdl(&self) -> Verilog {
        let stages = self._stages.len();
        let mut text = stage_registers(stages, W);
        text.push_str("always @(posedge clock) begin\n    stage_0 <= d;\n");
        for stage in 1..stages {
            let _ = writeln!(text, "    stage_{stage} <= stage_{};", stage - 1);
        }
        let _ = write!(text, "end\nalways @(*) q = stage_{};\n", stages - 1);
        Verilog::Custom(text)
    }
}

/// Catches a reset, however short and whether or not the clock runs, and gives it to logic of `clock`.
///
/// The stages are cleared by `reset_n` itself, without a clock, and fill with ones at the edges after it has ended; two
/// registers without that clear follow, so that both edges of `q` belong to `clock`.
#[derive(LogicBlock)]
pub struct ResetCatcher {
    /// The clock of `q`.
    pub clock: Signal<In, Clock>,
    /// The reset, active low, of no clock.
    pub reset_n: Signal<In, Bit>,
    /// Low for at least as many cycles as there are stages.
    pub q: Signal<Out, Bit>,
    _stages: Vec<bool>,
}

/// Registers behind the stages that a reset clears.
const SETTLING_STAGES: usize = 2;

impl ResetCatcher {
    /// A catcher with that many stages.
    #[must_use]
    pub fn new(stages: usize) -> Self {
        Self {
            clock: Signal::default(),
            reset_n: Signal::default(),
            q: Signal::default(),
            _stages: vec![false; stages + SETTLING_STAGES],
        }
    }
}

impl Logic for ResetCatcher {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            self._stages.rotate_right(1);
            self._stages[0] = true;
        }
        let cleared = self._stages.len() - SETTLING_STAGES;
        if !self.reset_n.val() {
            self._stages[..cleared].fill(false);
        }
        self.q.next = self._stages[self._stages.len() - 1];
    }

    fn connect(&mut self) {
        self.q.connect();
    }

    fn hdl(&self) -> Verilog {
        let all = self._stages.len();
        let cleared = all - SETTLING_STAGES;
        let mut text = stage_registers(all, 1);
        text.push_str("always @(posedge clock or negedge reset_n) begin\n    if (!reset_n) begin\n");
        for stage in 0..cleared {
            let _ = writeln!(text, "        stage_{stage} <= 1'b0;");
        }
        text.push_str("    end else begin\n        stage_0 <= 1'b1;\n");
        for stage in 1..cleared {
            let _ = writeln!(text, "        stage_{stage} <= stage_{};", stage - 1);
        }
        text.push_str("    end\nend\nalways @(posedge clock) begin\n");
        for stage in cleared..all {
            let _ = writeln!(text, "    stage_{stage} <= stage_{};", stage - 1);
        }
        let _ = write!(text, "end\nalways @(*) q = stage_{};\n", all - 1);
        Verilog::Custom(text)
    }
}
