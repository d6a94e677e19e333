//! Configuration files: TOML or JSON, one table of the fields of [`Config`]. Every refusal names the field, its value,
//! what is legal, and the line.

use keywalk_contract::Config;
use keywalk_contract::config::{ConfigError, ConfigField, ConfigSwitch};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use std::path::{Path, PathBuf};

/// Longest name of a configuration.
const NAME_LENGTH_MAX: usize = 64;
/// What a name may be, in words.
pub const NAME_LEGAL: &str = "1 to 64 letters, digits, `_`, `-` or `.`";
/// Name of the field that is text.
const NAME: &str = "name";

/// A name that cannot stand in the header of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("configuration field `name` is {0:?}, legal is {NAME_LEGAL}")]
pub struct NameError(String);

/// Checks the name of a configuration, which is printed into comments.
///
/// # Errors
/// A name that is empty, longer than 64 characters, or has others than ASCII letters, digits, `_`, `-` and `.`.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let fits = (1..=NAME_LENGTH_MAX).contains(&name.len());
    if fits && name.chars().all(is_legal) { Ok(()) } else { Err(NameError(name.to_owned())) }
}

/// What a numeric field may be, in words.
#[must_use]
pub fn legal(field: &ConfigField) -> String {
    let kind = if field.power_of_two { "a power of two in " } else { "" };
    format!("{kind}{}..={}", field.min, field.max)
}

/// What a switch may be, in words.
pub const SWITCH_LEGAL: &str = "true or false";

/// Language of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML, extension `toml`.
    Toml,
    /// JSON, extension `json`.
    Json,
}

/// Why a configuration file was refused.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read configuration file `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The extension names no known language.
    #[error("configuration file `{}` has an unknown extension, legal are `.toml` and `.json`", path.display())]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// The content is illegal.
    #[error("configuration file `{}`: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
}

/// Reads and checks a configuration file; its extension tells the language.
///
/// # Errors
/// A file that cannot be read, and everything that [`parse`] refuses.
pub fn load(path: &Path) -> Result<Config, LoadError> {
    let path = path.to_owned();
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => Format::Toml,
        Some("json") => Format::Json,
        _ => return Err(LoadError::Extension { path }),
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => return Err(LoadError::Read { path, error }),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(LoadError::Content { path, message: "is not text in UTF-8".into() });
    };
    parse(&text, format).map_err(|message| LoadError::Content { path, message })
}

/// Reads and checks the text of a configuration file.
///
/// # Errors
/// What is wrong, with the line: a syntax error, an unknown or repeated field, a value of the wrong type or outside of
/// the field's range.
pub fn parse(text: &str, format: Format) -> Result<Config, String> {
    let Fields(fields) = match format {
        Format::Toml => {
            toml::from_str(text).map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?
        }
        Format::Json => serde_json::from_str(text).map_err(|error| error.to_string())?,
    };
    let config: Config = serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
    config.validate().map_err(|error: ConfigError| error.to_string())?;
    Ok(config)
}

/// The fields of a file, each checked by itself while its place in the file is known.
struct Fields(Map<String, Value>);

impl<'de> de::Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a table of configuration fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Map::new();
        while let Some(kind) = map.next_key_seed(KeySeed)? {
            let value = map.next_value_seed(kind)?;
            if fields.insert(kind.name().to_owned(), value).is_some() {
                return Err(de::Error::custom(format!("configuration field `{}` is given twice", kind.name())));
            }
        }
        Ok(Fields(fields))
    }
}

/// Reads a name of a field.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Kind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Kind;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("the name of a configuration field")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Kind, E> {
        let number = Config::FIELDS.iter().find(|field| field.name == name).map(Kind::Number);
        let switch = Config::SWITCHES.iter().find(|switch| switch.name == name).map(Kind::Switch);
        match name {
            NAME => Ok(Kind::Name),
            _ => number.or(switch).ok_or_else(|| {
                let numbers = Config::FIELDS.iter().map(|field| field.name);
                let switches = Config::SWITCHES.iter().map(|switch| switch.name);
                let names: Vec<&str> = [NAME].into_iter().chain(numbers).chain(switches).collect();
                E::custom(format!("unknown configuration field {name:?}, legal are {}", names.join(", ")))
            }),
        }
    }
}

/// A field, and the reader of its value.
#[derive(Clone, Copy)]
enum Kind {
    Name,
    Number(&'static ConfigField),
    Switch(&'static ConfigSwitch),
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Name => NAME,
            Self::Number(field) => field.name,
            Self::Switch(switch) => switch.name,
        }
    }

    fn refuse<T, E: de::Error>(self, value: impl fmt::Display) -> Result<T, E> {
        let legal = match self {
            Self::Name => NAME_LEGAL.into(),
            Self::Number(field) => legal(field),
            Self::Switch(_) => SWITCH_LEGAL.into(),
        };
        Err(E::custom(format!("configuration field `{}` is {value}, legal is {legal}", self.name())))
    }
}

impl<'de> DeserializeSeed<'de> for Kind {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Kind {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "a value for configuration field `{}`", self.name())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        match self {
            Self::Number(field)
                if (u64::from(field.min)..=u64::from(field.max)).contains(&value)
                    && (!field.power_of_two || value.is_power_of_two()) =>
            {
                Ok(value.into())
            }
            _ => self.refuse(value),
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        u64::try_from(value).map_or_else(|_| self.refuse(value), |value| self.visit_u64(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        self.refuse(value)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        if matches!(self, Self::Switch(_)) { Ok(value.into()) } else { self.refuse(value) }
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        match self {
            Self::Name if check_name(value).is_ok() => Ok(value.into()),
            _ => self.refuse(format!("{value:?}")),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        self.refuse("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        self.refuse("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        self.refuse("a table")
    }
}
