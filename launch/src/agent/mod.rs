//! The launcher's arm on another host: starts the host's ranks and passes on what
//! they and the launcher say to each other, what they print, and how they end.
//!
//! One thread and one poll(2) loop. Ranks are the agent's children, with a control
//! socket to it, as they have one to a launcher on their own host. Nothing of the
//! job stays on the host without the launcher: when the connection or the standard
//! input is closed, or the other side does not answer the kernel any more, the
//! agent kills its ranks and ends; when the agent is killed, the kernel kills them.
//!
//! | file | subject |
//! |---|---|
//! | `calling` | finding the launcher |
//! | `serving` | the loop |
//! | `ranks` | the ranks of the host, and the memory that they have shared |
//!
//! Docs: `docs/guide/hosts.md`.

mod calling;
mod ranks;
mod serving;

use super::hosts::invitation::{Invitation, LINE_BYTES_MAX, NotAnInvitation};
use super::hosts::wire::WireError;
use std::io::{self, BufRead as _, Read as _};
use thiserror::Error;

/// Why an agent could not serve.
#[derive(Debug, Error)]
pub enum AgentError {
    /// It was told nothing that it understands.
    #[error(transparent)]
    Invitation(#[from] NotAnInvitation),
    /// It was told nothing.
    #[error("stdin cannot be read: {0}")]
    Input(#[from] io::Error),
    /// It cannot reach the launcher.
    #[error("the launcher cannot be reached from this host: {0}")]
    Unreachable(String),
    /// The launcher is gone, or somebody tampers with the connection.
    #[error("the connection to the launcher is lost: {0}")]
    Lost(#[from] WireError),
}

/// Serves one job: reads whom to call from standard input, and returns when the
/// job is over. Nothing of it is left running.
///
/// # Errors
/// When there is no launcher, or it is lost.
pub fn run() -> Result<(), AgentError> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(LINE_BYTES_MAX)
        .read_line(&mut line)?;
    let invitation: Invitation = line.parse()?;
    match calling::call(&invitation)? {
        Some(wire) => serving::serve(wire, invitation.host),
        None => Ok(()),
    }
}
