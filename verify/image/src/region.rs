//! Builds a region: its pages, its page table and its MPT entry (contract section 2).

use keywalk_contract::hem::PAGE_SIZE_FIELD_MAX;
use keywalk_contract::mpt_entry::{self, INNER_PA_SHIFT, PBL_BA_SHIFT, STATE_FREE, STATE_VALID};
use keywalk_contract::mtr::HOP_MAX;
use keywalk_contract::{Field, Right, key};

use crate::mtr::{self, Shape};
use crate::pages::Rules;
use crate::placement::Placement;
use crate::{BuiltRegion, PageList, Pages, PagesError, Problem, RegionDescription, RegionKind, check};

/// Most pages of a fast registration, and entries of the root that is made for it.
const FAST_REGISTRATION_PAGES_MAX: u64 = 512;

/// Whence a region is built.
pub(crate) struct Surroundings {
    pub page_shift_base: u8,
    pub upper_half_log2: u32,
    pub seed: u64,
    pub index: u32,
    pub entry_address: u64,
}

/// Builds a region.
pub(crate) fn build(
    placement: &mut Placement,
    description: &RegionDescription,
    surroundings: &Surroundings,
) -> Result<BuiltRegion, Problem> {
    let kind = description.kind;
    check_kind(description)?;
    check::number("ba_pg_sz", description.ba_pg_sz.into(), 0..=PAGE_SIZE_FIELD_MAX.into())?;
    let buf_pg_sz = check::buf_pg_sz(description.page_bytes, surroundings.page_shift_base)?;
    let page_shift = description.page_bytes.ilog2();
    let (va, length_bytes) = (description.va, description.length_bytes);
    let end = u128::from(va) + u128::from(length_bytes);
    if end > 1 << 64 {
        return Err(Problem::Wraps { va, length_bytes });
    }
    let va_offset = va % description.page_bytes;
    if let Some(given) = description.first_page_offset_bytes.filter(|given| *given != va_offset) {
        return Err(Problem::FirstPageOffset { given, va_offset });
    }

    let has_pages = matches!(kind, RegionKind::Mr | RegionKind::Frmr);
    let count = match length_bytes {
        _ if !has_pages => 0,
        0 => 0,
        _ => ((end - 1) >> page_shift) as u64 - (va >> page_shift) + 1,
    };
    if kind == RegionKind::Frmr && count > FAST_REGISTRATION_PAGES_MAX {
        return Err(Problem::TooManyForFastRegistration { count, max: FAST_REGISTRATION_PAGES_MAX });
    }
    // Refused before anything large is built.
    put(&mut [0; mpt_entry::ENTRY_BYTES as usize], mpt_entry::PBL_SIZE, count)?;
    let rules = Rules {
        allow_misaligned: description.allow_misaligned_pages,
        allow_holes: description.allow_holes,
        upper_half_log2: surroundings.upper_half_log2,
        seed: surroundings.seed,
    };
    let list = if has_pages { &description.pages } else { &PageList::default() };
    let pages = Pages::new(list, count, page_shift, rules)?;
    let (shape, root) = page_table(placement, description, &pages)?;

    let region = BuiltRegion {
        name: description.name.clone(),
        kind,
        index: surroundings.index,
        key: key::of_index(surroundings.index) | u32::from(description.variant),
        entry_address: surroundings.entry_address,
        va,
        length_bytes,
        pd: description.pd,
        rights: description.rights,
        hop: shape.hop,
        ba_pg_sz: description.ba_pg_sz,
        root,
        is_zero_based: description.is_zero_based,
        pages,
    };
    let entry = entry(description, &region, buf_pg_sz)?;
    placement.memory.write(region.entry_address, &entry).map_err(crate::BuildError::from)?;
    Ok(region)
}

/// Refuses fields that a region of this kind does not have.
fn check_kind(description: &RegionDescription) -> Result<(), Problem> {
    let kind = description.kind;
    let refuse = |given: bool, field| if given { Err(Problem::NotForKind { field, kind }) } else { Ok(()) };
    let is_window = matches!(kind, RegionKind::Mw | RegionKind::MwValid);
    let has_bounds = matches!(kind, RegionKind::Mr | RegionKind::Frmr | RegionKind::MwValid);
    let has_pages = matches!(kind, RegionKind::Mr | RegionKind::Frmr);
    refuse(!has_bounds && description.length_bytes != 0, "length_bytes")?;
    refuse(!has_bounds && description.va != 0, "va")?;
    refuse(!has_bounds && description.first_page_offset_bytes.is_some(), "first_page_offset_bytes")?;
    refuse(!has_pages && description.pages != PageList::default(), "pages")?;
    refuse(!has_pages && kind != RegionKind::FrmrFree && description.hop.is_some(), "hop")?;
    refuse(!is_window && description.window_type != 1, "window_type")?;
    refuse(kind != RegionKind::MwValid && description.bind_qpn != 0, "bind_qpn")?;
    refuse(kind != RegionKind::MwValid && description.bound_key != 0, "bound_key")?;
    refuse(!has_bounds && description.is_zero_based, "is_zero_based")?;
    Ok(check::number("window_type", description.window_type.into(), 1..=2)?)
}

/// Builds the page table: its shape and the address of its root.
fn page_table(
    placement: &mut Placement,
    description: &RegionDescription,
    pages: &Pages,
) -> Result<(Shape, u64), Problem> {
    let ba_pg_sz = description.ba_pg_sz;
    let is_fast = matches!(description.kind, RegionKind::Frmr | RegionKind::FrmrFree);
    let shape = match description.hop {
        Some(hop) => {
            check::number("hop", hop.into(), 0..=HOP_MAX.into())?;
            Shape { hop, ba_pg_sz }
        }
        None => Shape::smallest(pages.count(), ba_pg_sz, u8::from(is_fast))?,
    };
    shape.check(pages.count())?;
    if shape.hop == 0 {
        let address = pages.get(0).unwrap_or(0);
        let alignment = 1 << PBL_BA_SHIFT;
        if !address.is_multiple_of(alignment) {
            let advice = " and a table of hop 0 cannot hold: give `hop` 1";
            return Err(PagesError::Misaligned { index: 0, address, alignment, advice }.into());
        }
        return Ok((shape, address));
    }
    let entries = match description.kind {
        // Nothing is registered yet, but there is room for it.
        RegionKind::FrmrFree => vec![0; FAST_REGISTRATION_PAGES_MAX as usize],
        _ if pages.count() == 0 => return Ok((shape, 0)),
        _ => mtr::root_entries(placement, pages, shape)?,
    };
    Ok((shape, placement.place_root(&entries)?))
}

/// [`Field::put`] with this module's error.
fn put(bytes: &mut [u8], field: Field, value: u64) -> Result<(), Problem> {
    Ok(field.put(bytes, value)?)
}

/// The MPT entry, as the driver or a work request writes it for a region of this kind.
fn entry(
    description: &RegionDescription,
    region: &BuiltRegion,
    buf_pg_sz: u8,
) -> Result<[u8; mpt_entry::ENTRY_BYTES as usize], Problem> {
    use mpt_entry::{
        BOUND_LKEY, BPD, BQP, ENTRY_BYTES, FRE, INNER_PA_VLD, LEN, LKEY, LW_EN, MR_MW, MW_BIND_QPN, PA, PA0, PA1,
        PBL_BA, PBL_BA_PG_SZ, PBL_BUF_PG_SZ, PBL_HOP_NUM, PBL_SIZE, PD, R_INV_EN, RA_EN, ST, VA, ZBVA,
    };
    let kind = region.kind;
    let is_valid = matches!(kind, RegionKind::Mr | RegionKind::DmaMr | RegionKind::Frmr | RegionKind::MwValid);
    let is_fast = matches!(kind, RegionKind::Frmr | RegionKind::FrmrFree);
    let is_window = matches!(kind, RegionKind::Mw | RegionKind::MwValid);

    let mut bytes = [0; ENTRY_BYTES as usize];
    let mut set = |field: Field, value: u64| put(&mut bytes, field, value);
    set(ST, if is_valid { STATE_VALID } else { STATE_FREE })?;
    set(PD, region.pd.into())?;
    for right in Right::ALL.into_iter().filter(|right| region.rights.contains(*right)) {
        if let Some(field) = right.field() {
            set(field, 1)?;
        }
    }
    set(PBL_HOP_NUM, region.hop.into())?;
    set(PBL_BA_PG_SZ, region.ba_pg_sz.into())?;
    set(PBL_BUF_PG_SZ, buf_pg_sz.into())?;
    set(PBL_BA, region.root >> PBL_BA_SHIFT)?;
    set(PBL_SIZE, if kind == RegionKind::FrmrFree { FAST_REGISTRATION_PAGES_MAX } else { region.pages.count() })?;
    if kind != RegionKind::FrmrFree {
        set(LKEY, region.key.into())?;
    }
    set(VA, region.va)?;
    set(LEN, region.length_bytes)?;
    set(ZBVA, description.is_zero_based.into())?;
    if is_fast {
        set(RA_EN, 1)?;
        set(R_INV_EN, 1)?;
        set(FRE, 1)?;
        set(BPD, 1)?;
    }
    if is_window {
        set(R_INV_EN, 1)?;
        set(LW_EN, 1)?;
        set(MR_MW, 1)?;
        set(BPD, 1)?;
        set(BQP, u64::from(description.window_type != 1))?;
        set(MW_BIND_QPN, description.bind_qpn.into())?;
        set(BOUND_LKEY, description.bound_key.into())?;
    }
    if kind == RegionKind::DmaMr {
        set(PA, 1)?;
    }
    if kind == RegionKind::Mr {
        let inner = [region.pages.get(0).unwrap_or(0), region.pages.get(1).unwrap_or(0)];
        // Addresses that the two fields cannot hold are left to the page table.
        if inner.iter().all(|address| address.is_multiple_of(1 << INNER_PA_SHIFT)) {
            set(INNER_PA_VLD, 1)?;
            set(PA0, inner[0] >> INNER_PA_SHIFT)?;
            set(PA1, inner[1] >> INNER_PA_SHIFT)?;
        }
    }
    Ok(bytes)
}
