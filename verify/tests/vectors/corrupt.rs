//! A vector with one wrong value must fail, on the model and on the RTL, and the message must say what is wrong.

use crate::support::{Copy, hex, load, number, run_vectors};
use serde_json::{Value, json};

/// Runs a tampered vector on both designs and requires the texts in both outputs.
#[track_caller]
fn must_fail(vector: &Value, texts: &[&str]) {
    let (_copy, path) = Copy::of(vector);
    for design in ["--dut model", "--dut rtl --latency 5..20 --reorder"] {
        let outcome = run_vectors(design, &path);
        outcome.expect(1, texts).expect(1, &["FAIL  ", "first difference: ", "request: ", "expected: ", "got: "]);
        let (passed, failed) = outcome.summary().split_once(" passed, ").unwrap();
        passed.parse::<u64>().unwrap();
        let failed: u64 = failed.strip_suffix(" failed").unwrap().parse().unwrap();
        assert!(failed > 0, "{}", outcome.out);
    }
}

#[test]
fn an_untouched_copy_passes() {
    let (_copy, path) = Copy::of(&load("mw_dma"));
    run_vectors("--dut rtl", &path).expect(0, &["99 passed, 0 failed"]);
}

#[test]
fn an_xlate_row_with_another_address_fails() {
    let mut vector = load("pbl_adapt_hop1_612");
    let row = &mut vector["xlate"][20];
    let right = number(&row["pa"]);
    row["pa"] = hex(right ^ 0x1000);
    let key = number(&row["key"]) as u32;
    let (va, wrong) = (number(&row["va"]), right ^ 0x1000);
    must_fail(
        &vector,
        &[
            "first difference: xlate[20] (region `",
            &format!("local_read key {key:#010x} va {va:#x} length 1"),
            &format!("expected: ok: pa {wrong:#x}, 1 byte"),
            &format!("got:      ok: pa {right:#x}, 1 bytes"),
            "read mpt hop 0 at 0x",
            "check bounds holds",
            "read mtr hop 0 at 0x",
            "486 passed, 1 failed",
        ],
    );
}

#[test]
fn an_xlate_row_with_another_pd_fails() {
    let mut vector = load("mw_dma");
    vector["xlate"][0]["pd"] = json!(1);
    must_fail(&vector, &["xlate[0]", "got:      status protection_domain, wire class local_protection_error"]);
}

/// Position of the first access check of that kind.
fn bad_row(vector: &Value, reason: &str, op: &str) -> usize {
    let rows = vector["bad"].as_array().unwrap();
    rows.iter().position(|row| row["reason"] == reason && row["op"] == op && row["len"] != 0).unwrap()
}

#[test]
fn a_bad_row_with_another_class_fails() {
    let mut vector = load("mix_00");
    let position = bad_row(&vector, "access", "remote_atomic");
    vector["bad"][position]["expect"] = json!("local_protection_error");
    must_fail(
        &vector,
        &[
            &format!("bad[{position}] (region `"),
            "expected: status access_right, wire class local_protection_error",
            "got:      status access_right, wire class remote_access_error",
            "check access_right FAILS",
        ],
    );
}

#[test]
fn a_bad_row_with_another_reason_of_the_same_class_fails() {
    let mut vector = load("mix_00");
    let position = bad_row(&vector, "bounds", "local_read");
    vector["bad"][position]["reason"] = json!("pd");
    must_fail(&vector, &["expected: status protection_domain", "got:      status bounds", "check bounds FAILS"]);
}

#[test]
fn a_bad_row_that_is_said_to_be_allowed_fails() {
    let mut vector = load("mix_00");
    let position = bad_row(&vector, "key", "local_read");
    vector["bad"][position]["reason"] = json!("ok");
    vector["bad"][position]["expect"] = json!("ok");
    must_fail(&vector, &[&format!("bad[{position}]"), "expected: ok: ", "got:      status entry_key"]);
}

#[test]
fn a_ctx_row_with_another_address_fails() {
    let mut vector = load("ctx_hop2");
    let right = number(&vector["ctx"][3]["pa"]);
    vector["ctx"][3]["pa"] = hex(right + 0x100);
    must_fail(
        &vector,
        &[
            "first difference: ctx[3]",
            "context lookup, table qpc object 16",
            &format!("expected: ok: address {:#x}, where 0xc0de000000000010 is stored", right + 0x100),
            &format!("got:      ok: address {right:#x}, where 0xc0de000000000010 is stored"),
            "read qpc hop 1",
        ],
    );
}

#[test]
fn a_context_entry_with_another_marker_fails() {
    let mut vector = load("ctx_hop2");
    let pa = number(&vector["ctx"][3]["pa"]);
    write_image(&mut vector, pa, 0xc0de_0000_0000_0011);
    must_fail(&vector, &["ctx[3]", "where 0xc0de000000000010 is stored", "where 0xc0de000000000011 is stored"]);
}

#[test]
fn an_expected_queue_page_with_another_address_fails() {
    let mut vector = load("mtr_qp_wqe");
    let row = &mut vector["mtrs"][2]["expect"][14];
    assert_eq!(row[0], 1, "the row is one of the second region");
    let right = number(&row[2]);
    row[2] = hex(right + 0x1000);
    must_fail(
        &vector,
        &[
            "first difference: mtrs[2] (`q3`).expect[14], region 1",
            "queue-buffer walk, root 0x",
            &format!("expected: ok: address {:#x}", right + 0x1000),
            &format!("got:      ok: address {right:#x}"),
            "read mtr hop 0",
            "128 passed, 1 failed",
        ],
    );
}

#[test]
fn a_queue_region_with_another_count_fails() {
    let mut vector = load("mtr_qp_wqe");
    // One page less in the first region, in another root entry: the roots of the others move.
    vector["mtrs"][2]["regions"][0]["count"] = json!(512);
    must_fail(&vector, &["mtrs[2] (`q3`).expect["]);
}

#[test]
fn a_leaf_with_another_address_fails_in_rows_and_pieces() {
    let mut vector = load("frmr_4k");
    let region = vector["mrs"].as_array().unwrap().iter().find(|region| region["name"] == "d").unwrap();
    let leaf = number(&region["mtr"]["root_ba"]) + 8 * 3;
    let page = number(&region["sg"][3][0]);
    assert_eq!(read_image(&vector, leaf), page);
    write_image(&mut vector, leaf, page + 0x4000);
    must_fail(
        &vector,
        &["(region `d`)", "checks failed", "pieces failed", &format!("at {leaf:#x}, 8 bytes: {:#x}", page + 0x4000)],
    );
}

#[test]
fn a_page_list_with_another_page_fails_in_pieces() {
    let mut vector = load("frmr_4k");
    let regions = vector["mrs"].as_array_mut().unwrap();
    let region = regions.iter_mut().find(|region| region["name"] == "d").unwrap();
    let page = number(&region["sg"][3][0]);
    region["sg"][3][0] = hex(page + 0x4000);
    must_fail(
        &vector,
        &[
            " of region `d`",
            &format!("pa {:#x}, 4096 bytes", page + 0x4000),
            &format!("pa {page:#x}, 4096 bytes"),
            "walk of the byte at va 0xdead00003000",
            "409 passed, ",
        ],
    );
}

#[test]
fn a_known_mismatch_with_another_address_fails() {
    let mut vector = load("rereg_hop_change");
    let row = &mut vector["known_mismatch"][0];
    assert_eq!(row["what"], "xlate");
    let right = number(&row["walker"]);
    row["walker"] = hex(right + 0x1000);
    must_fail(
        &vector,
        &[
            "first difference: xlate[0] (region `up`)",
            &format!("expected: ok: pa {:#x}", right + 0x1000),
            &format!("got:      ok: pa {right:#x}"),
        ],
    );
}

#[test]
fn a_known_mismatch_with_another_unmapped_table_fails() {
    let mut vector = load("rereg_hop_change");
    let rows = vector["known_mismatch"].as_array_mut().unwrap();
    let row = rows.iter_mut().find(|row| row["walker"] == "unmapped 0x900001b26000+8").unwrap();
    row["walker"] = json!("unmapped 0x900001b26008+8");
    must_fail(
        &vector,
        &[
            "(region `down`)",
            "expected: status mtr_bus_error, wire class local_operation_error: the table read at 0x900001b26008 fails",
            "got:      status mtr_bus_error, wire class local_operation_error, table mtr, hop 0",
        ],
    );
}

#[test]
fn a_known_mismatch_that_is_taken_away_fails() {
    let mut vector = load("hem_alias_bt12");
    let rows = vector["known_mismatch"].as_array_mut().unwrap();
    let position = rows.iter().position(|row| row["what"] == "bad").unwrap();
    rows.remove(position);
    must_fail(&vector, &["bad[0]", "expected: status bounds", "got:      status entry_key", "81 passed, 1 failed"]);
}

#[test]
fn a_known_mismatch_with_another_check_fails() {
    let mut vector = load("hem_alias_bt12");
    let rows = vector["known_mismatch"].as_array_mut().unwrap();
    let row = rows.iter_mut().find(|row| row["what"] == "check").unwrap();
    row["walker"] = json!("pd");
    must_fail(&vector, &["expected: status protection_domain", "got:      status entry_key"]);
}

#[test]
fn a_known_mismatch_with_another_address_behind_a_refusal_fails() {
    let mut vector = load("hem_alias_bt12");
    assert_eq!(vector["known_mismatch"][0]["walker"], "0x900000011010");
    vector["known_mismatch"][0]["walker"] = json!("0x900000012010");
    must_fail(&vector, &["xlate[0] (region `low`)", "expected: status entry_key", "the tables lead to 0x900000012010"]);
}

#[test]
fn a_row_that_its_known_mismatch_does_not_name_fails() {
    let mut vector = load("hem_alias_bt12");
    vector["xlate"][0]["pa"] = json!("0x900000000011");
    must_fail(&vector, &["xlate[0] (region `low`)", "expected: ok: pa 0x900000000011", "got:      status entry_key"]);
}

/// A direct buffer, which no vector has: all regions of hop 0, page after page.
fn direct_buffer() -> Value {
    let mut vector = load("mtr_user");
    vector["mtrs"] = json!([{
        "name": "direct", "root_ba": "0x123456780000", "is_direct": 1, "ba_pg_shift": 12, "buf_pg_shift": 16,
        "regions": [{"offset": 0, "count": 3, "hop": 0}, {"offset": 3, "count": 0, "hop": 0}, {"offset": 3, "count": 5, "hop": 0}],
        "expect": [[0, 0, "0x123456780000"], [0, 2, "0x1234567a0000"], [2, 0, "0x1234567b0000"], [2, 4, "0x1234567f0000"]],
    }]);
    vector
}

#[test]
fn a_direct_queue_buffer_passes_and_fails_when_it_should() {
    let mut vector = direct_buffer();
    let (_copy, path) = Copy::of(&vector);
    for design in ["--dut model", "--dut rtl"] {
        run_vectors(design, &path).expect(0, &["10 passed, 0 failed", "page indices beyond a queue buffer: 6 passed"]);
    }
    vector["mtrs"][0]["expect"][3][2] = json!("0x123456800000");
    must_fail(&vector, &["(`direct`).expect[3], region 2", "9 passed, 1 failed"]);
    vector["mtrs"][0]["expect"][3] = json!([2, 5, "0x123456800000"]);
    must_fail(&vector, &["got:      status mtr_index, table mtr, hop 0"]);
}

#[test]
fn only_the_first_difference_of_all_files_is_shown_in_full() {
    let directory = tempfile::TempDir::new().unwrap();
    for name in ["a.json", "b.json"] {
        let mut vector = load("mw_dma");
        vector["xlate"][0]["pa"] = json!("0x1");
        vector["name"] = json!(name);
        std::fs::write(directory.path().join(name), serde_json::to_vec(&vector).unwrap()).unwrap();
    }
    let outcome = run_vectors("--jobs 2", directory.path());
    outcome.expect(1, &["FAIL  a.json", "FAIL  b.json", "196 passed, 2 failed"]);
    assert_eq!(outcome.out.matches("first difference: xlate[0]").count(), 2);
    assert_eq!(outcome.out.matches("expected: ").count(), 1);
}

/// The region of the image that holds an address, and the offset in it.
fn place(vector: &Value, address: u64) -> (usize, u64) {
    let regions = vector["image"].as_array().unwrap();
    let holds = |region: &Value| {
        let offset = address.checked_sub(number(&region["addr"]));
        offset.filter(|offset| *offset < region["size"].as_u64().unwrap())
    };
    regions.iter().enumerate().find_map(|(position, region)| Some((position, holds(region)?))).unwrap()
}

/// The 8 bytes at an address of the image.
fn read_image(vector: &Value, address: u64) -> u64 {
    let (position, offset) = place(vector, address);
    let mut bytes = [0; 8];
    for piece in vector["image"][position]["data"].as_array().unwrap() {
        let digits = piece[1].as_str().unwrap();
        for (at, byte) in bytes.iter_mut().enumerate() {
            let within = (offset + at as u64).checked_sub(piece[0].as_u64().unwrap());
            if let Some(pair) = within.and_then(|within| digits.get(2 * within as usize..2 * within as usize + 2)) {
                *byte = u8::from_str_radix(pair, 16).unwrap();
            }
        }
    }
    u64::from_le_bytes(bytes)
}

/// Stores 8 bytes at an address of the image; later data overrides earlier.
fn write_image(vector: &mut Value, address: u64, value: u64) {
    let (position, offset) = place(vector, address);
    let digits: String = value.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    vector["image"][position]["data"].as_array_mut().unwrap().push(json!([offset, digits]));
}
