//! Runs proofs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::design::{Design, DesignError, at};
use super::plan::{Method, Plan, Planted, Proof};
use super::tools::Tools;

/// How often a running tool is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How proofs are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where each task has a directory with its Verilog, its model and what the tools said.
    pub out: PathBuf,
    /// Tasks at the same time.
    pub jobs: usize,
    /// After this time a task has failed.
    pub time_limit: Duration,
}

/// A proof of one module, or one planted fault.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The proof.
    pub proof: &'a Proof,
    /// The module.
    pub module: &'a str,
    /// The fault that is planted.
    pub planted: Option<&'a Planted>,
}

impl Task<'_> {
    /// Name of its directory; unique.
    fn directory_name(&self) -> String {
        let plain = |text: &str| -> String {
            text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
        };
        let planted = self.planted.map_or(String::new(), |planted| format!(".{}", plain(&planted.name)));
        format!("{}.{}{planted}", plain(&self.proof.name), self.module)
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The properties hold, as far as the method says.
    Holds,
    /// They do not.
    Fails {
        /// Which, and in which file and line.
        which: String,
        /// A waveform that shows it, where there is one.
        trace: Option<PathBuf>,
    },
    /// Nothing was shown: the step of an induction fails, although the properties hold for its depth after reset, or abc
    /// gave up.
    Unknown {
        /// Which.
        which: String,
        /// A waveform of the step that fails; it may begin in a state that is never reached.
        trace: Option<PathBuf>,
    },
    /// It took too long.
    TimeLimit,
}

/// How a task went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was found.
    pub verdict: Verdict,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Why a task could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no Verilog.
    #[error("proof `{proof}`: {source}")]
    Design {
        /// The proof.
        proof: String,
        /// Why.
        source: DesignError,
    },
    /// A tool failed.
    #[error("proof `{proof}`: {tool} failed; its last line: {last} (all of it: {})", log.display())]
    Tool {
        /// The proof.
        proof: String,
        /// The tool.
        tool: &'static str,
        /// Its last line.
        last: String,
        /// Where everything is.
        log: PathBuf,
    },
}

/// Runs tasks; `on_done` hears of each as it is finished. Outcomes come in the order of the tasks.
///
/// # Errors
/// The first task, in their order, that could not be run.
pub fn run_all(
    plan: &Plan,
    design: &Design,
    tools: &Tools,
    tasks: &[Task<'_>],
    settings: &Settings,
    on_done: impl Fn(&Task<'_>, &Outcome) + Sync,
) -> Result<Vec<Outcome>, RunError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<_>> = Mutex::new((0..tasks.len()).map(|_| None).collect());
    thread::scope(|scope| {
        for _ in 0..settings.jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, task)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    tasks.get(index).map(|task| (index, task))
                } {
                    let result = run(plan, design, tools, task, settings);
                    if let Ok(outcome) = &result {
                        on_done(task, outcome);
                    }
                    results.lock().expect("no worker panics")[index] = Some(result);
                }
            });
        }
    });
    results.into_inner().expect("no worker panics").into_iter().flatten().collect()
}

fn run(plan: &Plan, design: &Design, tools: &Tools, task: &Task<'_>, settings: &Settings) -> Result<Outcome, RunError> {
    let started = Instant::now();
    let proof = task.proof;
    let failed = |source| RunError::Design { proof: proof.name.clone(), source };
    let out = settings.out.join(task.directory_name());
    // Nothing of an earlier run stays, a waveform least of all.
    match fs::remove_dir_all(&out) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(at(&out)(error))),
        _ => fs::create_dir_all(&out).map_err(at(&out)).map_err(failed)?,
    }
    let reads = design.write(proof, &plan.directory, task.module, task.planted, &out).map_err(failed)?;
    let job = Job { tools, proof, out: &out, limit: started + settings.time_limit };
    let verdict = match (task.planted, proof.method) {
        // A planted fault is found when it is shown from reset; that a step of an induction fails would say nothing.
        (Some(planted), _) => job.smt(&reads, task.module, planted.depth, false),
        (None, Method::Bounded) => job.smt(&reads, task.module, proof.depth, false),
        (None, Method::Induction) => job.smt(&reads, task.module, proof.depth, true),
    }?;
    Ok(Outcome { verdict, seconds: started.elapsed().as_secs_f64() })
}

struct Job<'a> {
    tools: &'a Tools,
    proof: &'a Proof,
    out: &'a Path,
    limit: Instant,
}

/// What a tool said, or nothing when it took too long.
struct Said {
    is_success: bool,
    text: String,
    log: PathBuf,
}

impl Job<'_> {
    fn failed(&self, tool: &'static str, said: Said) -> RunError {
        let last = said.text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
        RunError::Tool { proof: self.proof.name.clone(), tool, last, log: said.log }
    }

    /// Runs a tool to its end or to the limit.
    fn tool(&self, mut command: Command, log: &str) -> Result<Option<Said>, RunError> {
        let log = self.out.join(log);
        let failed = |source| RunError::Design { proof: self.proof.name.clone(), source };
        let mut system = || {
            let output = File::create(&log)?;
            command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
            #[cfg(unix)]
            {
                use std::os::unix::process::CommandExt;
                // A group of its own, so that a solver ends with the tool that called it.
                command.process_group(0);
            }
            let mut child = command.spawn()?;
            loop {
                if let Some(status) = child.try_wait()? {
                    return Ok(Some(status));
                }
                if Instant::now() >= self.limit {
                    end(&mut child)?;
                    return Ok(None);
                }
                thread::sleep(LOOK);
            }
        };
        let status = system().map_err(at(&log)).map_err(failed)?;
        let text = String::from_utf8_lossy(&fs::read(&log).map_err(at(&log)).map_err(failed)?).into_owned();
        Ok(status.map(|status| Said { is_success: status.success(), text, log }))
    }

    /// Makes the model; whether there was time for it.
    fn model(&self, reads: &str, top: &str, end: &str) -> Result<bool, RunError> {
        let script = self.out.join("model.ys");
        // Registers of free clocks look at their clock's edge; memories among them must be registers first.
        let clocks = if self.proof.clocks_run_free { "memory_map\nopt -fast\nclk2fflogic" } else { "async2sync" };
        let text = format!(
            "{reads}hierarchy -top {top}\nproc\nflatten\nopt_clean\ncheck -assert\ncutpoint -blackbox\n\
             setundef -undriven -anyseq\ndelete -output o:*\nopt_clean -purge\nopt -keepdc -fast\nmemory_nordff\n{clocks}\nchformal -assume -early\n{end}"
        );
        fs::write(&script, text)
            .map_err(at(&script))
            .map_err(|source| RunError::Design { proof: self.proof.name.clone(), source })?;
        match self.tool(self.tools.yosys(&script), "yosys.log")? {
            Some(said) if said.is_success => Ok(true),
            Some(said) => Err(self.failed("yosys", said)),
            None => Ok(false),
        }
    }

    fn path(&self, name: &str) -> String {
        self.out.join(name).display().to_string()
    }

    /// From reset for `depth` cycles, and with `is_unbounded` the step of the induction.
    fn smt(&self, reads: &str, top: &str, depth: u32, is_unbounded: bool) -> Result<Verdict, RunError> {
        let model = self.path("model.smt2");
        let map = if self.proof.memories_as_registers { "memory_map\nopt -fast\n" } else { "" };
        let end = format!("{map}opt_clean\ndffunmap\nwrite_smt2 -wires \"{model}\"\n");
        if !self.model(reads, top, &end)? {
            return Ok(Verdict::TimeLimit);
        }
        // Step 0 lies before the clock edge of the reset.
        let steps = (depth + 1).to_string();
        let trace = self.out.join("trace.vcd");
        let ask = |arguments: &[&str], log: &str| {
            let mut command = self.tools.smtbmc();
            command.args(arguments).args(["-t", &steps, "--dump-vcd"]).arg(&trace).arg(&model);
            self.tool(command, log)
        };
        let found = |said: &Said| {
            let line = said.text.lines().find(|line| line.contains("Assert failed") || line.contains("unsatisfiable"));
            let which = line.map(|line| line.trim_start_matches(|letter: char| "#0123456789: ".contains(letter)));
            (which.map(str::to_owned), trace.is_file().then(|| trace.clone()))
        };
        match ask(&[], "base.log")? {
            None => return Ok(Verdict::TimeLimit),
            Some(said) if said.text.contains("Status: PASSED") => {}
            Some(said) if said.text.contains("Status: FAILED") => {
                let (which, trace) = found(&said);
                return match which {
                    Some(which) if which.contains("unsatisfiable") => {
                        Ok(Verdict::Unknown { which: "the assumptions contradict each other".into(), trace: None })
                    }
                    Some(which) => Ok(Verdict::Fails { which, trace }),
                    None => Err(self.failed("smtbmc", said)),
                };
            }
            Some(said) => return Err(self.failed("smtbmc", said)),
        }
        if !is_unbounded {
            return Ok(Verdict::Holds);
        }
        match ask(&["-i"], "step.log")? {
            None => Ok(Verdict::TimeLimit),
            Some(said) if said.text.contains("Status: PASSED") => Ok(Verdict::Holds),
            Some(said) if said.text.contains("Status: FAILED") => {
                let (which, trace) = found(&said);
                Ok(Verdict::Unknown { which: which.unwrap_or_else(|| "the step of the induction".into()), trace })
            }
            Some(said) => Err(self.failed("smtbmc", said)),
        }
    }
}

/// Ends a child and what it has started.
fn end(child: &mut std::process::Child) -> std::io::Result<()> {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended by itself meanwhile.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    child.kill()?;
    child.wait().map(|_| ())
}
