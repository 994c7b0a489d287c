//! The contract's calls: connecting, posting, polling, waiting.

use super::incoming::{Incoming, life_word};
use super::segment::{CONTROL_SLOTS, Lane, Segment, arena_offset};
use super::{Peer, Shm, wake};
use crate::control::Control;
use crate::fabric::{
    Address, Attributes, Fabric, FabricError, Landing, Place, RELEASED_WHOLLY, Refusal, Sink,
};
use crate::gate::Pass;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{compiler_fence, fence};
use core::time::Duration;
use refrain_ring::{CHUNK_BYTES, Frame, Incarnation, Position, Rank, Region};
use std::sync::Arc;

impl Peer {
    /// Rings as rank `me` after a store for this peer, unless the peer polls that lane.
    #[inline]
    fn ring_if_asked(&self, lane: &Lane, me: Rank) {
        self.after_store();
        if lane.polled.load(Relaxed) == 0 {
            self.ring(me);
        }
    }

    /// Rings as rank `me` after a release on this lane, if the peer waits for room there.
    #[inline]
    pub(super) fn ring_if_waiting(&self, lane: &Lane, me: Rank) {
        self.after_store();
        if lane.waits_for_room.load(Relaxed) == 1 && lane.waits_for_room.swap(0, SeqCst) == 1 {
            self.ring(me);
        }
    }

    /// The sender's half of [`wake`]: the fence between a store for this peer and the check of what
    /// the peer asks for.
    #[inline(always)]
    fn after_store(&self) {
        if self.both_answer_barriers {
            compiler_fence(SeqCst);
        } else {
            fence(SeqCst);
        }
    }
}

impl Shm {
    fn new_peer(&self, rank: Rank, incarnation: Incarnation, segment: Segment) -> Peer {
        let answers = segment.head().answers_barriers.load(Acquire) == 1;
        let own = (self.options.rank, self.options.incarnation);
        Peer {
            rank,
            both_answer_barriers: self.registered && answers,
            incoming: Incoming::new((rank, incarnation), own, &segment),
            segment,
            control_posted: 0,
            control_taken: 0,
            seen: (0, 0),
            has_begun: false,
            is_named: false,
        }
    }

    #[inline(always)]
    pub(super) fn poll_lane(
        &mut self,
        rank: Rank,
        sink: &mut dyn Sink,
    ) -> Result<usize, FabricError> {
        let Some(Some(peer)) = self.peers.get_mut(rank.index()) else {
            return Ok(0);
        };
        let lane = peer.segment.lane(self.options.rank);
        // The sender may have cleared `polled` before the lane was for this life.
        if !peer.incoming.is_open && peer.incoming.open(lane) && self.hot.contains(&rank) {
            lane.polled.store(1, Relaxed);
        }
        let polled = peer.incoming.poll(lane, sink);
        let (calls, released) = polled.inspect_err(|_| self.hot.retain(|hot| *hot != rank))?;
        if released {
            peer.ring_if_waiting(lane, self.options.rank);
        }
        Ok(calls)
    }
}

impl Fabric for Shm {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn address(&self) -> Address {
        Address {
            bytes: b"memfd".to_vec(),
            memory: self.own.file().cloned(),
        }
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        self.acceptable.check(peer, incarnation)?;
        let Some(memory) = &address.memory else {
            let reason = "its address carries no shared memory: is it on another host?".into();
            return Err(FabricError::Attach { peer, reason });
        };
        let segment = Segment::attach(Arc::clone(memory))?;
        segment.check((peer, incarnation), self.options.job, self.options.size)?;
        self.own.reserve_lane(peer)?;
        self.disconnect(peer);
        self.acceptable.connected(peer, incarnation);
        self.peers[peer.index()] = Some(Box::new(self.new_peer(peer, incarnation, segment)));
        self.connected.push(peer);
        let lane = self.own.lane(peer);
        lane.for_life.store(life_word(incarnation), Release);
        // Frames that the peer posted before this connection rang the doorbell too early.
        self.make_hot(peer);
        self.ring_self_again_unless_drained(peer);
        Ok(())
    }

    fn disconnect(&mut self, peer: Rank) {
        if let Some(Some(_)) = self.peers.get_mut(peer.index()).map(Option::take) {
            self.hot.retain(|hot| *hot != peer);
            self.connected.retain(|connected| *connected != peer);
            // FENCE-1: the next incarnation finds an empty lane.
            let lane = self.own.lane(peer);
            lane.for_life.store(0, Release);
            lane.first_chunk.store(0, Relaxed);
            lane.released.store(0, Relaxed);
            lane.control_taken.store(0, Relaxed);
            lane.waits_for_room.store(0, Relaxed);
            let slots = lane.control.iter();
            slots.for_each(|slot| slot.sequence.store(0, Relaxed));
            lane.polled.store(0, Release);
        }
    }

    #[inline]
    fn post(&mut self, _pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        self.region.publish(frame);
        let lane = self.own.lane(peer);
        if !state.is_named {
            state.has_begun = true;
            state.is_named = true;
            let chunk = (frame.offset - arena_offset(self.options.size)) / CHUNK_BYTES;
            lane.first_chunk.store(chunk as u64 + 1, Release);
        }
        state.ring_if_asked(lane, self.options.rank);
        Ok(())
    }

    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        let state = self
            .peers
            .get_mut(peer.index())
            .and_then(Option::as_deref_mut);
        let Some(state) = state.filter(|state| state.is_named) else {
            // No receiver has begun to read.
            region.publish(link);
            return true;
        };
        let lane = self.own.lane(peer);
        // Before the link: behind it the receiver waits for another chunk.
        lane.first_chunk.store(0, Relaxed);
        state.is_named = false;
        region.publish(link);
        state.ring_if_asked(lane, self.options.rank);
        false
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
        for (place, word) in slot.words.iter().zip(words) {
            place.store(word.to_le(), Relaxed);
        }
        state.control_posted += 1;
        slot.sequence.store(state.control_posted, Release);
        state.ring_if_asked(lane, self.options.rank);
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
        if self.is_rung(Relaxed) {
            calls += self.answer_doorbell(sink)?;
        }
        let mut index = 0;
        while let Some(rank) = self.hot.get(index).copied() {
            index += 1;
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
            let lane = peer.segment.lane(self.options.rank);
            if !self.hot.contains(&place.source) && peer.incoming.publish_released(lane) {
                peer.ring_if_waiting(lane, self.options.rank);
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
        while let Some(peer) = self.connected.last().copied() {
            self.disconnect(peer);
        }
    }

    fn wait(&mut self, timeout: Duration) {
        self.ask_to_be_rung(1);
        self.own.doorbell().sleeping.store(1, SeqCst);
        wake::before_last_look(self.registered);
        if !self.anything_new() {
            wake::sleep(&self.own.doorbell().sleeping, timeout);
        }
        self.own.doorbell().sleeping.store(0, SeqCst);
        // Before the caller reads the control socket: a later call stays set.
        self.own.doorbell().called.store(0, SeqCst);
        self.ask_to_be_rung(0);
    }
}
