//! The engine as a whole: a request in, segments or an exact failure out.

use keywalk_contract::hem::{PAGE_SHIFT_MIN, PAGE_SIZE_FIELD_MAX};
use keywalk_contract::key::ROTATE_BITS;
use keywalk_contract::mpt_entry::{self, PBL_BA_SHIFT};
use keywalk_contract::{Status, Table, WireClass};

use crate::entry::ENTRY_BYTES;
use crate::hem::{self, Purpose};
use crate::mtr::PageTable;
use crate::split::{Mapping, Pages, Segments};
use crate::trace::{TableRead, require_status};
use crate::{Memory, MptEntry, Observer, Recorder, Step, TableSet, access};

/// Switches of the control register and the limits beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controls {
    /// Refuse an atomic that is not 8 bytes long and 8-byte aligned.
    pub atomic_shape_check: bool,
    /// Take a zero page-table entry as bus address 0 instead of not present.
    pub zero_entry_literal: bool,
    /// Refuse a page index at or above `PBL_SIZE`.
    pub index_check: bool,
    /// Refuse HEM pointers that are not 4 KiB aligned and lower page tables that are not aligned to their size.
    pub alignment_check: bool,
    /// Report no segment of a request before the whole of it is known to be good.
    pub hold_mode: bool,
    /// Longest segment in bytes that merging may make; 0: no merging.
    pub merge_bytes_max: u32,
    /// Longest request in bytes that hold mode accepts.
    pub hold_bytes_max: u32,
}

impl Default for Controls {
    /// The controls after reset, with the `hold_bytes_max` of the default configuration.
    fn default() -> Self {
        Self {
            atomic_shape_check: true,
            zero_entry_literal: false,
            index_check: true,
            alignment_check: true,
            hold_mode: false,
            merge_bytes_max: keywalk_contract::regs::merge_bytes_max::REGISTER.reset,
            hold_bytes_max: keywalk_contract::Config::default().hold_bytes_max(),
        }
    }
}

/// A translation request, as on the request port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Returned with every beat.
    pub tag: u16,
    /// Requesting function; selects the table set.
    pub function: u8,
    /// Operation code; may be an undefined one.
    pub operation: u8,
    /// L_Key or R_Key.
    pub key: u32,
    /// Protection domain of the requester, 24 bits.
    pub pd: u32,
    /// Queue pair of the requester, 24 bits.
    pub qpn: u32,
    /// First virtual address.
    pub va: u64,
    /// Bytes.
    pub length: u32,
}

/// A run of bus addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First bus address.
    pub pa: u64,
    /// Bytes; 0 only for a request of length 0.
    pub length_bytes: u32,
}

/// Why a request failed, and where. `Display` gives both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which check failed.
    pub status: Status,
    /// Code of the context table, 7 for a page table; 0 where the status names no table.
    pub table: u8,
    /// Number of the read that failed or could not be issued; 0 where the status names no table.
    pub hop: u8,
}

impl Failure {
    /// A failure that concerns no table.
    #[must_use]
    pub const fn of(status: Status) -> Self {
        Self { status, table: 0, hop: 0 }
    }
}

/// The whole answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The segments in order of address; those before a failure stand.
    pub segments: Vec<Segment>,
    /// What ended the response early.
    pub failure: Option<Failure>,
}

/// One beat of the response port, field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The request's tag.
    pub tag: u16,
    /// The request's function.
    pub function: u8,
    /// Outcome of this beat.
    pub status: Status,
    /// What the wire may know.
    pub wire_class: WireClass,
    /// Where a table read failed; else 0.
    pub table: u8,
    /// Number of the read that failed or could not be issued; else 0.
    pub hop: u8,
    /// Number of the beat within the response, from 0.
    pub segment: u32,
    /// First beat of the response.
    pub first: bool,
    /// Last beat of the response.
    pub last: bool,
    /// First bus address; 0 on error and for length 0.
    pub pa: u64,
    /// Bytes; 0 on error and for length 0.
    pub length: u32,
}

impl Response {
    /// The status of the response: that of its failure, or `Ok`.
    #[must_use]
    pub fn status(&self) -> Status {
        self.failure.map_or(Status::Ok, |failure| failure.status)
    }

    /// The beats on the response port that answer `request` in this way.
    #[must_use]
    pub fn beats(&self, request: &Request) -> Vec<Beat> {
        let count = self.segments.len() + usize::from(self.failure.is_some());
        let results = self.segments.iter().copied().map(Ok).chain(self.failure.map(Err));
        let beat = |(position, result): (usize, Result<Segment, Failure>)| {
            let failure = result.err().unwrap_or(Failure::of(Status::Ok));
            let segment = result.unwrap_or(Segment { pa: 0, length_bytes: 0 });
            Beat {
                tag: request.tag,
                function: request.function,
                status: failure.status,
                wire_class: failure.status.wire_class(request.operation),
                table: failure.table,
                hop: failure.hop,
                segment: position as u32,
                first: position == 0,
                last: position + 1 == count,
                pa: segment.pa,
                length: segment.length_bytes,
            }
        };
        results.enumerate().map(beat).collect()
    }
}

/// The engine: its tables' whereabouts and its switches. Without state of its own, it reads memory afresh each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The table sets by number.
    pub table_sets: Vec<TableSet>,
    /// Table set of each function.
    pub function_map: [u8; 256],
    /// Switches and limits.
    pub controls: Controls,
    /// What a function sees that is mapped to a table set which does not exist: nothing.
    absent: TableSet,
}

impl Engine {
    /// An engine with these table sets; all functions use set 0, and controls are as after reset.
    #[must_use]
    pub fn new(table_sets: Vec<TableSet>) -> Self {
        Self { table_sets, function_map: [0; 256], controls: Controls::default(), absent: TableSet::default() }
    }

    /// The table set of a function.
    #[must_use]
    pub fn table_set(&self, function: u8) -> &TableSet {
        let set = self.function_map[usize::from(function)];
        self.table_sets.get(usize::from(set)).unwrap_or(&self.absent)
    }

    /// Translates a request.
    #[must_use]
    pub fn translate(&self, memory: &impl Memory, request: &Request) -> Response {
        self.translate_observed(memory, request, ())
    }

    /// [`Engine::translate`] with every step.
    #[must_use]
    pub fn explain(&self, memory: &impl Memory, request: &Request) -> (Response, Vec<Step>) {
        let mut recorder = Recorder::default();
        let response = self.translate_observed(memory, request, &mut recorder);
        (response, recorder.steps)
    }

    /// [`Engine::translate`], watched by `observer`.
    #[must_use]
    pub fn translate_observed(&self, memory: &impl Memory, request: &Request, observer: impl Observer) -> Response {
        let mut response = Response { segments: Vec::new(), failure: None };
        for result in self.segments(memory, request, observer) {
            match result {
                Ok(segment) => response.segments.push(segment),
                Err(failure) => response.failure = Some(failure),
            }
        }
        response
    }

    /// Translates a request piece by piece, as the items are asked for, without building a list. A failure is the last
    /// item.
    #[inline]
    pub fn segments<'a, M: Memory, O: Observer>(
        &'a self,
        memory: &'a M,
        request: &Request,
        mut observer: O,
    ) -> Segments<'a, M, O> {
        match self.map(memory, request, &mut observer) {
            Ok(Some((mapping, va))) => {
                Segments::new(memory, &self.controls, observer, mapping, va, request.length.into())
            }
            Ok(None) => Segments::of(memory, &self.controls, observer, Ok(Segment { pa: 0, length_bytes: 0 })),
            Err(failure) => Segments::of(memory, &self.controls, observer, Err(failure)),
        }
    }

    /// Everything up to the page table, and the first address in the addresses that the page table counts in. `None` for
    /// length 0, which needs no table.
    #[inline]
    fn map(
        &self,
        memory: &impl Memory,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Option<(Mapping, u64)>, Failure> {
        let operation = access::check_shape(&self.controls, request, observer)?;
        if request.length == 0 {
            return Ok(None);
        }
        let set = self.table_set(request.function);
        let entry = self.read_mpt_entry(memory, set, request.key, observer)?;
        access::check_entry(&entry, request, operation, entry_page_shift(set, &entry), observer)?;
        let va = access::own_va(&entry, request.va);
        if !entry.is_set(mpt_entry::MR_MW) {
            return Ok(Some((mapping(set, &entry, va), va)));
        }
        // A window has no pages of its own: its parent is found by the key that it was bound to, and checked again.
        let is_direct = entry.is_set(mpt_entry::PA);
        require_status(observer, !is_direct, Status::WindowParent, || "a window that is PA has no parent".into())?;
        let parent_key = entry.get(mpt_entry::BOUND_LKEY) as u32;
        let parent = self.read_mpt_entry(memory, set, parent_key, observer)?;
        let page_shift = entry_page_shift(set, &parent);
        access::check_parent(&parent, parent_key, va, request, page_shift, observer)?;
        Ok(Some((mapping(set, &parent, va), va)))
    }

    /// Fetches the MPT entry of a key.
    #[inline]
    fn read_mpt_entry(
        &self,
        memory: &impl Memory,
        set: &TableSet,
        key: u32,
        observer: &mut impl Observer,
    ) -> Result<MptEntry, Failure> {
        Ok(self.read_mpt_entry_at(memory, set, set.mpt_index(key), observer)?.1)
    }

    /// Fetches the MPT entry of an index, and gives its bus address besides.
    #[inline]
    pub(crate) fn read_mpt_entry_at(
        &self,
        memory: &impl Memory,
        set: &TableSet,
        index: u32,
        observer: &mut impl Observer,
    ) -> Result<(u64, MptEntry), Failure> {
        let table = set.table(Table::Mpt);
        let address = hem::locate(memory, &self.controls, Table::Mpt, table, index, Purpose::ReadEntry, observer)?;
        let hop = hem::hops(table.geometry.hop);
        let mut bytes = [0; ENTRY_BYTES];
        let result = memory.read(address, &mut bytes);
        let entry = MptEntry::from_bytes(&bytes);
        observer.read(TableRead {
            table: Table::Mpt.code(),
            hop,
            address,
            bytes: ENTRY_BYTES as u8,
            value: result.map(|()| entry.first_word()),
        });
        result.map_err(|_| Failure { status: Status::HemBusError, table: Table::Mpt.code(), hop })?;
        observer.entry(&entry);
        Ok((address, entry))
    }
}

/// Page shift of a region.
fn entry_page_shift(set: &TableSet, entry: &MptEntry) -> u32 {
    set.page_shift(entry.get(mpt_entry::PBL_BUF_PG_SZ) as u8)
}

/// How a region's addresses from `va` on become bus addresses.
#[inline]
fn mapping(set: &TableSet, entry: &MptEntry, va: u64) -> Mapping {
    if entry.is_set(mpt_entry::PA) {
        return Mapping::Direct(va);
    }
    let page_shift = entry_page_shift(set, entry);
    Mapping::Paged(Pages {
        table: PageTable {
            root: entry.get(mpt_entry::PBL_BA) << PBL_BA_SHIFT,
            hops: entry.get(mpt_entry::PBL_HOP_NUM) as u8,
            ba_pg_sz: entry.get(mpt_entry::PBL_BA_PG_SZ) as u8,
        },
        page_shift,
        first_page: entry.get(mpt_entry::VA) >> page_shift,
        count: entry.get(mpt_entry::PBL_SIZE),
    })
}

impl TableSet {
    /// Index of the MPT entry of a key.
    #[must_use]
    #[inline]
    pub fn mpt_index(&self, key: u32) -> u32 {
        key.rotate_right(ROTATE_BITS) & (self.num_mpts() - 1)
    }

    /// Page shift of a page-size field of a page table. Numbers are cut to the width of their register or port field.
    pub(crate) fn page_shift(&self, buf_pg_sz: u8) -> u32 {
        let field = |value: u8| u32::from(value) & PAGE_SIZE_FIELD_MAX;
        // As the register: a value below the legal range counts as its lower end.
        field(self.page_shift_base).max(PAGE_SHIFT_MIN) + field(buf_pg_sz)
    }
}
