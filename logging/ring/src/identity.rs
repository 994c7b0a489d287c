//! The names of things: ranks, incarnations, sequence numbers, clocks.
//!
//! All counters are `u64`: none of them wraps in the life of a job.

use core::fmt;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

name!(
    /// One process of the job, numbered from 0.
    Rank(u32)
);
name!(
    /// How often a rank was started, from 0. Everything that a rank puts on a
    /// wire or a disk carries it.
    Incarnation(u32)
);
name!(
    /// Send sequence number: counts the messages of one channel (context,
    /// source, destination) or of one pair of ranks, from 0.
    Ssn(u64)
);
name!(
    /// A rank's count of library operations (send, post, wait, test, probe).
    /// The id of a request is the clock at its post.
    Clock(u64)
);
name!(
    /// A place in one channel's log, in bytes since the channel began. Grows
    /// for ever; memory is reused beneath it.
    Position(u64)
);

impl Rank {
    /// The rank as an index into per-rank tables.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Ssn {
    /// The sequence number of the next message.
    #[inline]
    #[must_use]
    pub fn next(self) -> Ssn {
        Ssn(self.0 + 1)
    }
}
