//! STUB of the launcher (its owner replaces this file; the signatures are agreed).
#![allow(unused_variables, missing_docs, reason = "stub")]
use crate::{Error, config::JobConfig};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /** each line with its rank before it */
    Prefixed,
    /** lines as they are */
    Plain,
    /** ranks write to the launcher's own stdout and stderr */
    Inherited,
}
#[derive(Debug)]
pub struct JobSpec {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub ranks: u32,
    pub config: JobConfig,
    pub output: Output,
    /** pin rank r to core r when there are enough cores */
    pub pin: bool,
    /** extra descriptors for rank r: (rank, name of the environment variable that gets the number, descriptor) */
    pub descriptors: Vec<(u32, String, OwnedFd)>,
}
/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /** exit status for the launcher: that of the first rank that failed (128 + signal for a killed one), or 0 */
    pub status: i32,
    /** what happened, for people; None after a good end */
    pub failure: Option<String>,
}
/// A running job. Dropping it ends all its ranks and waits for them.
pub struct Job {
    _p: (),
}
impl Job {
    pub fn start(spec: JobSpec) -> Result<Self, Error> {
        unimplemented!()
    }
    /// Serves the job until it ends.
    pub fn wait(self) -> Result<Outcome, Error> {
        unimplemented!()
    }
    /// Serves the job for a while (control messages, output, ends of ranks) without blocking longer than `timeout`. `Some` when it has ended.
    pub fn serve(&mut self, timeout: std::time::Duration) -> Result<Option<Outcome>, Error> {
        unimplemented!()
    }
}
