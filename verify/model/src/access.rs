//! The checks of a request: its shape first, then against the MPT entry (contract section 6).

use keywalk_contract::mpt_entry::{self, STATE_VALID};
use keywalk_contract::mtr::PAGES_MAX;
use keywalk_contract::op::{ATOMIC_BYTES, LENGTH_MAX_BYTES};
use keywalk_contract::{Field, Operation, Status};

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

/// Step 3, as far as the MPT entry decides: state to bounds. Of a bound window the parent has its say after this.
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

    check_bounds(entry, request.va, request.length, page_shift, observer)
}

/// The parent of a bound window must still be the region that the window was bound to, and hold the access: state, key, PD,
/// bounds. `va` is the first address in the parent's own addresses, `request` what came through the window.
#[inline]
pub(crate) fn check_parent(
    parent: &MptEntry,
    key: u32,
    va: u64,
    request: &Request,
    page_shift: u32,
    observer: &mut impl Observer,
) -> Result<(), Failure> {
    let state = parent.get(mpt_entry::ST);
    require_status(observer, state == STATE_VALID, Status::WindowParent, || format!("parent's st {state}"))?;
    let lkey = parent.get(mpt_entry::LKEY);
    require_status(observer, u64::from(key) == lkey, Status::WindowParent, || {
        format!("bound_lkey {key:#x}, parent's lkey {lkey:#x}")
    })?;
    let (pd, owner) = (request.pd, parent.get(mpt_entry::PD));
    require_status(observer, u64::from(pd) == owner, Status::WindowParent, || {
        format!("pd {pd:#x}, the parent's {owner:#x}")
    })?;
    for field in NOT_OF_A_PARENT {
        let value = parent.get(field);
        require_status(observer, value == 0, Status::WindowParent, || format!("parent's {} {value}", field.name))?;
    }
    let bounds = check_bounds(parent, va, request.length, page_shift, observer);
    bounds.map_err(|_| Failure::of(Status::WindowParent))
}

/// A window, a DMA MR or a zero-based region cannot be the parent of a window.
pub(crate) const NOT_OF_A_PARENT: [Field; 3] = [mpt_entry::MR_MW, mpt_entry::PA, mpt_entry::ZBVA];

/// The address in the region's own addresses that a request's VA means: a zero-based region's addresses count from its
/// start.
#[inline]
pub(crate) fn own_va(entry: &MptEntry, va: u64) -> u64 {
    let is_zero_based = entry.is_set(mpt_entry::ZBVA) && !entry.is_set(mpt_entry::PA);
    if is_zero_based { entry.get(mpt_entry::VA).wrapping_add(va) } else { va }
}

/// Bounds over integers: 128 bits hold every sum of two 64-bit numbers.
#[inline]
fn check_bounds(
    entry: &MptEntry,
    va: u64,
    length: u32,
    page_shift: u32,
    observer: &mut impl Observer,
) -> Result<(), Failure> {
    let va = u128::from(va);
    let end = va + u128::from(length);
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
    let (first, last) = if entry.is_set(mpt_entry::ZBVA) { (0, region_end - region) } else { (region, region_end) };
    let is_inside = va >= first && end <= last && is_below_top;
    require_status(observer, is_inside, Status::Bounds, || {
        format!("{va:#x} to {end:#x}, region {first:#x} to {last:#x}")
    })
}
