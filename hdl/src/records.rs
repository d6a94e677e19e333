//! Records that travel between blocks.

use crate::record;
use keywalk_contract::{Config, key, op, status};

/// Bits of a context number on the table port: wide enough for either client.
#[must_use]
pub fn line_context_bits(config: &Config) -> u32 {
    config.hem_context_bits().max(config.walk_context_bits())
}

record! {
    /// What is noted of a request when it is admitted, and kept until its response has left.
    pub struct Admission(_config) {
        /// Generation: an invalidation begins a new one and waits for the old one to finish.
        generation: 1,
        /// Cycle of the admission, modulo 2^16, for the latency histogram.
        stamp: STAMP_BITS,
    }
}

record! {
    /// Epochs at the admission of a request. What is cached carries those under which it was looked up and is found under
    /// the same ones only, so that an invalidation takes effect by changing an epoch.
    pub struct Epoch(_config) {
        /// Of the bucket of the MPT index: changed by invalidating one region.
        region: BUCKET_EPOCH_BITS,
        /// Of the bucket of the request's PD: changed by invalidating a PD.
        pd: BUCKET_EPOCH_BITS,
        /// Of the table set: changed by every wider invalidation.
        table_set: SET_EPOCH_BITS,
        /// Bucket of the request's PD, because what is cached is not tagged with the PD itself.
        pd_bucket: PD_BUCKET_BITS,
        /// Of all PDs together: changed by invalidating any PD.
        any_pd: BUCKET_EPOCH_BITS,
        /// Of all HEM pointers: changed by every invalidation and by every write of a geometry or a BT0 slot.
        hem: HEM_EPOCH_BITS,
    }
}

/// Bits of the time stamp of a request.
pub const STAMP_BITS: u32 = 16;
/// Bits of the epoch of a bucket of MPT indices or of PDs.
pub const BUCKET_EPOCH_BITS: u32 = 8;
/// Bits of a bucket of PDs.
pub const PD_BUCKET_BITS: u32 = 7;
/// Bits of the epochs that are kept in memory, those of the two buckets: the lowest ones of a packed [`Epoch`].
pub const LATE_EPOCH_BITS: u32 = 2 * BUCKET_EPOCH_BITS;
/// Bits of the epoch of a table set.
pub const SET_EPOCH_BITS: u32 = 6;
/// Bits of the epoch of all HEM pointers.
pub const HEM_EPOCH_BITS: u32 = 10;
/// Bits of [`Admission`], packed.
pub const ADMISSION_BITS: u32 = 1 + STAMP_BITS;
/// Bits of the epochs that a region's translations carry: the lowest ones of a packed [`Epoch`].
pub const REGION_EPOCH_BITS: u32 = LATE_EPOCH_BITS + SET_EPOCH_BITS + PD_BUCKET_BITS;
/// Bits of the epochs that an MPT entry carries: the lowest ones of a packed [`Epoch`].
pub const ENTRY_EPOCH_BITS: u32 = REGION_EPOCH_BITS + BUCKET_EPOCH_BITS;
/// Bits of [`Epoch`], packed.
pub const EPOCH_BITS: u32 = ENTRY_EPOCH_BITS + HEM_EPOCH_BITS;

/// Low bits of a line address that its client has added up.
pub const LINE_LOW_BITS: u32 = 29;
/// The others.
pub const LINE_HIGH_BITS: u32 = 58 - LINE_LOW_BITS;

record! {
    /// A request for the 64-byte line that holds one pointer or entry. A context has at most one in flight.
    pub struct LineRequest(config) {
        /// Context of the client that waits for the line.
        context: line_context_bits(config),
        /// The client's mark of where in its lookup or walk the read is. Returned unchanged.
        level: 2,
        /// Which of the line's eight 8-byte words is wanted. Returned unchanged.
        word: 3,
        /// Bits 34 to 6 of the bus address.
        low: LINE_LOW_BITS,
        /// To be added to `high`, which the table port does once for both clients.
        carry: 1,
        /// Bits 63 to 35 of the bus address.
        high: LINE_HIGH_BITS,
    }
}

record! {
    /// A line that has arrived, once for every context that asked for it.
    pub struct LineResponse(config) {
        /// As requested.
        context: line_context_bits(config),
        /// As requested.
        level: 2,
        /// As requested.
        word: 3,
        /// The context is the one whose request was issued, not one that joined it.
        is_first: 1,
        /// The wanted word.
        value: 64,
        /// Bus error in the 16 bytes that hold the wanted word.
        value_error: 1,
        /// Bus error anywhere in the line.
        error: 1,
        /// Bus error in each of the four 16 bytes.
        errors: 4,
        /// Bytes 0 to 15, little-endian.
        data_0: 128,
        /// Bytes 16 to 31.
        data_1: 128,
        /// Bytes 32 to 47.
        data_2: 128,
        /// Bytes 48 to 63.
        data_3: 128,
    }
}

record! {
    /// What the HEM lookup is told of every request that looks an entry up, three cycles before it shows whether it missed.
    pub struct HemRequest(config) {
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry.
        index: key::INDEX_BITS,
        /// Epoch of the HEM pointers.
        epoch: HEM_EPOCH_BITS,
    }
}

record! {
    /// A request as it comes from the request port.
    pub struct Request(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// As on the request port.
        operation: op::OPERATION_BITS,
        /// As on the request port.
        key: 32,
        /// As on the request port.
        pd: 24,
        /// As on the request port.
        qpn: 24,
        /// As on the request port.
        va: 64,
        /// As on the request port.
        length: 32,
    }
}

record! {
    /// A request whose MPT entry is not in the cache.
    pub struct MissRequest(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// As on the request port.
        operation: op::OPERATION_BITS,
        /// As on the request port.
        key: 32,
        /// As on the request port.
        pd: 24,
        /// As on the request port.
        qpn: 24,
        /// As on the request port.
        va: 64,
        /// As on the request port.
        length: 32,
        /// Index of the MPT entry, masked with num_mpts - 1.
        index: key::INDEX_BITS,
        /// `va` was counted from the region's start and has been added to `region_va`.
        is_rebased: 1,
        /// The entry is the parent of the bound window that the request named.
        is_parent: 1,
        /// The sum of `region_va` and the request's own address is 2^64 or more.
        is_beyond: 1,
        /// VA of the region when `va` was added to it.
        region_va: 64,
        /// Order number: place among the requests in order of admission, modulo `admitted_max`. 0 where responses come in any
        /// order.
        order: config.order_bits(),
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
        /// Packed [`Epoch`].
        epoch: EPOCH_BITS,
    }
}

record! {
    /// A request on its way back from the HEM lookup, with the entry or the reason why there is none.
    pub struct Replay(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// As on the request port.
        operation: op::OPERATION_BITS,
        /// As on the request port.
        key: 32,
        /// As on the request port.
        pd: 24,
        /// As on the request port.
        qpn: 24,
        /// As on the request port.
        va: 64,
        /// As on the request port.
        length: 32,
        /// Index of the MPT entry.
        index: key::INDEX_BITS,
        /// Status of the lookup; 0: the entry follows.
        status: status::STATUS_BITS,
        /// Number of the read that failed or could not be issued.
        hop: 2,
        /// Bytes 0 to 15 of the entry.
        entry_0: 128,
        /// Bytes 16 to 31.
        entry_1: 128,
        /// Bytes 32 to 47.
        entry_2: 128,
        /// Bytes 48 to 63.
        entry_3: 128,
        /// `va` was counted from the region's start and has been added to `region_va`.
        is_rebased: 1,
        /// The entry is the parent of the bound window that the request named.
        is_parent: 1,
        /// The sum of `region_va` and the request's own address is 2^64 or more.
        is_beyond: 1,
        /// VA of the region when `va` was added to it.
        region_va: 64,
        /// Order number: place among the requests in order of admission, modulo `admitted_max`. 0 where responses come in any
        /// order.
        order: config.order_bits(),
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
        /// Packed [`Epoch`].
        epoch: EPOCH_BITS,
    }
}

record! {
    /// A lookup of a context entry's address.
    pub struct ContextLookup(config) {
        /// As on the context port.
        tag: config.tag_bits,
        /// As on the context port.
        function: config.function_bits,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// Code of the context table.
        table: 3,
        /// Object number.
        index: 32,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
        /// Packed [`Epoch`].
        epoch: EPOCH_BITS,
    }
}

record! {
    /// Answer to a context lookup or queue-buffer walk.
    pub struct ContextAnswer(config) {
        /// As on the context port.
        tag: config.tag_bits,
        /// As on the context port.
        function: config.function_bits,
        /// Status code.
        status: status::STATUS_BITS,
        /// Where it failed; else 0.
        table: 3,
        /// Number of the read that failed or could not be issued; else 0.
        hop: 2,
        /// Bus address; 0 on error.
        address: 64,
        /// Object number or page index asked for, for the event.
        index: 32,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
    }
}

record! {
    /// What a walk depends on. The walker begins with it before it is known whether there is a walk.
    pub struct WalkStart(config) {
        /// 1: queue-buffer walk of the context port. 0: page of a request.
        is_context: 1,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry, for the TLB and events.
        mpt_index: key::INDEX_BITS,
        /// Low bits of the packed [`Epoch`].
        epoch: REGION_EPOCH_BITS,
        /// Bus address of the root table, or of the page where `hop` is 0.
        root: 64,
        /// Hops, 0 to 3.
        hop: 2,
        /// Size of a lower table page, log2(bytes) - 12.
        ba_pg_sz: 4,
        /// Page index within the table.
        index: 32,
        /// 1: an index at or above `count` fails.
        check_index: 1,
        /// Pages of the table.
        count: 32,
    }
}

record! {
    /// A page to be walked, for a request or for the context port, two cycles after its [`WalkStart`]: what goes along.
    pub struct WalkRequest(config) {
        /// As on the port.
        tag: config.tag_bits,
        /// As on the port.
        function: config.function_bits,
        /// The operation is remote: decides the wire class of a failure.
        is_remote: 1,
        /// Virtual page number (va >> page shift), low 32 bits, for the TLB.
        virtual_page: 32,
        /// Virtual address of the piece, for events.
        va: 64,
        /// Bytes of the piece.
        length: 32,
        /// 1: a piece of a request of several pages, answered through the split buffer.
        is_split: 1,
        /// Split context, where `is_split`.
        split_context: config.split_context_bits(),
        /// Slot in the split context, where `is_split`.
        split_slot: config.split_page_bits(),
        /// Toggle with which the answer is written to the split buffer.
        split_toggle: 1,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
    }
}

record! {
    /// A queue-buffer walk of the context port.
    pub struct ContextWalk(config) {
        /// As on the port.
        tag: config.tag_bits,
        /// As on the port.
        function: config.function_bits,
        /// Bus address of the root table, or of the page where `hop` is 0.
        root: 64,
        /// Hops, 0 to 3.
        hop: 2,
        /// Size of a lower table page, log2(bytes) - 12.
        ba_pg_sz: 4,
        /// Page index within the table.
        index: 32,
        /// 1: an index at or above `count` fails.
        check_index: 1,
        /// Pages of the table.
        count: 32,
        /// Added to the page address to give the answer; not 0 only where there are no hops.
        offset: 64,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
    }
}

record! {
    /// Outcome of a walk.
    pub struct WalkResult(config) {
        /// As in the request.
        is_context: 1,
        /// As in the request.
        tag: config.tag_bits,
        /// As in the request.
        function: config.function_bits,
        /// As in the request.
        is_remote: 1,
        /// As in the request.
        mpt_index: key::INDEX_BITS,
        /// As in the request.
        va: 64,
        /// As in the request.
        length: 32,
        /// As in the request.
        is_split: 1,
        /// As in the request.
        split_context: config.split_context_bits(),
        /// As in the request.
        split_slot: config.split_page_bits(),
        /// As in the request.
        split_toggle: 1,
        /// As in the request (page index of a queue-buffer walk, for the event).
        index: 32,
        /// Status code.
        status: status::STATUS_BITS,
        /// Number of the read that failed or could not be issued; else 0.
        hop: 2,
        /// page + offset modulo 2^64; 0 on error.
        address: 64,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
    }
}

record! {
    /// Write of one context table's geometry.
    pub struct GeometryWrite(config) {
        /// Table set.
        table_set: config.table_set_bits(),
        /// Code of the table.
        table: 3,
        /// Hops, 0 to 3.
        hop_num: 2,
        /// BA page size, log2(bytes) - 12.
        ba_pg_sz: 4,
        /// Chunk size, log2(bytes) - 12.
        buf_pg_sz: 4,
        /// log2 of the entry's bytes.
        entry_bytes_log2: 4,
        /// BT0 slots in use, 1 to 1024.
        bt_num: 11,
        /// Number of objects, 0: unchecked.
        object_count: 32,
    }
}

record! {
    /// Write of one BT0 slot.
    pub struct Bt0Write(config) {
        /// Table set.
        table_set: config.table_set_bits(),
        /// Code of the table.
        table: 3,
        /// Slot.
        slot: config.bt0_slot_bits(),
        /// The slot holds a base.
        is_set: 1,
        /// The base: bus address.
        address: 64,
    }
}

record! {
    /// A request as it enters the lookup, new or replayed.
    pub struct Lookup(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// As on the request port.
        operation: op::OPERATION_BITS,
        /// As on the request port.
        key: 32,
        /// As on the request port.
        pd: 24,
        /// As on the request port.
        qpn: 24,
        /// As on the request port.
        va: 64,
        /// As on the request port.
        length: 32,
        /// Index of the MPT entry, masked with num_mpts - 1.
        index: key::INDEX_BITS,
        /// The request comes back from the HEM lookup, and keeps the epochs that it has.
        is_replay: 1,
        /// Of a request that comes back: why it fails; 0: nothing is known against it.
        status: status::STATUS_BITS,
        /// Of a replay: number of the read that failed or could not be issued.
        hop: 2,
        /// `va` was counted from the region's start and has been added to `region_va`.
        is_rebased: 1,
        /// The entry is the parent of the bound window that the request named.
        is_parent: 1,
        /// The sum of `region_va` and the request's own address is 2^64 or more.
        is_beyond: 1,
        /// VA of the region when `va` was added to it.
        region_va: 64,
        /// Order number: place among the requests in order of admission, modulo `admitted_max`. 0 where responses come in any
        /// order.
        order: config.order_bits(),
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
        /// Packed [`Epoch`].
        epoch: EPOCH_BITS,
    }
}

record! {
    /// An MPT entry in the form that the checks use.
    pub struct MptLine(config) {
        /// LKEY.
        key: 32,
        /// PD.
        pd: 24,
        /// One bit per operation code: the entry grants the right that it needs.
        allowed: op::Operation::ALL.len() as u32,
        /// MR_MW.
        is_window: 1,
        /// BOUND_LKEY is not zero.
        is_bound: 1,
        /// A window of type 2: the queue pair is checked.
        checks_qpn: 1,
        /// MW_BIND_QPN.
        qpn: 24,
        /// A window that is bound, and not PA: its parent decides besides.
        is_bound_window: 1,
        /// BOUND_LKEY.
        bound_key: 32,
        /// PA: no translation and no bounds.
        is_direct: 1,
        /// ZBVA, and not PA: addresses count from `va`.
        is_zero_based: 1,
        /// VA + LEN is above 2^64.
        wraps: 1,
        /// The region spans more than 2^32 pages.
        too_large: 1,
        /// LEN is zero: `last` means nothing.
        is_empty: 1,
        /// First virtual address.
        va: 64,
        /// Last virtual address, VA + LEN - 1.
        last: 64,
        /// (VA >> page shift), low 32 bits.
        base_page: 32,
        /// PBL_BA: bus address >> 3.
        root: 61,
        /// PBL_HOP_NUM.
        hop_num: 2,
        /// PBL_BA_PG_SZ.
        ba_pg_sz: 4,
        /// PBL_SIZE.
        page_count: 32,
        /// There are no hops, and PBL_BA and PBL_SIZE say that page 0 is there, at a multiple of 4 KiB: it needs no walk.
        is_flat: 1,
    }
}

record! {
    /// A request that has to be looked up once more: with its address in a zero-based region's own addresses, or against
    /// the parent of its window.
    pub struct Again(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// As on the request port.
        operation: op::OPERATION_BITS,
        /// Key of the entry that is looked up next.
        key: 32,
        /// As on the request port.
        pd: 24,
        /// As on the request port.
        qpn: 24,
        /// Virtual address from now on.
        va: 64,
        /// As on the request port.
        length: 32,
        /// Why the window refuses the request; 0: it does not.
        status: status::STATUS_BITS,
        /// `va` was counted from the region's start and has been added to `region_va`.
        is_rebased: 1,
        /// The entry is the parent of the bound window that the request named.
        is_parent: 1,
        /// The sum of `region_va` and the request's own address is 2^64 or more.
        is_beyond: 1,
        /// VA of the region when `va` was added to it.
        region_va: 64,
        /// Order number.
        order: config.order_bits(),
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
    }
}

record! {
    /// Where a line of the MPT cache goes: its tag. The line follows.
    pub struct MptFill(config) {
        /// Table set.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry.
        index: key::INDEX_BITS,
        /// Low bits of the packed [`Epoch`] under which the entry was fetched.
        epoch: ENTRY_EPOCH_BITS,
        /// The entry's PD is of another bucket than that of the request which fetched it, whose epoch says nothing of it: of
        /// the epochs of PDs only the one of all together counts.
        is_foreign: 1,
    }
}

record! {
    /// A page on its way into the TLB.
    pub struct TlbFill(config) {
        /// Owner.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry.
        mpt_index: key::INDEX_BITS,
        /// Virtual page number, low 32 bits.
        virtual_page: 32,
        /// Low bits of the packed [`Epoch`] under which the page was walked.
        epoch: REGION_EPOCH_BITS,
        /// Page address >> 12.
        page: 52,
    }
}

/// Bits of the number of a request that has passed the checks, from its checks to its last piece: twice the requests that
/// can wait for the page split, so that a number is not in use when its turn comes.
#[must_use]
pub fn held_bits(config: &Config) -> u32 {
    config.admitted_max().trailing_zeros() + 1
}

record! {
    /// A request with the outcome of its checks.
    pub struct Checked(config) {
        /// Number under which [`Held`] is kept.
        held: held_bits(config),
        /// Order number: place among the requests in order of admission, modulo `admitted_max`. 0 where responses come in any
        /// order.
        order: config.order_bits(),
        /// Index of the MPT entry, as many low bits as the TLB has for its set number.
        index_low: config.tlb_set_bits(),
        /// First virtual address.
        va: 64,
        /// Status of the checks; 0: good so far.
        status: status::STATUS_BITS,
        /// Number of the read that failed or could not be issued; 0 where the status names no table.
        hop: 2,
        /// The pages are to be looked up. Otherwise the answer is `va` itself, or an error, or empty.
        is_translated: 1,
        /// Length 0: the answer has address 0.
        is_empty: 1,
        /// Pages touched - 1, where `is_translated`.
        pages_minus_one: 20,
        /// Page shift - 12.
        page_shift: 5,
        /// (va >> page shift), low 32 bits.
        virtual_page: 32,
        /// Page index of `va` in the page table.
        page_index: 32,
        /// PBL_HOP_NUM.
        hop_num: 2,
        /// PBL_BA_PG_SZ.
        ba_pg_sz: 4,
        /// As in the [`MptLine`].
        is_flat: 1,
    }
}

record! {
    /// What all pieces of a request share. It joins them while the TLB is read.
    pub struct Held(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// The operation is remote.
        is_remote: 1,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry.
        mpt_index: key::INDEX_BITS,
        /// Last virtual address, va + length - 1, low 32 bits.
        last: 32,
        /// Page shift - 12.
        page_shift: 5,
        /// PBL_BA.
        root: 61,
        /// PBL_SIZE.
        page_count: 32,
        /// Packed [`Epoch`], of which the TLB needs the low bits.
        epoch: REGION_EPOCH_BITS,
    }
}

record! {
    /// The part of a request that lies in one page.
    pub struct Piece(config) {
        /// Index of the MPT entry, as many low bits as the TLB has for its set number.
        index_low: config.tlb_set_bits(),
        /// First virtual address of the piece.
        va: 64,
        /// Status of the checks; 0: good so far.
        status: status::STATUS_BITS,
        /// Number of the read that failed or could not be issued; 0 where the status names no table.
        hop: 2,
        /// The page is to be looked up.
        is_translated: 1,
        /// Length 0: the answer has address 0.
        is_empty: 1,
        /// Virtual page number, low 32 bits.
        virtual_page: 32,
        /// Page index in the page table.
        page_index: 32,
        /// PBL_HOP_NUM.
        hop_num: 2,
        /// PBL_BA_PG_SZ.
        ba_pg_sz: 4,
        /// As in the [`MptLine`].
        is_flat: 1,
        /// A piece of a request of several pages.
        is_split: 1,
        /// Split context, where `is_split`.
        split_context: config.split_context_bits(),
        /// Slot in the split context, where `is_split`.
        split_slot: config.split_page_bits(),
        /// The first piece of its request.
        is_first: 1,
        /// The last piece of its request.
        is_last: 1,
        /// The request has more pages than a split context holds.
        is_long: 1,
    }
}

record! {
    /// A piece after the TLB.
    pub struct LookedUp(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// The operation is remote.
        is_remote: 1,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry.
        mpt_index: key::INDEX_BITS,
        /// First virtual address of the piece.
        va: 64,
        /// Bytes of the piece; 0 on error.
        length: 32,
        /// Status of the checks.
        status: status::STATUS_BITS,
        /// Number of the read that failed or could not be issued; 0 where the status names no table.
        hop: 2,
        /// The page must be walked: `address` is not known.
        is_miss: 1,
        /// Bus address; 0 on error or for length 0.
        address: 64,
        /// Offset within the page, for the walk.
        offset: 30,
        /// Virtual page number, low 32 bits.
        virtual_page: 32,
        /// A piece of a request of several pages.
        is_split: 1,
        /// Split context, where `is_split`.
        split_context: config.split_context_bits(),
        /// Slot in the split context, where `is_split`.
        split_slot: config.split_page_bits(),
        /// The first piece of its request.
        is_first: 1,
        /// The last piece of its request.
        is_last: 1,
        /// The request has more pages than a split context holds.
        is_long: 1,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
        /// Low bits of the packed [`Epoch`].
        epoch: REGION_EPOCH_BITS,
    }
}

record! {
    /// One beat of a response before the wire class is known.
    pub struct Beat(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// The operation is remote.
        is_remote: 1,
        /// Status code.
        status: status::STATUS_BITS,
        /// Number of the read that failed or could not be issued; 0 where the status names no table.
        hop: 2,
        /// Bus address.
        address: 64,
        /// Bytes.
        length: 32,
        /// Index of the MPT entry, for the event.
        mpt_index: key::INDEX_BITS,
        /// Virtual address that failed, for the event.
        va: 64,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
    }
}

record! {
    /// A beat of a response of several segments.
    pub struct SegmentBeat(config) {
        /// As on the request port.
        tag: config.tag_bits,
        /// As on the request port.
        function: config.function_bits,
        /// The operation is remote.
        is_remote: 1,
        /// Status code.
        status: status::STATUS_BITS,
        /// Number of the read that failed or could not be issued; 0 where the status names no table.
        hop: 2,
        /// Bus address.
        address: 64,
        /// Bytes.
        length: 32,
        /// Index of the MPT entry, for the event.
        mpt_index: key::INDEX_BITS,
        /// Virtual address that failed, for the event.
        va: 64,
        /// Number of the segment.
        segment: 20,
        /// First beat.
        first: 1,
        /// Last beat.
        last: 1,
        /// Packed [`Admission`].
        admission: ADMISSION_BITS,
    }
}

record! {
    /// An event for the fault port.
    pub struct Event(config) {
        /// Tag of the request.
        tag: config.tag_bits,
        /// Function of the request.
        function: config.function_bits,
        /// Status code.
        status: status::STATUS_BITS,
        /// Code of the context table, 7 for the page table.
        table: 3,
        /// Number of the read that failed or could not be issued.
        hop: 2,
        /// The tag is one of the context port.
        is_context: 1,
        /// MPT index or object number.
        index: 24,
        /// Virtual address or page index.
        va: 64,
    }
}
