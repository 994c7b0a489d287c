//! One peer: the rules of [`Pairing`] with time and greetings around them.

use super::pace::Pace;
use super::pairing::{Pairing, Step};
use super::wire::{Contact, Greeting, Identity, Offer, Stage};
use core::time::Duration;

/// What the caller has to do, in this order. When one fails, it drops the rest of the same
/// call and calls [`Connecting::broke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this to the peer. Whether it arrives does not matter.
    Send(Greeting),
    /// Stop my queue pair, if there still is one, make a fresh one, and pass it to
    /// [`Connecting::offered`] with this generation. Repeated at each tick until then, so
    /// that one that cannot be made now may be made later.
    Replace {
        /// Of the fresh one.
        generation: u32,
    },
    /// Connect my queue pair to theirs, as far as ready to send.
    Bind {
        /// Theirs, of the same generation as mine.
        theirs: Offer,
        /// The port of theirs.
        contact: Contact,
    },
    /// Mine and theirs are bound to each other: sending works from now on.
    Established {
        /// Of both.
        generation: u32,
    },
    /// No greeting has come for [`SILENT_AFTER`](super::SILENT_AFTER) or longer, while one
    /// is expected. Reported once for each silence.
    Silent {
        /// When it was heard last, or when this began.
        since: Duration,
    },
}

/// The connection with one peer, from the first queue pair on, through all that
/// break, until the peer is removed (by dropping this).
///
/// `now` is any clock that never goes back.
#[derive(Clone, Debug)]
pub struct Connecting {
    own: Identity,
    own_contact: Contact,
    their: Identity,
    /// From their newest greeting.
    contact: Option<Contact>,
    pairing: Pairing,
    pace: Pace,
}

impl Connecting {
    /// Begins with the first queue pair; its generation is 1. The first
    /// [`tick`](Self::tick) is due at once.
    pub fn new(
        now: Duration,
        own: Identity,
        own_contact: Contact,
        their: Identity,
        first: Offer,
    ) -> Self {
        Self {
            own,
            own_contact,
            their,
            contact: None,
            pairing: Pairing::new(first),
            pace: Pace::new(now),
        }
    }

    /// Takes in a greeting. A greeting of another sender or for another addressee has no
    /// effect (FENCE-1), nor has an old one.
    pub fn heard(&mut self, now: Duration, greeting: &Greeting, effects: &mut Vec<Effect>) {
        if greeting.from != self.their || greeting.to != self.own {
            return;
        }
        let mut steps = Vec::new();
        let (offer, stage) = (greeting.offer, greeting.stage);
        if !self.pairing.hear(offer, stage, &mut steps) {
            return;
        }
        self.contact = Some(greeting.contact);
        self.pace.expect(now);
        self.carry(now, &steps, effects);
        let is_bound = matches!(steps.first(), Some(Step::Bind { .. }));
        if is_bound {
            self.say(effects, now, Pace::begin_anew);
        } else if greeting.stage != Stage::Established {
            self.say(effects, now, Pace::answered);
        }
    }

    /// My queue pair of this generation broke, or could not be bound.
    pub fn broke(&mut self, now: Duration, generation: u32, effects: &mut Vec<Effect>) {
        let mut steps = Vec::new();
        self.pairing.broke(generation, &mut steps);
        if !steps.is_empty() {
            self.pace.broke(now);
            self.tick(now, effects);
        }
    }

    /// Takes in the queue pair that [`Effect::Replace`] asked for. Returns whether it is
    /// still wanted; if not, nothing has changed, and the caller destroys it.
    #[must_use]
    pub fn offered(&mut self, now: Duration, offer: Offer, effects: &mut Vec<Effect>) -> bool {
        let mut steps = Vec::new();
        let is_wanted = self.pairing.offered(offer, &mut steps);
        if is_wanted {
            self.carry(now, &steps, effects);
            self.say(effects, now, Pace::begin_anew);
        }
        is_wanted
    }

    /// Data arrived on my queue pair of this generation: equivalent to a greeting that
    /// theirs is bound to it.
    pub fn data_arrived(&mut self, now: Duration, generation: u32, effects: &mut Vec<Effect>) {
        let mut steps = Vec::new();
        self.pairing.data_arrived(generation, &mut steps);
        self.carry(now, &steps, effects);
    }

    /// Time has passed. To be called when [`next_tick_at`](Self::next_tick_at) is
    /// over; earlier does no harm.
    pub fn tick(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.pace.next_at().is_none_or(|at| now < at) {
            return;
        }
        if let Some(generation) = self.pairing.wanted() {
            self.pace.repeated(now);
            effects.push(Effect::Replace { generation });
            return;
        }
        self.say(effects, now, Pace::repeated);
        if let Some(since) = self.pace.silent_since(now) {
            effects.push(Effect::Silent { since });
        }
    }

    /// When to tick next; `None` while no greeting is needed.
    pub fn next_tick_at(&self) -> Option<Duration> {
        self.pace.next_at()
    }

    /// When the peer was heard last, or something began to be expected of it.
    pub fn heard_at(&self) -> Duration {
        self.pace.heard_at()
    }

    /// The generation of my queue pair, if there is one now.
    pub fn generation(&self) -> Option<u32> {
        self.pairing.stand().map(|(offer, ..)| offer.generation)
    }

    /// Whether mine and theirs are bound to each other.
    pub fn is_established(&self) -> bool {
        matches!(self.pairing.stand(), Some((_, Stage::Established)))
    }

    fn carry(&mut self, now: Duration, steps: &[Step], effects: &mut Vec<Effect>) {
        for step in steps {
            effects.push(match *step {
                Step::Replace { generation } => {
                    self.pace.expect(now);
                    self.pace.begin_anew(now);
                    Effect::Replace { generation }
                }
                Step::Bind { theirs } => Effect::Bind {
                    theirs,
                    contact: self.contact.expect("their queue pair came with a contact"),
                },
                Step::Established { generation } => {
                    self.pace.rest();
                    Effect::Established { generation }
                }
            });
        }
    }

    /// Sends a greeting with the state of this side, if it has a queue pair; the pace
    /// continues while an answer is needed.
    fn say(
        &mut self,
        effects: &mut Vec<Effect>,
        now: Duration,
        pace: impl FnOnce(&mut Pace, Duration),
    ) {
        let Some((offer, stage)) = self.pairing.stand() else {
            return;
        };
        if stage != Stage::Established {
            pace(&mut self.pace, now);
        }
        effects.push(Effect::Send(Greeting {
            from: self.own,
            to: self.their,
            offer,
            stage,
            contact: self.own_contact,
        }));
    }
}
