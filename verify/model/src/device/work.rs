//! Work requests (contract sections 2, 5 and 6; IBTA where it is silent).

use keywalk_contract::mpt_entry::{self, PBL_BA_SHIFT, STATE_FREE, STATE_VALID};
use keywalk_contract::work::{
    FAST_REGISTRATION_PAGES_MAX, WORK_REQUEST_BYTES, bind_window, fast_register, invalidate_key,
};
use keywalk_contract::{Field, WorkOpcode, WorkStatus};

use super::tables::{Changes, Missing, Place};
use super::{Device, Fence};
use crate::access::NOT_OF_A_PARENT;
use crate::{BusError, Memory, MemoryMut};

/// A work request with what the device knows of the queue that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// Returned with the answer.
    pub tag: u16,
    /// Function; selects the table set.
    pub function: u8,
    /// The queue belongs to the kernel.
    pub privileged: bool,
    /// Protection domain of the queue pair, 24 bits.
    pub pd: u32,
    /// Queue pair, 24 bits. Of a SEND_WITH_INV the one that received it.
    pub qpn: u32,
    /// The driver's work request, in memory order.
    pub wqe: [u8; WORK_REQUEST_BYTES],
}

/// The answer to a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkResponse {
    /// The request's tag.
    pub tag: u16,
    /// The request's function.
    pub function: u8,
    /// Outcome.
    pub status: WorkStatus,
    /// Status of the completion queue entry.
    pub cqe_code: u8,
    /// What the answer waits for; `None` for a request that failed.
    pub fence: Option<Fence>,
}

impl From<Missing> for WorkStatus {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::IndexOutOfRange => Self::IndexOutOfRange,
            Missing::Unmapped => Self::Unmapped,
            Missing::BusError => Self::BusError,
        }
    }
}

impl From<BusError> for WorkStatus {
    fn from(_: BusError) -> Self {
        Self::BusError
    }
}

/// Makes a check that does not hold its status.
fn require(holds: bool, status: WorkStatus) -> Result<(), WorkStatus> {
    if holds { Ok(()) } else { Err(status) }
}

/// One past the last address.
const ADDRESS_SPACE_BYTES: u128 = 1 << 64;

impl Device {
    /// Carries out a work request.
    pub fn work(&mut self, memory: &mut impl MemoryMut, request: &WorkRequest) -> WorkResponse {
        let opcode = WorkOpcode::from_code(invalidate_key::OPCODE.get(&request.wqe) as u8);
        let result = match opcode {
            None => Err(WorkStatus::UnknownOpcode),
            Some(WorkOpcode::FastRegister) => self.fast_register(memory, request),
            Some(WorkOpcode::LocalInvalidate) => self.invalidate(memory, request, false),
            Some(WorkOpcode::SendWithInvalidate) => self.invalidate(memory, request, true),
            Some(WorkOpcode::BindWindow) => self.bind(memory, request),
        };
        let status = result.err().unwrap_or(WorkStatus::Ok);
        let table_set = self.table_set_number(request.function);
        WorkResponse {
            tag: request.tag,
            function: request.function,
            status,
            cqe_code: status.cqe_code(opcode),
            fence: result.ok().map(|index| Fence::Entry { table_set, index }),
        }
    }

    fn fast_register(&self, memory: &mut impl MemoryMut, request: &WorkRequest) -> Result<u32, WorkStatus> {
        use fast_register::{ATOMIC_EN, BIND_EN, BUF_PG_SZ, KEY, LENGTH, LW_EN, PBL_BA, PBL_SIZE, RR_EN, RW_EN, VA};
        let get = |field: Field| field.get(&request.wqe);
        require(request.privileged, WorkStatus::NotPrivileged)?;
        let place = self.find_key(memory, request.function, get(KEY) as u32)?;
        let old = &place.entry;
        require(old.is_set(mpt_entry::FRE) && !place.is_window(), WorkStatus::Kind)?;
        require(old.get(mpt_entry::ST) == STATE_FREE, WorkStatus::State)?;
        require(old.get(mpt_entry::PD) == u64::from(request.pd), WorkStatus::ProtectionDomain)?;

        let (root, va, length, pages) = (get(PBL_BA), get(VA), get(LENGTH), get(PBL_SIZE));
        let is_table = root != 0 && root.is_multiple_of(1 << PBL_BA_SHIFT);
        let end = u128::from(va) + u128::from(length);
        let page_shift = self.engine.table_set(request.function).page_shift(get(BUF_PG_SZ) as u8);
        let needed = if length == 0 { 0 } else { ((end - 1) >> page_shift) - (u128::from(va) >> page_shift) + 1 };
        let has_room = (1..=FAST_REGISTRATION_PAGES_MAX).contains(&pages) && needed <= u128::from(pages);
        require(is_table && end <= ADDRESS_SPACE_BYTES && has_room, WorkStatus::Illegal)?;

        let mut new = old.clone();
        let fields = [
            (mpt_entry::ST, STATE_VALID),
            (mpt_entry::BIND_EN, get(BIND_EN)),
            (mpt_entry::ATOMIC_EN, get(ATOMIC_EN)),
            (mpt_entry::RR_EN, get(RR_EN)),
            (mpt_entry::RW_EN, get(RW_EN)),
            (mpt_entry::LW_EN, get(LW_EN)),
            (mpt_entry::LEN, length),
            (mpt_entry::LKEY, get(KEY)),
            (mpt_entry::VA, va),
            (mpt_entry::PBL_SIZE, pages),
            (mpt_entry::PBL_BA, root >> PBL_BA_SHIFT),
            (mpt_entry::PBL_BUF_PG_SZ, get(BUF_PG_SZ)),
        ];
        for (field, value) in fields {
            new.set(field, value);
        }
        memory.write(place.address, &new.to_bytes())?;
        Ok(place.index)
    }

    /// LOCAL_INV, or a SEND_WITH_INV that has arrived.
    fn invalidate(
        &self,
        memory: &mut impl MemoryMut,
        request: &WorkRequest,
        is_remote: bool,
    ) -> Result<u32, WorkStatus> {
        let key = invalidate_key::KEY.get(&request.wqe);
        let place = self.find_key(memory, request.function, key as u32)?;
        let entry = &place.entry;
        require(place.is_valid(), WorkStatus::State)?;
        require(entry.get(mpt_entry::LKEY) == key, WorkStatus::Key)?;
        require(entry.get(mpt_entry::PD) == u64::from(request.pd), WorkStatus::ProtectionDomain)?;
        let is_type_2 = place.is_window() && entry.is_set(mpt_entry::BQP);
        let is_own = !is_type_2 || entry.get(mpt_entry::MW_BIND_QPN) == u64::from(request.qpn);
        require(is_own, WorkStatus::QueuePair)?;
        let may = if is_remote {
            entry.is_set(mpt_entry::R_INV_EN)
        } else {
            entry.is_set(mpt_entry::FRE) || entry.is_set(mpt_entry::L_INV_EN) || is_type_2
        };
        // A window of type 1 is unbound by a bind of length 0 and never invalidated.
        require(may && (is_type_2 || !place.is_window()), WorkStatus::Access)?;
        require(!place.has_windows(), WorkStatus::WindowsBound)?;

        let mut changes = Changes::default();
        let mut new = entry.clone();
        new.set(mpt_entry::ST, STATE_FREE);
        if let Some(parent_key) = place.parent_key() {
            new.set(mpt_entry::BOUND_LKEY, 0);
            changes.entry(&place, &new);
            self.release_parent(memory, request.function, parent_key, &mut changes);
        } else {
            changes.entry(&place, &new);
        }
        changes.apply(memory)?;
        Ok(place.index)
    }

    fn bind(&self, memory: &mut impl MemoryMut, request: &WorkRequest) -> Result<u32, WorkStatus> {
        use bind_window::{ATOMIC_EN, IS_TYPE_1, LENGTH, NEW_KEY, PARENT_KEY, RR_EN, RW_EN, VA};
        let get = |field: Field| field.get(&request.wqe);
        let place = self.find_key(memory, request.function, get(NEW_KEY) as u32)?;
        let old = &place.entry;
        let is_type_1 = get(IS_TYPE_1) == 1;
        let is_kind = place.is_window() && !old.is_set(mpt_entry::PA) && old.is_set(mpt_entry::BQP) != is_type_1;
        require(is_kind, WorkStatus::Kind)?;
        let state = old.get(mpt_entry::ST);
        require(state == STATE_FREE || is_type_1 && state == STATE_VALID, WorkStatus::State)?;
        require(old.get(mpt_entry::LKEY) != get(NEW_KEY), WorkStatus::Key)?;
        require(old.get(mpt_entry::PD) == u64::from(request.pd), WorkStatus::ProtectionDomain)?;
        let is_unbind = get(LENGTH) == 0;
        let is_legal = if is_type_1 { !old.is_set(mpt_entry::ZBVA) } else { !is_unbind };
        require(is_legal, WorkStatus::Illegal)?;

        let parent = if is_unbind { None } else { Some(self.find_parent(memory, request)?) };
        let qpn = if is_type_1 { 0 } else { u64::from(request.qpn) };
        let right = |field: Field| if is_unbind { 0 } else { get(field) };
        let mut new = old.clone();
        let fields = [
            (mpt_entry::ST, STATE_VALID),
            (mpt_entry::ATOMIC_EN, right(ATOMIC_EN)),
            (mpt_entry::RR_EN, right(RR_EN)),
            (mpt_entry::RW_EN, right(RW_EN)),
            (mpt_entry::MW_BIND_QPN, qpn),
            (mpt_entry::BOUND_LKEY, if is_unbind { 0 } else { get(PARENT_KEY) }),
            (mpt_entry::LEN, get(LENGTH)),
            (mpt_entry::LKEY, get(NEW_KEY)),
            (mpt_entry::VA, get(VA)),
        ];
        for (field, value) in fields {
            new.set(field, value);
        }

        let mut changes = Changes::default();
        let old_parent_key = place.parent_key();
        // A window that moves within its region is counted there already.
        let parent = parent.filter(|parent| old_parent_key.map(u64::from) != Some(parent.entry.get(mpt_entry::LKEY)));
        if let Some(parent) = &parent {
            let count = parent.entry.get(mpt_entry::MW_CNT);
            require(count < mpt_entry::MW_CNT.max(), WorkStatus::ParentFull)?;
            let mut counted = parent.entry.clone();
            counted.set(mpt_entry::MW_CNT, count + 1);
            changes.entry(parent, &counted);
        }
        changes.entry(&place, &new);
        if let Some(key) = old_parent_key.filter(|_| parent.is_some() || is_unbind) {
            self.release_parent(memory, request.function, key, &mut changes);
        }
        changes.apply(memory)?;
        Ok(place.index)
    }

    /// The region that a window is to be bound to.
    fn find_parent(&self, memory: &impl Memory, request: &WorkRequest) -> Result<Place, WorkStatus> {
        use bind_window::{ATOMIC_EN, LENGTH, PARENT_KEY, RW_EN, VA};
        let get = |field: Field| field.get(&request.wqe);
        let key = get(PARENT_KEY);
        let parent = self.find_key(memory, request.function, key as u32).map_err(|missing| match missing {
            Missing::IndexOutOfRange | Missing::Unmapped => WorkStatus::ParentUnmapped,
            Missing::BusError => WorkStatus::ParentBusError,
        })?;
        let entry = &parent.entry;
        let is_kind = NOT_OF_A_PARENT.iter().all(|field| !entry.is_set(*field));
        require(is_kind, WorkStatus::ParentKind)?;
        require(parent.is_valid(), WorkStatus::ParentState)?;
        // Key 0 stands for "unbound" in a window's entry, and is no region's key: index 0 is reserved.
        require(key != 0 && entry.get(mpt_entry::LKEY) == key, WorkStatus::ParentKey)?;
        require(entry.get(mpt_entry::PD) == u64::from(request.pd), WorkStatus::ParentProtectionDomain)?;
        let changes_memory = get(RW_EN) == 1 || get(ATOMIC_EN) == 1;
        let may = entry.is_set(mpt_entry::BIND_EN) && (!changes_memory || entry.is_set(mpt_entry::LW_EN));
        require(may, WorkStatus::ParentAccess)?;
        let (first, region) = (u128::from(get(VA)), u128::from(entry.get(mpt_entry::VA)));
        let (end, region_end) = (first + u128::from(get(LENGTH)), region + u128::from(entry.get(mpt_entry::LEN)));
        let is_inside = first >= region && end <= region_end && region_end <= ADDRESS_SPACE_BYTES;
        require(is_inside, WorkStatus::ParentBounds)?;
        Ok(parent)
    }
}
