//! The command `keywalk-fuzz`: lists the targets, writes what they begin with, and runs inputs.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use keywalk_fuzz::{TARGETS, target};

/// Feeds the readers of the project with text that no user would write. `make fuzz` searches for such text; this command
/// helps it.
#[derive(Debug, Parser)]
#[command(
    name = "keywalk-fuzz",
    version,
    after_help = "Exit status: 0 done, 2 wrong usage, or a file that cannot be read or written, 101 a promise is broken."
)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Lists the targets.
    List {
        /// Names alone.
        #[arg(long)]
        names: bool,
    },
    /// Writes the inputs that the targets begin with, each target's into a directory of its name.
    Seeds {
        /// Directory to write into; made where it does not exist.
        directory: PathBuf,
    },
    /// Feeds a target with files, such as those that `make fuzz` leaves when it has found something.
    Run {
        /// The target.
        target: String,
        /// The inputs.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn run(action: Action) -> Result<(), String> {
    match action {
        Action::List { names } => {
            for target in TARGETS {
                if names {
                    println!("{}", target.name);
                } else {
                    println!("{:<20} {}", target.name, target.doc);
                }
            }
        }
        Action::Seeds { directory } => {
            for target in TARGETS {
                let directory = directory.join(target.name);
                fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
                for (number, seed) in (target.seeds)().iter().enumerate() {
                    let path = directory.join(format!("seed_{number}"));
                    fs::write(&path, seed).map_err(|error| format!("{}: {error}", path.display()))?;
                }
            }
        }
        Action::Run { target: name, files } => {
            let target = target(&name).ok_or_else(|| {
                let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                format!("there is no target `{name}`; there are {}", names.join(", "))
            })?;
            for path in files {
                let input = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                (target.run)(&input);
                println!("{}: every promise is kept", path.display());
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(Command::parse().action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("keywalk-fuzz: {message}");
            ExitCode::from(2)
        }
    }
}
