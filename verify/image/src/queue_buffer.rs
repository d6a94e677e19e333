//! Builds queue buffers: up to three regions whose roots share a page (contract section 4).

use keywalk_contract::hem::PAGE_SIZE_FIELD_MAX;
use keywalk_contract::mtr::HOP_MAX;

use crate::mtr::{self, Shape};
use crate::pages::Rules;
use crate::placement::Placement;
use crate::{
    BuiltQueueBuffer, BuiltQueueBufferRegion, PageList, Pages, Problem, QueueBufferDescription,
    QueueBufferRegionDescription, check,
};

/// Most regions of a queue buffer: SQ, SGE, RQ.
const REGIONS_MAX: usize = 3;

/// Builds a queue buffer.
pub(crate) fn build(
    placement: &mut Placement,
    description: &QueueBufferDescription,
    page_shift_base: u8,
    rules: Rules,
) -> Result<BuiltQueueBuffer, Problem> {
    let buf_pg_sz = check::buf_pg_sz(description.page_bytes, page_shift_base)?;
    let ba_pg_sz = description.ba_pg_sz;
    check::number("ba_pg_sz", ba_pg_sz.into(), 0..=PAGE_SIZE_FIELD_MAX.into())?;
    let count = description.regions.len();
    if count == 0 || count > REGIONS_MAX {
        return Err(Problem::RegionCount { count, max: REGIONS_MAX });
    }
    for region in &description.regions {
        check::number("hop", region.hop.into(), 0..=HOP_MAX.into())?;
    }
    let page_shift = description.page_bytes.ilog2();
    let direct = description.regions.iter().filter(|region| region.hop == 0).count();
    let regions = match direct {
        0 => walked(placement, &description.regions, ba_pg_sz, page_shift, rules)?,
        _ if direct == count => self::direct(&description.regions, page_shift, rules)?,
        _ => return Err(Problem::MixedHops),
    };
    Ok(BuiltQueueBuffer { name: description.name.clone(), buf_pg_sz, ba_pg_sz, regions })
}

/// All pages of all regions stand in a row; a region's root is its first page.
fn direct(
    descriptions: &[QueueBufferRegionDescription],
    page_shift: u32,
    rules: Rules,
) -> Result<Vec<BuiltQueueBufferRegion>, Problem> {
    if let Some(region) = descriptions.iter().position(|description| description.pages.is_some()) {
        return Err(Problem::DirectPages { region });
    }
    // One run that holds everything, put somewhere by seed.
    let all: u32 = descriptions.iter().map(|description| description.count).fold(0, u32::saturating_add);
    let list = PageList::Scattered { seed: 0, run_pages: all.max(1) };
    let mut root = Pages::new(&list, all.max(1).into(), page_shift, rules)?.address(0);
    let mut regions = Vec::new();
    for description in descriptions {
        let pages = Pages::new(&PageList::Contiguous { first: root }, description.count.into(), page_shift, rules)?;
        regions.push(BuiltQueueBufferRegion { root, hop: 0, pages });
        root += u64::from(description.count) << page_shift;
    }
    Ok(regions)
}

/// The regions' roots stand one behind the other in one table.
fn walked(
    placement: &mut Placement,
    descriptions: &[QueueBufferRegionDescription],
    ba_pg_sz: u8,
    page_shift: u32,
    rules: Rules,
) -> Result<Vec<BuiltQueueBufferRegion>, Problem> {
    let mut regions = Vec::new();
    let mut needed = 0;
    for (number, description) in (0_u64..).zip(descriptions) {
        let shape = Shape { hop: description.hop, ba_pg_sz };
        let count = u64::from(description.count);
        shape.check(count)?;
        let rules = Rules { seed: rules.seed ^ number << 56, ..rules };
        let pages = Pages::new(description.pages.as_ref().unwrap_or(&PageList::default()), count, page_shift, rules)?;
        regions.push((shape, pages, needed));
        needed += shape.root_entries(count);
    }
    let entries = Shape { hop: 1, ba_pg_sz }.entries();
    if needed > entries {
        return Err(Problem::RootTooSmall { needed, entries });
    }
    let mut root_entries = Vec::new();
    for (shape, pages, _) in &regions {
        root_entries.extend(mtr::root_entries(placement, pages, *shape)?);
    }
    let root = placement.place_root(&root_entries)?;
    let finish = |(shape, pages, first): (Shape, Pages, u64)| BuiltQueueBufferRegion {
        root: root + 8 * first,
        hop: shape.hop,
        pages,
    };
    Ok(regions.into_iter().map(finish).collect())
}
