//! What of this rank lies before a checkpoint, and telling its senders so.

use super::Engine;
use crate::control::Control;
use crate::protocol::Protocol;
use refrain_ring::{Clock, Rank, Ssn};

/// What was delivered to the program at one time, as a checkpoint that is taken
/// then covers it. A plain value: a checkpoint keeps it until it is stable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    clock: Clock,
    /// By source.
    delivered: Vec<Ssn>,
}

impl Horizon {
    /// Events up to this operation will not be asked for again.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The first message of `source` that the program had not got yet; all
    /// before are covered.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn delivered(&self, source: Rank) -> Ssn {
        self.delivered[source.index()]
    }
}

impl<P: Protocol> Engine<P> {
    /// What a checkpoint that is taken now covers: messages that were delivered
    /// to the program, and what happened until now. LOG-4
    pub fn horizon(&self) -> Horizon {
        // What a receive got that the program has not seen is to be asked for
        // again: its match is kept with the message.
        let undelivered = self.requests.oldest_receive();
        let before = undelivered.map(|posted_at| Clock(posted_at.0.saturating_sub(1)));
        let sources = (0..self.options.size).map(Rank);
        Horizon {
            clock: before.map_or(self.clock, |before| before.min(self.clock)),
            delivered: sources.map(|source| self.inbox.horizon(source)).collect(),
        }
    }

    /// The checkpoint that was taken at `horizon` is stable and published: tells
    /// every sender, so that its log may free what lies before, and the protocol.
    /// What was delivered since stays. An older one than was published before
    /// changes nothing. LOG-4, GC-1
    pub fn publish(&mut self, horizon: &Horizon) {
        if horizon.clock >= self.published {
            self.published = horizon.clock;
            self.protocol.checkpoint_published(horizon.clock);
        }
        let mark = self.gate.mark();
        for (source, ssn) in (0..).map(Rank).zip(&horizon.delivered) {
            let is_news = self.inbox.sources[source.index()].tell_horizon(*ssn);
            if is_news && source != self.options.rank {
                let control = Control::Horizon { ssn: *ssn };
                self.outbox.push_control(source, control, mark);
            }
        }
    }

    /// Tells that what was delivered so far lies before a stable, published
    /// checkpoint of this rank: [`Engine::publish`] of a checkpoint that is
    /// stable the moment it is taken. LOG-4
    pub fn publish_horizon(&mut self) {
        self.publish(&self.horizon());
    }
}
