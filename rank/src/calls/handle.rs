//! The program's handle of an operation that it has begun.

use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{Engine, Outcome, RequestId, Status};
use refrain_transport::protocol::Protocol;

/// A request as its program has it: null, a send or a receive. Null again once
/// a call has returned its end.
#[derive(Clone, Copy, Debug)]
pub struct Handle(Option<Operation>);

#[derive(Clone, Copy, Debug)]
struct Operation {
    posted_at: Clock,
    /// `None`: a send that was complete when its call returned. That depends on the room in
    /// the log, so on timing: no answer may depend on it except by an event.
    id: Option<RequestId>,
    /// How a send ends: known when it begins, only not when it ends. `None`: a receive.
    sent: Option<Outcome>,
}

/// Several handles of one call, wherever they are kept.
pub trait Handles {
    /// Number of handles.
    fn count(&self) -> usize;

    /// One of them.
    ///
    /// # Panics
    /// When there is no such handle.
    fn get(&self, index: usize) -> &Handle;

    /// A call returns the end of this one: it becomes null.
    fn clear(&mut self, index: usize);
}

impl Handles for [Handle] {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, index: usize) -> &Handle {
        &self[index]
    }

    fn clear(&mut self, index: usize) {
        self[index] = Handle::NULL;
    }
}

impl Handle {
    /// Stands for nothing.
    pub const NULL: Self = Self(None);

    /// A send; `id`: unless it is complete.
    #[inline]
    pub fn send(posted_at: Clock, outcome: Outcome, id: Option<RequestId>) -> Self {
        Self(Some(Operation {
            posted_at,
            id,
            sent: Some(outcome),
        }))
    }

    #[inline]
    pub(super) fn receive(posted_at: Clock, id: RequestId) -> Self {
        Self(Some(Operation {
            posted_at,
            id: Some(id),
            sent: None,
        }))
    }

    /// Whether there is nothing to wait for.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Its id in the engine, if it has one.
    #[inline]
    pub fn id(&self) -> Option<RequestId> {
        self.0?.id
    }

    /// How it ended, if it has; a null one has not. It is no event.
    ///
    /// A request whose scope has ended, which the engine does not know any more, has
    /// ended: a send as usual, a receive without a message.
    #[inline]
    pub fn outcome(&self, engine: &Engine<impl Protocol>) -> Option<Outcome> {
        let Operation { id, sent, .. } = self.0?;
        let Some(id) = id else {
            return sent;
        };
        let ended = engine.outcome(id);
        let ended = ended.or_else(|| engine.posted_at(id).is_none().then_some(NO_MESSAGE))?;
        Some(sent.unwrap_or(ended))
    }

    /// Its id in events: the clock at its post, also when its scope has ended.
    /// `None` for a null one.
    #[inline]
    pub fn posted_at(&self) -> Option<Clock> {
        Some(self.0?.posted_at)
    }

    /// A call returns its end: the engine forgets it.
    #[inline]
    pub(super) fn end(&mut self, engine: &mut Engine<impl Protocol>) {
        if let Some(id) = self.id() {
            engine.retire(id);
        }
        *self = Self::NULL;
    }
}

/// The end of a receive with its scope.
const NO_MESSAGE: Outcome = Outcome {
    status: Status {
        source: Rank(0),
        tag: 0,
        bytes: 0,
        cancelled: true,
    },
    truncated_to: None,
};
