//! What a logger can say that cannot be right.

use crate::LoggerId;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};
use thiserror::Error;

/// Why what a logger says is not believed: nothing of it counts, and the logger
/// is lost to the client until it comes back with something better. GATE-3
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It is another logger than the one that was welcomed here.
    #[error(
        "logger {found} answers where logger {expected} was: give each address its own --logger"
    )]
    Logger {
        /// Who it was.
        expected: u32,
        /// Who it says it is.
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
    #[error("it names clock {} for the determinants before {end}, which end with clock {}", found.0, expected.0)]
    Clock {
        /// Which determinants.
        end: EventIndex,
        /// Their last clock.
        expected: Clock,
        /// The one that it names.
        found: Clock,
    },
    /// It has less than what was stable, and nobody else has the rest. EL-3
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
        "it has determinants up to {end}, this client wrote only those before {written}: somebody else writes for this rank"
    )]
    SomebodyElse {
        /// What it has.
        end: EventIndex,
        /// What was written.
        written: EventIndex,
    },
    /// It was away when this life began, and has more than the life began with.
    #[error(
        "it was away when this life of the rank began at {start} and has determinants before {end}: they may be of a dead life, and what would replace them is kept no more; empty its folder"
    )]
    DeadLife {
        /// Where the life began.
        start: EventIndex,
        /// What it has.
        end: EventIndex,
    },
    /// It cannot keep up, and what it lacks is not kept for it any more.
    #[error("it is too slow: {kept_bytes} bytes were kept for it")]
    Slow {
        /// How much was kept.
        kept_bytes: usize,
    },
}

impl Fault {
    /// Checks who acknowledges, and whose life. GATE-3
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
