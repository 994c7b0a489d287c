//! How large a job is that is explored, and which bug is in it.

use crate::plan::Operation::{self, Any, Checkpoint, From, Send, SendLong, SendMatched};
use crate::plan::{LogPlan, LoggersPlan, NetworkPlan, Plan, WayPlan};
use crate::planted::Planted;
use refrain_eventlog::Level;
use refrain_logging::Member;
use refrain_ring::CHUNK_BYTES;

/// Log memory of a rank.
const LOG_BYTES: u64 = 4 * CHUNK_BYTES as u64;

/// In which order a rank handles news of the lives of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the launcher tells them.
    AsTheyCame,
    /// In any: what is older than what was told may come, too.
    Any,
}

/// A job, and what may happen to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// What each rank does.
    pub programs: Vec<Vec<Operation>>,
    /// Ranks that die, at most; one may do so more than once.
    pub deaths: u8,
    /// In which order ranks handle news of lives.
    pub order: Order,
    /// Ranks read messages in their senders' logs, as over shared memory.
    pub reads_in_place: bool,
    /// A bug that is to be found.
    pub planted: Option<Planted>,
}

impl Size {
    /// The names that [`Size::named`] knows.
    pub const NAMES: [&str; 6] = ["pair", "order", "any", "saved", "freed", "three"];

    /// The size with this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pair" => Self::pair(),
            "order" => Self::order(),
            "any" => Self::any(),
            "saved" => Self::saved(),
            "freed" => Self::freed(),
            "three" => Self::three(),
            _ => return None,
        })
    }

    /// With two deaths, told as they came.
    fn of(programs: Vec<Vec<Operation>>) -> Self {
        Self {
            programs,
            deaths: 2,
            order: Order::AsTheyCame,
            reads_in_place: false,
            planted: None,
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

    /// Two ranks that handle news of each other's lives in any order.
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

    /// Two ranks; what was sent is freed by the second checkpoint before more is
    /// received.
    /// Told in any order.
    pub fn freed() -> Self {
        Self {
            order: Order::Any,
            ..Self::of(vec![
                vec![Send(1), SendMatched(1), From(1)],
                vec![From(0), Checkpoint, Checkpoint, From(0), Send(0)],
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

    /// As a plan. An explorer says what is stable: there are no loggers.
    pub fn plan(&self) -> Plan {
        Plan {
            seed: 1,
            ranks: self.programs.len() as u32,
            protocol: Member::Pessimist,
            rounds: Vec::new(),
            scripts: self.programs.clone(),
            loggers: LoggersPlan {
                replicas: 0,
                quorum: 0,
                level: Level::Placed,
                way: WayPlan::Messages,
            },
            network: NetworkPlan {
                is_rough: false,
                reads_in_place: self.reads_in_place,
                distant_bytes_min: None,
                is_staged: false,
            },
            log: LogPlan {
                memory_bytes: LOG_BYTES,
                disk_bytes: 0,
            },
            first_clock: 0,
            faults: Vec::new(),
            planted: self.planted,
        }
    }
}
