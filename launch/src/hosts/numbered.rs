//! Numbered frames between the launcher and one agent, whose connection may break and be replaced:
//! each frame arrives once and in order. Pure.
//!
//! Both sides number their frames and keep them until the other side has said that it has received
//! them. After a break both say how many they have received (*resume*), and send the later ones again.
//! A receiver takes the next frame only: it drops those that it has, and those behind a gap, which
//! come again after the next *resume*.

use bytes::Bytes;
use std::collections::VecDeque;

/// Number of bytes received since the last acknowledgement after which the next one is due.
const UNTOLD_BYTES_MAX: usize = 64 << 10;

/// One side.
#[derive(Debug, Default)]
pub struct Numbered {
    /// Number of frames sent so far.
    sent: u64,
    /// The last of them: the other side is not known to have them.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    /// Number of frames received so far.
    received: u64,
    /// Bytes of frames received since the other side was told.
    untold_bytes: usize,
}

impl Numbered {
    /// Keeps a frame, and returns its number, from 1.
    pub fn send(&mut self, frame: Bytes) -> u64 {
        self.sent += 1;
        self.kept_bytes += frame.len();
        self.kept.push_back(frame);
        self.sent
    }

    /// The other side has received this number of frames. `false`: fewer were sent.
    #[must_use]
    pub fn have_arrived(&mut self, frames: u64) -> bool {
        while self.sent - (self.kept.len() as u64) < frames {
            let Some(frame) = self.kept.pop_front() else {
                return false;
            };
            self.kept_bytes -= frame.len();
        }
        true
    }

    /// A frame of the other side has come. `false`: it is dropped.
    pub fn take(&mut self, number: u64, bytes: usize) -> bool {
        let is_next = number == self.received + 1;
        if is_next {
            self.received = number;
            self.untold_bytes += bytes;
        }
        is_next
    }

    /// The frames that the other side may lack, with their numbers.
    pub fn again(&self) -> impl Iterator<Item = (u64, Bytes)> + use<> {
        let first = self.sent - self.kept.len() as u64 + 1;
        (first..).zip(self.kept.clone())
    }

    /// Number of frames received so far, for the acknowledgement that is sent now.
    pub fn tell_received(&mut self) -> u64 {
        self.untold_bytes = 0;
        self.received
    }

    /// Whether the other side is to be told even if no frame goes there.
    pub fn is_due(&self) -> bool {
        self.untold_bytes >= UNTOLD_BYTES_MAX
    }

    /// Bytes of the frames that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Message {
        Frame(u64, u64, Bytes),
        Resume(u64),
        Received(u64),
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Send(bool),
        Arrive(bool),
        /// A connection breaks. What is under way is lost, some of it if there are inner agents: the
        /// part behind the break arrives.
        Break {
            arrive: [usize; 2],
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<bool>().prop_map(Step::Send),
            6 => any::<bool>().prop_map(Step::Arrive),
            1 => (0_usize..4, 0_usize..4).prop_map(|(a, b)| Step::Break { arrive: [a, b] }),
        ]
    }

    /// The launcher is side 0, the agent side 1.
    #[derive(Default)]
    struct World {
        sides: [Numbered; 2],
        sent: [Vec<Bytes>; 2],
        got: [Vec<Bytes>; 2],
        /// Messages to each side.
        under_way: [VecDeque<Message>; 2],
    }

    impl World {
        fn send(&mut self, from: usize) {
            let frame = Bytes::from(format!("{from}: {}", self.sent[from].len()));
            self.sent[from].push(frame.clone());
            let number = self.sides[from].send(frame.clone());
            let received = self.sides[from].tell_received();
            self.under_way[1 - from].push_back(Message::Frame(number, received, frame));
        }

        fn resend(&mut self, from: usize) {
            let received = self.sides[from].tell_received();
            let again = self.sides[from].again();
            let again = again.map(|(number, frame)| Message::Frame(number, received, frame));
            self.under_way[1 - from].extend(again);
        }

        fn arrive(&mut self, at: usize) {
            let Some(message) = self.under_way[at].pop_front() else {
                return;
            };
            let side = &mut self.sides[at];
            match message {
                Message::Frame(number, received, frame) => {
                    assert!(side.have_arrived(received));
                    if side.take(number, frame.len()) {
                        self.got[at].push(frame);
                    }
                    let received = side.tell_received();
                    self.under_way[1 - at].push_back(Message::Received(received));
                }
                Message::Received(received) => assert!(side.have_arrived(received)),
                Message::Resume(received) => {
                    assert!(side.have_arrived(received));
                    if at == 1 {
                        let received = side.tell_received();
                        self.under_way[0].push_back(Message::Resume(received));
                    }
                    self.resend(at);
                }
            }
        }

        /// The agent has a connection again.
        fn break_off(&mut self, arrive: [usize; 2]) {
            for (at, arrive) in arrive.into_iter().enumerate() {
                self.under_way[at].truncate(arrive);
                while !self.under_way[at].is_empty() {
                    // Answers are lost, too.
                    let behind = self.under_way[1 - at].len();
                    self.arrive(at);
                    self.under_way[1 - at].truncate(behind);
                }
            }
            let received = self.sides[0].tell_received();
            self.under_way[1].push_back(Message::Resume(received));
        }
    }

    proptest! {
        /// Any order of sending, delays and breaks: each frame arrives once and in order.
        #[test]
        fn frames_arrive_once_and_in_order(steps in prop::collection::vec(step(), 0..200)) {
            let mut world = World::default();
            for step in steps {
                match step {
                    Step::Send(from) => world.send(from.into()),
                    Step::Arrive(at) => world.arrive(at.into()),
                    Step::Break { arrive } => world.break_off(arrive),
                }
                for at in 0..2 {
                    prop_assert!(world.sent[1 - at].starts_with(&world.got[at]));
                }
            }
            while world.under_way.iter().any(|it| !it.is_empty()) {
                world.arrive(0);
                world.arrive(1);
            }
            for at in 0..2 {
                prop_assert_eq!(&world.got[at], &world.sent[1 - at]);
                prop_assert_eq!(world.sides[at].kept_bytes(), 0);
            }
        }
    }

    #[test]
    fn frames_that_were_not_sent_cannot_have_arrived() {
        let mut side = Numbered::default();
        side.send(Bytes::from_static(b"one"));
        assert!(!side.have_arrived(2));
        assert!(!Numbered::default().have_arrived(u64::MAX));
    }

    #[test]
    fn the_other_side_is_told_after_many_bytes() {
        let mut side = Numbered::default();
        assert!(side.take(1, UNTOLD_BYTES_MAX - 1) && !side.is_due());
        assert!(side.take(2, 1) && side.is_due());
        assert_eq!(side.tell_received(), 2);
        assert!(!side.is_due());
    }
}
