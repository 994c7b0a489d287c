//! The connection to one peer: adds time and greetings to the rules of [`Pairing`].

use super::pace::Pace;
use super::pairing::{Pairing, Step};
use super::wire::{Contact, Greeting, Identity, Offer, Stage};
use core::time::Duration;

/// The actions of the caller, in this order. When an action fails, the caller drops the remaining
/// actions of the same call and calls [`Connecting::broke`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this greeting to the peer. It may be lost.
    Send(Greeting),
    /// Stop my queue pair, if there still is one, make a new one of this generation, and pass it to
    /// [`Connecting::offered`]. Repeated at each tick until then, in case that no queue pair can be
    /// made now.
    Replace {
        /// Generation of the new queue pair.
        generation: u32,
    },
    /// Connect my queue pair to the peer's, until it is ready to send.
    Bind {
        /// The peer's queue pair, of the same generation as mine.
        theirs: Offer,
        /// The port of the peer's queue pair.
        contact: Contact,
    },
    /// My queue pair and the peer's are bound to each other: sending works from now on.
    Established {
        /// Generation of both queue pairs.
        generation: u32,
    },
    /// No greeting has arrived for [`SILENT_AFTER`](super::SILENT_AFTER) or longer, while one is
    /// expected. Reported once for each silence.
    Silent {
        /// The time of the last greeting, or of the beginning of the wait.
        since: Duration,
    },
}

/// The connection to one peer, from the first queue pair through all replacements, until the peer
/// is removed (by dropping this value).
///
/// `now` is a clock that never goes back.
#[derive(Clone, Debug)]
pub struct Connecting {
    own: Identity,
    own_contact: Contact,
    their: Identity,
    /// The contact in the peer's newest greeting.
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

    /// Handles a greeting. A greeting of another sender or to another addressee has no effect
    /// (FENCE-1), and neither has an old one.
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

    /// Takes the queue pair that [`Effect::Replace`] requested. Returns whether it is still wanted;
    /// if not, nothing has changed, and the caller destroys it.
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

    /// Data arrived on my queue pair of this generation. That proves that the peer's queue pair is
    /// bound to it, as a greeting would.
    pub fn data_arrived(&mut self, now: Duration, generation: u32, effects: &mut Vec<Effect>) {
        let mut steps = Vec::new();
        self.pairing.data_arrived(generation, &mut steps);
        self.carry(now, &steps, effects);
    }

    /// Advances the time. Call it at [`next_tick_at`](Self::next_tick_at); an earlier call does
    /// nothing.
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

    /// The time of the next tick; `None` while no greeting is needed.
    pub fn next_tick_at(&self) -> Option<Duration> {
        self.pace.next_at()
    }

    /// The time when the last greeting arrived, or when one began to be expected.
    pub fn heard_at(&self) -> Duration {
        self.pace.heard_at()
    }

    /// The generation of my queue pair, if there is one now.
    pub fn generation(&self) -> Option<u32> {
        self.pairing.stand().map(|(offer, ..)| offer.generation)
    }

    /// Whether my queue pair and the peer's are bound to each other.
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

    /// Sends a greeting with the state of this side, if it has a queue pair. The timer continues
    /// while an answer is needed.
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
