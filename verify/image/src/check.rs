//! Small checks of numbers in a description.

use std::ops::RangeInclusive;

use crate::{BuildError, Problem};

/// A number must be in its range.
pub(crate) fn number(place: impl Into<String>, value: u64, legal: RangeInclusive<u64>) -> Result<(), BuildError> {
    if legal.contains(&value) { Ok(()) } else { Err(BuildError::Number { place: place.into(), value, legal }) }
}

/// log2 of a number that must be a power of two.
pub(crate) fn log2(place: impl Into<String>, value: u64) -> Result<u32, BuildError> {
    if value.is_power_of_two() {
        Ok(value.ilog2())
    } else {
        Err(BuildError::NotPowerOfTwo { place: place.into(), value })
    }
}

/// Page-size field of a page size.
pub(crate) fn buf_pg_sz(page_bytes: u64, page_shift_base: u8) -> Result<u8, Problem> {
    const FIELD_MAX: u64 = keywalk_contract::mpt_entry::PBL_BUF_PG_SZ.max();
    let min = 1_u64 << page_shift_base;
    let max = min << FIELD_MAX;
    if page_bytes.is_power_of_two() && (min..=max).contains(&page_bytes) {
        Ok((page_bytes / min).ilog2() as u8)
    } else {
        Err(Problem::PageSize { page_bytes, min, max })
    }
}
