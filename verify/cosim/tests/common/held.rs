//! What the pieces of a request share and is held for them beside the TLB.

/// Fields of channel `held`.
pub const HELD_FIELDS: [&str; 11] = [
    "tag",
    "function",
    "is_remote",
    "admission",
    "table_set",
    "mpt_index",
    "last",
    "page_shift",
    "root",
    "page_count",
    "epoch",
];
