//! Statistics and other properties of an engine.

use super::{Engine, Stall};
use crate::divergence::Comparison;
use crate::protocol::Protocol;
use refrain_ring::{Rank, Ssn, Stream};

/// Counters of one rank since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages sent.
    pub messages_sent: u64,
    /// Payload bytes of the messages sent.
    pub bytes_sent: u64,
    /// Payload bytes of the messages that began to arrive from other ranks, once for
    /// each message.
    pub bytes_received: u64,
    /// Receives begun.
    pub receives: u64,
    /// Messages that arrived before their receive.
    pub unexpected: u64,
    /// Messages sent by rendezvous.
    pub rendezvous: u64,
    /// Records dropped because their message had been received before.
    pub duplicates: u64,
    /// Messages that a later life does not transmit, since their receivers
    /// have them. REC-4
    pub sends_suppressed: u64,
    /// Non-deterministic events.
    pub events: u64,
    /// Recorded outcomes that were replayed.
    pub events_replayed: u64,
    /// Messages that arrived during the replay.
    pub messages_replayed: u64,
}

impl<P: Protocol> Engine<P> {
    /// Why sends are stalled, if they are.
    pub fn stall(&self) -> Option<Stall> {
        self.outbox.stall
    }

    /// Whether a receiver still needs something of this rank: queued
    /// sends, packed frames, control frames, or frames that the fabric has not
    /// delivered yet. If not, a rank may end.
    pub fn has_unsent(&mut self) -> bool {
        self.has_unposted() || !self.fabric.is_drained()
    }

    /// Whether queued sends, packed frames or control frames remain that the
    /// fabric has not taken.
    pub fn has_unposted(&self) -> bool {
        self.outbox.has_work()
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.options.size
    }

    /// The first message of the program's stream of `source` that has not completely arrived.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn first_missing(&self, source: Rank) -> Ssn {
        let source = &self.inbox.sources[source.index()];
        source.first_missing_of(Stream::PROGRAM)
    }

    /// Counters.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            events: self.statistics.events + self.inbox.match_events,
            ..self.statistics
        }
    }

    /// The comparison of this life's sends with those of earlier lives.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Why emissions wait, for messages to the user.
    pub fn explain_gate(&self) -> Option<String> {
        let waits = self.awaits_commit();
        waits.then(|| self.protocol.explain()).flatten()
    }

    /// Whether chunks are being written to disk: a thread of this rank needs a core.
    pub fn is_spilling(&self) -> bool {
        self.spilling.is_writing()
    }

    /// Chunks written to disk so far. While this number grows, a stall is not permanent.
    pub fn disk_progress(&self) -> u64 {
        self.spilling.written
    }

    /// The state of the disk under the log, for messages to the user; `None` without one.
    pub fn explain_disk(&self) -> Option<String> {
        self.spilling.disk().map(|disk| disk.explain())
    }

    /// Bytes of log memory in use, and the limit.
    pub fn log_bytes(&self) -> (u64, u64) {
        (self.arena.used_bytes(), self.arena.budget_bytes())
    }

    /// Bytes of log memory that the messages to `to` take, in whole chunks, and the limit. LOG-3
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn log_bytes_of(&self, to: Rank) -> (u64, u64) {
        let held_bytes = self.outbox.destination(to).log.held_bytes();
        (held_bytes, self.options.window_bytes)
    }

    /// Whether the log, or the share of a channel, may be half full. Only then is it worth to look at
    /// its channels.
    pub fn may_lack_log_memory(&self) -> bool {
        let share_bytes = self.arena.budget_bytes().min(self.options.window_bytes);
        self.arena.used_bytes() >= share_bytes / 2
    }

    /// The receivers of the channels whose logs hold memory.
    pub fn logs_in_memory(&self) -> impl Iterator<Item = Rank> {
        let destinations = self.outbox.destinations.iter();
        let holding = destinations.filter(|to| to.log.held_bytes() > 0);
        holding.map(|to| to.rank)
    }

    /// Bytes of log memory above which chunks go to disk; 0 without a disk.
    pub fn log_bytes_kept(&self) -> u64 {
        self.spilling.disk().map_or(0, |disk| disk.after_bytes())
    }

    /// Bytes that the log takes on disk; `None` without one.
    pub fn log_bytes_on_disk(&self) -> Option<u64> {
        self.spilling.disk().map(|disk| disk.held_bytes())
    }

    /// The peak of log memory in use, in bytes.
    pub fn log_bytes_peak(&self) -> u64 {
        self.arena.used_bytes_peak()
    }

    /// Bytes appended to all logs so far, with headers and unused ends of chunks, freed or not.
    pub fn log_bytes_appended(&self) -> u64 {
        let destinations = self.outbox.destinations.iter();
        self.shared.tail().0 + destinations.map(|to| to.log.tail().0).sum::<u64>()
    }

    /// The first message of the program's stream to `to` that is in log memory together with all
    /// that follow it; earlier ones are freed, or on disk. LOG-4
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn log_begins(&self, to: Rank) -> Ssn {
        self.outbox.destination(to).log.ends_trimmed().program
    }

    /// The first message of the program's stream to `to` that its horizon has not
    /// passed: all earlier ones may be freed. LOG-4
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn log_horizon(&self, to: Rank) -> Ssn {
        self.outbox.destination(to).horizon.program
    }

    /// The fabric's name.
    pub fn fabric_name(&self) -> &str {
        &self.fabric.attributes().name
    }

    /// The protocol.
    #[inline]
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The protocol.
    #[inline]
    pub fn protocol_mut(&mut self) -> &mut P {
        &mut self.protocol
    }

    /// Number of requests.
    pub fn request_count(&self) -> usize {
        self.requests.count()
    }
}
