//! Inputs that belong to no channel and count in single cycles.

use std::collections::BTreeMap;

use keywalk_cosim::{Bench, Component, Error, Handle, Input, Model, bits};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// Drives inputs with what is due in a cycle; otherwise with random values, and what is called valid with 0.
pub struct LateInputs {
    inputs: Vec<(&'static str, u32, Input)>,
    due: BTreeMap<u64, Vec<(String, u128)>>,
    random: ChaCha8Rng,
}

impl LateInputs {
    /// Drives every input whose name is chosen, whatever components that were added before do to it.
    pub fn drive(bench: &mut Bench, is_chosen: impl Fn(&str) -> bool) -> Result<Handle<Self>, Error> {
        let random = bench.random();
        let model = bench.model();
        let ports = model.dut().ports.iter().filter(|port| is_chosen(port.name));
        // Outputs may fit the choice as well.
        let inputs = ports.filter_map(|port| Some((port.name, port.width, model.input(port.name).ok()?))).collect();
        Ok(bench.add(Self { inputs, due: BTreeMap::new(), random }))
    }

    /// Names and widths.
    pub fn ports(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.inputs.iter().map(|(name, width, _)| (*name, *width))
    }

    /// Values of some inputs in that cycle. The others are as if nothing were due.
    pub fn push(&mut self, cycle: u64, values: impl IntoIterator<Item = (String, u128)>) {
        self.due.entry(cycle).or_default().extend(values);
    }
}

impl Component for LateInputs {
    fn drive(&mut self, model: &mut Model) {
        let due = self.due.remove(&model.cycles()).unwrap_or_default();
        for (name, width, input) in &self.inputs {
            let value = due.iter().find(|(wanted, _)| wanted == name).map(|(_, value)| *value);
            let garbage = u128::from(self.random.next_u64() & bits::max(*width));
            let otherwise = if name.ends_with("valid") { 0 } else { garbage };
            model.set_wide(*input, value.unwrap_or(otherwise));
        }
    }

    fn sample(&mut self, _model: &Model) -> Result<(), Error> {
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        self.due.clear();
        self.drive(model);
    }
}
