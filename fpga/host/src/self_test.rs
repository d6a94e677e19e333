//! Tests a card by itself: tables of every depth, writes, reads and atomics through the probe, refusals, deregistration.
//!
//! Everything happens in the card's pinned memory. After every request all of the data pages are compared with what they must
//! hold, and after every round all of the tables: a byte in a wrong place is found wherever it is.

use std::collections::BTreeMap;
use std::ops::Range;

use keywalk_contract::regs::{ARRAYS, ArrayName, control, interrupt_status};
use keywalk_contract::work::{WORK_REQUEST_BYTES, bind_window, fast_register, invalidate_key};
use keywalk_contract::{
    CommandStatus, Field, MoverStatus, Operation, Right, Status, Table, WorkOpcode, WorkStatus, key, mpt_entry, probe,
    regs,
};
use keywalk_image::{BuiltRegion, PAGE_BYTES, PageList, RegionDescription, RegionKind, Rights};
use serde::Serialize;

use crate::card::differences;
use crate::engine::Identity;
use crate::probe::{Atomic, FAULTS_MAX, Fault, Outcome, PAGE_TABLE, Request};
use crate::tables::{FUNCTION, NUM_MPTS_LOG2, OBJECT_COUNT, Tables, WRITE_BT};
use crate::{Error, Host};

/// Pages of data; the rest of the memory is for tables.
const DATA_PAGES: u64 = 16;
/// Hops of a page table.
const PAGE_TABLE_HOPS: u8 = 3;
/// Hops of an MPT.
const MPT_HOPS: u8 = 3;
/// A function besides that whose tables they are, which uses the same ones.
const OTHER_FUNCTION: u8 = 0;
/// An index whose chunk is not there, whatever the hops.
const UNMAPPED: u32 = 0x180;
/// Pending interrupts that a mailbox command, an event, a lost event raise.
const COMMAND: u32 = 1 << interrupt_status::COMMAND.low;
const FAULT: u32 = 1 << interrupt_status::FAULT.low;
const FAULT_LOST: u32 = 1 << interrupt_status::FAULT_LOST.low;
/// Counters that are compared besides those of arrays.
const COUNTERS: [&str; 6] = ["requests", "errors", "faults", "faults_lost", "table_read_errors", "stray_reports"];

/// A check, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// What was wrong; `None` where it passed.
    pub failure: Option<String>,
}

/// A measured number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Clock cycles of the engine.
    pub cycles: u32,
}

/// What came of a self-test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What the card is.
    pub identity: Identity,
    /// The checks.
    pub checks: Vec<Check>,
    /// Measured on the way.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Checks that failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| check.failure.is_some()).count()
    }
}

/// What requests can reach: a region, as the host knows it.
#[derive(Clone, Debug)]
struct Target {
    key: u32,
    pd: u32,
    va: u64,
    length: u64,
    /// Virtual address of the first byte by which pages are counted: `va`, but of a zero-based region.
    origin: u64,
    /// Pages of 4 KiB, from that of the first byte on.
    pages: Vec<u64>,
}

impl Target {
    /// Bus address of a byte of the region.
    fn address(&self, va: u64) -> u64 {
        let va = self.origin + (va - self.va);
        self.pages[((va / PAGE_BYTES) - (self.origin / PAGE_BYTES)) as usize] + va % PAGE_BYTES
    }

    /// The last byte.
    fn last(&self) -> u64 {
        self.va + self.length - 1
    }

    /// An address at which an atomic may be.
    fn word(&self) -> u64 {
        (self.va + 64).next_multiple_of(8)
    }
}

/// What differs from what it must be.
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Wrong(format!("{what} is {found:x?} instead of {expected:x?}"))) }
}

/// Bytes that look random and are the same in every run.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A run.
struct Run<'h, 'c> {
    host: &'h mut Host<'c>,
    /// Where data pages are.
    data: Range<u64>,
    /// What they must hold.
    content: Vec<u8>,
    seed: u64,
    tag: u16,
    /// Bits of a tag that the card keeps.
    tag_bits: u16,
    /// Hold mode is on.
    holds: bool,
    /// Requests sent.
    sent: u64,
    /// What must have been counted since the counters were read.
    counted: BTreeMap<String, u64>,
    /// Events that must come, and those that came.
    faults: Vec<Fault>,
    came: Vec<Fault>,
    /// Events are left where they wait.
    leaves_events: bool,
    checks: Vec<Check>,
    figures: Vec<Figure>,
    progress: &'h mut dyn FnMut(&Check),
}

/// Tests a card. `progress` is told of every check.
///
/// # Errors
/// What keeps the test from being made: no card of this project, no probe, no memory. What fails is in the report.
pub fn run(host: &mut Host<'_>, seed: u64, progress: &mut dyn FnMut(&Check)) -> Result<Report, Error> {
    let identity = host.identify()?;
    let Some(probe) = identity.probe else {
        let what = format!("no probe answers at {:#x}", crate::PROBE_OFFSET);
        return Err(Error::Foreign { what: format!("{what}, without which a card cannot be tested by itself") });
    };
    if probe.buffer_bytes != probe::BUFFER_BYTES {
        let what = format!("the probe's buffer has {} bytes, expected {}", probe.buffer_bytes, probe::BUFFER_BYTES);
        return Err(Error::Foreign { what });
    }
    let room = host.card.memory()?.room();
    let data = match room.end.checked_sub(DATA_PAGES * PAGE_BYTES) {
        Some(start) if start > room.start => start..room.end,
        _ => {
            return Err(Error::Setup {
                what: format!("the card is given memory from {:#x} to {:#x}", room.start, room.end),
                advice: format!("give it more than {DATA_PAGES} pages"),
            });
        }
    };
    let mut run = Run {
        content: vec![0; (data.end - data.start) as usize],
        data: data.clone(),
        host,
        seed,
        tag: 0,
        tag_bits: u16::MAX,
        holds: false,
        sent: 0,
        counted: BTreeMap::new(),
        faults: Vec::new(),
        came: Vec::new(),
        leaves_events: false,
        checks: Vec::new(),
        figures: Vec::new(),
        progress,
    };
    // What cannot go on ends the test: its reason is the last check's.
    let _ = run.all(room.start..data.start, probe.has_work);
    Ok(Report { identity, checks: run.checks, figures: run.figures })
}

impl Run<'_, '_> {
    /// Makes a check. A failure is noted, and the test goes on; but not where the card does not answer any more.
    fn check(&mut self, name: String, test: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let result = test(self);
        let check = Check { name, failure: result.as_ref().err().map(ToString::to_string) };
        (self.progress)(&check);
        self.checks.push(check);
        match result {
            Err(error @ (Error::Timeout { .. } | Error::Silent { .. } | Error::Simulation(_))) => Err(error),
            _ => Ok(()),
        }
    }

    fn all(&mut self, room: Range<u64>, has_work: bool) -> Result<(), Error> {
        self.check("the engine is ready, and nothing is under way".into(), |run| {
            run.host.wait_idle()?;
            run.host.write(&regs::merge_bytes_max::REGISTER, regs::merge_bytes_max::REGISTER.reset)?;
            run.host.write(&regs::interrupt_enable::REGISTER, 0)?;
            run.set_hold_mode(false)?;
            for _ in 0..FAULTS_MAX {
                if run.host.take_fault()?.is_none() {
                    return Ok(());
                }
            }
            Err(Error::Wrong(format!("there are more than {FAULTS_MAX} events, with nothing under way")))
        })?;
        self.check("outcomes have the name of their request".into(), |run| {
            run.tag_bits = run.host.learn_names()?;
            Ok(())
        })?;
        for hops in 0..=MPT_HOPS {
            self.round(&room, hops, has_work)?;
        }
        Ok(())
    }

    /// Switches hold mode; all other switches are as after reset.
    fn set_hold_mode(&mut self, is_on: bool) -> Result<(), Error> {
        self.host.wait_idle()?;
        let value = control::REGISTER.reset | u32::from(is_on) << control::HOLD_MODE.low;
        self.host.write(&control::REGISTER, value)?;
        self.holds = is_on;
        expect("register `control`", &self.host.read(&control::REGISTER)?, &value)
    }

    /// Everything with an MPT of so many hops.
    fn round(&mut self, room: &Range<u64>, hops: u8, has_work: bool) -> Result<(), Error> {
        let named = |what: &str| format!("MPT of {hops} hops: {what}");
        let seed = self.seed.wrapping_add(hops.into());
        let regions = self.regions();
        let mut built = None;
        self.check(named("tables are written and handed over"), |run| {
            run.content = pattern(seed, run.content.len());
            let data = run.data.start;
            let memory = run.host.card.memory()?;
            let tables = Tables::build(memory, room.clone(), seed, hops, regions)?;
            memory.write(data, &run.content)?;
            for function in [FUNCTION, OTHER_FUNCTION] {
                let function = u32::from(function) << regs::function_map::FUNCTION.low;
                run.host.write(&regs::function_map::REGISTER, function)?;
            }
            tables.hand_over(run.host)?;
            built = Some(tables);
            // Requests fail in both ways, with every depth of page table that follows.
            run.set_hold_mode(hops % 2 == 1)
        })?;
        let Some(mut tables) = built else { return Ok(()) };
        let mut before = BTreeMap::new();
        self.check(named("entries are created, and are what was asked for"), |run| {
            before = run.counters()?;
            run.counted.clear();
            for region in tables.regions() {
                tables.create(run.host, region)?;
                let expected = tables.entry(region);
                let mut found = expected;
                run.host.card.memory()?.read(region.entry_address, &mut found)?;
                expect(&format!("the entry of region {} in memory", region.name), &found, &expected)?;
                let answer = tables.query(run.host, region)?;
                expect(&format!("the entry of region {} by QUERY_MPT", region.name), &answer, &expected)?;
            }
            Ok(())
        })?;

        if hops == 0 {
            // Before anything of the region is cached.
            let target = Target::of(&tables.regions()[3]);
            self.check("latencies can be measured".into(), |run| run.latencies(&target))?;
        }
        for (hop, region) in tables.regions()[..=usize::from(PAGE_TABLE_HOPS)].iter().enumerate() {
            let target = Target::of(region);
            let named = |what: &str| format!("MPT of {hops} hops, page table of {hop}: {what}");
            self.check(named("a write"), |run| run.write(&target, Operation::RemoteWrite))?;
            self.check(named("a read"), |run| run.read(&target, Operation::RemoteRead))?;
            // Every depth once is enough for what comes behind the translation.
            if hop == usize::from(hops) {
                self.check(named("a local write"), |run| run.write(&target, Operation::LocalWrite))?;
                self.check(named("a local read"), |run| run.read(&target, Operation::LocalRead))?;
                self.check(named("atomics"), |run| run.atomics(&target))?;
            }
        }
        if hops == 0 {
            let target = Target::of(&tables.regions()[2]);
            self.check("a write and a read of 4 KiB".into(), |run| run.whole_buffer(&target))?;
        }
        for (number, what) in [(8, "a region of pages of 16 KiB"), (9, "a zero-based region")] {
            self.check(named(what), |run| run.other_region(&Target::of(&tables.regions()[number])))?;
        }
        self.check(named("a request of no bytes, and one of another function"), |run| run.odd_ones(&tables))?;
        self.refusals(&tables, hops)?;
        self.check(named("a request whose second page is not there"), |run| run.half_there(&tables))?;
        self.check(named("commands that must fail do, and change nothing"), |run| run.wrong_commands(&tables, hops))?;
        for hop in 1..=usize::from(PAGE_TABLE_HOPS) {
            let name =
                format!("MPT of {hops} hops, page table of {hop}: deregistration: not a byte moves, nothing is kept");
            self.check(name, |run| run.deregister(&mut tables, hop))?;
        }
        if has_work {
            self.check(named("fast registration and invalidation"), |run| run.fast_registration(&mut tables))?;
            self.check(named("a window is bound and invalidated"), |run| run.window(&tables))?;
        }
        self.check(named("events came for the table errors, and no others"), |run| run.events())?;
        self.check(named("interrupts tell of events and commands, and can be cleared"), |run| run.interrupts(&tables))?;
        if hops == 0 {
            self.check("events that nobody takes are lost and counted".into(), |run| run.lose_events())?;
        }
        self.check(named("counters agree with what was sent"), |run| {
            for (name, after) in run.counters()? {
                let counted = after.wrapping_sub(before.get(&name).copied().unwrap_or(0));
                expect(&format!("counter `{name}`"), &counted, &run.counted.get(&name).copied().unwrap_or(0))?;
            }
            Ok(())
        })?;
        self.check(named("nothing but tables is where they are"), |run| {
            run.host.wait_idle()?;
            tables.compare(run.host.card.memory()?)
        })?;
        self.check(named("tables are taken away"), |run| {
            for region in tables.regions() {
                tables.destroy(run.host, region)?;
            }
            tables.take_away(run.host)?;
            let target = Target::of(&tables.regions()[1]);
            run.refused(&target.request(Operation::RemoteWrite, target.va, 8), Status::Bt0Unset, 0)?;
            run.events()?;
            run.set_hold_mode(false)
        })
    }

    /// The counters that can be told beforehand.
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, Error> {
        let mut values = BTreeMap::new();
        for name in COUNTERS {
            values.insert(name.into(), self.host.counter(name)?);
        }
        for status in Status::ALL {
            let value = self.host.counter_of(ArrayName::Statuses, status.code().into())?;
            values.insert(status_counter(*status), value);
        }
        // Their sum is the number of responses; which latency they had is the memory's doing.
        let mut responses = 0u64;
        for range in 0..ARRAYS[ArrayName::Latencies as usize].count {
            responses = responses.wrapping_add(self.host.counter_of(ArrayName::Latencies, range)?);
        }
        values.insert("latencies".into(), responses);
        for function in [OTHER_FUNCTION, FUNCTION, FUNCTION + 1] {
            for is_ok in [true, false] {
                let array = if is_ok { ArrayName::FunctionSuccesses } else { ArrayName::FunctionErrors };
                let value = self.host.counter_of(array, function.into())?;
                values.insert(function_counter(function, is_ok), value);
            }
        }
        Ok(values)
    }

    fn count(&mut self, name: impl Into<String>, times: u64) {
        *self.counted.entry(name.into()).or_default() += times;
    }

    /// The regions: four with page tables of 0 to 3 hops, one that can be read only, one with a page that is not there, one for
    /// fast registration, one that can be written only, one of large pages, a zero-based one, and a window.
    fn regions(&self) -> Vec<RegionDescription> {
        // Pages of a region are apart and out of order.
        let page = |number: u64| self.data.start + (number * 11 + 5) % DATA_PAGES * PAGE_BYTES;
        let all = Right::ALL.iter().fold(Rights::NONE, |rights, right| rights.with(*right));
        let mut regions = Vec::new();
        let mut next_page = 0;
        let mut add = |name: &str, index: u32, pages: u64, hop: u8, rights: Rights| {
            let va = 0x7f00_0000_0000 + (u64::from(index) << 32) + 0x230;
            let list = (next_page..next_page + pages).map(page).collect();
            next_page += pages;
            regions.push(RegionDescription {
                name: name.into(),
                length_bytes: pages * PAGE_BYTES - 0x230 - 0x1d3,
                va,
                pages: PageList::Explicit { addresses: list },
                pd: 0x10_0000 + index,
                rights,
                variant: index as u8 ^ 0x5a,
                index: Some(index),
                hop: Some(hop),
                ..RegionDescription::default()
            });
        };
        // Entries in several chunks.
        add("no hops", 1, 1, 0, all);
        add("1 hop", 0x45, 3, 1, all);
        add("2 hops", 0x83, 3, 2, all);
        add("3 hops", 0xc7, 3, 3, all);
        add("read only", 2, 1, 1, Rights::NONE.with(Right::RemoteRead));
        add("with a hole", 0x46, 2, 1, all);
        let write_only = Rights::NONE.with(Right::LocalWrite).with(Right::RemoteWrite);
        add("write only", 3, 1, 1, write_only);
        let write_only = regions.pop().expect("it was added");
        let hole = regions.last_mut().expect("it was added");
        hole.allow_holes = true;
        if let PageList::Explicit { addresses } = &mut hole.pages {
            addresses[1] = 0;
        }
        regions.push(RegionDescription {
            name: "fast registration".into(),
            kind: RegionKind::FrmrFree,
            pd: 0x20_0000,
            index: Some(0x101),
            ..RegionDescription::default()
        });
        regions.push(write_only);
        // Pages that others have as well: what is in them is known by address.
        let large = 4 * PAGE_BYTES;
        regions.push(RegionDescription {
            name: "pages of 16 KiB".into(),
            length_bytes: large + 0x1000,
            va: 0x7f06_0000_1230,
            page_bytes: large,
            pages: PageList::Explicit { addresses: vec![self.data.start + 2 * large, self.data.start] },
            pd: 0x10_0006,
            rights: all,
            index: Some(6),
            hop: Some(1),
            ..RegionDescription::default()
        });
        regions.push(RegionDescription {
            name: "zero-based".into(),
            length_bytes: 0x1000,
            va: 0x7f07_0000_0230,
            pages: PageList::Explicit { addresses: vec![page(9), page(4)] },
            pd: 0x10_0007,
            rights: all,
            index: Some(7),
            hop: Some(1),
            is_zero_based: true,
            ..RegionDescription::default()
        });
        regions.push(RegionDescription {
            name: "window".into(),
            kind: RegionKind::Mw,
            pd: regions[3].pd,
            index: Some(0x47),
            window_type: 2,
            ..RegionDescription::default()
        });
        regions
    }

    /// Sends a request that must end with that status.
    fn send(&mut self, request: &Request, payload: &[u8], status: Status) -> Result<Outcome, Error> {
        self.tag = self.tag.wrapping_add(1) & self.tag_bits;
        self.sent += 1;
        for name in ["requests", "latencies"] {
            self.count(name, 1);
        }
        let is_ok = status == Status::Ok;
        self.count(function_counter(request.function, is_ok), 1);
        self.count(status_counter(status), 1);
        self.count("errors", u64::from(!is_ok));
        self.count("faults", u64::from(status.names_a_table()));
        self.host.request(&Request { tag: self.tag, ..*request }, payload)
    }

    /// Compares the data pages with what they must hold.
    fn compare(&mut self) -> Result<(), Error> {
        let mut found = vec![0; self.content.len()];
        self.host.card.memory()?.read(self.data.start, &mut found)?;
        let result = differences(self.data.start, &found, &self.content);
        // What follows is judged by what is there now.
        self.content = found;
        result
    }

    fn place(&self, address: u64) -> usize {
        (address - self.data.start) as usize
    }

    /// What memory must hold at an address of a region.
    fn expected(&self, target: &Target, va: u64, length: u32) -> Vec<u8> {
        (va..va + u64::from(length)).map(|va| self.content[self.place(target.address(va))]).collect()
    }

    fn succeeded(outcome: &Outcome) -> Result<(), Error> {
        if outcome.mover == MoverStatus::Ok && outcome.status == Status::Ok && !outcome.is_bad {
            return Ok(());
        }
        let Outcome { mover, status, is_bad, .. } = outcome;
        let bad = if *is_bad { ", and its data is marked as bad" } else { "" };
        Err(Error::Wrong(format!(
            "a request that must succeed ended with {} and status {}{bad}",
            mover.name(),
            status.name()
        )))
    }

    /// Pieces of a region: one byte, a few, across the end of a page, up to its last byte.
    fn pieces(target: &Target) -> [(u64, u32); 4] {
        let page_end = (target.va | (PAGE_BYTES - 1)) + 1;
        let across = if page_end < target.last() { page_end - 70 } else { target.va + 70 };
        [(target.va, 1), (target.va + 13, 40), (across, 140), (target.last() - 64, 65)]
    }

    fn write(&mut self, target: &Target, operation: Operation) -> Result<(), Error> {
        for (va, length) in Self::pieces(target) {
            self.write_piece(target, operation, va, length)?;
        }
        Ok(())
    }

    fn write_piece(&mut self, target: &Target, operation: Operation, va: u64, length: u32) -> Result<(), Error> {
        let bytes = pattern(va ^ self.sent << 48, length as usize);
        let outcome = self.send(&target.request(operation, va, length), &bytes, Status::Ok)?;
        Self::succeeded(&outcome)?;
        for (va, byte) in (va..).zip(bytes) {
            let place = self.place(target.address(va));
            self.content[place] = byte;
        }
        self.compare()
    }

    fn read(&mut self, target: &Target, operation: Operation) -> Result<(), Error> {
        for (va, length) in Self::pieces(target) {
            self.read_piece(target, operation, va, length)?;
        }
        self.compare()
    }

    fn read_piece(&mut self, target: &Target, operation: Operation, va: u64, length: u32) -> Result<u32, Error> {
        let outcome = self.send(&target.request(operation, va, length), &[], Status::Ok)?;
        Self::succeeded(&outcome)?;
        if outcome.cycles == 0 {
            return Err(Error::Wrong("a read took no clock cycle".into()));
        }
        expect("what was read", &outcome.data, &self.expected(target, va, length))?;
        Ok(outcome.cycles)
    }

    fn whole_buffer(&mut self, target: &Target) -> Result<(), Error> {
        let va = target.va + 1001;
        self.write_piece(target, Operation::RemoteWrite, va, probe::BUFFER_BYTES)?;
        self.read_piece(target, Operation::RemoteRead, va, probe::BUFFER_BYTES).map(|_| ())
    }

    /// A read for which an entry and three levels of a page table are read from host memory, and one for which nothing is.
    fn latencies(&mut self, target: &Target) -> Result<(), Error> {
        let va = target.va + 128;
        for name in ["a first read of 64 bytes", "the same again"] {
            let cycles = self.read_piece(target, Operation::RemoteRead, va, 64)?;
            self.figures.push(Figure { name: name.into(), cycles });
        }
        Ok(())
    }

    fn atomics(&mut self, target: &Target) -> Result<(), Error> {
        let va = target.word();
        let place = self.place(target.address(va));
        let present = |run: &Self| {
            let (words, _) = run.content[place..place + 8].as_chunks();
            u64::from_le_bytes(words[0])
        };
        let old = present(self);
        let steps = [
            (Atomic::Add(0x0123_4567_89ab_cdef), old.wrapping_add(0x0123_4567_89ab_cdef)),
            (Atomic::Swap { compare: !old, value: 1 }, old.wrapping_add(0x0123_4567_89ab_cdef)),
            (Atomic::Swap { compare: old.wrapping_add(0x0123_4567_89ab_cdef), value: !old }, !old),
        ];
        for (atomic, new) in steps {
            let before = present(self);
            let request = Request { atomic: Some(atomic), ..target.request(Operation::RemoteAtomic, va, 8) };
            let outcome = self.send(&request, &[], Status::Ok)?;
            Self::succeeded(&outcome)?;
            expect(&format!("the old value of {atomic:x?}"), &outcome.data, &before.to_le_bytes().to_vec())?;
            self.content[place..place + 8].copy_from_slice(&new.to_le_bytes());
            self.compare()?;
        }
        Ok(())
    }

    /// Sends a request that must be refused with that status, where that belongs to a table at read `hop`, for the address
    /// `va`.
    fn send_refused(&mut self, request: &Request, status: Status, hop: u8, va: u64) -> Result<Outcome, Error> {
        let payload = pattern(self.sent, request.length as usize);
        let is_write = [Operation::LocalWrite, Operation::RemoteWrite].contains(&request.operation);
        let outcome = self.send(request, if is_write { &payload } else { &[] }, status)?;
        if status.names_a_table() {
            let is_page_table = status >= Status::MtrIndex;
            let table = if is_page_table { PAGE_TABLE } else { Table::Mpt.name() };
            self.faults.push(Fault {
                tag: self.tag,
                function: request.function,
                status: status.name().into(),
                table: table.into(),
                hop,
                is_context: false,
                index: request.key.rotate_right(key::ROTATE_BITS) & ((1 << NUM_MPTS_LOG2) - 1),
                va,
            });
            if !self.leaves_events {
                self.take_events()?;
            }
        }
        if outcome.mover != MoverStatus::Refused || outcome.status != status {
            let (mover, found) = (outcome.mover.name(), outcome.status.name());
            let what = format!("it ended with {mover} and status {found} instead of refused and {}", status.name());
            return Err(Error::Wrong(what));
        }
        if !is_write && !outcome.is_bad {
            return Err(Error::Wrong("it was refused, and what was read is not marked as bad".into()));
        }
        Ok(outcome)
    }

    /// The same of one that must change and read nothing.
    fn refused(&mut self, request: &Request, status: Status, hop: u8) -> Result<(), Error> {
        let outcome = self.send_refused(request, status, hop, request.va)?;
        if !outcome.data.is_empty() {
            return Err(Error::Wrong(format!("it was refused, and {} bytes were read", outcome.data.len())));
        }
        self.compare()
    }

    fn refusals(&mut self, tables: &Tables, hops: u8) -> Result<(), Error> {
        let target = Target::of(&tables.regions()[2]);
        let read_only = Target::of(&tables.regions()[4]);
        let write_only = Target::of(&tables.regions()[7]);
        let hole = Target::of(&tables.regions()[5]);
        let keyed =
            |index: u32| Request { key: key::of_index(index), ..target.request(Operation::RemoteRead, target.va, 8) };
        let (unmapped, unmapped_hop) = unmapped(hops);
        let write = target.request(Operation::RemoteWrite, target.va, 8);
        let atomic =
            Request { atomic: Some(Atomic::Add(1)), ..target.request(Operation::RemoteAtomic, target.word(), 8) };
        let cases = [
            ("another variant of the key", Request { key: write.key ^ 0xff, ..write }, Status::EntryKey),
            ("the key of an entry that is not there", keyed(5), Status::EntryState),
            ("a key whose chunk is not there", keyed(UNMAPPED), unmapped),
            ("a key beyond the last one", keyed(OBJECT_COUNT), Status::IndexOutOfRange),
            ("another protection domain", Request { pd: write.pd ^ 1, ..write }, Status::ProtectionDomain),
            (
                "a write without the right",
                read_only.request(Operation::RemoteWrite, read_only.va, 8),
                Status::AccessRight,
            ),
            (
                "a local write without the right",
                read_only.request(Operation::LocalWrite, read_only.va, 8),
                Status::AccessRight,
            ),
            (
                "an atomic without the right",
                Request { key: read_only.key, pd: read_only.pd, va: read_only.word(), ..atomic },
                Status::AccessRight,
            ),
            (
                "a read without the right",
                write_only.request(Operation::RemoteRead, write_only.va, 8),
                Status::AccessRight,
            ),
            ("a byte before the region", Request { va: write.va - 1, ..write }, Status::Bounds),
            ("a byte behind the region", Request { va: target.last() - 6, ..write }, Status::Bounds),
            ("a request beyond the last address", Request { va: u64::MAX - 3, ..write }, Status::Bounds),
            ("an atomic that is not aligned", Request { va: atomic.va + 4, ..atomic }, Status::AtomicShape),
            (
                "a page that is not there",
                hole.request(Operation::RemoteWrite, hole.last() - 20, 8),
                Status::MtrNotPresent,
            ),
        ];
        for (name, request, status) in cases {
            let hop = if status == unmapped { unmapped_hop } else { 0 };
            self.check(format!("MPT of {hops} hops, refused: {name}"), |run| run.refused(&request, status, hop))?;
        }
        Ok(())
    }

    /// Accesses inside of a region, and beside it.
    fn other_region(&mut self, target: &Target) -> Result<(), Error> {
        self.write(target, Operation::RemoteWrite)?;
        self.read(target, Operation::RemoteRead)?;
        for va in [target.va.wrapping_sub(1), target.last()] {
            self.refused(&target.request(Operation::RemoteWrite, va, 2), Status::Bounds, 0)?;
        }
        Ok(())
    }

    /// A request of no bytes succeeds, whatever its key; one of another function is carried out as that function's.
    fn odd_ones(&mut self, tables: &Tables) -> Result<(), Error> {
        let target = Target::of(&tables.regions()[1]);
        let nothing = Request { key: !target.key, ..target.request(Operation::RemoteRead, target.va, 0) };
        let outcome = self.send(&nothing, &[], Status::Ok)?;
        Self::succeeded(&outcome)?;
        expect("what was read by a request of no bytes", &outcome.data, &Vec::new())?;
        let other = Request { function: OTHER_FUNCTION, ..target.request(Operation::RemoteRead, target.va, 8) };
        let outcome = self.send(&other, &[], Status::Ok)?;
        Self::succeeded(&outcome)?;
        expect("what was read by another function", &outcome.data, &self.expected(&target, target.va, 8))?;
        let other = Request { key: key::of_index(OBJECT_COUNT), ..other };
        self.refused(&other, Status::IndexOutOfRange, 0)
    }

    /// With hold mode not a byte moves, without it what lies before the hole does.
    fn half_there(&mut self, tables: &Tables) -> Result<(), Error> {
        let target = Target::of(&tables.regions()[5]);
        let end = (target.va | (PAGE_BYTES - 1)) + 1;
        let moved = if self.holds { 0 } else { 30 };
        let request = |operation| target.request(operation, end - 30, 60);
        let payload = pattern(self.sent, 60);
        self.send_refused(&request(Operation::RemoteWrite), Status::MtrNotPresent, 0, end)?;
        let place = self.place(target.address(end - 30));
        self.content[place..place + moved].copy_from_slice(&payload[..moved]);
        self.compare()?;
        let outcome = self.send_refused(&request(Operation::RemoteRead), Status::MtrNotPresent, 0, end)?;
        expect("what was read of the page before", &outcome.data, &self.expected(&target, end - 30, moved as u32))
    }

    /// Commands with wrong parameters; afterwards an entry is still what it was.
    fn wrong_commands(&mut self, tables: &Tables, hops: u8) -> Result<(), Error> {
        let (region, mailbox) = (&tables.regions()[1], tables.mailbox());
        let zeros = [0; mpt_entry::ENTRY_BYTES as usize];
        self.host.card.memory()?.write(mailbox, &zeros)?;
        let mut cases = vec![
            ("QUERY_MPT", OBJECT_COUNT, mailbox, CommandStatus::IndexOutOfRange),
            ("QUERY_MPT", UNMAPPED, mailbox, CommandStatus::Unmapped),
            ("QUERY_MPT", region.index, mailbox + 8, CommandStatus::AddressIllegal),
            ("CREATE_MPT", OBJECT_COUNT, mailbox, CommandStatus::IndexOutOfRange),
            ("CREATE_MPT", UNMAPPED, mailbox, CommandStatus::Unmapped),
            ("CREATE_MPT", region.index, mailbox + 8, CommandStatus::AddressIllegal),
            ("CREATE_MPT", region.index, 0, CommandStatus::AddressIllegal),
            ("DESTROY_MPT", OBJECT_COUNT, 0, CommandStatus::IndexOutOfRange),
            (WRITE_BT[0], region.index, mailbox + 64, CommandStatus::AddressIllegal),
        ];
        if let Some(command) = WRITE_BT.get(usize::from(hops) + 1) {
            cases.push((command, region.index, mailbox, CommandStatus::StepTooLarge));
        }
        for (command, tag, parameter, status) in cases {
            let ended = self.host.command(FUNCTION, command, tag, parameter, parameter)?;
            expect(&format!("how {command} of {tag:#x} at {parameter:#x} ends"), &ended.name(), &status.name())?;
            // Where the table was looked into in vain there is an event as well, of no request.
            let (status, hop) = match status {
                CommandStatus::IndexOutOfRange => (Status::IndexOutOfRange, 0),
                CommandStatus::Unmapped => unmapped(hops),
                _ => continue,
            };
            self.count("faults", 1);
            self.faults.push(Fault {
                tag: 0,
                function: FUNCTION,
                status: status.name().into(),
                table: Table::Mpt.name().into(),
                hop,
                is_context: true,
                index: tag,
                va: 0,
            });
            self.take_events()?;
        }
        let mut found = [0xff; mpt_entry::ENTRY_BYTES as usize];
        self.host.card.memory()?.read(mailbox, &mut found)?;
        expect("the buffer of queries that failed", &found, &zeros)?;
        expect("the entry behind commands that failed", &tables.query(self.host, region)?, &tables.entry(region))?;
        let target = Target::of(region);
        self.read_piece(&target, Operation::RemoteRead, target.va, 8).map(|_| ())
    }

    /// Takes a region away and gives it other pages: what was found before must be forgotten at every level.
    fn deregister(&mut self, tables: &mut Tables, number: usize) -> Result<(), Error> {
        let region = tables.regions()[number].clone();
        let mut target = Target::of(&region);
        self.write_piece(&target, Operation::RemoteWrite, target.va + 8, 24)?;
        tables.destroy(self.host, &region)?;
        for operation in [Operation::RemoteWrite, Operation::RemoteRead] {
            self.refused(&target.request(operation, target.va + 8, 24), Status::EntryState, 0)?;
        }
        let mut entry = [0; mpt_entry::ENTRY_BYTES as usize];
        self.host.card.memory()?.read(region.entry_address, &mut entry)?;
        expect("the state of the destroyed entry", &mpt_entry::ST.get(&entry), &0)?;
        target.pages.rotate_left(1);
        tables.replace_pages(self.host.card.memory()?, &region, &target.pages)?;
        tables.create(self.host, &region)?;
        self.read_piece(&target, Operation::RemoteRead, target.va + 8, 24)?;
        self.write(&target, Operation::RemoteWrite)?;
        self.read(&target, Operation::RemoteRead)
    }

    fn fast_registration(&mut self, tables: &mut Tables) -> Result<(), Error> {
        let region = tables.regions()[6].clone();
        // The pages of another region, and their table in the region's own root.
        let mut pages = Target::of(&tables.regions()[3]).pages;
        let mut last = None;
        for variant in [0x11, 0x12] {
            // In another order each time.
            pages.rotate_left(1);
            for (address, page) in (region.root..).step_by(8).zip(&pages) {
                tables.write(self.host.card.memory()?, address, &page.to_le_bytes())?;
            }
            let target = Target {
                key: key::of_index(region.index) | variant,
                pd: region.pd,
                va: 0x5_0000_0000 + 0x40 * u64::from(variant),
                length: 2 * PAGE_BYTES,
                origin: 0x5_0000_0000 + 0x40 * u64::from(variant),
                pages: pages.clone(),
            };
            let fields = [
                (fast_register::OPCODE, WorkOpcode::FastRegister as u64),
                (fast_register::PBL_BA, region.root),
                (fast_register::LENGTH, target.length),
                (fast_register::KEY, target.key.into()),
                (fast_register::VA, target.va),
                (fast_register::PBL_SIZE, pages.len() as u64),
                (fast_register::RR_EN, 1),
                (fast_register::RW_EN, 1),
                (fast_register::LW_EN, 1),
            ];
            self.work("FAST_REG_PMR of a user", false, region.pd, &fields, WorkStatus::NotPrivileged)?;
            let other = region.pd ^ 1;
            self.work("FAST_REG_PMR of another domain", true, other, &fields, WorkStatus::ProtectionDomain)?;
            self.work("FAST_REG_PMR", true, region.pd, &fields, WorkStatus::Ok)?;
            self.work("FAST_REG_PMR of what is registered", true, region.pd, &fields, WorkStatus::State)?;
            self.write_piece(&target, Operation::RemoteWrite, target.va + 4000, 200)?;
            self.read_piece(&target, Operation::RemoteRead, target.va + 4000, 200)?;
            if let Some(old) = last.replace(target.clone()) {
                let old: Target = old;
                self.refused(&old.request(Operation::RemoteWrite, old.va, 8), Status::EntryKey, 0)?;
            }
            let fields = |key: u32| {
                [(invalidate_key::OPCODE, WorkOpcode::LocalInvalidate as u64), (invalidate_key::KEY, key.into())]
            };
            let (invalid, wrong) = (fields(target.key), fields(target.key ^ 0xff));
            self.work("LOCAL_INV of another key", true, region.pd, &wrong, WorkStatus::Key)?;
            self.read_piece(&target, Operation::RemoteRead, target.va, 8)?;
            self.work("LOCAL_INV", true, region.pd, &invalid, WorkStatus::Ok)?;
            self.refused(&target.request(Operation::RemoteWrite, target.va, 8), Status::EntryState, 0)?;
            self.work("LOCAL_INV of what is invalid", true, region.pd, &invalid, WorkStatus::State)?;
        }
        Ok(())
    }

    /// A window of type 2 over a part of a region: its own bounds, rights and queue pair count, and the region stays while it is
    /// bound.
    fn window(&mut self, tables: &Tables) -> Result<(), Error> {
        let (region, window) = (&tables.regions()[3], &tables.regions()[10]);
        let parent = Target::of(region);
        let va = parent.va + PAGE_BYTES + 0x100;
        // The region's pages are others since it was taken away and came back.
        let mut pages = parent.pages;
        pages.rotate_left(1);
        let target = Target {
            key: key::of_index(window.index) | 0x21,
            pd: window.pd,
            va,
            length: PAGE_BYTES + 0x123,
            origin: va,
            pages: pages.split_off(1),
        };
        let fields = [
            (bind_window::OPCODE, WorkOpcode::BindWindow as u64),
            (bind_window::NEW_KEY, target.key.into()),
            (bind_window::LENGTH, target.length),
            (bind_window::PARENT_KEY, parent.key.into()),
            (bind_window::VA, target.va),
            (bind_window::RR_EN, 1),
            (bind_window::RW_EN, 1),
        ];
        self.work("BIND_MW", true, window.pd, &fields, WorkStatus::Ok)?;
        self.other_region(&target)?;
        let read = target.request(Operation::RemoteRead, target.va, 8);
        self.refused(&Request { qpn: read.qpn + 1, ..read }, Status::WindowQueuePair, 0)?;
        self.refused(&Request { operation: Operation::LocalRead, ..read }, Status::WindowLocal, 0)?;
        let atomic =
            Request { atomic: Some(Atomic::Add(1)), ..target.request(Operation::RemoteAtomic, target.word(), 8) };
        self.refused(&atomic, Status::AccessRight, 0)?;
        let ended = self.host.command(FUNCTION, "DESTROY_MPT", region.index, 0, 0)?;
        expect("how DESTROY_MPT of a region with a window ends", &ended.name(), &CommandStatus::WindowsBound.name())?;
        self.read_piece(&target, Operation::RemoteRead, target.va, 8)?;
        let fields =
            [(invalidate_key::OPCODE, WorkOpcode::LocalInvalidate as u64), (invalidate_key::KEY, target.key.into())];
        self.work("LOCAL_INV of a window", true, window.pd, &fields, WorkStatus::Ok)?;
        self.refused(&read, Status::EntryState, 0)
    }

    fn work(
        &mut self,
        name: &str,
        is_privileged: bool,
        pd: u32,
        fields: &[(Field, u64)],
        status: WorkStatus,
    ) -> Result<(), Error> {
        let mut wqe = [0; WORK_REQUEST_BYTES];
        for (field, value) in fields {
            field.put(&mut wqe, *value).map_err(|error| Error::Wrong(format!("{name}: {error}")))?;
        }
        let ended = self.host.work(FUNCTION, is_privileged, pd, 7, &wqe)?;
        if ended == status {
            return Ok(());
        }
        let (ended, meaning, status) = (ended.name(), ended.doc().trim(), status.name());
        Err(Error::Wrong(format!("{name} ended with `{ended}` instead of `{status}`: {meaning}")))
    }

    /// Waits for interrupts to be pending: all of `bits`, and no others.
    fn pending(&mut self, bits: u32) -> Result<(), Error> {
        let register = &interrupt_status::REGISTER;
        let came = self.host.poll(0, register, "a pending interrupt", |value| value & bits == bits);
        came.map_err(|error| match error {
            // The card answers all the same: the test goes on.
            Error::Timeout { .. } => Error::Wrong(error.to_string()),
            other => other,
        })?;
        expect("register `interrupt_status`", &self.host.read(register)?, &bits)
    }

    /// Each cause raises its bit, by itself, and writing a one clears that bit alone.
    fn interrupts(&mut self, tables: &Tables) -> Result<(), Error> {
        let register = &interrupt_status::REGISTER;
        self.host.write(register, u32::MAX)?;
        self.pending(0)?;
        let region = &tables.regions()[1];
        tables.query(self.host, region)?;
        self.pending(0)?;
        self.host.wants_interrupt = true;
        let asked = tables.query(self.host, region);
        self.host.wants_interrupt = false;
        asked?;
        self.pending(COMMAND)?;
        let target = Target::of(region);
        let request =
            Request { key: key::of_index(OBJECT_COUNT), ..target.request(Operation::RemoteRead, target.va, 8) };
        self.refused(&request, Status::IndexOutOfRange, 0)?;
        self.pending(COMMAND | FAULT)?;
        self.events()?;
        self.host.write(register, FAULT)?;
        self.pending(COMMAND)?;
        self.host.write(register, COMMAND)?;
        self.pending(0)
    }

    /// Fails requests until an event is lost: those before it wait and come, and the next one comes again.
    fn lose_events(&mut self) -> Result<(), Error> {
        let request = Request {
            tag: 0,
            function: FUNCTION,
            operation: Operation::RemoteRead,
            key: key::of_index(OBJECT_COUNT),
            pd: 0,
            qpn: 7,
            va: 0,
            length: 8,
            atomic: None,
        };
        let before = self.host.counter("faults_lost")?;
        let mut lost = 0;
        self.leaves_events = true;
        for _ in 0..FAULTS_MAX {
            self.refused(&request, Status::IndexOutOfRange, 0)?;
            self.host.wait_idle()?;
            lost = self.host.counter("faults_lost")?.wrapping_sub(before);
            if lost > 0 {
                break;
            }
        }
        self.leaves_events = false;
        expect("counter `faults_lost` after the first event too many", &lost, &1)?;
        self.faults.pop();
        *self.counted.entry("faults".into()).or_default() -= 1;
        self.count("faults_lost", 1);
        self.pending(FAULT | FAULT_LOST)?;
        self.events()?;
        self.host.write(&interrupt_status::REGISTER, FAULT | FAULT_LOST)?;
        self.refused(&request, Status::IndexOutOfRange, 0)?;
        self.pending(FAULT)?;
        self.events()
    }

    /// Takes the events that wait.
    fn take_events(&mut self) -> Result<(), Error> {
        for _ in 0..FAULTS_MAX {
            match self.host.take_fault()? {
                Some(fault) => self.came.push(fault),
                None => return Ok(()),
            }
        }
        Err(Error::Wrong(format!("more than {FAULTS_MAX} events came for one request")))
    }

    /// Compares the events: there must be one for every table error, in order, and no other.
    fn events(&mut self) -> Result<(), Error> {
        self.take_events()?;
        let mut came = std::mem::take(&mut self.came).into_iter();
        for expected in std::mem::take(&mut self.faults) {
            let (tag, status) = (expected.tag, &expected.status);
            match came.next() {
                Some(found) => expect(&format!("the event of request {tag:#x}"), &found, &expected)?,
                None => return Err(Error::Wrong(format!("no event came for request {tag:#x}, {status}"))),
            }
        }
        match came.next() {
            None => Ok(()),
            Some(other) => Err(Error::Wrong(format!("an event came that belongs to nothing: {other:x?}"))),
        }
    }
}

/// How a lookup of [`UNMAPPED`] fails, and at which read: the pointer to the chunk is the last one of the way, or there is none
/// and the slot is not set.
fn unmapped(hops: u8) -> (Status, u8) {
    if hops == 0 { (Status::Bt0Unset, 0) } else { (Status::HemPointerZero, hops) }
}

fn status_counter(status: Status) -> String {
    format!("status_{}", status.name())
}

fn function_counter(function: u8, is_ok: bool) -> String {
    format!("function_{}_{function}", if is_ok { "successes" } else { "errors" })
}

impl Target {
    /// The region as it was built.
    fn of(region: &BuiltRegion) -> Self {
        let page_bytes = 1 << region.pages.page_shift();
        let first = region.va % page_bytes / PAGE_BYTES;
        let pages = (0..region.pages.count()).flat_map(|page| {
            let address = region.pages.get(page).unwrap_or(0);
            (address..address + page_bytes).step_by(PAGE_BYTES as usize)
        });
        Self {
            key: region.key,
            pd: region.pd,
            va: if region.is_zero_based { 0 } else { region.va },
            length: region.length_bytes,
            origin: region.va,
            pages: pages.skip(first as usize).collect(),
        }
    }

    /// A request of the region.
    fn request(&self, operation: Operation, va: u64, length: u32) -> Request {
        Request { tag: 0, function: FUNCTION, operation, key: self.key, pd: self.pd, qpn: 7, va, length, atomic: None }
    }
}
