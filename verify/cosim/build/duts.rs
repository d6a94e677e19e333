//! The list of designs under test.

use std::collections::HashSet;
use std::fs;

use keywalk_contract::Config;
use keywalk_gen::card::{Card, CardConfig};
use keywalk_gen::shell::ShellConfig;

use crate::mutants::{self, Mutant};

/// A Verilog module to be compiled into a model.
pub struct Dut {
    /// Unique name in snake case; the Rust constant is the same in capitals.
    pub name: String,
    /// What it is, for the documents.
    pub doc: String,
    /// Top module.
    pub top: String,
    /// File name and text of the module and of those that it instantiates; a module's file is `<module>.v`.
    pub files: Vec<(String, String)>,
    /// Whether it is the whole engine, which is worth the longest compilation.
    pub is_engine: bool,
    /// Whether Verilator counts lines and toggles in it.
    pub is_covered: bool,
    /// Configuration that it was generated from; none for hand-written modules.
    pub config: Option<Config>,
    /// Whether it holds mutants, of which one can be selected when it starts.
    pub has_mutants: bool,
}

/// Engine that is compiled with coverage besides.
const COVERED: &str = "small";

/// Top module of the engine.
const ENGINE: &str = "keywalk";
/// Module in it that connects the blocks.
const CORE: &str = "keywalk_core";

/// Blocks that have a test of their own, `tests/<block>.rs`: name of the design, block, configuration. `fifo_<depth>x` is
/// the widest queue of that depth: how wide it is follows from the records of the blocks.
const BLOCKS: &[(&str, &str, &str)] = &[
    ("access_check", "access_check", "small"),
    ("atomic_unit", "atomic_unit", "small"),
    ("burst_cutter", "burst_cutter", "small"),
    ("burst_cutter_default", "burst_cutter", "default"),
    ("burst_cutter_least", "burst_cutter", "least"),
    ("byte_rotator", "byte_rotator", "small"),
    ("byte_rotator_default", "byte_rotator", "default"),
    ("byte_rotator_least", "byte_rotator", "least"),
    ("completion_port", "completion_port", "small"),
    ("command_ports", "command_ports", "small_command"),
    ("context_port", "context_port", "small"),
    ("context_port_least", "context_port", "least"),
    ("csr", "csr", "small"),
    ("data_mover", "keywalk_mover", "small"),
    ("data_mover_default", "keywalk_mover", "default"),
    ("data_mover_least", "keywalk_mover", "least"),
    ("entry_decode", "entry_decode", "small"),
    ("fault", "fault", "small"),
    ("fence", "fence", "small"),
    ("fence_default", "fence", "default"),
    ("fence_least", "fence", "least"),
    ("fifo_least", "fifo_2x1", "least"),
    ("fifo_narrow", "fifo_8x3", "small"),
    ("fifo_wide", "fifo_16x", "small"),
    ("free_list_least", "free_list_2", "least"),
    ("free_list_small", "free_list_8", "small"),
    ("free_list_default", "free_list_128", "default"),
    ("hem_lookup", "hem_lookup", "small"),
    ("hem_lookup_default", "hem_lookup", "default"),
    ("key_decoder", "key_decoder", "small"),
    ("key_decoder_default", "key_decoder", "default"),
    ("key_decoder_least", "key_decoder", "least"),
    ("modulo", "modulo", "small"),
    ("mover_dispatch", "mover_dispatch", "small"),
    ("mover_read", "mover_read", "small"),
    ("mover_write", "mover_write", "small"),
    ("mpt_cache", "mpt_cache", "small"),
    ("mpt_cache_default", "mpt_cache", "default"),
    ("mpt_cache_least", "mpt_cache", "least"),
    ("mtr_walker", "mtr_walker", "small"),
    ("mtr_walker_default", "mtr_walker", "default"),
    ("page_split", "page_split", "small"),
    ("page_split_default", "page_split", "default"),
    ("page_split_least", "page_split", "least"),
    ("page_split_ordered", "page_split", "small_ordered"),
    ("probe", "keywalk_probe", "small_command"),
    ("probe_default", "keywalk_probe", "default"),
    ("response_port", "response_port", "small"),
    ("split_buffer", "split_buffer", "small"),
    ("split_buffer_default", "split_buffer", "default"),
    ("split_buffer_least", "split_buffer", "least"),
    ("split_buffer_ordered", "split_buffer", "small_ordered"),
    ("table_port", "table_port", "small"),
    ("table_port_default", "table_port", "default"),
    ("tlb", "tlb", "small"),
    ("tlb_default", "tlb", "default"),
    ("tlb_least", "tlb", "least"),
    ("walk_queue", "walk_queue", "small"),
    ("write_port", "write_port", "small"),
];

/// Configurations in which the engine is tested. Each name becomes the name of a design.
fn configurations() -> Vec<Config> {
    let presets = ["default", "small", "narrow"].iter().filter_map(|name| keywalk_gen::presets::find(name));
    let mut configurations: Vec<_> = presets.map(|preset| preset.config()).collect();
    // Small, with responses in order. As every request takes a split context there, one per cycle needs more of them; and
    // more walks, because every piece reserves one until the TLB has answered.
    let small = keywalk_gen::presets::find("small").map(|preset| preset.config());
    configurations.extend(small.map(|small| Config {
        name: "small_ordered".into(),
        walk_contexts: 16,
        split_contexts: 32,
        in_order: true,
        ..small
    }));
    // Small, with a command unit.
    let small = keywalk_gen::presets::find("small").map(|preset| preset.config());
    configurations.extend(small.map(|small| Config { name: "small_command".into(), command_unit: true, ..small }));
    configurations.push(least());
    if cfg!(feature = "bench") {
        // The default engine with as many reads in flight as the contract allows, and contexts to make them.
        configurations.push(Config {
            name: "reads_256".into(),
            reads_in_flight: 256,
            hem_contexts: 256,
            walk_contexts: 512,
            ..Config::default()
        });
    }
    configurations
}

/// Every depth at its minimum, no done tracking.
fn least() -> Config {
    Config {
        name: "least".into(),
        table_sets: 1,
        function_bits: 1,
        mpt_sets: 2,
        mpt_ways: 1,
        tlb_sets: 2,
        tlb_ways: 1,
        hem_cache_sets: 2,
        hem_cache_ways: 1,
        mtr_lower_sets: 2,
        mtr_lower_ways: 1,
        mtr_upper_sets: 2,
        mtr_upper_ways: 1,
        epoch_buckets: 2,
        done_buckets: 2,
        hem_contexts: 2,
        walk_contexts: 4,
        reads_in_flight: 2,
        table_data_bits: 128,
        split_contexts: 2,
        split_pages: 4,
        response_depth: 16,
        fault_depth: 2,
        bt0_slots: 1,
        mover_data_bits: 128,
        mover_burst_beats: 2,
        mover_reads_in_flight: 4,
        mover_writes_in_flight: 4,
        mover_read_beats: 16,
        mover_atomics_in_flight: 2,
        done_tracking: false,
        ..Config::default()
    }
}

/// Puts mutants into the small engine and its blocks. Returns them; none where this build has none.
pub fn mutate(duts: &mut [Dut]) -> Vec<Mutant> {
    let Some(engine) = duts.iter().find(|dut| cfg!(feature = "mutants") && dut.name == mutants::CONFIGURATION) else {
        return Vec::new();
    };
    let files = engine.files.clone();
    let mutants = mutants::choose(&files);
    for dut in duts {
        let is_of_configuration = dut.config.as_ref().is_some_and(|config| config.name == mutants::CONFIGURATION);
        // Copies of the engine with a fault of their own are for other tests.
        if is_of_configuration && (!dut.is_engine || dut.name == mutants::CONFIGURATION) {
            mutants::plant(dut, &mutants, &files);
        }
    }
    mutants
}

/// A copy of a design with one fault: a text that occurs exactly once in a file is replaced.
struct PlantedFault {
    /// Name of the faulty copy.
    name: &'static str,
    /// What the fault does, for the documents.
    doc: &'static str,
    /// Name of the design that is copied.
    of: &'static str,
    /// File that holds the text.
    file: &'static str,
    /// The text.
    from: &'static str,
    /// What replaces it.
    to: &'static str,
}

/// Faults that the tests must find.
const PLANTED_FAULTS: &[PlantedFault] = &[PlantedFault {
    name: "small_bounds_fault",
    doc: "The small engine with one flipped condition: a request may not reach the last byte of its region.",
    of: "small",
    file: "access_check.v",
    from: "line_last < s3_last;",
    to: "line_last <= s3_last;",
}];

/// Blocks that begin in a state that they reach too late otherwise.
const BLOCK_VARIANTS: &[PlantedFault] = &[PlantedFault {
    name: "csr_near_carry",
    doc: "`csr` whose counters begin below a carry, at 0xffff_ffef_ffff_8000.",
    of: "csr",
    file: "csr.v",
    from: "~v1_clears ? totals_read_0 : 64'h0",
    to: "~v1_clears ? totals_read_0 : 64'hffffffefffff8000",
}];

/// Faults in the hand-written modules, for the tests of the monitors.
const PLANTED_FAULTS_OF_TEST_MODULES: &[PlantedFault] = &[
    PlantedFault {
        name: "stream_drops_valid",
        doc: "`stream_register` that withdraws an odd payload that is not accepted at once.",
        of: "stream_register",
        file: "stream_register.v",
        from: "else if (out_ready) full",
        to: "else if (out_ready || data[0]) full",
    },
    PlantedFault {
        name: "stream_changes_payload",
        doc: "`stream_register` that takes a new payload while the old one waits.",
        of: "stream_register",
        file: "stream_register.v",
        from: "if (in_valid && in_ready) data",
        to: "if (in_valid) data",
    },
    PlantedFault {
        name: "lite_answers_early",
        doc: "`lite_registers` that answers a write before its data has come.",
        of: "lite_registers",
        file: "lite_registers.v",
        from: "if (write) s_axil_bvalid",
        to: "if (s_axil_awvalid) s_axil_bvalid",
    },
    PlantedFault {
        name: "lite_answers_exclusive",
        doc: "`lite_registers` that answers a write with EXOKAY.",
        of: "lite_registers",
        file: "lite_registers.v",
        from: "s_axil_bresp <= s_axil_awaddr[11:4] == 8'd0 ? 2'd0",
        to: "s_axil_bresp <= s_axil_awaddr[11:4] == 8'd0 ? 2'd1",
    },
    PlantedFault {
        name: "engine_wrong_tag",
        doc: "`engine_stub` that answers with another tag.",
        of: "engine_stub",
        file: "engine_stub.v",
        from: "        function_number, tag\n    };",
        to: "        function_number, tag ^ 16'd1\n    };",
    },
    PlantedFault {
        name: "engine_wrong_segment",
        doc: "`engine_stub` that counts its segments by two.",
        of: "engine_stub",
        file: "engine_stub.v",
        from: "segment <= segment + 24'd1;",
        to: "segment <= segment + 24'd2;",
    },
    PlantedFault {
        name: "engine_mixes_responses",
        doc: "`engine_stub` whose second segment carries another tag.",
        of: "engine_stub",
        file: "engine_stub.v",
        from: "        function_number, tag\n    };",
        to: "        function_number, tag ^ segment[15:0]\n    };",
    },
];

/// Queues between two clocks that have a test of their own: name of the design, and words; the widest of that depth.
const ASYNC_FIFOS: &[(&str, u32)] = &[("async_fifo_shallow", 4), ("async_fifo_deep", 32)];

/// Designs whose synchronisers see a changed bit an edge late at random, each bit by itself: what a metastable register
/// does.
const LATE_SYNCHRONISERS: &[(&str, &str)] =
    &[("async_fifo_shallow_late", "async_fifo_shallow"), ("async_fifo_deep_late", "async_fifo_deep")];

/// Shells that are tested: name of the design, bits of the engine's port, bits of the PCIe IP's.
const SHELLS: &[(&str, u32, u32)] =
    &[("shell", 512, 512), ("shell_wider_4", 128, 512), ("shell_wider_2", 256, 512), ("shell_narrower", 512, 256)];

/// Faults of the shell that the tests must find.
const PLANTED_FAULTS_OF_SHELLS: &[PlantedFault] = &[
    PlantedFault {
        name: "shell_forgets",
        doc: "`shell` that starts again before old requests are answered.",
        of: "shell",
        file: "reset_link.v",
        from: "pcie_settled & drained",
        to: "pcie_settled & (drained | 1'b1)",
    },
    PlantedFault {
        name: "shell_keeps_half",
        doc: "`shell` whose link does not empty the queues' halves on the engine's side.",
        of: "shell",
        file: "reset_link.v",
        from: "engine_clear = ~is_running & is_acknowledged;",
        to: "engine_clear = 1'b0 & is_acknowledged;",
    },
    PlantedFault {
        name: "shell_abandons_bursts",
        doc: "`shell` that does not finish started bursts of writes.",
        of: "shell",
        file: "host_port.v",
        from: "& (w_valid | ~up)",
        to: "& w_valid",
    },
];

/// Shells and their queues.
fn shells(duts: &mut Vec<Dut>) -> Result<(), String> {
    for (name, engine_data_bits, pcie_data_bits) in SHELLS {
        let config = ShellConfig {
            engine_data_bits: *engine_data_bits,
            pcie_data_bits: *pcie_data_bits,
            interrupt_repeat_log2: 8,
            ..ShellConfig::default()
        };
        let shell = keywalk_gen::shell::generate(&config).map_err(|error| format!("shell `{name}`: {error}"))?;
        let mut add = |name: &str, doc: String, top: &str| {
            duts.push(Dut {
                name: name.into(),
                doc,
                top: top.into(),
                files: shell.files_of(top),
                is_engine: false,
                is_covered: false,
                config: None,
                has_mutants: false,
            });
        };
        add(name, format!("The shell, engine {engine_data_bits} bits, PCIe {pcie_data_bits} bits."), "keywalk_shell");
        if *name == "shell" {
            for (name, words) in ASYNC_FIFOS {
                let top = widest(&format!("async_fifo_{words}x"), &shell.verilog);
                add(name, format!("Queue of {words} words between two clocks."), &top);
            }
        }
    }
    for (name, of) in LATE_SYNCHRONISERS {
        late(name, of, duts)?;
    }
    plant(PLANTED_FAULTS_OF_SHELLS, duts)
}

/// Adds the copy of a design with late synchronisers.
fn late(name: &str, of: &str, duts: &mut Vec<Dut>) -> Result<(), String> {
    let original = duts.iter().find(|dut| dut.name == of).ok_or_else(|| format!("there is no design `{of}`"))?;
    let mut files = original.files.clone();
    let file = format!("{}.v", original.top);
    let (_, text) = files.iter_mut().find(|(name, _)| *name == file).ok_or_else(|| format!("`{of}` has no {file}"))?;
    let mut changed = 0;
    // Only what has changed at the last edge of the source's clock can still be late, and only once.
    for (source, clock, synchroniser) in
        [("write_clock", "read_clock", "write_gray_at_read"), ("read_clock", "write_clock", "read_gray_at_write")]
    {
        let from = format!("{synchroniser}_stage_0 <= {synchroniser}_d;");
        let to = format!(
            "{synchroniser}_stage_0 <= {synchroniser}_d ^ (({synchroniser}_d ^ {synchroniser}_seen) & \
             ({synchroniser}_d ^ {synchroniser}_before) & $bits({synchroniser}_d)'($urandom));"
        );
        changed += text.matches(&from).count();
        *text = text.replacen(&from, &to, 1);
        let earlier = format!(
            "    reg [$bits({synchroniser}_d)-1:0] {synchroniser}_seen = 0, {synchroniser}_before = 0;\n    \
             always @(posedge {clock}) {synchroniser}_seen <= {synchroniser}_d;\n    \
             always @(posedge {source}) {synchroniser}_before <= {synchroniser}_d;\nendmodule"
        );
        *text = text.replacen("endmodule", &earlier, 1);
    }
    if changed != 2 {
        return Err(format!("`{of}` has {changed} first stages, expected 2"));
    }
    let copy = Dut {
        name: name.into(),
        doc: format!("`{of}` with synchronisers that are late at random."),
        top: original.top.clone(),
        files,
        is_engine: false,
        is_covered: false,
        config: None,
        has_mutants: false,
    };
    duts.push(copy);
    Ok(())
}

/// Preset of the card that is tested.
const CARD: &str = "small_card";

/// Blocks of the card that have a test of their own.
const CARD_BLOCKS: &[&str] = &["memory_arbiter", "register_split", "request_fork"];

/// The card that is tested.
fn small_card() -> Result<(CardConfig, Card), String> {
    let preset = keywalk_gen::presets::find(CARD).ok_or_else(|| format!("there is no preset `{CARD}`"))?;
    let config = CardConfig { interrupt_repeat_log2: 8, ..CardConfig::new(preset.config()) };
    let card = keywalk_gen::card::generate(&config).map_err(|error| format!("card `{CARD}`: {error}"))?;
    Ok((config, card))
}

/// The card and its blocks.
fn cards(duts: &mut Vec<Dut>) -> Result<(), String> {
    let (config, card) = small_card()?;
    let mut add = |name: &str, doc: String, files: Vec<(String, String)>, top: &str| {
        duts.push(Dut {
            name: name.into(),
            doc,
            top: top.into(),
            files,
            is_engine: false,
            is_covered: false,
            config: Some(config.engine.clone()),
            has_mutants: false,
        });
    };
    let top = keywalk_gen::card::TOP;
    add("card", format!("Engine, data mover and shell in configuration `{CARD}`."), card.files_of(top), top);
    let top = keywalk_gen::probed_card::TOP;
    add(
        "probed_card",
        format!("Engine, data mover, shell and probe in configuration `{CARD}`."),
        card.files_of(top),
        top,
    );
    if !cfg!(feature = "block-tests") {
        return Ok(());
    }
    let top = keywalk_gen::card::TOP;
    // The same with an engine that does not wait for data that is being moved: no card can be generated with it.
    let engine = Config { done_tracking: false, ..config.engine.clone() };
    let engine = keywalk_gen::generate(&engine).map_err(|error| format!("card `{CARD}`: {error}"))?;
    let mut files = card.files_of(top);
    for (name, text) in files.iter_mut().filter(|(name, _)| name == "fence.v") {
        let other = engine.files.iter().find(|(file, _)| file == name);
        *text = other.map(|(_, text)| text.clone()).ok_or_else(|| format!("there is no {name}"))?;
    }
    add(
        "card_without_done_tracking",
        "`card` whose invalidations do not wait for data that is being moved.".into(),
        files,
        top,
    );
    for block in CARD_BLOCKS {
        add(block, format!("Block `{block}` of the card."), card.files_of(block), block);
    }
    Ok(())
}

/// Every design that this build needs.
pub fn all() -> Result<Vec<Dut>, String> {
    let mut duts = Vec::new();
    generated(&mut duts)?;
    plant(PLANTED_FAULTS, &mut duts)?;
    if cfg!(feature = "block-tests") {
        plant(BLOCK_VARIANTS, &mut duts)?;
        shells(&mut duts)?;
        hand_written(&mut duts)?;
        plant(PLANTED_FAULTS_OF_TEST_MODULES, &mut duts)?;
    }
    if cfg!(any(feature = "block-tests", feature = "card")) {
        cards(&mut duts)?;
    }
    if cfg!(feature = "coverage") {
        add_covered(&mut duts)?;
    }
    let mut names = HashSet::new();
    match duts.iter().find(|dut| !names.insert(dut.name.as_str())) {
        Some(dut) => Err(format!("two designs under test are called `{}`", dut.name)),
        None => Ok(duts),
    }
}

/// The engine and its blocks.
fn generated(duts: &mut Vec<Dut>) -> Result<(), String> {
    for config in configurations() {
        let output =
            keywalk_gen::generate(&config).map_err(|error| format!("configuration `{}`: {error}", config.name))?;
        let mut add = |name: &str, doc: String, block: &str| {
            let top = &top_of(block, &output.files);
            if output.files.iter().all(|(file, _)| file.strip_suffix(".v") != Some(top.as_str())) {
                let names: Vec<_> = output.files.iter().map(|(file, _)| file.as_str()).collect();
                return Err(format!("module `{top}` is not generated; the files are: {}", names.join(", ")));
            }
            duts.push(Dut {
                name: name.into(),
                doc,
                top: top.clone(),
                files: output.files_of(top),
                is_engine: top == ENGINE,
                is_covered: false,
                config: Some(config.clone()),
                has_mutants: false,
            });
            Ok(())
        };
        add(&config.name, format!("The engine in configuration `{}`.", config.name), ENGINE)?;
        if cfg!(feature = "block-tests") {
            for (name, block, _) in BLOCKS.iter().filter(|(_, _, configuration)| *configuration == config.name) {
                add(name, format!("Block `{block}` in configuration `{}`.", config.name), block)?;
            }
        }
    }
    Ok(())
}

/// Adds a copy of the small engine in which Verilator counts lines and toggles.
fn add_covered(duts: &mut Vec<Dut>) -> Result<(), String> {
    let small = duts.iter().find(|dut| dut.name == COVERED).ok_or_else(|| format!("there is no design `{COVERED}`"))?;
    duts.push(Dut {
        name: format!("{COVERED}_covered"),
        doc: format!("The engine in configuration `{COVERED}`, with Verilator's line and toggle coverage."),
        top: small.top.clone(),
        files: small.files.clone(),
        is_engine: small.is_engine,
        is_covered: true,
        config: small.config.clone(),
        has_mutants: false,
    });
    Ok(())
}

/// Whether a module has a test of its own in that configuration, or is tested with the engine alone.
pub fn is_tested(module: &str, configuration: &str, files: &[(String, String)]) -> bool {
    let tops = BLOCKS.iter().filter(|(_, _, name)| *name == configuration).map(|(_, block, _)| top_of(block, files));
    tops.chain([ENGINE.into(), CORE.into()]).any(|top| top == module)
}

/// The module that a block of [`BLOCKS`] is.
fn top_of(block: &str, files: &[(String, String)]) -> String {
    if block.ends_with('x') { widest(block, files) } else { block.to_owned() }
}

/// The module whose name is that prefix with the highest number behind it; the prefix where there is none.
fn widest(prefix: &str, files: &[(String, String)]) -> String {
    let widths =
        files.iter().filter_map(|(file, _)| file.strip_prefix(prefix)?.strip_suffix(".v")?.parse::<u32>().ok());
    widths.max().map_or_else(|| prefix.to_owned(), |width| format!("{prefix}{width}"))
}

/// The modules of `tests/rtl`, one per file, named as the file.
fn hand_written(duts: &mut Vec<Dut>) -> Result<(), String> {
    let directory = "tests/rtl";
    let entries = fs::read_dir(directory).map_err(|error| format!("{directory}: {error}"))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{directory}: {error}"))?.path();
        if path.extension().is_some_and(|extension| extension == "v") {
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        duts.push(Dut {
            doc: format!("Hand-written module `{name}` of this crate's tests."),
            top: name.clone(),
            files: vec![(format!("{name}.v"), text)],
            is_engine: false,
            is_covered: false,
            config: None,
            has_mutants: false,
            name,
        });
    }
    Ok(())
}

/// Adds the faulty copies.
fn plant(faults: &[PlantedFault], duts: &mut Vec<Dut>) -> Result<(), String> {
    for fault in faults {
        let context = format!("planted fault `{}`", fault.name);
        let original = duts
            .iter()
            .find(|dut| dut.name == fault.of)
            .ok_or_else(|| format!("{context}: there is no design `{}`", fault.of))?;
        let mut files = original.files.clone();
        let (_, text) = files
            .iter_mut()
            .find(|(name, _)| name == fault.file)
            .ok_or_else(|| format!("{context}: design `{}` has no file `{}`", fault.of, fault.file))?;
        let occurrences = text.matches(fault.from).count();
        if occurrences != 1 {
            return Err(format!(
                "{context}: `{}` occurs {occurrences} times in {}, it must occur exactly once",
                fault.from, fault.file
            ));
        }
        *text = text.replacen(fault.from, fault.to, 1);
        let faulty = Dut {
            name: fault.name.into(),
            doc: fault.doc.into(),
            top: original.top.clone(),
            files,
            is_engine: original.is_engine,
            is_covered: false,
            config: original.config.clone(),
            has_mutants: false,
        };
        duts.push(faulty);
    }
    Ok(())
}
