//! Turns the port pairs by which the hardware layer describes instances and forward wires into instances and wires.
//!
//! The names are those of `keywalk_hdl::prim`: `x__module__instance__port` and `y__...` are the output and input ports of
//! an instance, `w__name` and `v__name` the value and the driver of a forward wire. The text goes in and comes out in
//! kaze's own form.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A port as kaze prints it in a module header.
struct PortLine<'a> {
    /// `input wire [7:0]` without the name.
    kind: &'a str,
    /// The name.
    name: &'a str,
}

fn port_line(line: &str) -> Option<PortLine<'_>> {
    let line = line.trim().trim_end_matches(',');
    let (kind, name) = line.rsplit_once(' ')?;
    (kind.starts_with("input wire") || kind.starts_with("output wire")).then_some(PortLine { kind, name })
}

/// Rewrites the text of one module.
#[must_use]
pub fn stitch(text: &str) -> String {
    let mut header = Vec::new();
    let mut wires = String::new();
    let mut instances: BTreeMap<(&str, &str), Vec<(&str, &str)>> = BTreeMap::new();
    let mut lines = text.lines();
    let module = lines.next().unwrap_or_default();
    for line in lines.by_ref() {
        if line.trim() == ");" {
            break;
        }
        let Some(port) = port_line(line) else { continue };
        let range = port.kind.split_once("wire").map_or("", |(_, range)| range.trim_start());
        let separator = if range.is_empty() { "" } else { " " };
        let parts: Vec<&str> = port.name.split("__").collect();
        match parts.as_slice() {
            ["x" | "y", instantiated, instance, instance_port] => {
                let _ = writeln!(wires, "    wire {range}{separator}{};", port.name);
                instances.entry((instance, instantiated)).or_default().push((instance_port, port.name));
            }
            ["w", wire] => {
                let _ = writeln!(wires, "    wire {range}{separator}{};", port.name);
                let _ = writeln!(wires, "    assign {} = v__{wire};", port.name);
            }
            ["v", _] => {
                let _ = writeln!(wires, "    wire {range}{separator}{};", port.name);
            }
            _ => header.push(format!("    {} {}", port.kind, port.name)),
        }
    }
    let mut result = format!("{module}\n{}\n);\n{wires}", header.join(",\n"));
    for ((instance, instantiated), mut ports) in instances {
        ports.sort_unstable();
        let _ = write!(result, "    {instantiated} {instance}(\n        .reset_n(reset_n),\n        .clk(clk)");
        for (port, wire) in ports {
            let _ = write!(result, ",\n        .{port}({wire})");
        }
        result.push_str(");\n");
    }
    for line in lines {
        result.push_str(line);
        result.push('\n');
    }
    result
}
