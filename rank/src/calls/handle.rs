//! What a program holds of an operation that it has begun.

use refrain_ring::{Clock, Rank};
use refrain_transport::engine::{Engine, Outcome, RequestId, Status};

/// A request as its program has it: null, ended when the call that made it
/// returned, or under way. Null again once its end has been told.
#[derive(Clone, Copy, Debug)]
pub struct Handle(State);

#[derive(Clone, Copy, Debug)]
enum State {
    Null,
    /// Complete when the call that made it returned.
    Done {
        outcome: Outcome,
        posted_at: Clock,
    },
    Live(RequestId),
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

    #[inline]
    pub(super) fn done(outcome: Outcome, posted_at: Clock) -> Self {
        Self(State::Done { outcome, posted_at })
    }

    #[inline]
    pub(super) fn live(id: RequestId) -> Self {
        Self(State::Live(id))
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
            State::Live(id) => Some(id),
            State::Null | State::Done { .. } => None,
        }
    }

    /// How it ended, if it has; a null one has not. Tells nobody.
    #[inline]
    pub fn outcome(&self, engine: &Engine) -> Option<Outcome> {
        match self.0 {
            State::Null => None,
            State::Done { outcome, .. } => Some(outcome),
            State::Live(id) => engine.outcome(id).or_else(|| stale(engine, id)),
        }
    }

    /// Its id in events: the clock at its post. `None` for one that stands for
    /// nothing, or not any more.
    #[inline]
    pub fn posted_at(&self, engine: &Engine) -> Option<Clock> {
        match self.0 {
            State::Null => None,
            State::Done { posted_at, .. } => Some(posted_at),
            State::Live(id) => engine.posted_at(id),
        }
    }

    /// Its end has been told: the engine forgets it.
    #[inline]
    pub(super) fn end(&mut self, engine: &mut Engine) {
        if let State::Live(id) = self.0 {
            engine.retire(id);
        }
        *self = Self::NULL;
    }
}

/// A request that the engine knows no more, as its scope is over, stands for
/// nothing: it is complete, without a message.
fn stale(engine: &Engine, id: RequestId) -> Option<Outcome> {
    let status = Status {
        source: Rank(0),
        tag: 0,
        bytes: 0,
        cancelled: true,
    };
    engine.posted_at(id).is_none().then_some(Outcome {
        status,
        truncated_to: None,
        at_once: true,
    })
}
