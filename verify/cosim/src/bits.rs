//! Bit strings in arrays of 32-bit words, as Verilator stores wide ports: bit 0 is the least significant bit of word 0.

use rand::Rng;

/// Words that hold `width` bits.
#[must_use]
pub const fn words(width: u32) -> usize {
    width.div_ceil(32) as usize
}

/// Largest value of `width` bits, 0 to 64.
#[must_use]
pub const fn max(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Reads `width` bits (at most 64) from bit `low` on. Bits beyond the end read as zero.
#[must_use]
#[inline]
pub fn get(words: &[u32], low: u32, width: u32) -> u64 {
    let first = (low / 32) as usize;
    let word = |index: usize| u64::from(words.get(index).copied().unwrap_or(0));
    let window = word(first) | word(first + 1) << 32;
    let shift = low % 32;
    // Two words hold what most fields need.
    if shift + width <= 64 {
        return window >> shift & max(width);
    }
    let window = u128::from(window) | u128::from(word(first + 2)) << 64;
    (window >> shift) as u64 & max(width)
}

/// Writes the low `width` bits (at most 64) of `value` from bit `low` on. Bits beyond the end are dropped.
#[inline]
pub fn set(words: &mut [u32], low: u32, width: u32, value: u64) {
    let (mut position, mut shift) = ((low / 32) as usize, low % 32);
    let (mut value, mut remaining) = (value & max(width), width);
    while remaining > 0
        && let Some(word) = words.get_mut(position)
    {
        let count = remaining.min(32 - shift);
        let mask = max(count) as u32;
        *word = *word & !(mask << shift) | (value as u32 & mask) << shift;
        value = value.checked_shr(count).unwrap_or(0);
        remaining -= count;
        position += 1;
        shift = 0;
    }
}

/// As [`get`] for up to 128 bits.
#[must_use]
pub fn get_wide(words: &[u32], low: u32, width: u32) -> u128 {
    let high_width = width.saturating_sub(64);
    u128::from(get(words, low, width - high_width)) | u128::from(get(words, low + 64, high_width)) << 64
}

/// As [`set`] for up to 128 bits.
pub fn set_wide(words: &mut [u32], low: u32, width: u32, value: u128) {
    let high_width = width.saturating_sub(64);
    set(words, low, width - high_width, value as u64);
    set(words, low + 64, high_width, (value >> 64) as u64);
}

/// Fills the `width` bits with random ones; bits above stay zero.
pub(crate) fn randomise(words: &mut [u32], width: u32, random: &mut impl Rng) {
    for word in words.iter_mut() {
        *word = random.next_u32();
    }
    if let Some(last) = words.last_mut()
        && !width.is_multiple_of(32)
    {
        *last &= max(width % 32) as u32;
    }
}

/// The bits as a hexadecimal number.
#[must_use]
pub fn hex(words: &[u32]) -> String {
    let digits: String = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    let digits = digits.trim_start_matches('0');
    format!("0x{}", if digits.is_empty() { "0" } else { digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_anywhere_is_read_back_and_its_neighbours_stay() {
        for width in 1..=128 {
            for low in 0..70 {
                let value = (0x1234_5678_9abc_def0_0fed_cba9_8765_4321 >> (128 - width)) | 1;
                let mut words = [u32::MAX; 7];
                set_wide(&mut words, low, width, value);
                assert_eq!(get_wide(&words, low, width), value, "width {width} low {low}");
                let zeros: u32 = words.iter().map(|word| word.count_zeros()).sum();
                assert_eq!(zeros, width - value.count_ones(), "width {width} low {low}");
            }
        }
    }

    #[test]
    fn bits_beyond_the_end_read_as_zero_and_are_dropped() {
        let mut words = [0; 2];
        set(&mut words, 40, 64, u64::MAX);
        assert_eq!(words, [0, 0xffff_ff00]);
        assert_eq!(get(&words, 40, 64), 0xff_ffff);
    }

    #[test]
    fn hexadecimal_leaves_leading_zeros_out() {
        assert_eq!(hex(&[0x89ab_cdef, 0x567, 0]), "0x56789abcdef");
        assert_eq!(hex(&[0, 0]), "0x0");
    }
}
