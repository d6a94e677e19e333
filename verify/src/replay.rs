//! Replay: the events of a vector, which are what the driver sent, fed to a device in order, and then the vector's rows.
//!
//! The harness plays the host (vectors' README, "Reading the rows"): mailbox buffers hold what their event says, pointers of
//! further levels are in memory before the device is told of them and taken back where it refuses, memory is backed until it
//! is freed, and page tables are those of the final image. MPT entries and pointers start as zero: what is there in the end,
//! the device and its commands have written.

mod device;
mod event;
mod host;

use std::path::Path;

use keywalk_contract::command::{Action, Opcode};
use keywalk_contract::{CommandStatus, MailboxCommand, Status, Table, WorkOpcode, WorkStatus};
use keywalk_image::LINE_BYTES;
use keywalk_model::{ContextQuery, ContextRequest, ContextResponse, Controls, Descriptor, Request, WorkRequest};
use serde::Serialize;

pub use device::{CommandDut, ModelDevice, RtlDevice};
pub use event::{Event, EventLog};

use crate::dut::DutError;
use crate::report::{Count, Difference, FileReport};
use crate::run::{self, Settings};
use crate::tables::{Golden, Tables};
use crate::vector::Vector;
use event::{Access, Command, Mailbox, Work};
use host::Host;

/// What a replay has found.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// The rows of the file, asked after the last event.
    #[serde(flatten)]
    pub rows: FileReport,
    /// Events whose outcome was compared: commands, work requests, accesses, and where the driver found a context.
    pub events: Count,
    /// Lines of 64 bytes that the device wrote and that are still backed, and regions of the image.
    pub memory: Count,
    /// Context tables whose BT0 slots are those of the file: as the host has sent them, and as the device looks objects up.
    pub bases: Count,
}

impl ReplayReport {
    /// What failed of all kinds.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.rows.failed() + self.events.failed + self.memory.failed + self.bases.failed
    }

    /// What passed: rows, events, memory and base addresses.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.rows.checks.passed + self.events.passed + self.memory.passed + self.bases.passed
    }

    /// A line about the file.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = if self.failed() == 0 { "pass" } else { "FAIL" };
        let FileReport { name, checks, pieces, .. } = &self.rows;
        let mut line = format!(
            "{verdict}  {name:<28} {:>5} events  {:>5} memory  {:>5} rows  {:>5} pieces",
            self.events.total(),
            self.memory.total(),
            checks.total(),
            pieces.total()
        );
        let failures = [
            ("events", self.events.failed),
            ("places in memory", self.memory.failed),
            ("tables' base addresses", self.bases.failed),
            ("rows", checks.failed),
            ("index checks", self.rows.index_checks.failed),
            ("pieces", pieces.failed),
        ];
        for (what, failed) in failures.into_iter().filter(|(_, failed)| *failed > 0) {
            line += &format!("  {failed} {what} failed");
        }
        line
    }
}

/// A replay under way.
struct Replay<'a> {
    vector: &'a Vector,
    host: Host<'a>,
    device: &'a mut dyn CommandDut,
    events: Count,
    memory: Count,
    bases: Count,
    first_difference: Option<Difference>,
    /// Token of the next mailbox command.
    token: u16,
}

/// Replays a file: its events in order, then its rows. `progress` is told what is going on.
pub fn replay_file(
    path: &Path,
    vector: &Vector,
    tables: &Tables,
    log: &EventLog,
    device: &mut dyn CommandDut,
    settings: &Settings,
    progress: &dyn Fn(&str),
) -> ReplayReport {
    let host = Host::new(vector);
    let mut replay = Replay {
        vector,
        host,
        device,
        events: Count::default(),
        memory: Count::default(),
        bases: Count::default(),
        first_difference: None,
        token: 0,
    };
    let stopped = replay.all(tables, log, progress).err().map(|error| error.to_string());
    let Replay { device, events, memory, bases, first_difference, .. } = replay;
    let (mut rows, _) = run::run_file(path, vector, tables, device, settings, progress);
    rows.stopped = stopped.or(rows.stopped);
    rows.first_difference = first_difference.or(rows.first_difference);
    ReplayReport { rows, events, memory, bases }
}

impl Replay<'_> {
    fn all(&mut self, tables: &Tables, log: &EventLog, progress: &dyn Fn(&str)) -> Result<(), DutError> {
        self.device.begin(self.host.memory_at_start(log), self.host.registers())?;
        for (position, event) in log.events.iter().enumerate() {
            if position % 64 == 0 {
                progress(&format!("event {position} of {}", log.events.len()));
            }
            self.event(&format!("events[{position}]"), event)?;
        }
        self.check_memory(tables);
        self.check_bases(tables)
    }

    fn event(&mut self, place: &str, event: &Event) -> Result<(), DutError> {
        match event {
            Event::Command(command) => {
                let Command { opcode, function, data, .. } = *command;
                let descriptor = Descriptor { opcode, function, data };
                let mut status = self.device.start(&descriptor)?;
                if status == CommandStatus::Ok && self.device.wait()?.busy {
                    status = CommandStatus::Busy;
                }
                let name = Opcode::from_code(descriptor.opcode).map_or("undefined", Opcode::name);
                self.expect(place, &format!("command {name}"), command.expect.name(), status.name());
            }
            Event::Mailbox(mailbox) => self.mailbox(place, mailbox)?,
            Event::FastRegister(wqe) => {
                let region = self.vector.mrs.iter().find(|region| region.name == wqe.name);
                let pd = region.map_or(0, |region| region.pd);
                let work = Work { wqe: wqe.wqe, pd, qpn: 0, function: 0, privileged: true, expect: WorkStatus::Ok };
                self.work(place, &work)?;
            }
            Event::Work(work) => self.work(place, work)?,
            Event::Access(access) => self.access(place, access)?,
            Event::HemGet(get) if get.ret == 0 => self.lookup(place, get.table, get.obj, get.hw_pa.0)?,
            Event::Registered(object) => {
                if let (Some(index), Some(address)) = (object.index, object.mpt_pa) {
                    self.lookup(place, Table::Mpt, index, address.0)?;
                }
            }
            Event::Free(free) => self.device.memory().remove(free.addr.0, free.size),
            Event::HemGet(_) | Event::Ignored => {}
        }
        Ok(())
    }

    /// Counts an outcome and keeps the first that is not as expected.
    fn expect(&mut self, place: &str, what: &str, expected: &str, got: &str) {
        let holds = expected == got;
        self.events.add(holds);
        if !holds {
            self.differ(place, what, expected, got);
        }
    }

    fn differ(&mut self, place: &str, what: &str, expected: &str, got: &str) {
        self.first_difference.get_or_insert_with(|| Difference {
            place: place.into(),
            request: what.into(),
            expected: expected.into(),
            got: got.into(),
            walk: Vec::new(),
            trace: None,
        });
    }

    fn mailbox(&mut self, place: &str, mailbox: &Mailbox) -> Result<(), DutError> {
        let command = MailboxCommand::from_code(mailbox.cmd);
        let name = command.map_or("undefined", |command| command.name);
        let what = format!(
            "mailbox command {:#04x} {name}, tag {}, in {:#x}, out {:#x}",
            mailbox.cmd, mailbox.tag, mailbox.input.0, mailbox.output.0
        );
        let action = command.map(|command| command.action);
        let before = match (command, action) {
            (Some(command), Some(Action::WriteBt { step })) => {
                self.host.link(self.device.memory(), command.table, step, mailbox.tag, mailbox.input.0)
            }
            _ => None,
        };
        let context = mailbox.ctx.as_ref().map_or(&[] as &[u8], |ctx| &ctx.0);
        let is_query = action == Some(Action::Query);
        let buffer = if is_query { mailbox.output.0 } else { mailbox.input.0 };
        // The buffer is there while its command is under way, where the event says what is in it.
        let own_pages = self.host.lend(self.device.memory(), buffer, context, is_query);

        self.token = self.token.wrapping_add(1);
        let data = [
            mailbox.input.0 as u32,
            (mailbox.input.0 >> 32) as u32,
            mailbox.output.0 as u32,
            (mailbox.output.0 >> 32) as u32,
            mailbox.tag << 8 | u32::from(mailbox.cmd),
            u32::from(self.token),
        ];
        let descriptor = Descriptor { opcode: Opcode::PostMailbox as u16, function: mailbox.function, data };
        let mut status = self.device.start(&descriptor)?;
        if status == CommandStatus::Ok {
            let report = self.device.wait()?;
            status = report.status.unwrap_or(CommandStatus::Busy);
            let token = format!("token {}", self.token);
            self.expect(place, &what, &token, &format!("token {}", report.token));
        }
        self.expect(place, &what, mailbox.expect.name(), status.name());
        if is_query && status == CommandStatus::Ok && !context.is_empty() {
            let mut found = vec![0; context.len()];
            let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let got = match self.device.memory().read(buffer, &mut found) {
                Ok(()) => text(&found),
                Err(error) => error.to_string(),
            };
            self.expect(place, &what, &text(context), &got);
        }
        for page in own_pages {
            self.device.memory().remove(page, 1);
        }
        match (command, action) {
            (Some(command), Some(Action::DestroyBt { step: 0 })) if status == CommandStatus::Ok => {
                self.host.unlink(command.table, mailbox.tag);
            }
            _ => {}
        }
        if let Some(before) = before.filter(|_| status != CommandStatus::Ok) {
            self.host.take_back(self.device.memory(), before);
        }
        Ok(())
    }

    fn work(&mut self, place: &str, work: &Work) -> Result<(), DutError> {
        let Work { wqe, pd, qpn, function, privileged, expect } = *work;
        let request = WorkRequest { tag: 0, function, privileged, pd, qpn, wqe };
        let opcode = WorkOpcode::from_code(wqe[0] & 0x1f);
        let name = opcode.map_or("undefined", WorkOpcode::name);
        let response = self.device.work(&request)?;
        let privileged = if privileged { "privileged" } else { "not privileged" };
        let what = format!("work request {name}, pd {pd:#x}, qpn {qpn:#x}, {privileged}");
        let outcome = |status: WorkStatus, cqe: u8| format!("{}, CQE {cqe:#04x}", status.name());
        let expected = outcome(expect, expect.cqe_code(opcode));
        self.expect(place, &what, &expected, &outcome(response.status, response.cqe_code));
        Ok(())
    }

    fn access(&mut self, place: &str, access: &Access) -> Result<(), DutError> {
        let request = Request {
            tag: 0,
            function: access.function,
            operation: access.op.code(),
            key: access.key.0,
            pd: access.pd,
            qpn: access.qpn,
            va: access.va.0,
            length: access.len,
        };
        let beats = self.device.translate(&[request])?.into_iter().next().unwrap_or_default();
        let status = beats.last().map_or("no beat", |beat| beat.status.name());
        let segments = beats.iter().filter(|beat| beat.status == Status::Ok).map(|beat| (beat.pa, beat.length));
        let text = |status: &str, segments: &mut dyn Iterator<Item = (u64, u32)>| {
            segments.fold(status.to_owned(), |text, (pa, length)| format!("{text}; {length} bytes at {pa:#x}"))
        };
        let mut expected = access.segments.iter().map(|(pa, length)| (pa.0, *length));
        let expected = text(access.status.name(), &mut expected);
        self.expect(place, &run::request_text(&request), &expected, &text(status, &mut segments.into_iter()));
        Ok(())
    }

    /// An object of a context table must be where the driver found it.
    fn lookup(&mut self, place: &str, table: Table, index: u32, address: u64) -> Result<(), DutError> {
        let query = ContextQuery::Lookup { table: table.code(), index };
        let responses = self.device.context(&[ContextRequest { tag: 0, function: 0, query }])?;
        let got = match responses.first() {
            Some(response) if response.status == Status::Ok => format!("{:#x}", response.address),
            Some(response) => response.status.name().into(),
            None => "no answer".into(),
        };
        let what = format!("context lookup, table {} object {index}", table.name());
        self.expect(place, &what, &format!("{address:#x}"), &got);
        Ok(())
    }

    /// The device must have the base addresses of the file: the host has sent these and no others, and of every slot an object
    /// is where the tables of the file say.
    fn check_bases(&mut self, tables: &Tables) -> Result<(), DutError> {
        let vector = self.vector;
        let golden = Golden::new(tables, Controls::default());
        for (table, described) in vector.hem.tables() {
            let place = format!("hem.{}.bt0", table.name());
            let sent = self.host.slots(table);
            let text = |slots: &[(u32, u64)]| {
                slots.iter().map(|(slot, address)| format!("{slot}: {address:#x}")).collect::<Vec<_>>().join(", ")
            };
            let mut holds = sent == described.bt0.0;
            if !holds {
                self.differ(&place, "addresses that the device has taken", &text(&described.bt0.0), &text(&sent));
            }
            let objects: Vec<_> = host::first_objects(described).collect();
            let lookup = |(_, index): &(u32, u32)| {
                let query = ContextQuery::Lookup { table: table.code(), index: *index };
                ContextRequest { tag: 0, function: 0, query }
            };
            let requests: Vec<_> = objects.iter().map(lookup).collect();
            let responses = self.device.context(&requests)?;
            let outcome = |response: &ContextResponse| format!("{}, {:#x}", response.status.name(), response.address);
            for (((slot, index), request), response) in objects.iter().zip(&requests).zip(&responses) {
                let (expected, got) = (outcome(&golden.context(request)), outcome(response));
                if expected != got {
                    holds = false;
                    self.differ(&place, &format!("context lookup, object {index} of slot {slot}"), &expected, &got);
                }
            }
            self.bases.add(holds);
        }
        Ok(())
    }

    /// Wherever the device wrote, and in the whole image, memory must hold what the vector says.
    fn check_memory(&mut self, tables: &Tables) {
        let mut lines: Vec<u64> = Vec::new();
        for (address, length) in self.device.written() {
            let first = address / LINE_BYTES as u64;
            let last = (address + length.saturating_sub(1)) / LINE_BYTES as u64;
            lines.extend((first..=last).map(|line| line * LINE_BYTES as u64));
        }
        lines.sort_unstable();
        lines.dedup();
        let text = |line: Option<[u8; LINE_BYTES]>| match line {
            Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            None => "not backed".to_owned(),
        };
        for address in lines {
            // What the host has taken back since is nobody's.
            let Some(line) = self.device.memory().line(address) else { continue };
            let expected = tables.memory.line(address);
            self.memory.add(expected == Some(line));
            if expected != Some(line) {
                let what = format!("the line at {address:#x}, which the device wrote");
                self.differ("memory", &what, &text(expected), &text(Some(line)));
            }
        }
        for region in &self.vector.image {
            let lines = (0..region.size / LINE_BYTES as u64).map(|line| region.addr.0 + line * LINE_BYTES as u64);
            let memory = self.device.memory();
            let difference = lines
                .map(|address| (address, tables.memory.line(address), memory.line(address)))
                .find(|(_, expected, got)| expected != got);
            self.memory.add(difference.is_none());
            if let Some((address, expected, got)) = difference {
                let what = format!("the line at {address:#x}, in the image's region at {:#x}", region.addr.0);
                self.differ("memory", &what, &text(expected), &text(got));
            }
        }
    }
}
