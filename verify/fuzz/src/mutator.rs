//! Changes inputs in ways that a reader of text may trip over.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Words at which readers of numbers, strings and tables tend to err.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "12",
    "63",
    "64",
    "65",
    "255",
    "256",
    "1024",
    "4095",
    "4096",
    "65536",
    "16777215",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e9",
    "1e400",
    "0.5",
    "-0.0",
    "NaN",
    "null",
    "true",
    "false",
    "\"\"",
    "\"0x0\"",
    "\"0x\"",
    "\"0x1000\"",
    "\"0xffffffffffffffff\"",
    "\"0x10000000000000000\"",
    "\"0xfffffffffffff000\"",
    "[]",
    "{}",
    "[[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "=",
    "\n",
    "\"",
    "\\u0000",
    "\u{feff}",
    "é",
    "'''",
    "#",
    "//",
    "128'h0",
    "[127:0]",
    "clk",
];
/// Longest input in bytes.
const BYTES_MAX: usize = 256 << 10;

/// Makes inputs from seeds, the same ones from the same number.
#[derive(Clone, Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    random: ChaCha8Rng,
}

impl Mutator {
    /// Begins with some inputs.
    ///
    /// # Panics
    /// Without any.
    #[must_use]
    pub fn new(seeds: Vec<Vec<u8>>, seed: u64) -> Self {
        assert!(!seeds.is_empty(), "there is nothing to begin with");
        Self { seeds, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// The next input: a seed with one to eight changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.some_seed();
        for _ in 0..self.random.random_range(1..=8) {
            self.change(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn some_seed(&mut self) -> Vec<u8> {
        self.seeds.choose(&mut self.random).cloned().unwrap_or_default()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            input.extend(self.word());
            return;
        }
        let at = self.random.random_range(0..input.len());
        match self.random.random_range(0..10) {
            0 => input[at] ^= 1 << self.random.random_range(0..8),
            1 => input[at] = self.random.random(),
            2..=4 => {
                // A token gives way to a word, or to a token of this or another input.
                let with = if self.random.random_ratio(2, 3) { self.word() } else { self.some_token() };
                input.splice(token(input, at), with);
            }
            5 => drop(input.splice(at..at, self.word())),
            6 => {
                let part = self.part(input.len());
                input.drain(part);
            }
            7 => {
                let part = self.part(input.len());
                let copy = input[part].to_vec();
                let times = if self.random.random_ratio(1, 8) { 200 } else { 1 };
                let copies = copy.iter().copied().cycle().take(times * copy.len()).take(BYTES_MAX);
                input.splice(at..at, copies);
            }
            8 => {
                let other = self.some_seed();
                let from = self.random.random_range(0..=other.len());
                input.truncate(at);
                input.extend(&other[from..]);
            }
            _ => input.truncate(at),
        }
    }

    fn word(&mut self) -> Vec<u8> {
        WORDS.choose(&mut self.random).map_or_else(Vec::new, |word| word.as_bytes().to_vec())
    }

    fn some_token(&mut self) -> Vec<u8> {
        let other = self.some_seed();
        if other.is_empty() {
            return other;
        }
        let at = self.random.random_range(0..other.len());
        other[token(&other, at)].to_vec()
    }

    /// Some short part of an input.
    fn part(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.random.random_range(0..length);
        let longest = if self.random.random_ratio(1, 4) { length - start } else { (length - start).min(40) };
        start..start + self.random.random_range(1..=longest)
    }
}

/// The token around a byte: a run of letters, digits and `_`, or the byte alone.
fn token(input: &[u8], at: usize) -> std::ops::Range<usize> {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let start = input[..at].iter().rposition(|byte| !belongs(byte)).map_or(0, |before| before + 1);
    let end = input[at..].iter().position(|byte| !belongs(byte)).map_or(input.len(), |after| at + after);
    if belongs(&input[at]) { start..end } else { at..at + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_gives_the_same_inputs() {
        let seeds = vec![b"tlb_sets = 64\n".to_vec(), b"{\"a\": [1, 2]}".to_vec()];
        let inputs = |seed| {
            let mut mutator = Mutator::new(seeds.clone(), seed);
            (0..200).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        assert_eq!(inputs(5), inputs(5));
        assert_ne!(inputs(5), inputs(6));
        assert!(inputs(5).iter().all(|input| input.len() <= BYTES_MAX));
    }

    #[test]
    fn a_token_is_a_word_or_a_sign() {
        let text = b"tlb_sets = 64\n";
        assert_eq!(&text[token(text, 3)], b"tlb_sets");
        assert_eq!(&text[token(text, 9)], b"=");
        assert_eq!(&text[token(text, 12)], b"64");
    }
}
