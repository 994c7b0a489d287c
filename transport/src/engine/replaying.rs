//! A rank that plays its past again: operations end as records say. REC-4

use super::buffer::ReceiveBuffer;
use super::rehearsal::Whereabouts;
use super::request::{Outcome, RequestId};
use super::{Engine, EngineError, Matched, SendBuffer, SendTo, Status};
use crate::divergence::{Comparison, DivergencePolicy, Stops};
use crate::matching::Pattern;
use crate::past::{Answer, Compared, Fate, Past, PastSends, Recorded, SentAgain};
use crate::protocol::Protocol;
use refrain_ring::copy::Target;
use refrain_ring::{Clock, Rank, Ssn};

impl<P: Protocol> Engine<P> {
    /// With records of an earlier life: what they tell happens again, and is no
    /// event. For an engine that has its [clock](Engine::with_clock), and
    /// whatever a checkpoint gives it, and has done nothing yet. REC-4
    #[must_use]
    pub fn with_past(mut self, past: Box<dyn Past>) -> Self {
        self.inbox.rehearse(past);
        self.plays_again |= self.inbox.rehearsal.is_some();
        self
    }

    /// With what an earlier life sent: what is sent again is compared, until the
    /// program sees something that is not told. The policy says what follows when bytes
    /// differ. Where the rank goes on, it sends the bytes of the earlier life. REC-8,
    /// REC-9
    #[must_use]
    pub fn with_past_sends(mut self, sends: Box<dyn PastSends>, policy: DivergencePolicy) -> Self {
        self.past_sends = Some(sends);
        self.comparison = Comparison::new(policy);
        self.plays_again = true;
        self
    }

    /// Whether earlier lives have sent messages that this one has still to send again.
    /// REC-8
    pub fn is_comparing(&mut self) -> bool {
        let (own, outbox) = (self.options.rank, &mut self.outbox);
        let Some(sends) = &mut self.past_sends else {
            return false;
        };
        let peers = (0..self.options.size).map(Rank).filter(|peer| *peer != own);
        let mut next = peers.map(|peer| (peer, outbox.destination(peer).next_ssn));
        next.any(|(peer, ssn)| sends.has_from(peer, ssn))
    }

    /// What is sent from now on is not compared any more.
    pub fn end_comparison(&mut self) {
        self.past_sends = None;
        self.packed_again = Vec::new();
    }

    /// Whether records still tell what happens.
    pub fn is_replaying(&self) -> bool {
        let rehearsal = self.inbox.rehearsal.as_ref();
        rehearsal.is_some_and(|rehearsal| !rehearsal.is_over)
    }

    /// Whether records tell how the operation ends: then the engine is asked for
    /// that ([`told_probe`](Engine::told_probe), [`told_take`](Engine::told_take),
    /// [`told_ends`](Engine::told_ends)), and nothing of it is noted.
    #[inline]
    pub fn is_told(&self, clock: Clock) -> bool {
        let rehearsal = self.inbox.rehearsal.as_ref();
        rehearsal.is_some_and(|rehearsal| rehearsal.tells(clock))
    }

    /// What a probe finds that is [told](Engine::is_told).
    #[cold]
    pub fn told_probe(&mut self, clock: Clock, pattern: &Pattern) -> Answer<Status> {
        self.told_message(clock, pattern).map(|index| {
            let status = self.inbox.messages[index].status();
            self.answered(clock);
            status
        })
    }

    /// What a matched probe takes that is [told](Engine::is_told).
    #[cold]
    pub fn told_take(&mut self, clock: Clock, pattern: &Pattern) -> Answer<Matched> {
        self.told_message(clock, pattern).map(|index| {
            let message = &self.inbox.messages[index];
            let (source, ssn) = (message.envelope.source, message.ssn);
            let status = message.status();
            if let Whereabouts::Here(_, id) = self.whereabouts(source, ssn) {
                self.inbox.note_taken(index);
                self.inbox.matcher.remove_unexpected(id);
            }
            self.answered(clock);
            Matched { index, status }
        })
    }

    /// Which requests a wait or test ends that is [told](Engine::is_told), by the
    /// clocks at their posts. Until all of them have ended the call is told
    /// [nothing yet](Answer::NotYet); then the caller says that it is
    /// [`answered`](Engine::answered), also when it is told that there is
    /// nothing.
    #[cold]
    pub fn told_ends(&mut self, clock: Clock) -> Answer<Vec<Clock>> {
        match self.recorded(clock) {
            Recorded::Open | Recorded::Nothing => Answer::Nothing,
            Recorded::Ended(requests) => Answer::Told(requests),
            other => {
                self.diverged(clock, format!("{other}, and is a wait or test now"));
                Answer::NotYet
            }
        }
    }

    /// The call is told how it ended, as records say. If it was the last of which
    /// anything is told, the rank runs freely from now on: the program may wait
    /// for a receive before its next operation. REC-5
    #[cold]
    pub fn answered(&mut self, clock: Clock) {
        self.end_records(Clock(clock.0 + 1));
    }

    /// The operation is not what records tell: the next progress fails. REC-8
    #[cold]
    pub fn diverged(&mut self, clock: Clock, what: String) {
        self.inbox.diverge(clock, what);
    }

    pub(super) fn recorded(&mut self, clock: Clock) -> Recorded {
        let rehearsal = self.inbox.rehearsal.as_mut();
        rehearsal.map_or(Recorded::Open, |rehearsal| rehearsal.at(clock))
    }

    fn whereabouts(&self, source: Rank, ssn: Ssn) -> Whereabouts {
        if source.0 >= self.options.size {
            return Whereabouts::Gone("there is no such rank");
        }
        let is_missing = match source == self.options.rank {
            true => ssn >= self.outbox.destination(source).next_ssn,
            false => self.inbox.sources[source.index()].misses_unmatched(ssn),
        };
        self.inbox.whereabouts(source, ssn, is_missing)
    }

    /// The index of the message that a probe found.
    fn told_message(&mut self, clock: Clock, pattern: &Pattern) -> Answer<usize> {
        let (source, ssn, tag, bytes) = match self.recorded(clock) {
            Recorded::Open | Recorded::Nothing => return Answer::Nothing,
            Recorded::Found {
                source,
                ssn,
                tag,
                bytes,
            } => (source, ssn, tag, bytes),
            other => {
                self.diverged(clock, format!("{other}, and is a probe now"));
                return Answer::NotYet;
            }
        };
        match self.whereabouts(source, ssn) {
            Whereabouts::Here(index, _) => {
                let message = &self.inbox.messages[index];
                let envelope = message.envelope;
                if pattern.accepts(&envelope) && (envelope.tag, message.bytes) == (tag, bytes) {
                    return Answer::Told(index);
                }
                let what = format!(
                    "it found message {ssn} of rank {source} (tag {tag}, {bytes} bytes); \
                     that has tag {}, {} bytes now, and it asks for {pattern:?}",
                    envelope.tag, message.bytes
                );
                self.diverged(clock, what);
            }
            Whereabouts::ToCome if source == self.options.rank => self.diverged(
                clock,
                format!("it found message {ssn} of this rank, which it has not sent now"),
            ),
            Whereabouts::ToCome => {}
            Whereabouts::Gone(why) => {
                self.diverged(
                    clock,
                    format!("it found message {ssn} of rank {source}; {why}"),
                );
            }
        }
        Answer::NotYet
    }

    /// The next operation of a rank that plays its past again.
    #[cold]
    pub(super) fn tick_again(&mut self) -> Clock {
        let before = self.clock;
        self.clock = Clock(before.0 + 1);
        if let Some(halt) = self.halt.as_mut().filter(|halt| halt.at <= self.clock) {
            (halt.act)();
            self.halt = None;
        }
        self.inbox.now = self.clock;
        self.inbox.close_operation(before);
        self.end_records(self.clock);
        if self.inbox.is_rehearsed(self.clock)
            && let Some(rehearsal) = self.inbox.rehearsal.take()
        {
            self.statistics.events_replayed = rehearsal.told;
            self.statistics.messages_replayed = rehearsal.came;
        }
        self.end_unrecorded();
        self.plays_again = self.inbox.rehearsal.is_some()
            || self.past_sends.is_some()
            || self.unrecorded.is_some()
            || self.halt.is_some();
        self.clock
    }

    fn end_records(&mut self, clock: Clock) {
        for index in self.inbox.end_records(clock) {
            self.place_again(index);
        }
        self.after_matches();
    }

    /// A message that was held finds its receive, or waits.
    fn place_again(&mut self, index: usize) {
        let message = &self.inbox.messages[index];
        let (envelope, ssn) = (message.envelope, message.ssn);
        match self.inbox.matcher.take_posted(&envelope) {
            Some((_, id)) => self.deliver(index, id),
            None => {
                let place = super::inbox::Place::Queue;
                self.inbox.add_waiting(place, envelope, ssn, index);
            }
        }
    }

    /// Begins a receive that may have a fate.
    #[cold]
    pub(super) fn start_receive_again(
        &mut self,
        buffer: ReceiveBuffer,
        pattern: Pattern,
    ) -> RequestId {
        let clock = self.tick_again();
        let id = self.add_receive(clock, buffer, pattern.source.is_none());
        let rehearsal = self.inbox.rehearsal.as_mut();
        match rehearsal.map_or(Fate::Untold, |rehearsal| rehearsal.fate(clock)) {
            Fate::Gets { source, ssn } => self.give(clock, id, pattern, source, ssn),
            Fate::Cancelled => {}
            Fate::Untold if self.is_told(clock) && self.requests.is_logged(id) => {
                self.requests.put_in_limbo(id);
                self.inbox.hold_for(&pattern);
                self.post(id, pattern);
            }
            Fate::Untold => self.match_or_post(id, pattern),
        }
        id
    }

    /// A receive gets the message that records name, now or when it comes.
    fn give(&mut self, clock: Clock, id: RequestId, pattern: Pattern, source: Rank, ssn: Ssn) {
        self.requests.set_told(id);
        match self.whereabouts(source, ssn) {
            Whereabouts::Here(index, waiting) => {
                let envelope = self.inbox.messages[index].envelope;
                self.inbox.check_forced(clock, &pattern, &envelope, ssn);
                self.inbox.note_taken(index);
                self.inbox.matcher.remove_unexpected(waiting);
                self.deliver(index, id);
            }
            Whereabouts::ToCome => self.inbox.force(source, ssn, pattern, id),
            Whereabouts::Gone(why) => self.diverged(
                clock,
                format!("it was a receive that got message {ssn} of rank {source}; {why}"),
            ),
        }
    }

    /// The receive of a message that a matched probe took: where such matches are
    /// recorded, it must be the one that it was.
    #[cold]
    pub(super) fn check_matched_receive(&mut self, clock: Clock, id: RequestId, index: usize) {
        let Some(rehearsal) = &mut self.inbox.rehearsal else {
            return;
        };
        let fate = rehearsal.fate(clock);
        let tells = rehearsal.tells(clock);
        let message = &self.inbox.messages[index];
        let (source, ssn) = (message.envelope.source, message.ssn);
        if fate == (Fate::Gets { source, ssn }) {
            self.requests.set_told(id);
        } else if fate != Fate::Untold || (tells && self.requests.is_logged(id)) {
            self.diverged(
                clock,
                format!("it is the receive of message {ssn} of rank {source}, and was not"),
            );
        }
    }

    /// A cancel whose end is told; whether it is.
    #[cold]
    pub(super) fn cancel_again(&mut self, clock: Clock, id: RequestId, posted_at: Clock) -> bool {
        if !self.is_told(clock) {
            return false;
        }
        match self.recorded(clock) {
            Recorded::Open | Recorded::Nothing => self.answered(clock),
            Recorded::Cancelled(request) if request == posted_at => {
                self.finish_cancelled(id);
                self.answered(clock);
            }
            other => self.diverged(
                clock,
                format!("{other}, and cancels that of operation {posted_at} now"),
            ),
        }
        true
    }

    pub(super) fn finish_cancelled(&mut self, id: RequestId) {
        if let Some(receiving) = self.requests.receiving(id) {
            let status = Status {
                bytes: 0,
                cancelled: true,
                ..receiving.status
            };
            let outcome = Outcome {
                status,
                truncated_to: None,
            };
            self.requests.finish(id, outcome);
        }
    }

    /// The operation of a send, which is compared with what the life before sent.
    #[cold]
    pub(super) fn tick_to_send(
        &mut self,
        buffer: &mut SendBuffer,
        to: SendTo,
    ) -> Result<Clock, EngineError> {
        let clock = self.tick_again();
        // Nothing may be sent behind a contradiction. REC-8, REC-9
        if let Some(violation) = self.inbox.violation.take() {
            return Err(violation);
        }
        if to.rank == self.options.rank || self.past_sends.is_none() {
            return Ok(clock);
        }
        self.compare(clock, buffer, to)?;
        Ok(clock)
    }

    /// Where bytes differ and the rank goes on, the message is that of the life
    /// before: in the log, too, for lives of its receiver that are still to come.
    fn compare(
        &mut self,
        clock: Clock,
        buffer: &mut SendBuffer,
        to: SendTo,
    ) -> Result<(), EngineError> {
        let ssn = self.outbox.destination(to.rank).next_ssn;
        let sends = self.past_sends.as_mut();
        let Some(sends) = sends.and_then(|sends| sends.has(to.rank, ssn).then_some(sends)) else {
            return Ok(());
        };
        let bytes = buffer.message_bytes() as usize;
        if self.packed_again.len() < bytes {
            self.packed_again.resize(bytes, 0);
        }
        let payload = &mut self.packed_again[..bytes];
        buffer.pack(0, payload, Target::Cached);
        let sent = SentAgain {
            to: to.rank,
            ssn,
            context: to.context,
            tag: to.tag,
            synchronous: to.synchronous,
            payload,
        };
        let compared = sends.compare(&sent);
        match compared {
            Err(what) => return Err(EngineError::Diverged { clock, what }),
            Ok(Compared::Nothing) => {}
            Ok(Compared::Same) => self.comparison.note_same(&sent),
            // GATE-1: it was in the log of that life, so that all events before it are
            // recorded. Matches that come earlier in this life change nothing of it.
            Ok(Compared::OtherBytes(before)) => {
                let noted = self.comparison.note_difference(clock, &sent, &before);
                noted.map_err(|stops| self.stopped(clock, stops))?;
                *buffer = SendBuffer::owned(before.into());
            }
        }
        Ok(())
    }

    fn stopped(&self, clock: Clock, stops: Stops) -> EngineError {
        let Comparison { first, .. } = &self.comparison;
        match (stops, first) {
            (Stops::AsAnotherHistory, Some(first)) => EngineError::OtherHistory {
                clock,
                what: format!(
                    "{}; first, at operation {}, {first}",
                    self.comparison.explain_width(),
                    first.clock
                ),
            },
            (_, first) => EngineError::OtherBytes {
                clock,
                what: first.as_ref().map(ToString::to_string).unwrap_or_default(),
            },
        }
    }
}
