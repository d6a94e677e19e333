//! Splits kaze's text into tokens.

use super::Error;
use std::fmt;

/// A token. Names and symbols are slices of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name, a keyword or a system function such as `$signed`.
    Name(&'a str),
    /// An unsized decimal number: a bound of a range, an index or a count.
    Integer(u64),
    /// A sized hexadecimal literal such as `8'hff`.
    Literal {
        /// Width in bits, 1 to 128.
        width_bits: u32,
        /// Value, which fits the width.
        value: u128,
    },
    /// An operator or a separator.
    Symbol(&'a str),
    /// The end of the text.
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Token::Name(name) => write!(formatter, "`{name}`"),
            Token::Integer(value) => write!(formatter, "`{value}`"),
            Token::Literal { width_bits, value } => write!(formatter, "`{width_bits}'h{value:x}`"),
            Token::Symbol(symbol) => write!(formatter, "`{symbol}`"),
            Token::End => write!(formatter, "the end of the text"),
        }
    }
}

/// The text not yet read.
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    /// Starts at the first line of `text`.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, position: 0, line: 1 }
    }

    /// The next token and its line.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, usize), Error> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.position).filter(|byte| byte.is_ascii_whitespace()) {
            self.line += usize::from(*byte == b'\n');
            self.position += 1;
        }
        let start = self.position;
        let Some(&first) = bytes.get(start) else {
            return Ok((Token::End, self.line));
        };
        let token = if first.is_ascii_digit() {
            self.number()?
        } else if first.is_ascii_alphabetic() || first == b'_' || first == b'$' {
            self.position += 1;
            Token::Name(self.take_while(start, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'))
        } else {
            Token::Symbol(self.symbol()?)
        };
        Ok((token, self.line))
    }

    /// Moves to the first byte that is not `accepted` and returns the text from `start` to there.
    fn take_while(&mut self, start: usize, accepted: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest.iter().position(|byte| !accepted(*byte)).unwrap_or(rest.len());
        &self.text[start..self.position]
    }

    fn number(&mut self) -> Result<Token<'a>, Error> {
        let line = self.line;
        let digits = self.take_while(self.position, |byte| byte.is_ascii_digit());
        if !self.text[self.position..].starts_with("'h") {
            return digits
                .parse()
                .map(Token::Integer)
                .map_err(|_| Error::new(line, format!("the number {digits} does not fit 64 bits")));
        }
        self.position += 2;
        let hexadecimal = self.take_while(self.position, |byte| byte.is_ascii_hexdigit());
        let literal = format!("{digits}'h{hexadecimal}");
        let width_bits = digits.parse().ok().filter(|width| (1..=super::graph::WIDTH_BITS_MAX).contains(width));
        let Some(width_bits) = width_bits else {
            return Err(Error::new(line, format!("the literal {literal} has a width outside of 1 to 128 bits")));
        };
        match u128::from_str_radix(hexadecimal, 16) {
            Ok(value) if value & !super::graph::mask(width_bits) == 0 => Ok(Token::Literal { width_bits, value }),
            _ => Err(Error::new(line, format!("the value of the literal {literal} does not fit its width"))),
        }
    }

    fn symbol(&mut self) -> Result<&'a str, Error> {
        let rest = &self.text[self.position..];
        // Longest first.
        let symbols = [">>>", "<<", ">>", "<=", ">=", "==", "!="];
        let length = match symbols.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => symbol.len(),
            None if rest.starts_with(|c: char| "()[]{};,.:?=<>+-*&|^~@".contains(c)) => 1,
            None => {
                let character = rest.chars().next().unwrap_or_default();
                return Err(Error::new(
                    self.line,
                    format!(
                        "the character {character:?} does not occur in Verilog printed by kaze; names of ports, \
                         registers, memories and instances have ASCII letters, digits and underscores only"
                    ),
                ));
            }
        };
        self.position += length;
        Ok(&rest[..length])
    }
}
