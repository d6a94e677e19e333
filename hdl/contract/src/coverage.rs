//! Functional coverage: what random verification must have seen, as named bins.
//!
//! A [`Group`] crosses its axes: one bin for each combination of their values. A bin that no run can fill is listed with
//! the reason under [`Group::unreachable`]; every other bin must be filled. Who collects decides nothing here, and nothing
//! here knows how a run is made.

use crate::status::Status;

/// One side of a cross.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Name in snake case.
    pub name: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
}

/// Bins that cannot be filled.
#[derive(Clone, Copy, Debug)]
pub struct Unreachable {
    /// One pattern for each axis: `*`, or values with `|` between them.
    pub pattern: &'static [&'static str],
    /// Why.
    pub reason: &'static str,
}

impl Unreachable {
    /// Whether a bin, given by its values, is one of these.
    #[must_use]
    pub fn covers(&self, values: &[&str]) -> bool {
        self.pattern.len() == values.len()
            && self
                .pattern
                .iter()
                .zip(values)
                .all(|(pattern, value)| *pattern == "*" || pattern.split('|').any(|one| one == *value))
    }
}

/// A cross of axes.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Name in snake case.
    pub name: &'static str,
    /// What is counted.
    pub doc: &'static str,
    /// The axes.
    pub axes: &'static [Axis],
    /// Bins that cannot be filled.
    pub unreachable: &'static [Unreachable],
}

impl Group {
    /// Number of bins.
    #[must_use]
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Whether there is no bin; no group is so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of a bin, the last axis counting fastest.
    #[must_use]
    pub fn values(&self, bin: usize) -> Vec<&'static str> {
        let mut rest = bin;
        let mut values: Vec<_> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let value = axis.values[rest % axis.values.len()];
                rest /= axis.values.len();
                value
            })
            .collect();
        values.reverse();
        values
    }

    /// The bin of some values; `None` where they are not of this group.
    #[must_use]
    pub fn bin(&self, values: &[&str]) -> Option<usize> {
        if values.len() != self.axes.len() {
            return None;
        }
        self.axes.iter().zip(values).try_fold(0, |bin, (axis, value)| {
            let position = axis.values.iter().position(|known| known == value)?;
            Some(bin * axis.values.len() + position)
        })
    }

    /// Why a bin cannot be filled; `None` where it must be.
    #[must_use]
    pub fn reason(&self, bin: usize) -> Option<&'static str> {
        let values = self.values(bin);
        self.unreachable.iter().find(|unreachable| unreachable.covers(&values)).map(|unreachable| unreachable.reason)
    }
}

const STATUS_NAMES: [&str; Status::ALL.len()] = {
    let mut names = [""; Status::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Status::ALL[index].name();
        index += 1;
    }
    names
};

const STATUS: Axis = Axis { name: "status", values: &STATUS_NAMES };
const HOPS: Axis = Axis { name: "hops", values: &["0", "1", "2", "3"] };
const READ: Axis = Axis { name: "read", values: &["0", "1", "2", "3"] };
const SCOPE: Axis = Axis { name: "scope", values: &["region", "range", "protection_domain", "function", "all"] };
const STALL: Axis = Axis { name: "stall", values: &["none", "requests", "responses", "memory", "all"] };
const ENGINE: Axis = Axis { name: "engine", values: &["default", "small", "small_ordered", "narrow", "least"] };
const ORDER: Axis = Axis { name: "order", values: &["any", "in_order"] };
const SHIFT: Axis = Axis {
    name: "page_shift",
    values: &[
        "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29",
        "30",
    ],
};
const LOOKUP: Axis = Axis { name: "lookup", values: &["hit", "miss"] };
const DATA_BITS: Axis = Axis { name: "data_bits", values: &["128", "256", "512"] };
const HEM_STATUS: Axis = Axis {
    name: "status",
    values: &["index_out_of_range", "bt0_unset", "hem_pointer_zero", "hem_misaligned", "hem_bus_error"],
};
const CHANGE: Axis = Axis { name: "change", values: &["entry", "hem_pointer", "page", "page_table"] };

macro_rules! axis {
    ($name:literal: $($value:literal)*) => { Axis { name: $name, values: &[$($value),*] } };
}

macro_rules! groups {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal [$($axis:expr),*] {
        $($($pattern:literal),* => $reason:literal;)*
    })*) => {
        /// A group by name; the discriminant is its position in [`GROUPS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum GroupName { $($(#[doc = $doc])* $name),* }

        /// All groups.
        pub const GROUPS: &[Group] = &[$(Group {
            name: $text, doc: concat!($($doc),*), axes: &[$($axis),*],
            unreachable: &[$(Unreachable { pattern: &[$($pattern),*], reason: $reason }),*],
        }),*];
    };
}

groups! {
    /// Responses, by status and by who asked.
    Outcome = "outcome" [STATUS, axis!("side": "local" "remote" "undefined")] {
        "hem_timeout|mtr_timeout", "*" => "the engine waits for every read; the codes are kept for a limit of that wait";
        "operation_unknown", "local|remote" => "an operation that has a side is known";
        "ok", "undefined" => "an undefined operation fails the first check";
        "length_too_long|atomic_shape|hold_too_long|index_out_of_range|bt0_unset|hem_pointer_zero|hem_misaligned|hem_bus_error", "undefined" => "an undefined operation fails the first check";
        "entry_state|entry_key|window_local|window_unbound|protection_domain|window_queue_pair|access_right", "undefined" => "an undefined operation fails the first check";
        "region_wraps|region_too_large|bounds|window_parent|mtr_index|mtr_misaligned|mtr_not_present|mtr_bus_error", "undefined" => "an undefined operation fails the first check";
        "atomic_shape", "local" => "the only atomic is remote";
        "window_local", "remote" => "the status says that the operation is local";
        "window_unbound|window_queue_pair|window_parent", "local" => "a local operation on a window fails before, with window_local";
    }

    /// Requests whose MPT entry could not be fetched, by hops of the MPT and number of the failing read.
    HemFailure = "hem_failure" [HEM_STATUS, HOPS, READ] {
        "*", "0", "1|2|3" => "a table of no hop has one read";
        "*", "1", "2|3" => "a table of one hop has two reads";
        "*", "2", "3" => "a table of two hops has three reads";
        "index_out_of_range|bt0_unset", "*", "1|2|3" => "found before the first read";
        "hem_pointer_zero", "*", "0" => "read 0 uses a BT0 base: zero there is bt0_unset";
    }

    /// Requests whose page could not be found, by hops of the page table and number of the failing read.
    MtrFailure = "mtr_failure" [
        axis!("status": "mtr_index" "mtr_misaligned" "mtr_not_present" "mtr_bus_error"), HOPS, axis!("read": "0" "1" "2")
    ] {
        "*", "0|1", "1|2" => "there is no such read";
        "*", "2", "2" => "there is no such read";
        "mtr_index", "*", "1|2" => "found before the first read";
        "mtr_misaligned", "*", "0" => "PBL_BA holds a multiple of 8";
        "mtr_bus_error", "0", "*" => "no hop, no read";
    }

    /// Context lookups by table; `none` is table code 7.
    ContextLookup = "context_lookup" [
        axis!("table": "qpc" "mpt" "cqc" "srqc" "sccc" "qpc_timer" "cqc_timer" "none"),
        axis!("status": "ok" "index_out_of_range" "bt0_unset" "hem_pointer_zero" "hem_misaligned" "hem_bus_error")
    ] {
        "none", "ok|index_out_of_range|hem_pointer_zero|hem_misaligned|hem_bus_error" => "code 7 names no table: nothing is set in it";
    }

    /// Context lookups that failed, by hops of the table and number of the failing read.
    ContextFailure = "context_failure" [HEM_STATUS, HOPS, READ] {
        "*", "0", "1|2|3" => "no pointer is used after read 0";
        "*", "1", "2|3" => "no pointer is used after read 1";
        "*", "2", "3" => "no pointer is used after read 2";
        "index_out_of_range|bt0_unset", "*", "1|2|3" => "found before the first read";
        "hem_pointer_zero", "*", "0" => "read 0 uses a BT0 base: zero there is bt0_unset";
        "hem_bus_error", "0", "0" => "the object itself is not read";
        "hem_bus_error", "1", "1" => "the object itself is not read";
        "hem_bus_error", "2", "2" => "the object itself is not read";
        "hem_bus_error", "3", "3" => "the object itself is not read";
    }

    /// Queue-buffer walks, by hops and number of the failing read; 0 where none fails.
    BufferWalk = "buffer_walk" [
        axis!("status": "ok" "mtr_index" "mtr_misaligned" "mtr_not_present" "mtr_bus_error"), HOPS,
        axis!("read": "0" "1" "2")
    ] {
        "*", "0|1", "1|2" => "there is no such read";
        "*", "2", "2" => "there is no such read";
        "ok|mtr_index", "*", "1|2" => "found before the first read";
        "mtr_bus_error", "0", "*" => "no hop, no read";
    }

    /// Requests that were alone in the engine, by where their MPT entry was and the hops of the MPT.
    MptLookup = "mpt_lookup" [LOOKUP, HOPS] {}

    /// MPT misses that were alone in the engine: whether a HEM pointer was cached.
    HemLookup = "hem_lookup" [LOOKUP, axis!("hops": "1" "2" "3")] {}

    /// Single-page requests that were alone in the engine, by where their page was, its size, and the hops of its table.
    TlbLookup = "tlb_lookup" [LOOKUP, axis!("page": "smallest" "larger"), HOPS] {}

    /// TLB misses that were alone in the engine: which pointer of the page table was cached.
    MtrLookup = "mtr_lookup" [axis!("cached": "leaf_table" "middle_table" "none"), axis!("hops": "2" "3")] {
        "middle_table", "2" => "a table of two hops has no middle table";
    }

    /// Granted requests, by page size and hops.
    Page = "page" [SHIFT, HOPS] {}

    /// Requests whose entry was found good, by pages, how they ended, and hold mode. `several`: as many as are held.
    Pages = "pages" [
        axis!("pages": "none" "one" "two" "several" "many"), axis!("end": "ok" "error_first" "error_later"),
        axis!("hold": "off" "on")
    ] {
        "none", "error_first|error_later", "*" => "a length of 0 reads no table";
        "one", "error_later", "*" => "there is no later page";
        "many", "*", "on" => "hold_too_long comes first";
    }

    /// Neighbouring pages of granted requests, by the limit of merging. `joined`: contiguous, in one segment. `limited`:
    /// contiguous, but the segment would be too long. `apart`: not contiguous.
    Merge = "merge" [axis!("limit": "off" "some" "none"), axis!("pages": "joined" "limited" "apart")] {
        "off", "joined" => "merging is off";
        "none", "limited" => "no request is longer than the limit";
    }

    /// Requests that reached an MPT entry, by what it is, the operation, and whether the checks of the entry passed.
    Entry = "entry" [
        axis!("entry": "free" "window" "direct" "zero_based" "fast" "plain"),
        axis!("operation": "local_read" "local_write" "remote_read" "remote_write" "remote_atomic" "bind"),
        axis!("checks": "passed" "refused")
    ] {
        "free", "*", "passed" => "free entries are always refused";
        "window", "local_read|local_write|bind", "passed" => "a window has remote accesses only";
    }

    /// Requests that passed all checks before the bounds, by where they lie.
    Bounds = "bounds" [axis!("place":
        "first_byte" "last_byte" "whole" "inside" "before" "after" "region_ends_at_top" "past_top")] {}

    /// Runs by engine, memory latency (cycles: to 3, 20, 120, more) and order of the memory's answers.
    Memory = "memory" [
        ENGINE, axis!("latency": "shortest" "short" "medium" "long"), axis!("answers": "in_order" "reordered")
    ] {}

    /// Runs by engine and by who stalls.
    Stalls = "stalls" [ENGINE, STALL] {}

    /// Responses, by what they are, who stalls and the order of responses.
    OutcomeStall = "outcome_stall" [
        axis!("outcome": "granted_page" "granted_pages" "refused" "hem_error" "mtr_error"), STALL, ORDER
    ] {}

    /// Responses: whether an older request was still waiting.
    Overtaking = "overtaking" [ORDER, axis!("response": "in_turn" "overtook")] {
        "in_order", "overtook" => "forbidden";
    }

    /// Invalidations, by what was in flight when they were accepted. `dma`: answered and not reported done, nothing else.
    Invalidation = "invalidation" [
        SCOPE, axis!("in_flight": "nothing" "dma" "requests" "context" "requests_and_context")
    ] {}

    /// Responses between a change of tables that concerns them and the completion of its invalidation.
    Race = "race" [SCOPE, CHANGE, axis!("answer": "old" "new" "mixed")] {
        "*", "entry|hem_pointer", "mixed" => "a request uses one entry; old pages beside a new entry are not counted";
    }

    /// Responses after the completion for which the old tables would have given another answer.
    AfterFence = "after_fence" [SCOPE, CHANGE] {}

    /// Invalidations that were waiting for their completion when another was accepted.
    InvalidationDepth = "invalidation_depth" [axis!("waiting": "0" "1" "2" "3_or_more")] {}

    /// Resets, by what was in flight.
    Reset = "reset" [axis!("in_flight": "nothing" "requests" "fence")] {}

    /// Tables that were exchanged altogether, by how the engine was told.
    Exchange = "exchange" [axis!("by": "invalidation" "reset")] {}

    /// Requests for which a switch decided.
    SwitchEffect = "switch_effect" [axis!("effect":
        "odd_atomic_refused" "odd_atomic_accepted" "zero_entry_refused" "zero_entry_used" "index_refused"
        "index_unchecked" "misaligned_refused" "misaligned_used" "hold_refused" "hold_discarded_pages")] {}

    /// Failed reads, by who failed, width of the table port and kind of table.
    BusError = "bus_error" [
        axis!("by": "slave_error" "decode_error" "unbacked"), DATA_BITS, axis!("table": "hem" "mtr")
    ] {}

    /// Good answers read from a line of which another part is faulty.
    BusErrorBeside = "bus_error_beside" [DATA_BITS] {
        "512" => "a line is one beat, which fails as a whole";
    }

    /// Requests by table set.
    TableSet = "table_set" [axis!("set": "0" "1")] {}

    /// Events of the fault port.
    FaultPort = "fault_port" [axis!("source": "request" "context"), axis!("event": "sent" "lost")] {}

    /// Runs by how late DMA is reported done (cycles: at once, to 50, more) and whether the engine waits for that.
    Reports = "reports" [axis!("delay": "at_once" "short" "long"), axis!("done_tracking": "on" "off")] {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_bins_and_numbers_go_together() {
        for group in GROUPS {
            assert!(!group.is_empty());
            for bin in 0..group.len() {
                assert_eq!(group.bin(&group.values(bin)), Some(bin), "{}", group.name);
            }
            assert_eq!(group.bin(&["no such value"]), None);
        }
    }

    #[test]
    fn every_unreachable_pattern_covers_a_bin_that_no_earlier_one_covers() {
        for group in GROUPS {
            for (position, unreachable) in group.unreachable.iter().enumerate() {
                let is_new = |bin: usize| {
                    let values = group.values(bin);
                    let earlier = &group.unreachable[..position];
                    unreachable.covers(&values) && !earlier.iter().any(|earlier| earlier.covers(&values))
                };
                assert!((0..group.len()).any(is_new), "{}: {:?}", group.name, unreachable.pattern);
                for (pattern, axis) in unreachable.pattern.iter().zip(group.axes) {
                    let is_known = |one: &str| one == "*" || axis.values.contains(&one);
                    assert!(pattern.split('|').all(is_known), "{}: {pattern}", group.name);
                }
            }
        }
    }
}
