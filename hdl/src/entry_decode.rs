//! Turns a fetched MPT entry into a line of the MPT cache, and sends its request to the lookup again.
//!
//! **Purpose.** What a check needs of an entry is computed once, when the entry is fetched, so that the lookup does not
//! pay for it at every request: the last address, whether the region wraps or spans too many pages, one right per
//! operation, the page shift. The line goes into the cache; the request looks it up there like any other. A request
//! without an entry, or with one that is not VALID, takes a status along instead.
//!
//! **Handshake.** Channel `replay` in, valid only, off the table port's memories. Channel `fill` out in the same cycle, off the replay without a
//! register, `fill_page_shift` one cycle and `fill_line` three cycles later; channel `decoded` out two cycles later. All
//! of them are valid only.
//!
//! **Latency and throughput.** Two cycles to `decoded`; one entry per cycle.
//!
//! **Timing.** Length minus one, then the sums, then the comparison that the page size shifts have a stage each.
//!
//! **Reset and flush.** Reset drops what is inside.
//!
//! **Hazards.** The request reaches the lookup no sooner than the cache shows the tag. Should the fill have been dropped
//! or overwritten by then, the request misses again. A failure of the HEM lookup goes before the state of the entry.
//!
//! **Limits.** None: nothing waits here.

use crate::prim::{
    Design, Record, Signal, bit_range, concat, delay_record, input_channel, output_channel, select_by_number,
};
use crate::records::{ENTRY_EPOCH_BITS, Lookup, MptFill, MptLine, PD_BUCKET_BITS, Replay};
use keywalk_contract::mpt_entry::{self, STATE_VALID};
use keywalk_contract::{Config, Field, Operation, Status, status::STATUS_BITS};

/// Bits of an address that can lie within a page: pages have up to 2^30 bytes.
const OFFSET_BITS: u32 = 30;
/// Bits of a page address above the smallest page.
const PAGE_BITS: u32 = 52;
/// log2 of the pages that a page table can have.
const PAGES_LOG2: u32 = 32;

/// The block.
pub struct EntryDecode;

impl EntryDecode {
    /// Builds the module `entry_decode` and gives its name.
    ///
    /// Inputs `page_shift_base_<k>` hold `page_shift_base - 12` of table set `k`.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("entry_decode");
        let replay_valid = b.input("replay_valid", 1);
        let replay = input_channel(b, "replay", Replay::widths(config));
        let bases: Vec<_> = (0..config.table_sets).map(|set| b.input(&format!("page_shift_base_{set}"), 2)).collect();

        let status = |status: Status| b.literal(status.code().into(), STATUS_BITS);

        // Stage 0: the entry is cut into fields.
        let lanes = [replay.entry_0, replay.entry_1, replay.entry_2, replay.entry_3];
        let get = |field: Field| bit_range(&lanes, field.low, field.width);
        let is_valid = get(mpt_entry::ST).is(STATE_VALID.into());
        let is_fetched = replay.status.none();
        b.output("fill_valid", replay_valid & is_fetched & is_valid);
        let is_foreign = get(mpt_entry::PD).low_bits(PD_BUCKET_BITS).ne(replay.pd.low_bits(PD_BUCKET_BITS));
        let fill = MptFill {
            table_set: replay.table_set,
            index: replay.index,
            epoch: replay.epoch.low_bits(ENTRY_EPOCH_BITS),
            is_foreign,
        };
        output_channel(b, "fill", fill);
        let lookup = Lookup {
            tag: replay.tag,
            function: replay.function,
            table_set: replay.table_set,
            operation: replay.operation,
            key: replay.key,
            pd: replay.pd,
            qpn: replay.qpn,
            va: replay.va,
            length: replay.length,
            index: replay.index,
            is_replay: b.flag(true),
            is_rebased: replay.is_rebased,
            is_parent: replay.is_parent,
            is_beyond: replay.is_beyond,
            region_va: replay.region_va,
            status: (is_fetched & !is_valid)
                .mux(replay.is_parent.mux(status(Status::WindowParent), status(Status::EntryState)), replay.status),
            hop: replay.hop,
            order: replay.order,
            admission: replay.admission,
            epoch: replay.epoch,
        };
        let rights: Vec<_> =
            Operation::ALL.iter().rev().map(|operation| operation.right().map_or_else(|| b.flag(true), get)).collect();
        let is_window = get(mpt_entry::MR_MW);
        let is_direct = get(mpt_entry::PA);
        let line = MptLine {
            key: get(mpt_entry::LKEY),
            pd: get(mpt_entry::PD),
            allowed: concat(&rights),
            is_window,
            is_bound: b.flag(false),
            is_bound_window: b.flag(false),
            bound_key: get(mpt_entry::BOUND_LKEY),
            checks_qpn: is_window & get(mpt_entry::BQP),
            qpn: get(mpt_entry::MW_BIND_QPN),
            is_direct,
            is_zero_based: get(mpt_entry::ZBVA) & !is_direct,
            wraps: b.flag(false),
            too_large: b.flag(false),
            is_empty: get(mpt_entry::LEN).none_wide(),
            va: get(mpt_entry::VA),
            last: get(mpt_entry::LEN) - 1,
            base_page: b.literal(0, 32),
            root: get(mpt_entry::PBL_BA),
            hop_num: get(mpt_entry::PBL_HOP_NUM),
            ba_pg_sz: get(mpt_entry::PBL_BA_PG_SZ),
            page_count: get(mpt_entry::PBL_SIZE),
            is_flat: b.flag(false),
        };
        let base = select_by_number(&bases, replay.table_set);
        let page_shift = base.resize(5) + get(mpt_entry::PBL_BUF_PG_SZ).resize(5);
        let shift = page_shift.delay("s1_page_shift");
        // Bits of an address that lie within a page, above the smallest page.
        let within: Vec<_> = (0..OFFSET_BITS - 12).rev().map(|bit| b.literal(bit.into(), 5).lt(page_shift)).collect();
        let within = concat(&within).concat(b.literal(0xfff, 12)).delay("s1_within");
        let s1_valid = replay_valid.delay_reset("s1_valid");
        let lookup = delay_record(lookup, "s1");
        let mut line = delay_record(line, "s1_line");
        b.output("fill_page_shift", shift);

        // Stage 1: the last address (`last` held LEN - 1 so far), the first page, and how far the last address lies behind
        // the beginning of the first page.
        let length_minus_one = line.last;
        let sum = line.va.add_wide(length_minus_one).named("last_sum");
        let (page, below) = (line.root.high_bits(PAGE_BITS), line.root.low_bits(line.root.width() - PAGE_BITS));
        line.is_flat = line.hop_num.none() & line.page_count.any() & page.any() & below.none();
        line.wraps = sum.bit(64) & !line.is_empty;
        line.is_bound = line.bound_key.any();
        line.is_bound_window = line.is_window & line.is_bound & !line.is_direct;
        line.last = sum.low_bits(64);
        line.base_page = line.va.bits(63, 12).shift_right_low(shift, 32);
        let within = (line.va.low_bits(OFFSET_BITS) & within).resize(64);
        let distance = length_minus_one.add_wide(within).delay("s2_distance");
        b.output("decoded_valid", s1_valid.delay_reset("s2_valid"));
        output_channel(b, "decoded", delay_record(lookup, "s2"));
        // Reset keeps the fields out of shift registers of LUTs, which would cost one LUT for each bit.
        let mut line = line.map(&mut |name, field| field.delay_reset(&format!("s2_line_{name}")));
        let shift = shift.delay("s2_page_shift");

        // Stage 2: a page table holds 2^32 pages.
        let beyond: Vec<Signal<'a>> = (12 + PAGES_LOG2..=64)
            .map(|bit| distance.bit(bit) & b.literal((bit - 12 - PAGES_LOG2).into(), 5).ge(shift))
            .collect();
        line.too_large = concat(&beyond).any() & !line.is_empty;
        output_channel(b, "fill_line", delay_record(line, "s3_line"));
        b.name().into()
    }
}
