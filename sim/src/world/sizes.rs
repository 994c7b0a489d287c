//! The sizes of explored jobs, and their planted bugs.

use crate::plan::Operation::{self, Any, Checkpoint, From, Send, SendLong, SendMatched};
use crate::plan::{LogPlan, LoggersPlan, NetworkPlan, Plan, WayPlan};
use crate::planted::Planted;
use refrain_eventlog::Level;
use refrain_logging::Member;
use refrain_ring::CHUNK_BYTES;

/// Log memory of a rank, in bytes.
const LOG_BYTES: u64 = 4 * CHUNK_BYTES as u64;

/// The order in which a rank handles news about the lives of another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order in which the launcher sent them.
    AsTheyCame,
    /// In any order: news can be older than what the rank knows.
    Any,
}

/// A job and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The program of each rank.
    pub programs: Vec<Vec<Operation>>,
    /// Maximum number of deaths of ranks; one rank can die several times.
    pub deaths: u8,
    /// The order in which ranks handle news of lives.
    pub order: Order,
    /// Whether ranks read messages in their senders' logs, as over shared memory.
    pub reads_in_place: bool,
    /// The planted bug, if any.
    pub planted: Option<Planted>,
}

impl Size {
    /// The names that [`Size::named`] accepts.
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

    /// A size with two deaths; news arrive in the order of the launcher.
    fn of(programs: Vec<Vec<Operation>>) -> Self {
        Self {
            programs,
            deaths: 2,
            order: Order::AsTheyCame,
            reads_in_place: false,
            planted: None,
        }
    }

    /// Two ranks without checkpoints: messages of two records in both directions, and synchronous
    /// sends. The ranks read in each other's logs.
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

    /// Three ranks; one receives from any source and sends a message that depends on the match. One
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

    /// Two ranks, three checkpoints; one of them is taken while an arrived message is not received
    /// yet.
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

    /// Two ranks; the second checkpoint frees what was sent before more is received. News arrive in
    /// any order.
    pub fn freed() -> Self {
        Self {
            order: Order::Any,
            ..Self::of(vec![
                vec![Send(1), SendMatched(1), From(1)],
                vec![From(0), Checkpoint, Checkpoint, From(0), Send(0)],
            ])
        }
    }

    /// Three ranks, each of which sends to the two others.
    pub fn three() -> Self {
        Self::of(vec![
            vec![SendLong(1), Send(2), From(2)],
            vec![From(0), SendMatched(2)],
            vec![From(0), From(1), Send(0)],
        ])
    }

    /// The plan of a job of this size. It has no loggers: the explorer decides what is stable.
    pub fn plan(&self) -> Plan {
        Plan {
            seed: 1,
            ranks: self.programs.len() as u32,
            protocol: Member::Pessimist,
            whole: None,
            set_of_rank: Vec::new(),
            failures_at_once: 1,
            has_loggers_beside: false,
            rounds: Vec::new(),
            groups: vec![
                (0..self.programs.len() as u32)
                    .map(refrain_ring::Rank)
                    .collect(),
            ],
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
