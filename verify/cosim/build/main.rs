//! Turns Verilog into linked Verilator models: the generated engine in each configuration that is tested, its blocks,
//! and a few hand-written modules that the monitors are tested with.
//!
//! A model is compiled once per content of its Verilog and options, into `verilated/` of the target directory, and
//! shared by debug and release builds.

mod bindings;
mod duts;
mod mutants;
mod verilate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

/// The loop that replays recorded inputs.
const REPLAY: &str = "src/replay.cpp";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    for path in ["build", "tests/rtl", REPLAY] {
        println!("cargo:rerun-if-changed={path}");
    }
    for variable in ["VERILATOR", "CXX", "CXXFLAGS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(env::var("OUT_DIR").map_err(|error| format!("OUT_DIR: {error}"))?);
    // OUT_DIR is <target>/<profile>/build/<package>/out.
    let finished = out.ancestors().nth(4).unwrap_or(&out).join("verilated");
    let cache = verilate::Cache { finished, work: out.join("verilating") };
    let verilator = verilate::Verilator::find()?;
    let mut duts = duts::all()?;
    let mutants = duts::mutate(&mut duts);
    let models = compile_all(&verilator, &duts, &cache)?;
    let runtime = verilate::runtime(&verilator, &models, &cache)?;

    let mut replay = cc::Build::new();
    replay.cpp(true).std("c++17").opt_level(3).file(REPLAY);
    replay.try_compile("keywalk_replay").map_err(|error| format!("{REPLAY}: {error}"))?;

    for (name, table) in
        [("duts.rs", bindings::rust_table(&duts, &models)), ("mutants.rs", mutants::rust_table(&mutants))]
    {
        let path = out.join(name);
        fs::write(&path, table).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for model in &models {
        link(&model.library_directory, &model.library_name);
    }
    link(&runtime, verilate::RUNTIME_LIBRARY);
    for library in ["stdc++", "pthread", "atomic"] {
        println!("cargo:rustc-link-lib={library}");
    }
    Ok(())
}

fn link(directory: &Path, library: &str) {
    println!("cargo:rustc-link-search=native={}", directory.display());
    println!("cargo:rustc-link-lib=static={library}");
    // A cache that was deleted must be filled again.
    println!("cargo:rerun-if-changed={}", directory.join(format!("lib{library}.a")).display());
}

/// Compiles every model, several at a time.
fn compile_all(
    verilator: &verilate::Verilator,
    duts: &[duts::Dut],
    cache: &verilate::Cache,
) -> Result<Vec<verilate::Model>, String> {
    let workers = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1).clamp(1, duts.len().max(1));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((index, dut)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    duts.get(index).map(|dut| (index, dut))
                } {
                    let result = verilate::model(verilator, dut, cache);
                    results.lock().expect("no worker panics").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no worker panics");
    results.sort_by_key(|(index, _)| *index);
    let (models, errors): (Vec<_>, Vec<_>) = results.into_iter().map(|(_, result)| result).partition(Result::is_ok);
    if !errors.is_empty() {
        let errors: Vec<_> = errors.into_iter().filter_map(Result::err).collect();
        return Err(errors.join("\n"));
    }
    models.into_iter().collect()
}
