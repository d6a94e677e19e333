//! The command: exit codes, what it writes, what it leaves alone, and the same bytes from every build and process.

use keywalk_contract::Config;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in a folder.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keywalk-gen")).args(arguments).current_dir(folder).output().unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the command and returns what it says when it exits with the code.
fn fail(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = run(folder, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty() && text.starts_with("error: "), "{arguments:?}: {text}");
    text
}

/// Name and content of every file in a directory.
fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn names(directory: &Path) -> Vec<String> {
    content(directory).into_keys().collect()
}

#[test]
fn without_arguments_the_default_goes_to_build_rtl() {
    let folder = tempfile::tempdir().unwrap();
    let text = succeed(folder.path(), &[]);
    for word in ["configuration", "default", "modules", "lines", "memory bits", "time"] {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
    let names = names(&folder.path().join("build/rtl"));
    let lists = ["keywalk.f", "keywalk_mover.f", "keywalk_probe.f"];
    let documents = lists.into_iter().chain(["keywalk_regs.h", "keywalk_regs.rs", "manifest.json", "registers.md"]);
    assert_eq!(names.iter().filter(|name| !name.ends_with(".v")).collect::<Vec<_>>(), documents.collect::<Vec<_>>());
    let read = |name: &str| fs::read_to_string(folder.path().join("build/rtl").join(name)).unwrap();
    let texts = lists.map(read);
    for (list, text) in lists.iter().zip(&texts) {
        assert_eq!(text.lines().last(), Some(list.replace(".f", ".v").as_str()));
    }
    // Every file is in a list, some in several.
    let mut listed: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed, names.iter().filter(|name| name.ends_with(".v")).collect::<Vec<_>>());
    // Nothing but the directory is left behind.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.path().join("build")).unwrap().count(), 1);
}

#[test]
fn two_processes_write_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for preset in ["default", "small", "large", "narrow"] {
        for out in ["first", "second"] {
            succeed(folder.path(), &["rtl", "--preset", preset, "--out", out]);
        }
        assert!(content(&folder.path().join("first")) == content(&folder.path().join("second")), "{preset}");
    }
}

/// Builds the command once more without optimisation and with overflow checks, which takes a while.
#[test]
fn an_unoptimised_build_writes_the_same_bytes() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unoptimised");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--bin", "keywalk-gen", "--manifest-path"])
        .arg(&manifest)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .unwrap();
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let folder = tempfile::tempdir().unwrap();
    succeed(folder.path(), &["rtl", "--out", "this"]);
    let other = target.join("debug").join(format!("keywalk-gen{}", std::env::consts::EXE_SUFFIX));
    let status =
        Command::new(other).args(["rtl", "--out", "other"]).current_dir(folder.path()).output().unwrap().status;
    assert!(status.success());
    assert!(content(&folder.path().join("this")) == content(&folder.path().join("other")));
}

#[test]
fn an_illegal_configuration_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for field in Config::FIELDS {
        for value in [field.min - 1, field.max + 1] {
            fs::write(folder.path().join("config.toml"), format!("{} = {value}\n", field.name)).unwrap();
            let text = fail(folder.path(), &["rtl", "--config", "config.toml", "--out", "out"], 2);
            let expected = format!("configuration field `{}` is {value}, legal is ", field.name);
            assert!(text.contains("config.toml") && text.contains(&expected), "{text}");
            assert_eq!(fail(folder.path(), &["check", "--config", "config.toml"], 2), text);
        }
    }
    assert_eq!(names(folder.path()), ["config.toml"]);
}

#[test]
fn wrong_arguments_exit_with_2_and_missing_files_with_1() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.yaml"), "").unwrap();
    assert!(fail(folder.path(), &["rtl", "--preset", "huge"], 2).contains("legal are default, small, large, narrow"));
    fail(folder.path(), &["rtl", "--preset", "small", "--config", "config.toml"], 2);
    fail(folder.path(), &["rtl", "--depth", "3"], 2);
    fail(folder.path(), &["verilog"], 2);
    fail(folder.path(), &["check"], 2);
    assert!(fail(folder.path(), &["check", "--config", "config.yaml"], 2).contains("unknown extension"));
    assert!(fail(folder.path(), &["rtl", "--config", "none.toml"], 1).contains("none.toml"));
    assert!(fail(folder.path(), &["rtl", "--out", "config.yaml"], 1).contains("config.yaml"));
    assert!(fail(folder.path(), &["docs", "--out", "config.yaml/docs"], 1).contains("config.yaml"));
    assert_eq!(names(folder.path()), ["config.yaml"]);
}

#[test]
fn check_presets_fields_and_docs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), "{\"name\": \"mine\"}").unwrap();
    let text = succeed(folder.path(), &["check", "--config", "config.json"]);
    assert_eq!(text, "config.json: configuration `mine` is legal\n");
    assert!(succeed(folder.path(), &["presets"]).contains("narrow\n"));
    let (fields, help) = (succeed(folder.path(), &["fields"]), succeed(folder.path(), &["rtl", "--help"]));
    for field in Config::FIELDS {
        let line = format!("  {}\n      {}\n", field.name, field.doc.trim());
        assert!(fields.contains(&line) && help.contains(&line), "{line}");
    }
    assert!(help.contains("Exit codes:"));
    assert_eq!(names(folder.path()), ["config.json"]);
    succeed(folder.path(), &["docs"]);
    let docs = folder.path().join("build/docs");
    assert_eq!(names(&docs), ["card.md", "keywalk_regs.h", "keywalk_regs.rs", "manifest.json", "registers.md"]);
    succeed(folder.path(), &["rtl", "--out", "rtl"]);
    for name in ["keywalk_regs.h", "keywalk_regs.rs", "registers.md"] {
        assert_eq!(fs::read(docs.join(name)).unwrap(), fs::read(folder.path().join("rtl").join(name)).unwrap());
    }
}

#[test]
fn a_file_of_the_user_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), "name = \"mine\"\ntable_data_bits = 256\n").unwrap();
    succeed(folder.path(), &["rtl", "--config", "mine.toml", "--out", "out"]);
    let top = fs::read_to_string(folder.path().join("out/keywalk.v")).unwrap();
    assert!(top.contains("configuration `mine`") && top.contains("input wire [255:0] m_axi_tbl_rdata"));
}

#[test]
fn files_of_an_earlier_run_are_replaced_and_files_of_others_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    succeed(folder.path(), &["rtl", "--preset", "small", "--out", "out"]);
    let small = content(&out);
    fs::write(out.join("notes.txt"), "mine").unwrap();
    fs::create_dir(out.join("sim")).unwrap();
    fs::write(out.join("sim/bench.v"), "mine").unwrap();
    succeed(folder.path(), &["rtl", "--preset", "default", "--out", "out"]);
    fs::rename(out.join("sim"), folder.path().join("sim")).unwrap();
    assert_eq!(fs::read(out.join("notes.txt")).unwrap(), b"mine");
    assert_eq!(fs::read(folder.path().join("sim/bench.v")).unwrap(), b"mine");
    fs::remove_file(out.join("notes.txt")).unwrap();
    succeed(folder.path(), &["rtl", "--preset", "default", "--out", "fresh"]);
    assert!(content(&out) == content(&folder.path().join("fresh")));
    assert!(content(&out) != small);
}

#[test]
fn a_file_of_somebody_else_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    for name in ["tlb.v", "registers.md", "manifest.json"] {
        fs::write(out.join(name), "mine").unwrap();
        let text = fail(folder.path(), &["rtl", "--out", "out"], 1);
        assert!(text.contains(name) && text.contains("was not made by keywalk-gen"), "{text}");
        assert_eq!(content(&out), BTreeMap::from([(name.to_owned(), b"mine".to_vec())]));
        fs::remove_file(out.join(name)).unwrap();
    }
}

#[test]
fn the_files_of_another_design_are_never_removed() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [("rtl", "of `keywalk`"), ("shell", "of `keywalk_shell`"), ("docs", "of documents")];
    for (kind, found) in kinds {
        succeed(folder.path(), &[kind, "--out", kind]);
        let before = content(&folder.path().join(kind));
        for (other, made) in kinds.into_iter().filter(|(other, _)| *other != kind) {
            let text = fail(folder.path(), &[other, "--out", kind], 1);
            assert!(text.contains(found) && text.contains(made), "{text}");
            assert!(content(&folder.path().join(kind)) == before, "{other} has changed {kind}");
        }
    }
}

#[test]
fn a_run_that_was_killed_is_completed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    succeed(folder.path(), &["rtl", "--preset", "small", "--out", "out"]);
    succeed(folder.path(), &["rtl", "--out", "fresh"]);
    let fresh = content(&folder.path().join("fresh"));
    // Some files of the new run, the manifest of the old one.
    for (name, text) in fresh.iter().filter(|(name, _)| name.ends_with(".v")).skip(5) {
        fs::write(out.join(name), text).unwrap();
    }
    succeed(folder.path(), &["rtl", "--out", "out"]);
    assert!(content(&out) == fresh);
}

#[test]
fn a_manifest_cannot_name_files_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    succeed(folder.path(), &["docs", "--out", "out"]);
    let manifest = fs::read_to_string(out.join("manifest.json")).unwrap();
    fs::write(folder.path().join("precious"), "mine").unwrap();
    let entry = "\"files\": [{\"name\": \"../precious\", \"bytes\": 4, \"sha256\": \"\"},";
    fs::write(out.join("manifest.json"), manifest.replacen("\"files\": [", entry, 1)).unwrap();
    succeed(folder.path(), &["docs", "--out", "out"]);
    assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"mine");
}
