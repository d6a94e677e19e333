//! The TLB: page translations of all page sizes in one set-associative cache.
//!
//! **Purpose.** Finds the page of a piece. The key is {epochs, table set, MPT index, virtual page number}, low 32 bits of
//! va >> page shift, which within one region is as exact as the page index, whatever the page size. Page 0 of a flat region
//! is where its root is, and is not looked up. Pieces that need no translation pass through.
//!
//! **Handshake.** Channel `piece` in and channel `looked_up` out two cycles later, both valid only; channel `held`
//! comes in the cycle between, in which channel `start` goes out, valid only: what the walk would begin with, should
//! the piece need one. Channel `fill` in (from the MTR walker), valid only: a page is entered or, as [`Cache`] says,
//! dropped.
//!
//! **Latency and throughput.** Two cycles from `piece` to `looked_up`; one piece and one fill per cycle.
//!
//! **Timing.** Memory read, compare, then select and add: `looked_up` is not registered here, but where it is taken. Page
//! addresses are added, not ORed: a page may be aligned to 4 KiB only. The sum has an operand for pages that are found and
//! one for those that are their own address, of which the reset of a register leaves one at most. The length takes two
//! stages.
//!
//! **Reset and flush.** After reset and after `flush` all ways are scrubbed, one set per cycle; `ready` is low meanwhile,
//! every piece misses and every fill is dropped.
//!
//! **Hazards.** Those of [`Cache`].
//!
//! **Limits.** `tlb_sets` times `tlb_ways` pages.

use crate::prim::{
    Cache, CacheKey, CacheShape, Design, LateKey, Signal, concat, delay_record, input_channel, output_channel,
};
use crate::records::{Held, LookedUp, Piece, REGION_EPOCH_BITS, TlbFill, WalkStart};
use keywalk_contract::{Config, key::INDEX_BITS, mpt_entry::PBL_BA_SHIFT};

/// Bits of a page address above the smallest page.
const PAGE_BITS: u32 = 52;
/// Of them, those that can lie within a page.
const OFFSET_BITS: u32 = 18;

/// The block.
pub struct Tlb;

impl Tlb {
    /// Builds the module `tlb` and gives its name.
    ///
    /// Outputs besides the channels: `ready`; `early_split_context` and `early_split_slot` (of the piece that comes on
    /// `looked_up` in the next cycle); the pulses `hit`, `missed` and `evicted`.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("tlb");
        let piece_valid = b.input("piece_valid", 1);
        let piece = input_channel(b, "piece", Piece::widths(config));
        let fill_valid = b.input("fill_valid", 1);
        let fill = input_channel(b, "fill", TlbFill::widths(config));
        let shape = CacheShape {
            sets: config.tlb_sets,
            ways: config.tlb_ways,
            key_bits: REGION_EPOCH_BITS + config.table_set_bits() + INDEX_BITS + 32,
            value_bits: PAGE_BITS,
        };
        let held = input_channel(b, "held", Held::widths(config));

        // Stage 0: read. The low bits of the index and of the page number make the set, in exclusive or.
        let set_bits = shape.set_bits();
        let s1 = delay_record(piece, "s1");
        let s1_valid = piece_valid.delay_reset("s1_valid");
        let s1_key = concat(&[held.epoch, held.table_set, held.mpt_index, s1.virtual_page]);
        let lookup = LateKey {
            late_valid: s1_valid & s1.is_translated & !s1.is_flat,
            set: piece.virtual_page.low_bits(set_bits) ^ piece.index_low,
            late_key: s1_key.high_bits(shape.key_bits - set_bits),
        };
        let entry = CacheKey {
            valid: fill_valid,
            key: concat(&[fill.epoch, fill.table_set, fill.mpt_index, fill.virtual_page]),
            mix: fill.mpt_index.low_bits(set_bits),
        };
        let cache = Cache::with_late_key(b, "pages", shape, b.input("flush", 1), lookup, entry, fill.page);
        b.output("ready", cache.ready);
        b.output("evicted", cache.evicted);

        // Stage 1: compare. What is not part of the answer is zero: the offset of an address that is not looked up, the
        // address of a page that is, and everything of an error or an empty request.
        let within: Vec<_> = (0..OFFSET_BITS).rev().map(|bit| b.literal(bit.into(), 5).lt(held.page_shift)).collect();
        let within = concat(&within);
        let has_no_address = s1.status.any() | s1.is_empty;
        let zero_if = |condition: Signal<'a>, value: Signal<'a>| condition.mux(b.literal(0, value.width()), value);
        let offset = s1.va.bits(11 + OFFSET_BITS, 12) & within;
        let s2_offset = zero_if(!s1.is_translated, offset).delay("s2_offset");
        let s2_low = zero_if(has_no_address, s1.va.low_bits(12)).delay("s2_low");
        // Page 0 of a table without hops is where the root is.
        let is_flat = (s1.is_translated & s1.is_flat & s1.page_index.none()).named("s1_is_flat");
        let direct = zero_if(s1.is_translated | has_no_address, s1.va.bits(63, 12));
        let s2_direct = is_flat.mux(held.root.high_bits(PAGE_BITS), direct).delay("s2_direct");
        let is_flat = is_flat.delay("s2_page_is_flat");
        let page_end = s1.va.low_bits(32) | concat(&[b.literal(0, 20 - OFFSET_BITS), within, b.literal(0xfff, 12)]);
        let end = s1.is_last.mux(held.last, page_end);
        // The length, negative: va + !end is va - end - 1.
        let s2_length = zero_if(has_no_address, s1.va.low_bits(32) + !end).delay("s2_length_negative");
        let s2 = delay_record(s1, "s2");
        let s2_valid = s1_valid.delay_reset("s2_valid");
        let keep = |name: &str, field: Signal<'a>| field.delay(&format!("s2_held_{name}"));
        b.output("early_split_context", s1.split_context);
        b.output("early_split_slot", s1.split_slot);
        let start = WalkStart {
            is_context: b.flag(false),
            table_set: held.table_set,
            mpt_index: held.mpt_index,
            epoch: held.epoch,
            root: held.root.concat(b.literal(0, PBL_BA_SHIFT)),
            hop: s1.hop_num,
            ba_pg_sz: s1.ba_pg_sz,
            index: s1.page_index,
            check_index: b.flag(true),
            count: held.page_count,
        };
        b.output("start_valid", s1_valid);
        output_channel(b, "start", start);

        // Stage 2: select the page and add the offset.
        let page = s2_offset.resize(PAGE_BITS) + (cache.value | s2_direct);
        let is_miss = s2.is_translated & !cache.hit & !is_flat;
        let looked_up = LookedUp {
            tag: keep("tag", held.tag),
            function: keep("function", held.function),
            is_remote: keep("is_remote", held.is_remote),
            table_set: keep("table_set", held.table_set),
            mpt_index: keep("mpt_index", held.mpt_index),
            va: s2.va,
            length: b.literal(0, 32) - s2_length,
            status: s2.status,
            hop: s2.hop,
            is_miss,
            address: page.concat(s2_low),
            offset: s2_offset.concat(s2.va.low_bits(12)),
            virtual_page: s2.virtual_page,
            is_split: s2.is_split,
            split_context: s2.split_context,
            split_slot: s2.split_slot,
            is_first: s2.is_first,
            is_last: s2.is_last,
            is_long: s2.is_long,
            admission: keep("admission", held.admission),
            epoch: keep("epoch", held.epoch),
        };
        b.output("looked_up_valid", s2_valid);
        output_channel(b, "looked_up", looked_up);
        b.output("hit", (cache.hit | (s2_valid & is_flat)).delay_reset("hit_q"));
        b.output("missed", (s2_valid & is_miss).delay_reset("missed_q"));
        b.name().into()
    }
}
