//! An AXI4-Lite master with 32-bit data.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::bench::{Bench, Component, Handle};
use crate::channel::{Beat, Channel};
use crate::error::{Error, Rule, violation};
use crate::model::Model;
use crate::stall::Stall;
use crate::stream::{StreamDriver, StreamSink};

/// Cycles after which a register access has failed.
const ACCESS_LIMIT_CYCLES: u64 = 10_000;
/// All bytes of a register.
const ALL_BYTES: u128 = 0xf;
/// AXI responses.
const OKAY: u128 = 0;
const EXCLUSIVE_OKAY: u128 = 1;
const SLAVE_ERROR: u128 = 2;

/// A register access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteAccess {
    /// Writes all four bytes.
    Write {
        /// Byte offset.
        offset: u32,
        /// Value.
        value: u32,
    },
    /// Reads.
    Read {
        /// Byte offset.
        offset: u32,
    },
}

/// A completed register access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiteResult {
    /// The access.
    pub access: LiteAccess,
    /// Value read; 0 for a write.
    pub value: u32,
    /// [`Error::RegisterAccess`] where the answer was an error.
    pub error: Option<Error>,
}

/// Performs register accesses one after the other, with random stalls on every channel, and checks the answers against
/// the rules of AXI4-Lite.
#[derive(Debug)]
pub struct AxiLite {
    write_address: StreamDriver,
    write_data: StreamDriver,
    write_response: StreamSink,
    read_address: StreamDriver,
    read_data: StreamSink,
    queue: VecDeque<LiteAccess>,
    current: Option<LiteAccess>,
    results: VecDeque<LiteResult>,
    writes_done: u64,
    reads_done: u64,
    /// Nothing is under way and the valid ports are low.
    is_quiet: bool,
}

impl AxiLite {
    /// A master of the port `<name>_awaddr` and so on.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`].
    pub fn new(model: &Model, name: &str, stall: Stall, mut random: ChaCha8Rng) -> Result<Self, Error> {
        let channel = |suffix| Channel::with_prefix(model, &format!("{name}_{suffix}"));
        let mut fork = || ChaCha8Rng::seed_from_u64(random.next_u64());
        Ok(Self {
            write_address: StreamDriver::new(channel("aw")?, stall, fork()),
            write_data: StreamDriver::new(channel("w")?, stall, fork()),
            write_response: StreamSink::new(channel("b")?, stall, fork()),
            read_address: StreamDriver::new(channel("ar")?, stall, fork()),
            read_data: StreamSink::new(channel("r")?, stall, fork()),
            queue: VecDeque::new(),
            current: None,
            results: VecDeque::new(),
            writes_done: 0,
            reads_done: 0,
            is_quiet: false,
        })
    }

    /// Appends an access to the queue.
    pub fn push(&mut self, access: LiteAccess) {
        self.queue.push_back(access);
        self.is_quiet = false;
    }

    /// Removes the oldest result.
    pub fn pop(&mut self) -> Option<LiteResult> {
        self.results.pop_front()
    }

    /// Whether no access waits or is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.current.is_none() && self.queue.is_empty()
    }

    fn begin(&mut self, access: LiteAccess) -> Result<(), Error> {
        match access {
            LiteAccess::Write { offset, value } => {
                let address = [("addr", u128::from(offset))];
                let data = [("data", u128::from(value)), ("strb", ALL_BYTES)];
                let address = Beat::with(self.write_address.channel().shape(), &address)?;
                self.write_data.push_fields(&data)?;
                self.write_address.push(address);
            }
            LiteAccess::Read { offset } => self.read_address.push_fields(&[("addr", u128::from(offset))])?,
        }
        self.current = Some(access);
        Ok(())
    }

    fn finish(&mut self, value: u32, response: u128, model: &Model) -> Result<(), Error> {
        let Some(access) = self.current.take() else { return Ok(()) };
        let (offset, sink) = match access {
            LiteAccess::Write { offset, .. } => (offset, &self.write_response),
            LiteAccess::Read { offset } => (offset, &self.read_data),
        };
        if response == EXCLUSIVE_OKAY {
            let name = sink.channel().shape().name();
            return Err(violation(Rule::LiteResponse, name, model.cycles(), "0, 2 or 3", "1"));
        }
        let response_name = if response == SLAVE_ERROR { "SLVERR" } else { "DECERR" };
        let error = (response != OKAY).then_some(Error::RegisterAccess { offset, response: response_name });
        self.results.push_back(LiteResult { access, value, error });
        Ok(())
    }
}

impl Component for AxiLite {
    fn drive(&mut self, model: &mut Model) {
        if self.is_quiet {
            return;
        }
        if self.current.is_none() {
            match self.queue.pop_front() {
                Some(access) => {
                    if let Err(error) = self.begin(access) {
                        let value = 0;
                        self.results.push_back(LiteResult { access, value, error: Some(error) });
                    }
                }
                None => self.is_quiet = true,
            }
        }
        for driver in [&mut self.write_address, &mut self.write_data, &mut self.read_address] {
            driver.drive(model);
        }
        self.write_response.drive(model);
        self.read_data.drive(model);
    }

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let answers = [self.write_response.channel(), self.read_data.channel()];
        if self.is_quiet && !answers.into_iter().any(|channel| channel.is_valid(model)) {
            return Ok(());
        }
        for driver in [&mut self.write_address, &mut self.write_data, &mut self.read_address] {
            driver.sample(model)?;
        }
        let written = self.write_address.accepted().min(self.write_data.accepted());
        for (sink, asked, done) in [
            (&mut self.write_response, written, self.writes_done),
            (&mut self.read_data, self.read_address.accepted(), self.reads_done),
        ] {
            if asked <= done && sink.channel().is_valid(model) {
                let name = sink.channel().shape().name();
                let before = format!("{asked} accesses asked for and answered");
                return Err(violation(Rule::AnswersARequest, name, model.cycles(), before, "valid is high"));
            }
            sink.sample(model)?;
        }
        if let Some(answer) = self.write_response.pop() {
            self.writes_done += 1;
            self.finish(0, answer.get("resp")?, model)?;
        }
        if let Some(answer) = self.read_data.pop() {
            self.reads_done += 1;
            self.finish(answer.get("data")? as u32, answer.get("resp")?, model)?;
        }
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        self.write_address.reset(model);
        self.write_data.reset(model);
        self.write_response.reset(model);
        self.read_address.reset(model);
        self.read_data.reset(model);
        self.queue.clear();
        self.current = None;
        self.results.clear();
        self.writes_done = self.write_address.accepted().min(self.write_data.accepted());
        self.reads_done = self.read_address.accepted();
        self.is_quiet = false;
    }

    fn check_in_reset(&self, model: &Model) -> Result<(), Error> {
        self.write_response.check_in_reset(model)?;
        self.read_data.check_in_reset(model)
    }
}

impl Bench {
    /// Adds an AXI4-Lite master; see [`AxiLite::new`].
    ///
    /// # Errors
    /// [`Error::NoSuchPort`].
    pub fn axi_lite(&mut self, name: &str, stall: Stall) -> Result<Handle<AxiLite>, Error> {
        let random = self.random();
        let master = AxiLite::new(self.model(), name, stall, random)?;
        Ok(self.add(master))
    }

    /// Performs accesses one after the other and returns the values of all of them (0 for writes).
    ///
    /// # Errors
    /// The first access that fails, a broken rule, or a timeout.
    pub fn access(&mut self, lite: Handle<AxiLite>, accesses: &[LiteAccess]) -> Result<Vec<u32>, Error> {
        for access in accesses {
            self[lite].push(*access);
        }
        let mut values = Vec::with_capacity(accesses.len());
        for access in accesses {
            let waited_for = format!("the answer to {access:x?}");
            self.run_until(&waited_for, ACCESS_LIMIT_CYCLES, |bench| !bench[lite].results.is_empty())?;
            if let Some(result) = self[lite].pop() {
                match result.error {
                    Some(error) => return Err(error),
                    None => values.push(result.value),
                }
            }
        }
        Ok(values)
    }
}
