//! The checks of a request against the rules of the contract in 128-bit integers.

#[path = "common/late_inputs.rs"]
mod late_inputs;
#[path = "common/outputs.rs"]
mod outputs;

use std::collections::{BTreeSet, HashMap, VecDeque};

use keywalk_contract::op::{ATOMIC_BYTES, LENGTH_MAX_BYTES};
use keywalk_contract::{Config, Operation, Status};
use keywalk_cosim::{Beat, Bench, Error, Handle, Stall, StreamDriver, StreamSink, dut};
use late_inputs::LateInputs;
use outputs::Outputs;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// Cycles from a request to its page size and to whether its entry is there.
const FOUND_CYCLES: u64 = 1;
/// Cycles from a request to its entry.
const LINE_CYCLES: u64 = 2;
/// Cycles from a request to `miss`, or to `held`.
const LEAVING_CYCLES: u64 = 2;
/// Cycles from a request to `checked`, or to `again`.
const LATENCY_CYCLES: u64 = 3;
/// What is kept of the entry for the pieces, beside the request.
const HELD_OF_LINE: [&str; 2] = ["root", "page_count"];
/// What goes along with the request.
const CHECKED_OF_LINE: [&str; 3] = ["hop_num", "ba_pg_sz", "is_flat"];

/// Register bits that the checks obey.
#[derive(Clone, Copy, Debug)]
struct Controls {
    atomic_shape_check: bool,
    hold_mode: bool,
}

impl Controls {
    const RESET: Self = Self { atomic_shape_check: true, hold_mode: false };
}

/// What the checks know of an entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    pd: u32,
    /// One bit per operation.
    allowed: u32,
    is_window: bool,
    is_bound: bool,
    is_type_2: bool,
    qpn: u32,
    bound_key: u32,
    is_direct: bool,
    is_zero_based: bool,
    va: u64,
    length: u64,
    page_shift: u32,
}

impl Entry {
    fn counts_from_its_start(&self) -> bool {
        self.is_zero_based && !self.is_direct
    }
}

/// A request, new or replayed.
#[derive(Clone, Copy, Debug)]
struct Request {
    operation: u8,
    key: u32,
    pd: u32,
    qpn: u32,
    va: u64,
    length: u32,
    is_replay: bool,
    /// The request has been here: its address has been added to `region_va`, and the sum was 2^64 or more.
    is_rebased: bool,
    region_va: u64,
    is_beyond: bool,
    /// The request has been here: the entry is that of its window's parent.
    is_parent: bool,
    /// Replay: status and hop of the HEM lookup.
    status: u8,
    hop: u8,
}

/// A request with its entry.
#[derive(Clone, Copy, Debug)]
struct Case {
    request: Request,
    entry: Entry,
    /// The entry is there.
    is_found: bool,
}

/// How a request leaves the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// To the HEM lookup.
    Miss,
    /// To the page split.
    Checked { status: u8, is_translated: bool },
    /// Round once more, with its address rebased or to the parent; why the window refuses it.
    Again { is_rebased: bool, status: u8 },
}

impl Outcome {
    fn status(self) -> u8 {
        match self {
            Self::Checked { status, .. } | Self::Again { status, .. } => status,
            Self::Miss => panic!("a miss has no status"),
        }
    }
}

impl Case {
    /// A request for 64 bytes that passes every check; the region has 2^20 bytes in pages of 4 KiB.
    fn good() -> Self {
        let va = 0x7654_3210_1000;
        let entry = Entry {
            key: 0x1234_5678,
            pd: 0x9a_bcde,
            allowed: 0x3f,
            is_window: false,
            is_bound: true,
            is_type_2: false,
            qpn: 0x55_aa55,
            bound_key: 0x8765_4321,
            is_direct: false,
            is_zero_based: false,
            va,
            length: 1 << 20,
            page_shift: 12,
        };
        let request = Request {
            operation: Operation::RemoteWrite.code(),
            key: entry.key,
            pd: entry.pd,
            qpn: entry.qpn,
            va: va + 0x2340,
            length: 64,
            is_replay: false,
            is_rebased: false,
            region_va: 0,
            is_beyond: false,
            is_parent: false,
            status: 0,
            hop: 0,
        };
        Self { request, entry, is_found: true }
    }

    fn is_remote(&self) -> bool {
        Operation::from_code(self.request.operation).is_some_and(Operation::is_remote)
    }

    fn region_pages(&self) -> u128 {
        let Entry { va, length, page_shift, .. } = self.entry;
        match u128::from(length) {
            0 => 0,
            length => ((u128::from(va) + length - 1) >> page_shift) - (u128::from(va) >> page_shift) + 1,
        }
    }

    /// Failure of the checks that need no entry.
    fn shape(&self, controls: Controls, config: &Config) -> Option<Status> {
        let Request { operation, va, length, .. } = self.request;
        let Some(operation) = Operation::from_code(operation) else { return Some(Status::OperationUnknown) };
        // Of the address that the request brings: what VA has been added to need not be aligned.
        let is_first_look = !self.request.is_rebased && !self.request.is_parent;
        let is_shaped = u64::from(length) == ATOMIC_BYTES && va.is_multiple_of(ATOMIC_BYTES);
        if u64::from(length) > LENGTH_MAX_BYTES {
            Some(Status::LengthTooLong)
        } else if controls.atomic_shape_check && operation == Operation::RemoteAtomic && !is_shaped && is_first_look {
            Some(Status::AtomicShape)
        } else if controls.hold_mode && length > config.hold_bytes_max() {
            Some(Status::HoldTooLong)
        } else {
            None
        }
    }

    /// Failure of the checks against the entry, in order.
    fn access(&self) -> Status {
        let Self { request, entry, .. } = self;
        let [va, length] = [request.va.into(), u128::from(request.length)];
        let [region_va, region_length] = [entry.va.into(), u128::from(entry.length)];
        let region_end = region_va + region_length;
        let is_inside = va >= region_va && va - region_va + length <= region_length;
        let fits = va + length <= 1 << 64;
        let region_pages = self.region_pages();
        let is_where_it_was = entry.counts_from_its_start() && request.region_va == entry.va;
        let is_region = !entry.is_window && !entry.is_direct && !entry.is_zero_based;
        let failure = [
            (request.is_rebased && !is_where_it_was, Status::EntryState),
            (request.key != entry.key, Status::EntryKey),
            (entry.is_window && !self.is_remote(), Status::WindowLocal),
            (request.is_parent && !is_region, Status::WindowParent),
            (entry.is_window && !entry.is_bound, Status::WindowUnbound),
            (request.pd != entry.pd, Status::ProtectionDomain),
            (entry.is_window && entry.is_type_2 && request.qpn != entry.qpn, Status::WindowQueuePair),
            (!request.is_parent && entry.allowed >> request.operation & 1 == 0, Status::AccessRight),
            (!entry.is_direct && region_end > 1 << 64, Status::RegionWraps),
            (!entry.is_direct && region_pages > 1 << 32, Status::RegionTooLarge),
            (!fits || request.is_beyond || !entry.is_direct && !is_inside, Status::Bounds),
            (entry.is_window && entry.is_direct, Status::WindowParent),
        ]
        .into_iter()
        .find_map(|(fails, status)| fails.then_some(status));
        match failure {
            Some(_) if request.is_parent => Status::WindowParent,
            failure => failure.unwrap_or(Status::Ok),
        }
    }

    fn outcome(&self, controls: Controls, config: &Config) -> Outcome {
        if let Some(status) = self.shape(controls, config) {
            return Outcome::Checked { status: status.code(), is_translated: false };
        }
        if self.request.length == 0 {
            return Outcome::Checked { status: 0, is_translated: false };
        }
        let status = match self.request.status {
            0 if !self.is_found => return Outcome::Miss,
            0 if !self.request.is_parent => {
                let entry = &self.entry;
                let is_rebased = entry.counts_from_its_start() && !self.request.is_rebased;
                let status = if is_rebased { 0 } else { self.access().code() };
                if is_rebased || entry.is_window && entry.is_bound && !entry.is_direct {
                    return Outcome::Again { is_rebased, status };
                }
                status
            }
            0 => self.access().code(),
            status => status,
        };
        Outcome::Checked { status, is_translated: status == 0 && !self.entry.is_direct }
    }

    /// The entry's fields on the ports, as far as they depend on the case.
    fn line(&self) -> HashMap<&'static str, u128> {
        let entry = &self.entry;
        let va = u128::from(entry.va);
        let end = va + u128::from(entry.length);
        let last = (va as u64).wrapping_add(entry.length).wrapping_sub(1);
        [
            ("key", entry.key.into()),
            ("pd", entry.pd.into()),
            ("allowed", entry.allowed.into()),
            ("is_window", entry.is_window.into()),
            ("is_bound", entry.is_bound.into()),
            ("checks_qpn", u128::from(entry.is_window && entry.is_type_2)),
            ("qpn", entry.qpn.into()),
            ("is_bound_window", (entry.is_window && entry.is_bound && !entry.is_direct).into()),
            ("bound_key", entry.bound_key.into()),
            ("is_direct", entry.is_direct.into()),
            ("is_zero_based", entry.counts_from_its_start().into()),
            ("wraps", u128::from(end > 1 << 64)),
            ("too_large", u128::from(self.region_pages() > 1 << 32)),
            ("is_empty", u128::from(entry.length == 0)),
            ("va", va),
            ("last", last.into()),
            ("base_page", va >> entry.page_shift & 0xffff_ffff),
        ]
        .into()
    }
}

/// A request under way.
struct Expected {
    cycle: u64,
    case: Case,
    outcome: Outcome,
    beat: Beat,
    /// The fields of [`HELD_OF_LINE`] and [`CHECKED_OF_LINE`], where the entry is there.
    line: HashMap<String, u128>,
    /// Number under which the rest of it is kept, where it goes to the page split.
    number: u128,
}

struct Rig {
    bench: Bench,
    random: ChaCha8Rng,
    config: Config,
    controls: Controls,
    lookups: Handle<StreamDriver>,
    checked: Handle<StreamSink>,
    held: Handle<StreamSink>,
    misses: Handle<StreamSink>,
    agains: Handle<StreamSink>,
    entries: Handle<LateInputs>,
    outputs: Handle<Outputs>,
    expected: VecDeque<Expected>,
    /// Requests that went to the page split since reset.
    split_total: u128,
    /// Statuses that left for the page split.
    statuses: BTreeSet<u8>,
}

impl Rig {
    fn new(seed: u64, controls: Controls) -> Result<Self, Error> {
        let design = &dut::ACCESS_CHECK;
        let mut bench = Bench::new(design, seed);
        let is_of_cache = |name: &str| name.starts_with("line_") || ["found", "page_shift"].contains(&name);
        let mut rig = Self {
            lookups: bench.driver("lookup", Stall::NEVER)?,
            checked: bench.sink("checked", Stall::NEVER)?,
            held: bench.sink("held", Stall::NEVER)?,
            misses: bench.sink("miss", Stall::NEVER)?,
            agains: bench.sink("again", Stall::NEVER)?,
            entries: LateInputs::drive(&mut bench, is_of_cache)?,
            outputs: Outputs::watch(&mut bench, |name| ["mpt_hit", "entry_found"].contains(&name))?,
            random: bench.random(),
            bench,
            config: design.config().expect("the checks are generated from a configuration"),
            controls,
            expected: VecDeque::new(),
            split_total: 0,
            statuses: BTreeSet::new(),
        };
        rig.set_controls(controls)?;
        rig.reset()?;
        Ok(rig)
    }

    fn set_controls(&mut self, controls: Controls) -> Result<(), Error> {
        self.controls = controls;
        for (name, value) in [("atomic_shape_check", controls.atomic_shape_check), ("hold_mode", controls.hold_mode)] {
            let input = self.bench.model().input(name)?;
            self.bench.model_mut().set(input, value.into());
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.expected.clear();
        self.split_total = 0;
        self.bench.reset(3)
    }

    /// One cycle with a request. Gives how it is to leave.
    fn send(&mut self, case: Case) -> Result<Outcome, Error> {
        let now = self.bench.cycles();
        let Request { operation, key, pd, qpn, va, length, is_replay, status, hop, .. } = case.request;
        let Request { is_rebased, region_va, is_beyond, is_parent, .. } = case.request;
        let values = [
            ("operation", operation.into()),
            ("key", key.into()),
            ("pd", pd.into()),
            ("qpn", qpn.into()),
            ("va", u128::from(va)),
            ("length", length.into()),
            ("length_minus_one", length.wrapping_sub(1).into()),
            ("is_replay", is_replay.into()),
            ("is_rebased", is_rebased.into()),
            ("region_va", region_va.into()),
            ("is_beyond", is_beyond.into()),
            ("is_parent", is_parent.into()),
            ("status", status.into()),
            ("hop", hop.into()),
        ];
        let shape = self.bench[self.lookups].channel().shape().clone();
        let beat = Beat::random_with(&shape, &values, &mut self.random)?;
        self.bench[self.lookups].push(beat.clone());

        // Where there is no entry its fields and its page size mean nothing.
        let mut line = HashMap::new();
        let entries = self.entries;
        self.bench[entries].push(now + FOUND_CYCLES, [("found".to_owned(), case.is_found.into())]);
        if case.is_found {
            let page_shift = u128::from(case.entry.page_shift - 12);
            self.bench[entries].push(now + FOUND_CYCLES, [("page_shift".to_owned(), page_shift)]);
            for (name, width) in self.bench[entries].ports() {
                if let Some(name) = name
                    .strip_prefix("line_")
                    .filter(|name| HELD_OF_LINE.contains(name) || CHECKED_OF_LINE.contains(name))
                {
                    line.insert(name.to_owned(), u128::from(self.random.next_u64()) & ((1 << width) - 1));
                }
            }
            let fields = case.line().into_iter().map(|(name, value)| (name.to_owned(), value));
            let fields = fields.chain(line.clone()).map(|(name, value)| (format!("line_{name}"), value));
            let fields: Vec<_> = fields.collect();
            self.bench[entries].push(now + LINE_CYCLES, fields);
        }
        let outcome = case.outcome(self.controls, &self.config);
        let number = self.split_total;
        self.split_total += u128::from(matches!(outcome, Outcome::Checked { .. }));
        self.expected.push_back(Expected { cycle: now, case, outcome, beat, line, number });
        self.idle(1)?;
        Ok(outcome)
    }

    fn idle(&mut self, cycles: u64) -> Result<(), Error> {
        (0..cycles).try_for_each(|_| self.tick())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.idle(LATENCY_CYCLES + 1)?;
        assert!(self.expected.is_empty());
        Ok(())
    }

    /// One cycle; checks every output.
    fn tick(&mut self) -> Result<(), Error> {
        let now = self.bench.cycles();
        self.bench.cycle()?;
        let held = self.bench[self.held].pop();
        let missed = self.bench[self.misses].pop();
        let leaving = self.expected.iter().find(|expected| expected.cycle + LEAVING_CYCLES == now);
        let case = leaving.map(|leaving| leaving.case);
        let goes_on = leaving.is_some_and(|leaving| matches!(leaving.outcome, Outcome::Checked { .. }));
        let misses = leaving.is_some_and(|leaving| leaving.outcome == Outcome::Miss);
        let needs_entry = |case: Case| {
            case.shape(self.controls, &self.config).is_none() && case.request.length > 0 && case.request.status == 0
        };
        let is_hit = case.is_some_and(|case| case.is_found && needs_entry(case) && !case.request.is_replay);
        let outputs = &self.bench[self.outputs];
        assert_eq!(outputs.get("mpt_hit") == 1, is_hit, "mpt_hit of {case:?}");
        assert_eq!(held.is_some(), goes_on, "{case:?}");
        assert_eq!(missed.is_some(), misses, "{case:?}");
        if let (Some(leaving), Some(missed)) = (leaving, missed) {
            for field in missed.beat.shape().fields() {
                assert_eq!(missed.get(&field.name)?, leaving.beat.get(&field.name)?, "{} of a miss", field.name);
            }
        }
        if let (Some(leaving), Some(held)) = (leaving, held) {
            check_held(leaving, &held.beat)?;
        }

        let is_due = self.expected.front().is_some_and(|expected| expected.cycle + LATENCY_CYCLES == now);
        let expected = if is_due { self.expected.pop_front() } else { None };
        let checked = self.bench[self.checked].pop();
        let again = self.bench[self.agains].pop();
        let outcome = expected.as_ref().map(|expected| expected.outcome);
        let case = expected.as_ref().map(|expected| expected.case);
        let is_checked = matches!(outcome, Some(Outcome::Checked { .. }));
        assert_eq!(self.bench[self.outputs].get("entry_found") == 1, is_checked, "entry_found of {case:?}");
        assert_eq!(checked.is_some(), is_checked, "{case:?}");
        assert_eq!(again.is_some(), matches!(outcome, Some(Outcome::Again { .. })), "{case:?}");
        if let (Some(expected), Some(beat)) = (&expected, &checked) {
            self.statuses.insert(beat.get("status")? as u8);
            check(expected, &beat.beat)?;
        }
        if let (Some(expected), Some(beat)) = (&expected, &again) {
            self.statuses.insert(beat.get("status")? as u8);
            check_again(expected, &beat.beat)?;
        }
        Ok(())
    }
}

/// Compares fields of a beat. Numbers count modulo what their field holds, and of an index the low bits.
fn check_fields(beat: &Beat, fields: &[(&str, u128)], case: &Case) -> Result<(), Error> {
    for (name, value) in fields {
        let width = beat.shape().field(name)?.width;
        let value = if ["number", "held", "index_low"].contains(name) { *value & ((1 << width) - 1) } else { *value };
        assert_eq!(beat.get(name)?, value, "{name} of {case:?}");
    }
    Ok(())
}

/// Checks what is kept of a request.
fn check_held(expected: &Expected, beat: &Beat) -> Result<(), Error> {
    let mut fields = vec![
        ("number", expected.number),
        ("tag", expected.beat.get("tag")?),
        ("function", expected.beat.get("function")?),
        ("is_remote", expected.case.is_remote().into()),
        ("admission", expected.beat.get("admission")?),
        ("table_set", expected.beat.get("table_set")?),
        ("mpt_index", expected.beat.get("index")?),
        ("epoch", expected.beat.get("epoch")? & ((1 << 29) - 1)),
    ];
    let Request { va, length, .. } = expected.case.request;
    let last = u128::from(va) + u128::from(length) + (1 << 64) - 1;
    fields.push(("last", last & 0xffff_ffff));
    if let Outcome::Checked { is_translated: true, .. } = expected.outcome {
        fields.push(("page_shift", u128::from(expected.case.entry.page_shift - 12)));
    }
    fields.extend(HELD_OF_LINE.iter().filter_map(|name| Some((*name, *expected.line.get(*name)?))));
    check_fields(beat, &fields, &expected.case)
}

/// Checks a request on its way to the page split.
fn check(expected: &Expected, beat: &Beat) -> Result<(), Error> {
    let Expected { case, outcome, .. } = expected;
    let Outcome::Checked { status, is_translated } = *outcome else { panic!("{case:?} is to miss") };
    let Request { va, length, .. } = case.request;
    let from_hem = case.request.status != 0 && status == case.request.status;
    let mut fields = vec![
        ("held", expected.number),
        ("index_low", expected.beat.get("index")?),
        ("va", va.into()),
        ("status", status.into()),
        ("hop", if from_hem { case.request.hop.into() } else { 0 }),
        ("is_translated", is_translated.into()),
        ("is_empty", u128::from(length == 0)),
    ];
    if is_translated {
        let shift = case.entry.page_shift;
        let first_page = u128::from(va) >> shift;
        let last_page = (u128::from(va) + u128::from(length) - 1) >> shift;
        let page_index = first_page - (u128::from(case.entry.va) >> shift);
        assert!(page_index < 1 << 32, "the region has at most 2^32 pages");
        fields.extend([
            ("may_have_more", u128::from(last_page > first_page)),
            ("pages_minus_one", last_page - first_page),
            ("page_shift", u128::from(shift - 12)),
            ("virtual_page", first_page & 0xffff_ffff),
            ("page_index", page_index),
        ]);
        fields.extend(CHECKED_OF_LINE.map(|name| (name, expected.line[name])));
    }
    check_fields(beat, &fields, case)
}

/// Checks a request that goes round once more.
fn check_again(expected: &Expected, beat: &Beat) -> Result<(), Error> {
    let Expected { case: Case { request, entry, .. }, outcome, .. } = expected;
    let Outcome::Again { is_rebased, status } = *outcome else { panic!("{:?} is not to come back", expected.case) };
    let own_va = u128::from(request.va) + u128::from(entry.va);
    let mut fields = vec![
        ("key", if is_rebased { request.key } else { entry.bound_key }.into()),
        ("va", if is_rebased { own_va & u128::from(u64::MAX) } else { request.va.into() }),
        ("is_rebased", is_rebased.into()),
        ("is_parent", (!is_rebased).into()),
        ("is_beyond", u128::from(is_rebased && own_va >> 64 > 0)),
        ("status", status.into()),
    ];
    if is_rebased {
        fields.push(("region_va", entry.va.into()));
    }
    for name in ["tag", "function", "table_set", "operation", "pd", "qpn", "length", "order", "admission"] {
        fields.push((name, expected.beat.get(name)?));
    }
    check_fields(beat, &fields, &expected.case)
}

/// Something that makes a request fail.
type Fault = fn(&mut Case);

/// Failures that one request can have, in order of status. Applied from the last to the first, so that where two cannot
/// be had at once the first one is there.
fn faults() -> Vec<(Status, Fault)> {
    vec![
        (Status::OperationUnknown, |case| case.request.operation = 6),
        (Status::LengthTooLong, |case| case.request.length = 0x8000_0001),
        (Status::AtomicShape, |case| {
            case.request.operation = Operation::RemoteAtomic.code();
            case.request.va |= 1;
        }),
        (Status::HoldTooLong, |case| case.request.length = 0x7000_0000),
        (Status::IndexOutOfRange, |case| (case.request.is_replay, case.request.status) = (true, 5)),
        (Status::Bt0Unset, |case| (case.request.is_replay, case.request.status) = (true, 6)),
        (Status::HemPointerZero, |case| {
            (case.request.is_replay, case.request.status, case.request.hop) = (true, 7, 1);
        }),
        (Status::HemMisaligned, |case| {
            (case.request.is_replay, case.request.status, case.request.hop) = (true, 8, 2);
        }),
        (Status::HemBusError, |case| (case.request.is_replay, case.request.status, case.request.hop) = (true, 9, 3)),
        (Status::HemTimeout, |case| (case.request.is_replay, case.request.status) = (true, 10)),
        (Status::EntryState, |case| (case.request.is_replay, case.request.status) = (true, 11)),
        (Status::EntryKey, |case| case.entry.key = case.request.key ^ 1),
        (Status::WindowLocal, |case| {
            case.entry.is_window = true;
            case.request.operation = Operation::LocalWrite.code();
        }),
        (Status::WindowUnbound, |case| (case.entry.is_window, case.entry.is_bound) = (true, false)),
        (Status::ProtectionDomain, |case| case.entry.pd = case.request.pd ^ 0x80_0000),
        (Status::WindowQueuePair, |case| {
            (case.entry.is_window, case.entry.is_type_2) = (true, true);
            case.request.qpn = case.entry.qpn ^ 0x80_0000;
        }),
        (Status::AccessRight, |case| case.entry.allowed = 0),
        (Status::RegionWraps, |case| case.entry.length = 1u64.wrapping_sub(case.entry.va)),
        (Status::RegionTooLarge, |case| case.entry.length = case.entry.length.max((1 << 44) + 1)),
        (Status::Bounds, |case| case.request.va = case.entry.va - 8),
    ]
}

#[test]
fn of_two_failures_the_first_in_order_is_reported() -> Result<(), Error> {
    let mut rig = Rig::new(1, Controls { hold_mode: true, ..Controls::RESET })?;
    let faults = faults();
    assert_eq!(rig.send(Case::good())?, Outcome::Checked { status: 0, is_translated: true });
    for (number, (status, fault)) in faults.iter().enumerate() {
        for (_, other) in &faults[number..] {
            let mut case = Case::good();
            other(&mut case);
            fault(&mut case);
            let outcome = rig.send(case)?;
            assert_eq!(outcome.status(), status.code(), "{case:?}");
        }
    }
    rig.finish()?;
    // All statuses but those of the parent and of the page table.
    assert_eq!(rig.statuses, (0..=Status::Bounds.code()).collect());
    Ok(())
}

#[test]
fn every_key_pd_qpn_bit_counts() -> Result<(), Error> {
    let mut rig = Rig::new(2, Controls::RESET)?;
    let is = |status: Status| Outcome::Checked { status: status.code(), is_translated: false };
    for bit in 0..32 {
        let mut case = Case::good();
        case.request.key ^= 1 << bit;
        assert_eq!(rig.send(case)?, is(Status::EntryKey));
        if bit < 24 {
            let mut case = Case::good();
            case.request.pd ^= 1 << bit;
            assert_eq!(rig.send(case)?, is(Status::ProtectionDomain));
            let mut case = Case::good();
            case.request.qpn ^= 1 << bit;
            assert_eq!(rig.send(case)?, Outcome::Checked { status: 0, is_translated: true });
            (case.entry.is_window, case.entry.is_type_2) = (true, true);
            assert_eq!(rig.send(case)?.status(), Status::WindowQueuePair.code());
            // The same queue pair, whatever bits its number has.
            let same = Case { entry: Entry { qpn: case.request.qpn, ..case.entry }, ..case };
            assert_eq!(rig.send(same)?, Outcome::Again { is_rebased: false, status: 0 });
            case.entry.is_type_2 = false;
            assert_eq!(rig.send(case)?, Outcome::Again { is_rebased: false, status: 0 });
        }
    }
    rig.finish()
}

#[test]
fn every_operation_needs_its_own_right() -> Result<(), Error> {
    let mut rig = Rig::new(3, Controls::RESET)?;
    for operation in 0..16 {
        for allowed in 0..64 {
            for is_window in [false, true] {
                let mut case = Case::good();
                case.request.operation = operation;
                case.request.length = 8;
                case.entry.allowed = allowed;
                case.entry.is_window = is_window;
                rig.send(case)?;
            }
        }
    }
    rig.finish()?;
    let statuses = [Status::Ok, Status::OperationUnknown, Status::WindowLocal, Status::AccessRight];
    assert_eq!(rig.statuses, statuses.map(Status::code).into());
    Ok(())
}

#[test]
fn shapes_are_checked_as_the_switches_say() -> Result<(), Error> {
    for atomic_shape_check in [false, true] {
        for hold_mode in [false, true] {
            let controls = Controls { atomic_shape_check, hold_mode };
            let mut rig = Rig::new(4, controls)?;
            let hold_bytes_max = rig.config.hold_bytes_max();
            for operation in 0..=6 {
                let lengths = [0, 1, 4, 7, 8, 9, 16, hold_bytes_max, hold_bytes_max + 1];
                for length in lengths.into_iter().chain([0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX]) {
                    for position in 0..=8 {
                        for is_found in [false, true] {
                            let mut case = Case::good();
                            case.request.operation = operation;
                            case.request.length = length;
                            case.request.va += position;
                            case.entry.length = 1 << 32;
                            case.is_found = is_found;
                            rig.send(case)?;
                        }
                    }
                }
            }
            rig.finish()?;
            assert_eq!(rig.statuses.contains(&Status::AtomicShape.code()), atomic_shape_check);
            assert_eq!(rig.statuses.contains(&Status::HoldTooLong.code()), hold_mode);
        }
    }
    Ok(())
}

#[test]
fn length_zero_succeeds_without_an_entry() -> Result<(), Error> {
    let mut rig = Rig::new(5, Controls::RESET)?;
    for va in [0, 1, 0x1000, u64::MAX] {
        for is_found in [false, true] {
            for (status, fault) in faults().into_iter().filter(|(status, _)| *status > Status::HemTimeout) {
                let mut case = Case::good();
                fault(&mut case);
                (case.request.va, case.request.length, case.is_found) = (va, 0, is_found);
                let outcome = rig.send(case)?;
                assert_eq!(outcome, Outcome::Checked { status: 0, is_translated: false }, "{}", status.name());
            }
            let mut atomic = Case::good();
            atomic.request.operation = Operation::RemoteAtomic.code();
            (atomic.request.length, atomic.is_found) = (0, is_found);
            let refused = Outcome::Checked { status: Status::AtomicShape.code(), is_translated: false };
            assert_eq!(rig.send(atomic)?, refused);
        }
    }
    rig.finish()
}

#[test]
fn bounds_hold_at_every_edge() -> Result<(), Error> {
    let mut rig = Rig::new(6, Controls::RESET)?;
    let mut accepted = 0;
    for page_shift in [12, 21, 30] {
        let starts = [0, 1, 0xfff, 0x1000, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 0xfff, u64::MAX - 1, u64::MAX];
        for va in starts {
            let to_end = 0u64.wrapping_sub(va);
            let lengths = [0, 1, 2, 0x1000, 0x8000_0000, 0x8000_0001, 1 << 44, (1 << 44) + 1, 1 << 62];
            let lengths = lengths.into_iter().chain([to_end.wrapping_sub(1), to_end, to_end.wrapping_add(1), u64::MAX]);
            for length in lengths {
                let end = va.wrapping_add(length);
                for edge in [va, end, end.wrapping_sub(0x8000_0000), 0] {
                    for offset in [-2i64, -1, 0, 1] {
                        let request_va = edge.wrapping_add_signed(offset);
                        let to_edge = end.wrapping_sub(request_va) as u32;
                        let to_zero = 0u32.wrapping_sub(request_va as u32);
                        for request_length in [1, 2, to_edge, to_edge.wrapping_add(1), to_zero, 0x8000_0000] {
                            let mut case = Case::good();
                            (case.entry.va, case.entry.length, case.entry.page_shift) = (va, length, page_shift);
                            (case.request.va, case.request.length) = (request_va, request_length);
                            case.entry.is_direct = rig.random.random_range(0..8) == 0;
                            let outcome = rig.send(case)?;
                            accepted += u32::from(outcome == Outcome::Checked { status: 0, is_translated: true });
                        }
                    }
                }
            }
        }
    }
    rig.finish()?;
    println!("{accepted} requests were inside");
    assert!(accepted > 500);
    for status in [Status::RegionWraps, Status::RegionTooLarge, Status::Bounds] {
        assert!(rig.statuses.contains(&status.code()), "{}", status.name());
    }
    Ok(())
}

#[test]
fn a_direct_entry_has_no_bounds_but_the_end_of_the_address_space() -> Result<(), Error> {
    let mut rig = Rig::new(7, Controls::RESET)?;
    for (va, length, status) in [
        (0, 1, Status::Ok),
        (0x1234_5678_9abc, 0x8000_0000, Status::Ok),
        (u64::MAX, 1, Status::Ok),
        (u64::MAX, 2, Status::Bounds),
        (u64::MAX - 0x7fff_ffff, 0x8000_0000, Status::Ok),
        (u64::MAX - 0x7fff_fffe, 0x8000_0000, Status::Bounds),
    ] {
        // The entry's own bounds mean nothing, whatever they are.
        for (region_va, region_length) in [(0, 0), (1, u64::MAX), (0, u64::MAX), (0x1000, 1)] {
            let mut case = Case::good();
            (case.entry.va, case.entry.length, case.entry.is_direct) = (region_va, region_length, true);
            (case.request.va, case.request.length) = (va, length);
            let outcome = rig.send(case)?;
            assert_eq!(outcome, Outcome::Checked { status: status.code(), is_translated: false }, "{case:?}");
        }
    }
    rig.finish()
}

#[test]
fn pages_are_counted_for_every_page_size() -> Result<(), Error> {
    let mut rig = Rig::new(8, Controls::RESET)?;
    for page_shift in 12..=30 {
        for _ in 0..200 {
            let mut case = Case::good();
            let page_bytes = 1u64 << page_shift;
            case.entry.page_shift = page_shift;
            case.entry.length = match rig.random.random_range(0..3) {
                0 => page_bytes << 32,
                1 => (page_bytes << 32) - rig.random.random_range(0..page_bytes),
                _ => 0x1_0000_0000,
            };
            // Where the region has 2^32 pages it must begin with one.
            let va = rig.random.next_u64() & !(page_bytes - 1);
            case.entry.va = va.min(0u64.wrapping_sub(case.entry.length)) & !(page_bytes - 1);
            case.request.length = match rig.random.random_range(0..4) {
                0 => 0x8000_0000,
                1 => rig.random.random_range(1..=0x8000_0000),
                2 => rig.random.random_range(1..=page_bytes.min(0x8000_0000) as u32),
                _ => page_bytes as u32,
            };
            let last_start = case.entry.length - u64::from(case.request.length);
            let start = match rig.random.random_range(0..4) {
                0 => 0,
                1 => last_start,
                2 => (rig.random.random_range(0..=last_start) & !(page_bytes - 1)).saturating_sub(1),
                _ => rig.random.random_range(0..=last_start),
            };
            case.request.va = case.entry.va + start;
            assert_eq!(rig.send(case)?, Outcome::Checked { status: 0, is_translated: true }, "{case:?}");
        }
    }
    rig.finish()
}

#[test]
fn a_request_without_entry_goes_to_the_lookup_unless_that_failed() -> Result<(), Error> {
    let mut rig = Rig::new(9, Controls::RESET)?;
    for is_found in [false, true] {
        // A replay whose entry has been replaced meanwhile misses again.
        for is_replay in [false, true] {
            for status in 0..=Status::EntryState.code() {
                if status != 0 && !is_replay {
                    continue;
                }
                let mut case = Case::good();
                (case.is_found, case.request.is_replay) = (is_found, is_replay);
                (case.request.status, case.request.hop) = (status, status & 3);
                let outcome = rig.send(case)?;
                assert_eq!(outcome == Outcome::Miss, !is_found && status == 0);
            }
        }
    }
    rig.finish()
}

#[test]
fn a_replay_that_a_switch_refuses_meanwhile_has_no_hop() -> Result<(), Error> {
    let mut rig = Rig::new(11, Controls { hold_mode: true, ..Controls::RESET })?;
    let faults = faults();
    for (status, fault) in faults.iter().filter(|(status, _)| *status <= Status::HoldTooLong) {
        for hop in 0..=3 {
            let mut case = Case::good();
            fault(&mut case);
            case.request.is_replay = true;
            (case.request.status, case.request.hop) = (Status::HemBusError.code(), hop);
            // `check` expects hop 0 with a status that is not the replay's.
            assert_eq!(rig.send(case)?, Outcome::Checked { status: status.code(), is_translated: false });
        }
    }
    rig.finish()
}

#[test]
fn a_parent_is_checked_for_all_but_rights_and_has_one_status() -> Result<(), Error> {
    let mut rig = Rig::new(13, Controls::RESET)?;
    let mut good = Case::good();
    good.request.is_parent = true;
    good.entry.allowed = 0;
    assert_eq!(rig.send(good)?, Outcome::Checked { status: 0, is_translated: true });
    // No window has a queue pair to be checked here: it is refused because it is one.
    let changes: [Fault; 9] = [
        |case| case.entry.key ^= 1 << 31,
        |case| case.entry.pd ^= 1,
        |case| case.entry.is_window = true,
        |case| case.entry.is_direct = true,
        |case| case.entry.is_zero_based = true,
        |case| case.entry.length = 1u64.wrapping_sub(case.entry.va),
        |case| case.entry.length = (1 << 44) + 1,
        |case| case.entry.length = case.request.va - case.entry.va + u64::from(case.request.length) - 1,
        |case| case.request.va = case.entry.va - 1,
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut case = good;
        change(&mut case);
        let outcome = rig.send(case)?;
        assert_eq!(outcome.status(), Status::WindowParent.code(), "change {number}");
        assert!(matches!(outcome, Outcome::Checked { .. }), "change {number} goes round");
    }
    // What could not be read has the status of any entry.
    good.request.is_replay = true;
    good.request.status = Status::HemBusError.code();
    assert_eq!(rig.send(good)?.status(), Status::HemBusError.code());
    rig.finish()
}

#[test]
fn a_zero_based_region_is_judged_when_its_address_has_been_added() -> Result<(), Error> {
    let mut rig = Rig::new(14, Controls::RESET)?;
    for is_window in [false, true] {
        let mut case = Case::good();
        (case.entry.is_zero_based, case.entry.is_window) = (true, is_window);
        let region = case.entry;
        for (va, is_beyond, status) in [
            (0, false, Status::Ok),
            (region.length - 64, false, Status::Ok),
            (region.length - 63, false, Status::Bounds),
            (region.length, false, Status::Bounds),
            (u64::MAX - region.va, false, Status::Bounds),
            (u64::MAX - region.va + 1, true, Status::Bounds),
            (u64::MAX, true, Status::Bounds),
        ] {
            let mut first = case;
            first.request.va = va;
            // Nothing is said of it before.
            assert_eq!(rig.send(first)?, Outcome::Again { is_rebased: true, status: 0 });
            let mut second = first;
            second.request.va = va.wrapping_add(region.va);
            (second.request.is_rebased, second.request.region_va, second.request.is_beyond) =
                (true, region.va, is_beyond);
            let outcome = rig.send(second)?;
            assert_eq!(outcome.status(), status.code(), "{va:#x}");
            assert_eq!(matches!(outcome, Outcome::Again { is_rebased: false, .. }), is_window, "{va:#x}");
            // It has moved, or is not zero-based any more.
            let mut moved = second;
            moved.request.region_va ^= 1 << (va % 64);
            assert_eq!(rig.send(moved)?.status(), Status::EntryState.code());
            let mut other = second;
            other.entry.is_zero_based = false;
            assert_eq!(rig.send(other)?.status(), Status::EntryState.code());
        }
    }
    rig.finish()
}

#[test]
fn an_atomic_is_aligned_where_it_was_asked_for() -> Result<(), Error> {
    let mut rig = Rig::new(15, Controls::RESET)?;
    let mut case = Case::good();
    case.request.operation = Operation::RemoteAtomic.code();
    case.request.length = 8;
    (case.entry.is_zero_based, case.entry.va) = (true, case.entry.va + 3);
    case.request.va = 16;
    assert_eq!(rig.send(case)?, Outcome::Again { is_rebased: true, status: 0 });
    case.request.va = case.entry.va + 16;
    (case.request.is_rebased, case.request.region_va) = (true, case.entry.va);
    assert_eq!(rig.send(case)?, Outcome::Checked { status: 0, is_translated: true });
    case.request.is_rebased = false;
    (case.request.is_parent, case.entry.is_zero_based) = (true, false);
    assert_eq!(rig.send(case)?, Outcome::Checked { status: 0, is_translated: true });
    case.request.is_parent = false;
    assert_eq!(rig.send(case)?.status(), Status::AtomicShape.code());
    rig.finish()
}

#[test]
fn requests_that_go_on_are_numbered_in_order() -> Result<(), Error> {
    let mut rig = Rig::new(12, Controls::RESET)?;
    let numbers = 1 << rig.bench[rig.held].channel().shape().field("number")?.width;
    // Twice around, with misses in between, which have no number.
    for count in 0..2 * numbers + 3 {
        let mut case = Case::good();
        case.is_found = count % 3 != 1;
        // So it is with those that come back.
        case.entry.is_window = count % 5 == 4;
        rig.send(case)?;
    }
    rig.finish()?;
    rig.reset()?;
    rig.send(Case::good())?;
    rig.finish()
}

fn random_case(random: &mut ChaCha8Rng) -> Case {
    let mut case = Case::good();
    let page_shift = random.random_range(12..=30);
    case.entry.page_shift = page_shift;
    case.entry.va = random.next_u64() >> random.random_range(0..64);
    case.entry.length = random.next_u64() >> random.random_range(0..64);
    case.request.length = random.next_u32() >> random.random_range(0..32);
    let span = case.entry.length.saturating_sub(case.request.length.into()).saturating_add(1);
    let offset = random.random_range(0..span);
    case.request.va = case.entry.va.wrapping_add(offset).wrapping_add_signed(random.random_range(-1..=1));
    case.request.operation = random.random_range(0..6);
    case.is_found = random.random_range(0..4) > 0;
    let is_replay = random.random_range(0..4) == 0;
    case.request.is_replay = is_replay;
    case.entry.bound_key = random.next_u32();
    if random.random_range(0..3) == 0 {
        case.entry.is_window = random.random();
        case.entry.is_direct = random.random_range(0..8) == 0;
        case.entry.is_zero_based = random.random();
        case.request.is_parent = random.random();
        case.request.is_rebased = case.entry.is_zero_based && random.random();
        case.request.region_va =
            case.entry.va ^ (u64::from(random.random_range(0..6) == 0) << random.random_range(0..64));
        case.request.is_beyond = case.request.is_rebased && random.random_range(0..6) == 0;
    }
    let faults = faults();
    for _ in 0..random.random_range(0..3) {
        let (status, fault) = &faults[random.random_range(0..faults.len())];
        // What only a replay can bring, and what would make the reference count outside its region.
        let is_of_replay = (Status::IndexOutOfRange..=Status::EntryState).contains(status);
        if (is_replay || !is_of_replay) && (*status != Status::Bounds || case.entry.va >= 8) {
            fault(&mut case);
        }
    }
    case
}

#[test]
fn random_requests_at_one_per_cycle_and_with_idle_cycles() -> Result<(), Error> {
    const REQUESTS: u64 = 20_000;
    for (seed, idle_percent) in [(20, 0), (21, 40)] {
        let controls = Controls { atomic_shape_check: seed == 20, hold_mode: seed == 21 };
        let mut rig = Rig::new(seed, controls)?;
        let start = rig.bench.cycles();
        for _ in 0..REQUESTS {
            let case = random_case(&mut rig.random);
            rig.send(case)?;
            while rig.random.random_range(0..100) < idle_percent {
                rig.idle(1)?;
            }
        }
        assert!(idle_percent > 0 || rig.bench.cycles() - start == REQUESTS);
        rig.finish()?;
        let missing: Vec<_> =
            (0..=Status::WindowParent.code()).filter(|status| !rig.statuses.contains(status)).collect();
        let off = if controls.hold_mode { Status::AtomicShape } else { Status::HoldTooLong };
        assert_eq!(missing, [off.code()], "statuses that did not occur");
    }
    Ok(())
}

#[test]
fn reset_drops_requests_under_way() -> Result<(), Error> {
    let mut rig = Rig::new(10, Controls::RESET)?;
    for cycles in 0..12 {
        for _ in 0..cycles {
            let case = random_case(&mut rig.random);
            rig.send(case)?;
        }
        rig.reset()?;
        rig.idle(LATENCY_CYCLES + 3)?;
    }
    rig.send(Case::good())?;
    rig.finish()
}
