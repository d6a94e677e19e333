//! The register map as text: small parts as snapshots, the whole by the compilers.

use expect_test::{Expect, expect};
use keywalk_contract::{
    CommandStatus, Config, MoverStatus, Status, WorkOpcode, WorkStatus, command, ports, probe, regs, work,
};
use keywalk_gen::register_map;
use std::collections::BTreeSet;
use std::process::Command;

fn check(text: &str, expected: Expect) {
    expected.assert_eq(text);
}

/// Runs a compiler on files, the last of which is its argument, and fails with what it says.
fn compile(files: &[(&str, &str)], compiler: &str, arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    for (file, text) in files {
        std::fs::write(directory.path().join(file), text).unwrap();
    }
    let (source, _) = files.last().unwrap();
    let output = Command::new(compiler).args(arguments).arg(source).current_dir(directory.path()).output();
    let output = output.unwrap_or_else(|error| panic!("`{compiler}` cannot be run: {error}"));
    assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Lines of the text that contain a word, trimmed.
fn lines_with<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines().map(str::trim).filter(|line| line.contains(word)).collect()
}

#[test]
fn a_register_with_fields() {
    check(
        &register_map::register_markdown(&regs::version::REGISTER),
        expect![[r#"
        ### `version`

        Offset 0x004, read, reset 0x00000002. Version of the register map.

        | Bits | Field | Reset | Meaning |
        | --- | --- | --- | --- |
        | 15:0 | `minor` | 0x2 | Rises with every compatible change. |
        | 31:16 | `major` | 0x0 | Rises with every incompatible change. |
    "#]],
    );
}

#[test]
fn a_register_without_fields() {
    check(
        &register_map::register_markdown(&regs::table_commit::REGISTER),
        expect![[r#"
            ### `table_commit`

            Offset 0x02c, write, reset 0x00000000. Writing any value applies `table_geometry` and `table_object_count` to the selected table. Refused with SLVERR, and nothing changes, where table or table set do not exist, bt_num is not 1 to 1024, or entry_bytes_log2 is not legal for the table.
        "#]],
    );
}

#[test]
fn a_stream_port() {
    let done = ports::STREAMS.iter().find(|port| port.core_name == "done").unwrap();
    check(
        &register_map::stream_markdown(done),
        expect![[r#"
            ### `s_axis_done`

            All DMA of one response has completed. Every response is reported exactly once, an error too, at the earliest in the
             cycle after its last beat. Reports are matched with responses by tag and function, as far as responses whose DMA is
             outstanding have different ones; a report that matches nothing is ignored and counted. 24 bits of TDATA, to the engine.

            | Bits | Field | Width | Meaning |
            | --- | --- | --- | --- |
            | 15:0 | `tag` | 16 | The response's tag. |
            | 23:16 | `function` | 8 | The response's function. |
        "#]],
    );
}

#[test]
fn the_codes() {
    check(
        &register_map::codes_markdown(),
        expect![[r#"
        ## Operations

        | Code | Operation | Side | Right in the MPT entry |
        | --- | --- | --- | --- |
        | 0 | `local_read` | local | none |
        | 1 | `local_write` | local | `lw_en` |
        | 2 | `remote_read` | remote | `rr_en` |
        | 3 | `remote_write` | remote | `rw_en` |
        | 4 | `remote_atomic` | remote | `atomic_en` |
        | 5 | `bind` | local | `bind_en` |

        ## Tables

        | Code | Table |
        | --- | --- |
        | 0 | `qpc` |
        | 1 | `mpt` |
        | 2 | `cqc` |
        | 3 | `srqc` |
        | 4 | `sccc` |
        | 5 | `qpc_timer` |
        | 6 | `cqc_timer` |
        | 7 | page table, in responses and events only |

        ## Scopes of an invalidation

        | Code | Scope |
        | --- | --- |
        | 0 | `region` |
        | 1 | `range` |
        | 2 | `protection_domain` |
        | 3 | `function` |
        | 4 | `all` |
    "#]],
    );
}

#[test]
fn a_register_and_a_counter_in_c() {
    let header = register_map::c_header();
    let lines = [lines_with(&header, "REGISTER_BT0_COMMIT"), lines_with(&header, "COUNTER_FAULTS")].concat();
    check(
        &lines.join("\n"),
        expect![[r#"
        #define KEYWALK_REGISTER_BT0_COMMIT_OFFSET 0x038u /* Byte offset. */
        #define KEYWALK_REGISTER_BT0_COMMIT_RESET 0x00000000u /* Value after reset. */
        #define KEYWALK_REGISTER_BT0_COMMIT_SLOT_MASK 0x000003ffu /* Slot, below bt_num. */
        #define KEYWALK_REGISTER_BT0_COMMIT_SLOT_SHIFT 0u
        #define KEYWALK_REGISTER_BT0_COMMIT_VALID_MASK 0x00010000u /* 1: the slot takes the staged base. 0: the slot becomes unset. */
        #define KEYWALK_REGISTER_BT0_COMMIT_VALID_SHIFT 16u
        #define KEYWALK_COUNTER_FAULTS_OFFSET 0x260u /* Events sent on the fault port. */
        #define KEYWALK_COUNTER_FAULTS_LOST_OFFSET 0x268u /* Events dropped. */"#]],
    );
}

#[test]
fn a_group_in_rust() {
    let text = register_map::rust_constants();
    let start = text.find("/// Wire classes.").unwrap();
    let length = text[start..].find("}\n").unwrap();
    check(
        &text[start..start + length + 2],
        expect![[r#"
        /// Wire classes.
        pub mod wire_class {
            /// `ok`.
            pub const OK: u32 = 0;
            /// `invalid_request`.
            pub const INVALID_REQUEST: u32 = 1;
            /// `remote_access_error`.
            pub const REMOTE_ACCESS_ERROR: u32 = 2;
            /// `local_protection_error`.
            pub const LOCAL_PROTECTION_ERROR: u32 = 3;
            /// `remote_operational_error`.
            pub const REMOTE_OPERATIONAL_ERROR: u32 = 4;
            /// `local_operation_error`.
            pub const LOCAL_OPERATION_ERROR: u32 = 5;
            /// `retry`.
            pub const RETRY: u32 = 6;
        }
    "#]],
    );
}

#[test]
fn the_document_names_every_register_field_counter_status_port_and_configuration_field() {
    let document = register_map::markdown();
    for register in regs::REGISTERS {
        assert!(document.contains(&format!("\n### `{}`\n", register.name)), "{}", register.name);
        let section = register_map::register_markdown(register);
        assert!(document.contains(&section), "{}", register.name);
        for field in register.fields {
            assert!(section.contains(&format!("| `{}` |", field.name)), "{}.{}", register.name, field.name);
        }
    }
    for counter in regs::COUNTERS {
        let row = format!("| {:#05x} | {:#05x} | `{}` |", counter.offset, counter.offset + 4, counter.name);
        assert_eq!(document.matches(&row).count(), 1, "{}", counter.name);
    }
    for array in regs::ARRAYS {
        assert!(document.contains(&format!("\n### Counters `{}`\n", array.name)), "{}", array.name);
        for (number, element) in (0..array.count).filter_map(|number| Some((number, array.element?(number)))) {
            let offset = array.offset_of(number);
            let row = format!("| {offset:#05x} | {:#05x} | `{element}` | {number} |", offset + 4);
            assert_eq!(document.matches(&row).count(), 1, "{element}");
        }
    }
    for status in Status::ALL {
        let local = status.severity().wire_class(false).name();
        let remote = status.severity().wire_class(true).name();
        let row = format!("\n| {} | `{}` | `{local}` | `{remote}` |", status.code(), status.name());
        assert_eq!(document.matches(&row).count(), 1, "{}", status.name());
    }
    for port in &ports::STREAMS {
        assert!(document.contains(&register_map::stream_markdown(port)), "{}", port.axi_name);
    }
    let serde_json::Value::Object(fields) = serde_json::to_value(Config::default()).unwrap() else {
        panic!("a configuration is a map");
    };
    for name in fields.keys() {
        assert_eq!(document.matches(&format!("\n| `{name}` | ")).count(), 1, "{name}");
    }
}

#[test]
fn the_document_names_every_command_work_request_and_outcome() {
    let document = register_map::markdown();
    for register in &command::REGISTERS {
        assert!(document.contains(&register_map::register_markdown(register)), "{}", register.name);
    }
    for layout in command::LAYOUTS.iter().chain(&work::LAYOUTS) {
        let section = register_map::layout_markdown(layout);
        assert!(document.contains(&section), "{}", layout.name);
        for field in layout.fields {
            assert!(section.contains(&format!("| `{}` | {} |", field.name, field.doc)), "{}", field.name);
        }
    }
    for port in &work::STREAMS {
        assert!(document.contains(&register_map::stream_markdown(port)), "{}", port.axi_name);
    }
    let mut rows: Vec<String> = Vec::new();
    rows.extend(
        command::MAILBOX_COMMANDS.iter().map(|command| format!("\n| {:#04x} | `{}` |", command.code, command.name)),
    );
    rows.extend(
        CommandStatus::ALL
            .iter()
            .map(|status| format!("\n| `{}` | {} | {}", status.name(), status.code(), status.doc().trim())),
    );
    rows.extend(
        WorkStatus::ALL
            .iter()
            .map(|status| format!("\n| `{}` | {} | {}", status.name(), status.code(), status.doc().trim())),
    );
    rows.extend(WorkOpcode::ALL.iter().map(|opcode| format!("\n| {:#04x} | `{}` |", *opcode as u8, opcode.name())));
    for row in rows {
        assert_eq!(document.matches(&row).count(), 1, "{row}");
    }
}

#[test]
fn every_register_of_the_probe_has_a_section_and_constants() {
    let (document, header) = (register_map::markdown(), register_map::c_header());
    for register in probe::REGISTERS {
        let title = format!("### `{}`", register.name);
        assert_eq!(lines_with(&document, &title).len(), 1, "{title}");
        let constant =
            format!("#define KEYWALK_REGISTER_{}_OFFSET {:#05x}u", register.name.to_uppercase(), register.offset);
        assert_eq!(lines_with(&header, &constant).len(), 1, "{constant}");
        for field in register.fields {
            assert!(document.contains(&format!("| `{}` |", field.name)), "{}.{}", register.name, field.name);
        }
    }
    for status in MoverStatus::ALL {
        let constant = format!("#define KEYWALK_MOVER_STATUS_{} {}u", status.name().to_uppercase(), status.code());
        assert_eq!(lines_with(&header, &constant).len(), 1, "{constant}");
    }
}

#[test]
fn every_table_of_the_document_is_rectangular() {
    let mut columns = None;
    for line in register_map::markdown().lines() {
        let is_row = line.starts_with('|');
        let count = line.replace("\\|", "").matches('|').count();
        assert!(!is_row || count == *columns.get_or_insert(count), "{line}");
        if !is_row {
            columns = None;
        }
    }
}

#[test]
fn the_texts_are_the_same_every_time() {
    assert_eq!(register_map::markdown(), register_map::markdown());
    assert_eq!(register_map::c_header(), register_map::c_header());
    assert_eq!(register_map::rust_constants(), register_map::rust_constants());
}

#[test]
fn no_c_macro_is_defined_twice() {
    let header = register_map::c_header();
    let mut names = BTreeSet::new();
    for line in lines_with(&header, "#define ") {
        let name = line.split(' ').nth(1).unwrap();
        assert!(names.insert(name), "{name}");
    }
    assert!(names.len() > 100, "{}", names.len());
}

/// What the contract says, as conditions on constants; `name` makes the name of one from a group and a name.
fn conditions(name: &dyn Fn(&str, &str) -> String) -> Vec<String> {
    let mut conditions = Vec::new();
    for register in regs::REGISTERS.iter().chain(&command::REGISTERS) {
        let name = |constant: &str| name(&format!("register_{}", register.name), constant);
        conditions.push(format!("{} == {}", name("offset"), register.offset));
        conditions.push(format!("{} == {}", name("reset"), register.reset));
        for field in register.fields {
            let mask = name(&format!("{}_mask", field.name));
            let shift = name(&format!("{}_shift", field.name));
            conditions.push(format!("{mask} == {}", field.max() << field.low));
            conditions.push(format!("({mask} >> {shift}) == {}", field.max()));
        }
    }
    for counter in regs::COUNTERS {
        conditions.push(format!("{} == {}", name("counter", &format!("{}_offset", counter.name)), counter.offset));
    }
    for array in regs::ARRAYS {
        let name = |constant: &str| name(&format!("counters_{}", array.name), constant);
        conditions.push(format!("{} == {}", name("offset"), array.offset));
        conditions.push(format!("{} == {}", name("count"), array.count));
        let elements = (0..array.count).filter_map(|number| Some((number, array.element?(number))));
        for (number, element) in elements {
            let offset = format!("{} + {number} * {}", name("offset"), name("bytes"));
            conditions.push(format!("{} == {offset}", name(&format!("{element}_offset"))));
        }
    }
    for status in Status::ALL {
        conditions.push(format!("{} == {}", name("status", status.name()), status.code()));
    }
    conditions
}

/// A C program that does not compile unless the header says what the contract says. It includes the header twice.
fn c_program() -> String {
    let include = format!("#include \"{}\"\n", register_map::C_HEADER_FILE);
    let conditions = conditions(&|group, name| format!("KEYWALK_{group}_{name}").to_uppercase());
    let checks = conditions.iter().enumerate().map(|(number, condition)| {
        let condition = condition.replace("== ", "== (unsigned)");
        format!("typedef char check_{number}[({condition}) ? 1 : -1];\n")
    });
    [include.clone(), include].into_iter().chain(checks).collect()
}

#[test]
fn the_header_is_c99_and_says_what_the_contract_says() {
    let files = [(register_map::C_HEADER_FILE, &*register_map::c_header()), ("check.c", &c_program())];
    compile(&files, "cc", &["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c99", "-c"]);
}

#[test]
fn the_header_is_cpp_as_well() {
    let files = [(register_map::C_HEADER_FILE, &*register_map::c_header()), ("check.cpp", &c_program())];
    compile(&files, "c++", &["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c++11", "-c"]);
}

#[test]
fn the_rust_file_compiles_by_itself() {
    let files = [(register_map::RUST_FILE, &*register_map::rust_constants())];
    compile(&files, "rustc", &["--crate-type", "lib", "--emit", "metadata", "--edition", "2021", "-D", "warnings"]);
}

#[test]
fn the_rust_file_says_what_the_contract_says() {
    let conditions = conditions(&|group, name| format!("keywalk_regs::{group}::{}", name.to_uppercase()));
    let checks: String = conditions.iter().map(|condition| format!("const _: () = assert!({condition});\n")).collect();
    let files = [
        (register_map::RUST_FILE, &*register_map::rust_constants()),
        ("check.rs", &format!("pub mod keywalk_regs;\n{checks}")),
    ];
    compile(&files, "rustc", &["--crate-type", "lib", "--emit", "metadata", "--edition", "2021"]);
}
