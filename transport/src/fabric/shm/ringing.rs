//! Doorbells: which lanes a rank polls, and how senders on the other lanes wake it.

use super::{COLD_AFTER_POLLS, HOT_LANES_MAX, Peer, Shm, wake};
use crate::fabric::{FabricError, Sink};
use core::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use refrain_ring::Rank;

impl Peer {
    #[cold]
    pub(super) fn ring(&self, me: Rank) {
        let doorbell = self.segment.doorbell();
        doorbell.rung[me.index() / 64].fetch_or(1 << (me.index() % 64), SeqCst);
        wake::wake(&doorbell.sleeping);
    }
}

impl Shm {
    #[inline]
    pub(super) fn is_rung(&self, ordering: Ordering) -> bool {
        let words = (self.options.size as usize).div_ceil(64);
        let rung = &self.own.doorbell().rung[..words];
        rung.iter().any(|word| word.load(ordering) != 0)
    }

    /// Takes the rung bits of the doorbell and polls the peers that have rung; these become hot if
    /// there is room.
    #[cold]
    pub(super) fn answer_doorbell(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let mut calls = 0;
        for word in 0..(self.options.size as usize).div_ceil(64) {
            let rung = &self.own.doorbell().rung[word];
            if rung.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = rung.swap(0, SeqCst);
            while bits != 0 {
                let rank = Rank(word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
                self.make_hot(rank);
                if !self.hot.contains(&rank) {
                    let taken = self.poll_lane(rank, sink)?;
                    calls += taken;
                    // A lane publishes what it has released at a poll that finds nothing, and this
                    // one is polled when it rings only.
                    if taken > 0 {
                        self.ring_self_again(rank);
                    } else {
                        self.ring_self_again_unless_drained(rank);
                    }
                }
            }
        }
        Ok(calls)
    }

    pub(super) fn make_hot(&mut self, rank: Rank) {
        let may_be_hot = self.peer(rank).is_some_and(|peer| !peer.incoming.broken);
        if !may_be_hot || self.hot.contains(&rank) {
            return;
        }
        if self.hot.len() < HOT_LANES_MAX || self.drop_a_cold_lane() {
            let peer = self.peer(rank).expect("seen above");
            peer.lane().polled.store(1, Relaxed);
            self.hot.push(rank);
        }
    }

    fn drop_a_cold_lane(&mut self) -> bool {
        let cold = self.hot.iter().position(|rank| {
            self.peer(*rank)
                .is_none_or(|peer| peer.incoming.idle_polls > COLD_AFTER_POLLS)
        });
        let Some(index) = cold else { return false };
        let rank = self.hot.swap_remove(index);
        if let Some(peer) = self.peer(rank) {
            peer.lane().polled.store(0, Relaxed);
            wake::before_last_look(self.registered);
            self.ring_self_again_unless_drained(rank);
        }
        true
    }

    /// Rings this rank's own doorbell if a lane still has arrivals: a lane that is not hot is
    /// polled only when its peer has rung.
    pub(super) fn ring_self_again_unless_drained(&self, rank: Rank) {
        if self.peer(rank).is_some_and(Peer::is_ready) {
            self.ring_self_again(rank);
        }
    }

    fn ring_self_again(&self, rank: Rank) {
        self.own.doorbell().rung[rank.index() / 64].fetch_or(1 << (rank.index() % 64), SeqCst);
    }

    pub(super) fn anything_new(&mut self) -> bool {
        let rung = self.is_rung(SeqCst);
        let mut hot = self.hot.iter().filter_map(|rank| self.peer(*rank));
        let arrived = hot.any(Peer::is_ready);
        let called = self.own.doorbell().called.load(SeqCst) != 0;
        rung || called || arrived || self.room_was_made()
    }

    /// Whether a receiver has made room since the last check.
    fn room_was_made(&mut self) -> bool {
        let mut made = false;
        for rank in &self.connected {
            let peer = self.peers[rank.index()].as_deref_mut();
            let Some(peer) = peer.filter(|peer| peer.has_sent()) else {
                continue;
            };
            let lane = self.own.lane(peer.rank);
            let seen = (lane.released.load(SeqCst), lane.control_taken.load(SeqCst));
            made |= seen != core::mem::replace(&mut peer.seen, seen);
        }
        made
    }

    /// Before a sleep (`asked` = 1), asks senders to ring, and receivers that make room. After it
    /// (0), withdraws this.
    pub(super) fn ask_to_be_rung(&self, asked: u32) {
        for peer in self.hot.iter().filter_map(|rank| self.peer(*rank)) {
            peer.lane().polled.store(1 - asked, SeqCst);
        }
        for rank in &self.connected {
            if self.peer(*rank).is_some_and(Peer::has_sent) {
                self.own.lane(*rank).waits_for_room.store(asked, SeqCst);
            }
        }
    }
}
