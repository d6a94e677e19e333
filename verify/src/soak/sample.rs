//! Which bins of the coverage something falls into.

use std::collections::BTreeSet;

use keywalk_contract::coverage::GroupName;
use keywalk_contract::hem::TABLE_CODE_MTR;
use keywalk_contract::op::ATOMIC_BYTES;
use keywalk_contract::ports::Scope;
use keywalk_contract::{Operation, Status, Table, mpt_entry};
use keywalk_cosim::ReadFault;
use keywalk_model::{Beat, ContextQuery, ContextRequest, ContextResponse, MptEntry, Request, Segment, TableRead};

use super::answer::{Answer, follows};
use super::case::{Case, Chapter, Tables};
use crate::coverage::Coverage;

const DIGITS: [&str; 4] = ["0", "1", "2", "3"];

/// Name of a scope.
pub(super) fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Region => "region",
        Scope::Range => "range",
        Scope::ProtectionDomain => "protection_domain",
        Scope::Function => "function",
        Scope::All => "all",
    }
}

fn digit(number: u8) -> &'static str {
    DIGITS[usize::from(number & 3)]
}

fn order(case: &Case) -> &'static str {
    if case.config.in_order { "in_order" } else { "any" }
}

fn data_bits(case: &Case) -> &'static str {
    match case.config.table_data_bits {
        128 => "128",
        256 => "256",
        _ => "512",
    }
}

/// The engine whose coverage a case counts for: a faulty copy counts for what it is a copy of.
fn engine(case: &Case) -> &str {
    &case.config.name
}

/// A case that has passed.
pub(super) fn case(coverage: &mut Coverage, case: &Case) {
    let latency = match *case.surroundings.latency_cycles.end() {
        0..=3 => "shortest",
        4..=20 => "short",
        21..=120 => "medium",
        _ => "long",
    };
    let answers = if case.surroundings.reorder { "reordered" } else { "in_order" };
    coverage.hit(GroupName::Memory, &[engine(case), latency, answers]);
    coverage.hit(GroupName::Stalls, &[engine(case), case.surroundings.stall]);
    let delay = match case.surroundings.report_cycles_max {
        0 => "at_once",
        1..=50 => "short",
        _ => "long",
    };
    coverage.hit(GroupName::Reports, &[delay, if case.config.done_tracking { "on" } else { "off" }]);
}

/// A request that was alone, with the differences of the counters: MPT hits, TLB hits and misses, HEM hits and misses,
/// lower hits, upper hits and misses.
pub(super) fn alone(coverage: &mut Coverage, answer: &Answer, counters: [u64; 8]) {
    let [mpt_hits, tlb_hits, tlb_misses, hem_hits, hem_misses, lower_hits, upper_hits, upper_misses] = counters;
    // Of a window and its parent the counters tell no one from the other.
    if answer.entries.len() > 1 {
        return;
    }
    let Some(entry_read) = answer.reads.iter().find(|read| read.table == Table::Mpt.code() && read.bytes == 64) else {
        return;
    };
    let hops = digit(entry_read.hop);
    coverage.hit(GroupName::MptLookup, &[if mpt_hits > 0 { "hit" } else { "miss" }, hops]);
    if hem_hits + hem_misses > 0 {
        coverage.hit(GroupName::HemLookup, &[if hem_hits > 0 { "hit" } else { "miss" }, hops]);
    }
    let Some(entry) = answer.entry() else { return };
    if answer.pieces.len() != 1 || entry.is_set(mpt_entry::PA) {
        return;
    }
    let hops = digit(entry.get(mpt_entry::PBL_HOP_NUM) as u8);
    let page = if entry.get(mpt_entry::PBL_BUF_PG_SZ) == 0 { "smallest" } else { "larger" };
    if tlb_hits + tlb_misses > 0 {
        coverage.hit(GroupName::TlbLookup, &[if tlb_hits > 0 { "hit" } else { "miss" }, page, hops]);
    }
    if tlb_misses > 0 && matches!(hops, "2" | "3") {
        let cached = match (lower_hits, upper_hits, upper_misses) {
            (1.., ..) => "leaf_table",
            (_, 1.., _) => "middle_table",
            _ => "none",
        };
        coverage.hit(GroupName::MtrLookup, &[cached, hops]);
    }
}

/// A response that is as these tables say.
pub(super) fn response(
    coverage: &mut Coverage,
    case: &Case,
    chapter: &Chapter,
    tables: &Tables,
    request: &Request,
    answer: &Answer,
    beats: &[Beat],
) {
    let status = answer.response.status();
    let side = match Operation::from_code(request.operation) {
        None => "undefined",
        Some(operation) if operation.is_remote() => "remote",
        Some(_) => "local",
    };
    coverage.hit(GroupName::Outcome, &[status.name(), side]);
    let model = &chapter.scenario.model;
    let set = model.table_set(request.function);
    coverage.hit(GroupName::TableSet, &[digit(model.function_map[usize::from(request.function)] & 1)]);
    let outcome = match status {
        Status::Ok if answer.pieces.len() > 1 => "granted_pages",
        Status::Ok => "granted_page",
        _ if !status.names_a_table() => "refused",
        _ if is_of_page_table(answer) => "mtr_error",
        _ => "hem_error",
    };
    coverage.hit(GroupName::OutcomeStall, &[outcome, case.surroundings.stall, order(case)]);

    if let Some(failure) = answer.response.failure.filter(|failure| failure.status.names_a_table()) {
        if failure.table == TABLE_CODE_MTR {
            if let Some(entry) = answer.mapping_entry() {
                let hops = digit(entry.get(mpt_entry::PBL_HOP_NUM) as u8);
                coverage.hit(GroupName::MtrFailure, &[failure.status.name(), hops, digit(failure.hop)]);
            }
        } else {
            let hops = digit(set.table(Table::Mpt).geometry.hop);
            coverage.hit(GroupName::HemFailure, &[failure.status.name(), hops, digit(failure.hop)]);
        }
    }
    reads(coverage, case, chapter, tables, &answer.reads);
    switches(coverage, chapter, request, answer);
    if status == Status::Ok && request.length == 0 {
        let hold = if model.controls.hold_mode { "on" } else { "off" };
        coverage.hit(GroupName::Pages, &["none", "ok", hold]);
    }
    if let (Some(entry), Some(mapping_entry)) = (answer.entry(), answer.mapping_entry()) {
        checks(coverage, request, answer, entry);
        pages(coverage, case, chapter, request, answer, mapping_entry);
        merging(coverage, chapter, answer, beats);
    }
}

fn is_of_page_table(answer: &Answer) -> bool {
    answer.response.failure.is_some_and(|failure| failure.table == TABLE_CODE_MTR)
}

/// Failed reads, and reads beside a fault.
fn reads(coverage: &mut Coverage, case: &Case, chapter: &Chapter, tables: &Tables, reads: &[TableRead]) {
    for read in reads {
        match read.value {
            Err(_) => {
                let line = read.address / 64;
                let fault = chapter.faults.iter().find(|(address, _)| address / 64 == line);
                let by = match fault {
                    Some((_, ReadFault::SlaveError { .. })) => "slave_error",
                    Some((_, ReadFault::DecodeError { .. })) => "decode_error",
                    _ => "unbacked",
                };
                let table = if read.table == TABLE_CODE_MTR { "mtr" } else { "hem" };
                coverage.hit(GroupName::BusError, &[by, data_bits(case), table]);
            }
            Ok(_) if tables.is_faulty_beside(read.address, read.bytes) => {
                coverage.hit(GroupName::BusErrorBeside, &[data_bits(case)]);
            }
            Ok(_) => {}
        }
    }
}

/// What the switches decided.
fn switches(coverage: &mut Coverage, chapter: &Chapter, request: &Request, answer: &Answer) {
    let controls = &chapter.scenario.model.controls;
    let status = answer.response.status();
    let mut effect = |name: &str| coverage.hit(GroupName::SwitchEffect, &[name]);
    let is_odd = u64::from(request.length) != ATOMIC_BYTES || !request.va.is_multiple_of(ATOMIC_BYTES);
    match status {
        Status::AtomicShape => effect("odd_atomic_refused"),
        Status::MtrNotPresent => effect("zero_entry_refused"),
        Status::MtrIndex => effect("index_refused"),
        Status::HemMisaligned | Status::MtrMisaligned if controls.alignment_check => effect("misaligned_refused"),
        Status::HoldTooLong => effect("hold_refused"),
        Status::Ok if request.operation == Operation::RemoteAtomic.code() && is_odd && request.length > 0 => {
            effect("odd_atomic_accepted");
        }
        _ => {}
    }
    if controls.hold_mode && answer.response.failure.is_some() && !answer.pieces.is_empty() {
        effect("hold_discarded_pages");
    }
    let is_page_zero = |read: &TableRead| read.table == TABLE_CODE_MTR && read.value == Ok(0);
    if status == Status::Ok && answer.reads.iter().any(is_page_zero) {
        effect("zero_entry_used");
    }
    // A pointer was used if the next read follows it.
    let is_used = |pair: &[TableRead]| pair[0].table == pair[1].table && pair[0].hop + 1 == pair[1].hop;
    let is_misaligned = |read: &TableRead| read.value.is_ok_and(|pointer| !pointer.is_multiple_of(4096));
    if answer.reads.windows(2).any(|pair| is_used(pair) && is_misaligned(&pair[0])) {
        effect("misaligned_used");
    }
    if let Some(entry) = answer.mapping_entry()
        && status == Status::Ok
        && !entry.is_set(mpt_entry::PA)
    {
        // The table says fewer pages than the request reached.
        let reached = answer.pieces.len() as u64;
        if reached > entry.get(mpt_entry::PBL_SIZE) {
            effect("index_unchecked");
        }
    }
}

/// The entry and its checks.
fn checks(coverage: &mut Coverage, request: &Request, answer: &Answer, entry: &MptEntry) {
    let status = answer.response.status();
    let Some(operation) = Operation::from_code(request.operation) else { return };
    let kind = if entry.get(mpt_entry::ST) != mpt_entry::STATE_VALID {
        "free"
    } else if entry.is_set(mpt_entry::MR_MW) {
        "window"
    } else if entry.is_set(mpt_entry::PA) {
        "direct"
    } else if entry.is_set(mpt_entry::ZBVA) {
        "zero_based"
    } else if entry.is_set(mpt_entry::FRE) {
        "fast"
    } else {
        "plain"
    };
    let is_refused = (Status::EntryState..=Status::WindowParent).contains(&status);
    coverage.hit(GroupName::Entry, &[kind, operation.name(), if is_refused { "refused" } else { "passed" }]);
    if (is_refused && status != Status::Bounds) || entry.is_set(mpt_entry::PA) {
        return;
    }
    let (va, length) = (u128::from(answer.own_va(request)), u128::from(request.length));
    let (region, bytes) = (u128::from(entry.get(mpt_entry::VA)), u128::from(entry.get(mpt_entry::LEN)));
    let (end, region_end) = (va + length, region + bytes);
    let place = if end > 1 << 64 {
        "past_top"
    } else if va < region {
        "before"
    } else if end > region_end {
        "after"
    } else if end == 1 << 64 {
        "region_ends_at_top"
    } else {
        match (va == region, end == region_end) {
            (true, true) => "whole",
            (true, false) => "first_byte",
            (false, true) => "last_byte",
            (false, false) => "inside",
        }
    };
    coverage.hit(GroupName::Bounds, &[place]);
}

/// Pages, and how many of them.
fn pages(
    coverage: &mut Coverage,
    case: &Case,
    chapter: &Chapter,
    request: &Request,
    answer: &Answer,
    entry: &MptEntry,
) {
    let status = answer.response.status();
    if entry.is_set(mpt_entry::PA) || !(status == Status::Ok || is_of_page_table(answer)) {
        return;
    }
    let set = chapter.scenario.model.table_set(request.function);
    let shift = u64::from(set.page_shift_base) + entry.get(mpt_entry::PBL_BUF_PG_SZ);
    if status == Status::Ok {
        let hops = digit(entry.get(mpt_entry::PBL_HOP_NUM) as u8);
        coverage.hit(GroupName::Page, &[&shift.to_string(), hops]);
    }
    let va = answer.own_va(request);
    let last = va + (u64::from(request.length) - 1);
    let pages = match (last >> shift) - (va >> shift) + 1 {
        1 => "one",
        2 => "two",
        count if count <= u64::from(case.config.split_pages) => "several",
        _ => "many",
    };
    let end = match (status, answer.pieces.len()) {
        (Status::Ok, _) => "ok",
        (_, 0) => "error_first",
        _ => "error_later",
    };
    let hold = if chapter.scenario.model.controls.hold_mode { "on" } else { "off" };
    coverage.hit(GroupName::Pages, &[pages, end, hold]);
}

/// What became of neighbouring pages.
fn merging(coverage: &mut Coverage, chapter: &Chapter, answer: &Answer, beats: &[Beat]) {
    if answer.response.failure.is_some() {
        return;
    }
    let limit = match chapter.scenario.model.controls.merge_bytes_max {
        0 => "off",
        1..0x8000_0000 => "some",
        _ => "none",
    };
    for fate in fates(&answer.pieces, beats.iter().map(|beat| beat.length)) {
        coverage.hit(GroupName::Merge, &[limit, fate]);
    }
}

/// What became of each page but the first, from the lengths of the segments.
fn fates(pages: &[Segment], segments: impl Iterator<Item = u32>) -> Vec<&'static str> {
    // By their places in the request: another page may have the same address.
    let starts: BTreeSet<u64> = offsets(segments).collect();
    let places = offsets(pages.iter().map(|page| page.length_bytes)).skip(1);
    let pairs = pages.windows(2).zip(places);
    pairs
        .map(|(pair, place)| match (follows(&pair[0], &pair[1]), starts.contains(&place)) {
            (false, _) => "apart",
            (true, true) => "limited",
            (true, false) => "joined",
        })
        .collect()
}

/// Where each part begins.
fn offsets(lengths: impl Iterator<Item = u32>) -> impl Iterator<Item = u64> {
    lengths.scan(0, |end, length| {
        let start = *end;
        *end += u64::from(length);
        Some(start)
    })
}

/// An answer of the context port.
pub(super) fn context(
    coverage: &mut Coverage,
    chapter: &Chapter,
    request: &ContextRequest,
    response: &ContextResponse,
) {
    let status = response.status.name();
    match request.query {
        ContextQuery::Lookup { table, .. } => {
            let known = Table::from_code(table);
            coverage.hit(GroupName::ContextLookup, &[known.map_or("none", Table::name), status]);
            if let Some(table) = known
                && response.status != Status::Ok
            {
                let hops = chapter.scenario.model.table_set(request.function).table(table).geometry.hop;
                coverage.hit(GroupName::ContextFailure, &[status, digit(hops), digit(response.hop)]);
            }
        }
        ContextQuery::Walk { hop, .. } => {
            coverage.hit(GroupName::BufferWalk, &[status, digit(hop), digit(response.hop)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_apart_by_their_places_and_not_by_their_addresses() {
        let page = |pa| Segment { pa, length_bytes: 0x1000 };
        // The last page is the second one once more, and begins a segment.
        let pages = [page(0x1000), page(0x2000), page(0x2000)];
        assert_eq!(fates(&pages, [0x2000, 0x1000].into_iter()), ["joined", "apart"]);
        let pages = [page(0x1000), page(0x2000), page(0x3000)];
        assert_eq!(fates(&pages, [0x2000, 0x1000].into_iter()), ["joined", "limited"]);
        assert_eq!(fates(&pages, [0x3000].into_iter()), ["joined", "joined"]);
    }
}
