//! Which messages and events lie before a checkpoint, and telling the senders. LOG-4

use super::Engine;
use crate::control::Control;
use crate::protocol::Protocol;
use refrain_ring::{Clock, Frontier, Rank, Ssn};

/// The messages that were delivered to the program at one time, and which a checkpoint
/// that is taken then covers. A plain value: a checkpoint keeps it until it is stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    clock: Clock,
    /// By source.
    delivered: Vec<Frontier>,
}

impl Horizon {
    /// Events up to this operation are not needed again.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The first message of the program's stream of `source` that was not delivered to the
    /// program; all before are covered.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn delivered(&self, source: Rank) -> Ssn {
        self.delivered[source.index()].program
    }
}

impl<P: Protocol> Engine<P> {
    /// What a checkpoint that is taken now covers: messages that were delivered
    /// to the program, and what happened until now. LOG-4
    pub fn horizon(&self) -> Horizon {
        // The message of a receive whose end the program has not seen is needed
        // again, and its match with it.
        let undelivered = self.requests.receives().map(|it| it.posted_at).min();
        let before = undelivered.map(|posted_at| Clock(posted_at.0.saturating_sub(1)));
        let sources = (0..self.options.size).map(Rank);
        Horizon {
            clock: before.map_or(self.clock, |before| before.min(self.clock)),
            delivered: sources.map(|source| self.delivered_of(source)).collect(),
        }
    }

    /// Messages that an open internal operation has received belong to it until its end: a
    /// life that begins before its start needs them again. STREAM-5
    fn delivered_of(&self, source: Rank) -> Frontier {
        let delivered = self.inbox.horizon(source);
        match self.operations.is_any_open() {
            false => delivered,
            true => {
                let before = &self.inbox.sources[source.index()].horizon;
                delivered.with_internal_of(before)
            }
        }
    }

    /// Publishes the checkpoint that was taken at `horizon` and is stable: tells
    /// the protocol and every sender, whose log may free all messages before it.
    /// A checkpoint that is older than the last published one changes nothing. LOG-4, GC-1
    pub fn publish(&mut self, horizon: &Horizon) {
        if horizon.clock >= self.published {
            self.published = horizon.clock;
            self.protocol.checkpoint_published(horizon.clock);
        }
        let mark = self.gate.mark();
        for (source, delivered) in (0..).map(Rank).zip(&horizon.delivered) {
            for ssn in delivered.all() {
                let is_news = self.inbox.sources[source.index()].raise_horizon(ssn);
                if is_news && source != self.options.rank {
                    let control = Control::Horizon { ssn };
                    self.outbox.push_control(source, control, mark);
                }
            }
        }
    }

    /// [`Engine::publish`] of a checkpoint that is stable the moment it is taken. LOG-4
    pub fn publish_horizon(&mut self) {
        self.publish(&self.horizon());
    }
}
