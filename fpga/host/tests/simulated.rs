//! The self-test on the simulated card: registers through `s_axil_host`, memory through `m_axi_host` with the latency of a root
//! complex, stalls, and answers out of order.

use std::process::Command;

use keywalk_contract::{probe, regs};
use keywalk_host::self_test;
use keywalk_host::simulate::SimulatedCard;
use keywalk_host::{Card, Host, PROBE_OFFSET};

#[test]
fn the_self_test_passes_on_the_simulated_card() {
    let mut card = SimulatedCard::new(3).expect("it starts");
    let report = self_test::run(&mut Host::new(&mut card), 3, &mut |_| {}).expect("it can be tested");
    let failures: Vec<_> = report.checks.iter().filter(|check| check.failure.is_some()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(report.checks.len() > 120, "{} checks", report.checks.len());
    // The entry and three levels of a page table are read from host memory at first, then the data alone.
    let [first, again] = [0, 1].map(|number| report.figures[number].cycles);
    assert!(first > 3 * again && again > 100, "{first} and {again} cycles");
}

#[test]
fn the_card_says_what_it_is() {
    let mut card = SimulatedCard::new(1).expect("it starts");
    let identity = Host::new(&mut card).identify().expect("it is a card");
    assert_eq!(identity.version, ((regs::VERSION >> 16) as u16, regs::VERSION as u16));
    assert!(identity.is_ready);
    let probe = identity.probe.expect("it has a probe");
    assert_eq!((probe.buffer_bytes, probe.has_work), (probe::BUFFER_BYTES, true));
    // As in the bring-up guide: the first register that keeps something.
    let kept = &regs::merge_bytes_max::REGISTER;
    for value in [0x1234_5678, kept.reset] {
        card.write(kept.offset, value).expect("it can be written");
        assert_eq!(card.read(kept.offset).expect("it can be read"), value);
    }
    // What holds nothing is no error of the program: a host reads whatever the bus gives.
    let refused = card.read(PROBE_OFFSET + 0x100).expect_err("nothing is there").to_string();
    assert!(refused.contains("SLVERR"), "{refused}");
    card.write(PROBE_OFFSET + 0x100, 1).expect("a write has no answer");
}

#[test]
fn the_command_has_a_simulated_card() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_keywalk-host")).arg("--simulate").args(arguments).output();
        let output = output.expect("the command starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it is text")
    };
    assert!(run(&["info"]).contains("simulated card"));
    assert_eq!(run(&["read", "0x4000"]), "0x4b575042\n");
    let counters: serde_json::Value = serde_json::from_str(&run(&["counters", "--json"])).expect("it is JSON");
    assert_eq!(counters["requests"], 0);
    assert_eq!(run(&["faults"]), "");
}
