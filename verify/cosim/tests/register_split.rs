//! `register_split`: every access goes to the engine or to the user by its address, and is answered whatever the user does.

use std::collections::HashMap;

use keywalk_cosim::{AxiLite, Bench, Channel, Error, Handle, LiteAccess, Stall, StreamDriver, StreamSink, dut};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// First address of the user's.
const USER: u32 = 0x4000;
/// Cycles for which the user may be silent.
const TIMEOUT_CYCLES: u64 = 4096;

/// A slave with registers; every 16th address is refused.
struct Slave {
    aw: Handle<StreamSink>,
    w: Handle<StreamSink>,
    b: Handle<StreamDriver>,
    ar: Handle<StreamSink>,
    r: Handle<StreamDriver>,
    registers: HashMap<u32, u32>,
    accesses: u64,
    /// It takes accesses and does not answer them.
    is_silent: bool,
}

impl Slave {
    fn new(bench: &mut Bench, name: &str, stall: Stall) -> Result<Self, Error> {
        let mut sink = |channel: &str| {
            let channel = Channel::with_prefix(bench.model(), &format!("{name}_{channel}"))?;
            let random = bench.random();
            Ok::<_, Error>(bench.add(StreamSink::new(channel, stall, random)))
        };
        let (aw, w, ar) = (sink("aw")?, sink("w")?, sink("ar")?);
        let mut driver = |channel: &str| {
            let channel = Channel::with_prefix(bench.model(), &format!("{name}_{channel}"))?;
            let random = bench.random();
            Ok::<_, Error>(bench.add(StreamDriver::new(channel, stall, random)))
        };
        let (b, r) = (driver("b")?, driver("r")?);
        Ok(Self { aw, w, b, ar, r, registers: HashMap::new(), accesses: 0, is_silent: false })
    }

    fn service(&mut self, bench: &mut Bench) -> Result<(), Error> {
        if self.is_silent {
            return Ok(());
        }
        let resp = |address: u32| u128::from(address % 64 == 60) * 2;
        if !bench[self.w].is_empty()
            && let Some(address) = bench[self.aw].pop()
            && let Some(data) = bench[self.w].pop()
        {
            let address = address.get("addr")? as u32;
            assert_eq!(data.get("strb")?, 0xf);
            self.registers.insert(address, data.get("data")? as u32);
            self.accesses += 1;
            bench[self.b].push_fields(&[("resp", resp(address))])?;
        }
        if let Some(address) = bench[self.ar].pop() {
            let address = address.get("addr")? as u32;
            let value = self.registers.get(&address).copied().unwrap_or(!address);
            self.accesses += 1;
            bench[self.r].push_fields(&[("resp", resp(address)), ("data", value.into())])?;
        }
        Ok(())
    }
}

struct Split {
    bench: Bench,
    lite: Handle<AxiLite>,
    engine: Slave,
    user: Slave,
    random: ChaCha8Rng,
}

impl Split {
    fn new(seed: u64, stall: Stall, user_stall: Stall) -> Result<Self, Error> {
        let mut bench = Bench::new(&dut::REGISTER_SPLIT, seed);
        let lite = bench.axi_lite("s", stall)?;
        let engine = Slave::new(&mut bench, "m_reg", stall)?;
        let user = Slave::new(&mut bench, "m_user", user_stall)?;
        bench.reset(4)?;
        let random = bench.random();
        Ok(Self { bench, lite, engine, user, random })
    }

    fn cycle(&mut self) -> Result<(), Error> {
        self.bench.cycle()?;
        self.engine.service(&mut self.bench)?;
        self.user.service(&mut self.bench)
    }

    /// Makes an access; gives its value, the error's response, and the cycles that it took.
    fn access(&mut self, access: LiteAccess) -> Result<(u32, Option<&'static str>, u64), Error> {
        self.bench[self.lite].push(access);
        let start = self.bench.cycles();
        loop {
            self.cycle()?;
            if let Some(result) = self.bench[self.lite].pop() {
                let response = result.error.map(|error| match error {
                    Error::RegisterAccess { response, .. } => response,
                    other => panic!("{access:?}: {other}"),
                });
                return Ok((result.value, response, self.bench.cycles() - start));
            }
            assert!(self.bench.cycles() < start + 2 * TIMEOUT_CYCLES, "no answer to {access:x?}");
        }
    }
}

#[test]
fn every_access_goes_where_its_address_says() -> Result<(), Error> {
    for (seed, stall) in [(1, Stall::NEVER), (2, Stall::percent(40).up_to(7))] {
        let mut split = Split::new(seed, stall, stall)?;
        let mut expected: HashMap<u32, u32> = HashMap::new();
        for number in 0..600 {
            let offset = 4 * split.random.random_range(0..32) + USER * split.random.random_range(0..2);
            let address = offset % USER;
            let refused = (address % 64 == 60).then_some("SLVERR");
            if split.random.random_bool(0.5) {
                let value = split.random.random();
                let (_, response, _) = split.access(LiteAccess::Write { offset, value })?;
                assert_eq!(response, refused, "access {number}, {offset:x}");
                expected.insert(offset, value);
            } else {
                let (value, response, _) = split.access(LiteAccess::Read { offset })?;
                assert_eq!(response, refused, "access {number}, {offset:x}");
                assert_eq!(value, expected.get(&offset).copied().unwrap_or(!address), "access {number}, {offset:x}");
            }
        }
        assert_eq!(split.engine.accesses + split.user.accesses, 600);
        assert!(split.engine.accesses > 200 && split.user.accesses > 200);
    }
    Ok(())
}

#[test]
fn a_user_who_takes_nothing_is_answered_for_with_decerr() -> Result<(), Error> {
    let mut split = Split::new(3, Stall::NEVER, Stall::percent(100).up_to(60_000))?;
    let kinds = [LiteAccess::Write { offset: USER + 8, value: 5 }, LiteAccess::Read { offset: USER + 8 }];
    for access in kinds {
        let (_, response, cycles) = split.access(access)?;
        assert_eq!(response, Some("DECERR"), "{access:?}");
        assert!((TIMEOUT_CYCLES..TIMEOUT_CYCLES + 20).contains(&cycles), "{access:?}: {cycles} cycles");
    }
    // The next is refused at once, and the engine answers as ever.
    for access in kinds {
        let (_, response, cycles) = split.access(access)?;
        assert_eq!(response, Some("DECERR"), "{access:?}");
        assert!(cycles < 20, "{access:?}: {cycles} cycles");
    }
    assert_eq!(split.access(LiteAccess::Write { offset: 12, value: 77 })?.1, None);
    assert_eq!(split.access(LiteAccess::Read { offset: 12 })?.0, 77);
    Ok(())
}

#[test]
fn a_user_who_answers_late_is_answered_for_with_slverr_and_comes_back() -> Result<(), Error> {
    let mut split = Split::new(4, Stall::NEVER, Stall::NEVER)?;
    split.user.is_silent = true;
    let (_, response, cycles) = split.access(LiteAccess::Write { offset: USER + 16, value: 1234 })?;
    assert_eq!(response, Some("SLVERR"));
    assert!((TIMEOUT_CYCLES..TIMEOUT_CYCLES + 20).contains(&cycles), "{cycles} cycles");
    assert_eq!(split.access(LiteAccess::Read { offset: USER + 16 })?.1, Some("SLVERR"));
    let (_, response, cycles) = split.access(LiteAccess::Write { offset: USER + 20, value: 99 })?;
    assert_eq!(response, Some("SLVERR"));
    assert!(cycles < 20, "{cycles} cycles");
    // Late answers go nowhere; the write that was given up was done, the one behind it was not.
    split.user.is_silent = false;
    for _ in 0..20 {
        split.cycle()?;
    }
    assert!(split.bench[split.lite].is_idle());
    for (offset, expected) in [(USER + 16, 1234), (USER + 20, !20)] {
        let (value, response, _) = split.access(LiteAccess::Read { offset })?;
        assert_eq!((value, response), (expected, None), "{offset:x}");
    }
    Ok(())
}
