//! The top module `keywalk_shell`: queues between blocks, all ports flat.

use crate::async_fifo;
use crate::config::{ID_BITS, REGISTER_ADDRESS_BITS, ShellConfig};
use crate::emit::{EmitError, Module, Port, circuit};
use crate::link::{LevelCrossing, ResetLink};
use crate::netlist::{Netlist, clock_attributes, part, reset_attributes};
use crate::{host_port, interrupt_port, register_master, register_port, width_converter};
use keywalk_hdl::prim::Design;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Name of the top module.
pub const TOP: &str = "keywalk_shell";
/// Words of the queues of addresses, data and answers: the way of a pointer there and back, twice.
const DEEP_WORDS: u32 = 32;
/// Words of the queues of register accesses, of which one is under way.
const SHALLOW_WORDS: u32 = 4;
/// Bits of a lane of data in blocks made with kaze.
const LANE_BITS: u32 = 128;

/// The side that a clock belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The engine's.
    Engine,
    /// The PCIe IP's.
    Pcie,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Pcie => "pcie",
        }
    }
}

/// A queue between the clocks.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Name of its instance, without `_queue`.
    pub name: &'static str,
    /// What it carries.
    pub doc: &'static str,
    /// The side that writes.
    pub from: Side,
    /// Words.
    pub words: u32,
    /// Fields, the lowest first: name and bits.
    pub fields: Vec<(String, u32)>,
    /// Block and prefix of the ports that write; no block where those are the engine's own.
    pub writer: (&'static str, &'static str),
    /// Block and prefix of the ports that read; no block where those are the engine's own.
    pub reader: (&'static str, &'static str),
}

impl Queue {
    /// Bits of a word.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.fields.iter().map(|(_, width)| width).sum()
    }

    /// The name of its module.
    #[must_use]
    pub fn module(&self) -> String {
        async_fifo::name(self.words, self.width())
    }
}

/// Field `data` of so many bits, in lanes.
fn lanes(bits: u32) -> Vec<(String, u32)> {
    (0..bits / LANE_BITS).map(|lane| (format!("data_{lane}"), LANE_BITS)).collect()
}

fn fields(list: &[(&str, u32)]) -> Vec<(String, u32)> {
    list.iter().map(|(name, width)| ((*name).to_owned(), *width)).collect()
}

/// Every queue of a shell.
#[must_use]
pub fn queues(config: &ShellConfig) -> Vec<Queue> {
    let bits = config.pcie_data_bits;
    let address = fields(&[("len", 8), ("addr", 64), ("id", ID_BITS)]);
    let answer = fields(&[("resp", 2), ("id", ID_BITS)]);
    let mut data = lanes(bits);
    data.push(("strb".into(), bits / 8));
    let mut read_data = lanes(bits);
    read_data.extend(fields(&[("last", 1), ("resp", 2), ("id", ID_BITS)]));
    // Without a converter the engine's own ports stand on its side.
    let engine = if config.engine_data_bits == bits { "" } else { "width_converter" };
    let to_host = |name, doc, prefix, fields| Queue {
        name,
        doc,
        from: Side::Engine,
        words: DEEP_WORDS,
        fields,
        writer: (engine, prefix),
        reader: ("host_port", prefix),
    };
    let to_engine = |name, doc, prefix, fields| Queue {
        name,
        doc,
        from: Side::Pcie,
        words: DEEP_WORDS,
        fields,
        writer: ("host_port", prefix),
        reader: (engine, prefix),
    };
    let request = |name, doc, prefix, fields| Queue {
        name,
        doc,
        from: Side::Pcie,
        words: SHALLOW_WORDS,
        fields,
        writer: ("register_port", prefix),
        reader: ("register_master", prefix),
    };
    let reply = |name, doc, prefix, fields| Queue {
        name,
        doc,
        from: Side::Engine,
        words: SHALLOW_WORDS,
        fields,
        writer: ("register_master", prefix),
        reader: ("register_port", prefix),
    };
    let register_address = ("addr", REGISTER_ADDRESS_BITS);
    vec![
        to_host("ar", "addresses of reads of host memory", "ar", address.clone()),
        to_engine("r", "their data", "r", read_data),
        to_host("aw", "addresses of writes of host memory", "aw", address),
        to_host("w", "their data", "w", data),
        to_engine("b", "their answers", "b", answer),
        request("register_write", "writes of registers", "write", {
            fields(&[register_address, ("data", 32), ("strb", 4)])
        }),
        reply("register_written", "their answers", "written", fields(&[("resp", 2)])),
        request("register_read", "reads of registers", "read", fields(&[register_address])),
        reply("register_data", "their answers", "data", fields(&[("resp", 2), ("data", 32)])),
    ]
}

/// Builds the blocks that have one clock; gives their names.
pub fn blocks(design: &Design<'_>, config: &ShellConfig) -> Vec<String> {
    let mut names = vec![
        host_port::build(design, config),
        interrupt_port::build(design, config),
        register_master::build(design),
        register_port::build(design),
    ];
    names.extend(width_converter::build(design, config));
    names
}

/// The modules that have two clocks, in order of name.
///
/// # Errors
/// Faults of this crate.
pub fn circuits(config: &ShellConfig) -> Result<Vec<Module>, EmitError> {
    let stages = config.stages as usize;
    let mut modules = BTreeMap::new();
    for queue in queues(config) {
        modules.insert(queue.module(), async_fifo::module(queue.words, queue.width(), config.stages)?);
    }
    for module in
        [circuit("reset_link", ResetLink::new(stages))?, circuit("level_crossing", LevelCrossing::new(stages))?]
    {
        modules.insert(module.name.clone(), module);
    }
    Ok(modules.into_values().collect())
}

/// A port of the top module, with its meaning.
#[derive(Clone, Debug)]
pub struct TopPort {
    /// Name, width, direction.
    pub port: Port,
    /// The side whose clock it belongs to.
    pub side: Side,
    /// Meaning.
    pub doc: &'static str,
}

/// A bus of the top module: prefix, whether the shell is its master, side, bits of data, whether it is AXI4-Lite.
struct Bus {
    prefix: &'static str,
    is_master: bool,
    side: Side,
    data_bits: u32,
    is_lite: bool,
}

fn buses(config: &ShellConfig) -> [Bus; 4] {
    let bus = |prefix, is_master, side, data_bits, is_lite| Bus { prefix, is_master, side, data_bits, is_lite };
    [
        bus("s_axi_mem", false, Side::Engine, config.engine_data_bits, false),
        bus("m_axil_reg", true, Side::Engine, 32, true),
        bus("m_axi_host", true, Side::Pcie, config.pcie_data_bits, false),
        bus("s_axil_host", false, Side::Pcie, 32, true),
    ]
}

impl Bus {
    /// Signals with bits, and whether the master drives them.
    fn signals(&self) -> Vec<(&'static str, u32, bool)> {
        let (data, strobes) = (self.data_bits, self.data_bits / 8);
        if self.is_lite {
            let address = REGISTER_ADDRESS_BITS;
            return vec![
                ("awaddr", address, true),
                ("awvalid", 1, true),
                ("awready", 1, false),
                ("wdata", data, true),
                ("wstrb", strobes, true),
                ("wvalid", 1, true),
                ("wready", 1, false),
                ("bresp", 2, false),
                ("bvalid", 1, false),
                ("bready", 1, true),
                ("araddr", address, true),
                ("arvalid", 1, true),
                ("arready", 1, false),
                ("rdata", data, false),
                ("rresp", 2, false),
                ("rvalid", 1, false),
                ("rready", 1, true),
            ];
        }
        let mut list = vec![("awid", ID_BITS, true), ("awaddr", 64, true), ("awlen", 8, true)];
        if self.is_master {
            list.extend(CONSTANTS.map(|(name, width, _)| (AW_NAMES[constant(name)], width, true)));
        }
        list.extend([("awvalid", 1, true), ("awready", 1, false)]);
        list.extend([("wdata", data, true), ("wstrb", strobes, true), ("wlast", 1, true)]);
        list.extend([("wvalid", 1, true), ("wready", 1, false)]);
        list.extend([("bid", ID_BITS, false), ("bresp", 2, false), ("bvalid", 1, false), ("bready", 1, true)]);
        list.extend([("arid", ID_BITS, true), ("araddr", 64, true), ("arlen", 8, true)]);
        if self.is_master {
            list.extend(CONSTANTS.map(|(name, width, _)| (AR_NAMES[constant(name)], width, true)));
        }
        list.extend([("arvalid", 1, true), ("arready", 1, false)]);
        list.extend([("rid", ID_BITS, false), ("rdata", data, false), ("rresp", 2, false), ("rlast", 1, false)]);
        list.extend([("rvalid", 1, false), ("rready", 1, true)]);
        list
    }
}

/// Signals of an address that never change: bits, and value where it is no size.
const CONSTANTS: [(&str, u32, &str); 5] =
    [("size", 3, ""), ("burst", 2, "2'b01"), ("lock", 1, "1'b0"), ("cache", 4, "4'b0011"), ("prot", 3, "3'b000")];
const AW_NAMES: [&str; 5] = ["awsize", "awburst", "awlock", "awcache", "awprot"];
const AR_NAMES: [&str; 5] = ["arsize", "arburst", "arlock", "arcache", "arprot"];

fn constant(name: &str) -> usize {
    CONSTANTS.iter().position(|(candidate, ..)| *candidate == name).unwrap_or_default()
}

/// Every port of the top module.
#[must_use]
pub fn ports(config: &ShellConfig) -> Vec<TopPort> {
    let mut ports = Vec::new();
    let mut add = |name: &str, width, is_input, side, doc| {
        ports.push(TopPort { port: Port { name: name.into(), width, is_input }, side, doc });
    };
    add("engine_aclk", 1, true, Side::Engine, "clock of the engine");
    add("engine_aresetn", 1, true, Side::Engine, "reset of the engine's side, active low, of no clock");
    add("keywalk_aresetn", 1, false, Side::Engine, "the engine's reset, active low: low while the link is down");
    add("pcie_aclk", 1, true, Side::Pcie, "clock of the PCIe IP: its axi_aclk");
    add("pcie_aresetn", 1, true, Side::Pcie, "reset of the PCIe IP: its axi_aresetn, of pcie_aclk");
    add("link_up", 1, false, Side::Pcie, "requests and answers pass");
    for bus in buses(config) {
        for (signal, width, is_masters) in bus.signals() {
            add(&format!("{}_{signal}", bus.prefix), width, is_masters != bus.is_master, bus.side, "");
        }
    }
    add("interrupt_level", 1, true, Side::Engine, "the engine's interrupt");
    add("usr_irq_req", 1, false, Side::Pcie, "request of an interrupt");
    add("usr_irq_ack", 1, true, Side::Pcie, "it was sent");
    ports
}

/// The name of a field of a bus's channel: `r` and `data_2` of `s_axi_mem` are bits 383 to 256 of `s_axi_mem_rdata`.
fn bus_field(bus: &Bus, channel: &str, field: &str) -> String {
    match field.strip_prefix("data_").and_then(|lane| lane.parse::<u32>().ok()) {
        Some(lane) => {
            let name = format!("{}_{channel}data", bus.prefix);
            part(&name, lane * LANE_BITS, LANE_BITS, bus.data_bits)
        }
        None => format!("{}_{channel}{field}", bus.prefix),
    }
}

/// The top module, without a header.
#[must_use]
pub fn module(config: &ShellConfig) -> Module {
    let mut net = Netlist::default();
    let [memory, registers, host, host_registers] = buses(config);
    for (name, width) in
        [("pcie_clear", 1), ("engine_clear", 1), ("port_reset_n", 1), ("drained", 1), ("interrupt_at_pcie", 1)]
    {
        net.wire(name, width);
    }
    for (port, expression) in [
        ("engine_clock", "engine_aclk"),
        ("engine_reset_n", "engine_aresetn"),
        ("engine_up", "keywalk_aresetn"),
        ("engine_clear", "engine_clear"),
        ("pcie_clock", "pcie_aclk"),
        ("pcie_reset_n", "pcie_aresetn"),
        ("port_reset_n", "port_reset_n"),
        ("drained", "drained"),
        ("pcie_up", "link_up"),
        ("pcie_clear", "pcie_clear"),
    ] {
        net.connect("reset_link", "reset_link", port, expression);
    }
    let mut blocks = vec![
        ("host_port", Side::Pcie),
        ("register_port", Side::Pcie),
        ("interrupt_port", Side::Pcie),
        ("register_master", Side::Engine),
    ];
    if config.engine_data_bits != config.pcie_data_bits {
        blocks.push(("width_converter", Side::Engine));
    }
    for (block, side) in blocks {
        net.connect(block, block, "clk", &format!("{}_aclk", side.name()));
        net.connect(block, block, "reset_n", if side == Side::Engine { "keywalk_aresetn" } else { "port_reset_n" });
    }
    for block in ["host_port", "register_port"] {
        net.connect(block, block, "up", "link_up");
    }
    net.connect("host_port", "host_port", "drained", "drained");

    // Queues, and the blocks' sides of them.
    for queue in queues(config) {
        connect_queue(&mut net, &queue, &memory);
    }
    // Where the engine's own ports stand at the queues, beats are counted at the other end.
    let last = format!("{}_wlast", memory.prefix);
    if config.engine_data_bits == config.pcie_data_bits {
        let _ = writeln!(net.wires, "    wire _unused_ok = &{{1'b0, {last}, 1'b0}};");
    }

    // Buses at the blocks.
    let mut at_block = |bus: &Bus, block: &str| {
        let letter = if bus.is_master { 'm' } else { 's' };
        for (signal, width, _) in bus.signals() {
            let channel = &signal[..2];
            let is_constant = [AW_NAMES, AR_NAMES].concat().contains(&signal);
            if is_constant {
                let (_, _, value) = CONSTANTS[constant(signal.trim_start_matches(channel))];
                let size = format!("3'd{}", (bus.data_bits / 8).trailing_zeros());
                let value = if value.is_empty() { &size } else { value };
                let _ = writeln!(net.assigns, "    assign {}_{signal} = {value};", bus.prefix);
            } else if width > LANE_BITS {
                for lane in 0..width / LANE_BITS {
                    let from = part(&format!("{}_{signal}", bus.prefix), lane * LANE_BITS, LANE_BITS, width);
                    // Strobes of 512 bits are 64, so what is wider than a lane is data.
                    net.connect(block, block, &format!("{letter}_{signal}_{lane}"), &from);
                }
            } else if width == LANE_BITS && signal.ends_with("data") {
                net.connect(block, block, &format!("{letter}_{signal}_0"), &format!("{}_{signal}", bus.prefix));
            } else {
                net.connect(block, block, &format!("{letter}_{signal}"), &format!("{}_{signal}", bus.prefix));
            }
        }
    };
    at_block(&host, "host_port");
    at_block(&host_registers, "register_port");
    at_block(&registers, "register_master");
    if config.engine_data_bits != config.pcie_data_bits {
        at_block(&memory, "width_converter");
    }

    // The interrupt.
    for (port, expression) in
        [("from_clock", "engine_aclk"), ("d", "interrupt_level"), ("to_clock", "pcie_aclk"), ("q", "interrupt_at_pcie")]
    {
        net.connect("interrupt_crossing", "level_crossing", port, expression);
    }
    for (port, expression) in
        [("level", "interrupt_at_pcie"), ("usr_irq_req", "usr_irq_req"), ("usr_irq_ack", "usr_irq_ack")]
    {
        net.connect("interrupt_port", "interrupt_port", port, expression);
    }
    let ports = ports(config).into_iter().map(|TopPort { port, doc, .. }| (port, doc.to_owned())).collect();
    net.print(TOP, ports, attributes)
}

/// A queue with its two sides: a block's ports `<prefix>_<field>`, or the engine's own.
fn connect_queue(net: &mut Netlist, queue: &Queue, memory: &Bus) {
    let instance = format!("{}_queue", queue.name);
    let module = queue.module();
    let (writer, reader) =
        if queue.from == Side::Engine { (Side::Engine, Side::Pcie) } else { (Side::Pcie, Side::Engine) };
    for (end, side) in [("write", writer), ("read", reader)] {
        net.connect(&instance, &module, &format!("{end}_clock"), &format!("{}_aclk", side.name()));
        net.connect(&instance, &module, &format!("{end}_reset"), &format!("{}_clear", side.name()));
    }
    for (end, (block, prefix)) in [("write", queue.writer), ("read", queue.reader)] {
        let name = |field: &str| {
            if block.is_empty() { bus_field(memory, prefix, field) } else { format!("{}_{end}_{field}", queue.name) }
        };
        for signal in ["valid", "ready"] {
            let wire = name(signal);
            if !block.is_empty() {
                net.wire(&wire, 1);
                net.connect(block, block, &format!("{prefix}_{signal}"), &wire);
            }
            net.connect(&instance, &module, &format!("{end}_{signal}"), &wire);
        }
        if !block.is_empty() {
            for (field, width) in &queue.fields {
                let wire = name(field);
                net.wire(&wire, *width);
                net.connect(block, block, &format!("{prefix}_{field}"), &wire);
            }
        }
        let parts: Vec<String> = queue.fields.iter().rev().map(|(field, _)| name(field)).collect();
        net.connect(&instance, &module, &format!("{end}_data"), &format!("{{{}}}", parts.join(", ")));
    }
}

/// What tells Vivado which buses belong to a clock or reset.
fn attributes(port: &str) -> String {
    match port {
        "engine_aclk" => clock_attributes(port, "s_axi_mem:m_axil_reg", "keywalk_aresetn"),
        "pcie_aclk" => clock_attributes(port, "m_axi_host:s_axil_host", "pcie_aresetn"),
        "engine_aresetn" | "keywalk_aresetn" | "pcie_aresetn" => reset_attributes(port),
        _ => String::new(),
    }
}
