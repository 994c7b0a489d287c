//! The slot of a rank in the job.

use super::RankProcess;
use crate::crash_point::CrashPoint;
use crate::happening::Life;
use crate::world::events::EventStore;
use crate::world::recovery::Collecting;

/// A life that connects to its event loggers.
#[derive(Debug)]
pub struct Joining {
    /// The life.
    pub life: Life,
    /// The death of the process.
    pub crash_point: CrashPoint,
    /// Where its events become stable.
    pub events: EventStore,
}

/// See the [module](self).
#[derive(Debug)]
pub enum RankSlot {
    /// The first life, before its program begins.
    Starting(Box<Joining>),
    /// A running life.
    Living(Box<RankProcess>),
    /// Dead, until the launcher starts its next life.
    Dead(Life),
    /// A later life that collects its checkpoint, records and messages.
    Returning(Box<Collecting>),
}

impl RankSlot {
    /// The life in this slot.
    pub fn life(&self) -> Life {
        match self {
            Self::Starting(joining) => joining.life,
            Self::Returning(collecting) => collecting.joining.life,
            Self::Living(process) => process.life,
            Self::Dead(life) => *life,
        }
    }

    /// The crash point of the life, unless it is dead.
    pub fn crash_point(&self) -> Option<&CrashPoint> {
        match self {
            Self::Starting(joining) => Some(&joining.crash_point),
            Self::Returning(collecting) => Some(&collecting.joining.crash_point),
            Self::Living(process) => Some(&process.crash_point),
            Self::Dead(_) => None,
        }
    }

    /// Whether it has nothing left to do.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Living(process) => process.is_finished() && !process.holds_back(),
            Self::Starting(_) | Self::Returning(_) | Self::Dead(_) => false,
        }
    }
}
