//! How far the messages of a later life differ from those of an earlier life, and
//! what follows from that. REC-8
//!
//! Only bytes are counted here. A message with another receiver, tag, context,
//! length or synchronous flag stops the rank whatever the policy is.
//!
//! A few differing bytes are padding, memory that the program never wrote, or a timing: the
//! receiver keeps the bytes of the first life, and the rank continues. If most of the bytes of many
//! long messages differ, the history is another one: the rank stops. docs/design/recovery.md
//! explains the limits.

use crate::recorded::SentAgain;
use core::fmt;
use refrain_ring::{Clock, Rank, Ssn};

/// Minimum length of a long message. Bytes of a shorter message do not show another history.
pub const LONG_MESSAGE_BYTES_MIN: usize = 64;

/// Another history has at least this many differing bytes in messages that differ
/// widely.
pub const OTHER_HISTORY_BYTES_MIN: u64 = 4096;

/// In another history at least one of this many long messages differs widely.
pub const OTHER_HISTORY_ONE_OF: u64 = 4;

/// Length of a word, in bytes. A message differs widely if more than half of its words differ.
const WORD_BYTES: usize = 4;

/// Maximum number of ranges that are kept of the first difference.
const RANGES_MAX: usize = 4;

/// What a rank does when bytes of a message differ from the earlier life's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DivergencePolicy {
    /// The rank stops at the first difference.
    Stop,
    /// The rank continues, however much differs.
    Warn,
    /// The rank continues, unless its messages differ widely.
    #[default]
    Auto,
}

/// The first message of a life whose bytes differ from the earlier life's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// The operation that sent it.
    pub clock: Clock,
    /// Its receiver.
    pub to: Rank,
    /// Its SSN.
    pub ssn: Ssn,
    /// Its context.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length.
    pub bytes: u64,
    /// The call of the program that sent it, as the layer above names it, or empty.
    pub call: String,
    /// Ranges of differing bytes: the offset of the first byte, and the offset behind the last
    /// byte. At most four ranges.
    pub ranges: Vec<(u64, u64)>,
    /// Whether bytes behind these ranges differ, too.
    pub has_more: bool,
}

/// The messages of a later life, compared with those of earlier lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    policy: DivergencePolicy,
    /// Messages that were compared.
    pub messages: u64,
    /// Bytes of the compared messages.
    pub bytes: u64,
    /// Compared messages whose bytes differ.
    pub differing_messages: u64,
    /// Differing bytes of all messages.
    pub differing_bytes: u64,
    /// The first message that differs.
    pub first: Option<FirstDifference>,
    long_messages: u64,
    wide_messages: u64,
    wide_differing_bytes: u64,
}

/// Why a rank whose bytes differ stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// [`DivergencePolicy::Stop`].
    AtAnyDifference,
    /// Its messages differ widely.
    AsAnotherHistory,
}

/// Two messages of one length that differ.
struct Difference {
    bytes: u64,
    words: usize,
    ranges: Vec<(u64, u64)>,
    has_more: bool,
}

impl Comparison {
    /// Creates an empty comparison.
    pub fn new(policy: DivergencePolicy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Counts a message with the same bytes as in the earlier life.
    pub fn note_same(&mut self, sent: &SentAgain<'_>) {
        self.count(sent);
    }

    /// Counts a message that had other bytes, `before`, in the earlier life.
    ///
    /// # Errors
    /// When the rank must stop.
    #[cold]
    pub fn note_difference(
        &mut self,
        clock: Clock,
        sent: &SentAgain<'_>,
        before: &[u8],
    ) -> Result<(), Stops> {
        self.count(sent);
        let difference = Difference::of(before, sent.payload);
        let words = sent.payload.len().div_ceil(WORD_BYTES);
        if is_long(sent) && difference.words * 2 > words {
            self.wide_messages += 1;
            self.wide_differing_bytes += difference.bytes;
        }
        self.differing_messages += 1;
        self.differing_bytes += difference.bytes;
        self.first.get_or_insert(FirstDifference {
            clock,
            to: sent.to,
            ssn: sent.ssn,
            context: sent.context,
            tag: sent.tag,
            bytes: sent.payload.len() as u64,
            call: String::new(),
            ranges: difference.ranges,
            has_more: difference.has_more,
        });
        self.judge()
    }

    fn count(&mut self, sent: &SentAgain<'_>) {
        self.messages += 1;
        self.bytes += sent.payload.len() as u64;
        self.long_messages += u64::from(is_long(sent));
    }

    /// Decides at each difference. Messages that are the same only lower the share of those that
    /// differ: a rank is stopped, if at all, before it sends anything new.
    fn judge(&self) -> Result<(), Stops> {
        match self.policy {
            DivergencePolicy::Stop => Err(Stops::AtAnyDifference),
            DivergencePolicy::Auto if self.is_another_history() => Err(Stops::AsAnotherHistory),
            DivergencePolicy::Auto | DivergencePolicy::Warn => Ok(()),
        }
    }

    fn is_another_history(&self) -> bool {
        self.wide_differing_bytes >= OTHER_HISTORY_BYTES_MIN
            && self.wide_messages * OTHER_HISTORY_ONE_OF >= self.long_messages
    }

    /// Describes how widely the messages differ, for messages to the user.
    pub fn explain_width(&self) -> String {
        format!(
            "{} of {} messages of {LONG_MESSAGE_BYTES_MIN} bytes or more differ in more than half of their words, in {} bytes",
            self.wide_messages, self.long_messages, self.wide_differing_bytes
        )
    }
}

fn is_long(sent: &SentAgain<'_>) -> bool {
    sent.payload.len() >= LONG_MESSAGE_BYTES_MIN
}

impl Difference {
    fn of(before: &[u8], now: &[u8]) -> Self {
        let mut found = Self {
            bytes: 0,
            words: 0,
            ranges: Vec::new(),
            has_more: false,
        };
        let words = before.chunks(WORD_BYTES).zip(now.chunks(WORD_BYTES));
        for (number, (one, other)) in words.enumerate().filter(|(_, (one, other))| one != other) {
            found.words += 1;
            let pairs = one.iter().zip(other).enumerate();
            for (at, _) in pairs.filter(|(_, (one, other))| one != other) {
                found.note((number * WORD_BYTES + at) as u64);
            }
        }
        found
    }

    fn note(&mut self, at: u64) {
        self.bytes += 1;
        let is_full = self.ranges.len() == RANGES_MAX;
        match self.ranges.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ if is_full => self.has_more = true,
            _ => self.ranges.push((at, at + 1)),
        }
    }
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} to rank {} (", self.ssn, self.to)?;
        if !self.call.is_empty() {
            write!(f, "{}, ", self.call)?;
        }
        write!(
            f,
            "context {}, tag {}, {} bytes) has other bytes at ",
            self.context, self.tag, self.bytes
        )?;
        write_ranges(&self.ranges, self.has_more, f)
    }
}

/// Writes ranges of byte offsets, ends included: `4..7, 12`.
fn write_ranges(ranges: &[(u64, u64)], has_more: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (number, (begin, end)) in ranges.iter().enumerate() {
        let separator = if number > 0 { ", " } else { "" };
        match end - begin {
            1 => write!(f, "{separator}{begin}")?,
            _ => write!(f, "{separator}{begin}..{}", end - 1)?,
        }
    }
    if has_more {
        write!(f, " and more")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
