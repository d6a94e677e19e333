//! The canonicaliser changes the text of a module and nothing else: equivalence with kaze's text is proven by yosys,
//! and lint, names, order, size and speed are checked on designs that are exposed as the hardware layer exposes them.

mod tools;

use kaze::{Context, Module, Signal};
use keywalk_gen::canonicalise::{Options, RamStyle, canonicalise, parse};
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use tools::run_yosys;

/// Exposes operators as the hardware layer does, or leaves them as they are.
struct Builder<'a> {
    module: &'a Module<'a>,
    exposes: bool,
    count: Cell<u32>,
}

impl<'a> Builder<'a> {
    fn new(context: &'a Context<'a>, name: &str, exposes: bool) -> Self {
        Self { module: context.module(name), exposes, count: Cell::new(0) }
    }

    fn expose(&self, kind: char, label: &str, signal: &'a Signal<'a>) -> &'a Signal<'a> {
        if self.exposes {
            self.module.output(format!("N{:06}{kind}_{label}", self.count.replace(self.count.get() + 1)), signal);
        }
        signal
    }

    /// An anonymous operator.
    fn op(&self, label: &str, signal: &'a Signal<'a>) -> &'a Signal<'a> {
        self.expose('u', label, signal)
    }

    /// A named wire.
    fn wire(&self, label: &str, signal: &'a Signal<'a>) -> &'a Signal<'a> {
        self.expose('n', label, signal)
    }

    fn input(&self, name: &str, width_bits: u32) -> &'a Signal<'a> {
        self.module.input(name, width_bits)
    }

    fn output(&self, name: &str, signal: &'a Signal<'a>) {
        self.module.output(name, signal);
    }

    fn mux(&self, condition: &'a Signal<'a>, when_true: &'a Signal<'a>, when_false: &'a Signal<'a>) -> &'a Signal<'a> {
        self.op("mux", self.module.mux(condition, when_true, when_false))
    }
}

type Design = for<'a> fn(&'a Context<'a>, bool);

/// Kaze's text of every module, by name.
fn kaze_texts(design: Design, exposes: bool) -> BTreeMap<String, String> {
    let context = Context::new();
    design(&context, exposes);
    let mut texts = BTreeMap::new();
    for (name, module) in context.modules().iter() {
        let mut text = Vec::new();
        kaze::verilog::generate(module, &mut text).expect("kaze writes to memory");
        texts.insert(name.clone(), String::from_utf8(text).expect("kaze prints ASCII"));
    }
    texts
}

fn canonical(text: &str) -> String {
    let options = Options { header: "", port_comments: &BTreeMap::new() };
    canonicalise(text, &options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The canonical text of every module, by name.
fn canonical_texts(design: Design) -> BTreeMap<String, String> {
    kaze_texts(design, true).into_iter().map(|(name, text)| (name, canonical(&text))).collect()
}

// ---- designs ----

fn arithmetic<'a>(context: &'a Context<'a>, exposes: bool) {
    let b = Builder::new(context, "arithmetic", exposes);
    let (x, y) = (b.input("x", 8), b.input("y", 8));
    let sum = b.op("add", x + y);
    let difference = b.op("sub", sum - x);
    let low = b.op("bits", sum.bits(3, 0));
    b.output("low", low);
    b.output("carry", b.op("bit", sum.bit(7)));
    b.output("nested", b.op("sub", b.op("add", sum + difference) - b.op("add", x + b.op("not", !y))));
    b.output("product", b.op("mul", x * b.input("z", 3)));
    b.output("signed_product", b.op("mul", difference.mul_signed(b.input("z", 3).repeat(1))));
    b.output("bit_product", b.op("mul", x.bit(0).mul_signed(y)));
    b.output("constant_product", b.op("mul", b.module.lit(13u32, 4).mul_signed(y)));
}

fn muxes<'a>(context: &'a Context<'a>, exposes: bool) {
    let b = Builder::new(context, "muxes", exposes);
    let select = b.input("select", 5);
    let values: Vec<&Signal> = (0..6).map(|index| b.input(&format!("value{index}"), 12)).collect();
    let mut chosen = values[5];
    for index in (0..5).rev() {
        chosen = b.mux(b.op("bit", select.bit(index)), values[index as usize], chosen);
    }
    b.output("chosen", chosen);
    let inner = b.mux(b.op("bit", select.bit(1)), values[0], values[1]);
    let condition = b.op("and", b.op("bit", select.bit(0)) & b.op("not", !b.op("bit", select.bit(4))));
    b.output("nested", b.mux(condition, inner, b.op("xor", values[2] ^ values[3])));
    b.output("constant", b.mux(b.module.high(), values[2], values[3]));
    let packed =
        b.op("concat", b.op("concat", values[0].concat(condition)).concat(b.op("repeat", condition.repeat(5))));
    b.output("bundle", packed);
    b.output("mirrored", b.op("bits", packed.bits(12, 3)));
}

fn shifts<'a>(context: &'a Context<'a>, exposes: bool) {
    let b = Builder::new(context, "shifts", exposes);
    let (x, amount) = (b.input("x", 16), b.input("amount", 5));
    let left = b.op("shl", x << amount);
    b.output("left", left);
    b.output("right", b.op("shr", b.op("shl", x << b.module.lit(3u32, 5)) >> amount));
    b.output("widened", b.op("concat", b.module.lit(0u32, 4).concat(left)));
    b.output("both", b.op("or", left | b.op("shr", x >> b.op("add", amount + amount))));
}

fn compares<'a>(context: &'a Context<'a>, exposes: bool) {
    let b = Builder::new(context, "compares", exposes);
    let (x, y) = (b.input("x", 6), b.input("y", 6));
    let sum = b.op("add", x + y);
    b.output("equal", b.op("eq", x.eq(y)));
    b.output("not_equal", b.op("ne", sum.ne(y)));
    b.output("less", b.op("lt", sum.lt(x)));
    b.output("less_equal", b.op("le", x.le(sum)));
    b.output("greater", b.op("gt", b.op("not", !x).gt(y)));
    b.output("greater_equal", b.op("ge", x.ge(y)));
    b.output("less_signed", b.op("lt", x.lt_signed(y)));
    b.output("less_equal_signed", b.op("le", sum.le_signed(b.op("xor", x ^ y))));
    b.output("greater_signed", b.op("gt", x.gt_signed(y)));
    b.output("greater_equal_signed", b.op("ge", x.ge_signed(b.module.lit(0u32, 6))));
    let both = b.op("and", b.op("lt", x.lt(y)) & b.op("lt", x.lt_signed(y)));
    b.output("mixed", b.op("or", both | b.op("eq", b.op("concat", x.concat(y)).eq(b.module.lit(0x5a5u32, 12)))));
    let (zero, ones) = (b.module.lit(0u32, 6), b.module.lit(63u32, 6));
    let constant = [x.lt(zero), x.ge(zero), x.gt(ones), x.le(ones), zero.gt(x), zero.le(x), ones.lt(x), ones.ge(x)];
    let constant = constant.into_iter().map(|signal| b.op("cmp", signal));
    b.output("constant", constant.reduce(|low, high| b.op("concat", high.concat(low))).expect("there are eight"));
    let gates = [x & zero, x & ones, zero & x, ones & x, x | zero, x | ones, zero | x, ones | x];
    let gates = gates.into_iter().map(|signal| b.op("gate", signal));
    b.output("gates", gates.reduce(|low, high| b.op("concat", high.concat(low))).expect("there are eight"));
}

fn registers<'a>(context: &'a Context<'a>, exposes: bool) {
    let b = Builder::new(context, "registers", exposes);
    let (enable, data) = (b.input("enable", 1), b.input("data", 8));
    let count = b.module.reg("count", 8);
    count.default_value(0x42u32);
    count.drive_next(b.mux(enable, b.op("add", count.value + b.module.lit(1u32, 8)), count.value));
    let delayed = b.module.reg("delayed", 8);
    delayed.drive_next(count.value);
    let state = b.module.reg("state", 8);
    state.default_value(0u32);
    state.drive_next(b.wire("mixed", b.op("xor", b.op("not", !state.value) ^ b.op("xor", data ^ delayed.value))));
    let flag = b.module.reg("flag", 1);
    flag.drive_next(b.op("not", !flag.value));
    b.output("count", count.value);
    b.output("delayed", delayed.value);
    b.output("sum", b.op("add", delayed.value + state.value));
    b.output("flag_and", b.op("and", flag.value & b.op("bit", data.bit(2))));
}

fn memories<'a>(context: &'a Context<'a>, exposes: bool) {
    let b = Builder::new(context, "memories", exposes);
    let address = b.input("address", 3);
    let (enable, write_enable) = (b.input("enable", 1), b.input("write_enable", 1));
    let lines = b.module.mem("lines__block", 3, 10);
    let first = lines.read_port(address, enable);
    let second = lines.read_port(b.op("add", address + b.module.lit(1u32, 3)), b.module.high());
    let value = b.op("concat", b.op("bits", b.input("data", 7).bits(6, 0)).concat(address));
    lines.write_port(b.op("not", !address), value, b.op("and", write_enable & enable));
    b.output("first", first);
    b.output("second", b.op("bits", second.bits(4, 1)));
    let rom = b.module.mem("rom__distributed", 3, 8);
    rom.initial_contents(&[3u32, 1, 4, 1, 5, 9, 2, 6]);
    b.output("constant", rom.read_port(address, b.op("or", enable | write_enable)));
}

fn instances<'a>(context: &'a Context<'a>, exposes: bool) {
    let inner = Builder::new(context, "stage", exposes);
    let (data, unused) = (inner.input("data", 8), inner.input("unused", 4));
    let held = inner.module.reg("held", 8);
    held.default_value(1u32);
    held.drive_next(inner.wire("sum", inner.op("add", data + held.value)));
    inner.output("held", held.value);
    inner.output("odd", inner.op("bit", held.value.bit(0)));
    inner.output("low", inner.op("bits", unused.bits(1, 0)));
    let b = Builder::new(context, "instances", exposes);
    let data = b.input("data", 8);
    let first = b.module.instance("first", "stage");
    first.drive_input("data", data);
    first.drive_input("unused", b.module.lit(5u32, 4));
    let second = b.module.instance("second", "stage");
    second.drive_input("data", b.op("xor", first.output("held") ^ data));
    second.drive_input("unused", b.op("bits", data.bits(7, 4)));
    b.output("result", b.op("add", first.output("held") + second.output("held")));
    b.output("odd", second.output("odd"));
    b.output("low", second.output("low"));
}

/// Everything that lint could complain about: inputs, outputs, ports, words and bits that nothing reads.
fn leftovers<'a>(context: &'a Context<'a>, exposes: bool) {
    let inner = Builder::new(context, "source", exposes);
    let _ = inner.input("ignored", 9);
    let bits = inner.input("bits", 16);
    let picked = inner.op("concat", inner.op("bits", bits.bits(15, 12)).concat(inner.op("bit", bits.bit(7))));
    inner.output("picked", picked);
    inner.output("constant", inner.module.lit(3u32, 2));
    let b = Builder::new(context, "leftovers", exposes);
    let data = b.input("data", 16);
    let dead = b.wire("dead", data + data);
    let _ = b.wire("dead_too", !dead);
    for name in ["used", "unused"] {
        let instance = b.module.instance(name, "source");
        instance.drive_input("ignored", b.op("bits", data.bits(8, 0)));
        instance.drive_input("bits", data);
        if name == "used" {
            b.output("single", b.op("bit", instance.output("picked").bit(3)));
        }
    }
    let silent = b.module.reg("silent", 4);
    silent.default_value(0u32);
    silent.drive_next(b.op("add", silent.value + silent.value));
    let blind = b.module.reg("blind", 4);
    blind.drive_next(b.op("bits", data.bits(3, 0)));
    let words = b.module.mem("words__ultra", 2, 3);
    let _ = words.read_port(b.op("bits", data.bits(1, 0)), b.module.low());
    let middle = words.read_port(b.op("bits", data.bits(3, 2)), b.op("bit", data.bit(0)));
    words.write_port(b.op("bits", data.bits(13, 12)), b.op("bits", data.bits(15, 13)), b.module.high());
    b.output("middle", b.op("bit", middle.bit(1)));
    b.output("sum_middle", b.op("bits", b.wire("sum", data + b.module.lit(7u32, 16)).bits(9, 4)));
}

const DESIGNS: [(&str, Design); 8] = [
    ("arithmetic", arithmetic),
    ("muxes", muxes),
    ("shifts", shifts),
    ("compares", compares),
    ("registers", registers),
    ("memories", memories),
    ("instances", instances),
    ("leftovers", leftovers),
];

// ---- tools ----

/// Gives the state in kaze's text the names of the canonical text, so that yosys can pair it, and resets it with the
/// clock: that change alone is one of behaviour.
fn with_canonical_names(text: &str) -> String {
    let ports: HashSet<&str> = text
        .lines()
        .filter(|line| line.trim_start().starts_with("input") || line.trim_start().starts_with("output"))
        .filter_map(|line| line.trim_end_matches(',').rsplit(' ').next())
        .collect();
    let mut result = String::new();
    let synchronous = text.replace(", negedge reset_n", "");
    let mut rest = synchronous.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let end =
            start + rest[start..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len() - start);
        let word = &rest[start..end];
        result.push_str(&rest[..start]);
        let stripped = word.replace("__block", "").replace("__ultra", "").replace("__distributed", "");
        let (base, next) = stripped.strip_suffix("_next").map_or((stripped.as_str(), ""), |base| (base, "_next"));
        if let Some((name, _)) = base.strip_prefix("__reg_").and_then(|base| base.rsplit_once('_')) {
            result.push_str(name);
            // An output may be the register of the same name in the canonical text only.
            result.push_str(if ports.contains(name) { "__state" } else { "" });
            result.push_str(next);
        } else if let Some(base) = base.strip_prefix("__mem_").and_then(|base| base.strip_suffix("_value")) {
            result.push_str(&base.replace("_read_port_", "_read_"));
        } else {
            result.push_str(&stripped);
        }
        rest = &rest[end..];
    }
    result + rest
}

/// Proves that the canonical modules do what kaze's modules do.
fn prove_equivalent(top: &str, kaze: &[String], canonical: &[String]) -> (bool, String) {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let gold: Vec<String> = kaze.iter().map(|text| with_canonical_names(text)).collect();
    std::fs::write(folder.path().join("gold.v"), gold.join("\n")).expect("gold.v is written");
    std::fs::write(folder.path().join("gate.v"), canonical.join("\n")).expect("gate.v is written");
    let script = format!(
        "read_verilog gold.v\nhierarchy -top {top}\nproc\nflatten\nmemory_collect\nmemory_dff\nmemory_map\nopt_clean\n\
         rename {top} gold\ndelete -port gold/o:N*\nrename -hide gold/w:*temp*\ndesign -stash gold\n\
         read_verilog gate.v\nhierarchy -top {top}\nproc\nflatten\nmemory_collect\nmemory_dff\nmemory_map\nopt_clean\n\
         rename {top} gate\ndesign -stash gate\n\
         design -copy-from gold -as gold gold\ndesign -copy-from gate -as gate gate\n\
         equiv_make gold gate equiv\nhierarchy -top equiv\nclean\nequiv_simple -undef\n\
         equiv_induct -undef\nequiv_status -assert\n"
    );
    run_yosys(folder.path(), &script)
}

/// Runs Verilator's lint over files named for their modules; returns what it said.
fn lint(top: &str, modules: &BTreeMap<String, String>) -> String {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let mut list = String::new();
    for (name, text) in modules {
        let file = format!("{name}.v");
        std::fs::write(folder.path().join(&file), text).expect("the module is written");
        list += &(file + "\n");
    }
    std::fs::write(folder.path().join("modules.f"), list).expect("the list is written");
    let (is_satisfied, said) = tools::lint(folder.path(), top, "modules.f");
    if is_satisfied { said } else { format!("verilator is not satisfied\n{said}") }
}

// ---- behaviour ----

#[test]
fn canonical_text_is_equivalent() {
    for (top, design) in DESIGNS {
        let kaze: Vec<String> = kaze_texts(design, false).into_values().collect();
        let canonical: Vec<String> = canonical_texts(design).into_values().collect();
        let (proven, log) = prove_equivalent(top, &kaze, &canonical);
        assert!(proven, "{top} is not proven equivalent\n{}\n{log}", canonical.join("\n"));
    }
    // Without the exposed operators kaze would print this one many times over.
    let design: Design = |context, exposes| mixture_of(context, exposes, 60, 8);
    let kaze: Vec<String> = kaze_texts(design, true).into_values().collect();
    let canonical: Vec<String> = canonical_texts(design).into_values().collect();
    let (proven, log) = prove_equivalent("mixture", &kaze, &canonical);
    assert!(proven, "the mixture is not proven equivalent\n{}\n{log}", canonical.join("\n"));
}

#[test]
fn a_changed_operator_is_not_equivalent() {
    let kaze: Vec<String> = kaze_texts(registers, false).into_values().collect();
    let canonical = canonical_texts(registers).remove("registers").expect("the module is there");
    for (from, to) in
        [("count + 8'h1", "count - 8'h1"), ("8'h42", "8'h43"), ("~flag", "flag"), ("? add_1 :", "? count :")]
    {
        assert!(canonical.contains(from), "{from} is not in\n{canonical}");
        let (proven, _) = prove_equivalent("registers", &kaze, &[canonical.replace(from, to)]);
        assert!(!proven, "{from} became {to} without notice");
    }
}

#[test]
fn lint_is_silent_without_waivers() {
    for (top, design) in DESIGNS.into_iter().chain([("mixture", mixture as Design)]) {
        let modules = canonical_texts(design);
        let said = lint(top, &modules);
        assert!(said.trim().is_empty(), "{said}\n{}", modules.into_values().collect::<Vec<_>>().join("\n"));
    }
    // The same without the sink is not silent, so that lint does look.
    let modules = canonical_texts(leftovers);
    let without_sink =
        |text: &String| text[..text.find("    wire _unused_ok").unwrap_or(text.len())].to_owned() + "endmodule\n";
    let modules = modules.iter().map(|(name, text)| (name.clone(), without_sink(text))).collect();
    assert!(lint("leftovers", &modules).contains("UNUSED"));
}

/// One memory of each style behind registers.
fn styled_memories<'a>(context: &'a Context<'a>, exposes: bool) {
    let b = Builder::new(context, "styled_memories", exposes);
    let (read, write, data, enable) =
        (b.input("read", 9), b.input("write", 9), b.input("data", 72), b.input("enable", 1));
    for (name, address_bits) in [("blocks__block", 9), ("ultras__ultra", 9), ("luts__distributed", 5)] {
        let address = |address: &'a Signal<'a>| b.op("bits", address.bits(address_bits - 1, 0));
        let memory = b.module.mem(name, address_bits, 72);
        b.output(name.split("__").next().unwrap_or(name), memory.read_port(address(read), enable));
        memory.write_port(address(write), data, b.op("not", !enable));
    }
}

#[test]
fn memories_become_the_asked_kind_of_ram() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let texts: Vec<String> = canonical_texts(styled_memories).into_values().collect();
    std::fs::write(folder.path().join("memories.v"), texts.join("\n")).expect("the module is written");
    let script = "read_verilog memories.v\n\
         synth_xilinx -family xcup -top styled_memories -noiopad -noclkbuf -run begin:map_ffs\n\
         select -assert-count 1 t:RAMB36E2\nselect -assert-count 1 t:URAM288\nselect -assert-min 1 t:RAM32M16\n\
         select -assert-none t:RAMB18E2\nselect -assert-max 300 t:$dff* t:FD*\n";
    let (success, log) = run_yosys(folder.path(), script);
    assert!(success, "{log}\n{}", texts.join("\n"));
}

// ---- text ----

#[test]
fn a_small_module_reads_well() {
    let text = kaze_texts(registers, true).remove("registers").expect("the module is there");
    let port_comments = BTreeMap::from([
        (String::from("clk"), String::from("rising edge")),
        (String::from("sum"), String::from("of both,\nmodulo 256")),
        (String::from("absent"), String::from("never seen")),
    ]);
    let options = Options { header: "Registers.\n\nGenerated.", port_comments: &port_comments };
    let expected = "\
// Registers.
//
// Generated.
module registers (
    input  wire clk, // rising edge
    input  wire reset_n,
    input  wire [7:0] data,
    input  wire enable,
    output reg  [7:0] count,
    output reg  [7:0] delayed,
    output wire flag_and,
    output wire [7:0] sum // of both, modulo 256
);

    reg flag;
    reg [7:0] state;

    wire [7:0] add_1 = count + 8'h1;
    wire [7:0] count_next = enable ? add_1 : count;
    wire [7:0] mixed = ~state ^ data ^ delayed;
    wire flag_next = ~flag;

    always @(posedge clk) begin
        if (!reset_n) begin
            count <= 8'h42;
            state <= 8'h0;
        end else begin
            count <= count_next;
            state <= mixed;
        end
    end

    always @(posedge clk) begin
        delayed <= count;
        flag <= flag_next;
    end

    assign flag_and = flag & data[2];
    assign sum = delayed + state;
endmodule
";
    assert_eq!(canonicalise(&text, &options).expect("kaze's text is legal"), expected);
}

#[test]
fn the_inventory_has_the_published_names() {
    let module = parse(&kaze_texts(memories, true)["memories"]).expect("kaze's text is legal");
    assert_eq!(module.name(), "memories");
    let ports = |ports: &[keywalk_gen::canonicalise::Port]| -> Vec<(String, u32)> {
        ports.iter().map(|port| (port.name.clone(), port.width_bits)).collect()
    };
    let named = |list: &[(&str, u32)]| -> Vec<(String, u32)> {
        list.iter().map(|(name, width_bits)| ((*name).to_owned(), *width_bits)).collect()
    };
    let inputs = [("address", 3), ("data", 7), ("enable", 1), ("write_enable", 1)];
    assert_eq!(ports(module.inputs()), named(&inputs));
    assert_eq!(ports(module.outputs()), named(&[("constant", 8), ("first", 10), ("second", 4)]));
    let [lines, rom] = module.memories() else {
        panic!("there are two memories");
    };
    assert_eq!((lines.name.as_str(), lines.words, lines.width_bits), ("lines", 8, 10));
    assert_eq!((lines.style, lines.read_ports, lines.writable), (Some(RamStyle::Block), 2, true));
    assert_eq!(lines.initial_contents, []);
    assert_eq!((rom.name.as_str(), rom.style, rom.writable), ("rom", Some(RamStyle::Distributed), false));
    assert_eq!(rom.initial_contents, [3, 1, 4, 1, 5, 9, 2, 6]);

    let module = parse(&kaze_texts(registers, true)["registers"]).expect("kaze's text is legal");
    let found: Vec<(&str, u32, Option<u128>)> = module
        .registers()
        .iter()
        .map(|register| (register.name.as_str(), register.width_bits, register.reset_value))
        .collect();
    assert_eq!(found, [("count", 8, Some(0x42)), ("delayed", 8, None), ("flag", 1, None), ("state", 8, Some(0))]);

    let module = parse(&kaze_texts(instances, true)["instances"]).expect("kaze's text is legal");
    let found: Vec<(&str, &str)> =
        module.instances().iter().map(|instance| (instance.name.as_str(), instance.module.as_str())).collect();
    assert_eq!(found, [("first", "stage"), ("second", "stage")]);
}

#[test]
fn the_text_depends_on_the_design_alone() {
    for (top, design) in DESIGNS.into_iter().chain([("mixture", mixture as Design)]) {
        let first = canonical_texts(design);
        for _ in 0..20 {
            assert_eq!(canonical_texts(design), first, "{top} came out in another order");
        }
    }
}

/// Names that are taken: each is wished for more than once.
fn clashes<'a>(context: &'a Context<'a>, exposes: bool) {
    let inner = Builder::new(context, "inner", exposes);
    inner.output("o", inner.op("not", !inner.input("i", 4)));
    let b = Builder::new(context, "clashes", exposes);
    let (x, y) = (b.input("x", 4), b.input("y", 4));
    let state = b.module.reg("state", 4);
    state.drive_next(b.op("add", state.value + x));
    // The register of an output's name that is another value, and of an input's.
    let out = b.module.reg("out", 4);
    out.drive_next(b.op("sub", state.value - out.value));
    let in_name = b.module.reg("y", 4);
    in_name.drive_next(out.value);
    let table = b.module.mem("table", 2, 4);
    let word = table.read_port(b.op("bits", x.bits(1, 0)), b.module.high());
    table.write_port(b.op("bits", y.bits(1, 0)), x, b.op("bit", y.bit(2)));
    let unit = b.module.instance("unit", "inner");
    unit.drive_input("i", word);
    // Registers of the names of a memory and of an instance.
    let words = b.module.mem("words", 1, 4);
    words.initial_contents(&[1u32, 2]);
    for name in ["words", "unit"] {
        let register = b.module.reg(name, 4);
        register.drive_next(words.read_port(b.op("bit", x.bit(0)), b.op("bit", register.value.bit(0))));
    }
    let names =
        ["x", "out", "state", "table", "unit", "wire", "logic", "twice", "twice", "twice_2", "_unused_ok", "add_1"];
    let mut sum = b.op("add", in_name.value + unit.output("o"));
    for name in names.into_iter().chain(["state_next", "table_read_0", "unit_o", "state_2"]) {
        sum = b.wire(name, b.op("add", sum + state.value));
    }
    // An output's own value may have the output's name.
    b.output("shown", b.wire("shown", sum ^ y));
    b.output("out", b.op("and", sum & b.op("sub", sum - x)));
}

#[test]
fn clashing_names_get_numbers() {
    let modules = canonical_texts(clashes);
    let text = &modules["clashes"];
    for declaration in [
        "input  wire [3:0] x,",
        "output wire [3:0] out,",
        "output wire [3:0] shown\n",
        "reg [3:0] out_2;",
        "reg [3:0] state;",
        "reg [3:0] y_2;",
        "reg [3:0] table_2 [0:3];",
        "reg [3:0] table_read_0_2;",
        "inner unit (",
        "wire [3:0] x_2 = ",
        "wire [3:0] out_3 = ",
        "wire [3:0] state_2 = ",
        "wire [3:0] table_3 = ",
        "reg [3:0] words [0:1];",
        "reg [3:0] words_2;",
        "reg [3:0] unit_2;",
        "wire [3:0] unit_3 = ",
        "wire [3:0] wire_2 = ",
        "wire [3:0] logic_2 = ",
        "wire [3:0] twice = ",
        "wire [3:0] twice_2 = ",
        "wire [3:0] twice_2_2 = ",
        "wire [3:0] _unused_ok_2 = ",
        "wire [3:0] add_1 = ",
        "wire [3:0] add_2 = ",
        "wire [3:0] state_next = ",
        "wire [3:0] state_next_2 = ",
        "wire [3:0] table_read_0 = ",
        "wire [3:0] unit_o = ",
        "wire [3:0] unit_o_2;",
        "wire [3:0] state_2_2 = ",
        "assign shown = ",
    ] {
        assert!(text.contains(declaration), "{declaration:?} is not in\n{text}");
    }
    let said = lint("clashes", &modules);
    assert!(said.trim().is_empty(), "{said}\n{text}");
}

/// What the hardware layer's own instances and forward wires look like when kaze's text reaches the canonicaliser.
const STITCHED: &str = "module outer(
    input wire reset_n,
    input wire clk,
    input wire [7:0] a,
    output wire [7:0] o,
    output wire [7:0] N000000u_and
);
    wire [7:0] x__stage__first__held;
    wire [7:0] y__stage__first__data;
    wire [3:0] y__stage__first__unused;
    wire [7:0] w__later;
    wire [7:0] v__later;
    assign w__later = v__later;
    stage first(
        .reset_n(reset_n),
        .clk(clk),
        .data(y__stage__first__data),
        .held(x__stage__first__held),
        .unused(y__stage__first__unused));
    wire [7:0] __temp_0;
    wire [7:0] __temp_1;
    assign __temp_0 = w__later & a;
    assign N000000u_and = __temp_0;
    assign o = __temp_0;
    assign __temp_1 = x__stage__first__held ^ a;
    assign v__later = __temp_1;
    assign y__stage__first__data = w__later;
    assign y__stage__first__unused = 4'h1;
endmodule
";

#[test]
fn forward_wires_and_stitched_instances_are_read() {
    let stage = parse(&kaze_texts(instances, true)["stage"]).expect("kaze's text is legal");
    let mut outer = parse(STITCHED).expect("the text is legal");
    outer.link(&stage).expect("the ports agree");
    let options = Options { header: "", port_comments: &BTreeMap::new() };
    let text = outer.to_verilog(&options);
    let expected = [
        "    wire [7:0] later = first_held ^ a;\n",
        "    assign o = later & a;\n",
        "        .data(later),\n        .unused(4'h1),\n",
        "        .held(first_held),\n        .low(first_low),\n        .odd(first_odd)\n",
        "&{1'b0, first_low, first_odd};\n",
    ];
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let modules =
        BTreeMap::from([(String::from("outer"), text.clone()), (String::from("stage"), stage.to_verilog(&options))]);
    let said = lint("outer", &modules);
    assert!(said.trim().is_empty(), "{said}\n{text}");

    let mistakes = [
        (
            "        .data(y__stage__first__data),\n",
            "",
            "port `data` of instance `first` is an input, but nothing drives",
        ),
        ("4'h1", "5'h1", "the value of `y__stage__first__unused` has 5 bits"),
        ("[3:0] y__stage__first__unused;", "y__stage__first__unused;", "has 4 bits where 1 are needed"),
        ("a;\n    assign v__later", "w__later;\n    assign v__later", "depends on itself"),
    ];
    for (from, to, message) in mistakes {
        assert!(STITCHED.contains(from), "{from:?} is not there");
        let linked = parse(&STITCHED.replace(from, to)).and_then(|mut outer| outer.link(&stage));
        let error = linked.expect_err("the mistake is accepted").to_string();
        assert!(error.contains(message), "{error}, not {message}");
    }
    let wide =
        STITCHED.replace("[3:0] y__stage__first__unused", "[4:0] y__stage__first__unused").replace("4'h1", "5'h1");
    let error = parse(&wide).and_then(|mut outer| outer.link(&stage)).expect_err("five bits are accepted").to_string();
    assert!(error.contains("has 5 bits here and 4 in its module"), "{error}");
    let error = parse(&STITCHED.replace("held", "gone")).and_then(|mut outer| outer.link(&stage));
    let error = error.expect_err("an unknown port is accepted").to_string();
    assert!(error.contains("port `gone` of instance `first` is no output of module `stage`"), "{error}");
}

// ---- size and speed ----

#[test]
fn doublings_stay_small() {
    fn doublings<'a>(context: &'a Context<'a>, exposes: bool) {
        let b = Builder::new(context, "doublings", exposes);
        let mut sum = b.input("i", 32);
        for _ in 0..22 {
            sum = b.op("add", sum + sum);
        }
        b.output("o", sum);
    }
    let text = &canonical_texts(doublings)["doublings"];
    assert_eq!(text.matches(" + ").count(), 22, "{text}");
}

/// Nodes that read any of the latest 64, with registers and memories among them.
fn mixture_of<'a>(context: &'a Context<'a>, exposes: bool, nodes: usize, width_bits: u32) {
    let b = Builder::new(context, "mixture", exposes);
    let half_bits = width_bits / 2;
    let mut seed = 1u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize
    };
    let mut pool: Vec<&Signal> = (0..16).map(|index| b.input(&format!("i{index}"), width_bits)).collect();
    for node in 0..nodes {
        let x = pool[pool.len() - 1 - random() % 64.min(pool.len())];
        let y = pool[pool.len() - 1 - random() % 64.min(pool.len())];
        let z = match random() % 6 {
            0 => b.op("add", x + y),
            1 => b.op("and", x & y),
            2 => b.wire("mixed", b.op("xor", x ^ y)),
            3 => b.mux(b.op("bit", x.bit(3)), x, y),
            4 => b.mux(b.op("lt", x.lt_signed(y)), x, y),
            _ => b.op(
                "concat",
                b.op("bits", x.bits(half_bits - 1, 0)).concat(b.op("bits", y.bits(width_bits - 1, half_bits))),
            ),
        };
        pool.push(match node % 64 {
            3 => {
                let memory = b.module.mem(format!("m{node}"), 4, width_bits);
                memory.write_port(b.op("bits", z.bits(3, 0)), x, b.op("bit", y.bit(1)));
                memory.read_port(b.op("bits", z.bits(7, 4)), b.op("bit", y.bit(2)))
            }
            n if n % 4 == 0 => {
                let register = b.module.reg(format!("r{node}"), width_bits);
                register.default_value(0u32);
                register.drive_next(z);
                register.value
            }
            _ => z,
        });
    }
    b.output("o", pool[1..].iter().fold(pool[0], |all, next| b.op("xor", all ^ *next)));
}

fn mixture<'a>(context: &'a Context<'a>, exposes: bool) {
    mixture_of(context, exposes, 500, 64);
}

#[test]
fn twenty_thousand_nodes_are_quick() {
    let text = &kaze_texts(|context, exposes| mixture_of(context, exposes, 12_000, 64), true)["mixture"];
    assert!(text.matches("_temp_").count() > 80_000, "the design has shrunk");
    // The best of three, because other programs run beside.
    let timed = || {
        let start = Instant::now();
        let length = canonical(text).len();
        (start.elapsed(), length)
    };
    let (elapsed, length) = (0..3).map(|_| timed()).min().expect("there are three");
    println!("{} bytes to {length} bytes in {elapsed:?}", text.len());
    let limit = if cfg!(debug_assertions) { Duration::from_secs(3) } else { Duration::from_secs(1) };
    assert!(elapsed < limit, "it took {elapsed:?}");
}

#[test]
fn a_deep_chain_works() {
    fn chain<'a>(context: &'a Context<'a>, exposes: bool) {
        let b = Builder::new(context, "chain", exposes);
        let (x, y) = (b.input("x", 8), b.input("y", 8));
        let mut value = x;
        for index in 0..100_000 {
            value = match index % 4 {
                0 => b.op("xor", value ^ y),
                1 => b.mux(b.op("bit", y.bit(2)), value, x),
                2 => b.op("not", !value),
                _ => b.op("and", x & value),
            };
        }
        b.output("o", value);
    }
    let text = &canonical_texts(chain)["chain"];
    assert!(text.lines().all(|line| line.len() < 1000), "an expression is too large for other tools");
    assert!(text.matches('~').count() == 25_000, "an operator is missing");
}

// ---- refusals ----

/// A module as kaze prints it around the given lines, which begin at line 9.
fn around(lines: &str) -> String {
    format!(
        "module m(\n    input wire reset_n,\n    input wire clk,\n    input wire [7:0] a,\n    input wire b,\n\
         \x20   output wire [7:0] o\n);\n\n{lines}\nendmodule\n"
    )
}

#[test]
fn what_kaze_never_prints_is_refused_with_its_line() {
    assert!(parse(&around("assign o = a;")).is_ok());
    let cases = [
        ("assign o = a + ;", 9, "expected a name or a sized literal, found `;`"),
        ("assign o = a + a + a;", 9, "expected `;`, found `+`"),
        ("assign o = (a);", 9, "expected a name or a sized literal, found `(`"),
        ("\n\nassign o = 8'h100;", 11, "does not fit its width"),
        ("assign o = 200'h1;", 9, "outside of 1 to 128 bits"),
        ("assign o = 8'hff[3:0];", 9, "bits of the literal 8'hff are selected"),
        ("assign o = a >>> b;", 9, "shr_arithmetic"),
        ("assign o = a ? a : a;", 9, "the condition of `?` has 8 bits where 1 are needed"),
        ("assign o = b ? a : b;", 9, "the last operand of `?` has 1 bits"),
        ("assign o = a & b;", 9, "the right operand of `&` has 1 bits where 8"),
        ("assign o = a == a;", 9, "the value of `o` has 1 bits where 8 are needed"),
        ("assign o = {a, b};", 9, "the value of `o` has 9 bits"),
        ("assign o = {64{a}};", 9, "the result has 512 bits"),
        ("assign o = {0{a}};", 9, "the result has 0 bits"),
        ("assign o = a[8];", 9, "bits [8:8] are selected of a value of 8"),
        ("assign o = a[2:4];", 9, "bits [2:4]"),
        ("assign o = $signed(a) + $signed(a);", 9, "the operator `+` on signed operands"),
        ("assign o = $signed(a) < a;", 9, "expected `$signed`"),
        ("assign o = c;", 9, "`c` is not declared"),
        ("wire [7:0] c;\nassign o = c;", 10, "`c` is read, but nothing is assigned to it"),
        ("wire [7:0] c;\nassign o = c;\nassign c = a & o;", 10, "`o` depends on itself"),
        ("assign o = a;\nassign o = a;", 10, "`o` is assigned, but it has another driver"),
        ("assign a = {7'h0, b};", 9, "`a` is assigned, but it has another driver"),
        ("assign p = a;", 9, "`p` is assigned, but not declared"),
        ("", 6, "`o` is read, but nothing is assigned to it"),
        ("assign o = {7'h0, reset_n};", 9, "`reset_n` is read as data"),
        ("wire b;\nassign o = a;", 9, "`b` is declared twice"),
        ("wire [7:1] c;\nassign o = a;", 9, "the range [7:1]"),
        ("reg [7:0] c[0:6];", 9, "a power of two"),
        ("reg [7:0] c[0:7];\nassign o = a;", 9, "memory `c` has no read port"),
        ("initial begin\nc[0] = 8'h1;\nend", 10, "`c` is used as a memory outside"),
        ("reg [7:0] c[0:1];\ninitial begin\nc[1] = 8'h1;\nend", 11, "initial word 1 of memory `c` is out of order"),
        ("always @(negedge clk) begin\nend", 9, "expected `posedge`, found `negedge`"),
        ("always @(posedge clk) begin\nc <= a;\nend", 9, "`c` does not have the name of a register"),
        (
            "reg [7:0] __reg_c_0;\nalways @(posedge clk) begin\n__reg_c_0 <= b;\nend\nassign o = a;",
            10,
            "b has 1 bits where 8 are needed",
        ),
        (
            "reg b0;\nstage s(\n.reset_n(reset_n),\n.clk(clk),\n.p(b)\n);",
            13,
            "port `p` of instance `s` is connected to `b`",
        ),
        ("stage s(\n.clk(clk));", 10, "expected `reset_n`"),
        ("assign o = a;\nfunction f;", 10, "expected `(`, found `;`"),
        ("assign o = ä;", 9, "'ä'"),
        ("assign o = a;\nendmodule\nmodule", 11, "pass one module at a time"),
    ];
    for (lines, line, message) in cases {
        let text = around(lines);
        match parse(&text) {
            Ok(_) => panic!("accepted\n{text}"),
            Err(error) => {
                assert!(error.message.contains(message), "{lines:?} gives {error}, not {message:?}");
                assert_eq!(error.line, line, "{lines:?} gives {error}");
            }
        }
    }
    // Cut off anywhere, the text is refused and nothing panics.
    for text in kaze_texts(memories, true).values() {
        let end = text.trim_end().len();
        for length in 0..end {
            assert!(parse(&text[..length]).is_err(), "accepted the first {length} bytes");
        }
    }
}

/// The error for a design that kaze prints and that must be refused.
fn refusal(design: Design, name: &str) -> String {
    match parse(&kaze_texts(design, true)[name]) {
        Ok(module) => panic!("accepted\n{module:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn designs_without_faithful_verilog_are_refused() {
    let refused: [(Design, &str); 7] = [
        (
            |context, exposes| {
                let b = Builder::new(context, "refused", exposes);
                let (first, second) = (b.module.reg("state", 2), b.module.reg("state", 2));
                first.drive_next(second.value);
                second.drive_next(first.value);
            },
            "two registers are called `state`",
        ),
        (
            |context, exposes| {
                let b = Builder::new(context, "refused", exposes);
                for name in ["words__block", "words__ultra"] {
                    let memory = b.module.mem(name, 1, 1);
                    memory.initial_contents(&[false, true]);
                    let _ = memory.read_port(b.module.low(), b.module.high());
                }
            },
            "two memories are called `words`",
        ),
        (
            |context, exposes| {
                let inner = Builder::new(context, "inner", exposes);
                inner.output("o", inner.input("i", 1));
                let b = Builder::new(context, "refused", exposes);
                for _ in 0..2 {
                    b.module.instance("unit", "inner").drive_input("i", b.module.low());
                }
            },
            "is declared twice",
        ),
        (
            |context, exposes| {
                let b = Builder::new(context, "refused", exposes);
                b.output("wire", b.input("i", 1));
            },
            "the port `wire` has a name that is reserved",
        ),
        (
            |context, exposes| {
                let b = Builder::new(context, "refused", exposes);
                b.output("i", b.input("i", 1));
            },
            "`i` is declared twice",
        ),
        (
            |context, exposes| {
                let inner = Builder::new(context, "inner", exposes);
                inner.output("N000007u_not", !inner.input("i", 1));
                let b = Builder::new(context, "refused", exposes);
                let unit = b.module.instance("unit", "inner");
                unit.drive_input("i", b.module.low());
                b.output("o", unit.output("N000007u_not"));
            },
            "it is an operator inside of the instance",
        ),
        (
            |context, exposes| {
                let b = Builder::new(context, "refused", exposes);
                b.output("o", b.wire("9lives", !b.input("i", 1)));
            },
            "`9lives` cannot be the name of a wire",
        ),
    ];
    for (design, message) in refused {
        let error = refusal(design, "refused");
        assert!(error.contains(message), "{error}, not {message:?}");
    }
}
