//! The data mover: its streams and the outcomes that it reports.

use crate::layout::Layout;
use crate::ports::{Direction, StreamPort, done, response};

macro_rules! statuses {
    ($count:literal: $($(#[doc = $doc:literal])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Outcome of a response's DMA.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MoverStatus { $($(#[doc = $doc])* $name = $code,)* }

        impl MoverStatus {
            /// All outcomes in order of code.
            pub const ALL: [MoverStatus; $count] = [$(Self::$name),*];

            /// Name as in documents.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$name => $text,)* } }

            /// Meaning, for documents.
            #[must_use]
            pub const fn doc(self) -> &'static str { match self { $(Self::$name => concat!($($doc),*).trim_ascii(),)* } }
        }
    };
}

statuses! {
    7:
    /// Everything was moved.
    Ok = 0, "ok";
    /// The response carried an error; nothing was moved from there on.
    Refused = 1, "refused";
    /// The response is not the one of the oldest request: tag or function differ. Nothing was moved.
    OutOfOrder = 2, "out_of_order";
    /// An atomic is not 8 bytes long or not aligned to 8 bytes. Nothing was moved.
    AtomicShape = 3, "atomic_shape";
    /// The payload of a write is shorter or longer than its segments. What there was of it was written, except for the beat in
    /// which it ended too early.
    PayloadLength = 4, "payload_length";
    /// The bus answered a read with SLVERR or DECERR. An atomic wrote nothing.
    ReadError = 5, "read_error";
    /// The bus answered a write with SLVERR or DECERR.
    WriteError = 6, "write_error";
}

/// Bits of a [`MoverStatus`] in the completion.
pub const MOVER_STATUS_BITS: u32 = 3;

impl MoverStatus {
    /// The outcome of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Code in the completion.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

crate::layout! {
    /// The operation of a request, one beat for each request that the engine accepts, in the same order.
    pub mod operation: 4 bytes {
        TAG / "tag" [15:0] = "The request's tag.";
        FUNCTION / "function" [23:16] = "The request's function.";
        OPERATION / "operation" [27:24] = "The request's operation, with the codes of the request port.";
        PADDING / "padding" [31:28] = "Padding.";
    }
}

crate::layout! {
    /// Operands of an atomic, one beat for each request of that operation, in the same order.
    pub mod atomic: 17 bytes {
        IS_SWAP / "is_swap" [0:0] = "0: fetch and add. 1: compare and swap.";
        PADDING_1 / "padding_1" [7:1] = "Padding.";
        VALUE / "value" [71:8] = "What is added, or what takes the place of the old value.";
        COMPARE / "compare" [135:72] = "Compare and swap: the old value with which the new one is written.";
    }
}

crate::layout! {
    /// Outcome of a request, when all of its DMA has ended.
    pub mod completion: 5 bytes {
        TAG / "tag" [15:0] = "The request's tag.";
        FUNCTION / "function" [23:16] = "The request's function.";
        STATUS / "status" [26:24] = "0 ok, 1 refused, 2 out_of_order, 3 atomic_shape, 4 payload_length, 5 read_error, 6 write_error.";
        PADDING_27 / "padding_27" [31:27] = "Padding.";
        REFUSAL / "refusal" [39:32] = "Status of the response, 0 ok.";
    }
}

const fn port(axi_name: &'static str, core_name: &'static str, direction: Direction, layout: Layout) -> StreamPort {
    StreamPort { axi_name, core_name, direction, layout }
}

/// Every stream port of the data mover but those of payload.
pub const STREAMS: [StreamPort; 5] = [
    port("s_axis_op", "operation", Direction::In, operation::LAYOUT),
    port("s_axis_rsp", "response", Direction::In, response::LAYOUT),
    port("s_axis_atomic", "atomic", Direction::In, atomic::LAYOUT),
    port("m_axis_cpl", "completion", Direction::Out, completion::LAYOUT),
    port("m_axis_done", "done", Direction::Out, done::LAYOUT),
];

/// Prefix of the payload stream of writes: TDATA, TKEEP and TLAST. One packet for each write, in the order of the requests,
/// also of one that fails or is of length 0; the last beat of a packet holds a byte unless the packet has none.
pub const WRITE_STREAM: &str = "s_axis_wr";
/// Prefix of the payload stream of reads and atomics: TDATA, TKEEP, TLAST and TUSER, which is 1 in the last beat of a packet
/// whose data is not whole or not good. One packet for each read and atomic, in the order of the requests; of one that brings
/// nothing it is a beat without bytes. Where an error ends a packet after whole beats, such a beat follows.
pub const READ_STREAM: &str = "m_axis_rd";
/// Prefix of the AXI4 port.
pub const MEMORY_PORT: &str = "m_axi_dma";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_and_fit() {
        for (code, status) in (0..).zip(MoverStatus::ALL) {
            assert_eq!(status.code(), code);
            assert_eq!(MoverStatus::from_code(code), Some(status));
        }
        assert_eq!(MoverStatus::from_code(7), None);
        assert_eq!(completion::STATUS.width, MOVER_STATUS_BITS);
    }
}
