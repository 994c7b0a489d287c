//! Patterns of traffic between ranks.

use core::fmt;

/// The patterns of MPICH-V2's simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each even rank sends to the next rank, which answers with a sixteenth of the bytes.
    PointToPoint,
    /// Each rank sends to every other rank.
    AllToAll,
    /// Rank 0 sends to all other ranks.
    Broadcast,
    /// All other ranks send to rank 0.
    Reduce,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 4] = [
        Self::PointToPoint,
        Self::AllToAll,
        Self::Broadcast,
        Self::Reduce,
    ];

    /// Bytes that `source` sends to `destination` in a turn, with messages of
    /// `message_bytes`.
    pub fn bytes(self, message_bytes: u64, source: usize, destination: usize) -> u64 {
        let is_sent = match self {
            _ if source == destination => false,
            Self::PointToPoint if source % 2 == 1 && source == destination + 1 => {
                return message_bytes / 16;
            }
            Self::PointToPoint => source.is_multiple_of(2) && destination == source + 1,
            Self::AllToAll => true,
            Self::Broadcast => source == 0,
            Self::Reduce => destination == 0,
        };
        if is_sent { message_bytes } else { 0 }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PointToPoint => "point-to-point",
            Self::AllToAll => "all-to-all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
        })
    }
}
