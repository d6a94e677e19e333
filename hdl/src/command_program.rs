//! The command unit's program: what mailbox commands and work requests do, in the order of their statuses.
//! A part of the command unit, not a block.

use crate::command_machine::{Assembler, From, Op};
use From::{Constant, Port, PortX, Word, WordX};
use Op::*;
use keywalk_contract::command::{BUFFER_ALIGNMENT_BYTES, CONTEXT_BYTES_LOG2};
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
    /// Key of the region that a window was bound to, 0 for none.
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
    /// Not zero where a length is not.
    pub const LENGTH: u32 = 606;
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
    (field.max() as u32) << (field.low % 32)
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

    /// The index of a key goes to `place`.
    fn index_of(&mut self, key: From, place: u32) {
        self.load(key);
        for _ in 0..3 {
            self.plain(RotateByte);
        }
        self.take(And, Constant(0xff_ffff));
        self.store(place);
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

    /// Goes to `end` unless masked bits of a word are these.
    fn unless(&mut self, from: From, bits: u32, are: u32, end: &str) {
        self.load(from);
        self.take(And, Constant(bits));
        self.take(Xor, Constant(are));
        self.jump(JumpNonZero, end);
    }

    /// The subroutine that looks for the region of key `KEY`, which a window was bound to, and where it counts windows
    /// prepares that it counts one less. Where it cannot be had, there is nothing to count.
    fn release(&mut self) {
        let former = |field| Word(at::FORMER + dword(field));
        let end = "release_end";
        self.label("release");
        self.copy(Constant(0), at::HAS_FORMER);
        self.load(Word(at::KEY));
        self.jump(JumpZero, end);
        self.index_of(Word(at::KEY), at::SCRATCH);
        self.jump(Call, "locate");
        self.jump(JumpNonZero, end);
        self.copy(Port(port::FOUND_LOW), at::FORMER_ADDRESS);
        self.copy(Port(port::FOUND_HIGH), at::FORMER_ADDRESS + 1);
        self.read_line(at::FORMER_ADDRESS, at::FORMER, "release_line");
        self.jump(JumpNonZero, end);
        self.unless(former(mpt_entry::ST), 3, mpt_entry::STATE_VALID as u32, end);
        self.unless(former(mpt_entry::MR_MW), mask(mpt_entry::MR_MW), 0, end);
        self.load(former(mpt_entry::MW_CNT));
        self.take(And, Constant(mask(mpt_entry::MW_CNT)));
        self.jump(JumpZero, end);
        self.load(former(mpt_entry::LKEY));
        self.take(Xor, Word(at::KEY));
        self.jump(JumpNonZero, end);
        self.copy_entry(at::FORMER, at::FORMER_NEW, "release_copy");
        self.load(former(mpt_entry::MW_CNT));
        self.take(Subtract, Constant(1 << (mpt_entry::MW_CNT.low % 32)));
        self.store(at::FORMER_NEW + dword(mpt_entry::MW_CNT));
        self.copy(Constant(1), at::HAS_FORMER);
        self.label(end);
        self.plain(Return);
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

    /// Moves the accumulator right by `SCRATCH_2` bits, however many.
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

    /// Moves the accumulator right; the bits that fall off must be zero.
    fn shift_right_by(&mut self, bits: u32) {
        // A byte to the right is three to the left, all the way round.
        for _ in 0..bits / 8 * 3 % 4 {
            self.plain(RotateByte);
        }
        for _ in 0..bits % 8 {
            self.take(Add, Constant(0));
            self.plain(ShiftRight);
        }
    }

    /// A field of the geometry goes to `place`.
    fn geometry_field(&mut self, field: keywalk_contract::Field, place: u32) {
        self.load(Port(port::GEOMETRY));
        self.take(And, Constant(mask(field)));
        self.shift_right_by(field.low);
        self.store(place);
    }

    /// CFG_BT_ATTR. What was found by the shapes before is forgotten before the answer, as with base addresses.
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
        self.fence(None);
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
        self.shift_right_by(6);
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
        self.index_of(Port(port::MAILBOX + 4), at::INDEX);
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
        for bytes_log2 in CONTEXT_BYTES_LOG2 {
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
        self.jump(Call, "release");
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

/// The program.
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
    program.release();
    program.mailbox();
    program.bt(config.bt0_slots);
    program.work();
    program.finish()
}

/// Dword of a field of a work request, as a port.
const fn wqe(field: keywalk_contract::Field) -> From {
    Port(port::WORK + dword(field))
}

/// Where work requests end, with the status in the accumulator.
const WORK_END: &str = "work_end";

impl Assembler {
    /// Ends with a status of work requests.
    fn refuse(&mut self, status: WorkStatus) {
        self.fail(work_code(status), WORK_END);
    }

    /// Ends with a status unless masked bits of words are equal.
    fn demand(&mut self, left: From, bits: u32, right: From, status: WorkStatus) {
        let name = format!("demand_{}", self.position());
        self.require_equal(left, bits, right, &name, work_code(status), WORK_END);
    }

    /// Finds the entry of a key and reads it; its index is in `SCRATCH`. `failures`: for an index out of range, an entry
    /// that is not reachable, a bus error.
    fn find(&mut self, address: u32, place: u32, name: &str, failures: [WorkStatus; 3]) {
        let [bus_error, in_range, found, line] =
            ["bus_error", "in_range", "found", "line"].map(|part| format!("{name}_{part}"));
        self.jump(Call, "locate");
        self.jump(JumpZero, &found);
        self.store(at::OUTCOME);
        self.take(Xor, Constant(OUT_OF_RANGE));
        self.jump(JumpNonZero, &in_range);
        self.refuse(failures[0]);
        self.label(&in_range);
        self.load(Word(at::OUTCOME));
        self.take(Xor, Constant(BUS_ERROR));
        self.jump(JumpZero, &bus_error);
        self.refuse(failures[1]);
        self.label(&bus_error);
        self.refuse(failures[2]);
        self.label(&found);
        self.copy(Port(port::FOUND_LOW), address);
        self.copy(Port(port::FOUND_HIGH), address + 1);
        self.read_line(address, place, &line);
        self.jump(JumpNonZero, &bus_error);
    }

    /// Finds the entry that a work request is about.
    fn find_own(&mut self, key: From, name: &str) {
        self.index_of(key, at::INDEX);
        self.store(at::SCRATCH);
        let failures = [WorkStatus::IndexOutOfRange, WorkStatus::Unmapped, WorkStatus::BusError];
        self.find(at::ADDRESS, at::OLD, name, failures);
    }

    /// Ends unless an entry is of the queue's protection domain.
    fn demand_protection_domain(&mut self, entry: u32, status: WorkStatus) {
        self.load(Port(port::PD));
        self.plain(RotateByte);
        self.store(at::SCRATCH);
        self.demand(Word(entry + dword(mpt_entry::PD)), mask(mpt_entry::PD), Word(at::SCRATCH), status);
    }

    /// Bits of a word of the new entry take those of the accumulator.
    fn put(&mut self, place: u32, bits: u32) {
        self.take(Xor, Word(place));
        self.take(And, Constant(bits));
        self.take(Xor, Word(place));
        self.store(place);
    }

    /// State of the new entry.
    fn put_state(&mut self, state: u64) {
        self.load(Constant(state as u32));
        self.put(at::NEW, 3);
    }

    /// Two words at a place one bit to the right.
    fn shift_pair(&mut self, place: u32) {
        self.load(Word(place + 1));
        self.take(Add, Constant(0));
        self.plain(ShiftRight);
        self.store(place + 1);
        self.load(Word(place));
        self.plain(ShiftRight);
        self.store(place);
    }

    /// The last address of a length, not zero, from a first address goes to `place`: leads to `end` where it is beyond 2^64.
    fn last_address(&mut self, first: [From; 2], length: [From; 2], place: u32, end: &str) {
        self.load(length[0]);
        self.take(Subtract, Constant(1));
        self.store(place);
        self.load(length[1]);
        self.take(SubtractBorrow, Constant(0));
        self.store(place + 1);
        self.load(Word(place));
        self.take(Add, first[0]);
        self.store(place);
        self.load(Word(place + 1));
        self.take(AddCarry, first[1]);
        self.store(place + 1);
        self.jump(JumpCarry, end);
    }

    /// Leads to `end` where the two words `left` are below `right`.
    fn unless_at_least(&mut self, left: [From; 2], right: [From; 2], end: &str) {
        self.load(left[0]);
        self.take(Subtract, right[0]);
        self.load(left[1]);
        self.take(SubtractBorrow, right[1]);
        self.jump(JumpNoCarry, end);
    }

    /// Work requests.
    fn work(&mut self) {
        use work::{cqe, invalidate_key};
        self.label("work");
        self.out(Port(port::WORK_FUNCTION), output::FUNCTION);
        self.copy(Constant(0), at::HAS_PARENT);
        self.store(at::HAS_FORMER);
        self.copy(Constant(Table::Mpt.code().into()), at::TABLE);
        self.number(Output, false, output::TABLE);
        for (opcode, label) in [
            (WorkOpcode::FastRegister, "fast"),
            (WorkOpcode::LocalInvalidate, "invalidate"),
            (WorkOpcode::SendWithInvalidate, "invalidate"),
            (WorkOpcode::BindWindow, "bind"),
        ] {
            self.copy(Constant(WorkStatus::State.cqe_code(Some(opcode)).into()), at::CQE_CODE);
            self.load(wqe(invalidate_key::OPCODE));
            self.take(And, Constant(mask(invalidate_key::OPCODE)));
            self.take(Xor, Constant(opcode as u32));
            self.jump(JumpZero, label);
        }
        self.copy(Constant(cqe::REM_INVAL.into()), at::CQE_CODE);
        self.refuse(WorkStatus::UnknownOpcode);

        self.fast_register();
        self.invalidate();
        self.bind();

        // The parent, the entry, the former parent, as far as they change; what was written before a failure is put back.
        self.label("work_writes");
        self.load(Word(at::HAS_PARENT));
        self.jump(JumpZero, "work_own");
        self.write_line(at::PARENT_ADDRESS, at::PARENT_NEW, "work_parent");
        self.jump(JumpNonZero, "work_bus_error");
        self.label("work_own");
        self.write_line(at::ADDRESS, at::NEW, "work_entry");
        self.jump(JumpNonZero, "work_undo");
        self.load(Word(at::HAS_FORMER));
        self.jump(JumpZero, "work_done");
        self.write_line(at::FORMER_ADDRESS, at::FORMER_NEW, "work_former");
        self.jump(JumpZero, "work_done");
        self.write_line(at::ADDRESS, at::OLD, "work_entry_back");
        self.label("work_undo");
        self.load(Word(at::HAS_PARENT));
        self.jump(JumpZero, "work_bus_error");
        self.write_line(at::PARENT_ADDRESS, at::PARENT, "work_parent_back");
        self.label("work_bus_error");
        self.refuse(WorkStatus::BusError);

        self.label("work_done");
        self.fence(Some(at::INDEX));
        self.copy(Constant(cqe::OK.into()), at::CQE_CODE);
        self.load(Constant(work_code(WorkStatus::Ok)));
        self.label(WORK_END);
        self.number(Output, false, output::STATUS);
        self.out(Word(at::CQE_CODE), output::CQE_CODE);
        self.act(action::END_WORK);
        self.jump(Jump, "idle_mailbox");
    }

    /// FAST_REG_PMR.
    fn fast_register(&mut self) {
        use work::fast_register::{BUF_PG_SZ, KEY, LENGTH, LW_EN, PBL_BA, PBL_SIZE, VA};
        let old = |field| Word(at::OLD + dword(field));
        let pair =
            |field: keywalk_contract::Field| [dword(field), dword(field) + 1].map(|word| Port(port::WORK + word));
        self.label("fast");
        self.demand(Port(port::PRIVILEGED), 1, Constant(1), WorkStatus::NotPrivileged);
        self.find_own(wqe(KEY), "fr");
        let kind_bits = mask(mpt_entry::FRE) | mask(mpt_entry::MR_MW);
        self.demand(old(mpt_entry::FRE), kind_bits, Constant(mask(mpt_entry::FRE)), WorkStatus::Kind);
        self.demand(old(mpt_entry::ST), 3, Constant(mpt_entry::STATE_FREE as u32), WorkStatus::State);
        self.demand_protection_domain(at::OLD, WorkStatus::ProtectionDomain);
        // Table: not zero, a multiple of eight.
        let [low, high] = pair(PBL_BA);
        self.load(low);
        self.take(Or, high);
        self.jump(JumpZero, "fr_illegal");
        self.load(low);
        self.take(And, Constant(7));
        self.jump(JumpNonZero, "fr_illegal");
        // Pages 1 to 512.
        self.load(wqe(PBL_SIZE));
        self.jump(JumpZero, "fr_illegal");
        self.take(Subtract, Constant(work::FAST_REGISTRATION_PAGES_MAX as u32 + 1));
        self.jump(JumpCarry, "fr_illegal");
        let [low, high] = pair(LENGTH);
        self.load(low);
        self.take(Or, high);
        self.jump(JumpZero, "fr_legal");
        self.last_address(pair(VA), pair(LENGTH), at::END, "fr_illegal");
        // Pages from the first to the last: both addresses move right together.
        let [low, high] = pair(VA);
        self.copy(low, at::BUFFER);
        self.copy(high, at::BUFFER + 1);
        self.load(wqe(BUF_PG_SZ));
        self.take(And, Constant(mask(BUF_PG_SZ)));
        self.shift_right_by(BUF_PG_SZ.low % 32);
        self.take(Add, Constant(hem::PAGE_SHIFT_MIN));
        self.take(Add, Port(port::PAGE_SHIFT_BASE));
        self.store(at::COUNT);
        self.label("fr_shift");
        self.shift_pair(at::END);
        self.shift_pair(at::BUFFER);
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
        self.take(Subtract, wqe(PBL_SIZE));
        self.jump(JumpNoCarry, "fr_legal");
        self.label("fr_illegal");
        self.refuse(WorkStatus::Illegal);
        self.label("fr_legal");
        self.copy_entry(at::OLD, at::NEW, "fr_copy");
        self.put_state(mpt_entry::STATE_VALID);
        // The five rights stand seven bits lower in the entry.
        let rights = [mpt_entry::BIND_EN, mpt_entry::ATOMIC_EN, mpt_entry::RR_EN, mpt_entry::RW_EN, mpt_entry::LW_EN];
        let rights: u32 = rights.into_iter().map(mask).sum();
        let distance = LW_EN.low % 32 - mpt_entry::LW_EN.low % 32;
        self.load(wqe(LW_EN));
        self.take(And, Constant(rights << distance));
        self.shift_right_by(distance);
        self.put(at::NEW + dword(mpt_entry::LW_EN), rights);
        for (field, from) in [
            (mpt_entry::LEN, pair(LENGTH).as_slice()),
            (mpt_entry::LKEY, &[wqe(KEY)]),
            (mpt_entry::VA, &pair(VA)),
            (mpt_entry::PBL_SIZE, &[wqe(PBL_SIZE)]),
        ] {
            for (word, place) in from.iter().zip(at::NEW + dword(field)..) {
                self.copy(*word, place);
            }
        }
        let [low, high] = pair(PBL_BA);
        self.copy(low, at::BUFFER);
        self.copy(high, at::BUFFER + 1);
        for _ in 0..mpt_entry::PBL_BA_SHIFT {
            self.shift_pair(at::BUFFER);
        }
        let place = at::NEW + dword(mpt_entry::PBL_BA);
        self.copy(Word(at::BUFFER), place);
        self.load(Word(at::BUFFER + 1));
        self.put(place + 1, (mpt_entry::PBL_BA.max() >> 32) as u32);
        // The page size, bits 4 to 7 of its dword, becomes the highest four bits.
        self.load(wqe(BUF_PG_SZ));
        for _ in 0..3 {
            self.plain(RotateByte);
        }
        self.put(at::NEW + dword(mpt_entry::PBL_BUF_PG_SZ), mask(mpt_entry::PBL_BUF_PG_SZ));
        self.jump(Jump, "work_writes");
    }

    /// LOCAL_INV and SEND_WITH_INV.
    fn invalidate(&mut self) {
        use work::invalidate_key::{KEY, OPCODE};
        let old = |field| Word(at::OLD + dword(field));
        let is_window = mask(mpt_entry::MR_MW);
        let is_type_2 = is_window | mask(mpt_entry::BQP);
        self.label("invalidate");
        self.find_own(wqe(KEY), "inv");
        self.demand(old(mpt_entry::ST), 3, Constant(mpt_entry::STATE_VALID as u32), WorkStatus::State);
        self.demand(old(mpt_entry::LKEY), u32::MAX, wqe(KEY), WorkStatus::Key);
        self.demand_protection_domain(at::OLD, WorkStatus::ProtectionDomain);
        // A window of type 2 may be invalidated by the queue pair that bound it; one of type 1 never.
        self.unless(old(mpt_entry::MR_MW), is_type_2, is_type_2, "inv_right");
        self.load(Port(port::QPN));
        self.plain(RotateByte);
        self.store(at::SCRATCH);
        let queue_pair = mask(mpt_entry::MW_BIND_QPN);
        self.demand(old(mpt_entry::MW_BIND_QPN), queue_pair, Word(at::SCRATCH), WorkStatus::QueuePair);
        self.label("inv_right");
        self.load(wqe(OPCODE));
        self.take(And, Constant(mask(OPCODE)));
        self.take(Xor, Constant(WorkOpcode::SendWithInvalidate as u32));
        self.jump(JumpZero, "inv_remote");
        self.load(old(mpt_entry::FRE));
        self.take(And, Constant(mask(mpt_entry::FRE)));
        self.jump(JumpNonZero, "inv_kind");
        self.load(old(mpt_entry::L_INV_EN));
        self.take(And, Constant(mask(mpt_entry::L_INV_EN)));
        self.jump(JumpNonZero, "inv_kind");
        self.unless(old(mpt_entry::MR_MW), is_type_2, is_type_2, "inv_refused");
        self.jump(Jump, "inv_may");
        self.label("inv_remote");
        self.load(old(mpt_entry::R_INV_EN));
        self.take(And, Constant(mask(mpt_entry::R_INV_EN)));
        self.jump(JumpZero, "inv_refused");
        self.label("inv_kind");
        self.load(old(mpt_entry::MR_MW));
        self.take(And, Constant(is_type_2));
        self.take(Xor, Constant(is_window));
        self.jump(JumpNonZero, "inv_may");
        self.label("inv_refused");
        self.refuse(WorkStatus::Access);
        self.label("inv_may");
        self.copy_entry(at::OLD, at::NEW, "inv_copy");
        self.put_state(mpt_entry::STATE_FREE);
        self.unless(old(mpt_entry::MR_MW), is_window, is_window, "inv_region");
        self.copy(Constant(0), at::NEW + dword(mpt_entry::BOUND_LKEY));
        self.copy(old(mpt_entry::BOUND_LKEY), at::KEY);
        self.jump(Call, "release");
        self.jump(Jump, "work_writes");
        self.label("inv_region");
        self.demand(old(mpt_entry::MW_CNT), mask(mpt_entry::MW_CNT), Constant(0), WorkStatus::WindowsBound);
        self.jump(Jump, "work_writes");
    }

    /// BIND_MW.
    fn bind(&mut self) {
        use work::bind_window::{ATOMIC_EN, IS_TYPE_1, LENGTH, NEW_KEY, PARENT_KEY, RW_EN, VA};
        let old = |field| Word(at::OLD + dword(field));
        let new = |field| at::NEW + dword(field);
        let parent = |field| Word(at::PARENT + dword(field));
        let pair =
            |field: keywalk_contract::Field| [dword(field), dword(field) + 1].map(|word| Port(port::WORK + word));
        let parent_pair = |field: keywalk_contract::Field| [0, 1].map(|word| Word(at::PARENT + dword(field) + word));
        let is_type_1 = |program: &mut Self| {
            program.load(wqe(IS_TYPE_1));
            program.take(And, Constant(mask(IS_TYPE_1)));
        };
        self.label("bind");
        self.find_own(wqe(NEW_KEY), "bi");
        // Type 1 is bit 0 of its word, BQP a bit that says the opposite.
        is_type_1(self);
        self.jump(JumpNonZero, "bi_type_1");
        self.load(Constant(mask(mpt_entry::BQP)));
        self.jump(Jump, "bi_type");
        self.label("bi_type_1");
        self.load(Constant(0));
        self.label("bi_type");
        self.take(Or, Constant(mask(mpt_entry::MR_MW)));
        self.store(at::SCRATCH);
        let kind_bits = mask(mpt_entry::MR_MW) | mask(mpt_entry::PA) | mask(mpt_entry::BQP);
        self.demand(old(mpt_entry::MR_MW), kind_bits, Word(at::SCRATCH), WorkStatus::Kind);
        // FREE, or of type 1 VALID; a window that is bound has a region to leave.
        self.copy(Constant(0), at::KEY);
        self.load(old(mpt_entry::ST));
        self.take(And, Constant(3));
        self.take(Xor, Constant(mpt_entry::STATE_FREE as u32));
        self.jump(JumpZero, "bi_state");
        self.take(Xor, Constant((mpt_entry::STATE_FREE ^ mpt_entry::STATE_VALID) as u32));
        self.jump(JumpNonZero, "bi_no_state");
        self.copy(old(mpt_entry::BOUND_LKEY), at::KEY);
        is_type_1(self);
        self.jump(JumpNonZero, "bi_state");
        self.label("bi_no_state");
        self.refuse(WorkStatus::State);
        self.label("bi_state");
        self.load(old(mpt_entry::LKEY));
        self.take(Xor, wqe(NEW_KEY));
        self.jump(JumpNonZero, "bi_key");
        self.refuse(WorkStatus::Key);
        self.label("bi_key");
        self.demand_protection_domain(at::OLD, WorkStatus::ProtectionDomain);
        let [low, high] = pair(LENGTH);
        self.load(low);
        self.take(Or, high);
        self.store(at::LENGTH);
        is_type_1(self);
        self.jump(JumpZero, "bi_length");
        self.demand(old(mpt_entry::ZBVA), mask(mpt_entry::ZBVA), Constant(0), WorkStatus::Illegal);
        self.jump(Jump, "bi_legal");
        self.label("bi_length");
        self.load(Word(at::LENGTH));
        self.jump(JumpNonZero, "bi_legal");
        self.refuse(WorkStatus::Illegal);
        self.label("bi_legal");

        // The window as it shall be: first unbound.
        self.copy_entry(at::OLD, at::NEW, "bi_copy");
        self.put_state(mpt_entry::STATE_VALID);
        let rights = mask(mpt_entry::ATOMIC_EN) | mask(mpt_entry::RR_EN) | mask(mpt_entry::RW_EN);
        self.load(Constant(0));
        self.put(new(mpt_entry::RW_EN), rights);
        self.copy(Constant(0), new(mpt_entry::BOUND_LKEY));
        self.put(new(mpt_entry::MW_BIND_QPN), mask(mpt_entry::MW_BIND_QPN));
        self.copy(wqe(NEW_KEY), new(mpt_entry::LKEY));
        for (field, from) in [(mpt_entry::LEN, pair(LENGTH)), (mpt_entry::VA, pair(VA))] {
            for (word, place) in from.into_iter().zip(new(field)..) {
                self.copy(word, place);
            }
        }
        self.load(Word(at::LENGTH));
        self.jump(JumpZero, "bi_leaves");
        is_type_1(self);
        self.jump(JumpNonZero, "bi_any_queue");
        self.load(Port(port::QPN));
        self.plain(RotateByte);
        self.put(new(mpt_entry::MW_BIND_QPN), mask(mpt_entry::MW_BIND_QPN));
        self.label("bi_any_queue");
        self.copy(wqe(PARENT_KEY), new(mpt_entry::BOUND_LKEY));
        // The rights stand two bits higher in the entry.
        self.load(wqe(RW_EN));
        for _ in 0..mpt_entry::RW_EN.low % 32 - RW_EN.low % 32 {
            self.store(at::SCRATCH);
            self.take(Add, Word(at::SCRATCH));
        }
        self.put(new(mpt_entry::RW_EN), rights);

        // The region.
        self.index_of(wqe(PARENT_KEY), at::SCRATCH);
        let failures = [WorkStatus::ParentUnmapped, WorkStatus::ParentUnmapped, WorkStatus::ParentBusError];
        self.find(at::PARENT_ADDRESS, at::PARENT, "parent", failures);
        let kind_bits = mask(mpt_entry::MR_MW) | mask(mpt_entry::PA) | mask(mpt_entry::ZBVA);
        self.demand(parent(mpt_entry::MR_MW), kind_bits, Constant(0), WorkStatus::ParentKind);
        self.demand(parent(mpt_entry::ST), 3, Constant(mpt_entry::STATE_VALID as u32), WorkStatus::ParentState);
        // Key 0 stands for "unbound".
        self.load(wqe(PARENT_KEY));
        self.jump(JumpZero, "bi_no_parent_key");
        self.take(Xor, parent(mpt_entry::LKEY));
        self.jump(JumpZero, "bi_parent_key");
        self.label("bi_no_parent_key");
        self.refuse(WorkStatus::ParentKey);
        self.label("bi_parent_key");
        self.demand_protection_domain(at::PARENT, WorkStatus::ParentProtectionDomain);
        let bind_right = mask(mpt_entry::BIND_EN);
        self.demand(parent(mpt_entry::BIND_EN), bind_right, Constant(bind_right), WorkStatus::ParentAccess);
        self.load(wqe(RW_EN));
        self.take(And, Constant(mask(RW_EN) | mask(ATOMIC_EN)));
        self.jump(JumpZero, "bi_granted");
        let write_right = mask(mpt_entry::LW_EN);
        self.demand(parent(mpt_entry::LW_EN), write_right, Constant(write_right), WorkStatus::ParentAccess);
        self.label("bi_granted");
        // Neither the window nor a region that it is inside of is empty.
        let [low, high] = parent_pair(mpt_entry::LEN);
        self.load(low);
        self.take(Or, high);
        self.jump(JumpZero, "bi_outside");
        self.unless_at_least(pair(VA), parent_pair(mpt_entry::VA), "bi_outside");
        self.last_address(pair(VA), pair(LENGTH), at::END, "bi_outside");
        self.last_address(parent_pair(mpt_entry::VA), parent_pair(mpt_entry::LEN), at::BUFFER, "bi_outside");
        let two = |place| [Word(place), Word(place + 1)];
        self.unless_at_least(two(at::BUFFER), two(at::END), "bi_outside");
        self.jump(Jump, "bi_inside");
        self.label("bi_outside");
        self.refuse(WorkStatus::ParentBounds);
        self.label("bi_inside");
        // A window that moves within its region is counted there already.
        self.load(Word(at::KEY));
        self.take(Xor, wqe(PARENT_KEY));
        self.jump(JumpZero, "work_writes");
        self.load(parent(mpt_entry::MW_CNT));
        self.take(And, Constant(mask(mpt_entry::MW_CNT)));
        self.take(Xor, Constant(mask(mpt_entry::MW_CNT)));
        self.jump(JumpNonZero, "bi_counts");
        self.refuse(WorkStatus::ParentFull);
        self.label("bi_counts");
        self.copy_entry(at::PARENT, at::PARENT_NEW, "bi_parent_copy");
        self.load(parent(mpt_entry::MW_CNT));
        self.take(Add, Constant(1 << (mpt_entry::MW_CNT.low % 32)));
        self.store(at::PARENT_NEW + dword(mpt_entry::MW_CNT));
        self.copy(Constant(1), at::HAS_PARENT);
        self.label("bi_leaves");
        self.jump(Call, "release");
        self.jump(Jump, "work_writes");
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
