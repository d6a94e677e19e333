//! Bit layouts as data: a [`Layout`] is a little-endian bit string of whole bytes, cut into named [`Field`]s.
//! [`layout!`](crate::layout!) declares one and checks at compile time that its fields neither overlap nor leave gaps.

/// A run of bits with a name. Bit 0 is the least significant bit of byte 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in snake case, the same in RTL, model and documents.
    pub name: &'static str,
    /// Position of the least significant bit.
    pub low: u32,
    /// Number of bits, 1..=64.
    pub width: u32,
    /// Meaning, unit and legal values.
    pub doc: &'static str,
}

impl Field {
    /// Position of the most significant bit.
    #[must_use]
    pub const fn high(&self) -> u32 {
        self.low + self.width - 1
    }

    /// Largest value that the field holds.
    #[must_use]
    pub const fn max(&self) -> u64 {
        if self.width == 64 { u64::MAX } else { (1 << self.width) - 1 }
    }

    /// Reads the field from `bytes`. Bits beyond the end of `bytes` read as zero.
    #[must_use]
    pub fn get(&self, bytes: &[u8]) -> u64 {
        (0..self.width).fold(0, |value, bit| {
            let position = self.low + bit;
            let byte = bytes.get((position / 8) as usize).copied().unwrap_or(0);
            value | u64::from(byte >> (position % 8) & 1) << bit
        })
    }

    /// Writes `value` into the field.
    ///
    /// # Errors
    /// [`FieldOverflow`] when the value does not fit; `bytes` is then unchanged.
    ///
    /// # Panics
    /// When `bytes` is shorter than the layout that the field belongs to.
    pub fn put(&self, bytes: &mut [u8], value: u64) -> Result<(), FieldOverflow> {
        if value > self.max() {
            return Err(FieldOverflow { field: self.name, value, max: self.max() });
        }
        for bit in 0..self.width {
            let position = self.low + bit;
            let byte = &mut bytes[(position / 8) as usize];
            let mask = 1 << (position % 8);
            *byte = if value >> bit & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
        Ok(())
    }
}

/// A value too large for its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` holds at most {max:#x}, not {value:#x}")]
pub struct FieldOverflow {
    /// The field.
    pub field: &'static str,
    /// What was to be stored.
    pub value: u64,
    /// The largest legal value.
    pub max: u64,
}

/// A record of whole bytes, described field by field in rising bit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name in snake case.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u32,
    /// Meaning of the record.
    pub doc: &'static str,
    /// The fields, least significant first, without gaps.
    pub fields: &'static [Field],
}

impl Layout {
    /// Fails compilation (or panics, when called at run time) unless the fields tile the record exactly.
    pub const fn check(&self) {
        let mut next = 0;
        let mut index = 0;
        while index < self.fields.len() {
            let field = &self.fields[index];
            assert!(field.width >= 1 && field.width <= 64, "a field has 1 to 64 bits");
            assert!(field.low >= next, "fields overlap or are out of order");
            assert!(field.low == next, "a gap between fields: declare it as reserved");
            next = field.low + field.width;
            index += 1;
        }
        assert!(next == self.bytes * 8, "the fields do not add up to the record's size");
    }

    /// The field of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Declares a module with one [`Field`] constant per field and the [`Layout`] `LAYOUT`, checked at compile time.
///
/// Bits are written `high:low`, least significant field first, as in the documents.
#[macro_export]
macro_rules! layout {
    ($(#[doc = $doc:literal])* $visibility:vis mod $name:ident: $bytes:literal bytes {
        $($field:ident / $text:literal [$high:literal : $low:literal] = $field_doc:literal;)*
    }) => {
        $(#[doc = $doc])*
        $visibility mod $name {
            use $crate::layout::{Field, Layout};
            $(#[doc = $field_doc]
            pub const $field: Field = Field { name: $text, low: $low, width: $high - $low + 1, doc: $field_doc };)*
            /// The whole record.
            pub const LAYOUT: Layout = Layout {
                name: stringify!($name),
                bytes: $bytes,
                doc: concat!($($doc, "\n"),*),
                fields: &[$($field),*],
            };
            const _: () = LAYOUT.check();
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::layout! {
        /// A record for the tests below.
        mod sample: 2 bytes {
            A / "a" [2:0] = "Low bits.";
            B / "b" [11:3] = "Across the byte boundary.";
            C / "c" [15:12] = "High bits.";
        }
    }

    #[test]
    fn get_and_put_are_inverse_and_leave_neighbours_alone() {
        for field in sample::LAYOUT.fields {
            for value in 0..=field.max() {
                let mut bytes = [0xff; 2];
                field.put(&mut bytes, value).unwrap();
                assert_eq!(field.get(&bytes), value);
                for other in sample::LAYOUT.fields.iter().filter(|other| other.name != field.name) {
                    assert_eq!(other.get(&bytes), other.max());
                }
            }
        }
    }

    #[test]
    fn a_value_too_large_is_refused_and_nothing_is_written() {
        let mut bytes = [0; 2];
        let error = sample::A.put(&mut bytes, 8).unwrap_err();
        assert_eq!(error.to_string(), "field `a` holds at most 0x7, not 0x8");
        assert_eq!(bytes, [0; 2]);
    }

    fn faulty(fields: &'static [Field]) -> Layout {
        Layout { name: "faulty", bytes: 1, doc: "", fields }
    }

    #[test]
    #[should_panic(expected = "a gap between fields")]
    fn a_gap_is_refused() {
        faulty(&[Field { name: "a", low: 0, width: 3, doc: "" }, Field { name: "b", low: 4, width: 4, doc: "" }])
            .check();
    }

    #[test]
    #[should_panic(expected = "fields overlap")]
    fn an_overlap_is_refused() {
        faulty(&[Field { name: "a", low: 0, width: 5, doc: "" }, Field { name: "b", low: 4, width: 4, doc: "" }])
            .check();
    }

    #[test]
    #[should_panic(expected = "do not add up")]
    fn a_wrong_total_is_refused() {
        faulty(&[Field { name: "a", low: 0, width: 7, doc: "" }]).check();
    }
}
