//! Tests of the device: commands, work requests, and the lives of regions, windows and tables.

mod life;
mod mailbox;
mod requests;
mod rig;
mod windows;
