//! The [`Rig`]: a job under check, driven rank by rank.

use super::inbox::Inbox;
use super::pattern::Name;
use super::{Endpoint, Harness};
use crate::fabric::{Fabric, FabricError, Refusal};
use crate::gate::{Gate, Pass};
use refrain_ring::{ChannelLog, Frame, Incarnation, Position, Rank, RecordHeader};
use std::collections::BTreeMap;

/// Rounds of driving after which a check is stuck.
const ROUNDS_MAX: usize = 200_000;
/// Posts refused in a row after which a lane counts as full: more than bad luck.
const REFUSALS_MAX: usize = 200;
/// Polls without anything after which nothing more comes.
const QUIET_ROUNDS: usize = 8;

pub(super) fn pass() -> Pass {
    Gate::default().pass_unseen()
}

/// What one rank sends to another.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) log: ChannelLog,
    frames: u64,
    controls: u64,
    /// Packed but refused so far.
    waiting: Option<Frame>,
    released: Position,
}

/// One rank: its endpoint, and what stands in for its engine.
#[derive(Debug)]
pub(super) struct Seat<F> {
    pub(super) endpoint: Endpoint<F>,
    pub(super) inbox: Inbox,
    pub(super) errors: Vec<FabricError>,
    outboxes: BTreeMap<Rank, Outbox>,
}

impl<F: Fabric> Seat<F> {
    pub(super) fn new(endpoint: Endpoint<F>) -> Self {
        Self {
            inbox: Inbox::new(endpoint.rank),
            endpoint,
            errors: Vec::new(),
            outboxes: BTreeMap::new(),
        }
    }

    pub(super) fn outbox(&mut self, to: Rank) -> &mut Outbox {
        let endpoint = &self.endpoint;
        self.outboxes.entry(to).or_insert_with(|| Outbox {
            log: ChannelLog::new(
                endpoint.rank,
                endpoint.incarnation,
                to,
                endpoint.window_bytes,
            ),
            frames: 0,
            controls: 0,
            waiting: None,
            released: Position(0),
        })
    }

    /// Frames go to a new life of `to` from now on.
    pub(super) fn begin_anew(&mut self, to: Rank) {
        if let Some(outbox) = self.outboxes.remove(&to) {
            // Nobody reads the old log any more.
            let mut log = outbox.log;
            let tail = log.tail();
            log.trim_released(&mut self.endpoint.arena, tail);
        }
    }

    /// Packs a frame for `to`, if the log has room. It is posted next.
    fn pack(&mut self, to: Rank, payload_bytes: usize) -> bool {
        self.trim(to);
        let (source, incarnation) = (self.endpoint.rank, self.endpoint.incarnation);
        self.outbox(to);
        let outbox = self.outboxes.get_mut(&to).expect("just made");
        let arena = &mut self.endpoint.arena;
        let Ok(mut reservation) = outbox.log.reserve(arena, payload_bytes, true) else {
            return false;
        };
        let name = Name {
            source,
            incarnation,
            destination: to,
            number: outbox.frames,
        };
        name.fill(outbox.log.payload_mut(arena, &mut reservation));
        let header = name.header(payload_bytes);
        outbox.waiting = Some(outbox.log.append(arena, reservation, header));
        outbox.frames += 1;
        true
    }

    /// Frees what is released; `released` never goes back.
    fn trim(&mut self, to: Rank) {
        let released = self.endpoint.fabric.released(to);
        let outbox = self.outbox(to);
        assert!(
            released >= outbox.released,
            "released went back from {} to {released}",
            outbox.released
        );
        assert!(
            released <= outbox.log.tail(),
            "released {released} is beyond the tail {}",
            outbox.log.tail()
        );
        outbox.released = released;
        let outbox = self.outboxes.get_mut(&to).expect("just made");
        outbox.log.trim_released(&mut self.endpoint.arena, released);
    }

    /// Posts the frame that waits, if any; whether none waits any more.
    fn post_waiting(&mut self, to: Rank) -> bool {
        let Some(frame) = self.outbox(to).waiting else {
            return true;
        };
        match self.endpoint.fabric.post(pass(), to, &frame) {
            Ok(()) => {
                self.outbox(to).waiting = None;
                true
            }
            Err(Refusal::Busy) => false,
            Err(refusal) => panic!("a post to a connected peer: {refusal}"),
        }
    }

    /// Tries to send one frame; false when log or lane is full. A frame that
    /// was packed and refused counts as sent only when it is posted.
    pub(super) fn try_send(&mut self, to: Rank, payload_bytes: usize) -> bool {
        self.post_waiting(to) && self.pack(to, payload_bytes) && {
            self.post_waiting(to);
            true
        }
    }

    /// Appends and posts a record of somebody else's making.
    pub(super) fn post_record(
        &mut self,
        log: &mut ChannelLog,
        to: Rank,
        payload_bytes: usize,
        header: RecordHeader,
    ) -> bool {
        let arena = &mut self.endpoint.arena;
        let reservation = log
            .reserve(arena, payload_bytes, true)
            .expect("an empty log has room");
        let frame = log.append(arena, reservation, header);
        (0..REFUSALS_MAX).any(|_| self.endpoint.fabric.post(pass(), to, &frame).is_ok())
    }

    /// Tries to send one control frame; false when the lane is full.
    pub(super) fn try_control(&mut self, to: Rank) -> bool {
        let (source, incarnation) = (self.endpoint.rank, self.endpoint.incarnation);
        let name = Name {
            source,
            incarnation,
            destination: to,
            number: self.outbox(to).controls,
        };
        match self
            .endpoint
            .fabric
            .post_control(pass(), to, name.control())
        {
            Ok(()) => {
                self.outbox(to).controls += 1;
                true
            }
            Err(Refusal::Busy) => false,
            Err(refusal) => panic!("a control frame to a connected peer: {refusal}"),
        }
    }

    /// A packed frame that belongs to nobody's lane.
    pub(super) fn spare_frame(&mut self) -> Frame {
        let endpoint = &mut self.endpoint;
        let (rank, incarnation) = (endpoint.rank, endpoint.incarnation);
        let mut log = ChannelLog::new(rank, incarnation, Rank(9), endpoint.window_bytes);
        let reservation = log
            .reserve(&mut endpoint.arena, 0, true)
            .expect("an empty log has room");
        let number = 0;
        let name = Name {
            source: rank,
            incarnation,
            destination: Rank(9),
            number,
        };
        log.append(&endpoint.arena, reservation, name.header(0))
    }

    /// Sends an empty frame, and writes bytes into the log where the frame
    /// behind it would begin.
    pub(super) fn send_with_garbage_behind(&mut self, to: Rank, bytes: &[u8]) -> bool {
        self.outbox(to);
        let outbox = self.outboxes.get_mut(&to).expect("just made");
        // Given up, but it still lends the bytes behind the next short record.
        let mut beyond = outbox
            .log
            .reserve(&mut self.endpoint.arena, 1000, true)
            .expect("an empty log has room");
        let sent = self.try_send(to, 0) && self.post_waiting(to);
        let arena = &self.endpoint.arena;
        let log = &self.outboxes[&to].log;
        log.payload_mut(arena, &mut beyond)[..bytes.len()].copy_from_slice(bytes);
        sent
    }

    pub(super) fn poll(&mut self) -> usize {
        let before = self.inbox.calls;
        match self.endpoint.fabric.poll(&mut self.inbox) {
            Ok(calls) => {
                let made = self.inbox.calls - before;
                assert_eq!(calls, made, "poll counts its calls to the sink");
                calls
            }
            Err(error) => {
                self.errors.push(error);
                1
            }
        }
    }

    /// Verifies all kept frames where they lie.
    pub(super) fn verify_kept(&self) {
        for kept in &self.inbox.kept {
            let payload = self.endpoint.fabric.kept(kept.place, kept.payload_bytes);
            assert!(
                payload.len() == kept.payload_bytes && kept.name.is_filled(payload),
                "{:?} changed while it was kept",
                kept.name
            );
        }
    }

    /// Lets the kept frame at `index` go, after a last look.
    pub(super) fn let_go(&mut self, index: usize) {
        let kept = self.inbox.kept.remove(index);
        let payload = self.endpoint.fabric.kept(kept.place, kept.payload_bytes);
        assert!(
            kept.name.is_filled(payload),
            "{:?} changed while it was kept",
            kept.name
        );
        self.endpoint.fabric.let_go(kept.place);
    }
}

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
