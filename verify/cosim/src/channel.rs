//! Groups of ports with a handshake: the channels of AXI, AXI4-Stream and the blocks' own streams.

use std::fmt;
use std::sync::Arc;

use keywalk_contract::Layout;
use rand::Rng;

use crate::bits;
use crate::dut::PortDirection;
use crate::error::{Error, Rule, violation};
use crate::model::{Input, Model, Signal};

/// A field of a channel's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Position of its least significant bit in a [`Beat`].
    pub low: u32,
    /// Width in bits, 1 and more.
    pub width: u32,
}

/// Name and fields of a channel.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    name: String,
    fields: Vec<Field>,
    width: u32,
}

impl Shape {
    /// Name of the channel: the common prefix of its ports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fields, least significant first: those of the layout, or the payload ports in order of name.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Width of the payload in bits.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The field of that name.
    ///
    /// # Errors
    /// [`Error::NoSuchField`] with the names there are.
    pub fn field(&self, name: &str) -> Result<&Field, Error> {
        self.fields.iter().find(|field| field.name == name).ok_or_else(|| Error::NoSuchField {
            channel: self.name.clone(),
            field: name.into(),
            known: self.fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}

/// One payload of a channel.
#[derive(Clone, PartialEq, Eq)]
pub struct Beat {
    shape: Arc<Shape>,
    words: Vec<u32>,
}

impl Beat {
    /// A beat of zeros.
    #[must_use]
    pub fn zero(shape: &Arc<Shape>) -> Self {
        Self { shape: Arc::clone(shape), words: vec![0; bits::words(shape.width)] }
    }

    /// A beat with some fields set, the others zero.
    ///
    /// # Errors
    /// [`Error::NoSuchField`], [`Error::ValueTooWide`].
    pub fn with(shape: &Arc<Shape>, values: &[(&str, u128)]) -> Result<Self, Error> {
        let mut beat = Self::zero(shape);
        for (name, value) in values {
            beat.set(name, *value)?;
        }
        Ok(beat)
    }

    /// A beat with some fields set, the others random.
    ///
    /// # Errors
    /// [`Error::NoSuchField`], [`Error::ValueTooWide`].
    pub fn random_with(shape: &Arc<Shape>, values: &[(&str, u128)], random: &mut impl Rng) -> Result<Self, Error> {
        let mut beat = Self::zero(shape);
        bits::randomise(&mut beat.words, shape.width, random);
        for (name, value) in values {
            beat.set(name, *value)?;
        }
        Ok(beat)
    }

    /// The channel's shape.
    #[must_use]
    pub fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// Value of a field; of one wider than 128 bits its low 128 bits.
    ///
    /// # Errors
    /// [`Error::NoSuchField`].
    pub fn get(&self, name: &str) -> Result<u128, Error> {
        let field = self.shape.field(name)?;
        Ok(bits::get_wide(&self.words, field.low, field.width.min(128)))
    }

    /// Sets a field; the bits above 128 of a wider one become zero.
    ///
    /// # Errors
    /// [`Error::NoSuchField`], [`Error::ValueTooWide`].
    pub fn set(&mut self, name: &str, value: u128) -> Result<(), Error> {
        let field = self.shape.field(name)?;
        if field.width < 128 && value >> field.width != 0 {
            let what = format!("field `{name}` of channel `{}`", self.shape.name);
            return Err(Error::ValueTooWide { what, width: field.width, value });
        }
        let (low, width) = (field.low, field.width);
        bits::set_wide(&mut self.words, low, width.min(128), value);
        for position in (128..width).step_by(32) {
            bits::set(&mut self.words, low + position, (width - position).min(32), 0);
        }
        Ok(())
    }

    /// The payload in words, least significant first. Read and write fields of the contract in it with
    /// [`bits::get`] and [`bits::set`].
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The payload in words, to be written. Bits beyond the width are dropped when the beat is driven.
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }
}

impl fmt::Debug for Beat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&describe(&self.shape, &self.words))
    }
}

/// The fields and their values.
fn describe(shape: &Shape, words: &[u32]) -> String {
    let value = |field: &Field| {
        let mut value = vec![0; bits::words(field.width)];
        for (position, word) in value.iter_mut().enumerate() {
            let done = 32 * position as u32;
            *word = bits::get(words, field.low + done, (field.width - done).min(32)) as u32;
        }
        format!("{} {}", field.name, bits::hex(&value))
    };
    let fields: Vec<_> = shape.fields.iter().map(value).collect();
    format!("{{{}}}", fields.join(", "))
}

/// Ports with a common prefix: `<prefix>valid`, perhaps `<prefix>ready`, and the payload.
#[derive(Clone, Debug)]
pub struct Channel {
    shape: Arc<Shape>,
    valid: Signal,
    ready: Option<Signal>,
    valid_input: Option<Input>,
    ready_input: Option<Input>,
    /// Payload ports with their position in a beat.
    payload: Vec<(Signal, Option<Input>, u32)>,
}

impl Channel {
    /// The channel of all ports that begin with `prefix` and have the direction of `<prefix>valid`. A port that belongs
    /// to a channel with a longer prefix, which has valid and ready as well, is left out.
    ///
    /// # Errors
    /// [`Error::NoSuchPort`] where there is no `<prefix>valid`, or a `ready` of the same direction.
    pub fn with_prefix(model: &Model, prefix: &str) -> Result<Self, Error> {
        let dut = model.dut();
        let valid_name = format!("{prefix}valid");
        let ready_name = format!("{prefix}ready");
        let valid = model.signal(&valid_name)?;
        let is_input = model.input(&valid_name).is_ok();
        let direction = if is_input { PortDirection::Input } else { PortDirection::Output };
        let ready = match dut.port(&ready_name) {
            None => None,
            Some(_) if is_input => Some(model.output(&ready_name)?.into()),
            Some(_) => Some(model.input(&ready_name)?.into()),
        };
        let longer_prefixes: Vec<_> = dut
            .ports
            .iter()
            .filter_map(|port| port.name.strip_suffix("valid"))
            .filter(|other| other.len() > prefix.len() && other.starts_with(prefix))
            .filter(|other| dut.port(&format!("{other}ready")).is_some())
            .collect();
        let mut fields = Vec::new();
        let mut payload = Vec::new();
        let mut low = 0;
        for port in dut.ports {
            let Some(field) = port.name.strip_prefix(prefix) else { continue };
            let is_other = longer_prefixes.iter().any(|longer| port.name.starts_with(longer));
            if port.direction != direction || field == "valid" || is_other {
                continue;
            }
            payload.push((model.signal(port.name)?, model.input(port.name).ok(), low));
            fields.push(Field { name: field.into(), low, width: port.width });
            low += port.width;
        }
        let shape = Shape { name: prefix.trim_end_matches('_').into(), fields, width: low };
        Ok(Self {
            shape: Arc::new(shape),
            valid,
            ready,
            valid_input: model.input(&valid_name).ok(),
            ready_input: model.input(&ready_name).ok(),
            payload,
        })
    }

    /// The stream of a block: ports `<name>_valid`, `<name>_ready`, `<name>_<field>`.
    ///
    /// # Errors
    /// As [`with_prefix`](Self::with_prefix).
    pub fn block(model: &Model, name: &str) -> Result<Self, Error> {
        Self::with_prefix(model, &format!("{name}_"))
    }

    /// An AXI4-Stream port: `<name>_tvalid`, `<name>_tready`, `<name>_tdata`, whose fields `layout` names.
    ///
    /// # Errors
    /// As [`with_prefix`](Self::with_prefix), and [`Error::PortWidth`] where the port has other bits than the layout.
    pub fn axi_stream(model: &Model, name: &str, layout: &Layout) -> Result<Self, Error> {
        let mut channel = Self::with_prefix(model, &format!("{name}_t"))?;
        if channel.shape.width != layout.bytes * 8 {
            return Err(Error::PortWidth {
                port: format!("{name}_tdata"),
                width: channel.shape.width,
                legal: "the width of the contract's layout",
            });
        }
        let field =
            |field: &keywalk_contract::Field| Field { name: field.name.into(), low: field.low, width: field.width };
        let fields = layout.fields.iter().map(field).collect();
        channel.shape = Arc::new(Shape { name: name.into(), fields, width: channel.shape.width });
        Ok(channel)
    }

    /// Name and fields.
    #[must_use]
    pub fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The valid port.
    #[must_use]
    pub fn valid(&self) -> Signal {
        self.valid
    }

    /// The ready port, where there is one.
    #[must_use]
    pub fn ready(&self) -> Option<Signal> {
        self.ready
    }

    /// Port of a payload field. The port of a field of an AXI4-Stream is TDATA.
    ///
    /// # Errors
    /// [`Error::NoSuchField`].
    pub fn signal(&self, field: &str) -> Result<Signal, Error> {
        let low = self.shape.field(field)?.low;
        let ports = self.payload.iter().rev();
        let mut before = ports.skip_while(|(_, _, start)| *start > low);
        Ok(before.next().map_or(self.valid, |(signal, _, _)| *signal))
    }

    /// Port of a payload field, to be driven.
    pub(crate) fn input(&self, model: &Model, field: &str) -> Result<Input, Error> {
        let port = self.signal(field)?;
        let found = self.payload.iter().find(|(signal, _, _)| *signal == port).and_then(|(_, input, _)| *input);
        found.ok_or_else(|| Error::NoSuchPort {
            dut: model.dut().name,
            wanted: "input",
            port: format!("{} {field}", self.shape.name),
            known: "outputs only, in this channel".into(),
        })
    }

    /// Whether valid is high after the last [`settle`](Model::settle).
    #[must_use]
    #[inline]
    pub fn is_valid(&self, model: &Model) -> bool {
        model.get(self.valid) != 0
    }

    /// Whether ready is high after the last [`settle`](Model::settle); without a ready port it always is.
    #[must_use]
    #[inline]
    pub fn is_ready(&self, model: &Model) -> bool {
        self.ready.is_none_or(|ready| model.get(ready) != 0)
    }

    /// Drives valid, where the bench is the source.
    #[inline]
    pub(crate) fn set_valid(&self, model: &mut Model, value: bool) {
        if let Some(valid) = self.valid_input {
            model.set(valid, u64::from(value));
        }
    }

    /// Drives ready, where the bench is the sink.
    #[inline]
    pub(crate) fn set_ready(&self, model: &mut Model, value: bool) {
        if let Some(ready) = self.ready_input {
            model.set(ready, u64::from(value));
        }
    }

    /// Drives the payload, where the bench is the source. `scratch` is any buffer.
    pub(crate) fn set_payload(&self, model: &mut Model, words: &[u32], scratch: &mut Vec<u32>) {
        if let [(_, Some(input), _)] = self.payload[..] {
            return model.set_words(input, words);
        }
        for (signal, input, low) in &self.payload {
            let Some(input) = input else { continue };
            if signal.width() <= 64 {
                model.set(*input, bits::get(words, *low, signal.width()));
            } else {
                scratch.clear();
                let piece = |done: u32| bits::get(words, low + done, (signal.width() - done).min(32)) as u32;
                scratch.extend((0..signal.width()).step_by(32).map(piece));
                model.set_words(*input, scratch);
            }
        }
    }

    /// Reads the payload into `words`, which is resized as needed.
    pub(crate) fn payload_into(&self, model: &Model, words: &mut Vec<u32>) {
        words.resize(bits::words(self.shape.width), 0);
        for (signal, _, low) in &self.payload {
            model.get_words(*signal, words, *low);
        }
    }

    /// The payload on the ports.
    #[must_use]
    pub fn payload(&self, model: &Model) -> Beat {
        let mut words = Vec::new();
        self.payload_into(model, &mut words);
        Beat { shape: Arc::clone(&self.shape), words }
    }
}

/// Watches that a channel keeps valid and payload until the transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stability {
    /// First cycle of the payload that waits, where one does.
    waiting_since_cycle: Option<u64>,
    words: Vec<u32>,
    before: Vec<u32>,
    /// Bit of the payload that says that fields mean nothing, and their positions and widths.
    meaningless: Option<(u32, Vec<(u32, u32)>)>,
}

/// What happened on a channel in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Valid is low.
    Idle,
    /// Valid without ready, since the given cycle.
    Waiting { since_cycle: u64 },
    /// A payload is transferred that was offered first in the given cycle.
    Transfer { since_cycle: u64 },
}

impl Stability {
    /// Looks at the channel, after [`settle`](Model::settle), once per cycle. The payload of a transfer without a wait
    /// is read only where it is wanted.
    #[inline]
    pub fn sample(&mut self, channel: &Channel, model: &Model, wants_payload: bool) -> Result<Activity, Error> {
        let is_valid = channel.is_valid(model);
        if !is_valid && self.waiting_since_cycle.is_none() {
            return Ok(Activity::Idle);
        }
        let cycle = model.cycles();
        if !is_valid {
            return Err(violation(
                Rule::ValidHeld,
                &channel.shape.name,
                cycle,
                format!("valid without ready, {}", describe(&channel.shape, &self.before)),
                "valid is low",
            ));
        }
        let is_ready = channel.is_ready(model);
        if self.waiting_since_cycle.is_none() && is_ready && !wants_payload {
            return Ok(Activity::Transfer { since_cycle: cycle });
        }
        channel.payload_into(model, &mut self.words);
        self.clear_meaningless();
        if self.waiting_since_cycle.is_some() && self.words != self.before {
            return Err(violation(
                Rule::PayloadStable,
                &channel.shape.name,
                cycle,
                describe(&channel.shape, &self.before),
                describe(&channel.shape, &self.words),
            ));
        }
        let since_cycle = self.waiting_since_cycle.unwrap_or(cycle);
        if is_ready {
            self.waiting_since_cycle = None;
            Ok(Activity::Transfer { since_cycle })
        } else {
            if self.waiting_since_cycle.is_none() {
                self.waiting_since_cycle = Some(cycle);
                std::mem::swap(&mut self.words, &mut self.before);
            }
            Ok(Activity::Waiting { since_cycle })
        }
    }

    /// From now on these fields of a payload whose field `flag` is 1 are taken as zero.
    pub fn ignore_where(&mut self, channel: &Channel, flag: &str, fields: &[&str]) -> Result<(), Error> {
        let position = |name: &&str| channel.shape.field(name).map(|field| (field.low, field.width));
        let fields = fields.iter().map(position).collect::<Result<_, _>>()?;
        self.meaningless = Some((channel.shape.field(flag)?.low, fields));
        Ok(())
    }

    fn clear_meaningless(&mut self) {
        let Some((flag, fields)) = &self.meaningless else { return };
        if bits::get(&self.words, *flag, 1) == 0 {
            return;
        }
        for (low, width) in fields {
            for done in (0..*width).step_by(64) {
                bits::set(&mut self.words, low + done, (width - done).min(64), 0);
            }
        }
    }

    /// Payload of the last transfer.
    pub fn payload(&self) -> &[u32] {
        &self.words
    }

    /// Forgets what waits.
    pub fn reset(&mut self) {
        self.waiting_since_cycle = None;
    }
}

/// Fails unless valid is low, for the end of a reset.
pub(crate) fn check_low_in_reset(channel: &Channel, model: &Model) -> Result<(), Error> {
    if channel.is_valid(model) {
        let name = &channel.shape.name;
        return Err(violation(Rule::ValidLowInReset, name, model.cycles(), "reset is asserted", "valid is high"));
    }
    Ok(())
}
