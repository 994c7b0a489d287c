//! Policies by name.

use core::fmt;
use thiserror::Error;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// No checkpoints.
    None,
    /// All ranks in turn.
    RoundRobin,
    /// The rank whose checkpoint frees the most log bytes per byte of cost, times its waiting time.
    Adaptive,
    /// The rank with the highest ratio of bytes received to bytes sent since its last checkpoint.
    /// This is MPICH-V2's policy, for comparison. A rank that sends much more than it receives may
    /// never be chosen.
    Ratio,
    /// Each rank after an interval; the rank that has waited longest comes first.
    Interval {
        /// The interval in milliseconds, or in the caller's unit.
        every: u64,
    },
}

/// The name of no policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{name:?} is no policy for checkpoints: use none, round-robin, adaptive, ratio or interval"
)]
pub struct NotAPolicy {
    /// The text that was given.
    pub name: String,
}

impl Choice {
    /// The policy with a name. Only [`Choice::Interval`] uses `every`.
    ///
    /// # Errors
    /// [`NotAPolicy`], whose text lists all policies.
    pub fn named(name: &str, every: u64) -> Result<Self, NotAPolicy> {
        let all = [
            Self::None,
            Self::RoundRobin,
            Self::Adaptive,
            Self::Ratio,
            Self::Interval { every },
        ];
        let found = all.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| NotAPolicy { name: name.into() })
    }

    /// The name of the policy.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RoundRobin => "round-robin",
            Self::Adaptive => "adaptive",
            Self::Ratio => "ratio",
            Self::Interval { .. } => "interval",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        for name in ["none", "round-robin", "adaptive", "ratio", "interval"] {
            let choice = Choice::named(name, 250).expect(name);
            assert_eq!(choice.to_string(), name);
        }
        let interval = Choice::named("interval", 250);
        assert_eq!(interval, Ok(Choice::Interval { every: 250 }));
    }

    #[test]
    fn other_names_are_refused_with_what_to_say() {
        for wrong in ["", "Adaptive", "interval:5s", "round robin"] {
            let error = Choice::named(wrong, 1).expect_err(wrong);
            assert!(error.to_string().contains("round-robin, adaptive"));
        }
    }
}
