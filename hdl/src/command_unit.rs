//! Mailbox commands and work requests: what the driver tells the engine about its tables.

use crate::prim::{Builder, Design, Signal, concat, input_channel, or_all, output_channel, select_first};
use crate::records::GeometryWrite;
use keywalk_contract::command::{DATA_WORDS, Opcode, REGISTERS, REGISTERS_OFFSET, command_start};
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
#[expect(dead_code, reason = "the sequencer comes next")]
struct Lite<'a> {
    /// A command was taken in the cycle before: POST_MB, CFG_BT_ATTR.
    posted: Signal<'a>,
    configured: Signal<'a>,
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
    /// CFG_BT_ATTR has taken effect.
    config_done: Signal<'a>,
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
    let waits_for_config = b.register_reset("waits_for_config", 1, 0);
    let may_go = (settled & !b_valid.value & !waits_for_config.value & !host_waits.value).named("write_may_go");
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
    waits_for_config.next(configured | (waits_for_config.value & !mailbox.config_done));
    let host_ends = core_ends & !core_of_unit.value;
    let own_ends = own_go & !configured;
    let answers = own_ends | host_ends | (waits_for_config.value & mailbox.config_done);
    host_waits.next(host_go | (host_waits.value & !host_ends));
    b_valid.next(answers | (b_valid.value & !b.input("axil_bready", 1)));
    b_error.next_if(answers, select_first(&[(host_ends, core_error), (own_ends, own_error)], b.flag(false)));
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
        posted: posted.delay_reset("mailbox_posted"),
        configured: configured.delay_reset("configuration_posted"),
        words: staged.iter().enumerate().map(|(number, word)| word.hold(&format!("posted_{number}"), taken)).collect(),
        function: field(command_start::FUNCTION).hold("posted_function", taken),
        quiet,
        done: ((core_ends & core_of_unit.value) | (core_read_ends & core_read_of_unit.value)).named("access_done"),
        read_data: core_data,
    }
}

/// The block.
pub struct CommandUnit;

impl CommandUnit {
    /// Builds the module; gives its name.
    pub fn build(design: &Design<'_>, config: &Config) -> String {
        let name = "command_unit";
        let b = design.module(name);
        let _ = input_channel(b, "geometry_write", GeometryWrite::widths(config));
        let _ = input_channel(b, "work_request", WorkRequest::widths(config));
        for (name, width) in [
            ("geometry_write_valid", 1),
            ("alignment_check", 1),
            ("work_request_valid", 1),
            ("work_response_ready", 1),
            ("function_map_write_valid", 1),
            ("function_map_write_function", config.function_bits),
            ("function_map_write_table_set", config.table_set_bits()),
            ("lookup_ready", 1),
            ("found_valid", 1),
            ("found_status", 8),
            ("found_address", 64),
            ("fence_ready", 1),
            ("fenced_valid", 1),
            ("read_ready", 1),
            ("line_valid", 1),
            ("line_last", 1),
            ("line_resp", 2),
            ("tbl_awready", 1),
            ("tbl_wready", 1),
            ("tbl_bvalid", 1),
            ("tbl_bresp", 2),
        ] {
            let _ = b.input(name, width);
        }
        for lane in 0..config.table_data_bits / 128 {
            let _ = b.input(&format!("line_data_{lane}"), 128);
            b.output(&format!("tbl_wdata_{lane}"), b.literal(0, 128));
        }
        for set in 0..config.table_sets {
            let _ = b.input(&format!("mpt_mask_{set}"), key::INDEX_BITS);
            let _ = b.input(&format!("page_shift_base_{set}"), 2);
        }
        for (name, width) in [
            ("command_done", 1),
            ("work_request_ready", 1),
            ("work_response_valid", 1),
            ("lookup_valid", 1),
            ("lookup_function", config.function_bits),
            ("lookup_table", 3),
            ("lookup_index", 32),
            ("fence_valid", 1),
            ("fence_function", config.function_bits),
            ("fence_scope", 3),
            ("fence_key", 32),
            ("read_valid", 1),
            ("read_address", 64),
            ("tbl_awvalid", 1),
            ("tbl_awaddr", 64),
            ("tbl_wvalid", 1),
            ("tbl_wlast", 1),
            ("tbl_bready", 1),
        ] {
            b.output(name, b.literal(0, width));
        }
        output_channel(b, "work_response", crate::prim::zero_record(b, WorkResponse::widths(config)));
        let off = b.flag(false);
        let mailbox = Mailbox {
            busy: off,
            status: b.literal(0, 8),
            token: b.literal(0, 16),
            config_done: b.flag(true),
            lock: off,
        };
        let access =
            Access { write: off, read: off, address: b.literal(0, regs::ADDRESS_BITS), data: b.literal(0, 32) };
        let _ = registers(b, &mailbox, &access);
        name.into()
    }
}
