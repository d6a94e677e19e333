//! All vectors on the golden model.

use crate::support::{run, run_vectors, vectors};
use serde_json::Value;

/// Rows of all vectors: xlate, bad, ctx and the expected pages of mtrs.
const CHECKS: u64 = 16061 + 4965 + 94 + 163;

#[test]
fn all_vectors_pass() {
    let directory = tempfile::TempDir::new().unwrap();
    let json = directory.path().join("result.json");
    let outcome = run_vectors(&format!("--dut model --json {}", json.display()), &vectors());
    outcome.expect(0, &["pass  mtr_qp_wqe", "pass  pbl_4g_4k_hop2"]);
    assert_eq!(outcome.summary(), format!("{CHECKS} passed, 0 failed"));
    assert_eq!(outcome.out.lines().filter(|line| line.starts_with("pass  ")).count(), 47);

    let result: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!((&result["passed"], &result["failed"]), (&CHECKS.into(), &0.into()));
    let files = result["files"].as_array().unwrap();
    assert_eq!(files.len(), 47);
    let checks: u64 = files.iter().map(|file| file["checks"]["passed"].as_u64().unwrap()).sum();
    assert_eq!(checks, CHECKS);
    let big = files.iter().find(|file| file["name"] == "pbl_4g_4k_hop2").unwrap();
    // 3 passes with 6 parts each; the whole takes 3 requests, in two passes 8 samples.
    assert_eq!(big["pieces"]["passed"], 3 * 6 + 3 + 2 * 8);
}

#[test]
fn the_index_lists_the_rows_that_are_checked() {
    let index = std::fs::read_to_string(vectors().join("INDEX.tsv")).unwrap();
    let mut lines = index.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|title| *title == name).unwrap();
    let columns = ["xlate", "bad", "ctx", "mtr_pages"].map(column);
    let rows: u64 = lines.map(|line| columns.map(|at| line[at].parse::<u64>().unwrap()).iter().sum::<u64>()).sum();
    assert_eq!(rows, CHECKS);
}

#[test]
fn another_seed_asks_for_other_parts_and_passes() {
    run_vectors("--seed 77", &vectors().join("mix_03.json")).expect(0, &["\n1456 passed, 0 failed\n"]);
}

#[test]
fn help_tells_the_exit_status() {
    run(&["vectors", "--help"]).expect(0, &["0 all passed, 1 something failed, 2 wrong usage", "N passed, M failed"]);
}

#[test]
fn wrong_usage_is_refused() {
    run_vectors("", "no/such/path".as_ref()).expect(2, &["no/such/path: cannot be read"]);
    let empty = tempfile::TempDir::new().unwrap();
    run_vectors("", empty.path()).expect(2, &["no *.json or *.json.gz file in this directory"]);
    run_vectors("--trace traces", &vectors()).expect(2, &["--trace needs --dut rtl"]);
    run_vectors("--latency 5..2", &vectors()).expect(2, &["MIN <= MAX"]);
    run_vectors("--dut rtl --preset tiny", &vectors()).expect(2, &["--preset tiny: this build has default"]);
    run_vectors("--frobnicate", &vectors()).expect(2, &["--frobnicate"]);
}

#[test]
fn explain_shows_the_walk() {
    let file = vectors().join("mw_dma.json").to_string_lossy().into_owned();
    let arguments = ["explain", "--file", &file, "--key", "0x600", "--va", "0x7f0000000800", "--length", "5000"];
    run(&arguments).expect(
        0,
        &[
            "local_read key 0x00000600 va 0x7f0000000800 length 5000",
            "region `m`",
            "read mtr hop 0",
            "answer: ok, 2 segments",
            "pa 0x900000000800, 2048 bytes",
        ],
    );
    let refused = [&arguments[..], &["--op", "remote_atomic", "--pd", "1"]].concat();
    run(&refused).expect(0, &["answer: atomic_shape, wire class invalid_request"]);
}
