//! The logs of earlier lives of a rank, with which the engine compares new sends. REC-8

use refrain_logging::image::{LogImage, LogKey, Message, ReadFailure, Wanted};
use refrain_logging::segment::Channel;
use refrain_ring::{Incarnation, Position, Rank, RecordHeader, Ssn, Stream};
use refrain_transport::recorded::{Compared, PreviousSends, SentAgain};
use std::collections::{BTreeMap, VecDeque};

/// Contexts from this number on are reserved for the library: barriers.
pub const CONTEXT_RESERVED_MIN: u32 = 0xffff_0000;

/// Approximate payload that is read ahead from each log, in bytes.
const AHEAD_BYTES: usize = 1 << 20;

/// The logs of earlier lives of a rank that still exist: for
/// [`Engine::with_previous_sends`](refrain_transport::engine::Engine::with_previous_sends).
///
/// Reads each stream of each channel of each life once, in order, some messages ahead. Messages
/// that are missing, or cannot be read, are not compared.
#[derive(Debug)]
pub struct PreviousLogs {
    job: u64,
    rank: Rank,
    lives: Vec<PreviousLog>,
}

/// The log of one life.
#[derive(Debug)]
struct PreviousLog {
    image: LogImage,
    incarnation: Incarnation,
    channels: BTreeMap<(Rank, Stream), ReadAhead>,
}

/// Messages of a log, read ahead.
#[derive(Debug, Default)]
pub struct ReadAhead {
    /// Messages that were read and not taken yet.
    pub messages: VecDeque<Message>,
    /// Position of the last message that was read: reading continues there, not before it.
    begun: Position,
    /// No more messages can be read.
    pub has_ended: bool,
}

impl ReadAhead {
    /// Reads messages from `from` on, if none is left.
    ///
    /// # Errors
    /// When the log is damaged or gone.
    pub fn read(
        &mut self,
        image: &LogImage,
        key: &LogKey,
        from: impl Into<Wanted>,
    ) -> Result<(), ReadFailure> {
        if !self.messages.is_empty() || self.has_ended {
            return Ok(());
        }
        let mut messages = image.messages_behind(key, from, self.begun)?;
        let mut bytes = 0;
        while bytes < AHEAD_BYTES {
            let Some(message) = messages.next()? else {
                self.has_ended = true;
                break;
            };
            bytes += message.bytes.len() + size_of::<Message>();
            self.begun = message.position;
            self.messages.push_back(message);
        }
        Ok(())
    }

    fn skip_to(&mut self, ssn: Ssn) {
        while self.messages.front().is_some_and(|it| it.ssn < ssn) {
            self.messages.pop_front();
        }
    }
}

impl PreviousLogs {
    /// The logs of this rank; empty at first.
    pub fn new(job: u64, rank: Rank) -> Self {
        Self {
            job,
            rank,
            lives: Vec::new(),
        }
    }

    /// Adds the log of a life, in an image that holds its memory, its files, or both. If several
    /// lives sent a message, the life that was added first counts.
    pub fn add_life(&mut self, image: LogImage, incarnation: Incarnation) {
        self.lives.push(PreviousLog {
            image,
            incarnation,
            channels: BTreeMap::new(),
        });
    }

    /// Whether there is no log to compare with.
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// Whether the first message to `to` from `ssn` on, in the log of any life, fulfils `is_so`.
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

impl PreviousSends for PreviousLogs {
    fn has(&mut self, to: Rank, ssn: Ssn) -> bool {
        self.any(to, ssn, |message| message.ssn == ssn)
    }

    fn has_from(&mut self, to: Rank, ssn: Ssn) -> bool {
        // Results are given to whom asks; no life gives them again. WHOLE-2
        ssn.stream() != Stream::RESULTS && self.any(to, ssn, |_| true)
    }

    fn compare(&mut self, sent: &SentAgain<'_>) -> Result<Compared, String> {
        let mut lives = self.lives.iter_mut();
        match lives.find_map(|life| life.front(sent.to, sent.ssn)) {
            Some(before) => compared(before, sent),
            None => Ok(Compared::Nothing),
        }
    }
}

impl PreviousLog {
    fn first(&mut self, key: &LogKey, ssn: Ssn) -> Option<&Message> {
        let of = (key.channel.destination, ssn.stream());
        let ahead = self.channels.entry(of).or_default();
        ahead.skip_to(ssn);
        // A log that cannot be read is not compared.
        ahead.has_ended |= ahead.read(&self.image, key, ssn).is_err();
        ahead.skip_to(ssn);
        ahead.messages.front()
    }

    fn front(&mut self, to: Rank, ssn: Ssn) -> Option<&mut Message> {
        let ahead = self.channels.get_mut(&(to, ssn.stream()))?;
        let front = ahead.messages.front_mut();
        front.filter(|message| message.ssn == ssn)
    }
}

/// REC-8
fn compared(before: &mut Message, sent: &SentAgain<'_>) -> Result<Compared, String> {
    let was_synchronous = before.flags & RecordHeader::WANT_ACK != 0;
    let bytes = before.bytes.len();
    let was = (before.context, before.tag, was_synchronous, bytes);
    let is = (sent.context, sent.tag, sent.synchronous, sent.payload.len());
    if was != is {
        let (ssn, to, was, is) = (sent.ssn, sent.to, envelope(was), envelope(is));
        return Err(format!(
            "message {ssn} to rank {to} had {was}, and has {is} now"
        ));
    }
    // Compares many bytes at a time, since the replay waits for it.
    Ok(match before.bytes == sent.payload {
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
