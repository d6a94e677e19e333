//! Configuration files and presets: what is legal is read as written, what is not is refused with field, value, range
//! and line.

use expect_test::{Expect, expect};
use keywalk_contract::Config;
use keywalk_contract::config::ConfigField;
use keywalk_gen::config_file::{Format, check_name, legal, load, parse};
use keywalk_gen::{GenerateError, generate, presets};
use std::path::Path;

/// Checks the refusal of a text.
fn check(text: &str, format: Format, expected: Expect) {
    match parse(text, format) {
        Ok(config) => panic!("{text:?} is accepted as {config:?}"),
        Err(message) => expected.assert_eq(&message),
    }
}

/// Values just outside of what is legal for a field.
fn illegal_values(field: &ConfigField) -> Vec<u64> {
    let (min, max) = (u64::from(field.min), u64::from(field.max));
    let mut values = vec![min - 1, max + 1, u64::from(u32::MAX) + 1];
    if field.power_of_two {
        values.extend([max * 2, max - 1]);
        values.extend((min..max).find(|value| !value.is_power_of_two()));
    }
    values
}

#[test]
fn every_illegal_number_is_refused_with_field_value_and_range() {
    for field in Config::FIELDS {
        for value in illegal_values(field) {
            let expected = format!("configuration field `{}` is {value}, legal is {}", field.name, legal(field));
            let name = field.name;
            let toml = parse(&format!("# comment\n\n{name} = {value}\n"), Format::Toml).unwrap_err();
            assert!(toml.contains(&expected) && toml.contains("line 3"), "{toml}");
            let json = parse(&format!("{{\n\"{name}\": {value}\n}}"), Format::Json).unwrap_err();
            assert!(json.contains(&expected) && json.contains("line 2"), "{json}");
        }
    }
}

#[test]
fn every_wrong_type_is_refused_with_field_value_and_range() {
    for field in Config::FIELDS {
        for (text, value) in [("-4", "-4"), ("4.5", "4.5"), ("true", "true"), ("\"4\"", "\"4\""), ("[4]", "a list")] {
            let expected = format!("configuration field `{}` is {value}, legal is {}", field.name, legal(field));
            let toml = parse(&format!("{} = {text}", field.name), Format::Toml).unwrap_err();
            assert!(toml.contains(&expected), "{toml}");
            let json = parse(&format!("{{\"{}\": {text}}}", field.name), Format::Json).unwrap_err();
            assert!(json.contains(&expected), "{json}");
        }
    }
}

#[test]
fn every_legal_number_is_read() {
    for field in Config::FIELDS {
        for value in [field.min, field.max] {
            let toml = parse(&format!("{} = {value}", field.name), Format::Toml).unwrap();
            let json = parse(&format!("{{\"{}\": {value}}}", field.name), Format::Json).unwrap();
            assert_eq!((field.get)(&toml), value);
            assert_eq!(toml, json);
            for other in Config::FIELDS.iter().filter(|other| other.name != field.name) {
                assert_eq!((other.get)(&toml), other.default, "{} changes {}", field.name, other.name);
            }
        }
    }
}

#[test]
fn text_and_switch_are_read() {
    let config = parse("name = \"my-engine_2.0\"\ndone_tracking = false\nin_order = true", Format::Toml).unwrap();
    assert_eq!((config.name.as_str(), config.done_tracking, config.in_order), ("my-engine_2.0", false, true));
    assert_eq!(parse("", Format::Toml).unwrap(), Config::default());
    assert_eq!(parse("{}", Format::Json).unwrap(), Config::default());
}

#[test]
fn refusals_in_full() {
    check(
        "name = \"x\"\ntlb_ways = 3",
        Format::Toml,
        expect![[r#"
            TOML parse error at line 2, column 12
              |
            2 | tlb_ways = 3
              |            ^
            configuration field `tlb_ways` is 3, legal is a power of two in 1..=8"#]],
    );
    check(
        "{\"tag_bits\": null}",
        Format::Json,
        expect!["configuration field `tag_bits` is null, legal is 1..=16 at line 1 column 17"],
    );
    check(
        "{\"tag_bits\": {}}",
        Format::Json,
        expect!["configuration field `tag_bits` is a table, legal is 1..=16 at line 1 column 15"],
    );
    check(
        "done_tracking = 1",
        Format::Toml,
        expect![[r#"
            TOML parse error at line 1, column 17
              |
            1 | done_tracking = 1
              |                 ^
            configuration field `done_tracking` is 1, legal is true or false"#]],
    );
    check(
        "{\"name\": \"a\\nb\"}",
        Format::Json,
        expect![[
            r#"configuration field `name` is "a\nb", legal is 1 to 64 letters, digits, `_`, `-` or `.` at line 1 column 15"#
        ]],
    );
    check(
        "{\"tlb_way\": 4}",
        Format::Json,
        expect![[
            r#"unknown configuration field "tlb_way", legal are name, table_sets, tag_bits, function_bits, mpt_sets, mpt_ways, tlb_sets, tlb_ways, hem_cache_sets, hem_cache_ways, mtr_lower_sets, mtr_lower_ways, mtr_upper_sets, mtr_upper_ways, epoch_buckets, done_buckets, hem_contexts, walk_contexts, reads_in_flight, table_data_bits, split_contexts, split_pages, response_depth, fault_depth, bt0_slots, mover_data_bits, mover_burst_beats, mover_reads_in_flight, mover_writes_in_flight, mover_read_beats, mover_atomics_in_flight, done_tracking, in_order, command_unit at line 1 column 10"#
        ]],
    );
    check(
        "{\"tag_bits\": 4,\n\"tag_bits\": 5}",
        Format::Json,
        expect!["configuration field `tag_bits` is given twice at line 2 column 14"],
    );
    check(
        "[1]",
        Format::Json,
        expect!["invalid type: sequence, expected a table of configuration fields at line 1 column 0"],
    );
    check("{\"tag_bits\": 4", Format::Json, expect!["EOF while parsing an object at line 1 column 14"]);
    check("{} x", Format::Json, expect!["trailing characters at line 1 column 4"]);
    check(
        "tag_bits = ",
        Format::Toml,
        expect![[r#"
            TOML parse error at line 1, column 12
              |
            1 | tag_bits = 
              |            ^
            string values must be quoted, expected literal string"#]],
    );
}

#[test]
fn names_that_cannot_stand_in_a_comment_are_refused() {
    for name in ["a", "A.b-c_9", &"x".repeat(64)] {
        check_name(name).unwrap();
    }
    for name in ["", "a b", "a\nb", "a*/b", "ä", &"x".repeat(65)] {
        let message = check_name(name).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("configuration field `name` is {name:?}, legal is 1 to 64 ")),
            "{message}"
        );
        let config = Config { name: name.to_owned(), ..Config::default() };
        assert!(matches!(generate(&config), Err(GenerateError::Name(_))), "{name:?}");
    }
}

#[test]
fn files_are_told_apart_by_their_extension() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    assert_eq!(load(&write("a.toml", b"tlb_ways = 2")).unwrap().tlb_ways, 2);
    assert_eq!(load(&write("a.json", b"{\"tlb_ways\": 2}")).unwrap().tlb_ways, 2);
    let refusal = |path: &Path| load(path).unwrap_err().to_string();
    for name in ["a.yaml", "a"] {
        assert!(refusal(&write(name, b"")).contains("unknown extension, legal are `.toml` and `.json`"), "{name}");
    }
    assert!(refusal(&write("b.toml", b"\xff")).contains("is not text in UTF-8"));
    assert!(refusal(&folder.path().join("none.toml")).starts_with("cannot read configuration file"));
}

/// The fields in which a configuration differs from the default.
fn differences(config: &Config) -> Vec<&'static str> {
    let default = Config::default();
    let numbers = Config::FIELDS.iter().filter(|field| (field.get)(config) != (field.get)(&default));
    numbers.map(|field| field.name).collect()
}

#[test]
fn presets_are_legal_and_differ_from_the_default_as_intended() {
    for preset in presets::PRESETS {
        let config = parse(preset.text, Format::Toml).unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        assert_eq!(config.name, preset.name);
        assert_eq!(config, preset.config());
        let is_card = ["card", "small_card"].contains(&preset.name);
        assert_eq!((config.done_tracking, config.in_order, config.command_unit), (true, is_card, is_card));
        assert!(preset.text.starts_with("# ") && preset.doc().ends_with('.'), "{}", preset.doc());
    }
    let config = |name| presets::find(name).unwrap().config();
    assert!(presets::find("none").is_none());
    assert_eq!(config("default"), Config::default());
    assert_eq!(differences(&config("narrow")), ["table_data_bits"]);
    assert_eq!(config("narrow").table_data_bits, 256);
    assert!(differences(&config("card")).is_empty());
    let (small, default, large) = (config("small"), Config::default(), config("large"));
    let is_size = |field: &&ConfigField| !["tag_bits", "function_bits", "table_sets"].contains(&field.name);
    for field in Config::FIELDS.iter().filter(is_size) {
        assert!((field.get)(&small) < (field.get)(&default), "{} of small", field.name);
        assert!((field.get)(&large) >= (field.get)(&default), "{} of large", field.name);
    }
    assert_eq!((small.table_sets, default.table_sets, large.table_sets), (2, 1, 8));
    assert_eq!(large.reads_in_flight, 256);
    // The vectors reach slot 255.
    assert!(small.bt0_slots >= 256);
}

#[test]
fn the_default_preset_names_every_field() {
    let text = presets::find("default").unwrap().text;
    let is_given = |name: &str| text.lines().any(|line| line.starts_with(&format!("{name} = ")));
    let switches = Config::SWITCHES.iter().map(|switch| switch.name);
    for name in Config::FIELDS.iter().map(|field| field.name).chain(switches).chain(["name"]) {
        assert!(is_given(name), "{name}");
    }
}
