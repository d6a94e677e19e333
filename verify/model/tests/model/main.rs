//! Tests of the golden model: on a hand-made world, and on images whose true pages are known.

mod bounds;
mod context;
mod images;
mod precedence;
mod rig;
mod segments;
mod trace;
