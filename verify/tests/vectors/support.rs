//! Runs the command on vectors, whole or tampered with.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// What a run of the command has left.
pub struct Outcome {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Outcome {
    /// The last line of standard output.
    pub fn summary(&self) -> &str {
        self.out.lines().last().unwrap_or_default()
    }

    /// Requires an exit status and texts in the output.
    #[track_caller]
    pub fn expect(&self, status: i32, texts: &[&str]) -> &Self {
        let Self { out, err, .. } = self;
        assert_eq!(self.status, status, "standard output:\n{out}standard error:\n{err}");
        for text in texts {
            assert!(out.contains(text) || err.contains(text), "`{text}` is missing in:\n{out}{err}");
        }
        self
    }
}

/// Directory of the vectors.
pub fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// Runs the command.
pub fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_keywalk-verify")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs `vectors` on paths with options.
pub fn run_vectors(options: &str, path: &Path) -> Outcome {
    let mut arguments: Vec<String> = vec!["vectors".into()];
    arguments.extend(options.split_whitespace().map(String::from));
    arguments.push(path.to_string_lossy().into_owned());
    run(&arguments)
}

/// A vector that is not compressed, as JSON.
pub fn load(name: &str) -> Value {
    let path = vectors().join(format!("{name}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A vector in a file of its own.
pub struct Copy {
    directory: TempDir,
}

impl Copy {
    /// Writes bytes under a name.
    pub fn of_bytes(name: &str, bytes: &[u8]) -> (Self, PathBuf) {
        let copy = Self { directory: TempDir::new().unwrap() };
        let path = copy.directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (copy, path)
    }

    /// Writes a vector.
    pub fn of(vector: &Value) -> (Self, PathBuf) {
        Self::of_bytes("copy.json", &serde_json::to_vec(vector).unwrap())
    }
}

/// The number in a string of a vector, such as `"0x7f00"`.
pub fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// A number as a string of a vector.
pub fn hex(value: u64) -> Value {
    Value::String(format!("{value:#x}"))
}
