//! Why an agent ends without having served its job.

use crate::hosts::invitation::NotAnInvitation;
use refrain_pmi::PmiError;
use refrain_wire::WireError;
use std::io;
use thiserror::Error;

/// Error of an agent that cannot serve its job.
#[derive(Debug, Error)]
pub enum AgentError {
    /// stdin has no invitation.
    #[error(transparent)]
    Invitation(#[from] NotAnInvitation),
    /// The server of the tasks cannot be used.
    #[error(transparent)]
    Server(#[from] PmiError),
    /// stdin cannot be read.
    #[error("stdin cannot be read: {0}")]
    Input(#[from] io::Error),
    /// The lease of the host cannot be watched.
    #[error("the clock of the lease cannot be used: {0}")]
    Lease(io::Error),
    /// The launcher cannot be reached.
    #[error("the launcher cannot be reached from this host: {0}")]
    Unreachable(String),
    /// The launcher has ended, or the connection was tampered with.
    #[error("the connection to the launcher is lost: {0}")]
    Lost(#[from] WireError),
}
