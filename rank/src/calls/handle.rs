//! What a program holds of an operation that it has begun.

use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{Engine, Outcome, RequestId, Status};
use refrain_transport::protocol::Protocol;

/// A request as its program has it: null, a send or a receive. Null again once
/// its end has been told.
#[derive(Clone, Copy, Debug)]
pub struct Handle(State);

#[derive(Clone, Copy, Debug)]
enum State {
    Null,
    /// How a send ends is known when it begins, only not when.
    Send {
        posted_at: Clock,
        outcome: Outcome,
        /// `None`: it was complete when the call that made it returned. That
        /// depends on the room in the log, so on timing: no answer may depend on
        /// it but by way of an event.
        id: Option<RequestId>,
    },
    Receive {
        posted_at: Clock,
        id: RequestId,
    },
}

/// Several handles of one call, wherever they are kept.
pub trait Handles {
    /// How many.
    fn count(&self) -> usize;

    /// One of them.
    ///
    /// # Panics
    /// When there are not so many.
    fn get(&self, index: usize) -> &Handle;

    /// The end of this one has been told: it is null.
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
    pub const NULL: Self = Self(State::Null);

    /// A send; `id`: unless it is complete.
    #[inline]
    pub fn send(posted_at: Clock, outcome: Outcome, id: Option<RequestId>) -> Self {
        Self(State::Send {
            posted_at,
            outcome,
            id,
        })
    }

    #[inline]
    pub(super) fn receive(posted_at: Clock, id: RequestId) -> Self {
        Self(State::Receive { posted_at, id })
    }

    /// Whether there is nothing to wait for.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self.0, State::Null)
    }

    /// Its name in the engine, where it has one.
    #[inline]
    pub fn id(&self) -> Option<RequestId> {
        match self.0 {
            State::Null => None,
            State::Send { id, .. } => id,
            State::Receive { id, .. } => Some(id),
        }
    }

    /// How it ended, if it has; a null one has not. Tells nobody.
    ///
    /// A request of a scope that is over, which the engine knows no more, has
    /// ended: a send as it would have, a receive without a message.
    #[inline]
    pub fn outcome(&self, engine: &Engine<impl Protocol>) -> Option<Outcome> {
        match self.0 {
            State::Null => None,
            State::Send {
                outcome, id: None, ..
            } => Some(outcome),
            State::Send {
                outcome,
                id: Some(id),
                ..
            } => (engine.outcome(id).is_some() || is_stale(engine, id)).then_some(outcome),
            State::Receive { id, .. } => engine
                .outcome(id)
                .or_else(|| is_stale(engine, id).then_some(NO_MESSAGE)),
        }
    }

    /// Its id in events: the clock at its post, also when its scope is over.
    /// `None` for one that stands for nothing, or not any more.
    #[inline]
    pub fn posted_at(&self) -> Option<Clock> {
        match self.0 {
            State::Null => None,
            State::Send { posted_at, .. } | State::Receive { posted_at, .. } => Some(posted_at),
        }
    }

    /// Its end has been told: the engine forgets it.
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

fn is_stale(engine: &Engine<impl Protocol>, id: RequestId) -> bool {
    engine.posted_at(id).is_none()
}
