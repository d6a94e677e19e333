//! Invalidation as a fence: epochs, generations, and what must be finished before a completion.
//!
//! **Purpose.** When the completion of an invalidation is sent, no cache holds the old translation, no walk in flight can
//! bring it back, no response sent later uses it, and every response given under it has been reported done. Nothing is
//! searched and, but for the rare wrap below, nothing is stopped.
//!
//! Every request is admitted under *epochs*, and what is cached carries those of the request that fetched it; a lookup
//! finds what has its own epochs only. There is one epoch for each bucket of MPT indices (`epoch_buckets`), one for each
//! bucket of PDs, one for all PDs together, one for each table set, and one for all HEM pointers. An invalidation changes an epoch and begins a new
//! *generation*; it completes when all requests of the old generation have finished. Scopes: a region, or a range of it,
//! changes the epoch of its bucket, a protection domain that of its bucket; a function changes that of its table set,
//! because the set is the owner of a translation; everything, or an undefined code, changes those of all sets. Every
//! invalidation, and every write of a geometry or of a BT0 slot, changes the HEM epoch. More than what was named may thus
//! be fetched again; never less.
//!
//! **Handshake.** Channels `invalidate` in and `invalidated` out, ready/valid; completions come in the order of the
//! invalidations. `late_epoch`, the epochs of the PD's bucket and of the index's, belongs to `epoch_index`,
//! `epoch_table_set` and `epoch_pd_bucket` of the cycle before, and is 0 where `epoch_is_replay` was set; with `generation`,
//! `set_epoch_<k>`, `any_pd_epoch` and `hem_epoch` of that cycle it makes one consistent view: all of them change at the end of one cycle.
//! `request_accepted` and `context_accepted` come at most three cycles after the generation was sampled,
//! `response_finished` at most two cycles after the last beat, and `done` at the earliest in the cycle after it.
//!
//! **Latency and throughput.** Accepted to flip (new epochs and generation) 7 cycles, three more for each further
//! invalidation of the batch; then until the requests of the old generation have finished and their DMA is reported, and
//! 9 cycles at least: 16 in all where nothing is in flight. While a batch drains, the next one gathers: up to [`DEPTH`]
//! invalidations are accepted, and whatever has gathered is flipped and drained together. An epoch of a table set wraps
//! after 64 changes (256 of one bucket of indices, or of PDs, make one of every set): then admission is paused, everything drains, and the caches
//! are scrubbed, before the flip. The HEM epoch wraps after 1024 changes, which pulses `pointer_flush` twice.
//!
//! **Timing.** Counts are compared straight off block RAM, one bit per LUT in a carry chain; the decision is a write enable.
//!
//! **Reset and flush.** Reset drops all invalidations and all that is outstanding; epochs and counts are scrubbed, then
//! `ready` rises. A report of a response from before the reset finds nothing outstanding and is ignored.
//!
//! **Hazards.** The argument, case by case. *b* is the cycle at whose end the flip takes place.
//! - *Requests in the pipe.* Epochs and generation are sampled together, in the same cycle in which the bucket's epoch is
//!   read, and travel with the request. So there are old requests (old generation, old epochs) and new ones, nothing
//!   between. The epochs of a batch are prepared in a second bank of the epoch memory, which the generation selects, and are
//!   brought up to date in the other bank after the flip; a batch flips as a whole.
//! - *Hits.* A new request carries an epoch that nothing invalidated can carry: a pair of bucket epoch and set epoch does
//!   not come back before the set epoch wraps, because a bucket epoch that wraps changes the epochs of all sets with it.
//! - *Protection domains.* The epoch is that of the request's PD, and the bucket of that PD is part of what is compared. A
//!   translation is used by requests of its region's PD only, so it is cached under the epoch of that PD. An MPT entry may
//!   be fetched by a request of another PD, which it then refuses, and be found by such requests. Where its PD is of another
//!   bucket, their epoch says nothing of it; it counts only while no PD at all has been invalidated since
//!   (`MptFill::is_foreign`, `any_pd_epoch`). When that epoch wraps it changes the epochs of all sets.
//! - *Replays and walks in flight.* They carry the epochs and the generation of their admission. Whatever they fill in, at
//!   whatever time, is found by requests of the old epochs only. Hence no check at the fill.
//! - *Lines in flight* are shared among requests of one generation. A read that a new request joins was issued for a new
//!   request, after the flip, so after the tables had been changed.
//! - *Reuse of a generation.* The flip waits until the previous batch has drained: of the generation that begins nothing is
//!   left, no request, no line, no response, no DMA. A long request whose response ended early with an error has
//!   pages on their way still, no more than a split context has slots and those in the pipe; it counts as unfinished until the
//!   last of them is drained (`long_opened`, `long_finished`).
//! - *Responses in queues.* A request is finished when its last beat has left, not when it is looked up.
//! - *Context lookups* have generations like requests and are counted until their answer is taken.
//! - *Wraps.* Before a set epoch wraps, everything is drained with admission paused, leftovers in the walker and the table
//!   port included, and all caches are scrubbed: nothing carries any epoch then. At the wrap of the HEM epoch a lookup in
//!   flight could still fill in a pointer under an old epoch that will come back 1000 changes later; therefore the pointers
//!   are scrubbed a second time when the generation of that time has drained.
//! - *Geometry and BT0 writes* reach the HEM lookup in the cycle in which the HEM epoch is changed; a lookup sees them
//!   earlier than its request sees the new epoch. They are no fence: software sends an invalidation after them.
//! - *Reports.* Responses whose DMA is outstanding are counted in buckets of (tag, function), `done_buckets`, for each
//!   generation. A report counts for a response of its bucket; where the bucket has both generations outstanding, for the new
//!   one. So a completion never comes too early; it may come later than possible if different responses of both generations
//!   share a bucket, until the others are reported too. Distinct tags of one function below `done_buckets` never share one.
//!   Under endless traffic that could last for ever, so that admission pauses when a report was ambiguous and the drain has
//!   lasted for 4096 to 8192 cycles. A report for a bucket with nothing outstanding is ignored and counted (`stray_done`).
//! - *Counts* are read in one place and written in one place each: `sent` by responses, `reported` by reports. A response's
//!   report is held back until its count is in memory. Two events of a bucket in a row are forwarded.
//!
//! **Limits.** [`DEPTH`] invalidations. 8192 requests of one generation that are not reported done: admission pauses there.

use crate::function_map::FunctionMap;
use crate::prim::{
    Builder, Count, Credit, Design, Ram, RamStyle, Scrub, Signal, concat, input_channel, or_all, scrub,
    select_by_number, select_first,
};
use crate::records::{BUCKET_EPOCH_BITS, HEM_EPOCH_BITS, PD_BUCKET_BITS, SET_EPOCH_BITS, STAMP_BITS};
use keywalk_contract::Config;
use keywalk_contract::key::{INDEX_BITS, KEY_BITS};
use keywalk_contract::ports::Scope;

/// Invalidations that are accepted before the first of them completes: one less than the ring holds.
pub const DEPTH: u32 = 15;
/// Bits of a place in the ring of invalidations.
const PLACE_BITS: u32 = 4;
/// Cycles from the flip, or from `pause`, until every pulse of an earlier admission has been counted, and from `flush`
/// until the caches say that they are busy.
pub const SETTLE_CYCLES: u128 = 6;
/// Bits of the counts of requests. Admission pauses at half of their range; the other half is for what is in flight then.
pub const COUNT_BITS: u32 = 14;
/// log2 of the cycles after which ambiguous reports may stop admission; at twice as many they do.
const STARVED_CYCLES_LOG2: u32 = 12;
/// Bits of the counts of context requests.
const CONTEXT_COUNT_BITS: u32 = 5;
/// Bits of a scope.
const SCOPE_BITS: u32 = 3;
/// Bits of a PD.
const PD_BITS: u32 = 24;

/// Bits of a bucket's place in the memory of epochs: the highest one tells buckets of PDs from those of MPT indices. Of PDs
/// there are half as many as places at most; the other half stays zero.
fn place_bits(config: &Config) -> u32 {
    1 + config.epoch_bucket_bits().max(PD_BUCKET_BITS + 1)
}

crate::record! {
    /// An invalidation as it comes from its port.
    pub struct Invalidate(config) {
        /// See the port.
        tag: config.tag_bits,
        /// See the port.
        function: config.function_bits,
        /// See the port.
        scope: SCOPE_BITS,
        /// See the port.
        key: KEY_BITS,
        /// See the port.
        pd: PD_BITS,
    }
}

crate::record! {
    /// An invalidation in the ring.
    struct Entry(config) {
        /// Returned with the completion.
        tag: config.tag_bits,
        /// It changes the epoch of a bucket.
        is_of_bucket: 1,
        /// It changes the epochs of all table sets. Neither: that of `table_set`.
        is_all: 1,
        /// Table set of the function.
        table_set: config.table_set_bits(),
        /// Bucket of the region or PD: its place in the memory of epochs.
        bucket: place_bits(config),
    }
}

/// What the state machine does.
#[derive(Clone, Copy)]
enum Step {
    /// Waits for an invalidation to be gathered.
    Gather = 0,
    /// A batch was flipped; pulses from before are still coming.
    Settle = 1,
    /// Waits until the old generation has drained.
    Drain = 2,
    /// A set epoch is about to wrap: admission is stopping.
    Stop = 3,
    /// Waits until nothing at all is in flight.
    Quiet = 4,
    /// The caches are being scrubbed.
    Flush = 5,
}

/// Bucket of an MPT index. Table sets begin at different places.
fn epoch_bucket<'a>(config: &Config, index: Signal<'a>, table_set: Signal<'a>) -> Signal<'a> {
    spread(index.low_bits(config.epoch_bucket_bits()), table_set)
}

/// Bucket of a PD. Table sets begin at different places.
pub fn pd_bucket<'a>(pd: Signal<'a>, table_set: Signal<'a>) -> Signal<'a> {
    spread(pd.low_bits(PD_BUCKET_BITS), table_set)
}

/// Bucket of a response: distinct for distinct tags of one function below the number of buckets. Functions begin at
/// different places.
fn done_bucket<'a>(config: &Config, tag: Signal<'a>, function: Signal<'a>) -> Signal<'a> {
    let bits = config.done_buckets.trailing_zeros();
    let low = tag.resize(bits);
    let folded = if tag.width() > bits { low ^ tag.high_bits(tag.width() - bits).resize(bits) } else { low };
    spread(folded, function)
}

/// `number` in exclusive or with the bits of `owner` in reverse, its lowest bit at the top of `number`; bits of `owner`
/// that find no place there begin at the top again.
fn spread<'a>(number: Signal<'a>, owner: Signal<'a>) -> Signal<'a> {
    let bits = number.width();
    let parts: Vec<_> = (0..bits)
        .map(|place| {
            let members: Vec<_> = (place..owner.width()).step_by(bits as usize).map(|bit| owner.bit(bit)).collect();
            members.into_iter().fold(number.bit(bits - 1 - place), |value, bit| value ^ bit)
        })
        .collect();
    concat(&parts)
}

/// What the responses and their reports are matched with.
struct Reports<'a> {
    /// A response's last beat has left.
    finished: Signal<'a>,
    /// A report counts for a response of generation 0 or 1.
    matched: [Signal<'a>; 2],
    /// A report found both generations outstanding.
    is_ambiguous: Signal<'a>,
    /// A report found nothing outstanding.
    is_stray: Signal<'a>,
}

impl<'a> Reports<'a> {
    fn new(
        b: &'a Builder<'a>,
        config: &Config,
        clean: &Scrub<'a>,
        running: Signal<'a>,
        generation: Signal<'a>,
    ) -> Self {
        let finished = b.input("response_finished", 1);
        let finished_generation = b.input("finished_generation", 1);
        let finished_tag = b.input("finished_tag", config.tag_bits);
        let finished_function = b.input("finished_function", config.function_bits);
        let done = b.input("done_valid", 1);
        let done_tag = b.input("done_tag", config.tag_bits);
        let done_function = b.input("done_function", config.function_bits);
        if !config.done_tracking {
            let matched = [finished & !finished_generation, finished & finished_generation];
            return Self { finished, matched, is_ambiguous: b.flag(false), is_stray: b.flag(false) };
        }
        let always = b.flag(true);
        let bits = config.done_buckets.trailing_zeros();
        let style = RamStyle::for_depth(config.done_buckets);
        let memory = |name: &str| Ram::of_words(b, name, config.done_buckets, style, COUNT_BITS);
        let sent = [memory("sent_0"), memory("sent_1")];
        let reported = [memory("reported_0"), memory("reported_1")];
        let scrubbed = clean.address.low_bits(bits);

        // Responses. A scrub passes through the same stages as a response does.
        let bucket =
            clean.busy.mux(scrubbed, done_bucket(config, finished_tag, finished_function)).named("sent_bucket");
        let f1_clears = clean.busy.delay("f1_clears");
        let f1_valid = finished.delay_reset("f1_valid");
        let f1_generation = finished_generation.delay("f1_generation");
        let f1_bucket = bucket.delay("f1_bucket");
        let f1_follows = (f1_valid & f1_bucket.eq(bucket) & f1_generation.eq(finished_generation)).delay("f1_follows");
        let read: Vec<_> = sent.iter().map(|memory| memory.read_word(bucket, always)).collect();
        let last = b.register("f1_last", COUNT_BITS);
        let before = f1_follows.mux(last.value, f1_generation.mux(read[1], read[0]));
        let after = (!f1_clears).repeat(COUNT_BITS) & before;
        let after = (after + (!f1_clears).resize(COUNT_BITS)).named("f1_after");
        last.next(after);
        for (number, memory) in sent.iter().enumerate() {
            let is_its_own = f1_generation.is(number as u128);
            memory.write_word(f1_bucket, after, f1_clears | (f1_valid & is_its_own));
        }

        // Reports, held back until the response's count is in memory. Reset keeps the stages out of shift registers.
        let bucket = clean.busy.mux(scrubbed, done_bucket(config, done_tag, done_function));
        let mut valid = done & running;
        let mut stage = bucket;
        let mut clears = clean.busy;
        for number in 0..3 {
            valid = valid.delay_reset(&format!("done_valid_{number}"));
            stage = stage.delay_reset(&format!("done_bucket_{number}"));
            clears = clears.delay_reset(&format!("done_clears_{number}"));
        }
        let r1_valid = valid.delay_reset("r1_valid");
        let r1_clears = clears.delay_reset("r1_clears");
        let r1_bucket = stage.delay("r1_bucket");
        // A report that counted for a generation is ahead of the memory for the one behind it.
        let is_same_bucket = r1_bucket.eq(stage).named("is_same_bucket");
        let counts: Vec<_> = (0..2)
            .map(|number| {
                let sent = sent[number].read_word(stage, always);
                let last = b.register(&format!("r1_last_{number}"), COUNT_BITS);
                let follows = b.register(&format!("r1_follows_{number}"), 1);
                let reported = follows.value.mux(last.value, reported[number].read_word(stage, always));
                // One bit per LUT: each has four inputs.
                let agree = !(sent ^ reported);
                let is_outstanding = !agree.add_wide(b.literal(1, COUNT_BITS)).bit(COUNT_BITS);
                (reported, last, follows, is_outstanding.named(&format!("is_outstanding_{number}")))
            })
            .collect();
        let outstanding = [counts[0].3, counts[1].3];
        let matched = [
            (r1_valid & outstanding[0] & (!generation | !outstanding[1])).named("matches_0"),
            (r1_valid & outstanding[1] & (generation | !outstanding[0])).named("matches_1"),
        ];
        for (number, (before, last, follows, _)) in counts.into_iter().enumerate() {
            let kept = (!r1_clears).repeat(COUNT_BITS) & before;
            let after = (kept + (!r1_clears).resize(COUNT_BITS)).named(&format!("r1_after_{number}"));
            last.next(after);
            follows.next(matched[number] & is_same_bucket);
            reported[number].write_word(r1_bucket, after, r1_clears | matched[number]);
        }
        Self {
            finished,
            matched: [matched[0].delay_reset("matched_0"), matched[1].delay_reset("matched_1")],
            is_ambiguous: (r1_valid & outstanding[0] & outstanding[1]).delay_reset("is_ambiguous"),
            is_stray: (r1_valid & !outstanding[0] & !outstanding[1]).delay_reset("is_stray"),
        }
    }
}

/// The block.
pub struct Fence;

impl Fence {
    /// Builds the module `fence` and gives its name.
    ///
    /// Inputs besides the channels: `epoch_index`, `epoch_table_set`, `epoch_pd_bucket` and `epoch_is_replay` (of the lookup
    /// that samples its epochs, if it is not a replay); the function
    /// map's write port and `mpt_mask_<k>`; `tables_written` (a geometry or BT0 slot is written); pulses
    /// `request_accepted`, `context_accepted`, `context_finished`, `long_opened` with the generation beside each
    /// (`<pulse>_generation`), and `long_finished`; `response_finished` with `finished_generation`, `finished_tag`,
    /// `finished_function`; `done_valid` with `done_tag`, `done_function`; `others_idle` (key decoder, context port, lookups
    /// and walks are idle), `caches_ready`. Outputs besides the channels and epochs: `now` (cycles modulo 2^16), `ready`,
    /// `pause`, pulses `flush` and `pointer_flush`, `idle` (nothing in flight), `in_flight` (requests without a complete
    /// response), pulses `completed` and `stray_done`.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("fence");
        let invalidate_valid = b.input("invalidate_valid", 1);
        let invalidate = input_channel(b, "invalidate", Invalidate::widths(config));
        let masks: Vec<_> = (0..config.table_sets).map(|set| b.input(&format!("mpt_mask_{set}"), INDEX_BITS)).collect();
        let always = b.flag(true);
        let place_bits = place_bits(config);

        let generation = b.register_reset("generation_q", 1, 0);
        b.output("generation", generation.value);
        let flip = b.register_reset("flip", 1, 0);
        generation.next(generation.value ^ flip.value);
        let now = b.register_reset("now_q", STAMP_BITS, 0);
        now.next(now.value + 1);
        b.output("now", now.value);

        let scrub_bits = (place_bits + 1).max(config.done_buckets.trailing_zeros());
        let clean = scrub(b, "scrub", scrub_bits, b.flag(false));
        let function_map = FunctionMap::new(b, config);
        // A report that comes behind the scrub is behind it in every stage.
        let running = (function_map.running & !clean.busy).delay_reset("running_q");
        let reports = Reports::new(b, config, &clean, running, generation.value);
        b.output("ready", running);

        // Invalidations come in.
        let places = Credit::new(b, "places", DEPTH);
        let ready = (places.available & running).named("ready_now");
        b.output("invalidate_ready", ready);
        let accept = (invalidate_valid & ready).named("accept");
        let s1_valid = accept.delay_reset("s1_valid");
        let s1_tag = invalidate.tag.delay("s1_tag");
        let s1_index = invalidate.key.high_bits(INDEX_BITS).delay("s1_index");
        let is_scope = |scope: Scope| invalidate.scope.is(scope as u128);
        let s1_is_region = (is_scope(Scope::Region) | is_scope(Scope::Range)).delay("s1_is_region");
        let s1_is_of_pd = is_scope(Scope::ProtectionDomain).delay("s1_is_of_pd");
        let s1_is_of_set = is_scope(Scope::Function).delay("s1_is_of_set");
        let s1_pd = invalidate.pd.low_bits(PD_BUCKET_BITS).delay("s1_pd");
        let table_set = function_map.table_set(config, invalidate.function);
        let index = s1_index & select_by_number(&masks, table_set);
        let ring = Ram::new(b, "ring", 1 << PLACE_BITS, RamStyle::Block, Entry::widths(config));
        let pointer = |name: &str| b.register_reset(name, PLACE_BITS, 0);
        // For a replay, a place of the half of those of PDs that stays zero.
        let region_place = |bucket: Signal<'a>, is_replay: Signal<'a>| {
            is_replay.concat(bucket.resize(place_bits - 1) | is_replay.repeat(place_bits - 1))
        };
        let pd_place =
            |bucket: Signal<'a>, is_replay: Signal<'a>| always.concat(is_replay.concat(bucket.resize(place_bits - 2)));
        // In order around the ring: `written`, `prepared`, `batch_end`, `complete_end`, `sent`.
        let [written, prepared, batch_end, complete_end, completed] =
            ["written", "prepared", "batch_end", "complete_end", "completed_place"].map(pointer);
        let entry = Entry {
            tag: s1_tag,
            is_of_bucket: s1_is_region | s1_is_of_pd,
            is_all: !s1_is_region & !s1_is_of_pd & !s1_is_of_set,
            table_set,
            bucket: s1_is_of_pd.mux(
                pd_place(pd_bucket(s1_pd, table_set), b.flag(false)),
                region_place(epoch_bucket(config, index, table_set), b.flag(false)),
            ),
        };
        ring.write(written.value, entry, s1_valid);
        written.next_if(s1_valid, written.value + 1);

        // Epochs are prepared in the bank of the other generation; after the flip the old bank catches up.
        let is_catching_up = b.register_reset("is_catching_up", 1, 0);
        let phase = b.register_reset("phase", 2, 0);
        let [fetches, reads, writes] = [0, 1, 2].map(|number| phase.value.is(number));
        let at_end = is_catching_up
            .value
            .mux(prepared.value.eq(batch_end.value), prepared.value.eq(written.value))
            .named("at_end");
        let flip_is_due = b.forward("flip_is_due", 1);
        let starts = (fetches & !at_end & !flip.value & !flip_is_due.value).named("starts");
        let one_or_none = starts.resize(2);
        phase.next(select_first(&[(fetches, one_or_none), (reads, b.literal(2, 2))], b.literal(0, 2)));
        let entry = ring.read(prepared.value, starts);
        let other_bank = (!generation.value).concat(entry.bucket);
        let banks = 2 << place_bits;
        let epochs = Ram::of_words(b, "epochs", banks, RamStyle::for_depth(banks), BUCKET_EPOCH_BITS);
        let looked_up = epoch_bucket(
            config,
            b.input("epoch_index", INDEX_BITS),
            b.input("epoch_table_set", config.table_set_bits()),
        );
        let is_replay = b.input("epoch_is_replay", 1);
        let pd_looked_up = pd_place(b.input("epoch_pd_bucket", PD_BUCKET_BITS), is_replay);
        let late = [pd_looked_up, region_place(looked_up, is_replay)]
            .map(|place| epochs.read_word(generation.value.concat(place), always));
        b.output("late_epoch", concat(&late));
        let held_epoch = epochs.read_word(other_bank, always);
        let changed = (held_epoch + 1).named("changed_epoch");
        epochs.write_word(
            clean.busy.mux(clean.address.low_bits(place_bits + 1), other_bank),
            (!clean.busy).repeat(BUCKET_EPOCH_BITS) & changed,
            clean.busy | (writes & entry.is_of_bucket),
        );
        let gathers = (writes & !is_catching_up.value).named("gathers");
        // A bucket is shared by all table sets, so that its wrap concerns all of them.
        // An entry that is written has been there for a cycle.
        let is_of_bucket = entry.is_of_bucket.delay("gathered_is_of_bucket");
        let is_of_pd = is_of_bucket & entry.bucket.bit(place_bits - 1).delay("gathered_is_in_high_half");
        let any_pd_epoch = b.register_reset("any_pd_epoch_q", BUCKET_EPOCH_BITS, 0);
        let any_pd_changes = b.register_reset("any_pd_changes", 1, 0);
        any_pd_changes.next((any_pd_changes.value & !flip.value) | (gathers & is_of_pd));
        any_pd_epoch.next(any_pd_epoch.value + (any_pd_changes.value & flip.value).resize(BUCKET_EPOCH_BITS));
        b.output("any_pd_epoch", any_pd_epoch.value);
        let any_pd_wraps = is_of_pd & (!any_pd_epoch.value).none();
        let is_all = entry.is_all.delay("gathered_is_all");
        let is_of_all = is_of_bucket.mux((!held_epoch).none() | any_pd_wraps, is_all);
        let is_of_one = !is_of_bucket & !is_all;
        let table_set = entry.table_set.delay("gathered_table_set");
        let mut wraps = Vec::new();
        for set in 0..config.table_sets {
            let epoch = b.register_reset(&format!("set_epoch_{set}_q"), SET_EPOCH_BITS, 0);
            let change = b.register_reset(&format!("set_change_{set}"), 1, 0);
            let names_it = if config.table_sets == 1 { always } else { table_set.is(set.into()) };
            let changes = gathers & ((is_of_one & names_it) | is_of_all);
            change.next((change.value & !flip.value) | changes);
            epoch.next(epoch.value + (change.value & flip.value).resize(SET_EPOCH_BITS));
            b.output(&format!("set_epoch_{set}"), epoch.value);
            wraps.push(change.value & (!epoch.value).none());
        }
        let wraps = or_all(&wraps).named("wraps");
        let moved = flip.value.mux(complete_end.value, prepared.value + writes.resize(PLACE_BITS));
        prepared.next(moved);
        batch_end.next_if(flip.value, prepared.value);
        is_catching_up.next(flip.value | (is_catching_up.value & !(fetches & at_end)));
        let is_gathered = (!is_catching_up.value & prepared.value.ne(batch_end.value)).delay_reset("is_gathered");

        // The HEM epoch.
        let hem_epoch = b.register_reset("hem_epoch_q", HEM_EPOCH_BITS, 0);
        let tables_written = b.input("tables_written", 1);
        let changes_hem = flip.value | tables_written;
        let next_hem = hem_epoch.value.add_wide(changes_hem.resize(HEM_EPOCH_BITS));
        hem_epoch.next(next_hem.low_bits(HEM_EPOCH_BITS));
        b.output("hem_epoch", hem_epoch.value);
        let hem_wraps = next_hem.bit(HEM_EPOCH_BITS).named("hem_wraps");

        // What is in flight.
        let pulse = |name: &str| {
            let generation = b.input(&format!("{name}_generation"), 1);
            let pulse = b.input(name, 1);
            [pulse & !generation, pulse & generation]
        };
        let accepted = pulse("request_accepted");
        let context_accepted = pulse("context_accepted");
        let context_finished = pulse("context_finished");
        // Two long requests may be open; they finish in the order in which they opened.
        let long_opened = b.input("long_opened", 1);
        let long_opened_generation = b.input("long_opened_generation", 1);
        let long_finished = b.input("long_finished", 1);
        let opening_turn = b.register_reset("long_opening_turn", 1, 0);
        opening_turn.next(opening_turn.value ^ long_opened);
        let finishing_turn = b.register_reset("long_finishing_turn", 1, 0);
        finishing_turn.next(finishing_turn.value ^ long_finished);
        let longs = [0, 1].map(|turn: u32| {
            let opens = long_opened & opening_turn.value.is(turn.into());
            let finishes = long_finished & finishing_turn.value.is(turn.into());
            let is_open = b.register_reset(&format!("long_open_{turn}"), 1, 0);
            is_open.next(opens | (is_open.value & !finishes));
            (is_open.value, long_opened_generation.hold(&format!("long_generation_{turn}"), opens))
        });
        let mut quiet = Vec::new();
        let mut is_full = Vec::new();
        for number in 0..2 {
            let named = |name: &str| format!("{name}_{number}");
            let requests = Count::new(b, &named("requests"), COUNT_BITS, accepted[number], reports.matched[number]);
            let contexts = Count::new(
                b,
                &named("contexts"),
                CONTEXT_COUNT_BITS,
                context_accepted[number],
                context_finished[number],
            );
            let is_long = longs.map(|(is_open, generation)| is_open & generation.is(number as u128));
            let is_quiet = requests.value().none() & contexts.value().none() & !is_long[0] & !is_long[1];
            quiet.push(is_quiet.delay_reset(&named("is_quiet")));
            is_full.push(requests.value().bit(COUNT_BITS - 1));
        }
        let old_is_quiet = generation.value.mux(quiet[0], quiet[1]).named("old_is_quiet");
        let all_quiet = (quiet[0] & quiet[1] & b.input("others_idle", 1)).delay_reset("all_quiet");
        let any_accepted = accepted[0] | accepted[1];
        let in_flight = Count::new(b, "in_flight_q", COUNT_BITS, any_accepted, reports.finished);
        b.output("in_flight", in_flight.value());

        // The state machine.
        let state = b.register_reset("state", 3, Step::Gather as u128);
        let is = |step: Step| state.value.is(step as u128);
        let count = b.register_reset("settle_count", 3, 0);
        let settled = count.value.is(SETTLE_CYCLES).named("settled");
        // No invalidation is prepared from the cycle in which the flip is due on, so that none is half in and half out.
        let is_gather_done = is(Step::Gather) & is_gathered;
        let is_flush_settled = is(Step::Flush) & settled;
        flip_is_due.drive(is_gather_done | is_flush_settled);
        let is_flushed = is_flush_settled & b.input("caches_ready", 1) & fetches;
        flip.next((is_gather_done & fetches & !wraps) | is_flushed);
        let drained = (is(Step::Drain) & old_is_quiet & !is_catching_up.value).named("drained");
        let flushes = (is(Step::Quiet) & all_quiet).named("flushes");
        let go = |condition: Signal<'a>, step: Step| condition.mux(b.literal(step as u128, 3), state.value);
        let after_gather = wraps.mux(b.literal(Step::Stop as u128, 3), b.literal(Step::Settle as u128, 3));
        let next = select_first(
            &[
                (is(Step::Gather), (is_gathered & fetches).mux(after_gather, state.value)),
                (is(Step::Settle), go(settled, Step::Drain)),
                (is(Step::Drain), go(drained, Step::Gather)),
                (is(Step::Stop), go(settled, Step::Quiet)),
                (is(Step::Quiet), go(all_quiet, Step::Flush)),
            ],
            go(is_flushed, Step::Settle),
        );
        state.next(next);
        let waits = is(Step::Settle) | is(Step::Stop) | is(Step::Flush);
        count.next((waits & !is_flushed).repeat(3) & settled.mux(count.value, count.value + 1));
        complete_end.next_if(drained, batch_end.value);
        b.output("flush", flushes.delay_reset("flush_q"));

        // Pointers of an earlier turn of the HEM epoch are scrubbed when it wraps, and again when the lookups that were in
        // flight then have finished.
        let is_stale = b.register_reset("has_stale_pointers", 1, 0);
        let is_stale_of_batch = b.register_reset("has_stale_pointers_of_batch", 1, 0);
        is_stale_of_batch.next(flip.value.mux(is_stale.value | hem_wraps, is_stale_of_batch.value & !drained));
        is_stale.next((is_stale.value & !flip.value) | (hem_wraps & !flip.value));
        let scrubs_pointers = hem_wraps | tables_written | (drained & is_stale_of_batch.value);
        b.output("pointer_flush", scrubs_pointers.delay_reset("pointer_flush_q"));

        // Ambiguous reports must not hold up the fence for ever.
        let was_ambiguous = b.register_reset("was_ambiguous", 1, 0);
        was_ambiguous.next(!is(Step::Gather) & (was_ambiguous.value | reports.is_ambiguous));
        let turns = b.register_reset("drain_turns", 2, 0);
        let is_long_drain = turns.value.bit(1);
        let turn_ends = (!now.value.low_bits(STARVED_CYCLES_LOG2)).none();
        let turned = turns.value + (turn_ends & !is_long_drain).resize(2);
        turns.next(is(Step::Drain).repeat(2) & turned);
        let is_stopped = is(Step::Stop) | is(Step::Quiet) | is(Step::Flush);
        let is_starved = was_ambiguous.value & is_long_drain;
        // Those who admit have registers of their own for it.
        b.output("pause", is_stopped | is_starved | is_full[0] | is_full[1]);

        // Completions go out.
        let out_valid = b.register_reset("out_valid", 1, 0);
        let out_ready = b.input("invalidated_ready", 1);
        let fetch = (completed.value.ne(complete_end.value) & (!out_valid.value | out_ready)).named("fetch");
        out_valid.next(fetch | (out_valid.value & !out_ready));
        completed.next_if(fetch, completed.value + 1);
        b.output("invalidated_valid", out_valid.value);
        b.output("invalidated_tag", ring.read(completed.value, fetch).tag);
        places.update(accept, out_valid.value & out_ready, b.flag(false));
        b.output("completed", (out_valid.value & out_ready).delay_reset("completed_q"));
        b.output("stray_done", reports.is_stray);
        b.output("idle", (all_quiet & places.full & is(Step::Gather)).delay_reset("idle_q"));
        b.name().into()
    }
}
