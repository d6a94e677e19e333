//! Every subcommand that prints fails where standard output cannot be written, and not where its reader has seen enough.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Runs a command line whose output goes somewhere; gives exit status and messages.
fn run(arguments: &[&str], out: Stdio) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keywalk-verify"));
    let child = command.args(arguments).current_dir(directory("..")).stdout(out).stderr(Stdio::piped()).spawn();
    let output = child.and_then(std::process::Child::wait_with_output).expect("the command runs");
    (output.status.code().expect("it ends by itself"), String::from_utf8(output.stderr).expect("it prints text"))
}

const COMMANDS: [&str; 7] = [
    "replay verify/events/zero_based.json",
    "vectors verify/vectors/key_wrap.json",
    "explain --file verify/vectors/key_wrap.json --key 0x100 --va 0",
    "bench --list",
    "soak --seeds 1 --jobs 1",
    "--help",
    "--version",
];

#[test]
fn a_full_device_is_a_failure() {
    for line in COMMANDS {
        let arguments: Vec<_> = line.split(' ').collect();
        let full = File::options().write(true).open("/dev/full").expect("this system has it");
        let (status, messages) = run(&arguments, full.into());
        assert_eq!(status, 1, "{line}: {messages}");
        assert!(messages.contains("standard output cannot be written: No space left on device"), "{line}: {messages}");
    }
    // Here it is the output itself.
    let full = File::options().write(true).open("/dev/full").expect("this system has it");
    let (status, messages) = run(&["scenario", "--seeds", "1", "--out", "-"], full.into());
    assert_eq!(status, 2, "{messages}");
    assert!(messages.contains("--out -: No space left on device"), "{messages}");
}

#[test]
fn a_reader_that_has_gone_away_is_none() {
    for line in COMMANDS {
        let arguments: Vec<_> = line.split(' ').collect();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (status, messages) = run(&arguments, writer.into());
        assert_eq!(status, 0, "{line}: {messages}");
    }
}
