//! Area, logic depth and an estimate of the delay of a netlist.
//!
//! A path begins at a register, a RAM or an input port and ends at one or at an output port. Its *levels* are the LUTs
//! (reads of LUT memory among them) and MUXF on it. The estimate is the same for every design and no timing closure:
//! see [`RULE`]. The path with the most levels need not be the slowest: the two are looked for apart.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::netlist::{Kind, Net, Netlist, NetlistError, Pin};

/// The rule of the estimate, for reports.
pub const RULE: &str = "estimate: 0.10 ns launch (0.90 from a block RAM without output register, 0.30 with one) + 0.45 \
                        per LUT + 0.10 per MUXF + 0.04 per CARRY + 0.05; levels: LUT + MUXF on the path with the most; \
                        fan-out: pins on a net other than clocks, sets and resets";

/// Launch from a register or an input port.
const LAUNCH_PS: u32 = 100;
/// Launch from a RAM block without output register.
const LAUNCH_RAM_PS: u32 = 900;
/// Launch from a RAM block with output register.
const LAUNCH_RAM_REGISTERED_PS: u32 = 300;
/// Setup at the end.
const SETUP_PS: u32 = 50;

/// What the netlist takes of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// LUTs of logic.
    pub logic_luts: u32,
    /// LUTs that are memory.
    pub memory_luts: u32,
    /// LUTs that are shift registers.
    pub shift_luts: u32,
    /// Flip-flops.
    pub registers: u32,
    /// Latches; there should be none.
    pub latches: u32,
    /// Halves of a block RAM of 36 Kbit.
    pub block_ram_halves: u32,
    /// UltraRAM blocks.
    pub ultra_rams: u32,
    /// Carry chains of eight bits (of four in older families).
    pub carries: u32,
    /// MUXF7, MUXF8, MUXF9.
    pub muxfs: u32,
    /// Multiplier blocks.
    pub dsps: u32,
}

impl Area {
    /// All LUTs: logic, memory, shift registers.
    #[must_use]
    pub fn luts(&self) -> u32 {
        self.logic_luts + self.memory_luts + self.shift_luts
    }

    /// Block RAM of 36 Kbit.
    #[must_use]
    pub fn block_rams(&self) -> f64 {
        f64::from(self.block_ram_halves) / 2.0
    }
}

/// Which path of several is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The one with the most levels.
    Levels,
    /// The slowest.
    Delay,
}

/// A path, from its start to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// LUT + MUXF.
    pub levels: u32,
    /// The estimate, launch and setup included.
    pub picoseconds: u32,
    /// Register, RAM or port that it begins at.
    pub from: String,
    /// Register, RAM or port that it ends at, with the pin where it has several.
    pub to: String,
    /// Cells that it passes: type, and the net behind it where the design named it.
    pub through: Vec<(String, Option<String>)>,
}

/// A net with many loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WideNet {
    /// Its name where the design gave one, else what drives it.
    pub name: String,
    /// Pins on it, without clock, set and reset pins.
    pub loads: u32,
    /// What it drives, with the number of pins: registers and RAMs by name, and all logic as one.
    pub drives: Vec<(String, u32)>,
}

/// What was found in a netlist.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Area.
    pub area: Area,
    /// Most LUT and MUXF levels on a path.
    pub levels: u32,
    /// Slowest path by the estimate.
    pub picoseconds: u32,
    /// Most loads of a net, without clock, set and reset pins.
    pub fan_out: u32,
    /// The nets with the most loads.
    pub widest_nets: Vec<WideNet>,
    /// Worst paths by levels, no two between the same registers.
    pub deepest: Vec<Path>,
    /// Worst paths by the estimate, no two between the same registers.
    pub slowest: Vec<Path>,
}

impl Analysis {
    /// Analyses a netlist, and keeps so many paths and nets.
    ///
    /// # Errors
    /// [`NetlistError::Loop`].
    pub fn of(netlist: &Netlist, paths: usize) -> Result<Self, NetlistError> {
        let arrivals = Arrivals::of(netlist)?;
        let ends = ends(netlist);
        let deepest = arrivals.worst(netlist, &ends, By::Levels, paths.max(1));
        let slowest = arrivals.worst(netlist, &ends, By::Delay, paths.max(1));
        let widest_nets = widest_nets(netlist, paths.max(1));
        Ok(Self {
            area: area(netlist),
            levels: deepest.first().map_or(0, |path| path.levels),
            picoseconds: slowest.first().map_or(0, |path| path.picoseconds),
            fan_out: widest_nets.first().map_or(0, |net| net.loads),
            widest_nets,
            deepest,
            slowest,
        })
    }
}

fn area(netlist: &Netlist) -> Area {
    let mut area = Area::default();
    for cell in &netlist.cells {
        match cell.kind {
            Kind::Lut => area.logic_luts += 1,
            Kind::LutRam(luts) => area.memory_luts += luts,
            Kind::ShiftRegister => area.shift_luts += 1,
            Kind::Register => area.registers += 1,
            Kind::Latch => area.latches += 1,
            Kind::BlockRam { is_36k, .. } => area.block_ram_halves += if is_36k { 2 } else { 1 },
            Kind::UltraRam { .. } => area.ultra_rams += 1,
            Kind::Carry => area.carries += 1,
            Kind::MuxF => area.muxfs += 1,
            Kind::Dsp => area.dsps += 1,
            Kind::Inverter | Kind::Constant => {}
        }
    }
    area
}

fn widest_nets(netlist: &Netlist, count: usize) -> Vec<WideNet> {
    let mut loads = vec![0_u32; netlist.drivers.len()];
    for cell in &netlist.cells {
        for (_, pin, net) in &cell.inputs {
            if !matches!(pin, Pin::Control { .. }) {
                loads[*net as usize] += 1;
            }
        }
    }
    let mut nets: Vec<_> = (0..loads.len() as Net).filter(|net| loads[*net as usize] > 0).collect();
    nets.sort_by_key(|net| (Reverse(loads[*net as usize]), *net));
    nets.truncate(count);
    let mut loaded: HashMap<Net, BTreeMap<String, u32>> = nets.iter().map(|net| (*net, BTreeMap::new())).collect();
    for (number, cell) in netlist.cells.iter().enumerate() {
        for (pin, what, net) in &cell.inputs {
            if !matches!(what, Pin::Control { .. })
                && let Some(loaded) = loaded.get_mut(net)
            {
                let name = match cell.kind {
                    kind if kind.is_combinational() && !matches!(kind, Kind::LutRam(_)) => "logic".into(),
                    _ => vector(&pin_name(netlist, number, *pin)),
                };
                *loaded.entry(name).or_default() += 1;
            }
        }
    }
    let wide = |net: Net| {
        let mut drives: Vec<_> = loaded.remove(&net).unwrap_or_default().into_iter().collect();
        drives.sort_by_key(|(_, loads)| Reverse(*loads));
        let name = match (netlist.public_name(net), netlist.drivers[net as usize]) {
            (Some(name), _) => name.into(),
            (None, Some(cell)) => format!("output of a {}", netlist.cells[cell].type_name),
            (None, None) => netlist.net_name(net).into(),
        };
        WideNet { name, loads: loads[net as usize], drives }
    };
    nets.into_iter().map(wide).collect()
}

/// Where a path ends: the net, and the cell and pin (none at an output port).
struct End {
    net: Net,
    at: EndAt,
}

enum EndAt {
    Cell { cell: usize, pin: usize },
    Port(usize),
}

fn ends(netlist: &Netlist) -> Vec<End> {
    let of_cells = netlist.cells.iter().enumerate().flat_map(|(number, cell)| {
        let ends = cell
            .inputs
            .iter()
            .filter(|(_, pin, _)| matches!(pin, Pin::End | Pin::ThroughAndEnd | Pin::Control { is_clock: false }));
        ends.map(move |(pin, _, net)| End { net: *net, at: EndAt::Cell { cell: number, pin: *pin } })
    });
    let of_ports = netlist.outputs.iter().enumerate().map(|(port, (_, net))| End { net: *net, at: EndAt::Port(port) });
    of_cells.chain(of_ports).collect()
}

/// The worst way to a net: its size, and the net that it comes from.
#[derive(Clone, Copy, Default)]
struct Worst {
    size: u32,
    from: Option<Net>,
}

/// The worst ways to the outputs of each cell.
struct Arrivals {
    levels: Vec<Worst>,
    delay: Vec<Worst>,
}

/// Levels and picoseconds of a cell that signals pass.
fn cost(kind: Kind) -> (u32, u32) {
    match kind {
        Kind::Lut | Kind::LutRam(_) | Kind::ShiftRegister => (1, 450),
        Kind::MuxF => (1, 100),
        Kind::Carry => (0, 40),
        _ => (0, 0),
    }
}

fn launch_ps(kind: Kind) -> u32 {
    match kind {
        Kind::BlockRam { has_output_register: false, .. } | Kind::UltraRam { has_output_register: false } => {
            LAUNCH_RAM_PS
        }
        Kind::BlockRam { .. } | Kind::UltraRam { .. } => LAUNCH_RAM_REGISTERED_PS,
        Kind::Register | Kind::Latch | Kind::ShiftRegister | Kind::Dsp => LAUNCH_PS,
        // Whatever these depend on launches; on nothing, they are constant.
        _ => 0,
    }
}

fn passes(pin: Pin) -> bool {
    matches!(pin, Pin::Through | Pin::ThroughAndEnd)
}

impl Arrivals {
    /// Visits every cell after those that it depends on.
    fn of(netlist: &Netlist) -> Result<Self, NetlistError> {
        let count = netlist.cells.len();
        let through = |cell: usize| netlist.cells[cell].inputs.iter().filter(|(_, pin, _)| passes(*pin));
        let mut waits = vec![0_usize; count];
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (cell, waits) in waits.iter_mut().enumerate() {
            for (_, _, net) in through(cell) {
                if let Some(driver) = netlist.drivers[*net as usize] {
                    *waits += 1;
                    users[driver].push(cell);
                }
            }
        }
        let mut ready: Vec<usize> = (0..count).filter(|cell| waits[*cell] == 0).collect();
        let mut arrivals = Self { levels: vec![Worst::default(); count], delay: vec![Worst::default(); count] };
        let mut visited = 0;
        while let Some(cell) = ready.pop() {
            visited += 1;
            let kind = netlist.cells[cell].kind;
            let mut levels = Worst::default();
            let mut delay = Worst { size: launch_ps(kind), from: None };
            let (cost_levels, cost_ps) = cost(kind);
            for (_, _, net) in through(cell) {
                let (at_levels, at_ps) = arrivals.at(netlist, *net);
                if levels.from.is_none() || at_levels + cost_levels > levels.size {
                    levels = Worst { size: at_levels + cost_levels, from: Some(*net) };
                }
                if at_ps + cost_ps > delay.size {
                    delay = Worst { size: at_ps + cost_ps, from: Some(*net) };
                }
            }
            arrivals.levels[cell] = levels;
            arrivals.delay[cell] = delay;
            for user in &users[cell] {
                waits[*user] -= 1;
                if waits[*user] == 0 {
                    ready.push(*user);
                }
            }
        }
        if visited < count {
            return Err(NetlistError::Loop(Self::a_loop(netlist, &waits)));
        }
        Ok(arrivals)
    }

    /// Names of the nets of one loop: walks back from a cell that still waits until a cell comes again.
    fn a_loop(netlist: &Netlist, waits: &[usize]) -> String {
        let Some(mut cell) = waits.iter().position(|waits| *waits > 0) else { return String::new() };
        let mut seen: Vec<(usize, Net)> = Vec::new();
        let mut visited = HashSet::new();
        while visited.insert(cell) {
            let back = netlist.cells[cell].inputs.iter().filter(|(_, pin, _)| passes(*pin)).find_map(|(_, _, net)| {
                netlist.drivers[*net as usize].filter(|driver| waits[*driver] > 0).map(|driver| (driver, *net))
            });
            let Some((driver, net)) = back else { break };
            seen.push((cell, net));
            cell = driver;
        }
        let start = seen.iter().position(|(member, _)| *member == cell).unwrap_or(0);
        let names: Vec<_> = seen[start..].iter().map(|(_, net)| netlist.net_name(*net)).collect();
        names.join(", ")
    }

    /// Levels and picoseconds at a net.
    fn at(&self, netlist: &Netlist, net: Net) -> (u32, u32) {
        match netlist.drivers[net as usize] {
            None => (0, LAUNCH_PS),
            Some(cell) => (self.levels[cell].size, self.delay[cell].size),
        }
    }

    /// The worst paths, no two of which join the same registers.
    fn worst(&self, netlist: &Netlist, ends: &[End], by: By, count: usize) -> Vec<Path> {
        let size = |end: &End| {
            let (levels, delay) = self.at(netlist, end.net);
            match by {
                By::Levels => (levels, delay),
                By::Delay => (delay, levels),
            }
        };
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|end| (Reverse(size(&ends[*end])), *end));
        let mut seen = HashSet::new();
        let mut paths = Vec::new();
        for end in order {
            if paths.len() == count {
                break;
            }
            let path = self.path(netlist, &ends[end], by);
            if seen.insert((vector(&path.from), vector(&path.to))) {
                paths.push(path);
            }
        }
        paths
    }

    fn path(&self, netlist: &Netlist, end: &End, by: By) -> Path {
        let worst = match by {
            By::Levels => &self.levels,
            By::Delay => &self.delay,
        };
        let mut through = Vec::new();
        let (mut levels, mut picoseconds) = (0, 0);
        let mut net = end.net;
        let from = loop {
            let Some(cell) = netlist.drivers[net as usize] else {
                picoseconds += LAUNCH_PS;
                break format!("port {}", netlist.net_name(net));
            };
            let Some(back) = worst[cell].from else {
                picoseconds += launch_ps(netlist.cells[cell].kind);
                break start_name(netlist, cell, net);
            };
            let (cost_levels, cost_ps) = cost(netlist.cells[cell].kind);
            levels += cost_levels;
            picoseconds += cost_ps;
            through.push((netlist.cells[cell].type_name.clone(), netlist.public_name(net).map(str::to_owned)));
            net = back;
        };
        through.reverse();
        let to = match end.at {
            EndAt::Port(port) => format!("port {}", netlist.outputs[port].0),
            EndAt::Cell { cell, pin } => pin_name(netlist, cell, pin),
        };
        Path { levels, picoseconds: picoseconds + SETUP_PS, from, to, through }
    }
}

/// Name of what launches a path.
fn start_name(netlist: &Netlist, cell: usize, net: Net) -> String {
    match netlist.cells[cell].kind {
        Kind::Register => netlist.net_name(net).into(),
        _ => format!("{} ({})", netlist.cell_name(cell), netlist.cells[cell].type_name),
    }
}

/// A pin as a person calls it: the data of a register by the register's name, others with the pin.
fn pin_name(netlist: &Netlist, cell: usize, pin: usize) -> String {
    match (netlist.cells[cell].kind, netlist.pins[pin].as_str()) {
        (Kind::Register, "D") => netlist.cell_name(cell).into(),
        (_, pin) => format!("{}.{pin}", netlist.cell_name(cell)),
    }
}

/// A name without the numbers of bits and of the parts of a RAM, so that bits of one register are told as one.
fn vector(name: &str) -> String {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.split(" (").next().unwrap_or(name);
    let parts = name.split('.').filter(|part| !is_number(part));
    let parts = parts.map(|part| match part.rsplit_once('[') {
        Some((vector, index)) if index.ends_with(']') => vector,
        _ => part,
    });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_register_and_parts_of_a_ram_are_one() {
        assert_eq!(vector("tlb.s1_tag[12]"), "tlb.s1_tag");
        assert_eq!(vector("tlb.s1_tag[12].CE"), "tlb.s1_tag.CE");
        assert_eq!(vector("tlb.tags_0.0.1 (RAMB18E2)"), "tlb.tags_0");
        assert_eq!(vector("tlb.tags_0.0.1.ADDRARDADDR"), "tlb.tags_0.ADDRARDADDR");
        assert_eq!(vector("port ready"), "port ready");
    }
}
