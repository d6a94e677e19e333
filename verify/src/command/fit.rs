//! The subcommand `fit`.

use std::path::PathBuf;

use clap::Args;
use keywalk_verify::figures::{self, Row, grid};
use keywalk_verify::fit::{self, Card};
use keywalk_verify::synth::{self, Area};

use super::synth::Mapping;
use super::{FAILED, PASSED, Refusal, json_file, json_refusal, print};

#[derive(Debug, Args)]
pub struct FitArgs {
    /// Generated Verilog of a card: a directory that `keywalk-gen card --out` filled.
    #[arg(default_value = "build/card", value_name = "DIR")]
    design: PathBuf,
    /// Top module.
    #[arg(long, default_value = "keywalk_probed_card", value_name = "NAME")]
    module: String,
    /// Analyse a netlist that `write_json` wrote instead of running yosys.
    #[arg(long, value_name = "FILE", conflicts_with = "design")]
    netlist: Option<PathBuf>,
    /// Directory of the cards.
    #[arg(long, default_value = "fpga/cards", value_name = "DIR")]
    cards: PathBuf,
    /// Where netlists and logs of yosys go.
    #[arg(long, default_value = "build/fit", value_name = "DIR")]
    out: PathBuf,
    /// Write every share as JSON: an array of objects with name, value, unit, target, sense, bound, ratio and pass.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &FitArgs) -> Result<u8, Refusal> {
    let json = json_file(args.json.as_deref())?;
    let cards = fit::cards(&args.cards).map_err(Refusal::unusable)?;
    let (area, note) = match &args.netlist {
        Some(path) => (synth::analyse(path, &args.module, 0).map_err(Refusal::unusable)?.area, None),
        None => {
            let mapping =
                Mapping { directory: &args.design, generator: "card", out: &args.out, jobs: Some(1), paths: 0 };
            let (mut results, note) = mapping.run(|_| Ok(vec![args.module.clone()]))?;
            (results.pop().expect("one module was asked for").1.area, note)
        }
    };
    let rows: Vec<Vec<Row>> = cards.iter().map(|card| fit::rows(card, &area)).collect();
    let mut lines = vec![grid(&HEAD, 2, cards.iter().zip(&rows).map(|(card, rows)| card_line(card, rows)))];
    lines.push(taken(&args.module, &area));
    lines.push(format!(
        "at most {}% of each; what the PCIe IP takes comes on top, no open tool knows it",
        fit::SHARE_MAX
    ));
    lines.extend(note.map(|note| format!("note: {note}")));
    print(&lines);
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    if let (Some(file), Some(path)) = (json, &args.json) {
        file.write(&figures::json(&rows)).map_err(|error| json_refusal(path, &error))?;
    }
    Ok(if rows.iter().all(|row| row.pass) { PASSED } else { FAILED })
}

const HEAD: [&str; 7] = ["card", "part", "LUT", "FF", "BRAM36", "URAM", "fits"];

/// A line below [`HEAD`].
fn card_line(card: &Card, rows: &[Row]) -> Vec<String> {
    let mut line = vec![card.name.clone(), card.part.clone()];
    line.extend(rows.iter().map(|row| format!("{:.1}%", row.value)));
    line.push(if rows.iter().all(|row| row.pass) { "yes" } else { "NO" }.into());
    line
}

fn taken(module: &str, area: &Area) -> String {
    format!(
        "{module}: {} LUT ({} logic, {} memory, {} shift), {} FF, {} BRAM36, {} URAM",
        area.luts(),
        area.logic_luts,
        area.memory_luts,
        area.shift_luts,
        area.registers,
        figures::number(area.block_rams()),
        area.ultra_rams
    )
}
