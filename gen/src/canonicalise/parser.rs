//! Accepts exactly the subset of Verilog that kaze 0.1.19 prints, in any order of its parts. Expressions in it have one operator each, so that
//! nothing here recurses.

use super::Error;
use super::graph::WIDTH_BITS_MAX;
use super::lexer::{Lexer, Token};

/// A module as printed, nothing resolved.
#[derive(Debug, Default)]
pub(super) struct RawModule<'a> {
    pub(super) name: &'a str,
    /// Line of the module's name.
    pub(super) line: usize,
    pub(super) ports: Vec<RawPort<'a>>,
    pub(super) declarations: Vec<RawDeclaration<'a>>,
    pub(super) memories: Vec<RawMemory<'a>>,
    pub(super) registers: Vec<RawRegister<'a>>,
    pub(super) instances: Vec<RawInstance<'a>>,
    pub(super) assignments: Vec<RawAssignment<'a>>,
}

#[derive(Debug)]
pub(super) struct RawPort<'a> {
    pub(super) output: bool,
    pub(super) name: &'a str,
    pub(super) width_bits: u32,
    pub(super) line: usize,
}

/// A wire, or a register that is no memory.
#[derive(Debug)]
pub(super) struct RawDeclaration<'a> {
    pub(super) name: &'a str,
    pub(super) width_bits: u32,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct RawMemory<'a> {
    pub(super) name: &'a str,
    pub(super) width_bits: u32,
    pub(super) words: u64,
    pub(super) line: usize,
    pub(super) initial_contents: Vec<u128>,
    pub(super) reads: Vec<RawRead<'a>>,
    pub(super) write: Option<RawWrite<'a>>,
}

#[derive(Debug)]
pub(super) struct RawRead<'a> {
    pub(super) enable: &'a str,
    pub(super) value: &'a str,
    pub(super) address: &'a str,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct RawWrite<'a> {
    pub(super) enable: &'a str,
    pub(super) address: &'a str,
    pub(super) value: &'a str,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct RawRegister<'a> {
    pub(super) value: &'a str,
    pub(super) next: &'a str,
    /// Width and value of the literal that reset assigns.
    pub(super) reset: Option<(u32, u128)>,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct RawInstance<'a> {
    pub(super) module: &'a str,
    pub(super) name: &'a str,
    /// Port and wire, `clk` and `reset_n` excepted.
    pub(super) connections: Vec<(&'a str, &'a str, usize)>,
    pub(super) line: usize,
}

#[derive(Debug)]
pub(super) struct RawAssignment<'a> {
    pub(super) target: &'a str,
    pub(super) expression: RawExpression<'a>,
    pub(super) line: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RawOperand<'a> {
    Name(&'a str),
    Literal { width_bits: u32, value: u128 },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RawExpression<'a> {
    Operand(RawOperand<'a>),
    Not(RawOperand<'a>),
    Binary { operator: &'a str, signed: bool, left: RawOperand<'a>, right: RawOperand<'a> },
    Slice { source: RawOperand<'a>, high: u64, low: u64 },
    Repeat { count: u64, source: RawOperand<'a> },
    Concat(RawOperand<'a>, RawOperand<'a>),
    Mux { condition: RawOperand<'a>, when_true: RawOperand<'a>, when_false: RawOperand<'a> },
}

impl<'a> RawExpression<'a> {
    /// The names that the expression reads.
    pub(super) fn names(self) -> impl Iterator<Item = &'a str> {
        let operands = match self {
            RawExpression::Operand(a)
            | RawExpression::Not(a)
            | RawExpression::Slice { source: a, .. }
            | RawExpression::Repeat { source: a, .. } => [Some(a), None, None],
            RawExpression::Binary { left: a, right: b, .. } | RawExpression::Concat(a, b) => [Some(a), Some(b), None],
            RawExpression::Mux { condition, when_true, when_false } => {
                [Some(condition), Some(when_true), Some(when_false)]
            }
        };
        operands.into_iter().flatten().filter_map(|operand| match operand {
            RawOperand::Name(name) => Some(name),
            RawOperand::Literal { .. } => None,
        })
    }
}

/// Reads one module and nothing behind it.
pub(super) fn parse(text: &str) -> Result<RawModule<'_>, Error> {
    let mut lexer = Lexer::new(text);
    let (token, line) = lexer.next()?;
    let mut parser = Parser { lexer, token, line };
    let module = parser.module()?;
    match parser.token {
        Token::End => Ok(module),
        token => Err(Error::new(
            parser.line,
            format!("expected the end of the text after `endmodule`, found {token}; pass one module at a time"),
        )),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    line: usize,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<Token<'a>, Error> {
        let token = self.token;
        (self.token, self.line) = self.lexer.next()?;
        Ok(token)
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T, Error> {
        Err(Error::new(self.line, format!("expected {expected}, found {}", self.token)))
    }

    fn at(&self, word: &str) -> bool {
        matches!(self.token, Token::Name(found) | Token::Symbol(found) if found == word)
    }

    /// Takes the symbol or keyword if it is next.
    fn accept(&mut self, word: &str) -> Result<bool, Error> {
        let found = self.at(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, word: &str) -> Result<(), Error> {
        if self.accept(word)? { Ok(()) } else { self.unexpected(&format!("`{word}`")) }
    }

    fn expect_all(&mut self, words: &[&str]) -> Result<(), Error> {
        words.iter().try_for_each(|word| self.expect(word))
    }

    fn name(&mut self) -> Result<&'a str, Error> {
        match self.token {
            Token::Name(name) if !name.starts_with('$') => {
                self.advance()?;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn integer(&mut self) -> Result<u64, Error> {
        match self.token {
            Token::Integer(value) => {
                self.advance()?;
                Ok(value)
            }
            _ => self.unexpected("a decimal number"),
        }
    }

    fn literal(&mut self) -> Result<(u32, u128), Error> {
        match self.token {
            Token::Literal { width_bits, value } => {
                self.advance()?;
                Ok((width_bits, value))
            }
            _ => self.unexpected("a sized hexadecimal literal"),
        }
    }

    fn operand(&mut self) -> Result<RawOperand<'a>, Error> {
        match self.token {
            Token::Name(name) if !name.starts_with('$') => {
                self.advance()?;
                Ok(RawOperand::Name(name))
            }
            Token::Literal { width_bits, value } => {
                self.advance()?;
                Ok(RawOperand::Literal { width_bits, value })
            }
            _ => self.unexpected("a name or a sized literal"),
        }
    }

    /// An optional `[high:0]`; 1 where it is absent.
    fn width_bits(&mut self) -> Result<u32, Error> {
        let line = self.line;
        if !self.accept("[")? {
            return Ok(1);
        }
        let high = self.integer()?;
        self.expect(":")?;
        let low = self.integer()?;
        self.expect("]")?;
        match u32::try_from(high) {
            Ok(high) if low == 0 && high < WIDTH_BITS_MAX => Ok(high + 1),
            _ => Err(Error::new(
                line,
                format!("the range [{high}:{low}] is not one of kaze's signals, which are [127:0] at most"),
            )),
        }
    }

    fn module(&mut self) -> Result<RawModule<'a>, Error> {
        self.expect("module")?;
        let mut module = RawModule { line: self.line, name: self.name()?, ..RawModule::default() };
        self.expect("(")?;
        loop {
            let output = match self.token {
                Token::Name("input") => false,
                Token::Name("output") => true,
                _ => return self.unexpected("`input` or `output`"),
            };
            self.advance()?;
            self.expect("wire")?;
            let width_bits = self.width_bits()?;
            let line = self.line;
            module.ports.push(RawPort { output, name: self.name()?, width_bits, line });
            if !self.accept(",")? {
                break;
            }
        }
        self.expect_all(&[")", ";"])?;
        while !self.accept("endmodule")? {
            self.item(&mut module)?;
        }
        Ok(module)
    }

    fn item(&mut self, module: &mut RawModule<'a>) -> Result<(), Error> {
        let line = self.line;
        match self.token {
            Token::Name("wire") => {
                self.advance()?;
                let width_bits = self.width_bits()?;
                module.declarations.push(RawDeclaration { name: self.name()?, width_bits, line });
                self.expect(";")
            }
            Token::Name("reg") => {
                self.advance()?;
                let width_bits = self.width_bits()?;
                let name = self.name()?;
                if self.accept("[")? {
                    module.memories.push(self.memory(name, width_bits, line)?);
                } else {
                    module.declarations.push(RawDeclaration { name, width_bits, line });
                }
                self.expect(";")
            }
            Token::Name("assign") => {
                self.advance()?;
                let target = self.name()?;
                self.expect("=")?;
                let expression = self.expression()?;
                module.assignments.push(RawAssignment { target, expression, line });
                self.expect(";")
            }
            Token::Name("initial") => self.initial(module),
            Token::Name("always") => self.always(module),
            Token::Name(name) if !name.starts_with('$') => {
                let instance = self.instance()?;
                module.instances.push(instance);
                Ok(())
            }
            _ => self.unexpected("a declaration, an instance, `initial`, `always`, `assign` or `endmodule`"),
        }
    }

    /// The rest of a memory's declaration, behind `name[`.
    fn memory(&mut self, name: &'a str, width_bits: u32, line: usize) -> Result<RawMemory<'a>, Error> {
        let first = self.integer()?;
        self.expect(":")?;
        let last = self.integer()?;
        self.expect("]")?;
        let words = last.wrapping_add(1);
        if first != 0 || !words.is_power_of_two() {
            return Err(Error::new(
                line,
                format!("memory `{name}` has the words [{first}:{last}]; kaze's memories have a power of two, from 0"),
            ));
        }
        let (initial_contents, reads) = (Vec::new(), Vec::new());
        Ok(RawMemory { name, width_bits, words, line, initial_contents, reads, write: None })
    }

    /// The memory that was declared last, which kaze's blocks belong to.
    fn last_memory<'m>(module: &'m mut RawModule<'a>, name: &str, line: usize) -> Result<&'m mut RawMemory<'a>, Error> {
        module.memories.last_mut().filter(|memory| memory.name == name).ok_or_else(|| {
            Error::new(line, format!("`{name}` is used as a memory outside of the blocks behind its declaration"))
        })
    }

    fn initial(&mut self, module: &mut RawModule<'a>) -> Result<(), Error> {
        self.expect_all(&["initial", "begin"])?;
        while !self.accept("end")? {
            let line = self.line;
            let name = self.name()?;
            let memory = Self::last_memory(module, name, line)?;
            self.expect("[")?;
            let index = self.integer()?;
            self.expect_all(&["]", "="])?;
            let (width_bits, value) = self.literal()?;
            self.expect(";")?;
            if index != memory.initial_contents.len() as u64 || index >= memory.words {
                return Err(Error::new(line, format!("initial word {index} of memory `{name}` is out of order")));
            }
            if width_bits != memory.width_bits {
                return Err(Error::new(
                    line,
                    format!(
                        "an initial word of memory `{name}` has {width_bits} bits, the memory {}",
                        memory.width_bits
                    ),
                ));
            }
            memory.initial_contents.push(value);
        }
        Ok(())
    }

    fn always(&mut self, module: &mut RawModule<'a>) -> Result<(), Error> {
        let line = self.line;
        self.expect_all(&["always", "@", "(", "posedge", "clk"])?;
        if self.accept(",")? {
            self.expect_all(&["negedge", "reset_n", ")", "begin", "if", "(", "~", "reset_n", ")", "begin"])?;
            let value = self.name()?;
            self.expect("<=")?;
            let reset = Some(self.literal()?);
            self.expect_all(&[";", "end", "else", "begin", value, "<="])?;
            let next = self.name()?;
            self.expect_all(&[";", "end", "end"])?;
            module.registers.push(RawRegister { value, next, reset, line });
            return Ok(());
        }
        self.expect_all(&[")", "begin"])?;
        if !self.at("if") {
            let value = self.name()?;
            self.expect("<=")?;
            let next = self.name()?;
            self.expect_all(&[";", "end"])?;
            module.registers.push(RawRegister { value, next, reset: None, line });
            return Ok(());
        }
        while !self.accept("end")? {
            self.memory_port(module)?;
        }
        Ok(())
    }

    /// `if (enable) begin value <= memory[address]; end`, or the same for a write.
    fn memory_port(&mut self, module: &mut RawModule<'a>) -> Result<(), Error> {
        self.expect_all(&["if", "("])?;
        let enable = self.name()?;
        self.expect_all(&[")", "begin"])?;
        let line = self.line;
        let target = self.name()?;
        if self.accept("[")? {
            let address = self.name()?;
            self.expect_all(&["]", "<="])?;
            let value = self.name()?;
            let memory = Self::last_memory(module, target, line)?;
            if memory.write.is_some() {
                return Err(Error::new(
                    line,
                    format!("memory `{target}` has two write ports; kaze prints one at most"),
                ));
            }
            memory.write = Some(RawWrite { enable, address, value, line });
        } else {
            self.expect("<=")?;
            let name = self.name()?;
            self.expect("[")?;
            let address = self.name()?;
            self.expect("]")?;
            let memory = Self::last_memory(module, name, line)?;
            memory.reads.push(RawRead { enable, value: target, address, line });
        }
        self.expect_all(&[";", "end"])
    }

    fn instance(&mut self) -> Result<RawInstance<'a>, Error> {
        let module = self.name()?;
        let line = self.line;
        let name = self.name()?;
        self.expect_all(&["(", ".", "reset_n", "(", "reset_n", ")", ",", ".", "clk", "(", "clk", ")"])?;
        let mut connections = Vec::new();
        while self.accept(",")? {
            self.expect(".")?;
            let line = self.line;
            let port = self.name()?;
            self.expect("(")?;
            connections.push((port, self.name()?, line));
            self.expect(")")?;
        }
        self.expect_all(&[")", ";"])?;
        Ok(RawInstance { module, name, connections, line })
    }

    /// `$signed(operand)` if it is next.
    fn signed_operand(&mut self) -> Result<Option<RawOperand<'a>>, Error> {
        if !self.accept("$signed")? {
            return Ok(None);
        }
        self.expect("(")?;
        let operand = self.operand()?;
        self.expect(")")?;
        Ok(Some(operand))
    }

    fn expression(&mut self) -> Result<RawExpression<'a>, Error> {
        if self.accept("~")? {
            return Ok(RawExpression::Not(self.operand()?));
        }
        if self.accept("{")? {
            return self.braces();
        }
        if let Some(left) = self.signed_operand()? {
            let operator = self.binary_operator()?;
            let Some(right) = self.signed_operand()? else {
                return self.unexpected("`$signed`");
            };
            return Ok(RawExpression::Binary { operator, signed: true, left, right });
        }
        let left = self.operand()?;
        if self.at(";") {
            return Ok(RawExpression::Operand(left));
        }
        if self.accept("[")? {
            return self.slice(left);
        }
        if self.accept("?")? {
            let when_true = self.operand()?;
            self.expect(":")?;
            return Ok(RawExpression::Mux { condition: left, when_true, when_false: self.operand()? });
        }
        let operator = self.binary_operator()?;
        Ok(RawExpression::Binary { operator, signed: false, left, right: self.operand()? })
    }

    /// The rest of a concatenation or repetition, behind the first `{`.
    fn braces(&mut self) -> Result<RawExpression<'a>, Error> {
        if let Token::Integer(count) = self.token {
            self.advance()?;
            self.expect("{")?;
            let source = self.operand()?;
            self.expect_all(&["}", "}"])?;
            return Ok(RawExpression::Repeat { count, source });
        }
        let high = self.operand()?;
        self.expect(",")?;
        let low = self.operand()?;
        self.expect("}")?;
        Ok(RawExpression::Concat(high, low))
    }

    /// The rest of a slice, behind `source[`.
    fn slice(&mut self, source: RawOperand<'a>) -> Result<RawExpression<'a>, Error> {
        if let RawOperand::Literal { width_bits, value } = source {
            return Err(Error::new(
                self.line,
                format!(
                    "bits of the literal {width_bits}'h{value:x} are selected, which Verilog forbids; \
                     take the bits in Rust and make a literal of them"
                ),
            ));
        }
        let high = self.integer()?;
        let low = if self.accept(":")? { self.integer()? } else { high };
        self.expect("]")?;
        Ok(RawExpression::Slice { source, high, low })
    }

    fn binary_operator(&mut self) -> Result<&'a str, Error> {
        match self.token {
            Token::Symbol(">>>") => Err(Error::new(
                self.line,
                "`>>>` on an unsigned value shifts in zeros, so that kaze's shr_arithmetic is wrong in Verilog; \
                 repeat the sign bit and shift logically instead",
            )),
            Token::Symbol(
                symbol @ ("+" | "-" | "*" | "&" | "|" | "^" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "<<" | ">>"),
            ) => {
                self.advance()?;
                Ok(symbol)
            }
            _ => self.unexpected("an operator or `;`"),
        }
    }
}
