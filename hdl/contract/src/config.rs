//! The typed configuration of a generated engine: widths, depths and features fixed at generation time.

use serde::{Deserialize, Serialize};

/// An illegal configuration. Nothing is generated from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A field is outside its range.
    #[error("configuration field `{field}` is {value}, legal is {legal}")]
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The legal range in words.
        legal: String,
    },
}

/// A configuration field, for documents, manifest and checks.
#[derive(Clone, Copy, Debug)]
pub struct ConfigField {
    /// Name as in a configuration file.
    pub name: &'static str,
    /// Smallest legal value.
    pub min: u32,
    /// Largest legal value.
    pub max: u32,
    /// Only powers of two are legal.
    pub power_of_two: bool,
    /// Value of the default configuration.
    pub default: u32,
    /// Meaning and unit.
    pub doc: &'static str,
    /// Reads the field.
    pub get: fn(&Config) -> u32,
}

/// A switch of the configuration, for documents and manifest.
#[derive(Clone, Copy, Debug)]
pub struct ConfigSwitch {
    /// Name as in a configuration file.
    pub name: &'static str,
    /// Value of the default configuration.
    pub default: bool,
    /// Meaning of either value.
    pub doc: &'static str,
    /// Reads the switch.
    pub get: fn(&Config) -> bool,
}

macro_rules! config {
    (
        $($(#[doc = $doc:literal])* $name:ident: $kind:ident $min:literal ..= $max:literal, default $default:literal;)*
        [switches]
        $($(#[doc = $switch_doc:literal])* $switch:ident: default $switch_default:literal;)*
    ) => {
        /// Widths and depths of an engine. Fields that a configuration file leaves out take the default.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Config {
            /// Name of the configuration, for the manifest and file headers.
            pub name: String,
            $($(#[doc = $doc])* pub $name: u32,)*
            $($(#[doc = $switch_doc])* pub $switch: bool,)*
        }

        impl Default for Config {
            fn default() -> Self {
                Self { name: "default".into(), $($name: $default,)* $($switch: $switch_default,)* }
            }
        }

        impl Config {
            /// All numeric fields.
            pub const FIELDS: &[ConfigField] = &[$(ConfigField {
                name: stringify!($name), min: $min, max: $max, power_of_two: config!(@is_power_of_two $kind),
                default: $default, doc: concat!($($doc),*), get: |config| config.$name,
            }),*];

            /// All switches.
            pub const SWITCHES: &[ConfigSwitch] = &[$(ConfigSwitch {
                name: stringify!($switch), default: $switch_default, doc: concat!($($switch_doc),*),
                get: |config| config.$switch,
            }),*];
        }
    };
    (@is_power_of_two any) => { false };
    (@is_power_of_two power_of_two) => { true };
}

config! {
    /// Table sets: independent geometries, BT0 slots and key spaces.
    table_sets: power_of_two 1..=8, default 1;
    /// Bits of a request tag that are kept; the rest reads as zero.
    tag_bits: any 1..=16, default 16;
    /// Bits of the function number that are kept; the rest reads as zero.
    function_bits: any 1..=8, default 8;
    /// Sets of the MPT cache.
    mpt_sets: power_of_two 2..=4096, default 128;
    /// Ways of the MPT cache.
    mpt_ways: power_of_two 1..=8, default 4;
    /// Sets of the TLB.
    tlb_sets: power_of_two 2..=16384, default 1024;
    /// Ways of the TLB.
    tlb_ways: power_of_two 1..=8, default 4;
    /// Sets of the cache of HEM pointers.
    hem_cache_sets: power_of_two 2..=4096, default 128;
    /// Ways of the cache of HEM pointers.
    hem_cache_ways: power_of_two 1..=8, default 4;
    /// Sets of the cache of MTR pointers to leaf tables.
    mtr_lower_sets: power_of_two 2..=4096, default 128;
    /// Ways of the cache of MTR pointers to leaf tables.
    mtr_lower_ways: power_of_two 1..=8, default 4;
    /// Sets of the cache of MTR pointers to middle tables, which a page table of three hops has.
    mtr_upper_sets: power_of_two 2..=4096, default 128;
    /// Ways of the cache of MTR pointers to middle tables.
    mtr_upper_ways: power_of_two 1..=8, default 4;
    /// Buckets of MPT indices with an epoch of their own: invalidating one region spoils what is cached of its bucket.
    epoch_buckets: power_of_two 2..=4096, default 512;
    /// Buckets of responses whose DMA is not reported done. A report is matched exactly while no two responses of a bucket are outstanding.
    done_buckets: power_of_two 2..=65536, default 1024;
    /// HEM lookups of requests in flight, and as many of the context port.
    hem_contexts: power_of_two 2..=256, default 128;
    /// MTR walks in flight.
    walk_contexts: power_of_two 4..=512, default 256;
    /// Line reads in flight on the table port; its ID width is log2 of this, and one more with the command unit.
    reads_in_flight: power_of_two 2..=256, default 128;
    /// Data bits of the table port.
    table_data_bits: power_of_two 128..=512, default 512;
    /// Requests of more than one page in flight.
    split_contexts: power_of_two 2..=256, default 64;
    /// Pages of one request that are held before its response starts; hold mode accepts requests of up to one page (4 KiB) fewer.
    split_pages: power_of_two 4..=1024, default 32;
    /// Single-page responses held for the response port.
    response_depth: power_of_two 16..=4096, default 512;
    /// Events held for the fault port.
    fault_depth: power_of_two 2..=1024, default 16;
    /// BT0 slots per context table.
    bt0_slots: power_of_two 1..=1024, default 1024;
    /// Data bits of the data mover: of its AXI4 port and of its payload streams.
    mover_data_bits: power_of_two 128..=512, default 512;
    /// Longest burst of the data mover in beats. Bursts end at multiples of their longest length, so none crosses 4 KiB.
    mover_burst_beats: power_of_two 2..=64, default 64;
    /// Read bursts of the data mover in flight, and responses whose completion waits to be taken.
    mover_reads_in_flight: power_of_two 4..=256, default 64;
    /// Write bursts of the data mover in flight, and responses whose completion waits to be taken.
    mover_writes_in_flight: power_of_two 4..=256, default 64;
    /// Beats of read data of the data mover that are in flight or wait for their consumer, or twice the longest burst where that is more.
    mover_read_beats: power_of_two 16..=4096, default 512;
    /// Atomics of the data mover in flight, all on different addresses.
    mover_atomics_in_flight: power_of_two 2..=16, default 8;

    [switches]
    /// Whether an invalidation waits for `s_axis_done` of earlier responses. Off: they are the caller's to drain.
    done_tracking: default true;
    /// Whether responses come in the order in which requests were accepted, of all functions together, which includes the order of each function. Off: in any order, told apart by their tags.
    in_order: default false;
    /// Whether the engine has the command unit: mailbox commands, work requests, and write channels on the table port. Off: software keeps the tables and sets base addresses through registers.
    command_unit: default false;
}

/// log2 of a power of two.
const fn log2(value: u32) -> u32 {
    value.trailing_zeros()
}

impl Config {
    /// Checks every field against its legal range.
    ///
    /// # Errors
    /// The first field, in order of declaration, that is illegal, with its value and what is legal.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for field in Self::FIELDS {
            let value = (field.get)(self);
            if value < field.min || value > field.max || (field.power_of_two && !value.is_power_of_two()) {
                let kind = if field.power_of_two { "a power of two in " } else { "" };
                return Err(ConfigError::OutOfRange {
                    field: field.name,
                    value: u64::from(value),
                    legal: format!("{kind}{}..={}", field.min, field.max),
                });
            }
        }
        Ok(())
    }

    /// Bits of a table-set number; 1 where there is one set, so that the signal exists.
    #[must_use]
    pub const fn table_set_bits(&self) -> u32 {
        if self.table_sets > 1 { log2(self.table_sets) } else { 1 }
    }

    /// Bits of an MPT cache set number.
    #[must_use]
    pub const fn mpt_set_bits(&self) -> u32 {
        log2(self.mpt_sets)
    }

    /// Bits of a TLB set number.
    #[must_use]
    pub const fn tlb_set_bits(&self) -> u32 {
        log2(self.tlb_sets)
    }

    /// Bits of an epoch bucket number.
    #[must_use]
    pub const fn epoch_bucket_bits(&self) -> u32 {
        log2(self.epoch_buckets)
    }

    /// HEM lookups of the context port in flight.
    #[must_use]
    pub const fn hem_lookups(&self) -> u32 {
        if self.hem_contexts < 4 { 4 } else { self.hem_contexts }
    }

    /// Bits of a HEM context number: those of requests and those of the context port are of one kind.
    #[must_use]
    pub const fn hem_context_bits(&self) -> u32 {
        log2(self.hem_lookups()) + 1
    }

    /// Bits of an MTR walk context number.
    #[must_use]
    pub const fn walk_context_bits(&self) -> u32 {
        log2(self.walk_contexts)
    }

    /// Bits of a read number of the core.
    #[must_use]
    pub const fn read_bits(&self) -> u32 {
        log2(self.reads_in_flight)
    }

    /// Bits of the table port's IDs: a read number, and above it, where there is a command unit, 1 for its reads and writes.
    #[must_use]
    pub const fn table_id_bits(&self) -> u32 {
        self.read_bits() + self.command_unit as u32
    }

    /// Beats of a 64-byte line read.
    #[must_use]
    pub const fn beats_per_line(&self) -> u32 {
        512 / self.table_data_bits
    }

    /// Bits of a split context number.
    #[must_use]
    pub const fn split_context_bits(&self) -> u32 {
        log2(self.split_contexts)
    }

    /// Requests between admission and page split: those whose MPT entry is being fetched and those that wait for the split.
    #[must_use]
    pub const fn admitted_max(&self) -> u32 {
        let wanted = 2 * self.hem_contexts;
        if wanted < 16 { 16 } else { wanted }
    }

    /// Bits of the order number of a request; 1 where responses come in any order, so that the signal exists.
    #[must_use]
    pub const fn order_bits(&self) -> u32 {
        if self.in_order { log2(self.admitted_max()) } else { 1 }
    }

    /// MTR walks of the context port in flight.
    #[must_use]
    pub const fn context_walks(&self) -> u32 {
        if self.walk_contexts < 32 { self.walk_contexts / 2 } else { 16 }
    }

    /// MTR walks of requests in flight.
    #[must_use]
    pub const fn request_walks(&self) -> u32 {
        self.walk_contexts - self.context_walks()
    }

    /// Bits of a page slot within a split context.
    #[must_use]
    pub const fn split_page_bits(&self) -> u32 {
        log2(self.split_pages)
    }

    /// Bits of a BT0 slot number; 1 where there is one slot.
    #[must_use]
    pub const fn bt0_slot_bits(&self) -> u32 {
        if self.bt0_slots > 1 { log2(self.bt0_slots) } else { 1 }
    }

    /// Lanes of 128 bits in a beat of the data mover.
    #[must_use]
    pub const fn mover_lanes(&self) -> u32 {
        self.mover_data_bits / 128
    }

    /// Bytes of a beat of the data mover.
    #[must_use]
    pub const fn mover_beat_bytes(&self) -> u32 {
        self.mover_data_bits / 8
    }

    /// Bits of a byte number within a beat of the data mover.
    #[must_use]
    pub const fn mover_byte_bits(&self) -> u32 {
        log2(self.mover_beat_bytes())
    }

    /// Bits of a beat number within a burst of the data mover.
    #[must_use]
    pub const fn mover_burst_bits(&self) -> u32 {
        log2(self.mover_burst_beats)
    }

    /// Beats of read data that the data mover has room for.
    #[must_use]
    pub const fn mover_read_depth(&self) -> u32 {
        let wanted = 2 * self.mover_burst_beats;
        if wanted < self.mover_read_beats { self.mover_read_beats } else { wanted }
    }

    /// Beats of writes that the data mover gathers before their bursts begin.
    #[must_use]
    pub const fn mover_write_depth(&self) -> u32 {
        let wanted = 2 * self.mover_burst_beats;
        if wanted < 16 { 16 } else { wanted }
    }

    /// Longest request in bytes that hold mode accepts: whatever its alignment, it touches at most `split_pages` pages.
    #[must_use]
    pub const fn hold_bytes_max(&self) -> u32 {
        (self.split_pages - 1) * 4096
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_legal_and_every_default_is_in_range() {
        Config::default().validate().unwrap();
    }

    #[test]
    fn an_illegal_field_is_named_with_value_and_range() {
        let config = Config { tlb_ways: 3, ..Config::default() };
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "configuration field `tlb_ways` is 3, legal is a power of two in 1..=8"
        );
        let config = Config { tag_bits: 17, ..Config::default() };
        assert_eq!(config.validate().unwrap_err().to_string(), "configuration field `tag_bits` is 17, legal is 1..=16");
    }
}
