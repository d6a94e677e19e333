//! The files of an output directory, in memory.

use crate::card::{self, CardConfig};
use crate::manifest::{self, Index};
use crate::{Output, presets, register_map};

/// Name of the list of the engine's Verilog files.
pub const FILE_LIST: &str = "keywalk.f";
/// Name of the list of the data mover's Verilog files.
pub const MOVER_FILE_LIST: &str = "keywalk_mover.f";
/// Name of the list of the probe's Verilog files.
pub const PROBE_FILE_LIST: &str = "keywalk_probe.f";
/// Name of the register map as Markdown.
pub const REGISTERS_FILE: &str = "registers.md";

/// A file: its name within the directory, and its text.
pub type File = (String, String);

/// The register map as Markdown, C header and Rust constants. It is the same for every configuration.
fn register_documents() -> Vec<File> {
    vec![
        (REGISTERS_FILE.into(), register_map::markdown()),
        (register_map::C_HEADER_FILE.into(), register_map::c_header()),
        (register_map::RUST_FILE.into(), register_map::rust_constants()),
    ]
}

/// Everything about an engine: one Verilog file per module, the lists of those of the engine, the data mover and
/// the probe, the register documents, and the manifest last. A list names a file per line, instantiated modules first or later as their
/// names have it, the top module last.
#[must_use]
pub fn engine(output: &Output) -> Vec<File> {
    let mut files = output.files.clone();
    let lists = [(FILE_LIST, &output.top), (MOVER_FILE_LIST, &output.mover_top), (PROBE_FILE_LIST, &output.probe_top)];
    for (list, top) in lists {
        files.push((list.into(), output.files_of(top).iter().map(|(name, _)| format!("{name}\n")).collect()));
    }
    files.extend(register_documents());
    let manifest = manifest::text(output, &files);
    files.push((manifest::FILE.into(), manifest));
    files
}

/// The register documents, the page of the card of the preset `card`, and a manifest that lists them last.
///
/// # Panics
/// Never: a test generates the card of that preset.
#[must_use]
pub fn documents() -> Vec<File> {
    let mut files = register_documents();
    let preset = presets::find("card").expect("it comes with the generator");
    let card = card::generate(&CardConfig::new(preset.config())).expect("the card of the preset generates");
    files.push((card::PAGE.into(), card.page()));
    let manifest = manifest::json(&Index::new(&files));
    files.push((manifest::FILE.into(), manifest));
    files
}
