//! Cache of MPT entries.
//!
//! **Purpose.** Set-associative, tree pseudo-LRU. It holds decoded entries that are VALID, tagged with table set,
//! index and the epochs of the request that fetched them. Fills travel through the lookup pipe with the replayed request that fetched the entry.
//!
//! **Handshake.** Channel `lookup` in (valid only): one lookup per cycle, never stalled. Channel `line` out three cycles
//! later with `line_found`. For a replay the line is the one that it brought, found or not.
//!
//! **Latency and throughput.** Three cycles; one lookup or fill per cycle.
//!
//! **Timing.** Tags are compared straight off block RAM (stage 1); the data memory is read at {set, way} (stage 2), its
//! output and the replay's line are selected into a register (stage 3). The page shift lives in the tag word, because the
//! shift by it must begin when the line arrives.
//!
//! **Reset and flush.** After reset and after `flush` all tags are scrubbed, one set per cycle; `ready` is low meanwhile
//! and no lookup may be sent.
//!
//! **Hazards.** A fill writes its tag in stage 1 and its data in stage 2, the same skew as a lookup reads them, so no
//! lookup sees a torn line: one that reads the old tag in that cycle reads the old data in the next. A fill that follows
//! a fill of the same set by one cycle cannot see the other's tag; it is dropped, so that no entry is held twice. Lookups
//! see a fill two cycles later; the choice of the way to replace knows of a use three cycles later.
//!
//! **Limits.** `mpt_sets` times `mpt_ways` lines.

use crate::prim::{
    Design, Plru, Ram, RamStyle, Signal, concat, delay_record, encode_one_hot, input_channel, mux_record, or_all,
    output_channel, scrub, select_one_hot, zero_record,
};
use crate::records::{MptLine, REGION_EPOCH_BITS};
use keywalk_contract::{Config, key::INDEX_BITS};

crate::record! {
    /// Tag word of one way.
    struct Tag(config) {
        /// The way holds a line.
        is_valid: 1,
        /// Owner.
        table_set: config.table_set_bits(),
        /// Index above the set number.
        index: index_tag_bits(config),
        /// Epochs of the region.
        epoch: REGION_EPOCH_BITS,
        /// Page shift - 12 of the line.
        page_shift: 5,
    }
}

fn index_tag_bits(config: &Config) -> u32 {
    INDEX_BITS - config.mpt_set_bits()
}

/// The block.
pub struct MptCache;

impl MptCache {
    /// Builds the module `mpt_cache` and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("mpt_cache");
        let set_bits = config.mpt_set_bits();
        let ways = config.mpt_ways;
        let way_bits = ways.trailing_zeros().max(1);
        let lookup_valid = b.input("lookup_valid", 1);
        let table_set = b.input("lookup_table_set", config.table_set_bits());
        let index = b.input("lookup_index", INDEX_BITS);
        let epoch = b.input("lookup_epoch", REGION_EPOCH_BITS);
        let is_replay = b.input("lookup_is_replay", 1);
        let is_good = b.input("lookup_status", 8).none();
        let brought = input_channel(b, "lookup_line", MptLine::widths(config));
        let flush = b.input("flush", 1);

        let clean = scrub(b, "scrub", set_bits, flush);
        b.output("ready", !clean.busy);

        // Stage 0: read the tags.
        let set = index.low_bits(set_bits);
        let tags: Vec<_> = (0..ways)
            .map(|way| Ram::new(b, &format!("tags_{way}"), config.mpt_sets, RamStyle::Block, Tag::widths(config)))
            .collect();
        let replacement = Plru::new(b, "replacement", config.mpt_sets, ways);
        let victim = replacement.victim(set);
        let read: Vec<_> = tags.iter().map(|memory| memory.read(set, b.flag(true))).collect();
        let s1_valid = lookup_valid.delay_reset("s1_valid");
        let s1_set = set.delay("s1_set");
        let s1_table_set = table_set.delay("s1_table_set");
        let s1_index = index.high_bits(index_tag_bits(config)).delay("s1_index");
        let s1_epoch = epoch.delay("s1_epoch");
        let s1_is_replay = is_replay.delay("s1_is_replay");
        let s1_brought = delay_record(brought, "s1_line");
        let s1_may_fill = (lookup_valid & is_replay & is_good & brought.is_valid).delay_reset("s1_may_fill");

        // Stage 1: compare; decide on a fill and write its tag.
        let wanted = concat(&[b.flag(true), s1_epoch, s1_table_set, s1_index]);
        let hits: Vec<_> = read
            .iter()
            .map(|tag| concat(&[tag.is_valid, tag.epoch, tag.table_set, tag.index]).eq_wide(wanted))
            .collect();
        let hit = or_all(&hits).named("hit");
        let hit_way = encode_one_hot(&hits, way_bits);
        let hit_shift =
            select_one_hot(&hits.iter().zip(&read).map(|(hit, tag)| (*hit, tag.page_shift)).collect::<Vec<_>>());
        let just_filled = b.register_reset("just_filled", 1, 0);
        let just_filled_set = s1_set.delay("just_filled_set");
        let fill = (s1_may_fill & !hit & !(just_filled.value & just_filled_set.eq(s1_set))).named("fill");
        just_filled.next(fill);
        let way = hit.mux(hit_way, victim);
        for (number, memory) in tags.iter().enumerate() {
            let scrubbed = zero_record(b, Tag::widths(config));
            let filled = Tag {
                is_valid: b.flag(true),
                table_set: s1_table_set,
                index: s1_index,
                epoch: s1_epoch,
                page_shift: s1_brought.page_shift,
            };
            memory.write(
                clean.busy.mux(clean.address, s1_set),
                mux_record(clean.busy, scrubbed, filled),
                clean.busy | (fill & way.is(number as u128)),
            );
        }
        let s2_valid = s1_valid.delay_reset("s2_valid");
        let s2_fill = fill.delay_reset("s2_fill");
        let s2_hit = hit.delay("s2_hit");
        let s2_way = way.delay("s2_way");
        let s2_set = s1_set.delay("s2_set");
        let s2_is_replay = s1_is_replay.delay("s2_is_replay");
        let s2_shift = hit_shift.delay("s2_shift");
        let s2_brought = delay_record(s1_brought, "s2_line");

        // The data memory is read in stage 1 and written in stage 2, one cycle after the tags.
        let data = Ram::new(b, "lines", config.mpt_sets * ways.max(1), RamStyle::Block, MptLine::widths(config));
        let line_address = |set: Signal<'a>, way: Signal<'a>| if ways == 1 { set } else { concat(&[set, way]) };
        let cached = data.read(line_address(s1_set, way), b.flag(true));
        data.write(line_address(s2_set, s2_way), s2_brought, s2_fill);
        replacement.touch(s2_set, s2_way, s2_fill | (s2_valid & s2_hit));

        // Stage 2: the line.
        let cached = MptLine { page_shift: s2_shift, is_valid: b.flag(true), ..cached };
        let line = delay_record(mux_record(s2_is_replay, s2_brought, cached), "s3_line");
        b.output("line_found", (s2_hit | s2_is_replay).delay("s3_found"));
        output_channel(b, "line", line);
        b.name().into()
    }
}
