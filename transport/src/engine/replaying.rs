//! Replay: operations end as records say. REC-4

use super::buffer::ReceiveBuffer;
use super::inbox::Place;
use super::replay_matcher::Whereabouts;
use super::request::RequestId;
use super::{Engine, EngineError, Matched, SendBuffer, SendTo, Status};
use crate::divergence::{Comparison, DivergencePolicy, Stops};
use crate::matching::{Pattern, UnexpectedId};
use crate::protocol::Protocol;
use crate::recorded::{Answer, Compared, NoAnswer, PreviousSends, SentAgain};
use refrain_ring::copy::Target;
use refrain_ring::recorded::{RecordedEvents, RecordedOutcome, RecordedReceive};
use refrain_ring::{Clock, Rank, Ssn, Stream};

impl<P: Protocol> Engine<P> {
    /// Adds the recorded events of earlier lives: they happen again, and are not recorded again.
    /// The engine must have its [clock](Engine::with_clock) and the state of its checkpoint, and
    /// must not have done anything yet. REC-4
    #[must_use]
    pub fn with_recorded_events(mut self, recorded: RecordedEvents) -> Self {
        self.inbox.begin_replay(recorded);
        self.plays_again |= self.inbox.replay.is_some();
        self
    }

    /// Adds the messages that earlier lives sent: messages that are sent again are compared with
    /// them, until the program sees an event without a record. The policy decides what follows if
    /// bytes differ. If the rank continues, it sends the bytes of the earlier life. REC-8, REC-9
    #[must_use]
    pub fn with_previous_sends(
        mut self,
        sends: Box<dyn PreviousSends>,
        policy: DivergencePolicy,
    ) -> Self {
        self.previous_sends = Some(sends);
        self.comparison = Comparison::new(policy);
        self.plays_again = true;
        self
    }

    /// Asks `name` for the call that the program is in, when a report needs it. REC-8
    pub fn name_calls(&mut self, name: fn() -> String) {
        self.name_call = Some(name);
    }

    /// Whether earlier lives sent messages that this life has not sent yet.
    /// REC-8
    pub fn is_comparing(&mut self) -> bool {
        let (own, outbox) = (self.options.rank, &self.outbox);
        let Some(sends) = &mut self.previous_sends else {
            return false;
        };
        let unrecorded = self.unrecorded.as_ref();
        let compares = |ssn: Ssn| unrecorded.is_none_or(|it| it.compares(ssn.stream()));
        let peers = (0..self.options.size).map(Rank).filter(|peer| *peer != own);
        let of = |peer: Rank| {
            let next = outbox.destination(peer).next.all();
            next.map(move |ssn| (peer, ssn))
        };
        let mut next = peers.flat_map(of).filter(|(_, ssn)| compares(*ssn));
        next.any(|(peer, ssn)| sends.has_from(peer, ssn))
    }

    /// Ends the comparison of messages with those of earlier lives.
    pub fn end_comparison(&mut self) {
        self.previous_sends = None;
        self.packed_again = Vec::new();
    }

    /// Whether recorded events are still to be replayed.
    pub fn is_replaying(&self) -> bool {
        let replay = self.inbox.replay.as_ref();
        replay.is_some_and(|replay| !replay.is_over)
    }

    /// Number of recorded events that were replayed so far.
    pub fn events_replayed(&self) -> u64 {
        let replay = self.inbox.replay.as_ref();
        replay.map_or(self.statistics.events_replayed, |replay| replay.replayed)
    }

    /// Whether records say how the operation ended. If so, the caller asks for the recorded outcome
    /// ([`recorded_probe`](Engine::recorded_probe), [`recorded_take`](Engine::recorded_take),
    /// [`recorded_ends`](Engine::recorded_ends)), and notes no event.
    #[inline]
    pub fn is_recorded(&self, clock: Clock) -> bool {
        let replay = self.inbox.replay.as_ref();
        replay.is_some_and(|replay| replay.has(clock))
    }

    /// Of a probe that [is recorded](Engine::is_recorded): the message that it finds.
    #[cold]
    pub fn recorded_probe(&mut self, clock: Clock, pattern: &Pattern) -> Answer<Status> {
        let (index, _) = self.recorded_message(clock, pattern)?;
        self.answered(clock);
        Ok(self.inbox.messages[index].head.status())
    }

    /// Of a matched probe that [is recorded](Engine::is_recorded): the message that it takes.
    #[cold]
    pub fn recorded_take(&mut self, clock: Clock, pattern: &Pattern) -> Answer<Matched> {
        let (index, waiting) = self.recorded_message(clock, pattern)?;
        self.inbox.note_taken(index);
        self.inbox.matcher.remove_unexpected(waiting);
        self.answered(clock);
        let status = self.inbox.messages[index].head.status();
        Ok(Matched { index, status })
    }

    /// Of a wait or test that [is recorded](Engine::is_recorded): the requests that it ends, by the
    /// clocks at which they were posted. Until all of them have ended, the answer of the call is
    /// [`NoAnswer::NotYet`]. Then the caller calls [`answered`](Engine::answered), also if the call
    /// found nothing.
    #[cold]
    pub fn recorded_ends(&mut self, clock: Clock) -> Answer<Vec<Clock>> {
        match self.recorded_outcome(clock) {
            RecordedOutcome::Open | RecordedOutcome::Nothing => Err(NoAnswer::Nothing),
            RecordedOutcome::Ended(requests) => Ok(requests),
            other => {
                self.diverged(clock, format!("{other}, and is a wait or test now"));
                Err(NoAnswer::NotYet)
            }
        }
    }

    /// Notes that the call has ended as recorded. After the last recorded operation the replay ends
    /// at once: the program may wait for a receive before its next operation. REC-5
    #[cold]
    pub fn answered(&mut self, clock: Clock) {
        self.end_records(Clock(clock.0 + 1));
    }

    /// Notes that the record is of another operation than this one: the next progress fails. REC-8
    #[cold]
    pub fn diverged(&mut self, clock: Clock, what: String) {
        self.inbox.diverge(clock, what);
    }

    pub(super) fn recorded_outcome(&mut self, clock: Clock) -> RecordedOutcome {
        let replay = self.inbox.replay.as_mut();
        replay.map_or(RecordedOutcome::Open, |replay| replay.at(clock))
    }

    fn whereabouts(&self, source: Rank, ssn: Ssn) -> Whereabouts {
        if source.0 >= self.options.size {
            return Whereabouts::Gone("there is no such rank");
        }
        let is_missing = match source == self.options.rank {
            true => !self.outbox.destination(source).next.is_beyond(ssn),
            false => self.inbox.sources[source.index()].misses_unmatched(ssn),
        };
        self.inbox.whereabouts(source, ssn, is_missing)
    }

    /// The message in the matcher that a recorded probe found.
    fn recorded_message(
        &mut self,
        clock: Clock,
        pattern: &Pattern,
    ) -> Answer<(usize, UnexpectedId)> {
        let (source, ssn, tag, bytes) = match self.recorded_outcome(clock) {
            RecordedOutcome::Open | RecordedOutcome::Nothing => return Err(NoAnswer::Nothing),
            RecordedOutcome::Found {
                source,
                ssn,
                tag,
                bytes,
            } => (source, ssn, tag, bytes),
            other => {
                self.diverged(clock, format!("{other}, and is a probe now"));
                return Err(NoAnswer::NotYet);
            }
        };
        let what = match self.whereabouts(source, ssn) {
            Whereabouts::Here(index, waiting) => {
                let head = &self.inbox.messages[index].head;
                let envelope = head.envelope;
                if pattern.accepts(&envelope) && (envelope.tag, head.bytes) == (tag, bytes) {
                    return Ok((index, waiting));
                }
                format!(
                    "it found message {ssn} of rank {source} (tag {tag}, {bytes} bytes); \
                     that has tag {}, {} bytes now, and it asks for {pattern:?}",
                    envelope.tag, head.bytes
                )
            }
            Whereabouts::ToCome if source == self.options.rank => {
                format!("it found message {ssn} of this rank, which it has not sent now")
            }
            Whereabouts::ToCome => return Err(NoAnswer::NotYet),
            Whereabouts::Gone(why) => {
                format!("it found message {ssn} of rank {source}; {why}")
            }
        };
        self.diverged(clock, what);
        Err(NoAnswer::NotYet)
    }

    /// Counts the next operation of a replay.
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
        if self.inbox.is_replayed(self.clock)
            && let Some(replay) = self.inbox.replay.take()
        {
            self.statistics.events_replayed = replay.replayed;
            self.statistics.messages_replayed = replay.arrived;
        }
        self.end_unrecorded();
        self.plays_again = self.inbox.replay.is_some()
            || self.previous_sends.is_some()
            || self.unrecorded.is_some()
            || self.halt.is_some();
        self.clock
    }

    fn end_records(&mut self, clock: Clock) {
        // Each message that was held goes to its receive, or waits.
        for index in self.inbox.end_records(clock) {
            let envelope = self.inbox.messages[index].head.envelope;
            match self.inbox.matcher.take_posted(envelope) {
                Some((_, id)) => self.deliver(index, id),
                None => self.inbox.add_waiting(Place::Queue, index),
            }
        }
        self.after_matches();
    }

    /// Begins a receive that may have a record.
    #[cold]
    pub(super) fn start_receive_again(
        &mut self,
        buffer: ReceiveBuffer,
        pattern: Pattern,
    ) -> RequestId {
        let clock = self.tick_again();
        let id = self.add_receive(clock, buffer, pattern.source.is_none());
        let replay = self.inbox.replay.as_mut();
        match replay.map_or(RecordedReceive::Open, |replay| replay.receive(clock)) {
            RecordedReceive::Gets { source, ssn } => self.give(clock, id, pattern, source, ssn),
            RecordedReceive::Cancelled => {}
            RecordedReceive::Open => {
                if self.is_recorded(clock)
                    && let Some(receiving) = self.requests.receiving(id).filter(|it| it.is_logged)
                {
                    receiving.is_undecided = true;
                    self.inbox.hold_for(&pattern);
                }
                match self.inbox.matcher.take_or_post(&pattern, id) {
                    Ok(index) => {
                        self.inbox.note_taken(index);
                        self.deliver(index, id);
                    }
                    Err(posted) => self.note_posted(id, posted),
                }
            }
        }
        id
    }

    /// Gives a receive the message that records name, now or when it arrives.
    fn give(&mut self, clock: Clock, id: RequestId, pattern: Pattern, source: Rank, ssn: Ssn) {
        self.note_recorded(id);
        match self.whereabouts(source, ssn) {
            Whereabouts::Here(index, waiting) => {
                let envelope = self.inbox.messages[index].head.envelope;
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

    /// Marks the match of a receive as recorded: it is an event of an earlier life, and is not
    /// recorded again.
    fn note_recorded(&mut self, id: RequestId) {
        if let Some(receiving) = self.requests.receiving(id) {
            receiving.is_logged = false;
        }
    }

    /// Checks the receive of a message that a matched probe took: if such matches are recorded, the
    /// message must be the recorded one.
    #[cold]
    pub(super) fn check_matched_receive(&mut self, clock: Clock, id: RequestId, index: usize) {
        let Some(replay) = &mut self.inbox.replay else {
            return;
        };
        let recorded = replay.receive(clock);
        let must_be_recorded = replay.has(clock)
            && (self.requests.receiving(id)).is_some_and(|receiving| receiving.is_logged);
        let (source, ssn) = self.inbox.messages[index].key();
        if recorded == (RecordedReceive::Gets { source, ssn }) {
            self.note_recorded(id);
        } else if recorded != RecordedReceive::Open || must_be_recorded {
            let what = format!("it receives message {ssn} of rank {source} now, and not before");
            self.diverged(clock, what);
        }
    }

    /// Ends a cancel as recorded; returns whether it is recorded.
    #[cold]
    pub(super) fn cancel_again(&mut self, clock: Clock, id: RequestId, posted_at: Clock) -> bool {
        if !self.is_recorded(clock) {
            return false;
        }
        match self.recorded_outcome(clock) {
            RecordedOutcome::Open | RecordedOutcome::Nothing => self.answered(clock),
            RecordedOutcome::Cancelled(request) if request == posted_at => {
                self.finish_cancelled(id);
                self.answered(clock);
            }
            other => self.diverged(
                clock,
                format!("{other}, and cancels the receive of operation {posted_at} now"),
            ),
        }
        true
    }

    /// Counts the operation of a send, and compares the send with that of the earlier life.
    #[cold]
    pub(super) fn tick_to_send(
        &mut self,
        buffer: &mut SendBuffer,
        to: SendTo,
    ) -> Result<Clock, EngineError> {
        let clock = self.tick_again();
        self.send_again(clock, Stream::PROGRAM, buffer, to)?;
        Ok(clock)
    }

    /// Compares a send on a stream with that of an earlier life.
    #[cold]
    pub(super) fn send_again(
        &mut self,
        clock: Clock,
        stream: Stream,
        buffer: &mut SendBuffer,
        to: SendTo,
    ) -> Result<(), EngineError> {
        // Nothing may be sent after a contradiction. REC-8, REC-9
        if let Some(violation) = self.inbox.violation.take() {
            return Err(violation);
        }
        let unrecorded = self.unrecorded.as_ref();
        let compares = unrecorded.is_none_or(|unrecorded| unrecorded.compares(stream));
        if to.rank == self.options.rank || self.previous_sends.is_none() || !compares {
            return Ok(());
        }
        self.compare(clock, stream, buffer, to)
    }

    /// Compares a message. If bytes differ and the rank continues, it sends the message of the
    /// earlier life. The log has that message, too, for later lives of its receiver.
    fn compare(
        &mut self,
        clock: Clock,
        stream: Stream,
        buffer: &mut SendBuffer,
        to: SendTo,
    ) -> Result<(), EngineError> {
        let ssn = self.outbox.destination(to.rank).next.of(stream);
        let sends = self.previous_sends.as_mut();
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
            // GATE-1: the message was in the log of that life, so all events before it are
            // recorded. Matches that come earlier in this life do not change that.
            Ok(Compared::OtherBytes(before)) => {
                let noted = self.comparison.note_difference(clock, &sent, &before);
                if let (Some(first), Some(name)) = (&mut self.comparison.first, self.name_call)
                    && first.call.is_empty()
                {
                    first.call = name();
                }
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
