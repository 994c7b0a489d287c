//! Requests and what is known of messages.

use refrain_rank::calls::{Handle, Handles};
use refrain_ring::Rank;
use refrain_transport::engine::{self, RequestId};

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
///
/// One that is kept beyond its scope is complete: a send as it would have been, a
/// receive as a cancelled one.
#[derive(Debug)]
pub struct Request {
    pub(super) handle: Handle,
    /// Scope and number of the template of a persistent request.
    pub(super) template: Option<(u64, usize)>,
}

/// The requests of one call, and those that their scope has begun.
pub(super) struct Held<'a> {
    pub requests: &'a mut [Request],
    pub begun: &'a mut Vec<RequestId>,
}

impl Handles for Held<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.requests.len()
    }

    #[inline]
    fn get(&self, index: usize) -> &Handle {
        &self.requests[index].handle
    }

    #[inline]
    fn clear(&mut self, index: usize) {
        let handle = &mut self.requests[index].handle;
        if let Some(id) = handle.id() {
            forget(self.begun, id);
        }
        *handle = Handle::NULL;
    }
}

/// The request is over: its scope need not wait for it.
#[inline]
pub(super) fn forget(begun: &mut Vec<RequestId>, id: RequestId) {
    if begun.last() == Some(&id) {
        begun.pop();
    }
}

impl Request {
    /// A request that stands for nothing.
    pub fn null() -> Self {
        Self {
            handle: Handle::NULL,
            template: None,
        }
    }

    /// Whether there is nothing to wait for: null, or persistent and inactive.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.handle.is_null()
    }
}
