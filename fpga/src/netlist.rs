//! Verilog of modules that connect instances.

use crate::emit::{Module, Port};
use std::fmt::Write;

/// Connections of the instances, and the wires between them.
#[derive(Default)]
pub struct Netlist {
    /// Declarations.
    pub wires: String,
    /// Assignments.
    pub assigns: String,
    instances: Vec<Instance>,
}

/// An instance with its connections: port and expression.
struct Instance {
    name: String,
    module: String,
    connections: Vec<(String, String)>,
}

impl Netlist {
    /// Declares a wire.
    pub fn wire(&mut self, name: &str, width: u32) {
        let _ = writeln!(self.wires, "    wire {}{name};", range(width));
    }

    /// Connects a port of an instance, which is made where it is not there yet.
    pub fn connect(&mut self, instance: &str, module: &str, port: &str, expression: &str) {
        let connection = (port.to_owned(), expression.to_owned());
        match self.instances.iter_mut().find(|known| known.name == instance) {
            Some(known) => known.connections.push(connection),
            None => {
                let (name, module) = (instance.into(), module.into());
                self.instances.push(Instance { name, module, connections: vec![connection] });
            }
        }
    }

    /// The module of that name, without a header: ports with their meanings, and what tells Vivado about a port.
    #[must_use]
    pub fn print(self, name: &str, ports: Vec<(Port, String)>, attributes: impl Fn(&str) -> String) -> Module {
        let mut text = format!("module {name} (\n");
        for (number, (port, doc)) in ports.iter().enumerate() {
            text.push_str(&attributes(&port.name));
            let direction = if port.is_input { "input" } else { "output" };
            let comma = if number + 1 == ports.len() { "" } else { "," };
            let comment = if doc.is_empty() { String::new() } else { format!(" // {}", doc.replace('\n', " ")) };
            let _ = writeln!(text, "    {direction} wire {}{}{comma}{comment}", range(port.width), port.name);
        }
        text.push_str(");\n");
        text.push_str(&self.wires);
        text.push_str(&self.assigns);
        let mut instances = Vec::new();
        for Instance { name, module, connections } in self.instances {
            let lines: Vec<String> = connections.iter().map(|(port, to)| format!("        .{port}({to})")).collect();
            let _ = writeln!(text, "    {module} {name} (\n{}\n    );", lines.join(",\n"));
            instances.push((name, module));
        }
        text.push_str("endmodule\n");
        Module { name: name.into(), text, ports: ports.into_iter().map(|(port, _)| port).collect(), instances }
    }
}

/// A declaration's range.
fn range(width: u32) -> String {
    if width == 1 { String::new() } else { format!("[{}:0] ", width - 1) }
}

/// `width` bits from bit `low` on of a signal of `whole` bits.
#[must_use]
pub fn part(name: &str, low: u32, width: u32, whole: u32) -> String {
    match (width, whole) {
        (1, 1) => name.into(),
        (1, _) => format!("{name}[{low}]"),
        _ if width == whole => name.into(),
        _ => format!("{name}[{}:{low}]", low + width - 1),
    }
}

/// What tells Vivado which buses and which reset belong to a clock.
#[must_use]
pub fn clock_attributes(port: &str, buses: &str, reset: &str) -> String {
    format!(
        "    (* X_INTERFACE_INFO = \"xilinx.com:signal:clock:1.0 {port} CLK\" *)\n    \
         (* X_INTERFACE_PARAMETER = \"ASSOCIATED_BUSIF {buses}, ASSOCIATED_RESET {reset}\" *)\n"
    )
}

/// What tells Vivado that a port is a reset.
#[must_use]
pub fn reset_attributes(port: &str) -> String {
    format!(
        "    (* X_INTERFACE_INFO = \"xilinx.com:signal:reset:1.0 {port} RST\" *)\n    \
         (* X_INTERFACE_PARAMETER = \"POLARITY ACTIVE_LOW\" *)\n"
    )
}
