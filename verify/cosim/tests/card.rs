//! The card, engine, data mover and shell in two clocks, from the host's registers and memory to the requester's streams.

use std::collections::BTreeMap;

use keywalk_contract::{MoverStatus, Operation, Status, regs};
use keywalk_cosim::{ByteMemory, Card, CardOptions, Error, LiteAccess, Request, dut};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use card_tables::{FIRST_VA, KEY, PAGES, PD, Tables};

#[path = "common/card_tables.rs"]
mod card_tables;

/// First address of the user's registers.
const USER: u32 = 0x4000;
/// Edges of the engine's clock within which everything is answered.
const PATIENCE: u64 = 200_000;

/// A request with what belongs to it.
struct Job {
    request: Request,
    payload: Vec<u8>,
    is_swap: bool,
    value: u64,
    compare: u64,
}

/// What is expected of a job.
struct Outcome {
    status: MoverStatus,
    refusal: Status,
    /// The packet's bytes, and whether it is bad.
    packet: Option<(Vec<u8>, bool)>,
}

/// A job on some bytes of the region; some are refused.
fn draw(random: &mut ChaCha8Rng, tag: u16, place: u64, length_max: u64) -> Job {
    let operations = [
        Operation::RemoteWrite,
        Operation::RemoteRead,
        Operation::LocalRead,
        Operation::LocalWrite,
        Operation::RemoteAtomic,
    ];
    let operation = operations[random.random_range(0..operations.len())];
    let (va, length) = if operation == Operation::RemoteAtomic {
        (place + 8 * random.random_range(0..length_max / 8), 8)
    } else {
        let length = random.random_range(0..=length_max);
        (place + random.random_range(0..=length_max - length), length)
    };
    let pd = if random.random_bool(0.1) { PD + 1 } else { PD };
    let request = Request {
        tag,
        function: 0,
        operation: operation.code(),
        key: KEY,
        pd,
        qpn: 0,
        va,
        length_bytes: length as u32,
    };
    let is_write = [Operation::RemoteWrite, Operation::LocalWrite].contains(&operation);
    let mut payload = vec![0; if is_write { length as usize } else { 0 }];
    random.fill_bytes(&mut payload);
    Job { request, payload, is_swap: random.random(), value: random.random(), compare: random.random() }
}

/// Carries a job out on plain bytes.
fn carry_out(job: &Job, tables: &Tables, memory: &mut ByteMemory) -> Outcome {
    let request = &job.request;
    let operation = Operation::from_code(request.operation).expect("a legal one");
    let is_refused = request.pd != PD && request.length_bytes > 0;
    let (status, refusal) =
        if is_refused { (MoverStatus::Refused, Status::ProtectionDomain) } else { (MoverStatus::Ok, Status::Ok) };
    let addresses: Vec<u64> = if is_refused {
        Vec::new()
    } else {
        (request.va..request.va + u64::from(request.length_bytes)).map(|va| tables.pa(va)).collect()
    };
    let old: Vec<u8> = addresses.iter().map(|address| memory.get(*address)).collect();
    let packet = match operation {
        Operation::LocalWrite | Operation::RemoteWrite => {
            addresses.iter().zip(&job.payload).for_each(|(address, value)| memory.set(*address, *value));
            None
        }
        Operation::RemoteAtomic => {
            if let Ok(bytes) = <[u8; 8]>::try_from(&old[..]) {
                let number = u64::from_le_bytes(bytes);
                let new = match job.is_swap {
                    false => number.wrapping_add(job.value),
                    true if number == job.compare => job.value,
                    true => number,
                };
                addresses.iter().zip(new.to_le_bytes()).for_each(|(address, value)| memory.set(*address, value));
            }
            Some((old, is_refused))
        }
        _ => Some((old, is_refused)),
    };
    Outcome { status, refusal, packet }
}

fn offer(card: &mut Card, job: &Job) -> Result<(), Error> {
    let operation = Operation::from_code(job.request.operation).expect("a legal one");
    card.submit(&job.request)?;
    match operation {
        Operation::LocalWrite | Operation::RemoteWrite => card.push_payload(&job.payload),
        Operation::RemoteAtomic => card.driver("s_axis_atomic").push_fields(&[
            ("is_swap", job.is_swap.into()),
            ("value", job.value.into()),
            ("compare", job.compare.into()),
        ]),
        _ => Ok(()),
    }
}

/// Offers jobs that touch different bytes, and compares outcomes, packets and all of memory.
fn run(card: &mut Card, tables: &Tables, reference: &mut ByteMemory, jobs: &[Job]) -> Result<(), Error> {
    let mut outcomes = BTreeMap::new();
    let mut packets = Vec::new();
    for job in jobs {
        offer(card, job)?;
        let outcome = carry_out(job, tables, reference);
        outcomes.insert(u128::from(job.request.tag), (outcome.status, outcome.refusal));
        packets.extend(outcome.packet);
    }
    let limit = card.edges() + PATIENCE;
    let mut begun = Vec::new();
    let mut found = 0;
    while !outcomes.is_empty() || found < packets.len() {
        card.step()?;
        assert!(card.edges() < limit, "{} outcomes and {} packets are missing", outcomes.len(), packets.len() - found);
        while let Some(completion) = card.sink("m_axis_cpl").pop() {
            let expected = outcomes.remove(&completion.get("tag")?);
            let status = MoverStatus::from_code(completion.get("status")? as u8);
            let refusal = Status::from_code(completion.get("refusal")? as u8);
            assert_eq!(status.zip(refusal), expected, "{completion:?}");
        }
        while let Some(packet) = card.pop_packet(&mut begun)? {
            let expected = &packets[found];
            assert!(packet == *expected, "packet {found}: {} bytes, expected {}", packet.0.len(), expected.0.len());
            found += 1;
        }
    }
    card.run(50)?;
    assert!(card.sink("m_axis_cpl").is_empty() && card.sink("m_axis_rd").is_empty());
    let differences = card.memory.differences(reference);
    assert!(differences.is_empty(), "memory differs at {differences:x?}");
    Ok(())
}

/// Bytes of a job's place in the region.
const PLACE_BYTES: u64 = 8192;

/// So many jobs, each in its own place.
fn jobs(random: &mut ChaCha8Rng) -> Vec<Job> {
    (0..PAGES * 4096 / PLACE_BYTES)
        .map(|place| draw(random, place as u16, FIRST_VA + place * PLACE_BYTES, 7000))
        .collect()
}

fn started(options: CardOptions, tables: &Tables) -> Result<Card, Error> {
    let mut card = Card::new(&dut::CARD, options)?;
    tables.load(&mut card.memory);
    card.setup(&tables.setup())?;
    Ok(card)
}

#[test]
fn data_moves_between_the_requester_and_host_memory() -> Result<(), Error> {
    let tables = Tables::new();
    for (number, half_periods) in [[2000, 2500], [2000, 2000], [2500, 1800], [700, 3100]].into_iter().enumerate() {
        let seed = 10 + number as u64;
        for options in [CardOptions { seed, ..CardOptions::default() }, CardOptions::rough(seed)] {
            let mut card = started(CardOptions { half_periods, ..options }, &tables)?;
            let mut reference = card.memory.clone();
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            for _ in 0..3 {
                let jobs = jobs(&mut random);
                run(&mut card, &tables, &mut reference, &jobs)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_bus_error_is_reported_and_the_rest_goes_on() -> Result<(), Error> {
    let tables = Tables::new();
    let mut card = started(CardOptions::default(), &tables)?;
    card.faults.insert(tables.pa(FIRST_VA + 4096) / 64);
    let job = |tag, operation: Operation, va, length_bytes| Job {
        request: Request { tag, operation: operation.code(), key: KEY, pd: PD, va, length_bytes, ..Request::default() },
        payload: vec![7; length_bytes as usize],
        is_swap: false,
        value: 1,
        compare: 0,
    };
    let jobs = [
        (job(1, Operation::RemoteRead, FIRST_VA + 4000, 300), MoverStatus::ReadError),
        (job(2, Operation::RemoteWrite, FIRST_VA + 4000, 300), MoverStatus::WriteError),
        (job(3, Operation::RemoteAtomic, FIRST_VA + 4096, 8), MoverStatus::ReadError),
        (job(4, Operation::RemoteRead, FIRST_VA, 300), MoverStatus::Ok),
        (job(5, Operation::RemoteWrite, FIRST_VA, 300), MoverStatus::Ok),
        (job(6, Operation::RemoteAtomic, FIRST_VA + 8192, 8), MoverStatus::Ok),
    ];
    for (job, _) in &jobs {
        offer(&mut card, job)?;
    }
    let mut expected: BTreeMap<u128, MoverStatus> =
        jobs.iter().map(|(job, status)| (job.request.tag.into(), *status)).collect();
    let limit = card.edges() + PATIENCE;
    while !expected.is_empty() {
        card.step()?;
        assert!(card.edges() < limit, "outcomes are missing: {expected:?}");
        while let Some(completion) = card.sink("m_axis_cpl").pop() {
            let status = MoverStatus::from_code(completion.get("status")? as u8);
            assert_eq!(status, expected.remove(&completion.get("tag")?), "{completion:?}");
        }
    }
    Ok(())
}

#[test]
fn registers_are_the_engine_s_below_16_kib_and_the_user_s_above() -> Result<(), Error> {
    let mut card = Card::new(&dut::CARD, CardOptions::rough(3))?;
    assert_eq!(card.read_register(regs::id::REGISTER.offset)?, regs::id::REGISTER.reset);
    let values = card.access(&[
        LiteAccess::Write { offset: regs::merge_bytes_max::REGISTER.offset, value: 0x1_2000 },
        LiteAccess::Write { offset: USER + regs::merge_bytes_max::REGISTER.offset, value: 77 },
        LiteAccess::Read { offset: regs::merge_bytes_max::REGISTER.offset },
        LiteAccess::Read { offset: USER + regs::merge_bytes_max::REGISTER.offset },
    ])?;
    assert_eq!(values[2..], [0x1_2000, 77]);
    assert_eq!(card.user_registers().get(&regs::merge_bytes_max::REGISTER.offset.into()), Some(&77));
    Ok(())
}

#[test]
fn a_reset_of_either_side_in_traffic_leaves_a_working_card() -> Result<(), Error> {
    let tables = Tables::new();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut card = started(CardOptions::rough(5), &tables)?;
    for round in 0..9 {
        for job in jobs(&mut random) {
            offer(&mut card, &job)?;
        }
        let edges = random.random_range(0..1500);
        card.run(edges)?;
        let before = card.memory.clone();
        let in_reset = [[true, false], [false, true], [true, true]][round % 3];
        card.set_resets(in_reset);
        let edges = random.random_range(20..200);
        card.run(edges)?;
        card.set_resets([false; 2]);
        card.run_until("the engine is out of reset", PATIENCE, Card::is_up)?;
        card.wait_until_ready()?;
        // What was written is the region's.
        let pages: Vec<u64> = (0..PAGES).map(|page| tables.pa(FIRST_VA + page * 4096)).collect();
        let differences = card.memory.differences(&before);
        assert!(differences.iter().all(|address| pages.contains(&(address & !0xfff))), "{differences:x?}");
        for stream in ["m_axis_cpl", "m_axis_rd"] {
            while card.sink(stream).pop().is_some() {}
        }
        card.setup(&tables.setup())?;
        let mut reference = card.memory.clone();
        let jobs = jobs(&mut random);
        run(&mut card, &tables, &mut reference, &jobs)?;
    }
    Ok(())
}
