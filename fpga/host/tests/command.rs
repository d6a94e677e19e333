//! The command on copies of sysfs: which card is taken, what is said without one, without rights, with another bitstream.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use keywalk_contract::{probe, regs};
use keywalk_host::{BAR_BYTES, PROBE_OFFSET};

/// A copy of sysfs.
struct Tree {
    folder: tempfile::TempDir,
}

/// A device of it.
struct Device {
    path: PathBuf,
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        fs::create_dir_all(folder.path().join("bus/pci/devices")).expect("likewise");
        Self { folder }
    }

    fn add(&self, address: &str, vendor: &str, device: &str) -> Device {
        let path = self.folder.path().join("bus/pci/devices").join(address);
        fs::create_dir(&path).expect("it is new");
        let new = Device { path };
        new.set("vendor", &format!("0x{vendor}\n"));
        new.set("device", &format!("0x{device}\n"));
        new.set("resource", "0x00000000fb000000 0x00000000fb007fff 0x0000000000040200\n0x0 0x0 0x0\n");
        new.set("enable", "0\n");
        fs::write(new.path.join("config"), [0; 256]).expect("it can be written");
        fs::write(new.path.join("resource0"), vec![0; BAR_BYTES as usize]).expect("likewise");
        new
    }

    /// A card with a good bitstream.
    fn add_card(&self, address: &str) -> Device {
        let card = self.add(address, "10ee", "903f");
        card.set_register(regs::id::REGISTER.offset, regs::ID);
        card.set_register(regs::version::REGISTER.offset, regs::VERSION);
        card.set_register(regs::status::REGISTER.offset, 3);
        card.set_register(PROBE_OFFSET + probe::probe_id::REGISTER.offset, probe::ID);
        card.set_register(PROBE_OFFSET + probe::probe_version::REGISTER.offset, probe::VERSION);
        card.set_register(PROBE_OFFSET + probe::probe_shape::REGISTER.offset, probe::BUFFER_BYTES | 1 << 16);
        card
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(self.folder.path(), arguments)
    }
}

impl Device {
    fn set(&self, file: &str, text: &str) {
        fs::write(self.path.join(file), text).expect("it can be written");
    }

    fn set_register(&self, offset: u32, value: u32) {
        let file = fs::OpenOptions::new().write(true).open(self.path.join("resource0")).expect("it is there");
        file.write_all_at(&value.to_le_bytes(), offset.into()).expect("it can be written");
    }

    fn register(&self, offset: u32) -> u32 {
        let bytes = fs::read(self.path.join("resource0")).expect("it is there");
        let (words, _) = bytes[offset as usize..].as_chunks();
        u32::from_le_bytes(words[0])
    }

    fn bind(&self, driver: &str) {
        symlink(format!("../../drivers/{driver}"), self.path.join("driver")).expect("it can be made");
    }
}

fn run(sysfs: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keywalk-host"));
    command.arg("--sysfs").arg(sysfs).args(arguments).output().expect("the command starts")
}

#[track_caller]
fn expect(output: &Output, code: i32, parts: &[&str]) {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn without_a_card_it_says_where_it_looked() {
    let tree = Tree::new();
    tree.add("0000:00:1f.0", "8086", "a30d");
    for action in ["list", "info", "self-test", "counters", "faults"] {
        expect(&tree.run(&[action]), 3, &["no card", "none of the 1 PCI devices", "10ee:903f", "--id"]);
    }
    let nowhere = tree.folder.path().join("nowhere");
    expect(&run(&nowhere, &["list"]), 3, &["no card", "nowhere/bus/pci/devices", "sysfs"]);
}

#[test]
fn cards_are_listed_with_what_has_them() {
    let tree = Tree::new();
    tree.add("0000:00:1f.0", "8086", "a30d");
    tree.add_card("0000:b3:00.0").bind("vfio-pci");
    let other = tree.add_card("0000:65:00.0");
    fs::create_dir(other.path.join("iommu_group")).expect("it is new");
    other.set("iommu_group/type", "DMA-FQ\n");
    let output = tree.run(&["list"]);
    expect(&output, 0, &["0000:65:00.0", "0000:b3:00.0", "vfio-pci", "DMA-FQ", "32 KiB"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("1f.0"));
    let list = json(&tree.run(&["list", "--json"]));
    assert_eq!(list[0]["address"], "0000:65:00.0");
    assert_eq!(list[0]["driver"], serde_json::Value::Null);
    assert_eq!((&list[0]["iommu"], &list[1]["driver"]), (&"DMA-FQ".into(), &"vfio-pci".into()));
    assert_eq!(list[1]["bar0_bytes"], BAR_BYTES);
    expect(&tree.run(&["list", "--id", "8086:a30d"]), 0, &["0000:00:1f.0"]);
}

#[test]
fn among_several_cards_one_is_named() {
    let tree = Tree::new();
    tree.add_card("0000:65:00.0");
    tree.add_card("0001:65:00.0");
    expect(&tree.run(&["info"]), 2, &["there are 2 cards", "0000:65:00.0, 0001:65:00.0", "--device"]);
    expect(&tree.run(&["info", "--device", "0000:66:00.0"]), 2, &["no card is at 0000:66:00.0", "0001:65:00.0"]);
    expect(&tree.run(&["info", "--device", "0001:65:00.0"]), 0, &["0001:65:00.0 (sysfs)"]);
    expect(&tree.run(&["info", "--device", "65:00.0"]), 0, &["0000:65:00.0 (sysfs)"]);
}

#[test]
fn a_card_says_what_it_is_and_is_switched_on() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    card.set_register(regs::hold_bytes_max::REGISTER.offset, 126_976);
    let output = tree.run(&["info"]);
    expect(&output, 0, &["0.2", "126976 bytes", "1.0, 4096 bytes, with work requests"]);
    let output = json(&tree.run(&["--json", "info"]));
    assert_eq!(output["identity"]["version"], serde_json::json!([0, 2]));
    assert_eq!(output["identity"]["is_ready"], true);
    assert_eq!(output["identity"]["probe"]["buffer_bytes"], 4096);
    assert_eq!(fs::read_to_string(card.path.join("enable")).expect("it is there"), "1");
    let config = fs::read(card.path.join("config")).expect("it is there");
    assert_eq!(config[4..6], [2, 0], "memory accesses, and no use of the bus before there is memory for it");
    card.set_register(PROBE_OFFSET, 0);
    expect(&tree.run(&["info"]), 0, &["probe", "none"]);
    expect(&tree.run(&["self-test"]), 3, &["no probe answers at 0x4000"]);
    expect(&tree.run(&["faults"]), 3, &["no probe"]);
}

#[test]
fn another_bitstream_is_told_from_a_dead_card() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    for action in ["info", "counters", "self-test", "faults"] {
        card.set_register(regs::id::REGISTER.offset, 0x1fc0_0006);
        let parts = ["another bitstream is loaded", "0x1fc00006", "0x4b574c4b"];
        expect(&tree.run(&[action]), 3, &parts);
        card.set_register(regs::id::REGISTER.offset, u32::MAX);
        expect(&tree.run(&[action]), 3, &["does not answer", "0xffffffff", "lspci"]);
    }
    card.set_register(regs::id::REGISTER.offset, regs::ID);
    for (version, text) in [(0x0001_0000, "version 1.0"), (0x0000_0001, "version 0.1")] {
        card.set_register(regs::version::REGISTER.offset, version);
        expect(&tree.run(&["info"]), 3, &["another bitstream is loaded", text, "0.2"]);
    }
    card.set_register(regs::version::REGISTER.offset, regs::VERSION + 1);
    expect(&tree.run(&["info"]), 0, &["0.3"]);
    card.set_register(PROBE_OFFSET + probe::probe_version::REGISTER.offset, 0x0002_0000);
    expect(&tree.run(&["info"]), 3, &["its probe has version 2.0"]);
    card.set("resource", "0x00000000fb000000 0x00000000fb003fff 0x0000000000040200\n");
    expect(&tree.run(&["info"]), 3, &["another bitstream is loaded", "BAR 0 has 16384 bytes", "32768"]);
    card.set("resource", "0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
    expect(&tree.run(&["info"]), 3, &["has no address", "rescan"]);
}

#[test]
fn a_machine_that_is_not_set_up_is_told_how() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    card.bind("xdma");
    expect(&tree.run(&["info"]), 3, &["bound to the driver xdma", "driver/unbind"]);
    fs::remove_file(card.path.join("driver")).expect("it is there");
    card.bind("vfio-pci");
    // Without VFIO, or without the IOMMU group that this copy does not have.
    expect(&tree.run(&["info"]), 3, &["vfio", "modprobe vfio-pci"]);
    fs::remove_file(card.path.join("driver")).expect("it is there");
    fs::create_dir(card.path.join("iommu_group")).expect("it is new");
    card.set("iommu_group/type", "DMA\n");
    expect(&tree.run(&["self-test"]), 3, &["an IOMMU translates", "vfio-pci", "iommu=pt"]);
    let config = fs::read(card.path.join("config")).expect("it is there");
    assert_eq!(config[4..6], [2, 0], "who gives no memory lets nobody use the bus");
    fs::remove_file(card.path.join("enable")).expect("it is there");
    fs::create_dir(card.path.join("enable")).expect("it is gone");
    expect(&tree.run(&["info"]), 3, &["0000:65:00.0/enable", "run as root"]);
}

/// Files that are missing, short, without a number, of another kind: a message that names the file, never a crash.
#[test]
fn odd_files_are_told_and_named() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    for (file, content) in [("resource0", &[0; 0x4000][..]), ("resource0", &[]), ("config", &[0; 5]), ("config", &[])] {
        let good = fs::read(card.path.join(file)).expect("it is there");
        fs::write(card.path.join(file), content).expect("it can be written");
        let name = format!("0000:65:00.0/{file}");
        for action in [&["info"][..], &["read", "0"], &["write", "0x7ffc", "1"], &["counters"], &["self-test"]] {
            expect(&tree.run(action), 3, &[&name]);
        }
        fs::remove_file(card.path.join(file)).expect("it is there");
        expect(&tree.run(&["info"]), 3, &[&name]);
        fs::create_dir(card.path.join(file)).expect("it is gone");
        expect(&tree.run(&["info"]), 3, &[&name]);
        fs::remove_dir(card.path.join(file)).expect("it is there");
        fs::write(card.path.join(file), good).expect("it can be written");
    }
    expect(&tree.run(&["info"]), 0, &[]);
    // The kernel found no room for BAR 0: its size remains.
    card.set("resource", "0x0000000000000000 0x0000000000007fff 0x0000000020040200\n");
    expect(&tree.run(&["info"]), 3, &["has no address", "rescan"]);
    for odd in ["", "\n", "fb000000", "0x1 0x2", "zero one two\n", "0x0 0xffffffffffffffff 0x0\n"] {
        card.set("resource", odd);
        expect(&tree.run(&["info"]), 3, &["BAR 0"]);
    }
    fs::write(card.path.join("resource"), [0xff; 64]).expect("it can be written");
    expect(&tree.run(&["info"]), 3, &["BAR 0"]);
    // What has no identifiers is no device, and endless files end.
    for odd in ["", "card", "0x110ee", "0xffffffffffffffffff", "-1"] {
        card.set("vendor", odd);
        expect(&tree.run(&["list"]), 3, &["none of the 1 PCI devices"]);
    }
    fs::remove_file(card.path.join("vendor")).expect("it is there");
    symlink("vendor", card.path.join("vendor")).expect("it can be made");
    expect(&tree.run(&["list"]), 3, &["none of the 1 PCI devices"]);
    fs::remove_file(card.path.join("vendor")).expect("it is there");
    symlink("/dev/zero", card.path.join("vendor")).expect("it can be made");
    expect(&tree.run(&["list"]), 3, &["none of the 1 PCI devices"]);
}

/// As in a real sysfs: the devices are links to their directories.
#[test]
fn devices_may_be_links() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    let elsewhere = tree.folder.path().join("devices");
    fs::rename(&card.path, &elsewhere).expect("it can be moved");
    symlink("../../../devices", &card.path).expect("it can be made");
    symlink("nowhere", card.path.with_file_name("0000:66:00.0")).expect("it can be made");
    expect(&tree.run(&["info"]), 0, &["0000:65:00.0 (sysfs)"]);
}

/// Events without end: a probe that does not let one go, and a card that went away under it.
#[test]
fn watching_ends() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    let status = PROBE_OFFSET + probe::probe_status::REGISTER.offset;
    let longest = u64::MAX.to_string();
    card.set_register(status, u32::MAX);
    for arguments in [&["faults"][..], &["faults", "--watch"], &["faults", "--watch", "--seconds", &longest]] {
        expect(&tree.run(arguments), 3, &["does not answer", "probe_status"]);
    }
    card.set_register(status, 8);
    let output = tree.run(&["faults", "--json"]);
    expect(&output, 1, &["does not let an event go", "--watch"]);
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), keywalk_host::probe::FAULTS_MAX);
    expect(&tree.run(&["faults", "--watch", "--seconds", "0"]), 0, &["request 0x0 of function 0"]);
}

/// A reader that went away is no error.
#[test]
fn nobody_needs_to_read() {
    let tree = Tree::new();
    tree.add_card("0000:65:00.0");
    for arguments in [&["info"][..], &["list"], &["counters"], &["info", "--json"], &["read", "0"], &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("there are pipes");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_keywalk-host"));
        let command = command.arg("--sysfs").arg(tree.folder.path()).args(arguments);
        expect(&command.stdout(writer).output().expect("the command starts"), 0, &[]);
    }
}

#[test]
fn registers_are_read_and_written() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    expect(&tree.run(&["read", "0"]), 0, &["0x4b574c4b\n"]);
    expect(&tree.run(&["read", "0x4000"]), 0, &["0x4b575042\n"]);
    assert_eq!(json(&tree.run(&["read", "4", "--json"])), serde_json::json!({ "offset": 4, "value": regs::VERSION }));
    expect(&tree.run(&["write", "0x7ffc", "0xdeadbeef"]), 0, &[]);
    assert_eq!(card.register(0x7ffc), 0xdead_beef);
    let written = json(&tree.run(&["--json", "write", "0x7ff8", "1"]));
    assert_eq!(written, serde_json::json!({ "offset": 0x7ff8, "value": 1 }));
    expect(&tree.run(&["read", "0x8000"]), 2, &["multiples of 4 below 0x8000"]);
    for wrong in ["2", "-4", "0x+4", "four"] {
        expect(&tree.run(&["read", wrong]), 2, &[]);
    }
    expect(&tree.run(&["write", "0", "0x100000000"]), 2, &["2^32"]);
}

#[test]
fn counters_are_printed() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    card.set_register(0x200, 7);
    card.set_register(0x204, 1);
    card.set_register(0x400 + 8 * 12, 3);
    let output = tree.run(&["counters"]);
    expect(&output, 0, &["requests                        4294967303\n", "status_entry_key                3\n"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("status_bounds"));
    let counters = json(&tree.run(&["counters", "--json", "--all"]));
    assert_eq!((&counters["requests"], &counters["status_bounds"]), (&4_294_967_303_u64.into(), &0.into()));
    assert_eq!(counters["function_errors_255"], 0);
}

#[test]
fn an_event_is_printed() {
    let tree = Tree::new();
    let card = tree.add_card("0000:65:00.0");
    expect(&tree.run(&["faults"]), 0, &[]);
    // A copy of registers holds its event for ever.
    card.set_register(PROBE_OFFSET + probe::probe_status::REGISTER.offset, 8);
    for (word, value) in (0..).zip([0x1805_1234, 0x0004_560f, 0x89ab_c000, 0x7f]) {
        card.set_register(PROBE_OFFSET + probe::fault_offset(word), value);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_keywalk-host"))
        .arg("--sysfs")
        .arg(tree.folder.path())
        .args(["faults", "--watch", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("there is a line");
    // Who reads no more ends it.
    drop(output);
    assert!(child.wait().expect("it ends").success());
    let event: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!((&event["tag"], &event["function"]), (&0x1234.into(), &5.into()));
    assert_eq!((&event["status"], &event["table"]), (&"mtr_not_present".into(), &"page_table".into()));
    assert_eq!((&event["hop"], &event["index"], &event["va"]), (&1.into(), &0x456.into(), &0x7f_89ab_c000_u64.into()));
    assert_eq!(card.register(PROBE_OFFSET + probe::probe_fault_take::REGISTER.offset), 1, "it is taken");
}

#[test]
fn wrong_usage_and_a_full_disk_have_their_codes() {
    let tree = Tree::new();
    tree.add_card("0000:65:00.0");
    for wrong in [
        &["list", "--id", "10ee"][..],
        &["walk"],
        &["faults", "--seconds", "5"],
        &["self-test", "--seed", "x"],
        &["info", "--simulate"],
        &["--simulate", "list"],
        &["faults", "--watch", "--seconds", "18446744073709551616"],
        &["self-test", "--seed", "-1"],
        &["read", "4294967296"],
        &[],
    ] {
        expect(&tree.run(wrong), 2, &[]);
    }
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the system has it");
    let output = Command::new(env!("CARGO_BIN_EXE_keywalk-host"))
        .arg("--sysfs")
        .arg(tree.folder.path())
        .arg("info")
        .stdout(full)
        .output()
        .expect("the command starts");
    expect(&output, 1, &["the output cannot be written"]);
    let help = Command::new(env!("CARGO_BIN_EXE_keywalk-host")).arg("--help").output().expect("the command starts");
    expect(&help, 0, &["Exit codes:", "self-test", "docs/bring-up.md", "--json"]);
}
