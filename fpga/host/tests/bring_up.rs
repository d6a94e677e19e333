//! The bring-up guide says what there is: every command in it is one, every fact the program's, and every check of the self-test
//! has its line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use keywalk_contract::{probe, regs};
use keywalk_host::pci::Ids;
use keywalk_host::simulate::SimulatedCard;
use keywalk_host::{BAR_BYTES, Host, PROBE_OFFSET, self_test};

/// Subcommands of `keywalk-host`, by which the guide names a command in the middle of a sentence.
const ACTIONS: [&str; 7] = ["list", "info", "self-test", "counters", "faults", "read", "write"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    let path = repository().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Commands of the guide: indented lines, and what stands between backquotes. Without comments.
fn commands(guide: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for line in guide.lines() {
        match line.strip_prefix("    ") {
            Some(command) => commands.push(command.split(" #").next().unwrap_or_default().trim().to_owned()),
            None => commands.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    commands
}

/// Words of `keywalk-host` in a command, where it is one.
fn host_words(command: &str) -> Option<Vec<&str>> {
    let words: Vec<_> = command.split_whitespace().collect();
    match words[..] {
        ["keywalk-host", ref words @ ..] => Some(words.to_vec()),
        ["cargo", "run", ref words @ ..] if words.contains(&"keywalk-host") => {
            Some(words.iter().skip_while(|word| **word != "--").skip(1).copied().collect())
        }
        [first, ..] if ACTIONS.contains(&first) => Some(words),
        _ => None,
    }
}

#[test]
fn its_commands_are_legal() {
    let guide = text("docs/bring-up.md");
    let (mut hosts, mut makes) = (0, 0);
    let makefile = text("Makefile");
    let manifest = text("fpga/host/Cargo.toml");
    for command in commands(&guide) {
        if let Some(words) = host_words(&command) {
            hosts += 1;
            // A simulated card needs no sysfs; and where there is none, a legal command ends with 3.
            let words = words.into_iter().filter(|word| *word != "--simulate");
            let mut run = Command::new(env!("CARGO_BIN_EXE_keywalk-host"));
            let output = run.args(words).args(["--sysfs", "/nowhere"]).output().expect("the command starts");
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "`{command}`: {told}");
        }
        if let Some(features) = command.split("--features ").nth(1) {
            let feature = features.split_whitespace().next().expect("it has a name");
            assert!(manifest.contains(&format!("\n{feature} = [")), "`{command}`: no such feature");
        }
        if let Some(words) = command.strip_prefix("make ") {
            makes += 1;
            for word in words.split_whitespace() {
                let is_there = match word.split_once('=') {
                    Some((variable, _)) => makefile.contains(&format!("$({variable})")),
                    None => {
                        let heads = makefile.lines().filter(|line| !line.starts_with(['\t', '.']));
                        heads
                            .filter_map(|line| line.split_once(':'))
                            .any(|(names, _)| names.split_whitespace().any(|name| name == word))
                    }
                };
                assert!(is_there, "`{command}`: the Makefile has no `{word}`");
            }
        }
    }
    assert!(hosts > 10 && makes > 3, "{hosts} commands of the host, {makes} of make");
}

#[test]
fn its_facts_are_the_programs() {
    let guide = text("docs/bring-up.md");
    let (major, minor) = (regs::VERSION >> 16, regs::VERSION & 0xffff);
    let (probe_major, probe_minor) = (probe::VERSION >> 16, probe::VERSION & 0xffff);
    for fact in [
        format!(
            "register map {major}.{minor}, ready yes, idle yes, probe {probe_major}.{probe_minor} with work requests"
        ),
        format!("`{}`", Ids::CARD),
        format!("BAR 0 of {} KiB", BAR_BYTES / 1024),
        format!("`{:#010x}`", regs::ID),
        format!("write {:#x} {:#x} ", regs::merge_bytes_max::REGISTER.offset, regs::merge_bytes_max::REGISTER.reset),
        format!("`read {:#x}`: bit {} is hold mode", regs::control::REGISTER.offset, regs::control::HOLD_MODE.low),
        format!("`read {:#x}` |", regs::interrupt_status::REGISTER.offset),
        format!(
            "`read {:#x}` and `read {:#x}`",
            regs::requests_in_flight::REGISTER.offset,
            regs::reads_in_flight::REGISTER.offset
        ),
        format!("`read {:#x}`: what came", PROBE_OFFSET + probe::probe_result_name::REGISTER.offset),
        format!("`read {}` stays 0", regs::status::REGISTER.offset),
    ] {
        assert!(guide.contains(&fact), "the guide does not say: {fact}");
    }
    for claim in ["**None of this has run on a card.**", "No Vivado has seen the scripts"] {
        assert!(guide.contains(claim), "the guide does not say: {claim}");
    }
}

/// The table of checks: whoever sees one fail finds its line.
#[test]
fn every_check_has_its_line() {
    let guide = text("docs/bring-up.md");
    let (_, table) = guide.split_once("| the first check that fails |").expect("the table is there");
    let cells = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    let cells: Vec<_> = cells.filter_map(|line| line.split('|').nth(1)).collect();
    // Names of checks stand before a colon, several with commas.
    let lines: Vec<_> = cells.iter().flat_map(|cell| cell.split(':').next().unwrap_or_default().split(", ")).collect();
    let lines: Vec<_> = lines.into_iter().map(str::trim).collect();
    let mut card = SimulatedCard::new(1).expect("it starts");
    let report = self_test::run(&mut Host::new(&mut card), 1, &mut |_| {}).expect("it can be tested");
    for check in &report.checks {
        // `MPT of 2 hops, page table of 1: a write`, `MPT of 2 hops, refused: another variant of the key`.
        let name = match check.name.split_once(" hops") {
            Some((_, rest)) => rest
                .strip_prefix(", ")
                .filter(|rest| rest.starts_with("refused"))
                .unwrap_or_else(|| rest.split_once(": ").map_or(rest, |(_, name)| name)),
            None => check.name.as_str(),
        };
        assert!(lines.iter().any(|line| name.starts_with(line)), "no line for: {}", check.name);
    }
    for line in lines.iter().filter(|line| **line != "the same" && !line.starts_with('`')) {
        assert!(report.checks.iter().any(|check| check.name.contains(line)), "no check for the line: {line}");
    }
}
