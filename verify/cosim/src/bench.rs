//! A model with the components around it, run cycle by cycle.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::path::Path;

use keywalk_contract::ports::StreamPort;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::channel::Channel;
use crate::dut::Dut;
use crate::error::Error;
use crate::model::Model;
use crate::stall::Stall;
use crate::stream::{StreamDriver, StreamSink};

/// Something that drives and watches ports of a model.
pub trait Component: Any {
    /// Drives inputs for the coming clock edge. Called in every cycle, before the combinational outputs settle.
    fn drive(&mut self, model: &mut Model);

    /// Looks at the ports as the clock edge will see them. Called in every cycle.
    ///
    /// # Errors
    /// A broken rule.
    fn sample(&mut self, model: &Model) -> Result<(), Error>;

    /// Reset is asserted: drives inputs to their idle values and forgets everything that is under way.
    fn reset(&mut self, model: &mut Model);

    /// Checks the outputs after some cycles of reset.
    ///
    /// # Errors
    /// A broken rule.
    fn check_in_reset(&self, model: &Model) -> Result<(), Error> {
        let _ = model;
        Ok(())
    }
}

/// Names a component of a [`Bench`], which is indexed with it.
pub struct Handle<C> {
    index: usize,
    kind: PhantomData<fn() -> C>,
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Handle<C> {}

/// A model and its components.
pub struct Bench {
    model: Model,
    components: Vec<Box<dyn Component>>,
    random: ChaCha8Rng,
}

impl Bench {
    /// A bench without components. Everything random in it follows from `seed`.
    #[must_use]
    pub fn new(dut: &'static Dut, seed: u64) -> Self {
        Self { model: Model::new(dut, seed), components: Vec::new(), random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// The model, to read ports.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model, to drive ports that no component drives.
    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Clock edges so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.model.cycles()
    }

    /// A source of random numbers of its own, for a component or a test.
    pub fn random(&mut self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.random.next_u64())
    }

    /// Adds a component.
    pub fn add<C: Component>(&mut self, component: C) -> Handle<C> {
        self.components.push(Box::new(component));
        Handle { index: self.components.len() - 1, kind: PhantomData }
    }

    /// Adds a driver of a channel; see [`Channel::block`] for the name.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`].
    pub fn driver(&mut self, channel: &str, stall: Stall) -> Result<Handle<StreamDriver>, Error> {
        let driver = StreamDriver::new(Channel::block(&self.model, channel)?, stall, self.random());
        Ok(self.add(driver))
    }

    /// Adds a sink of a channel; see [`Channel::block`] for the name.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`].
    pub fn sink(&mut self, channel: &str, stall: Stall) -> Result<Handle<StreamSink>, Error> {
        let sink = StreamSink::new(Channel::block(&self.model, channel)?, stall, self.random());
        Ok(self.add(sink))
    }

    /// Adds a driver of an AXI4-Stream port of the contract.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`], [`Error::PortWidth`].
    pub fn stream_driver(&mut self, port: &StreamPort, stall: Stall) -> Result<Handle<StreamDriver>, Error> {
        let channel = Channel::axi_stream(&self.model, port.axi_name, &port.layout)?;
        let driver = StreamDriver::new(channel, stall, self.random());
        Ok(self.add(driver))
    }

    /// Adds a sink of an AXI4-Stream port of the contract.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`], [`Error::PortWidth`].
    pub fn stream_sink(&mut self, port: &StreamPort, stall: Stall) -> Result<Handle<StreamSink>, Error> {
        let channel = Channel::axi_stream(&self.model, port.axi_name, &port.layout)?;
        let sink = StreamSink::new(channel, stall, self.random());
        Ok(self.add(sink))
    }

    /// Runs one clock cycle: every component drives, the outputs settle, every component samples, the clock rises.
    ///
    /// # Errors
    /// The first broken rule; the clock does not rise then.
    pub fn cycle(&mut self) -> Result<(), Error> {
        for component in &mut self.components {
            component.drive(&mut self.model);
        }
        self.model.settle();
        for component in &mut self.components {
            component.sample(&self.model)?;
        }
        self.model.edge();
        Ok(())
    }

    /// Runs some clock cycles.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn run(&mut self, cycles: u64) -> Result<(), Error> {
        for _ in 0..cycles {
            self.cycle()?;
        }
        Ok(())
    }

    /// Runs until the condition holds, for at most `limit_cycles`. The condition sees the outputs after the clock edge.
    ///
    /// # Errors
    /// [`Error::Timeout`], which says what was waited for, or a broken rule.
    pub fn run_until(
        &mut self,
        waited_for: &str,
        limit_cycles: u64,
        mut condition: impl FnMut(&Self) -> bool,
    ) -> Result<(), Error> {
        let mut remaining_cycles = limit_cycles;
        while !condition(self) {
            if remaining_cycles == 0 {
                return Err(Error::Timeout {
                    waited_for: waited_for.into(),
                    limit_cycles,
                    cycle: self.cycles(),
                    state: format!("design `{}`", self.model.dut().name),
                });
            }
            remaining_cycles -= 1;
            self.cycle()?;
        }
        Ok(())
    }

    /// Asserts reset for at least two cycles and releases it. What is under way is forgotten, in components too.
    ///
    /// # Errors
    /// [`Rule::ValidLowInReset`](crate::Rule::ValidLowInReset).
    pub fn reset(&mut self, cycles: u32) -> Result<(), Error> {
        self.model.set_reset(true);
        for component in &mut self.components {
            component.reset(&mut self.model);
        }
        for _ in 0..cycles.max(2) {
            self.model.cycle();
        }
        self.model.settle();
        for component in &self.components {
            component.check_in_reset(&self.model)?;
        }
        self.model.set_reset(false);
        Ok(())
    }

    /// Writes Verilator's counts; see [`Model::write_coverage`].
    ///
    /// # Errors
    /// [`Error::CoverageNotBuilt`], [`Error::CoverageFile`].
    pub fn write_coverage(&self, path: &Path) -> Result<(), Error> {
        self.model.write_coverage(path)
    }

    /// Writes a VCD file from now on; see [`Model::start_trace`].
    ///
    /// # Errors
    /// [`Error::TraceNotBuilt`], [`Error::TraceFile`].
    pub fn start_trace(&mut self, path: &Path) -> Result<(), Error> {
        self.model.start_trace(path)
    }
}

impl<C: Component> Index<Handle<C>> for Bench {
    type Output = C;

    fn index(&self, handle: Handle<C>) -> &C {
        let component: &dyn Any = &*self.components[handle.index];
        component.downcast_ref().expect("a handle is used with the bench that gave it")
    }
}

impl<C: Component> IndexMut<Handle<C>> for Bench {
    fn index_mut(&mut self, handle: Handle<C>) -> &mut C {
        let component: &mut dyn Any = &mut *self.components[handle.index];
        component.downcast_mut().expect("a handle is used with the bench that gave it")
    }
}
