//! A card that a host can test by itself: `keywalk_card` with a probe at its streams and at the user's registers. What a card
//! is without packet logic of its own.

use crate::card::{self, CardConfig, USER_PORT};
use crate::probe_wrapper;
use keywalk_fpga::emit::{Module, Port};
use keywalk_fpga::netlist::{Netlist, clock_attributes, reset_attributes};
use std::fmt::Write;

/// Name of the module.
pub const TOP: &str = "keywalk_probed_card";
/// Instances.
const CARD: &str = "card";
const PROBE: &str = "probe";
/// Streams of the card that nothing drives here: those of the context port and of invalidations, which commands replace.
const IDLE: [&str; 4] = ["s_axis_ctx", "m_axis_ctx", "s_axis_inv", "m_axis_inv"];

/// The port of the card that is the other end of a port of the probe.
fn other_end(probe_port: &str) -> String {
    if let Some(signal) = probe_port.strip_prefix("s_axil_") {
        return format!("{USER_PORT}_{signal}");
    }
    match (probe_port.strip_prefix("m_axis_"), probe_port.strip_prefix("s_axis_")) {
        (Some(rest), _) => format!("s_axis_{rest}"),
        (_, Some(rest)) => format!("m_axis_{rest}"),
        _ => probe_port.to_owned(),
    }
}

/// Whether a port belongs to one of these bundles.
fn is_of(port: &str, bundles: &[&str]) -> bool {
    bundles.iter().any(|bundle| port.strip_prefix(bundle).is_some_and(|rest| rest.starts_with('_')))
}

/// Ports of the module with their meanings: those of the card towards PCIe, its clocks and resets.
#[must_use]
pub fn ports(config: &CardConfig) -> Vec<(Port, String)> {
    let is_outer = |port: &str| !port.contains("_axis_") && !is_of(port, &[USER_PORT]);
    card::ports(config).into_iter().filter(|(port, _)| is_outer(&port.name)).collect()
}

/// The module, without a header.
#[must_use]
pub fn module(config: &CardConfig) -> Module {
    let outer = ports(config);
    let probe = probe_wrapper::ports(&config.engine);
    let mut net = Netlist::default();
    let mut unused = Vec::new();
    for (port, _) in card::ports(config) {
        let Port { name, width, is_input } = &port;
        let expression = if outer.iter().any(|(port, _)| port.name == *name) {
            name.clone()
        } else if is_of(name, &IDLE) && *is_input {
            // Nothing is asked for, and answers, of which there are none, are taken.
            format!("{width}'d{}", u8::from(name.ends_with("_tready")))
        } else {
            net.wire(name, *width);
            if is_of(name, &IDLE) {
                unused.push(name.clone());
            }
            name.clone()
        };
        net.connect(CARD, card::TOP, name, &expression);
    }
    for port in &probe {
        let expression = match port.name.as_str() {
            "aclk" => "engine_aclk".into(),
            "aresetn" => "keywalk_aresetn".into(),
            // The port of the card does not tell kinds of access apart.
            name if name.ends_with("prot") => format!("{}'d0", port.width),
            name => other_end(name),
        };
        net.connect(PROBE, probe_wrapper::TOP, &port.name, &expression);
    }
    let _ = writeln!(net.wires, "    wire _unused_ok = &{{1'b0, {}, 1'b0}};", unused.join(", "));
    net.print(TOP, outer, attributes)
}

/// What tells Vivado which buses belong to a clock or reset.
fn attributes(port: &str) -> String {
    match port {
        "pcie_aclk" => clock_attributes(port, "m_axi_host:s_axil_host", "pcie_aresetn"),
        "engine_aclk" => clock_attributes(port, "", "keywalk_aresetn").replace("ASSOCIATED_BUSIF , ", ""),
        "engine_aresetn" | "keywalk_aresetn" | "pcie_aresetn" => reset_attributes(port),
        _ => String::new(),
    }
}
