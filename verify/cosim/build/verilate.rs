//! Runs Verilator and the C++ compiler.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::bindings::{self, Port};
use crate::duts::Dut;

/// Name of the library of Verilator's run time.
pub const RUNTIME_LIBRARY: &str = "keywalk_verilated_runtime";

/// Changes when the way of compiling changes, so that old results are not used again.
const RECIPE: &str = "2";

/// Verilator's own options. Uninitialised state takes random values, so that a reliance on it shows.
const OPTIONS: &[&str] = &["--cc", "-O3", "-Wall", "--x-assign", "unique", "--x-initial", "unique"];

/// Further options of a design with coverage. Wider signals are left out: a counter for each bit of data would make the
/// model some hundred megabytes of C++.
const COVERAGE_OPTIONS: &[&str] = &["--coverage-line", "--coverage-toggle", "--coverage-max-width", "8"];

/// Where compiled models are.
pub struct Cache {
    /// Finished ones, shared by all builds.
    pub finished: PathBuf,
    /// Those being made by this build.
    pub work: PathBuf,
}

/// An installed Verilator.
pub struct Verilator {
    program: String,
    version: String,
    include: PathBuf,
}

/// A compiled model.
pub struct Model {
    /// Directory of its library.
    pub library_directory: PathBuf,
    /// Name of its library, without `lib` and `.a`.
    pub library_name: String,
    /// Its ports in order of name.
    pub ports: Vec<Port>,
    /// Files of Verilator's run time that it needs, without `.cpp`.
    runtime_files: Vec<String>,
}

impl Verilator {
    /// Finds Verilator: `VERILATOR`, or `verilator` in the path.
    pub fn find() -> Result<Self, String> {
        let program = env::var("VERILATOR").unwrap_or_else(|_| "verilator".into());
        let ask = |argument: &[&str]| {
            let output = Command::new(&program).args(argument).output().map_err(|error| {
                format!(
                    "Verilator does not start (`{program}`: {error}). Run `make setup`, which installs it, or set \
                     VERILATOR to its path"
                )
            })?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let version = ask(&["--version"])?;
        let root = ask(&["--getenv", "VERILATOR_ROOT"])?;
        let include = PathBuf::from(root).join("include");
        if !include.join("verilated.h").is_file() {
            return Err(format!("`{program}` says that its files are in {}, but they are not", include.display()));
        }
        Ok(Self { program, version, include })
    }

    /// What identifies the tools, for the keys of the cache.
    fn identity(&self) -> String {
        let variable = |name| env::var(name).unwrap_or_default();
        format!(
            "{RECIPE} {} {} {} {OPTIONS:?} {} {}",
            self.program,
            self.version,
            self.include.display(),
            variable("CXX"),
            variable("CXXFLAGS")
        )
    }

    /// A C++ compilation with the run time's settings, the same in every profile.
    fn compilation(&self, level: u32) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .opt_level(level)
            .debug(false)
            .force_frame_pointer(false)
            .warnings(false)
            .cargo_metadata(false)
            .flag_if_supported("-fcf-protection=none")
            .flag_if_supported("-faligned-new")
            .define("VL_TIME_CONTEXT", None)
            .define("VM_COVERAGE", "0")
            .define("VM_SC", "0")
            .define("VM_TRACE", if cfg!(feature = "trace") { "1" } else { "0" })
            .define("VM_TRACE_VCD", if cfg!(feature = "trace") { "1" } else { "0" })
            .define("VM_TRACE_FST", "0")
            .include(&self.include)
            .include(self.include.join("vltstd"));
        build
    }
}

/// Compiles a design, or finds it in the cache.
pub fn model(verilator: &Verilator, dut: &Dut, cache: &Cache) -> Result<Model, String> {
    let files = &dut.files;
    let trace = cfg!(feature = "trace");
    let coverage = if dut.is_covered { COVERAGE_OPTIONS } else { &[] };
    let mut key = format!("{} {} {} {} {trace} {files:?}", verilator.identity(), dut.name, dut.top, dut.is_engine);
    if dut.is_covered {
        key += &format!(" {COVERAGE_OPTIONS:?}");
    }
    let library_name = format!("keywalk_dut_{}", dut.name);
    let directory = cached(cache, &dut.name, &key, |work| {
        let source = work.join("verilog");
        create(&source)?;
        for (name, text) in files {
            write(&source.join(name), text)?;
        }
        let prefix = bindings::prefix(&dut.name);
        let mut command = Command::new(&verilator.program);
        command.args(OPTIONS).args(coverage).args(["--prefix", &prefix, "--top-module", &dut.top, "-Mdir"]).arg(work);
        if trace {
            command.arg("--trace");
        }
        command.args(files.iter().filter(|(name, _)| name.ends_with(".vlt")).map(|(name, _)| source.join(name)));
        // A fault may make a comparison that is always true.
        if dut.has_mutants {
            command.arg("-Wno-fatal");
        }
        command.arg("-y").arg(&source).arg(source.join(format!("{}.v", dut.top)));
        let output = command.output().map_err(|error| format!("{}: {error}", verilator.program))?;
        if !output.status.success() {
            return Err(format!(
                "Verilator refuses `{}`:\n{}",
                dut.name,
                String::from_utf8_lossy(&output.stderr).replace(&work.display().to_string(), "")
            ));
        }
        let ports = bindings::ports(&read(&work.join(format!("{prefix}.h")))?)?;
        let shim = work.join(format!("{prefix}__shim.cpp"));
        write(&shim, &bindings::shim(dut, &ports))?;

        let lists = read(&work.join(format!("{prefix}_classes.mk")))?;
        let paths = |variables: &[&str]| -> Vec<PathBuf> {
            let names = variables.iter().flat_map(|variable| make_list(&lists, variable));
            names.map(|name| work.join(format!("{name}.cpp"))).collect()
        };
        let compile = |level, files: Vec<PathBuf>| {
            let mut build = verilator.compilation(level);
            build.include(work).out_dir(work.join("objects")).files(files);
            build.try_compile_intermediates().map_err(|error| format!("compiling `{}`: {error}", dut.name))
        };
        let mut fast = paths(&["VM_CLASSES_FAST", "VM_SUPPORT_FAST"]);
        fast.push(shim);
        // Most mutants are found in no time, and every one costs time here.
        let is_fast = dut.is_engine && !dut.is_covered && !dut.has_mutants;
        let mut objects = compile(if is_fast { 3 } else { 1 }, fast)?;
        objects.extend(compile(0, paths(&["VM_CLASSES_SLOW", "VM_SUPPORT_SLOW"]))?);
        archive(verilator, &library_name, &objects, work)?;
        let runtime_files: Vec<_> = ["VM_GLOBAL_FAST", "VM_GLOBAL_SLOW"]
            .iter()
            .flat_map(|variable| make_list(&lists, variable))
            .map(str::to_owned)
            .collect();
        write(&work.join("ports.txt"), &bindings::write_ports(&ports))?;
        write(&work.join("runtime.txt"), &runtime_files.join("\n"))
    })?;
    Ok(Model {
        ports: bindings::read_ports(&read(&directory.join("ports.txt"))?)?,
        runtime_files: read(&directory.join("runtime.txt"))?.lines().map(str::to_owned).collect(),
        library_directory: directory,
        library_name,
    })
}

/// Compiles Verilator's run time, once for all models. Returns the directory of the library.
pub fn runtime(verilator: &Verilator, models: &[Model], cache: &Cache) -> Result<PathBuf, String> {
    let mut files: Vec<_> = models.iter().flat_map(|model| &model.runtime_files).collect();
    files.sort();
    files.dedup();
    let key = format!("{} {} {files:?}", verilator.identity(), cfg!(feature = "trace"));
    cached(cache, "runtime", &key, |work| {
        let mut build = verilator.compilation(2);
        build.out_dir(work.join("objects"));
        for file in &files {
            build.file(verilator.include.join(format!("{file}.cpp")));
        }
        let objects = build.try_compile_intermediates().map_err(|error| format!("Verilator's run time: {error}"))?;
        archive(verilator, RUNTIME_LIBRARY, &objects, work)
    })
}

/// Puts objects into `lib<name>.a` of `directory`.
fn archive(verilator: &Verilator, name: &str, objects: &[PathBuf], directory: &Path) -> Result<(), String> {
    let mut build = verilator.compilation(0);
    build.out_dir(directory).objects(objects);
    build.try_compile(name).map_err(|error| format!("library {name}: {error}"))
}

/// The entries of a list variable in a makefile of Verilator's.
fn make_list<'a>(text: &'a str, variable: &str) -> Vec<&'a str> {
    let mut lines = text.lines();
    let start = format!("{variable} += \\");
    if lines.by_ref().all(|line| line.trim_end() != start) {
        return Vec::new();
    }
    lines.map_while(|line| line.trim().strip_suffix('\\')).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// The directory that `fill` filled for `key`, now or in an earlier build. A directory appears only when complete.
fn cached(
    cache: &Cache,
    name: &str,
    key: &str,
    fill: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let directory = cache.finished.join(format!("{name}-{:016x}", hasher.finish()));
    let stamp = "key.txt";
    if fs::read_to_string(directory.join(stamp)).is_ok_and(|found| found == key) {
        return Ok(directory);
    }
    let work = cache.work.join(name);
    let remove = |path: &Path| match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    };
    remove(&work)?;
    create(&work)?;
    let filled = fill(&work).and_then(|()| write(&work.join(stamp), key));
    if let Err(error) = filled {
        remove(&work)?;
        return Err(error);
    }
    remove(&work.join("objects"))?;
    create(&cache.finished)?;
    if fs::rename(&work, &directory).is_err() {
        // Another build finished first, or an older Rust hashed another key to the same name.
        remove(&directory)?;
        fs::rename(&work, &directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    Ok(directory)
}

fn create(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
