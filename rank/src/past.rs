//! The past of a rank, as its engine asks for it: from its determinants, and from
//! the log that the life before left. REC-4, REC-8

use refrain_logging::determinant::Determinant;
use refrain_logging::determinant::told::{Contradiction, End, Outcome, Telling, Told};
use refrain_logging::image::{LogImage, LogKey, Message};
use refrain_logging::segment::Channel;
use refrain_ring::{Clock, Incarnation, Position, Rank, RecordHeader, Ssn};
use refrain_transport::past::{Fate, Past, PastSends, Recorded, SentAgain};
use std::collections::{BTreeMap, VecDeque};

/// Contexts from here on are the library's own: barriers.
pub const CONTEXT_RESERVED_MIN: u32 = 0xffff_0000;

/// Payload that is read ahead for each receiver, roughly.
const AHEAD_BYTES: usize = 1 << 20;

/// What the determinants of a rank tell: for
/// [`Engine::with_past`](refrain_transport::engine::Engine::with_past).
#[derive(Clone, Debug)]
pub struct Records(Told);

impl Records {
    /// Of the whole row behind the clock at which the rank begins, as
    /// [`determinants`](refrain_logging::determinant::row::determinants) gives
    /// it.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn new<'a>(row: impl IntoIterator<Item = &'a Determinant>) -> Result<Self, Contradiction> {
        Told::new(row).map(Self)
    }
}

impl Past for Records {
    fn told_before(&self) -> Clock {
        self.0.before()
    }

    fn fate(&self, request: Clock) -> Fate {
        match self.0.receive(request) {
            None => Fate::Untold,
            Some(End::Message(source, ssn)) => Fate::Gets { source, ssn },
            Some(End::Cancelled) => Fate::Cancelled,
        }
    }

    fn at(&self, clock: Clock) -> Recorded {
        match self.0.at(clock) {
            Telling::Open => Recorded::Open,
            Telling::Nothing => Recorded::Nothing,
            Telling::Outcome(Outcome::Ended(requests)) => Recorded::Ended(requests.clone()),
            Telling::Outcome(Outcome::Cancelled(request)) => Recorded::Cancelled(*request),
            Telling::Outcome(&Outcome::Number { lane, value }) => Recorded::Number { lane, value },
            Telling::Outcome(Outcome::Bytes(bytes)) => Recorded::Bytes(bytes.clone()),
            Telling::Outcome(&Outcome::Found {
                source,
                ssn,
                tag,
                bytes,
            }) => Recorded::Found {
                source,
                ssn,
                tag,
                bytes,
            },
        }
    }
}

/// What a life of a rank has sent, as far as its log is left: for
/// [`Engine::with_past_sends`](refrain_transport::engine::Engine::with_past_sends).
///
/// Reads each channel once, in order, some messages ahead. What is not there any
/// more, or cannot be read, is not compared.
#[derive(Debug)]
pub struct Sends {
    image: LogImage,
    job: u64,
    rank: Rank,
    life: Incarnation,
    channels: BTreeMap<Rank, Ahead>,
}

/// Messages to one rank that were read and are still to be compared.
#[derive(Debug, Default)]
struct Ahead {
    messages: VecDeque<Message>,
    /// Where one that was compared begins: nothing before it is read again.
    begun: Position,
    /// Nothing more can be read.
    has_ended: bool,
}

impl Sends {
    /// Those of this life of a rank, in an image that holds its memory, its
    /// files, or both.
    pub fn new(image: LogImage, job: u64, rank: Rank, life: Incarnation) -> Self {
        Self {
            image,
            job,
            rank,
            life,
            channels: BTreeMap::new(),
        }
    }
}

impl PastSends for Sends {
    fn has(&mut self, to: Rank, ssn: Ssn) -> bool {
        let key = LogKey {
            job: self.job,
            channel: Channel {
                source: self.rank,
                incarnation: self.life,
                destination: to,
            },
        };
        let ahead = self.channels.entry(to).or_default();
        ahead.skip_to(ssn);
        if ahead.messages.is_empty() && !ahead.has_ended {
            ahead.read(&self.image, &key, ssn);
            ahead.skip_to(ssn);
        }
        ahead.messages.front().is_some_and(|it| it.ssn == ssn)
    }

    fn compare(&mut self, sent: &SentAgain<'_>) -> Result<bool, String> {
        let ahead = self.channels.get(&sent.to);
        let Some(before) = ahead.and_then(|ahead| ahead.messages.front()) else {
            return Ok(false);
        };
        match before.ssn == sent.ssn {
            true => same(before, sent).map(|()| true),
            false => Ok(false),
        }
    }
}

impl Ahead {
    fn skip_to(&mut self, ssn: Ssn) {
        while self.messages.front().is_some_and(|it| it.ssn < ssn) {
            self.begun = self
                .messages
                .pop_front()
                .map_or(self.begun, |it| it.position);
        }
    }

    fn read(&mut self, image: &LogImage, key: &LogKey, from: Ssn) {
        self.has_ended = true;
        let Ok(mut messages) = image.messages_behind(key, from, self.begun) else {
            return;
        };
        let mut bytes = 0;
        while bytes < AHEAD_BYTES {
            let Ok(Some(message)) = messages.next() else {
                return;
            };
            bytes += message.bytes.len() + size_of::<Message>();
            self.messages.push_back(message);
        }
        self.has_ended = false;
    }
}

/// REC-8
fn same(before: &Message, sent: &SentAgain<'_>) -> Result<(), String> {
    let SentAgain {
        to,
        ssn,
        context,
        tag,
        synchronous,
        payload,
    } = *sent;
    let was_synchronous = before.flags & RecordHeader::WANT_ACK != 0;
    let was = (
        before.context,
        before.tag,
        was_synchronous,
        before.bytes.len(),
    );
    let is = (context, tag, synchronous, payload.len());
    if was != is {
        return Err(format!(
            "message {ssn} to rank {to} had {}, and has {} now",
            envelope(was),
            envelope(is)
        ));
    }
    // Many bytes at a time: who replays waits for this.
    if before.bytes == payload {
        return Ok(());
    }
    let at = first_difference(&before.bytes, payload);
    Err(format!(
        "message {ssn} to rank {to} ({}) has other bytes, the first of them at {at}",
        envelope(is)
    ))
}

/// Of two that are equally long.
#[cold]
fn first_difference(one: &[u8], other: &[u8]) -> usize {
    let mut pairs = one.iter().zip(other);
    pairs.position(|(a, b)| a != b).unwrap_or(one.len())
}

fn envelope((context, tag, synchronous, bytes): (u32, i32, bool, usize)) -> String {
    let synchronous = if synchronous { ", synchronous" } else { "" };
    if context >= CONTEXT_RESERVED_MIN {
        return format!("a barrier, step {tag}, {bytes} bytes{synchronous}");
    }
    format!("context {context}, tag {tag}, {bytes} bytes{synchronous}")
}
