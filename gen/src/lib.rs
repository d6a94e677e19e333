//! Writes the Verilog, manifest and register documents of a configuration.
//!
//! [`generate`] makes the Verilog of a configuration in memory, [`package`] adds the file list, the register documents
//! and the manifest, and [`directory::install`] puts them all into a directory, or none of them. Configurations come
//! from [`config_file`] and [`presets`].

pub mod canonicalise;
pub mod card;
pub mod config_file;
pub mod directory;
pub mod latency;
pub mod manifest;
pub mod mover_wrapper;
pub mod package;
pub mod presets;
pub mod probe_wrapper;
pub mod probed_card;
pub mod register_map;
pub mod shell;
pub mod stitch;
pub mod wrapper;

use canonicalise::{Module, Options};
use keywalk_contract::{Config, config::ConfigError};
use keywalk_hdl::prim::Design;
use std::collections::BTreeMap;

/// A port of a generated module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// Whether the module receives it.
    pub is_input: bool,
}

/// A memory of a generated module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Name.
    pub name: String,
    /// Words.
    pub words: u64,
    /// Bits of a word.
    pub width: u32,
    /// Read ports.
    pub read_ports: usize,
    /// Value of the attribute `ram_style`.
    pub style: Option<&'static str>,
}

impl Memory {
    /// Bits of all words.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.words * u64::from(self.width)
    }
}

/// An instance of a module within another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name of the instance.
    pub name: String,
    /// Name of its module.
    pub module: String,
}

/// Facts about one generated module.
#[derive(Clone, Debug)]
pub struct ModuleInfo {
    /// Name of the module; its file is `<name>.v`.
    pub name: String,
    /// Ports. All modules but the top also have `clk` and `reset_n`, which are not listed for them.
    pub ports: Vec<Port>,
    /// Memories.
    pub memories: Vec<Memory>,
    /// Register bits, without those of its instances.
    pub register_bits: u32,
    /// Instances, in order of name.
    pub instances: Vec<Instance>,
}

/// Everything that is generated from one configuration.
#[derive(Clone, Debug)]
pub struct Output {
    /// The configuration.
    pub config: Config,
    /// File name and text of every Verilog module, in order of name, the top modules last, the engine's last of all.
    pub files: Vec<(String, String)>,
    /// The modules, in the order of the files.
    pub modules: Vec<ModuleInfo>,
    /// Name of the engine's top module.
    pub top: String,
    /// Name of the data mover's top module.
    pub mover_top: String,
    /// Name of the probe's top module.
    pub probe_top: String,
}

impl Output {
    /// Whether a module is a top module, whose clock and reset are among its ports.
    #[must_use]
    pub fn is_top(&self, module: &str) -> bool {
        [&self.top, &self.mover_top, &self.probe_top].iter().any(|top| *top == module)
    }

    /// Files of a module and of everything that it instantiates.
    #[must_use]
    pub fn files_of(&self, module: &str) -> Vec<(String, String)> {
        files_of(module, &self.files, &self.modules)
    }

    /// The module of each instance in the whole engine: a module that is instantiated twice comes twice.
    #[must_use]
    pub fn instance_modules(&self) -> Vec<&ModuleInfo> {
        let info = |name: &str| self.modules.iter().find(|info| info.name == name);
        let mut modules: Vec<&ModuleInfo> = info(&self.top).into_iter().collect();
        let mut next = 0;
        while next < modules.len() {
            modules.extend(modules[next].instances.iter().filter_map(|instance| info(&instance.module)));
            next += 1;
        }
        modules
    }
}

/// Files of a module and of everything that it instantiates.
fn files_of(module: &str, files: &[(String, String)], modules: &[ModuleInfo]) -> Vec<(String, String)> {
    let mut wanted = vec![module.to_owned()];
    let mut next = 0;
    while next < wanted.len() {
        let info = modules.iter().find(|info| info.name == wanted[next]);
        for Instance { module, .. } in info.iter().flat_map(|info| &info.instances) {
            if !wanted.contains(module) {
                wanted.push(module.clone());
            }
        }
        next += 1;
    }
    let is_wanted = |file: &str| wanted.iter().any(|name| file == format!("{name}.v"));
    files.iter().filter(|(file, _)| is_wanted(file)).cloned().collect()
}

/// Why nothing was generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The configuration is illegal.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The name of the configuration cannot stand in the header of a file.
    #[error(transparent)]
    Name(#[from] config_file::NameError),
    /// The hardware description made something that cannot be published: a fault of this project.
    #[error("module {module}: {error}")]
    Canonicalise {
        /// The module.
        module: String,
        /// What is wrong with it.
        error: canonicalise::Error,
    },
}

/// The hardware as kaze prints it.
#[derive(Clone, Debug)]
pub struct Printed {
    /// Name of the module that holds all others of the engine.
    pub core: String,
    /// Name of the module that holds all others of the data mover.
    pub mover: String,
    /// Name of the probe's module.
    pub probe: String,
    /// Name and text of every module.
    pub modules: Vec<(String, String)>,
}

/// Describes the hardware of a legal configuration and lets kaze print it.
#[must_use]
pub fn print(config: &Config) -> Printed {
    let ([core, mover, probe], modules) = print_design(|design| {
        let builds = [keywalk_hdl::build, keywalk_hdl::build_mover, keywalk_hdl::build_probe];
        builds.map(|build| build(design, config))
    });
    Printed { core, mover, probe, modules }
}

/// Lets kaze print what `build` describes: name and text of every module, and what `build` gives.
fn print_design<R>(build: impl FnOnce(&Design<'_>) -> R) -> (R, Vec<(String, String)>) {
    let context = kaze::Context::new();
    let arena = typed_arena::Arena::new();
    let design = Design::new(&context, &arena);
    let result = build(&design);
    let modules = design.modules().into_iter().map(|builder| {
        let mut text = Vec::new();
        kaze::verilog::generate(builder.kaze(), &mut text).expect("writing to memory succeeds");
        (builder.name().to_owned(), String::from_utf8(text).expect("kaze prints ASCII"))
    });
    (result, modules.collect())
}

/// Canonical modules, in order of name, of what kaze printed.
fn canonical(texts: &[(String, String)]) -> Result<Vec<Module>, GenerateError> {
    let fault = |module: &str| {
        let module = module.to_owned();
        move |error| GenerateError::Canonicalise { module, error }
    };
    let mut modules: Vec<Module> = Vec::new();
    for (name, text) in texts {
        modules.push(canonicalise::parse(&stitch::stitch(text)).map_err(fault(name))?);
    }
    modules.sort_by(|a, b| a.name().cmp(b.name()));
    let interfaces = modules.clone();
    for module in &mut modules {
        let name = module.name().to_owned();
        interfaces.iter().try_for_each(|instantiated| module.link(instantiated)).map_err(fault(&name))?;
    }
    Ok(modules)
}

/// Generates the Verilog of `config`.
///
/// # Errors
/// An illegal configuration.
pub fn generate(config: &Config) -> Result<Output, GenerateError> {
    config.validate()?;
    config_file::check_name(&config.name)?;
    let Printed { core, mover, probe, modules: texts } = print(config);
    let modules = canonical(&texts)?;
    let header = |name: &str| {
        format!("{name}: generated by keywalk-gen {}, configuration `{}`.", env!("CARGO_PKG_VERSION"), config.name)
    };
    let port_comments = BTreeMap::new();
    let mut files: Vec<(String, String)> = modules
        .iter()
        .map(|module| {
            let options = Options { header: &header(module.name()), port_comments: &port_comments };
            (format!("{}.v", module.name()), module.to_verilog(&options))
        })
        .collect();
    let mut infos: Vec<ModuleInfo> = modules.iter().map(info).collect();
    let mut add_top = |top: &str, core: &str, verilog: WrapperText, ports: Vec<wrapper::TopPort>| {
        let core = modules.iter().find(|module| module.name() == core).expect("the core was built");
        let text = verilog(config, &header(top), core.name(), core.inputs(), core.outputs());
        files.push((format!("{top}.v"), text));
        infos.push(ModuleInfo {
            name: top.into(),
            ports: ports
                .into_iter()
                .map(|port| Port { name: port.name, width: port.width, is_input: port.is_input })
                .collect(),
            memories: Vec::new(),
            register_bits: 0,
            instances: vec![Instance { name: wrapper::CORE_INSTANCE.into(), module: core.name().into() }],
        });
    };
    add_top(probe_wrapper::TOP, &probe, probe_wrapper::verilog, probe_wrapper::ports(config));
    add_top(mover_wrapper::TOP, &mover, mover_wrapper::verilog, mover_wrapper::ports(config));
    add_top(wrapper::TOP, &core, wrapper::verilog, wrapper::ports(config));
    let [top, mover_top, probe_top] = [wrapper::TOP, mover_wrapper::TOP, probe_wrapper::TOP].map(str::to_owned);
    Ok(Output { config: config.clone(), files, modules: infos, top, mover_top, probe_top })
}

/// Writes a top module: configuration, header, name of the core, its inputs and outputs.
type WrapperText = fn(&Config, &str, &str, &[canonicalise::Port], &[canonicalise::Port]) -> String;

fn info(module: &Module) -> ModuleInfo {
    let port = |port: &canonicalise::Port, is_input| Port { name: port.name.clone(), width: port.width_bits, is_input };
    let inputs = module.inputs().iter().map(|p| port(p, true));
    let outputs = module.outputs().iter().map(|p| port(p, false));
    ModuleInfo {
        name: module.name().into(),
        ports: inputs.chain(outputs).collect(),
        memories: module
            .memories()
            .iter()
            .map(|memory| Memory {
                name: memory.name.clone(),
                words: memory.words,
                width: memory.width_bits,
                read_ports: memory.read_ports,
                style: memory.style.map(canonicalise::RamStyle::attribute),
            })
            .collect(),
        register_bits: module.registers().iter().map(|register| register.width_bits).sum(),
        instances: module
            .instances()
            .iter()
            .map(|instance| Instance { name: instance.name.clone(), module: instance.module.clone() })
            .collect(),
    }
}
