//! Tables of a vector as an engine sees them: memory, geometry and BT0 bases.

use std::sync::Arc;

use keywalk_contract::{Status, mpt_entry};
use keywalk_image::{SparseMemory, Unbacked};
use keywalk_model::{
    BusError, ContextQuery, ContextRequest, ContextResponse, Controls, Engine, Failure, Geometry, MptEntry, Observer,
    Recorder, Request, Response, Step, TableRead, TableSet,
};

use crate::vector::{Vector, Walker};

/// Tables, and what software tells an engine about them.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The memory that holds them.
    pub memory: Arc<SparseMemory>,
    /// Geometry, BT0 bases and key space of table set 0. Objects are not counted: the vectors do not test it.
    pub table_set: TableSet,
}

impl Tables {
    /// The tables of a vector.
    ///
    /// # Errors
    /// Bytes that lie outside of the vector's memory; [`Vector::load`] lets none through.
    pub fn of(vector: &Vector) -> Result<Self, Unbacked> {
        let mut memory = SparseMemory::new();
        for region in &vector.image {
            memory.back(region.addr.0, region.size);
        }
        for (address, bytes) in vector.image.iter().flat_map(|region| region.pieces()) {
            memory.write(address, &bytes)?;
        }
        let mut table_set = TableSet { num_mpts_log2: vector.num_mpts_log2, ..TableSet::default() };
        for (table, described) in vector.hem.tables() {
            let context_table = table_set.table_mut(table);
            context_table.geometry = Geometry {
                hop: described.hop as u8,
                ba_pg_sz: described.ba_pg_sz as u8,
                buf_pg_sz: described.buf_pg_sz as u8,
                entry_bytes_log2: described.entry_size.ilog2() as u8,
                bt_num: described.bt_num,
                object_count: 0,
            };
            for (slot, base) in &described.bt0.0 {
                context_table.set_bt0(*slot, Some(*base));
            }
        }
        Ok(Self { memory: Arc::new(memory), table_set })
    }
}

/// The first steps of a walk: a request may have millions.
#[derive(Clone, Debug, Default)]
pub struct FirstSteps {
    recorder: Recorder,
    /// Steps that were not kept.
    omitted: u64,
}

impl FirstSteps {
    /// Most steps that are kept.
    const MAX: usize = 100;

    /// The recorder, while there is room.
    fn recorder(&mut self) -> Option<&mut Recorder> {
        let has_room = self.recorder.steps.len() < Self::MAX;
        self.omitted += u64::from(!has_room);
        has_room.then_some(&mut self.recorder)
    }

    /// The steps as lines for people.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let omitted = (self.omitted > 0).then(|| format!("... and {} more steps", self.omitted));
        self.recorder.steps.iter().map(Step::to_string).chain(omitted).collect()
    }

    /// The MPT entry that was read.
    fn entry(&self) -> Option<&MptEntry> {
        self.recorder.steps.iter().find_map(|step| match step {
            Step::Entry(entry) => Some(entry),
            _ => None,
        })
    }

    /// Bus address of the first read that failed.
    #[must_use]
    pub fn failed_read(&self) -> Option<u64> {
        self.recorder.steps.iter().find_map(|step| match step {
            Step::Read(read) if read.value.is_err() => Some(read.address),
            _ => None,
        })
    }
}

impl Observer for FirstSteps {
    fn check(&mut self, failure: Failure, holds: bool, detail: impl FnOnce() -> String) {
        if let Some(recorder) = self.recorder() {
            recorder.check(failure, holds, detail);
        }
    }

    fn read(&mut self, read: TableRead) {
        if let Some(recorder) = self.recorder() {
            recorder.read(read);
        }
    }

    fn entry(&mut self, entry: &MptEntry) {
        if let Some(recorder) = self.recorder() {
            recorder.entry(entry);
        }
    }

    fn piece(&mut self, va: u64, pa: u64, length_bytes: u64) {
        if let Some(recorder) = self.recorder() {
            recorder.piece(va, pa, length_bytes);
        }
    }
}

/// The golden model over the tables of a vector.
#[derive(Clone, Debug)]
pub struct Golden {
    engine: Engine,
    memory: Arc<SparseMemory>,
}

impl Golden {
    /// The model with these tables and controls.
    #[must_use]
    pub fn new(tables: &Tables, controls: Controls) -> Self {
        let mut engine = Engine::new(vec![tables.table_set.clone()]);
        engine.controls = controls;
        Self { engine, memory: tables.memory.clone() }
    }

    /// Changes the controls.
    pub fn set_controls(&mut self, controls: Controls) {
        self.engine.controls = controls;
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        self.memory.read(address, bytes).map_err(|_| BusError)
    }

    /// Answers a request.
    #[must_use]
    pub fn translate(&self, request: &Request) -> Response {
        self.engine.translate(&|address, bytes: &mut [u8]| self.read(address, bytes), request)
    }

    /// Answers a request, with its first steps.
    #[must_use]
    pub fn explain(&self, request: &Request) -> (Response, FirstSteps) {
        let mut steps = FirstSteps::default();
        let memory = |address, bytes: &mut [u8]| self.read(address, bytes);
        let response = self.engine.translate_observed(&memory, request, &mut steps);
        (response, steps)
    }

    /// Where the tables lead for the first byte of a request, whether the access is allowed or not. `None` where there
    /// is no MPT entry.
    #[must_use]
    pub fn literal_reading(&self, request: &Request) -> Option<Walker> {
        let (_, steps) = self.explain(request);
        let entry = steps.entry()?;
        let page_shift = u32::from(self.engine.table_set(request.function).page_shift_base)
            + entry.get(mpt_entry::PBL_BUF_PG_SZ) as u32;
        let hop = entry.get(mpt_entry::PBL_HOP_NUM) as u8;
        let index = (request.va >> page_shift).wrapping_sub(entry.get(mpt_entry::VA) >> page_shift);
        let query = ContextQuery::Walk {
            root: entry.get(mpt_entry::PBL_BA) << mpt_entry::PBL_BA_SHIFT,
            hop,
            ba_pg_sz: entry.get(mpt_entry::PBL_BA_PG_SZ) as u8,
            buf_pg_sz: entry.get(mpt_entry::PBL_BUF_PG_SZ) as u8,
            // Without hops a region has one page, a queue buffer one after the other.
            index: if hop == 0 { 0 } else { index as u32 },
            count: 0,
        };
        let (page, steps) = self.explain_context(&ContextRequest { tag: 0, function: request.function, query });
        let offset = request.va & ((1 << page_shift) - 1);
        match page.status {
            Status::Ok => Some(Walker::Address(page.address.wrapping_add(offset))),
            _ => steps.failed_read().map(Walker::Unmapped),
        }
    }

    /// Answers a request of the context port.
    #[must_use]
    pub fn context(&self, request: &ContextRequest) -> ContextResponse {
        self.engine.context(&|address, bytes: &mut [u8]| self.read(address, bytes), request)
    }

    /// Answers a request of the context port, with its first steps.
    #[must_use]
    pub fn explain_context(&self, request: &ContextRequest) -> (ContextResponse, FirstSteps) {
        let mut steps = FirstSteps::default();
        let memory = |address, bytes: &mut [u8]| self.read(address, bytes);
        let response = self.engine.context_observed(&memory, request, &mut steps);
        (response, steps)
    }
}
