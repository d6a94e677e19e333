//! The model's terms in those of the bench, and back.

use std::sync::Arc;

use keywalk_contract::{Status, Table, WireClass};
use keywalk_cosim::{self as cosim, Engine, LineMemory};
use keywalk_image::SparseMemory;
use keywalk_model::{Beat, BusError, ContextQuery, ContextRequest, Controls, Request, TableSet};

/// Memory that model and hardware share.
#[derive(Clone, Debug)]
pub struct SharedMemory(pub Arc<SparseMemory>);

impl LineMemory for SharedMemory {
    fn line(&self, address: u64) -> Option<[u8; keywalk_image::LINE_BYTES]> {
        self.0.line(address)
    }
}

impl keywalk_model::Memory for SharedMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        self.0.read(address, bytes).map_err(|_| BusError)
    }
}

/// The table set of the hardware's registers that corresponds to one of the model.
#[must_use]
pub fn table_set(table_set: &TableSet) -> cosim::TableSet {
    let tables = Table::ALL.iter().map(|table| {
        let context_table = table_set.table(*table);
        let geometry = context_table.geometry;
        let slots = context_table.bt0.iter().enumerate();
        let hardware = cosim::TableGeometry {
            hop_num: geometry.hop,
            ba_pg_sz: geometry.ba_pg_sz,
            buf_pg_sz: geometry.buf_pg_sz,
            entry_bytes_log2: geometry.entry_bytes_log2,
            bt_num: geometry.bt_num as u16,
            object_count: geometry.object_count,
            bt0: slots.filter_map(|(slot, base)| base.map(|base| (slot as u16, base))).collect(),
        };
        (*table, hardware)
    });
    cosim::TableSet {
        tables: tables.collect(),
        num_mpts_log2: table_set.num_mpts_log2,
        page_shift_base: table_set.page_shift_base,
    }
}

/// The switches that the hardware's registers have. `hold_bytes_max` is fixed in hardware.
#[must_use]
pub fn controls(controls: Controls) -> cosim::Controls {
    cosim::Controls {
        atomic_shape_check: controls.atomic_shape_check,
        zero_entry_literal: controls.zero_entry_literal,
        index_check: controls.index_check,
        alignment_check: controls.alignment_check,
        hold_mode: controls.hold_mode,
        merge_bytes_max: controls.merge_bytes_max,
    }
}

/// A request, with a tag of the caller's.
#[must_use]
pub fn request(request: &Request, tag: u16) -> cosim::Request {
    cosim::Request {
        tag,
        function: request.function,
        operation: request.operation,
        key: request.key,
        pd: request.pd,
        qpn: request.qpn,
        va: request.va,
        length_bytes: request.length,
    }
}

/// Submits a request of the context port, with a tag of the caller's.
///
/// # Errors
/// Those of the bench.
pub fn submit_context<M: LineMemory>(
    engine: &mut Engine<M>,
    request: &ContextRequest,
    tag: u16,
) -> Result<(), cosim::Error> {
    let function = request.function;
    match request.query {
        ContextQuery::Lookup { table, index } => {
            engine.submit_context(&cosim::ContextLookup { tag, function, table, index })
        }
        ContextQuery::Walk { root, hop, ba_pg_sz, buf_pg_sz, index, count } => {
            engine.submit_walk(&cosim::BufferWalk { tag, function, index, root, hop, ba_pg_sz, buf_pg_sz, count })
        }
    }
}

/// A field of a beat holds a code that the contract does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {code} is not defined")]
pub struct Undefined {
    /// The field.
    pub what: &'static str,
    /// Its value.
    pub code: u8,
}

/// The status of a code.
///
/// # Errors
/// [`Undefined`].
pub fn status(code: u8) -> Result<Status, Undefined> {
    Status::from_code(code).ok_or(Undefined { what: "status", code })
}

/// A beat of the response port.
///
/// # Errors
/// [`Undefined`].
pub fn beat(beat: &cosim::Segment) -> Result<Beat, Undefined> {
    let code = beat.wire_class;
    Ok(Beat {
        tag: beat.tag,
        function: beat.function,
        status: status(beat.status)?,
        wire_class: WireClass::from_code(code).ok_or(Undefined { what: "wire class", code })?,
        table: beat.table,
        hop: beat.hop,
        segment: beat.segment,
        first: beat.first,
        last: beat.last,
        pa: beat.pa,
        length: beat.length_bytes,
    })
}
