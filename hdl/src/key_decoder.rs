//! Admits requests to the lookup and turns keys into MPT indices.
//!
//! **Purpose.** New requests, requests that come back from the HEM lookup (replays), and requests that come back from
//! the checks to be looked up once more enter the lookup pipe here, one per cycle, replays first and new ones last. The
//! function selects the table set; the index is the key rotated right by eight, masked with `num_mpts - 1`. A new
//! request is given its generation, its time stamp and its epochs; a replay keeps those that it has. A request from the
//! checks keeps its generation and its time stamp, and is given epochs anew, because another entry has other ones: its
//! generation still waits for it, and what it finds or brings is of the epochs under which it looks.
//!
//! **Handshake.** Channel `request` in, ready/valid; `request_ready` depends on registers and
//! `decoded_valid` only; `pause` and `gap_wanted` stop it from the next cycle on. Channel `decoded` in (replays), valid only: it has the
//! right of way. Channel `again` in (from the checks), valid only: it waits here for a cycle without a replay. Channel
//! `lookup` out has no ready: nothing behind it stalls. The `early_*` outputs tell what comes on `lookup` in the next cycle,
//! for the memories that are read meanwhile.
//!
//! **Latency and throughput.** One cycle, two with more than one table set (the function map is a memory); two more from
//! `again`. One request per cycle.
//!
//! **Timing.** A three-way select and a mask, in front of the tag memory.
//!
//! **Reset and flush.** Reset clears the pipe; the function map is scrubbed to table set 0, then `ready` rises.
//!
//! **Hazards.** A write of the function map acts on requests admitted from the next cycle on, but may be lost while
//! `ready` is low. A change of `mpt_mask_<k>` acts on new requests that have not shown their index yet. Generation and
//! epochs are sampled in one cycle, that of `early_index`; the epochs of the buckets come one cycle later because they
//! are read from a memory in that cycle.
//!
//! **Limits.** The pipe never stalls, so a request is admitted only with a place reserved in the queue of the page
//! split, which it keeps until the split takes it, and with a HEM context, which it keeps until its entry has been
//! found. So a replay needs no reservation, and the queue of those from the checks has a place for each. `admitted_max`
//! requests hold the one and `hem_contexts` the other. Where responses come in order a new request is given an order
//! number, modulo `admitted_max`: two requests that hold a place never share one.

use crate::fence::pd_bucket;
use crate::function_map::FunctionMap;
use crate::prim::{
    Builder, Credit, Design, Fifo, Signal, concat, delay_record, input_channel, mux_record, output_channel,
    select_by_number,
};
use crate::records::{
    ADMISSION_BITS, Again, BUCKET_EPOCH_BITS, ENTRY_EPOCH_BITS, EPOCH_BITS, HEM_EPOCH_BITS, LATE_EPOCH_BITS, Lookup,
    REGION_EPOCH_BITS, Request, SET_EPOCH_BITS, STAMP_BITS,
};
use keywalk_contract::{Config, key::INDEX_BITS};

/// All bits of an index: a replay brings an index that is masked already.
const INDEX_MASK: u128 = (1 << INDEX_BITS) - 1;

/// The block.
pub struct KeyDecoder;

impl KeyDecoder {
    /// Builds the module `key_decoder` and gives its name.
    ///
    /// Inputs besides the channels: `pause` and `gap_wanted` (admit no new request), `mpt_mask_<k>` (num_mpts - 1
    /// of table set `k`), the function map's write port, what a request is given: `generation`, `now`,
    /// `set_epoch_<k>`, `any_pd_epoch`, `hem_epoch`, and, one cycle after `early_index`, `late_epoch` (0 for a
    /// replay); the pulses `split_place_freed` (the page split took a request) and `entry_found` (a request needs
    /// no HEM context any more). Outputs besides the channels: `ready`, `accepted` with `accepted_generation` (a
    /// new request was admitted), `empty` (no place is reserved), and `lookup_noted_epoch`: the epochs of `lookup`
    /// before those of a new request's buckets, which come out of a memory then, are put in.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let b = design.module("key_decoder");
        let request_valid = b.input("request_valid", 1);
        let request = input_channel(b, "request", Request::widths(config));
        let replay_valid = b.input("decoded_valid", 1);
        let replay = input_channel(b, "decoded", Lookup::widths(config));
        let pause = b.input("pause", 1);
        let per_set = |name: &str, width| -> Vec<Signal<'_>> {
            (0..config.table_sets).map(|set| b.input(&format!("{name}_{set}"), width)).collect()
        };
        let masks = per_set("mpt_mask", INDEX_BITS);
        let set_epochs = per_set("set_epoch", SET_EPOCH_BITS);
        let generation = b.input("generation", 1);
        let now = b.input("now", STAMP_BITS);
        let hem_epoch = b.input("hem_epoch", HEM_EPOCH_BITS);
        let late_epoch = b.input("late_epoch", LATE_EPOCH_BITS);
        let function_map = FunctionMap::new(b, config);
        let running = function_map.running;

        let split = Credit::new(b, "split_credit", config.admitted_max());
        let hem = Credit::new(b, "hem_credit", config.hem_contexts);
        let gap_wanted = b.input("gap_wanted", 1);
        // Whoever stops the admission tells it a cycle ahead, so that one LUT decides it.
        let is_open = (running & !pause & !gap_wanted).delay_reset("is_open");
        let may_admit = (split.available & hem.available & is_open).named("may_admit");
        let depth = config.hem_contexts.next_power_of_two();
        let (again_queue, again) = Fifo::new(design, b, "again_queue", depth, Again::widths(config));
        again_queue.push(b.input("again_valid", 1), input_channel(b, "again", Again::widths(config)));
        again_queue.pop(!replay_valid);
        let again_valid = again.out_valid;
        let takes_again = (again_valid & !replay_valid).named("takes_again");
        let request_ready = (may_admit & !replay_valid & !again_valid).named("request_admissible");
        let admit = (request_valid & request_ready).named("admit");
        b.output("request_ready", request_ready);
        b.output("ready", running.delay_reset("ready_q"));
        b.output("empty", split.full & hem.full);
        split.update(admit, b.input("split_place_freed", 1), b.flag(false));
        hem.update(admit, b.input("entry_found", 1), b.flag(false));

        let new = Lookup {
            tag: request.tag,
            function: request.function,
            table_set: b.literal(0, config.table_set_bits()),
            operation: request.operation,
            key: request.key,
            pd: request.pd,
            qpn: request.qpn,
            va: request.va,
            length: request.length,
            index: request.key.high_bits(INDEX_BITS),
            is_replay: b.flag(false),
            is_rebased: b.flag(false),
            is_parent: b.flag(false),
            is_beyond: b.flag(false),
            region_va: b.literal(0, 64),
            status: b.literal(0, 8),
            hop: b.literal(0, 2),
            order: b.literal(0, config.order_bits()),
            admission: b.literal(0, ADMISSION_BITS),
            epoch: b.literal(0, EPOCH_BITS),
        };
        let mut valid = replay_valid | again.out_valid | admit;
        let again = Self::again_lookup(b, again.out, new);
        let mut lookup = mux_record(replay_valid, replay, mux_record(again_valid, again, new));
        let mut is_back = replay_valid | again_valid;
        // Where nothing comes it does not matter, so that other signals may share the load of the select.
        let select = |request, replay, again| request_ready.mux(request, takes_again.mux(again, replay));
        lookup.va = select(request.va, replay.va, again.va);
        lookup.key = select(request.key, replay.key, again.key);
        lookup.length = select(request.length, replay.length, again.length);
        lookup.region_va = takes_again.mux(again.region_va, replay.region_va);
        if config.table_sets == 1 {
            let mask = lookup.is_replay.repeat(INDEX_BITS) | masks[0];
            lookup.index = lookup.index & mask;
        } else {
            valid = valid.delay_reset("s1_valid");
            is_back = is_back.delay("s1_is_back");
            lookup = delay_record(lookup, "s1");
            let mapped = function_map.table_set(config, request.function);
            lookup.table_set = is_back.mux(lookup.table_set, mapped);
            let mask = select_by_number(&masks, lookup.table_set);
            lookup.index = lookup.index & lookup.is_replay.mux(b.literal(INDEX_MASK, INDEX_BITS), mask);
        }
        b.output("early_valid", valid);
        b.output("early_index", lookup.index);
        b.output("early_table_set", lookup.table_set);
        let is_new = valid & !is_back;
        b.output("accepted", is_new.delay_reset("accepted_q"));
        lookup.order = if config.in_order {
            let next = b.register_reset("next_order", config.order_bits(), 0);
            next.next_if(is_new, next.value + 1);
            is_back.mux(lookup.order, next.value)
        } else {
            b.literal(0, config.order_bits())
        };
        b.output("accepted_generation", generation.delay("accepted_generation_q"));
        lookup.admission = is_back.mux(lookup.admission, now.concat(generation));
        let bucket = pd_bucket(lookup.pd, lookup.table_set);
        b.output("early_pd_bucket", bucket);
        b.output("early_is_replay", lookup.is_replay);
        // The epochs of the buckets are in their memory until the next cycle. The bucket of a replay's PD is what it was.
        let set_epoch = select_by_number(&set_epochs, lookup.table_set);
        let any_pd_epoch = b.input("any_pd_epoch", BUCKET_EPOCH_BITS);
        let (wide_low, set_low) = (REGION_EPOCH_BITS, LATE_EPOCH_BITS);
        lookup.epoch = concat(&[
            lookup.is_replay.mux(lookup.epoch.bits(EPOCH_BITS - 1, wide_low), hem_epoch.concat(any_pd_epoch)),
            bucket,
            lookup.is_replay.mux(lookup.epoch.bits(set_low + SET_EPOCH_BITS - 1, set_low), set_epoch),
            lookup.epoch.low_bits(LATE_EPOCH_BITS),
        ]);
        b.output("early_hem_epoch", lookup.epoch.high_bits(HEM_EPOCH_BITS));
        b.output("lookup_length_minus_one", (lookup.length - 1).delay("lookup_length_minus_one_q"));

        let mut lookup = delay_record(lookup, "lookup_q");
        b.output("lookup_noted_epoch", lookup.epoch.low_bits(ENTRY_EPOCH_BITS));
        lookup.epoch = lookup.epoch | late_epoch.resize(EPOCH_BITS);
        b.output("lookup_valid", valid.delay_reset("lookup_valid_q"));
        output_channel(b, "lookup", lookup);
        b.name().into()
    }

    /// The lookup of a request that comes back from the checks.
    fn again_lookup<'a>(b: &'a Builder<'a>, again: Again<Signal<'a>>, new: Lookup<Signal<'a>>) -> Lookup<Signal<'a>> {
        Lookup {
            tag: again.tag,
            function: again.function,
            table_set: again.table_set,
            operation: again.operation,
            key: again.key,
            pd: again.pd,
            qpn: again.qpn,
            va: again.va,
            length: again.length,
            index: again.key.high_bits(INDEX_BITS),
            is_replay: b.flag(false),
            is_rebased: again.is_rebased,
            is_parent: again.is_parent,
            is_beyond: again.is_beyond,
            region_va: again.region_va,
            status: again.status,
            hop: new.hop,
            order: again.order,
            admission: again.admission,
            epoch: new.epoch,
        }
    }
}
