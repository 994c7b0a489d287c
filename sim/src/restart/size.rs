//! How large a job is whose restarts are explored, and which bug is in it.

/// One operation of a rank's program. Each is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends one record to this rank.
    Send(usize),
    /// Sends a message of two records to this rank.
    SendLong(usize),
    /// Sends to this rank, and waits until the message is matched.
    SendMatched(usize),
    /// Receives from any rank.
    Any,
    /// Receives from this rank.
    From(usize),
    /// A checkpoint.
    Checkpoint,
}

/// In which order a rank is told of the lives of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the launcher tells them.
    AsTheyCame,
    /// In any: what is older than what was told may come, too.
    Any,
}

/// A bug of the world around the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// `Restart` names the message after the one that is missing.
    RestartTooFar,
    /// `Restart` names the first message that has not begun to come: one that is
    /// void counts as arrived.
    VoidArrived,
    /// `Restart` names the first message of all.
    RestartFromStart,
    /// A message that comes again counts as the next one.
    DuplicateCounts,
    /// What a dead life said on the control lane is believed.
    StaleRestart,
    /// `AskMatched` is not answered.
    NeverAnswered,
    /// `Up` is lost on a rank that was not told of `Down`.
    UpWithoutDown,
    /// `Down` of an earlier life fences the present one.
    StaleDown,
    /// Of a later life the gate is never shut.
    GateOpenLater,
    /// A later life does not know the last of its records.
    RecordMissing,
    /// A checkpoint is published before it is stable.
    PublishedEarly,
    /// The log is not in the checkpoint.
    LogNotSaved,
    /// A checkpoint takes what has come for what was received.
    UnreceivedSaved,
    /// A checkpoint forgets that the last message of each rank was received.
    ReceivedForgotten,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::RestartTooFar,
        Self::VoidArrived,
        Self::RestartFromStart,
        Self::DuplicateCounts,
        Self::StaleRestart,
        Self::NeverAnswered,
        Self::UpWithoutDown,
        Self::StaleDown,
        Self::GateOpenLater,
        Self::RecordMissing,
        Self::PublishedEarly,
        Self::LogNotSaved,
        Self::UnreceivedSaved,
        Self::ReceivedForgotten,
    ];

    /// A job in which it shows.
    pub fn shown_by(self) -> Size {
        let size = match self {
            Self::RestartTooFar | Self::VoidArrived | Self::StaleRestart | Self::NeverAnswered => {
                Size::pair()
            }
            Self::UpWithoutDown | Self::StaleDown => Size::order(),
            Self::RestartFromStart
            | Self::DuplicateCounts
            | Self::PublishedEarly
            | Self::ReceivedForgotten => Size::freed(),
            Self::LogNotSaved | Self::UnreceivedSaved => Size::saved(),
            Self::GateOpenLater | Self::RecordMissing => Size::any(),
        };
        size.with(self)
    }
}

use Operation::{Any, Checkpoint, From, Send, SendLong, SendMatched};

/// A job, and what may happen to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// What each rank does.
    pub programs: Vec<Vec<Operation>>,
    /// Ranks that die, at most; one may do so more than once.
    pub deaths: u8,
    /// In which order ranks are told of lives.
    pub order: Order,
    /// Ranks read messages in their senders' logs, as over shared memory.
    pub reads_in_place: bool,
    /// A bug that is to be found.
    pub bug: Option<Bug>,
}

impl Size {
    /// The names that [`Size::named`] knows.
    pub const NAMES: [&str; 6] = ["pair", "order", "any", "saved", "freed", "three"];

    /// The size with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "pair" => Some(Self::pair()),
            "order" => Some(Self::order()),
            "any" => Some(Self::any()),
            "saved" => Some(Self::saved()),
            "freed" => Some(Self::freed()),
            "three" => Some(Self::three()),
            _ => None,
        }
    }

    /// With two deaths, told as they came.
    fn of(programs: Vec<Vec<Operation>>) -> Self {
        Self {
            programs,
            deaths: 2,
            order: Order::AsTheyCame,
            reads_in_place: false,
            bug: None,
        }
    }

    /// Two ranks that begin at their beginning: messages of two records both ways,
    /// and such that wait for their match. They read in each other's logs.
    pub fn pair() -> Self {
        Self {
            reads_in_place: true,
            ..Self::of(vec![
                vec![
                    SendLong(1),
                    SendMatched(1),
                    From(1),
                    SendMatched(1),
                    From(1),
                ],
                vec![Send(0), From(0), From(0), SendLong(0), From(0)],
            ])
        }
    }

    /// Two ranks that are told of each other's lives in any order.
    pub fn order() -> Self {
        Self {
            order: Order::Any,
            ..Self::of(vec![
                vec![SendLong(1), SendMatched(1), From(1)],
                vec![From(0), From(0), Send(0)],
            ])
        }
    }

    /// Three ranks; one receives from any, and what it sends depends on it. One
    /// death.
    pub fn any() -> Self {
        Self {
            deaths: 1,
            ..Self::of(vec![
                vec![Any, Send(1), Any],
                vec![SendMatched(0), From(0)],
                vec![Send(0)],
            ])
        }
    }

    /// Two ranks, three checkpoints, one of them while a message has come that is
    /// not received.
    pub fn saved() -> Self {
        Self::of(vec![
            vec![SendLong(1), Send(1), Checkpoint, From(1), Send(1), From(1)],
            vec![
                SendMatched(0),
                From(0),
                Checkpoint,
                From(0),
                Send(0),
                Checkpoint,
                From(0),
            ],
        ])
    }

    /// Two ranks; what was sent is freed by a checkpoint before more is received.
    /// Told in any order.
    pub fn freed() -> Self {
        Self {
            order: Order::Any,
            ..Self::of(vec![
                vec![Send(1), SendMatched(1), From(1)],
                vec![From(0), Checkpoint, From(0), Send(0)],
            ])
        }
    }

    /// Three ranks, each of which says something to the two others.
    pub fn three() -> Self {
        Self::of(vec![
            vec![SendLong(1), Send(2), From(2)],
            vec![From(0), SendMatched(2)],
            vec![From(0), From(1), Send(0)],
        ])
    }

    /// The same with a bug.
    pub fn with(self, bug: Bug) -> Self {
        Self {
            bug: Some(bug),
            ..self
        }
    }
}
