//! Requests of many pages: the whole of every live region and random parts of it, with what must come back.

use keywalk_contract::Operation;
use keywalk_contract::op::LENGTH_MAX_BYTES;
use keywalk_model::{Request, Segment};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::checks;
use crate::vector::{Pages, Region, RegionKind, Vector};

/// Requests that ask for the whole of one region; a region that needs more is sampled.
const WHOLE_REQUESTS_MAX: u64 = 1024;
/// Requests that sample a region.
const SAMPLES: u64 = 8;
/// Most pages of a request that samples a region.
const SAMPLE_PAGES: u64 = 1024;
/// Random parts of each region.
const RANDOM_PIECES: u32 = 6;
/// Most pages of a random part.
const RANDOM_PAGES: u64 = 16;

/// Where the true answer to a piece is found.
#[derive(Clone, Copy, Debug)]
pub enum Truth<'a> {
    /// In the region's page list.
    Pages(Pages<'a>),
    /// VA and bus address are the same.
    Identity,
    /// In the literal reading of the tables, as the golden model gives it.
    Literal,
}

/// A request for a part of a region.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    /// Which part of which region, for people.
    pub place: String,
    /// The request; its tag is 0.
    pub request: Request,
    /// Where the true answer is found.
    pub truth: Truth<'a>,
    /// Pages that the request touches.
    pub pages: u64,
}

impl Piece<'_> {
    /// The segments that must come back; `None` where only the golden model knows.
    ///
    /// # Errors
    /// A page list that does not hold a page in one run.
    pub fn segments(&self, merge_bytes_max: u32) -> Result<Option<Vec<Segment>>, String> {
        let Request { va, length, .. } = self.request;
        match self.truth {
            Truth::Pages(pages) => pages.segments(va, length.into(), merge_bytes_max).map(Some),
            Truth::Identity => Ok(Some(vec![Segment { pa: va, length_bytes: length }])),
            Truth::Literal => Ok(None),
        }
    }
}

/// What a piece is taken from.
struct Source<'a> {
    name: &'a str,
    request: Request,
    truth: Truth<'a>,
    va: u64,
    /// Bytes; all of memory, 2^64, counts as one less.
    length_bytes: u64,
    page_shift: u32,
}

impl<'a> Source<'a> {
    fn of(region: &'a Region, is_literal: bool) -> Option<Self> {
        let key = region.key?.0;
        let operation = Operation::LocalRead.code();
        let request = Request { tag: 0, function: 0, operation, key, pd: region.pd, qpn: 0, va: 0, length: 0 };
        let name = region.name.as_str();
        if region.live && region.kind == RegionKind::Dma {
            let truth = if is_literal { Truth::Literal } else { Truth::Identity };
            return Some(Self { name, request, truth, va: 0, length_bytes: u64::MAX, page_shift: 12 });
        }
        let pages = region.pages()?;
        let Pages { va, length_bytes, page_shift, .. } = pages;
        let truth = if is_literal { Truth::Literal } else { Truth::Pages(pages) };
        Some(Self { name, request, truth, va, length_bytes, page_shift })
    }

    fn piece(&self, what: &str, offset: u64, length_bytes: u64) -> Piece<'a> {
        let va = self.va + offset;
        let request = Request { va, length: length_bytes as u32, ..self.request };
        let pages = match self.truth {
            Truth::Identity => 1,
            _ => ((va + (length_bytes - 1)) >> self.page_shift) - (va >> self.page_shift) + 1,
        };
        Piece { place: format!("{what} of region `{}`", self.name), request, truth: self.truth, pages }
    }

    /// The whole region, or samples of it where it has more than `pages_max` pages or takes too many requests.
    fn whole(&self, pages_max: u64, random: &mut ChaCha8Rng, pieces: &mut Vec<Piece<'a>>) {
        let count = self.length_bytes.div_ceil(LENGTH_MAX_BYTES);
        let pages = (self.length_bytes >> self.page_shift) + 1;
        if count <= WHOLE_REQUESTS_MAX && pages <= pages_max {
            for number in 0..count {
                let offset = number * LENGTH_MAX_BYTES;
                let length_bytes = LENGTH_MAX_BYTES.min(self.length_bytes - offset);
                pieces.push(self.piece("the whole", offset, length_bytes));
            }
            return;
        }
        let sample_bytes = LENGTH_MAX_BYTES.min(SAMPLE_PAGES << self.page_shift).min(self.length_bytes);
        let last = self.length_bytes - sample_bytes;
        for number in 0..SAMPLES {
            let offset = match number {
                0 => 0,
                1 => last,
                _ => random.random_range(0..=last),
            };
            pieces.push(self.piece("a sample", offset, sample_bytes));
        }
    }

    /// Random parts, of many pages where the region has them.
    fn parts(&self, random: &mut ChaCha8Rng, pieces: &mut Vec<Piece<'a>>) {
        for _ in 0..RANDOM_PIECES {
            let offset = random.random_range(0..self.length_bytes);
            let longest = (RANDOM_PAGES << self.page_shift).min(LENGTH_MAX_BYTES).min(self.length_bytes - offset);
            pieces.push(self.piece("a part", offset, random.random_range(1..=longest)));
        }
    }
}

/// The pieces of all live regions. Regions that the driver got wrong are left out unless `with_literal`.
pub fn of_vector<'a>(
    vector: &'a Vector,
    whole_pages_max: u64,
    with_literal: bool,
    random: &mut ChaCha8Rng,
) -> Vec<Piece<'a>> {
    let mismatched = checks::mismatched_regions(vector);
    let mut pieces = Vec::new();
    for region in &vector.mrs {
        let is_literal = mismatched.contains(region.name.as_str());
        if is_literal && !with_literal {
            continue;
        }
        if let Some(source) = Source::of(region, is_literal) {
            source.whole(whole_pages_max, random, &mut pieces);
            source.parts(random, &mut pieces);
        }
    }
    pieces
}
