//! What is seen of a job: each effect and each answer, as it comes.

use crate::plan::Process;
use crate::program::{Answer, Call};
use crate::recollect::Saved;
use core::fmt;
use refrain_logging::determinant::Determinant;
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
    /// A later life has what it goes on from, and its program begins to play
    /// again. REC-1, REC-2
    Resumed {
        /// Which.
        life: Life,
        /// From which checkpoint, 0: from the beginning.
        number: u32,
        /// What that contains.
        saved: &'a Saved,
        /// All that happened behind it, as loggers hold it.
        events: &'a [Determinant],
    },
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
    /// The first will hear nothing of the second any more.
    Fenced(Life, Life),
    /// A frame is handed to an engine.
    Heard {
        /// Whose frame.
        from: Life,
        /// To whom.
        to: Life,
    },
    /// A word that a rank printed is seen by people.
    Seen(Life, u64),
    /// A word that people saw in a life before is printed again, and not shown.
    SeenBefore(Life, u64),
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
    /// All peers know that it and all before it are not needed any more.
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

impl Happening<'_> {
    /// A number that tells it from others, for the digest of a run.
    pub fn fingerprint(&self) -> u64 {
        let (kind, life, a, b) = match self {
            Self::Began(life) => (1, *life, 0, 0),
            Self::Called(life, clock, _) => (2, *life, clock.0, 0),
            Self::Answered(life, clock, answer) => (3, *life, clock.0, weight(answer)),
            Self::Event(life, event) => (4, *life, event_clock(event).0, 0),
            Self::Posted {
                from, to, header, ..
            } => (5, *from, u64::from(to.0), header.first_word()),
            Self::PostedControl(life, to, control) => {
                let [_, _, ssn, _] = control.encode(life.rank, life.incarnation);
                (6, *life, u64::from(to.0), ssn)
            }
            Self::Fenced(by, of) => (7, *by, u64::from(of.rank.0), u64::from(of.incarnation.0)),
            Self::Heard { from, to } => (8, *from, u64::from(to.rank.0), 0),
            Self::Seen(life, word) => (9, *life, *word, 0),
            Self::CheckpointTaken {
                life,
                number,
                clock,
            } => (10, *life, u64::from(*number), clock.0),
            Self::CheckpointStable(rank, number) => (11, of(*rank), u64::from(*number), 0),
            Self::CheckpointsSuperseded(rank, number) => (12, of(*rank), u64::from(*number), 0),
            Self::Freed {
                sender,
                receiver,
                first,
            } => (13, of(*sender), u64::from(receiver.0), first.0),
            Self::Died(process) => (14, of(Rank(0)), process_number(*process), 0),
            Self::Restarted(process) => (15, of(Rank(0)), process_number(*process), 0),
            Self::Resumed {
                life,
                number,
                events,
                ..
            } => (16, *life, u64::from(*number), events.len() as u64),
            Self::SeenBefore(life, word) => (17, *life, *word, 0),
        };
        let who = u64::from(life.rank.0) << 40 | u64::from(life.incarnation.0) << 8 | kind;
        [who, a, b].into_iter().fold(0, |sum: u64, word| {
            (sum.rotate_left(29) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd)
        })
    }
}

fn of(rank: Rank) -> Life {
    Life {
        rank,
        incarnation: Incarnation(0),
    }
}

fn process_number(process: Process) -> u64 {
    match process {
        Process::Rank(rank) => u64::from(rank.0),
        Process::Logger(logger) => 1 << 32 | u64::from(logger),
        Process::Checkpoints => 2 << 32,
    }
}

/// When an event happened.
pub fn event_clock(event: &Event<'_>) -> Clock {
    match event {
        Event::Match { at, .. } => *at,
        Event::Probe { clock, .. }
        | Event::Completion { clock, .. }
        | Event::Cancelled { clock, .. }
        | Event::Number { clock, .. }
        | Event::Bytes { clock, .. }
        | Event::Nothing { clock } => *clock,
    }
}

fn weight(answer: &Answer) -> u64 {
    match answer {
        Answer::Begin | Answer::Done => 0,
        Answer::Number(number) => *number as u64,
        Answer::Bytes(bytes) => bytes.iter().fold(bytes.len() as u64, |sum, byte| {
            sum.wrapping_mul(31) + u64::from(*byte)
        }),
        Answer::Posted(request) => u64::from(request.0),
        Answer::Ended(ended) => ended.iter().fold(ended.len() as u64, |sum, ended| {
            sum.wrapping_mul(31) + u64::from(ended.request.0) + ended.bytes
        }),
        Answer::Found(found) => found.map_or(0, |found| found.bytes + 1),
        Answer::Taken(taken) => taken.map_or(0, |(number, _)| u64::from(number.0) + 1),
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        match self.incarnation.0 {
            0 => Ok(()),
            again => write!(f, " (incarnation {again})"),
        }
    }
}

impl fmt::Display for Happening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began(life) => write!(f, "{life} begins"),
            Self::Resumed {
                life,
                number,
                events,
                ..
            } => write!(
                f,
                "{life} goes on from checkpoint {number} with {} records",
                events.len()
            ),
            Self::Called(life, clock, call) => write!(f, "{life} @{clock} {}", brief(call)),
            Self::Answered(life, clock, answer) => {
                write!(f, "{life} @{clock} is told {}", brief(answer))
            }
            Self::Event(life, event) => write!(f, "{life}: event {event:?}"),
            Self::Posted {
                from, to, header, ..
            } => write!(f, "{from} posts to rank {to}: {header:?}"),
            Self::PostedControl(life, to, control) => {
                write!(f, "{life} posts to rank {to}: {control:?}")
            }
            Self::Fenced(by, of) => write!(f, "{by} fences {of}"),
            Self::Heard { from, to } => write!(f, "{to} hears {from}"),
            Self::Seen(life, word) => write!(f, "{life} has printed {word:016x}"),
            Self::SeenBefore(life, word) => write!(f, "{life} prints {word:016x} again"),
            Self::CheckpointTaken {
                life,
                number,
                clock,
            } => write!(f, "{life} takes checkpoint {number} at {clock}"),
            Self::CheckpointStable(rank, number) => {
                write!(f, "checkpoint {number} of rank {rank} is stable")
            }
            Self::CheckpointsSuperseded(rank, number) => {
                write!(
                    f,
                    "checkpoints of rank {rank} up to {number} are not needed"
                )
            }
            Self::Freed {
                sender,
                receiver,
                first,
            } => write!(
                f,
                "the log of rank {sender} to rank {receiver} begins at message {first} now"
            ),
            Self::Died(process) => write!(f, "{process:?} dies"),
            Self::Restarted(process) => write!(f, "{process:?} is started again"),
        }
    }
}

/// Without payloads, which tell a reader nothing.
fn brief(what: &impl fmt::Debug) -> String {
    let mut words = format!("{what:?}");
    while let Some(at) = words.find("payload: [") {
        let end = words[at..]
            .find(']')
            .map_or(words.len(), |end| at + end + 1);
        words.replace_range(at..end, "…");
    }
    words
}
