//! Verilog of what rust-hdl describes, one text per module.
//!
//! rust-hdl prints a module per register, memory and synchroniser, named by its path. Here they are put into the module
//! that they belong to, so that constraints and properties see everything by one name.

use rust_hdl_core::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A module in Verilog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its text, from `module` to `endmodule`.
    pub text: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Name and module of its instances.
    pub instances: Vec<(String, String)>,
}

/// A port of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// Whether the module receives it.
    pub is_input: bool,
}

/// Why a circuit has no Verilog: a fault of this crate.
#[derive(Debug, thiserror::Error)]
#[error("circuit {circuit}: {what}")]
pub struct EmitError {
    /// The circuit.
    pub circuit: String,
    /// What is wrong.
    pub what: String,
}

/// Prints a circuit as one module called `name`: registers, memories and synchronisers stand in it with the names of
/// their instances in front of their own.
///
/// # Errors
/// A circuit that rust-hdl's checks refuse, or text that is not understood.
pub fn circuit<C: Block>(name: &str, mut block: C) -> Result<Module, EmitError> {
    let fault = |what: String| EmitError { circuit: name.into(), what };
    block.connect_all();
    check_all(&block).map_err(|error| fault(format!("rust-hdl refuses it: {error:?}")))?;
    let printed = generate_verilog_unchecked(&block);
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for part in printed.split("\n\nmodule ").filter(|part| !part.trim().is_empty()) {
        let (module, body) = part.split_once('(').ok_or_else(|| fault(format!("a module without ports: `{part}`")))?;
        let (body, _) = body.rsplit_once("endmodule").ok_or_else(|| fault(format!("module {module} does not end")))?;
        bodies.insert(module.trim().to_owned(), wire_clocks(&tidy(body)));
    }
    let top = bodies.remove("top").ok_or_else(|| fault("there is no top module".into()))?;
    let ports = ports(&top);
    let mut text = format!("module {name}(");
    let mut leaves = String::new();
    let mut lines = top.lines();
    let mut outputs = BTreeSet::new();
    while let Some(line) = lines.next() {
        let instance = line.trim().strip_suffix('(').and_then(|line| line.split_once(' '));
        let Some((leaf, (_, instance))) = instance.and_then(|found| Some((bodies.get(found.0)?, found))) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let connections: BTreeMap<&str, &str> = lines
            .by_ref()
            .map(str::trim)
            .take_while(|line| *line != ");")
            .filter_map(|line| line.trim_end_matches(',').strip_prefix('.')?.strip_suffix(')')?.split_once('('))
            .collect();
        outputs.extend(
            self::ports(leaf)
                .iter()
                .filter(|port| !port.is_input)
                .filter_map(|port| connections.get(port.name.as_str()).map(|connection| (*connection).to_owned())),
        );
        leaves.push_str(&inline(leaf, instance, &connections));
    }
    // A leaf's output is a register here.
    for output in outputs {
        text = text.lines().fold(String::new(), |all, line| {
            let is_declaration = line.trim_start().starts_with("wire ") && line.ends_with(&format!(" {output};"));
            all + &if is_declaration { line.replacen("wire", "reg", 1) } else { line.to_owned() } + "\n"
        });
    }
    let text = format!("{text}{leaves}endmodule\n").replace('$', "_");
    Ok(Module { name: name.into(), text, ports, instances: Vec::new() })
}

/// The code of a leaf, its ports replaced by what they are connected to, all other names led by the instance's.
fn inline(leaf: &str, instance: &str, connections: &BTreeMap<&str, &str>) -> String {
    const WORDS: [&str; 10] = ["always", "begin", "else", "end", "if", "initial", "negedge", "or", "posedge", "reg"];
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut text = format!("    // {instance}\n");
    // Behind the list of ports.
    let code = leaf.lines().skip(1).filter(|line| {
        let line = line.trim();
        !(line.starts_with("input ") || line.starts_with("output ") || line.starts_with("//"))
    });
    for line in code {
        // Attributes and numbers are no names: `(* ... *)`, 3'h0.
        let (attribute, mut rest) = match line.find("*)") {
            Some(end) if line.contains("(* ") => line.split_at(end + 2),
            _ => ("", line),
        };
        text.push_str(attribute);
        let mut before = ' ';
        while let Some(letter) = rest.chars().next() {
            let length = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len()).max(letter.len_utf8());
            let (word, behind) = rest.split_at(length);
            rest = behind;
            if !is_name(letter) || letter.is_ascii_digit() || before == '\'' || WORDS.contains(&word) {
                text.push_str(word);
            } else if let Some(connection) = connections.get(word) {
                text.push_str(connection);
            } else {
                text.push_str(&format!("{instance}_{word}"));
            }
            before = word.chars().next_back().unwrap_or(' ');
        }
        text.push('\n');
    }
    text
}

/// The ports that a module declares.
fn ports(body: &str) -> Vec<Port> {
    let mut ports = Vec::new();
    for line in body.lines().map(str::trim) {
        let is_input = line.starts_with("input wire ");
        if !is_input && !line.starts_with("output reg ") {
            continue;
        }
        let high = line.split_once('[').and_then(|(_, range)| range.split(':').next()?.parse::<u32>().ok());
        let name = line.trim_end_matches(';').rsplit(' ').next().unwrap_or_default();
        ports.push(Port { name: name.into(), width: high.map_or(1, |high| high + 1), is_input });
    }
    ports
}

/// rust-hdl passes clocks on to instances as computed values, like data. Here instances get the clock itself.
fn wire_clocks(body: &str) -> String {
    let clocks: Vec<(String, String)> = body
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split_once(" = "))
        .filter(|(stub, clock)| stub.ends_with("$clock") || (stub.contains('$') && clock.ends_with("_clock")))
        .map(|(stub, clock)| (stub.to_owned(), clock.to_owned()))
        .collect();
    let mut text = String::new();
    for line in body.lines() {
        let is_gone = |stub: &str| {
            let line = line.trim();
            line == format!("reg {stub};") || line.starts_with(&format!("{stub} = "))
        };
        if clocks.iter().any(|(stub, _)| is_gone(stub)) {
            continue;
        }
        let clock = clocks.iter().find(|(stub, _)| line.contains(&format!("({stub})")));
        match clock {
            Some((stub, clock)) => text.push_str(&line.replace(&format!("({stub})"), &format!("({clock})"))),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Empty lines and double spaces go; a memory says what it is made of.
fn tidy(body: &str) -> String {
    let mut text = String::new();
    for line in body.lines() {
        let line = line.trim_end();
        if line.is_empty() || line == "    ;" {
            continue;
        }
        let line = line.replace("  [", " [").replace("wire  ", "wire ").replace("reg  ", "reg ");
        let line = line.replace("reg[", "reg [").replace("] mem[", "] mem [");
        if line.contains("] mem [") {
            text.push_str("    (* ram_style = \"distributed\" *)\n");
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}
