//! What messages carry to a rank: batches, and how far batches of that rank have come here
//! (docs/formats/event-format.md, Attachments). CAUSAL-1
//!
//! Attachments of one lane are written against each other: each determinant against all before it
//! on the lane, not only in its batch. The usual one has one byte. A *base* stands alone. It is the first
//! one of a connection, and the first one of each chunk of the log: so a log can be read from any chunk
//! on (CAUSAL-4). It names the life of the receiver. A later life finds earlier attachments in a log
//! that is sent again; it ignores them until a base names it.

mod reader;
mod writer;

pub(crate) use reader::{Incoming, Reader};
pub(crate) use writer::{ToCarry, Wanted, Writer};

use crate::determinant::record::{Decoder, Encoder};
use crate::determinant::{Determinant, EventIndex};
use core::hash::{Hash, Hasher};

/// Version of attachments, in each base.
const VERSION: u64 = 2;

/// Bits of the first byte. Without this one the attachment has one batch of one determinant, and the lowest five
/// bits are the number of determinants left out before it.
const IS_OTHER: u8 = 0x80;
/// How many determinants further a confirmation is than the last one, in two bits: 0, there is none; 1 or
/// 2; 3, a number follows.
const CONFIRM_SHIFT: u8 = 5;
const CONFIRM_LATER: u8 = 3;
/// One above the most that are left out without a number.
const GAP_END: u64 = 32;

/// The other attachments. It is a base.
const IS_BASE: u8 = 0x10;
/// Determinants are left out before it. A number follows: twice how many, and 1 if they count as matches like the
/// last one.
const IS_GAP: u8 = 0x08;
/// What is in it, in three bits: one batch of 2 determinants or more, up to [`LONGEST`]; behind these, 2 batches or
/// more of one determinant each; or
const SHAPE: u8 = 0x07;
const LONGEST: u8 = 4;
/// a number follows, that of the batches, and then that of the determinants in each; or
const LISTED: u8 = 0;
/// a byte follows: in the upper four bits the determinants of the first batch, in the lower ones the batches of one
/// determinant each behind it.
const FIRST_AND_ONES: u8 = 1;
const FIRST_SHIFT: u8 = 4;
const ONES_MAX: usize = 15;
const FIRST_MAX: u16 = 15;

/// Memory that is used again: codes batches as they are stored, each against nothing.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    encoder: Encoder,
    decoder: Decoder,
    /// Of the batches of an attachment.
    counts: Vec<u16>,
    /// Determinants.
    bytes: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            encoder: Encoder::new(),
            decoder: Decoder::new(),
            counts: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

/// Hashes nothing: it holds nothing between two uses.
impl Hash for Scratch {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// No attachment of one byte has this first byte before it.
const NO_HEAD: u8 = IS_OTHER;

/// Where a lane is, for writer and reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Progress {
    /// The life that made the determinants.
    incarnation: u32,
    /// The next determinant.
    next: u64,
    /// The last confirmation.
    confirmed: u64,
    /// The first byte of the last attachment; at first [`NO_HEAD`].
    head: u8,
}

impl Progress {
    /// Where it is before the first determinant.
    fn new(incarnation: u32, next: u64) -> Self {
        Self {
            incarnation,
            next,
            confirmed: 0,
            head: NO_HEAD,
        }
    }
}

fn encode(encoder: &mut Encoder, determinant: &Determinant, out: &mut Vec<u8>) {
    encoder.determinant(
        out,
        determinant,
        |requests| requests.iter().copied(),
        |bytes| bytes.iter().copied(),
    );
}

/// What an attachment has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The writer holds the batches of the reader before this one.
    pub confirms: Option<EventIndex>,
    /// One past its last determinant.
    pub end: EventIndex,
}
