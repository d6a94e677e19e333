//! Files that are no vectors are refused with exit status 2 and a message that says where and what; nothing panics.

use crate::support::{Copy, load, run_vectors, vectors};
use serde_json::{Value, json};

/// Runs bytes under a name and requires the texts.
#[track_caller]
fn must_refuse_bytes(name: &str, bytes: &[u8], texts: &[&str]) {
    let (_copy, path) = Copy::of_bytes(name, bytes);
    let outcome = run_vectors("", &path);
    outcome.expect(2, texts).expect(2, &[name, "keywalk-verify: "]);
    assert!(!outcome.err.contains("panicked"), "{}", outcome.err);
    assert_eq!(outcome.out, "", "nothing is run");
}

/// Changes a small vector and requires the texts.
#[track_caller]
fn must_refuse(change: impl FnOnce(&mut Value), texts: &[&str]) {
    let mut vector = load("mw_dma");
    change(&mut vector);
    must_refuse_bytes("copy.json", &serde_json::to_vec(&vector).unwrap(), texts);
}

#[test]
fn damaged_files() {
    let compressed = std::fs::read(vectors().join("pbl_adapt_hop3_1g.json.gz")).unwrap();
    must_refuse_bytes("cut.json.gz", &compressed[..compressed.len() / 2], &["cannot be read: "]);
    let mut flipped = compressed.clone();
    flipped[compressed.len() / 2] ^= 0xff;
    must_refuse_bytes("flipped.json.gz", &flipped, &["flipped.json.gz: "]);
    must_refuse_bytes("empty.json", b"", &["EOF while parsing", "line 1 column 0"]);
    must_refuse_bytes("text.json", b"hello", &["expected value at line 1 column 1"]);
    must_refuse_bytes("binary.json", &[0xff, 0xfe, 0, 1], &["line 1 column 1"]);
    must_refuse_bytes("deep.json", &b"[".repeat(100_000), &["line 1"]);
    let deep = format!("{{\"log\": {}}}", "[".repeat(100_000));
    must_refuse_bytes("deeper.json", deep.as_bytes(), &["log: expected value at line 1 column"]);
    let whole = std::fs::read(vectors().join("mw_dma.json")).unwrap();
    must_refuse_bytes("cut.json", &whole[..whole.len() - 100], &["EOF while parsing"]);
    let twice = [&whole[..], b" {}"].concat();
    must_refuse_bytes("twice.json", &twice, &["end of file: trailing characters"]);
}

#[test]
fn a_file_that_unpacks_without_end() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..257 {
        std::io::Write::write_all(&mut encoder, &chunk).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    must_refuse_bytes("bomb.json.gz", &bomb, &["larger than 268435456 bytes decompressed"]);
}

#[test]
fn wrong_types() {
    must_refuse(|vector| vector["xlate"][2]["va"] = json!(5), &["xlate[2].va: invalid type: integer `5`"]);
    must_refuse(|vector| vector["xlate"][2]["pd"] = json!("0x5"), &["xlate[2].pd: invalid type: string \"0x5\""]);
    must_refuse(|vector| vector["bad"][1]["len"] = json!(-1), &["bad[1].len: invalid value: integer `-1`"]);
    must_refuse(|vector| vector["bad"][1]["len"] = json!(1.5), &["bad[1].len: invalid type: floating point `1.5`"]);
    must_refuse(
        |vector| vector["bad"][1]["op"] = json!("erase"),
        &["bad[1].op: `erase` is no operation", "local_read"],
    );
    must_refuse(|vector| vector["bad"][1]["reason"] = json!("x"), &["bad[1].reason: unknown variant `x`", "no_mpt"]);
    must_refuse(|vector| vector["mrs"] = json!({}), &["mrs: invalid type: map, expected a sequence"]);
    must_refuse(|vector| vector["mrs"][0]["kind"] = json!("x"), &["mrs[0].kind: unknown variant `x`"]);
    must_refuse(|vector| vector["mrs"][5]["sg"] = json!("x"), &["mrs[5].sg: invalid type: string \"x\""]);
    must_refuse(|vector| vector["hem"]["mpt"]["bt0"] = json!({"x": "0x0"}), &["hem.mpt.bt0", "a slot number"]);
    must_refuse(|vector| vector["image"][0]["data"] = json!([[0]]), &["image[0].data[0]"]);
    let mismatch = json!([{"what": "else", "entry": {}, "walker": "0x0"}]);
    must_refuse(|vector| vector["known_mismatch"] = mismatch, &["known_mismatch[0]", "unknown variant `else`"]);
    let mismatch = json!([{"what": "xlate", "entry": load("mw_dma")["xlate"][0], "walker": "unmapped"}]);
    must_refuse(|vector| vector["known_mismatch"] = mismatch, &["known_mismatch[0]", "unmapped 0x..+8"]);
}

#[test]
fn missing_and_doubled_keys() {
    must_refuse(|vector| drop(vector.as_object_mut().unwrap().remove("xlate")), &["missing field `xlate`"]);
    let remove = |vector: &mut Value, position: usize, field: &str| {
        vector["mrs"][position].as_object_mut().unwrap().remove(field);
    };
    must_refuse(|vector| remove(vector, 5, "sg_offset"), &["mrs[5].sg_offset: missing, but the region is live"]);
    must_refuse(|vector| remove(vector, 2, "key"), &["mrs[2].key: missing, but the region is live"]);
    must_refuse(
        |vector| vector["mrs"][3]["key"] = vector["mrs"][2]["key"].clone(),
        &["mrs[3].key: 0x00000300 is the key of mrs[2] as well, and both are live"],
    );
    let text = std::fs::read_to_string(vectors().join("mw_dma.json")).unwrap();
    let doubled = text.replacen("\"xlate\":", "\"xlate\": [], \"xlate\":", 1);
    must_refuse_bytes("doubled.json", doubled.as_bytes(), &["duplicate field `xlate`"]);
    let slots = r#"{"0": "0x1000", "00": "0x2000"}"#;
    let mut vector = load("mw_dma");
    vector["hem"]["mpt"]["bt0"] = json!("SLOTS");
    let doubled = serde_json::to_string(&vector).unwrap().replace("\"SLOTS\"", slots);
    must_refuse_bytes("slots.json", doubled.as_bytes(), &["hem.mpt.bt0: slot 0 is there twice"]);
}

#[test]
fn huge_and_illegal_numbers() {
    let huge = "0x1ffffffffffffffff";
    must_refuse(|vector| vector["xlate"][0]["pa"] = json!(huge), &["xlate[0].pa", "at most 64 bits"]);
    must_refuse(|vector| vector["xlate"][0]["key"] = json!("0x100000000"), &["xlate[0].key", "at most 32 bits"]);
    must_refuse(|vector| vector["xlate"][0]["pd"] = json!(1 << 24), &["xlate[0].pd: 16777216 has more than 24 bits"]);
    must_refuse(|vector| vector["bad"][0]["len"] = json!(1_u64 << 32), &["bad[0].len: invalid value"]);
    must_refuse(|vector| vector["caps"]["num_mtpts"] = json!(1_u64 << 25), &["caps.num_mtpts: 33554432", "2^24"]);
    must_refuse(|vector| vector["caps"]["num_mtpts"] = json!(0), &["caps.num_mtpts: 0"]);
    must_refuse(|vector| vector["hem"]["mpt"]["hop"] = json!(4), &["hem.mpt.hop: 4, legal is 0 to 3"]);
    must_refuse(|vector| vector["hem"]["qpc"]["entry_size"] = json!(48), &["hem.qpc.entry_size: 48, legal is a power"]);
    must_refuse(|vector| vector["hem"]["mpt"]["entry_size"] = json!(128), &["hem.mpt.entry_size: 128, legal is 64"]);
    must_refuse(|vector| vector["hem"]["mpt"]["bt_num"] = json!(0), &["hem.mpt.bt_num: 0, legal is 1 to 1024"]);
    must_refuse(|vector| vector["hem"]["mpt"]["bt0"] = json!({"64": "0x0"}), &["slot 64, but bt_num is 64"]);
    must_refuse(|vector| vector["image"][0]["size"] = json!(u64::MAX), &["image[0].size: 18446744073709551615"]);
    must_refuse(|vector| vector["image"][0]["addr"] = json!("0x1001"), &["image[0].addr: 0x1001 is no multiple"]);
    must_refuse(|vector| vector["image"][0]["data"] = json!([[u64::MAX, "00"]]), &["image[0].data[0]: bytes from"]);
    must_refuse(|vector| vector["image"][0]["data"] = json!([[0, "0ä"]]), &["image[0].data[0]: no string of pairs"]);
    let end = json!("0xfffffffffffff000");
    must_refuse(|vector| vector["image"][0] = json!({"addr": end, "size": 8192, "data": []}), &["ends beyond 2^64"]);
    must_refuse(|vector| vector["mrs"][5]["len"] = json!(u64::MAX), &["mrs[5].len", "the region ends beyond 2^64"]);
    must_refuse(
        |vector| vector["mrs"][5]["len"] = json!(1_u64 << 40),
        &["mrs[5].sg: holds", "bytes, but sg_offset + len"],
    );
    must_refuse(|vector| vector["mrs"][5]["mtr"]["buf_pg_shift"] = json!(70), &["mrs[5].mtr.buf_pg_shift: 70"]);
    must_refuse(|vector| vector["mrs"][5]["sg"] = json!([[end, 8192]]), &["mrs[5].sg: run of 8192 bytes"]);
    let scattered =
        json!({"base": "0x0", "count": "0x0", "size": "0x1000", "stride": "0x1", "mult": "0x1", "add": "0x0"});
    must_refuse(|vector| vector["mrs"][5]["sg"] = scattered, &["mrs[5].sg: count and size must not be 0"]);
}

#[test]
fn illegal_queue_buffers() {
    let buffer = |field: &str, value: Value| {
        let mut vector = load("mtr_user");
        vector["mtrs"][0][field] = value;
        serde_json::to_vec(&vector).unwrap()
    };
    let refuse = |field: &str, value: Value, text: &str| must_refuse_bytes("copy.json", &buffer(field, value), &[text]);
    refuse("buf_pg_shift", json!(11), "mtrs[0].buf_pg_shift: 11 is no page shift, legal is 12 to 27");
    refuse("is_direct", json!(2), "mtrs[0].is_direct: 2, legal is 0 or 1");
    refuse("is_direct", json!(1), "mtrs[0].regions[0].hop: 1, but is_direct is 1");
    refuse("regions", json!([{"offset": 0, "count": 1, "hop": 4}]), "mtrs[0].regions[0].hop: 4, legal is 0 to 3");
    refuse("regions", json!([]), "mtrs[0].expect[0]: region 0, but there are 0");
    let many = json!([{"offset": 0, "count": u32::MAX, "hop": 1}, {"offset": 0, "count": 1, "hop": 1}]);
    let mut vector = load("mtr_user");
    vector["mtrs"][0]["regions"] = many;
    vector["mtrs"][0]["expect"] = json!([]);
    vector["mtrs"][0]["root_ba"] = json!("0xfffffffffffff000");
    must_refuse_bytes("copy.json", &serde_json::to_vec(&vector).unwrap(), &["regions[1].offset", "beyond 2^64"]);
}

#[test]
fn another_format() {
    must_refuse(|vector| vector["format"] = json!("hns-v3-vector/1"), &["format: `hns-v3-vector/1`, legal is `hns-v2"]);
}

/// A region of 2^63 bytes takes no longer than others: it is sampled.
#[test]
fn a_huge_region_is_sampled() {
    let mut vector = load("mw_dma");
    vector["mrs"][5]["len"] = json!(1_u64 << 62);
    vector["mrs"][5]["sg"] = json!({
        "base": "0x0", "count": "0x10000000000000", "size": "0x1000", "stride": "0x1000", "mult": "0x1", "add": "0x0"
    });
    let (_copy, path) = Copy::of(&vector);
    // The entry in the image is as short as before: what lies beyond it is refused.
    run_vectors("", &path).expect(1, &["a sample of region `m`", "got:      status bounds", "\n99 passed, "]);
}
