//! The golden model as a design under test.

use keywalk_model::{Beat, ContextRequest, ContextResponse, Controls, Request};

use super::{Dut, DutError};
use crate::tables::{Golden, Tables};

/// The golden model.
#[derive(Debug, Default)]
pub struct GoldenDut {
    golden: Option<Golden>,
}

impl Dut for GoldenDut {
    fn configure(&mut self, tables: &Tables, controls: Controls) -> Result<(), DutError> {
        self.golden = Some(Golden::new(tables, controls));
        Ok(())
    }

    fn set_controls(&mut self, controls: Controls) -> Result<(), DutError> {
        self.golden.as_mut().ok_or(DutError::NotConfigured)?.set_controls(controls);
        Ok(())
    }

    fn translate(&mut self, requests: &[Request]) -> Result<Vec<Vec<Beat>>, DutError> {
        let golden = self.golden.as_ref().ok_or(DutError::NotConfigured)?;
        Ok(requests.iter().map(|request| golden.translate(request).beats(request)).collect())
    }

    fn context(&mut self, requests: &[ContextRequest]) -> Result<Vec<ContextResponse>, DutError> {
        let golden = self.golden.as_ref().ok_or(DutError::NotConfigured)?;
        Ok(requests.iter().map(|request| golden.context(request)).collect())
    }

    fn cycles(&self) -> Option<u64> {
        None
    }
}
