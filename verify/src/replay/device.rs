//! What is replayed against: a device with the command path.

use keywalk_contract::{CommandStatus, WorkStatus};
use keywalk_cosim::{self as cosim, LineMemory};
use keywalk_image::{LINE_BYTES, SparseMemory};
use keywalk_model::{
    Beat, BusError, ContextRequest, ContextResponse, Controls, Descriptor, Device, Engine, MailboxStatus, Memory,
    MemoryMut, Request, TableSet, WorkRequest, WorkResponse,
};

use crate::dut::{Dut, DutError, HostMemory, RtlDut, RtlOptions};
use crate::hardware::Undefined;
use crate::tables::Tables;

/// A design under test that has the command path. Its tables are what the commands made of them: [`Dut::configure`] sets
/// the controls and nothing else.
pub trait CommandDut: Dut {
    /// Resets the device, gives it this memory, and sets the registers that no command sets: entry sizes, bt_num and the key
    /// space of table set 0.
    ///
    /// # Errors
    /// [`DutError`].
    fn begin(&mut self, memory: SparseMemory, registers: TableSet) -> Result<(), DutError>;

    /// The memory, as the host sees and changes it while no command is under way.
    fn memory(&mut self) -> &mut SparseMemory;

    /// Address and bytes of everything that the device has written, in order.
    fn written(&mut self) -> Vec<(u64, u64)>;

    /// Starts a command.
    ///
    /// # Errors
    /// [`DutError`].
    fn start(&mut self, descriptor: &Descriptor) -> Result<CommandStatus, DutError>;

    /// Waits until no mailbox command is under way and says how the last one ended.
    ///
    /// # Errors
    /// [`DutError`].
    fn wait(&mut self) -> Result<MailboxStatus, DutError>;

    /// Carries out a work request.
    ///
    /// # Errors
    /// [`DutError`].
    fn work(&mut self, request: &WorkRequest) -> Result<WorkResponse, DutError>;
}

/// Memory that notes what the device writes.
#[derive(Clone, Debug, Default)]
struct NotedMemory {
    memory: SparseMemory,
    written: Vec<(u64, u64)>,
}

impl Memory for NotedMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        self.memory.read(address, bytes).map_err(|_| BusError)
    }
}

impl MemoryMut for NotedMemory {
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), BusError> {
        self.memory.write(address, bytes).map_err(|_| BusError)?;
        self.written.push((address, bytes.len() as u64));
        Ok(())
    }
}

/// The golden model's device.
#[derive(Debug, Default)]
pub struct ModelDevice {
    device: Option<Device>,
    memory: NotedMemory,
}

impl ModelDevice {
    fn device(&self) -> Result<&Device, DutError> {
        self.device.as_ref().ok_or(DutError::NotConfigured)
    }
}

impl Dut for ModelDevice {
    fn configure(&mut self, _: &Tables, controls: Controls) -> Result<(), DutError> {
        self.set_controls(controls)
    }

    fn set_controls(&mut self, controls: Controls) -> Result<(), DutError> {
        self.device.as_mut().ok_or(DutError::NotConfigured)?.engine.controls = controls;
        Ok(())
    }

    fn translate(&mut self, requests: &[Request]) -> Result<Vec<Vec<Beat>>, DutError> {
        let engine = &self.device()?.engine;
        Ok(requests.iter().map(|request| engine.translate(&self.memory, request).beats(request)).collect())
    }

    fn context(&mut self, requests: &[ContextRequest]) -> Result<Vec<ContextResponse>, DutError> {
        let engine = &self.device()?.engine;
        Ok(requests.iter().map(|request| engine.context(&self.memory, request)).collect())
    }

    fn cycles(&self) -> Option<u64> {
        None
    }
}

impl CommandDut for ModelDevice {
    fn begin(&mut self, memory: SparseMemory, registers: TableSet) -> Result<(), DutError> {
        self.device = Some(Device::new(Engine::new(vec![registers])));
        self.memory = NotedMemory { memory, written: Vec::new() };
        Ok(())
    }

    fn memory(&mut self) -> &mut SparseMemory {
        &mut self.memory.memory
    }

    fn written(&mut self) -> Vec<(u64, u64)> {
        self.memory.written.clone()
    }

    fn start(&mut self, descriptor: &Descriptor) -> Result<CommandStatus, DutError> {
        Ok(self.device.as_mut().ok_or(DutError::NotConfigured)?.start(descriptor))
    }

    fn wait(&mut self) -> Result<MailboxStatus, DutError> {
        let device = self.device.as_mut().ok_or(DutError::NotConfigured)?;
        device.run(&mut self.memory);
        Ok(device.mailbox_status())
    }

    fn work(&mut self, request: &WorkRequest) -> Result<WorkResponse, DutError> {
        let device = self.device.as_mut().ok_or(DutError::NotConfigured)?;
        Ok(device.work(&mut self.memory, request))
    }
}

/// Memory of the host that the generated engine reads and writes.
impl LineMemory for NotedMemory {
    fn line(&self, address: u64) -> Option<[u8; LINE_BYTES]> {
        self.memory.line(address)
    }

    fn write_line(&mut self, address: u64, bytes: &[u8; LINE_BYTES], strobes: u64) -> bool {
        let is_written = self.memory.write_line(address, bytes, strobes);
        if is_written {
            self.written.push((address, LINE_BYTES as u64));
        }
        is_written
    }
}

/// Commands build the tables; what a replay configures are the controls.
impl HostMemory for NotedMemory {
    fn configure(dut: &mut RtlDut<Self>, _: &Tables, controls: Controls) -> Result<(), DutError> {
        dut.set_controls(controls)
    }
}

/// The generated engine with its command unit.
pub struct RtlDevice {
    dut: RtlDut<NotedMemory>,
    /// Of a device that has not begun.
    nothing: SparseMemory,
}

impl RtlDevice {
    /// The engine, to be built when the first replay begins.
    #[must_use]
    pub fn new(design: &'static cosim::Dut, options: RtlOptions) -> Self {
        Self { dut: RtlDut::new(design, options), nothing: SparseMemory::new() }
    }
}

impl Dut for RtlDevice {
    fn configure(&mut self, tables: &Tables, controls: Controls) -> Result<(), DutError> {
        self.dut.configure(tables, controls)
    }

    fn set_controls(&mut self, controls: Controls) -> Result<(), DutError> {
        self.dut.set_controls(controls)
    }

    fn translate(&mut self, requests: &[Request]) -> Result<Vec<Vec<Beat>>, DutError> {
        self.dut.translate(requests)
    }

    fn context(&mut self, requests: &[ContextRequest]) -> Result<Vec<ContextResponse>, DutError> {
        self.dut.context(requests)
    }

    fn cycles(&self) -> Option<u64> {
        self.dut.cycles()
    }
}

impl CommandDut for RtlDevice {
    fn begin(&mut self, memory: SparseMemory, registers: TableSet) -> Result<(), DutError> {
        self.dut.begin(NotedMemory { memory, written: Vec::new() }, &registers, Controls::default())
    }

    fn memory(&mut self) -> &mut SparseMemory {
        match self.dut.engine() {
            Ok(engine) => &mut engine.memory().memory_mut().memory,
            Err(_) => &mut self.nothing,
        }
    }

    fn written(&mut self) -> Vec<(u64, u64)> {
        self.dut.engine().map(|engine| engine.memory().memory().written.clone()).unwrap_or_default()
    }

    fn start(&mut self, descriptor: &Descriptor) -> Result<CommandStatus, DutError> {
        let engine = self.dut.engine()?;
        let is_taken = engine.start_command(descriptor.opcode, descriptor.function, &descriptor.data)?;
        Ok(match (is_taken, is_taken || engine.mailbox()?.is_busy) {
            (true, _) => CommandStatus::Ok,
            (false, true) => CommandStatus::Busy,
            (false, false) => CommandStatus::UnknownCommand,
        })
    }

    fn wait(&mut self) -> Result<MailboxStatus, DutError> {
        let limit_cycles = self.dut.limit_cycles();
        let engine = self.dut.engine()?;
        let start = engine.cycles();
        loop {
            let state = engine.mailbox()?;
            if !state.is_busy || engine.cycles() - start > limit_cycles {
                let status = CommandStatus::from_code(state.status);
                return Ok(MailboxStatus { status, token: state.token, busy: state.is_busy });
            }
        }
    }

    fn work(&mut self, request: &WorkRequest) -> Result<WorkResponse, DutError> {
        let limit_cycles = self.dut.limit_cycles();
        let engine = self.dut.engine()?;
        engine.submit_work(&cosim::WorkRequest {
            tag: request.tag,
            function: request.function,
            privileged: request.privileged,
            pd: request.pd,
            qpn: request.qpn,
            wqe: request.wqe,
        })?;
        engine.drain(limit_cycles)?;
        let answer = engine.pop_work().ok_or(DutError::Unanswered { number: 0, count: 1 })?;
        let status = WorkStatus::from_code(answer.status)
            .ok_or(Undefined { what: "status of a work request", code: answer.status })
            .map_err(|undefined| DutError::Undefined { tag: answer.tag, undefined })?;
        Ok(WorkResponse { tag: answer.tag, function: answer.function, status, cqe_code: answer.cqe_code, fence: None })
    }
}
