//! Source and sink of any channel with a handshake.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;

use crate::bench::Component;
use crate::bits;
use crate::channel::{Activity, Beat, Channel, Stability, check_low_in_reset};
use crate::error::Error;
use crate::model::Model;
use crate::stall::{Stall, Staller};

/// Drives a channel of which the design is the sink: beats from a queue, with random idle cycles in between. While
/// valid is low the payload is random.
#[derive(Debug)]
pub struct StreamDriver {
    channel: Channel,
    /// Beats with the earliest cycle of each.
    queue: VecDeque<(Beat, u64)>,
    is_presented: bool,
    staller: Staller,
    random: ChaCha8Rng,
    is_poisoning: bool,
    accepted: u64,
    acceptance_cycles: Option<VecDeque<u64>>,
    poison: Vec<u32>,
    scratch: Vec<u32>,
    /// Valid is low already, and the payload may stay as it is.
    is_idle: bool,
    /// Buffers of beats that were accepted, for new ones.
    spare: Vec<Beat>,
}

/// Buffers that are kept for new beats.
const SPARE_MAX: usize = 64;

impl StreamDriver {
    /// A driver with an empty queue.
    #[must_use]
    pub fn new(channel: Channel, stall: Stall, random: ChaCha8Rng) -> Self {
        Self {
            poison: vec![0; bits::words(channel.shape().width())],
            channel,
            queue: VecDeque::new(),
            is_presented: false,
            staller: Staller::new(stall),
            random,
            is_poisoning: true,
            accepted: 0,
            acceptance_cycles: None,
            scratch: Vec::new(),
            is_idle: false,
            spare: Vec::new(),
        }
    }

    /// The channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Changes how often it is idle although a beat waits.
    pub fn set_stall(&mut self, stall: Stall) {
        self.staller = Staller::new(stall);
    }

    /// Whether the payload is random while valid is low (it is at first) or stays as it was.
    pub fn set_poisoning(&mut self, is_poisoning: bool) {
        self.is_poisoning = is_poisoning;
        self.is_idle = false;
    }

    /// A beat of zeros, in the memory of one that was accepted where there is one.
    pub fn blank(&mut self) -> Beat {
        match self.spare.pop() {
            Some(mut beat) => {
                beat.words_mut().fill(0);
                beat
            }
            None => Beat::zero(self.channel.shape()),
        }
    }

    /// Appends a beat to the queue.
    pub fn push(&mut self, beat: Beat) {
        self.push_not_before(beat, 0);
    }

    /// Appends a beat that is not offered before that cycle; the beats behind it wait as well.
    pub fn push_not_before(&mut self, beat: Beat, cycle: u64) {
        self.queue.push_back((beat, cycle));
    }

    /// Appends a beat given by its fields; those left out are zero.
    ///
    /// # Errors
    /// [`Error::NoSuchField`], [`Error::ValueTooWide`].
    pub fn push_fields(&mut self, values: &[(&str, u128)]) -> Result<(), Error> {
        let beat = Beat::with(self.channel.shape(), values)?;
        self.push(beat);
        Ok(())
    }

    /// Beats that are not yet accepted.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Beats accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Starts to keep the cycle of every acceptance, for [`pop_acceptance`](Self::pop_acceptance).
    pub fn record_acceptances(&mut self) {
        self.acceptance_cycles.get_or_insert_default();
    }

    /// The cycle of the oldest acceptance that was recorded and not yet popped.
    pub fn pop_acceptance(&mut self) -> Option<u64> {
        self.acceptance_cycles.as_mut()?.pop_front()
    }
}

impl Component for StreamDriver {
    fn drive(&mut self, model: &mut Model) {
        if self.is_presented {
            return;
        }
        if let Some((beat, earliest)) = self.queue.front()
            && *earliest <= model.cycles()
            && !self.staller.waits(&mut self.random)
        {
            self.channel.set_payload(model, beat.words(), &mut self.scratch);
            self.channel.set_valid(model, true);
            self.is_presented = true;
            self.is_idle = false;
            return;
        }
        if self.is_idle {
            return;
        }
        self.is_idle = !self.is_poisoning;
        self.channel.set_valid(model, false);
        if self.is_poisoning {
            bits::randomise(&mut self.poison, self.channel.shape().width(), &mut self.random);
            self.channel.set_payload(model, &self.poison, &mut self.scratch);
        }
    }

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        if self.is_presented && self.channel.is_ready(model) {
            self.is_presented = false;
            if let Some((beat, _)) = self.queue.pop_front()
                && self.spare.len() < SPARE_MAX
            {
                self.spare.push(beat);
            }
            self.accepted += 1;
            if let Some(cycles) = &mut self.acceptance_cycles {
                cycles.push_back(model.cycles());
            }
        }
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        self.queue.clear();
        self.is_presented = false;
        self.is_idle = false;
        self.channel.set_valid(model, false);
    }
}

/// A beat that the design sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The payload.
    pub beat: Beat,
    /// Cycle of the transfer.
    pub cycle: u64,
    /// First cycle in which it was valid.
    pub valid_cycle: u64,
}

impl Received {
    /// Value of a field.
    ///
    /// # Errors
    /// [`Error::NoSuchField`].
    pub fn get(&self, name: &str) -> Result<u128, Error> {
        self.beat.get(name)
    }
}

/// Takes the beats of a channel of which the design is the source, with random back-pressure, and checks on every
/// cycle that valid is held and the payload stable until the transfer, and at reset that valid is low.
#[derive(Debug)]
pub struct StreamSink {
    channel: Channel,
    staller: Staller,
    random: ChaCha8Rng,
    is_waiting_for_valid: bool,
    /// Ready is high already.
    is_ready: bool,
    was_valid: bool,
    stability: Stability,
    received: VecDeque<Received>,
    received_total: u64,
    /// Beats that were given back, for new ones.
    spare: Vec<Beat>,
}

impl StreamSink {
    /// A sink without beats.
    #[must_use]
    pub fn new(channel: Channel, stall: Stall, random: ChaCha8Rng) -> Self {
        Self {
            channel,
            staller: Staller::new(stall),
            random,
            is_waiting_for_valid: false,
            is_ready: false,
            was_valid: false,
            stability: Stability::default(),
            received: VecDeque::new(),
            received_total: 0,
            spare: Vec::new(),
        }
    }

    /// The channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Changes how often it is not ready.
    pub fn set_stall(&mut self, stall: Stall) {
        self.staller = Staller::new(stall);
    }

    /// Whether ready stays low until valid has been seen for a cycle: a design that waits for ready then never gets on.
    pub fn set_waiting_for_valid(&mut self, is_waiting_for_valid: bool) {
        self.is_waiting_for_valid = is_waiting_for_valid;
    }

    /// From now on these fields of a beat whose field `flag` is 1 mean nothing: they may change while it waits, and are
    /// received as zero.
    ///
    /// # Errors
    /// [`Error::NoSuchField`](crate::Error::NoSuchField).
    pub fn ignore_where(&mut self, flag: &str, fields: &[&str]) -> Result<(), Error> {
        self.stability.ignore_where(&self.channel, flag, fields)
    }

    /// Removes the oldest beat.
    pub fn pop(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    /// Gives back a beat of this sink, whose memory then holds another one.
    pub fn recycle(&mut self, received: Received) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(received.beat);
        }
    }

    /// Beats that wait to be popped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether no beat waits to be popped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Beats taken so far, popped or not.
    #[must_use]
    pub fn received_total(&self) -> u64 {
        self.received_total
    }
}

impl Component for StreamSink {
    fn drive(&mut self, model: &mut Model) {
        let is_ready = !self.staller.waits(&mut self.random) && (self.was_valid || !self.is_waiting_for_valid);
        if is_ready && self.is_ready {
            return;
        }
        self.is_ready = is_ready;
        self.channel.set_ready(model, is_ready);
    }

    fn sample(&mut self, model: &Model) -> Result<(), Error> {
        let activity = self.stability.sample(&self.channel, model, true)?;
        self.was_valid = matches!(activity, Activity::Waiting { .. });
        if let Activity::Transfer { since_cycle } = activity {
            let mut beat = self.spare.pop().unwrap_or_else(|| Beat::zero(self.channel.shape()));
            beat.words_mut().copy_from_slice(self.stability.payload());
            self.received.push_back(Received { beat, cycle: model.cycles(), valid_cycle: since_cycle });
            self.received_total += 1;
        }
        Ok(())
    }

    fn reset(&mut self, model: &mut Model) {
        self.is_ready = false;
        self.channel.set_ready(model, false);
        self.stability.reset();
        self.received.clear();
        self.was_valid = false;
    }

    fn check_in_reset(&self, model: &Model) -> Result<(), Error> {
        check_low_in_reset(&self.channel, model)
    }
}
