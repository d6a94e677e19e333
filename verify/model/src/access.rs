//! The checks of a request: its shape first, then against the MPT entry (contract section 6).

use keywalk_contract::mpt_entry::{self, STATE_VALID};
use keywalk_contract::mtr::PAGES_MAX;
use keywalk_contract::op::{ATOMIC_BYTES, LENGTH_MAX_BYTES};
use keywalk_contract::{Operation, Status};

use crate::trace::require_status;
use crate::{Controls, Failure, MptEntry, Observer, Request};

/// One past the last address.
const ADDRESS_SPACE_BYTES: u128 = 1 << 64;

/// Step 1: what can be said without any table. Gives the operation.
#[inline]
pub(crate) fn check_shape(
    controls: &Controls,
    request: &Request,
    observer: &mut impl Observer,
) -> Result<Operation, Failure> {
    let operation = Operation::from_code(request.operation);
    let code = request.operation;
    require_status(observer, operation.is_some(), Status::OperationUnknown, || {
        format!("operation {code} ({})", operation.map_or("undefined", Operation::name))
    })?;
    let operation = operation.ok_or(Failure::of(Status::OperationUnknown))?;

    let (va, length) = (request.va, u64::from(request.length));
    require_status(observer, length <= LENGTH_MAX_BYTES, Status::LengthTooLong, || format!("length {length}"))?;
    if controls.atomic_shape_check && operation == Operation::RemoteAtomic {
        let fits = length == ATOMIC_BYTES && va.is_multiple_of(ATOMIC_BYTES);
        require_status(observer, fits, Status::AtomicShape, || format!("length {length} at {va:#x}"))?;
    }
    if controls.hold_mode {
        let max = controls.hold_bytes_max;
        require_status(observer, length <= u64::from(max), Status::HoldTooLong, || {
            format!("length {length} against hold_bytes_max {max}")
        })?;
    }
    Ok(operation)
}

/// Step 3, as far as the MPT entry decides: state to bounds, and that a window is bound to a live region.
#[inline]
pub(crate) fn check_entry(
    entry: &MptEntry,
    request: &Request,
    operation: Operation,
    page_shift: u32,
    observer: &mut impl Observer,
) -> Result<(), Failure> {
    let state = entry.get(mpt_entry::ST);
    require_status(observer, state == STATE_VALID, Status::EntryState, || format!("st {state}"))?;
    let (key, lkey) = (request.key, entry.get(mpt_entry::LKEY));
    require_status(observer, u64::from(key) == lkey, Status::EntryKey, || format!("key {key:#x}, lkey {lkey:#x}"))?;

    let is_window = entry.is_set(mpt_entry::MR_MW);
    if is_window {
        require_status(observer, operation.is_remote(), Status::WindowLocal, || operation.name().into())?;
        let bound_lkey = entry.get(mpt_entry::BOUND_LKEY);
        require_status(observer, bound_lkey != 0, Status::WindowUnbound, || format!("bound_lkey {bound_lkey:#x}"))?;
    }
    let (pd, owner) = (request.pd, entry.get(mpt_entry::PD));
    require_status(observer, u64::from(pd) == owner, Status::ProtectionDomain, || {
        format!("pd {pd:#x}, the entry's {owner:#x}")
    })?;
    if is_window && entry.is_set(mpt_entry::BQP) {
        let (qpn, bound) = (request.qpn, entry.get(mpt_entry::MW_BIND_QPN));
        require_status(observer, u64::from(qpn) == bound, Status::WindowQueuePair, || {
            format!("qpn {qpn:#x}, bound to {bound:#x}")
        })?;
    }
    if let Some(right) = operation.right() {
        require_status(observer, entry.is_set(right), Status::AccessRight, || {
            format!("{} needs {}, which is {}", operation.name(), right.name, entry.get(right))
        })?;
    }

    check_bounds(entry, request, page_shift, observer)?;
    require_status(observer, !is_window, Status::WindowParent, || format!("mr_mw {}", u8::from(is_window)))
}

/// Bounds over integers: 128 bits hold every sum of two 64-bit numbers.
#[inline]
fn check_bounds(
    entry: &MptEntry,
    request: &Request,
    page_shift: u32,
    observer: &mut impl Observer,
) -> Result<(), Failure> {
    let va = u128::from(request.va);
    let end = va + u128::from(request.length);
    let is_below_top = end <= ADDRESS_SPACE_BYTES;
    if entry.is_set(mpt_entry::PA) {
        return require_status(observer, is_below_top, Status::Bounds, || format!("end {end:#x} (DMA MR)"));
    }
    let region = u128::from(entry.get(mpt_entry::VA));
    let region_end = region + u128::from(entry.get(mpt_entry::LEN));
    require_status(observer, region_end <= ADDRESS_SPACE_BYTES, Status::RegionWraps, || {
        format!("region {region:#x} to {region_end:#x}")
    })?;
    let pages = if region_end == region { 0 } else { ((region_end - 1) >> page_shift) - (region >> page_shift) + 1 };
    require_status(observer, pages <= u128::from(PAGES_MAX), Status::RegionTooLarge, || {
        format!("{pages} pages of {} bytes", 1_u64 << page_shift)
    })?;
    let is_inside = va >= region && end <= region_end && is_below_top;
    require_status(observer, is_inside, Status::Bounds, || {
        format!("{va:#x} to {end:#x}, region {region:#x} to {region_end:#x}")
    })
}
