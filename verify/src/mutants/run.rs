//! Runs programs on mutants.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use keywalk_cosim::mutant::VARIABLE;

use super::{Numbered, Program};

/// A mutant may make a program so many times slower, and so much, before it counts as hanging.
const TIMES_SLOWER: u32 = 8;
const SLOWER_BY: Duration = Duration::from_secs(60);
/// Exit status of a program that refuses its arguments or lacks a tool: then it has tested nothing.
const TESTED_NOTHING: [i32; 2] = [2, 3];

/// How a program ended.
enum Ending {
    /// It passed.
    Passed,
    /// It failed, or was ended by a signal: what it said first.
    Failed(String),
    /// It took too long.
    Hung,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A program has found it.
    Killed {
        /// The program.
        by: String,
        /// What it said.
        how: String,
    },
    /// None has.
    Survived,
}

/// A mutant with its verdict.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The mutant.
    pub mutant: Numbered,
    /// What became of it.
    pub verdict: Verdict,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Whether a line of a program's output says that something failed: such a program need not be run to its end.
fn says_failure(line: &str) -> bool {
    line.ends_with("... FAILED") || line.starts_with("FAILED: ") || line.trim_start().starts_with("first difference:")
}

/// Runs a program with a mutant awake; 0: none.
fn run(program: &Program, number: usize, limit: Duration) -> io::Result<Ending> {
    let deadline = Instant::now() + limit;
    let mut child = Command::new(&program.path)
        .args(&program.arguments)
        .current_dir(&program.directory)
        .env(VARIABLE, number.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(output) = child.stdout.take() else { return Ok(Ending::Hung) };
    let (sender, lines) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if says_failure(&line) => {
                    // The line behind it, where there is one, says more; waiting for it could take long.
                    let more = lines.recv_timeout(Duration::from_millis(50)).unwrap_or_default();
                    end(&mut child)?;
                    return Ok(Ending::Failed(format!("{} {}", line.trim(), more.trim()).trim().into()));
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    end(&mut child)?;
                    return Ok(Ending::Hung);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait()?;
        match status.code() {
            Some(0) => Ok(Ending::Passed),
            Some(code) if TESTED_NOTHING.contains(&code) => {
                Err(io::Error::other(format!("{}: exit status {code}, it has tested nothing", program.name)))
            }
            _ => Ok(Ending::Failed(status.to_string())),
        }
    })
}

fn end(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}

/// Calls `work` for each item on several threads; results in the order of the items, up to the first error.
fn on_threads<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> io::Result<R> + Sync,
) -> io::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<_>> = Mutex::new((0..items.len()).map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, item)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    items.get(index).map(|item| (index, item))
                } {
                    let result = work(item);
                    if result.is_err() {
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    results.lock().expect("no worker panics")[index] = Some(result);
                }
            });
        }
    });
    results.into_inner().expect("no worker panics").into_iter().flatten().collect()
}

/// A program with the time that it may take: a sound engine's, and much more. It is measured when it is needed first.
struct Limited<'a> {
    program: &'a Program,
    limit: Mutex<Option<Duration>>,
}

impl Limited<'_> {
    /// Runs the program without a mutant, where that has not been done.
    fn limit(&self) -> io::Result<Duration> {
        /// No program takes longer without a fault.
        const SOUND_MAX: Duration = Duration::from_secs(3600);
        let mut limit = self.limit.lock().expect("no worker panics");
        if let Some(limit) = *limit {
            return Ok(limit);
        }
        let start = Instant::now();
        let name = &self.program.name;
        match run(self.program, 0, SOUND_MAX)? {
            Ending::Passed => Ok(*limit.insert(start.elapsed() * TIMES_SLOWER + SLOWER_BY)),
            Ending::Failed(how) => {
                Err(io::Error::other(format!("{name} fails without a mutant: {how}; mend that first")))
            }
            Ending::Hung => Err(io::Error::other(format!("{name} does not end without a mutant"))),
        }
    }

    /// Runs the program with a mutant awake. Where it finds the mutant, what it said.
    fn find(&self, number: usize) -> io::Result<Option<String>> {
        let limit = self.limit()?;
        Ok(match run(self.program, number, limit)? {
            Ending::Passed => None,
            Ending::Failed(how) => Some(how),
            Ending::Hung => Some(format!("no end in {} s", limit.as_secs())),
        })
    }
}

/// Runs the programs on mutants, each until the first that finds it. A program is run without a mutant before. `on_done`
/// hears of each mutant.
///
/// # Errors
/// A program that cannot be run, or fails without a mutant: it would find every one.
pub fn run_all(
    programs: &[Program],
    mutants: &[Numbered],
    threads: usize,
    on_done: impl Fn(&Outcome) + Sync,
) -> io::Result<Vec<Outcome>> {
    let programs: Vec<_> = programs.iter().map(|program| Limited { program, limit: Mutex::new(None) }).collect();
    on_threads(mutants, threads, |mutant| {
        let start = Instant::now();
        let mut verdict = Verdict::Survived;
        for limited in programs.iter().filter(|limited| limited.program.tests(mutant.1.module)) {
            if let Some(how) = limited.find(mutant.0)? {
                verdict = Verdict::Killed { by: limited.program.name.clone(), how };
                break;
            }
        }
        let outcome = Outcome { mutant: *mutant, verdict, seconds: start.elapsed().as_secs_f64() };
        on_done(&outcome);
        Ok(outcome)
    })
}
