//! The checks of a request against its MPT entry.
//!
//! **Purpose.** All checks of the contract (section 6) but those of the table reads, in its order: shape, state, key,
//! window, protection domain, queue pair, right, region, bounds. Sends a request whose entry is not cached to the HEM
//! lookup and every other one, good or not, to the page split, if not round once more:
//!
//! - A request to a *zero-based* region (ZBVA) has VA added to its address and comes back (`is_rebased`). Pages are counted
//!   from addresses before the entry is there, so that the sum cannot be made on the way.
//! - A request through a *window* that is bound comes back with the parent's key (`is_parent`), and what the window has
//!   against it as its status. The parent's state, key, PD and bounds count, and its rights do not; whatever is wrong there
//!   is `window_parent`.
//!
//! **Handshake.** Channel `lookup` in (the request, valid only); from the MPT cache `found` and `page_shift` one cycle
//! later and channel `line` two cycles later. Channels `checked` and `held` and channels `miss` and `again` out, valid
//! only: room for all was reserved when the request was admitted.
//!
//! **Latency and throughput.** Two cycles from `lookup` to `miss` and `held`, three to `checked` and `again`; one request
//! per cycle. A zero-based region costs one round more, and so does a window: of a place on the way, and of about nine
//! cycles.
//!
//! **Timing.** What needs no entry (shape, last address) is computed while the entry is read. Bounds need no subtraction:
//! `last = va + length - 1` is compared with the region's last address, and its carry tells that the request runs past
//! 2^64. The status is selected behind registers, in front of the page split's select.
//!
//! **Reset and flush.** Reset clears the valid bits.
//!
//! **Hazards.** An entry may change between two looks at it. A zero-based region that is not found where it was, or is not
//! zero-based any more, answers `entry_state`: it was not VALID in between. A window and its parent may be of different
//! times, as for any reader of two entries; the fence covers the request until it has left.
//!
//! **Limits.** None beyond the widths of the fields.

use crate::prim::{Design, Record, Signal, concat, delay_record, input_channel, or_all, output_channel, select_first};
use crate::records::{Again, Checked, Held, Lookup, MissRequest, MptLine, REGION_EPOCH_BITS, held_bits};
use keywalk_contract::op::{ATOMIC_BYTES, LENGTH_MAX_BYTES};
use keywalk_contract::{Config, Operation, Status, status::STATUS_BITS};

/// The block.
pub struct AccessCheck;

impl AccessCheck {
    /// Builds the module `access_check` and gives its name.
    ///
    /// Inputs besides the channels: `lookup_length_minus_one`, the switches `atomic_shape_check` and `hold_mode`. Outputs
    /// besides the channels: `checked_may_have_more` (the request touches several pages, if it is translated at all),
    /// `held_number` (under which `held` is to be kept), the pulses `mpt_hit` (a new request found
    /// its entry) and `entry_found` (a request, new or not, went to the page split).
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("access_check");
        let lookup_valid = b.input("lookup_valid", 1);
        let lookup = input_channel(b, "lookup", Lookup::widths(config));
        let length_minus_one = b.input("lookup_length_minus_one", 32);
        let found = b.input("found", 1);
        let page_shift = b.input("page_shift", 5);
        let line = input_channel(b, "line", MptLine::widths(config));
        let atomic_shape_check = b.input("atomic_shape_check", 1);
        let hold_mode = b.input("hold_mode", 1);
        let status = |status: Status| b.literal(status.code().into(), STATUS_BITS);

        // Stage 1: the shape of the request, and its last address. An atomic's own address is aligned, that which VA has been
        // added to need not be.
        let is_operation = |operation: Operation| lookup.operation.is(operation.code().into());
        let is_unknown = lookup.operation.ge(b.literal(Operation::ALL.len() as u128, lookup.operation.width()));
        let is_too_long = b.literal(LENGTH_MAX_BYTES.into(), 32).lt(lookup.length);
        let is_atomic_bad = is_operation(Operation::RemoteAtomic)
            & (!lookup.length.is(ATOMIC_BYTES.into()) | lookup.va.low_bits(ATOMIC_BYTES.trailing_zeros()).any())
            & atomic_shape_check
            & !(lookup.is_rebased | lookup.is_parent);
        let is_hold_too_long = hold_mode & b.literal(config.hold_bytes_max().into(), 32).lt(lookup.length);
        let s2_shape = concat(&[is_hold_too_long, is_atomic_bad, is_too_long, is_unknown]).delay("s2_shape");
        let s2_is_empty = lookup.length.none().delay("s2_is_empty");
        let remote: Vec<_> =
            Operation::ALL.iter().filter(|operation| operation.is_remote()).map(|o| is_operation(*o)).collect();
        let s2_is_remote = or_all(&remote).delay("s2_is_remote");
        let sum = lookup.va.add_wide(length_minus_one.resize(64)).named("last_sum");
        let s2_last = sum.low_bits(64).delay("s2_last");
        let s2_overflows = sum.bit(64).delay("s2_overflows");
        // With a reset, so that the fields stay in registers: as shift registers of LUTs they would cost one LUT for each
        // bit.
        let s2 = lookup.map(&mut |name, field| field.delay_reset(&format!("s2_{name}")));
        let s2_valid = lookup_valid.delay_reset("s2_valid");

        // Stage 2: the pages, now that the page size is known; whether the entry is there.
        let s2_is_settled = s2_shape.any() | s2_is_empty | s2.status.any();
        let s2_shape_status = select_first(
            &[
                (s2_shape.bit(0), status(Status::OperationUnknown)),
                (s2_shape.bit(1), status(Status::LengthTooLong)),
                (s2_shape.bit(2), status(Status::AtomicShape)),
                (s2_shape.bit(3), status(Status::HoldTooLong)),
                (s2_is_empty, status(Status::Ok)),
            ],
            s2.status,
        );
        let s3_first_page = s2.va.bits(63, 12).shift_right_low(page_shift, 32).delay("s3_first_page");
        let s3_last_page = s2_last.bits(63, 12).shift_right_low(page_shift, 20).delay("s3_last_page");
        let s3_settled_status = s2_shape_status.delay("s3_settled_status");
        let s3_is_settled = s2_is_settled.delay("s3_is_settled");
        let s3_is_empty = s2_is_empty.delay("s3_is_empty");
        let s3_is_remote = s2_is_remote.delay("s3_is_remote");
        // The read that failed, unless another failure goes before its status.
        let s3_hop = ((s2_shape.none() & !s2_is_empty & s2.status.any()).repeat(2) & s2.hop).delay("s3_hop_of_status");
        let s3_page_shift = page_shift.delay("s3_page_shift");
        let s3_last = s2_last.delay("s3_last");
        let s3_overflows = s2_overflows.delay("s3_overflows");
        let s3 = delay_record(s2, "s3");
        let s3_valid = (s2_valid & (found | s2_is_settled)).delay_reset("s3_valid");
        let s3_misses = (s2_valid & !found & !s2_is_settled).delay_reset("s3_misses");
        b.output("mpt_hit", (s2_valid & found & !s2_is_settled & !s2.is_replay).delay_reset("s3_hit"));
        let s3_finds = (s2_valid & found & !s2_is_settled).delay_reset("s3_finds");

        // Stage 3: compare with the entry. A request to a zero-based region looks it up once more when VA has been added to
        // its address, and one through a window that is bound looks up the parent next.
        let is_first_look = !s3.is_parent;
        let goes_rebased = (line.is_zero_based & !s3.is_rebased & is_first_look).named("goes_rebased");
        let goes_to_parent = line.is_bound_window & is_first_look;
        let s3_is_again = (s3_finds & (goes_rebased | goes_to_parent)).named("s3_is_again");
        let s3_leaves = (s3_valid & !s3_is_again).named("s3_leaves");

        // What all pieces share is kept in memory.
        let miss = MissRequest {
            tag: s3.tag,
            function: s3.function,
            table_set: s3.table_set,
            operation: s3.operation,
            key: s3.key,
            pd: s3.pd,
            qpn: s3.qpn,
            va: s3.va,
            length: s3.length,
            index: s3.index,
            is_rebased: s3.is_rebased,
            is_parent: s3.is_parent,
            is_beyond: s3.is_beyond,
            region_va: s3.region_va,
            order: s3.order,
            admission: s3.admission,
            epoch: s3.epoch,
        };
        b.output("miss_valid", s3_misses);
        output_channel(b, "miss", miss);
        let number = b.register_reset("next_held", held_bits(config), 0);
        number.next_if(s3_leaves, number.value + 1);
        let held = Held {
            tag: s3.tag,
            function: s3.function,
            is_remote: s3_is_remote,
            admission: s3.admission,
            table_set: s3.table_set,
            mpt_index: s3.index,
            last: s3_last.low_bits(32),
            page_shift: s3_page_shift,
            root: line.root,
            page_count: line.page_count,
            epoch: s3.epoch.low_bits(REGION_EPOCH_BITS),
        };
        b.output("held_valid", s3_leaves);
        b.output("held_number", number.value);
        output_channel(b, "held", held);

        let right = (0..Operation::ALL.len() as u32)
            .map(|code| line.allowed.bit(code) & s3.operation.is(code.into()))
            .reduce(|a, b| a | b)
            .expect("there are operations");
        let is_bounded = !line.is_direct;
        // A region that is not where it was has changed between two looks at it: not VALID in between, as the contract has
        // it, so that this is an answer of that time.
        let has_moved = s3.is_rebased & !(line.va.eq_wide(s3.region_va) & line.is_zero_based);
        let is_no_parent = s3.is_parent & (line.is_window | line.is_direct | line.is_zero_based);
        let failures = [
            (has_moved, Status::EntryState),
            (!s3.key.eq_wide(line.key), Status::EntryKey),
            ((line.is_window & !s3_is_remote) | is_no_parent, Status::WindowLocal),
            (line.is_window & !line.is_bound, Status::WindowUnbound),
            (!s3.pd.eq_wide(line.pd), Status::ProtectionDomain),
            (line.checks_qpn & !s3.qpn.eq_wide(line.qpn), Status::WindowQueuePair),
            (!right & is_first_look, Status::AccessRight),
            (line.wraps & is_bounded, Status::RegionWraps),
            (line.too_large & is_bounded, Status::RegionTooLarge),
        ]
        .map(|(fails, status)| (fails.delay(&format!("s4_{status:?}").to_lowercase()), status));
        let s4_below = s3.va.lt(line.va).delay("s4_below");
        let s4_above = line.last.lt(s3_last).delay("s4_above");
        let s4_is_outside = (s3_overflows | s3.is_beyond | (is_bounded & line.is_empty)).delay("s4_is_outside");
        let s4_is_bounded = is_bounded.delay("s4_is_bounded");
        let s4_is_parent = s3.is_parent.delay("s4_is_parent");
        let s4_is_direct_window = (line.is_window & line.is_direct).delay("s4_is_direct_window");
        let s4_is_settled = s3_is_settled.delay("s4_is_settled");
        let s4_is_empty = s3_is_empty.delay("s4_is_empty");
        let s4_settled_status = s3_settled_status.delay("s4_settled_status");
        let s4_has_more = s3_first_page.low_bits(20).ne(s3_last_page).delay("s4_has_more");

        // Stage 4: the first failure counts.
        let is_outside = (s4_is_outside | (s4_is_bounded & (s4_below | s4_above))).named("is_outside");
        let mut cases = vec![(s4_is_settled, s4_settled_status)];
        // Whatever is wrong with a parent has one status.
        let window_parent = status(Status::WindowParent);
        let of_entry = |code: Status| s4_is_parent.mux(window_parent, status(code));
        cases.extend(failures.map(|(fails, code)| (fails, of_entry(code))));
        cases.push((is_outside, of_entry(Status::Bounds)));
        cases.push((s4_is_direct_window, window_parent));
        let entry_failures: Vec<_> =
            failures.iter().map(|(fails, _)| *fails).chain([is_outside, s4_is_direct_window, s4_is_settled]).collect();
        let checked_status = select_first(&cases, status(Status::Ok));
        let s4_order = s3.order.delay("s4_order");
        let s4_va = s3.va.delay("s4_va");
        let is_translated = (!or_all(&entry_failures) & s4_is_bounded).named("is_translated");
        let checked = Checked {
            held: number.value.delay("s4_held"),
            order: s4_order,
            index_low: s3.index.low_bits(config.tlb_set_bits()).delay("s4_index_low"),
            va: s4_va,
            status: checked_status,
            hop: s3_hop.delay("s4_hop"),
            is_translated,
            is_empty: s4_is_empty,
            pages_minus_one: (s3_last_page - s3_first_page.low_bits(20)).delay("s4_pages_minus_one"),
            page_shift: s3_page_shift.delay("s4_page_shift"),
            virtual_page: s3_first_page.delay("s4_virtual_page"),
            page_index: (s3_first_page - line.base_page).delay("s4_page_index"),
            hop_num: line.hop_num.delay("s4_hop_num"),
            ba_pg_sz: line.ba_pg_sz.delay("s4_ba_pg_sz"),
            is_flat: line.is_flat.delay("s4_is_flat"),
        };
        let s4_leaves = s3_leaves.delay_reset("s4_leaves");
        b.output("entry_found", s4_leaves);
        b.output("checked_valid", s4_leaves);
        b.output("checked_may_have_more", s4_has_more);
        output_channel(b, "checked", checked);

        // With its address rebased it is judged when it comes back; what the window has to say goes along to the parent.
        let s4_goes_rebased = goes_rebased.delay("s4_goes_rebased");
        let own_va = s3.va.add_wide(line.va).delay("s4_own_va");
        let keep = |name: &str, field: Signal<'a>| field.delay(&format!("s4_again_{name}"));
        let again = Again {
            tag: keep("tag", s3.tag),
            function: keep("function", s3.function),
            table_set: keep("table_set", s3.table_set),
            operation: keep("operation", s3.operation),
            key: keep("key", goes_rebased.mux(s3.key, line.bound_key)),
            pd: keep("pd", s3.pd),
            qpn: keep("qpn", s3.qpn),
            va: s4_goes_rebased.mux(own_va.low_bits(64), s4_va),
            length: keep("length", s3.length),
            status: checked_status & (!s4_goes_rebased).repeat(STATUS_BITS),
            is_rebased: s4_goes_rebased,
            is_parent: !s4_goes_rebased,
            is_beyond: own_va.bit(64) & s4_goes_rebased,
            region_va: keep("region_va", line.va),
            order: s4_order,
            admission: keep("admission", s3.admission),
        };
        b.output("again_valid", s3_is_again.delay_reset("s4_is_again"));
        output_channel(b, "again", again);
        b.name().into()
    }
}
