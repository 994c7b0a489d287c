//! A rank's place in the job: its life that is there, or what is left of the
//! last.

use super::process::RankProcess;
use super::recollecting::Collecting;
use crate::happening::Life;
use crate::loggers::LoggerClient;
use crate::mortal::Mortal;

/// A life that joins its event loggers.
#[derive(Debug)]
pub struct Joining {
    /// Which.
    pub life: Life,
    /// Its death.
    pub mortal: Mortal,
    /// Its client, until a quorum has answered.
    pub client: LoggerClient,
}

/// See the [module](self).
#[derive(Debug)]
pub enum Seat {
    /// The first life, before its program begins.
    Starting(Box<Joining>),
    /// At work.
    Living(Box<RankProcess>),
    /// Dead, until the launcher starts its next life.
    Dead(Life),
    /// A later life, that collects what is needed to go on where the last one
    /// was.
    Returning(Box<Collecting>),
}

impl Seat {
    /// Whose place it is, and which life.
    pub fn life(&self) -> Life {
        match self {
            Self::Starting(joining) => joining.life,
            Self::Returning(collecting) => collecting.joining.life,
            Self::Living(process) => process.life,
            Self::Dead(life) => *life,
        }
    }

    /// Its death, if it lives.
    pub fn mortal(&self) -> Option<&Mortal> {
        match self {
            Self::Starting(joining) => Some(&joining.mortal),
            Self::Returning(collecting) => Some(&collecting.joining.mortal),
            Self::Living(process) => Some(&process.mortal),
            Self::Dead(_) => None,
        }
    }

    /// Whether it has nothing to do any more.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Living(process) => process.is_finished() && !process.holds_back(),
            Self::Starting(_) | Self::Returning(_) | Self::Dead(_) => false,
        }
    }
}
