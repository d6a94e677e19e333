//! The C++ shim of a model and the table of all models for Rust.

use std::fmt::Write;

use crate::duts::Dut;
use crate::verilate::Model;

/// A port of a top module, as Verilator declares it.
pub struct Port {
    name: String,
    /// Name of the C++ member.
    member: String,
    is_input: bool,
    width: u32,
}

/// Prefix of the C++ classes of a design.
pub fn prefix(dut: &str) -> String {
    format!("V{dut}")
}

/// Reads the ports from the header of a model's class: `VL_IN8(&name,msb,lsb);`, and likewise for other widths.
pub fn ports(header: &str) -> Result<Vec<Port>, String> {
    let mut ports = Vec::new();
    for line in header.lines().map(str::trim) {
        let is_input = line.starts_with("VL_IN");
        if !is_input && !line.starts_with("VL_OUT") {
            continue;
        }
        let not_understood = || format!("Verilator's header has a port that is not understood: `{line}`");
        let arguments = line.split_once("(&").and_then(|(_, rest)| rest.split_once(')')).ok_or_else(not_understood)?.0;
        let mut arguments = arguments.split(',');
        let member = arguments.next().ok_or_else(not_understood)?.to_owned();
        let mut number = || arguments.next().and_then(|text| text.parse::<u32>().ok()).ok_or_else(not_understood);
        let (high, low) = (number()?, number()?);
        let width = high.checked_sub(low).ok_or_else(not_understood)? + 1;
        // Verilator escapes double underscores, and names that mean something in C++.
        let name = member.strip_prefix("__SYM__").unwrap_or(&member).replace("___05F", "__");
        ports.push(Port { name, member, is_input, width });
    }
    // Verilator sorts ports by the size of their storage, which is of no use to anybody.
    ports.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(ports)
}

/// The ports as text, a line each, for [`read_ports`].
pub fn write_ports(ports: &[Port]) -> String {
    let line = |port: &Port| format!("{} {} {} {}\n", port.name, port.member, port.is_input, port.width);
    ports.iter().map(line).collect()
}

/// Reads what [`write_ports`] wrote.
pub fn read_ports(text: &str) -> Result<Vec<Port>, String> {
    let port = |line: &str| {
        let mut words = line.split(' ');
        Some(Port {
            name: words.next()?.to_owned(),
            member: words.next()?.to_owned(),
            is_input: words.next()?.parse().ok()?,
            width: words.next()?.parse().ok()?,
        })
    };
    text.lines().map(|line| port(line).ok_or_else(|| format!("list of ports: `{line}` is not understood"))).collect()
}

/// The C functions of a design: create, evaluate, free, port addresses, trace, and coverage where it is counted.
///
/// In a design with mutants the environment variable `KEYWALK_MUTANT` selects the one that is awake.
pub fn shim(dut: &Dut, ports: &[Port]) -> String {
    let select = if dut.has_mutants {
        r#"
        const char* number = std::getenv("KEYWALK_MUTANT");
        const std::string argument = std::string("+mutant=") + (number ? number : "0");
        const char* arguments[] = {"keywalk", argument.c_str()};
        context.commandArgs(2, arguments);"#
    } else {
        ""
    };
    let is_covered = dut.is_covered;
    let dut = &dut.name;
    let class = prefix(dut);
    let mut cases = String::new();
    for (index, port) in ports.iter().enumerate() {
        let _ = writeln!(cases, "        case {index}: return &bench->model.{};", port.member);
    }
    let coverage = if is_covered {
        format!(
            r#"#include "verilated_cov.h"
extern "C" void keywalk_dut_{dut}_coverage_write(void* bench, const char* path) {{
    static_cast<Bench*>(bench)->context.coveragep()->write(path);
}}
"#
        )
    } else {
        String::new()
    };
    format!(
        r#"#include <cstdlib>
#include <string>
#include "{class}.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif
namespace {{
struct Bench {{
    VerilatedContext context;
    {class} model;
#if VM_TRACE
    VerilatedVcdC trace;
#endif
    explicit Bench(int seed) : context(), model((prepare(context, seed), &context)) {{}}
    static void prepare(VerilatedContext& context, int seed) {{
        context.randReset(2);
        context.randSeed(seed);{select}
#if VM_TRACE
        context.traceEverOn(true);
#endif
    }}
}};
}}
extern "C" {{
void* keywalk_dut_{dut}_new(int seed) {{ return new Bench(seed); }}
void keywalk_dut_{dut}_eval(void* bench) {{ static_cast<Bench*>(bench)->model.eval(); }}
void keywalk_dut_{dut}_free(void* pointer) {{
    auto* bench = static_cast<Bench*>(pointer);
    bench->model.final();
#if VM_TRACE
    if (bench->trace.isOpen()) bench->trace.close();
#endif
    delete bench;
}}
void* keywalk_dut_{dut}_port(void* pointer, unsigned index) {{
    auto* bench = static_cast<Bench*>(pointer);
    switch (index) {{
{cases}    }}
    return nullptr;
}}
int keywalk_dut_{dut}_trace_open(void* pointer, const char* path) {{
#if VM_TRACE
    auto* bench = static_cast<Bench*>(pointer);
    if (bench->trace.isOpen()) bench->trace.close();
    else bench->model.trace(&bench->trace, 99);
    bench->trace.open(path);
    return bench->trace.isOpen();
#else
    (void)pointer; (void)path;
    return 0;
#endif
}}
void keywalk_dut_{dut}_trace_dump(void* pointer, unsigned long long time) {{
#if VM_TRACE
    auto* bench = static_cast<Bench*>(pointer);
    bench->context.time(time);
    bench->trace.dump(static_cast<uint64_t>(time));
#else
    (void)pointer; (void)time;
#endif
}}
}}
{coverage}"#
    )
}

/// The Rust module that describes every design.
pub fn rust_table(duts: &[Dut], models: &[Model]) -> String {
    let mut declarations = String::new();
    let mut statics = String::new();
    let mut names = String::new();
    for (dut, model) in duts.iter().zip(models) {
        let Dut { name, doc, top, .. } = dut;
        let _ = write!(
            declarations,
            "    fn keywalk_dut_{name}_new(seed: c_int) -> *mut c_void;
    fn keywalk_dut_{name}_eval(bench: *mut c_void);
    fn keywalk_dut_{name}_free(bench: *mut c_void);
    fn keywalk_dut_{name}_port(bench: *mut c_void, index: c_uint) -> *mut c_void;
    fn keywalk_dut_{name}_trace_open(bench: *mut c_void, path: *const c_char) -> c_int;
    fn keywalk_dut_{name}_trace_dump(bench: *mut c_void, time: c_ulonglong);
"
        );
        let coverage_write = if dut.is_covered {
            let function = format!("keywalk_dut_{name}_coverage_write");
            let _ = writeln!(declarations, "    fn {function}(bench: *mut c_void, path: *const c_char);");
            format!("Some({function})")
        } else {
            "None".into()
        };
        let mut ports = String::new();
        for port in &model.ports {
            let direction = if port.is_input { "Input" } else { "Output" };
            let _ = writeln!(
                ports,
                "        Port {{ name: {:?}, direction: PortDirection::{direction}, width: {} }},",
                port.name, port.width
            );
        }
        let config = match &dut.config {
            None => "None".into(),
            Some(config) => {
                let fields: String = keywalk_contract::Config::FIELDS
                    .iter()
                    .map(|field| format!("{}: {}, ", field.name, (field.get)(config)))
                    .collect();
                let switches: String = keywalk_contract::Config::SWITCHES
                    .iter()
                    .map(|switch| format!("{}: {}, ", switch.name, (switch.get)(config)))
                    .collect();
                format!("Some(|| Config {{ name: {:?}.into(), {fields}{switches} }})", config.name)
            }
        };
        let constant = name.to_uppercase();
        let _ = write!(
            statics,
            "/// {doc}
pub static {constant}: Dut = Dut {{
    name: {name:?},
    top: {top:?},
    ports: &[
{ports}    ],
    config: {config},
    functions: Functions {{
        new: keywalk_dut_{name}_new,
        eval: keywalk_dut_{name}_eval,
        free: keywalk_dut_{name}_free,
        port: keywalk_dut_{name}_port,
        trace_open: keywalk_dut_{name}_trace_open,
        trace_dump: keywalk_dut_{name}_trace_dump,
        coverage_write: {coverage_write},
    }},
}};
"
        );
        let _ = writeln!(names, "    &{constant},");
    }
    format!(
        "unsafe extern \"C\" {{
{declarations}}}
{statics}/// Every design under test of this build.
pub static ALL: &[&Dut] = &[
{names}];
"
    )
}
