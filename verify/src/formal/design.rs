//! Generated Verilog with properties in it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use super::plan::{Planted, Proof, matches};

/// Why a proof has no Verilog.
#[derive(Debug, thiserror::Error)]
pub enum DesignError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// With which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest is not understood.
    #[error("{}: not a manifest of keywalk-gen: {source}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The design has no such module.
    #[error("the design has no module `{wanted}`; it has {known}")]
    NoSuchModule {
        /// The name.
        wanted: String,
        /// The names that there are.
        known: String,
    },
    /// A planted fault cannot be planted.
    #[error("module `{module}` holds the text `{find}` {times} times; a planted fault takes a text that it holds once")]
    NotOnce {
        /// The module.
        module: String,
        /// The text.
        find: String,
        /// How often it is there.
        times: usize,
    },
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> DesignError + '_ {
    move |source| DesignError::System { path: path.into(), source }
}

#[derive(Debug, Deserialize)]
struct Manifest {
    modules: Vec<Module>,
}

#[derive(Debug, Deserialize)]
struct Module {
    name: String,
    file: String,
    ports: Vec<Port>,
    instances: Vec<Instance>,
}

#[derive(Debug, Deserialize)]
struct Port {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Instance {
    module: String,
}

/// Generated Verilog in a directory.
#[derive(Debug)]
pub struct Design {
    directory: PathBuf,
    manifest: Manifest,
}

impl Design {
    /// Reads the manifest of a directory that keywalk-gen filled.
    ///
    /// # Errors
    /// [`DesignError::System`], [`DesignError::Manifest`].
    pub fn read(directory: &Path) -> Result<Self, DesignError> {
        let path = directory.join("manifest.json");
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let manifest = serde_json::from_str(&text).map_err(|source| DesignError::Manifest { path, source })?;
        Ok(Self { directory: directory.into(), manifest })
    }

    fn module(&self, name: &str) -> Result<&Module, DesignError> {
        self.manifest.modules.iter().find(|module| module.name == name).ok_or_else(|| DesignError::NoSuchModule {
            wanted: name.into(),
            known: self.manifest.modules.iter().map(|module| module.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Names of the modules that a pattern means, a name or one that ends in `*`.
    ///
    /// # Errors
    /// [`DesignError::NoSuchModule`] where there is none.
    pub fn matching(&self, pattern: &str) -> Result<Vec<String>, DesignError> {
        let names = self.manifest.modules.iter().map(|module| module.name.clone());
        let found: Vec<_> = names.filter(|name| matches(pattern, name)).collect();
        if found.is_empty() {
            self.module(pattern)?;
        }
        Ok(found)
    }

    /// Writes a module and everything below it into `out`, with the properties of `proof` and perhaps a planted fault;
    /// gives the commands with which yosys reads them.
    pub(super) fn write(
        &self,
        proof: &Proof,
        properties: &Path,
        top: &str,
        planted: Option<&Planted>,
        out: &Path,
    ) -> Result<String, DesignError> {
        let mut names = vec![top.to_owned()];
        // A name that the hardware does not have any more would be a free wire.
        let mut commands = String::from("logger -werror \"is implicitly declared\"\n");
        let edited = planted.map(|planted| planted.module.as_deref().unwrap_or(top));
        if let Some(module) = edited {
            self.module(module)?;
        }
        let mut next = 0;
        while let Some(name) = names.get(next).cloned() {
            next += 1;
            let module = self.module(&name)?;
            if proof.free.contains(&name) {
                commands += &self.command(&name, &self.directory.join(&module.file), " -lib")?;
                continue;
            }
            for instance in &module.instances {
                if !names.contains(&instance.module) {
                    names.push(instance.module.clone());
                }
            }
            let source = self.directory.join(&module.file);
            let mut text = fs::read_to_string(&source).map_err(at(&source))?;
            let begin = proof.begin.iter().filter(|_| name == top).map(|(find, replace)| (find, replace));
            let planted = planted.filter(|_| edited == Some(name.as_str()));
            for (find, replace) in begin.chain(planted.map(|planted| (&planted.find, &planted.replace))) {
                let times = text.matches(find).count();
                if times != 1 {
                    return Err(DesignError::NotOnce { module: name, find: find.clone(), times });
                }
                text = text.replacen(find, replace, 1);
            }
            let below = proof.below.iter().find(|(pattern, _)| name != top && matches(pattern, &name));
            let file = if name == top { Some(&proof.properties) } else { below.map(|(_, file)| file) };
            if let Some(file) = file {
                let file = with(proof, &properties.join(file), out)?;
                let end = text.rfind("endmodule").unwrap_or(text.len());
                text.replace_range(end.., &format!("\n`include \"{}\"\nendmodule\n", file.display()));
            }
            let path = out.join(&module.file);
            fs::write(&path, text).map_err(at(&path))?;
            commands += &self.command(&name, &path, if name == top { "" } else { " -DF_BELOW" })?;
        }
        Ok(commands)
    }

    /// How yosys reads a module. Properties learn from `HAS_port` which ports there are, and from `F_BELOW` that the module
    /// is not the one that the proof is of.
    fn command(&self, name: &str, path: &Path, option: &str) -> Result<String, DesignError> {
        let path = std::path::absolute(path).map_err(at(path))?;
        let ports: String = self.module(name)?.ports.iter().map(|port| format!(" -DHAS_{}", port.name)).collect();
        Ok(format!("read_verilog -formal -sv{option} -DMODULE_{name}{ports} \"{}\"\n", path.display()))
    }
}

/// A file of properties, or a copy of it in `out` with names filled in.
fn with(proof: &Proof, file: &Path, out: &Path) -> Result<PathBuf, DesignError> {
    if proof.with.is_empty() {
        return fs::canonicalize(file).map_err(at(file));
    }
    let mut text = fs::read_to_string(file).map_err(at(file))?;
    for (name, value) in &proof.with {
        text = text.replace(&format!("@{name}@"), value);
    }
    let copy = out.join(file.file_name().unwrap_or_default());
    // What it includes lies beside the original.
    let directory = fs::canonicalize(file.parent().unwrap_or(Path::new("."))).map_err(at(file))?;
    text = text.replace("`include \"", &format!("`include \"{}/", directory.display()));
    fs::write(&copy, text).map_err(at(&copy))?;
    fs::canonicalize(&copy).map_err(at(&copy))
}
