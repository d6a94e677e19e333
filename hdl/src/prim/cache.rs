//! Set-associative caches of pointers: the TLB and the caches of table pointers are made of it.
//!
//! Handshake: a key may be looked up in every cycle; `hit` and `value` belong to the key of two cycles before. A fill has
//! no ready: it is entered or dropped. Throughput: one lookup and one fill per cycle. Timing: memory read; comparison in
//! carry chains, straight off block RAM; `value` is the OR of registers, of which all but one are zero.
//! [`Cache::compact`] trades logic for the time of another memory read. Reset: all ways are scrubbed, one set
//! per cycle, after reset and after `flush`; meanwhile (`ready` low) every lookup misses and every fill is dropped.
//!
//! Hazards: lookups see a fill three cycles later. A fill reads its set first and overwrites the way that holds the same
//! key; it is dropped where one or two cycles before another of the same set came, whose outcome it cannot see. To save
//! memory it compares a part of the key only. So it may overwrite a way whose key agrees in that part; no two ways of a set
//! agree in it, and no key is held twice.

use super::builder::Builder;
use super::plru::Plru;
use super::ram::{Ram, RamStyle};
use super::scrub::scrub;
use super::signal::{Signal, concat, or_all, select_by_number};

/// Most bits of a key that a fill compares.
const FILL_COMPARES_BITS: u32 = 17;

crate::record! {
    /// A way's tag, or the part of it that fills compare.
    struct Tag(_config) {
        /// The way holds something.
        is_valid: 1,
        /// Bits of the key that the set number does not determine.
        key: 1,
    }
}

crate::record! {
    /// What a way of a compact cache holds beside its part of the key.
    struct Line(_config) {
        /// Bits of the key that the set number does not determine.
        key: 1,
        /// The value.
        value: 1,
    }
}

/// Size of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheShape {
    /// Sets, a power of two of at least 2.
    pub sets: u32,
    /// Ways, a power of two.
    pub ways: u32,
    /// Bits of a key, more than those of a set number.
    pub key_bits: u32,
    /// Bits of a value.
    pub value_bits: u32,
}

impl CacheShape {
    /// Bits of a set number.
    #[must_use]
    pub fn set_bits(&self) -> u32 {
        self.sets.trailing_zeros()
    }
}

/// A key to be looked up or filled.
#[derive(Clone, Copy)]
pub struct CacheKey<'a> {
    /// The cycle counts.
    pub valid: Signal<'a>,
    /// The key. Its lowest bits make the set number, in exclusive or with `mix`.
    pub key: Signal<'a>,
    /// A function of the key's other bits, as wide as a set number.
    pub mix: Signal<'a>,
}

impl<'a> CacheKey<'a> {
    /// The set number.
    #[must_use]
    pub fn set(&self) -> Signal<'a> {
        self.key.low_bits(self.mix.width()) ^ self.mix
    }
}

/// A key to be looked up of which the part above the set number comes one cycle late.
#[derive(Clone, Copy)]
pub struct LateKey<'a> {
    /// The cycle counts, one cycle later.
    pub late_valid: Signal<'a>,
    /// The set number, as [`CacheKey`] makes it.
    pub set: Signal<'a>,
    /// The key without as many of its lowest bits as a set number has, one cycle later.
    pub late_key: Signal<'a>,
}

/// A cache as a part of a block.
pub struct Cache<'a> {
    /// The scrub is done.
    pub ready: Signal<'a>,
    /// The key of two cycles before was found. Meaningful for a valid key only.
    pub hit: Signal<'a>,
    /// Its value; zero where it was not found, or not looked up.
    pub value: Signal<'a>,
    /// Pulse: a fill has replaced a key other than its own, as far as fills tell keys apart.
    pub evicted: Signal<'a>,
}

impl<'a> Cache<'a> {
    /// Builds a cache; names of its parts begin with `name`. `fill` comes from registers.
    #[must_use]
    pub fn new(
        b: &'a Builder<'a>,
        name: &str,
        shape: CacheShape,
        flush: Signal<'a>,
        lookup: CacheKey<'a>,
        fill: CacheKey<'a>,
        fill_value: Signal<'a>,
    ) -> Self {
        let tag_bits = shape.key_bits - shape.set_bits();
        let late_key = lookup.key.high_bits(tag_bits).delay(&format!("{name}_s1_key"));
        let late_valid = lookup.valid.delay_reset(&format!("{name}_s1_asked"));
        let lookup = LateKey { late_valid, set: lookup.set(), late_key };
        Self::with_late_key(b, name, shape, flush, lookup, fill, fill_value)
    }

    /// As [`new`](Self::new), for lookups that know their whole key while the tags are read.
    #[must_use]
    pub fn with_late_key(
        b: &'a Builder<'a>,
        name: &str,
        shape: CacheShape,
        flush: Signal<'a>,
        lookup: LateKey<'a>,
        fill: CacheKey<'a>,
        fill_value: Signal<'a>,
    ) -> Self {
        let CacheShape { sets, ways, key_bits, value_bits } = shape;
        let set_bits = shape.set_bits();
        let tag_bits = key_bits - set_bits;
        let part_bits = tag_bits.min(FILL_COMPARES_BITS);
        let way_bits = ways.trailing_zeros().max(1);
        let style = RamStyle::for_depth(sets);
        let named = |part: &str| format!("{name}_{part}");
        let clean = scrub(b, &named("scrub"), set_bits, flush);
        let always = b.flag(true);
        let memories = |part: &str, key| -> Vec<_> {
            let widths = Tag { is_valid: 1, key };
            (0..ways).map(|way| Ram::new(b, &format!("{name}_{part}_{way}"), sets, style, widths)).collect()
        };
        let tags = memories("tags", tag_bits);
        let parts = memories("parts", part_bits);
        let values: Vec<_> =
            (0..ways).map(|way| Ram::of_words(b, &format!("{name}_values_{way}"), sets, style, value_bits)).collect();
        let replacement = Plru::new(b, &named("replacement"), sets, ways);

        // Cycle 0: read. Cycle 1: compare; the lowest way that matches counts.
        let set = lookup.set.named(&named("set"));
        let found: Vec<_> = tags.iter().map(|memory| memory.read(set, always)).collect();
        let found_values: Vec<_> = values.iter().map(|memory| memory.read_word(set, always)).collect();
        let s1_set = set.delay(&named("s1_set"));
        // A set that is scrubbed in this cycle still reads as it was before.
        let s1_valid = (lookup.late_valid & !clean.busy.delay(&named("s1_busy"))).named(&named("s1_valid"));
        let wanted = always.concat(lookup.late_key);
        let matches: Vec<_> = found.iter().map(|tag| tag.is_valid.concat(tag.key).eq_wide(wanted)).collect();
        let counts = s1_valid & !clean.busy;
        let s2_matches: Vec<_> = matches
            .iter()
            .enumerate()
            .map(|(way, matching)| matching.delay(&format!("{name}_s2_matches_{way}")))
            .collect();
        let hit = or_all(&s2_matches) & counts.delay_reset(&named("s2_counts"));
        let way = first_set(&matches, way_bits).delay(&named("s2_way"));
        // The reset of the registers selects: what does not count is zero, and the rest is an OR.
        let s2_values: Vec<_> = found_values
            .iter()
            .enumerate()
            .map(|(number, value)| {
                let is_taken = counts & matches[number];
                let is_other = matches[..number].iter().fold(!is_taken, |others, earlier| others | *earlier);
                is_other.mux(b.literal(0, value_bits), *value).delay(&format!("{name}_s2_value_{number}"))
            })
            .collect();
        let value = or_all(&s2_values);
        let s2_set = s1_set.delay(&named("s2_set"));

        let fill = Fill::new(b, name, shape, &parts, &replacement, clean.busy, fill, fill_value);
        let address = clean.busy.mux(clean.address, fill.set);
        for (way, is_written) in fill.writes.iter().enumerate() {
            let is_valid = !clean.busy;
            tags[way].write(address, Tag { is_valid, key: fill.key }, clean.busy | *is_written);
            let key = fill.part;
            parts[way].write(address, Tag { is_valid, key }, clean.busy | *is_written);
            values[way].write_word(fill.set, fill.value, *is_written);
        }
        replacement.touch(hit.mux(s2_set, fill.set), hit.mux(way, fill.way), hit | fill.valid);
        Self { ready: !clean.busy, hit, value, evicted: fill.evicted }
    }

    /// As [`new`](Self::new), with about half the logic: a lookup, too, compares only the part of the key that fills
    /// compare, and then reads the whole key and the value of the one way that agrees. Where two ways agree in that part,
    /// which fills avoid, the higher one is not found. `hit` and `value` come from a memory and a comparison, not from
    /// registers.
    #[must_use]
    pub fn compact(
        b: &'a Builder<'a>,
        name: &str,
        shape: CacheShape,
        flush: Signal<'a>,
        lookup: LateKey<'a>,
        fill: CacheKey<'a>,
        fill_value: Signal<'a>,
    ) -> Self {
        let CacheShape { sets, ways, key_bits, value_bits } = shape;
        let tag_bits = key_bits - shape.set_bits();
        let part_bits = tag_bits.min(FILL_COMPARES_BITS);
        let way_bits = ways.trailing_zeros().max(1);
        let named = |part: &str| format!("{name}_{part}");
        let clean = scrub(b, &named("scrub"), shape.set_bits(), flush);
        let always = b.flag(true);
        let style = RamStyle::for_depth(sets);
        let widths = Tag { is_valid: 1, key: part_bits };
        let parts: Vec<_> =
            (0..ways).map(|way| Ram::new(b, &format!("{name}_parts_{way}"), sets, style, widths)).collect();
        let lines = sets * ways;
        let widths = Line { key: tag_bits, value: value_bits };
        let memory = Ram::new(b, &named("lines"), lines, RamStyle::for_depth(lines), widths);
        let replacement = Plru::new(b, &named("replacement"), sets, ways);
        let line_number = |set: Signal<'a>, way: Signal<'a>| if ways == 1 { set } else { set.concat(way) };

        // Cycle 0: read the parts. Cycle 1: compare them, read the way. Cycle 2: compare the whole key.
        let LateKey { late_valid, set, late_key: s1_key } = lookup;
        let set = set.named(&named("set"));
        let found: Vec<_> = parts.iter().map(|memory| memory.read(set, always)).collect();
        let s1_set = set.delay(&named("s1_set"));
        let s1_valid = (late_valid & !clean.busy.delay(&named("s1_busy"))).named(&named("s1_valid"));
        let s1_part = always.concat(fold(s1_key, part_bits));
        let s1_matches: Vec<_> = found.iter().map(|tag| tag.is_valid.concat(tag.key).eq_wide(s1_part)).collect();
        let s1_way = first_set(&s1_matches, way_bits).named(&named("s1_way"));
        let line = memory.read(line_number(s1_set, s1_way), always);
        let counts = s1_valid & !clean.busy;
        let s2_found = or_all(&s1_matches).delay(&named("s2_found"));
        let s2_counts = counts.delay_reset(&named("s2_counts"));
        let s2_key = s1_key.delay(&named("s2_key"));
        let found = concat(&[s2_counts, s2_found, line.key]);
        let hit = found.eq_wide(concat(&[always, always, s2_key])).named(&named("hit"));
        let s3_hit = hit.delay_reset(&named("s3_hit"));
        let s3_set = s1_set.delay(&named("s2_set")).delay(&named("s3_set"));
        let s3_way = s1_way.delay(&named("s2_way")).delay(&named("s3_way"));

        let fill = Fill::new(b, name, shape, &parts, &replacement, clean.busy, fill, fill_value);
        let address = clean.busy.mux(clean.address, fill.set);
        for (part, is_written) in parts.iter().zip(&fill.writes) {
            let key = fill.part;
            part.write(address, Tag { is_valid: !clean.busy, key }, clean.busy | *is_written);
        }
        memory.write(line_number(fill.set, fill.way), Line { key: fill.key, value: fill.value }, fill.valid);
        replacement.touch(s3_hit.mux(s3_set, fill.set), s3_hit.mux(s3_way, fill.way), s3_hit | fill.valid);
        Self { ready: !clean.busy, hit, value: line.value, evicted: fill.evicted }
    }
}

/// What fills compare of a key: its slices of `bits` bits in exclusive or, so that keys which differ in a few bits anywhere
/// are told apart.
fn fold(key: Signal<'_>, bits: u32) -> Signal<'_> {
    let slices = (0..key.width().div_ceil(bits)).map(|slice| {
        let low = slice * bits;
        key.bits((low + bits).min(key.width()) - 1, low).resize(bits)
    });
    slices.reduce(|folded, slice| folded ^ slice).expect("a key has bits")
}

/// A fill on its way: what is written, two cycles after it came.
struct Fill<'a> {
    valid: Signal<'a>,
    /// The key above the bits of the set number.
    key: Signal<'a>,
    /// What fills compare of it.
    part: Signal<'a>,
    value: Signal<'a>,
    set: Signal<'a>,
    way: Signal<'a>,
    /// For each way, whether it is written.
    writes: Vec<Signal<'a>>,
    /// Pulse: another key is replaced.
    evicted: Signal<'a>,
}

impl<'a> Fill<'a> {
    #[expect(clippy::too_many_arguments, reason = "the parts of a cache, used once per kind of cache")]
    fn new(
        b: &'a Builder<'a>,
        name: &str,
        shape: CacheShape,
        parts: &[Ram<'a, Tag<u32>>],
        replacement: &Plru<'a>,
        is_busy: Signal<'a>,
        fill: CacheKey<'a>,
        fill_value: Signal<'a>,
    ) -> Self {
        let tag_bits = shape.key_bits - shape.set_bits();
        let part_bits = tag_bits.min(FILL_COMPARES_BITS);
        let way_bits = shape.ways.trailing_zeros().max(1);
        let named = |part: &str| format!("{name}_{part}");
        let always = b.flag(true);
        let fill_set = fill.set().named(&named("fill_set"));
        let held: Vec<_> = parts.iter().map(|memory| memory.read(fill_set, always)).collect();
        let victim = replacement.victim(fill_set);
        // In two registers, because either comes late.
        let f1_fits = b.register_reset(&named("f1_fits"), 1, 0);
        let f1_valid = (fill.valid.delay_reset(&named("f1_asked")) & f1_fits.value).named(&named("f1_valid"));
        // With a reset, so that no shift registers are made of the stages, which cost LUTs.
        let key = fill.key.high_bits(tag_bits);
        let f1_key = key.delay_reset(&named("f1_key"));
        let f1_value = fill_value.delay_reset(&named("f1_value"));
        let f1_set = fill_set.delay(&named("f1_set"));
        let f1_part = fold(key, part_bits).delay(&named("f1_part"));
        let f1_wanted = always.concat(f1_part);
        let f1_matches: Vec<_> = held.iter().map(|tag| tag.is_valid.concat(tag.key).eq_wide(f1_wanted)).collect();
        let f1_is_held = or_all(&f1_matches);
        let f1_way = f1_is_held.mux(first_set(&f1_matches, way_bits), victim);
        let victims: Vec<_> = held.iter().map(|tag| tag.is_valid).collect();
        let f2_is_held = f1_is_held.delay(&named("f2_is_held"));
        let f2_evicts = select_by_number(&victims, victim).delay(&named("f2_evicts"));
        let f2_valid = f1_valid.delay_reset(&named("f2_valid"));
        let f2_key = f1_key.delay(&named("f2_key"));
        let f2_value = f1_value.delay(&named("f2_value"));
        let f2_set = f1_set.delay(&named("f2_set"));
        let f2_way = f1_way.delay(&named("f2_way"));
        let clashes = (f1_valid & f1_set.eq_wide(fill_set)) | (f2_valid & f2_set.eq_wide(fill_set));
        f1_fits.next(!clashes & !is_busy);
        let writes = (0..shape.ways)
            .map(|way| (f2_valid & f2_way.is(way.into())).named(&format!("{name}_write_{way}")))
            .collect();
        Self {
            valid: f2_valid,
            key: f2_key,
            part: f1_part.delay(&named("f2_part")),
            value: f2_value,
            set: f2_set,
            way: f2_way,
            writes,
            evicted: f2_valid & f2_evicts & !f2_is_held,
        }
    }
}

/// Number of the lowest flag that is set, in `bits` bits; the last number where none is.
fn first_set<'a>(flags: &[Signal<'a>], bits: u32) -> Signal<'a> {
    let b = flags.first().expect("a cache has a way").builder();
    let others = &flags[..flags.len() - 1];
    let number = |value: usize| b.literal(value as u128, bits);
    others.iter().enumerate().rev().fold(number(flags.len() - 1), |rest, (way, flag)| flag.mux(number(way), rest))
}
