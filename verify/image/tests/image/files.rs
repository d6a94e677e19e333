//! Descriptions as files: JSON and TOML, forms of numbers and rights, and what is refused.

use keywalk_contract::{Right, Table};
use keywalk_image::{Description, PageList, RegionKind, Rights};

const TOML: &str = r#"
seed = "0xffff_ffff_ffff_ffff"

[[table_sets]]
page_shift_base = 13

[[table_sets.tables]]
table = "mpt"
hop = 3
bt_num = 12

[[table_sets.tables]]
table = "qpc"
hop = 1
entry_bytes = 512
bt_num = 256

[[table_sets.regions]]
name = "by name"
length_bytes = "0x1_0000_0000"
va = "0xffffffff00000000"
page_bytes = 8192
rights = ["remote_read", "local_write", "local_read"]
pages = { layout = "scattered", run_pages = 4 }

[[table_sets.regions]]
name = "by number"
kind = "frmr"
length_bytes = 4096
page_bytes = 8192
rights = 0x1c
variant = 7
index = 77
pages = { layout = "explicit", addresses = ["0x1000"] }

[[table_sets.regions]]
kind = "dma_mr"
page_bytes = 8192

[[table_sets.objects]]
table = "qpc"
index = 3

[[table_sets.queue_buffers]]
name = "q"
page_bytes = 16384
regions = [{ count = 3, hop = 1, pages = { layout = "contiguous", first = 65536 } }, { count = 0, hop = 2 }]
"#;

fn parsed() -> Description {
    toml::from_str(TOML).unwrap()
}

#[test]
fn a_toml_file_is_read_and_built() {
    let description = parsed();
    assert_eq!(description.seed, u64::MAX);
    assert_eq!(description.address_bits, 52);
    let set = &description.table_sets[0];
    assert_eq!((set.num_mpts_log2, set.page_shift_base), (24, 13));
    assert_eq!((set.tables[0].table, set.tables[0].entry_bytes), (Table::Mpt, 64));
    assert_eq!(set.regions[0].va, 0xffff_ffff_0000_0000);
    assert_eq!(set.regions[0].length_bytes, 1 << 32);
    assert_eq!(set.regions[0].pages, PageList::Scattered { seed: 0, run_pages: 4 });
    assert_eq!(set.regions[0].rights.number(), 0b111);
    assert_eq!(set.regions[1].kind, RegionKind::Frmr);
    for right in Right::ALL {
        let expected = matches!(right, Right::LocalRead | Right::RemoteRead | Right::RemoteWrite | Right::Atomic);
        assert_eq!(set.regions[1].rights.contains(right), expected, "{}", right.name());
    }
    let image = description.build().unwrap();
    assert_eq!(image.table_sets[0].regions[1].key, 77 << 8 | 7);
    assert_eq!(image.memory.read_u64(image.table_sets[0].objects[0].address), Ok(0xc0de_0000_0000_0003));
}

#[test]
fn descriptions_survive_both_formats() {
    let description = parsed();
    let json = serde_json::to_string(&description).unwrap();
    assert_eq!(serde_json::from_str::<Description>(&json).unwrap(), description);
    let text = toml::to_string(&description).unwrap();
    assert_eq!(toml::from_str::<Description>(&text).unwrap(), description);
}

#[test]
fn what_is_misspelt_is_named() {
    let error = |text: &str| serde_json::from_str::<Description>(text).unwrap_err().to_string();
    let region = |text: &str| error(&format!(r#"{{"table_sets": [{{"regions": [{{{text}}}]}}]}}"#));
    for (message, expected) in [
        (error(r#"{"sead": 1}"#), "unknown field `sead`"),
        (region(r#""lenght": 1"#), "unknown field `lenght`"),
        (region(r#""va": -1"#), "expected a number from 0 to 2^64 - 1"),
        (region(r#""va": "0x1_0000_0000_0000_0000""#), "expected a number from 0 to 2^64 - 1"),
        (region(r#""va": "ten""#), "expected a number from 0 to 2^64 - 1"),
        (region(r#""va": "+1""#), "expected a number from 0 to 2^64 - 1"),
        (region(r#""va": "0x+1""#), "expected a number from 0 to 2^64 - 1"),
        (region(r#""rights": 64"#), "or a number from 0 to 63"),
        (region(r#""rights": -1"#), "or a number from 0 to 63"),
        (region(r#""rights": ["remote_raed"]"#), "invalid value: string \"remote_raed\", expected a list of rights"),
        (region(r#""kind": "mrr""#), "unknown variant `mrr`"),
        (region(r#""pages": {"layout": "spiral"}"#), "unknown variant `spiral`"),
        (
            error(r#"{"table_sets": [{"tables": [{"table": "mtt", "hop": 0, "bt_num": 1}]}]}"#),
            "`mtt` is no context table; there are qpc, mpt, cqc, srqc, sccc, qpc_timer, cqc_timer",
        ),
    ] {
        assert!(message.contains(expected), "`{message}` does not contain `{expected}`");
    }
}

#[test]
fn rights_are_a_set_of_six_bits() {
    assert_eq!(Rights::from_number(64), None);
    assert_eq!(Rights::from_number(63), Some(Rights::ALL));
    for right in Right::ALL {
        assert_eq!(Rights::NONE.with(right).number(), 1 << right as u8);
        assert!(Rights::ALL.contains(right));
    }
    assert!(Rights::NONE.contains(Right::LocalRead));
    assert!(!Rights::NONE.contains(Right::Bind));
}
