//! The [`Rig`]: a job under check, driven rank by rank.

use super::seat::{REFUSALS_MAX, Seat};
use super::{Endpoint, Harness};
use crate::fabric::Fabric;
use refrain_ring::{Incarnation, Rank};

/// Rounds of driving after which a check is stuck.
const ROUNDS_MAX: usize = 200_000;
/// Polls without anything after which nothing more comes.
const QUIET_ROUNDS: usize = 8;

/// A job under check.
pub(super) struct Rig<'h, H: Harness> {
    pub(super) harness: &'h mut H,
    pub(super) seats: Vec<Seat<H::F>>,
}

impl<'h, H: Harness> Rig<'h, H> {
    pub(super) fn new(harness: &'h mut H, ranks: u32) -> Self {
        let seats = harness.make(ranks).into_iter().map(Seat::new).collect();
        Self { harness, seats }
    }

    /// Polls one rank and lets time pass. True while anything moves.
    pub(super) fn drive_one(&mut self, rank: usize) -> bool {
        let moving = self.harness.progress();
        self.seats[rank].poll() > 0 || moving
    }

    /// Polls every rank once and lets time pass. True while anything moves.
    pub(super) fn drive(&mut self) -> bool {
        let mut moving = self.harness.progress();
        for seat in &mut self.seats {
            moving |= seat.poll() > 0;
        }
        moving
    }

    /// Drives until nothing moves any more.
    pub(super) fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            quiet = if self.drive() { 0 } else { quiet + 1 };
            if quiet == QUIET_ROUNDS {
                return;
            }
        }
        panic!("the fabric does not come to rest");
    }

    /// Drives one rank until nothing comes to it any more.
    pub(super) fn settle_one(&mut self, rank: usize) {
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            quiet = if self.drive_one(rank) { 0 } else { quiet + 1 };
        }
    }

    /// Posts a frame with so many bytes, or a control frame, while nobody but
    /// the sender polls.
    pub(super) fn post_alone(&mut self, from: usize, to: u32, bytes: Option<usize>) {
        let to = Rank(to);
        for _ in 0..ROUNDS_MAX {
            let seat = &mut self.seats[from];
            let taken = match bytes {
                Some(bytes) => seat.try_send(to, bytes),
                None => seat.try_control(to),
            };
            if taken {
                while !self.seats[from].post_waiting(to) {
                    self.drive_one(from);
                }
                return;
            }
            self.drive_one(from);
        }
        panic!("rank {from} cannot send to {to}, whose lanes are empty");
    }

    /// Sends control frames until the lane is full; false if it never is.
    pub(super) fn fill_control(&mut self, from: usize, to: u32) -> bool {
        let mut refusals = 0;
        for _ in 0..ROUNDS_MAX {
            refusals = if self.seats[from].try_control(Rank(to)) {
                0
            } else {
                refusals + 1
            };
            if refusals == REFUSALS_MAX {
                return true;
            }
        }
        false
    }

    /// Lets everything that was posted arrive, without polling.
    pub(super) fn let_arrive(&mut self) {
        let at_rest = (0..ROUNDS_MAX).any(|_| !self.harness.progress());
        assert!(at_rest, "the network does not come to rest");
    }

    /// Sends a frame, driving everybody until it is taken.
    pub(super) fn send(&mut self, from: usize, to: u32, payload_bytes: usize) {
        for _ in 0..ROUNDS_MAX {
            if self.seats[from].try_send(Rank(to), payload_bytes) {
                return;
            }
            self.drive();
        }
        panic!("rank {from} cannot send to {to} although everybody polls");
    }

    /// Sends a control frame, driving everybody until it is taken.
    pub(super) fn control(&mut self, from: usize, to: u32) {
        for _ in 0..ROUNDS_MAX {
            if self.seats[from].try_control(Rank(to)) {
                return;
            }
            self.drive();
        }
        panic!("rank {from} cannot send control frames to {to} although everybody polls");
    }

    /// Drives until every packed frame is posted, and settles.
    pub(super) fn flush(&mut self) {
        for round in 0.. {
            let flushed = self.seats.iter_mut().all(|seat| {
                let peers: Vec<Rank> = seat.outboxes.keys().copied().collect();
                peers.into_iter().all(|to| seat.post_waiting(to))
            });
            if flushed {
                break;
            }
            assert!(round < ROUNDS_MAX, "a frame is never taken");
            self.drive();
        }
        self.settle();
    }

    /// Sends frames until log or lane is full, or `frames_max` are sent; the
    /// receiver does not poll. Returns how many were posted.
    pub(super) fn fill(&mut self, from: usize, to: u32, bytes: usize, frames_max: u64) -> u64 {
        let mut refusals = 0;
        while refusals < REFUSALS_MAX && self.sent(from, to) < frames_max {
            if self.seats[from].try_send(Rank(to), bytes) {
                refusals = 0;
            } else {
                refusals += 1;
                self.drive_one(from);
            }
        }
        self.sent(from, to)
    }

    /// Frames posted from a rank to another.
    pub(super) fn sent(&mut self, from: usize, to: u32) -> u64 {
        let outbox = self.seats[from].outbox(Rank(to));
        outbox.frames - u64::from(outbox.waiting.is_some())
    }

    /// Starts a rank again and connects it with everybody. Returns the seat of
    /// its old life, which is not fenced by anybody who was not connected.
    pub(super) fn replace(&mut self, rank: usize, incarnation: u32) -> Seat<H::F> {
        let name = Rank(rank as u32);
        let fresh = self.harness.restart(name, Incarnation(incarnation));
        let old = core::mem::replace(&mut self.seats[rank], Seat::new(fresh));
        self.connect_with_all(rank);
        old
    }

    fn connect_with_all(&mut self, rank: usize) {
        let (rank, others) = {
            let (before, rest) = self.seats.split_at_mut(rank);
            let (rank, after) = rest.split_first_mut().expect("the rank has a seat");
            (rank, before.iter_mut().chain(after))
        };
        for other in others {
            connect(&mut other.endpoint, &rank.endpoint);
            connect(&mut rank.endpoint, &other.endpoint);
            other.begin_anew(rank.endpoint.rank);
        }
    }

    /// No check may leave errors that it did not take.
    pub(super) fn finish(mut self) {
        self.flush();
        for seat in &self.seats {
            assert!(
                seat.errors.is_empty(),
                "rank {} got {:?}",
                seat.endpoint.rank,
                seat.errors
            );
        }
    }
}

/// Makes `peer` reachable for `endpoint`.
pub(super) fn connect<F: Fabric>(endpoint: &mut Endpoint<F>, peer: &Endpoint<F>) {
    let address = peer.fabric.address();
    endpoint
        .fabric
        .connect(peer.rank, peer.incarnation, &address)
        .expect("a new incarnation can be connected");
}

/// Connects each endpoint with each other.
pub fn connect_all<F: Fabric>(endpoints: &mut [Endpoint<F>]) {
    for index in 1..endpoints.len() {
        let (before, rest) = endpoints.split_at_mut(index);
        for other in before {
            connect(other, &rest[0]);
            connect(&mut rest[0], other);
        }
    }
}
