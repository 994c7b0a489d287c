//! The [`Rig`]: a job under check, driven rank by rank.

use super::seat::{REFUSALS_MAX, Seat};
use super::{Checked, Endpoint, Harness};
use core::time::Duration;
use refrain_ring::{Incarnation, Position, Rank, record_bytes};
use refrain_transport::fabric::Fabric;

/// Number of rounds after which a check counts as stuck.
const ROUNDS_MAX: usize = 200_000;
/// Number of polls without arrivals after which nothing more arrives.
const QUIET_ROUNDS: usize = 8;

/// The limit until which something must have happened.
pub struct Deadline {
    rounds: usize,
    end: Duration,
    /// Whether only time counts, not rounds: frames arrive in their own time.
    by_time: bool,
}

impl Deadline {
    /// Counts one more round in which it has not happened.
    pub fn next_round(&mut self, now: Duration, what: &str) {
        self.rounds += 1;
        let is_over = self.rounds > ROUNDS_MAX && (!self.by_time || now >= self.end);
        assert!(!is_over, "it never is so that {what}");
    }
}

/// A job under check.
pub struct Rig<'h> {
    pub harness: &'h mut dyn Harness,
    pub seats: Vec<Seat>,
}

impl<'h> Rig<'h> {
    pub fn new(harness: &'h mut dyn Harness, ranks: u32) -> Self {
        let seats = harness.make(ranks).into_iter().map(Seat::new).collect();
        Self { harness, seats }
    }

    /// Polls one rank, or all if the harness requires it, and lets time pass. Returns true while
    /// anything moves at that rank.
    pub fn drive_one(&mut self, rank: usize) -> bool {
        let mut moving = self.harness.progress();
        if self.harness.drives_all() {
            self.poll_others(rank);
        }
        moving |= self.seats[rank].poll() > 0;
        moving
    }

    /// Polls all ranks but one.
    pub fn poll_others(&mut self, rank: usize) {
        for (other, seat) in self.seats.iter_mut().enumerate() {
            if other != rank {
                seat.poll();
            }
        }
    }

    /// Polls every rank once and lets time pass. Returns true while anything moves.
    pub fn drive(&mut self) -> bool {
        let mut moving = self.harness.progress();
        for seat in &mut self.seats {
            moving |= seat.poll() > 0;
        }
        moving
    }

    /// Begins to wait for something that must happen.
    pub fn deadline(&self) -> Deadline {
        Deadline {
            rounds: 0,
            end: self.harness.now() + self.harness.patience(),
            by_time: !self.harness.silence().is_zero(),
        }
    }

    /// Drives until a condition holds that must hold.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let mut deadline = self.deadline();
        while !holds(self) {
            deadline.next_round(self.harness.now(), what);
            self.drive();
        }
    }

    /// Drives until nothing moves any more.
    pub fn settle(&mut self) {
        self.quieten(Self::drive);
    }

    /// Drives one rank until nothing arrives there any more.
    pub fn settle_one(&mut self, rank: usize) {
        self.quieten(|rig| rig.drive_one(rank));
    }

    fn quieten(&mut self, mut drive: impl FnMut(&mut Self) -> bool) {
        let mut deadline = self.deadline();
        let mut quiet = 0;
        let mut since = self.harness.now();
        loop {
            if drive(self) {
                quiet = 0;
                since = self.harness.now();
            } else {
                quiet += 1;
            }
            if quiet >= QUIET_ROUNDS && self.is_believed(since) {
                return;
            }
            deadline.next_round(self.harness.now(), "the fabric comes to rest");
        }
    }

    /// Whether a check may conclude that nothing more will arrive, given that nothing has arrived
    /// since then.
    fn is_believed(&mut self, since: Duration) -> bool {
        let silence = self.harness.silence();
        silence.is_zero() || self.has_all_come() || self.harness.now() - since >= silence
    }

    /// Whether all posted frames have arrived and landed, and their senders know it.
    fn has_all_come(&mut self) -> bool {
        let seats = &self.seats;
        let came = seats.iter().all(|seat| {
            let (rank, incarnation) = (seat.endpoint.rank, seat.endpoint.incarnation.0);
            seat.outboxes.iter().all(|(to, outbox)| {
                let receiver = seats.iter().find(|other| other.endpoint.rank == *to);
                receiver.is_some_and(|receiver| {
                    let posted = outbox.frames - u64::from(outbox.waiting.is_some());
                    receiver.inbox.frames(rank, incarnation) == posted
                        && receiver.inbox.controls(rank, incarnation) == outbox.controls
                })
            })
        });
        let mut inboxes = seats.iter().map(|seat| &seat.inbox);
        let landed = inboxes.clone().all(|inbox| inbox.landings.under_way() == 0);
        let holds_logs = inboxes.any(|inbox| inbox.kept.iter().any(|kept| kept.distant));
        let mut seats = self.seats.iter_mut();
        came && landed && (holds_logs || seats.all(|seat| seat.endpoint.fabric.is_drained()))
    }

    /// The position in the sender's log of the last record that was packed.
    pub fn last_begins_at(&mut self, from: usize, to: u32, bytes: usize) -> Position {
        let tail = self.seats[from].outbox(Rank(to)).log.tail();
        Position(tail.0 - record_bytes(bytes) as u64)
    }

    /// Posts a frame of that length, or a control frame, while only the sender polls
    /// (no other rank needs to, unless the fabric must first find
    /// its peer).
    pub fn post_alone(&mut self, from: usize, to: u32, bytes: Option<usize>) {
        let to = Rank(to);
        let mut deadline = self.deadline();
        let mut packed = false;
        loop {
            let seat = &mut self.seats[from];
            let taken = match bytes {
                Some(bytes) => {
                    packed = packed || seat.try_send(to, bytes);
                    packed && seat.post_waiting(to)
                }
                None => seat.try_control(to),
            };
            if taken {
                return;
            }
            deadline.next_round(self.harness.now(), "an empty lane takes a frame");
            self.harness.progress();
            self.seats[from].poll();
            if self.harness.drives_all() && deadline.rounds.is_multiple_of(100) {
                self.poll_others(from);
            }
        }
    }

    /// Sends control frames until the lane is full; returns false if it never is.
    pub fn fill_control(&mut self, from: usize, to: u32) -> bool {
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
    pub fn let_arrive(&mut self) {
        let at_rest = (0..ROUNDS_MAX).any(|_| !self.harness.progress());
        assert!(at_rest, "the network does not come to rest");
    }

    /// Sends a frame, driving all ranks until it is taken.
    pub fn send(&mut self, from: usize, to: u32, payload_bytes: usize) {
        self.until("a frame is taken while all ranks poll", |rig| {
            rig.seats[from].try_send(Rank(to), payload_bytes)
        });
    }

    /// Sends a control frame, driving all ranks until it is taken.
    pub fn control(&mut self, from: usize, to: u32) {
        self.until("a control frame is taken while all ranks poll", |rig| {
            rig.seats[from].try_control(Rank(to))
        });
    }

    /// Drives until every packed frame is posted, and settles.
    pub fn flush(&mut self) {
        self.until("every packed frame is taken", |rig| {
            rig.seats.iter_mut().all(|seat| {
                let peers: Vec<Rank> = seat.outboxes.keys().copied().collect();
                peers.into_iter().all(|to| seat.post_waiting(to))
            })
        });
        self.settle();
    }

    /// Sends frames until log or lane is full, or `frames_max` are sent; the
    /// receiver does not poll. Returns how many were posted.
    pub fn fill(&mut self, from: usize, to: u32, bytes: usize, frames_max: u64) -> u64 {
        let mut refusals = 0;
        while refusals < REFUSALS_MAX && self.sent(from, to) < frames_max {
            if self.seats[from].try_send(Rank(to), bytes) {
                refusals = 0;
            } else {
                refusals += 1;
                self.harness.progress();
                self.seats[from].poll();
            }
        }
        self.sent(from, to)
    }

    /// Drives until a rank's log for another is released to its tail.
    pub fn until_released(&mut self, from: usize, to: u32) {
        self.until("the log is released to its tail", |rig| {
            let tail = rig.seats[from].outbox(Rank(to)).log.tail();
            rig.seats[from].endpoint.fabric.released(Rank(to)) == tail
        });
    }

    /// Frames posted from a rank to another.
    pub fn sent(&mut self, from: usize, to: u32) -> u64 {
        let outbox = self.seats[from].outbox(Rank(to));
        outbox.frames - u64::from(outbox.waiting.is_some())
    }

    /// Starts a rank again and connects it with all others. Returns the seat of
    /// its old life, which ranks that were not connected with it have not fenced.
    pub fn replace(&mut self, rank: usize, incarnation: u32) -> Seat {
        let name = Rank(rank as u32);
        let fresh = self.harness.restart(name, Incarnation(incarnation));
        let old = core::mem::replace(&mut self.seats[rank], Seat::new(fresh));
        self.connect_with_all(rank);
        old
    }

    /// A rank dies and comes back. The others fence it and continue with logs that they have kept:
    /// the first frame of rank r that the new life misses is `from[r]`. REC-3
    pub fn revive(&mut self, rank: usize, incarnation: u32, from: &[u64]) {
        let name = Rank(rank as u32);
        let fresh = Seat::new(self.harness.restart(name, Incarnation(incarnation)));
        let old = core::mem::replace(&mut self.seats[rank], fresh);
        self.harness.kill(old.endpoint);
        let others = (0..self.seats.len()).filter(|other| *other != rank);
        for other in others.clone() {
            self.seats[other].endpoint.fabric.disconnect(name);
        }
        self.connect_with_all(rank);
        for other in others {
            self.begin_again(other, rank, from[other]);
            self.seats[rank].keep_log(Rank(other as u32));
        }
    }

    /// A new life of `to` misses all frames from `from` on.
    pub fn begin_again(&mut self, survivor: usize, to: usize, from: u64) {
        let (rank, incarnation) = {
            let endpoint = &self.seats[survivor].endpoint;
            (endpoint.rank, endpoint.incarnation)
        };
        self.seats[to].inbox.begin_at(rank, incarnation, from);
        self.seats[survivor].send_again(Rank(to as u32), from);
    }

    /// Keeps all logs for later lives.
    pub fn keep_logs(&mut self) {
        let ranks = self.seats.len();
        for from in 0..ranks {
            for to in (0..ranks).filter(|to| *to != from) {
                self.seats[from].keep_log(Rank(to as u32));
            }
        }
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

    /// Verifies that a check leaves no errors that it did not take, and no landings.
    pub fn finish(mut self) {
        self.flush();
        self.until("landings end", |rig| {
            let mut seats = rig.seats.iter();
            seats.all(|seat| seat.inbox.landings.under_way() == 0)
        });
        let lives = |seat: &Seat| (seat.endpoint.rank, seat.endpoint.incarnation);
        let seated: Vec<_> = self.seats.iter().map(lives).collect();
        for seat in &self.seats {
            let landings = &seat.inbox.landings;
            landings.verify_ended();
            let lost = seat.inbox.lost.iter().find(|life| seated.contains(life));
            assert_eq!(lost, None, "a landing of a live peer is lost");
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
pub fn connect(endpoint: &mut Endpoint, peer: &Endpoint) {
    connect_with(&mut *endpoint.fabric, peer, &*peer.fabric);
}

fn connect_with<F>(fabric: &mut dyn Fabric, peer: &Endpoint<F>, of_peer: &dyn Fabric) {
    fabric
        .connect(peer.rank, peer.incarnation, &of_peer.address())
        .expect("a new incarnation can be connected");
}

/// The ranks of a job, each connected with each other.
pub fn start_all<F: Fabric>(
    ranks: u32,
    start: impl FnMut(Rank) -> Endpoint<F>,
) -> Vec<Endpoint<F>> {
    let mut endpoints: Vec<_> = (0..ranks).map(Rank).map(start).collect();
    connect_all(&mut endpoints);
    endpoints
}

/// The same endpoints, to be checked.
pub fn to_check<F: Checked>(endpoints: Vec<Endpoint<F>>) -> Vec<Endpoint> {
    endpoints.into_iter().map(Endpoint::to_check).collect()
}

fn connect_all<F: Fabric>(endpoints: &mut [Endpoint<F>]) {
    for index in 1..endpoints.len() {
        let (before, rest) = endpoints.split_at_mut(index);
        for other in before {
            let one = &mut rest[0];
            connect_with(&mut other.fabric, one, &one.fabric);
            connect_with(&mut one.fabric, other, &other.fabric);
        }
    }
}
