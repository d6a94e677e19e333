//! A flattened netlist of yosys' `synth_xilinx`, as `write_json` writes it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};

/// Type of cells that only remember where flattened instances were.
const SCOPE: &str = "$scopeinfo";

/// A wire of one bit.
pub type Net = u32;

/// Why a netlist is of no use.
#[derive(Debug, thiserror::Error)]
pub enum NetlistError {
    /// The text is no netlist.
    #[error("not a netlist as yosys' `write_json` writes it: {0}")]
    Json(#[from] serde_json::Error),
    /// The module is not there.
    #[error("the netlist has no module `{wanted}`; it has {known}")]
    NoSuchModule {
        /// Its name.
        wanted: String,
        /// Modules that are cells of nobody's library.
        known: String,
    },
    /// A primitive that has no costs.
    #[error(
        "cell `{cell}` is of type `{kind}`, which is no primitive of UltraScale+ that is known here; flatten the design \
         and synthesise it with `synth_xilinx -family xcup -flatten -noiopad -noclkbuf`"
    )]
    UnknownCell {
        /// Name of the cell.
        cell: String,
        /// Its type.
        kind: String,
    },
    /// The direction of a pin is missing.
    #[error("pin `{pin}` of cell `{cell}` has no direction")]
    Direction {
        /// Name of the cell.
        cell: String,
        /// The pin.
        pin: String,
    },
    /// A net that two cells drive.
    #[error("`{net}` is driven by cell `{first}` and by cell `{second}`")]
    TwoDrivers {
        /// Name of the net.
        net: String,
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// A net with a number that yosys does not give.
    #[error("there is a net {net}, but yosys numbers nets one after the other, and the text has fewer bytes than that")]
    NetNumber {
        /// Its number.
        net: usize,
    },
    /// A combinational loop.
    #[error("a combinational loop runs through {0}")]
    Loop(String),
}

/// What a cell is, as far as area and timing go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// LUT1 to LUT6.
    Lut,
    /// Memory made of LUTs, with the number of them.
    LutRam(u32),
    /// MUXF7 to MUXF9.
    MuxF,
    /// A carry chain of four or eight bits.
    Carry,
    /// An inverter: the logic before or behind it takes it in.
    Inverter,
    /// A flip-flop.
    Register,
    /// A latch.
    Latch,
    /// A shift register in a LUT.
    ShiftRegister,
    /// Block RAM of 18 or 36 Kbit.
    BlockRam {
        /// It has 36 Kbit, not 18.
        is_36k: bool,
        /// It has a register at an output.
        has_output_register: bool,
    },
    /// UltraRAM.
    UltraRam {
        /// It has a register at an output.
        has_output_register: bool,
    },
    /// Multiplier block.
    Dsp,
    /// A constant.
    Constant,
}

impl Kind {
    /// Whether signals pass through it within a cycle. LUT memory does from address to data.
    #[must_use]
    pub fn is_combinational(self) -> bool {
        matches!(self, Self::Lut | Self::LutRam(_) | Self::MuxF | Self::Carry | Self::Inverter)
    }

    fn of(cell: &JsonCell) -> Option<Self> {
        let kind = cell.kind.as_str();
        let lut_ram = |luts| Some(Self::LutRam(luts));
        match kind {
            "LUT1" | "LUT2" | "LUT3" | "LUT4" | "LUT5" | "LUT6" | "LUT6_2" => Some(Self::Lut),
            "RAM32X1S" | "RAM64X1S" => lut_ram(1),
            "RAM32X1D" | "RAM64X1D" | "RAM128X1S" => lut_ram(2),
            "RAM32M" | "RAM64M" | "RAM128X1D" | "RAM256X1S" => lut_ram(4),
            "RAM32M16" | "RAM64M8" | "RAM256X1D" | "RAM512X1S" | "RAM32X16DR8" | "RAM64X8SW" => lut_ram(8),
            "MUXF7" | "MUXF8" | "MUXF9" => Some(Self::MuxF),
            "CARRY4" | "CARRY8" => Some(Self::Carry),
            "INV" => Some(Self::Inverter),
            "VCC" | "GND" => Some(Self::Constant),
            "SRL16E" | "SRLC16E" | "SRLC32E" => Some(Self::ShiftRegister),
            "RAMB36E1" | "RAMB36E2" | "RAMB18E1" | "RAMB18E2" => Some(Self::BlockRam {
                is_36k: kind.starts_with("RAMB36"),
                has_output_register: cell.has_bit(&["DOA_REG", "DOB_REG"]),
            }),
            "URAM288" | "URAM288_BASE" => {
                Some(Self::UltraRam { has_output_register: cell.has_bit(&["OREG_A", "OREG_B"]) })
            }
            "FDRE" | "FDSE" | "FDCE" | "FDPE" | "FDRE_1" | "FDSE_1" | "FDCE_1" | "FDPE_1" => Some(Self::Register),
            "LDCE" | "LDPE" => Some(Self::Latch),
            "DSP48E1" | "DSP48E2" => Some(Self::Dsp),
            _ => None,
        }
    }
}

/// What an input pin does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Clock, set or reset: counts as no load. A set or reset that logic drives still ends a path.
    Control {
        /// It is a clock.
        is_clock: bool,
    },
    /// A signal passes through the cell from here.
    Through,
    /// A path ends here.
    End,
    /// Both: the address at which LUT memory is written and read.
    ThroughAndEnd,
}

impl Pin {
    fn of(kind: Kind, pin: &str) -> Self {
        let is_clock = pin.starts_with("CLK") || pin.starts_with("WCLK") || pin == "C" || pin == "G";
        let is_reset = pin.starts_with("RST") || matches!(pin, "R" | "S" | "CLR" | "PRE");
        match kind {
            Kind::Lut | Kind::MuxF | Kind::Carry | Kind::Inverter => Self::Through,
            Kind::LutRam(_) => match pin {
                _ if is_clock => Self::Control { is_clock: true },
                "A" | "ADDRD" | "ADDRH" => Self::ThroughAndEnd,
                _ if pin.starts_with('A') || pin.starts_with("DPRA") => Self::Through,
                _ => Self::End,
            },
            // A dynamic address reads like a LUT.
            Kind::ShiftRegister if pin.starts_with('A') => Self::ThroughAndEnd,
            _ if is_clock || is_reset => Self::Control { is_clock },
            _ => Self::End,
        }
    }
}

/// A cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name.
    pub name: String,
    /// Type, as yosys names it.
    pub type_name: String,
    /// What it is.
    pub kind: Kind,
    /// Input pins that are connected to nets: pin (an index into [`Netlist::pins`]), what it does, net.
    pub inputs: Vec<(usize, Pin, Net)>,
    /// Nets that it drives.
    pub outputs: Vec<Net>,
}

/// A flattened module.
#[derive(Clone, Debug)]
pub struct Netlist {
    /// Name of the module.
    pub name: String,
    /// Cells, in order of name.
    pub cells: Vec<Cell>,
    /// Names of pins.
    pub pins: Vec<String>,
    /// Bits of output ports: name, net.
    pub outputs: Vec<(String, Net)>,
    /// The cell that drives a net, as an index; none for input ports.
    pub drivers: Vec<Option<usize>>,
    names: Vec<Option<Name>>,
}

#[derive(Clone, Debug)]
struct Name {
    text: String,
    /// The design gave it, not the tools.
    is_public: bool,
}

impl Netlist {
    /// Reads the module `top` of a netlist.
    ///
    /// # Errors
    /// A text that is no netlist, no such module, or cells that are not known.
    pub fn read(text: &str, top: &str) -> Result<Self, NetlistError> {
        let mut document: Document = serde_json::from_str(text)?;
        let Some(module) = document.modules.remove(top) else {
            let known = document.modules.into_iter().filter(|(_, module)| !module.attributes.contains_key("blackbox"));
            let known: Vec<_> = known.map(|(name, _)| name).collect();
            return Err(NetlistError::NoSuchModule { wanted: top.into(), known: known.join(", ") });
        };
        let nets = module.nets();
        // Nets index arrays; yosys numbers them one after the other, so there are fewer of them than bytes of text.
        if nets > text.len() {
            return Err(NetlistError::NetNumber { net: nets - 1 });
        }
        Builder::new(top, module, nets).build()
    }

    /// Name of a net.
    #[must_use]
    pub fn net_name(&self, net: Net) -> &str {
        self.names[net as usize].as_ref().map_or("unnamed", |name| &name.text)
    }

    /// The name that the design gave a net, if it did.
    #[must_use]
    pub fn public_name(&self, net: Net) -> Option<&str> {
        self.names[net as usize].as_ref().filter(|name| name.is_public).map(|name| name.text.as_str())
    }

    /// What a person calls the cell: a register by the net that it drives, others by their own name.
    #[must_use]
    pub fn cell_name(&self, cell: usize) -> &str {
        let cell = &self.cells[cell];
        match cell.outputs.first() {
            Some(net) if matches!(cell.kind, Kind::Register | Kind::ShiftRegister) => self.net_name(*net),
            _ => &cell.name,
        }
    }
}

struct Builder {
    module: Module,
    netlist: Netlist,
}

impl Builder {
    fn new(top: &str, module: Module, nets: usize) -> Self {
        let netlist = Netlist {
            name: top.into(),
            cells: Vec::with_capacity(module.cells.len()),
            pins: Vec::new(),
            outputs: Vec::new(),
            drivers: vec![None; nets],
            names: vec![None; nets],
        };
        Self { module, netlist }
    }

    fn build(mut self) -> Result<Netlist, NetlistError> {
        self.name_nets();
        let mut pins: BTreeMap<String, usize> = BTreeMap::new();
        for (name, cell) in std::mem::take(&mut self.module.cells) {
            if cell.kind == SCOPE {
                continue;
            }
            let Some(kind) = Kind::of(&cell) else {
                return Err(NetlistError::UnknownCell { cell: name, kind: cell.kind });
            };
            let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
            for (pin, bits) in cell.connections {
                let nets = bits.iter().filter_map(|bit| bit.0);
                match cell.port_directions.get(&pin).map(String::as_str) {
                    Some("input") => {
                        let count = pins.len();
                        let what = Pin::of(kind, &pin);
                        let number = *pins.entry(pin).or_insert(count);
                        inputs.extend(nets.map(|net| (number, what, net)));
                    }
                    Some("output") => outputs.extend(nets),
                    _ => return Err(NetlistError::Direction { cell: name, pin }),
                }
            }
            let number = self.netlist.cells.len();
            for net in &outputs {
                if let Some(other) = self.netlist.drivers[*net as usize].replace(number) {
                    let first = self.netlist.cells.get(other).map_or(&name, |cell| &cell.name).clone();
                    let net = self.netlist.net_name(*net).into();
                    return Err(NetlistError::TwoDrivers { net, first, second: name });
                }
            }
            self.netlist.cells.push(Cell { name, type_name: cell.kind, kind, inputs, outputs });
        }
        let mut names: Vec<_> = pins.into_iter().collect();
        names.sort_by_key(|(_, number)| *number);
        self.netlist.pins = names.into_iter().map(|(name, _)| name).collect();
        for (name, port) in &self.module.ports {
            if port.direction == "output" {
                for (index, bit) in port.bits.iter().enumerate() {
                    self.netlist.outputs.extend(bit.0.map(|net| (bit_name(name, index, port.bits.len()), net)));
                }
            }
        }
        Ok(self.netlist)
    }

    /// A net may have many names: those that the design gave come before those of the tools, deeper ones before those
    /// of the instances around, because they name the register itself.
    fn name_nets(&mut self) {
        let mut ranks = vec![None; self.netlist.names.len()];
        for (name, alias) in &self.module.netnames {
            let rank = (alias.hide_name == 0, name.matches('.').count());
            for (index, bit) in alias.bits.iter().enumerate() {
                let Some(net) = bit.0 else { continue };
                if ranks[net as usize].is_none_or(|best| rank > best) {
                    ranks[net as usize] = Some(rank);
                    let text = bit_name(name, index, alias.bits.len());
                    self.netlist.names[net as usize] = Some(Name { text, is_public: rank.0 });
                }
            }
        }
    }
}

fn bit_name(name: &str, index: usize, width: usize) -> String {
    if width == 1 { name.into() } else { format!("{name}[{index}]") }
}

#[derive(Deserialize)]
struct Document {
    modules: BTreeMap<String, Module>,
}

#[derive(Deserialize)]
struct Module {
    #[serde(default)]
    attributes: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    ports: BTreeMap<String, JsonPort>,
    #[serde(default)]
    cells: BTreeMap<String, JsonCell>,
    #[serde(default)]
    netnames: BTreeMap<String, JsonName>,
}

impl Module {
    /// One more than the largest number of a net.
    fn nets(&self) -> usize {
        let ports = self.ports.values().flat_map(|port| &port.bits);
        let pins = self.cells.values().flat_map(|cell| cell.connections.values().flatten());
        let named = self.netnames.values().flat_map(|name| &name.bits);
        ports.chain(pins).chain(named).filter_map(|bit| bit.0).max().map_or(0, |net| net as usize + 1)
    }
}

#[derive(Deserialize)]
struct JsonPort {
    direction: String,
    bits: Vec<Bit>,
}

#[derive(Deserialize)]
struct JsonCell {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    parameters: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    port_directions: BTreeMap<String, String>,
    connections: BTreeMap<String, Vec<Bit>>,
}

impl JsonCell {
    /// Whether one of the parameters is not zero. yosys writes numbers as binary digits, and words as they are.
    fn has_bit(&self, parameters: &[&str]) -> bool {
        let is_set = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.contains('1') || text.eq_ignore_ascii_case("true"),
            other => other.as_u64().is_some_and(|number| number != 0),
        };
        parameters.iter().any(|name| self.parameters.get(*name).is_some_and(is_set))
    }
}

#[derive(Deserialize)]
struct JsonName {
    #[serde(default)]
    hide_name: u8,
    bits: Vec<Bit>,
}

/// A net, or a constant.
struct Bit(Option<Net>);

impl<'de> Deserialize<'de> for Bit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BitVisitor;
        impl Visitor<'_> for BitVisitor {
            type Value = Bit;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("the number of a net, or a constant \"0\", \"1\", \"x\" or \"z\"")
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Bit, E> {
                let net = Net::try_from(value);
                net.map(|net| Bit(Some(net))).map_err(|_| E::custom(format_args!("net {value}: legal are 32 bits")))
            }

            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Bit, E> {
                match value {
                    "0" | "1" | "x" | "z" => Ok(Bit(None)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(value), &self)),
                }
            }
        }
        deserializer.deserialize_any(BitVisitor).map_err(D::Error::custom)
    }
}
