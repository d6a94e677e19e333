//! Admits requests to the lookup and turns keys into MPT indices.
//!
//! **Purpose.** New requests and requests that come back from the HEM lookup (replays) enter the lookup pipe here, one
//! per cycle, replays first. The function selects the table set; the index is the key rotated right by eight, masked with
//! `num_mpts - 1`.
//!
//! **Handshake.** Channels `request` and `decoded` (with `line`) in, ready/valid. Channel `lookup` (with `lookup_line`)
//! out has no ready: nothing behind it stalls. `request_ready` depends combinationally on `decoded_valid`, a register of
//! the entry decoder, so that a replay costs no cycle when there is none.
//!
//! **Latency and throughput.** One cycle, two with more than one table set (the function map is a memory). One request
//! per cycle.
//!
//! **Timing.** A two-way select and a mask.
//!
//! **Reset and flush.** Reset clears the pipe; the function map is scrubbed to table set 0, then `ready` rises.
//!
//! **Hazards.** A write of the function map acts on requests admitted from the next cycle on, but is lost while `ready` is
//! low. A change of `mpt_mask_<k>` acts on requests that are in the pipe.
//!
//! **Limits.** The pipe never stalls, so a request is admitted only with a place reserved in the queue of the page split
//! and, if it is new, in the queue of MPT misses: it may turn out to need either. Both places come back as pulses.

use crate::function_map::FunctionMap;
use crate::prim::{Credit, Design, delay_record, input_channel, mux_record, output_channel, select_by_number};
use crate::records::{
    BUCKET_EPOCH_BITS, EPOCH_BITS, HEM_EPOCH_BITS, Lookup, MptLine, Request, SET_EPOCH_BITS, STAMP_BITS,
};
use keywalk_contract::{Config, key::INDEX_BITS};

/// All bits of an index: a replay brings an index that is masked already.
const INDEX_MASK: u128 = (1 << INDEX_BITS) - 1;

/// Places in the queue before the page split: more than the pipe is long, so that it can be full while the split waits.
pub const SPLIT_QUEUE_DEPTH: u32 = 16;
/// Places in the queue of MPT misses.
pub const MISS_QUEUE_DEPTH: u32 = 16;

/// The block.
pub struct KeyDecoder;

impl KeyDecoder {
    /// Builds the module `key_decoder` and gives its name.
    ///
    /// Inputs besides the channels: `pause` (admit no new request), `mpt_mask_<k>` (num_mpts - 1 of table set `k`), the
    /// function map's write port, from the fence `now`, `generation`, `hem_epoch`, `set_epoch_<k>` and `region_epoch`, and the
    /// pulses `split_place_freed`, `split_place_unused`, `miss_place_freed`, `miss_place_unused`. Outputs besides the
    /// channels: `ready`, `accepted` (a new request was admitted) with `accepted_generation`, `epoch_index` and
    /// `epoch_table_set` (whose `region_epoch` is to come in the next cycle), `empty` (no place is reserved: the pipe and
    /// both queues are empty).
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let b = design.module("key_decoder");
        let request_valid = b.input("request_valid", 1);
        let request = input_channel(b, "request", Request::widths(config));
        let replay_valid = b.input("decoded_valid", 1);
        let replay = input_channel(b, "decoded", Lookup::widths(config));
        let replay_line = input_channel(b, "line", MptLine::widths(config));
        let pause = b.input("pause", 1);
        let masks: Vec<_> = (0..config.table_sets).map(|set| b.input(&format!("mpt_mask_{set}"), 24)).collect();
        let now = b.input("now", STAMP_BITS);
        let generation = b.input("generation", 1);
        let hem_epoch = b.input("hem_epoch", HEM_EPOCH_BITS);
        let set_epochs: Vec<_> =
            (0..config.table_sets).map(|set| b.input(&format!("set_epoch_{set}"), SET_EPOCH_BITS)).collect();
        let region_epoch = b.input("region_epoch", BUCKET_EPOCH_BITS);
        let function_map = FunctionMap::new(b, config);
        let running = function_map.running;

        let split = Credit::new(b, "split_credit", SPLIT_QUEUE_DEPTH);
        let miss = Credit::new(b, "miss_credit", MISS_QUEUE_DEPTH);
        let replay_ready = (split.available & running).named("replay_admissible");
        let request_ready =
            (split.available & miss.available & running & !pause & !replay_valid).named("request_admissible");
        let admit_replay = (replay_valid & replay_ready).named("admit_replay");
        let admit_request = (request_valid & request_ready).named("admit_request");
        b.output("decoded_ready", replay_ready);
        b.output("request_ready", request_ready);
        b.output("ready", running);
        b.output("empty", split.full & miss.full);
        split.update(admit_replay | admit_request, b.input("split_place_freed", 1), b.input("split_place_unused", 1));
        miss.update(admit_request, b.input("miss_place_freed", 1), b.input("miss_place_unused", 1));

        let zero_set = b.literal(0, config.table_set_bits());
        let new = Lookup {
            tag: request.tag,
            function: request.function,
            table_set: zero_set,
            operation: request.operation,
            key: request.key,
            pd: request.pd,
            qpn: request.qpn,
            va: request.va,
            length: request.length,
            index: request.key.high_bits(24),
            is_replay: b.flag(false),
            status: b.literal(0, 8),
            hop: b.literal(0, 2),
            admission: now.concat(generation),
            epoch: hem_epoch.concat(set_epochs[0]).concat(b.literal(0, BUCKET_EPOCH_BITS)),
        };
        let mut accepted = admit_request.delay_reset("s1_accepted");
        let mut valid = (admit_replay | admit_request).delay_reset("s1_valid");
        let mut lookup = mux_record(replay_valid, replay, new);
        let mut line = replay_line;
        if config.table_sets == 1 {
            b.output("epoch_index", new.index & masks[0]);
            b.output("epoch_table_set", zero_set);
            let mask = replay_valid.mux(b.literal(INDEX_MASK, INDEX_BITS), masks[0]);
            lookup.index = lookup.index & mask;
        }
        lookup = delay_record(lookup, "s1");
        line = delay_record(line, "s1_line");
        if config.table_sets > 1 {
            let mapped = function_map.table_set(config, request.function);
            lookup.table_set = lookup.is_replay.mux(lookup.table_set, mapped);
            let mask = select_by_number(&masks, lookup.table_set);
            lookup.index = lookup.index & lookup.is_replay.mux(b.literal(INDEX_MASK, INDEX_BITS), mask);
            b.output("epoch_index", lookup.index);
            b.output("epoch_table_set", mapped);
            // Epochs and generation belong to the cycle in which the bucket's epoch is read.
            let epoch = hem_epoch.concat(select_by_number(&set_epochs, mapped)).concat(b.literal(0, BUCKET_EPOCH_BITS));
            lookup.epoch = lookup.is_replay.mux(lookup.epoch, epoch);
            let admission = lookup.admission.high_bits(STAMP_BITS).concat(generation);
            lookup.admission = lookup.is_replay.mux(lookup.admission, admission);
            accepted = accepted.delay_reset("s2_accepted");
            valid = valid.delay_reset("s2_valid");
            lookup = delay_record(lookup, "s2");
            line = delay_record(line, "s2_line");
        }
        let region_epoch = lookup.is_replay.mux(lookup.epoch.low_bits(BUCKET_EPOCH_BITS), region_epoch);
        lookup.epoch = lookup.epoch.high_bits(EPOCH_BITS - BUCKET_EPOCH_BITS).concat(region_epoch);
        b.output("accepted", accepted);
        b.output("accepted_generation", lookup.admission.bit(0));
        b.output("lookup_valid", valid);
        output_channel(b, "lookup", lookup);
        output_channel(b, "lookup_line", line);
        b.name().into()
    }
}
