//! A rank's place in the job: its life that is there, or what is left of the
//! last.

use super::process::RankProcess;
use crate::happening::Life;
use crate::loggers::LoggerClient;
use crate::mortal::Mortal;
use refrain_logging::store::faulty::LeftFile;
use refrain_ring::Region;

/// What a dead life left behind in its host: it survives the process.
#[derive(Clone, Debug)]
pub struct Remains {
    /// Whose.
    pub life: Life,
    /// The memory of its logs.
    pub memory: Region,
    /// The files of its logs.
    pub files: Vec<LeftFile>,
}

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
    Starting(Joining),
    /// At work.
    Living(Box<RankProcess>),
    /// Dead, until the launcher starts its next life.
    Dead(Life),
    /// A later life, that collects what is needed to go on where the last one
    /// was.
    Returning(Joining),
    /// It has everything. Here recovery joins.
    Recollected(Life, Mortal),
}

impl Seat {
    /// Whose place it is, and which life.
    pub fn life(&self) -> Life {
        match self {
            Self::Starting(joining) | Self::Returning(joining) => joining.life,
            Self::Living(process) => process.life,
            Self::Dead(life) | Self::Recollected(life, _) => *life,
        }
    }

    /// Its death, if it lives.
    pub fn mortal(&self) -> Option<&Mortal> {
        match self {
            Self::Starting(joining) | Self::Returning(joining) => Some(&joining.mortal),
            Self::Living(process) => Some(&process.mortal),
            Self::Recollected(_, mortal) => Some(mortal),
            Self::Dead(_) => None,
        }
    }

    /// Whether it has nothing to do any more.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Living(process) => process.is_finished() && !process.holds_back(),
            Self::Recollected(..) => true,
            Self::Starting(_) | Self::Returning(_) | Self::Dead(_) => false,
        }
    }
}
