//! The top module `keywalk_mover`: packs the data mover's field ports into AXI ports.

use crate::canonicalise::Port;
use crate::wrapper::{TopPort, burst_constants, connect_streams, instantiate, module_head, stream_ports};
use keywalk_contract::Config;
use keywalk_contract::mover::{MEMORY_PORT, READ_STREAM, STREAMS, WRITE_STREAM};
use keywalk_hdl::mover_records::MEMORY_PREFIX;
use std::fmt::Write;

/// Name of the module.
pub const TOP: &str = "keywalk_mover";
/// Bits of a lane of the core's data ports.
const LANE_BITS: u32 = 128;

/// Ports of the module in order.
#[must_use]
pub fn ports(config: &Config) -> Vec<TopPort> {
    let mut ports = Vec::new();
    let mut add = |name: &str, width: u32, is_input: bool, doc: &str| {
        ports.push(TopPort { name: name.into(), width, is_input, doc: doc.into() });
    };
    add("aclk", 1, true, "clock");
    add("aresetn", 1, true, "synchronous reset, active low");
    for stream in &STREAMS {
        stream_ports(stream, &mut add);
    }
    payload_ports(config, WRITE_STREAM, true, false, &mut add);
    payload_ports(config, READ_STREAM, false, true, &mut add);
    let (data, bytes) = (config.mover_data_bits, config.mover_beat_bytes());
    for (channel, is_write) in [("aw", true), ("ar", false)] {
        for (name, width, is_input, doc) in [
            ("id", 1, false, "always 0: transfers are answered in order"),
            ("addr", 64, false, "bus address, a multiple of the bytes of a beat"),
            ("len", 8, false, "beats - 1"),
            ("size", 3, false, "log2 of the bytes of a beat"),
            ("burst", 2, false, "INCR"),
            ("lock", 1, false, "normal"),
            ("cache", 4, false, "normal, non-cacheable, bufferable"),
            ("prot", 3, false, "unprivileged, secure, data"),
            ("qos", 4, false, "none"),
            ("valid", 1, false, ""),
            ("ready", 1, true, ""),
        ] {
            add(&format!("{MEMORY_PORT}_{channel}{name}"), width, is_input, doc);
        }
        let rest = [
            ("wdata", data, false, true),
            ("wstrb", bytes, false, true),
            ("wlast", 1, false, true),
            ("wvalid", 1, false, true),
            ("wready", 1, true, true),
            ("bid", 1, true, true),
            ("bresp", 2, true, true),
            ("bvalid", 1, true, true),
            ("bready", 1, false, true),
            ("rid", 1, true, false),
            ("rdata", data, true, false),
            ("rresp", 2, true, false),
            ("rlast", 1, true, false),
            ("rvalid", 1, true, false),
            ("rready", 1, false, false),
        ];
        for (name, width, is_input, of_write) in rest {
            if of_write == is_write {
                add(&format!("{MEMORY_PORT}_{name}"), width, is_input, "");
            }
        }
    }
    ports
}

/// Adds the ports of a stream of payload, of writes or of what was read, as [`stream_ports`] does those of others.
pub(crate) fn payload_ports(
    config: &Config,
    stream: &str,
    is_input: bool,
    was_read: bool,
    add: &mut dyn FnMut(&str, u32, bool, &str),
) {
    let doc = if was_read { "what was read" } else { "payload of writes" };
    add(&format!("{stream}_tdata"), config.mover_data_bits, is_input, doc);
    add(&format!("{stream}_tkeep"), config.mover_beat_bytes(), is_input, "bytes that there are");
    add(&format!("{stream}_tlast"), 1, is_input, "end of a packet");
    if was_read {
        add(&format!("{stream}_tuser"), 1, is_input, "in the last beat: the data is not whole or not good");
    }
    add(&format!("{stream}_tvalid"), 1, is_input, "");
    add(&format!("{stream}_tready"), 1, !is_input, "");
}

/// The text of the module around a core with the given ports.
///
/// # Panics
/// When the core has a port that is not connected: a fault of this crate, found by every test.
#[must_use]
pub fn verilog(config: &Config, header: &str, core: &str, inputs: &[Port], outputs: &[Port]) -> String {
    let streams = STREAMS.iter().map(|stream| stream.axi_name);
    let bus: Vec<&str> = streams.chain([WRITE_STREAM, READ_STREAM, MEMORY_PORT]).collect();
    let mut text = module_head(header, TOP, &ports(config), &bus);

    let mut connections: Vec<(String, String)> =
        vec![("clk".into(), "aclk".into()), ("reset_n".into(), "aresetn".into())];
    let mut unused = Vec::new();
    connect_streams(&STREAMS, inputs, outputs, &mut text, &mut connections, &mut unused);
    for port in inputs.iter().chain(outputs) {
        let name = &port.name;
        let signal = payload_signal(name, WRITE_STREAM, READ_STREAM);
        let signal = signal.or_else(|| Some(format!("{MEMORY_PORT}_{}", name.strip_prefix(MEMORY_PREFIX)?)));
        connections.extend(signal.map(|signal| (name.clone(), lane_of(&signal, "data_"))));
    }
    let size = config.mover_byte_bits();
    for channel in ["aw", "ar"] {
        let _ = writeln!(text, "    assign {MEMORY_PORT}_{channel}id = 1'b0;");
        burst_constants(&mut text, &format!("{MEMORY_PORT}_{channel}"), size);
    }
    // With one ID the responses need none, and the mover counts the beats of a burst itself.
    unused.extend(["bid", "rid", "rlast"].map(|name| format!("{MEMORY_PORT}_{name}")));
    instantiate(&mut text, core, TOP, &connections, &unused, inputs.iter().chain(outputs));
    text
}

/// The signal of a core's port `payload_...` or `packet_...`, in the stream with payload of writes or the one with what was read.
pub(crate) fn payload_signal(port: &str, written: &str, read: &str) -> Option<String> {
    let (stream, field) = match (port.strip_prefix("payload_"), port.strip_prefix("packet_")) {
        (Some(field), _) => (written, field),
        (_, Some(field)) => (read, field),
        _ => return None,
    };
    Some(format!("{stream}_t{}", if field == "error" { "user" } else { field }))
}

/// A port's name as it is, or for a numbered lane the part-select of the whole port.
pub(crate) fn lane_of(name: &str, lanes: &str) -> String {
    match name.split_once(lanes) {
        None => name.into(),
        Some((before, number)) => {
            let low = LANE_BITS * number.parse::<u32>().expect("lanes are numbered");
            format!("{before}{}[{}:{low}]", lanes.trim_end_matches('_'), low + LANE_BITS - 1)
        }
    }
}
