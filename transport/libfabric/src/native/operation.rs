//! Operations of an endpoint: how they are refused, and how they end.

use thiserror::Error as ThisError;

/// The token of errors that belong to no operation: of injected messages.
pub const TOKEN_OF_INJECTED: u64 = u64::MAX;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message sent.
    Send,
    /// A message received.
    Receive,
    /// Memory of a peer read.
    Read,
    /// Memory of a peer written.
    Write,
}

impl Kind {
    /// For errors: "cannot …".
    pub const fn attempted(self) -> &'static str {
        match self {
            Self::Send => "send a message",
            Self::Receive => "receive a message",
            Self::Read => "read memory of a peer",
            Self::Write => "write memory of a peer",
        }
    }
}

/// Why an operation was not begun.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Refused<E> {
    /// There is no room now, or no way to the peer yet: poll, and try again.
    #[error("there is no room now, or no way to the peer yet: poll, and try again")]
    Again,
    /// As many operations as the endpoint was opened for are in flight.
    #[error("as many operations as the endpoint was opened for are in flight")]
    Full,
    /// It will not go.
    #[error(transparent)]
    Failed(#[from] E),
}

/// An operation is over: of an endpoint that names peers by `P` and fails with `E`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion<P, E> {
    /// What the operation was started with.
    pub token: u64,
    /// What it was.
    pub kind: Kind,
    /// Received bytes; of other operations, how many it was started with.
    pub bytes: usize,
    /// Whom it was with, where that is known: providers of libfabric do not say. A
    /// message received by verbs can come of a peer that was not inserted, where
    /// the endpoint's options allow that.
    pub peer: Option<P>,
    /// Whether it did what it should.
    pub outcome: Result<(), E>,
}
