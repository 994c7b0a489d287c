//! File names of rings: `ring-JOB-rRANK-iINCARNATION`.

use crate::ring::RingIdentity;
use refrain_ring::{Incarnation, Rank};

/// The writer of a ring, as given by its file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingName {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl RingName {
    /// The name of that ring.
    pub fn of(identity: &RingIdentity) -> Self {
        Self {
            job: identity.job,
            rank: identity.rank,
            incarnation: identity.incarnation,
        }
    }

    /// Parses a name; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        let (job, rest) = name.strip_prefix("ring-")?.split_once("-r")?;
        let (rank, incarnation) = rest.split_once("-i")?;
        let parsed = Self {
            job: u64::from_str_radix(job, 16).ok()?,
            rank: Rank(rank.parse().ok()?),
            incarnation: Incarnation(incarnation.parse().ok()?),
        };
        // Each ring has one name: "+1" and "01" are refused.
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl core::fmt::Display for RingName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (rank, incarnation) = (self.rank.0, self.incarnation.0);
        write!(f, "ring-{:016x}-r{rank}-i{incarnation}", self.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_other() {
        let name = RingName {
            job: 0xfeed << 40,
            rank: Rank(u32::MAX),
            incarnation: Incarnation(7),
        };
        assert_eq!(RingName::parse(&name.to_string()), Some(name));
        for other in [
            "ring-",
            "ring-00000000000000ff-r1",
            "ring-00000000000000ff-r01-i0",
            "ring-00000000000000ff-r+1-i0",
            "ring-ff-r1-i0",
            "ring-00000000000000ff-r1-i0~",
            "ring-00000000000000ff-r4294967296-i0",
        ] {
            assert_eq!(RingName::parse(other), None, "{other}");
        }
    }
}
