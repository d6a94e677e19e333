//! The top module `keywalk`: packs the core's field ports into AXI ports.

use crate::canonicalise::Port;
use keywalk_contract::ports::{self, Direction, StreamPort};
use keywalk_contract::{Config, Field, regs};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Name of the top module.
pub const TOP: &str = "keywalk";
/// Name of the only instance in the top module.
pub const CORE_INSTANCE: &str = "core";

/// A port of the top module.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TopPort {
    /// Name.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// Whether the engine receives it.
    pub is_input: bool,
    /// Meaning.
    pub doc: String,
}

/// Adds the ports of a stream: name, bits, whether the module receives it, and meaning.
pub(crate) fn stream_ports(stream: &StreamPort, add: &mut dyn FnMut(&str, u32, bool, &str)) {
    let is_input = stream.direction == Direction::In;
    let doc = stream.layout.doc.trim();
    add(&format!("{}_tdata", stream.axi_name), stream.layout.bytes * 8, is_input, doc);
    add(&format!("{}_tvalid", stream.axi_name), 1, is_input, "");
    add(&format!("{}_tready", stream.axi_name), 1, !is_input, "");
}

/// Ports of the top module in order.
#[must_use]
pub fn ports(config: &Config) -> Vec<TopPort> {
    let mut ports = Vec::new();
    let mut add = |name: &str, width: u32, is_input: bool, doc: &str| {
        ports.push(TopPort { name: name.into(), width, is_input, doc: doc.into() });
    };
    add("aclk", 1, true, "clock");
    add("aresetn", 1, true, "synchronous reset, active low");
    for stream in ports::streams(config) {
        stream_ports(stream, &mut add);
    }
    let id_bits = config.table_id_bits();
    for (name, width, is_input, doc) in [
        ("arid", id_bits, false, "number of the read"),
        ("araddr", 64, false, "bus address of the line, 64-byte aligned"),
        ("arlen", 8, false, "beats - 1"),
        ("arsize", 3, false, "log2 of the bytes of a beat"),
        ("arburst", 2, false, "INCR"),
        ("arlock", 1, false, "normal"),
        ("arcache", 4, false, "normal, non-cacheable, bufferable"),
        ("arprot", 3, false, "unprivileged, secure, data"),
        ("arqos", 4, false, "none"),
        ("arvalid", 1, false, ""),
        ("arready", 1, true, ""),
        ("rid", id_bits, true, "number of the read"),
        ("rdata", config.table_data_bits, true, "part of the line"),
        ("rresp", 2, true, "SLVERR or DECERR: bus error"),
        ("rlast", 1, true, "last beat of the line"),
        ("rvalid", 1, true, ""),
        ("rready", 1, false, ""),
    ] {
        add(&format!("m_axi_tbl_{name}"), width, is_input, doc);
    }
    let writes = [
        ("awid", id_bits, false, "always the same: one write at a time"),
        ("awaddr", 64, false, "bus address of the line, 64-byte aligned"),
        ("awlen", 8, false, "beats - 1"),
        ("awsize", 3, false, "log2 of the bytes of a beat"),
        ("awburst", 2, false, "INCR"),
        ("awlock", 1, false, "normal"),
        ("awcache", 4, false, "normal, non-cacheable, bufferable"),
        ("awprot", 3, false, "unprivileged, secure, data"),
        ("awqos", 4, false, "none"),
        ("awvalid", 1, false, ""),
        ("awready", 1, true, ""),
        ("wdata", config.table_data_bits, false, "part of the line"),
        ("wstrb", config.table_data_bits / 8, false, "all bytes"),
        ("wlast", 1, false, "last beat of the line"),
        ("wvalid", 1, false, ""),
        ("wready", 1, true, ""),
        ("bid", id_bits, true, "not looked at"),
        ("bresp", 2, true, "SLVERR or DECERR: bus error"),
        ("bvalid", 1, true, ""),
        ("bready", 1, false, ""),
    ];
    for (name, width, is_input, doc) in writes.into_iter().filter(|_| config.command_unit) {
        add(&format!("m_axi_tbl_{name}"), width, is_input, doc);
    }
    lite_ports(&mut add);
    add("interrupt", 1, false, "level, see registers interrupt_status and interrupt_enable");
    ports
}

/// Signals of an AXI4-Lite bus with bits, and whether the master drives them; without protection, which nobody here looks at.
pub(crate) fn lite_signals(address_bits: u32) -> [(&'static str, u32, bool); 17] {
    [
        ("awaddr", address_bits, true),
        ("awvalid", 1, true),
        ("awready", 1, false),
        ("wdata", 32, true),
        ("wstrb", 4, true),
        ("wvalid", 1, true),
        ("wready", 1, false),
        ("bresp", 2, false),
        ("bvalid", 1, false),
        ("bready", 1, true),
        ("araddr", address_bits, true),
        ("arvalid", 1, true),
        ("arready", 1, false),
        ("rdata", 32, false),
        ("rresp", 2, false),
        ("rvalid", 1, false),
        ("rready", 1, true),
    ]
}

/// Adds the ports of the AXI4-Lite slave `s_axil`, as [`stream_ports`] does.
pub(crate) fn lite_ports(add: &mut dyn FnMut(&str, u32, bool, &str)) {
    for (signal, width, is_masters) in lite_signals(regs::ADDRESS_BITS) {
        add(&format!("s_axil_{signal}"), width, is_masters, "");
        if let Some(channel) = signal.strip_suffix("addr") {
            add(&format!("s_axil_{channel}prot"), 3, true, "");
        }
    }
}

/// A declaration's range.
pub(crate) fn range(width: u32) -> String {
    if width == 1 { String::new() } else { format!("[{}:0] ", width - 1) }
}

/// The part-select of a data bus that is a lane.
fn lane_range(lane: &str) -> String {
    let low = 128 * lane.parse::<u32>().expect("lanes are numbered");
    format!("[{}:{low}]", low + 127)
}

/// A part-select of a stream's data that carries `width` bits of a field.
fn part(stream: &StreamPort, field: &Field, width: u32) -> String {
    let high = field.low + width - 1;
    if width == 1 {
        format!("{}_tdata[{}]", stream.axi_name, field.low)
    } else {
        format!("{}_tdata[{high}:{}]", stream.axi_name, field.low)
    }
}

/// The head of a top module: comment, name and ports, with what Vivado infers interfaces from. `bus` names the interfaces
/// that the clock belongs to.
pub(crate) fn module_head(header: &str, top: &str, ports: &[TopPort], bus: &[&str]) -> String {
    let mut text = String::new();
    for line in header.lines() {
        let _ = writeln!(text, "// {line}");
    }
    let _ = writeln!(text, "module {top} (");
    for (number, port) in ports.iter().enumerate() {
        match port.name.as_str() {
            "aclk" => {
                text.push_str("    (* X_INTERFACE_INFO = \"xilinx.com:signal:clock:1.0 aclk CLK\" *)\n");
                let _ = writeln!(
                    text,
                    "    (* X_INTERFACE_PARAMETER = \"ASSOCIATED_BUSIF {}, ASSOCIATED_RESET aresetn\" *)",
                    bus.join(":")
                );
            }
            "aresetn" => {
                text.push_str("    (* X_INTERFACE_INFO = \"xilinx.com:signal:reset:1.0 aresetn RST\" *)\n");
                text.push_str("    (* X_INTERFACE_PARAMETER = \"POLARITY ACTIVE_LOW\" *)\n");
            }
            "interrupt" => {
                text.push_str("    (* X_INTERFACE_INFO = \"xilinx.com:signal:interrupt:1.0 interrupt INTERRUPT\" *)\n");
                // The name is fixed by the port list; it is a common word of C++, which matters to no synthesis.
                text.push_str("    /* verilator lint_off SYMRSVDWORD */\n");
            }
            _ => {}
        }
        let direction = if port.is_input { "input" } else { "output" };
        let comma = if number + 1 == ports.len() { "" } else { "," };
        let comment = if port.doc.is_empty() { String::new() } else { format!(" // {}", port.doc.replace('\n', " ")) };
        let _ = writeln!(text, "    {direction} wire {}{}{comma}{comment}", range(port.width), port.name);
        if port.name == "interrupt" {
            text.push_str("    /* verilator lint_on SYMRSVDWORD */\n");
        }
    }
    text.push_str(");\n");
    text
}

/// What is the same for every burst of an AXI4 address channel, whose signals begin with `channel`: beats of `1 << size`
/// bytes, INCR, modifiable and bufferable.
pub(crate) fn burst_constants(text: &mut String, channel: &str, size: u32) {
    for (name, value) in [
        ("size", format!("3'd{size}")),
        ("burst", "2'b01".into()),
        ("lock", "1'b0".into()),
        ("cache", "4'b0011".into()),
        ("prot", "3'b000".into()),
        ("qos", "4'b0000".into()),
    ] {
        let _ = writeln!(text, "    assign {channel}{name} = {value};");
    }
}

/// The end of a top module: what nobody reads, and the core, each of whose ports must be connected.
pub(crate) fn instantiate<'a>(
    text: &mut String,
    core: &str,
    top: &str,
    connections: &[(String, String)],
    unused: &[String],
    ports: impl Iterator<Item = &'a Port>,
) {
    let _ = writeln!(text, "    wire _unused_ok = &{{1'b0, {}, 1'b0}};", unused.join(", "));
    let _ = writeln!(text, "    {core} {CORE_INSTANCE} (");
    let known: BTreeSet<&str> = connections.iter().map(|(port, _)| port.as_str()).collect();
    for port in ports {
        assert!(known.contains(port.name.as_str()), "module {top} does not connect the core's port {}", port.name);
    }
    let lines: Vec<String> = connections.iter().map(|(port, wire)| format!("        .{port}({wire})")).collect();
    let _ = writeln!(text, "{}\n    );\nendmodule", lines.join(",\n"));
}

/// Connects the fields of streams with the core's ports: declares what the outgoing ones are made of in `text`, adds to
/// `connections` pairs of core port and wire, and to `unused` the bits of incoming ones that the core has no port for.
pub(crate) fn connect_streams(
    streams: impl IntoIterator<Item = &'static StreamPort>,
    inputs: &[Port],
    outputs: &[Port],
    text: &mut String,
    connections: &mut Vec<(String, String)>,
    unused: &mut Vec<String>,
) {
    let input_width = |name: &str| inputs.iter().find(|port| port.name == name).map(|port| port.width_bits);
    let output_width = |name: &str| outputs.iter().find(|port| port.name == name).map(|port| port.width_bits);
    for stream in streams {
        for signal in ["valid", "ready"] {
            connections.push((format!("{}_{signal}", stream.core_name), format!("{}_t{signal}", stream.axi_name)));
        }
        let mut parts = Vec::new();
        for field in stream.layout.fields {
            let name = format!("{}_{}", stream.core_name, field.name);
            match stream.direction {
                Direction::In => {
                    let used = input_width(&name).unwrap_or(0);
                    if used > 0 {
                        connections.push((name, part(stream, field, used)));
                    }
                    if used < field.width {
                        let rest = Field { low: field.low + used, ..*field };
                        unused.push(part(stream, &rest, field.width - used));
                    }
                }
                Direction::Out => {
                    let used = output_width(&name).unwrap_or(0);
                    if used > 0 {
                        let _ = writeln!(text, "    wire {}{name};", range(used));
                        connections.push((name.clone(), name.clone()));
                        parts.push(name);
                    }
                    if used < field.width {
                        parts.push(format!("{}'d0", field.width - used));
                    }
                }
            }
        }
        if stream.direction == Direction::Out {
            parts.reverse();
            let _ = writeln!(text, "    assign {}_tdata = {{{}}};", stream.axi_name, parts.join(", "));
        }
    }
}

/// The text of the top module around a core with the given ports.
///
/// # Panics
/// When the core lacks a port: a fault of this crate, found by every test.
#[must_use]
pub fn verilog(config: &Config, header: &str, core: &str, inputs: &[Port], outputs: &[Port]) -> String {
    let bus = ports::streams(config).map(|stream| stream.axi_name).chain(["m_axi_tbl", "s_axil"]).collect::<Vec<_>>();
    let mut text = module_head(header, TOP, &self::ports(config), &bus);

    let mut connections: Vec<(String, String)> =
        vec![("clk".into(), "aclk".into()), ("reset_n".into(), "aresetn".into())];
    let mut unused = Vec::new();
    connect_streams(ports::streams(config), inputs, outputs, &mut text, &mut connections, &mut unused);
    for port in inputs.iter().chain(outputs) {
        if let Some(name) = port.name.strip_prefix("axil_") {
            connections.push((port.name.clone(), format!("s_axil_{name}")));
        } else if let Some(lane) = port.name.strip_prefix("tbl_rdata_") {
            connections.push((port.name.clone(), format!("m_axi_tbl_rdata{}", lane_range(lane))));
        } else if let Some(lane) = port.name.strip_prefix("tbl_wdata_") {
            connections.push((port.name.clone(), format!("m_axi_tbl_wdata{}", lane_range(lane))));
        } else if let Some(name) = port.name.strip_prefix("tbl_") {
            connections.push((port.name.clone(), format!("m_axi_tbl_{name}")));
        }
    }
    connections.push(("interrupt_pin".into(), "interrupt".into()));
    let size = (config.table_data_bits / 8).trailing_zeros();
    let channels: &[&str] = if config.command_unit { &["ar", "aw"] } else { &["ar"] };
    for channel in channels {
        burst_constants(&mut text, &format!("m_axi_tbl_{channel}"), size);
    }
    if config.command_unit {
        let (id_bits, bytes) = (config.table_id_bits(), config.table_data_bits / 8);
        let _ = writeln!(text, "    assign m_axi_tbl_awid = {{1'b1, {}'d0}};", id_bits - 1);
        let _ = writeln!(text, "    assign m_axi_tbl_awlen = 8'd{};", config.beats_per_line() - 1);
        let _ = writeln!(text, "    assign m_axi_tbl_wstrb = {{{bytes}{{1'b1}}}};");
        unused.push("m_axi_tbl_bid".into());
    }
    unused.push("s_axil_awprot".into());
    unused.push("s_axil_arprot".into());
    instantiate(&mut text, core, TOP, &connections, &unused, inputs.iter().chain(outputs));
    text
}
