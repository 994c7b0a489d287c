//! Wrong answers of a logger.

use crate::LoggerId;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};
use thiserror::Error;

/// Why an answer of a logger is wrong: nothing of it counts, and the logger is lost to
/// the client until it answers correctly. GATE-3
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It is another logger than the one that was welcomed here.
    #[error(
        "logger {found} answers where logger {expected} was: give each address its own --logger"
    )]
    Logger {
        /// The logger that was welcomed here.
        expected: u32,
        /// The logger that answers.
        found: u32,
    },
    /// Two addresses lead to one logger, which would count twice.
    #[error("logger {id} answers at two addresses: each replica needs a logger of its own")]
    Twice {
        /// Which.
        id: u32,
    },
    /// The acknowledgement is of another rank.
    #[error("it acknowledges determinants of rank {}, this is rank {}", found.0, expected.0)]
    Rank {
        /// Whose they are.
        expected: Rank,
        /// Whose it says they are.
        found: Rank,
    },
    /// The acknowledgement is of another life.
    #[error("it acknowledges determinants of incarnation {}, this is incarnation {}", found.0, expected.0)]
    Incarnation {
        /// Which it is.
        expected: Incarnation,
        /// Which it says.
        found: Incarnation,
    },
    /// It acknowledges what it was not sent, or a part of a batch.
    #[error(
        "it acknowledges determinants before {end}, where no batch ends that it was sent (it was sent those before {sent})"
    )]
    End {
        /// As it says.
        end: EventIndex,
        /// What it was sent.
        sent: EventIndex,
    },
    /// The clock is not the one of the last determinant acknowledged.
    #[error("it gives clock {} for the determinants before {end}, which end with clock {}", found.0, expected.0)]
    Clock {
        /// Which determinants.
        end: EventIndex,
        /// Their last clock.
        expected: Clock,
        /// The one that it names.
        found: Clock,
    },
    /// It has less than what was stable, and no other replica has the rest. EL-3
    #[error(
        "it has lost acknowledged events: it has those before {end}, and was sure to have those before {first_kept}; give it back its folder"
    )]
    LostEvents {
        /// What it has.
        end: EventIndex,
        /// What cannot be sent again.
        first_kept: EventIndex,
    },
    /// It has more than this client ever wrote.
    #[error(
        "it has determinants up to {end}, this client wrote only those before {written}: another process writes for this rank"
    )]
    SomebodyElse {
        /// What it has.
        end: EventIndex,
        /// What was written.
        written: EventIndex,
    },
}

impl Fault {
    /// Checks which logger answers. GATE-3
    pub(super) fn check_logger(expected: LoggerId, found: LoggerId) -> Result<(), Self> {
        if expected == found {
            return Ok(());
        }
        Err(Self::Logger {
            expected: expected.0,
            found: found.0,
        })
    }
}
