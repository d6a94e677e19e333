//! The core: every block, wired.
//!
//! **Purpose.** The whole engine with one port per field. The generator wraps it into the module `keywalk`, which packs the
//! fields into AXI ports.
//!
//! **Handshake.** Streams `request`, `context_request`, `invalidate` in and `response`, `context_response`, `invalidated`,
//! `fault` out, ready/valid; stream `done` in is always taken. AXI4-Lite port `axil`, AXI4 read port `tbl`.
//!
//! **Latency and throughput.** Those of the blocks: see the manifest.
//!
//! **Timing.** Wires only, but for the AND of the blocks' ready signals.
//!
//! **Reset and flush.** Synchronous reset; register `status.ready` rises when every RAM has been scrubbed.
//!
//! **Hazards.** See the blocks.
//!
//! **Limits.** See the configuration.

use crate::access_check::AccessCheck;
use crate::context_port::{ContextPort, ContextRequest};
use crate::csr::{Csr, GAUGE_BITS};
use crate::entry_decode::EntryDecode;
use crate::fault::Fault;
use crate::fence::{COUNT_BITS, Fence, Invalidate};
use crate::hem_lookup::HemLookup;
use crate::key_decoder::KeyDecoder;
use crate::mpt_cache::MptCache;
use crate::mtr_walker::MtrWalker;
use crate::page_split::PageSplit;
use crate::prim::{Design, Instance, Record, Signal, drive_channel, input_channel, output_channel};
use crate::records::{
    Again, BUCKET_EPOCH_BITS, Bt0Write, Checked, ContextAnswer, ContextLookup, ContextWalk, ENTRY_EPOCH_BITS, Event,
    GeometryWrite, HEM_EPOCH_BITS, Held, HemRequest, LATE_EPOCH_BITS, LineRequest, LineResponse, LookedUp, Lookup,
    MissRequest, MptFill, MptLine, PD_BUCKET_BITS, Piece, Replay, Request, SET_EPOCH_BITS, STAMP_BITS, SegmentBeat,
    TlbFill, WalkRequest, WalkResult, WalkStart, held_bits, line_context_bits,
};
use crate::response_port::{Response, ResponsePort};
use crate::split_buffer::SplitBuffer;
use crate::table_port::TablePort;
use crate::tlb::Tlb;
use crate::walk_queue::WalkQueue;
use keywalk_contract::regs::{self, COUNTERS, CounterName};
use keywalk_contract::status::STATUS_BITS;
use keywalk_contract::{Config, key};

/// The block.
pub struct Core;

impl Core {
    /// Builds the module `keywalk_core` with all its blocks and gives its name.
    pub fn build<'a>(design: &Design<'a>, config: &Config) -> String {
        let blocks = [
            Csr::build(design, config),
            KeyDecoder::build(design, config),
            MptCache::build(design, config),
            AccessCheck::build(design, config),
            PageSplit::build(design, config),
            Tlb::build(design, config),
            WalkQueue::build(design, config),
            SplitBuffer::build(design, config),
            ResponsePort::build(design, config),
            HemLookup::build(design, config),
            EntryDecode::build(design, config),
            MtrWalker::build(design, config),
            TablePort::build(design, config),
            ContextPort::build(design, config),
            Fault::build(design, config),
            Fence::build(design, config),
        ];
        let b = design.module("keywalk_core");
        let instances = blocks.map(|name| b.instance(&name, &name));
        let [
            csr,
            key_decoder,
            mpt_cache,
            access_check,
            page_split,
            tlb,
            walk_queue,
            split_buffer,
            response_port,
            hem_lookup,
            entry_decode,
            mtr_walker,
            table_port,
            context_port,
            fault,
            fence,
        ] = &instances;
        let flag = |instance: &Instance<'a>, port: &str| instance.output(port, 1);
        let wire = |from: &Instance<'a>, from_port: &str, to: &Instance<'a>, to_port: &str| {
            to.drive(to_port, flag(from, from_port));
        };
        let fan = |signal: Signal<'a>, targets: &[(&Instance<'a>, &str)]| {
            for (instance, port) in targets {
                instance.drive(port, signal);
            }
        };

        // Ports.
        fan(b.input("request_valid", 1), &[(key_decoder, "request_valid")]);
        drive_channel(key_decoder, "request", input_channel(b, "request", Request::widths(config)));
        b.output("request_ready", flag(key_decoder, "request_ready"));
        b.output("response_valid", flag(response_port, "response_valid"));
        output_channel(b, "response", response_port.channel("response", Response::widths(config)));
        response_port.drive("response_ready", b.input("response_ready", 1));
        fan(b.input("context_request_valid", 1), &[(context_port, "context_request_valid")]);
        let context_request = input_channel(b, "context_request", ContextRequest::widths(config));
        drive_channel(context_port, "context_request", context_request);
        b.output("context_request_ready", flag(context_port, "context_request_ready"));
        b.output("context_response_valid", flag(context_port, "context_response_valid"));
        for (field, width) in [
            ("tag", config.tag_bits),
            ("function", config.function_bits),
            ("status", 8),
            ("table", 3),
            ("hop", 2),
            ("address", 64),
        ] {
            let port = format!("context_response_{field}");
            b.output(&port, context_port.output(&port, width));
        }
        context_port.drive("context_response_ready", b.input("context_response_ready", 1));
        fence.drive("invalidate_valid", b.input("invalidate_valid", 1));
        drive_channel(fence, "invalidate", input_channel(b, "invalidate", Invalidate::widths(config)));
        b.output("invalidate_ready", flag(fence, "invalidate_ready"));
        b.output("invalidated_valid", flag(fence, "invalidated_valid"));
        b.output("invalidated_tag", fence.output("invalidated_tag", config.tag_bits));
        fence.drive("invalidated_ready", b.input("invalidated_ready", 1));
        for (port, width) in [("done_valid", 1), ("done_tag", config.tag_bits), ("done_function", config.function_bits)]
        {
            fence.drive(port, b.input(port, width));
        }
        b.output("done_ready", b.flag(true));
        b.output("fault_valid", flag(fault, "fault_valid"));
        output_channel(b, "fault", fault.channel("fault", Event::widths(config)));
        fault.drive("fault_ready", b.input("fault_ready", 1));
        b.output("interrupt_pin", flag(csr, "interrupt_pin"));
        for (name, width) in
            [("awaddr", regs::ADDRESS_BITS), ("wdata", 32), ("wstrb", 4), ("araddr", regs::ADDRESS_BITS)]
        {
            csr.drive(&format!("axil_{name}"), b.input(&format!("axil_{name}"), width));
        }
        for name in ["awvalid", "wvalid", "bready", "arvalid", "rready"] {
            csr.drive(&format!("axil_{name}"), b.input(&format!("axil_{name}"), 1));
        }
        for (name, width) in [
            ("awready", 1),
            ("wready", 1),
            ("bvalid", 1),
            ("bresp", 2),
            ("arready", 1),
            ("rvalid", 1),
            ("rdata", 32),
            ("rresp", 2),
        ] {
            b.output(&format!("axil_{name}"), csr.output(&format!("axil_{name}"), width));
        }
        let read_valid = flag(table_port, "arvalid");
        let read_ready = b.input("tbl_arready", 1);
        table_port.drive("arready", read_ready);
        b.output("tbl_arvalid", read_valid);
        for (name, width) in [("araddr", 64), ("arid", config.read_bits()), ("arlen", 8), ("rready", 1)] {
            b.output(&format!("tbl_{name}"), table_port.output(name, width));
        }
        let [line_valid, line_last] = ["rvalid", "rlast"].map(|name| {
            let signal = b.input(&format!("tbl_{name}"), 1);
            table_port.drive(name, signal);
            signal
        });
        for (name, width) in [("rid", config.read_bits()), ("rresp", 2)] {
            table_port.drive(name, b.input(&format!("tbl_{name}"), width));
        }
        // The table port takes what comes, always.
        csr.drive("read_issued", (read_valid & read_ready).delay_reset("read_issued"));
        csr.drive("read_landed", (line_valid & line_last).delay_reset("read_landed"));
        for lane in 0..config.table_data_bits / 128 {
            table_port.drive(&format!("rdata_{lane}"), b.input(&format!("tbl_rdata_{lane}"), 128));
        }

        // What the command unit follows, which works out of the core.
        let tells = |name: &str, signal: Signal<'a>| {
            if config.command_unit {
                b.output(name, signal);
            }
        };
        if config.command_unit {
            csr.drive("command_done", b.input("command_done", 1));
        }

        // Switches and table writes.
        wire(csr, "atomic_shape_check", access_check, "atomic_shape_check");
        fan(flag(csr, "hold_mode"), &[(access_check, "hold_mode"), (split_buffer, "hold_mode")]);
        let alignment_check = flag(csr, "alignment_check");
        fan(alignment_check, &[(hem_lookup, "alignment_check"), (mtr_walker, "alignment_check")]);
        tells("alignment_check", alignment_check);
        wire(csr, "zero_entry_literal", mtr_walker, "zero_entry_literal");
        wire(csr, "index_check", walk_queue, "index_check");
        split_buffer.drive("merge_bytes_max", csr.output("merge_bytes_max", 32));
        for set in 0..config.table_sets {
            let port = format!("mpt_mask_{set}");
            let mask = csr.output(&port, key::INDEX_BITS);
            fan(mask, &[(key_decoder, &port), (fence, &port)]);
            tells(&port, mask);
            let base = csr.output(&format!("page_shift_base_{set}"), 2);
            let port = format!("page_shift_base_{set}");
            fan(base, &[(entry_decode, &port), (context_port, &port)]);
            tells(&port, base);
        }
        let geometry_write_valid = flag(csr, "geometry_write_valid");
        hem_lookup.drive("geometry_write_valid", geometry_write_valid);
        let geometry_write = csr.channel("geometry_write", GeometryWrite::widths(config));
        drive_channel(hem_lookup, "geometry_write", geometry_write);
        tells("geometry_write_valid", geometry_write_valid);
        for (name, signal) in geometry_write.list() {
            tells(&format!("geometry_write_{name}"), signal);
        }
        let bt0_write_valid = flag(csr, "bt0_write_valid");
        hem_lookup.drive("bt0_write_valid", bt0_write_valid);
        fence.drive("tables_written", geometry_write_valid | bt0_write_valid);
        drive_channel(hem_lookup, "bt0_write", csr.channel("bt0_write", Bt0Write::widths(config)));
        for (port, width) in [
            ("function_map_write_valid", 1),
            ("function_map_write_function", config.function_bits),
            ("function_map_write_table_set", config.table_set_bits()),
        ] {
            let signal = csr.output(port, width);
            fan(signal, &[(key_decoder, port), (context_port, port), (fence, port)]);
            tells(port, signal);
        }

        let generation = flag(fence, "generation");

        // Lookup.
        let early_index = key_decoder.output("early_index", key::INDEX_BITS);
        fan(early_index, &[(mpt_cache, "early_index"), (fence, "epoch_index")]);
        fence.drive("epoch_pd_bucket", key_decoder.output("early_pd_bucket", PD_BUCKET_BITS));
        wire(key_decoder, "early_is_replay", fence, "epoch_is_replay");
        let lookup_valid = flag(key_decoder, "lookup_valid");
        let lookup = key_decoder.channel("lookup", Lookup::widths(config));
        fan(lookup_valid, &[(mpt_cache, "lookup_valid"), (access_check, "lookup_valid")]);
        drive_channel(access_check, "lookup", lookup);
        access_check.drive("lookup_length_minus_one", key_decoder.output("lookup_length_minus_one", 32));
        mpt_cache.drive("lookup_table_set", lookup.table_set);
        mpt_cache.drive("lookup_index", lookup.index);
        mpt_cache.drive("lookup_epoch", key_decoder.output("lookup_noted_epoch", ENTRY_EPOCH_BITS));
        wire(mpt_cache, "found", access_check, "found");
        access_check.drive("page_shift", mpt_cache.output("page_shift", 5));
        drive_channel(access_check, "line", mpt_cache.channel("line", MptLine::widths(config)));
        wire(access_check, "checked_valid", page_split, "checked_valid");
        wire(access_check, "checked_may_have_more", page_split, "checked_may_have_more");
        drive_channel(page_split, "checked", access_check.channel("checked", Checked::widths(config)));
        wire(access_check, "held_valid", page_split, "held_valid");
        page_split.drive("held_number", access_check.output("held_number", held_bits(config)));
        drive_channel(page_split, "held", access_check.channel("held", Held::widths(config)));
        wire(access_check, "entry_found", key_decoder, "entry_found");
        wire(access_check, "again_valid", key_decoder, "again_valid");
        drive_channel(key_decoder, "again", access_check.channel("again", Again::widths(config)));
        wire(page_split, "place_freed", key_decoder, "split_place_freed");
        wire(page_split, "piece_valid", tlb, "piece_valid");
        drive_channel(tlb, "piece", page_split.channel("piece", Piece::widths(config)));
        drive_channel(tlb, "held", page_split.channel("held_out", Held::widths(config)));

        // MPT misses.
        let miss_valid = flag(access_check, "miss_valid");
        wire(key_decoder, "early_valid", hem_lookup, "request_valid");
        let early_table_set = key_decoder.output("early_table_set", config.table_set_bits());
        fence.drive("epoch_table_set", early_table_set);
        let epoch = key_decoder.output("early_hem_epoch", HEM_EPOCH_BITS);
        drive_channel(hem_lookup, "request", HemRequest { table_set: early_table_set, index: early_index, epoch });
        hem_lookup.drive("miss_valid", miss_valid);
        drive_channel(hem_lookup, "miss", access_check.channel("miss", MissRequest::widths(config)));
        wire(hem_lookup, "gap_wanted", key_decoder, "gap_wanted");
        wire(hem_lookup, "replay_valid", entry_decode, "replay_valid");
        drive_channel(entry_decode, "replay", hem_lookup.channel("replay", Replay::widths(config)));
        wire(entry_decode, "decoded_valid", key_decoder, "decoded_valid");
        drive_channel(key_decoder, "decoded", entry_decode.channel("decoded", Lookup::widths(config)));
        wire(entry_decode, "fill_valid", mpt_cache, "fill_valid");
        drive_channel(mpt_cache, "fill", entry_decode.channel("fill", MptFill::widths(config)));
        mpt_cache.drive("fill_page_shift", entry_decode.output("fill_page_shift", 5));
        drive_channel(mpt_cache, "fill_line", entry_decode.channel("fill_line", MptLine::widths(config)));

        // Pieces and walks.
        let looked_up_valid = flag(tlb, "looked_up_valid");
        let looked_up = tlb.channel("looked_up", LookedUp::widths(config));
        for target in [walk_queue, split_buffer, response_port] {
            target.drive("looked_up_valid", looked_up_valid);
            drive_channel(target, "looked_up", looked_up);
        }
        split_buffer.drive("early_split_context", tlb.output("early_split_context", config.split_context_bits()));
        split_buffer.drive("early_split_slot", tlb.output("early_split_slot", config.split_page_bits()));
        wire(split_buffer, "old_toggle", walk_queue, "old_toggle");
        wire(tlb, "start_valid", walk_queue, "piece_start_valid");
        drive_channel(walk_queue, "piece_start", tlb.channel("start", WalkStart::widths(config)));
        drive_channel(mtr_walker, "start", walk_queue.channel("start", WalkStart::widths(config)));
        mtr_walker.drive("start_offset", walk_queue.output("start_offset", 64));
        wire(walk_queue, "gap_wanted", page_split, "gap_wanted");
        wire(walk_queue, "walk_ended", page_split, "walk_ended");
        wire(walk_queue, "walk_unused", page_split, "walk_unused");
        wire(walk_queue, "walk_valid", mtr_walker, "walk_valid");
        drive_channel(mtr_walker, "walk", walk_queue.channel("walk", WalkRequest::widths(config)));
        let result_valid = flag(mtr_walker, "result_valid");
        let result = mtr_walker.channel("result", WalkResult::widths(config));
        wire(mtr_walker, "fill_valid", tlb, "fill_valid");
        drive_channel(tlb, "fill", mtr_walker.channel("fill", TlbFill::widths(config)));
        walk_queue.drive("result_valid", result_valid);
        walk_queue.drive("result_is_context", result.is_context);
        for target in [split_buffer, response_port, context_port] {
            target.drive("result_valid", result_valid);
            drive_channel(target, "result", result);
        }
        wire(mtr_walker, "result_is_found", response_port, "result_is_found");
        fan(flag(mtr_walker, "result_is_ok"), &[(response_port, "result_is_ok"), (split_buffer, "result_is_ok")]);
        response_port.drive("result_found_address", mtr_walker.output("result_found_address", 64));
        wire(split_buffer, "context_freed", page_split, "context_freed");
        page_split
            .drive("context_freed_number", split_buffer.output("context_freed_number", config.split_context_bits()));
        wire(split_buffer, "slot_freed", page_split, "slot_freed");
        wire(split_buffer, "slot_freed_turn", page_split, "slot_freed_turn");
        wire(split_buffer, "long_failed", page_split, "long_failed");
        wire(split_buffer, "long_finished", fence, "long_finished");
        wire(split_buffer, "segment_valid", response_port, "segment_valid");
        drive_channel(response_port, "segment", split_buffer.channel("segment", SegmentBeat::widths(config)));
        wire(response_port, "segment_ready", split_buffer, "segment_ready");
        wire(response_port, "single_place_freed", page_split, "single_place_freed");

        // Table reads.
        for (client, channel, line_valid) in
            [(hem_lookup, "hem_request", "hem_line_valid"), (mtr_walker, "walk_request", "walk_line_valid")]
        {
            table_port.drive(&format!("{channel}_valid"), flag(client, "line_request_valid"));
            drive_channel(table_port, channel, client.channel("line_request", LineRequest::widths(config)));
            client.drive("line_request_ready", flag(table_port, &format!("{channel}_ready")));
            client.drive("line_valid", flag(table_port, line_valid));
        }
        // A line is shared by those who ask for it within one generation of the fence.
        table_port.drive("generation", generation);
        wire(hem_lookup, "line_request_cancel", table_port, "cancel_hem_request");
        let early_context = table_port.output("early_context", line_context_bits(config));
        fan(early_context, &[(hem_lookup, "early_context"), (mtr_walker, "early_context")]);
        wire(table_port, "early_hem_line", hem_lookup, "early_valid");
        wire(table_port, "early_walk_line", mtr_walker, "early_valid");
        let line = table_port.channel("line", LineResponse::widths(config));
        drive_channel(hem_lookup, "line", line);
        drive_channel(mtr_walker, "line", line);

        // The context port.
        wire(context_port, "lookup_valid", hem_lookup, "lookup_valid");
        drive_channel(hem_lookup, "lookup", context_port.channel("lookup", ContextLookup::widths(config)));
        wire(hem_lookup, "lookup_ready", context_port, "lookup_ready");
        wire(hem_lookup, "answer_valid", context_port, "answer_valid");
        drive_channel(context_port, "answer", hem_lookup.channel("answer", ContextAnswer::widths(config)));
        wire(context_port, "answer_ready", hem_lookup, "answer_ready");
        wire(context_port, "walk_valid", walk_queue, "context_walk_valid");
        drive_channel(walk_queue, "context_walk", context_port.channel("walk", ContextWalk::widths(config)));
        wire(walk_queue, "context_walk_ready", context_port, "walk_ready");

        // Events.
        let event_valid = flag(response_port, "event_valid");
        fault.drive("response_event_valid", event_valid);
        drive_channel(fault, "response_event", response_port.channel("event", Event::widths(config)));
        wire(context_port, "event_valid", fault, "context_event_valid");
        drive_channel(fault, "context_event", context_port.channel("event", Event::widths(config)));
        wire(fault, "context_event_ready", context_port, "event_ready");

        // The fence.
        let accepted = flag(key_decoder, "accepted");
        fence.drive("request_accepted", accepted);
        wire(key_decoder, "accepted_generation", fence, "request_accepted_generation");
        let late_epoch = fence.output("late_epoch", LATE_EPOCH_BITS);
        key_decoder.drive("any_pd_epoch", fence.output("any_pd_epoch", BUCKET_EPOCH_BITS));
        fan(late_epoch, &[(key_decoder, "late_epoch"), (mpt_cache, "late_epoch")]);
        for set in 0..config.table_sets {
            let port = format!("set_epoch_{set}");
            key_decoder.drive(&port, fence.output(&port, SET_EPOCH_BITS));
        }
        fan(fence.output("hem_epoch", HEM_EPOCH_BITS), &[(key_decoder, "hem_epoch"), (context_port, "hem_epoch")]);
        fan(generation, &[(key_decoder, "generation"), (context_port, "generation")]);
        fan(fence.output("now", STAMP_BITS), &[(key_decoder, "now"), (csr, "now")]);
        fan(flag(response_port, "finished"), &[(fence, "response_finished"), (csr, "finished")]);
        wire(response_port, "finished_generation", fence, "finished_generation");
        fence.drive("finished_tag", response_port.output("finished_tag", config.tag_bits));
        let finished_function = response_port.output("finished_function", config.function_bits);
        fan(finished_function, &[(fence, "finished_function"), (csr, "finished_function")]);
        let context_accepted = flag(context_port, "accepted");
        fence.drive("context_accepted", context_accepted);
        wire(context_port, "accepted_generation", fence, "context_accepted_generation");
        wire(context_port, "finished", fence, "context_finished");
        wire(context_port, "finished_generation", fence, "context_finished_generation");
        let opens_long = looked_up_valid & looked_up.is_split & looked_up.is_long & looked_up.is_first;
        fence.drive("long_opened", opens_long);
        fence.drive("long_opened_generation", looked_up.admission.bit(0));
        let blocks_idle = [
            flag(key_decoder, "empty"),
            flag(context_port, "empty"),
            flag(hem_lookup, "idle"),
            flag(mtr_walker, "idle"),
            flag(table_port, "idle"),
        ];
        fence.drive("others_idle", all(&blocks_idle));
        let caches_ready = flag(mpt_cache, "ready") & flag(tlb, "ready") & flag(mtr_walker, "caches_ready");
        fence.drive("caches_ready", caches_ready);
        let pause = flag(fence, "pause");
        let flush = flag(fence, "flush");
        fan(flush, &[(mpt_cache, "flush"), (tlb, "flush"), (mtr_walker, "flush")]);
        hem_lookup.drive("pointer_flush", flush | flag(fence, "pointer_flush"));
        let blocks_ready = [
            flag(key_decoder, "ready"),
            flag(page_split, "ready"),
            flag(split_buffer, "ready"),
            flag(hem_lookup, "ready"),
            flag(mtr_walker, "ready"),
            flag(table_port, "ready"),
            flag(context_port, "ready"),
            flag(fence, "ready"),
            flag(csr, "ready"),
        ];
        let scrubbed = (all(&blocks_ready) & caches_ready).delay_reset("scrubbed");
        let engine_ready = b.register_reset("engine_ready", 1, 0);
        engine_ready.next(engine_ready.value | scrubbed);
        let stop = pause | !engine_ready.value;
        fan(stop, &[(key_decoder, "pause"), (context_port, "pause")]);
        csr.drive("engine_ready", engine_ready.value);
        csr.drive("engine_idle", (flag(fence, "idle") & !pause).delay_reset("engine_idle"));

        // Counters.
        csr.drive("finished_status", response_port.output("finished_status", STATUS_BITS));
        csr.drive("finished_stamp", response_port.output("finished_stamp", STAMP_BITS));
        csr.drive("tlb_missed", looked_up_valid & looked_up.is_miss);
        csr.drive("tlb_missed_function", looked_up.function);
        csr.drive("requests_in_flight", fence.output("in_flight", COUNT_BITS).resize(GAUGE_BITS));
        for (counter, name) in COUNTERS.iter().zip(CounterName::ALL) {
            let pulse = match name {
                CounterName::Requests => accepted,
                CounterName::Segments => flag(response_port, "sent"),
                CounterName::Errors => flag(response_port, "failed"),
                CounterName::MptHits => flag(access_check, "mpt_hit"),
                CounterName::MptMisses => miss_valid,
                CounterName::TlbHits => flag(tlb, "hit"),
                CounterName::TlbMisses => flag(tlb, "missed"),
                CounterName::TableReads => flag(table_port, "event_read"),
                CounterName::TableReadsMerged => flag(table_port, "event_merged"),
                CounterName::TableReadErrors => flag(table_port, "event_error"),
                CounterName::ContextRequests => context_accepted,
                CounterName::Invalidations => flag(fence, "completed"),
                CounterName::Faults => flag(fault, "sent"),
                CounterName::FaultsLost => flag(fault, "lost"),
                CounterName::StrayReports => flag(fence, "stray_done"),
                CounterName::MptEvictions => flag(mpt_cache, "evicted"),
                CounterName::TlbEvictions => flag(tlb, "evicted"),
                CounterName::HemHits => flag(hem_lookup, "pointer_hit"),
                CounterName::HemMisses => flag(hem_lookup, "pointer_miss"),
                CounterName::HemEvictions => flag(hem_lookup, "pointer_evicted"),
                CounterName::MtrLowerHits => flag(mtr_walker, "lower_hit"),
                CounterName::MtrLowerMisses => flag(mtr_walker, "lower_miss"),
                CounterName::MtrLowerEvictions => flag(mtr_walker, "lower_evicted"),
                CounterName::MtrUpperHits => flag(mtr_walker, "upper_hit"),
                CounterName::MtrUpperMisses => flag(mtr_walker, "upper_miss"),
                CounterName::MtrUpperEvictions => flag(mtr_walker, "upper_evicted"),
                CounterName::HemReads0 => flag(hem_lookup, "read_issued_0"),
                CounterName::HemReads1 => flag(hem_lookup, "read_issued_1"),
                CounterName::HemReads2 => flag(hem_lookup, "read_issued_2"),
                CounterName::HemReads3 => flag(hem_lookup, "read_issued_3"),
                CounterName::MtrReads0 => flag(mtr_walker, "read_issued_0"),
                CounterName::MtrReads1 => flag(mtr_walker, "read_issued_1"),
                CounterName::MtrReads2 => flag(mtr_walker, "read_issued_2"),
            };
            csr.drive(&format!("count_{}", counter.name), pulse);
        }
        b.name().into()
    }
}

fn all<'a>(signals: &[Signal<'a>]) -> Signal<'a> {
    signals.iter().copied().reduce(|a, b| a & b).expect("at least one signal")
}
