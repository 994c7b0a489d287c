//! Sets a peer's core, and makes the peer end with the sweep, between fork and exec. Code in a
//! forked child would need `unsafe`: instead, this executable is started again under the hidden
//! subcommand, does it in its own process and then becomes the peer.

use crate::error::BenchError;
use crate::netpipe::command::rank_failed;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Environment variable with the program to become, as JSON.
pub const PEER_VARIABLE: &str = "REFRAIN_NETPIPE_PEER";

/// The program to become.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Become {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Variables that are set for the program, but not for this executable.
    pub environment: Vec<(OsString, OsString)>,
    /// Index of the allowed core to run on, from 0; ignored if there are less than two cores.
    pub core: Option<usize>,
    /// Process id of the driver; the program ends with it.
    pub driver: i32,
}

/// Becomes the peer that the environment names, if any.
///
/// # Errors
/// The peer cannot be started. Does not return if it can.
pub fn become_peer_if_asked() -> Result<(), BenchError> {
    let Some(text) = std::env::var_os(PEER_VARIABLE) else {
        return Ok(());
    };
    let wanted: Become = serde_json::from_slice(text.as_encoded_bytes())
        .map_err(|error| rank_failed(format!("{PEER_VARIABLE}: {error}")))?;
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(BenchError::system("cannot let a peer end with the sweep"))?;
    // The driver may have ended before that call.
    if getppid().map_or(0, |pid| pid.as_raw_nonzero().get()) != wanted.driver {
        return Err(rank_failed("the sweep has ended".into()));
    }
    if let Some(core) = wanted.core {
        pin(core);
    }
    let error = Command::new(&wanted.program)
        .args(&wanted.arguments)
        .envs(wanted.environment)
        .env_remove(PEER_VARIABLE)
        .exec();
    let program = wanted.program.display();
    Err(rank_failed(format!("cannot start {program}: {error}")))
}

/// Pins this process. If that fails, the figures are less precise, not wrong: errors are ignored.
fn pin(core: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&core| allowed.is_set(core))
        .collect();
    if cores.len() < 2 {
        return;
    }
    let mut chosen = CpuSet::new();
    chosen.set(cores[core % cores.len()]);
    let _ = sched_setaffinity(None, &chosen);
}
