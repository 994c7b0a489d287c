//! The protocol family (docs/design/protocol.md): its members, and what each member
//! keeps.

use crate::held::Gives;
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
    /// As [`Member::Pessimist`], but the sender of a message keeps the event of its reception:
    /// simple pessimistic logging in Charm++. TICKET-1
    Ticket,
    /// As [`Member::Ticket`], but every reception is an event, as in Charm++: for comparison.
    TicketClassic,
    /// Events travel with messages until another rank holds them, and no message waits: simple
    /// causal logging. CAUSAL-1
    Causal,
    /// As [`Member::Causal`], but every reception is an event, as in Charm++: for comparison.
    CausalClassic,
}

/// Where a protocol makes events stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStore {
    /// Nowhere: it logs none.
    Nowhere,
    /// At the event loggers of the job.
    Loggers,
    /// In the memory of other ranks. TICKET-1, CAUSAL-1
    Ranks(Gives),
}

/// What distinguishes a member.
struct Traits {
    member: Member,
    name: &'static str,
    summary: &'static str,
    events: EventStore,
    /// Whether a reception is an event even if its source was named.
    logs_every_reception: bool,
}

/// One line for each member, in their order.
#[rustfmt::skip]
const TABLE: [Traits; 7] = [
    Traits { member: Member::None, name: "none", events: EventStore::Nowhere, logs_every_reception: false,
        summary: "no logging: the baseline" },
    Traits { member: Member::Pessimist, name: "pessimist", events: EventStore::Loggers, logs_every_reception: false,
        summary: "sender-based payload log; non-deterministic events are stable before a send" },
    Traits { member: Member::PessimistClassic, name: "pessimist-classic", events: EventStore::Loggers, logs_every_reception: true,
        summary: "the same, but every reception is an event, as in MPICH-V2" },
    Traits { member: Member::Ticket, name: "ticket", events: EventStore::Ranks(Gives::AtCommit), logs_every_reception: false,
        summary: "as pessimist, but senders keep the events of their receivers: no event logger" },
    Traits { member: Member::TicketClassic, name: "ticket-classic", events: EventStore::Ranks(Gives::AtCommit), logs_every_reception: true,
        summary: "the same, but every reception is an event, as in Charm++" },
    Traits { member: Member::Causal, name: "causal", events: EventStore::Ranks(Gives::WithMessages), logs_every_reception: false,
        summary: "events travel with messages to ranks that keep them, and no message waits: no event logger" },
    Traits { member: Member::CausalClassic, name: "causal-classic", events: EventStore::Ranks(Gives::WithMessages), logs_every_reception: true,
        summary: "the same, but every reception is an event, as in Charm++" },
];

/// The name of an unknown protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown protocol `{name}`: known are {known}", known = Member::names().join(", "))]
pub struct UnknownProtocol {
    /// The name as given.
    pub name: String,
}

impl Member {
    /// All members.
    pub const ALL: [Member; TABLE.len()] = {
        let mut all = [Member::None; TABLE.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].member;
            assert!(
                all[at] as usize == at,
                "the table is in the order of members"
            );
            at += 1;
        }
        all
    };

    const fn traits(self) -> &'static Traits {
        &TABLE[self as usize]
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// A short description.
    pub const fn summary(self) -> &'static str {
        self.traits().summary
    }

    /// The names of all members.
    pub fn names() -> [&'static str; TABLE.len()] {
        Self::ALL.map(Member::name)
    }

    /// Whether the sender keeps sent messages until a checkpoint of the receiver
    /// covers them. LOG-1, LOG-4
    pub fn keeps_payload(self) -> bool {
        self.logs_events()
    }

    /// Where it makes events stable.
    pub fn events(self) -> EventStore {
        self.traits().events
    }

    /// Whether it makes events stable, and sends wait for them. GATE-1
    pub fn logs_events(self) -> bool {
        self.events() != EventStore::Nowhere
    }

    /// Whether ranks hold each other's events. TICKET-1, CAUSAL-1
    pub fn holds_events_at_ranks(self) -> bool {
        matches!(self.events(), EventStore::Ranks(_))
    }

    /// Whether its events go to the event loggers of a job that has any. CAUSAL-5
    pub fn takes_loggers(self) -> bool {
        self.events() == EventStore::Loggers || self.carries()
    }

    /// Whether messages carry events, and do not wait for them. CAUSAL-1
    pub fn carries(self) -> bool {
        self.events() == EventStore::Ranks(Gives::WithMessages)
    }

    /// Whether a reception is an event even if its source was named.
    pub fn logs_every_reception(self) -> bool {
        self.traits().logs_every_reception
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
            "unknown protocol `optimist`: known are none, pessimist, pessimist-classic, ticket, ticket-classic, causal, causal-classic"
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
