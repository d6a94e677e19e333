//! What is replayed against: a device with the command path.

use keywalk_contract::CommandStatus;
use keywalk_image::SparseMemory;
use keywalk_model::{
    Beat, BusError, ContextRequest, ContextResponse, Controls, Descriptor, Device, Engine, MailboxStatus, Memory,
    MemoryMut, Request, TableSet, WorkRequest, WorkResponse,
};

use crate::dut::{Dut, DutError};
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
    fn written(&self) -> &[(u64, u64)];

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
struct HostMemory {
    memory: SparseMemory,
    written: Vec<(u64, u64)>,
}

impl Memory for HostMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), BusError> {
        self.memory.read(address, bytes).map_err(|_| BusError)
    }
}

impl MemoryMut for HostMemory {
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
    memory: HostMemory,
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
        self.memory = HostMemory { memory, written: Vec::new() };
        Ok(())
    }

    fn memory(&mut self) -> &mut SparseMemory {
        &mut self.memory.memory
    }

    fn written(&self) -> &[(u64, u64)] {
        &self.memory.written
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
