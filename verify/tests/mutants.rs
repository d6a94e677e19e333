//! Mutants: what counts as found, and what the command refuses. The mutants themselves are in builds of `make mutants`.

#[cfg(not(feature = "mutants"))]
use std::process::Command;

use keywalk_cosim::mutant::Mutant;
use keywalk_verify::mutants::{Numbered, Program, Survivors, Verdict, block, run_all, sample};

static MUTANTS: [Mutant; 3] = [
    Mutant { module: "tlb", line: 1, change: "stuck at 0", statement: "wire a = b" },
    Mutant { module: "csr", line: 2, change: "stuck at 1", statement: "wire a = b" },
    Mutant { module: "fifo_8x3", line: 3, change: "keeps its value", statement: "c <= d" },
];

fn numbered() -> Vec<Numbered> {
    MUTANTS.iter().enumerate().map(|(index, mutant)| (index + 1, mutant)).collect()
}

/// A shell script in place of a test: `$KEYWALK_MUTANT` is the number of the mutant that is awake.
fn script(text: &str, block: Option<&str>) -> Program {
    Program {
        name: text.into(),
        path: "sh".into(),
        arguments: vec!["-c".into(), text.into()],
        directory: ".".into(),
        block: block.map(Into::into),
        has_queues: block.is_some(),
    }
}

/// A program that needs a mutant to fail.
fn with_mutant(text: &str) -> Program {
    script(&format!("[ $KEYWALK_MUTANT = 0 ] || {{ {text}; }}"), None)
}

fn verdicts(programs: &[Program]) -> Vec<Verdict> {
    let outcomes = run_all(programs, &numbered(), 2, |_| ()).expect("the shell starts");
    outcomes.into_iter().map(|outcome| outcome.verdict).collect()
}

#[test]
fn a_mutant_is_found_by_the_first_program_that_fails() {
    let programs = [script("[ $KEYWALK_MUTANT != 1 ]", None), script("[ $KEYWALK_MUTANT = 0 ]", Some("csr"))];
    let by = |verdict: &Verdict| match verdict {
        Verdict::Killed { by, .. } => Some(by.clone()),
        Verdict::Survived => None,
    };
    // A queue is a part of blocks, whose tests may find what is wrong with it; of another block they say nothing.
    let found = |programs| verdicts(programs).iter().map(by).collect::<Vec<_>>();
    let [first, second] = programs.each_ref().map(|program| Some(program.name.clone()));
    assert_eq!(found(&programs), [first, second.clone(), second.clone()]);
    assert_eq!(found(&programs[1..]), [None, second.clone(), second]);
}

#[test]
fn signals_and_lines_that_say_so_are_failures() {
    for (text, said) in [("kill -9 $$", "signal: 9"), ("echo test a ... FAILED; exec sleep 1000", "test a ... FAILED")]
    {
        for verdict in verdicts(&[with_mutant(text)]) {
            let Verdict::Killed { how, .. } = verdict else { panic!("{text}: survived") };
            assert!(how.contains(said), "{text}: {how}");
        }
    }
}

#[test]
fn a_program_that_fails_without_a_mutant_or_tests_nothing_is_refused() {
    for (program, said) in [
        (script("exit 1", None), "fails without a mutant"),
        (script("exit 3", None), "tested nothing"),
        (with_mutant("exit 2"), "tested nothing"),
    ] {
        let error = run_all(&[program], &numbered(), 1, |_| ()).expect_err("it is refused");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_sample_is_spread_over_all() {
    let all = numbered();
    assert_eq!(sample(&all, 2), [all[0], all[1]]);
    assert_eq!(sample(&all, 9), all);
    assert_eq!((block("fifo_8x3"), block("free_list_8"), block("tlb")), ("fifo", "free_list", "tlb"));
}

#[test]
fn a_listed_mutant_must_exist() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mutants.toml");
    let entry = "[[survivor]]\nmodule = \"tlb\"\nstatement = \"x\"\nchange = \"y\"\nkind = \"open\"\nreason = \"z\"\n";
    for (text, said) in [(entry, "no mutant of module `tlb`"), ("[[survivor]]\nmodule = 1\n", "mutants.toml")] {
        std::fs::write(&path, text).expect("it is written");
        let error = Survivors::read(&path).expect_err("it is refused");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
#[cfg(not(feature = "mutants"))]
fn a_build_without_mutants_says_how_to_make_one() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keywalk-verify"));
    command.arg("mutants").current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("--features mutants"), "{stderr}");
}
