//! What the launcher knows of events that ranks hold for each other: collects those of a dead rank
//! for its next life, and knows when each loss is made good.
//!
//! Survivors answer in any order, some after another death; a next life may ask before or after. A
//! rank counts as *gone* from its death until its next life has joined and its events have as many holders
//! again, and every survivor has given what the dead life held of it to another rank: more failure domains
//! with ranks that are gone than the job tolerates end it. TICKET-2, TICKET-4

use super::tolerance::Tolerance;
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
    /// Holders that have died since they answered.
    dead: BTreeSet<Rank>,
    /// Its next life has asked.
    is_asked: bool,
    /// Its next life has the answers.
    is_answered: bool,
    /// Its next life has joined: before, it waits for all others, holds nothing, and answers nothing.
    has_joined: bool,
    /// Ranks that have not made their part of the loss good; the rank itself: its next life has not
    /// joined, or its events have too few holders.
    to_restore: BTreeSet<Rank>,
    /// Ranks that are gone, too, and of whose events it may have held some: their next lives make that part
    /// good.
    left: BTreeSet<Rank>,
}

/// What other ranks hold of a dead rank, for its next life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The rank.
    pub rank: Rank,
    /// What each holder holds, for [`Collected::of`](super::Collected::of). The rank itself: what a holder
    /// that has died since had given.
    pub held: Vec<(Rank, Vec<u8>)>,
}

/// The events that the ranks of a job hold for each other.
#[derive(Clone, Debug, Default, Hash)]
pub struct Losses {
    /// `None`: ranks hold no events.
    tolerance: Option<Tolerance>,
    /// All ranks have joined: before, no rank holds anything.
    is_begun: bool,
    losses: BTreeMap<Rank, Loss>,
}

impl Losses {
    /// `None`: ranks hold no events.
    pub fn new(tolerance: Option<Tolerance>) -> Self {
        Self {
            tolerance,
            ..Self::default()
        }
    }

    /// All ranks have joined the job.
    pub fn begin(&mut self) {
        self.is_begun = true;
        for loss in self.losses.values_mut() {
            loss.has_joined = true;
        }
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
        let Some(tolerance) = self.tolerance.as_ref().filter(|_| self.is_begun) else {
            return Ok(());
        };
        let is_gone = |(of, loss): (&Rank, &Loss)| loss.is_gone().then_some(*of);
        let mut gone: BTreeSet<_> = self.losses.iter().filter_map(is_gone).collect();
        gone.insert(rank);
        let is_too_much = tolerance.domains(gone.iter().copied()) > tolerance.failures();
        for loss in self.losses.values_mut() {
            // A part of an answer is none.
            if loss.awaited.remove(&rank) {
                loss.held.remove(&rank);
            } else if loss.held.contains_key(&rank) {
                loss.dead.insert(rank);
            }
            // Its part of this loss is left to its next life.
            if loss.to_restore.remove(&rank) {
                loss.left.insert(rank);
            }
        }
        let joins = |of: &Rank| self.losses.get(of).is_some_and(|loss| !loss.has_joined);
        let survivors: BTreeSet<_> = survivors.into_iter().filter(|of| !joins(of)).collect();
        let is_away = |(of, loss): (&Rank, &Loss)| loss.is_away(*of).then_some(*of);
        let away = self.losses.iter().filter_map(is_away);
        let loss = Loss {
            incarnation,
            left: away.filter(|of| *of != rank).collect(),
            awaited: survivors.clone(),
            to_restore: survivors.into_iter().chain([rank]).collect(),
            ..Loss::default()
        };
        self.losses.insert(rank, loss);
        match is_too_much {
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

    /// The next life of a rank has joined: from now on it hears of deaths, and answers.
    pub fn joined(&mut self, rank: Rank) {
        if let Some(loss) = self.losses.get_mut(&rank) {
            loss.has_joined = true;
        }
    }

    /// What a dead life held of `holder` has another holder. `holder` of an own life: the next one
    /// has joined, and its events have as many holders again.
    pub fn restored(&mut self, holder: Rank, of: (Rank, Incarnation)) {
        let loss = self.losses.get_mut(&of.0);
        let Some(loss) = loss.filter(|loss| loss.incarnation == of.1) else {
            return;
        };
        loss.to_restore.remove(&holder);
        if holder == of.0 {
            for loss in self.losses.values_mut() {
                loss.left.remove(&holder);
            }
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
        let (held, dead) = (core::mem::take(&mut loss.held), &loss.dead);
        let living = |holder: Rank| {
            if dead.contains(&holder) {
                *rank
            } else {
                holder
            }
        };
        let held = held.into_iter();
        Some(Answers {
            rank: *rank,
            held: held.map(|(holder, held)| (living(holder), held)).collect(),
        })
    }
}

impl Loss {
    fn is_gone(&self) -> bool {
        !self.is_answered || !self.to_restore.is_empty() || !self.left.is_empty()
    }

    /// Whether the rank's next life has not joined, or its events have too few holders.
    fn is_away(&self, rank: Rank) -> bool {
        !self.is_answered || self.to_restore.contains(&rank)
    }
}
