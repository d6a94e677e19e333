//! Turns a fetched MPT entry into the form that the checks use.
//!
//! **Purpose.** What a check needs of an entry is computed once, when the entry is fetched, so that the lookup does not
//! pay for it at every request: the last address, whether the region wraps or spans too many pages, one right per
//! operation, the page shift.
//!
//! **Handshake.** Channel `replay` in and channels `decoded` and `line` out (one handshake, `decoded_valid` and
//! `decoded_ready`); `replay_ready` depends on registers only.
//!
//! **Latency and throughput.** Six cycles; one entry per cycle.
//!
//! **Timing.** The 64-bit sum, the two variable shifts and the 52-bit difference have a stage each.
//!
//! **Reset and flush.** Reset drops what is inside.
//!
//! **Hazards.** None: entries stay in order.
//!
//! **Limits.** A credit per place in the output queue keeps the pipe from overrunning it.

use crate::prim::{
    Credit, Design, Fifo, bit_range, concat, delay_record, input_channel, output_channel, select_by_number,
};
use crate::records::{Lookup, MptLine, Replay};
use keywalk_contract::mpt_entry::{self, STATE_VALID};
use keywalk_contract::{Config, Field, Operation};

/// Places in the output queue.
const DEPTH: u32 = 8;

/// The block.
pub struct EntryDecode;

impl EntryDecode {
    /// Builds the module `entry_decode` and gives its name.
    ///
    /// Inputs `page_shift_base_<k>` hold `page_shift_base - 12` of table set `k`.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("entry_decode");
        let replay_valid = b.input("replay_valid", 1);
        let replay = input_channel(b, "replay", Replay::widths(config));
        let decoded_ready = b.input("decoded_ready", 1);
        let bases: Vec<_> = (0..config.table_sets).map(|set| b.input(&format!("page_shift_base_{set}"), 2)).collect();

        let credit = Credit::new(b, "credit", DEPTH);
        b.output("replay_ready", credit.available);
        let accept = (replay_valid & credit.available).named("accept");

        // Stage 1: the entry is cut into fields.
        let lanes = [replay.entry_0, replay.entry_1, replay.entry_2, replay.entry_3];
        let get = |field: Field| bit_range(&lanes, field.low, field.width);
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
            status: replay.status,
            hop: replay.hop,
            admission: replay.admission,
            epoch: replay.epoch,
        };
        let rights: Vec<_> =
            Operation::ALL.iter().rev().map(|operation| operation.right().map_or_else(|| b.flag(true), get)).collect();
        let base = select_by_number(&bases, replay.table_set);
        let is_window = get(mpt_entry::MR_MW);
        let mut line = MptLine {
            key: get(mpt_entry::LKEY),
            pd: get(mpt_entry::PD),
            allowed: concat(&rights),
            is_valid: get(mpt_entry::ST).is(STATE_VALID.into()),
            is_window,
            is_bound: get(mpt_entry::BOUND_LKEY).any(),
            checks_qpn: is_window & get(mpt_entry::BQP),
            qpn: get(mpt_entry::MW_BIND_QPN),
            is_direct: get(mpt_entry::PA),
            wraps: b.flag(false),
            too_large: b.flag(false),
            is_empty: get(mpt_entry::LEN).none(),
            va: get(mpt_entry::VA),
            last: get(mpt_entry::LEN) - 1,
            page_shift: base.resize(5) + get(mpt_entry::PBL_BUF_PG_SZ).resize(5),
            base_page: b.literal(0, 32),
            root: get(mpt_entry::PBL_BA),
            hop_num: get(mpt_entry::PBL_HOP_NUM),
            ba_pg_sz: get(mpt_entry::PBL_BA_PG_SZ),
            page_count: get(mpt_entry::PBL_SIZE),
        };
        let mut valid = accept.delay_reset("s1_valid");
        let mut lookup = delay_record(lookup, "s1");
        line = delay_record(line, "s1_line");

        // Stage 2: the last address. `last` held LEN - 1 so far.
        let sum = line.va.add_wide(line.last).named("last_sum");
        line.wraps = sum.bit(64) & !line.is_empty;
        line.last = sum.low_bits(64);
        valid = valid.delay_reset("s2_valid");
        lookup = delay_record(lookup, "s2");
        line = delay_record(line, "s2_line");

        // Stage 3: first and last page.
        let first_page = line.va.bits(63, 12).shift_right(line.page_shift).delay("s3_first_page");
        let last_page = line.last.bits(63, 12).shift_right(line.page_shift).delay("s3_last_page");
        valid = valid.delay_reset("s3_valid");
        lookup = delay_record(lookup, "s3");
        line = delay_record(line, "s3_line");

        // Stage 4: a page table holds 2^32 pages.
        let span = (last_page - first_page).named("span");
        line.too_large = span.bits(51, 32).any() & !line.is_empty;
        line.base_page = first_page.low_bits(32);
        valid = valid.delay_reset("s4_valid");
        lookup = delay_record(lookup, "s4");
        line = delay_record(line, "s4_line");

        let widths = (Lookup::widths(config), MptLine::widths(config));
        let (queue, port) = Fifo::new(design, b, "queue", DEPTH, widths);
        queue.push(valid, (lookup, line));
        queue.pop(decoded_ready);
        credit.update(accept, port.out_valid & decoded_ready, b.flag(false));
        b.output("decoded_valid", port.out_valid);
        output_channel(b, "decoded", port.out.0);
        output_channel(b, "line", port.out.1);
        b.name().into()
    }
}
