//! The launcher's agent on another host: starts the host's ranks, and forwards messages between
//! them and the launcher, their output, and their ends.
//!
//! One thread and one poll(2) loop. Ranks are children of the agent, with control sockets to the
//! agent, as ranks on the launcher's host have them to the launcher. No process or file of the job
//! stays on the host without the launcher: when the connection or the standard input is closed, or
//! the other side no longer acknowledges data, the agent kills its ranks and ends; when the agent
//! is killed, the kernel kills its ranks.
//!
//! | file | subject |
//! |---|---|
//! | `service` | the loop |
//! | `error` | why an agent ends without having served its job |
//! | `calling` | connects to the launcher, or to another agent |
//! | `uplink` | the connection to the launcher, or to the agent above this one |
//! | `relay` | the agents below this one |
//! | `input` | the standard input of a rank |
//! | `ranks` | the ranks of the host, and the memory that they have shared |
//! | `services` | event loggers and checkpoint servers of a host without ranks |
//! | `watch` | stops the ranks while the agent has no lease |
//!
//! Docs: `docs/guide/hosts.md`.

mod calling;
mod error;
mod input;
mod ranks;
mod relay;
mod service;
mod services;
mod uplink;
mod watch;

pub use error::AgentError;

use crate::hosts::invitation::{Invitation, KEY, LINE_BYTES_MAX};
use refrain_pmi::Server;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::dup2_stdin;
use signal_hook::consts::{SIGTERM, SIGUSR1, SIGUSR2};
use std::io::{self, BufRead as _, Read as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use uplink::Uplink;

/// Reads the launcher's addresses from standard input, serves one job, and returns when the job
/// is over. No process of the job is left running then.
///
/// # Errors
/// When the launcher cannot be reached, or the connection to it is lost.
pub fn run() -> Result<(), AgentError> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(LINE_BYTES_MAX)
        .read_line(&mut line)?;
    serve(&line.parse()?)
}

/// As [`run`], in a task that another launcher has started, with the addresses that the launcher has
/// published. Standard input is not read.
///
/// # Errors
/// As [`run`].
pub fn run_as_task(server: &mut Server) -> Result<(), AgentError> {
    let host = server.rank();
    let value = server.get(0, KEY)?;
    let Some(invitation) = Invitation::of_value(&value, host)? else {
        return Ok(());
    };
    // An agent ends when its standard input is closed: this one never is.
    let (empty, kept_open) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    dup2_stdin(&empty).map_err(io::Error::from)?;
    let served = serve(&invitation);
    drop(kept_open);
    served
}

/// Makes this process outlive the signals that Slurm sends to all processes of a job: SIGTERM when it
/// ends the job; the launcher then ends the agent, which removes its files; SIGUSR1 and SIGUSR2 on
/// request (`sbatch --signal`). Handlers, since ranks would inherit that a signal is ignored. The flag is
/// set by SIGUSR1.
///
/// # Errors
/// Of the system.
pub fn outlive_signals() -> io::Result<Arc<AtomicBool>> {
    for signal in [SIGTERM, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let asked = Arc::default();
    signal_hook::flag::register(SIGUSR1, Arc::clone(&asked))?;
    Ok(asked)
}

fn serve(invitation: &Invitation) -> Result<(), AgentError> {
    let asked = outlive_signals()?;
    match Uplink::to_launcher(invitation)? {
        Some(uplink) => service::serve(uplink, invitation.host, asked),
        None => Ok(()),
    }
}
