//! Two endpoints, each with a clock, and a network that loses, repeats, delays and reorders
//! datagrams; queue pairs may break, and making or binding them may fail.

use core::time::Duration;
use refrain_verbs::greeting::{Connecting, Contact, Effect, Greeting, Identity, Offer, Stage};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Probabilities of faults, in parts of 256.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: u8,
    pub repeated: u8,
    /// Binding, or making a queue pair, fails.
    pub failing: u8,
    /// Longest delay of a datagram.
    pub delay_ms_max: u64,
}

#[derive(Clone, Copy, Debug)]
enum Packet {
    Greeting(Greeting),
    /// From the queue pair of a generation to that of another.
    Data(u32, u32),
}

pub struct Network {
    pub now: Duration,
    pub weather: Weather,
    pub sides: [Side; 2],
    random: fastrand::Rng,
    /// By the time of arrival; the number orders packets that arrive at the same time.
    under_way: BTreeMap<(Duration, u64), (usize, Packet)>,
    numbers: u64,
    /// Greetings that were sent.
    pub greetings: usize,
}

pub struct Side {
    pub connecting: Connecting,
    /// The queue pair that each generation was bound to: never two, and never one of another
    /// generation.
    bound: HashMap<u32, Offer>,
    made: HashMap<u32, Offer>,
    pub silences: usize,
}

pub fn identity(side: usize) -> Identity {
    Identity([side as u8 + 1; 16])
}

pub fn contact(side: usize) -> Contact {
    Contact {
        gid: [side as u8; 16],
        lid: 0,
        qpn: 17 + side as u32,
        qkey: 0x1234,
        mtu: 5,
        reads_served: 16,
        reads_asked: 16,
    }
}

pub fn first(side: usize) -> Offer {
    Offer {
        generation: 1,
        qpn: 100 + side as u32,
        psn: 0,
    }
}

impl Network {
    pub fn new(seed: u64, weather: Weather) -> Self {
        let sides = [0, 1].map(|side| Side {
            connecting: Connecting::new(
                Duration::ZERO,
                identity(side),
                contact(side),
                identity(1 - side),
                first(side),
            ),
            bound: HashMap::new(),
            made: HashMap::from([(1, first(side))]),
            silences: 0,
        });
        Self {
            now: Duration::ZERO,
            weather,
            sides,
            random: fastrand::Rng::with_seed(seed),
            under_way: BTreeMap::new(),
            numbers: 0,
            greetings: 0,
        }
    }

    /// Runs until that time, or until both sides are established if `to_pair` is set. Returns
    /// whether they are.
    pub fn run(&mut self, until: Duration, to_pair: bool) -> bool {
        loop {
            let is_pair = self
                .sides
                .iter()
                .all(|side| side.connecting.is_established());
            let arrival = self.under_way.keys().next().map(|(at, _)| *at);
            let ticks = self.sides.iter().map(|side| side.connecting.next_tick_at());
            let next = ticks.chain([arrival]).flatten().min();
            let Some(next) = next.filter(|&at| at <= until && !(to_pair && is_pair)) else {
                if !to_pair {
                    self.now = until;
                }
                return is_pair;
            };
            self.now = self.now.max(next);
            self.tick();
            self.arrive();
        }
    }

    /// The side's queue pair breaks, if it has one.
    pub fn break_at(&mut self, side: usize) {
        if let Some(generation) = self.sides[side].connecting.generation() {
            self.with(side, |connecting, now, effects| {
                connecting.broke(now, generation, effects);
            });
        }
    }

    /// An established side sends data, which arrives or not.
    pub fn send_data(&mut self, side: usize) {
        let own = &self.sides[side];
        if own.connecting.is_established()
            && let Some(generation) = own.connecting.generation()
        {
            let to = own.bound[&generation].generation;
            self.put(1 - side, Packet::Data(generation, to));
        }
    }

    /// Number of greetings in flight.
    pub fn under_way(&self) -> usize {
        let is_greeting = |(_, packet): &&(usize, Packet)| matches!(packet, Packet::Greeting(_));
        self.under_way.values().filter(is_greeting).count()
    }

    /// Checks that both sides are at the same pair.
    pub fn assert_pair(&self) {
        let [one, other] = &self.sides;
        let generation = one.connecting.generation().expect("a queue pair");
        assert_eq!(other.connecting.generation(), Some(generation));
        assert_eq!(one.bound[&generation], other.made[&generation]);
        assert_eq!(other.bound[&generation], one.made[&generation]);
    }

    fn tick(&mut self) {
        for side in 0..2 {
            self.with(side, Connecting::tick);
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= self.now
        {
            let (to, packet) = entry.remove();
            match packet {
                Packet::Greeting(greeting) => {
                    let bytes = greeting.encode();
                    let greeting = Greeting::decode(&bytes).expect("one of ours");
                    self.with(to, |connecting, now, effects| {
                        connecting.heard(now, &greeting, effects);
                    });
                }
                Packet::Data(from, generation) => {
                    let fits = |offer: &Offer| offer.generation == from;
                    if self.sides[to].bound.get(&generation).is_some_and(fits) {
                        self.with(to, |connecting, now, effects| {
                            connecting.data_arrived(now, generation, effects);
                        });
                    }
                }
            }
        }
    }

    fn with(
        &mut self,
        side: usize,
        call: impl FnOnce(&mut Connecting, Duration, &mut Vec<Effect>),
    ) {
        let mut effects = Vec::new();
        call(&mut self.sides[side].connecting, self.now, &mut effects);
        let mut to_do = VecDeque::from(effects);
        while let Some(effect) = to_do.pop_front() {
            let mut further = Vec::new();
            if !self.carry_out(side, effect, &mut further) {
                to_do.clear();
            }
            to_do.extend(further);
        }
    }

    /// Returns whether the action succeeded.
    fn carry_out(&mut self, side: usize, effect: Effect, further: &mut Vec<Effect>) -> bool {
        let fails = self.random.u8(..) < self.weather.failing;
        let (now, own) = (self.now, &mut self.sides[side]);
        match effect {
            Effect::Send(greeting) => {
                let stage = greeting.stage;
                assert!(
                    stage == Stage::Fresh || own.bound.contains_key(&greeting.offer.generation)
                );
                self.greetings += 1;
                self.put(1 - side, Packet::Greeting(greeting));
            }
            Effect::Replace { generation } if !fails => {
                let offer = Offer {
                    generation,
                    qpn: 100 + 2 * generation + side as u32,
                    psn: generation,
                };
                assert_eq!(own.made.insert(generation, offer), None, "made twice");
                assert!(own.connecting.offered(now, offer, further));
            }
            Effect::Bind { .. } if fails => {
                let generation = own.connecting.generation().expect("one to bind");
                own.connecting.broke(now, generation, further);
                return false;
            }
            Effect::Bind {
                theirs,
                contact: of,
            } => {
                let generation = own.connecting.generation().expect("one to bind");
                assert_eq!(of, contact(1 - side));
                assert_eq!(own.bound.insert(generation, theirs), None, "bound twice");
                assert_eq!(self.sides[1 - side].made[&generation], theirs);
            }
            Effect::Established { generation } => {
                let back = self.sides[1 - side].bound.get(&generation);
                assert_eq!(back, self.sides[side].made.get(&generation), "crosswise");
            }
            Effect::Silent { .. } => own.silences += 1,
            Effect::Replace { .. } => {}
        }
        true
    }

    fn put(&mut self, to: usize, packet: Packet) {
        let copies = match self.random.u8(..) {
            dice if dice < self.weather.lost => 0,
            dice if 255 - dice < self.weather.repeated => 3,
            _ => 1,
        };
        for _ in 0..copies {
            let delay = self.random.u64(50..=self.weather.delay_ms_max * 1000 + 50);
            let at = self.now + Duration::from_micros(delay);
            self.under_way.insert((at, self.numbers), (to, packet));
            self.numbers += 1;
        }
    }
}
