//! The designs under test of this build: a constant for each, and [`ALL`].

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use keywalk_contract::Config;

use crate::raw::Functions;

/// A Verilog module that was compiled into this program.
#[derive(Debug)]
pub struct Dut {
    /// Name, in snake case.
    pub name: &'static str,
    /// Top module.
    pub top: &'static str,
    /// Ports in order of name.
    pub ports: &'static [Port],
    /// Configuration that the Verilog was generated from; none for hand-written modules.
    config: Option<fn() -> Config>,
    pub(crate) functions: Functions,
}

/// A port of a top module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name.
    pub name: &'static str,
    /// Direction, seen from the module.
    pub direction: PortDirection,
    /// Width in bits.
    pub width: u32,
}

/// Direction of a port, seen from the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortDirection {
    /// The bench drives it.
    Input,
    /// The module drives it.
    Output,
}

impl Dut {
    /// Configuration that the Verilog was generated from; none for hand-written modules.
    #[must_use]
    pub fn config(&self) -> Option<Config> {
        self.config.map(|config| config())
    }

    /// The design of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Dut> {
        ALL.iter().copied().find(|dut| dut.name == name)
    }

    /// Whether Verilator counts its lines and toggles.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.functions.coverage_write.is_some()
    }

    /// Position and description of a port.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<(usize, &'static Port)> {
        self.ports.iter().enumerate().find(|(_, port)| port.name == name)
    }
}

include!(concat!(env!("OUT_DIR"), "/duts.rs"));
