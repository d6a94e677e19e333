"""A second reading of the table formats: answers requests on a table image, step by step as the formats say.

It shares no code with the golden model and was written without looking at it, from the contract (HNS RoCE v2 table
formats, checks in order), the behaviour rules of the engine, and the numbering in hdl/contract. It is slow and plain on
purpose: numbers are Python's, of any size, and nothing is cached.
"""

import bisect
from dataclasses import dataclass, field

# Operations (hdl/contract/src/op.rs): name and the bit of the MPT entry that the operation needs.
LOCAL_READ, LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC, BIND = range(6)
OPERATIONS = ["local_read", "local_write", "remote_read", "remote_write", "remote_atomic", "bind"]
RIGHT_BIT = {LOCAL_READ: None, LOCAL_WRITE: 39, REMOTE_READ: 37, REMOTE_WRITE: 38, REMOTE_ATOMIC: 36, BIND: 35}
REMOTE = {REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC}

# Context tables (hdl/contract/src/hem.rs); 7 stands for a page table.
TABLES = ["qpc", "mpt", "cqc", "srqc", "sccc", "qpc_timer", "cqc_timer"]
MPT = 1
PAGE_TABLE = 7

# Status codes (hdl/contract/src/status.rs): name, wire class of a remote and of a local operation, and the rule.
REQUEST = (1, 1)
PROTECTION = (2, 3)
OPERATION = (4, 5)
STATUSES = [
    ("ok", (0, 0), "every check holds"),
    ("operation_unknown", REQUEST, "contract 6, step 1: the operation is known"),
    ("length_too_long", REQUEST, "contract 6, step 1: the length is at most 2^31"),
    ("atomic_shape", REQUEST, "contract 6, step 1: an atomic is 8 bytes long and 8-byte aligned"),
    ("hold_too_long", REQUEST, "behaviour 4: hold mode accepts up to hold_bytes_max, a longer one has its own status"),
    ("index_out_of_range", PROTECTION, "contract 6, table reads: an index at or above object_count fails before any read"),
    ("bt0_unset", PROTECTION, "contract 6, table reads: BT0 slot never set: not reachable"),
    ("hem_pointer_zero", PROTECTION, "contract 6, table reads: a zero BA pointer: no read issued through it"),
    ("hem_misaligned", PROTECTION, "contract 7: a misaligned table base: reject, never DMA through it"),
    ("hem_bus_error", PROTECTION, "contract 6, table reads: HEM or MPT read answered with a bus error"),
    ("hem_timeout", PROTECTION, "behaviour 9: silence of a table read"),
    ("entry_state", PROTECTION, "contract 6, step 3: ST = VALID"),
    ("entry_key", PROTECTION, "contract 6, step 3: full key equal"),
    ("window_local", PROTECTION, "contract 6, window rules: local operations and bind fail on a window"),
    ("window_unbound", PROTECTION, "contract 6, window rules: VALID with BOUND_LKEY = 0 is unbound and fails"),
    ("protection_domain", PROTECTION, "contract 6, step 3: PD"),
    ("window_queue_pair", PROTECTION, "contract 6, window rules: type 2 requires qpn = MW_BIND_QPN"),
    ("access_right", PROTECTION, "contract 6, step 3: right"),
    ("region_wraps", PROTECTION, "contract 6, step 3: VA + LEN > 2^64: every access refused"),
    ("region_too_large", PROTECTION, "contract 2 and 4: PBL_SIZE has 32 bits, no table holds more than 2^32 pages"),
    ("bounds", PROTECTION, "contract 6, step 3: va >= VA, (va - VA) + length <= LEN, va + length <= 2^64"),
    ("window_parent", PROTECTION, "contract 6, window rules: the parent region is checked again (state, key, bounds)"),
    ("mtr_index", OPERATION, "contract 4: use no entry past the table (PBL_SIZE, or a queue buffer's count)"),
    ("mtr_misaligned", OPERATION, "contract 4 and 7: lower tables are aligned; reject a misaligned base"),
    ("mtr_not_present", OPERATION, "contract 6, table reads: MTR zero entry: not present"),
    ("mtr_bus_error", OPERATION, "contract 6, table reads: MTR read answered with a bus error"),
    ("mtr_timeout", OPERATION, "behaviour 9: silence of a table read"),
]
CODE = {name: code for code, (name, _, _) in enumerate(STATUSES)}

MASK_64 = (1 << 64) - 1


def wire_class(status, operation):
    """Wire class of a status for an operation."""
    remote, local = STATUSES[status][1]
    return remote if operation in REMOTE else local


class BusError(Exception):
    """Memory that is not backed was read."""


class Memory:
    """Little-endian memory in which only some runs of bytes are backed; what is not written there is 0."""

    def __init__(self):
        self.runs = []
        self.is_sorted = False
        self.pages = {}

    def back(self, address, size):
        """Backs a run of bytes that begins and ends at 4 KiB boundaries."""
        self.runs.append((address, address + size))

    def is_backed(self, address):
        """Whether a byte is backed. Runs do not overlap, and are all known before the first read."""
        if not self.is_sorted:
            self.runs.sort()
            self.is_sorted = True
        position = bisect.bisect_right(self.runs, (address, MASK_64 + 2)) - 1
        return position >= 0 and address < self.runs[position][1]

    def write(self, address, data):
        """Stores bytes, page by page."""
        while data:
            offset = address & 4095
            part = data[: 4096 - offset]
            page = self.pages.setdefault(address >> 12, bytearray(4096))
            page[offset : offset + len(part)] = part
            address += len(part)
            data = data[len(part) :]

    def read(self, address, size):
        """An aligned number of `size` bytes."""
        address &= MASK_64
        page = self.pages.get(address >> 12)
        if page is None:
            if not self.is_backed(address):
                raise BusError
            return 0
        offset = address & 4095
        return int.from_bytes(page[offset : offset + size], "little")


@dataclass
class Table:
    """Geometry of a context table and its BT0 slots; as after reset unless told otherwise."""

    hop: int = 0
    ba_pg_sz: int = 0
    buf_pg_sz: int = 0
    entry_bytes: int = 64
    bt_num: int = 1
    object_count: int = 0
    bt0: dict = field(default_factory=dict)


@dataclass
class TableSet:
    """The tables of an owner, by code."""

    num_mpts: int = 1 << 24
    page_shift_base: int = 12
    tables: dict = field(default_factory=lambda: {code: Table() for code in range(len(TABLES))})


@dataclass
class Switches:
    """Register `control` and its neighbours, as after reset."""

    atomic_shape_check: bool = True
    zero_entry_literal: bool = False
    index_check: bool = True
    alignment_check: bool = True
    hold_mode: bool = False
    merge_bytes_max: int = 1 << 31
    hold_bytes_max: int = 0


@dataclass
class Request:
    """A translation request."""

    operation: int
    key: int
    pd: int
    qpn: int
    va: int
    length: int


class Refused(Exception):
    """A check has failed: status, table and number of the read, and for people what was found."""

    def __init__(self, name, table=0, hop=0, found=""):
        super().__init__(name)
        self.status = CODE[name]
        self.table = table
        self.hop = hop
        self.found = found


class Entry:
    """An MPT entry: 512 bits (contract 2)."""

    def __init__(self, bits):
        self.bits = bits

    def at(self, high, low):
        """Bits high:low."""
        return (self.bits >> low) & ((1 << (high - low + 1)) - 1)


class Reader:
    """Reads tables and answers requests."""

    def __init__(self, memory, table_set, switches):
        self.memory = memory
        self.set = table_set
        self.switches = switches

    # Contract 3: context tables.

    def chunk(self, code, index, least):
        """Address of the chunk that holds an object, the object's offset in it, and the reads that it took.

        With `alignment_check` off the chunk must be aligned to `least` bytes.
        """
        table = self.set.tables.get(code)
        if table is None:
            raise Refused("bt0_unset", code, 0, f"there is no table {code}")
        if table.object_count and index >= table.object_count:
            raise Refused("index_out_of_range", code, 0, f"index {index}, object_count {table.object_count}")
        per_chunk = (4096 << table.buf_pg_sz) // table.entry_bytes
        number, position = divmod(index, per_chunk)
        entries = (4096 << table.ba_pg_sz) // 8
        levels = []
        for _ in range(table.hop):
            number, level = divmod(number, entries)
            levels.insert(0, level)
        slot = number % table.bt_num
        base = table.bt0.get(slot, 0)
        if base == 0:
            raise Refused("bt0_unset", code, 0, f"slot {slot} of {table.bt_num}")
        for hop, level in enumerate(levels):
            self.check_hem(code, hop, base, 8)
            try:
                pointer = self.memory.read(base + 8 * level, 8)
            except BusError:
                raise Refused("hem_bus_error", code, hop, f"read of {(base + 8 * level) & MASK_64:#x}") from None
            if pointer == 0:
                raise Refused("hem_pointer_zero", code, hop + 1, f"at {(base + 8 * level) & MASK_64:#x}")
            base = pointer
        self.check_hem(code, table.hop, base, least)
        return base, position * table.entry_bytes, table.hop

    def check_hem(self, code, hop, base, least):
        """A table base must be aligned: to 4 KiB, or, with the check off, as far as a read needs it."""
        if self.switches.alignment_check:
            least = 4096
        if base % least:
            raise Refused("hem_misaligned", code, hop, f"read {hop} through {base:#x}")

    def context(self, code, index):
        """Address of a context entry."""
        # Nothing is read from the chunk, so it needs no alignment for that.
        base, offset, _ = self.chunk(code, index, 1)
        return (base + offset) & MASK_64

    def entry(self, key):
        """The MPT entry of a key (contract 1 and 3)."""
        index = ((key >> 8) | (key << 24)) & 0xFFFFFFFF & (self.set.num_mpts - 1)
        base, offset, hop = self.chunk(MPT, index, 64)
        try:
            return Entry(self.memory.read(base + offset, 64))
        except BusError:
            raise Refused("hem_bus_error", MPT, hop, f"read of the entry at {(base + offset) & MASK_64:#x}") from None

    # Contract 4: page tables.

    def page(self, root, hops, ba_pg_sz, index, root_index):
        """Address of page `index` of a page table; `root_index` for the table without hops."""
        entries = (4096 << ba_pg_sz) // 8
        levels = []
        for _ in range(hops - 1):
            index, level = divmod(index, entries)
            levels.insert(0, level)
        if hops:
            levels.insert(0, index)
        page = root
        is_literal = self.switches.zero_entry_literal
        if page == 0 and not is_literal:
            raise Refused("mtr_not_present", PAGE_TABLE, 0, "the root is zero")
        for hop, level in enumerate(levels):
            if hop == 0:
                least = 8
            else:
                least = 4096 << ba_pg_sz if self.switches.alignment_check else 8
            if page % least:
                raise Refused("mtr_misaligned", PAGE_TABLE, hop, f"table at {page:#x}")
            address = (page + 8 * level) & MASK_64
            try:
                page = self.memory.read(address, 8)
            except BusError:
                raise Refused("mtr_bus_error", PAGE_TABLE, hop, f"read of {address:#x}") from None
            if page == 0 and not is_literal:
                raise Refused("mtr_not_present", PAGE_TABLE, hop, f"entry at {address:#x}")
        return (page + root_index) & MASK_64

    def queue_page(self, root, hops, ba_pg_sz, buf_pg_sz, index, count):
        """Address of a page of a queue buffer."""
        if count and index >= count:
            raise Refused("mtr_index", PAGE_TABLE, 0, f"index {index}, count {count}")
        if root % 8:
            raise Refused("mtr_misaligned", PAGE_TABLE, 0, f"root at {root:#x}")
        shift = self.set.page_shift_base + buf_pg_sz
        return self.page(root, hops, ba_pg_sz, index, 0 if hops else index << shift)

    # Contract 6: the checks.

    def shape(self, request):
        """Step 1."""
        if request.operation >= len(OPERATIONS):
            raise Refused("operation_unknown", found=f"operation {request.operation}")
        if request.length > 1 << 31:
            raise Refused("length_too_long", found=f"{request.length}")
        is_atomic = request.operation == REMOTE_ATOMIC and self.switches.atomic_shape_check
        if is_atomic and (request.length != 8 or request.va % 8):
            raise Refused("atomic_shape", found=f"{request.length} bytes at {request.va:#x}")
        if self.switches.hold_mode and request.length > self.switches.hold_bytes_max:
            raise Refused("hold_too_long", found=f"{request.length} of {self.switches.hold_bytes_max}")

    def permission(self, request, entry):
        """Step 3, once the entry has been read."""
        if entry.at(1, 0) != 1:
            raise Refused("entry_state", found=f"ST {entry.at(1, 0)}")
        if entry.at(223, 192) != request.key:
            raise Refused("entry_key", found=f"LKEY {entry.at(223, 192):#010x}")
        is_window = entry.at(68, 68) == 1
        if is_window and (request.operation not in REMOTE):
            raise Refused("window_local")
        if is_window and entry.at(127, 96) == 0:
            raise Refused("window_unbound")
        if entry.at(31, 8) != request.pd:
            raise Refused("protection_domain", found=f"PD {entry.at(31, 8):#x}")
        if is_window and entry.at(70, 70) and entry.at(95, 72) != request.qpn:
            raise Refused("window_queue_pair", found=f"MW_BIND_QPN {entry.at(95, 72):#x}")
        bit = RIGHT_BIT[request.operation]
        if bit is not None and not entry.at(bit, bit):
            raise Refused("access_right", found=f"bit {bit} is clear")
        self.bounds(request.va, request.length, entry)
        if is_window and entry.at(65, 65):
            raise Refused("window_parent", found="a window that is PA")
        return is_window

    def parent(self, window, va, request):
        """The region that a window is bound to, if it still is that region and holds the access."""
        key = window.at(127, 96)
        entry = self.entry(key)
        try:
            if entry.at(1, 0) != 1 or entry.at(223, 192) != key or entry.at(31, 8) != request.pd:
                raise Refused("window_parent")
            if entry.at(68, 68) or entry.at(65, 65) or entry.at(66, 66):
                raise Refused("window_parent", found="a window, a DMA MR or a zero-based region")
            self.bounds(va, request.length, entry)
        except Refused as refusal:
            raise Refused("window_parent", found=refusal.found) from refusal
        return entry

    def bounds(self, va, request_length, entry):
        """Step 3, bounds: over integers, not machine words. A zero-based region's addresses count from its start."""
        first, length = entry.at(287, 224), entry.at(191, 128)
        is_inside = va + request_length <= 1 << 64
        if not entry.at(65, 65):
            if first + length > 1 << 64:
                raise Refused("region_wraps", found=f"VA {first:#x} LEN {length:#x}")
            shift = self.page_shift(entry)
            if length and ((first + length - 1) >> shift) - (first >> shift) + 1 > 1 << 32:
                raise Refused("region_too_large", found=f"VA {first:#x} LEN {length:#x}, page shift {shift}")
            lowest = 0 if entry.at(66, 66) else first
            is_inside = is_inside and va >= lowest and va - lowest + request_length <= length
        if not is_inside:
            raise Refused("bounds", found=f"VA {first:#x} LEN {length:#x}")

    def page_shift(self, entry):
        return self.set.page_shift_base + entry.at(511, 508)

    def pieces(self, va, length, entry):
        """The request cut at page boundaries: bus address and length of each, in order. Stops with `Refused`."""
        if entry.at(65, 65):
            yield va, length
            return
        shift = self.page_shift(entry)
        first = entry.at(287, 224) >> shift
        left = length
        while left:
            length = min(left, (1 << shift) - va % (1 << shift))
            index = (va >> shift) - first
            if self.switches.index_check and index >= entry.at(319, 288):
                raise Refused("mtr_index", PAGE_TABLE, 0, f"page {index}, PBL_SIZE {entry.at(319, 288)}")
            page = self.page(entry.at(380, 320) << 3, entry.at(3, 2), entry.at(7, 4), index, 0)
            yield (page + va % (1 << shift)) & MASK_64, length
            va += length
            left -= length

    def translate(self, request):
        """Segments in order, and the `Refused` that ended them, if any."""
        segments = []
        try:
            self.shape(request)
            if request.length == 0:
                return [(0, 0)], None
            entry = self.entry(request.key)
            is_window = self.permission(request, entry)
            is_zero_based = entry.at(66, 66) and not entry.at(65, 65)
            va = entry.at(287, 224) + request.va if is_zero_based else request.va
            if is_window:
                entry = self.parent(entry, va, request)
            for address, length in self.pieces(va, request.length, entry):
                if segments:
                    last_address, last_length = segments[-1]
                    joined = last_length + length
                    if last_address + last_length == address and joined <= self.switches.merge_bytes_max:
                        segments[-1] = (last_address, joined)
                        continue
                segments.append((address, length))
        except Refused as refusal:
            # Behaviour 4: the segments before an error stand, but in hold mode.
            return [] if self.switches.hold_mode else segments, refusal
        return segments, None

    def beats(self, request):
        """The response, beat by beat: (status, wire class, table, hop, segment, first, last, pa, length)."""
        segments, refusal = self.translate(request)
        answer = [(0, 0, 0, 0, address, length) for address, length in segments]
        if refusal:
            answer.append((refusal.status, wire_class(refusal.status, request.operation), refusal.table, refusal.hop, 0, 0))
        last = len(answer) - 1
        return [(*beat[:4], number, number == 0, number == last, *beat[4:]) for number, beat in enumerate(answer)], refusal
