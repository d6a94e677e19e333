//! Context lookups and queue-buffer walks (contract sections 3 and 4).

use keywalk_contract::hem::{BA_ENTRY_BYTES_LOG2, TABLE_CODE_MTR};
use keywalk_contract::{Status, Table};

use crate::hem::{self, Purpose};
use crate::mtr::{self, PageTable};
use crate::trace::require;
use crate::{Engine, Failure, Memory, Observer, Recorder};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextQuery {
    /// The address of a context entry.
    Lookup {
        /// Code of the table. Code 7 names no table: nothing is reachable in it.
        table: u8,
        /// Object number.
        index: u32,
    },
    /// A page of a queue buffer.
    Walk {
        /// Bus address of the region's root.
        root: u64,
        /// Hops, 0 to 3. Hop 0 is direct: root + (index << page shift).
        hop: u8,
        /// Size of a lower table: log2(bytes) - 12, 0 to 15.
        ba_pg_sz: u8,
        /// Page size: log2(bytes) - page_shift_base, 0 to 15.
        buf_pg_sz: u8,
        /// Page index within the region.
        index: u32,
        /// Pages of the region; an index at or above it fails. 0: unchecked.
        count: u32,
    },
}

/// A request on the context port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextRequest {
    /// Returned with the answer.
    pub tag: u16,
    /// Requesting function; selects the table set.
    pub function: u8,
    /// What is looked for.
    pub query: ContextQuery,
}

/// The answer on the context port, field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextResponse {
    /// The request's tag.
    pub tag: u16,
    /// The request's function.
    pub function: u8,
    /// Outcome.
    pub status: Status,
    /// Where it failed: code of the context table, 7 for a page table; else 0.
    pub table: u8,
    /// Number of the read that failed or could not be issued; else 0.
    pub hop: u8,
    /// Bus address of the entry or page; 0 on error.
    pub address: u64,
}

impl Engine {
    /// Answers a request on the context port.
    #[must_use]
    pub fn context(&self, memory: &impl Memory, request: &ContextRequest) -> ContextResponse {
        self.context_observed(memory, request, &mut ())
    }

    /// [`Engine::context`] with every step.
    #[must_use]
    pub fn explain_context(
        &self,
        memory: &impl Memory,
        request: &ContextRequest,
    ) -> (ContextResponse, Vec<crate::Step>) {
        let mut recorder = Recorder::default();
        let response = self.context_observed(memory, request, &mut recorder);
        (response, recorder.steps)
    }

    /// [`Engine::context`], watched by `observer`.
    #[must_use]
    pub fn context_observed(
        &self,
        memory: &impl Memory,
        request: &ContextRequest,
        observer: &mut impl Observer,
    ) -> ContextResponse {
        let (status, table, hop, address) = match self.context_address(memory, request, observer) {
            Ok(address) => (Status::Ok, 0, 0, address),
            Err(failure) => (failure.status, failure.table, failure.hop, 0),
        };
        ContextResponse { tag: request.tag, function: request.function, status, table, hop, address }
    }

    fn context_address(
        &self,
        memory: &impl Memory,
        request: &ContextRequest,
        observer: &mut impl Observer,
    ) -> Result<u64, Failure> {
        let set = self.table_set(request.function);
        match request.query {
            ContextQuery::Lookup { table, index } => {
                let table = Table::from_code(table).ok_or(Failure {
                    status: Status::Bt0Unset,
                    table: TABLE_CODE_MTR,
                    hop: 0,
                })?;
                hem::locate(memory, &self.controls, table, set.table(table), index, Purpose::AddressOnly, observer)
            }
            ContextQuery::Walk { root, hop, ba_pg_sz, buf_pg_sz, index, count } => {
                require(observer, count == 0 || index < count, mtr::failure(Status::MtrIndex, 0), || {
                    format!("page index {index} against count {count} (0: unchecked)")
                })?;
                let is_aligned = root.is_multiple_of(1 << BA_ENTRY_BYTES_LOG2);
                require(observer, is_aligned, mtr::failure(Status::MtrMisaligned, 0), || format!("root {root:#x}"))?;
                let table = PageTable { root, hops: hop, ba_pg_sz };
                table.check_root(&self.controls, observer)?;
                if hem::hops(hop) == 0 {
                    let page_shift = set.page_shift(buf_pg_sz);
                    Ok(root.wrapping_add(u64::from(index) << page_shift))
                } else {
                    table.leaf(memory, &self.controls, index.into(), observer)
                }
            }
        }
    }
}
