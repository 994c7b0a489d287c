//! Operations of an endpoint: their kinds, refusals and completions.

use thiserror::Error as ThisError;

/// The token of a failed injected message, which has no operation.
pub const TOKEN_OF_INJECTED: u64 = u64::MAX;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sends a message.
    Send,
    /// Receives a message.
    Receive,
    /// Reads memory of a peer.
    Read,
    /// Writes memory of a peer.
    Write,
}

impl Kind {
    /// The text for errors, after "cannot".
    pub const fn attempted(self) -> &'static str {
        match self {
            Self::Send => "send a message",
            Self::Receive => "receive a message",
            Self::Read => "read memory of a peer",
            Self::Write => "write memory of a peer",
        }
    }
}

/// The reason why an operation was not begun.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Refused<E> {
    /// There is no room now, or no connection to the peer yet: poll, and try again.
    #[error("there is no room now, or no connection to the peer yet: poll, and try again")]
    Again,
    /// The limit of operations in flight is reached.
    #[error("the limit of operations in flight is reached: poll, and try again")]
    Full,
    /// The operation fails.
    #[error(transparent)]
    Failed(#[from] E),
}

/// The end of an operation. The endpoint names peers by `P` and fails with `E`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion<P, E> {
    /// The token that the operation was started with.
    pub token: u64,
    /// The kind of the operation.
    pub kind: Kind,
    /// Bytes received; for other operations, the bytes that the operation was started with.
    pub bytes: usize,
    /// The peer, if it is known: providers of libfabric do not report it. A message received by
    /// verbs can come from a peer that was not inserted, if the endpoint's options allow it.
    pub peer: Option<P>,
    /// Whether the operation succeeded.
    pub outcome: Result<(), E>,
}
