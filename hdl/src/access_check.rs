//! The checks of a request against its MPT entry.
//!
//! **Purpose.** All checks of the contract (section 6) but those of the table reads, in its order: shape, state, key,
//! window, protection domain, queue pair, right, region, bounds. Sends a request whose entry is not cached to the HEM
//! lookup and every other one, good or not, to the page split.
//!
//! **Handshake.** Channel `lookup` in (the request, valid only), channel `line` in three cycles later (the entry, from
//! the MPT cache). Channels `checked` and `miss` out, valid only: room for both was reserved when the request was admitted.
//!
//! **Latency and throughput.** Five cycles from `lookup`; one request per cycle.
//!
//! **Timing.** What needs no entry (shape, last address) is computed while the entry is read. Stage 4 compares and shifts,
//! stage 5 selects the status. Bounds need no subtraction: `last = va + length - 1` is compared with the region's last
//! address, and its carry tells that the request runs past 2^64.
//!
//! **Reset and flush.** Reset clears the valid bits.
//!
//! **Hazards.** None.
//!
//! **Limits.** None beyond the widths of the fields.

use crate::prim::{Design, concat, delay_record, input_channel, or_all, output_channel, select_first};
use crate::records::{Checked, Lookup, MissRequest, MptLine};
use keywalk_contract::op::{ATOMIC_BYTES, LENGTH_MAX_BYTES};
use keywalk_contract::{Config, Operation, Status, status::STATUS_BITS};

/// The block.
pub struct AccessCheck;

impl AccessCheck {
    /// Builds the module `access_check` and gives its name.
    ///
    /// Inputs besides the channels: the switches `atomic_shape_check` and `hold_mode`. Outputs besides the channels: the
    /// pulses `mpt_hit` (a new request found its entry) and `miss_place_unused` (a new request went to the page split).
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("access_check");
        let lookup_valid = b.input("lookup_valid", 1);
        let lookup = input_channel(b, "lookup", Lookup::widths(config));
        let found = b.input("line_found", 1);
        let line = input_channel(b, "line", MptLine::widths(config));
        let atomic_shape_check = b.input("atomic_shape_check", 1);
        let hold_mode = b.input("hold_mode", 1);
        let status = |status: Status| b.literal(status.code().into(), STATUS_BITS);

        // Stage 1: the shape of the request.
        let is_operation = |operation: Operation| lookup.operation.is(operation.code().into());
        let is_unknown = lookup.operation.ge(b.literal(Operation::ALL.len() as u128, lookup.operation.width()));
        let is_too_long = b.literal(LENGTH_MAX_BYTES.into(), 32).lt(lookup.length);
        let is_atomic_bad = is_operation(Operation::RemoteAtomic)
            & (!lookup.length.is(ATOMIC_BYTES.into()) | lookup.va.low_bits(ATOMIC_BYTES.trailing_zeros()).any())
            & atomic_shape_check;
        let is_hold_too_long = hold_mode & b.literal(config.hold_bytes_max().into(), 32).lt(lookup.length);
        let s1_shape = concat(&[is_hold_too_long, is_atomic_bad, is_too_long, is_unknown]).delay("s1_shape");
        let s1_is_empty = lookup.length.none().delay("s1_is_empty");
        let s1_length_minus_one = (lookup.length - 1).delay("s1_length_minus_one");
        let remote: Vec<_> =
            Operation::ALL.iter().filter(|operation| operation.is_remote()).map(|o| is_operation(*o)).collect();
        let s1_is_remote = or_all(&remote).delay("s1_is_remote");
        let s1 = delay_record(lookup, "s1");
        let s1_valid = lookup_valid.delay_reset("s1_valid");

        // Stage 2: the last address.
        let sum = s1.va.add_wide(s1_length_minus_one.resize(64)).named("last_sum");
        let s2_last = sum.low_bits(64).delay("s2_last");
        let s2_overflows = sum.bit(64).delay("s2_overflows");
        let s2_shape_status = select_first(
            &[
                (s1_shape.bit(0), status(Status::OperationUnknown)),
                (s1_shape.bit(1), status(Status::LengthTooLong)),
                (s1_shape.bit(2), status(Status::AtomicShape)),
                (s1_shape.bit(3), status(Status::HoldTooLong)),
            ],
            status(Status::Ok),
        )
        .delay("s2_shape_status");
        let s2_is_settled = (s1_shape.any() | s1_is_empty).delay("s2_is_settled");
        let s2_is_empty = s1_is_empty.delay("s2_is_empty");
        let s2_is_remote = s1_is_remote.delay("s2_is_remote");
        let s2 = delay_record(s1, "s2");
        let s2_valid = s1_valid.delay_reset("s2_valid");

        // Stage 3: wait for the entry.
        let s3_last = s2_last.delay("s3_last");
        let s3_overflows = s2_overflows.delay("s3_overflows");
        let s3_shape_status = s2_shape_status.delay("s3_shape_status");
        let s3_is_settled = s2_is_settled.delay("s3_is_settled");
        let s3_is_empty = s2_is_empty.delay("s3_is_empty");
        let s3_is_remote = s2_is_remote.delay("s3_is_remote");
        let s3 = delay_record(s2, "s3");
        let s3_valid = s2_valid.delay_reset("s3_valid");

        // Stage 4: compare with the entry.
        let is_local_operation = !s3_is_remote;
        let right = (0..Operation::ALL.len() as u32)
            .map(|code| line.allowed.bit(code) & s3.operation.is(code.into()))
            .reduce(|a, b| a | b)
            .expect("there are operations");
        let s4_state_bad = (!line.is_valid).delay("s4_state_bad");
        let s4_key_bad = s3.key.ne(line.key).delay("s4_key_bad");
        let s4_window_local = (line.is_window & is_local_operation).delay("s4_window_local");
        let s4_window_unbound = (line.is_window & !line.is_bound).delay("s4_window_unbound");
        let s4_pd_bad = s3.pd.ne(line.pd).delay("s4_pd_bad");
        let s4_qpn_bad = (line.checks_qpn & s3.qpn.ne(line.qpn)).delay("s4_qpn_bad");
        let s4_right_bad = (!right).delay("s4_right_bad");
        let s4_wraps = (line.wraps & !line.is_direct).delay("s4_wraps");
        let s4_too_large = (line.too_large & !line.is_direct).delay("s4_too_large");
        let s4_below = s3.va.lt(line.va).delay("s4_below");
        let s4_above = line.last.lt(s3_last).delay("s4_above");
        let s4_region_empty = line.is_empty.delay("s4_region_empty");
        let s4_is_direct = line.is_direct.delay("s4_is_direct");
        let s4_is_window = line.is_window.delay("s4_is_window");
        let s4_first_page = s3.va.bits(63, 12).shift_right(line.page_shift).low_bits(32).delay("s4_first_page");
        let s4_last_page = s3_last.bits(63, 12).shift_right(line.page_shift).low_bits(20).delay("s4_last_page");
        let mask_bits: Vec<_> = (0..18u32).rev().map(|bit| b.literal(bit.into(), 5).lt(line.page_shift)).collect();
        let s4_page_mask = concat(&mask_bits).delay("s4_page_mask");
        let s4_found = found.delay("s4_found");
        let s4_base_page = line.base_page.delay("s4_base_page");
        let s4_root = line.root.delay("s4_root");
        let s4_hop_num = line.hop_num.delay("s4_hop_num");
        let s4_ba_pg_sz = line.ba_pg_sz.delay("s4_ba_pg_sz");
        let s4_page_count = line.page_count.delay("s4_page_count");
        let s4_last = s3_last.delay("s4_last");
        let s4_overflows = s3_overflows.delay("s4_overflows");
        let s4_shape_status = s3_shape_status.delay("s4_shape_status");
        let s4_is_settled = s3_is_settled.delay("s4_is_settled");
        let s4_is_empty = s3_is_empty.delay("s4_is_empty");
        let s4_is_remote = s3_is_remote.delay("s4_is_remote");
        let s4 = delay_record(s3, "s4");
        let s4_valid = s3_valid.delay_reset("s4_valid");

        // Stage 5: the first failure counts.
        let is_outside = s4_overflows | (!s4_is_direct & (s4_region_empty | s4_below | s4_above));
        let entry_status = select_first(
            &[
                (s4.status.any(), s4.status),
                (s4_state_bad, status(Status::EntryState)),
                (s4_key_bad, status(Status::EntryKey)),
                (s4_window_local, status(Status::WindowLocal)),
                (s4_window_unbound, status(Status::WindowUnbound)),
                (s4_pd_bad, status(Status::ProtectionDomain)),
                (s4_qpn_bad, status(Status::WindowQueuePair)),
                (s4_right_bad, status(Status::AccessRight)),
                (s4_wraps, status(Status::RegionWraps)),
                (s4_too_large, status(Status::RegionTooLarge)),
                (is_outside, status(Status::Bounds)),
                (s4_is_window, status(Status::WindowParent)),
            ],
            status(Status::Ok),
        )
        .named("entry_status");
        let final_status = s4_is_settled.mux(s4_shape_status, entry_status).named("final_status");
        let is_miss = (s4_valid & !s4_found & !s4_is_settled).named("is_miss");
        let is_translated = (final_status.none() & !s4_is_empty & !s4_is_direct).named("is_translated");
        let pages_minus_one = s4_last_page - s4_first_page.low_bits(20);
        let checked = Checked {
            tag: s4.tag,
            function: s4.function,
            is_remote: s4_is_remote,
            table_set: s4.table_set,
            mpt_index: s4.index,
            va: s4.va,
            last: s4_last.low_bits(32),
            status: final_status,
            hop: s4_is_settled.mux(b.literal(0, 2), s4.hop),
            is_translated,
            is_empty: s4_is_empty,
            pages_minus_one: is_translated.repeat(20) & pages_minus_one,
            page_mask: s4_page_mask,
            virtual_page: s4_first_page,
            page_index: s4_first_page - s4_base_page,
            root: s4_root,
            hop_num: s4_hop_num,
            ba_pg_sz: s4_ba_pg_sz,
            page_count: s4_page_count,
            admission: s4.admission,
            epoch: s4.epoch,
        };
        b.output("checked_valid", (s4_valid & !is_miss).delay_reset("s5_valid"));
        output_channel(b, "checked", delay_record(checked, "s5"));
        let miss = MissRequest {
            tag: s4.tag,
            function: s4.function,
            table_set: s4.table_set,
            operation: s4.operation,
            key: s4.key,
            pd: s4.pd,
            qpn: s4.qpn,
            va: s4.va,
            length: s4.length,
            index: s4.index,
            admission: s4.admission,
            epoch: s4.epoch,
        };
        b.output("miss_valid", is_miss.delay_reset("s5_miss"));
        output_channel(b, "miss", delay_record(miss, "s5_miss"));
        b.output("miss_place_unused", (s4_valid & !is_miss & !s4.is_replay).delay_reset("s5_miss_place_unused"));
        b.output("mpt_hit", (s4_valid & s4_found & !s4_is_settled & !s4.is_replay).delay_reset("s5_hit"));
        b.name().into()
    }
}
