//! What the protocols of two ranks tell each other, as a stream of bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind: 1 hold, 2 holds, 3 trim, 4 trimmed, 5 took carried |
//! | 1.. | length of the rest, a number |
//! | hold | a batch, against the one before it in the stream |
//! | holds | incarnation; one past the last determinant of a batch |
//! | trim | a number of a determinant, and the incarnation that makes it |
//! | trimmed | a number of a determinant |
//! | took carried | one past the last determinant of a batch |
//!
//! Numbers and batches are encoded as in docs/formats/event-format.md.

use super::batch::{Batch, Previous};
use super::floor::Floor;
use crate::determinant::EventIndex;
use crate::determinant::record::varint::{Bytes, put};
use refrain_ring::Incarnation;
use std::collections::VecDeque;

const HOLD: u8 = 1;
const HOLDS: u8 = 2;
const TRIM: u8 = 3;
const TRIMMED: u8 = 4;
const TOOK_CARRIED: u8 = 5;
/// Maximum length of a message without its kind and length.
const BODY_BYTES_MAX: u64 = 4200;

/// What a rank has taken of another, over one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Taken {
    /// A batch.
    Batch {
        /// The incarnation that made it.
        incarnation: Incarnation,
        /// One past its last determinant.
        end: EventIndex,
    },
    /// The number of the first determinant that is not trimmed.
    Floor(EventIndex),
}

/// A message from one rank's protocol to another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// The addressee is to hold this batch of the sender.
    Hold(Batch<'a>),
    /// The sender has taken all that the addressee gave up to this, in the order of the connection.
    Took(Taken),
    /// The sender holds everything that messages carried to it, up to here. CAUSAL-2
    TookCarried {
        /// One past the last determinant.
        end: EventIndex,
    },
    /// The sender's determinants before this one are not needed any more.
    Trim(Floor),
}

/// The stream to one rank and the stream from it, over one connection.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Lane {
    outgoing: VecDeque<u8>,
    incoming: Vec<u8>,
    sent: Previous,
    received: Previous,
    /// The length of the message that is said, and the rest of it. The memory is reused.
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Lane {
    /// Adds a message to the stream.
    pub fn say(&mut self, message: Message<'_>) {
        self.body.clear();
        let kind = match message {
            Message::Hold(batch) => {
                batch.put(&mut self.sent, &mut self.body);
                HOLD
            }
            Message::Took(Taken::Batch { incarnation, end }) => {
                put(&mut self.body, incarnation.0.into());
                put(&mut self.body, end.0);
                HOLDS
            }
            Message::TookCarried { end } => {
                put(&mut self.body, end.0);
                TOOK_CARRIED
            }
            Message::Took(Taken::Floor(first)) => {
                put(&mut self.body, first.0);
                TRIMMED
            }
            Message::Trim(floor) => {
                floor.put(&mut self.body);
                TRIM
            }
        };
        self.head.clear();
        put(&mut self.head, self.body.len() as u64);
        self.outgoing.push_back(kind);
        self.outgoing.extend(&self.head);
        self.outgoing.extend(&self.body);
    }

    /// Moves the next bytes of the stream into `piece`; returns how many.
    pub fn next_piece(&mut self, piece: &mut [u8]) -> usize {
        let count = piece.len().min(self.outgoing.len());
        for (place, byte) in piece.iter_mut().zip(self.outgoing.drain(..count)) {
            *place = byte;
        }
        count
    }

    /// Whether there is something to send.
    pub fn has_piece(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes bytes of the other rank's stream, and hands each whole message to `hears`.
    ///
    /// # Errors
    /// When no protocol says that.
    pub fn hear(
        &mut self,
        piece: &[u8],
        mut hears: impl FnMut(Message<'_>),
    ) -> Result<(), &'static str> {
        self.incoming.extend_from_slice(piece);
        let mut rest = Bytes(&self.incoming);
        loop {
            let before = rest.left();
            let mut ahead = Bytes(rest.0);
            let (Ok(kind), Ok(bytes)) = (ahead.byte(), ahead.number()) else {
                // No kind and length are as long.
                if before >= 12 {
                    return Err("a message has no length");
                }
                self.keep(before);
                return Ok(());
            };
            if bytes > BODY_BYTES_MAX {
                return Err("a message is too long");
            }
            let Ok(body) = ahead.take(bytes as usize) else {
                self.keep(before);
                return Ok(());
            };
            hears(Message::read(kind, body, &mut self.received)?);
            rest = ahead;
        }
    }

    /// Keeps the last bytes of what has arrived.
    fn keep(&mut self, bytes: usize) {
        let taken = self.incoming.len() - bytes;
        self.incoming.drain(..taken);
    }
}

impl<'a> Message<'a> {
    fn read(kind: u8, body: &'a [u8], received: &mut Previous) -> Result<Self, &'static str> {
        let mut body = Bytes(body);
        let message = match kind {
            HOLD => Self::Hold(Batch::take(&mut body, received)?),
            HOLDS => Self::Took(Taken::Batch {
                incarnation: Incarnation(body.number_u32()?),
                end: EventIndex(body.number()?),
            }),
            TRIM => Self::Trim(Floor::take(&mut body)?),
            TOOK_CARRIED => Self::TookCarried {
                end: EventIndex(body.number()?),
            },
            TRIMMED => Self::Took(Taken::Floor(EventIndex(body.number()?))),
            _ => return Err("a message is of no known kind"),
        };
        match body.left() {
            0 => Ok(message),
            _ => Err("bytes follow a message"),
        }
    }
}
