//! What the launcher knows of events that ranks hold for each other: collects those of a dead rank
//! for its next life, and knows when each loss is made good.
//!
//! Survivors answer in any order, some after another death; a next life may ask before or after. A
//! rank counts as *gone* from its death until its next life has its events and has joined, and every
//! survivor has given what the dead life held of it to another rank: more ranks gone at once than a
//! protocol stands end the job. TICKET-2, TICKET-4

use refrain_ring::{Incarnation, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// What became of a dead life.
#[derive(Clone, Debug, Default, Hash)]
struct Loss {
    incarnation: Incarnation,
    /// Ranks that have not said yet what they hold of it.
    awaited: BTreeSet<Rank>,
    /// What others hold of it, by holder.
    held: BTreeMap<Rank, Vec<u8>>,
    /// Its next life has asked.
    is_asked: bool,
    /// Its next life has the answers.
    is_answered: bool,
    /// Ranks that have not made their part of the loss good; the rank itself: its next life has not
    /// joined, waits for all others, and answers nothing.
    to_restore: BTreeSet<Rank>,
}

/// What other ranks hold of a dead rank, for its next life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The rank.
    pub rank: Rank,
    /// What each holder holds.
    pub held: Vec<(Rank, Vec<u8>)>,
}

/// The events that the ranks of a job hold for each other.
#[derive(Clone, Debug, Default, Hash)]
pub struct Losses {
    /// Ranks that may be gone at once. `None`: ranks hold no events.
    gone_max: Option<usize>,
    /// All ranks have joined: before, no rank holds anything.
    is_begun: bool,
    losses: BTreeMap<Rank, Loss>,
}

impl Losses {
    /// `gone_max`: how many ranks may be gone at once. `None`: ranks hold no events.
    pub fn new(gone_max: Option<usize>) -> Self {
        Self {
            gone_max,
            ..Self::default()
        }
    }

    /// All ranks have joined the job.
    pub fn begin(&mut self) {
        self.is_begun = true;
    }

    /// A life of `rank` is over, and `survivors` were told.
    ///
    /// # Errors
    /// The ranks that are gone, if they are too many: events may be lost.
    pub fn died(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        survivors: impl IntoIterator<Item = Rank>,
    ) -> Result<(), Vec<Rank>> {
        let Some(gone_max) = self.gone_max.filter(|_| self.is_begun) else {
            return Ok(());
        };
        // Also those that this rank was to make good: it cannot any more.
        let is_gone = |(of, loss): (&Rank, &Loss)| loss.is_gone().then_some(*of);
        let mut gone: BTreeSet<_> = self.losses.iter().filter_map(is_gone).collect();
        gone.insert(rank);
        for loss in self.losses.values_mut() {
            // A part of an answer is none.
            if loss.awaited.remove(&rank) {
                loss.held.remove(&rank);
            }
            loss.to_restore.remove(&rank);
        }
        // A rank that is itself still collecting holds nothing, and answers only later.
        let collects = |of: &Rank| self.losses.get(of).is_some_and(|loss| !loss.is_answered);
        let survivors: BTreeSet<_> = survivors.into_iter().filter(|of| !collects(of)).collect();
        let loss = Loss {
            incarnation,
            awaited: survivors.clone(),
            to_restore: survivors.into_iter().chain([rank]).collect(),
            ..Loss::default()
        };
        self.losses.insert(rank, loss);
        match gone.len() > gone_max {
            true => Err(gone.into_iter().collect()),
            false => Ok(()),
        }
    }

    /// A part of what `holder` holds of a dead life. `is_last`: there is no more.
    pub fn held(&mut self, holder: Rank, of: (Rank, Incarnation), part: &[u8], is_last: bool) {
        let loss = self.losses.get_mut(&of.0);
        if let Some(loss) = loss.filter(|loss| loss.incarnation == of.1)
            && loss.awaited.contains(&holder)
        {
            loss.held.entry(holder).or_default().extend_from_slice(part);
            if is_last {
                loss.awaited.remove(&holder);
            }
        }
    }

    /// The next life of a rank asks for its events.
    pub fn asked(&mut self, rank: Rank) {
        // Without a loss, its earlier lives have ended before all ranks had joined.
        self.losses.entry(rank).or_default().is_asked = true;
    }

    /// What a dead life held of `holder` has another holder. `holder` of an own life: the next one
    /// has joined.
    pub fn restored(&mut self, holder: Rank, of: (Rank, Incarnation)) {
        let loss = self.losses.get_mut(&of.0);
        if let Some(loss) = loss.filter(|loss| loss.incarnation == of.1) {
            loss.to_restore.remove(&holder);
        }
    }

    /// Whether a rank is gone: another death may lose events. TICKET-4
    pub fn is_any_gone(&self) -> bool {
        self.losses.values().any(Loss::is_gone)
    }

    /// Events that are complete and that a next life has asked for.
    pub fn next_answers(&mut self) -> Option<Answers> {
        let is_ready = |loss: &Loss| loss.is_asked && loss.awaited.is_empty();
        let (rank, loss) = self.losses.iter_mut().find(|(_, loss)| is_ready(loss))?;
        (loss.is_asked, loss.is_answered) = (false, true);
        let held = core::mem::take(&mut loss.held);
        Some(Answers {
            rank: *rank,
            held: held.into_iter().collect(),
        })
    }
}

impl Loss {
    fn is_gone(&self) -> bool {
        !self.is_answered || !self.to_restore.is_empty()
    }
}
