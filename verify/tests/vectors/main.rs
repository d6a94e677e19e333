//! The command `keywalk-verify` on vectors: whole ones, tampered ones, and files that are none.

mod corrupt;
mod hostile;
mod model;
mod rtl;
mod support;
