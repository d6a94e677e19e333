//! Reads 64-byte lines of the tables over AXI4 for both of its clients, each line at most once at a time.
//!
//! **Purpose.** A request names a line and a context of the HEM lookup (`hem_request_*`) or of the MTR walker
//! (`walk_request_*`). Where the line is being read already, the context joins the list of those that wait for it;
//! else a read is issued. When the line has landed, every waiter is answered.
//!
//! The in-flight table is a hash of four ways: each entry holds the rest of the line address and the read number,
//! which is the AXI ID. An entry is open where its alloc toggle, written when the read is issued, differs from its
//! close toggle, written when the line lands, so that every memory has one writer. The waiters of a read form a list
//! from the last to the first: per read the tail, per waiter the one before it. A waiter's word is therefore written
//! by its own request only and is read for the last time when it is answered: before the context can ask again.
//!
//! **Handshake.** `hem_request_*`, `walk_request_*`: valid and ready; the clients alternate while both offer.
//! `generation` is a level: a line is shared by requests that found it the same. What a client offers may change until
//! it is taken. `cancel_hem_request` makes void what is taken of that client in that cycle. `early_context` is the context of the line of the next cycle, whichever client's it
//! is; `early_hem_line` and `early_walk_line` are set a cycle before every line of that client, and at times before
//! another line or none. `hem_line_valid`, `walk_line_valid` with the shared payload `line_*`: no ready, because a
//! context has at most one request in flight and room for its answer; at most one of both per cycle; the payload is
//! meaningful while one is set. A context may ask again from the cycle after its answer on. `ar*` keeps valid and
//! payload until ready. `rready` is constant: every read number has a place for its line, which is used again only
//! after the line's last waiter is answered. Read data may come in any order, and beats of different IDs may be
//! interleaved. `event_*` are pulses of one cycle: a read was issued; a request joined a read in flight; a line with a
//! bus error landed. `idle` is low from the cycle after a request is accepted at least until all are answered.
//!
//! **Latency and throughput.** Request accepted to `arvalid`: 1 cycle while no read is open and none is on its way,
//! else 2 cycles, where nothing is in the way. Last beat to the answer of the first waiter: 2 cycles, and to that of
//! the last one that joined: 8; both one more where a line has several beats. One request, one read and one answer per
//! cycle, joined ones included. A read number is in `arvalid` again 8 cycles after its last beat at the earliest, or 5
//! cycles after the answer to its last waiter where several waited.
//!
//! **Timing.** `s0`: select and hash, in front of the table's address. `s1`: compare four ways, decide, write. `s2`:
//! what is known of the read, read number of the way, exchange of the tail. `s3`: link. Landing: `landed`, then
//! `answer` (which waiter), then the outputs, which are registers and memory outputs. `arvalid` and its payload are
//! registers; `idle` is decoded from registers, the ready outputs from registers and the valid inputs.
//!
//! **Reset and flush.** Reset forgets every request and read, so the bus behind the port must be reset with it or have
//! answered all reads. The toggles are scrubbed after reset, one bucket per cycle, and no request is accepted before
//! `ready`. Nothing is cached, so there is nothing to flush.
//!
//! **Hazards.**
//! - A request that finds its bucket full, no free read number or the address channel occupied goes through `retry` to
//!   `s0` again; `s1` and `retry` hold all that can be there, because nothing is accepted while `retry` is occupied.
//!   The one that failed first is the elder, and no other may issue a read before it: nothing starves.
//! - A request one cycle behind a read that is issued does not see its entry yet. Its line is compared with that
//!   read's too; another line of the same bucket is tried again. Only issued reads need this: whatever a joining
//!   request saw, the request behind it sees as well.
//! - A request may still find an entry open while it is being closed. Counted from the last beat (or the cycle after
//!   it, where a line has several): the close toggle is written in cycle 1; the last request that sees the entry open
//!   is in `s0` in cycle 1, exchanges the tail in cycle 3 and links in cycle 4. The tail is read in cycle 4 at the
//!   earliest, the links from cycle 7 on: the list is complete. Its first waiter needs no list and is answered before.
//!
//! **Limits.** `reads_in_flight` reads; as many waiters for a line as there are contexts. A bucket of the in-flight
//! table holds four reads; lines that are a multiple of 32 GiB apart share a bucket. The queues of landed reads cannot
//! overflow: each has a place for every read number. First answers go before those from lists, which lets lists wait,
//! but not for ever: their read numbers are not given back meanwhile, so that no more than `reads_in_flight` lines can
//! land. A read that is never answered keeps its number and its waiters.

use crate::prim::{
    Builder, Design, Fifo, FreeList, Ram, RamStyle, Record, Scrub, Signal, concat, input_channel, mux_record, or_all,
    output_channel, scrub, select_one_hot, select_tree,
};
use crate::record;
use crate::records::{LINE_HIGH_BITS, LINE_LOW_BITS, LineRequest, LineResponse, line_context_bits};
use keywalk_contract::Config;

/// Ways of the in-flight table.
const WAYS: u32 = 4;
/// Buckets for each read number. At most every sixteenth entry is open, so that a full bucket is rare (about 1 in 10^4
/// requests with all reads in flight) and does not limit the throughput.
const BUCKETS_PER_READ: u32 = 4;
/// Bits of a line address: 64-byte lines of a 64-bit address space.
const LINE_BITS: u32 = 58;
/// Lowest bits of a line address that choose its bucket: 32 GiB. The bits above come later in the cycle.
const HASHED_BITS: u32 = LINE_LOW_BITS;
/// Bits of an address within a line.
const OFFSET_BITS: u32 = 6;
/// Bits of a lane of the data bus and of the answer: one error bit for each.
const LANE_BITS: u32 = 128;
/// Lanes of a line.
const LANES: u32 = 4;
/// Bits of the level and the word of a request, which are returned unchanged.
const LEVEL_BITS: u32 = 2;
const WORD_BITS: u32 = 3;

/// Bits of a waiter's number: the client (1: MTR walker) above the context.
fn waiter_bits(config: &Config) -> u32 {
    1 + line_context_bits(config)
}

/// Bits of a bucket number.
fn bucket_bits(config: &Config) -> u32 {
    config.read_bits() + BUCKETS_PER_READ.trailing_zeros()
}

record! {
    /// A request in the pipe.
    struct Request(config) {
        /// Who waits.
        waiter: waiter_bits(config),
        /// Returned unchanged.
        level: LEVEL_BITS,
        /// Returned unchanged.
        word: WORD_BITS,
        /// Low bits of the line address.
        low: LINE_LOW_BITS,
        /// To be added to the high bits.
        carry: 1,
        /// High bits of the line address.
        high: LINE_HIGH_BITS,
    }
}

record! {
    /// An entry of the in-flight table.
    struct InFlight(config) {
        /// The entry is open where this differs from its close toggle.
        alloc_toggle: 1,
        /// Generation in which the read was issued.
        generation: 1,
        /// Line address without the bits that the bucket number gives back.
        line_high: LINE_BITS - bucket_bits(config),
        /// Read number.
        read: config.read_bits(),
    }
}

record! {
    /// What is known of a read when it is issued.
    struct Issued(config) {
        /// First waiter.
        waiter: waiter_bits(config),
        /// Bucket of its in-flight entry.
        bucket: bucket_bits(config),
        /// Way of its in-flight entry.
        way: WAYS.trailing_zeros(),
        /// The close toggle that closes the entry.
        close_toggle: 1,
    }
}

record! {
    /// The end of a read's list of waiters.
    struct Tail(config) {
        /// Last waiter.
        waiter: waiter_bits(config),
        /// There are several waiters.
        joined: 1,
    }
}

record! {
    /// Link of a waiter that joined.
    struct Link(config) {
        /// The waiter before it.
        waiter: waiter_bits(config),
        /// That one is the first.
        is_first: 1,
    }
}

record! {
    /// What a waiter asked for beside the line.
    struct Asked(_config) {
        /// Number of the read within its lookup or walk.
        level: LEVEL_BITS,
        /// Wanted word.
        word: WORD_BITS,
    }
}

record! {
    /// A landed read on its way to its list of waiters.
    struct Landed(config) {
        /// Read number.
        read: config.read_bits(),
    }
}

record! {
    /// A landed read with a list of waiters.
    struct List(config) {
        /// Read number.
        read: config.read_bits(),
        /// Last waiter.
        tail: waiter_bits(config),
    }
}

impl<'a> Request<Signal<'a>> {
    fn from_client(is_walk: bool, request: LineRequest<Signal<'a>>) -> Self {
        let client = request.context.builder().flag(is_walk);
        Self {
            waiter: client.concat(request.context),
            level: request.level,
            word: request.word,
            low: request.low,
            carry: request.carry,
            high: request.high,
        }
    }
}

/// The bucket of a line: slices of `bits` bits of its low bits in exclusive or. Lines a power of two apart spread over
/// all buckets, and the bits above the lowest slice together with the bucket determine the line.
fn hash(line: Signal<'_>, bits: u32) -> Signal<'_> {
    let slices = (0..HASHED_BITS.div_ceil(bits)).map(|slice| {
        let low = slice * bits;
        line.bits((low + bits).min(HASHED_BITS) - 1, low).resize(bits)
    });
    slices.reduce(|folded, slice| folded ^ slice).expect("a line has bits")
}

/// A beat of read data as it goes into the memory of landed lines.
struct ReadBeat<'a> {
    valid: Signal<'a>,
    read: Signal<'a>,
    last: Signal<'a>,
    error: Signal<'a>,
    /// Lanes of the bus.
    lanes: Vec<Signal<'a>>,
    /// For each beat of a line, whether this is that beat.
    is_beat: Vec<Signal<'a>>,
}

impl<'a> ReadBeat<'a> {
    /// The read channel. Where a line has several beats, they are counted per read, which takes a cycle.
    fn new(b: &'a Builder<'a>, config: &Config, scrub: &Scrub<'a>) -> Self {
        let beats = config.beats_per_line();
        let valid = b.input("rvalid", 1);
        let read = b.input("rid", config.read_bits());
        let last = b.input("rlast", 1);
        // Both error responses, SLVERR and DECERR, have the high bit set.
        let error = b.input("rresp", 2).bit(1);
        let lanes: Vec<_> = (0..LANES / beats).map(|lane| b.input(&format!("rdata_{lane}"), LANE_BITS)).collect();
        b.output("rready", b.flag(true));
        if beats == 1 {
            return Self { valid, read, last, error, lanes, is_beat: vec![b.flag(true)] };
        }
        let count_bits = beats.trailing_zeros();
        let counts = Ram::of_words(b, "beat_count", config.reads_in_flight, RamStyle::Distributed, count_bits);
        let beat_valid = valid.delay_reset("beat_valid");
        let beat_read = read.delay("beat_read");
        let beat_last = last.delay("beat_last");
        // The count of the beat before, if it is of the same read, is written while this one's is read.
        let follows = (beat_valid & read.eq(beat_read)).delay("beat_follows");
        let next_count = b.forward("beat_next_count", count_bits);
        let count = follows.mux(next_count.value.delay("beat_last_count"), counts.read_word(read, b.flag(true)));
        let count = count.named("beat_number");
        next_count.drive((!beat_last).repeat(count_bits) & (count + 1));
        counts.write_word(
            scrub.busy.mux(scrub.address.low_bits(config.read_bits()), beat_read),
            (!scrub.busy).repeat(count_bits) & next_count.value,
            scrub.busy | beat_valid,
        );
        Self {
            valid: beat_valid,
            read: beat_read,
            last: beat_last,
            error: error.delay("beat_error"),
            lanes: lanes.iter().enumerate().map(|(lane, data)| data.delay(&format!("beat_data_{lane}"))).collect(),
            is_beat: (0..beats).map(|beat| count.is(beat.into())).collect(),
        }
    }
}

/// The table-read port.
pub struct TablePort;

impl TablePort {
    /// Builds the module; gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let name = "table_port";
        let b = design.module(name);
        let read_bits = config.read_bits();
        let bucket_bits = bucket_bits(config);
        let waiter_bits = waiter_bits(config);
        let reads = config.reads_in_flight;
        let waiters = 1 << waiter_bits;
        let always = b.flag(true);

        let hem_valid = b.input("hem_request_valid", 1);
        let hem = Request::from_client(false, input_channel(b, "hem_request", LineRequest::widths(config)));
        let walk_valid = b.input("walk_request_valid", 1);
        let walk = Request::from_client(true, input_channel(b, "walk_request", LineRequest::widths(config)));
        let arready = b.input("arready", 1);

        let scrub = scrub(b, "scrub", bucket_bits, b.flag(false));
        let free = FreeList::new(design, b, "free_reads", read_bits);
        let ready = (!scrub.busy & free.ready).named("ready_after_scrub");
        b.output("ready", ready);

        // s0: selection. Each client's ready depends on the other one's valid, which is a register where it comes from: to
        // choose a cycle ahead would cost a cycle each time that a walk follows a lookup.
        let retry_valid = b.register_reset("retry_valid", 1, 0);
        let retry_is_elder = b.register_reset("retry_is_elder", 1, 0);
        let prefers_walk = b.register_reset("prefers_walk", 1, 0);
        let open = (ready & !retry_valid.value).named("open");
        let is_walk = (walk_valid & (prefers_walk.value | !hem_valid)).named("s0_is_walk");
        // The other one's turn comes once they have met.
        prefers_walk.next(prefers_walk.value ^ (hem_valid & walk_valid & open));
        b.output("hem_request_ready", open & !is_walk);
        b.output("walk_request_ready", open & is_walk);
        let retry_registers = Request::widths(config).list().into_iter();
        let retry_registers: Vec<_> =
            retry_registers.map(|(field, width)| b.register(&format!("retry_{field}"), width)).collect();
        let mut retry_values = retry_registers.iter().map(|register| register.value);
        let retry = Request::widths(config).map(&mut |_, _| retry_values.next().expect("one register per field"));
        let s0 = mux_record(retry_valid.value, retry, mux_record(is_walk, walk, hem));
        let s0_bucket = hash(s0.low, bucket_bits).named("s0_bucket");
        // The carry has a place of its own in the chain, so that a LUT of the select is in front of it, as for all others.
        let high = s0.high.concat(s0.carry) + 1;
        let s0_line = high.high_bits(LINE_HIGH_BITS).concat(s0.low).named("s0_line");

        // s1: comparison and decision.
        let generation = b.input("generation", 1).delay("s1_generation");
        let asks_hem = hem_valid & !b.input("cancel_hem_request", 1);
        let is_asked = ready & (is_walk | asks_hem);
        let s1_valid = (retry_valid.value | is_asked).delay_reset("s1_valid");
        // While no read is open and nothing is on its way there is nothing to compare with: the read is offered at once.
        let s2_issued = b.register_reset("s2_issued", 1, 0);
        let open_reads = b.register_reset("open_reads", read_bits + 1, 0);
        let ar_valid = b.register_reset("ar_valid", 1, 0);
        let has_open = b.register_reset("has_open", 1, 0);
        let is_empty = !(has_open.value | s1_valid | s2_issued.value | ar_valid.value | retry_valid.value);
        let is_quiet = (is_empty & free.valid).named("is_quiet");
        let offers_early = (is_quiet & is_asked).named("offers_early");
        let s1_is_offered = offers_early.delay_reset("s1_is_offered");
        let s1_is_elder = retry_is_elder.value.delay_reset("s1_is_elder");
        let s1_line = s0_line.delay("s1_line");
        let s1 = Request {
            waiter: s0.waiter.delay("s1_waiter"),
            level: s0.level.delay("s1_level"),
            word: s0.word.delay("s1_word"),
            low: s1_line.low_bits(LINE_LOW_BITS),
            carry: b.flag(false),
            high: s1_line.high_bits(LINE_HIGH_BITS),
        };
        let s1_bucket = s0_bucket.delay("s1_bucket");
        for (register, (_, signal)) in retry_registers.iter().zip(s1.list()) {
            register.next(signal);
        }
        let s1_line_high = s1_line.high_bits(LINE_BITS - bucket_bits);
        let table: Vec<_> = (0..WAYS)
            .map(|way| {
                let name = format!("in_flight_{way}");
                Ram::new(b, &name, 1 << bucket_bits, RamStyle::for_depth(1 << bucket_bits), InFlight::widths(config))
            })
            .collect();
        let close_toggles: Vec<_> = (0..WAYS)
            .map(|way| {
                let style = RamStyle::for_depth(1 << bucket_bits);
                Ram::of_words(b, &format!("close_toggle_{way}"), 1 << bucket_bits, style, 1)
            })
            .collect();
        let entries: Vec<_> = table.iter().map(|way| way.read(s0_bucket, always)).collect();
        let closed: Vec<_> = close_toggles.iter().map(|way| way.read_word(s0_bucket, always)).collect();

        // What the request before has issued, which this one did not see in the table.
        let ar_line = b.register("ar_line", LINE_BITS);
        let ar_generation = b.register("ar_generation", 1);
        let same_line = concat(&[s2_issued.value, ar_generation.value, ar_line.value])
            .eq_wide(concat(&[always, generation, s1_line]))
            .named("s1_same_line");
        let s2_bucket = s1_bucket.delay("s2_bucket");
        let same_bucket = s2_issued.value.concat(s2_bucket);
        let same_bucket = same_bucket.eq_wide(always.concat(s1_bucket)).named("s1_same_bucket");
        let matches: Vec<_> = entries
            .iter()
            .zip(&closed)
            .enumerate()
            .map(|(way, (entry, closed))| {
                let is_open = entry.alloc_toggle ^ *closed;
                entry
                    .line_high
                    .concat(entry.generation)
                    .eq_wide_and(s1_line_high.concat(generation), is_open)
                    .named(&format!("s1_match_{way}"))
            })
            .collect();
        let copies: Vec<_> = entries.iter().map(|entry| entry.alloc_toggle).collect();
        let vacant: Vec<_> = copies.iter().zip(&closed).map(|(copy, closed)| copy.eq(*closed)).collect();
        // All four are occupied: a carry chain, straight off the memories.
        let occupied = concat(&copies) ^ concat(&closed);
        let full = occupied.add_wide(b.literal(1, WAYS)).bit(WAYS).named("s1_full");
        // The first vacant way; the last one unless the bucket is full, where nothing is issued.
        let lower = |way: usize| or_all(&vacant[..way]);
        let chosen = [vacant[0], vacant[1] & !lower(1), vacant[2] & !lower(2), !lower(3)];
        let is_matched = or_all(&matches);
        let ar_open = (!ar_valid.value | arready).named("ar_open");
        // What comes from registers first, then what comes from the memories and through carry chains. A request that is
        // offered early has no read before it.
        let may_offer = s1_is_offered | (s1_valid & free.valid & ar_open & !retry_is_elder.value);
        let is_clear = !(same_line | same_bucket | full);
        let issue = (may_offer & is_clear & !or_all(&matches)).named("s1_issue");
        let join = ((s1_valid & same_line) | (s1_valid & is_matched)).named("s1_join");
        // Neither found nor issued, with what comes from registers apart from what does not.
        let may_fail = s1_valid & !same_line;
        let is_barred = !may_offer | same_bucket | full;
        let may_be_elder = may_fail & (s1_is_elder | !retry_is_elder.value);
        retry_valid.next(may_fail & is_barred & !is_matched);
        retry_is_elder.next(may_be_elder & is_barred & !is_matched);
        free.take(issue);
        ar_valid.next(offers_early | (issue & !s1_is_offered) | (ar_valid.value & !arready));
        ar_line.next_if(ar_open, is_quiet.mux(s0_line, s1_line));
        ar_generation.next_if(ar_open, generation);
        let ar_id = free.number.hold("ar_id", ar_open);
        b.output("arvalid", ar_valid.value);
        b.output("araddr", ar_line.value.concat(b.literal(0, OFFSET_BITS)));
        b.output("arid", ar_id);
        b.output("arlen", b.literal((config.beats_per_line() - 1).into(), 8));

        let table_address = scrub.busy.mux(scrub.address, s1_bucket);
        for (way, memory) in table.iter().enumerate() {
            let alloc_toggle = !scrub.busy & !closed[way];
            let entry = InFlight { alloc_toggle, generation, line_high: s1_line_high, read: free.number };
            memory.write(table_address, entry, scrub.busy | (issue & chosen[way]));
        }
        let issued_memory = Ram::new(b, "issued", reads, RamStyle::for_depth(reads), Issued::widths(config));
        // Written at once, because a read that is offered early may land in the next cycle.
        let toggles: Vec<_> = closed.iter().zip(&chosen).map(|(closed, chosen)| *chosen & !*closed).collect();
        let issued = Issued {
            waiter: s1.waiter,
            bucket: s1_bucket,
            way: (chosen[2] | chosen[3]).concat(chosen[1] | chosen[3]).named("s1_way"),
            close_toggle: or_all(&toggles),
        };
        issued_memory.write(free.number, issued, issue);
        // Whose read it is: apart, because block RAM is slow.
        let walks = Ram::of_words(b, "is_walk", reads, RamStyle::Distributed, 1);
        walks.write_word(free.number, s1.waiter.bit(waiter_bits - 1), issue);
        // A request that fails writes the same again when it returns.
        let asked_memory = Ram::new(b, "asked", waiters, RamStyle::for_depth(waiters), Asked::widths(config));
        asked_memory.write(s1.waiter, Asked { level: s1.level, word: s1.word }, s1_valid);

        // s2: the read, new or joined, and its tail.
        s2_issued.next(issue);
        let s2_new_read = free.number.delay("s2_new_read");
        let s2_joined = join.delay_reset("s2_joined");
        let s2_waiter = s1.waiter.delay("s2_waiter");
        let s3_read = b.register("s3_read", read_bits);
        let mut reads_of_ways: Vec<_> = matches
            .iter()
            .zip(&entries)
            .enumerate()
            .map(|(way, (matching, entry))| {
                (matching.delay(&format!("s2_match_{way}")), entry.read.delay(&format!("s2_read_{way}")))
            })
            .collect();
        reads_of_ways.push((same_line.delay("s2_same_line"), s3_read.value));
        reads_of_ways.push((s2_issued.value, s2_new_read));
        let s2_read = select_one_hot(&reads_of_ways).named("s2_read");
        s3_read.next(s2_read);
        let tails = Ram::new(b, "tail", reads, RamStyle::Distributed, Tail::widths(config));
        let old_tail = tails.read(s2_read, always);
        tails.write(s2_read, Tail { waiter: s2_waiter, joined: s2_joined }, s2_issued.value | s2_joined);
        b.output("event_read", s2_issued.value);
        b.output("event_merged", s2_joined);

        // s3: the link to the waiter before.
        let links = Ram::new(b, "link", waiters, RamStyle::for_depth(waiters), Link::widths(config));
        let link = Link { waiter: old_tail.waiter, is_first: !old_tail.joined };
        links.write(s2_waiter.delay("s3_waiter"), link, s2_joined.delay_reset("s3_joined"));

        // Landing: the line into its place; the entry is closed in the next cycle.
        let beat = ReadBeat::new(b, config, &scrub);
        let landed = (beat.valid & beat.last).named("landed");
        let fresh = landed.delay_reset("fresh_valid");
        let fresh_read = beat.read.delay("fresh_read");
        let count_bits = open_reads.value.width();
        let open_next = open_reads.value + s2_issued.value.resize(count_bits) - fresh.resize(count_bits);
        open_reads.next(open_next);
        has_open.next(open_next.any());
        let fresh_issued = issued_memory.read(beat.read, always);
        for (memory, way) in close_toggles.iter().zip(0u128..) {
            memory.write_word(
                scrub.busy.mux(scrub.address, fresh_issued.bucket),
                !scrub.busy & fresh_issued.close_toggle,
                scrub.busy | (fresh & fresh_issued.way.is(way)),
            );
        }

        // The landed reads wait until their lists are complete. Then they give their number back or, if there is a
        // list, line up once more: for the links to be followed, where no line has just landed.
        let (queue, landed_read) = Fifo::new(design, b, "landed_reads", reads, Landed::widths(config));
        queue.push(fresh.delay_reset("queued_valid"), Landed { read: fresh_read.delay("queued_read") });
        let tail_valid = b.register_reset("tail_valid", 1, 0);
        let tail_pop = b.forward("tail_pop", 1);
        let tail_load = (landed_read.out_valid & tail_pop.value).named("tail_load");
        queue.pop(tail_pop.value);
        let tail_read = landed_read.out.read.hold("tail_read", tail_load);
        let tail = tails.read(landed_read.out.read, tail_load);
        let (lists, list) = Fifo::new(design, b, "lists", reads, List::widths(config));
        lists.push(tail_valid.value & tail.joined, List { read: tail_read, tail: tail.waiter });

        let list_valid = b.register_reset("list_valid", 1, 0);
        let link_address = b.forward("link_address", waiter_bits);
        let link = links.read(link_address.value, !fresh);
        let list_active = (list_valid.value & !link.is_first).named("list_active");
        let list_end = (list_valid.value & link.is_first).named("list_end");
        let list_pop = (!list_active & !fresh).named("list_pop");
        lists.pop(list_pop);
        let list_read = list.out.read.hold("list_read", list_pop);
        link_address.drive(list_active.mux(link.waiter, list.out.tail));
        list_valid.next(list_active | (list.out_valid & !fresh));
        // A cycle later, to keep the memory's output out of the queue's pop.
        let list_done = list_end.delay_reset("list_done");
        let list_done_read = list_read.delay("list_done_read");
        tail_pop.drive(!tail_valid.value | tail.joined | !list_done);
        tail_valid.next(landed_read.out_valid | (tail_valid.value & !tail_pop.value));
        let give = list_done | (tail_valid.value & !tail.joined);
        free.give(give, list_done.mux(list_done_read, tail_read));

        // The answer: the first waiter of a line that has just landed, or the next one of a list.
        let answer_read = fresh.mux(fresh_read, list_active.mux(list_read, list.out.read)).named("answer_read");
        let answer_waiter = fresh.mux(fresh_issued.waiter, link_address.value).named("answer_waiter");
        let sources = [
            (fresh, fresh_issued.waiter),
            (list_active & !fresh, link.waiter),
            (list.out_valid & list_pop, list.out.tail),
        ];
        for (client, is_walk) in [("hem", false), ("walk", true)] {
            let of_client = sources.map(|(valid, waiter)| valid & waiter.bit(waiter_bits - 1).eq(b.flag(is_walk)));
            b.output(
                &format!("{client}_line_valid"),
                or_all(&of_client).delay_reset(&format!("{client}_line_valid_q")),
            );
        }
        let lanes_per_beat = beat.lanes.len();
        let data: Vec<_> = (0..LANES as usize)
            .map(|lane| {
                let memory = Ram::of_words(b, &format!("line_{lane}"), reads, RamStyle::for_depth(reads), LANE_BITS);
                let enable = beat.valid & beat.is_beat[lane / lanes_per_beat];
                memory.write_word(beat.read, beat.lanes[lane % lanes_per_beat], enable);
                memory.read_word(answer_read, always)
            })
            .collect();
        let errors: Vec<_> = beat
            .is_beat
            .iter()
            .enumerate()
            .map(|(number, is_beat)| {
                let memory = Ram::of_words(b, &format!("error_{number}"), reads, RamStyle::for_depth(reads), 1);
                memory.write_word(beat.read, beat.error, beat.valid & *is_beat);
                memory.read_word(answer_read, always)
            })
            .collect();
        let error = errors.iter().map(|error| error.repeat(lanes_per_beat as u32));
        let error = error.reduce(|low, high| high.concat(low)).expect("a line has beats").named("line_error_bits");
        let asked = asked_memory.read(answer_waiter, always);
        let fresh_is_walk = walks.read_word(beat.read, always);
        let is_list = list_valid.value | list.out_valid;
        b.output("early_hem_line", fresh.mux(!fresh_is_walk, is_list));
        b.output("early_walk_line", fresh.mux(fresh_is_walk, is_list));
        b.output("early_context", answer_waiter.low_bits(waiter_bits - 1));
        let halves: Vec<_> = data.iter().flat_map(|lane| [lane.low_bits(64), lane.high_bits(64)]).collect();
        let quarter_errors: Vec<_> = (0..LANES).map(|quarter| error.bit(quarter)).collect();
        let response = LineResponse {
            context: answer_waiter.low_bits(waiter_bits - 1).delay("line_context_q"),
            level: asked.level,
            word: asked.word,
            is_first: fresh.delay("line_is_first_q"),
            value: select_tree(asked.word, &halves).named("line_value_selected"),
            value_error: select_tree(asked.word.high_bits(2), &quarter_errors),
            error: error.any(),
            errors: error,
            data_0: data[0],
            data_1: data[1],
            data_2: data[2],
            data_3: data[3],
        };
        output_channel(b, "line", response);
        b.output("event_error", (fresh.delay_reset("fresh_answered") & error.any()).delay_reset("event_error_q"));

        let used = b.register_reset("used_reads", read_bits + 1, 0);
        used.next(used.value + s2_issued.value.resize(read_bits + 1) - give.resize(read_bits + 1));
        b.output("idle", !s1_valid & !retry_valid.value & !s2_issued.value & used.value.none());
        name.into()
    }
}
