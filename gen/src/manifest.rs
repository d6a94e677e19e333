//! The manifest: everything about a generated engine that a tool may want to know without reading Verilog.

use crate::card::{self, Card};
use crate::config_file::legal;
use crate::shell::Shell;
use crate::{ModuleInfo, Output, latency, probe_wrapper};
use keywalk_contract::ports::{self, Direction, StreamPort};
use keywalk_contract::{Config, mover, regs};
use keywalk_hdl::csr;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Name of the manifest's file.
pub const FILE: &str = "manifest.json";
/// Format of the manifest, with its version.
pub const FORMAT: &str = "keywalk-manifest/1";

/// The program that wrote the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generator {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// A file beside the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Name within the directory.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, lower-case hexadecimal.
    pub sha256: String,
}

impl FileEntry {
    fn new(name: &str, text: &str) -> Self {
        let mut sha256 = String::new();
        for byte in Sha256::digest(text.as_bytes()) {
            let _ = write!(sha256, "{byte:02x}");
        }
        Self { name: name.into(), bytes: text.len() as u64, sha256 }
    }
}

/// The part that every manifest has, enough to know which files of a directory are the generator's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// [`FORMAT`].
    pub format: String,
    /// The program.
    pub generator: Generator,
    /// Every file but the manifest.
    pub files: Vec<FileEntry>,
}

impl Index {
    /// The index of the given files: name and text.
    #[must_use]
    pub fn new(files: &[(String, String)]) -> Self {
        Self {
            format: FORMAT.into(),
            generator: Generator { name: env!("CARGO_PKG_NAME").into(), version: env!("CARGO_PKG_VERSION").into() },
            files: files.iter().map(|(name, text)| FileEntry::new(name, text)).collect(),
        }
    }
}

/// A configuration field with its legal values.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    value: u32,
    default: u32,
    legal: String,
    doc: &'static str,
}

#[derive(Serialize)]
struct PortEntry<'a> {
    name: &'a str,
    direction: &'static str,
    width_bits: u32,
}

#[derive(Serialize)]
struct MemoryEntry<'a> {
    name: &'a str,
    words: u64,
    width_bits: u32,
    bits: u64,
    read_ports: usize,
    style: Option<&'static str>,
}

#[derive(Serialize)]
struct InstanceEntry<'a> {
    name: &'a str,
    module: &'a str,
}

#[derive(Serialize)]
struct ModuleEntry<'a> {
    name: &'a str,
    file: String,
    ports: Vec<PortEntry<'a>>,
    memories: Vec<MemoryEntry<'a>>,
    register_bits: u32,
    instances: Vec<InstanceEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<String>,
}

#[derive(Serialize)]
struct StreamField {
    name: &'static str,
    low: u32,
    width_bits: u32,
    /// Bits that this engine has; the others read as zero and are ignored on input.
    used_bits: u32,
    doc: &'static str,
}

#[derive(Serialize)]
struct StreamEntry {
    name: &'static str,
    direction: &'static str,
    tdata_bits: u32,
    doc: &'static str,
    fields: Vec<StreamField>,
}

#[derive(Serialize)]
struct Manifest<'a> {
    #[serde(flatten)]
    index: Index,
    top: &'a str,
    register_map_version: u32,
    configuration: &'a Config,
    parameters: Vec<Parameter>,
    derived: BTreeMap<&'static str, u32>,
    streams: Vec<StreamEntry>,
    mover_top: &'a str,
    mover_streams: Vec<StreamEntry>,
    probe_top: &'a str,
    probe_streams: Vec<StreamEntry>,
    modules: Vec<ModuleEntry<'a>>,
}

/// Facts that follow from the configuration or are the same in every engine.
fn derived(config: &Config) -> BTreeMap<&'static str, u32> {
    BTreeMap::from([
        ("beats_per_line", config.beats_per_line()),
        ("counter_read_extra_cycles", csr::READ_EXTRA_CYCLES),
        ("hold_bytes_max", config.hold_bytes_max()),
        ("mpt_entries", config.mpt_sets * config.mpt_ways),
        ("register_address_bits", regs::ADDRESS_BITS),
        ("split_queue_depth", config.admitted_max()),
        ("table_id_bits", config.table_id_bits()),
        ("tlb_entries", config.tlb_sets * config.tlb_ways),
        ("request_walks", config.request_walks()),
    ])
}

fn direction(is_input: bool) -> &'static str {
    if is_input { "input" } else { "output" }
}

fn module_entry(module: &ModuleInfo, has_implied_ports: bool) -> ModuleEntry<'_> {
    let implied: &[&str] = if has_implied_ports { &["clk", "reset_n"] } else { &[] };
    let implied = implied.iter().map(|name| PortEntry { name, direction: direction(true), width_bits: 1 });
    let ports = module.ports.iter().map(|port| PortEntry {
        name: &port.name,
        direction: direction(port.is_input),
        width_bits: port.width,
    });
    let memories = module.memories.iter().map(|memory| MemoryEntry {
        name: &memory.name,
        words: memory.words,
        width_bits: memory.width,
        bits: memory.bits(),
        read_ports: memory.read_ports,
        style: memory.style,
    });
    let instances =
        module.instances.iter().map(|instance| InstanceEntry { name: &instance.name, module: &instance.module });
    ModuleEntry {
        name: &module.name,
        file: format!("{}.v", module.name),
        ports: implied.chain(ports).collect(),
        memories: memories.collect(),
        register_bits: module.register_bits,
        instances: instances.collect(),
        latency: latency::statement(&module.name),
    }
}

fn stream_entry(stream: &StreamPort, output: &Output, top: &str) -> StreamEntry {
    let top = output.modules.iter().find(|module| module.name == top);
    let core = top.and_then(|top| top.instances.first());
    let core = core.and_then(|core| output.modules.iter().find(|module| module.name == core.module));
    let used_bits = |name: String| {
        core.and_then(|core| core.ports.iter().find(|port| port.name == name)).map_or(0, |port| port.width)
    };
    StreamEntry {
        name: stream.axi_name,
        direction: direction(stream.direction == Direction::In),
        tdata_bits: stream.layout.bytes * 8,
        doc: stream.layout.doc.trim(),
        fields: stream
            .layout
            .fields
            .iter()
            .map(|field| StreamField {
                name: field.name,
                low: field.low,
                width_bits: field.width,
                used_bits: used_bits(format!("{}_{}", stream.core_name, field.name)),
                doc: field.doc,
            })
            .collect(),
    }
}

/// The text of the manifest of an engine whose files, name and text, are the given ones.
///
/// # Panics
/// Never: every part has a form in JSON.
#[must_use]
pub fn text(output: &Output, files: &[(String, String)]) -> String {
    let config = &output.config;
    json(&Manifest {
        index: Index::new(files),
        top: &output.top,
        register_map_version: regs::VERSION,
        configuration: config,
        parameters: Config::FIELDS
            .iter()
            .map(|field| Parameter {
                name: field.name,
                value: (field.get)(config),
                default: field.default,
                legal: legal(field),
                doc: field.doc.trim(),
            })
            .collect(),
        derived: derived(config),
        streams: ports::streams(config).map(|stream| stream_entry(stream, output, &output.top)).collect(),
        mover_top: &output.mover_top,
        mover_streams: mover::STREAMS.iter().map(|stream| stream_entry(stream, output, &output.mover_top)).collect(),
        probe_top: &output.probe_top,
        probe_streams: probe_wrapper::streams(&output.config)
            .map(|stream| stream_entry(stream, output, &output.probe_top))
            .collect(),
        modules: output.modules.iter().map(|module| module_entry(module, !output.is_top(&module.name))).collect(),
    })
}

#[derive(Serialize)]
struct ShellManifest<'a> {
    #[serde(flatten)]
    index: Index,
    top: &'a str,
    configuration: BTreeMap<&'static str, u32>,
    modules: Vec<ModuleEntry<'a>>,
}

/// The text of the manifest of a shell whose files, name and text, are the given ones.
#[must_use]
pub fn shell_text(shell: &Shell, files: &[(String, String)]) -> String {
    let config = &shell.config;
    json(&ShellManifest {
        index: Index::new(files),
        top: keywalk_fpga::top::TOP,
        configuration: config.fields().into_iter().collect(),
        // Modules of the shell name their clocks and resets among their ports, those made with kaze do not.
        modules: shell.modules.iter().map(|module| module_entry(module, shell.has_implied_ports(module))).collect(),
    })
}

#[derive(Serialize)]
struct CardManifest<'a> {
    #[serde(flatten)]
    index: Index,
    top: &'a str,
    configuration: &'a Config,
    shell: BTreeMap<&'static str, u32>,
    streams: Vec<StreamEntry>,
    mover_streams: Vec<StreamEntry>,
    modules: Vec<ModuleEntry<'a>>,
}

/// The text of the manifest of a card whose files, name and text, are the given ones.
#[must_use]
pub fn card_text(card: &Card, files: &[(String, String)]) -> String {
    let engine = &card.engine;
    let is_outer = |entry: &StreamEntry| card.has_port(&format!("{}_tvalid", entry.name));
    let streams = ports::streams(&engine.config).map(|stream| stream_entry(stream, engine, &engine.top));
    let of_mover = mover::STREAMS.iter().map(|stream| stream_entry(stream, engine, &engine.mover_top));
    json(&CardManifest {
        index: Index::new(files),
        top: card::TOP,
        configuration: &engine.config,
        shell: card.config.shell().fields().into_iter().collect(),
        streams: streams.filter(is_outer).collect(),
        mover_streams: of_mover.filter(is_outer).collect(),
        modules: card.modules.iter().map(|module| module_entry(module, card.has_implied_ports(module))).collect(),
    })
}

/// A value as indented JSON with a newline at the end.
///
/// # Panics
/// Where the value has no form in JSON.
#[must_use]
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("the value has a form in JSON") + "\n"
}
