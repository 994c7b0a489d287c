//! STUB of the control plane as ranks see it (its owner replaces this file; the signatures are agreed).
#![allow(unused_variables, missing_docs, reason = "stub")]
use crate::{Error, config::JobConfig};
use refrain_ring::{Incarnation, Rank};
use std::os::fd::{BorrowedFd, OwnedFd};
/// A rank's connection to its launcher.
pub struct ControlPlane {
    _p: (),
}
impl ControlPlane {
    /// `Ok(None)`: not started by a launcher.
    pub fn from_environment() -> Result<Option<Self>, Error> {
        unimplemented!()
    }
    pub fn rank(&self) -> Rank {
        unimplemented!()
    }
    pub fn size(&self) -> u32 {
        unimplemented!()
    }
    pub fn incarnation(&self) -> Incarnation {
        unimplemented!()
    }
    pub fn job(&self) -> u64 {
        unimplemented!()
    }
    pub fn config(&self) -> &JobConfig {
        unimplemented!()
    }
    pub fn put(
        &mut self,
        key: &str,
        value: &[u8],
        memory: Option<BorrowedFd<'_>>,
    ) -> Result<(), Error> {
        unimplemented!()
    }
    /// Blocks until somebody has put it.
    pub fn get(&mut self, key: &str) -> Result<(Vec<u8>, Option<OwnedFd>), Error> {
        unimplemented!()
    }
    pub fn fence(&mut self) -> Result<(), Error> {
        unimplemented!()
    }
    /// Without blocking: has the launcher gone, or told this rank to stop?
    pub fn check(&mut self) -> Result<(), Error> {
        unimplemented!()
    }
    pub fn finalize(&mut self) -> Result<(), Error> {
        unimplemented!()
    }
    pub fn abort(&mut self, message: &str) {
        unimplemented!()
    }
}
