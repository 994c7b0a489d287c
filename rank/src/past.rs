//! The past of a rank, as its engine asks for it: from its determinants, and from
//! the log that the life before left. REC-4, REC-8

use refrain_logging::determinant::Determinant;
use refrain_logging::determinant::told::{Contradiction, End, Outcome, Telling, Told};
use refrain_logging::image::{LogImage, LogKey, Message};
use refrain_logging::segment::Channel;
use refrain_ring::{Clock, Incarnation, Position, Rank, RecordHeader, Ssn, Stream};
use refrain_transport::past::{Compared, Fate, Past, PastSends, Recorded, SentAgain};
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

/// What earlier lives of a rank have sent, as far as their logs are left: for
/// [`Engine::with_past_sends`](refrain_transport::engine::Engine::with_past_sends).
///
/// Reads each stream of each channel of each life once, in order, some messages ahead. What is not
/// there any more, or cannot be read, is not compared.
#[derive(Debug)]
pub struct Sends {
    job: u64,
    rank: Rank,
    lives: Vec<PastLife>,
}

/// The log of one life.
#[derive(Debug)]
struct PastLife {
    image: LogImage,
    incarnation: Incarnation,
    channels: BTreeMap<(Rank, Stream), Ahead>,
}

/// Messages of a stream to one rank that were read and are still to be compared.
#[derive(Debug, Default)]
struct Ahead {
    messages: VecDeque<Message>,
    /// Where one that was compared begins: nothing before it is read again.
    begun: Position,
    /// Nothing more can be read.
    has_ended: bool,
}

impl Sends {
    /// Of this rank; nothing yet.
    pub fn new(job: u64, rank: Rank) -> Self {
        Self {
            job,
            rank,
            lives: Vec::new(),
        }
    }

    /// The log of a life, in an image that holds its memory, its files, or both. Where
    /// several lives sent a message, that of the one which was added first counts.
    pub fn add_life(&mut self, image: LogImage, incarnation: Incarnation) {
        self.lives.push(PastLife {
            image,
            incarnation,
            channels: BTreeMap::new(),
        });
    }

    /// Whether there is no log to compare with.
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }
}

impl Sends {
    /// Whether the first message of a life to this rank from `ssn` on is so.
    fn any(&mut self, to: Rank, ssn: Ssn, is_so: impl Fn(&Message) -> bool) -> bool {
        let (job, source) = (self.job, self.rank);
        self.lives.iter_mut().any(|life| {
            let channel = Channel {
                source,
                incarnation: life.incarnation,
                destination: to,
            };
            life.first(&LogKey { job, channel }, ssn)
                .is_some_and(&is_so)
        })
    }
}

impl PastSends for Sends {
    fn has(&mut self, to: Rank, ssn: Ssn) -> bool {
        self.any(to, ssn, |message| message.ssn == ssn)
    }

    fn has_from(&mut self, to: Rank, ssn: Ssn) -> bool {
        self.any(to, ssn, |_| true)
    }

    fn compare(&mut self, sent: &SentAgain<'_>) -> Result<Compared, String> {
        let mut lives = self.lives.iter_mut();
        match lives.find_map(|life| life.front(sent.to, sent.ssn)) {
            Some(before) => compared(before, sent),
            None => Ok(Compared::Nothing),
        }
    }
}

impl PastLife {
    fn first(&mut self, key: &LogKey, ssn: Ssn) -> Option<&Message> {
        let of = (key.channel.destination, ssn.stream());
        let ahead = self.channels.entry(of).or_default();
        ahead.skip_to(ssn);
        if ahead.messages.is_empty() && !ahead.has_ended {
            ahead.read(&self.image, key, ssn);
            ahead.skip_to(ssn);
        }
        ahead.messages.front()
    }

    fn front(&mut self, to: Rank, ssn: Ssn) -> Option<&mut Message> {
        let ahead = self.channels.get_mut(&(to, ssn.stream()))?;
        let front = ahead.messages.front_mut();
        front.filter(|message| message.ssn == ssn)
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
fn compared(before: &mut Message, sent: &SentAgain<'_>) -> Result<Compared, String> {
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
    // Many bytes at a time: the replay waits for this.
    Ok(match before.bytes == payload {
        true => Compared::Same,
        false => Compared::OtherBytes(core::mem::take(&mut before.bytes)),
    })
}

fn envelope((context, tag, synchronous, bytes): (u32, i32, bool, usize)) -> String {
    let synchronous = if synchronous { ", synchronous" } else { "" };
    if context >= CONTEXT_RESERVED_MIN {
        return format!("a barrier, step {tag}, {bytes} bytes{synchronous}");
    }
    format!("context {context}, tag {tag}, {bytes} bytes{synchronous}")
}
