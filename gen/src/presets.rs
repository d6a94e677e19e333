//! The named configurations that come with the generator.

use crate::config_file::{self, Format};
use keywalk_contract::Config;

/// A named configuration.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name, also the name of its configuration.
    pub name: &'static str,
    /// Text of its TOML file.
    pub text: &'static str,
}

/// All presets, the default first.
pub const PRESETS: [Preset; 6] = [
    Preset { name: "default", text: include_str!("../presets/default.toml") },
    Preset { name: "small", text: include_str!("../presets/small.toml") },
    Preset { name: "large", text: include_str!("../presets/large.toml") },
    Preset { name: "narrow", text: include_str!("../presets/narrow.toml") },
    Preset { name: "card", text: include_str!("../presets/card.toml") },
    Preset { name: "small_card", text: include_str!("../presets/small_card.toml") },
];

impl Preset {
    /// What the preset is for: the first line of its file.
    #[must_use]
    pub fn doc(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
    }

    /// The configuration.
    ///
    /// # Panics
    /// Never: a test reads every preset.
    #[must_use]
    pub fn config(&self) -> Config {
        config_file::parse(self.text, Format::Toml).expect("presets are legal")
    }
}

/// The preset of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
