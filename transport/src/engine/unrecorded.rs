//! How a later life notices that records of earlier lives are missing. REC-9
//!
//! In an earlier life, a message left only after all events before it were stable (GATE-1). So when
//! the program of a later life sees an event without a record, that life has already sent all
//! messages that its peers have from earlier lives. If a peer has more, a record is lost, or the
//! program makes an operation that it did not make before.
//!
//! The program *sees* the outcome of a probe, test, wait for some or cancel with the call. It sees
//! a match only when a call returns the end of the receive: a message that arrived behind a send in
//! the earlier life may arrive before that send in this life. It also sees a match when a call
//! returns the end of another receive, which got a later message of the same sender: in the earlier
//! life, too, the first message had been matched by then, since a channel is matched in order.
//!
//! Peers report which messages they have when they are connected ([`Control::Restart`]), dead peers
//! later. Each report is compared with the messages that this life had sent at its first event
//! without a record, as soon as the report and that event are both known. Only a peer's first
//! report counts: a report after another failure includes messages of this life.
//!
//! The logs of earlier lives hold all messages that passed the gate, also those that no peer got.
//! The logs are checked at the first event without a record; messages that this life sends after it
//! are not compared.
//!
//! An internal operation that is open at the first event may have come farther in an earlier life,
//! because progress issues its steps. So its stream is compared when the operation is over. No
//! earlier life can have sent messages behind those of the operation on that stream; no peer has
//! one, and no log. STREAM-6
//!
//! [`Control::Restart`]: crate::control::Control::Restart

use super::{Engine, EngineError, RequestId};
use crate::protocol::Protocol;
use crate::recorded::PreviousSends;
use refrain_ring::{Clock, Frontier, Rank, Ssn, Stream};
use std::collections::BTreeMap;

/// The state of the check, until this life has sent all messages that its peers have.
#[derive(Debug)]
pub(super) struct Unrecorded {
    /// Peers that may have more messages than this life has sent, each with the first messages that
    /// it misses, once it has reported them.
    ahead: BTreeMap<Rank, Option<Frontier>>,
    first: Option<FirstEvent>,
}

/// A match without a record that the program has not seen.
#[derive(Debug)]
pub(super) struct Unseen {
    /// The program sees it when a call returns the end of this receive.
    pub shown_by: RequestId,
    pub what: &'static str,
    pub source: Rank,
    pub ssn: Ssn,
}

/// The first event that the program has seen and that has no record.
#[derive(Debug)]
struct FirstEvent {
    clock: Clock,
    what: &'static str,
    /// The next message to each rank at that event; of streams that were open, the next message
    /// when their operation was over.
    next: Vec<Frontier>,
    /// Streams whose operation was open at that event and still is.
    open: Vec<Stream>,
}

impl Unrecorded {
    /// Creates the check for a later life, before any report of its peers: the ranks that earlier
    /// lives may have sent messages to.
    pub fn new(peers: impl Iterator<Item = Rank>) -> Self {
        Self {
            ahead: peers.map(|peer| (peer, None)).collect(),
            first: None,
        }
    }

    /// Whether an earlier life may have sent the messages that are now sent on a stream.
    pub fn compares(&self, stream: Stream) -> bool {
        let first = self.first.as_ref();
        first.is_none_or(|first| first.open.contains(&stream))
    }
}

impl FirstEvent {
    /// Checks that a peer that misses `misses` first has no message from after this event.
    fn check(&self, peer: Rank, misses: &Frontier) -> Result<(), EngineError> {
        let sent = &self.next[peer.index()];
        let is_over = |stream| !self.open.contains(&stream);
        let mut beyond = misses.all().filter(|ssn| !sent.is_beyond(*ssn));
        match beyond.find(|ssn| *ssn != sent.of(ssn.stream()) && is_over(ssn.stream())) {
            Some(ssn) => Err(self.record_missing(peer, sent.of(ssn.stream()))),
            None => Ok(()),
        }
    }

    /// As `check`, for all peers that have reported which messages they miss.
    fn check_all(&self, ahead: &BTreeMap<Rank, Option<Frontier>>) -> Result<(), EngineError> {
        let reported = ahead.iter();
        let mut reported = reported.filter_map(|(peer, misses)| Some((*peer, misses.as_ref()?)));
        reported.try_for_each(|(peer, misses)| self.check(peer, misses))
    }

    /// Checks that logs of earlier lives have no message from after this event, in these streams.
    fn check_logs(
        &self,
        own: Rank,
        sends: &mut dyn PreviousSends,
        is_checked: impl Fn(Stream) -> bool,
    ) -> Result<(), EngineError> {
        let peers = (0..).map(Rank).zip(&self.next);
        let of = |(peer, next): (Rank, &'_ Frontier)| {
            next.all().map(move |ssn| (peer, ssn)).collect::<Vec<_>>()
        };
        let mut next = peers.filter(|(peer, _)| *peer != own).flat_map(of);
        match next.find(|(peer, ssn)| is_checked(ssn.stream()) && sends.has_from(*peer, *ssn)) {
            Some((peer, ssn)) => Err(self.record_missing(peer, ssn)),
            None => Ok(()),
        }
    }

    fn record_missing(&self, peer: Rank, first: Ssn) -> EngineError {
        EngineError::RecordMissing {
            clock: self.clock,
            what: self.what,
            peer,
            first,
        }
    }
}

impl<P: Protocol> Engine<P> {
    /// Disables this check: a planted bug of the simulator. The engine must not have done anything
    /// yet.
    #[cfg(any(test, feature = "test-doubles"))]
    #[must_use]
    pub fn without_record_check(mut self) -> Self {
        self.unrecorded = None;
        self.inbox.unseen = None;
        self
    }

    /// Notes that the program sees an event without a record. REC-9
    #[cold]
    pub(super) fn saw_unrecorded(&mut self, clock: Clock, what: &'static str) {
        let Some(unrecorded) = &mut self.unrecorded else {
            return;
        };
        if unrecorded.first.is_some() {
            return;
        }
        let ranks = (0..self.options.size).map(Rank);
        let next = |to| self.outbox.destination(to).next.clone();
        let first = FirstEvent {
            clock,
            what,
            next: ranks.map(next).collect(),
            open: self.operations.open_streams().collect(),
        };
        let mut checked = first.check_all(&unrecorded.ahead);
        if let Some(sends) = &mut self.previous_sends {
            let own = self.options.rank;
            let is_over = |stream| !first.open.contains(&stream);
            checked = checked.and_then(|()| first.check_logs(own, &mut **sends, is_over));
        }
        if let Err(error) = checked {
            self.inbox.violation.get_or_insert(error);
            return;
        }
        unrecorded.first = Some(first);
        self.inbox.unseen = None;
        self.compared_all_streams();
    }

    /// Ends the comparison once all streams are over that were open at the first event. Then only
    /// peers without a report are left to check.
    fn compared_all_streams(&mut self) {
        let Some(Unrecorded { ahead, first }) = &mut self.unrecorded else {
            return;
        };
        if first.as_ref().is_some_and(|first| first.open.is_empty()) {
            ahead.retain(|_, misses| misses.is_none());
            self.end_comparison();
        }
    }

    /// Notes that the operation of a stream is over: it has sent all its messages. STREAM-6
    #[cold]
    pub(super) fn stream_is_over(&mut self, stream: Stream) {
        let Some(Unrecorded { ahead, first }) = &mut self.unrecorded else {
            return;
        };
        let Some(first) = first.as_mut().filter(|it| it.open.contains(&stream)) else {
            return;
        };
        first.open.retain(|open| *open != stream);
        for destination in self.outbox.destinations.iter() {
            first.next[destination.rank.index()].raise_to(destination.next.of(stream));
        }
        let mut checked = first.check_all(ahead);
        if let Some(sends) = &mut self.previous_sends {
            let own = self.options.rank;
            let is_it = |it| it == stream;
            checked = checked.and_then(|()| first.check_logs(own, &mut **sends, is_it));
        }
        if let Err(error) = checked {
            self.inbox.violation.get_or_insert(error);
        }
        self.compared_all_streams();
    }

    /// Notes that a call returns the end of this receive. REC-9
    #[cold]
    pub(super) fn saw_end(&mut self, id: RequestId) {
        let mut unseen = self.inbox.unseen.iter().flatten();
        if let Some(Unseen { what, .. }) = unseen.find(|unseen| unseen.shown_by == id) {
            self.saw_unrecorded(self.clock, what);
        }
    }

    /// Handles the first report of a peer in this life: the messages of earlier lives that it
    /// misses. REC-9
    pub(super) fn note_what_peer_misses(&mut self, peer: Rank, misses: Frontier) {
        let Some(unrecorded) = &mut self.unrecorded else {
            return;
        };
        let Some(first) = &unrecorded.first else {
            unrecorded.ahead.insert(peer, Some(misses));
            return;
        };
        if let Err(error) = first.check(peer, &misses) {
            self.inbox.violation.get_or_insert(error);
        }
        match first.open.is_empty() {
            true => unrecorded.ahead.remove(&peer),
            false => unrecorded.ahead.insert(peer, Some(misses)),
        };
    }

    /// Ends the check when no peer and no log has more messages than this life has sent.
    pub(super) fn end_unrecorded(&mut self) {
        let Some(unrecorded) = &mut self.unrecorded else {
            return;
        };
        while let Some((peer, Some(misses))) = unrecorded.ahead.first_key_value()
            && misses.is_within(&self.outbox.destination(*peer).next)
        {
            unrecorded.ahead.pop_first();
        }
        if unrecorded.ahead.is_empty() && self.previous_sends.is_none() {
            self.unrecorded = None;
            self.inbox.unseen = None;
        }
    }
}
