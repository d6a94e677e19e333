//! The generated engine under Verilator as a design under test.

use std::ops::RangeInclusive;
use std::path::Path;

use keywalk_cosim::{self as cosim, Engine, EngineOptions, LineMemory, MemoryOptions, Setup, Stall};
use keywalk_model::{Beat, ContextRequest, ContextResponse, Controls, Request, TableSet};

use super::{Dut, DutError};
use crate::hardware::{self, SharedMemory};
use crate::tables::Tables;

/// Requests submitted together; the engine takes as many of them at a time as it can.
const BATCH_MAX: usize = 4096;
/// Cycles without any answer, beyond what the memory's latency explains, after which the engine counts as stuck.
const PATIENCE_CYCLES: u64 = 50_000;
/// Reads of the status register after which an engine that has answered everything must have said that it is idle.
const IDLE_POLLS: u32 = 10_000;

/// How the surroundings of the engine behave.
#[derive(Clone, Debug)]
pub struct RtlOptions {
    /// Cycles from a table read to its data.
    pub latency_cycles: RangeInclusive<u32>,
    /// Table reads are answered out of order, their beats mixed.
    pub reorder: bool,
    /// Idle cycles and back-pressure on every channel.
    pub stall: bool,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Default for RtlOptions {
    /// Latency 1, in order, no stalls.
    fn default() -> Self {
        Self { latency_cycles: 1..=1, reorder: false, stall: false, seed: 1 }
    }
}

impl RtlOptions {
    fn engine_options(&self) -> EngineOptions {
        let stall = |percent: u8, longest_cycles: u16| {
            if self.stall { Stall::percent(percent).up_to(longest_cycles) } else { Stall::NEVER }
        };
        EngineOptions {
            seed: self.seed,
            memory: MemoryOptions {
                latency_cycles: self.latency_cycles.clone(),
                reorder: self.reorder,
                interleave: self.reorder,
                address_stall: stall(20, 4),
                data_stall: stall(20, 4),
                ..MemoryOptions::default()
            },
            request_stall: stall(20, 6),
            response_stall: stall(25, 6),
            register_stall: stall(25, 3),
            ..EngineOptions::default()
        }
    }
}

/// Memory of the host, and what it means to configure an engine in front of it.
pub trait HostMemory: LineMemory + Sized {
    /// See [`Dut::configure`].
    ///
    /// # Errors
    /// [`DutError`].
    fn configure(dut: &mut RtlDut<Self>, tables: &Tables, controls: Controls) -> Result<(), DutError>;
}

impl HostMemory for SharedMemory {
    fn configure(dut: &mut RtlDut<Self>, tables: &Tables, controls: Controls) -> Result<(), DutError> {
        dut.begin(Self(tables.memory.clone()), &tables.table_set, controls)
    }
}

/// The generated engine, in front of a memory of the host.
pub struct RtlDut<M = SharedMemory> {
    design: &'static cosim::Dut,
    options: RtlOptions,
    engine: Option<Engine<M>>,
    /// Of the next request; it rises from request to request, so that a late answer is not taken for a new one's.
    next_tag: u16,
}

impl<M: LineMemory> RtlDut<M> {
    /// The engine, to be built when it is configured.
    #[must_use]
    pub fn new(design: &'static cosim::Dut, options: RtlOptions) -> Self {
        Self { design, options, engine: None, next_tag: 0 }
    }

    /// Resets the engine, which is built at the first time, gives it this memory, and writes its registers.
    ///
    /// # Errors
    /// [`DutError`].
    pub(crate) fn begin(&mut self, memory: M, table_set: &TableSet, controls: Controls) -> Result<(), DutError> {
        let config = self.design.config().unwrap_or_default();
        for context_table in &table_set.tables {
            let mut bases = context_table.bt0.iter().enumerate().skip(config.bt0_slots as usize);
            if let Some((slot, _)) = bases.find(|(_, base)| base.is_some()) {
                return Err(DutError::TooManySlots { slot, config: config.name, slots: config.bt0_slots });
            }
        }
        let table_sets = vec![hardware::table_set(table_set)];
        let setup = Setup { table_sets, function_map: Vec::new(), controls: hardware::controls(controls) };
        let engine = match &mut self.engine {
            Some(engine) => {
                *engine.memory().memory_mut() = memory;
                engine.reset()?;
                engine
            }
            empty => empty.insert(Engine::new(self.design, memory, self.options.engine_options())?),
        };
        engine.memory().set_recording(false);
        Ok(engine.setup(&setup)?)
    }

    /// Limit of a wait without any answer.
    pub(crate) fn limit_cycles(&self) -> u64 {
        PATIENCE_CYCLES + 64 * u64::from(*self.options.latency_cycles.end())
    }

    pub(crate) fn engine(&mut self) -> Result<&mut Engine<M>, DutError> {
        self.engine.as_mut().ok_or(DutError::NotConfigured)
    }

    /// Writes a VCD file from now on. The design must be configured.
    ///
    /// # Errors
    /// [`DutError::Bench`]: not built in, or a file that cannot be written.
    pub fn start_trace(&mut self, path: &Path) -> Result<(), DutError> {
        Ok(self.engine()?.start_trace(path)?)
    }

    /// Gives each of a few requests a tag of its own, submits them and waits for all answers. `take` gets each answer
    /// with the position of its request.
    fn exchange<R, A>(
        &mut self,
        requests: &[R],
        submit: impl Fn(&mut Engine<M>, &R, u16) -> Result<(), cosim::Error>,
        pop: impl Fn(&mut Engine<M>) -> Option<(u16, A)>,
    ) -> Result<Vec<A>, DutError> {
        let tag_mask = ((1_u32 << self.design.config().unwrap_or_default().tag_bits) - 1) as u16;
        let limit_cycles = self.limit_cycles();
        let batch_max = BATCH_MAX.min(usize::from(tag_mask) + 1);
        let mut answers = Vec::with_capacity(requests.len());
        for batch in requests.chunks(batch_max) {
            let first_tag = self.next_tag;
            let engine = self.engine()?;
            let mut tag = first_tag;
            for request in batch {
                submit(engine, request, tag)?;
                tag = tag.wrapping_add(1) & tag_mask;
            }
            engine.drain(limit_cycles)?;
            let mut found: Vec<Option<A>> = batch.iter().map(|_| None).collect();
            while let Some((tag, answer)) = pop(engine) {
                let position = usize::from(tag.wrapping_sub(first_tag) & tag_mask);
                if let Some(slot) = found.get_mut(position) {
                    *slot = Some(answer);
                }
            }
            while engine.pop_fault().is_some() {}
            self.next_tag = tag;
            for (number, answer) in found.into_iter().enumerate() {
                answers.push(answer.ok_or(DutError::Unanswered { number, count: batch.len() })?);
            }
        }
        Ok(answers)
    }
}

/// A beat in the model's terms, with the tag of the request that it answers.
fn beat_of(segment: &cosim::Segment, tag: u16) -> Result<Beat, DutError> {
    let beat = hardware::beat(segment).map_err(|undefined| DutError::Undefined { tag: segment.tag, undefined })?;
    Ok(Beat { tag, ..beat })
}

impl<M: HostMemory> Dut for RtlDut<M> {
    fn configure(&mut self, tables: &Tables, controls: Controls) -> Result<(), DutError> {
        M::configure(self, tables, controls)
    }

    fn set_controls(&mut self, controls: Controls) -> Result<(), DutError> {
        let engine = self.engine()?;
        for _ in 0..IDLE_POLLS {
            if engine.is_idle()? {
                return Ok(engine.set_controls(&hardware::controls(controls))?);
            }
        }
        Err(DutError::NotIdle)
    }

    fn translate(&mut self, requests: &[Request]) -> Result<Vec<Vec<Beat>>, DutError> {
        let submit = |engine: &mut Engine<M>, request: &Request, tag| engine.submit(&hardware::request(request, tag));
        let pop = |engine: &mut Engine<M>| engine.pop_response().map(|response| (response.tag, response.segments));
        let answers = self.exchange(requests, submit, pop)?;
        let beats = |(request, segments): (&Request, Vec<cosim::Segment>)| {
            segments.iter().map(|segment| beat_of(segment, request.tag)).collect()
        };
        requests.iter().zip(answers).map(beats).collect()
    }

    fn context(&mut self, requests: &[ContextRequest]) -> Result<Vec<ContextResponse>, DutError> {
        let pop = |engine: &mut Engine<M>| engine.pop_context().map(|answer| (answer.tag, answer));
        let answers = self.exchange(requests, hardware::submit_context, pop)?;
        let response = |(request, answer): (&ContextRequest, cosim::ContextAnswer)| {
            Ok(ContextResponse {
                tag: request.tag,
                function: answer.function,
                status: hardware::status(answer.status)
                    .map_err(|undefined| DutError::Undefined { tag: answer.tag, undefined })?,
                table: answer.table,
                hop: answer.hop,
                address: answer.address,
            })
        };
        requests.iter().zip(answers).map(response).collect()
    }

    fn cycles(&self) -> Option<u64> {
        self.engine.as_ref().map(Engine::cycles)
    }
}
