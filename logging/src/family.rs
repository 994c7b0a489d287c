//! The protocol family (docs/design/protocol.md): its members, and what each member
//! keeps.

use core::str::FromStr;
use thiserror::Error;

/// A member of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    /// No logging: the baseline of every benchmark.
    None,
    /// Sender-based payload log (LOG-1); only non-deterministic events
    /// go to the event logger, and sends wait for them (GATE-1).
    Pessimist,
    /// As [`Member::Pessimist`], but every reception is an event, as in MPICH-V2: for comparison.
    PessimistClassic,
}

/// The name of an unknown protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown protocol `{name}`: known are {known}", known = Member::names().join(", "))]
pub struct UnknownProtocol {
    /// The name as given.
    pub name: String,
}

impl Member {
    /// All members.
    pub const ALL: [Member; 3] = [Member::None, Member::Pessimist, Member::PessimistClassic];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Member::None => "none",
            Member::Pessimist => "pessimist",
            Member::PessimistClassic => "pessimist-classic",
        }
    }

    /// A short description.
    pub const fn summary(self) -> &'static str {
        match self {
            Member::None => "no logging: the baseline",
            Member::Pessimist => {
                "sender-based payload log; non-deterministic events are stable before a send"
            }
            Member::PessimistClassic => "the same, but every reception is an event, as in MPICH-V2",
        }
    }

    /// The names of all members.
    pub fn names() -> [&'static str; Self::ALL.len()] {
        Self::ALL.map(Member::name)
    }

    /// Whether the sender keeps sent messages until a checkpoint of the receiver
    /// covers them. LOG-1, LOG-4
    pub fn keeps_payload(self) -> bool {
        self != Member::None
    }

    /// Whether events go to an event logger, and sends wait for them. GATE-1
    pub fn logs_events(self) -> bool {
        self != Member::None
    }

    /// Whether a reception is an event even if its source was named.
    pub fn logs_every_reception(self) -> bool {
        self == Member::PessimistClassic
    }
}

impl FromStr for Member {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Self, UnknownProtocol> {
        Self::ALL
            .into_iter()
            .find(|member| member.name() == name)
            .ok_or_else(|| UnknownProtocol { name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_found_by_its_name_and_nothing_else_is() {
        for member in Member::ALL {
            assert_eq!(member.name().parse(), Ok(member));
        }
        let error = "optimist".parse::<Member>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown protocol `optimist`: known are none, pessimist, pessimist-classic"
        );
    }

    #[test]
    fn only_the_baseline_keeps_nothing() {
        for member in Member::ALL {
            assert_eq!(member.keeps_payload(), member != Member::None);
            assert_eq!(member.logs_events(), member != Member::None);
        }
    }
}
