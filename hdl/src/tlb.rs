//! The TLB: page translations of all page sizes in one set-associative cache.
//!
//! **Purpose.** Finds the page of a piece. The tag is {epochs, table set, MPT index, virtual page number}, low 32 bits of
//! va >> page shift, which within one region is as exact as the page index, whatever the page size. Pieces that need no
//! translation pass through.
//!
//! **Handshake.** Channel `piece` in and channel `looked_up` out three cycles later, both valid only. Channel `result` in
//! (from the MTR walker), valid only: a page found by a walk is entered unless it is zero or not aligned to 4 KiB; it may
//! also be dropped, since the walk answers its request itself.
//!
//! **Latency and throughput.** Three cycles; one piece and one result per cycle.
//!
//! **Timing.** Memory read, compare, select and add have a stage each. Page addresses are added, not ORed: a page may be
//! aligned to 4 KiB only. The length takes two stages.
//!
//! **Reset and flush.** After reset and after `flush` all tags are scrubbed, one set per cycle; `ready` is low meanwhile.
//! Neither pieces nor results may be sent then, nor together with `flush`.
//!
//! **Hazards.** A fill reads the tags of its set first, through a read port of its own, and overwrites the way that holds
//! the same page, if any; pieces see the page four cycles after its result. A result that follows another of its set by one
//! or two cycles could not see the other's tag, so it is dropped. Where a hit and a fill update the replacement state in one
//! cycle the hit's update counts.
//!
//! **Limits.** `tlb_sets` times `tlb_ways` pages.

use crate::prim::{
    Design, Plru, Ram, RamStyle, Signal, concat, delay_record, encode_one_hot, input_channel, mux_record, or_all,
    output_channel, scrub, select_one_hot, zero_record,
};
use crate::records::{LookedUp, Piece, REGION_EPOCH_BITS, WalkResult};
use keywalk_contract::{Config, key::INDEX_BITS};

crate::record! {
    /// Tag word of one way.
    struct Tag(config) {
        /// The way holds a page.
        is_valid: 1,
        /// Owner.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry.
        mpt_index: INDEX_BITS,
        /// Epochs of the region.
        epoch: REGION_EPOCH_BITS,
        /// Virtual page number above the bits that the set number determines.
        virtual_page: 32 - config.tlb_set_bits(),
    }
}

crate::record! {
    /// A page on its way into the TLB.
    struct TlbFill(config) {
        /// Owner.
        table_set: config.table_set_bits(),
        /// Index of the MPT entry.
        mpt_index: INDEX_BITS,
        /// Epochs of the region.
        epoch: REGION_EPOCH_BITS,
        /// Virtual page number, low 32 bits.
        virtual_page: 32,
        /// Page address >> 12.
        page: 52,
    }
}

/// Set of a page: exclusive OR, so that page number bits can be recovered from set and index.
fn set_of<'a>(config: &Config, mpt_index: Signal<'a>, virtual_page: Signal<'a>) -> Signal<'a> {
    let bits = config.tlb_set_bits();
    mpt_index.low_bits(bits) ^ virtual_page.low_bits(bits)
}

/// The block.
pub struct Tlb;

impl Tlb {
    /// Builds the module `tlb` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("tlb");
        let set_bits = config.tlb_set_bits();
        let ways = config.tlb_ways;
        let way_bits = ways.trailing_zeros().max(1);
        let piece_valid = b.input("piece_valid", 1);
        let piece = input_channel(b, "piece", Piece::widths(config));
        let result_valid = b.input("result_valid", 1);
        let result = input_channel(b, "result", WalkResult::widths(config));
        let clean = scrub(b, "scrub", set_bits, b.input("flush", 1));
        b.output("ready", !clean.busy);

        let tags: Vec<_> = (0..ways)
            .map(|way| {
                Ram::new(
                    b,
                    &format!("tags_{way}"),
                    config.tlb_sets,
                    RamStyle::for_depth(config.tlb_sets),
                    Tag::widths(config),
                )
            })
            .collect();
        let pages: Vec<_> = (0..ways)
            .map(|way| {
                Ram::of_words(b, &format!("pages_{way}"), config.tlb_sets, RamStyle::for_depth(config.tlb_sets), 52)
            })
            .collect();
        let replacement = Plru::new(b, "replacement", config.tlb_sets, ways);
        let always = b.flag(true);

        // Stage 0: read.
        let set = set_of(config, piece.mpt_index, piece.virtual_page).named("set");
        let read: Vec<_> = tags.iter().map(|memory| memory.read(set, always)).collect();
        let read_pages: Vec<_> = pages.iter().map(|memory| memory.read_word(set, always)).collect();
        let s1 = delay_record(piece, "s1");
        let s1_valid = piece_valid.delay_reset("s1_valid");
        let s1_set = set.delay("s1_set");
        let s1_length_minus_one = (piece.last - piece.va.low_bits(32)).delay("s1_length_minus_one");

        // Stage 1: compare.
        let key_of = |table_set: Signal<'a>, mpt_index: Signal<'a>, epoch: Signal<'a>, virtual_page: Signal<'a>| {
            concat(&[always, epoch, table_set, mpt_index, virtual_page.high_bits(32 - set_bits)])
        };
        let tag_of =
            |tag: &Tag<Signal<'a>>| concat(&[tag.is_valid, tag.epoch, tag.table_set, tag.mpt_index, tag.virtual_page]);
        let epoch_of = |epoch: Signal<'a>| epoch.low_bits(REGION_EPOCH_BITS);
        let wanted = key_of(s1.table_set, s1.mpt_index, epoch_of(s1.epoch), s1.virtual_page);
        let hits: Vec<_> = read.iter().map(|tag| tag_of(tag).eq_wide(wanted)).collect();
        let s2_hits: Vec<_> = hits.iter().enumerate().map(|(way, hit)| hit.delay(&format!("s2_hit_{way}"))).collect();
        let s2_pages: Vec<_> =
            read_pages.iter().enumerate().map(|(way, page)| page.delay(&format!("s2_page_{way}"))).collect();
        let s2 = delay_record(s1, "s2");
        let s2_valid = s1_valid.delay_reset("s2_valid");
        let s2_set = s1_set.delay("s2_set");
        let s2_length = (s1_length_minus_one + 1).delay("s2_length");

        // Stage 2: select the page and add the offset.
        let page = select_one_hot(&s2_hits.iter().copied().zip(s2_pages).collect::<Vec<_>>());
        let is_hit = or_all(&s2_hits).named("is_hit");
        let offset = concat(&[s2.va.bits(29, 12) & s2.page_mask, s2.va.low_bits(12)]);
        let translated = (page + offset.bits(29, 12).resize(52)).concat(s2.va.low_bits(12));
        let is_error = s2.status.any();
        let has_no_address = is_error | s2.is_empty;
        let address = s2.is_translated.mux(translated, s2.va);
        let looked_up = LookedUp {
            tag: s2.tag,
            function: s2.function,
            is_remote: s2.is_remote,
            table_set: s2.table_set,
            mpt_index: s2.mpt_index,
            va: s2.va,
            length: (!is_error).repeat(32) & s2_length,
            status: s2.status,
            hop: s2.hop,
            is_miss: s2.is_translated & !is_hit,
            address: (!has_no_address).repeat(64) & address,
            offset,
            virtual_page: s2.virtual_page,
            page_index: s2.page_index,
            root: s2.root,
            hop_num: s2.hop_num,
            ba_pg_sz: s2.ba_pg_sz,
            page_count: s2.page_count,
            is_split: s2.is_split,
            split_context: s2.split_context,
            split_slot: s2.split_slot,
            is_first: s2.is_first,
            is_last: s2.is_last,
            is_long: s2.is_long,
            admission: s2.admission,
            epoch: s2.epoch,
        };
        b.output("looked_up_valid", s2_valid.delay_reset("s3_valid"));
        output_channel(b, "looked_up", delay_record(looked_up, "s3"));
        // The slot in the cycle before `looked_up`: the split buffer reads its state of the slot meanwhile.
        b.output("early_split_context", s2.split_context);
        b.output("early_split_slot", s2.split_slot);
        let touch = (s2_valid & s2.is_translated & is_hit).named("touch");
        b.output("hit", touch.delay_reset("s3_hit"));

        // Fill: read the set's tags, compare, write.
        let is_cacheable = result.page.high_bits(52).any() & result.page.low_bits(12).none();
        let is_page = result_valid & !result.is_context & result.status.none();
        let f1_valid = (is_page & is_cacheable).delay_reset("f1_valid");
        let fill = TlbFill {
            table_set: result.table_set,
            mpt_index: result.mpt_index,
            epoch: epoch_of(result.epoch),
            virtual_page: result.virtual_page,
            page: result.page.high_bits(52),
        };
        let f1 = delay_record(fill, "f1");
        let f1_set = set_of(config, result.mpt_index, result.virtual_page).delay("f1_set");
        let fill_read: Vec<_> = tags.iter().map(|memory| memory.read(f1_set, always)).collect();
        let victim = replacement.victim(f1_set);
        let f2_valid = b.register_reset("f2_valid", 1, 0);
        let f2 = delay_record(f1, "f2");
        let f2_set = f1_set.delay("f2_set");
        let f2_wanted = key_of(f2.table_set, f2.mpt_index, f2.epoch, f2.virtual_page);
        let holds: Vec<_> = fill_read.iter().map(|tag| tag_of(tag).eq_wide(f2_wanted)).collect();
        let f2_way = or_all(&holds).mux(encode_one_hot(&holds, way_bits), victim);
        let f3_valid = f2_valid.value.delay_reset("f3_valid");
        let f3 = delay_record(f2, "f3");
        let f3_set = f2_set.delay("f3_set");
        let f3_way = f2_way.delay("f3_way");
        let clashes = (f2_valid.value & f2_set.eq(f1_set)) | (f3_valid & f3_set.eq(f1_set));
        f2_valid.next(f1_valid & !clashes);
        let empty = zero_record(b, Tag::widths(config));
        let filled = Tag {
            is_valid: always,
            table_set: f3.table_set,
            mpt_index: f3.mpt_index,
            epoch: f3.epoch,
            virtual_page: f3.virtual_page.high_bits(32 - set_bits),
        };
        for way in 0..ways {
            let enable = f3_valid & f3_way.is(way.into());
            tags[way as usize].write(
                clean.busy.mux(clean.address, f3_set),
                mux_record(clean.busy, empty, filled),
                clean.busy | enable,
            );
            pages[way as usize].write_word(f3_set, f3.page, enable);
        }
        let hit_way = encode_one_hot(&s2_hits, way_bits);
        replacement.touch(touch.mux(s2_set, f3_set), touch.mux(hit_way, f3_way), touch | f3_valid);
        b.name().into()
    }
}
