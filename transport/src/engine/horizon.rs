//! Which messages and events a checkpoint covers, and the report of it to the senders. LOG-4

use super::Engine;
use crate::control::Control;
use crate::protocol::Protocol;
use refrain_ring::{Clock, Frontier, Rank, Ssn};

/// The messages that were delivered to the program at one time: a checkpoint that is taken then
/// covers them. A checkpoint keeps this value until it is stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    clock: Clock,
    /// By source.
    delivered: Vec<Frontier>,
}

impl Horizon {
    /// Events up to this clock are not needed again.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The first message of the program's stream of `source` that was not delivered to the program;
    /// all earlier ones are covered.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn delivered(&self, source: Rank) -> Ssn {
        self.delivered[source.index()].program
    }
}

impl<P: Protocol> Engine<P> {
    /// What a checkpoint that is taken now covers: messages that were delivered to the program, and
    /// events up to now. LOG-4
    pub fn horizon(&self) -> Horizon {
        // If the program has not seen the end of a receive, its message and match are needed again.
        let undelivered = self.requests.receives().map(|it| it.posted_at).min();
        let before = undelivered.map(|posted_at| Clock(posted_at.0.saturating_sub(1)));
        // Messages that an open internal operation has received belong to it until its end: a
        // life that begins before its start needs them again. STREAM-5
        let is_any_open = self.operations.is_any_open();
        let delivered = |source: Rank| match is_any_open {
            false => self.inbox.horizon(source),
            true => (self.inbox.horizon(source))
                .with_internal_of(&self.inbox.sources[source.index()].horizon),
        };
        let sources = (0..self.options.size).map(Rank);
        Horizon {
            clock: before.map_or(self.clock, |before| before.min(self.clock)),
            delivered: sources.map(delivered).collect(),
        }
    }

    /// Publishes the stable checkpoint that was taken at `horizon`: reports it to the protocol and
    /// to every sender, whose log may free all messages before it. A checkpoint that is older than
    /// the last published one changes nothing. LOG-4, GC-1
    pub fn publish(&mut self, horizon: &Horizon) {
        if horizon.clock >= self.published {
            self.published = horizon.clock;
            self.protocol.checkpoint_published(horizon.clock);
            self.tell_protocols();
        }
        let mark = self.gate.mark();
        for (source, delivered) in (0..).map(Rank).zip(&horizon.delivered) {
            if *delivered == Frontier::default() {
                continue;
            }
            for ssn in delivered.all() {
                let is_news = self.inbox.sources[source.index()].raise_horizon(ssn);
                if is_news && source != self.options.rank {
                    let control = Control::Horizon { ssn };
                    self.outbox.push_control(source, control, mark);
                }
            }
        }
    }

    /// [`Engine::publish`] of a checkpoint that is stable at once. LOG-4
    pub fn publish_horizon(&mut self) {
        self.publish(&self.horizon());
    }
}
