//! Turns the engine's interrupt level into requests of the PCIe IP, in its clock.
//!
//! # Purpose
//! `usr_irq_req` rises with the level and stays until the IP has acknowledged (`usr_irq_ack`) and the level has gone: the
//! protocol of AMD's DMA and bridge IPs for MSI and MSI-X. A message is an edge and the level may hold another event by the
//! time the first is served; so a level that stays is sent again after a pause, and no event is lost to a driver that
//! does not look twice.
//!
//! # Handshake
//! As above; `usr_irq_req` is a register.
//!
//! # Latency and throughput
//! One cycle behind the level; low for at least 15 cycles between two requests.
//!
//! # Timing
//! One counter.
//!
//! # Reset and flush
//! Reset by the PCIe IP's own reset alone.
//!
//! # Hazards
//! The level may fall with the engine's reset while a request waits: the request stays until it is acknowledged.
//!
//! # Limits
//! One vector.

use crate::config::ShellConfig;
use keywalk_hdl::prim::Design;

/// Bits of the pause between two requests.
const PAUSE_BITS: u32 = 4;

/// Builds the block; gives its name.
pub fn build(design: &Design<'_>, config: &ShellConfig) -> String {
    let b = design.module("interrupt_port");
    let level = b.input("level", 1);
    let request = b.register_reset("request", 1, 0);
    let acknowledged = b.register_reset("acknowledged", 1, 0);
    // Cycles of the request, and of the pause behind it.
    let bits = config.interrupt_repeat_log2;
    let cycles = b.register_reset("cycles", bits, 0);
    let paused = cycles.value.low_bits(PAUSE_BITS).all_set().named("paused");
    let starts = (!request.value & level & paused).named("starts");
    let is_acknowledged = acknowledged.value | b.input("usr_irq_ack", 1);
    let repeats = cycles.value.all_set().named("repeats");
    let ends = (request.value & is_acknowledged & (!level | repeats)).named("ends");
    request.next(starts | (request.value & !ends));
    acknowledged.next(request.value & is_acknowledged & !ends);
    // The counter stays at its end, and begins again with a request and with a pause.
    let limit = request.value.mux(repeats, paused);
    let next = limit.mux(cycles.value, cycles.value + 1);
    cycles.next((starts | ends).mux(b.literal(0, bits), next));
    b.output("usr_irq_req", request.value);
    b.name().to_owned()
}
