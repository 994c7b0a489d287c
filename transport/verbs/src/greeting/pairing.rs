//! The rules by which two sides agree on a pair of queue pairs, without time.

use super::wire::{Offer, Stage};

/// One side of a pair.
///
/// Both sides share one count: a generation is one attempt at a pair, and each side makes at most
/// one queue pair for it. So a queue pair can be bound only to its counterpart, even if greetings
/// arrive late or twice. The rules:
///
/// 1. My queue pair is bound to the peer's of the same generation, as soon as I know that one.
/// 2. When my queue pair breaks, I begin the next generation; when I learn of a higher generation,
///    I begin that one. Each time my queue pair ends, and I need a new one.
/// 3. The pair is established for me when my queue pair is bound and I know that the peer's is: by
///    a greeting, or because data arrived on mine.
///
/// The greetings of a side are monotone: the generation grows, and within a generation the queue
/// pair is first fresh and then bound. So the newest greeting is the highest, not the last to
/// arrive; lower ones are old and ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pairing {
    /// The generation of my queue pair, or of the one that is wanted.
    generation: u32,
    /// `None` between [`Step::Replace`] and [`offered`](Pairing::offered).
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

/// An action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// My queue pair has ended; make a new one of this generation.
    Replace {
        /// Generation of the new queue pair.
        generation: u32,
    },
    /// Connect my queue pair to the peer's, which has the same generation.
    Bind {
        /// The peer's queue pair.
        theirs: Offer,
    },
    /// My queue pair and the peer's are bound to each other.
    Established {
        /// Generation of both queue pairs.
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

    /// Handles the peer's queue pair and its stage. Returns whether it counts: an older greeting,
    /// or one that contradicts another, is ignored.
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

    /// Takes the new queue pair that was requested. Returns whether it is still wanted; if not,
    /// nothing has changed, and the caller destroys it.
    #[must_use]
    pub fn offered(&mut self, offer: Offer, steps: &mut Vec<Step>) -> bool {
        if self.wanted() != Some(offer.generation) {
            return false;
        }
        self.mine = Some(Mine::fresh(offer));
        self.settle(steps);
        true
    }

    /// My queue pair of this generation broke. Ignored if that queue pair has ended already, and
    /// for the last of 2^32 generations.
    pub fn broke(&mut self, generation: u32, steps: &mut Vec<Step>) {
        let is_mine = self.mine.is_some() && self.generation == generation;
        if let (true, Some(next)) = (is_mine, generation.checked_add(1)) {
            self.replace(next, steps);
        }
    }

    /// Data arrived on my queue pair of this generation, so the peer's is bound to it.
    pub fn data_arrived(&mut self, generation: u32, steps: &mut Vec<Step>) {
        if let (Some(_), Some(theirs)) = (self.mine, &mut self.theirs)
            && self.generation == generation
            && theirs.offer.generation == generation
        {
            theirs.is_bound = true;
            self.settle(steps);
        }
    }

    /// My queue pair and its stage; `None` while a new one is wanted.
    pub fn stand(&self) -> Option<(Offer, Stage)> {
        self.mine.map(|mine| (mine.offer, mine.stage))
    }

    /// The generation of the wanted queue pair, while there is none.
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
    /// Whether the other side cannot send this state any more, or never could.
    fn is_above(&self, offer: Offer, is_bound: bool) -> bool {
        if offer.generation != self.offer.generation {
            return offer.generation < self.offer.generation;
        }
        offer != self.offer || (self.is_bound && !is_bound)
    }
}
