//! Everything that reads text of users, fed with text that no user would write.
//!
//! A [`Target`] runs one input and panics where a promise is broken: input that is not legal is refused with an error, and
//! neither panics, hangs nor takes memory without bound. The same targets run in two ways: `cargo test` feeds each with
//! mutations of real files for a few seconds ([`Mutator`]), `make fuzz` lets libFuzzer search with coverage.

mod mutator;
mod seeds;
mod targets;

pub use mutator::Mutator;

/// Something that reads text.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name, in snake case.
    pub name: &'static str,
    /// What is read.
    pub doc: &'static str,
    /// Inputs to begin with, legal ones among them.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Feeds it with an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "configuration_toml",
        doc: "A configuration of the generator in TOML.",
        seeds: seeds::configurations_toml,
        run: targets::configuration_toml,
    },
    Target {
        name: "configuration_json",
        doc: "A configuration of the generator in JSON.",
        seeds: seeds::configurations_json,
        run: targets::configuration_json,
    },
    Target {
        name: "configuration_space",
        doc: "Each byte sets a field of a legal configuration, from which the hardware is generated.",
        seeds: seeds::configuration_space,
        run: targets::configuration_space,
    },
    Target {
        name: "manifest",
        doc: "The manifest in a directory that the generator is to write into.",
        seeds: seeds::manifests,
        run: targets::manifest,
    },
    Target { name: "verilog", doc: "A module as kaze prints it.", seeds: seeds::verilog, run: targets::verilog },
    Target {
        name: "vector",
        doc: "A vector file, plain or compressed; what can be read is run through the golden model.",
        seeds: seeds::vectors,
        run: targets::vector,
    },
    Target {
        name: "description_toml",
        doc: "The description of a table image in TOML; what can be read is built.",
        seeds: seeds::descriptions_toml,
        run: targets::description_toml,
    },
    Target {
        name: "description_json",
        doc: "The description of a table image in JSON; what can be read is built.",
        seeds: seeds::descriptions_json,
        run: targets::description_json,
    },
    Target {
        name: "netlist",
        doc: "A netlist of yosys; what can be read is analysed.",
        seeds: seeds::netlists,
        run: targets::netlist,
    },
    Target {
        name: "arguments",
        doc: "Numbers, latencies and operations on a command line.",
        seeds: seeds::arguments,
        run: targets::arguments,
    },
    Target {
        name: "markdown",
        doc: "A Markdown file, a part of which is replaced with figures.",
        seeds: seeds::markdown,
        run: targets::markdown,
    },
];

/// The target of that name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
