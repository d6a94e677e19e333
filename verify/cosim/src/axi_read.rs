//! The read channels of an AXI4 master, and the rules that they must keep.

use crate::bench::Component;
use crate::channel::{Activity, Channel, Stability, check_low_in_reset};
use crate::error::{Error, Rule, violation};
use crate::model::{Model, Signal};

/// Bytes of a line: every read of the engine is one line.
pub(crate) const LINE_BYTES: u64 = 64;
/// AXI burst type INCR.
pub(crate) const BURST_INCREMENTING: u64 = 1;
/// Cycles for which read data may wait for ready, unless said otherwise.
const DATA_WAIT_LIMIT_CYCLES: u64 = 10_000;
/// Largest width of an ID in bits: reads in flight are kept in a table by ID.
const ID_BITS_MAX: u32 = 16;

/// The AR and R channels of an AXI4 master. A burst's length, size, type and last may be left out: then every burst is
/// one line.
#[derive(Clone, Debug)]
pub struct ReadPort {
    pub(crate) address_channel: Channel,
    pub(crate) data_channel: Channel,
    pub(crate) address_id: Signal,
    pub(crate) address: Signal,
    pub(crate) length: Option<Signal>,
    size: Option<Signal>,
    burst: Option<Signal>,
    pub(crate) data_id: Signal,
    /// Names of the data fields, least significant first.
    pub(crate) data_fields: Vec<String>,
    pub(crate) data_width: u32,
    last: Option<Signal>,
}

impl ReadPort {
    /// The port with AXI's names: `<name>_araddr`, `<name>_rdata` and so on.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`], [`Error::NoSuchField`], [`Error::PortWidth`].
    pub fn axi(model: &Model, name: &str) -> Result<Self, Error> {
        let address_channel = Channel::with_prefix(model, &format!("{name}_ar"))?;
        let data_channel = Channel::with_prefix(model, &format!("{name}_r"))?;
        Self::of_channels(name, address_channel, data_channel)
    }

    /// The port of two channels. Fields of `address_channel`: `id`, `addr` or `address`, and perhaps `len`, `size`,
    /// `burst`. Fields of `data_channel`: `id`, `data` or lanes `data_0`, `data_1` and so on, `resp`, and perhaps
    /// `last`.
    ///
    /// # Errors
    /// [`Error::NoSuchField`], and [`Error::PortWidth`] of data that does not divide a line.
    pub fn of_channels(name: &str, address_channel: Channel, data_channel: Channel) -> Result<Self, Error> {
        let mut lanes: Vec<(u32, String)> = Vec::new();
        let mut data_width = 0;
        for field in data_channel.shape().fields() {
            let lane = if field.name == "data" {
                Some(0)
            } else {
                field.name.strip_prefix("data_").and_then(|number| number.parse().ok())
            };
            if let Some(lane) = lane {
                lanes.push((lane, field.name.clone()));
                data_width += field.width;
            }
        }
        lanes.sort();
        if !data_width.is_power_of_two() || !(32..=512).contains(&data_width) {
            let legal = "a power of two from 32 to 512";
            return Err(Error::PortWidth { port: format!("{name} data"), width: data_width, legal });
        }
        let address_id = address_channel.signal("id")?;
        if address_id.width() > ID_BITS_MAX {
            let port = format!("{name} id");
            return Err(Error::PortWidth { port, width: address_id.width(), legal: "at most 16" });
        }
        Ok(Self {
            address_id,
            address: address_channel.signal("addr").or_else(|_| address_channel.signal("address"))?,
            length: address_channel.signal("len").ok(),
            size: address_channel.signal("size").ok(),
            burst: address_channel.signal("burst").ok(),
            data_id: data_channel.signal("id")?,
            data_fields: lanes.into_iter().map(|(_, name)| name).collect(),
            data_width,
            last: data_channel.signal("last").ok(),
            address_channel,
            data_channel,
        })
    }

    /// Bytes of a beat.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.data_width / 8)
    }

    /// Beats of the burst on the address channel.
    pub(crate) fn beats(&self, model: &Model) -> u64 {
        self.length.map_or(LINE_BYTES / self.data_bytes(), |length| model.get(length) + 1)
    }
}

/// Checks on every cycle that an AXI4 master reads by the rules: valid held and payload stable, bursts legal (one
/// aligned 64-byte line, of type INCR, of the bus's width, not across 4 KiB), no ID used twice at a time, read data
/// taken in the end; and that the memory answers by the rules.
#[derive(Debug)]
pub struct ReadRules {
    port: ReadPort,
    address_stability: Stability,
    data_stability: Stability,
    /// Beats that are still to come, by ID.
    remaining_beats: Vec<u64>,
    data_wait_limit_cycles: u64,
}

impl ReadRules {
    /// Rules of a port, nothing in flight.
    #[must_use]
    pub fn new(port: ReadPort) -> Self {
        Self {
            remaining_beats: vec![0; 1 << port.address_id.width()],
            port,
            address_stability: Stability::default(),
            data_stability: Stability::default(),
            data_wait_limit_cycles: DATA_WAIT_LIMIT_CYCLES,
        }
    }

    /// Changes for how long read data may wait for ready.
    pub fn set_data_wait_limit_cycles(&mut self, limit_cycles: u64) {
        self.data_wait_limit_cycles = limit_cycles;
    }

    fn check_burst(&self, model: &Model) -> Result<(), Error> {
        let port = &self.port;
        let fail = |rule, expected: String, found: String| {
            Err(violation(rule, port.address_channel.shape().name(), model.cycles(), expected, found))
        };
        let address = model.get(port.address);
        let id = model.get(port.address_id);
        let bytes = port.beats(model) * port.data_bytes();
        if let Some(burst) = port.burst
            && model.get(burst) != BURST_INCREMENTING
        {
            return fail(Rule::BurstType, "burst 1".into(), format!("burst {}", model.get(burst)));
        }
        let size_expected = u64::from(port.data_bytes().ilog2());
        if let Some(size) = port.size
            && model.get(size) != size_expected
        {
            return fail(Rule::BurstSize, format!("size {size_expected}"), format!("size {}", model.get(size)));
        }
        if address % 4096 + bytes > 4096 {
            let found = format!("{bytes} bytes at {address:#x}");
            return fail(Rule::BurstWithin4KiB, "all bytes in one 4 KiB page".into(), found);
        }
        if bytes != LINE_BYTES {
            return fail(Rule::BurstLength, format!("{LINE_BYTES} bytes"), format!("{bytes} bytes at {address:#x}"));
        }
        if !address.is_multiple_of(LINE_BYTES) {
            return fail(Rule::BurstAligned, format!("a multiple of {LINE_BYTES}"), format!("address {address:#x}"));
        }
        if self.remaining_beats[id as usize] != 0 {
            return fail(Rule::IdNotInUse, format!("ID {id:#x} is in flight"), format!("a read of {address:#x}"));
        }
        Ok(())
    }

    fn sample_address(&mut self, model: &Model) -> Result<(), Error> {
        let activity = self.address_stability.sample(&self.port.address_channel, model, false)?;
        if let Activity::Transfer { .. } = activity {
            self.check_burst(model)?;
            self.remaining_beats[model.get(self.port.address_id) as usize] = self.port.beats(model);
        }
        Ok(())
    }

    fn sample_data(&mut self, model: &Model) -> Result<(), Error> {
        let port = &self.port;
        match self.data_stability.sample(&port.data_channel, model, false)? {
            Activity::Idle => Ok(()),
            Activity::Waiting { since_cycle } => {
                if model.cycles() - since_cycle >= self.data_wait_limit_cycles {
                    let limit = format!("within {} cycles", self.data_wait_limit_cycles);
                    let name = port.data_channel.shape().name();
                    return Err(violation(Rule::ReadDataTaken, name, model.cycles(), limit, "still not ready"));
                }
                Ok(())
            }
            Activity::Transfer { .. } => {
                let id = model.get(port.data_id);
                let remaining = &mut self.remaining_beats[id as usize];
                let fail = |rule, expected: &str, found: String| {
                    Err(violation(rule, port.data_channel.shape().name(), model.cycles(), expected, found))
                };
                if *remaining == 0 {
                    return fail(Rule::AnswersARequest, "an ID in flight", format!("data for ID {id:#x}"));
                }
                let is_last = port.last.map_or(*remaining == 1, |last| model.get(last) != 0);
                if is_last != (*remaining == 1) {
                    let found = format!("ID {id:#x}: last {}, beats to come {remaining}", u64::from(is_last));
                    return fail(Rule::LastBeat, "last on the last beat only", found);
                }
                *remaining -= 1;
                Ok(())
            }
        }
    }
}

impl Component for ReadRules {
    fn drive(&mut self, _model: &mut Model) {}

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        // Data first: it cannot answer a read whose address is transferred in the same cycle, and an ID is free again
        // with its last beat.
        self.sample_data(model)?;
        self.sample_address(model)
    }

    fn reset(&mut self, _model: &mut Model) {
        self.address_stability.reset();
        self.data_stability.reset();
        self.remaining_beats.fill(0);
    }

    fn check_in_reset(&self, model: &Model) -> Result<(), Error> {
        check_low_in_reset(&self.port.address_channel, model)
    }
}
