//! What is seen of a job: each effect and each answer, as it comes.

use crate::plan::Process;
use crate::program::{Answer, Call};
use refrain_ring::{Clock, Incarnation, Rank, RecordHeader, Ssn};
use refrain_transport::control::Control;
use refrain_transport::protocol::Event;

/// One life of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// Which rank.
    pub rank: Rank,
    /// How often it was started before.
    pub incarnation: Incarnation,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Happening<'a> {
    /// A life begins.
    Began(Life),
    /// A program calls. `clock`: of the operation; of calls that are none, that
    /// of the one before.
    Called(Life, Clock, &'a Call),
    /// A program is answered.
    Answered(Life, Clock, &'a Answer),
    /// An engine tells its protocol of an event.
    Event(Life, Event<'a>),
    /// A frame leaves a rank: from now on others may see it.
    Posted {
        /// Its sender.
        from: Life,
        /// Its receiver.
        to: Rank,
        /// What it says of itself.
        header: &'a RecordHeader,
        /// What it carries.
        payload: &'a [u8],
    },
    /// A control frame leaves a rank.
    PostedControl(Life, Rank, Control),
    /// A frame is handed to an engine.
    Heard {
        /// Whose frame.
        from: Life,
        /// To whom.
        to: Life,
    },
    /// A word that a rank printed is seen by people.
    Seen(Life, u64),
    /// A checkpoint begins to be written.
    CheckpointTaken {
        /// Whose.
        life: Life,
        /// Which: from 1; 0 is the beginning of the program.
        number: u32,
        /// The operation that was the latest.
        clock: Clock,
    },
    /// It can be read back whatever happens from now on.
    CheckpointStable(Rank, u32),
    /// Everybody was told that it and all before it are not needed any more.
    CheckpointsSuperseded(Rank, u32),
    /// The log of a rank gave up what lies before this message.
    Freed {
        /// Whose log.
        sender: Rank,
        /// To whom.
        receiver: Rank,
        /// The first that is kept.
        first: Ssn,
    },
    /// A process is dead.
    Died(Process),
    /// A process is back.
    Restarted(Process),
}

/// What must not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{oracle}: {what}")]
pub struct Breach {
    /// Who saw it.
    pub oracle: &'static str,
    /// What.
    pub what: String,
}
