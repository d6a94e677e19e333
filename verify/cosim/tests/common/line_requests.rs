//! The table port's side of `line_request`, as the lookups and walkers of tables see it.

use std::collections::VecDeque;

use keywalk_cosim::{Bench, Component, Error, Handle, Input, Model, Output};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Bits of a line address, and those of them that come added up.
const LINE_BITS: u32 = 58;
const LINE_LOW_BITS: u32 = 29;

/// A line request that was taken and not cancelled.
pub struct LineRequest {
    /// When it was taken.
    pub cycle: u64,
    /// Who asked.
    pub context: u128,
    /// The client's mark.
    pub level: u128,
    /// Wanted word.
    pub word: u128,
    /// Address >> 6.
    pub line: u64,
}

/// Takes line requests, which may change until they are taken; ready comes and goes.
pub struct LineRequests {
    /// Of 100 cycles, those in which nothing is taken.
    pub blocked_percent: u32,
    random: ChaCha8Rng,
    is_ready: bool,
    ready: Input,
    valid: Output,
    /// Of a block that makes void what it offers.
    cancel: Option<Output>,
    fields: [Output; 6],
    taken: VecDeque<LineRequest>,
}

impl LineRequests {
    /// Takes the requests of the block on the bench.
    pub fn take(bench: &mut Bench, blocked_percent: u32) -> Result<Handle<Self>, Error> {
        let random = bench.random();
        let model = bench.model();
        let field = |name| model.output(&format!("line_request_{name}"));
        let names = ["context", "level", "word", "low", "carry", "high"];
        let fields = names.map(field).into_iter().collect::<Result<Vec<_>, _>>()?;
        let fields = fields.try_into().expect("as many as there are names");
        let (ready, valid, cancel) = (model.input("line_request_ready")?, field("valid")?, field("cancel").ok());
        let (is_ready, taken) = (false, VecDeque::new());
        Ok(bench.add(Self { blocked_percent, random, is_ready, ready, valid, cancel, fields, taken }))
    }

    /// The next request that was taken.
    pub fn pop(&mut self) -> Option<LineRequest> {
        self.taken.pop_front()
    }
}

impl Component for LineRequests {
    fn drive(&mut self, model: &mut Model) {
        self.is_ready = self.random.random_range(0..100) >= self.blocked_percent;
        model.set(self.ready, self.is_ready.into());
    }

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let is_void = self.cancel.is_some_and(|cancel| model.get(cancel) == 1);
        if self.is_ready && model.get(self.valid) == 1 && !is_void {
            let cycle = model.cycles();
            let [context, level, word, low, carry, high] = self.fields.map(|field| model.get(field));
            let line = ((high + carry) << LINE_LOW_BITS | low) & ((1 << LINE_BITS) - 1);
            let (context, level, word) = (context.into(), level.into(), word.into());
            self.taken.push_back(LineRequest { cycle, context, level, word, line });
        }
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        model.set(self.ready, 0);
        self.taken.clear();
    }
}
