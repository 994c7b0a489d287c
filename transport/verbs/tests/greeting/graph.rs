//! Two sides, and a network that keeps every message that was ever sent and delivers any of them at
//! any time, any number of times, or never. This covers loss, repetition, delay and reordering of
//! any extent.

use refrain_verbs::greeting::{Offer, Pairing, Stage, Step};
use std::collections::{BTreeMap, BTreeSet};

/// A message in the network, which stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// The sender's generation and stage.
    Greeting(u32, Stage),
    /// Data of the queue pair of one generation to the queue pair of another.
    Data(u32, u32),
}

/// A possible next action. Sides are 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The side receives the message.
    Deliver(usize, Message),
    /// The side's queue pair breaks.
    Break(usize),
    /// The side's new queue pair is ready.
    Offer(usize),
}

/// The whole state at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub sides: [Side; 2],
    /// How often a queue pair of each side may still break.
    pub breaks: [u32; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Side {
    pub pairing: Pairing,
    /// All messages that it ever sent, except those that can have no effect any more.
    said: BTreeSet<Message>,
    /// The newest greeting that it accepted.
    heard: (u32, bool),
    /// The generation that each of its generations was bound to, as far as the other side may need
    /// it.
    pub bound: BTreeMap<u32, u32>,
}

/// The queue pair of a side and generation: no two are alike.
fn offer(side: usize, generation: u32) -> Offer {
    Offer {
        generation,
        qpn: 100 * (side as u32 + 1) + generation,
        psn: 1000 * generation,
    }
}

impl World {
    pub fn new(breaks: [u32; 2]) -> Self {
        let sides = [0, 1].map(|side| Side {
            pairing: Pairing::new(offer(side, 1)),
            said: BTreeSet::from([Message::Greeting(1, Stage::Fresh)]),
            heard: (0, false),
            bound: BTreeMap::new(),
        });
        Self { sides, breaks }
    }

    /// All actions that are possible now.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for side in 0..2 {
            let heard = &self.sides[1 - side].said;
            actions.extend(heard.iter().map(|&message| Action::Deliver(side, message)));
            match self.sides[side].pairing.stand() {
                None => actions.push(Action::Offer(side)),
                Some(_) if self.breaks[side] > 0 => actions.push(Action::Break(side)),
                Some(_) => {}
            }
        }
        actions
    }

    /// The state after an action.
    pub fn after(&self, action: Action) -> Self {
        let mut world = self.clone();
        match action {
            Action::Deliver(side, message) => world.deliver(side, message),
            Action::Break(side) => {
                world.breaks[side] -= 1;
                let (mine, _) = world.sides[side].pairing.stand().expect("one to break");
                world.step(side, |pairing, steps| pairing.broke(mine.generation, steps));
            }
            Action::Offer(side) => {
                let generation = world.sides[side].pairing.wanted().expect("one is missing");
                world.step(side, |pairing, steps| {
                    assert!(pairing.offered(offer(side, generation), steps));
                });
            }
        }
        world
    }

    fn deliver(&mut self, side: usize, message: Message) {
        match message {
            Message::Greeting(generation, stage) => {
                let mut counts = false;
                self.step(side, |pairing, steps| {
                    counts = pairing.hear(offer(1 - side, generation), stage, steps);
                });
                if counts {
                    self.sides[side].heard = (generation, stage != Stage::Fresh);
                }
                self.forget(side);
            }
            // A queue pair accepts packets only of the one it is bound to: sequence numbers of
            // others do not fit.
            Message::Data(from, to) => {
                let own = &self.sides[side];
                let newest = own.pairing.stand().map(|(mine, _)| mine.generation);
                if newest == Some(to) && own.bound.get(&to) == Some(&from) {
                    self.step(side, |pairing, steps| pairing.data_arrived(to, steps));
                    self.sides[side].heard = (from, true);
                }
                self.forget(side);
            }
        }
    }

    /// Drops messages to the side that have no effect now and later.
    fn forget(&mut self, side: usize) {
        let [one, other] = &mut self.sides;
        let (own, peer) = if side == 0 {
            (one, other)
        } else {
            (other, one)
        };
        let stand = own.pairing.stand().map(|(mine, _)| mine.generation);
        let newest = stand.or(own.pairing.wanted());
        let heard = own.heard;
        peer.said.retain(|&message| match message {
            Message::Greeting(generation, stage) => (generation, stage != Stage::Fresh) >= heard,
            Message::Data(_, to) => Some(to) >= newest,
        });
        peer.bound.retain(|&generation, _| generation >= heard.0);
    }

    fn step(&mut self, side: usize, call: impl FnOnce(&mut Pairing, &mut Vec<Step>)) {
        let mut steps = Vec::new();
        call(&mut self.sides[side].pairing, &mut steps);
        for step in steps {
            self.check(side, step);
        }
        let own = &mut self.sides[side];
        if let Some((mine, stage)) = own.pairing.stand() {
            own.said.insert(Message::Greeting(mine.generation, stage));
            if stage == Stage::Established {
                let data = Message::Data(mine.generation, own.bound[&mine.generation]);
                own.said.insert(data);
            }
        }
    }

    /// Checks the invariants of each step of a side.
    fn check(&mut self, side: usize, step: Step) {
        match step {
            Step::Bind { theirs } => {
                let (mine, _) = self.sides[side].pairing.stand().expect("one to bind");
                let mine = mine.generation;
                assert_eq!(theirs, offer(1 - side, theirs.generation));
                let before = self.sides[side].bound.insert(mine, theirs.generation);
                assert_eq!(before, None, "bound twice: {self:?}");
            }
            Step::Established { generation: mine } => {
                let theirs = self.sides[side].bound[&mine];
                let back = self.sides[1 - side].bound.get(&theirs);
                assert_eq!(back, Some(&mine), "crosswise: {self:?}");
            }
            Step::Replace { generation } => {
                assert_eq!(self.sides[side].pairing.wanted(), Some(generation));
            }
        }
    }

    /// Each side sends its state to the other once.
    pub fn exchange(&self) -> Self {
        let mut world = self.clone();
        for side in [0, 1, 0] {
            for of in [side, 1 - side] {
                if world.sides[of].pairing.wanted().is_some() {
                    world = world.after(Action::Offer(of));
                }
            }
            let (mine, stage) = world.sides[side].pairing.stand().expect("offered");
            world.deliver(1 - side, Message::Greeting(mine.generation, stage));
        }
        world
    }

    /// Both know that they are bound to each other.
    pub fn is_settled(&self) -> bool {
        let stands = self.sides.iter().map(|side| side.pairing.stand());
        stands
            .flatten()
            .filter(|(_, stage)| *stage == Stage::Established)
            .count()
            == 2
    }
}
