//! The top module `keywalk_probe`: packs the probe's field ports into AXI ports.

use crate::canonicalise::Port;
use crate::mover_wrapper::{lane_of, payload_ports, payload_signal};
use crate::wrapper::{TopPort, connect_streams, instantiate, lite_ports, module_head, stream_ports};
use keywalk_contract::Config;
use keywalk_contract::ports::StreamPort;
use keywalk_contract::probe::{READ_STREAM, STREAMS, WORK_STREAMS, WRITE_STREAM};

/// Name of the module.
pub const TOP: &str = "keywalk_probe";

/// Streams of the probe of that configuration but those of payload.
pub fn streams(config: &Config) -> impl Iterator<Item = &'static StreamPort> {
    let work: &[StreamPort] = if config.command_unit { &WORK_STREAMS } else { &[] };
    STREAMS.iter().chain(work)
}

/// Ports of the module in order.
#[must_use]
pub fn ports(config: &Config) -> Vec<TopPort> {
    let mut ports = Vec::new();
    let mut add = |name: &str, width: u32, is_input: bool, doc: &str| {
        ports.push(TopPort { name: name.into(), width, is_input, doc: doc.into() });
    };
    add("aclk", 1, true, "clock");
    add("aresetn", 1, true, "synchronous reset, active low");
    lite_ports(&mut add);
    for stream in streams(config) {
        stream_ports(stream, &mut add);
    }
    payload_ports(config, WRITE_STREAM, false, false, &mut add);
    payload_ports(config, READ_STREAM, true, true, &mut add);
    ports
}

/// The text of the module around a core with the given ports.
///
/// # Panics
/// When the core has a port that is not connected: a fault of this crate, found by every test.
#[must_use]
pub fn verilog(config: &Config, header: &str, core: &str, inputs: &[Port], outputs: &[Port]) -> String {
    let names = streams(config).map(|stream| stream.axi_name);
    let bus: Vec<&str> = ["s_axil"].into_iter().chain(names).chain([WRITE_STREAM, READ_STREAM]).collect();
    let mut text = module_head(header, TOP, &ports(config), &bus);

    let mut connections: Vec<(String, String)> =
        vec![("clk".into(), "aclk".into()), ("reset_n".into(), "aresetn".into())];
    let mut unused: Vec<String> = vec!["s_axil_awprot".into(), "s_axil_arprot".into()];
    connect_streams(streams(config), inputs, outputs, &mut text, &mut connections, &mut unused);
    for port in inputs.iter().chain(outputs) {
        let name = &port.name;
        let signal = payload_signal(name, WRITE_STREAM, READ_STREAM);
        let signal = signal.or_else(|| Some(format!("s_axil_{}", name.strip_prefix("axil_")?)));
        connections.extend(signal.map(|signal| (name.clone(), lane_of(&signal, "data_"))));
    }
    instantiate(&mut text, core, TOP, &connections, &unused, inputs.iter().chain(outputs));
    text
}
