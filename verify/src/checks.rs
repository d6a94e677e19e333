//! The rows of a vector as requests and what must come back.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::{Operation, Status, WireClass};
use keywalk_model::{Beat, ContextQuery, ContextRequest, ContextResponse, Request};

use crate::tables::{Golden, Tables};
use crate::vector::{AccessCheck, Mismatch, Reason, Translation, Vector, Verdict, Walker};

/// What must come back for a row that is a translation request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// One segment of one byte.
    Byte {
        /// Its bus address.
        pa: u64,
    },
    /// Success, wherever the segments are.
    Granted {
        /// Bytes of all segments together.
        length_bytes: u32,
    },
    /// One beat with an error.
    Refused {
        /// Any of these.
        statuses: &'static [Status],
        /// What the wire may know.
        wire_class: WireClass,
        /// Where the tables lead regardless of the refusal, where the row says it. No response tells.
        reading: Option<Walker>,
    },
    /// The page table cannot be read.
    TableUnreadable {
        /// Bus address of the read that fails, where the row says it.
        address: Option<u64>,
        /// Whether pages before the failure may have been answered.
        may_follow_segments: bool,
    },
}

/// A row that is a translation request.
#[derive(Clone, Debug)]
pub struct TranslationCheck {
    /// Row, such as `xlate[3]`.
    pub place: String,
    /// The request; its tag is 0.
    pub request: Request,
    /// What must come back.
    pub expected: Expected,
}

/// Key, VA and protection domain of an `xlate` or `bad` row.
type Place = (u32, u64, u32);
/// All of an `xlate` row.
type ByteKey = (Place, u64);
/// All of a `bad` row.
type AccessKey = (Place, u32, Operation, Reason, Verdict);

impl Translation {
    fn place(&self) -> Place {
        (self.key.0, self.va.0, self.pd)
    }

    fn byte_key(&self) -> ByteKey {
        (self.place(), self.pa.0)
    }
}

impl AccessCheck {
    fn place(&self) -> Place {
        (self.key.0, self.va.0, self.pd)
    }

    fn access_key(&self) -> AccessKey {
        (self.place(), self.len, self.op, self.reason, self.expect)
    }
}

/// Literal readings by row. A row that is there several times has as many readings, in the same order.
#[derive(Debug)]
struct Readings<K, V>(HashMap<K, VecDeque<V>>);

impl<K, V> Default for Readings<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq, V: Copy> Readings<K, V> {
    fn add(&mut self, key: K, reading: V) {
        self.0.entry(key).or_default().push_back(reading);
    }

    /// The next reading of a row; the last one serves all further rows.
    fn take(&mut self, key: &K) -> Option<V> {
        let readings = self.0.get_mut(key)?;
        if readings.len() > 1 { readings.pop_front() } else { readings.front().copied() }
    }
}

/// The literal readings of a vector.
#[derive(Debug, Default)]
struct LiteralReadings {
    /// Of bytes.
    bytes: Readings<ByteKey, Walker>,
    /// Of the access check of a byte.
    checks: Readings<ByteKey, Reason>,
    /// Places of the latter.
    checked: HashSet<Place>,
    /// Of access checks at a place, which hold for a byte there too.
    nearby: Readings<Place, Reason>,
    /// Of access checks.
    accesses: Readings<AccessKey, Reason>,
    /// Bytes whose page table cannot be read, and where that is.
    unreadable: Vec<(Place, u64)>,
}

impl LiteralReadings {
    fn of(vector: &Vector) -> Self {
        let mut readings = Self::default();
        for mismatch in &vector.known_mismatch {
            match mismatch {
                Mismatch::Xlate { entry, walker } => {
                    readings.bytes.add(entry.byte_key(), *walker);
                    if let Walker::Unmapped(address) = walker {
                        readings.unreadable.push((entry.place(), *address));
                    }
                }
                Mismatch::Check { entry, walker } => {
                    readings.checks.add(entry.byte_key(), *walker);
                    readings.checked.insert(entry.place());
                }
                Mismatch::Bad { entry, walker } => {
                    readings.nearby.add(entry.place(), *walker);
                    readings.accesses.add(entry.access_key(), *walker);
                }
                Mismatch::Inner {} => {}
            }
        }
        readings
    }

    /// What a byte must be answered with.
    fn byte(&mut self, row: &Translation) -> Expected {
        let key = row.byte_key();
        // Both are taken, so that the next row of the same key gets the next of each.
        let (reading, check) = (self.bytes.take(&key), self.checks.take(&key));
        let nearby = if self.checked.contains(&row.place()) { None } else { self.nearby.take(&row.place()) };
        match (check.or(nearby).filter(|reason| *reason != Reason::Ok), reading) {
            (Some(reason), reading) => refused(reason, Operation::LocalRead, 1, reading),
            (None, Some(Walker::Unmapped(address))) => {
                Expected::TableUnreadable { address: Some(address), may_follow_segments: false }
            }
            (None, Some(Walker::Address(pa))) => Expected::Byte { pa },
            (None, None) => Expected::Byte { pa: row.pa.0 },
        }
    }

    /// What an access must be answered with.
    fn access(&mut self, row: &AccessCheck) -> Expected {
        if let Some(reason) = self.accesses.take(&row.access_key()) {
            return refused(reason, row.op, row.len, None);
        }
        if row.reason != Reason::Ok || row.expect != Verdict::Ok {
            let wire_class = row.expect.wire_class();
            return Expected::Refused { statuses: row.reason.statuses(), wire_class, reading: None };
        }
        // The access is allowed, but the literal reading of the table may end at memory that is not backed.
        let (key, first, pd) = row.place();
        let is_within = |byte: &Place| {
            (byte.0, byte.2) == (key, pd) && byte.1.checked_sub(first).is_some_and(|offset| offset < row.len.into())
        };
        let unreadable = self.unreadable.iter().filter(|(byte, _)| is_within(byte)).min();
        match unreadable {
            Some((byte, address)) => Expected::TableUnreadable {
                address: (byte.1 == first).then_some(*address),
                may_follow_segments: byte.1 != first,
            },
            None => Expected::Granted { length_bytes: row.len },
        }
    }
}

fn request(operation: Operation, key: u32, pd: u32, va: u64, length: u32) -> Request {
    Request { tag: 0, function: 0, operation: operation.code(), key, pd, qpn: 0, va, length }
}

/// What an access that fails at `reason` is answered with.
fn refused(reason: Reason, operation: Operation, length: u32, reading: Option<Walker>) -> Expected {
    match reason {
        Reason::Ok => Expected::Granted { length_bytes: length },
        _ => {
            let statuses = reason.statuses();
            let status = statuses.first().copied().unwrap_or(Status::Ok);
            Expected::Refused { statuses, wire_class: status.wire_class(operation.code()), reading }
        }
    }
}

/// The `xlate` and `bad` rows, each with its literal reading where that differs from what the driver meant.
#[must_use]
pub fn translations(vector: &Vector) -> Vec<TranslationCheck> {
    let mut readings = LiteralReadings::of(vector);
    let mut checks = Vec::with_capacity(vector.xlate.len() + vector.bad.len());
    for (position, row) in vector.xlate.iter().enumerate() {
        checks.push(TranslationCheck {
            place: format!("xlate[{position}] (region `{}`)", row.mr),
            request: request(Operation::LocalRead, row.key.0, row.pd, row.va.0, 1),
            expected: readings.byte(row),
        });
    }
    for (position, row) in vector.bad.iter().enumerate() {
        let region = row.mr.as_ref().map_or("no region".into(), |name| format!("region `{name}`"));
        checks.push(TranslationCheck {
            place: format!("bad[{position}] ({region}, reason {})", row.reason.name()),
            request: request(row.op, row.key.0, row.pd, row.va.0, row.len),
            expected: readings.access(row),
        });
    }
    checks
}

impl TranslationCheck {
    /// Whether a response is as expected. `golden` finds out what a response does not tell: which read has failed,
    /// and where the tables lead that must not be used.
    #[must_use]
    pub fn holds(&self, beats: &[Beat], golden: &Golden) -> bool {
        let is_single = beats.len() == 1;
        let in_order = (0..).zip(beats).all(|(number, beat)| {
            beat.segment == number && beat.first == (number == 0) && beat.last == (number as usize + 1 == beats.len())
        });
        let Some(last) = beats.last().filter(|_| in_order) else {
            return false;
        };
        let is_ok = |beat: &Beat| beat.status == Status::Ok && beat.wire_class == WireClass::None;
        match self.expected {
            Expected::Byte { pa } => is_single && is_ok(last) && (last.pa, last.length) == (pa, 1),
            Expected::Granted { length_bytes } => {
                let found_bytes: u64 = beats.iter().map(|beat| u64::from(beat.length)).sum();
                let is_empty_answer = length_bytes == 0 && is_single && last.pa == 0;
                beats.iter().all(is_ok)
                    && found_bytes == u64::from(length_bytes)
                    && (length_bytes > 0 || is_empty_answer)
            }
            Expected::Refused { statuses, wire_class, reading } => {
                is_single
                    && statuses.contains(&last.status)
                    && last.wire_class == wire_class
                    && (last.pa, last.length) == (0, 0)
                    && reading.is_none_or(|reading| golden.literal_reading(&self.request) == Some(reading))
            }
            Expected::TableUnreadable { address, may_follow_segments } => {
                (is_single || may_follow_segments)
                    && last.status == Status::MtrBusError
                    && last.wire_class == Status::MtrBusError.wire_class(self.request.operation)
                    && last.table == TABLE_CODE_MTR
                    && (last.pa, last.length) == (0, 0)
                    && address.is_none_or(|address| golden.explain(&self.request).1.failed_read() == Some(address))
            }
        }
    }

    /// What must come back, for people.
    #[must_use]
    pub fn expectation(&self) -> String {
        match self.expected {
            Expected::Byte { pa } => format!("ok: pa {pa:#x}, 1 byte"),
            Expected::Granted { length_bytes } => format!("ok: {length_bytes} bytes"),
            Expected::Refused { statuses, wire_class, reading } => {
                let names: Vec<_> = statuses.iter().map(|status| status.name()).collect();
                let reading = match reading {
                    Some(Walker::Address(pa)) => format!("; the tables lead to {pa:#x} regardless"),
                    Some(Walker::Unmapped(address)) => format!("; the tables lead to an unreadable {address:#x}"),
                    None => String::new(),
                };
                format!("status {}, wire class {}{reading}", names.join(" or "), wire_class.name())
            }
            Expected::TableUnreadable { address, .. } => {
                let class = Status::MtrBusError.wire_class(self.request.operation).name();
                let address = address.map_or(String::new(), |address| format!(" at {address:#x}"));
                format!("status {}, wire class {class}: the table read{address} fails", Status::MtrBusError.name())
            }
        }
    }
}

/// What a request on the context port tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextExpected {
    /// An address, and the 8 bytes that are there, if they are known.
    Address {
        /// Bus address.
        pa: u64,
        /// What is there, as a little-endian number.
        marker: Option<u64>,
    },
    /// The page index is refused. This is no row of the vector.
    IndexRefused,
}

/// A request on the context port and what must come back.
#[derive(Clone, Debug)]
pub struct ContextCheck {
    /// Row, such as `ctx[3]`.
    pub place: String,
    /// The request; its tag is 0.
    pub request: ContextRequest,
    /// What must come back.
    pub expected: ContextExpected,
}

/// The `ctx` rows and the expected pages of `mtrs` rows, and for each region of those the indices that must fail.
#[must_use]
pub fn contexts(vector: &Vector) -> Vec<ContextCheck> {
    let check = |place: String, query: ContextQuery, expected: ContextExpected| {
        let request = ContextRequest { tag: 0, function: 0, query };
        ContextCheck { place, request, expected }
    };
    let mut checks = Vec::new();
    for (position, row) in vector.ctx.iter().enumerate() {
        let query = ContextQuery::Lookup { table: row.table.code(), index: row.obj };
        let expected = ContextExpected::Address { pa: row.pa.0, marker: Some(row.marker()) };
        checks.push(check(format!("ctx[{position}]"), query, expected));
    }
    for (position, buffer) in vector.mtrs.iter().enumerate() {
        let walk = |region: usize, index: u32| {
            let walk = buffer.walk(region)?;
            let (root, hop, ba_pg_sz, buf_pg_sz) = (walk.root, walk.hop, walk.ba_pg_sz, walk.buf_pg_sz);
            Some(ContextQuery::Walk { root, hop, ba_pg_sz, buf_pg_sz, index, count: walk.count })
        };
        let place = format!("mtrs[{position}] (`{}`)", buffer.name);
        for (row, (region, page, pa)) in buffer.expect.iter().enumerate() {
            if let Some(query) = walk(*region, *page) {
                let expected = ContextExpected::Address { pa: pa.0, marker: None };
                checks.push(check(format!("{place}.expect[{row}], region {region}"), query, expected));
            }
        }
        for region in 0..buffer.region_count() {
            let count = buffer.walk(region).map_or(0, |walk| walk.count);
            let indices: BTreeSet<u32> = [count, count.saturating_add(1), u32::MAX].into();
            // A count of 0 means unchecked on the port: such a region has no page to ask for.
            for index in indices.into_iter().filter(|_| count > 0 && count < u32::MAX) {
                if let Some(query) = walk(region, index) {
                    checks.push(check(format!("{place}, region {region}"), query, ContextExpected::IndexRefused));
                }
            }
        }
    }
    checks
}

impl ContextCheck {
    /// Whether this is a row of the vector, and not one that was made up beside.
    #[must_use]
    pub fn is_row(&self) -> bool {
        self.expected != ContextExpected::IndexRefused
    }

    /// Whether a response is as expected.
    #[must_use]
    pub fn holds(&self, response: &ContextResponse, tables: &Tables) -> bool {
        let ContextResponse { status, table, hop, address, .. } = *response;
        match self.expected {
            ContextExpected::Address { pa, marker } => {
                let is_marked = |marker| tables.memory.read_u64(address) == Ok(marker);
                (status, table, hop, address) == (Status::Ok, 0, 0, pa) && marker.is_none_or(is_marked)
            }
            ContextExpected::IndexRefused => (status, table, hop, address) == (Status::MtrIndex, TABLE_CODE_MTR, 0, 0),
        }
    }

    /// What must come back, for people.
    #[must_use]
    pub fn expectation(&self) -> String {
        match self.expected {
            ContextExpected::Address { pa, marker: Some(marker) } => {
                format!("ok: address {pa:#x}, where {marker:#018x} is stored")
            }
            ContextExpected::Address { pa, marker: None } => format!("ok: address {pa:#x}"),
            ContextExpected::IndexRefused => format!("status {}", Status::MtrIndex.name()),
        }
    }
}

/// Names of the regions whose literal reading differs from what the driver meant.
#[must_use]
pub fn mismatched_regions(vector: &Vector) -> HashSet<&str> {
    vector.known_mismatch.iter().filter_map(Mismatch::region).collect()
}
