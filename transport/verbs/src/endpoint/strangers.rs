//! Peers that came by themselves, where that is allowed: nobody else knows them,
//! so nobody will remove them. They are forgotten when their connection breaks, whichever
//! side sees that first, or does not come about: one that greets and then computes is
//! waited for, unless others need its place. One that dies says nothing: each is written
//! to from time to time, zero bytes, which need no memory of it.

use super::address::Address;
use super::pair::State;
use super::work_request::PairId;
use super::{Open, PeerAddress};
use crate::greeting::{Greeting, SILENT_AFTER};
use core::time::Duration;
use std::collections::HashMap;

/// Time between two looks whether strangers live.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// How long one may take to answer the greeting that answers its own.
const CONNECT_MAX: Duration = Duration::from_secs(60);

/// Peers that were not inserted.
#[derive(Default)]
pub(super) struct Strangers {
    /// With the time at which they came, or were connected last.
    known: HashMap<PeerAddress, Duration>,
    probe_at: Duration,
}

impl Strangers {
    pub(super) fn insert(&mut self, peer: PeerAddress, now: Duration) {
        if self.known.is_empty() {
            self.probe_at = now + PROBE_EVERY;
        }
        self.known.insert(peer, now);
    }

    /// It is not connected from now on, if it is one.
    pub(super) fn unconnected(&mut self, peer: PeerAddress, now: Duration) {
        if let Some(since) = self.known.get_mut(&peer) {
            *since = now;
        }
    }

    /// It is looked after by others from now on, or gone. Says whether it was one.
    pub(super) fn remove(&mut self, peer: PeerAddress) -> bool {
        self.known.remove(&peer).is_some()
    }

    /// Who would be connected by now.
    fn late(&self, now: Duration) -> impl Iterator<Item = PeerAddress> {
        let known = self.known.iter();
        known
            .filter(move |(_, since)| now >= **since + CONNECT_MAX)
            .map(|(peer, _)| *peer)
    }

    /// When to look whether they live.
    pub(super) fn next_at(&self) -> Option<Duration> {
        (!self.known.is_empty()).then_some(self.probe_at)
    }
}

impl Open {
    /// Takes in whoever greets, if there is room, or someone who does not connect makes
    /// room.
    pub(super) fn admit(&mut self, now: Duration, greeting: &Greeting) -> Option<PeerAddress> {
        if self.peers.len() >= self.options.peers_max {
            let silent = self.most_silent(now)?;
            self.forget_stranger(silent);
        }
        let address = Address {
            identity: greeting.from,
            contact: greeting.contact,
        };
        let peer = self.insert(address).ok()?;
        self.strangers.insert(peer, now);
        Some(peer)
    }

    /// The stranger that is not connected and was not heard for longest, if that is long.
    fn most_silent(&self, now: Duration) -> Option<PeerAddress> {
        let strangers = self.peers.iter().filter(|peer| {
            !peer.is_established && self.strangers.known.contains_key(&peer.address)
        });
        let silent = strangers.min_by_key(|peer| peer.connecting.heard_at())?;
        (now >= silent.connecting.heard_at() + SILENT_AFTER).then_some(silent.address)
    }

    /// Whether a stranger that was connected greets with a later queue pair: its
    /// connection broke, and it has seen that first.
    pub(super) fn has_broken(&self, peer: PeerAddress, greeting: &Greeting) -> bool {
        let peer = self.peers.get(peer).filter(|peer| peer.is_established);
        peer.is_some_and(|peer| {
            self.strangers.known.contains_key(&peer.address)
                && peer.connecting.generation() < Some(greeting.offer.generation)
        })
    }

    /// Asks strangers whether they live, when it is time, and forgets those that do not
    /// connect.
    pub(super) fn probe_strangers(&mut self, now: Duration) {
        if self.strangers.next_at().is_none_or(|at| now < at) {
            return;
        }
        self.strangers.probe_at = now + PROBE_EVERY;
        let is_idle = |id: &PairId| {
            let pair = self.pairs.get(*id);
            pair.is_some_and(|pair| pair.state == State::Bound && !pair.is_marked)
        };
        let peers = self.peers.iter();
        let idle: Vec<PairId> = peers
            .filter(|peer| peer.is_established && self.strangers.known.contains_key(&peer.address))
            .filter_map(|peer| peer.pair)
            .filter(is_idle)
            .collect();
        idle.into_iter().for_each(|id| self.mark(id));
        let is_unconnected = |address: &PeerAddress| {
            let peer = self.peers.get(*address);
            peer.is_none_or(|peer| !peer.is_established)
        };
        let late: Vec<PeerAddress> = self.strangers.late(now).filter(is_unconnected).collect();
        for peer in late {
            self.forget_stranger(peer);
        }
    }

    /// Whether that queue pair was a stranger's: it is forgotten then.
    pub(super) fn forget_stranger_of(&mut self, id: PairId) -> bool {
        let peer = self.pairs.get(id).and_then(|pair| pair.peer);
        let peer = peer.and_then(|peer| self.peers.get(peer));
        // One that has another by now goes on with that.
        let broken = peer.filter(|peer| peer.pair.is_none());
        let address = broken.map(|peer| peer.address);
        address.is_some_and(|address| self.forget_stranger(address))
    }

    /// Forgets a peer if it is a stranger, for ever (FENCE-1), without waiting for
    /// the device. Says whether it is one.
    pub(super) fn forget_stranger(&mut self, peer: PeerAddress) -> bool {
        if !self.strangers.remove(peer) {
            return false;
        }
        let pair = self.peers.get(peer).and_then(|peer| peer.pair);
        self.peers.take(peer);
        self.progress
            .ready
            .retain(|completion| completion.peer != Some(peer));
        for pair in self.pairs.iter_mut() {
            if pair.peer == Some(peer) {
                pair.peer = None;
            }
        }
        if let Some(pair) = pair {
            self.give_up(pair);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::peers::Peers;
    use super::*;
    use crate::greeting::Identity;

    /// One that came and says nothing more has its minute, and no more than that.
    #[test]
    fn whoever_does_not_connect_is_late_after_a_minute() {
        let peer = Peers::new(Identity([1; 16])).next_address();
        let mut strangers = Strangers::default();
        assert_eq!(strangers.next_at(), None);
        let came_at = Duration::from_secs(7);
        strangers.insert(peer, came_at);
        assert_eq!(strangers.next_at(), Some(came_at + PROBE_EVERY));
        let just_before = came_at + CONNECT_MAX - Duration::from_nanos(1);
        assert_eq!(strangers.late(just_before).count(), 0);
        assert!(strangers.late(came_at + CONNECT_MAX).eq([peer]));
        strangers.unconnected(peer, just_before);
        assert_eq!(strangers.late(came_at + CONNECT_MAX).count(), 0);
        assert!(strangers.late(just_before + CONNECT_MAX).eq([peer]));
        assert!(strangers.remove(peer) && !strangers.remove(peer));
        assert_eq!(strangers.late(Duration::MAX).count(), 0);
    }
}
