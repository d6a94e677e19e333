//! The 64-byte MPT entry: the context of one MR or MW (contract section 2).

crate::layout! {
    /// One MPT entry: owner, rights, bounds and page table of a memory region (MR) or memory window (MW).
    pub mod mpt_entry: 64 bytes {
        ST / "st" [1:0] = "State: 1 VALID, 2 FREE. 0 and 3 are never written and count as not valid.";
        PBL_HOP_NUM / "pbl_hop_num" [3:2] = "Hops of the page table, 0 to 3.";
        PBL_BA_PG_SZ / "pbl_ba_pg_sz" [7:4] = "Size of a lower page-table page: log2(bytes) - 12.";
        PD / "pd" [31:8] = "Protection domain that owns the entry.";
        RA_EN / "ra_en" [32:32] = "Remote access. Not checked for a plain MR: the driver leaves it 0 on regions that permit remote access.";
        R_INV_EN / "r_inv_en" [33:33] = "Remote invalidate (SEND_WITH_INV) is permitted.";
        L_INV_EN / "l_inv_en" [34:34] = "Local invalidate is permitted. Never required: the driver does not set it on an FRMR.";
        BIND_EN / "bind_en" [35:35] = "Right: a memory window may be bound to the region.";
        ATOMIC_EN / "atomic_en" [36:36] = "Right: remote atomic.";
        RR_EN / "rr_en" [37:37] = "Right: remote read.";
        RW_EN / "rw_en" [38:38] = "Right: remote write.";
        LW_EN / "lw_en" [39:39] = "Right: local write.";
        MW_CNT / "mw_cnt" [63:40] = "Number of windows bound to the region.";
        FRE / "fre" [64:64] = "Fast registration is enabled.";
        PA / "pa" [65:65] = "No translation: the VA is the bus address and there are no bounds (DMA MR).";
        ZBVA / "zbva" [66:66] = "Zero-based VA. The driver never sets it.";
        SHARE / "share" [67:67] = "Shared region. The driver never sets it.";
        MR_MW / "mr_mw" [68:68] = "1 for a memory window, 0 for a memory region.";
        BPD / "bpd" [69:69] = "Bound to the protection domain. Not checked for a plain MR.";
        BQP / "bqp" [70:70] = "Window of type 2: bound to one queue pair. Not checked for a plain MR.";
        INNER_PA_VLD / "inner_pa_vld" [71:71] = "PA0 and PA1 hold the first two page addresses.";
        MW_BIND_QPN / "mw_bind_qpn" [95:72] = "Queue pair that a window of type 2 is bound to.";
        BOUND_LKEY / "bound_lkey" [127:96] = "L_Key of the region that a window is bound to; 0: unbound.";
        LEN / "len" [191:128] = "Length of the region in bytes. 0 for a DMA MR.";
        LKEY / "lkey" [223:192] = "The key: all 32 bits are compared with the request's key.";
        VA / "va" [287:224] = "First virtual address of the region (iova).";
        PBL_SIZE / "pbl_size" [319:288] = "Pages in the page table.";
        PBL_BA / "pbl_ba" [380:320] = "Root of the page table: bus address >> 3.";
        BLK_MODE / "blk_mode" [381:381] = "Block mode. The driver never sets it.";
        RESERVED_382 / "reserved_382" [383:382] = "Reserved.";
        PA0 / "pa0" [441:384] = "First page: bus address >> 6.";
        BOUND_VA / "bound_va" [447:442] = "Low bits of the bound VA. The driver never sets it.";
        PA1 / "pa1" [505:448] = "Second page: bus address >> 6, 0 when there is one page.";
        PERSIST_EN / "persist_en" [506:506] = "Persistent memory. The driver never sets it.";
        RESERVED_507 / "reserved_507" [507:507] = "Reserved.";
        PBL_BUF_PG_SZ / "pbl_buf_pg_sz" [511:508] = "Page size of the region: log2(bytes) minus the table set's page_shift_base (12 in the contract).";
    }
}

pub use mpt_entry::*;

/// `ST` of an entry that may be used.
pub const STATE_VALID: u64 = 1;
/// `ST` of an entry that exists but must not be used for access.
pub const STATE_FREE: u64 = 2;
/// Right shift of a bus address that gives `PBL_BA`.
pub const PBL_BA_SHIFT: u32 = 3;
/// Right shift of a bus address that gives `PA0` and `PA1`.
pub const INNER_PA_SHIFT: u32 = 6;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 64;
