//! The state of a rank between two operations, and how a later life starts from it. LOG-5, REC-1

use super::destination::Destination;
use super::lane::Lane;
use super::outbox::{LogMeans, Outbox};
use super::source::Delivered;
use super::stored::{Message, MessageHead, Parts, Stored};
use super::{Engine, EngineError};
use crate::matching::Envelope;
use crate::protocol::Protocol;
use refrain_ring::{Clock, Frontier, Rank, RecordHeader, RecordKind, Ssn};
use thiserror::Error;

/// The engine's part of a checkpoint, without the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// The clock of the last operation.
    pub clock: Clock,
    /// By receiver: the SSN of the next message to it, in each stream. All earlier messages are in
    /// the log, or freed.
    pub next: Vec<Frontier>,
    /// By sender: which of its messages were delivered to the program.
    pub delivered: Vec<Delivered>,
    /// Messages that the rank has and its program has not received, in their order: of the rank to
    /// itself, and of other members of its set. SET-3
    pub undelivered: Vec<Undelivered>,
}

/// A message that has arrived completely and was not delivered to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// Its sender.
    pub source: Rank,
    /// Its SSN.
    pub ssn: Ssn,
    /// Its context.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub payload: Box<[u8]>,
}

/// Why an engine cannot be checkpointed at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotBetween {
    /// A receive is open.
    #[error(
        "the receive that was posted at clock {posted_at} is not complete: complete all receives before a checkpoint"
    )]
    OpenReceive {
        /// The clock at which it was posted.
        posted_at: Clock,
    },
    /// An internal operation is open. STREAM-5
    #[error(
        "the internal operation that was started at clock {begun_at} is not complete: complete it before a checkpoint"
    )]
    OpenOperation {
        /// The clock at which it began.
        begun_at: Clock,
    },
    /// A message was taken by a matched probe and not received.
    #[error(
        "message {ssn} of rank {source_rank} was taken by a matched probe and not received: receive it before a checkpoint"
    )]
    TakenMessage {
        /// Its sender.
        source_rank: Rank,
        /// Its SSN.
        ssn: Ssn,
    },
    /// A message is not completely in the log: make progress, and try again.
    #[error("a message to rank {to} is not completely in the log yet: try again")]
    Packing {
        /// Its receiver.
        to: Rank,
    },
    /// A message whose receive was detached is still arriving: make progress, and try again.
    #[error("a message whose receive was detached is still arriving: try again")]
    Dropping,
    /// A message of another member of the set is still arriving: make progress, and try again.
    /// SET-3
    #[error("a message of rank {from}, which is in this rank's set, is still arriving: try again")]
    Arriving {
        /// Its sender.
        from: Rank,
    },
}

impl NotBetween {
    /// Whether progress alone ends this state, without a call of the program.
    pub fn ends_by_progress(self) -> bool {
        matches!(
            self,
            Self::Packing { .. } | Self::Dropping | Self::Arriving { .. }
        )
    }
}

impl<P: Protocol> Engine<P> {
    /// The state of this rank for a checkpoint. No request but sends may be open. This state and
    /// the log from [`log_kept_from`](Engine::log_kept_from) on are all that a later life starts
    /// with. LOG-5
    ///
    /// # Errors
    /// When an operation is open that a later life could not continue.
    pub fn state(&self) -> Result<Beginning, NotBetween> {
        if let Some(begun_at) = self.operations.oldest() {
            return Err(NotBetween::OpenOperation { begun_at });
        }
        // Receives that are not detached come first.
        let receives = self.requests.receives();
        if let Some(open) = receives.min_by_key(|it| (it.detached, it.posted_at)) {
            return Err(match open.detached {
                true => NotBetween::Dropping,
                false => NotBetween::OpenReceive {
                    posted_at: open.posted_at,
                },
            });
        }
        if let Some(to) = self.outbox.packing() {
            return Err(NotBetween::Packing { to });
        }
        self.none_taken()?;
        if let Some(arriving) = self.set.arriving(&self.inbox) {
            return Err(arriving);
        }
        let own = self.options.rank;
        let undelivered = self.inbox.undelivered(own, &self.set);
        let ranks = (0..self.options.size).map(Rank);
        let next = |to: Rank| self.outbox.destination(to).next.clone();
        // Messages of this rank to itself are saved whole, in `undelivered`.
        let delivered = |source: Rank| match source == own {
            true => Delivered::default(),
            false => self.inbox.delivered_or_held(source, &self.set),
        };
        Ok(Beginning {
            clock: self.clock,
            next: ranks.clone().map(next).collect(),
            delivered: ranks.map(delivered).collect(),
            undelivered,
        })
    }

    /// Checks that no matched probe holds a message.
    fn none_taken(&self) -> Result<(), NotBetween> {
        let inbox = &self.inbox;
        let internal = inbox.internal.unexpected_count();
        if inbox.matcher.unexpected_count() + internal == inbox.messages.len() {
            return Ok(());
        }
        let is_there = |index: usize, source: Rank| {
            let mut of_source = inbox.matcher.unexpected_of(source);
            of_source.any(|(_, _, at)| *at == index)
        };
        let mut messages = inbox.messages.iter().map(|(index, it)| (index, it.key()));
        let is_taken =
            |(index, (source, ssn)): &(_, (_, Ssn))| ssn.is_program() && !is_there(*index, *source);
        match messages.find(is_taken) {
            Some((_, (source_rank, ssn))) => Err(NotBetween::TakenMessage { source_rank, ssn }),
            None => Ok(()),
        }
    }

    /// Starts from the state of a checkpoint. The engine must not have done anything yet; its log
    /// comes next ([`Engine::log_again`]), then its peers. REC-1
    ///
    /// # Panics
    /// When the checkpoint is of a job of another size.
    #[must_use]
    pub fn with_beginning(self, beginning: Beginning) -> Self {
        let size = self.options.size as usize;
        assert_eq!(beginning.next.len(), size, "ranks of the job");
        assert_eq!(beginning.delivered.len(), size, "ranks of the job");
        let mut engine = self.with_clock(beginning.clock);
        engine.outbox.begin_with(&beginning.next);
        for (source, delivered) in beginning.delivered.iter().enumerate() {
            if *delivered != Delivered::default() {
                engine.inbox.sources[source].begin_with(delivered);
            }
        }
        for message in beginning.undelivered {
            engine.put_undelivered(message);
        }
        engine
    }

    fn put_undelivered(&mut self, message: Undelivered) {
        let head = MessageHead {
            envelope: Envelope {
                context: message.context,
                source: message.source,
                tag: message.tag,
            },
            ssn: message.ssn,
            bytes: message.payload.len() as u64,
            // A sender that still waits for the match asks.
            want_ack: false,
            rendezvous: false,
        };
        let mut parts = Parts::default();
        parts.push(0, Stored::Copied(message.payload));
        let index = self.inbox.messages.insert(Message {
            head,
            arrived_bytes: head.bytes,
            parts,
            completes: None,
        });
        let matcher = match head.ssn.is_program() {
            true => &mut self.inbox.matcher,
            false => &mut self.inbox.internal,
        };
        matcher.push_unexpected(head.envelope, index);
    }

    /// Appends the next record of a checkpoint's log for `to` to this life's log. Only the
    /// incarnation of the record changes. Returns whether the log had room: if not,
    /// [`Engine::progress`] makes room. The engine must neither have sent anything nor have
    /// connected the peer. LOG-5
    ///
    /// # Errors
    /// When the system has no memory.
    ///
    /// # Panics
    /// When the record does not follow the one before it, or is of a message that
    /// the checkpoint did not cover.
    pub fn log_again(
        &mut self,
        to: Rank,
        header: &RecordHeader,
        payload: &[u8],
    ) -> Result<bool, EngineError> {
        let (outbox, mut means) = self.sending();
        loop {
            let destination = &mut outbox.destinations[to.index()];
            match destination.log_again(header, payload, &mut means.log) {
                Ok(()) => return Ok(true),
                Err(stop) => {
                    if !outbox.makes_room(to, stop, &mut means)? {
                        return Ok(false);
                    }
                }
            }
        }
    }
}

impl Outbox {
    /// A peer to which a send is not completely packed.
    fn packing(&self) -> Option<Rank> {
        let mut destinations = self.destinations.iter();
        let found = destinations.find(|it| !it.queue.is_empty() || !it.cleared.is_empty());
        found.map(|it| it.rank)
    }

    fn begin_with(&mut self, next: &[Frontier]) {
        for (to, next) in next.iter().enumerate() {
            if *next == Frontier::default() {
                continue;
            }
            let destination = &mut self.destinations[to];
            destination.next = next.clone();
            destination.begins = next.clone();
            destination.logged_until = next.clone();
            destination.sends_from = Some(next.clone());
        }
    }
}

impl Destination {
    /// Of each stream the first message that is in the log, in memory or on disk.
    pub fn kept_from(&self) -> Frontier {
        self.begins.clone().max(&self.horizon)
    }

    fn log_again(
        &mut self,
        header: &RecordHeader,
        payload: &[u8],
        means: &mut LogMeans<'_>,
    ) -> Result<(), refrain_ring::ReserveError> {
        let is_fragment = header.kind == RecordKind::Fragment;
        let stream = header.ssn.stream();
        let (begins, logged_until) = (self.begins.of(stream), self.logged_until.of(stream));
        let follows = match is_fragment {
            true => header.ssn.next() == logged_until && begins < logged_until,
            false => self.next.is_beyond(header.ssn),
        };
        assert!(
            follows && self.has_nothing_waiting() && matches!(self.lane, Lane::Down),
            "the records of a checkpoint are out of order"
        );
        if !self.log.has_room(payload.len()) {
            self.before_chunk(means);
        }
        let fill = |place: &mut [u8]| place.copy_from_slice(payload);
        let frame = (self.log).append(means.arena, payload.len(), true, *header, fill)?;
        frame.publish(means.arena.region());
        if !is_fragment {
            // Messages of internal streams may have been left out. WHOLE-5
            let is_behind_gap = header.ssn != logged_until && header.ssn.is_program();
            if is_behind_gap || begins == logged_until {
                self.begins.set(header.ssn);
            }
            self.logged_until.set(header.ssn.next());
        }
        Ok(())
    }
}
