//! Names: ranks, incarnations, sequence numbers, clocks.
//!
//! All counters are `u64`: none of them wraps in the life of a job.

use core::fmt;
use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[repr(transparent)]
        pub struct $name(pub $inner);
    };
}

macro_rules! prints_its_number {
    ($($name:ident)*) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        })*
    };
}

name!(
    /// One process of the job, numbered from 0.
    Rank(u32)
);
name!(
    /// Number of a life of a rank, from 0. Everything that a rank sends or
    /// writes to disk carries it.
    Incarnation(u32)
);
name!(
    /// A stream of a pair of ranks: 0 holds the program's messages, each other
    /// stream the messages of one internal operation at a time. STREAM-1
    Stream(u16)
);
name!(
    /// Send sequence number: the stream of a pair of ranks in the upper 12 bits,
    /// the count of messages in it, from 0, in the lower 52. Numbers of the
    /// program's messages are plain counts. Only numbers of one stream have an
    /// order. STREAM-1
    Ssn(u64)
);
name!(
    /// A rank's count of library operations (send, post, wait, test, probe).
    /// The id of a request is the clock at its post.
    Clock(u64)
);
name!(
    /// Byte offset in one channel's log since its beginning. It never decreases; memory is
    /// reused meanwhile.
    Position(u64)
);

prints_its_number! { Rank Incarnation Stream Clock Position }

impl fmt::Display for Ssn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.count(), f)?;
        match self.is_program() {
            true => Ok(()),
            false => write!(f, " of stream {}", self.stream()),
        }
    }
}

impl Rank {
    /// The rank as an index into per-rank tables.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Stream {
    /// The stream of the program's messages.
    pub const PROGRAM: Stream = Stream(0);
    /// The stream of results of collectives: in a rank's log to itself those that it keeps, to
    /// another rank those that it is given. WHOLE-2
    pub const RESULTS: Stream = Stream(1);
    /// The lowest stream of an internal operation.
    pub const FIRST_OPERATION: Stream = Stream(2);
    /// The highest stream.
    pub const MAX: Stream = Stream((1 << (64 - Ssn::COUNT_BITS)) - 1);

    /// The index of an internal stream in a table of internal streams.
    ///
    /// # Panics
    /// For [`Stream::PROGRAM`].
    #[inline]
    pub fn internal_index(self) -> usize {
        usize::from(self.0)
            .checked_sub(1)
            .expect("an internal stream")
    }
}

impl Ssn {
    /// Bits of the count.
    pub const COUNT_BITS: u32 = 52;

    /// The first message of a stream.
    #[inline]
    #[must_use]
    pub fn first(stream: Stream) -> Ssn {
        Ssn(u64::from(stream.0) << Self::COUNT_BITS)
    }

    /// The stream.
    #[inline]
    #[must_use]
    pub fn stream(self) -> Stream {
        Stream((self.0 >> Self::COUNT_BITS) as u16)
    }

    /// Number of messages before it in its stream.
    #[inline]
    #[must_use]
    pub fn count(self) -> u64 {
        self.0 & ((1 << Self::COUNT_BITS) - 1)
    }

    /// Whether the message is the program's.
    #[inline]
    #[must_use]
    pub fn is_program(self) -> bool {
        self.0 >> Self::COUNT_BITS == 0
    }

    /// The sequence number of the next message of the stream.
    #[inline]
    #[must_use]
    pub fn next(self) -> Ssn {
        Ssn(self.0 + 1)
    }
}
