//! A full log that nothing frees: the rank may stop keeping its messages. LOG-7

use super::Engine;
use super::lane::Lane;
use crate::protocol::Protocol;
use refrain_ring::{Frontier, Rank};

impl<P: Protocol> Engine<P> {
    /// Allows [`Engine::stop_keeping`], on every rank of a job: messages of any length fit, and
    /// receivers make room for senders that have stopped.
    pub fn limit_keeping(&mut self) {
        (self.outbox).change_limits(|limits| limits.message_bytes_max = u64::MAX);
        self.inbox.senders_keep = false;
    }

    /// Stops keeping messages: the log is freed as receivers consume it, and no later life of a
    /// peer can be connected any more. Has no effect, and returns `false`, while a peer is away or
    /// catches up: it needs the log. LOG-7
    pub fn stop_keeping(&mut self) -> bool {
        let own = self.options.rank;
        let others = (0..self.options.size).map(Rank).filter(|it| *it != own);
        let mut others = others.map(|peer| self.outbox.destination(peer));
        let is_unmet = |lane: &Lane| matches!(lane, Lane::Unmet { .. });
        if !others.all(|it| is_unmet(&it.lane) || it.lane.is_live() && it.recalled.is_none()) {
            return false;
        }
        (self.outbox).change_limits(|limits| limits.keeps_payload = false);
        for destination in self.outbox.destinations.iter_mut() {
            self.spilling.forget(destination);
        }
        self.has_stopped_keeping = true;
        let (outbox, mut means) = self.sending();
        outbox.trim_all(&mut means.log);
        true
    }

    /// Whether [`Engine::stop_keeping`] had an effect.
    pub fn has_stopped_keeping(&self) -> bool {
        self.has_stopped_keeping
    }

    /// Whether a checkpoint of any receiver has freed messages of this rank.
    pub fn was_freed_by_checkpoints(&self) -> bool {
        let mut destinations = self.outbox.destinations.iter();
        destinations.any(|it| it.horizon != Frontier::default())
    }
}
