//! The whole of what a card has: engine, data mover and shell in one top module, with constraints, waivers and manifest.

use crate::canonicalise::{self, Options};
use crate::package::File;
use crate::shell::{self, Shell, ShellConfig, ShellError};
use crate::wrapper::{self, lite_signals, stream_ports};
use crate::{
    GenerateError, ModuleInfo, Output, canonical, files_of, info, manifest, mover_wrapper, print_design, probed_card,
};
use keywalk_contract::mover::{READ_STREAM, STREAMS, WRITE_STREAM};
use keywalk_contract::{Config, ports, regs};
use keywalk_fpga::config::TABLE_ID_BITS;
use keywalk_fpga::emit::{Module, Port};
use keywalk_fpga::netlist::{Netlist, clock_attributes, part, reset_attributes};
use keywalk_fpga::{memory_arbiter, register_split, request_fork, top};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Name of the top module.
pub const TOP: &str = "keywalk_card";
/// Name of the list of Verilog files.
pub const FILE_LIST: &str = "keywalk_card.f";
/// Name of the page with the block diagram and every crossing and reset.
pub const PAGE: &str = "card.md";
/// Bits of a lane of data in blocks made with kaze.
const LANE_BITS: u32 = 128;
/// Streams of the engine that end within the card.
const INNER_ENGINE_STREAMS: [&str; 2] = ["m_axis_rsp", "s_axis_done"];
/// Streams of the data mover that end within the card.
const INNER_MOVER_STREAMS: [&str; 3] = ["s_axis_op", "s_axis_rsp", "m_axis_done"];
/// Prefix of the port to the registers of the user's own logic.
pub const USER_PORT: &str = "m_axil_user";

/// What can be chosen about a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardConfig {
    /// Engine and data mover.
    pub engine: Config,
    /// Bits of data of the PCIe IP's ports.
    pub pcie_data_bits: u32,
    /// Stages of every synchroniser.
    pub stages: u32,
    /// An interrupt that is still pending after 2 to this power cycles of the PCIe clock is sent again.
    pub interrupt_repeat_log2: u32,
}

impl CardConfig {
    /// A card around that engine, with the shell's defaults.
    #[must_use]
    pub fn new(engine: Config) -> Self {
        let ShellConfig { pcie_data_bits, stages, interrupt_repeat_log2, .. } = ShellConfig::default();
        Self { engine, pcie_data_bits, stages, interrupt_repeat_log2 }
    }

    /// The shell of the card.
    #[must_use]
    pub fn shell(&self) -> ShellConfig {
        ShellConfig {
            engine_data_bits: self.engine.mover_data_bits,
            pcie_data_bits: self.pcie_data_bits,
            stages: self.stages,
            interrupt_repeat_log2: self.interrupt_repeat_log2,
        }
    }

    /// Checks what a card asks of its engine beside what every engine must be.
    fn validate(&self) -> Result<(), CardError> {
        let engine = &self.engine;
        let illegal = |what: String| Err(CardError::Illegal(what));
        for (name, is_on, why) in [
            ("in_order", engine.in_order, "the data mover takes responses in the order of the requests"),
            ("done_tracking", engine.done_tracking, "an invalidation must wait for data that is being moved"),
        ] {
            if !is_on {
                return illegal(format!("`{name}` is false, legal is true: {why}"));
            }
        }
        let (table, mover) = (engine.table_data_bits, engine.mover_data_bits);
        if table != mover {
            return illegal(format!("`table_data_bits` is {table}, legal is `mover_data_bits`, which is {mover}"));
        }
        if mover < self.pcie_data_bits {
            return illegal(format!(
                "`mover_data_bits` is {mover}, legal is at least the PCIe IP's, {}: the reads of the data mover share an \
                 identifier",
                self.pcie_data_bits
            ));
        }
        let id_bits = engine.table_id_bits();
        if id_bits > TABLE_ID_BITS {
            let reads = engine.reads_in_flight;
            return illegal(format!(
                "`reads_in_flight` is {reads}, legal is at most {}: with the command unit identifiers have {id_bits} bits",
                reads >> (id_bits - TABLE_ID_BITS)
            ));
        }
        Ok(())
    }
}

/// Why no card was generated.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The engine is none for a card.
    #[error("card: {0}")]
    Illegal(String),
    /// The shell.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The engine.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// Two parts have modules of one name that differ: a fault of this project.
    #[error("two modules are called {0}")]
    Clash(String),
}

impl CardError {
    /// Whether the configuration is at fault.
    #[must_use]
    pub fn is_illegal_configuration(&self) -> bool {
        matches!(
            self,
            Self::Illegal(_)
                | Self::Shell(ShellError::Config(_))
                | Self::Generate(GenerateError::Config(_) | GenerateError::Name(_))
        )
    }
}

/// Everything that is generated of a card.
#[derive(Clone, Debug)]
pub struct Card {
    /// The configuration.
    pub config: CardConfig,
    /// Engine and data mover.
    pub engine: Output,
    /// The shell.
    pub shell: Shell,
    /// File name and text of every Verilog module, that of the card with a probe before the top module, which is the last.
    pub verilog: Vec<File>,
    /// The modules, in the order of the files.
    pub modules: Vec<ModuleInfo>,
    /// Names of the modules that have the ports `clk` and `reset_n`, which are not listed for them.
    pub single_clock: Vec<String>,
}

/// The blocks between engine, data mover and shell.
fn blocks(config: &CardConfig) -> Result<Vec<canonicalise::Module>, GenerateError> {
    let (_, texts) = print_design(|design| {
        memory_arbiter::build(design, config.engine.mover_data_bits);
        request_fork::build(design);
        register_split::build(design);
    });
    canonical(&texts)
}

/// Generates a card.
///
/// # Errors
/// An illegal configuration.
pub fn generate(config: &CardConfig) -> Result<Card, CardError> {
    config.engine.validate().map_err(GenerateError::from)?;
    config.validate()?;
    let shell = shell::generate(&config.shell())?;
    let engine = crate::generate(&config.engine)?;
    let mut modules: BTreeMap<String, (String, ModuleInfo)> = BTreeMap::new();
    let mut single_clock = Vec::new();
    let mut add = |text: &str, info: &ModuleInfo| {
        // Queues and the like may be in several parts. What differs is the line that says of which.
        let content = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        match modules.get(&info.name) {
            Some((known, _)) if content(known) != content(text) => Err(CardError::Clash(info.name.clone())),
            Some(_) => Ok(()),
            None => {
                modules.insert(info.name.clone(), (text.to_owned(), info.clone()));
                Ok(())
            }
        }
    };
    for ((_, text), info) in engine.files.iter().zip(&engine.modules) {
        add(text, info)?;
        if !engine.is_top(&info.name) {
            single_clock.push(info.name.clone());
        }
    }
    for ((_, text), info) in shell.verilog.iter().zip(&shell.modules) {
        add(text, info)?;
        if shell.has_implied_ports(info) {
            single_clock.push(info.name.clone());
        }
    }
    let mut infos = Vec::new();
    for module in blocks(config)? {
        let header = format!("{}: generated by keywalk-gen {}.", module.name(), env!("CARGO_PKG_VERSION"));
        let text = module.to_verilog(&Options { header: &header, port_comments: &BTreeMap::new() });
        let info = info(&module);
        add(&text, &info)?;
        single_clock.push(info.name.clone());
        infos.push(info);
    }
    let top = module(config, &infos);
    let header = shell::header(&top.name, "//").replace(".\n", &format!(", configuration `{}`.\n", config.engine.name));
    let (mut verilog, mut infos) = (Vec::new(), Vec::new());
    for (name, (text, info)) in modules {
        verilog.push((format!("{name}.v"), text));
        infos.push(info);
    }
    let probed = probed_card::module(config);
    verilog.push((format!("{}.v", probed.name), header.replace(TOP, &probed.name) + &probed.text));
    infos.push(shell::module_info(&probed));
    verilog.push((format!("{TOP}.v"), header + &top.text));
    infos.push(shell::module_info(&top));
    Ok(Card { config: config.clone(), engine, shell, verilog, modules: infos, single_clock })
}

impl Card {
    /// Whether a module has ports `clk` and `reset_n` that are not listed for it.
    #[must_use]
    pub fn has_implied_ports(&self, module: &ModuleInfo) -> bool {
        self.single_clock.contains(&module.name)
    }

    /// Whether the top module has a port of that name.
    #[must_use]
    pub fn has_port(&self, name: &str) -> bool {
        let top = self.modules.last();
        top.is_some_and(|top| top.ports.iter().any(|port| port.name == name))
    }

    /// Files of a module and of everything that it instantiates, with the waivers.
    #[must_use]
    pub fn files_of(&self, module: &str) -> Vec<File> {
        let mut files = files_of(module, &self.verilog, &self.modules);
        files.push(self.shell.waivers.clone());
        files
    }

    /// Every file of an output directory, the manifest last.
    #[must_use]
    pub fn package(&self) -> Vec<File> {
        let mut files = self.verilog.clone();
        let list: String = self.verilog.iter().map(|(name, _)| format!("{name}\n")).collect();
        files.push((FILE_LIST.into(), format!("{}\n{list}", shell::WAIVERS)));
        files.push(self.shell.waivers.clone());
        files.extend(self.shell.constraints.iter().cloned());
        files.push((PAGE.into(), self.page()));
        let manifest = manifest::card_text(self, &files);
        files.push((manifest::FILE.into(), manifest));
        files
    }
}

impl Card {
    /// The page with the block diagram and every crossing and reset.
    #[must_use]
    pub fn page(&self) -> String {
        let shell = shell::page(&self.shell.config);
        format!(
            "# {TOP}\n\nGenerated by keywalk-gen {}, configuration `{}`.\n\n## Blocks\n\n```mermaid\n{}```\n\n{}",
            env!("CARGO_PKG_VERSION"),
            self.config.engine.name,
            self.diagram(),
            shell.trim_start_matches("# ").replacen(top::TOP, &format!("The shell, `{}`:", top::TOP), 1)
        )
    }

    /// The block diagram in Mermaid's language, made from the connections of the parts and the queues of the shell.
    #[must_use]
    pub fn diagram(&self) -> String {
        let parts = parts(&self.config, &self.modules);
        let pins = pins(&parts);
        let mut edges: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
        let mut add = |from, to, name: &str| {
            edges.entry((from, to)).or_default().insert(name.to_owned());
        };
        // Whoever makes the requests of a bundle of wires, and whoever gets them.
        let bundles: BTreeSet<&str> = pins.iter().filter_map(|pin| bundle(&pin.wire)).collect();
        for name in bundles {
            let of_bundle = |is_input| {
                let pin = pins.iter().find(|pin| bundle(&pin.wire) == Some(name) && pin.is_input == is_input);
                pin.map_or(outside(name), |pin| within(parts[pin.part].name, name))
            };
            // The bus of host memory passes through the queues of the shell.
            if name != "memory" {
                add(of_bundle(false), of_bundle(true), name);
            }
        }
        let queues = top::queues(&self.shell.config);
        for queue in &queues {
            let end = |block: &'static str| if block.is_empty() { memory_arbiter::NAME } else { block };
            add(end(queue.writer.0), end(queue.reader.0), &format!("{}_queue", queue.name));
        }
        if queues.iter().any(|queue| queue.writer.0 == "width_converter") {
            add(memory_arbiter::NAME, "width_converter", "memory");
        }
        let nodes: BTreeSet<&str> = edges.keys().flat_map(|(from, to)| [*from, *to]).collect();
        let mut text = String::from("flowchart LR\n");
        for (side, title) in [(top::Side::Engine, "engine_aclk"), (top::Side::Pcie, "pcie_aclk")] {
            let _ = writeln!(text, "    subgraph {title}");
            for node in nodes.iter().filter(|node| side_of(node) == Some(side)) {
                let _ = writeln!(text, "        {node}");
            }
            text.push_str("    end\n");
        }
        for node in nodes.iter().filter(|node| side_of(node).is_none()) {
            let _ = writeln!(text, "    {node}([{}])", node.replace('_', " "));
        }
        for ((from, to), names) in &edges {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let _ = writeln!(text, "    {from} -- \"{}\" --> {to}", names.join("<br>"));
        }
        text.push_str(
            "    engine_aresetn([engine_aresetn]) -.-> reset_link\n    pcie_aresetn([pcie_aresetn]) -.-> reset_link\n    \
             reset_link -. keywalk_aresetn .-> engine_aclk\n    reset_link -. port_reset_n .-> pcie_aclk\n",
        );
        text
    }
}

/// The bundle of a wire that makes requests: what stands in front of its valid. Other wires are none of a bundle's.
fn bundle(wire: &str) -> Option<&str> {
    let found = ["_arvalid", "_tvalid", "_valid"].iter().find_map(|end| wire.strip_suffix(end));
    found.or(["interrupt_level", "usr_irq_req"].into_iter().find(|single| *single == wire))
}

/// Who is at the other end of a bundle of the card's ports.
fn outside(bundle: &str) -> &'static str {
    match bundle {
        "m_axi_host" | "s_axil_host" | "usr_irq_req" => "PCIe_IP",
        USER_PORT => "logic_of_the_user",
        _ => "requester",
    }
}

/// The block of a part at whose ports a bundle is.
fn within(part: &'static str, bundle: &str) -> &'static str {
    match (part, bundle) {
        ("shell", "m_axi_host") => "host_port",
        ("shell", "s_axil_host") => "register_port",
        ("shell", "host_register") => "register_master",
        ("shell", _) => "interrupt_port",
        _ => part,
    }
}

/// The clock of a node of the block diagram; none of what is outside.
fn side_of(node: &str) -> Option<top::Side> {
    match node {
        "host_port" | "register_port" | "interrupt_port" => Some(top::Side::Pcie),
        "requester" | "PCIe_IP" | "logic_of_the_user" => None,
        _ => Some(top::Side::Engine),
    }
}

/// Ports of the top module with their meanings.
#[must_use]
pub fn ports(config: &CardConfig) -> Vec<(Port, String)> {
    let mut ports = Vec::new();
    let mut add = |name: &str, width: u32, is_input: bool, doc: &str| {
        ports.push((Port { name: name.into(), width, is_input }, doc.to_owned()));
    };
    let of_shell = top::ports(&config.shell());
    let is_outer =
        |name: &str| !["s_axi_mem_", "m_axil_reg_", "interrupt_level"].iter().any(|inner| name.starts_with(inner));
    for port in of_shell.iter().filter(|port| is_outer(&port.port.name)) {
        add(&port.port.name, port.port.width, port.port.is_input, port.doc);
    }
    let of_engine = ports::streams(&config.engine).filter(|stream| !INNER_ENGINE_STREAMS.contains(&stream.axi_name));
    let of_mover = STREAMS.iter().filter(|stream| !INNER_MOVER_STREAMS.contains(&stream.axi_name));
    for stream in of_engine.chain(of_mover) {
        stream_ports(stream, &mut add);
    }
    let is_payload = |name: &str| [WRITE_STREAM, READ_STREAM].iter().any(|stream| name.starts_with(stream));
    for port in mover_wrapper::ports(&config.engine).iter().filter(|port| is_payload(&port.name)) {
        add(&port.name, port.width, port.is_input, &port.doc);
    }
    for (signal, width, is_masters) in lite_signals(regs::ADDRESS_BITS) {
        add(&format!("{USER_PORT}_{signal}"), width, !is_masters, "");
    }
    ports
}

/// A part of the card: an instance with the ports of its module.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name of the instance.
    pub name: &'static str,
    /// Name of the module.
    pub module: String,
    ports: Vec<Port>,
}

/// Where a port of a part is connected: the part's name, the front of the port's name, and what takes its place in the name
/// of the wire. Ports that are not listed are ports of the card.
const WIRES: &[(&str, &str, &str)] = &[
    ("engine", "aclk", "engine_aclk"),
    ("engine", "aresetn", "keywalk_aresetn"),
    ("engine", "s_axis_req_t", "request_"),
    ("engine", "m_axis_rsp_t", "response_"),
    ("engine", "s_axis_done_t", "done_"),
    ("engine", "m_axi_tbl_", "table_"),
    ("engine", "s_axil_", "register_"),
    ("engine", "interrupt", "interrupt_level"),
    ("mover", "aclk", "engine_aclk"),
    ("mover", "aresetn", "keywalk_aresetn"),
    ("mover", "s_axis_op_t", "operation_"),
    ("mover", "s_axis_rsp_t", "response_"),
    ("mover", "m_axis_done_t", "done_"),
    ("mover", "m_axi_dma_", "dma_"),
    ("shell", "s_axi_mem_", "memory_"),
    ("shell", "m_axil_reg_", "host_register_"),
    ("memory_arbiter", "clk", "engine_aclk"),
    ("memory_arbiter", "reset_n", "keywalk_aresetn"),
    ("memory_arbiter", "tbl_", "table_"),
    ("memory_arbiter", "mem_", "memory_"),
    ("memory_arbiter", "dma_", "dma_"),
    ("request_fork", "clk", "engine_aclk"),
    ("request_fork", "reset_n", "keywalk_aresetn"),
    ("request_fork", "request_", "s_axis_req_t"),
    ("request_fork", "engine_", "request_"),
    ("request_fork", "operation_", "operation_"),
    ("register_split", "clk", "engine_aclk"),
    ("register_split", "reset_n", "keywalk_aresetn"),
    ("register_split", "s_", "host_register_"),
    ("register_split", "m_reg_", "register_"),
    ("register_split", "m_user_", "m_axil_user_"),
];

/// A port of a part at its wire.
#[derive(Clone, Debug)]
struct Pin {
    part: usize,
    port: String,
    wire: String,
    low: u32,
    width: u32,
    is_input: bool,
}

/// The wire of a part's port, and the lowest of its bits there: `data_2` is bits 383 to 256 of `data`.
fn wire_of(part: &Part, port: &str) -> (String, u32) {
    let found = WIRES.iter().find_map(|(name, front, wire)| {
        (*name == part.name).then(|| port.strip_prefix(front).map(|rest| format!("{wire}{rest}"))).flatten()
    });
    let wire = found.unwrap_or_else(|| port.to_owned());
    match wire.rsplit_once("data_").and_then(|(front, lane)| Some((front, lane.parse::<u32>().ok()?))) {
        Some((front, lane)) => (format!("{front}data"), LANE_BITS * lane),
        None => (wire, 0),
    }
}

/// The parts of a card.
fn parts(config: &CardConfig, blocks: &[ModuleInfo]) -> Vec<Part> {
    let of_wrapper = |ports: Vec<wrapper::TopPort>| {
        ports.into_iter().map(|port| Port { name: port.name, width: port.width, is_input: port.is_input }).collect()
    };
    let part = |name, module: &str, ports| Part { name, module: module.into(), ports };
    let mut parts = vec![
        part("shell", top::TOP, top::ports(&config.shell()).into_iter().map(|port| port.port).collect()),
        part("engine", wrapper::TOP, of_wrapper(wrapper::ports(&config.engine))),
        part("mover", mover_wrapper::TOP, of_wrapper(mover_wrapper::ports(&config.engine))),
    ];
    for name in [request_fork::NAME, memory_arbiter::NAME, register_split::NAME] {
        let block = blocks.iter().find(|block| block.name == name).expect("the blocks of a card are built");
        let implied = ["clk", "reset_n"].map(|name| Port { name: name.into(), width: 1, is_input: true });
        let listed =
            block.ports.iter().map(|port| Port { name: port.name.clone(), width: port.width, is_input: port.is_input });
        parts.push(part(name, name, implied.into_iter().chain(listed).collect()));
    }
    parts
}

/// Every port of every part.
fn pins(parts: &[Part]) -> Vec<Pin> {
    let mut pins = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        for port in &part.ports {
            let (wire, low) = wire_of(part, &port.name);
            let Port { name, width, is_input } = port.clone();
            pins.push(Pin { part: number, port: name, wire, low, width, is_input });
        }
    }
    pins
}

/// The top module, without a header, around blocks with the given ports.
fn module(config: &CardConfig, blocks: &[ModuleInfo]) -> Module {
    let parts = parts(config, blocks);
    let pins = pins(&parts);
    let ports = ports(config);
    let outer = |wire: &str| ports.iter().find(|(port, _)| port.name == wire);
    // A wire is as wide as what drives it.
    let driven = |wire: &str| match outer(wire) {
        Some((port, _)) => port.width,
        None => {
            let drivers = pins.iter().filter(|pin| pin.wire == wire && !pin.is_input);
            drivers.map(|pin| pin.low + pin.width).max().unwrap_or(0)
        }
    };
    let mut net = Netlist::default();
    let mut unused = Vec::new();
    let mut declared = BTreeSet::new();
    for pin in &pins {
        let whole = driven(&pin.wire);
        let expression = match whole.saturating_sub(pin.low) {
            // Identifiers that are not used and kinds of access that are not told apart.
            0 => format!("{}'d0", pin.width),
            there if there < pin.width => format!("{{{}'d0, {}}}", pin.width - there, pin.wire),
            _ => part(&pin.wire, pin.low, pin.width, whole),
        };
        net.connect(parts[pin.part].name, &parts[pin.part].module, &pin.port, &expression);
        if whole == 0 || outer(&pin.wire).is_some() || !declared.insert(pin.wire.clone()) {
            continue;
        }
        net.wire(&pin.wire, whole);
        let readers = pins.iter().filter(|other| other.wire == pin.wire && other.is_input);
        let read = readers.map(|pin| pin.low + pin.width).max().unwrap_or(0);
        if read < whole {
            unused.push(part(&pin.wire, read, whole - read, whole));
        }
    }
    let _ = writeln!(net.wires, "    wire _unused_ok = &{{1'b0, {}, 1'b0}};", unused.join(", "));
    net.print(TOP, ports, |port| attributes(config, port))
}

/// What tells Vivado which buses belong to a clock or reset.
fn attributes(config: &CardConfig, port: &str) -> String {
    match port {
        "engine_aclk" => {
            let ports = ports(config);
            let streams = ports.iter().filter_map(|(port, _)| port.name.strip_suffix("_tvalid"));
            clock_attributes(port, &streams.chain([USER_PORT]).collect::<Vec<_>>().join(":"), "keywalk_aresetn")
        }
        "pcie_aclk" => clock_attributes(port, "m_axi_host:s_axil_host", "pcie_aresetn"),
        "engine_aresetn" | "keywalk_aresetn" | "pcie_aresetn" => reset_attributes(port),
        _ => String::new(),
    }
}
