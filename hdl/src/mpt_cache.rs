//! Cache of MPT entries.
//!
//! **Purpose.** Set-associative, tree pseudo-LRU. It holds decoded entries that are VALID, tagged with table set, index
//! and the epochs under which they were fetched. A request whose entry is not here fetches it, enters it through channel
//! `fill` and looks it up again.
//!
//! **Handshake.** One lookup per cycle, never stalled: `early_index` (tags are read), in the next cycle channel `lookup`;
//! `found` and `page_shift` one cycle after `lookup`, channel `line` two cycles after it. Channel `fill` in (valid only),
//! with `fill_page_shift` one cycle and `fill_line` three cycles after it. A fill is entered or, see the hazards, dropped.
//!
//! **Latency and throughput.** Two cycles; one lookup and one fill per cycle. A lookup whose `early_index` comes two cycles
//! after a fill sees it.
//!
//! **Timing.** Tags are compared straight off block RAM in carry chains, whose ends are registered: `found` is their OR. The
//! data memory is read at {set, way} from registers. The page shift lives in the tag word, because the shift by it must begin before the line arrives.
//!
//! **Reset and flush.** After reset and after `flush` all tags are scrubbed, one set per cycle, and `ready` is low.
//! Lookups whose `early_index` comes with the flush or while `ready` is low miss, and fills that do are dropped.
//!
//! **Hazards.** A fill writes its tag two cycles before its data, as a lookup reads them two cycles apart, so that no lookup
//! sees a torn line: one that reads the old tag in that cycle reads the old data. An index is in one way at most, whatever
//! its epochs: a fill compares table set and index and overwrites the way that has them. A fill that comes one or two
//! cycles after another of the same set cannot see that one's tag or use; it is dropped, and its request will fetch the
//! entry again. Of a hit and a fill that come in one cycle, only the hit counts as a use.
//!
//! A line is found under its own epochs; of those of PDs either the one of the request's bucket has to agree, if the line's
//! PD is of that bucket (not `is_foreign`), or the one of all PDs together. So an invalidation of another PD leaves the line
//! to the requests of its own PD, and to no other ones.
//!
//! **Limits.** `mpt_sets` times `mpt_ways` lines.

use crate::prim::{
    Design, Plru, Ram, RamStyle, Signal, concat, encode_one_hot, input_channel, or_all, output_channel, scrub,
    select_by_number, select_one_hot,
};
use crate::records::{
    BUCKET_EPOCH_BITS, ENTRY_EPOCH_BITS, LATE_EPOCH_BITS, MptFill, MptLine, REGION_EPOCH_BITS, SET_EPOCH_BITS,
};
use keywalk_contract::{Config, key::INDEX_BITS};

crate::record! {
    /// Tag word of one way.
    struct Tag(config) {
        /// The way holds a line.
        is_valid: 1,
        /// Owner.
        table_set: config.table_set_bits(),
        /// Index above the set number.
        index: INDEX_BITS - config.mpt_set_bits(),
        /// Epochs under which the entry was fetched.
        epoch: ENTRY_EPOCH_BITS,
        /// As with the fill.
        is_foreign: 1,
        /// Page shift - 12 of the line.
        page_shift: 5,
    }
}

crate::record! {
    /// The part of a tag that fills compare.
    struct Owner(config) {
        /// The way holds a line.
        is_valid: 1,
        /// Owner.
        table_set: config.table_set_bits(),
        /// Index above the set number.
        index: INDEX_BITS - config.mpt_set_bits(),
    }
}

/// The block.
pub struct MptCache;

impl MptCache {
    /// Builds the module `mpt_cache` and gives its name. Outputs besides the channels: `ready`, `found`, `page_shift`, and
    /// the pulse `evicted` (a fill has replaced another entry's line).
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("mpt_cache");
        let (sets, ways) = (config.mpt_sets, config.mpt_ways);
        let set_bits = config.mpt_set_bits();
        let index_bits = INDEX_BITS - set_bits;
        let way_bits = ways.trailing_zeros().max(1);
        let always = b.flag(true);
        let clean = scrub(b, "scrub", set_bits, b.input("flush", 1));
        b.output("ready", !clean.busy);

        let tags: Vec<_> = (0..ways)
            .map(|way| Ram::new(b, &format!("tags_{way}"), sets, RamStyle::Block, Tag::widths(config)))
            .collect();
        let owners: Vec<_> = (0..ways)
            .map(|way| Ram::new(b, &format!("owners_{way}"), sets, RamStyle::Block, Owner::widths(config)))
            .collect();
        let replacement = Plru::new(b, "replacement", sets, ways);

        // Stage 0: read the tags.
        let set = b.input("early_index", INDEX_BITS).low_bits(set_bits);
        let read: Vec<_> = tags.iter().map(|memory| memory.read(set, always)).collect();

        // Stage 1: compare. The epochs of a new request's buckets come out of a memory, in exclusive or with zeros; a replay
        // brings its own, in exclusive or with zeros out of the memory.
        let valid = b.input("lookup_valid", 1);
        let table_set = b.input("lookup_table_set", config.table_set_bits());
        let index = b.input("lookup_index", INDEX_BITS);
        let epoch = b.input("lookup_epoch", ENTRY_EPOCH_BITS);
        let late_epoch = b.input("late_epoch", LATE_EPOCH_BITS);
        let agreement = |tag: &Tag<Signal<'a>>| {
            let bits = |high: u32, low: u32| [tag.epoch, epoch].map(|epochs| epochs.bits(high - 1, low));
            let late_agrees = |high: u32, low: u32| {
                let pairs: Vec<_> = (low..high)
                    .step_by(2)
                    .map(|bit| {
                        let [held, noted] = bits(bit + 2, bit);
                        (held ^ late_epoch.bits(bit + 1, bit)).eq(noted)
                    })
                    .collect();
                concat(&pairs)
            };
            let set_low = LATE_EPOCH_BITS;
            let [held_set, wanted_set] = bits(set_low + SET_EPOCH_BITS, set_low);
            let [held_bucket, wanted_bucket] = bits(REGION_EPOCH_BITS, set_low + SET_EPOCH_BITS);
            let [held_any_pd, wanted_any_pd] = bits(ENTRY_EPOCH_BITS, REGION_EPOCH_BITS);
            let held = concat(&[tag.table_set, tag.index, held_set]);
            let wanted = concat(&[table_set, index.high_bits(index_bits), wanted_set]);
            let entry_agrees = late_agrees(BUCKET_EPOCH_BITS, 0).concat(held.agreements(wanted));
            let held = concat(&[tag.is_valid, !tag.is_foreign, held_bucket]);
            let pd_agrees = late_agrees(LATE_EPOCH_BITS, BUCKET_EPOCH_BITS).concat(held.agreements(concat(&[
                always,
                always,
                wanted_bucket,
            ])));
            let any_pd_agrees = tag.is_valid.concat(held_any_pd).agreements(always.concat(wanted_any_pd));
            // Two carry chains: by the epoch of the PD, and by that of all PDs.
            [pd_agrees.concat(entry_agrees).all_set(), any_pd_agrees.concat(entry_agrees).all_set()]
        };
        let agreements: Vec<_> = read.iter().map(agreement).collect();
        let hits: Vec<_> = agreements.iter().map(|[by_pd, by_any]| *by_pd | *by_any).collect();
        // Nor does a lookup count whose tags were read before the scrub was through with them.
        let counts = valid & !clean.busy & !clean.busy.delay("s1_busy");
        // Put together a cycle later: the chains are long enough.
        let chains = agreements.iter().flatten().enumerate();
        let s2_agreements: Vec<_> =
            chains.map(|(number, chain)| chain.delay(&format!("s2_agreement_{number}"))).collect();
        let is_hit = (or_all(&s2_agreements) & counts.delay_reset("s2_counts")).named("s2_found");
        let way = encode_one_hot(&hits, way_bits).delay("s2_way");
        let shifts: Vec<_> = hits.iter().zip(&read).map(|(hit, tag)| (*hit, tag.page_shift)).collect();
        b.output("page_shift", select_one_hot(&shifts).delay("s2_page_shift"));
        b.output("found", is_hit);
        let s1_set = set.delay("s1_set");
        let s2_set = s1_set.delay("s2_set");

        // Stage 2: read the line.
        let lines = Ram::new(b, "lines", sets * ways.max(1), RamStyle::Block, MptLine::widths(config));
        let line_address = |set: Signal<'a>, way: Signal<'a>| if ways == 1 { set } else { concat(&[set, way]) };
        output_channel(b, "line", lines.read(line_address(s2_set, way), always));

        // Fill: read the owners, compare, write the tag; two cycles later the line.
        let fill_valid = b.input("fill_valid", 1);
        let fill = input_channel(b, "fill", MptFill::widths(config));
        let fill_set = fill.index.low_bits(set_bits);
        let held: Vec<_> = owners.iter().map(|memory| memory.read(fill_set, always)).collect();
        let victim = replacement.victim(fill_set);
        let f1_valid = b.register_reset("f1_valid", 1, 0);
        let f1_set = fill_set.delay("f1_set");
        let f2_valid = b.register_reset("f2_valid", 1, 0);
        let f2_set = f1_set.delay("f2_set");
        let clashes = (f1_valid.value & f1_set.eq_wide(fill_set)) | (f2_valid.value & f2_set.eq_wide(fill_set));
        f1_valid.next(fill_valid & !clean.busy & !clashes);
        let f1_table_set = fill.table_set.delay("f1_table_set");
        let f1_index = fill.index.high_bits(index_bits).delay("f1_index");
        let f1_epoch = fill.epoch.delay("f1_epoch");
        let f1_is_foreign = fill.is_foreign.delay("f1_is_foreign");
        let f1_wanted = concat(&[always, f1_table_set, f1_index]);
        let f1_matches: Vec<_> = held
            .iter()
            .map(|owner| concat(&[owner.is_valid, owner.table_set, owner.index]).eq_wide(f1_wanted))
            .collect();
        let f1_is_held = or_all(&f1_matches);
        let f1_way = f1_is_held.mux(encode_one_hot(&f1_matches, way_bits), victim);
        let victims: Vec<_> = held.iter().map(|owner| owner.is_valid).collect();
        let f1_enters = f1_valid.value & !clean.busy;
        let evicts = f1_enters & !f1_is_held & select_by_number(&victims, victim);
        b.output("evicted", evicts.delay_reset("evicted_q"));
        let tag = Tag {
            is_valid: !clean.busy,
            table_set: f1_table_set,
            index: f1_index,
            epoch: f1_epoch,
            is_foreign: f1_is_foreign,
            page_shift: b.input("fill_page_shift", 5),
        };
        let owner = Owner { is_valid: !clean.busy, table_set: f1_table_set, index: f1_index };
        let address = clean.busy.mux(clean.address, f1_set);
        for (way, (tags, owners)) in tags.iter().zip(&owners).enumerate() {
            let enable = clean.busy | (f1_valid.value & f1_way.is(way as u128));
            tags.write(address, tag, enable);
            owners.write(address, owner, enable);
        }
        f2_valid.next(f1_enters);
        let f2_way = f1_way.delay("f2_way");
        let f3_valid = f2_valid.value.delay_reset("f3_valid");
        let f3_set = f2_set.delay("f3_set");
        let f3_way = f2_way.delay("f3_way");
        let line = input_channel(b, "fill_line", MptLine::widths(config));
        lines.write(line_address(f3_set, f3_way), line, f3_valid);
        // A hit's update counts where both come in one cycle.
        replacement.touch(is_hit.mux(s2_set, f2_set), is_hit.mux(way, f2_way), is_hit | f2_valid.value);
        b.name().into()
    }
}
