//! Ports of the top module. A stream's TDATA packs its fields in the listed order, least significant first, padded to
//! whole bytes. Bits of a field beyond the configured width read as zero and are ignored on input.

use crate::layout::Layout;
use crate::{Config, work};

/// Who drives a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The engine receives: `s_axis_...`.
    In,
    /// The engine sends: `m_axis_...`.
    Out,
}

/// An AXI4-Stream port of the top module.
#[derive(Clone, Copy, Debug)]
pub struct StreamPort {
    /// Prefix of the AXI signal names.
    pub axi_name: &'static str,
    /// Prefix of the field signals inside the core.
    pub core_name: &'static str,
    /// Direction seen from the engine.
    pub direction: Direction,
    /// Fields of TDATA.
    pub layout: Layout,
}

crate::layout! {
    /// A translation request.
    pub mod request: 26 bytes {
        TAG / "tag" [15:0] = "Returned with every segment of the response.";
        FUNCTION / "function" [23:16] = "Requesting function; selects the table set.";
        OPERATION / "operation" [27:24] = "0 local_read, 1 local_write, 2 remote_read, 3 remote_write, 4 remote_atomic, 5 bind.";
        KEY / "key" [59:28] = "L_Key or R_Key.";
        PD / "pd" [83:60] = "Protection domain of the requester.";
        QPN / "qpn" [107:84] = "Queue pair of the requester, for windows of type 2.";
        VA / "va" [171:108] = "First virtual address.";
        LENGTH / "length" [203:172] = "Bytes, at most 2^31. Length 0 succeeds without a key check.";
        PADDING / "padding" [207:204] = "Padding.";
    }
}

crate::layout! {
    /// One segment of a response, or its error.
    pub mod response: 20 bytes {
        TAG / "tag" [15:0] = "The request's tag.";
        FUNCTION / "function" [23:16] = "The request's function.";
        STATUS / "status" [31:24] = "Status code, 0 ok.";
        WIRE_CLASS / "wire_class" [34:32] = "What the wire may know.";
        TABLE / "table" [37:35] = "Where a table read failed: code of the context table, 7 for the page table; else 0.";
        HOP / "hop" [39:38] = "Number of the read that failed or could not be issued, from 0; else 0.";
        SEGMENT / "segment" [59:40] = "Number of the segment within the response, from 0.";
        FIRST / "first" [60:60] = "First beat of the response.";
        LAST / "last" [61:61] = "Last beat of the response.";
        PA / "pa" [125:62] = "Bus address of the segment; 0 on error and for length 0.";
        LENGTH / "length" [157:126] = "Bytes of the segment; 0 on error and for length 0.";
        PADDING / "padding" [159:158] = "Padding.";
    }
}

crate::layout! {
    /// All DMA of one response has completed. Every response is reported exactly once, an error too, at the earliest in the
    /// cycle after its last beat. Reports are matched with responses by tag and function, as far as responses whose DMA is
    /// outstanding have different ones; a report that matches nothing is ignored and counted.
    pub mod done: 3 bytes {
        TAG / "tag" [15:0] = "The response's tag.";
        FUNCTION / "function" [23:16] = "The response's function.";
    }
}

crate::layout! {
    /// A context lookup or a queue-buffer walk.
    pub mod context_request: 21 bytes {
        TAG / "tag" [15:0] = "Returned with the answer.";
        FUNCTION / "function" [23:16] = "Requesting function; selects the table set.";
        IS_WALK / "is_walk" [24:24] = "0: address of a context entry (table, index). 1: page of a queue buffer (root, hop, ba_pg_sz, buf_pg_sz, index, count).";
        TABLE / "table" [27:25] = "Context table. Ignored for a walk.";
        INDEX / "index" [59:28] = "Object number, or page index within the region.";
        ROOT / "root" [123:60] = "Walk: bus address of the region's root, 8-byte aligned.";
        HOP / "hop" [125:124] = "Walk: hops, 0 to 3. Hop 0 is direct: root + (index << page shift).";
        BA_PG_SZ / "ba_pg_sz" [129:126] = "Walk: size of a lower table page, log2(bytes) - 12.";
        BUF_PG_SZ / "buf_pg_sz" [133:130] = "Walk: page size, log2(bytes) - page_shift_base.";
        COUNT / "count" [165:134] = "Walk: pages of the region; an index at or above it fails. 0: unchecked.";
        PADDING / "padding" [167:166] = "Padding.";
    }
}

crate::layout! {
    /// Answer to a context lookup or queue-buffer walk.
    pub mod context_response: 14 bytes {
        TAG / "tag" [15:0] = "The request's tag.";
        FUNCTION / "function" [23:16] = "The request's function.";
        STATUS / "status" [31:24] = "Status code, 0 ok.";
        TABLE / "table" [34:32] = "Where it failed; else 0.";
        HOP / "hop" [36:35] = "Number of the read that failed or could not be issued; else 0.";
        PADDING_37 / "padding_37" [39:37] = "Padding.";
        ADDRESS / "address" [103:40] = "Bus address of the entry or page; 0 on error.";
        PADDING_104 / "padding_104" [111:104] = "Padding.";
    }
}

crate::layout! {
    /// An invalidation.
    pub mod invalidate: 27 bytes {
        TAG / "tag" [15:0] = "Returned with the completion.";
        FUNCTION / "function" [23:16] = "Function; selects the table set.";
        SCOPE / "scope" [26:24] = "0 one MR, 1 one MR and a VA range, 2 a PD, 3 a function, 4 to 7 everything.";
        PADDING_27 / "padding_27" [27:27] = "Padding.";
        KEY / "key" [59:28] = "Scope 0 and 1: key of the MR.";
        PD / "pd" [83:60] = "Scope 2: protection domain. All PDs of the function's table set that agree with it in the lowest 7 bits are invalidated.";
        VA / "va" [147:84] = "Scope 1: first virtual address. All of the MR is invalidated.";
        LENGTH / "length" [211:148] = "Scope 1: bytes. All of the MR is invalidated.";
        PADDING / "padding" [215:212] = "Padding.";
    }
}

crate::layout! {
    /// Completion of an invalidation.
    pub mod invalidated: 2 bytes {
        TAG / "tag" [15:0] = "The invalidation's tag.";
    }
}

crate::layout! {
    /// A table error seen by a request or context lookup.
    pub mod fault: 16 bytes {
        TAG / "tag" [15:0] = "Tag of the request.";
        FUNCTION / "function" [23:16] = "Function of the request.";
        STATUS / "status" [31:24] = "Status code.";
        TABLE / "table" [34:32] = "Code of the context table, 7 for the page table.";
        HOP / "hop" [36:35] = "Number of the read that failed or could not be issued.";
        IS_CONTEXT / "is_context" [37:37] = "1: the tag is one of the context port, 0: of the request port.";
        PADDING_38 / "padding_38" [39:38] = "Padding.";
        INDEX / "index" [63:40] = "MPT index, or object number of a context lookup (low 24 bits); 0 for a queue-buffer walk.";
        VA / "va" [127:64] = "Virtual address that was being translated, or page index of a queue-buffer walk; 0 for a context lookup.";
    }
}

/// Every stream port of the core; see [`streams`].
pub const STREAMS: [StreamPort; 8] = [
    StreamPort { axi_name: "s_axis_req", core_name: "request", direction: Direction::In, layout: request::LAYOUT },
    StreamPort { axi_name: "m_axis_rsp", core_name: "response", direction: Direction::Out, layout: response::LAYOUT },
    StreamPort { axi_name: "s_axis_done", core_name: "done", direction: Direction::In, layout: done::LAYOUT },
    StreamPort {
        axi_name: "s_axis_ctx",
        core_name: "context_request",
        direction: Direction::In,
        layout: context_request::LAYOUT,
    },
    StreamPort {
        axi_name: "m_axis_ctx",
        core_name: "context_response",
        direction: Direction::Out,
        layout: context_response::LAYOUT,
    },
    StreamPort {
        axi_name: "s_axis_inv",
        core_name: "invalidate",
        direction: Direction::In,
        layout: invalidate::LAYOUT,
    },
    StreamPort {
        axi_name: "m_axis_inv",
        core_name: "invalidated",
        direction: Direction::Out,
        layout: invalidated::LAYOUT,
    },
    StreamPort { axi_name: "m_axis_fault", core_name: "fault", direction: Direction::Out, layout: fault::LAYOUT },
];

/// The stream ports of an engine of that configuration: with the command unit those of work requests too.
pub fn streams(config: &Config) -> impl Iterator<Item = &'static StreamPort> {
    let work: &[StreamPort] = if config.command_unit { &work::STREAMS } else { &[] };
    STREAMS.iter().chain(work)
}

/// Scope of an invalidation. The discriminant is the code on the port; the codes above mean [`Scope::All`].
///
/// An invalidation may take more than its scope: a range takes its whole region, a region those whose index falls into the
/// same bucket, a protection domain or a function all of the function's table set. It never takes less.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One MR or MW.
    Region = 0,
    /// A VA range of one MR.
    Range = 1,
    /// Everything that belongs to a protection domain.
    ProtectionDomain = 2,
    /// Everything of a function.
    Function = 3,
    /// Everything.
    All = 4,
}
