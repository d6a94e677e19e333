//! Mutants: copies of the small engine and its blocks that hold many faults, all asleep but the one that is selected.
//!
//! A fault changes one expression of the generated Verilog: an operator, a constant, a condition, a slice, a bit that is
//! stuck, a register that keeps its value. The expression becomes a choice between itself and its faulty copies, by a number
//! that the simulation is started with, so that one compilation holds all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use crate::duts::{self, Dut};

/// Configuration whose modules are mutated.
pub const CONFIGURATION: &str = "small";
/// Mutants that are taken, of all that could be made.
const COUNT: usize = 500;
/// Mutants that every module has at least, as far as it can be changed at all.
const OF_EACH_MODULE: usize = 6;
/// Wire that only says that others are not used.
const UNUSED: &str = "_unused_ok";
/// Variable that holds the number of the fault that is awake.
const SELECTOR: &str = "keywalk_mutant";

/// A fault.
pub struct Mutant {
    /// Module that it is in.
    module: String,
    /// Line of the module's file.
    line: usize,
    /// Bytes of the statement's expression in the file.
    expression: (usize, usize),
    /// What is done, in words.
    change: String,
    /// The statement, in one line.
    statement: String,
    /// What takes the place of the expression.
    faulty: String,
    /// Position in a stable, random order of all mutants of a module.
    rank: u64,
}

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Constant,
    Symbol,
}

#[derive(Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// Symbols of two characters.
const PAIRS: [&str; 6] = ["<=", ">=", "==", "!=", "(*", "*)"];

fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'\'');
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let rest = &text[start..];
        let mut length = 1;
        let first = bytes[start];
        if rest.starts_with("//") {
            start += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let mut kind = Kind::Symbol;
        if is_word(first) {
            length = rest.bytes().take_while(|byte| is_word(*byte)).count();
            kind = if first.is_ascii_digit() { Kind::Constant } else { Kind::Word };
        } else if PAIRS.iter().any(|pair| rest.starts_with(pair)) {
            length = 2;
        }
        if !first.is_ascii_whitespace() {
            tokens.push(Token { kind, text: &text[start..start + length], start });
        }
        start += length;
    }
    tokens
}

/// Bits of every port, register and wire; memories, whose names are followed by a range, have none.
fn widths<'a>(tokens: &[Token<'a>]) -> HashMap<&'a str, u32> {
    let mut widths = HashMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if !matches!(token.text, "wire" | "reg") {
            continue;
        }
        let next = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text);
        let (name, width) = match (next(1), next(2).parse::<u32>()) {
            ("[", Ok(high)) => (6, high + 1),
            _ => (1, 1),
        };
        if next(name + 1) != "[" {
            widths.insert(next(name), width);
        }
    }
    widths
}

/// Input ports of a module.
pub fn inputs(text: &str) -> HashSet<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("input "));
    names.filter_map(|line| line.trim_end_matches(',').split(' ').next_back()).map(str::to_owned).collect()
}

/// An expression that may be changed.
struct Site {
    /// First and last token of the expression, the latter excluded.
    range: (usize, usize),
    /// First and last token of what is printed as the statement, the latter excluded.
    statement: (usize, usize),
    /// What the expression decides.
    kind: SiteKind,
}

/// Bits of a port, register or wire that are read, as far as indices say; all of an output.
fn bits_read(tokens: &[Token<'_>], name: &str, width: u32) -> Vec<u32> {
    let mut read = vec![false; width as usize];
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == name) {
        let next = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text);
        let number = |offset: usize| next(offset).parse::<usize>().ok();
        // A port, a declaration, or the target of an assignment reads nothing.
        let is_written = matches!(next(1), "=" | "<=" | ";") && at > 0 && !is_operand(tokens, at);
        let range = match (next(1), number(2), next(3), number(4)) {
            ("[", Some(bit), "]", _) => bit..bit + 1,
            ("[", Some(high), ":", Some(low)) => low..high + 1,
            _ if is_written => continue,
            _ => 0..width as usize,
        };
        read.get_mut(range).into_iter().flatten().for_each(|bit| *bit = true);
    }
    (0..width).filter(|bit| read[*bit as usize]).collect()
}

/// Whether a name stands in an expression, and not in front of its assignment or in its declaration.
fn is_operand(tokens: &[Token<'_>], at: usize) -> bool {
    let before = tokens[at - 1].text;
    !matches!(before, "]" | "wire" | "reg" | ";" | "begin" | "end" | "else" | "assign" | ")")
}

/// What an expression decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SiteKind {
    /// A wire or an output; the token of its name.
    Wire(usize),
    /// A register; the token of its name.
    Register(usize),
    /// A word of a memory.
    Memory,
    /// Whether a statement is carried out.
    Condition,
    /// An input of an instance; the token of the instance's name.
    Input(usize),
}

/// Position behind the bracket that closes the one at `open`.
fn behind_bracket(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (offset, token) in tokens[open..].iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + offset + 1;
        }
    }
    tokens.len()
}

/// The expressions of a module. The text is of the generator's writer, so the few forms that it writes are all there are.
fn sites(tokens: &[Token<'_>], modules: &HashMap<String, HashSet<String>>) -> Vec<Site> {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let until =
        |from: usize| tokens[from..].iter().position(|token| token.text == ";").map_or(tokens.len(), |at| from + at);
    let mut sites = Vec::new();
    let body = tokens.iter().position(|token| token.text == ";").map_or(0, |end| end + 1);
    let mut at = body;
    while at < tokens.len() {
        let end = until(at);
        let statement = &tokens[at..end];
        match text(at) {
            "wire" | "assign" => {
                let equals = statement.iter().position(|token| token.text == "=");
                if let Some(equals) = equals.filter(|equals| text(at + equals - 1) != UNUSED) {
                    let kind = SiteKind::Wire(at + equals - 1);
                    sites.push(Site { range: (at + equals + 1, end), statement: (at, end), kind });
                }
                at = end + 1;
            }
            "always" | "begin" | "end" | "else" | "posedge" => at += 1,
            "@" => at = behind_bracket(tokens, at + 1),
            "if" => {
                let behind = behind_bracket(tokens, at + 1);
                if text(at + 2) != "!" {
                    // With what depends on it, which tells conditions apart that are alike.
                    let statement = (at, until(behind));
                    sites.push(Site { range: (at + 2, behind - 1), statement, kind: SiteKind::Condition });
                }
                at = behind;
            }
            module if modules.contains_key(module) => {
                let inputs = &modules[module];
                let mut port = at;
                while port < end {
                    if text(port) == "."
                        && inputs.contains(text(port + 1))
                        && !matches!(text(port + 1), "clk" | "reset_n")
                    {
                        let behind = behind_bracket(tokens, port + 2);
                        let kind = SiteKind::Input(at + 1);
                        sites.push(Site { range: (port + 3, behind - 1), statement: (port, behind), kind });
                    }
                    port += 1;
                }
                at = end + 1;
            }
            _ => {
                let mut target = at;
                while target < end && text(target) != "<=" {
                    target = if text(target) == "[" { behind_bracket(tokens, target) } else { target + 1 };
                }
                if target < end {
                    let kind = if target == at + 1 { SiteKind::Register(at) } else { SiteKind::Memory };
                    sites.push(Site { range: (target + 1, end), statement: (at, end), kind });
                }
                at = end + 1;
            }
        }
    }
    sites
}

/// A constant with one added, in as many bits.
fn next_constant(text: &str) -> Option<String> {
    let (width, digits) = text.split_once("'h")?;
    let bits = width.parse::<u32>().ok().filter(|bits| (1..=128).contains(bits))?;
    let mask = u128::MAX >> (128 - bits);
    Some(format!("{width}'h{:x}", u128::from_str_radix(digits, 16).ok()?.wrapping_add(1) & mask))
}

/// The operator that takes the place of another.
fn other_operator(text: &str) -> Option<&'static str> {
    Some(match text {
        "&" => "|",
        "|" | "^" => "&",
        "==" => "!=",
        "!=" => "==",
        "<" => "<=",
        "<=" => "<",
        ">" => ">=",
        ">=" => ">",
        "+" => "-",
        "-" => "+",
        _ => return None,
    })
}

/// First token of the condition that ends before `question`.
fn condition_start(tokens: &[Token<'_>], first: usize, question: usize) -> usize {
    let mut depth = 0;
    for at in (first..question).rev() {
        match tokens[at].text {
            ")" | "]" | "}" => depth += 1,
            "(" | "[" | "{" if depth > 0 => depth -= 1,
            "(" | "[" | "{" | "?" | ":" | "," if depth == 0 => return at + 1,
            _ => {}
        }
    }
    first
}

/// FNV-1a: the same on every machine and with every compiler.
fn hash(text: &str) -> u64 {
    let mixed = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
}

/// Every mutant of a module.
fn all_of_module(module: &str, text: &str, modules: &HashMap<String, HashSet<String>>) -> Vec<Mutant> {
    let tokens = tokens(text);
    let widths = widths(&tokens);
    let unused = tokens.iter().position(|token| token.text == UNUSED).unwrap_or(tokens.len());
    let mut mutants = Vec::new();
    for site in sites(&tokens, modules) {
        let read = match site.kind {
            SiteKind::Wire(name) | SiteKind::Register(name) => {
                let name = tokens[name].text;
                let read = |name: &str| bits_read(&tokens[..unused], name, widths.get(name).copied().unwrap_or(1));
                // The next value of a register that nobody reads is not read either.
                let register = name.strip_suffix("_next").filter(|register| widths.contains_key(register));
                if register.is_some_and(|register| read(register).is_empty()) { Vec::new() } else { read(name) }
            }
            SiteKind::Memory | SiteKind::Condition | SiteKind::Input(_) => vec![0],
        };
        if read.is_empty() {
            continue;
        }
        let (first, end) = site.range;
        let (from, to) = (tokens[first].start, tokens[end - 1].end());
        let (begin, behind) = site.statement;
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut statement = one_line(&text[tokens[begin].start..tokens[behind - 1].end()]);
        // What the choice depends on: the statement up to the end of the expression.
        let chosen_by = one_line(&text[tokens[begin].start..to]);
        if let SiteKind::Input(instance) = site.kind {
            statement.insert_str(0, tokens[instance].text);
        }
        let line = text[..from].matches('\n').count() + 1;
        let mut add = |change: String, faulty: String, place: usize| {
            let rank = hash(&format!("{module} {chosen_by} {change} {place}"));
            let (module, statement) = (module.to_owned(), statement.clone());
            mutants.push(Mutant { module, line, expression: (from, to), change, statement, faulty, rank });
        };
        let replaced = |start: usize, stop: usize, by: &str| format!("{}{by}{}", &text[from..start], &text[stop..to]);
        let whole = &text[from..to];
        let is_constant = end - first == 1 && tokens[first].kind == Kind::Constant;
        if let SiteKind::Register(register) = site.kind {
            add("keeps its value".into(), tokens[register].text.into(), 0);
        }
        match site.kind {
            SiteKind::Wire(name) | SiteKind::Register(name) => match widths.get(tokens[name].text) {
                // Another constant does as much.
                _ if is_constant => {}
                Some(1) => {
                    add("stuck at 0".into(), "1'h0".into(), 0);
                    add("stuck at 1".into(), "1'h1".into(), 0);
                }
                // One bit of those that somebody reads, which is always the same one.
                Some(width) => {
                    let bit = read[hash(&format!("{module} {chosen_by}")) as usize % read.len()];
                    let mask = format!("({width}'h1 << {bit})");
                    add(format!("bit {bit} stuck at 0"), format!("({whole}) & ~{mask}"), 0);
                    add(format!("bit {bit} stuck at 1"), format!("({whole}) | {mask}"), 0);
                }
                None => {}
            },
            SiteKind::Condition => {
                add("never".into(), "1'h0".into(), 0);
                add("always".into(), "1'h1".into(), 0);
            }
            SiteKind::Input(_) => add("inverted".into(), format!("~({whole})"), 0),
            SiteKind::Memory => {}
        }
        let mut square = 0;
        for at in first..end {
            let Token { kind, text: token, start } = tokens[at];
            let stop = tokens[at].end();
            square += i32::from(token == "[") - i32::from(token == "]");
            let place = at - first;
            let next = |offset: usize| tokens.get(at + offset).map_or("", |token| token.text);
            if token == "?" {
                let begin = tokens[condition_start(&tokens, first, at)].start;
                let condition = text[begin..start].trim_end();
                let faulty = replaced(begin, start, &format!("!({condition}) "));
                add(format!("`{condition} ?` inverted"), faulty, place);
            } else if token == "~" {
                add(format!("`~` {} left out", place + 1), replaced(start, stop, ""), place);
            } else if token == "["
                && let (Ok(high), ":", Ok(low)) = (next(1).parse::<u32>(), next(2), next(3).parse::<u32>())
                && low > 0
            {
                let close = tokens[at + 4].start;
                let change = format!("`[{high}:{low}]` {} becomes `[{}:{}]`", place + 1, high - 1, low - 1);
                add(change, replaced(stop, close, &format!("{}:{}", high - 1, low - 1)), place);
            } else if token == "["
                && let (Ok(bit), "]") = (next(1).parse::<u32>(), next(2))
                && bit > 0
            {
                let close = tokens[at + 2].start;
                let change = format!("`[{bit}]` {} becomes `[{}]`", place + 1, bit - 1);
                add(change, replaced(stop, close, &(bit - 1).to_string()), place);
            } else if square > 0 {
                // An index may only be changed where the width stays, as above.
            } else if let Some(other) = other_operator(token) {
                add(format!("`{token}` {} becomes `{other}`", place + 1), replaced(start, stop, other), place);
            } else if kind == Kind::Constant
                && let Some(next) = next_constant(token)
            {
                add(format!("`{token}` {} becomes `{next}`", place + 1), replaced(start, stop, &next), place);
            } else if kind == Kind::Word && widths.get(token) == Some(&1) && end - first > 1 {
                for value in ["1'h0", "1'h1"] {
                    let change = format!("`{token}` {} becomes `{value}`", place + 1);
                    add(change, replaced(start, stop, value), place);
                }
            }
        }
    }
    mutants
}

/// The mutants of the configuration: of every module a part of all that it could have, chosen by what they change, so that
/// a change of the hardware changes the choice only there. Of the many sizes of a queue those are taken that have a test of
/// their own.
pub fn choose(files: &[(String, String)]) -> Vec<Mutant> {
    let name = |file: &str| file.strip_suffix(".v").unwrap_or(file).to_owned();
    let modules: HashMap<_, _> = files.iter().map(|(file, text)| (name(file), inputs(text))).collect();
    let mut possible = BTreeMap::new();
    for (file, text) in files.iter().filter(|(file, _)| duts::is_tested(&name(file), CONFIGURATION, files)) {
        let module = name(file);
        let mut mutants = all_of_module(&module, text, &modules);
        mutants.sort_by_key(|mutant| mutant.rank);
        possible.insert(module, mutants);
    }
    let total: usize = possible.values().map(Vec::len).sum();
    let mut chosen: Vec<Mutant> = Vec::new();
    for mutants in possible.into_values() {
        let share = (mutants.len() * COUNT / total.max(1)).max(OF_EACH_MODULE);
        chosen.extend(mutants.into_iter().take(share));
    }
    chosen
}

/// The text of a module with its mutants, each with its number, the place of its expression, and the faulty one.
fn with_mutants(text: &str, mutants: &[(usize, (usize, usize), &str)]) -> String {
    let mut by_expression: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (number, expression, faulty) in mutants {
        by_expression.entry(Reverse(*expression)).or_default().push((*number, faulty));
    }
    let mut text = text.to_owned();
    // From the end on, so that positions hold.
    for (Reverse((from, to)), faulty) in by_expression {
        let mut choice = String::from("(");
        for (number, faulty) in faulty {
            let _ = write!(choice, "({SELECTOR} == 32'd{number}) ? ({faulty}) :\n        ");
        }
        let _ = write!(choice, "({}))", &text[from..to]);
        text.replace_range(from..to, &choice);
    }
    let selector = format!(
        ");\n    reg [31:0] {SELECTOR};\n    initial if ($value$plusargs(\"mutant=%d\", {SELECTOR}) == 0) {SELECTOR} = 32'd0;\n"
    );
    text.replacen(");\n", &selector, 1)
}

/// Puts the mutants into a design: into all modules that hold the expressions where they are expected.
pub fn plant(dut: &mut Dut, mutants: &[Mutant], originals: &[(String, String)]) {
    let originals: HashMap<_, _> = originals.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    for (file, text) in &mut dut.files {
        let Some(original) = originals.get(file.as_str()) else { continue };
        // A variant of a block differs from the original in one place: what is behind it has moved.
        let moved = |(from, to): (usize, usize)| match text.len() as i64 - original.len() as i64 {
            _ if text.get(..to) == original.get(..to) => Some((from, to)),
            by => {
                let range = (from.checked_add_signed(by as isize)?, to.checked_add_signed(by as isize)?);
                (text.get(range.0..) == original.get(from..)).then_some(range)
            }
        };
        let of_file = |mutant: &Mutant| file.strip_suffix(".v") == Some(mutant.module.as_str());
        let here: Vec<_> = mutants
            .iter()
            .enumerate()
            .filter(|(_, mutant)| of_file(mutant))
            .filter_map(|(index, mutant)| Some((index + 1, moved(mutant.expression)?, mutant.faulty.as_str())))
            .collect();
        if !here.is_empty() {
            *text = with_mutants(text, &here);
        }
    }
    dut.has_mutants = true;
}

/// The list of mutants for Rust; number N is at position N - 1.
pub fn rust_table(mutants: &[Mutant]) -> String {
    let mut rows = String::new();
    for Mutant { module, line, change, statement, .. } in mutants {
        let _ = writeln!(
            rows,
            "    Mutant {{ module: {module:?}, line: {line}, change: {change:?}, statement: {statement:?} }},"
        );
    }
    format!(
        "/// Every mutant of this build; number N is at position N - 1.\npub static ALL: &[Mutant] = &[\n{rows}];\n"
    )
}
