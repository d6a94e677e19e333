//! The ports that the command unit shares with the user: every request reaches the core as it is, every answer goes to whom it
//! belongs, and none waits for ever.

use std::collections::VecDeque;

use keywalk_cosim::{
    Beat, Bench, Channel, Component, Error, Handle, Input, Model, Signal, Stall, StreamDriver, StreamSink, dut,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Requests of the unit and of the user, each kind.
const UNITS: u64 = 60;
const USERS: u64 = 400;
const LIMIT_CYCLES: u64 = 60_000;
/// Completions that the core owes at most, as of an engine.
const FENCES_MAX: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    Unit,
}

/// Ports of a handshake.
#[derive(Clone)]
struct Handshake {
    valid: Signal,
    ready: Signal,
    fields: Vec<Signal>,
}

impl Handshake {
    fn new(model: &Model, channel: &str, separator: &str, fields: &[&str]) -> Result<Self, Error> {
        let signal = |name: &str| model.signal(&format!("{channel}{separator}{name}"));
        let fields = fields.iter().map(|field| signal(field)).collect::<Result<_, _>>()?;
        Ok(Self { valid: signal("valid")?, ready: signal("ready")?, fields })
    }

    fn transfers(&self, model: &Model) -> bool {
        model.get(self.valid) == 1 && model.get(self.ready) == 1
    }

    fn payload(&self, model: &Model) -> Vec<u64> {
        self.fields.iter().map(|field| model.get(*field)).collect()
    }
}

/// Checks in every cycle that one port of the core is shared by the rules.
struct Watch {
    user: Handshake,
    unit: Handshake,
    core: Handshake,
    /// Answers of the core, of the user, and the flag of the unit.
    core_answer: Handshake,
    user_answer: Handshake,
    unit_answer: Signal,
    /// A request of the unit is alone at the core; answers of several come in any order otherwise.
    is_alone: bool,
    owed: VecDeque<Owner>,
    answered: [u64; 2],
}

impl Component for Watch {
    fn drive(&mut self, _: &mut Model) {}

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let cycle = model.cycles();
        // An answer belongs to a request of an earlier cycle.
        let is_answered = self.core_answer.transfers(model);
        let owner = if is_answered { self.owed.pop_front() } else { None };
        assert!(!is_answered || owner.is_some(), "cycle {cycle}: the rig answers what was not asked");
        let (of_user, of_unit) = (self.user_answer.transfers(model), model.get(self.unit_answer) == 1);
        assert_eq!(of_user, owner == Some(Owner::User), "cycle {cycle}: answer of the user");
        assert_eq!(of_unit, owner == Some(Owner::Unit), "cycle {cycle}: answer of the unit");
        self.answered[0] += u64::from(of_user);
        self.answered[1] += u64::from(of_unit);

        let (user, unit) = (self.user.transfers(model), self.unit.transfers(model));
        assert!(!(user && unit), "cycle {cycle}: both are accepted");
        assert_eq!(self.core.transfers(model), user || unit, "cycle {cycle}: the core accepts something else");
        if user || unit {
            let (source, owner) = if user { (&self.user, Owner::User) } else { (&self.unit, Owner::Unit) };
            let got = self.core.payload(model);
            assert_eq!(got[..source.fields.len()], source.payload(model), "cycle {cycle}: payload");
            let others = self.owed.contains(&Owner::Unit) || (unit && !self.owed.is_empty());
            assert!(!(self.is_alone && others), "cycle {cycle}: not alone");
            self.owed.push_back(owner);
        }
        Ok(())
    }

    fn reset(&mut self, _: &mut Model) {
        self.owed.clear();
    }
}

/// Checks that the reads of both reach the bus as they are, and lines whom they belong to.
struct WatchReads {
    user: Handshake,
    unit: Handshake,
    bus: Handshake,
    line: [Signal; 2],
    to: [Signal; 2],
    id_bits: u32,
    line_inputs: [Input; 2],
    random: ChaCha8Rng,
    accepted: [u64; 2],
}

impl Component for WatchReads {
    fn drive(&mut self, model: &mut Model) {
        model.set(self.line_inputs[0], self.random.random_range(0..2));
        model.set(self.line_inputs[1], self.random.random_range(0..2 << self.id_bits));
    }

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let cycle = model.cycles();
        let (user, unit) = (self.user.transfers(model), self.unit.transfers(model));
        assert!(!(user && unit), "cycle {cycle}: both are accepted");
        assert_eq!(self.bus.transfers(model), user || unit, "cycle {cycle}: the bus accepts something else");
        let payload = self.bus.payload(model);
        let of_unit = 1 << self.id_bits;
        if user {
            assert_eq!(payload, self.user.payload(model), "cycle {cycle}");
        } else if unit {
            assert_eq!(payload, [self.unit.payload(model)[0], of_unit], "cycle {cycle}");
        }
        self.accepted[0] += u64::from(user);
        self.accepted[1] += u64::from(unit);
        let [valid, id] = self.line.map(|signal| model.get(signal));
        let expected = [valid == 1 && id < of_unit, valid == 1 && id >= of_unit];
        assert_eq!(self.to.map(|signal| model.get(signal) == 1), expected, "cycle {cycle}: a line");
        Ok(())
    }

    fn reset(&mut self, _: &mut Model) {}
}

/// Queues random requests.
fn push(bench: &mut Bench, driver: Handle<StreamDriver>, count: u64, random: &mut ChaCha8Rng) -> Result<(), Error> {
    let shape = bench[driver].channel().shape().clone();
    for _ in 0..count {
        bench[driver].push(Beat::random_with(&shape, &[], random)?);
    }
    Ok(())
}

/// One shared port with its drivers.
struct Shared {
    watch: Handle<Watch>,
    user: Handle<StreamDriver>,
    unit: Handle<StreamDriver>,
    core: Handle<StreamSink>,
    core_answers: Handle<StreamDriver>,
    user_answers: Handle<StreamSink>,
    owed_max: usize,
    /// Requests of the unit so far.
    pushed: u64,
}

impl Shared {
    fn new(
        bench: &mut Bench,
        stalls: [Stall; 3],
        [user, unit]: [&str; 2],
        [answers, flag]: [&str; 2],
        fields: &[&str],
        is_alone: bool,
        owed_max: usize,
    ) -> Result<Self, Error> {
        let [idle, busy, slow] = stalls;
        let core = format!("core_{user}");
        let core_answers = format!("core_{answers}");
        let model = bench.model();
        let watch = Watch {
            user: Handshake::new(model, user, "_", fields)?,
            unit: Handshake::new(model, unit, "_", fields)?,
            core: Handshake::new(model, &core, "_", fields)?,
            core_answer: Handshake::new(model, &core_answers, "_", &[])?,
            user_answer: Handshake::new(model, answers, "_", &[])?,
            unit_answer: model.signal(flag)?,
            is_alone,
            owed: VecDeque::new(),
            answered: [0; 2],
        };
        Ok(Self {
            user: bench.driver(user, idle)?,
            unit: bench.driver(unit, slow)?,
            core: bench.sink(&core, busy)?,
            core_answers: bench.driver(&core_answers, busy)?,
            user_answers: bench.sink(answers, idle)?,
            watch: bench.add(watch),
            owed_max,
            pushed: 0,
        })
    }

    /// Queues everything of the user, and of the unit what it does next: it does one thing at a time.
    fn begin(&mut self, bench: &mut Bench, random: &mut ChaCha8Rng) -> Result<(), Error> {
        bench[self.watch].answered = [0; 2];
        self.pushed = 0;
        push(bench, self.user, USERS, random)
    }

    /// Answers what the core has accepted, some cycles later.
    fn answer(&mut self, bench: &mut Bench, random: &mut ChaCha8Rng) -> Result<(), Error> {
        if bench[self.watch].answered[1] == self.pushed && self.pushed < UNITS {
            push(bench, self.unit, 1, random)?;
            self.pushed += 1;
        }
        while bench[self.core].pop().is_some() {
            let beat = bench[self.core_answers].blank();
            let due = bench.cycles() + random.random_range(1..30);
            bench[self.core_answers].push_not_before(beat, due);
        }
        while bench[self.user_answers].pop().is_some() {}
        let is_full = bench[self.watch].owed.len() + 1 >= self.owed_max;
        bench[self.core].set_stall(if is_full { Stall::percent(100).up_to(1000) } else { Stall::percent(30).up_to(5) });
        Ok(())
    }

    fn is_done(&self, bench: &Bench) -> bool {
        bench[self.watch].answered == [USERS, UNITS]
    }
}

#[test]
fn user_and_unit_share_the_ports_of_the_core() -> Result<(), Error> {
    for seed in 0..12 {
        let mut bench = Bench::new(&dut::COMMAND_PORTS, seed);
        let config = dut::COMMAND_PORTS.config().expect("the block is generated from a configuration");
        let mut random = bench.random();
        // A user that never pauses, one that does, and one that is slow.
        let idle = [Stall::NEVER, Stall::percent(40).up_to(10), Stall::percent(80).up_to(40)][seed as usize % 3];
        let stalls = [idle, Stall::percent(30).up_to(5), Stall::percent(70).up_to(60)];
        let mut lookups = Shared::new(
            &mut bench,
            stalls,
            ["context_request", "lookup"],
            ["context_response", "found_valid"],
            &["function", "table", "index"],
            true,
            16,
        )?;
        let mut fences = Shared::new(
            &mut bench,
            stalls,
            ["invalidate", "fence"],
            ["invalidated", "fenced_valid"],
            &["function", "scope", "key"],
            false,
            FENCES_MAX,
        )?;
        let channel = Channel::with_prefix(bench.model(), "core_tbl_ar")?;
        let core_reads = StreamDriver::new(channel, idle, bench.random());
        let core_reads = bench.add(core_reads);
        let unit_reads = bench.driver("read", stalls[2])?;
        let channel = Channel::with_prefix(bench.model(), "tbl_ar")?;
        let bus = StreamSink::new(channel, stalls[1], bench.random());
        let bus = bench.add(bus);
        let model = bench.model();
        let reads = WatchReads {
            user: Handshake::new(model, "core_tbl_ar", "", &["addr", "id"])?,
            unit: Handshake::new(model, "read", "_", &["address"])?,
            bus: Handshake::new(model, "tbl_ar", "", &["addr", "id"])?,
            line: [model.signal("tbl_rvalid")?, model.signal("tbl_rid")?],
            to: [model.signal("core_tbl_rvalid")?, model.signal("line_valid")?],
            id_bits: config.read_bits(),
            line_inputs: [model.input("tbl_rvalid")?, model.input("tbl_rid")?],
            random: random.clone(),
            accepted: [0; 2],
        };
        let reads = bench.add(reads);
        bench.reset(2)?;
        // The first time a reset comes in the middle, and everything begins again.
        for round in 0..2 {
            lookups.begin(&mut bench, &mut random)?;
            fences.begin(&mut bench, &mut random)?;
            bench[reads].accepted = [0; 2];
            push(&mut bench, core_reads, USERS, &mut random)?;
            push(&mut bench, unit_reads, UNITS, &mut random)?;
            let start = bench.cycles();
            loop {
                lookups.answer(&mut bench, &mut random)?;
                fences.answer(&mut bench, &mut random)?;
                while bench[bus].pop().is_some() {}
                bench.cycle()?;
                if round == 0 && bench.cycles() - start == 500 {
                    bench.reset(2)?;
                    break;
                }
                let is_done = bench[reads].accepted == [USERS, UNITS];
                if is_done && lookups.is_done(&bench) && fences.is_done(&bench) {
                    break;
                }
                let state = [bench[lookups.watch].answered, bench[fences.watch].answered, bench[reads].accepted];
                assert!(bench.cycles() - start < LIMIT_CYCLES, "seed {seed}: stuck at {state:?}");
            }
        }
    }
    Ok(())
}
