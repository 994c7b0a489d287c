//! The rules by which two sides come to a pair, without time.

use super::wire::{Offer, Stage};

/// One side of a pair.
///
/// Both sides count in common: a generation is one attempt at a pair, and each
/// side makes at most one queue pair for it. So a queue pair can only be bound to
/// the one it belongs with, whatever comes late or twice. The rules:
///
/// 1. Mine is bound to theirs of the same generation, as soon as I know that one.
/// 2. When mine breaks I begin the next generation; when I hear of a higher one than
///    mine, that one. Each time I need a fresh queue pair, and mine is over.
/// 3. The pair is established for me when mine is bound and I know that theirs is:
///    by a greeting, or because data arrived on mine.
///
/// The greetings of a side are monotone: the generation grows, and within one the queue
/// pair is first fresh and then bound. So the newest greeting is the highest, not the last
/// to arrive; everything below is old and ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pairing {
    /// Of my queue pair, or of the one that is wanted.
    generation: u32,
    /// None from a [`Step::Replace`] until [`offered`](Pairing::offered).
    mine: Option<Mine>,
    theirs: Option<Theirs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mine {
    offer: Offer,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Theirs {
    offer: Offer,
    is_bound: bool,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// My queue pair is over; a fresh one of this generation is wanted.
    Replace {
        /// Of the fresh one.
        generation: u32,
    },
    /// My queue pair is connected to theirs, which is of the same generation.
    Bind {
        /// Theirs.
        theirs: Offer,
    },
    /// Mine and theirs are bound to each other.
    Established {
        /// Of both.
        generation: u32,
    },
}

impl Pairing {
    /// A side with its first queue pair.
    pub fn new(first: Offer) -> Self {
        Self {
            generation: first.generation,
            mine: Some(Mine::fresh(first)),
            theirs: None,
        }
    }

    /// Takes in the other side's queue pair and its stage. Returns whether it counts: a
    /// greeting that is older than another, or contradicts it, is ignored.
    pub fn hear(&mut self, offer: Offer, stage: Stage, steps: &mut Vec<Step>) -> bool {
        let is_bound = stage != Stage::Fresh;
        if let Some(known) = self.theirs
            && known.is_above(offer, is_bound)
        {
            return false;
        }
        self.theirs = Some(Theirs { offer, is_bound });
        if offer.generation > self.generation {
            self.replace(offer.generation, steps);
        } else {
            self.settle(steps);
        }
        true
    }

    /// Takes in the fresh queue pair that was asked for. Returns whether it is still
    /// wanted; if not, nothing has changed, and the caller destroys it.
    #[must_use]
    pub fn offered(&mut self, offer: Offer, steps: &mut Vec<Step>) -> bool {
        if self.wanted() != Some(offer.generation) {
            return false;
        }
        self.mine = Some(Mine::fresh(offer));
        self.settle(steps);
        true
    }

    /// My queue pair of this generation broke. It is ignored if it is over already, and if
    /// it is the last of 2^32, which stays as it is.
    pub fn broke(&mut self, generation: u32, steps: &mut Vec<Step>) {
        let is_mine = self.mine.is_some() && self.generation == generation;
        if let (true, Some(next)) = (is_mine, generation.checked_add(1)) {
            self.replace(next, steps);
        }
    }

    /// Data arrived on my queue pair of this generation: theirs is bound to it.
    pub fn data_arrived(&mut self, generation: u32, steps: &mut Vec<Step>) {
        if let (Some(_), Some(theirs)) = (self.mine, &mut self.theirs)
            && self.generation == generation
            && theirs.offer.generation == generation
        {
            theirs.is_bound = true;
            self.settle(steps);
        }
    }

    /// My queue pair and its stage; `None` while one is wanted.
    pub fn stand(&self) -> Option<(Offer, Stage)> {
        self.mine.map(|mine| (mine.offer, mine.stage))
    }

    /// The generation of the queue pair that is wanted, while there is none.
    pub fn wanted(&self) -> Option<u32> {
        self.mine.is_none().then_some(self.generation)
    }

    fn settle(&mut self, steps: &mut Vec<Step>) {
        let (Some(mine), Some(theirs)) = (&mut self.mine, self.theirs) else {
            return;
        };
        if theirs.offer.generation != self.generation {
            return;
        }
        if mine.stage == Stage::Fresh {
            mine.stage = Stage::Bound;
            steps.push(Step::Bind {
                theirs: theirs.offer,
            });
        }
        if mine.stage == Stage::Bound && theirs.is_bound {
            mine.stage = Stage::Established;
            steps.push(Step::Established {
                generation: self.generation,
            });
        }
    }

    fn replace(&mut self, generation: u32, steps: &mut Vec<Step>) {
        self.mine = None;
        self.generation = generation;
        steps.push(Step::Replace { generation });
    }
}

impl Mine {
    fn fresh(offer: Offer) -> Self {
        Self {
            offer,
            stage: Stage::Fresh,
        }
    }
}

impl Theirs {
    /// Whether their side cannot send the other state any more, or never could.
    fn is_above(&self, offer: Offer, is_bound: bool) -> bool {
        if offer.generation != self.offer.generation {
            return offer.generation < self.offer.generation;
        }
        offer != self.offer || (self.is_bound && !is_bound)
    }
}
