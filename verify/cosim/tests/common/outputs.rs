//! Outputs that belong to no channel, as the clock edge sees them.

use keywalk_cosim::{Bench, Component, Error, Handle, Model, Output};

/// Keeps the values that outputs had at the last clock edge.
pub struct Outputs {
    outputs: Vec<(&'static str, Output)>,
    values: Vec<u128>,
}

impl Outputs {
    /// Watches every output whose name is chosen.
    pub fn watch(bench: &mut Bench, is_chosen: impl Fn(&str) -> bool) -> Result<Handle<Self>, Error> {
        let model = bench.model();
        let names = model.dut().ports.iter().map(|port| port.name).filter(|name| is_chosen(name));
        // Inputs may fit the choice as well.
        let outputs: Vec<_> = names.filter_map(|name| Some((name, model.output(name).ok()?))).collect();
        let values = vec![0; outputs.len()];
        Ok(bench.add(Self { outputs, values }))
    }

    /// Value at the last clock edge.
    pub fn get(&self, name: &str) -> u128 {
        let position = self.outputs.iter().position(|(output, _)| *output == name);
        self.values[position.unwrap_or_else(|| panic!("output {name} is not watched"))]
    }
}

impl Component for Outputs {
    fn drive(&mut self, _model: &mut Model) {}

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        for ((_, output), value) in self.outputs.iter().zip(&mut self.values) {
            *value = model.get_wide(*output);
        }
        Ok(())
    }

    fn reset(&mut self, _model: &mut Model) {}
}
