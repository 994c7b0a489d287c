//! Glue: a member of `logging`'s protocol family as the engine wants it.

use refrain_logging::Member;
use refrain_transport::protocol::{Event, Protocol};

/// A protocol at work in one rank.
#[derive(Debug)]
pub(crate) struct Logging {
    member: Member,
}

impl Logging {
    pub(crate) fn new(member: Member) -> Self {
        Self { member }
    }
}

impl Protocol for Logging {
    fn name(&self) -> &'static str {
        self.member.name()
    }

    fn keeps_payload(&self) -> bool {
        self.member.keeps_payload()
    }

    fn event(&mut self, _event: Event<'_>) -> bool {
        // Determinants have nowhere to go before there is an event logger.
        false
    }

    fn stable(&mut self) -> bool {
        true
    }
}
