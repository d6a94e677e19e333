//! The rotator of bytes in every configuration of this build, every amount, a beat per cycle.

use keywalk_cosim::{Dut, Error, Model, dut};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Cycles from the input to the output, as documented.
const LATENCY_CYCLES: usize = 2;

/// Every model of the block.
fn designs() -> Vec<&'static Dut> {
    let designs: Vec<_> = dut::ALL.iter().copied().filter(|dut| dut.top == "byte_rotator").collect();
    assert!(!designs.is_empty(), "no model of byte_rotator in this build");
    designs
}

/// Sends beats with their amounts in consecutive cycles and returns what comes out of each.
fn rotated(design: &'static Dut, beats: &[(Vec<u8>, usize)]) -> Result<Vec<Vec<u8>>, Error> {
    let mut model = Model::new(design, 1);
    let lanes = beats[0].0.len() / 16;
    let amount = model.input("amount")?;
    let inputs = (0..lanes).map(|lane| model.input(&format!("in_data_{lane}"))).collect::<Result<Vec<_>, _>>()?;
    let outputs = (0..lanes).map(|lane| model.output(&format!("out_data_{lane}"))).collect::<Result<Vec<_>, _>>()?;
    let mut results = Vec::new();
    for cycle in 0..beats.len() + LATENCY_CYCLES {
        let (bytes, by) = &beats[cycle.min(beats.len() - 1)];
        model.set(amount, *by as u64);
        for (input, lane) in inputs.iter().zip(bytes.chunks_exact(16)) {
            model.set_wide(*input, u128::from_le_bytes(lane.try_into().expect("a lane has 16 bytes")));
        }
        model.settle();
        if cycle >= LATENCY_CYCLES {
            results.push(outputs.iter().flat_map(|output| model.get_wide(*output).to_le_bytes()).collect());
        }
        model.edge();
    }
    Ok(results)
}

#[test]
fn every_byte_comes_to_its_place_for_every_amount() -> Result<(), Error> {
    for design in designs() {
        let bytes = design.config().expect("it was generated").mover_beat_bytes() as usize;
        let mut random = ChaCha8Rng::seed_from_u64(1);
        // Each amount with bytes that are all different, then any amount with any bytes.
        let mut beats: Vec<_> = (0..bytes).map(|amount| ((0..bytes as u8).collect::<Vec<_>>(), amount)).collect();
        for _ in 0..1_000 {
            let mut data = vec![0; bytes];
            random.fill_bytes(&mut data);
            beats.push((data, random.random_range(0..bytes)));
        }
        let results = rotated(design, &beats)?;
        assert_eq!(results.len(), beats.len());
        for ((data, amount), result) in beats.iter().zip(&results) {
            let mut expected = data.clone();
            expected.rotate_right(*amount);
            assert_eq!(*result, expected, "{}: amount {amount}", design.name);
        }
    }
    Ok(())
}
