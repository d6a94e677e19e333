//! What each block states about its latency and throughput. The statement is the block's own documentation, read from
//! its source, so that manifest and source cannot disagree.

/// Heading of the statement in the documentation of a block.
const HEADING: &str = "Latency and throughput";

macro_rules! blocks {
    ($($name:ident)*) => {
        /// Name and source of every block. The name is also that of its module.
        const BLOCKS: &[(&str, &str)] =
            &[$((stringify!($name), include_str!(concat!("../../hdl/src/", stringify!($name), ".rs")))),*];
    };
}

blocks! {
    access_check atomic_unit burst_cutter byte_rotator command_ports command_unit completion_port context_port csr data_mover
    entry_decode fault fence hem_lookup key_decoder modulo mover_dispatch mover_read mover_write mpt_cache mtr_walker page_split probe
    response_port split_buffer table_port tlb walk_queue write_port
}

/// The statement of a block on one line; `None` for a module that is no block.
#[must_use]
pub fn statement(module: &str) -> Option<String> {
    let (_, source) = BLOCKS.iter().find(|(name, _)| *name == module)?;
    let lines = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    // The heading is a line of its own or the first words of the paragraph; the next heading ends the statement.
    let mut rest = lines.skip_while(|line| !line.trim_start_matches(['#', '*', ' ']).starts_with(HEADING));
    let first = rest.next()?.trim_start_matches(['#', '*', ' ']);
    let first = first.strip_prefix(HEADING)?.trim_start_matches(['.', '*', ' ']);
    let is_statement = |line: &&str| !line.starts_with('#') && !line.starts_with("**");
    let lines: Vec<&str> =
        [first].into_iter().chain(rest.take_while(is_statement)).filter(|line| !line.is_empty()).collect();
    Some(lines.join(" ").replace("[`", "`").replace("`]", "`"))
}
