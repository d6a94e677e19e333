//! The MPT entry (contract section 2).

use std::fmt;

use keywalk_contract::{Field, mpt_entry};

/// Bytes of an MPT entry, as an array length.
pub(crate) const ENTRY_BYTES: usize = mpt_entry::ENTRY_BYTES as usize;
const WORDS: usize = ENTRY_BYTES / 8;

/// An MPT entry as read from memory. Fields are cut out by the contract's layout when asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MptEntry {
    /// The 512-bit little-endian word, least significant 64 bits first.
    words: [u64; WORDS],
}

impl MptEntry {
    /// The entry in `bytes`, in memory order.
    #[must_use]
    #[inline]
    pub fn from_bytes(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        Self { words }
    }

    /// Value of a field of [`mpt_entry::LAYOUT`]. Bits beyond the entry read as zero.
    #[must_use]
    #[inline]
    pub fn get(&self, field: Field) -> u64 {
        let word = |index: u32| u128::from(self.words.get(index as usize).copied().unwrap_or(0));
        let position = field.low / 64;
        let pair = word(position) | word(position + 1) << 64;
        (pair >> (field.low % 64)) as u64 & field.max()
    }

    /// Sets a field. A value that is too large is cut to the field's width.
    pub fn set(&mut self, field: Field, value: u64) {
        for bit in 0..field.width {
            let position = field.low + bit;
            if let Some(word) = self.words.get_mut((position / 64) as usize) {
                let mask = 1 << (position % 64);
                *word = if value >> bit & 1 == 1 { *word | mask } else { *word & !mask };
            }
        }
    }

    /// The entry in memory order.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words) {
            *chunk = word.to_le_bytes();
        }
        bytes
    }

    /// The first 8 bytes, little-endian.
    pub(crate) fn first_word(&self) -> u64 {
        self.words[0]
    }

    /// Whether a one-bit field is set.
    #[must_use]
    #[inline]
    pub fn is_set(&self, field: Field) -> bool {
        self.get(field) == 1
    }
}

impl fmt::Display for MptEntry {
    /// The fields that are not zero.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = mpt_entry::LAYOUT.fields.iter().filter(|field| self.get(**field) != 0);
        for (position, field) in fields.enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(out, "{separator}{} {:#x}", field.name, self.get(*field))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use rand::{Rng, SeedableRng};

    #[test]
    fn every_field_is_what_it_is_in_the_512_bit_number() {
        let seed = 1;
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        for round in 0..200 {
            let mut bytes = [0; ENTRY_BYTES];
            random.fill_bytes(&mut bytes);
            let number = BigUint::from_bytes_le(&bytes);
            let entry = MptEntry::from_bytes(&bytes);
            for field in mpt_entry::LAYOUT.fields {
                let mask = (BigUint::from(1_u8) << field.width) - 1_u8;
                let expected = (&number >> field.low) & mask;
                let name = field.name;
                assert_eq!(BigUint::from(entry.get(*field)), expected, "{name}, seed {seed}, round {round}");
                assert_eq!(entry.get(*field), field.get(&bytes));
                let value = random.next_u64() & field.max();
                let (mut changed, mut expected) = (entry.clone(), bytes);
                changed.set(*field, value);
                field.put(&mut expected, value).unwrap();
                assert_eq!(changed.to_bytes(), expected, "{name}, seed {seed}, round {round}");
            }
        }
    }
}
