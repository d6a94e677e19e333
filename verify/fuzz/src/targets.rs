//! What is done with an input, and what must hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use keywalk_contract::Config;
use keywalk_gen::canonicalise::{self, Options};
use keywalk_gen::config_file::{self, Format};
use keywalk_gen::{directory, manifest, stitch};
use keywalk_image::Description;
use keywalk_verify::dut::GoldenDut;
use keywalk_verify::synth::{Analysis, Netlist};
use keywalk_verify::{Settings, Tables, Vector, arguments as parse, figures, run_file};

/// Longest message of a refusal, in bytes: it may quote a line of the input, but not print all of it.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Pages of a description that are built, at most; larger ones are only read, so that an input takes milliseconds.
const PAGES_BUILT_MAX: u64 = 1 << 17;
/// Pages that a vector's rows and regions ask for, at most, for the vector to be run.
const PAGES_RUN_MAX: u64 = 1 << 14;

/// A refusal says something, and says it briefly.
fn check_message(message: &str, input: &[u8]) {
    assert!(!message.trim().is_empty(), "an error without a message");
    let limit = MESSAGE_BYTES_MAX + 8 * input.len();
    assert!(message.len() <= limit, "a message of {} bytes: {}", message.len(), &message[..200]);
}

fn configuration(input: &[u8], format: Format) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match config_file::parse(text, format) {
        Ok(config) => {
            config.validate().expect("what is read is legal");
            config_file::check_name(&config.name).expect("the name is legal");
            let again = toml::to_string(&config).expect("a configuration is plain data");
            assert_eq!(config_file::parse(&again, Format::Toml), Ok(config), "written and read again");
        }
        Err(message) => check_message(&message, input),
    }
}

pub fn configuration_toml(input: &[u8]) {
    configuration(input, Format::Toml);
}

pub fn configuration_json(input: &[u8]) {
    configuration(input, Format::Json);
}

/// The legal configuration that bytes stand for; fields without a byte, and half of the others, have the default.
fn drawn(bytes: &[u8]) -> Config {
    let mut text = "name = \"drawn\"\n".to_owned();
    let mut bytes = bytes.iter().copied();
    let mut next = || bytes.next().filter(|byte| *byte < 128).map(u32::from);
    for field in Config::FIELDS {
        let Some(byte) = next() else { continue };
        let value = if field.power_of_two {
            let (low, high) = (field.min.next_power_of_two().ilog2(), field.max.ilog2());
            1 << (low + byte % (high - low + 1))
        } else {
            field.min + byte % (field.max - field.min + 1)
        };
        text += &format!("{} = {value}\n", field.name);
    }
    for switch in Config::SWITCHES {
        let Some(byte) = next() else { continue };
        text += &format!("{} = {}\n", switch.name, byte % 2 == 1);
    }
    config_file::parse(&text, Format::Toml).unwrap_or_else(|error| panic!("{error}, but it was drawn as legal: {text}"))
}

pub fn configuration_space(input: &[u8]) {
    let config = drawn(input);
    if let Err(error) = keywalk_gen::generate(&config) {
        panic!("{error}, but the configuration is legal: {config:?}");
    }
}

pub fn manifest(input: &[u8]) {
    let outside = tempfile::tempdir().expect("there is room for a directory");
    let inside = outside.path().join("inside");
    fs::create_dir(&inside).expect("it is new");
    let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).expect("the directory is there");
    let foreign = outside.path().join("outside");
    write(&foreign, b"of somebody else");
    write(&inside.join(manifest::FILE), input);
    write(&inside.join("unlisted"), b"of somebody else");
    let files = [("keywalk.v".to_owned(), "new\n".to_owned()), (manifest::FILE.to_owned(), "{}\n".to_owned())];
    match directory::install(&inside, &files) {
        Ok(()) => assert_eq!(fs::read(inside.join("keywalk.v")).ok().as_deref(), Some(b"new\n".as_slice())),
        Err(error) => check_message(&error.to_string(), input),
    }
    assert!(foreign.is_file(), "a file outside of the directory is gone");
    let is_named = input.windows(8).any(|window| window == b"unlisted");
    assert!(is_named || inside.join("unlisted").is_file(), "a file that the manifest does not name is gone");
}

pub fn verilog(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let port_comments = BTreeMap::new();
    let options = Options { header: "", port_comments: &port_comments };
    for text in [text, &stitch::stitch(text)] {
        if let Err(error) = canonicalise::canonicalise(text, &options) {
            check_message(&error.to_string(), input);
        }
    }
}

pub fn vector(input: &[u8]) {
    let path = Path::new("input");
    let vector = match Vector::read(path, input) {
        Ok(vector) => vector,
        Err(error) => return check_message(&error.to_string(), input),
    };
    let tables = Tables::of(&vector).expect("what is read lies in the vector's memory");
    let rows = vector.bad.iter().map(|row| u64::from(row.len) >> 12);
    let regions = vector.mrs.iter().filter_map(|region| region.pages());
    let regions = regions.map(|pages| (pages.length_bytes >> pages.page_shift).min(PAGES_RUN_MAX));
    if rows.chain(regions).fold(0, u64::saturating_add) < PAGES_RUN_MAX {
        let settings = Settings { seed: 1, whole_pages_max: 64, compare_with_model: false };
        let (report, _) = run_file(path, &vector, &tables, &mut GoldenDut::default(), &settings, &|_| ());
        assert_eq!(report.stopped, None, "the model answers everything");
    }
}

fn description(description: Description, input: &[u8]) {
    let regions = description.table_sets.iter().flat_map(|set| &set.regions);
    let pages = regions.map(|region| region.length_bytes / region.page_bytes.max(1));
    let buffers = description.table_sets.iter().flat_map(|set| &set.queue_buffers);
    let buffer_pages = buffers.flat_map(|buffer| &buffer.regions).map(|region| u64::from(region.count));
    if pages.chain(buffer_pages).fold(0, u64::saturating_add) > PAGES_BUILT_MAX {
        return;
    }
    match description.build() {
        Ok(image) => {
            let pages = image.table_sets.iter().flat_map(|set| &set.regions).map(|region| &region.pages);
            for pages in pages.filter(|pages| pages.count() > 0) {
                let _ = (pages.get(0), pages.get(pages.count() - 1));
            }
        }
        Err(error) => check_message(&error.to_string(), input),
    }
}

pub fn description_toml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match toml::from_str(text) {
        Ok(found) => description(found, input),
        Err(error) => check_message(&error.to_string(), input),
    }
}

pub fn description_json(input: &[u8]) {
    match serde_json::from_slice(input) {
        Ok(found) => description(found, input),
        Err(error) => check_message(&error.to_string(), input),
    }
}

pub fn netlist(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let analysis = Netlist::read(text, "top").and_then(|netlist| Analysis::of(&netlist, 5));
    if let Err(error) = analysis {
        check_message(&error.to_string(), input);
    }
}

pub fn arguments(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match parse::parse_number(text) {
        Ok(number) => {
            let digits = text.strip_prefix("0x").unwrap_or(text).trim_start_matches('0');
            let written = [format!("{number}"), format!("{number:x}"), format!("{number:X}"), String::new()];
            let is_same = written.iter().any(|written| written.eq_ignore_ascii_case(digits));
            assert!(is_same, "{text:?} became {number}");
        }
        Err(message) => check_message(&message, input),
    }
    match parse::parse_latency(text) {
        Ok(range) => assert!(1 <= *range.start() && range.start() <= range.end(), "{text:?} became {range:?}"),
        Err(message) => check_message(&message, input),
    }
    match parse::parse_operation(text) {
        Ok(operation) => assert_eq!(operation.name(), text),
        Err(message) => check_message(&message, input),
    }
}

pub fn markdown(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (text, content) = text.split_once('\0').unwrap_or((&text, "| content |"));
    let Some(replaced) = figures::with_part(text, "fuzz", content) else { return };
    assert!(replaced.contains(content.trim_end()), "the content is lost");
    let is_plain = !content.contains("<!-- ");
    let again = figures::with_part(&replaced, "fuzz", content);
    assert!(!is_plain || again.as_ref() == Some(&replaced), "replaced again, it differs");
}
