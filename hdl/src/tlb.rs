//! The TLB: page translations of all page sizes in one set-associative cache.
//!
//! **Purpose.** Finds the page of a piece. The key is {epochs, table set, MPT index, virtual page number}, low 32 bits of
//! va >> page shift, which within one region is as exact as the page index, whatever the page size. Page 0 of a flat region
//! is where its root is, and is not looked up. Pieces that need no translation pass through.
//!
//! **Handshake.** Channel `piece` in and channel `looked_up` out two cycles later, both valid only; channel `held` comes in
//! the cycle between, in which channel `start` goes out, valid only: what the walk would begin with, should the piece need
//! one. Channel `fill` in (from the MTR walker), valid only: a page is entered or, as
//! [`Cache`] says, dropped.
//!
//! **Latency and throughput.** Two cycles from `piece` to `looked_up`; one piece and one fill per cycle.
//!
//! **Timing.** Memory read, compare, then select and add: `looked_up` is not registered here, but where it is taken. Page
//! addresses are added, not ORed: a page may be aligned to 4 KiB only. The length takes two stages.
//!
//! **Reset and flush.** After reset and after `flush` all ways are scrubbed, one set per cycle; `ready` is low meanwhile,
//! every piece misses and every fill is dropped.
//!
//! **Hazards.** Those of [`Cache`].
//!
//! **Limits.** `tlb_sets` times `tlb_ways` pages.

use crate::prim::{Cache, CacheKey, CacheShape, Design, Signal, concat, delay_record, input_channel, output_channel};
use crate::records::{Held, LookedUp, Piece, REGION_EPOCH_BITS, TlbFill, WalkStart};
use keywalk_contract::{Config, key::INDEX_BITS, mpt_entry::PBL_BA_SHIFT};

/// Bits of a page address above the smallest page.
const PAGE_BITS: u32 = 52;

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
        let key = |valid: Signal<'a>, epoch: Signal<'a>, table_set: Signal<'a>, index: Signal<'a>, page: Signal<'a>| {
            // The low bits of the index and of the page number make the set, in exclusive or.
            CacheKey { valid, key: concat(&[epoch, table_set, index, page]), mix: index.low_bits(shape.set_bits()) }
        };

        // Stage 0: read.
        let lookup = key(
            piece_valid & piece.is_translated & !piece.is_flat,
            piece.epoch,
            piece.table_set,
            piece.mpt_index,
            piece.virtual_page,
        );
        let entry = key(fill_valid, fill.epoch, fill.table_set, fill.mpt_index, fill.virtual_page);
        let cache = Cache::new(b, "pages", shape, b.input("flush", 1), lookup, entry, fill.page);
        b.output("ready", cache.ready);
        b.output("evicted", cache.evicted);
        let s1 = delay_record(piece, "s1");
        let s1_valid = piece_valid.delay_reset("s1_valid");
        let s1_length_minus_one = (piece.last - piece.va.low_bits(32)).delay("s1_length_minus_one");

        // Stage 1: compare.
        let within: Vec<_> = (0..18u32).rev().map(|bit| b.literal(bit.into(), 5).lt(s1.page_shift)).collect();
        let s2_offset = concat(&[s1.va.bits(29, 12) & concat(&within), s1.va.low_bits(12)]).delay("s2_offset");
        let s2_length = (s1_length_minus_one + 1).delay("s2_length");
        let s2_is_error = s1.status.any().delay("s2_is_error");
        let s2 = delay_record(s1, "s2");
        let s2_valid = s1_valid.delay_reset("s2_valid");
        b.output("early_split_context", s1.split_context);
        b.output("early_split_slot", s1.split_slot);
        let held = input_channel(b, "held", Held::widths(config));
        let start = WalkStart {
            is_context: b.flag(false),
            table_set: s1.table_set,
            mpt_index: s1.mpt_index,
            epoch: s1.epoch,
            root: held.root.concat(b.literal(0, PBL_BA_SHIFT)),
            hop: s1.hop_num,
            ba_pg_sz: s1.ba_pg_sz,
            index: s1.page_index,
            check_index: b.flag(true),
            count: held.page_count,
        };
        b.output("start_valid", s1_valid);
        output_channel(b, "start", start);
        // Page 0 of a table without hops is where the root is.
        let is_flat = (s1.is_translated & s1.is_flat & s1.page_index.none()).named("s1_is_flat");
        let flat_page = (held.root.high_bits(PAGE_BITS) & is_flat.repeat(PAGE_BITS)).delay("s2_flat_page");
        let is_flat = is_flat.delay("s2_page_is_flat");
        let held = delay_record(held, "s2_held");

        // Stage 2: select the page and add the offset.
        let translated =
            ((cache.value | flat_page) + s2_offset.bits(29, 12).resize(PAGE_BITS)).concat(s2.va.low_bits(12));
        let has_no_address = s2_is_error | s2.is_empty;
        let address = s2.is_translated.mux(translated, s2.va);
        let is_miss = s2.is_translated & !cache.hit & !is_flat;
        let looked_up = LookedUp {
            tag: held.tag,
            function: held.function,
            is_remote: held.is_remote,
            table_set: s2.table_set,
            mpt_index: s2.mpt_index,
            va: s2.va,
            length: (!s2_is_error).repeat(32) & s2_length,
            status: s2.status,
            hop: s2.hop,
            is_miss,
            address: (!has_no_address).repeat(64) & address,
            offset: s2_offset,
            virtual_page: s2.virtual_page,
            is_split: s2.is_split,
            split_context: s2.split_context,
            split_slot: s2.split_slot,
            is_first: s2.is_first,
            is_last: s2.is_last,
            is_long: s2.is_long,
            admission: held.admission,
            epoch: s2.epoch,
        };
        b.output("looked_up_valid", s2_valid);
        output_channel(b, "looked_up", looked_up);
        b.output("hit", (cache.hit | (s2_valid & is_flat)).delay_reset("hit_q"));
        b.output("missed", (s2_valid & is_miss).delay_reset("missed_q"));
        b.name().into()
    }
}
