//! The sizes of explored jobs with events at ranks, and their planted bugs.

use crate::model::Operation::{self, Any, Checkpoint, From, Send};
use refrain_logging::held::Gives;

/// A planted bug in the code around the real cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// The gate never closes.
    GateOpen,
    /// What a dead rank held is given to another rank only when its next life is connected.
    HoldersForgotten,
    /// Survivors count as having made a death good at once.
    RestoredAtOnce,
    /// A later life ignores the carriers in the logs of its earlier lives.
    OwnCarriersForgotten,
    /// What was carried to one rank counts as carried to all.
    CarriedOnce,
    /// A batch is stable with one holder, where two ranks may be gone at once.
    HeldByOne,
    /// Determinants are trimmed below the newest checkpoint, not below the older one.
    TrimAtNewest,
}

/// The bounds of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// When ranks give their batches to others: the protocol.
    pub gives: Gives,
    /// How many ranks may be gone at once: one or two.
    pub failures: usize,
    /// The program of each rank.
    pub programs: Vec<Vec<Operation>>,
    /// Maximum number of deaths, as far as the job survives them; a rank that is gone may die again.
    pub deaths: u8,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
}

impl Size {
    /// The names that [`Size::named`] accepts, each behind `ticket-` or `causal-`.
    pub const NAMES: [&str; 6] = ["small", "two", "chain", "saved", "both", "both-saved"];

    /// The size with this name.
    pub fn named(name: &str) -> Option<Self> {
        let (protocol, programs) = name.split_once('-')?;
        let gives = match protocol {
            "ticket" => Gives::AtCommit,
            "causal" => Gives::WithMessages,
            _ => return None,
        };
        let (programs, failures, deaths) = match programs {
            "small" => (Self::small(), 1, 2),
            "two" => (Self::two(), 1, 2),
            "chain" => (Self::chain(), 1, 1),
            "saved" => (Self::saved(), 1, 2),
            "both" => (Self::small(), 2, 2),
            "both-saved" => (Self::saved(), 2, 2),
            _ => return None,
        };
        Some(Self {
            gives,
            failures,
            programs,
            deaths,
            bug: None,
        })
    }

    /// Two ranks send to a third one, which receives from any source and sends what depends on it.
    fn small() -> Vec<Vec<Operation>> {
        vec![vec![Any, Send(1)], vec![Send(0), From(0)], vec![Send(0)]]
    }

    /// Two ranks, of which each receives from any source: the holder of a batch may only be the
    /// next life of a dead rank.
    fn two() -> Vec<Vec<Operation>> {
        vec![
            vec![Any, Send(1), Any, Send(1)],
            vec![Send(0), Any, Send(0), From(0)],
        ]
    }

    /// Two ranks receive from any source, one after the other: an event depends on another rank's.
    fn chain() -> Vec<Vec<Operation>> {
        vec![
            vec![Any, Send(1), Send(2)],
            vec![Send(0), Any, Send(2)],
            vec![Send(0), Send(1), From(0), From(1)],
        ]
    }

    /// As [`Size::small`] with two receives from any source and two checkpoints.
    fn saved() -> Vec<Vec<Operation>> {
        vec![
            vec![Any, Checkpoint, Any, Checkpoint, Send(1)],
            vec![Send(0), From(0)],
            vec![Send(0)],
        ]
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
