//! Tests a card by itself: tables of every depth, writes, reads and atomics through the probe, refusals, deregistration.
//!
//! Everything happens in the card's pinned memory. After every request all of the data pages are compared with what they must
//! hold: a byte in a wrong place is found wherever it is.

use std::ops::Range;

use keywalk_contract::work::{WORK_REQUEST_BYTES, fast_register, invalidate_key};
use keywalk_contract::{
    Field, MoverStatus, Operation, Right, Status, WorkOpcode, WorkStatus, key, mpt_entry, probe, regs,
};
use keywalk_image::{BuiltRegion, PAGE_BYTES, PageList, RegionDescription, RegionKind, Rights};
use serde::Serialize;

use crate::engine::Identity;
use crate::probe::{Atomic, Fault, Outcome, Request};
use crate::tables::{FUNCTION, OBJECT_COUNT, Tables};
use crate::{Error, Host};

/// Pages of data; the rest of the memory is for tables.
const DATA_PAGES: u64 = 16;
/// Hops of a page table.
const PAGE_TABLE_HOPS: u8 = 3;
/// Hops of an MPT.
const MPT_HOPS: u8 = 3;
/// Events that are waiting from before, at most: more than an engine holds.
const OLD_FAULTS_MAX: u32 = 4096;

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
    /// Pages of 4 KiB.
    pages: Vec<u64>,
}

impl Target {
    /// Bus address of a byte of the region.
    fn address(&self, va: u64) -> u64 {
        self.pages[((va / PAGE_BYTES) - (self.va / PAGE_BYTES)) as usize] + va % PAGE_BYTES
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
    /// Requests sent, and those of them that had to be refused, since the counters were read.
    sent: u64,
    refused: u64,
    /// Events that must come.
    faults: Vec<(u16, Status)>,
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
    let data = room.end - DATA_PAGES * PAGE_BYTES..room.end;
    let mut run = Run {
        content: vec![0; (data.end - data.start) as usize],
        data: data.clone(),
        host,
        seed,
        tag: 0,
        sent: 0,
        refused: 0,
        faults: Vec::new(),
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
            run.host.write(&regs::control::REGISTER, regs::control::REGISTER.reset)?;
            run.host.wait_idle()?;
            for _ in 0..OLD_FAULTS_MAX {
                if run.host.take_fault()?.is_none() {
                    return Ok(());
                }
            }
            Err(Error::Wrong(format!("there are more than {OLD_FAULTS_MAX} events, with nothing under way")))
        })?;
        for hops in 0..=MPT_HOPS {
            self.round(&room, hops, has_work)?;
        }
        Ok(())
    }

    /// Everything with an MPT of so many hops.
    fn round(&mut self, room: &Range<u64>, hops: u8, has_work: bool) -> Result<(), Error> {
        let named = |what: &str| format!("MPT of {hops} hops: {what}");
        let seed = self.seed + u64::from(hops);
        let regions = self.regions();
        let mut built = None;
        self.check(named("tables are written and handed over"), |run| {
            run.content = pattern(seed, run.content.len());
            let data = run.data.start;
            let memory = run.host.card.memory()?;
            let tables = Tables::build(memory, room.clone(), seed, hops, regions)?;
            memory.write(data, &run.content)?;
            tables.hand_over(run.host)?;
            built = Some(tables);
            Ok(())
        })?;
        let Some(tables) = built else { return Ok(()) };
        let counted = ["requests", "errors"];
        let mut before = [0; 2];
        self.check(named("entries are created, and are what was asked for"), |run| {
            before = run.counters(counted)?;
            (run.sent, run.refused) = (0, 0);
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
            self.check("latencies can be measured".into(), |run| run.latencies(&target))?;
        }
        self.refusals(&tables, hops)?;
        self.check(named("deregistration: refused from then on, and not a byte moves"), |run| run.deregister(&tables))?;
        if has_work {
            self.check(named("fast registration and invalidation"), |run| run.fast_registration(&tables))?;
        }
        self.check(named("events came for the table errors, and no others"), |run| run.events())?;
        self.check(named("counters agree with what was sent"), |run| {
            let after = run.counters(counted)?;
            expect("counter `requests`", &(after[0].wrapping_sub(before[0])), &run.sent)?;
            expect("counter `errors`", &(after[1].wrapping_sub(before[1])), &run.refused)
        })?;
        self.check(named("tables are taken away"), |run| {
            for region in tables.regions() {
                tables.destroy(run.host, region)?;
            }
            tables.take_away(run.host)?;
            let target = Target::of(&tables.regions()[1]);
            run.refused(&target.request(Operation::RemoteWrite, target.va, 8), Status::Bt0Unset)?;
            run.events()?;
            run.host.wait_idle()
        })
    }

    fn counters(&mut self, names: [&str; 2]) -> Result<[u64; 2], Error> {
        Ok([self.host.counter(names[0])?, self.host.counter(names[1])?])
    }

    /// The regions: four with page tables of 0 to 3 hops, one without the rights to change anything, one with a page that is
    /// not there, one for fast registration.
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
        regions
    }

    /// Sends a request and compares what must not have changed.
    fn send(&mut self, request: &Request, payload: &[u8]) -> Result<Outcome, Error> {
        self.tag = self.tag.wrapping_add(1);
        self.sent += 1;
        let outcome = self.host.request(&Request { tag: self.tag, ..*request }, payload)?;
        Ok(outcome)
    }

    /// Compares the data pages with what they must hold.
    fn compare(&mut self) -> Result<(), Error> {
        let mut found = vec![0; self.content.len()];
        self.host.card.memory()?.read(self.data.start, &mut found)?;
        let differing: Vec<_> = (0..found.len()).filter(|at| found[*at] != self.content[*at]).collect();
        let Some(first) = differing.first() else { return Ok(()) };
        let what = format!(
            "{} bytes of memory differ, the first at {:#x}, which is {:#04x} instead of {:#04x}",
            differing.len(),
            self.data.start + *first as u64,
            found[*first],
            self.content[*first]
        );
        // What follows is judged by what is there now.
        self.content = found;
        Err(Error::Wrong(what))
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
        let outcome = self.send(&target.request(operation, va, length), &bytes)?;
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
        let outcome = self.send(&target.request(operation, va, length), &[])?;
        Self::succeeded(&outcome)?;
        expect("what was read", &outcome.data, &self.expected(target, va, length))?;
        Ok(outcome.cycles)
    }

    fn whole_buffer(&mut self, target: &Target) -> Result<(), Error> {
        let va = target.va + 1001;
        self.write_piece(target, Operation::RemoteWrite, va, probe::BUFFER_BYTES)?;
        self.read_piece(target, Operation::RemoteRead, va, probe::BUFFER_BYTES).map(|_| ())
    }

    fn latencies(&mut self, target: &Target) -> Result<(), Error> {
        let va = target.va + 128;
        for name in ["a read of 64 bytes", "the same again"] {
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
            let outcome = self.send(&request, &[])?;
            Self::succeeded(&outcome)?;
            expect(&format!("the old value of {atomic:x?}"), &outcome.data, &before.to_le_bytes().to_vec())?;
            self.content[place..place + 8].copy_from_slice(&new.to_le_bytes());
            self.compare()?;
        }
        Ok(())
    }

    /// Sends a request that must be refused with that status; nothing may change.
    fn refused(&mut self, request: &Request, status: Status) -> Result<(), Error> {
        let payload = pattern(self.sent, request.length as usize);
        let is_write = [Operation::LocalWrite, Operation::RemoteWrite].contains(&request.operation);
        let outcome = self.send(request, if is_write { &payload } else { &[] })?;
        self.refused += 1;
        if status.names_a_table() {
            self.faults.push((self.tag, status));
        }
        if outcome.mover != MoverStatus::Refused || outcome.status != status {
            let (mover, found) = (outcome.mover.name(), outcome.status.name());
            let what = format!("it ended with {mover} and status {found} instead of refused and {}", status.name());
            return Err(Error::Wrong(what));
        }
        if !outcome.data.is_empty() {
            return Err(Error::Wrong(format!("it was refused, and {} bytes were read", outcome.data.len())));
        }
        self.compare()
    }

    fn refusals(&mut self, tables: &Tables, hops: u8) -> Result<(), Error> {
        let target = Target::of(&tables.regions()[2]);
        let read_only = Target::of(&tables.regions()[4]);
        let hole = Target::of(&tables.regions()[5]);
        let keyed =
            |index: u32| Request { key: key::of_index(index), ..target.request(Operation::RemoteRead, target.va, 8) };
        let unmapped = if hops == 0 { Status::Bt0Unset } else { Status::HemPointerZero };
        let write = target.request(Operation::RemoteWrite, target.va, 8);
        let atomic =
            Request { atomic: Some(Atomic::Add(1)), ..target.request(Operation::RemoteAtomic, target.word(), 8) };
        let cases = [
            ("another variant of the key", Request { key: write.key ^ 0xff, ..write }, Status::EntryKey),
            ("the key of an entry that is not there", keyed(5), Status::EntryState),
            ("a key whose chunk is not there", keyed(0x180), unmapped),
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
            ("a byte before the region", Request { va: write.va - 1, ..write }, Status::Bounds),
            ("a byte behind the region", Request { va: target.last() - 6, ..write }, Status::Bounds),
            ("an atomic that is not aligned", Request { va: atomic.va + 4, ..atomic }, Status::AtomicShape),
            (
                "a page that is not there",
                hole.request(Operation::RemoteWrite, hole.last() - 20, 8),
                Status::MtrNotPresent,
            ),
        ];
        for (name, request, status) in cases {
            self.check(format!("MPT of {hops} hops, refused: {name}"), |run| run.refused(&request, status))?;
        }
        Ok(())
    }

    fn deregister(&mut self, tables: &Tables) -> Result<(), Error> {
        let region = &tables.regions()[1];
        let target = Target::of(region);
        self.write_piece(&target, Operation::RemoteWrite, target.va + 8, 24)?;
        tables.destroy(self.host, region)?;
        for operation in [Operation::RemoteWrite, Operation::RemoteRead] {
            self.refused(&target.request(operation, target.va + 8, 24), Status::EntryState)?;
        }
        let mut entry = [0; mpt_entry::ENTRY_BYTES as usize];
        self.host.card.memory()?.read(region.entry_address, &mut entry)?;
        expect("the state of the destroyed entry", &mpt_entry::ST.get(&entry), &0)?;
        tables.create(self.host, region)?;
        self.read_piece(&target, Operation::RemoteRead, target.va + 8, 24).map(|_| ())
    }

    fn fast_registration(&mut self, tables: &Tables) -> Result<(), Error> {
        let region = &tables.regions()[6];
        // The pages of another region, in another order, and their table in the region's own root.
        let pages: Vec<u64> = Target::of(&tables.regions()[3]).pages.into_iter().rev().collect();
        for (address, page) in (region.root..).step_by(8).zip(&pages) {
            self.host.card.memory()?.write(address, &page.to_le_bytes())?;
        }
        let mut last = None;
        for variant in [0x11, 0x12] {
            let target = Target {
                key: key::of_index(region.index) | variant,
                pd: region.pd,
                va: 0x5_0000_0000 + 0x40 * u64::from(variant),
                length: 2 * PAGE_BYTES,
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
            self.work("FAST_REG_PMR", region.pd, &fields)?;
            self.write_piece(&target, Operation::RemoteWrite, target.va + 4000, 200)?;
            self.read_piece(&target, Operation::RemoteRead, target.va + 4000, 200)?;
            if let Some(old) = last.replace(target.clone()) {
                let old: Target = old;
                self.refused(&old.request(Operation::RemoteWrite, old.va, 8), Status::EntryKey)?;
            }
            let fields = [
                (invalidate_key::OPCODE, WorkOpcode::LocalInvalidate as u64),
                (invalidate_key::KEY, target.key.into()),
            ];
            self.work("LOCAL_INV", region.pd, &fields)?;
            self.refused(&target.request(Operation::RemoteWrite, target.va, 8), Status::EntryState)?;
        }
        Ok(())
    }

    fn work(&mut self, name: &str, pd: u32, fields: &[(Field, u64)]) -> Result<(), Error> {
        let mut wqe = [0; WORK_REQUEST_BYTES];
        for (field, value) in fields {
            field.put(&mut wqe, *value).map_err(|error| Error::Wrong(format!("{name}: {error}")))?;
        }
        match self.host.work(FUNCTION, pd, 7, &wqe)? {
            WorkStatus::Ok => Ok(()),
            status => Err(Error::Wrong(format!("{name} ended with `{}`: {}", status.name(), status.doc().trim()))),
        }
    }

    /// Takes the events: there must be one for every table error, in order, and no other.
    fn events(&mut self) -> Result<(), Error> {
        let expected = std::mem::take(&mut self.faults);
        for (tag, status) in expected {
            match self.host.take_fault()? {
                Some(Fault { tag: found, status: name, function, .. })
                    if (found, name.as_str(), function) == (tag, status.name(), FUNCTION) => {}
                Some(other) => return Err(Error::Wrong(format!("the event of request {tag:#x} is {other:x?}"))),
                None => return Err(Error::Wrong(format!("no event came for request {tag:#x}, {}", status.name()))),
            }
        }
        match self.host.take_fault()? {
            None => Ok(()),
            Some(other) => Err(Error::Wrong(format!("an event came that belongs to nothing: {other:x?}"))),
        }
    }
}

impl Target {
    /// The region as it was built.
    fn of(region: &BuiltRegion) -> Self {
        let pages = (0..region.pages.count()).map(|page| region.pages.get(page).unwrap_or(0)).collect();
        Self { key: region.key, pd: region.pd, va: region.va, length: region.length_bytes, pages }
    }

    /// A request of the region.
    fn request(&self, operation: Operation, va: u64, length: u32) -> Request {
        Request { tag: 0, function: FUNCTION, operation, key: self.key, pd: self.pd, qpn: 7, va, length, atomic: None }
    }
}
