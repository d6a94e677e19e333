//! Values on command lines that need their own reading.

use std::ops::RangeInclusive;

use keywalk_contract::Operation;

/// Longest memory latency in cycles.
const LATENCY_MAX_CYCLES: u32 = 1_000_000;

/// Digits of a number, and nothing else: no sign, no separators.
fn digits(text: &str, radix: u32) -> Option<u64> {
    let is_plain = text.chars().all(|character| character.is_digit(radix));
    if is_plain { u64::from_str_radix(text, radix).ok() } else { None }
}

/// A number of 64 bits, decimal or with 0x.
///
/// # Errors
/// What is legal.
pub fn parse_number(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None => digits(text, 10),
    };
    number.ok_or_else(|| "legal is a number from 0 to 2^64 - 1, decimal or with 0x".into())
}

/// An operation by its name.
///
/// # Errors
/// The names that there are.
pub fn parse_operation(text: &str) -> Result<Operation, String> {
    let names = Operation::ALL.map(Operation::name).join(", ");
    Operation::from_name(text).ok_or_else(|| format!("there are {names}"))
}

/// A memory latency in cycles, `N`, or a range of which each read takes its own, `MIN..MAX` or `MIN..=MAX`.
///
/// # Errors
/// What is legal.
pub fn parse_latency(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (first, last.strip_prefix('=').unwrap_or(last)),
        None => (text, text),
    };
    let number = |text| digits(text, 10).and_then(|number| u32::try_from(number).ok());
    let range = number(first).zip(number(last)).map(|(first, last)| first..=last);
    let is_legal = |range: &RangeInclusive<u32>| {
        *range.start() >= 1 && range.start() <= range.end() && *range.end() <= LATENCY_MAX_CYCLES
    };
    let legal = || format!("legal is N or MIN..MAX with 1 <= MIN <= MAX <= {LATENCY_MAX_CYCLES}");
    range.filter(is_legal).ok_or_else(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_alone() {
        assert_eq!(parse_number("0xffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(parse_number("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "0x", "+1", "-1", "0x+1", "1_000", " 1", "0X1", "18446744073709551616", "ff", "١"] {
            assert!(parse_number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn latencies_are_a_number_or_a_range() {
        assert_eq!(parse_latency("40"), Ok(40..=40));
        assert_eq!(parse_latency("1..250"), Ok(1..=250));
        assert_eq!(parse_latency("1..=1000000"), Ok(1..=1_000_000));
        for text in ["", "0", "..", "5..1", "=5", "==5..6", "5..==6", "+5", "1..1000001", "1..2..3", "4294967297"] {
            let message = parse_latency(text).unwrap_err();
            assert_eq!(message, "legal is N or MIN..MAX with 1 <= MIN <= MAX <= 1000000", "{text}");
        }
    }

    #[test]
    fn an_unknown_operation_is_told_what_there_is() {
        assert_eq!(parse_operation("bind"), Ok(Operation::Bind));
        assert!(parse_operation("erase").unwrap_err().starts_with("there are local_read, "));
    }
}
