//! What may happen next, and in which words.

use super::process::Phase;
use super::size::{Joining, Reading, Size};
use super::world::{World, is_to_choose, next_of};
use core::fmt;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A receive from any rank gets a message of `source`.
    Match { rank: usize, source: usize },
    /// The next batch of a rank reaches a replica, which answers.
    Deliver { rank: usize, replica: usize },
    /// The answer reaches the rank.
    Acknowledge { rank: usize, replica: usize },
    /// A life that begins asks a replica what it has.
    Survey { rank: usize, replica: usize },
    /// A replica is asked to let a life in.
    Join {
        rank: usize,
        replica: usize,
        reversed: bool,
    },
    /// A life that is let in by a quorum reads from these two.
    Read { rank: usize, from: [usize; 2] },
    /// A batch of a dead life arrives.
    Late { rank: usize, replica: usize },
    /// An acknowledgement to a dead life arrives.
    StaleAck { rank: usize, replica: usize },
    /// A rank dies, and begins again with one of its two checkpoints.
    Crash { rank: usize, generation: usize },
    /// A logger starts again; what was on its way to and from it is lost.
    Restart { replica: usize },
    /// A logger loses what it has.
    Lose { replica: usize },
}

impl Action {
    /// Whether it need not happen.
    pub(super) fn is_fault(self) -> bool {
        match self {
            Self::Late { .. }
            | Self::StaleAck { .. }
            | Self::Crash { .. }
            | Self::Restart { .. }
            | Self::Lose { .. } => true,
            Self::Match { .. }
            | Self::Deliver { .. }
            | Self::Acknowledge { .. }
            | Self::Survey { .. }
            | Self::Join { .. }
            | Self::Read { .. } => false,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Match { rank, source } => {
                write!(
                    f,
                    "rank {rank} receives from any: a message of rank {source}"
                )
            }
            Self::Deliver { rank, replica } => {
                write!(f, "logger {replica} takes the next batch of rank {rank}")
            }
            Self::Acknowledge { rank, replica } => {
                write!(
                    f,
                    "rank {rank} hears the acknowledgement of logger {replica}"
                )
            }
            Self::Survey { rank, replica } => {
                write!(
                    f,
                    "the new life of rank {rank} asks logger {replica} what it has"
                )
            }
            Self::Join {
                rank,
                replica,
                reversed,
            } => {
                let order = if reversed { ", in reverse" } else { "" };
                write!(
                    f,
                    "logger {replica} is asked to let rank {rank} in (it asks the others{order})"
                )
            }
            Self::Read { rank, from } => {
                write!(
                    f,
                    "rank {rank} reads its determinants from loggers {from:?}"
                )
            }
            Self::Late { rank, replica } => {
                write!(
                    f,
                    "a batch of a dead life of rank {rank} reaches logger {replica}"
                )
            }
            Self::StaleAck { rank, replica } => write!(
                f,
                "an acknowledgement of logger {replica} to a dead life reaches rank {rank}"
            ),
            Self::Crash { rank, generation } => {
                let which = ["older", "newest"][generation];
                write!(
                    f,
                    "rank {rank} dies and begins again with its {which} checkpoint"
                )
            }
            Self::Restart { replica } => write!(f, "logger {replica} starts again"),
            Self::Lose { replica } => write!(f, "logger {replica} loses what it has"),
        }
    }
}

impl World {
    pub(super) fn actions(&self, size: &Size) -> Vec<Action> {
        let mut all = Vec::new();
        for rank in 0..self.ranks.len() {
            self.add_choices(rank, size, &mut all);
            for replica in 0..size.replicas {
                self.add_between(rank, replica, size, &mut all);
            }
            self.add_crashes(rank, &mut all);
        }
        for replica in 0..size.replicas {
            if self.budget.logger_restarts > 0 {
                all.push(Action::Restart { replica });
            }
            if self.budget.losses > 0 && self.is_superfluous(replica) {
                all.push(Action::Lose { replica });
            }
        }
        all
    }

    fn add_choices(&self, rank: usize, size: &Size, all: &mut Vec<Action>) {
        let process = &self.ranks[rank];
        if is_to_choose(process, size.programs[rank].get(process.at.place)) {
            let is_here = |source: &usize| next_of(process, *source).is_some();
            let sources = (0..self.ranks.len()).filter(is_here);
            all.extend(sources.map(|source| Action::Match { rank, source }));
        }
        if size.reading == Reading::AnyOfEveryQuorum && self.is_joined(rank) {
            let pairs = (0..size.replicas).flat_map(|one| (0..one).map(move |other| [other, one]));
            all.extend(pairs.map(|from| Action::Read { rank, from }));
        }
    }

    fn add_between(&self, rank: usize, replica: usize, size: &Size, all: &mut Vec<Action>) {
        let process = &self.ranks[rank];
        let shelf = &self.shelves[replica][rank];
        let Some(committer) = process.committer() else {
            return;
        };
        let is_seeking = matches!(process.phase, Phase::Seeking(_));
        if committer.is_lost(replica) {
            match committer.start() {
                None if is_seeking => all.push(Action::Survey { rank, replica }),
                _ => {
                    let orders = match size.joining {
                        Joining::FirstKept => 2,
                        Joining::Marked => 1,
                    };
                    let orders = [false, true].into_iter().take(orders);
                    all.extend(orders.map(|reversed| Action::Join {
                        rank,
                        replica,
                        reversed,
                    }));
                }
            }
        }
        if committer.next_for(replica).is_some() {
            all.push(Action::Deliver { rank, replica });
        }
        if shelf.ack.is_some() {
            all.push(Action::Acknowledge { rank, replica });
        }
        if size.stale_acks && shelf.stale_ack.is_some() && committer.is_live(replica) {
            all.push(Action::StaleAck { rank, replica });
        }
        if !shelf.late.is_empty() {
            all.push(Action::Late { rank, replica });
        }
    }

    fn add_crashes(&self, rank: usize, all: &mut Vec<Action>) {
        if self.budget.crashes == 0 {
            return;
        }
        let [older, newest] = &self.ranks[rank].checkpoints;
        all.push(Action::Crash {
            rank,
            generation: 1,
        });
        if older != newest {
            all.push(Action::Crash {
                rank,
                generation: 0,
            });
        }
    }

    /// Whether all others have what this one has: then it may be lost.
    fn is_superfluous(&self, replica: usize) -> bool {
        let mine = &self.shelves[replica];
        let mut others = self.shelves.iter().enumerate();
        others.all(|(other, theirs)| {
            let mut rows = mine.iter().zip(theirs);
            other == replica || rows.all(|(mine, theirs)| mine.row_end() <= theirs.row_end())
        })
    }
}
