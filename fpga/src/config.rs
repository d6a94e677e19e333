//! What can be chosen about the shell.

use crate::crossing;
use keywalk_contract::regs;

/// Bits of the identifiers of the engine's reads and writes.
pub const TABLE_ID_BITS: u32 = 8;
/// Bits of the identifiers of reads and writes: the engine's, and above them 1 for those of the data mover.
pub const ID_BITS: u32 = TABLE_ID_BITS + 1;
/// Bits of the addresses of registers: the engine's, and above them 1 for those of the user's own logic.
pub const REGISTER_ADDRESS_BITS: u32 = regs::ADDRESS_BITS + 1;

/// A shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellConfig {
    /// Bits of data of the engine's memory port.
    pub engine_data_bits: u32,
    /// Bits of data of the PCIe IP's ports.
    pub pcie_data_bits: u32,
    /// Stages of every synchroniser.
    pub stages: u32,
    /// An interrupt that is still pending after 2 to this power cycles of the PCIe clock is sent again.
    pub interrupt_repeat_log2: u32,
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self { engine_data_bits: 512, pcie_data_bits: 512, stages: 3, interrupt_repeat_log2: 20 }
    }
}

/// A shell that cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("shell: `{field}` is {value}; legal is {legal}")]
pub struct ShellConfigError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: u32,
    /// Values that are legal.
    pub legal: &'static str,
}

impl ShellConfig {
    /// Every field by name.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u32); 4] {
        [
            ("engine_data_bits", self.engine_data_bits),
            ("pcie_data_bits", self.pcie_data_bits),
            ("stages", self.stages),
            ("interrupt_repeat_log2", self.interrupt_repeat_log2),
        ]
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field with an illegal value.
    pub fn validate(&self) -> Result<(), ShellConfigError> {
        let check = |field, value, is_legal: bool, legal| {
            if is_legal { Ok(()) } else { Err(ShellConfigError { field, value, legal }) }
        };
        check(
            "engine_data_bits",
            self.engine_data_bits,
            [128, 256, 512].contains(&self.engine_data_bits),
            "128, 256 or 512",
        )?;
        check("pcie_data_bits", self.pcie_data_bits, [256, 512].contains(&self.pcie_data_bits), "256 or 512")?;
        check("stages", self.stages, crossing::STAGES.contains(&(self.stages as usize)), "2 to 4")?;
        let repeat = self.interrupt_repeat_log2;
        check("interrupt_repeat_log2", repeat, (8..=32).contains(&repeat), "8 to 32")
    }
}
