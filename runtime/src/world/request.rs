//! Requests and what is known of messages.

use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{self, Outcome, RequestId};

/// What is known of a message that was received, sent or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its sender (of a send: its receiver).
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes.
    pub bytes: u64,
    /// The receive was cancelled, and there is no message.
    pub cancelled: bool,
}

impl From<engine::Status> for Status {
    #[inline]
    fn from(status: engine::Status) -> Self {
        let engine::Status {
            source,
            tag,
            bytes,
            cancelled,
        } = status;
        Self {
            source,
            tag,
            bytes,
            cancelled,
        }
    }
}

/// A request of a [`Scope`](super::Scope). It is null once its completion has
/// been told; a persistent one is inactive then, and can be started again.
#[derive(Debug)]
pub struct Request {
    pub(super) state: State,
    /// The template of a persistent request.
    pub(super) template: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Null or inactive.
    Idle,
    /// Complete when the call that made it returned.
    Done {
        outcome: Outcome,
        posted_at: Clock,
    },
    Live(RequestId),
}

impl Request {
    /// A request that stands for nothing.
    pub fn null() -> Self {
        Self {
            state: State::Idle,
            template: None,
        }
    }

    /// Whether there is nothing to wait for: null, or persistent and inactive.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self.state, State::Idle)
    }
}
