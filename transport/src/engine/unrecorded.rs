//! How a later life notices that records of earlier lives are missing. REC-9
//!
//! A message that an earlier life sent left after all events before it were stable
//! (GATE-1). So a later life whose program sees an event without a record has sent
//! by then all that its peers have from earlier lives. If a peer has more, a record
//! is lost, or the program makes an operation that it did not make before.
//!
//! The program *sees* the outcome of a probe, test, wait for some or cancel with
//! the call. It sees a match when a call returns the end of the receive, and not before:
//! a message that arrived behind a send in the earlier life may arrive before that
//! send in this one. Or a call returns the end of another receive, which got a later message
//! of the same sender: in the earlier life, too, the first message had been matched by
//! then, since a channel is matched in order.
//!
//! Peers report which messages they have when they are connected ([`Control::Restart`]), dead
//! peers later: each report is compared with what this life had sent at its first event,
//! whichever comes last. Only a peer's first report counts: one after another failure
//! includes messages of this life.
//!
//! The logs of earlier lives hold all messages that passed the gate, also those that no peer
//! got. They are read with the first event; messages that this life sends after it are not
//! compared.
//!
//! An internal operation that is open at the first event may have come farther in an
//! earlier life: progress issues its steps. So its stream is compared when it is over,
//! and no message behind its own can have been sent before. STREAM-6
//!
//! [`Control::Restart`]: crate::control::Control::Restart

use super::{Engine, EngineError, RequestId};
use crate::protocol::Protocol;
use crate::recorded::PreviousSends;
use refrain_ring::{Clock, Frontier, Rank, Ssn, Stream};
use std::collections::BTreeMap;

/// The state of the check, until this life has sent all that its peers have.
#[derive(Debug)]
pub(super) struct Unrecorded {
    /// Peers that may have more than this life has sent: the first messages that
    /// each misses, once it has reported them.
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
    /// The next messages to each rank then; of streams that were open, when their
    /// operation was over.
    next: Vec<Frontier>,
    /// Streams whose operation was open then, and is still.
    open: Vec<Stream>,
}

impl Unrecorded {
    /// Of a later life of `rank`, before any report of its peers.
    pub fn new(rank: Rank, size: u32) -> Self {
        let peers = (0..size).map(Rank).filter(|peer| *peer != rank);
        Self {
            ahead: peers.map(|peer| (peer, None)).collect(),
            first: None,
        }
    }

    /// Whether an earlier life may have sent what is sent on a stream now.
    pub fn compares(&self, stream: Stream) -> bool {
        let first = self.first.as_ref();
        first.is_none_or(|first| first.open.contains(&stream))
    }
}

impl FirstEvent {
    /// Whether a peer that misses `misses` first has nothing that comes after this.
    fn check(&self, peer: Rank, misses: &Frontier) -> Result<(), EngineError> {
        let sent = &self.next[peer.index()];
        let is_over = |stream| !self.open.contains(&stream);
        let mut beyond = misses.all().filter(|ssn| !sent.is_beyond(*ssn));
        match beyond.find(|ssn| *ssn != sent.of(ssn.stream()) && is_over(ssn.stream())) {
            Some(ssn) => Err(self.record_missing(peer, sent.of(ssn.stream()))),
            None => Ok(()),
        }
    }

    /// The same of all peers that have reported what they miss.
    fn check_all(&self, ahead: &BTreeMap<Rank, Option<Frontier>>) -> Result<(), EngineError> {
        let reported = ahead.iter();
        let mut reported = reported.filter_map(|(peer, misses)| Some((*peer, misses.as_ref()?)));
        reported.try_for_each(|(peer, misses)| self.check(peer, misses))
    }

    /// Whether logs of earlier lives have nothing that comes after this.
    fn check_logs(&self, own: Rank, sends: &mut dyn PreviousSends) -> Result<(), EngineError> {
        let peers = (0..).map(Rank).zip(&self.next);
        let of = |(peer, next): (Rank, &'_ Frontier)| {
            next.all().map(move |ssn| (peer, ssn)).collect::<Vec<_>>()
        };
        let mut next = peers.filter(|(peer, _)| *peer != own).flat_map(of);
        let is_over = |ssn: &Ssn| !self.open.contains(&ssn.stream());
        match next.find(|(peer, ssn)| is_over(ssn) && sends.has_from(*peer, *ssn)) {
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
    /// Leaves this check out: the bug that the simulator plants. For an engine that
    /// has done nothing yet.
    #[cfg(any(test, feature = "test-doubles"))]
    #[must_use]
    pub fn without_record_check(mut self) -> Self {
        self.unrecorded = None;
        self.inbox.unseen = None;
        self
    }

    /// The program sees an event that has no record. REC-9
    #[cold]
    pub(super) fn saw_unrecorded(&mut self, clock: Clock, what: &'static str) {
        let Some(unrecorded) = &mut self.unrecorded else {
            return;
        };
        if unrecorded.first.is_some() {
            return;
        }
        let destinations = self.outbox.destinations.iter();
        let first = FirstEvent {
            clock,
            what,
            next: destinations.map(|it| it.next.clone()).collect(),
            open: self.operations.open_streams().collect(),
        };
        let mut checked = first.check_all(&unrecorded.ahead);
        if let Some(sends) = &mut self.previous_sends {
            let own = self.options.rank;
            checked = checked.and_then(|()| first.check_logs(own, &mut **sends));
        }
        if let Err(error) = checked {
            self.inbox.violation.get_or_insert(error);
            return;
        }
        unrecorded.first = Some(first);
        self.inbox.unseen = None;
        self.compared_all_streams();
    }

    /// When all streams have ended that were open at the first event, only peers without
    /// a report are left.
    fn compared_all_streams(&mut self) {
        let Some(Unrecorded { ahead, first }) = &mut self.unrecorded else {
            return;
        };
        if first.as_ref().is_some_and(|first| first.open.is_empty()) {
            ahead.retain(|_, misses| misses.is_none());
            self.end_comparison();
        }
    }

    /// The operation of a stream is over: it has sent all that it sends. STREAM-6
    #[cold]
    pub(super) fn stream_is_over(&mut self, stream: Stream) {
        let Some(Unrecorded { ahead, first }) = &mut self.unrecorded else {
            return;
        };
        let Some(first) = first.as_mut().filter(|it| it.open.contains(&stream)) else {
            return;
        };
        first.open.retain(|open| *open != stream);
        let destinations = self.outbox.destinations.iter();
        for (next, destination) in first.next.iter_mut().zip(destinations) {
            next.raise_to(destination.next.of(stream));
        }
        if let Err(error) = first.check_all(ahead) {
            self.inbox.violation.get_or_insert(error);
        }
        self.compared_all_streams();
    }

    /// A call returns the end of this receive. REC-9
    #[cold]
    pub(super) fn saw_end(&mut self, id: RequestId) {
        let mut unseen = self.inbox.unseen.iter().flatten();
        if let Some(Unseen { what, .. }) = unseen.find(|unseen| unseen.shown_by == id) {
            self.saw_unrecorded(self.clock, what);
        }
    }

    /// The first report of a peer in this life: which messages of earlier lives it misses.
    /// REC-9
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

    /// Ends this when no peer and no log has more than this life has sent.
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
