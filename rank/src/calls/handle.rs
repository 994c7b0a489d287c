//! The program's handle of an operation that it has begun.

use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{Engine, Outcome, RequestId, Status};
use refrain_transport::protocol::Protocol;

/// A request as its program holds it: null, a send or a receive. It becomes null when a call
/// returns its end.
#[derive(Clone, Copy, Debug)]
pub struct Handle(Option<Operation>);

#[derive(Clone, Copy, Debug)]
struct Operation {
    posted_at: Clock,
    /// `None`: a send that was complete when its call returned. That depends on the room in the
    /// log, so on timing: an answer may depend on it only through an event.
    id: Option<RequestId>,
    /// The outcome of a send, which is known when it begins; only the time of its end is not.
    /// `None`: a receive.
    sent: Option<Sent>,
}

/// The message of a send.
#[derive(Clone, Copy, Debug)]
struct Sent {
    to: Rank,
    tag: i32,
    bytes: u64,
}

impl From<Sent> for Outcome {
    #[inline]
    fn from(sent: Sent) -> Self {
        Self::from(Status {
            source: sent.to,
            tag: sent.tag,
            bytes: sent.bytes,
            cancelled: false,
        })
    }
}

/// The handles of one call, in any container.
pub trait Handles {
    /// Number of handles.
    fn count(&self) -> usize;

    /// The handle at `index`.
    ///
    /// # Panics
    /// When there is no such handle.
    fn get(&self, index: usize) -> &Handle;

    /// Makes the handle at `index` null: a call returns the end of its request.
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

impl<H: Handles + ?Sized> Handles for &mut H {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn get(&self, index: usize) -> &Handle {
        (**self).get(index)
    }

    fn clear(&mut self, index: usize) {
        (**self).clear(index);
    }
}

impl Handle {
    /// The null handle.
    pub const NULL: Self = Self(None);

    /// A send; `id`: `None` if it is complete.
    #[inline]
    pub fn send(posted_at: Clock, outcome: Outcome, id: Option<RequestId>) -> Self {
        let of = outcome.status;
        let sent = Some(Sent {
            to: of.source,
            tag: of.tag,
            bytes: of.bytes,
        });
        Self(Some(Operation {
            posted_at,
            id,
            sent,
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

    /// Whether this is the null handle.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// The id of the request in the engine, if it has one.
    #[inline]
    pub fn id(&self) -> Option<RequestId> {
        self.0?.id
    }

    /// Makes a send one that is complete, and returns its id in the engine, if it has one.
    pub(super) fn take_send(&mut self) -> Option<RequestId> {
        let operation = self.0.as_mut().filter(|it| it.sent.is_some())?;
        operation.id.take()
    }

    /// The outcome if the request has ended; `None` for a null handle. It is no event.
    ///
    /// A request whose scope has ended is unknown to the engine, and counts as ended: a send with
    /// its usual outcome, a receive without a message.
    #[inline]
    pub fn outcome(&self, engine: &Engine<impl Protocol>) -> Option<Outcome> {
        let Operation { id, sent, .. } = self.0?;
        let Some(id) = id else {
            return sent.map(Outcome::from);
        };
        let ended = engine.outcome(id);
        let ended = ended.or_else(|| engine.posted_at(id).is_none().then_some(NO_MESSAGE))?;
        Some(sent.map_or(ended, Outcome::from))
    }

    /// The id of the request in events: the clock at its post, also when its scope has ended.
    /// `None` for a null handle.
    #[inline]
    pub fn posted_at(&self) -> Option<Clock> {
        Some(self.0?.posted_at)
    }

    /// Takes the outcome of a receive that has ended, and makes the handle null: the call returns it.
    /// `None` for all others, and for a receive that has not ended.
    #[inline]
    pub fn take_received(&mut self, engine: &mut Engine<impl Protocol>) -> Option<Outcome> {
        let operation = self.0.filter(|it| it.sent.is_none())?;
        let outcome = engine.take(operation.id?)?;
        *self = Self::NULL;
        Some(outcome)
    }

    /// Ends a receive that has ended, after a look at its outcome: the call returns it, and makes the
    /// handle null. Returns false, and does nothing, for all others: then [wait](super::try_wait).
    #[inline(always)]
    pub fn end_received(
        &self,
        engine: &mut Engine<impl Protocol>,
        look: impl FnOnce(&Outcome),
    ) -> bool {
        match &self.0 {
            Some(Operation {
                id: Some(id),
                sent: None,
                ..
            }) => engine.take_with(*id, look),
            _ => false,
        }
    }

    /// Makes the handle null and removes the request from the engine: a call returns its end.
    #[inline]
    pub(super) fn end(&mut self, engine: &mut Engine<impl Protocol>) {
        if let Some(id) = self.id() {
            engine.retire(id);
        }
        *self = Self::NULL;
    }
}

/// The outcome of a receive whose scope has ended.
const NO_MESSAGE: Outcome = Outcome {
    status: Status {
        source: Rank(0),
        tag: 0,
        bytes: 0,
        cancelled: true,
    },
    truncated_to: None,
};
