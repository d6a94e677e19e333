//! Deregistration at every cycle of a transfer, through the whole card: after the fence's completion not one byte of the region
//! is read or written in host memory.

use std::collections::BTreeSet;

use keywalk_contract::mpt_entry::{self, STATE_FREE, STATE_VALID};
use keywalk_contract::ports::Scope;
use keywalk_contract::{CommandStatus, MoverStatus, Operation, Status, command, regs};
use keywalk_cosim::{Card, CardOptions, Dut, Error, Invalidation, LiteAccess, Request, dut};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use card_tables::{FIRST_VA, KEY, PAGES, PD, Tables};

#[path = "common/card_tables.rs"]
mod card_tables;

/// What a byte of the region is when the host has it back.
const POISON: u8 = 0xa5;
/// Edges from DESTROY_MPT to the requests. The command takes its time: it writes the entry after some 3400.
const DESTROY_OFFSETS: std::ops::Range<u64> = 3100..3800;
const DESTROY_STEP: usize = 7;
/// Edges of the engine's clock within which everything is answered.
const PATIENCE: u64 = 100_000;
/// Code of the mailbox command DESTROY_MPT, and the bit of the last dword that asks for an interrupt.
const DESTROY_MPT: u32 = 0x0f;
const EVENT: u32 = 1 << 16;

/// How a region is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The host frees the entry and sends an invalidation to the engine's port.
    Invalidation,
    /// The command unit carries out DESTROY_MPT and interrupts the host.
    Destroy,
}

/// What came of the requests of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    moved: u32,
    refused: u32,
    /// Requests whose outcome was known when the region was about to go.
    early: u32,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.moved += other.moved;
        self.refused += other.refused;
        self.early += other.early;
    }
}

struct Bench {
    card: Card,
    tables: Tables,
    pages: BTreeSet<u64>,
    random: ChaCha8Rng,
}

impl Bench {
    fn new(design: &'static Dut, options: CardOptions) -> Result<Self, Error> {
        let tables = Tables::new();
        let random = ChaCha8Rng::seed_from_u64(options.seed);
        let mut card = Card::new(design, options)?;
        tables.load(&mut card.memory);
        card.setup(&tables.setup())?;
        card.write_register(regs::interrupt_enable::REGISTER.offset, 1 << regs::interrupt_enable::COMMAND.low)?;
        let pages = (0..PAGES).map(|page| tables.pa(FIRST_VA + page * 4096)).collect();
        Ok(Self { card, tables, pages, random })
    }

    fn is_of_region(&self, address: u64) -> bool {
        self.pages.contains(&(address & !0xfff))
    }

    fn set_state(&mut self, state: u64) {
        let at = self.tables.region().entry_address;
        let mut byte = [self.card.memory.get(at)];
        mpt_entry::ST.put(&mut byte, state).expect("a state has two bits");
        self.card.memory.set(at, byte[0]);
    }

    /// Requests of one operation, several bursts each; gives how many.
    fn offer(&mut self, operation: Operation) -> Result<u32, Error> {
        let count = if operation == Operation::RemoteAtomic { 16 } else { 5 };
        for tag in 0..count {
            let length = if operation == Operation::RemoteAtomic { 8 } else { self.random.random_range(900..5000) };
            let va = FIRST_VA + self.random.random_range(0..(PAGES * 4096 - length) / 8) * 8;
            let request = Request {
                tag,
                operation: operation.code(),
                key: KEY,
                pd: PD,
                va,
                length_bytes: length as u32,
                ..Request::default()
            };
            self.card.submit(&request)?;
            if operation == Operation::RemoteWrite {
                let mut payload = vec![0; length as usize];
                self.random.fill_bytes(&mut payload);
                self.card.push_payload(&payload)?;
            }
            if operation == Operation::RemoteAtomic {
                self.card.driver("s_axis_atomic").push_fields(&[("value", 1)])?;
            }
        }
        Ok(count.into())
    }

    /// One round: the region is valid, requests come, and so many edges later the invalidation; or the requests come so many edges
    /// after the command. An error says what was moved too late.
    fn round(&mut self, operation: Operation, way: Way, offset: u64) -> Result<Result<Outcome, String>, Error> {
        let what = format!("{operation:?}, {way:?}, {offset} edges");
        self.set_state(STATE_VALID);
        let content: Vec<u64> = self.pages.iter().copied().collect();
        for page in &content {
            (*page..page + 4096).for_each(|address| self.card.memory.set(address, (address >> 3) as u8 & 0x7f));
        }
        let start = command::REGISTERS[command::DATA_WORDS].offset;
        if way == Way::Destroy {
            let data = [0, 0, 0, 0, KEY | DESTROY_MPT, EVENT | 1];
            let stage = command::REGISTERS
                .iter()
                .zip(data)
                .map(|(register, value)| LiteAccess::Write { offset: register.offset, value });
            self.card.access(&stage.collect::<Vec<_>>())?;
        }
        self.card.transfers.clear();
        let (requests, early) = match way {
            Way::Invalidation => {
                let requests = self.offer(operation)?;
                self.card.run(offset)?;
                let early = self.card.sink("m_axis_cpl").len() as u32;
                self.set_state(STATE_FREE);
                let invalidation =
                    Invalidation { tag: 9, function: 0, scope: Scope::Region, key: KEY, pd: 0, va: 0, length_bytes: 0 };
                self.card.submit_invalidation(&invalidation)?;
                (requests, early)
            }
            Way::Destroy => {
                self.card.write_register(start, command::Opcode::PostMailbox as u32)?;
                self.card.run(offset)?;
                (self.offer(operation)?, 0)
            }
        };
        let limit = self.card.edges() + PATIENCE;
        while !(match way {
            Way::Invalidation => self.card.sink("m_axis_inv").pop().is_some(),
            Way::Destroy => self.card.interrupt(),
        }) {
            self.card.step()?;
            assert!(self.card.edges() < limit, "{what}: no completion");
        }
        let completed = self.card.edges();
        let open: Vec<u64> = self.card.under_way().into_iter().filter(|address| self.is_of_region(*address)).collect();
        if !open.is_empty() {
            return Ok(Err(format!("{what}: transfers at {open:x?} are under way at the completion")));
        }
        // The memory is the host's again.
        for page in &content {
            (*page..page + 4096).for_each(|address| self.card.memory.set(address, POISON));
        }
        let (mut outcome, mut done, mut packets) = (Outcome { early, ..Outcome::default() }, 0, 0);
        let mut begun = Vec::new();
        let has_packets = operation != Operation::RemoteWrite;
        while done < requests || (has_packets && packets < requests) {
            self.card.step()?;
            assert!(self.card.edges() < limit, "{what}: {done} of {requests} requests are done");
            while let Some(completion) = self.card.sink("m_axis_cpl").pop() {
                done += 1;
                let status = MoverStatus::from_code(completion.get("status")? as u8);
                let refusal = Status::from_code(completion.get("refusal")? as u8);
                match (status, refusal) {
                    (Some(MoverStatus::Ok), Some(Status::Ok)) => outcome.moved += 1,
                    (Some(MoverStatus::Refused), Some(Status::EntryState)) => outcome.refused += 1,
                    other => panic!("{what}: {other:?}"),
                }
            }
            while let Some((bytes, _)) = self.card.pop_packet(&mut begun)? {
                packets += 1;
                if bytes.contains(&POISON) {
                    return Ok(Err(format!("{what}: a packet holds what the host put there after the completion")));
                }
            }
        }
        self.card.run(100)?;
        for transfer in self.card.transfers.iter().filter(|transfer| self.is_of_region(transfer.address)) {
            if transfer.engine_edge > completed {
                return Ok(Err(format!("{what}: {transfer:x?} after the completion at {completed}")));
            }
        }
        for page in &content {
            if let Some(at) = (*page..page + 4096).find(|address| self.card.memory.get(*address) != POISON) {
                return Ok(Err(format!("{what}: {at:x} was written after the completion")));
            }
        }
        if way == Way::Destroy {
            self.card
                .write_register(regs::interrupt_status::REGISTER.offset, 1 << regs::interrupt_status::COMMAND.low)?;
            self.card.run(800)?;
            assert!(!self.card.interrupt(), "{what}: the interrupt stays");
            let status = self.card.read_register(command::REGISTERS[command::DATA_WORDS + 1].offset)?;
            assert_eq!(status, u32::from(CommandStatus::Ok as u8), "{what}");
        }
        Ok(Ok(outcome))
    }
}

/// Rounds with an invalidation at every offset up to one by which all requests are done; what came of them together.
fn invalidations(
    design: &'static Dut,
    options: &CardOptions,
    operation: Operation,
) -> Result<Result<Outcome, String>, Error> {
    let mut bench = Bench::new(design, options.clone())?;
    let mut total = Outcome::default();
    for offset in 0.. {
        let outcome = match bench.round(operation, Way::Invalidation, offset)? {
            Ok(outcome) => outcome,
            Err(found) => return Ok(Err(found)),
        };
        total.add(outcome);
        if outcome.refused == 0 && outcome.early == outcome.moved {
            println!("{operation:?}, {:?} edges of latency: {} offsets, {total:?}", options.host_latency, offset + 1);
            break;
        }
    }
    Ok(Ok(total))
}

const OPERATIONS: [Operation; 3] = [Operation::RemoteWrite, Operation::RemoteRead, Operation::RemoteAtomic];

/// Latency of the host short and long.
fn hosts() -> [CardOptions; 2] {
    let host = |latency: u64| CardOptions { host_latency: latency..=latency, seed: latency, ..CardOptions::default() };
    [host(3), host(50)]
}

#[test]
fn not_one_byte_is_moved_after_the_fence_s_completion() -> Result<(), Error> {
    for operation in OPERATIONS {
        for options in hosts() {
            let outcome = invalidations(&dut::CARD, &options, operation)?.unwrap_or_else(|found| panic!("{found}"));
            // Some were moved while the invalidation waited for them.
            let late = outcome.moved - outcome.early;
            assert!(late > 50 && outcome.refused > 50, "{operation:?}: {outcome:?}");
        }
    }
    Ok(())
}

#[test]
fn not_one_byte_is_moved_after_destroy_mpt() -> Result<(), Error> {
    for operation in OPERATIONS {
        let [_, options] = hosts();
        let mut bench = Bench::new(&dut::CARD, options)?;
        let mut total = Outcome::default();
        for offset in DESTROY_OFFSETS.step_by(DESTROY_STEP) {
            total.add(bench.round(operation, Way::Destroy, offset)?.unwrap_or_else(|found| panic!("{found}")));
        }
        println!("{operation:?}: {total:?}");
        assert!(total.moved > 50 && total.refused > 50, "{operation:?}: {total:?}");
    }
    Ok(())
}

#[test]
fn an_engine_that_does_not_wait_for_the_mover_is_found() -> Result<(), Error> {
    for operation in OPERATIONS {
        let [_, options] = hosts();
        let found = invalidations(&dut::CARD_WITHOUT_DONE_TRACKING, &options, operation)?;
        println!("{}", found.expect_err("bytes that are moved too late are found"));
    }
    Ok(())
}
