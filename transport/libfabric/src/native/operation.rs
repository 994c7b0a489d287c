//! Operations of an endpoint: how they are refused, and how they end.

use thiserror::Error as ThisError;

/// The token of errors of injected messages, which have no operation.
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
    /// There is no room now, or no connection to the peer yet: poll, and try again.
    #[error("there is no room now, or no connection to the peer yet: poll, and try again")]
    Again,
    /// The limit of operations in flight is reached.
    #[error("as many operations as the endpoint was opened for are in flight")]
    Full,
    /// It fails.
    #[error(transparent)]
    Failed(#[from] E),
}

/// The end of an operation of an endpoint that names peers by `P` and fails with `E`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion<P, E> {
    /// The token that the operation was started with.
    pub token: u64,
    /// The kind of the operation.
    pub kind: Kind,
    /// Received bytes; of other operations, the bytes that it was started with.
    pub bytes: usize,
    /// The peer, if it is known: providers of libfabric do not report it. A message
    /// received by verbs can come from a peer that was not inserted, if the endpoint's
    /// options allow that.
    pub peer: Option<P>,
    /// Whether it succeeded.
    pub outcome: Result<(), E>,
}
