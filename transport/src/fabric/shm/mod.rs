//! Shared memory between the processes of one host: the receiver reads the
//! sender's log where it lies.
//!
//! - A post is one release store; the receiver finds it by polling the place
//!   where the next record will begin. A receiver polls the lanes that are busy
//!   ([`HOT_LANES_MAX`]); senders on other lanes ring its bell.
//! - A killed process leaves whole records or none, and nobody waits for a lock
//!   that it held: there is none.
//! - FENCE-1: each incarnation has a memory of its own; after
//!   [`Fabric::disconnect`] the old one is not looked at any more. What a dead
//!   receiver could still store into *our* segment are its positions; the
//!   launcher reaps a process before it announces the next incarnation, and a
//!   reaped process stores nothing.
//! - Our lane to a peer begins anew with each of its lives, and says for which of
//!   them it is: a new life that finds us before we know of it neither reads nor
//!   stores anything there.
//! - A lane begins with the chunk of its first frame, wherever in the log that is;
//!   the receiver finds the rest over the links.

mod dead;
mod incoming;
mod segment;
mod wake;

pub use dead::{DeadLog, DeadLogError, open_dead_log};
pub use segment::RANKS_MAX;

use super::{
    Address, Attributes, Fabric, FabricError, Landing, Place, RELEASED_WHOLLY, Refusal, Sink,
};
use crate::control::Control;
use crate::gate::Pass;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::time::Duration;
use incoming::{Incoming, IncomingOptions};
use refrain_ring::{Arena, CHUNK_BYTES, ChannelLog, Frame, Incarnation, Position, Rank, Region};
use segment::{CONTROL_SLOTS, SEGMENT_MAGIC, Segment, arena_offset};
use std::sync::Arc;

/// Lanes that a rank polls without being rung.
pub const HOT_LANES_MAX: usize = 32;
/// Polls without a frame after which a lane may be dropped for another.
const COLD_AFTER_POLLS: u32 = 4096;
/// Long messages flow best in pieces that pass through the first-level cache
/// while the other side copies the one before (docs/performance.md).
const FRAGMENT_BYTES: usize = 16 << 10;

/// What a rank brings to the fabric.
#[derive(Clone, Copy, Debug)]
pub struct ShmOptions {
    /// The job; segments of other jobs are refused.
    pub job: u64,
    /// This rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Ranks of the job, at most [`RANKS_MAX`].
    pub size: u32,
    /// Log memory of this rank in bytes.
    pub log_bytes: u64,
    /// Bytes that one channel's log may hold before its receiver has let go.
    pub window_bytes: u64,
}

/// The shared-memory fabric of one rank.
#[derive(Debug)]
pub struct Shm {
    attributes: Attributes,
    options: ShmOptions,
    own: Segment,
    region: Region,
    registered: bool,
    peers: Vec<Option<Peer>>,
    /// The lowest incarnation of each peer that was never connected. FENCE-1
    acceptable: Vec<u64>,
    hot: Vec<Rank>,
}

#[derive(Debug)]
struct Peer {
    rank: Rank,
    segment: Segment,
    both_answer_barriers: bool,
    incoming: Incoming,
    control_posted: u64,
    /// Lower bound of what the peer has taken.
    control_taken: u64,
    /// What the peer had let go of, and taken, when that was last looked at.
    seen: (u64, u64),
    has_begun: bool,
}

impl Shm {
    /// Makes this rank's segment and the log arena in it.
    ///
    /// # Errors
    /// When the system refuses the memory.
    pub fn create(options: ShmOptions) -> Result<(Self, Arena), FabricError> {
        if options.size > RANKS_MAX || options.rank.0 >= options.size {
            return Err(FabricError::Attach {
                peer: options.rank,
                reason: format!(
                    "shared memory serves ranks below {RANKS_MAX}, the job has {}",
                    options.size
                ),
            });
        }
        let log_bytes = (options.log_bytes as usize).next_multiple_of(CHUNK_BYTES);
        let own = Segment::create(options.rank, options.size, log_bytes)?;
        let registered = wake::register();
        let arena_offset = arena_offset(options.size);
        let head = own.head();
        head.job.store(options.job, Relaxed);
        head.rank.store(options.rank.0, Relaxed);
        head.incarnation.store(options.incarnation.0, Relaxed);
        head.size.store(options.size, Relaxed);
        head.answers_barriers.store(registered.into(), Relaxed);
        head.arena_offset.store(arena_offset as u64, Relaxed);
        head.segment_bytes.store(own.bytes() as u64, Relaxed);
        head.window_bytes.store(options.window_bytes, Relaxed);
        // Receivers hear of a lane's first frame by the bell.
        (0..options.size).for_each(|rank| own.lane(Rank(rank)).ring.store(1, Relaxed));
        head.magic.store(SEGMENT_MAGIC, Release);

        let region = own.region();
        let commit = {
            let own = own.clone();
            Box::new(move |offset, bytes| own.commit(offset, bytes))
        };
        let arena = Arena::new(region.clone(), arena_offset, commit);
        let fabric = Self {
            attributes: Attributes {
                name: "shm".into(),
                reads_in_place: true,
                frame_payload_bytes_max: ChannelLog::PAYLOAD_BYTES_MAX,
                fragment_bytes: FRAGMENT_BYTES,
                eager_bytes_max: options.window_bytes / 4,
                staged_bytes: 0..0,
            },
            options,
            own,
            region,
            registered,
            peers: (0..options.size).map(|_| None).collect(),
            acceptable: vec![0; options.size as usize],
            hot: Vec::with_capacity(HOT_LANES_MAX),
        };
        Ok((fabric, arena))
    }

    fn peer(&self, rank: Rank) -> Option<&Peer> {
        self.peers.get(rank.index())?.as_ref()
    }

    /// After a store for `peer`: rings, unless it polls this lane.
    #[inline]
    fn ring_if_asked(&self, peer: &Peer) {
        wake::after_post(peer.both_answer_barriers);
        if self.own.lane(peer.rank).ring.load(Relaxed) != 0 {
            self.ring(peer);
        }
    }

    #[cold]
    fn ring(&self, peer: &Peer) {
        let me = self.options.rank.index();
        let bell = peer.segment.bell();
        bell.rung[me / 64].fetch_or(1 << (me % 64), SeqCst);
        wake::wake(&bell.sleeping);
    }

    #[inline]
    fn is_rung(&self) -> bool {
        let words = (self.options.size as usize).div_ceil(64);
        let rung = &self.own.bell().rung[..words];
        rung.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// Takes the bell and polls who has rung; they become hot where there is room.
    #[cold]
    fn answer_bell(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let mut calls = 0;
        for word in 0..(self.options.size as usize).div_ceil(64) {
            let rung = &self.own.bell().rung[word];
            if rung.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = rung.swap(0, SeqCst);
            while bits != 0 {
                let rank = Rank(word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
                self.make_hot(rank);
                if !self.hot.contains(&rank) {
                    calls += self.poll_lane(rank, sink)?;
                    self.ring_self_again_unless_drained(rank);
                }
            }
        }
        Ok(calls)
    }

    fn make_hot(&mut self, rank: Rank) {
        let Some(Some(peer)) = self.peers.get(rank.index()) else {
            return;
        };
        if peer.incoming.is_broken() || self.hot.contains(&rank) {
            return;
        }
        if self.hot.len() == HOT_LANES_MAX && !self.drop_a_cold_lane() {
            return;
        }
        if let Some(peer) = &self.peers[rank.index()] {
            peer.segment.lane(self.options.rank).ring.store(0, Relaxed);
            self.hot.push(rank);
        }
    }

    fn drop_a_cold_lane(&mut self) -> bool {
        let cold = self.hot.iter().position(|rank| {
            self.peer(*rank)
                .is_none_or(|peer| peer.incoming.idle_polls() > COLD_AFTER_POLLS)
        });
        let Some(index) = cold else { return false };
        let rank = self.hot.swap_remove(index);
        if let Some(peer) = self.peer(rank) {
            peer.segment.lane(self.options.rank).ring.store(1, Relaxed);
            wake::before_last_look(self.registered);
            self.ring_self_again_unless_drained(rank);
        }
        true
    }

    /// A lane that is not hot must not be forgotten while it holds something.
    fn ring_self_again_unless_drained(&self, rank: Rank) {
        if let Some(peer) = self.peer(rank)
            && peer.incoming.ready(peer.segment.lane(self.options.rank))
        {
            self.own.bell().rung[rank.index() / 64].fetch_or(1 << (rank.index() % 64), SeqCst);
        }
    }

    fn poll_lane(&mut self, rank: Rank, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let Some(Some(peer)) = self.peers.get_mut(rank.index()) else {
            return Ok(0);
        };
        let lane = peer.segment.lane(self.options.rank);
        if !peer.incoming.is_open() {
            // Asked before it was ours, the sender may have forgotten it.
            if peer.incoming.open(lane) && self.hot.contains(&rank) {
                lane.ring.store(0, Relaxed);
            }
        }
        let calls = peer.incoming.poll(lane, sink);
        if calls.is_err() {
            self.hot.retain(|hot| *hot != rank);
        } else {
            self.tell_released(rank);
        }
        calls
    }

    #[inline]
    fn tell_released(&mut self, rank: Rank) {
        let Some(Some(peer)) = self.peers.get_mut(rank.index()) else {
            return;
        };
        let lane = peer.segment.lane(self.options.rank);
        if peer.incoming.publish_released(lane) {
            wake::after_post(peer.both_answer_barriers);
            if lane.waits_for_room.load(Relaxed) == 1 && lane.waits_for_room.swap(0, SeqCst) == 1 {
                let peer = &self.peers[rank.index()];
                peer.iter().for_each(|peer| self.ring(peer));
            }
        }
    }

    fn anything_new(&mut self) -> bool {
        let me = self.options.rank;
        let words = (self.options.size as usize).div_ceil(64);
        let rung = self.own.bell().rung[..words]
            .iter()
            .any(|word| word.load(SeqCst) != 0);
        let arrived = self
            .hot
            .iter()
            .filter_map(|rank| self.peer(*rank))
            .any(|peer| peer.incoming.ready(peer.segment.lane(me)));
        rung || arrived || self.room_was_made()
    }

    /// Whether a receiver made room since this was last looked at.
    fn room_was_made(&mut self) -> bool {
        let mut made = false;
        for peer in self
            .peers
            .iter_mut()
            .flatten()
            .filter(|peer| peer.has_sent())
        {
            let lane = self.own.lane(peer.rank);
            let seen = (lane.released.load(SeqCst), lane.control_taken.load(SeqCst));
            made |= seen != core::mem::replace(&mut peer.seen, seen);
        }
        made
    }

    /// Before sleeping: senders shall ring, and receivers that make room shall.
    fn ask_to_be_rung(&self, asked: u32) {
        let me = self.options.rank;
        for rank in &self.hot {
            if let Some(peer) = self.peer(*rank) {
                peer.segment.lane(me).ring.store(asked, SeqCst);
            }
        }
        for rank in (0..self.options.size).map(Rank) {
            if self.peer(rank).is_some_and(Peer::has_sent) {
                self.own.lane(rank).waits_for_room.store(asked, SeqCst);
            }
        }
    }
}

/// How a lane says for which incarnation of its receiver it is.
fn life_word(receiver: Incarnation) -> u64 {
    u64::from(receiver.0) + 1
}

impl Peer {
    fn has_sent(&self) -> bool {
        self.has_begun || self.control_posted > 0
    }
}

impl Fabric for Shm {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn address(&self) -> Address {
        Address {
            bytes: b"memfd".to_vec(),
            memory: Some(Arc::clone(self.own.file())),
        }
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        let refuse = |reason: &str| {
            Err(FabricError::Attach {
                peer,
                reason: reason.into(),
            })
        };
        if peer == self.options.rank || peer.0 >= self.options.size {
            return refuse("only other ranks of the job can be connected");
        }
        if u64::from(incarnation.0) < self.acceptable[peer.index()] {
            return refuse("this incarnation was connected before: only a later one may come");
        }
        let Some(memory) = &address.memory else {
            return refuse("its address carries no shared memory: is it on another host?");
        };
        let segment = Segment::attach(Arc::clone(memory))?;
        segment::check(
            &segment,
            peer,
            incarnation,
            self.options.job,
            self.options.size,
        )?;
        self.disconnect(peer);
        self.acceptable[peer.index()] = u64::from(incarnation.0) + 1;
        let head = segment.head();
        self.peers[peer.index()] = Some(Peer {
            rank: peer,
            both_answer_barriers: self.registered && head.answers_barriers.load(Acquire) == 1,
            incoming: Incoming::new(IncomingOptions {
                source: peer,
                incarnation,
                destination: self.options.rank,
                life: life_word(self.options.incarnation),
                region: segment.region(),
                arena_offset: head.arena_offset.load(Acquire) as usize,
                window_bytes: head.window_bytes.load(Acquire),
            }),
            segment,
            control_posted: 0,
            control_taken: 0,
            seen: (0, 0),
            has_begun: false,
        });
        let lane = self.own.lane(peer);
        lane.for_life.store(life_word(incarnation), Release);
        // What it posted before we were connected rang a bell that nobody could
        // answer.
        self.make_hot(peer);
        self.ring_self_again_unless_drained(peer);
        Ok(())
    }

    fn disconnect(&mut self, peer: Rank) {
        if let Some(Some(_)) = self.peers.get_mut(peer.index()).map(Option::take) {
            self.hot.retain(|hot| *hot != peer);
            // FENCE-1: the next incarnation finds our lane to it as if new.
            let lane = self.own.lane(peer);
            lane.for_life.store(0, Release);
            lane.first_chunk.store(0, Relaxed);
            lane.released.store(0, Relaxed);
            lane.control_taken.store(0, Relaxed);
            lane.waits_for_room.store(0, Relaxed);
            lane.control
                .iter()
                .for_each(|slot| slot.sequence.store(0, Relaxed));
            lane.ring.store(1, Release);
        }
    }

    #[inline]
    fn post(&mut self, _pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        frame.publish(&self.region);
        if !state.has_begun {
            state.has_begun = true;
            let chunk = (frame.offset - arena_offset(self.options.size)) / CHUNK_BYTES;
            self.own
                .lane(peer)
                .first_chunk
                .store(chunk as u64 + 1, Release);
        }
        let state = self.peers[peer.index()]
            .as_ref()
            .ok_or(Refusal::NotConnected(peer))?;
        self.ring_if_asked(state);
        Ok(())
    }

    fn post_control(&mut self, _pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        let lane = self.own.lane(peer);
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        if state.control_posted - state.control_taken == CONTROL_SLOTS {
            state.control_taken = lane.control_taken.load(Acquire);
            if state.control_posted - state.control_taken == CONTROL_SLOTS {
                return Err(Refusal::Busy);
            }
        }
        let slot = &lane.control[(state.control_posted % CONTROL_SLOTS) as usize];
        let words = control.encode(self.options.rank, self.options.incarnation);
        slot.words
            .iter()
            .zip(words)
            .for_each(|(place, word)| place.store(word.to_le(), Relaxed));
        state.control_posted += 1;
        slot.sequence.store(state.control_posted, Release);
        let state = self.peers[peer.index()]
            .as_ref()
            .ok_or(Refusal::NotConnected(peer))?;
        self.ring_if_asked(state);
        Ok(())
    }

    #[inline]
    fn released(&mut self, peer: Rank) -> Position {
        match self.peer(peer) {
            Some(_) => Position(self.own.lane(peer).released.load(Acquire)),
            None => RELEASED_WHOLLY,
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let mut calls = 0;
        if self.is_rung() {
            calls += self.answer_bell(sink)?;
        }
        let mut index = 0;
        while let Some(rank) = self.hot.get(index).copied() {
            index += 1;
            if let Some(peer) = &mut self.peers[rank.index()]
                && peer.incoming.is_quiet(peer.segment.lane(self.options.rank))
            {
                continue;
            }
            calls += self.poll_lane(rank, sink)?;
        }
        Ok(calls)
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        self.peer(place.source)
            .map_or(&[], |peer| peer.incoming.kept(place, payload_bytes))
    }

    fn let_go(&mut self, place: Place) {
        if let Some(Some(peer)) = self.peers.get_mut(place.source.index()) {
            peer.incoming.let_go(place);
            if !self.hot.contains(&place.source) {
                self.tell_released(place.source);
            }
        }
    }

    /// The log outlives this process as long as a peer maps it.
    fn is_drained(&mut self) -> bool {
        true
    }

    fn fetch(&mut self, _place: Place, _landing: Landing) {
        unreachable!("no frame of this fabric is distant");
    }

    fn close(&mut self) {
        for peer in (0..self.options.size).map(Rank) {
            self.disconnect(peer);
        }
    }

    fn wait(&mut self, timeout: Duration) {
        self.ask_to_be_rung(1);
        self.own.bell().sleeping.store(1, SeqCst);
        wake::before_last_look(self.registered);
        if !self.anything_new() {
            wake::sleep(&self.own.bell().sleeping, timeout);
        }
        self.own.bell().sleeping.store(0, SeqCst);
        self.ask_to_be_rung(0);
    }
}
