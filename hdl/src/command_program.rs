//! The command unit's program: what mailbox commands and work requests do, in the order of their statuses.
//! A part of the command unit, not a block.

use crate::command_machine::{Assembler, From, Op};
use From::{Constant, Port, PortX, Word, WordX};
use Op::*;
use keywalk_contract::command::BUFFER_ALIGNMENT_BYTES;
use keywalk_contract::{CommandStatus, Config, Status, Table, WorkOpcode, WorkStatus, hem, mpt_entry, regs, work};

/// Ports, first of each kind.
pub mod port {
    /// Words of the line that was read.
    pub const LINE: u32 = 0;
    /// Dwords of the work request.
    pub const WORK: u32 = 16;
    /// PD, queue pair, privileged bit and function of the work request.
    pub const PD: u32 = 32;
    /// See above.
    pub const QPN: u32 = 33;
    /// See above.
    pub const PRIVILEGED: u32 = 34;
    /// See above.
    pub const WORK_FUNCTION: u32 = 35;
    /// Dwords of the mailbox command.
    pub const MAILBOX: u32 = 36;
    /// Its function.
    pub const MAILBOX_FUNCTION: u32 = 42;
    /// Geometry of the table that is output, as register `table_geometry` has it.
    pub const GEOMETRY: u32 = 43;
    /// Its number of objects.
    pub const OBJECT_COUNT: u32 = 44;
    /// Number of MPT entries less one.
    pub const MPT_MASK: u32 = 45;
    /// Page shift base less 12.
    pub const PAGE_SHIFT_BASE: u32 = 46;
    /// Switch.
    pub const ALIGNMENT_CHECK: u32 = 47;
    /// Status of the lookup, and the address found.
    pub const FOUND_STATUS: u32 = 48;
    /// Low half.
    pub const FOUND_LOW: u32 = 49;
    /// High half.
    pub const FOUND_HIGH: u32 = 50;
    /// The read or write was answered with an error.
    pub const BUS_ERROR: u32 = 51;
    /// Word of a register that was read.
    pub const REGISTER: u32 = 52;
    /// What waits: bit 0 CFG_BT_ATTR, bit 1 a mailbox command, bit 2 a work request.
    pub const PENDING: u32 = 53;
    /// The mailbox command decoded: bit 8 known, bits 7:6 step, 5:3 action, 2:0 table.
    pub const COMMAND: u32 = 54;
    /// Table set of the function that is output.
    pub const TABLE_SET: u32 = 55;
}

/// Outputs.
pub mod output {
    /// Words of the line to be written.
    pub const LINE: u32 = 0;
    /// Function.
    pub const FUNCTION: u32 = 16;
    /// Table of a lookup and of the geometry ports.
    pub const TABLE: u32 = 17;
    /// Index of a lookup.
    pub const INDEX: u32 = 18;
    /// Address of a line, low half.
    pub const ADDRESS_LOW: u32 = 19;
    /// High half.
    pub const ADDRESS_HIGH: u32 = 20;
    /// Scope of a fence.
    pub const SCOPE: u32 = 21;
    /// Address of a register.
    pub const REGISTER_ADDRESS: u32 = 22;
    /// Word for a register.
    pub const REGISTER: u32 = 23;
    /// Status of the answer.
    pub const STATUS: u32 = 24;
    /// Code of the completion queue entry.
    pub const CQE_CODE: u32 = 25;
    /// 1: accesses of the host to the core's registers wait.
    pub const LOCK: u32 = 26;
    /// Key of a fence.
    pub const FENCE_KEY: u32 = 27;
}

/// Actions.
pub mod action {
    /// Looks an entry up.
    pub const LOOKUP: u32 = 0;
    /// Reads a line.
    pub const READ: u32 = 1;
    /// Writes a line.
    pub const WRITE: u32 = 2;
    /// Fences.
    pub const FENCE: u32 = 3;
    /// Writes a register of the core.
    pub const WRITE_REGISTER: u32 = 4;
    /// Reads one.
    pub const READ_REGISTER: u32 = 5;
    /// The mailbox command has ended.
    pub const END_MAILBOX: u32 = 6;
    /// The work request has ended.
    pub const END_WORK: u32 = 7;
    /// CFG_BT_ATTR has ended.
    pub const END_CONFIGURATION: u32 = 8;
    /// No access of the host to the core's registers is under way.
    pub const QUIET: u32 = 9;
}

/// Actions of mailbox commands in the decoded command.
pub mod kind {
    /// WRITE of a base address.
    pub const WRITE_BT: u32 = 0;
    /// DESTROY of one.
    pub const DESTROY_BT: u32 = 1;
    /// CREATE.
    pub const CREATE: u32 = 2;
    /// MODIFY.
    pub const MODIFY: u32 = 3;
    /// QUERY.
    pub const QUERY: u32 = 4;
    /// DESTROY.
    pub const DESTROY: u32 = 5;
}

/// Places in the memory: contexts, entries and scalars.
mod at {
    /// The object's context as it is, up to 128 words; of work requests the entry.
    pub const OLD: u32 = 0;
    /// As it shall be; of a MODIFY the context and its mask.
    pub const NEW: u32 = 128;
    /// Entry of the region that a window is bound to, and as it shall be.
    pub const PARENT: u32 = 512;
    pub const PARENT_NEW: u32 = 528;
    /// Entry of the region that a window was bound to.
    pub const FORMER: u32 = 544;
    pub const FORMER_NEW: u32 = 560;
    /// Addresses, low and high half.
    pub const ADDRESS: u32 = 576;
    pub const PARENT_ADDRESS: u32 = 578;
    pub const FORMER_ADDRESS: u32 = 580;
    /// These are to be written.
    pub const HAS_PARENT: u32 = 582;
    pub const HAS_FORMER: u32 = 583;
    pub const TABLE: u32 = 584;
    pub const INDEX: u32 = 585;
    pub const PARENT_INDEX: u32 = 586;
    pub const KEY: u32 = 587;
    pub const SCRATCH: u32 = 588;
    pub const SCRATCH_2: u32 = 589;
    pub const OUTCOME: u32 = 590;
    pub const LAST: u32 = 591;
    pub const BUFFER: u32 = 592;
    pub const POSITION: u32 = 594;
    pub const STEP: u32 = 595;
    pub const DIVIDEND: u32 = 596;
    pub const REMAINDER: u32 = 597;
    pub const COUNT: u32 = 598;
    pub const SAVED: u32 = 599;
    pub const CQE_CODE: u32 = 602;
    pub const END: u32 = 604;
}

/// Outcomes of `locate`.
const FOUND: u32 = 0;
const OUT_OF_RANGE: u32 = 1;
const UNMAPPED: u32 = 2;
const BUS_ERROR: u32 = 3;

/// Dwords of an entry: field by its dword.
const fn dword(field: keywalk_contract::Field) -> u32 {
    field.low / 32
}

/// Bit of a field within its dword, as a mask.
const fn mask(field: keywalk_contract::Field) -> u32 {
    ((field.max() as u32) as u64 as u32) << (field.low % 32)
}

impl Assembler {
    fn load(&mut self, from: From) {
        self.take(Load, from);
    }

    fn copy(&mut self, from: From, place: u32) {
        self.load(from);
        self.store(place);
    }

    fn out(&mut self, from: From, number: u32) {
        self.load(from);
        self.number(Output, false, number);
    }

    fn act(&mut self, number: u32) {
        self.number(Act, false, number);
    }

    /// Ends with a status.
    fn fail(&mut self, status: u32, label: &str) {
        self.load(Constant(status));
        self.jump(Jump, label);
    }

    /// Goes on where bits of a word of an entry are set, or clear.
    fn require_bits(&mut self, from: From, bits: u32, are: bool, name: &str, status: u32, end: &str) {
        self.load(from);
        self.take(And, Constant(bits));
        self.jump(if are { JumpNonZero } else { JumpZero }, name);
        self.fail(status, end);
        self.label(name);
    }

    /// Goes on where masked words are equal.
    fn require_equal(&mut self, left: From, bits: u32, right: From, name: &str, status: u32, end: &str) {
        self.load(left);
        self.take(Xor, right);
        self.take(And, Constant(bits));
        self.jump(JumpZero, name);
        self.fail(status, end);
        self.label(name);
    }

    /// Reads the line at an address into a place; the accumulator tells of a bus error.
    fn read_line(&mut self, address: u32, place: u32, name: &str) {
        self.out(Word(address), output::ADDRESS_LOW);
        self.out(Word(address + 1), output::ADDRESS_HIGH);
        self.act(action::READ);
        self.load(Constant(15));
        self.plain(SetX);
        self.label(name);
        self.load(PortX(port::LINE));
        self.store_x(place);
        self.jump(CountDown, name);
        self.load(Port(port::BUS_ERROR));
    }

    /// Writes a line; the accumulator tells of a bus error.
    fn write_line(&mut self, address: u32, place: u32, name: &str) {
        self.load(Constant(15));
        self.plain(SetX);
        self.label(name);
        self.load(WordX(place));
        self.number(Output, true, output::LINE);
        self.jump(CountDown, name);
        self.out(Word(address), output::ADDRESS_LOW);
        self.out(Word(address + 1), output::ADDRESS_HIGH);
        self.act(action::WRITE);
        self.load(Port(port::BUS_ERROR));
    }
}

impl Assembler {
    /// The address of the line at which `POSITION` is, of a buffer at `base`, becomes the address of the next transfer.
    fn address_of_position(&mut self, base: u32) {
        self.load(Word(at::POSITION));
        self.take(And, Constant(!15));
        for _ in 0..2 {
            self.store(at::SCRATCH_2);
            self.take(Add, Word(at::SCRATCH_2));
        }
        self.take(Add, Word(base));
        self.number(Output, false, output::ADDRESS_LOW);
        self.load(Word(base + 1));
        self.take(AddCarry, Constant(0));
        self.number(Output, false, output::ADDRESS_HIGH);
    }

    /// Reads words 0 to `LAST` of a buffer into a place, the last line first; a bus error leads to `bus_error`.
    fn read_buffer(&mut self, base: u32, place: u32, name: &str, bus_error: &str) {
        let [word, inside, end] = ["word", "inside", "end"].map(|part| format!("{name}_{part}"));
        self.copy(Word(at::LAST), at::POSITION);
        self.label(&word);
        self.load(Word(at::POSITION));
        self.take(And, Constant(15));
        self.take(Xor, Constant(15));
        self.jump(JumpNonZero, &inside);
        self.address_of_position(base);
        self.act(action::READ);
        self.load(Port(port::BUS_ERROR));
        self.jump(JumpNonZero, bus_error);
        self.label(&inside);
        self.load(Word(at::POSITION));
        self.plain(SetX);
        self.load(PortX(port::LINE));
        self.store_x(place);
        self.load(Word(at::POSITION));
        self.jump(JumpZero, &end);
        self.take(Subtract, Constant(1));
        self.store(at::POSITION);
        self.jump(Jump, &word);
        self.label(&end);
    }

    /// Writes words 0 to `LAST` from a place to a buffer, the last line first. A bus error leads to `bus_error`, with
    /// `POSITION` in the line that failed.
    fn write_buffer(&mut self, base: u32, place: u32, name: &str, bus_error: &str) {
        let [word, end] = ["word", "end"].map(|part| format!("{name}_{part}"));
        self.copy(Word(at::LAST), at::POSITION);
        self.label(&word);
        self.load(Word(at::POSITION));
        self.plain(SetX);
        self.load(WordX(place));
        self.number(Output, true, output::LINE);
        self.load(Word(at::POSITION));
        self.take(And, Constant(15));
        let inside = format!("{name}_inside");
        self.jump(JumpNonZero, &inside);
        self.address_of_position(base);
        self.act(action::WRITE);
        self.load(Port(port::BUS_ERROR));
        self.jump(JumpNonZero, bus_error);
        self.load(Word(at::POSITION));
        self.jump(JumpZero, &end);
        self.label(&inside);
        self.load(Word(at::POSITION));
        self.take(Subtract, Constant(1));
        self.store(at::POSITION);
        self.jump(Jump, &word);
        self.label(&end);
    }

    /// The subroutine that finds the entry `SCRATCH` of table `TABLE`; the accumulator is the outcome.
    fn locate(&mut self) {
        self.label("locate");
        self.load(Word(at::TABLE));
        self.take(Xor, Constant(Table::Mpt.code().into()));
        self.jump(JumpNonZero, "locate_asks");
        self.load(Port(port::MPT_MASK));
        self.take(Subtract, Word(at::SCRATCH));
        self.jump(JumpNoCarry, "locate_range");
        self.label("locate_asks");
        self.out(Word(at::SCRATCH), output::INDEX);
        self.act(action::LOOKUP);
        self.load(Port(port::FOUND_STATUS));
        self.jump(JumpZero, "locate_found");
        for (status, label) in [
            (Status::IndexOutOfRange, "locate_range"),
            (Status::HemBusError, "locate_bus"),
            (Status::HemTimeout, "locate_bus"),
        ] {
            self.load(Port(port::FOUND_STATUS));
            self.take(Xor, Constant(status.code().into()));
            self.jump(JumpZero, label);
        }
        self.label("locate_unmapped");
        self.load(Constant(UNMAPPED));
        self.plain(Return);
        self.label("locate_found");
        self.load(Port(port::FOUND_LOW));
        self.take(And, Constant(BUFFER_ALIGNMENT_BYTES as u32 - 1));
        self.jump(JumpNonZero, "locate_unmapped");
        self.load(Constant(FOUND));
        self.plain(Return);
        self.label("locate_range");
        self.load(Constant(OUT_OF_RANGE));
        self.plain(Return);
        self.label("locate_bus");
        self.load(Constant(BUS_ERROR));
        self.plain(Return);
    }

    /// Looks for the region of key `KEY`, which a window at `place` was bound to, and where it counts windows prepares that it
    /// counts one less.
    fn release(&mut self, name: &str) {
        let [line, end] = ["line", "end"].map(|part| format!("{name}_{part}"));
        self.copy(Constant(0), at::HAS_FORMER);
        self.load(Word(at::KEY));
        for _ in 0..3 {
            self.plain(RotateByte);
        }
        self.take(And, Constant(0xff_ffff));
        self.store(at::SCRATCH);
        self.jump(Call, "locate");
        self.jump(JumpNonZero, &end);
        self.copy(Port(port::FOUND_LOW), at::FORMER_ADDRESS);
        self.copy(Port(port::FOUND_HIGH), at::FORMER_ADDRESS + 1);
        self.read_line(at::FORMER_ADDRESS, at::FORMER, &line);
        self.jump(JumpNonZero, &end);
        self.load(Word(at::FORMER));
        self.take(And, Constant(3));
        self.take(Xor, Constant(mpt_entry::STATE_VALID as u32));
        self.jump(JumpNonZero, &end);
        self.load(Word(at::FORMER + dword(mpt_entry::MR_MW)));
        self.take(And, Constant(mask(mpt_entry::MR_MW)));
        self.jump(JumpNonZero, &end);
        self.load(Word(at::FORMER + dword(mpt_entry::MW_CNT)));
        self.take(And, Constant(mask(mpt_entry::MW_CNT)));
        self.jump(JumpZero, &end);
        self.load(Word(at::FORMER + dword(mpt_entry::LKEY)));
        self.take(Xor, Word(at::KEY));
        self.jump(JumpNonZero, &end);
        let copy = format!("{name}_copy");
        self.load(Constant(15));
        self.plain(SetX);
        self.label(&copy);
        self.load(WordX(at::FORMER));
        self.store_x(at::FORMER_NEW);
        self.jump(CountDown, &copy);
        self.load(Word(at::FORMER + dword(mpt_entry::MW_CNT)));
        self.take(Subtract, Constant(1 << (mpt_entry::MW_CNT.low % 32)));
        self.store(at::FORMER_NEW + dword(mpt_entry::MW_CNT));
        self.copy(Constant(1), at::HAS_FORMER);
        self.label(&end);
    }
}

impl Assembler {
    /// The three words of a fence, and the fence. The index is of the entry, or none for all of the function.
    fn fence(&mut self, index: Option<u32>) {
        match index {
            Some(place) => {
                self.load(Word(place));
                self.plain(RotateByte);
                self.number(Output, false, output::FENCE_KEY);
                self.out(Constant(0), output::SCOPE);
            }
            None => self.out(Constant(3), output::SCOPE),
        }
        self.act(action::FENCE);
    }

    /// A word into a register of the core.
    fn write_register(&mut self, register: &regs::Register, word: From) {
        self.out(Constant(register.offset), output::REGISTER_ADDRESS);
        self.out(word, output::REGISTER);
        self.act(action::WRITE_REGISTER);
    }

    /// Keeps the host from the registers of the core and saves its staged ones.
    fn lock(&mut self, registers: &[regs::Register]) {
        self.out(Constant(1), output::LOCK);
        self.act(action::QUIET);
        for (register, place) in registers.iter().zip(at::SAVED..) {
            self.out(Constant(register.offset), output::REGISTER_ADDRESS);
            self.act(action::READ_REGISTER);
            self.copy(Port(port::REGISTER), place);
        }
    }

    /// Gives them back as they were.
    fn unlock(&mut self, registers: &[regs::Register]) {
        for (register, place) in registers.iter().zip(at::SAVED..) {
            self.write_register(register, Word(place));
        }
        self.out(Constant(0), output::LOCK);
    }

    /// `table_select` for the table in `TABLE`.
    fn select_table(&mut self) {
        self.load(Port(port::TABLE_SET));
        self.plain(RotateByte);
        self.take(Or, Word(at::TABLE));
        self.store(at::SCRATCH);
        self.write_register(&regs::table_select::REGISTER, Word(at::SCRATCH));
    }

    /// Low or high bits of the accumulator: moved right by `SCRATCH_2` bits, which stay below 2^32.
    fn shift_right(&mut self, name: &str) {
        let [step, end] = ["step", "end"].map(|part| format!("{name}_{part}"));
        self.store(at::SCRATCH);
        self.label(&step);
        self.load(Word(at::SCRATCH_2));
        self.jump(JumpZero, &end);
        self.take(Subtract, Constant(1));
        self.store(at::SCRATCH_2);
        self.load(Word(at::SCRATCH));
        self.jump(JumpZero, &end);
        self.take(Add, Constant(0));
        self.plain(ShiftRight);
        self.store(at::SCRATCH);
        self.jump(Jump, &step);
        self.label(&end);
        self.load(Word(at::SCRATCH));
    }

    /// Adds a four-bit field of the geometry, given by its lowest bit, to the accumulator's place `SCRATCH_2`.
    fn geometry_field(&mut self, field: keywalk_contract::Field, place: u32) {
        self.load(Port(port::GEOMETRY));
        self.take(And, Constant(mask(field)));
        self.store(place);
        for bit in 0..field.low {
            let _ = bit;
            self.load(Word(place));
            self.take(Add, Constant(0));
            self.plain(ShiftRight);
            self.store(place);
        }
    }

    /// CFG_BT_ATTR.
    fn configuration(&mut self) {
        let saved = [regs::table_select::REGISTER, regs::table_geometry::REGISTER, regs::table_object_count::REGISTER];
        self.label("configuration");
        self.out(Port(port::MAILBOX_FUNCTION), output::FUNCTION);
        self.lock(&saved);
        for (table, number) in hem::BT_ATTRIBUTE_ORDER.into_iter().zip(0..) {
            self.copy(Constant(table.code().into()), at::TABLE);
            self.number(Output, false, output::TABLE);
            self.select_table();
            self.write_register(&regs::table_object_count::REGISTER, Port(port::OBJECT_COUNT));
            // Sizes stand four bits higher in the register, hops at its bottom.
            self.load(Port(port::MAILBOX + number));
            self.take(And, Constant(0xff));
            for _ in 0..4 {
                self.store(at::SCRATCH);
                self.take(Add, Word(at::SCRATCH));
            }
            self.store(at::SCRATCH_2);
            self.load(Port(port::MAILBOX + number));
            for _ in 0..3 {
                self.plain(RotateByte);
            }
            self.take(And, Constant(3));
            self.take(Or, Word(at::SCRATCH_2));
            self.store(at::SCRATCH_2);
            self.load(Port(port::GEOMETRY));
            self.take(And, Constant(!0xff3));
            self.take(Or, Word(at::SCRATCH_2));
            self.store(at::SCRATCH_2);
            self.write_register(&regs::table_geometry::REGISTER, Word(at::SCRATCH_2));
            self.write_register(&regs::table_commit::REGISTER, Constant(0));
        }
        self.unlock(&saved);
        self.act(action::END_CONFIGURATION);
        self.jump(Jump, "idle_mailbox");
    }

    /// BT commands.
    fn bt(&mut self, bt0_slots: u32) {
        let end = "mailbox_end";
        let status = |status: CommandStatus| u32::from(status.code());
        self.label("bt");
        self.load(Port(port::COMMAND));
        self.take(And, Constant(0xc0));
        self.plain(RotateByte);
        self.plain(RotateByte);
        self.plain(RotateByte);
        self.store(at::STEP); // step << 30
        self.load(Port(port::COMMAND));
        self.take(And, Constant(0xc0));
        self.store(at::SCRATCH);
        self.copy(Constant(6), at::SCRATCH_2);
        self.load(Word(at::SCRATCH));
        self.shift_right("bt_step");
        self.store(at::STEP);
        self.load(Port(port::GEOMETRY));
        self.take(And, Constant(3));
        self.take(Subtract, Word(at::STEP));
        self.jump(JumpCarry, "bt_has_step");
        self.fail(status(CommandStatus::StepTooLarge), end);
        self.label("bt_has_step");
        self.copy(Word(at::INDEX), at::DIVIDEND);
        self.load(Word(at::TABLE));
        self.take(Xor, Constant(Table::Sccc.code().into()));
        self.jump(JumpZero, "bt_level_0");
        self.load(Word(at::TABLE));
        self.take(Xor, Constant(Table::Mpt.code().into()));
        self.jump(JumpNonZero, "bt_is_no_mpt");
        self.load(Port(port::MPT_MASK));
        self.take(Subtract, Word(at::INDEX));
        self.jump(JumpNoCarry, "bt_out_of_range");
        self.label("bt_is_no_mpt");
        self.load(Port(port::OBJECT_COUNT));
        self.jump(JumpZero, "bt_in_range");
        self.load(Word(at::INDEX));
        self.take(Subtract, Port(port::OBJECT_COUNT));
        self.jump(JumpNoCarry, "bt_in_range");
        self.label("bt_out_of_range");
        self.fail(status(CommandStatus::IndexOutOfRange), end);
        self.label("bt_in_range");
        // Objects per chunk.
        self.geometry_field(regs::table_geometry::BUF_PG_SZ, at::COUNT);
        self.geometry_field(regs::table_geometry::ENTRY_BYTES_LOG2, at::SCRATCH_2);
        self.load(Word(at::COUNT));
        self.take(Add, Constant(12));
        self.take(Subtract, Word(at::SCRATCH_2));
        self.store(at::COUNT);
        // Entries per page, for each hop.
        self.geometry_field(regs::table_geometry::BA_PG_SZ, at::POSITION);
        self.load(Port(port::GEOMETRY));
        self.take(And, Constant(3));
        self.store(at::REMAINDER);
        self.label("bt_hops");
        self.load(Word(at::REMAINDER));
        self.jump(JumpZero, "bt_shift");
        self.take(Subtract, Constant(1));
        self.store(at::REMAINDER);
        self.load(Word(at::COUNT));
        self.take(Add, Constant(9));
        self.take(Add, Word(at::POSITION));
        self.store(at::COUNT);
        self.jump(Jump, "bt_hops");
        self.label("bt_shift");
        self.copy(Word(at::COUNT), at::SCRATCH_2);
        self.load(Word(at::INDEX));
        self.shift_right("bt_level");
        self.store(at::DIVIDEND);
        // Modulo bt_num, bit by bit.
        self.label("bt_level_0");
        self.geometry_field(regs::table_geometry::BT_NUM, at::COUNT);
        self.copy(Constant(0), at::REMAINDER);
        self.load(Constant(31));
        self.plain(SetX);
        self.label("bt_divide");
        self.load(Word(at::DIVIDEND));
        self.take(Add, Word(at::DIVIDEND));
        self.store(at::DIVIDEND);
        self.load(Word(at::REMAINDER));
        self.take(AddCarry, Word(at::REMAINDER));
        self.store(at::REMAINDER);
        self.take(Subtract, Word(at::COUNT));
        self.jump(JumpNoCarry, "bt_keeps");
        self.store(at::REMAINDER);
        self.label("bt_keeps");
        self.jump(CountDown, "bt_divide");
        self.load(Word(at::REMAINDER));
        self.take(Subtract, Constant(bt0_slots));
        self.jump(JumpCarry, "bt_out_of_range");
        // The base of a WRITE.
        self.load(Port(port::COMMAND));
        self.take(And, Constant(kind::DESTROY_BT << 3));
        self.jump(JumpNonZero, "bt_sets");
        self.load(Port(port::MAILBOX));
        self.take(Or, Port(port::MAILBOX + 1));
        self.jump(JumpZero, "bt_illegal");
        self.load(Port(port::MAILBOX));
        self.take(And, Constant(7));
        self.jump(JumpNonZero, "bt_illegal");
        self.load(Port(port::ALIGNMENT_CHECK));
        self.jump(JumpZero, "bt_sets");
        self.load(Port(port::MAILBOX));
        self.take(And, Constant(0xfff));
        self.jump(JumpZero, "bt_sets");
        self.label("bt_illegal");
        self.fail(status(CommandStatus::AddressIllegal), end);
        self.label("bt_sets");
        self.load(Word(at::STEP));
        self.jump(JumpNonZero, "bt_fence");
        let saved = [regs::table_select::REGISTER, regs::bt0_low::REGISTER, regs::bt0_high::REGISTER];
        self.lock(&saved);
        self.select_table();
        self.write_register(&regs::bt0_low::REGISTER, Port(port::MAILBOX));
        self.write_register(&regs::bt0_high::REGISTER, Port(port::MAILBOX + 1));
        self.load(Port(port::COMMAND));
        self.take(And, Constant(kind::DESTROY_BT << 3));
        self.jump(JumpNonZero, "bt_commits");
        self.load(Word(at::REMAINDER));
        self.take(Or, Constant(mask(regs::bt0_commit::VALID)));
        self.store(at::REMAINDER);
        self.label("bt_commits");
        self.write_register(&regs::bt0_commit::REGISTER, Word(at::REMAINDER));
        self.unlock(&saved);
        self.label("bt_fence");
        self.fence(None);
        self.fail(status(CommandStatus::Ok), end);
    }
}

/// A command's status as a word.
const fn command_code(status: CommandStatus) -> u32 {
    status.code() as u32
}

/// A work request's status as a word.
const fn work_code(status: WorkStatus) -> u32 {
    status.code() as u32
}

impl Assembler {
    /// Mailbox commands.
    fn mailbox(&mut self) {
        let end = "mailbox_end";
        self.label("mailbox");
        self.out(Port(port::MAILBOX_FUNCTION), output::FUNCTION);
        self.require_bits(
            Port(port::COMMAND),
            0x100,
            true,
            "mb_known",
            command_code(CommandStatus::UnknownCommand),
            end,
        );
        self.load(Port(port::COMMAND));
        self.take(And, Constant(7));
        self.store(at::TABLE);
        self.number(Output, false, output::TABLE);
        self.load(Port(port::MAILBOX + 4));
        for _ in 0..3 {
            self.plain(RotateByte);
        }
        self.take(And, Constant(0xff_ffff));
        self.store(at::INDEX);
        self.store(at::SCRATCH);
        self.load(Port(port::COMMAND));
        self.take(And, Constant(0x30));
        self.jump(JumpZero, "bt");
        self.jump(Call, "locate");
        self.store(at::OUTCOME);
        self.take(Xor, Constant(OUT_OF_RANGE));
        self.jump(JumpNonZero, "mb_in_range");
        self.fail(command_code(CommandStatus::IndexOutOfRange), end);
        self.label("mb_in_range");
        // The buffer.
        self.copy(Port(port::MAILBOX), at::BUFFER);
        self.copy(Port(port::MAILBOX + 1), at::BUFFER + 1);
        let is_kind = |program: &mut Self, kind: u32, label: &str| {
            program.load(Port(port::COMMAND));
            program.take(And, Constant(0x38));
            program.take(Xor, Constant(kind << 3));
            program.jump(JumpZero, label);
        };
        is_kind(self, kind::DESTROY, "mb_located");
        self.load(Port(port::COMMAND));
        self.take(And, Constant(0x38));
        self.take(Xor, Constant(kind::QUERY << 3));
        self.jump(JumpNonZero, "mb_buffer");
        self.copy(Port(port::MAILBOX + 2), at::BUFFER);
        self.copy(Port(port::MAILBOX + 3), at::BUFFER + 1);
        self.label("mb_buffer");
        self.load(Word(at::BUFFER));
        self.take(Or, Word(at::BUFFER + 1));
        self.jump(JumpZero, "mb_illegal");
        self.load(Word(at::BUFFER));
        self.take(And, Constant(BUFFER_ALIGNMENT_BYTES as u32 - 1));
        self.jump(JumpZero, "mb_located");
        self.label("mb_illegal");
        self.fail(command_code(CommandStatus::AddressIllegal), end);
        self.label("mb_located");
        self.load(Word(at::OUTCOME));
        self.jump(JumpZero, "mb_found");
        self.take(Xor, Constant(BUS_ERROR));
        self.jump(JumpZero, "mb_bus_error");
        self.label("mb_unmapped");
        self.fail(command_code(CommandStatus::Unmapped), end);
        self.label("mb_bus_error");
        self.fail(command_code(CommandStatus::BusError), end);
        self.label("mb_found");
        self.copy(Port(port::FOUND_LOW), at::ADDRESS);
        self.copy(Port(port::FOUND_HIGH), at::ADDRESS + 1);
        for bytes_log2 in 6..=9u32 {
            self.copy(Constant((1 << (bytes_log2 - 2)) - 1), at::LAST);
            self.load(Port(port::GEOMETRY));
            self.take(And, Constant(mask(regs::table_geometry::ENTRY_BYTES_LOG2)));
            self.take(Xor, Constant(bytes_log2 << regs::table_geometry::ENTRY_BYTES_LOG2.low));
            self.jump(JumpZero, "mb_sized");
        }
        self.jump(Jump, "mb_unmapped");
        self.label("mb_sized");
        self.read_buffer(at::ADDRESS, at::OLD, "mb_old", "mb_bus_error");
        is_kind(self, kind::QUERY, "mb_query");
        is_kind(self, kind::MODIFY, "mb_modify");
        is_kind(self, kind::DESTROY, "mb_destroy");
        self.read_buffer(at::BUFFER, at::NEW, "mb_new", "mb_bus_error");
        self.jump(Jump, "mb_release");

        self.label("mb_query");
        self.write_buffer(at::BUFFER, at::OLD, "mb_out", "mb_bus_error");
        self.fail(command_code(CommandStatus::Ok), end);

        // The old context where the mask is set, the new one where it is clear.
        self.label("mb_modify");
        self.copy(Word(at::LAST), at::COUNT);
        self.take(Add, Word(at::LAST));
        self.take(Add, Constant(1));
        self.store(at::LAST);
        self.read_buffer(at::BUFFER, at::NEW, "mb_given", "mb_bus_error");
        self.copy(Word(at::COUNT), at::LAST);
        self.store(at::POSITION);
        self.label("mb_merge");
        self.load(Word(at::POSITION));
        self.plain(SetX);
        self.load(WordX(at::NEW));
        self.take(Xor, WordX(at::OLD));
        self.store(at::SCRATCH);
        self.load(Word(at::POSITION));
        self.take(Add, Word(at::LAST));
        self.take(Add, Constant(1));
        self.plain(SetX);
        self.load(WordX(at::NEW));
        self.take(Xor, Constant(u32::MAX));
        self.take(And, Word(at::SCRATCH));
        self.store(at::SCRATCH);
        self.load(Word(at::POSITION));
        self.plain(SetX);
        self.load(Word(at::SCRATCH));
        self.take(Xor, WordX(at::OLD));
        self.store_x(at::NEW);
        self.load(Word(at::POSITION));
        self.jump(JumpZero, "mb_merged");
        self.take(Subtract, Constant(1));
        self.store(at::POSITION);
        self.jump(Jump, "mb_merge");
        self.label("mb_merged");
        self.copy(Constant(0), at::HAS_FORMER);
        self.jump(Jump, "mb_write");

        self.label("mb_destroy");
        self.copy(Word(at::LAST), at::POSITION);
        self.label("mb_destroy_copy");
        self.load(Word(at::POSITION));
        self.plain(SetX);
        self.load(WordX(at::OLD));
        self.store_x(at::NEW);
        self.load(Word(at::POSITION));
        self.jump(JumpZero, "mb_destroy_state");
        self.take(Subtract, Constant(1));
        self.store(at::POSITION);
        self.jump(Jump, "mb_destroy_copy");
        self.label("mb_destroy_state");
        self.load(Word(at::NEW));
        self.take(And, Constant(!3));
        self.store(at::NEW);

        // A region that windows are bound to stays; a window that is bound is counted no more.
        self.label("mb_release");
        self.copy(Constant(0), at::HAS_FORMER);
        self.load(Word(at::TABLE));
        self.take(Xor, Constant(Table::Mpt.code().into()));
        self.jump(JumpNonZero, "mb_write");
        self.load(Word(at::OLD));
        self.take(And, Constant(3));
        self.take(Xor, Constant(mpt_entry::STATE_VALID as u32));
        self.jump(JumpNonZero, "mb_write");
        self.load(Word(at::OLD + dword(mpt_entry::MR_MW)));
        self.take(And, Constant(mask(mpt_entry::MR_MW)));
        self.jump(JumpNonZero, "mb_window");
        self.require_bits(
            Word(at::OLD + dword(mpt_entry::MW_CNT)),
            mask(mpt_entry::MW_CNT),
            false,
            "mb_write",
            command_code(CommandStatus::WindowsBound),
            end,
        );
        self.jump(Jump, "mb_write_begins");
        self.label("mb_window");
        self.copy(Word(at::OLD + dword(mpt_entry::BOUND_LKEY)), at::KEY);
        self.jump(JumpZero, "mb_write_begins");
        self.release("mb_former");
        self.label("mb_write_begins");
        self.write_buffer(at::ADDRESS, at::NEW, "mb_change", "mb_undo");
        self.load(Word(at::HAS_FORMER));
        self.jump(JumpZero, "mb_written");
        self.write_line(at::FORMER_ADDRESS, at::FORMER_NEW, "mb_former_write");
        self.jump(JumpZero, "mb_written");
        // The former parent was not written: the object, which takes one line, is put back.
        self.write_buffer(at::ADDRESS, at::OLD, "mb_back", "mb_bus_error");
        self.jump(Jump, "mb_bus_error");
        // Lines above the one that failed have been written.
        self.label("mb_undo");
        self.load(Word(at::POSITION));
        self.take(Or, Constant(15));
        self.store(at::COUNT);
        self.copy(Word(at::LAST), at::POSITION);
        self.label("mb_undo_word");
        self.load(Word(at::POSITION));
        self.take(Xor, Word(at::COUNT));
        self.jump(JumpZero, "mb_bus_error");
        self.load(Word(at::POSITION));
        self.plain(SetX);
        self.load(WordX(at::OLD));
        self.number(Output, true, output::LINE);
        self.load(Word(at::POSITION));
        self.take(And, Constant(15));
        self.jump(JumpNonZero, "mb_undo_inside");
        self.address_of_position(at::ADDRESS);
        self.act(action::WRITE);
        self.label("mb_undo_inside");
        self.load(Word(at::POSITION));
        self.take(Subtract, Constant(1));
        self.store(at::POSITION);
        self.jump(Jump, "mb_undo_word");
        self.label("mb_written");
        is_kind(self, kind::MODIFY, "mb_ok");
        self.load(Word(at::TABLE));
        self.take(Xor, Constant(Table::Mpt.code().into()));
        self.jump(JumpNonZero, "mb_ok");
        self.fence(Some(at::INDEX));
        self.label("mb_ok");
        self.load(Constant(command_code(CommandStatus::Ok)));
        self.label(end);
        self.number(Output, false, output::STATUS);
        self.act(action::END_MAILBOX);
        self.jump(Jump, "idle_work");
    }
}

/// The program of an engine without work requests.
#[must_use]
pub fn program(config: &Config) -> Vec<u128> {
    let mut program = Assembler::default();
    for (name, order) in [("idle_mailbox", ["mailbox", "work"]), ("idle_work", ["work", "mailbox"])] {
        program.label(name);
        for label in ["configuration"].into_iter().chain(order) {
            let bit = match label {
                "configuration" => 1,
                "mailbox" => 2,
                _ => 4,
            };
            program.load(Port(port::PENDING));
            program.take(And, Constant(bit));
            program.jump(JumpNonZero, label);
        }
        program.jump(Jump, name);
    }
    program.configuration();
    program.locate();
    program.mailbox();
    program.bt(config.bt0_slots);
    program.work();
    program.finish()
}

/// Dword of a field of a work request, as a port.
const fn wqe(field: keywalk_contract::Field) -> From {
    Port(port::WORK + dword(field))
}

impl Assembler {
    /// Finds the entry of a key and reads it; its index goes to `index`.
    fn find(&mut self, key: From, index: u32, address: u32, place: u32, name: &str, failures: [WorkStatus; 3]) {
        let end = "work_end";
        let part = |part: &str| format!("{name}_{part}");
        self.load(key);
        for _ in 0..3 {
            self.plain(RotateByte);
        }
        self.take(And, Constant(0xff_ffff));
        self.store(index);
        self.store(at::SCRATCH);
        self.jump(Call, "locate");
        self.jump(JumpZero, &part("found"));
        for (outcome, status) in [OUT_OF_RANGE, UNMAPPED].into_iter().zip(failures) {
            let next = part(&format!("not_{outcome}"));
            self.store(at::OUTCOME);
            self.take(Xor, Constant(outcome));
            self.jump(JumpNonZero, &next);
            self.fail(work_code(status), end);
            self.label(&next);
            self.load(Word(at::OUTCOME));
        }
        self.label(&part("bus_error"));
        self.fail(work_code(failures[2]), end);
        self.label(&part("found"));
        self.copy(Port(port::FOUND_LOW), address);
        self.copy(Port(port::FOUND_HIGH), address + 1);
        self.read_line(address, place, &part("line"));
        self.jump(JumpNonZero, &part("bus_error"));
    }

    /// Copies an entry.
    fn copy_entry(&mut self, from: u32, to: u32, name: &str) {
        self.load(Constant(15));
        self.plain(SetX);
        self.label(name);
        self.load(WordX(from));
        self.store_x(to);
        self.jump(CountDown, name);
    }

    /// Bits of a word of the new entry take those of the accumulator.
    fn put(&mut self, place: u32, bits: u32) {
        self.take(Xor, Word(place));
        self.take(And, Constant(bits));
        self.take(Xor, Word(place));
        self.store(place);
    }

    /// Work requests.
    fn work(&mut self) {
        use work::{bind_window, cqe, fast_register, invalidate_key};
        let end = "work_end";
        let old = |field| Word(at::OLD + dword(field));
        let own = [WorkStatus::IndexOutOfRange, WorkStatus::Unmapped, WorkStatus::BusError];
        self.label("work");
        self.out(Port(port::WORK_FUNCTION), output::FUNCTION);
        self.copy(Constant(Table::Mpt.code().into()), at::TABLE);
        self.number(Output, false, output::TABLE);
        for (opcode, label) in [
            (WorkOpcode::FastRegister, "fast"),
            (WorkOpcode::LocalInvalidate, "local"),
            (WorkOpcode::SendWithInvalidate, "send"),
            (WorkOpcode::BindWindow, "bind"),
        ] {
            self.copy(Constant(WorkStatus::State.cqe_code(Some(opcode)).into()), at::CQE_CODE);
            self.load(wqe(invalidate_key::OPCODE));
            self.take(And, Constant(mask(invalidate_key::OPCODE)));
            self.take(Xor, Constant(opcode as u32));
            self.jump(JumpZero, label);
        }
        self.copy(Constant(cqe::REM_INVAL.into()), at::CQE_CODE);
        self.fail(work_code(WorkStatus::UnknownOpcode), end);

        self.label("fast");
        self.require_bits(Port(port::PRIVILEGED), 1, true, "fr_privileged", work_code(WorkStatus::NotPrivileged), end);
        self.find(wqe(fast_register::KEY), at::INDEX, at::ADDRESS, at::OLD, "fr", own);
        let kind_bits = mask(mpt_entry::FRE) | mask(mpt_entry::MR_MW);
        self.require_equal(
            old(mpt_entry::FRE),
            kind_bits,
            Constant(mask(mpt_entry::FRE)),
            "fr_kind",
            work_code(WorkStatus::Kind),
            end,
        );
        self.require_equal(
            old(mpt_entry::ST),
            3,
            Constant(mpt_entry::STATE_FREE as u32),
            "fr_state",
            work_code(WorkStatus::State),
            end,
        );
        self.load(Port(port::PD));
        self.plain(RotateByte);
        self.store(at::SCRATCH);
        self.require_equal(
            old(mpt_entry::PD),
            mask(mpt_entry::PD),
            Word(at::SCRATCH),
            "fr_pd",
            work_code(WorkStatus::ProtectionDomain),
            end,
        );
        // Table: not zero, a multiple of eight.
        self.load(Port(port::WORK + 1));
        self.take(Or, Port(port::WORK + 2));
        self.jump(JumpZero, "fr_illegal");
        self.load(Port(port::WORK + 1));
        self.take(And, Constant(7));
        self.jump(JumpNonZero, "fr_illegal");
        // Pages 1 to 512.
        self.load(wqe(fast_register::PBL_SIZE));
        self.jump(JumpZero, "fr_illegal");
        self.take(Subtract, Constant(work::FAST_REGISTRATION_PAGES_MAX as u32 + 1));
        self.jump(JumpCarry, "fr_illegal");
        self.load(Port(port::WORK + 3));
        self.take(Or, Port(port::WORK + 4));
        self.jump(JumpZero, "fr_legal");
        // The last byte: VA + LENGTH - 1, which must not leave 2^64.
        self.load(Port(port::WORK + 3));
        self.take(Subtract, Constant(1));
        self.store(at::END);
        self.load(Port(port::WORK + 4));
        self.take(SubtractBorrow, Constant(0));
        self.store(at::END + 1);
        self.load(Word(at::END));
        self.take(Add, Port(port::WORK + 6));
        self.store(at::END);
        self.load(Word(at::END + 1));
        self.take(AddCarry, Port(port::WORK + 7));
        self.store(at::END + 1);
        self.jump(JumpCarry, "fr_illegal");
        // Pages from the first to the last: both move right together.
        self.copy(Port(port::WORK + 6), at::BUFFER);
        self.copy(Port(port::WORK + 7), at::BUFFER + 1);
        self.load(wqe(fast_register::BUF_PG_SZ));
        self.take(And, Constant(0xf0));
        for _ in 0..3 {
            self.plain(RotateByte);
        }
        self.store(at::SCRATCH);
        // It stands 20 bits too high: four steps more to the right by three more rounds of a byte.
        self.load(wqe(fast_register::BUF_PG_SZ));
        self.take(And, Constant(0xf0));
        for _ in 0..4 {
            self.take(Add, Constant(0));
            self.plain(ShiftRight);
        }
        self.take(Add, Constant(12));
        self.take(Add, Port(port::PAGE_SHIFT_BASE));
        self.store(at::COUNT);
        self.label("fr_shift");
        for place in [at::END, at::BUFFER] {
            self.load(Word(place + 1));
            self.take(Add, Constant(0));
            self.plain(ShiftRight);
            self.store(place + 1);
            self.load(Word(place));
            self.plain(ShiftRight);
            self.store(place);
        }
        self.load(Word(at::COUNT));
        self.take(Subtract, Constant(1));
        self.store(at::COUNT);
        self.jump(JumpNonZero, "fr_shift");
        self.load(Word(at::END));
        self.take(Subtract, Word(at::BUFFER));
        self.store(at::SCRATCH);
        self.load(Word(at::END + 1));
        self.take(SubtractBorrow, Word(at::BUFFER + 1));
        self.jump(JumpNonZero, "fr_illegal");
        self.load(Word(at::SCRATCH));
        self.take(Subtract, wqe(fast_register::PBL_SIZE));
        self.jump(JumpNoCarry, "fr_legal");
        self.label("fr_illegal");
        self.fail(work_code(WorkStatus::Illegal), end);
        self.label("fr_legal");
        self.copy_entry(at::OLD, at::NEW, "fr_copy");
        self.load(Constant(mpt_entry::STATE_VALID as u32));
        self.put(at::NEW, 3);
        // Rights: bits 10 to 14 of dword 9 become bits 3 to 7 of dword 1.
        self.load(Port(port::WORK + 9));
        for _ in 0..7 {
            self.take(Add, Constant(0));
            self.plain(ShiftRight);
        }
        self.put(at::NEW + 1, 0xf8);
        for (field, from) in [(4, 3), (5, 4), (6, 5), (7, 6), (8, 7), (9, 8)] {
            self.copy(Port(port::WORK + from), at::NEW + field);
        }
        self.copy(Port(port::WORK + 1), at::BUFFER);
        self.copy(Port(port::WORK + 2), at::BUFFER + 1);
        for _ in 0..3 {
            self.load(Word(at::BUFFER + 1));
            self.take(Add, Constant(0));
            self.plain(ShiftRight);
            self.store(at::BUFFER + 1);
            self.load(Word(at::BUFFER));
            self.plain(ShiftRight);
            self.store(at::BUFFER);
        }
        self.copy(Word(at::BUFFER), at::NEW + 10);
        self.load(Word(at::BUFFER + 1));
        self.put(at::NEW + 11, 0x1fff_ffff);
        // The page size, bits 4 to 7 of dword 9, becomes the highest four bits of dword 15.
        self.load(Port(port::WORK + 9));
        for _ in 0..3 {
            self.plain(RotateByte);
        }
        self.put(at::NEW + 15, 0xf000_0000);
        self.write_line(at::ADDRESS, at::NEW, "fr_write");
        self.jump(JumpNonZero, "fr_bus_error");
        self.jump(Jump, "work_done");

        for (label, is_remote) in [("local", false), ("send", true)] {
            let part = |part: &str| format!("{label}_{part}");
            self.label(label);
            self.find(wqe(invalidate_key::KEY), at::INDEX, at::ADDRESS, at::OLD, &part("inv"), own);
            let _ = is_remote;
            self.fail(work_code(WorkStatus::Kind), end);
        }
        self.label("bind");
        self.fail(work_code(WorkStatus::Kind), end);

        self.label("work_done");
        self.fence(Some(at::INDEX));
        self.copy(Constant(cqe::OK.into()), at::CQE_CODE);
        self.load(Constant(work_code(WorkStatus::Ok)));
        self.label(end);
        self.number(Output, false, output::STATUS);
        self.out(Word(at::CQE_CODE), output::CQE_CODE);
        self.act(action::END_WORK);
        self.jump(Jump, "idle_mailbox");
        let _ = (bind_window::OPCODE, Subtract);
    }
}

/// A mailbox command as port [`port::COMMAND`] shows it; 0 for an unknown one.
#[must_use]
pub fn decoded(code: u8) -> u32 {
    use keywalk_contract::command::{Action, MailboxCommand};
    let Some(command) = MailboxCommand::from_code(code) else { return 0 };
    let (kind, step) = match command.action {
        Action::WriteBt { step } => (kind::WRITE_BT, step),
        Action::DestroyBt { step } => (kind::DESTROY_BT, step),
        Action::Create => (kind::CREATE, 0),
        Action::Modify => (kind::MODIFY, 0),
        Action::Query => (kind::QUERY, 0),
        Action::Destroy => (kind::DESTROY, 0),
    };
    0x100 | u32::from(step) << 6 | kind << 3 | u32::from(command.table.code())
}
