//! Mailbox commands and work requests: what the driver tells the engine about its tables.
//!
//! **Purpose.** Carries out what the driver asks for by registers and by work requests, one after the other, each as a whole: a
//! program in a ROM, run by a machine of one accumulator, which has the ports of the core for its hands.
//!
//! **Handshake.** `axil_*` is the host's AXI4-Lite port; what is not for the unit goes on to `core_axil_*`. A work request stays at
//! `work_request` until its answer is at `work_response`. `lookup_*`, `fence_*` and `read_*` are held until ready, one of each at a
//! time; `found_valid`, `fenced_valid` and `line_valid` are taken at once. On `tbl_*` one write is in flight; address and data are
//! offered together, and taken in any order.
//!
//! **Latency and throughput.** Five cycles for an instruction. How long a command or work request takes depends on the size of the
//! context, on reads, writes and the fence, and not on the size of a region: the longest of the tests, with stalls and a slow memory,
//! takes less than 60 000 cycles. Mailbox and work requests take turns.
//!
//! **Timing.** Every stage of an instruction ends in a register: ROM, address, memory or port, operand, sum. The longest path is
//! the choice of one of 64 ports.
//!
//! **Reset and flush.** Synchronous reset: mailbox, staged registers and whatever is under way are forgotten; a line that is being
//! written may have been written or not. Commands wait until the copy of the tables' geometry is scrubbed.
//!
//! **Hazards.** Memory is written first, then the fence comes, then the answer: what was found before the write may be used until
//! the answer, and not after it. The core's registers that a command of base addresses stages are put back before the host reaches
//! them again. Of several writes those that were made before one failed are taken back.
//!
//! **Limits.** Contexts of 64 to 512 bytes. A command of base addresses or geometry fences all of its function. `status.idle` does not tell of
//! a command. Nobody else may write the lines that commands and work requests change while they are under way.

use crate::command_machine::{self, PORT_BITS, WORD_BITS};
use crate::command_program::{self, action, output, port};
use crate::function_map::FunctionMap;
use crate::prim::{
    Builder, Design, Ram, RamStyle, Rom, Signal, concat, input_channel, or_all, output_channel, scrub,
    select_by_number, select_tree,
};
use crate::records::GeometryWrite;
use keywalk_contract::command::{DATA_WORDS, Opcode, REGISTERS, REGISTERS_OFFSET, command_start, post_mailbox};
use keywalk_contract::{Config, Field, key, regs};

/// Bits of a register.
const DATA_BITS: u32 = 32;
/// The unit's registers are those whose address has this in its upper bits.
const PAGE_BITS: u32 = 7;
const _: () = assert!(REGISTERS_OFFSET == 1 << PAGE_BITS && 4 * REGISTERS.len() < 1 << PAGE_BITS, "a page of its own");

crate::record! {
    /// A work request as it comes from its port.
    pub struct WorkRequest(config) {
        /// See the port.
        tag: config.tag_bits,
        /// See the port.
        function: config.function_bits,
        /// See the port.
        privileged: 1,
        /// See the port.
        pd: 24,
        /// See the port.
        qpn: 24,
        /// See the port.
        wqe_0: 64,
        /// See the port.
        wqe_1: 64,
        /// See the port.
        wqe_2: 64,
        /// See the port.
        wqe_3: 64,
        /// See the port.
        wqe_4: 64,
        /// See the port.
        wqe_5: 64,
        /// See the port.
        wqe_6: 64,
        /// See the port.
        wqe_7: 64,
    }
}

crate::record! {
    /// The answer to a work request.
    pub struct WorkResponse(config) {
        /// See the port.
        tag: config.tag_bits,
        /// See the port.
        function: config.function_bits,
        /// See the port.
        status: 8,
        /// See the port.
        cqe_code: 8,
    }
}

/// Number of a register's word within the unit's page.
fn is_word(address: Signal<'_>, number: usize) -> Signal<'_> {
    address.bits(PAGE_BITS - 1, 2).is(number as u128)
}

/// The address is one of the unit's page.
fn is_own(address: Signal<'_>) -> Signal<'_> {
    address.high_bits(regs::ADDRESS_BITS - PAGE_BITS).is(1)
}

/// An access to the core's registers that the sequencer makes.
struct Access<'a> {
    write: Signal<'a>,
    read: Signal<'a>,
    address: Signal<'a>,
    data: Signal<'a>,
}

/// What the host's accesses give to the sequencer.
struct Lite<'a> {
    /// A command was taken in the cycle before: POST_MB, CFG_BT_ATTR.
    posted: Signal<'a>,
    configured: Signal<'a>,
    /// One of them is being taken.
    takes_command: Signal<'a>,
    /// Its dwords and function.
    words: Vec<Signal<'a>>,
    function: Signal<'a>,
    /// No access of the host is under way at the core.
    quiet: Signal<'a>,
    /// The sequencer's access is done.
    done: Signal<'a>,
    read_data: Signal<'a>,
}

/// State of the mailbox that the host reads.
struct Mailbox<'a> {
    busy: Signal<'a>,
    status: Signal<'a>,
    token: Signal<'a>,
    /// The core's registers are the sequencer's.
    lock: Signal<'a>,
}

/// A full flag with what it holds.
fn hold_channel<'a>(
    b: &'a Builder<'a>,
    name: &str,
    parts: &[(&str, u32)],
    go: Signal<'a>,
) -> (Signal<'a>, Vec<Signal<'a>>) {
    let valid = b.input(&format!("axil_{name}valid"), 1);
    let full = b.register_reset(&format!("{name}_full"), 1, 0);
    let take = valid & !full.value;
    full.next((full.value | valid) & !go);
    b.output(&format!("axil_{name}ready"), !full.value);
    let held =
        parts.iter().map(|(part, width)| b.input(&format!("axil_{part}"), *width).hold(&format!("{part}_q"), take));
    (full.value, held.collect())
}

fn registers<'a>(b: &'a Builder<'a>, mailbox: &Mailbox<'a>, access: &Access<'a>) -> Lite<'a> {
    // Writes of the host.
    let go = b.forward("write_go", 1);
    let (aw_full, address) = hold_channel(b, "aw", &[("awaddr", regs::ADDRESS_BITS)], go.value);
    let (w_full, data) = hold_channel(b, "w", &[("wdata", DATA_BITS), ("wstrb", 4)], go.value);
    let (address, data, strobes) = (address[0], data[0], data[1]);
    let own = is_own(address).delay("write_is_own");
    let aw_settled = aw_full & aw_full.delay_reset("write_is_settled");
    let settled = (aw_settled & w_full & w_full.delay_reset("write_data_is_settled")).named("write_settled");
    // The next write of the host waits until the one before is answered.
    let host_waits = b.register_reset("host_write_waits", 1, 0);
    let b_valid = b.register_reset("b_valid", 1, 0);
    let b_error = b.register("b_error", 1);
    let may_go = (settled & !b_valid.value & !host_waits.value).named("write_may_go");
    let own_go = (may_go & own).named("own_write");

    let staged: Vec<_> = (0..DATA_WORDS)
        .map(|number| {
            let named = is_word(address, number).delay(&format!("write_names_{number}"));
            let bytes: Vec<_> = (0..4)
                .rev()
                .map(|byte| {
                    let register = b.register_reset(&format!("staged_{number}_{byte}"), 8, 0);
                    register.next_if(own_go & named & strobes.bit(byte), data.bits(8 * byte + 7, 8 * byte));
                    register.value
                })
                .collect();
            concat(&bytes)
        })
        .collect();
    let is_start = is_word(address, DATA_WORDS).delay("write_names_start") & strobes.any();
    let field = |field: Field| data.bits(field.high(), field.low);
    let is_opcode =
        |name: &str, opcode: Opcode| field(command_start::OPCODE).is(opcode as u128).delay(&format!("names_{name}"));
    let start = own_go & is_start & !mailbox.busy;
    let posted = (start & is_opcode("post", Opcode::PostMailbox)).named("takes_mailbox_command");
    let configured = (start & is_opcode("configure", Opcode::ConfigureBtAttribute)).named("takes_configuration");
    let is_known = is_word(address, REGISTERS.len() - 2) | is_word(address, REGISTERS.len() - 1);
    let is_known = (address.bits(PAGE_BITS - 1, 2).lt(b.literal(DATA_WORDS as u128 + 1, PAGE_BITS - 2)) | is_known)
        .delay("write_names_register");
    let own_error = !is_known | (is_start & !posted & !configured);

    // Writes to the core.
    let core_busy = b.register_reset("core_write_busy", 1, 0);
    let core_of_unit = b.register("core_write_of_unit", 1);
    let host_go = (may_go & !own & !core_busy.value & !mailbox.lock).named("forwarded_write");
    let starts = (host_go | access.write).named("core_write_starts");
    let core_valid = b.input("core_axil_bvalid", 1);
    let core_ends = (core_busy.value & core_valid).named("core_write_ends");
    core_busy.next(starts | (core_busy.value & !core_ends));
    core_of_unit.next_if(starts, access.write);
    for (name, ready) in [("aw", "core_axil_awready"), ("w", "core_axil_wready")] {
        let valid = b.register_reset(&format!("core_{name}_valid"), 1, 0);
        valid.next(starts | (valid.value & !b.input(ready, 1)));
        b.output(&format!("core_axil_{name}valid"), valid.value);
    }
    let ones = b.literal(0xf, 4);
    for (name, of_unit, of_host) in
        [("awaddr", access.address, address), ("wdata", access.data, data), ("wstrb", ones, strobes)]
    {
        b.output(
            &format!("core_axil_{name}"),
            access.write.mux(of_unit, of_host).hold(&format!("core_{name}"), starts),
        );
    }
    b.output("core_axil_bready", core_busy.value);
    let core_error = b.input("core_axil_bresp", 2).bit(1);

    go.drive(own_go | host_go);
    let host_ends = core_ends & !core_of_unit.value;
    let answers = own_go | host_ends;
    host_waits.next(host_go | (host_waits.value & !host_ends));
    b_valid.next(answers | (b_valid.value & !b.input("axil_bready", 1)));
    b_error.next_if(answers, host_ends.mux(core_error, own_error));
    b.output("axil_bvalid", b_valid.value);
    b.output("axil_bresp", b_error.value.concat(b.flag(false)));

    // Reads.
    let read_go = b.forward("read_go", 1);
    let (ar_full, address) = hold_channel(b, "ar", &[("araddr", regs::ADDRESS_BITS)], read_go.value);
    let address = address[0];
    let r_valid = b.register_reset("r_valid", 1, 0);
    let reads_own = is_own(address).delay("read_is_own");
    let host_read_waits = b.register_reset("host_read_waits", 1, 0);
    let ar_settled = ar_full & ar_full.delay_reset("read_is_settled");
    let settled = (ar_settled & !r_valid.value & !host_read_waits.value).named("read_settled");
    let core_read_busy = b.register_reset("core_read_busy", 1, 0);
    let core_read_of_unit = b.register("core_read_of_unit", 1);
    let own_read = (settled & reads_own).named("own_read");
    let host_read = (settled & !reads_own & !core_read_busy.value & !mailbox.lock).named("forwarded_read");
    let starts = (host_read | access.read).named("core_read_starts");
    let core_valid = b.input("core_axil_rvalid", 1);
    let core_read_ends = (core_read_busy.value & core_valid).named("core_read_ends");
    core_read_busy.next(starts | (core_read_busy.value & !core_read_ends));
    core_read_of_unit.next_if(starts, access.read);
    let ar_valid = b.register_reset("core_ar_valid", 1, 0);
    ar_valid.next(starts | (ar_valid.value & !b.input("core_axil_arready", 1)));
    b.output("core_axil_arvalid", ar_valid.value);
    b.output("core_axil_araddr", access.read.mux(access.address, address).hold("core_araddr", starts));
    b.output("core_axil_rready", core_read_busy.value);
    let core_data = b.input("core_axil_rdata", DATA_BITS);
    let core_read_error = b.input("core_axil_rresp", 2).bit(1);
    let status = mailbox.busy.concat(b.literal(0, 23)).concat(mailbox.status);
    let words = staged.iter().copied().chain([b.literal(0, DATA_BITS), status, mailbox.token.resize(DATA_BITS)]);
    let words: Vec<_> =
        words.enumerate().map(|(number, word)| is_word(address, number).repeat(DATA_BITS) & word).collect();
    let word = or_all(&words).delay("own_word");
    let is_known = address.bits(PAGE_BITS - 1, 2).lt(b.literal(REGISTERS.len() as u128, PAGE_BITS - 2));
    let is_known = is_known.delay("read_names_register");
    let host_read_ends = core_read_ends & !core_read_of_unit.value;
    host_read_waits.next(host_read | (host_read_waits.value & !host_read_ends));
    let answers = own_read | host_read_ends;
    read_go.drive(own_read | host_read);
    r_valid.next(answers | (r_valid.value & !b.input("axil_rready", 1)));
    b.output("axil_rvalid", r_valid.value);
    b.output("axil_rdata", host_read_ends.mux(core_data, word).hold("r_data", answers));
    let error = host_read_ends.mux(core_read_error, !is_known).hold("r_error", answers);
    b.output("axil_rresp", error.concat(b.flag(false)));

    let taken = posted | configured;
    let quiet = !core_busy.value & !core_read_busy.value;
    Lite {
        takes_command: taken,
        posted: posted.delay_reset("mailbox_posted"),
        configured: configured.delay_reset("configuration_posted"),
        words: staged.iter().enumerate().map(|(number, word)| word.hold(&format!("posted_{number}"), taken)).collect(),
        function: field(command_start::FUNCTION).hold("posted_function", taken),
        quiet,
        done: ((core_ends & core_of_unit.value) | (core_read_ends & core_read_of_unit.value)).named("access_done"),
        read_data: core_data,
    }
}

/// Actions of the sequencer that last until something outside has answered: `begins` starts it, `ends` ends it; gives whether
/// it is under way.
fn under_way<'a>(b: &'a Builder<'a>, name: &str, begins: Signal<'a>, ends: Signal<'a>) -> Signal<'a> {
    let register = b.register_reset(name, 1, 0);
    register.next(begins | (register.value & !ends));
    register.value
}

/// The block.
pub struct CommandUnit;

impl CommandUnit {
    /// Builds the module; gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let name = "command_unit";
        let b = design.module(name);
        let beats = config.beats_per_line();
        let lanes = config.table_data_bits / 128;

        let port_word = b.forward("port_word_wire", WORD_BITS);
        let done = b.forward("action_done", 1);
        let program = command_program::program(config);
        let machine = command_machine::machine(b, &program, port_word.value, done.value);
        let acts = |number: u32| machine.acts & machine.number.is(number.into());
        let output = |name: &str, number: u32, width: u32| {
            let takes = machine.outputs & machine.number.is(number.into());
            machine.word.low_bits(width).hold(name, takes)
        };
        let function = output("function", output::FUNCTION, config.function_bits);
        let table = output("table", output::TABLE, 3);
        let address =
            output("address_high", output::ADDRESS_HIGH, 32).concat(output("address_low", output::ADDRESS_LOW, 32));
        let status = output("answer_status", output::STATUS, 8);
        let lock = b.register_reset("lock", 1, 0);
        let sets_lock = machine.outputs & machine.number.is(output::LOCK.into());
        lock.next_if(sets_lock, machine.word.bit(0));

        // The registers.
        let ends_mailbox = acts(action::END_MAILBOX);
        let ends_configuration = acts(action::END_CONFIGURATION);
        let busy = b.register_reset("mailbox_busy", 1, 0);
        let mailbox_status = b.register_reset("mailbox_status", 8, 0);
        let token = b.register_reset("mailbox_token", 16, 0);
        let mailbox = Mailbox { busy: busy.value, status: mailbox_status.value, token: token.value, lock: lock.value };
        let access = Access {
            write: acts(action::WRITE_REGISTER),
            read: acts(action::READ_REGISTER),
            address: output("register_address", output::REGISTER_ADDRESS, regs::ADDRESS_BITS),
            data: output("register_data", output::REGISTER, 32),
        };
        let lite = registers(b, &mailbox, &access);
        busy.next(lite.takes_command | (busy.value & !ends_mailbox & !ends_configuration));
        mailbox_status.next_if(ends_mailbox, status);
        let field = |field: Field| lite.words[(field.low / 32) as usize].bits(field.high() % 32, field.low % 32);
        token.next_if(ends_mailbox, field(post_mailbox::TOKEN));
        b.output("command_done", (ends_mailbox & field(post_mailbox::EVENT_EN)).delay_reset("command_done_q"));
        let configuration = b.register_reset("configuration_waits", 1, 0);
        configuration.next(lite.configured | (configuration.value & !ends_configuration));
        let mailbox_waits = under_way(b, "mailbox_waits", lite.posted, ends_mailbox);

        // Work requests: one stays at the port until its answer has been formed.
        let work_valid = b.input("work_request_valid", 1);
        let request = input_channel(b, "work_request", WorkRequest::widths(config));
        let ends_work = acts(action::END_WORK);
        let answered = b.input("work_response_ready", 1);
        let answers = under_way(b, "work_answers", ends_work, answered);
        b.output("work_request_ready", answers & !answers.delay_reset("work_answers_q"));
        b.output("work_response_valid", answers);
        let response = WorkResponse {
            tag: request.tag.hold("answer_tag", ends_work),
            function: request.function.hold("answer_function", ends_work),
            status: status.hold("work_status", ends_work),
            cqe_code: output("cqe_code", output::CQE_CODE, 8).hold("work_cqe_code", ends_work),
        };
        output_channel(b, "work_response", response);

        // Lookups and fences.
        let lookup_ready = b.input("lookup_ready", 1);
        let found = b.input("found_valid", 1);
        b.output("lookup_valid", under_way(b, "lookup_is_offered", acts(action::LOOKUP), lookup_ready));
        b.output("lookup_function", function);
        b.output("lookup_table", table);
        b.output("lookup_index", output("index", output::INDEX, 32));
        let found_status = b.input("found_status", 8).hold("found_status_q", found);
        let found_address = b.input("found_address", 64).hold("found_address_q", found);
        let fence_ready = b.input("fence_ready", 1);
        let fenced = b.input("fenced_valid", 1);
        b.output("fence_valid", under_way(b, "fence_is_offered", acts(action::FENCE), fence_ready));
        b.output("fence_function", function);
        b.output("fence_scope", output("scope", output::SCOPE, 3));
        b.output("fence_key", output("fence_key_q", output::FENCE_KEY, key::KEY_BITS));

        // Reads.
        let read_ready = b.input("read_ready", 1);
        b.output("read_valid", under_way(b, "read_is_offered", acts(action::READ), read_ready));
        b.output("read_address", address);
        let line_valid = b.input("line_valid", 1);
        let line_last = b.input("line_last", 1);
        let line_error = b.input("line_resp", 2).bit(1);
        let beat_bits = beats.trailing_zeros().max(1);
        let read_beat = b.register_reset("read_beat", beat_bits, 0);
        let next_beat = line_last.mux(b.literal(0, beat_bits), read_beat.value + 1);
        read_beat.next_if(line_valid, next_beat);
        let line_lanes: Vec<_> = (0..lanes).map(|lane| b.input(&format!("line_data_{lane}"), 128)).collect();
        let line: Vec<_> = (0..4u32)
            .map(|quarter| {
                let is_beat = read_beat.value.is((quarter / lanes).into()) & line_valid;
                line_lanes[(quarter % lanes) as usize].hold(&format!("line_{quarter}"), is_beat)
            })
            .collect();
        let lands = (line_valid & line_last).named("line_lands");

        // Writes.
        let writes = acts(action::WRITE);
        let address_ready = b.input("tbl_awready", 1);
        b.output("tbl_awvalid", under_way(b, "write_is_offered", writes, address_ready));
        b.output("tbl_awaddr", address);
        let data_ready = b.input("tbl_wready", 1);
        let write_beat = b.register_reset("write_beat", beat_bits, 0);
        let is_last = if beats == 1 { b.flag(true) } else { write_beat.value.is((beats - 1).into()) };
        let data_valid = under_way(b, "data_is_offered", writes, data_ready & is_last);
        let sent = data_valid & data_ready;
        write_beat.next_if(sent, is_last.mux(b.literal(0, beat_bits), write_beat.value + 1));
        b.output("tbl_wvalid", data_valid);
        b.output("tbl_wlast", is_last);
        let written: Vec<_> =
            (0..16u32).map(|word| output(&format!("write_word_{word}"), output::LINE + word, 32)).collect();
        let quarters: Vec<_> =
            written.chunks(4).map(|words| words[3].concat(words[2]).concat(words[1]).concat(words[0])).collect();
        for lane in 0..lanes {
            let choices: Vec<_> = (0..beats).map(|beat| quarters[(beat * lanes + lane) as usize]).collect();
            let word = if beats == 1 { choices[0] } else { select_tree(write_beat.value, &choices) };
            b.output(&format!("tbl_wdata_{lane}"), word);
        }
        b.output("tbl_bready", b.flag(true));
        let write_answered = b.input("tbl_bvalid", 1);
        let write_error = b.input("tbl_bresp", 2).bit(1);
        let error = b.register_reset("bus_error", 1, 0);
        let begins = writes | acts(action::READ);
        let fails = (write_answered & write_error) | (line_valid & line_error);
        error.next(fails | (error.value & !begins));

        // What the core was told of its tables.
        let map = FunctionMap::new(b, config);
        let table_set = map.table_set(config, function);
        let select = |name: &str, width: u32| {
            let values: Vec<_> = (0..config.table_sets).map(|set| b.input(&format!("{name}_{set}"), width)).collect();
            select_by_number(&values, table_set)
        };
        let mpt_mask = select("mpt_mask", key::INDEX_BITS);
        let page_shift_base = select("page_shift_base", 2);
        let written_valid = b.input("geometry_write_valid", 1);
        let written = input_channel(b, "geometry_write", GeometryWrite::widths(config));
        let place_bits = config.table_set_bits() + 3;
        let geometries = Ram::of_words(b, "geometries", 1 << place_bits, RamStyle::Distributed, 28 + 32);
        let scrub = scrub(b, "geometry_scrub", place_bits, b.flag(false));
        let packed = concat(&[
            written.object_count,
            b.literal(0, 1),
            written.bt_num,
            written.entry_bytes_log2,
            written.buf_pg_sz,
            written.ba_pg_sz,
            b.literal(0, 2),
            written.hop_num,
        ]);
        let at_reset =
            b.literal(1 << regs::table_geometry::BT_NUM.low | 6 << regs::table_geometry::ENTRY_BYTES_LOG2.low, 60);
        geometries.write_word(
            scrub.busy.mux(scrub.address, written.table_set.concat(written.table)),
            scrub.busy.mux(at_reset, packed),
            scrub.busy | written_valid,
        );
        let geometry = geometries.read_word(table_set.concat(table), b.flag(true));

        // The ports.
        let work_words = [
            request.wqe_0,
            request.wqe_1,
            request.wqe_2,
            request.wqe_3,
            request.wqe_4,
            request.wqe_5,
            request.wqe_6,
            request.wqe_7,
        ];
        fn half(signal: Signal<'_>, half: u32) -> Signal<'_> {
            signal.bits(32 * half + 31, 32 * half)
        }
        let zero = b.literal(0, WORD_BITS);
        let mut words = vec![zero; 1 << PORT_BITS];
        for word in 0..16u32 {
            let quarter = line[(word / 4) as usize];
            words[(port::LINE + word) as usize] = quarter.bits(32 * (word % 4) + 31, 32 * (word % 4));
            words[(port::WORK + word) as usize] = half(work_words[(word / 2) as usize], word % 2);
        }
        for (number, word) in (port::MAILBOX..).zip(&lite.words) {
            words[number as usize] = *word;
        }
        let runs = (map.running & !scrub.busy).named("runs");
        let pending = (work_valid & !answers).concat(mailbox_waits).concat(configuration.value) & runs.repeat(3);
        let codes: Vec<u128> = (0..256u32).map(|code| u128::from(command_program::decoded(code as u8))).collect();
        let decoded = Rom::new(b, "commands", 8, 9, &codes).read(field(post_mailbox::COMMAND));
        for (number, word) in [
            (port::PD, request.pd),
            (port::QPN, request.qpn),
            (port::PRIVILEGED, request.privileged),
            (port::WORK_FUNCTION, request.function),
            (port::MAILBOX_FUNCTION, lite.function),
            (port::GEOMETRY, geometry.low_bits(28)),
            (port::OBJECT_COUNT, geometry.high_bits(32)),
            (port::MPT_MASK, mpt_mask),
            (port::PAGE_SHIFT_BASE, page_shift_base),
            (port::ALIGNMENT_CHECK, b.input("alignment_check", 1)),
            (port::FOUND_STATUS, found_status),
            (port::FOUND_LOW, half(found_address, 0)),
            (port::FOUND_HIGH, half(found_address, 1)),
            (port::BUS_ERROR, error.value),
            (port::REGISTER, lite.read_data.hold("register_read", lite.done)),
            (port::PENDING, pending),
            (port::COMMAND, decoded),
            (port::TABLE_SET, table_set),
        ] {
            words[number as usize] = word.resize(WORD_BITS);
        }
        port_word.drive(select_tree(machine.port, &words).delay("port_word"));

        // The ends of actions.
        let at_once = ends_mailbox | ends_work | ends_configuration;
        let ends = [
            at_once.delay_reset("ended_at_once"),
            found,
            fenced,
            lands,
            write_answered,
            lite.done,
            under_way(b, "waits_for_quiet", acts(action::QUIET), lite.quiet) & lite.quiet,
        ];
        done.drive(or_all(&ends));
        name.into()
    }
}
