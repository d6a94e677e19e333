//! Every target with mutations of real files, and with the inputs that once broke a promise.
//!
//! An input that hangs or takes too much memory ends the whole test; it is the one that is left in the file named
//! at the end.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keywalk_fuzz::{Mutator, TARGETS, target};

/// Inputs of a target, at most.
const INPUTS_MAX: u64 = 20_000;
/// Time for a target.
const TIME_MAX: Duration = Duration::from_secs(4);
/// Time for an input: many times what the slowest takes in a debug build on a busy machine.
const INPUT_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes in use at any time, by all tests of this file together.
const BYTES_MAX: usize = 3 << 30;

/// Counts what is in use, and refuses more than [`BYTES_MAX`].
struct Limited;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator; a null pointer says that there is no memory.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > BYTES_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the rules of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Ends the process when an input takes too long.
struct Watch {
    started: Instant,
    /// Milliseconds from the start to the deadline of the input that is being run; the largest number when none is.
    deadline: AtomicU64,
}

impl Watch {
    fn new(input: PathBuf) -> &'static Self {
        let watch: &Self = Box::leak(Box::new(Self { started: Instant::now(), deadline: AtomicU64::new(u64::MAX) }));
        std::thread::spawn(move || {
            while watch.now() < watch.deadline.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
            }
            eprintln!("an input takes longer than {INPUT_TIME_MAX:?}: {}", input.display());
            std::process::exit(1);
        });
        watch
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn run(&self, run: impl FnOnce()) {
        self.deadline.store(self.now() + INPUT_TIME_MAX.as_millis() as u64, Ordering::Relaxed);
        run();
        self.deadline.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Says which file holds the input, should the target panic.
struct Names<'a>(&'a Path);

impl Drop for Names<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input is in {}; `keywalk-fuzz run TARGET FILE` runs it again", self.0.display());
        }
    }
}

/// Feeds a target with its seeds and mutations of them.
fn feed(name: &str) {
    let target = target(name).expect("there is such a target");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.input"));
    let watch = Watch::new(file.clone());
    let names = Names(&file);
    let run = |input: &[u8]| {
        fs::write(&file, input).expect("the directory is there");
        watch.run(|| (target.run)(input));
    };
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| run(seed));
    let mut mutator = Mutator::new(seeds, 1);
    let start = Instant::now();
    let mut inputs = 0;
    while inputs < INPUTS_MAX && start.elapsed() < TIME_MAX {
        run(&mutator.next_input());
        inputs += 1;
    }
    drop(names);
    fs::remove_file(&file).expect("it was written");
    println!("{inputs} inputs");
}

macro_rules! mutations {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                feed(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_fed() {
            let fed = [$(stringify!($name)),*];
            assert!(TARGETS.iter().map(|target| target.name).eq(fed), "fed are {fed:?}");
        }
    };
}

mutations! {
    configuration_toml configuration_json configuration_space manifest verilog vector description_toml description_json
    netlist arguments markdown
}
