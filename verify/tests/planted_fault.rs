//! The tests are not blind: an engine with one flipped condition fails them.

use keywalk_cosim::{EngineOptions, dut};
use keywalk_verify::scenario::{RunError, Scenario};

#[test]
fn random_tables_find_a_flipped_condition() {
    let dut = &dut::SMALL_BOUNDS_FAULT;
    let config = dut.config().expect("the engine was generated");
    let found = (1000..1010).any(|seed| {
        let mut scenario = Scenario::draw(seed, &config);
        let options = EngineOptions { seed, ..EngineOptions::default() };
        let mut engine = scenario.engine(dut, options).expect("the engine starts");
        matches!(scenario.run(&mut engine, 400, 0), Err(RunError::Difference { .. }))
    });
    assert!(found, "ten scenarios do not reach the last byte of any region");
}
