//! Where a rank stands between two operations, and beginning there in a later
//! life. LOG-5, REC-1

use super::outbox::{LogMeans, Means};
use super::source::Delivered;
use super::stored::{Message, Parts, Stored};
use super::{Engine, EngineError};
use crate::matching::Envelope;
use crate::protocol::Protocol;
use refrain_ring::{Clock, Rank, RecordHeader, RecordKind, Ssn};
use thiserror::Error;

/// What of a rank's engine belongs to a checkpoint, but for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// The operation that was counted last.
    pub clock: Clock,
    /// By receiver: the number of the next message to it. All before are in the
    /// log, or free.
    pub next_ssns: Vec<Ssn>,
    /// By sender: which of its messages the program has got.
    pub delivered: Vec<Delivered>,
    /// Messages of the rank to itself that it has not received, in their order.
    pub to_self: Vec<ToSelf>,
}

/// A message of a rank to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToSelf {
    /// Its number.
    pub ssn: Ssn,
    /// Its context.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub payload: Box<[u8]>,
}

/// Why there is no checkpoint of an engine at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotBetween {
    /// A receive was begun and not ended.
    #[error(
        "a receive that was begun at clock {posted_at} is open: end all receives before a checkpoint"
    )]
    OpenReceive {
        /// Its id in events.
        posted_at: Clock,
    },
    /// A message was taken by a matched probe and not received.
    #[error(
        "message {ssn} of rank {source_rank} was taken by a matched probe and not received: receive it before a checkpoint"
    )]
    TakenMessage {
        /// Its sender.
        source_rank: Rank,
        /// Its number.
        ssn: Ssn,
    },
    /// A message is on its way into the log: make progress, and ask again.
    #[error("a message to rank {to} is not wholly in the log yet: try again")]
    Packing {
        /// Its receiver.
        to: Rank,
    },
    /// A message that was matched and given up is still coming: make progress, and
    /// ask again.
    #[error("a message whose receive was given up is still coming: try again")]
    Dropping,
}

impl NotBetween {
    /// Whether progress ends it, without the program's doing.
    pub fn ends_by_progress(self) -> bool {
        matches!(self, Self::Packing { .. } | Self::Dropping)
    }
}

impl<P: Protocol> Engine<P> {
    /// Where this rank stands, for a checkpoint: between operations that leave
    /// nothing open but sends. With its log from
    /// [`log_kept_from`](Engine::log_kept_from) on it is all that a later life
    /// begins with. LOG-5
    ///
    /// # Errors
    /// When something is open that a later life could not go on with.
    pub fn state(&self) -> Result<Beginning, NotBetween> {
        if let Some((posted_at, is_detached)) = self.requests.any_receive() {
            return Err(match is_detached {
                true => NotBetween::Dropping,
                false => NotBetween::OpenReceive { posted_at },
            });
        }
        if let Some(to) = self.outbox.packing() {
            return Err(NotBetween::Packing { to });
        }
        self.none_taken()?;
        let ranks = (0..self.options.size).map(Rank);
        let next_ssn = |to: Rank| self.outbox.destination(to).next_ssn;
        Ok(Beginning {
            clock: self.clock,
            next_ssns: ranks.clone().map(next_ssn).collect(),
            delivered: ranks.map(|source| self.delivered(source)).collect(),
            to_self: self.messages_to_self(),
        })
    }

    fn delivered(&self, source: Rank) -> Delivered {
        match source == self.options.rank {
            // Those to itself are kept as a whole.
            true => Delivered::default(),
            false => self.inbox.delivered(source),
        }
    }

    /// Every message is there for the next receive.
    fn none_taken(&self) -> Result<(), NotBetween> {
        if self.inbox.matcher.unexpected_count() == self.inbox.messages.len() {
            return Ok(());
        }
        let is_there = |index: usize, message: &Message| {
            let mut of_source = self.inbox.matcher.unexpected_of(message.envelope.source);
            of_source.any(|(_, _, at)| *at == index)
        };
        let mut messages = self.inbox.messages.iter();
        let taken = messages.find(|(index, message)| !is_there(*index, message));
        taken.map_or(Ok(()), |(_, message)| {
            Err(NotBetween::TakenMessage {
                source_rank: message.envelope.source,
                ssn: message.ssn,
            })
        })
    }

    fn messages_to_self(&self) -> Vec<ToSelf> {
        let own = self.inbox.matcher.unexpected_of(self.options.rank);
        own.map(|(_, envelope, index)| {
            let message = &self.inbox.messages[*index];
            ToSelf {
                ssn: message.ssn,
                context: envelope.context,
                tag: envelope.tag,
                payload: message.own_payload().into(),
            }
        })
        .collect()
    }

    /// With the state of a checkpoint. For an engine that has done nothing yet;
    /// its log comes next ([`Engine::log_again`]), then its peers. REC-1
    ///
    /// # Panics
    /// When the checkpoint is of a job of another size.
    #[must_use]
    pub fn with_beginning(self, beginning: Beginning) -> Self {
        let size = self.options.size as usize;
        assert_eq!(beginning.next_ssns.len(), size, "ranks of the job");
        assert_eq!(beginning.delivered.len(), size, "ranks of the job");
        let mut engine = self.with_clock(beginning.clock);
        engine.outbox.begin_with(&beginning.next_ssns);
        for (source, delivered) in engine.inbox.sources.iter_mut().zip(&beginning.delivered) {
            source.begin_with(delivered);
        }
        for message in beginning.to_self {
            engine.put_to_self(message);
        }
        engine
    }

    fn put_to_self(&mut self, message: ToSelf) {
        let envelope = Envelope {
            context: message.context,
            source: self.options.rank,
            tag: message.tag,
        };
        let bytes = message.payload.len() as u64;
        let mut parts = Parts::default();
        parts.push(0, Stored::Copied(message.payload));
        let index = self.inbox.messages.insert(Message {
            envelope,
            ssn: message.ssn,
            bytes,
            arrived_bytes: bytes,
            want_ack: false,
            rendezvous: false,
            parts,
            completes: None,
        });
        self.inbox.matcher.push_unexpected(envelope, index);
    }

    /// Puts the next record of a checkpoint's log to `to` into this life's log, as
    /// it was but for its incarnation; whether there was room for it: if not,
    /// [`Engine::progress`] makes some. For an engine that has not sent, nor
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
        self.outbox.log_again(
            to,
            header,
            payload,
            &mut Means {
                log: LogMeans {
                    fabric: &mut *self.fabric,
                    arena: &mut self.arena,
                    gate: &self.gate,
                    spilling: &mut self.spilling,
                },
                requests: &mut self.requests,
                statistics: &mut self.statistics,
            },
        )
    }
}

impl super::outbox::Outbox {
    /// A peer to which a send is not wholly packed.
    fn packing(&self) -> Option<Rank> {
        let mut destinations = (0..).map(Rank).zip(&self.destinations);
        let found = destinations.find(|(_, it)| !it.queue.is_empty() || !it.cleared.is_empty());
        found.map(|(to, _)| to)
    }

    fn begin_with(&mut self, next_ssns: &[Ssn]) {
        for (destination, next_ssn) in self.destinations.iter_mut().zip(next_ssns) {
            destination.next_ssn = *next_ssn;
            destination.begins = *next_ssn;
            destination.logged_until = *next_ssn;
            destination.sends_from = Some(*next_ssn);
        }
    }

    fn log_again(
        &mut self,
        to: Rank,
        header: &RecordHeader,
        payload: &[u8],
        means: &mut Means<'_>,
    ) -> Result<bool, EngineError> {
        loop {
            let destination = &mut self.destinations[to.index()];
            match destination.log_again(header, payload, &mut means.log) {
                Ok(()) => return Ok(true),
                Err(stop)
                    if self.may_end_by_reclaiming(&stop, means)
                        && self.reclaim(to, &stop, means) => {}
                Err(stop) => return self.note_stall(to, stop, means).map(|()| false),
            }
        }
    }
}

impl super::outbox::Destination {
    /// The first message that is in the log, in memory or on disk.
    pub fn kept_from(&self) -> Ssn {
        self.begins.max(self.horizon)
    }

    fn log_again(
        &mut self,
        header: &RecordHeader,
        payload: &[u8],
        means: &mut LogMeans<'_>,
    ) -> Result<(), refrain_ring::ReserveError> {
        let is_fragment = header.kind == RecordKind::Fragment;
        let follows = match is_fragment {
            true => header.ssn.next() == self.logged_until && self.begins < self.logged_until,
            false => header.ssn < self.next_ssn,
        };
        assert!(
            follows && self.is_clear_of_sends(),
            "a checkpoint's record out of order"
        );
        if !self.log.has_room(payload.len()) {
            self.before_chunk(means);
        }
        let fill = |place: &mut [u8]| place.copy_from_slice(payload);
        let frame = (self.log).append(means.arena, payload.len(), true, *header, fill)?;
        frame.publish(means.arena.region());
        if !is_fragment {
            if header.ssn != self.logged_until || self.begins == self.logged_until {
                self.begins = header.ssn;
            }
            self.logged_until = header.ssn.next();
        }
        Ok(())
    }
}

impl Message {
    /// The payload of a message to this rank itself.
    fn own_payload(&self) -> &[u8] {
        match self.parts.first() {
            Some(Stored::Copied(payload)) => payload,
            _ => &[],
        }
    }
}
