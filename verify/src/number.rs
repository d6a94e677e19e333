//! Values of vector files that need their own reading: hexadecimal strings, names, BT0 slots.

use std::fmt;

use keywalk_contract::{Operation, Table};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::vector::Walker;

/// A number of 64 bits, in the file a string such as `"0x7f00"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex(pub u64);

/// A number of 32 bits, in the file a string such as `"0x7f00"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex32(pub u32);

/// The number in a string such as `0x7f00`.
pub(crate) fn parse_hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_plain { u64::from_str_radix(digits, 16).ok() } else { None }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let legal = "a string \"0x..\" of at most 64 bits";
        parse_hex(&text).map(Self).ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&text), &legal))
    }
}

impl<'de> Deserialize<'de> for Hex32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let legal = "a string \"0x..\" of at most 32 bits";
        let number = parse_hex(&text).and_then(|number| u32::try_from(number).ok());
        number.map(Self).ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&text), &legal))
    }
}

/// Bytes, in the file a string of pairs of hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HexBytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        let legal = "a string of pairs of hexadecimal digits";
        let bytes = bytes.filter(|_| rest.is_empty());
        bytes.map(Self).ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&text), &legal))
    }
}

/// BT0 slots and their bases, in order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots(pub Vec<(u32, u64)>);

impl<'de> Deserialize<'de> for Slots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Slots;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of slot numbers and addresses")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Slots, A::Error> {
                let mut slots = std::collections::BTreeMap::new();
                while let Some((name, base)) = map.next_entry::<String, Hex>()? {
                    let slot = name
                        .parse::<u32>()
                        .map_err(|_| de::Error::invalid_value(de::Unexpected::Str(&name), &"a slot number"))?;
                    if slots.insert(slot, base.0).is_some() {
                        return Err(de::Error::custom(format!("slot {slot} is there twice")));
                    }
                }
                Ok(Slots(slots.into_iter().collect()))
            }
        }
        deserializer.deserialize_map(Form)
    }
}

/// An operation by its name.
pub(crate) fn operation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Operation, D::Error> {
    let name = String::deserialize(deserializer)?;
    let legal = || Operation::ALL.map(Operation::name).join(", ");
    Operation::from_name(&name)
        .ok_or_else(|| de::Error::custom(format!("`{name}` is no operation; there are {}", legal())))
}

/// A context table by its name.
pub(crate) fn table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Table, D::Error> {
    let name = String::deserialize(deserializer)?;
    let legal = || Table::ALL.map(Table::name).join(", ");
    Table::from_name(&name).ok_or_else(|| de::Error::custom(format!("`{name}` is no table; there are {}", legal())))
}

/// Something by its name; `all` are those that there are.
pub(crate) fn by_name<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    what: &str,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    let legal = || all.iter().map(|value| name_of(*value)).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|value| name_of(*value) == name);
    found.ok_or_else(|| de::Error::custom(format!("`{name}` is no {what}; there are {}", legal())))
}

impl<'de> Deserialize<'de> for Walker {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let unmapped = text.strip_prefix("unmapped ").and_then(|rest| rest.strip_suffix("+8"));
        let walker = match unmapped {
            Some(address) => parse_hex(address).map(Self::Unmapped),
            None => parse_hex(&text).map(Self::Address),
        };
        let legal = "\"0x..\" or \"unmapped 0x..+8\"";
        walker.ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(&text), &legal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_numbers_are_strict() {
        assert_eq!(parse_hex("0xffffffffffffffff"), Some(u64::MAX));
        for text in ["ff", "0x", "0x+1", "0x10000000000000000", "0xg", " 0x1", "-0x1", "0X1"] {
            assert_eq!(parse_hex(text), None, "{text}");
        }
    }
}
