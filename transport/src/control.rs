//! Control frames: small, unlogged, on a lane of their own.
//!
//! Format (little endian, 56 bytes; the shm fabric puts it behind a sequence
//! word in a 64-byte slot, other fabrics send it as it is):
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind: 1 clear-to-send, 2 matched, 3 horizon, 5 restart, 6 ask-matched, 7 collective, 8 freed, 9 protocol, 10 token, 11 token seen |
//! | 1 | version ([`CONTROL_VERSION`]) |
//! | 2 | collective: the report, 0 to 6; protocol: the number of bytes, 1 to 40; else 0 |
//! | 3 | 0 |
//! | 4..8 | incarnation of the sender |
//! | 8..12 | rank of the sender |
//! | 12..16 | restart: frames of the same kind that go with it, one for each further stream; collective: the context; else 0 |
//! | 16..24 | SSN; collective: its name in the context; protocol: its first bytes; token: the round |
//! | 24..56 | protocol: its further bytes; else 0 |

use refrain_ring::{Incarnation, Rank, Ssn};
use thiserror::Error;

/// Version of the control frame. A reader refuses every other.
pub const CONTROL_VERSION: u8 = 6;
/// Bytes of an encoded control frame.
pub const CONTROL_BYTES: usize = 56;
/// Words of an encoded control frame.
pub const CONTROL_WORDS: usize = CONTROL_BYTES / 8;

/// The content of a control frame from one rank's engine to another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// The announced message is matched: send its payload.
    ClearToSend {
        /// The message, on the channel from the addressee.
        ssn: Ssn,
    },
    /// A synchronous send's message is matched.
    Matched {
        /// The message, on the channel from the addressee.
        ssn: Ssn,
    },
    /// All messages below this number were delivered before a checkpoint that
    /// is stable and published; their log entries may be freed (LOG-4).
    Horizon {
        /// First message that must be kept.
        ssn: Ssn,
    },
    /// The sender or the addressee of this frame is a later life. The frame names, for one stream,
    /// the first message of the addressee that its sender misses. The data lane begins with it.
    /// REC-3, STREAM-3
    Restart {
        /// The message, on the channel from the addressee.
        ssn: Ssn,
        /// Number of `Restart` frames for other streams that go with this one. Of a stream without
        /// a frame, the first missing message is its first one.
        others: u32,
    },
    /// Asks whether a synchronous send's message is matched. The message was sent over an earlier
    /// connection, and is not sent again. The answer is [`Control::Matched`], once it is matched.
    AskMatched {
        /// The message, on the channel to the addressee.
        ssn: Ssn,
    },
    /// A report about collectives whose results are kept.
    Collective {
        /// What is reported.
        report: Report,
        /// The context of the group.
        context: u32,
        /// The collective, or the first one of its kind for which the report does not hold.
        name: u64,
    },
    /// The messages to the addressee below this number belong to closed collectives, and are gone.
    /// WHOLE-4
    Freed {
        /// The first message of its stream that is kept.
        ssn: Ssn,
    },
    /// What the sender's logging protocol tells that of the addressee. GATE-4
    Protocol(Piece),
    /// A round of checkpoints of the correlated set has begun: the sender keeps its messages to the
    /// addressee from now on. SET-2
    Token {
        /// The round.
        round: u64,
    },
    /// The answer to [`Control::Token`]. [`Control::Horizon`] frames before it name the first
    /// messages that have not begun to arrive. SET-2
    TokenSeen {
        /// The round.
        round: u64,
    },
}

/// A piece of what the logging protocols of two ranks tell each other: 1 to [`Piece::BYTES_MAX`]
/// bytes of a stream of bytes that begins with each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    words: [u64; Self::BYTES_MAX / 8],
    bytes: u8,
}

impl Piece {
    /// Maximum number of bytes.
    pub const BYTES_MAX: usize = CONTROL_BYTES - 16;

    /// The first bytes of `stream`, at most [`Piece::BYTES_MAX`].
    ///
    /// # Panics
    /// When there are none.
    pub fn first_of(stream: &[u8]) -> Self {
        let taken = &stream[..stream.len().min(Self::BYTES_MAX)];
        assert!(!taken.is_empty(), "a piece has bytes");
        let mut words = [[0; 8]; Self::BYTES_MAX / 8];
        words.as_flattened_mut()[..taken.len()].copy_from_slice(taken);
        Self {
            words: words.map(u64::from_le_bytes),
            bytes: taken.len() as u8,
        }
    }

    /// The bytes; those after the first [`Piece::count`] are 0.
    pub fn padded(&self) -> [u8; Self::BYTES_MAX] {
        let mut bytes = [0; Self::BYTES_MAX];
        let words = self.words.map(u64::to_le_bytes);
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    /// Number of bytes.
    pub fn count(&self) -> usize {
        self.bytes.into()
    }
}

/// What ranks report to each other about collectives whose results are kept. WHOLE-3, WHOLE-4
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// The sender has finished the collectives before this one.
    Finished,
    /// All members have finished the collectives before this one, and their results are kept.
    Closed,
    /// The sender has freed its messages of the collectives before this one.
    Gone,
    /// A stable checkpoint of the sender covers the collectives before this one.
    Covered,
    /// The sender asks for the result of this collective.
    Ask,
    /// The sender has finished this collective, and its messages are gone.
    Past,
    /// The sender has not finished this collective, which is closed, in its present life.
    Behind,
}

impl Report {
    const ALL: [Self; 7] = [
        Self::Finished,
        Self::Closed,
        Self::Gone,
        Self::Covered,
        Self::Ask,
        Self::Past,
        Self::Behind,
    ];
}

/// Why bytes are not a control frame of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ControlError {
    /// Fewer bytes than a frame has.
    #[error("cut short: {0} of {CONTROL_BYTES} bytes")]
    Short(usize),
    /// Written by another version.
    #[error(
        "version {0}, this program reads version {CONTROL_VERSION}: run the same refrain on every rank"
    )]
    Version(u8),
    /// Not a kind that exists.
    #[error("unknown kind {0}")]
    Kind(u8),
    /// Reserved bytes are not 0.
    #[error("reserved bytes are not zero")]
    Reserved,
}

impl Control {
    /// Encodes the frame with its sender's identity.
    #[inline]
    pub fn encode(self, source: Rank, incarnation: Incarnation) -> [u64; CONTROL_WORDS] {
        let mut others = 0;
        let mut words = [0; Piece::BYTES_MAX / 8];
        let (kind, word) = match self {
            Control::ClearToSend { ssn } => (1, ssn.0),
            Control::Matched { ssn } => (2, ssn.0),
            Control::Horizon { ssn } => (3, ssn.0),
            Control::Restart { ssn, others: more } => {
                others = more;
                (5, ssn.0)
            }
            Control::AskMatched { ssn } => (6, ssn.0),
            Control::Collective {
                report,
                context,
                name,
            } => {
                others = context;
                (7 | (report as u64) << 16, name)
            }
            Control::Freed { ssn } => (8, ssn.0),
            Control::Protocol(piece) => {
                words = piece.words;
                (9 | u64::from(piece.bytes) << 16, piece.words[0])
            }
            Control::Token { round } => (10, round),
            Control::TokenSeen { round } => (11, round),
        };
        let [_, a, b, c, d] = words;
        [
            kind | u64::from(CONTROL_VERSION) << 8 | u64::from(incarnation.0) << 32,
            u64::from(source.0) | u64::from(others) << 32,
            word,
            a,
            b,
            c,
            d,
        ]
    }

    /// Decodes a frame and its sender's identity.
    ///
    /// # Errors
    /// When the words are not a frame that this version can have written.
    #[inline]
    pub fn decode(words: [u64; CONTROL_WORDS]) -> Result<(Self, Rank, Incarnation), ControlError> {
        let [first, source, word, reserved @ ..] = words;
        let version = (first >> 8) as u8;
        if version != CONTROL_VERSION {
            return Err(ControlError::Version(version));
        }
        let (kind, detail) = (first as u8, usize::from((first >> 16) as u8));
        let others = (source >> 32) as u32;
        let is_strange = match kind {
            9 => others != 0 || !is_piece(detail, &words[2..]),
            7 => detail >= Report::ALL.len() || reserved != [0; 4],
            5 => detail != 0 || reserved != [0; 4],
            _ => detail != 0 || others != 0 || reserved != [0; 4],
        };
        if is_strange || (first >> 24) as u8 != 0 {
            return Err(ControlError::Reserved);
        }
        let ssn = Ssn(word);
        let control = match kind {
            1 => Control::ClearToSend { ssn },
            2 => Control::Matched { ssn },
            3 => Control::Horizon { ssn },
            5 => Control::Restart { ssn, others },
            6 => Control::AskMatched { ssn },
            7 => Control::Collective {
                report: Report::ALL[detail],
                context: others,
                name: word,
            },
            8 => Control::Freed { ssn },
            9 => {
                let [a, b, c, d] = reserved;
                Control::Protocol(Piece {
                    words: [word, a, b, c, d],
                    bytes: detail as u8,
                })
            }
            10 => Control::Token { round: word },
            11 => Control::TokenSeen { round: word },
            other => return Err(ControlError::Kind(other)),
        };
        Ok((
            control,
            Rank(source as u32),
            Incarnation((first >> 32) as u32),
        ))
    }

    /// Decodes a frame from the start of `bytes`.
    ///
    /// # Errors
    /// As [`Control::decode`].
    pub fn decode_bytes(bytes: &[u8]) -> Result<(Self, Rank, Incarnation), ControlError> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: &[[u8; 8]; CONTROL_WORDS] = words
            .first_chunk()
            .ok_or(ControlError::Short(bytes.len()))?;
        Self::decode(words.map(u64::from_le_bytes))
    }
}

/// Whether the words can hold a piece of this length: 1 to [`Piece::BYTES_MAX`] bytes, and 0 behind
/// them.
fn is_piece(bytes: usize, words: &[u64]) -> bool {
    let is_after = |at: usize| at >= bytes;
    let mut all = words.iter().flat_map(|word| word.to_le_bytes()).enumerate();
    (1..=Piece::BYTES_MAX).contains(&bytes) && all.all(|(at, byte)| byte == 0 || !is_after(at))
}
