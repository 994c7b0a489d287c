//! Wrong answers of a logger.

use crate::LoggerId;
use refrain_logging::determinant::EventIndex;
use refrain_ring::Clock;
use thiserror::Error;

/// Why an answer of a logger is wrong. The answer does not count, and the logger is lost to
/// the client until it answers correctly. GATE-3
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Another logger answers than the one that was welcomed here.
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
        /// The logger.
        id: u32,
    },
    /// The acknowledgement is of another rank or life.
    #[error("it acknowledges determinants of {what} {found}, this is {what} {expected}")]
    Whose {
        /// "rank" or "incarnation".
        what: &'static str,
        /// The value of this client.
        expected: u32,
        /// The value in the acknowledgement.
        found: u32,
    },
    /// The logger acknowledges a determinant that it was not sent, or a part of a batch.
    #[error(
        "it acknowledges the determinants before {end}, but no batch that was sent to it ends there (those before {sent} were sent)"
    )]
    End {
        /// The end that it acknowledges.
        end: EventIndex,
        /// The end of what it was sent.
        sent: EventIndex,
    },
    /// The clock is not the one of the last determinant acknowledged.
    #[error("it gives clock {} for the determinants before {end}, which end with clock {}", found.0, expected.0)]
    Clock {
        /// The end of the determinants acknowledged.
        end: EventIndex,
        /// Clock of the last of them.
        expected: Clock,
        /// The clock in the acknowledgement.
        found: Clock,
    },
    /// It has less than it has acknowledged, and no other replica has the rest. EL-3
    #[error(
        "it has lost acknowledged events: it has those before {end}, but had acknowledged those before {first_kept}; restore its folder"
    )]
    LostEvents {
        /// The end of its log.
        end: EventIndex,
        /// The first determinant that can still be sent.
        first_kept: EventIndex,
    },
    /// It has more determinants than this client ever wrote.
    #[error(
        "it has determinants up to {end}, but this client wrote only those before {written}: another process writes for this rank"
    )]
    SomebodyElse {
        /// The end of its log.
        end: EventIndex,
        /// The end of what this client wrote.
        written: EventIndex,
    },
}

impl Fault {
    /// Checks that the expected logger answers. GATE-3
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
