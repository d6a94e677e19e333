//! Forms of numbers and names in a description file.

use keywalk_contract::{Right, Table};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// A number of 64 bits: an integer, or text in decimal or with 0x, with underscores as one likes. TOML's integers end
/// at 2^63.
#[derive(Clone, Copy)]
pub(crate) struct Number(pub u64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:#x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Number;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number from 0 to 2^64 - 1, or such a number as text (\"0x...\" or decimal)")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                let unexpected = de::Unexpected::Signed(value);
                u64::try_from(value).map(Number).map_err(|_| E::invalid_value(unexpected, &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let digits = text.replace('_', "");
                let (digits, radix) = digits.strip_prefix("0x").map_or((&*digits, 10), |digits| (digits, 16));
                // Without this a sign would be read as well.
                let is_plain = digits.chars().all(|character| character.is_digit(radix));
                let value = u64::from_str_radix(digits, radix).ok().filter(|_| is_plain);
                value.map(Number).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// For `#[serde(with)]` on a `u64`.
pub(crate) mod number {
    use super::*;

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Number(*value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Number::deserialize(deserializer).map(|number| number.0)
    }
}

/// For `#[serde(with)]` on an optional `u64`; a field that is not there needs `#[serde(default)]` besides.
pub(crate) mod optional_number {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Number).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Option::<Number>::deserialize(deserializer).map(|number| number.map(|number| number.0))
    }
}

/// For `#[serde(with)]` on a list of `u64`.
pub(crate) mod numbers {
    use super::*;

    pub fn serialize<S: Serializer>(values: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|value| Number(*value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        Ok(Vec::<Number>::deserialize(deserializer)?.into_iter().map(|number| number.0).collect())
    }
}

/// For `#[serde(with)]` on a context table, by its name.
pub(crate) mod table {
    use super::*;

    pub fn serialize<S: Serializer>(value: &Table, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(value.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Table, D::Error> {
        let name = String::deserialize(deserializer)?;
        Table::from_name(&name).ok_or_else(|| {
            let legal = Table::ALL.map(Table::name).join(", ");
            de::Error::custom(format!("`{name}` is no context table; there are {legal}"))
        })
    }
}

/// The rights of a region. In a file: a list of names (local_read, local_write, remote_read, remote_write, atomic,
/// bind), or a number whose bits 0 to 5 stand for them in that order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// No right but local read, which needs none.
    pub const NONE: Self = Self(0);
    /// All rights.
    pub const ALL: Self = Self((1 << Right::ALL.len()) - 1);

    /// Rights from a number; `None` when a bit above bit 5 is set.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        if number <= Self::ALL.0 { Some(Self(number)) } else { None }
    }

    /// The number of these rights.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// These rights and one more.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | 1 << right as u8)
    }

    /// Whether a right is among them. Local read is always granted.
    #[must_use]
    pub const fn contains(self, right: Right) -> bool {
        matches!(right, Right::LocalRead) || self.0 >> right as u8 & 1 == 1
    }
}

impl Serialize for Rights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_in = |right: &Right| self.0 >> *right as u8 & 1 == 1;
        serializer.collect_seq(Right::ALL.into_iter().filter(is_in).map(Right::name))
    }
}

impl<'de> Deserialize<'de> for Rights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Rights;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names = Right::ALL.map(Right::name).join(", ");
                write!(out, "a list of rights ({names}) or a number from 0 to {}", Rights::ALL.0)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Rights, E> {
                let rights = u8::try_from(value).ok().and_then(Rights::from_number);
                rights.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Rights, E> {
                let unexpected = de::Unexpected::Signed(value);
                let value = u64::try_from(value).map_err(|_| E::invalid_value(unexpected, &self))?;
                self.visit_u64(value)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Rights, A::Error> {
                let mut rights = Rights::NONE;
                while let Some(name) = names.next_element::<String>()? {
                    let right = Right::from_name(&name)
                        .ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&name), &self))?;
                    rights = rights.with(right);
                }
                Ok(rights)
            }
        }
        deserializer.deserialize_any(Form)
    }
}
