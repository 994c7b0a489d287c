//! Two ranks over a network that loses, doubles, delays and reorders.

use super::*;
use core::time::Duration;
use proptest::prelude::*;
use refrain_ring::Position;
use std::collections::VecDeque;

const CREDITS: u64 = 8;
const CONTROL_CREDITS: u64 = 4;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Data { sequence: u64, offset: usize },
    Distant { sequence: u64, offset: usize },
    Control { sequence: u64, word: u64 },
    Acknowledge,
    Again,
    Ask { next: u64, control_next: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Message {
    kind: Kind,
    counters: Counters,
}

/// How the network treats the next message.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Doubled,
    /// It overtakes the previous message.
    Overtakes,
    /// The sender's provider reports an error, and the message is lost.
    Fails,
}

/// The next step of the test.
#[derive(Clone, Copy, Debug)]
enum Act {
    Post { side: bool, distant: bool },
    Control { side: bool },
    Deliver { side: bool, fate: Fate },
    LetGo { side: bool, index: usize },
    Idle { side: bool },
    Tick { millis: u64 },
}

struct Side {
    sending: Sending,
    receiving: Receiving,
    patience: Patience,
    posted: u64,
    controls_posted: u64,
    /// Offsets taken, in order; the offset of each frame is its number.
    taken: Vec<usize>,
    controls_taken: Vec<u64>,
    holding: Vec<u64>,
    /// Messages in flight from this side.
    wire: VecDeque<Message>,
}

impl Side {
    fn new() -> Self {
        Self {
            sending: Sending::new(CREDITS, CONTROL_CREDITS),
            receiving: Receiving::new(CREDITS, CONTROL_CREDITS, 1 << 20),
            patience: Patience::new(Duration::from_secs(1_000_000), None),
            posted: 0,
            controls_posted: 0,
            taken: Vec::new(),
            controls_taken: Vec::new(),
            holding: Vec::new(),
            wire: VecDeque::new(),
        }
    }

    fn send(&mut self, kind: Kind) {
        let counters = self.receiving.counters();
        self.wire.push_back(Message { kind, counters });
        self.receiving
            .reported(counters, matches!(kind, Kind::Again));
    }

    fn post(&mut self, distant: bool) {
        if !self.sending.may_post() || self.patience.holds_back() {
            return;
        }
        let (sequence, offset) = (self.sending.next(), self.posted as usize);
        self.posted += 1;
        self.send(data(sequence, offset, distant));
        self.sending.posted(Sent {
            offset,
            bytes: 100,
            distant,
            end: Position(self.posted * 64),
            under_way: 0,
        });
    }

    fn control(&mut self) {
        if self
            .sending
            .push_control([self.controls_posted, 0, 0, 0, 0, 0, 0])
        {
            self.controls_posted += 1;
        }
        self.pump();
    }

    /// Sends everything that waits: frames again, control frames, acknowledgements.
    fn pump(&mut self) {
        if self.patience.holds_back() {
            return;
        }
        while let Some((sequence, sent)) = self.sending.to_resend() {
            self.send(data(sequence, sent.offset, sent.distant));
            self.sending.resent(0);
        }
        while let Some((sequence, [word, ..])) = self.sending.next_control() {
            self.send(Kind::Control { sequence, word });
            self.sending.control_sent();
        }
    }

    fn acknowledge(&mut self, at_least: Owed) {
        if self.receiving.misses() {
            self.send(Kind::Again);
        } else if self.receiving.owed() >= at_least {
            self.send(Kind::Acknowledge);
        }
    }

    fn arrive(&mut self, message: Message) {
        let news = self
            .sending
            .acknowledged(message.counters)
            .expect("no overclaim");
        self.patience.heard(news);
        match message.kind {
            Kind::Data { sequence, offset } => {
                if self.receiving.is_next(sequence) {
                    self.receiving.took(100);
                    self.taken.push(offset);
                }
            }
            Kind::Distant { sequence, offset } => {
                if self.receiving.is_next(sequence) {
                    let held = self.receiving.took_distant(offset as u64, 100);
                    self.holding.push(held);
                    self.taken.push(offset);
                }
            }
            Kind::Control { sequence, word } => {
                if self.receiving.is_next_control(sequence) {
                    self.receiving.took_control();
                    self.controls_taken.push(word);
                }
            }
            Kind::Acknowledge => {}
            Kind::Again => self.sending.go_back(),
            Kind::Ask { next, control_next } => self.receiving.asked(next, control_next),
        }
        self.acknowledge(Owed::Now);
        self.pump();
    }

    fn step(&mut self, now: Duration) {
        match self.patience.step(now, self.sending.is_unanswered()) {
            Step::Nothing => {}
            Step::Ask => {
                let (next, control_next) = self.sending.next_numbers();
                self.send(Kind::Ask { next, control_next });
            }
            Step::Resend => self.sending.go_back(),
            Step::Lost(_) | Step::Silent(_) => panic!("no peer is lost here"),
        }
        self.pump();
        self.acknowledge(Owed::WhenIdle);
    }
}

fn data(sequence: u64, offset: usize, distant: bool) -> Kind {
    if distant {
        Kind::Distant { sequence, offset }
    } else {
        Kind::Data { sequence, offset }
    }
}

struct Pair {
    sides: [Side; 2],
    now: Duration,
}

impl Pair {
    fn deliver(&mut self, from: usize, fate: Fate) {
        let wire = &mut self.sides[from].wire;
        if matches!(fate, Fate::Overtakes) && wire.len() > 1 {
            wire.swap(0, 1);
        }
        let Some(message) = wire.pop_front() else {
            return;
        };
        match fate {
            Fate::Arrives | Fate::Overtakes => self.sides[1 - from].arrive(message),
            Fate::Doubled => {
                self.sides[1 - from].arrive(message);
                self.sides[1 - from].arrive(message);
            }
            Fate::Lost => {}
            Fate::Fails => self.sides[from].patience.failed(self.now),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Post { side, distant } => self.sides[usize::from(side)].post(distant),
            Act::Control { side } => self.sides[usize::from(side)].control(),
            Act::Deliver { side, fate } => self.deliver(usize::from(side), fate),
            Act::LetGo { side, index } => {
                let side = &mut self.sides[usize::from(side)];
                if !side.holding.is_empty() {
                    let held = side.holding.swap_remove(index % side.holding.len());
                    assert!(side.receiving.held(held).is_some(), "it is held");
                    side.receiving.let_go(held);
                    assert!(side.receiving.held(held).is_none(), "it is let go");
                }
            }
            Act::Idle { side } => self.sides[usize::from(side)].acknowledge(Owed::WhenIdle),
            Act::Tick { millis } => {
                self.now += Duration::from_millis(millis);
                let now = self.now;
                self.sides.iter_mut().for_each(|side| side.step(now));
            }
        }
        self.check();
    }

    /// Safety, after every step.
    fn check(&self) {
        for (me, side) in self.sides.iter().enumerate() {
            let peer = &self.sides[1 - me];
            let in_order = |count: u64| (0..count).map(|n| n as usize).collect::<Vec<_>>();
            assert_eq!(side.taken, in_order(side.taken.len() as u64));
            assert_eq!(
                side.controls_taken,
                (0..side.controls_taken.len() as u64).collect::<Vec<_>>()
            );
            assert!(side.taken.len() as u64 <= peer.posted);
            let needed = side.holding.iter().min().copied();
            let needed = needed.unwrap_or(side.taken.len() as u64);
            let released = peer.sending.released().0 / 64;
            assert!(
                released <= needed,
                "frame {needed} is needed, {released} frames are released"
            );
            assert!(side.posted - peer.taken.len() as u64 <= CREDITS, "credits");
        }
    }

    /// Liveness: without faults everything arrives and is released.
    fn settle(&mut self) {
        for side in &mut self.sides {
            while let Some(held) = side.holding.pop() {
                side.receiving.let_go(held);
            }
        }
        for _ in 0..400 {
            for from in 0..2 {
                while !self.sides[from].wire.is_empty() {
                    self.deliver(from, Fate::Arrives);
                    let peer = &mut self.sides[1 - from];
                    while let Some(held) = peer.holding.pop() {
                        peer.receiving.let_go(held);
                    }
                }
            }
            self.act(Act::Tick { millis: 1000 });
            if self
                .sides
                .iter()
                .all(|side| side.wire.is_empty() && !side.sending.is_needed())
            {
                return;
            }
        }
        panic!("the lanes do not come to rest");
    }
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Doubled),
        1 => Just(Fate::Overtakes),
        1 => Just(Fate::Fails),
    ]
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(side, distant)| Act::Post { side, distant }),
        1 => any::<bool>().prop_map(|side| Act::Control { side }),
        6 => (any::<bool>(), fates()).prop_map(|(side, fate)| Act::Deliver { side, fate }),
        2 => (any::<bool>(), 0..8_usize).prop_map(|(side, index)| Act::LetGo { side, index }),
        1 => any::<bool>().prop_map(|side| Act::Idle { side }),
        1 => (1..500_u64).prop_map(|millis| Act::Tick { millis }),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_released_too_early(
        script in proptest::collection::vec(acts(), 0..400)
    ) {
        let mut pair = Pair { sides: [Side::new(), Side::new()], now: Duration::ZERO };
        for act in script {
            pair.act(act);
        }
        pair.settle();
        for me in 0..2 {
            let (side, peer) = (&pair.sides[me], &pair.sides[1 - me]);
            prop_assert_eq!(peer.taken.len() as u64, side.posted);
            prop_assert_eq!(peer.controls_taken.len() as u64, side.controls_posted);
            prop_assert_eq!(side.sending.released(), Position(side.posted * 64));
        }
    }
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_refused() {
    let mut sending = Sending::new(CREDITS, CONTROL_CREDITS);
    let counters = Counters {
        taken: 1,
        held: 0,
        control_taken: 0,
    };
    let refused = Overclaim {
        claimed: 1,
        sent: 0,
    };
    assert_eq!(sending.acknowledged(counters), Err(refused));
    let counters = Counters {
        taken: 0,
        held: 0,
        control_taken: 2,
    };
    let refused = Overclaim {
        claimed: 2,
        sent: 0,
    };
    assert_eq!(sending.acknowledged(counters), Err(refused));
    assert!(!sending.acknowledged(Counters::default()).unwrap());
}

#[test]
fn a_frame_under_way_is_not_released() {
    let mut sending = Sending::new(CREDITS, CONTROL_CREDITS);
    sending.posted(Sent {
        offset: 0,
        bytes: 100,
        distant: false,
        end: Position(128),
        under_way: 1,
    });
    let counters = Counters {
        taken: 1,
        held: 0,
        control_taken: 0,
    };
    sending.acknowledged(counters).unwrap();
    assert_eq!(sending.released(), Position(0), "its memory is still read");
    sending.completed(0);
    assert_eq!(sending.released(), Position(128));
}

#[test]
fn credits_stop_a_sender_and_half_of_them_are_reported_at_once() {
    let mut side = Side::new();
    let mut peer = Side::new();
    for _ in 0..2 * CREDITS {
        side.post(false);
    }
    assert_eq!(side.posted, CREDITS);
    for number in 1..=CREDITS / 2 {
        assert!(peer.wire.is_empty(), "reported after {number} frames");
        peer.arrive(side.wire.pop_front().unwrap());
    }
    assert_eq!(peer.wire.len(), 1, "half of the credits are reported");
}
