//! A running model of a design, with its ports by name.

use std::ffi::CString;
use std::path::Path;

use crate::bits;
use crate::dut::{Dut, PortDirection};
use crate::error::Error;
use crate::raw::RawModel;

/// A port of any direction, resolved once by name. Valid for models of the design it was resolved on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    index: u32,
    width: u32,
}

/// A port that the bench drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input(Signal);

/// A port that the module drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output(Signal);

impl Signal {
    /// Width in bits.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.width
    }
}

impl From<Input> for Signal {
    fn from(input: Input) -> Self {
        input.0
    }
}

impl From<Output> for Signal {
    fn from(output: Output) -> Self {
        output.0
    }
}

/// A model of a design. Its state that Verilog leaves uninitialised begins with random values.
///
/// A clock cycle is: set inputs, [`settle`](Self::settle), look at outputs, [`edge`](Self::edge). Models are
/// independent of each other; a model stays in the thread that made it.
pub struct Model {
    dut: &'static Dut,
    raw: RawModel,
    clock: Option<usize>,
    reset: Option<usize>,
    cycle: u64,
    is_tracing: bool,
    recording: Option<Recording>,
}

/// The inputs of a model at every clock edge, to be replayed on another model of the same design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Inputs other than the clock, as positions in the design's list of ports.
    inputs: Vec<usize>,
    words_per_cycle: usize,
    values: Vec<u32>,
}

impl Recording {
    /// Clock edges.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        (self.values.len() / self.words_per_cycle.max(1)) as u64
    }
}

/// Names that a clock input may have.
const CLOCK_NAMES: [&str; 2] = ["aclk", "clk"];
/// Names that an active-low reset input may have.
const RESET_NAMES: [&str; 2] = ["aresetn", "reset_n"];

impl Model {
    /// A new model, all inputs zero, reset not asserted. `seed` decides the values of uninitialised state.
    #[must_use]
    pub fn new(dut: &'static Dut, seed: u64) -> Self {
        // Verilator takes 31 bits, and 0 means a seed from the time.
        let seed = (seed ^ seed >> 31 ^ seed >> 62) & 0x7fff_ffff;
        let port = |names: [&str; 2]| names.into_iter().find_map(|name| dut.port(name)).map(|(index, _)| index);
        let mut model = Self {
            dut,
            raw: RawModel::new(dut, seed.max(1) as i32),
            clock: port(CLOCK_NAMES),
            reset: port(RESET_NAMES),
            cycle: 0,
            is_tracing: false,
            recording: None,
        };
        for (index, port) in dut.ports.iter().enumerate() {
            if port.direction == PortDirection::Input {
                model.set_words(Input(Signal { index: index as u32, width: port.width }), &[]);
            }
        }
        model.set_reset(false);
        model.raw.eval();
        model
    }

    /// The design.
    #[must_use]
    pub fn dut(&self) -> &'static Dut {
        self.dut
    }

    /// Clock edges so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.cycle
    }

    fn resolve(&self, name: &str, direction: Option<PortDirection>) -> Result<Signal, Error> {
        let fits = |port: PortDirection| direction.is_none_or(|direction| direction == port);
        match self.dut.port(name) {
            Some((index, port)) if fits(port.direction) => Ok(Signal { index: index as u32, width: port.width }),
            _ => Err(Error::NoSuchPort {
                dut: self.dut.name,
                wanted: match direction {
                    None => "port",
                    Some(PortDirection::Input) => "input",
                    Some(PortDirection::Output) => "output",
                },
                port: name.into(),
                known: {
                    let ports = self.dut.ports.iter().filter(|port| fits(port.direction));
                    ports.map(|port| port.name).collect::<Vec<_>>().join(", ")
                },
            }),
        }
    }

    /// The input of that name.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`] with the names there are.
    pub fn input(&self, name: &str) -> Result<Input, Error> {
        self.resolve(name, Some(PortDirection::Input)).map(Input)
    }

    /// The output of that name.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`] with the names there are.
    pub fn output(&self, name: &str) -> Result<Output, Error> {
        self.resolve(name, Some(PortDirection::Output)).map(Output)
    }

    /// The port of that name, of either direction, to be read.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`] with the names there are.
    pub fn signal(&self, name: &str) -> Result<Signal, Error> {
        self.resolve(name, None)
    }

    /// Drives an input of at most 64 bits; the bits of a wider one above 64 become zero.
    ///
    /// # Panics
    /// When the value is wider than the input: an error of the bench.
    #[inline]
    pub fn set(&mut self, input: Input, value: u64) {
        let Input(Signal { index, width }) = input;
        if value > bits::max(width) {
            self.refuse(input, value.into());
        }
        self.raw.write(index as usize, value);
    }

    #[cold]
    fn refuse(&self, Input(Signal { index, width }): Input, value: u128) -> ! {
        panic!("input `{}` has {width} bits and cannot hold {value:#x}", self.dut.ports[index as usize].name)
    }

    /// Drives an input of any width from 32-bit words, least significant first. Missing words are zero, bits beyond
    /// the width are dropped.
    pub fn set_words(&mut self, input: Input, words: &[u32]) {
        let Input(Signal { index, width }) = input;
        match self.raw.words_mut(index as usize) {
            None => self.raw.write(index as usize, bits::get(words, 0, width)),
            Some(target) => {
                let count = words.len().min(target.len());
                target[..count].copy_from_slice(&words[..count]);
                target[count..].fill(0);
                if let Some(last) = target.last_mut()
                    && !width.is_multiple_of(32)
                {
                    *last &= bits::max(width % 32) as u32;
                }
            }
        }
    }

    /// As [`set`](Self::set) for up to 128 bits.
    ///
    /// # Panics
    /// When the value is wider than the input: an error of the bench.
    pub fn set_wide(&mut self, input: Input, value: u128) {
        let width = input.0.width;
        if width < 128 && value >> width != 0 {
            self.refuse(input, value);
        }
        self.set_words(input, &[0, 32, 64, 96].map(|low| (value >> low) as u32));
    }

    /// Value of a port of at most 64 bits; of a wider one its low 64 bits.
    #[must_use]
    #[inline]
    pub fn get(&self, port: impl Into<Signal>) -> u64 {
        self.raw.read(port.into().index as usize)
    }

    /// Low 128 bits of a port.
    #[must_use]
    pub fn get_wide(&self, port: impl Into<Signal>) -> u128 {
        let Signal { index, width } = port.into();
        match self.raw.words(index as usize) {
            None => u128::from(self.raw.read(index as usize)),
            Some(words) => bits::get_wide(words, 0, width.min(128)),
        }
    }

    /// Writes the value of a port into `words` from bit `low` on, without touching other bits.
    pub fn get_words(&self, port: impl Into<Signal>, words: &mut [u32], low: u32) {
        let Signal { index, width } = port.into();
        match self.raw.words(index as usize) {
            None => bits::set(words, low, width, self.raw.read(index as usize)),
            Some(source) if low.is_multiple_of(32) && width.is_multiple_of(32) => {
                let first = (low / 32) as usize;
                words[first..first + source.len()].copy_from_slice(source);
            }
            Some(source) => {
                for (position, word) in source.iter().enumerate() {
                    let done = 32 * position as u32;
                    bits::set(words, low + done, (width - done).min(32), u64::from(*word));
                }
            }
        }
    }

    /// Asserts or releases reset. A design without a reset input ignores it.
    pub fn set_reset(&mut self, is_asserted: bool) {
        if let Some(reset) = self.reset {
            self.raw.write(reset, u64::from(!is_asserted));
        }
    }

    /// Lets the combinational outputs follow the inputs, with the clock low.
    #[inline]
    pub fn settle(&mut self) {
        if let Some(clock) = self.clock {
            self.raw.write(clock, 0);
        }
        self.raw.eval();
        if self.is_tracing {
            self.raw.trace_dump(2 * self.cycle);
        }
    }

    /// The rising clock edge. Inputs must not have changed since [`settle`](Self::settle).
    #[inline]
    pub fn edge(&mut self) {
        if self.recording.is_some() {
            self.record();
        }
        if let Some(clock) = self.clock {
            self.raw.write(clock, 1);
        }
        self.raw.eval();
        if self.is_tracing {
            self.raw.trace_dump(2 * self.cycle + 1);
        }
        self.cycle += 1;
    }

    fn record(&mut self) {
        let Some(recording) = &mut self.recording else { return };
        for &port in &recording.inputs {
            match self.raw.words(port) {
                Some(words) => recording.values.extend(words),
                None => {
                    let value = self.raw.read(port);
                    let words = [value as u32, (value >> 32) as u32];
                    recording.values.extend(&words[..bits::words(self.dut.ports[port].width)]);
                }
            }
        }
    }

    /// Keeps the inputs of every clock edge from now on, for [`take_recording`](Self::take_recording).
    pub fn start_recording(&mut self) {
        let ports = self.dut.ports.iter().enumerate();
        let inputs = ports.filter(|(index, port)| port.direction == PortDirection::Input && Some(*index) != self.clock);
        let inputs: Vec<usize> = inputs.map(|(index, _)| index).collect();
        let words_per_cycle = inputs.iter().map(|port| bits::words(self.dut.ports[*port].width)).sum();
        self.recording = Some(Recording { inputs, words_per_cycle, values: Vec::new() });
    }

    /// Ends the recording and returns it.
    pub fn take_recording(&mut self) -> Option<Recording> {
        self.recording.take()
    }

    /// Runs clock edges of a recording, those of `cycles`, in a bare loop of C++. A model that is made with the same seed
    /// and replays everything ends in the same state.
    ///
    /// # Panics
    /// When the recording is of another design or has fewer cycles.
    pub fn replay(&mut self, recording: &Recording, cycles: std::ops::Range<u64>) {
        let clock = self.clock.expect("an engine has a clock");
        let words = recording.words_per_cycle;
        let values = &recording.values[cycles.start as usize * words..cycles.end as usize * words];
        if !values.is_empty() {
            self.raw.replay(clock, &recording.inputs, values);
        }
        self.cycle += cycles.end - cycles.start;
    }

    /// A whole clock cycle.
    pub fn cycle(&mut self) {
        self.settle();
        self.edge();
    }

    /// Asserts reset for some cycles and releases it.
    pub fn reset(&mut self, cycles: u32) {
        self.set_reset(true);
        for _ in 0..cycles {
            self.cycle();
        }
        self.set_reset(false);
    }

    /// Writes Verilator's line and toggle counts so far to an existing file, in Verilator's form.
    ///
    /// # Errors
    /// [`Error::CoverageNotBuilt`] unless the design [is covered](Dut::is_covered); [`Error::CoverageFile`].
    pub fn write_coverage(&self, path: &Path) -> Result<(), Error> {
        let refusal = || Error::CoverageFile { path: path.into() };
        // Verilator ends the program where it cannot write, so that is found out before.
        std::fs::OpenOptions::new().write(true).open(path).map_err(|_| refusal())?;
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| refusal())?;
        if self.raw.coverage_write(&name) { Ok(()) } else { Err(Error::CoverageNotBuilt { dut: self.dut.name }) }
    }

    /// Writes a VCD file of every signal from now on; one time unit is half a cycle.
    ///
    /// # Errors
    /// [`Error::TraceNotBuilt`] unless this crate was built with feature `trace`; [`Error::TraceFile`].
    pub fn start_trace(&mut self, path: &Path) -> Result<(), Error> {
        if !cfg!(feature = "trace") {
            return Err(Error::TraceNotBuilt);
        }
        let name = CString::new(path.as_os_str().as_encoded_bytes());
        self.is_tracing = name.is_ok_and(|name| self.raw.trace_open(&name));
        if self.is_tracing { Ok(()) } else { Err(Error::TraceFile { path: path.into() }) }
    }
}
