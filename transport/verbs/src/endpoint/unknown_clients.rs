//! Peers that connected without having been inserted, if that is allowed. The caller does not know
//! them, so this module removes them when their connection breaks or is not established in time. A
//! client that greets and then computes keeps its place unless other clients need it. A client that
//! dies sends nothing, so each client gets a write of zero bytes from time to time, which needs
//! none of its memory.

use super::address::Address;
use super::pair::PairState;
use super::work_request::PairId;
use super::{Open, PeerAddress};
use crate::greeting::{Greeting, SILENT_AFTER};
use core::time::Duration;
use std::collections::HashMap;

/// Time between two probes of clients.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// Time for a client to answer the greeting that answers its own.
const CONNECT_MAX: Duration = Duration::from_secs(60);

/// Peers that were not inserted.
#[derive(Default)]
pub(super) struct UnknownClients {
    /// Clients, with the time of their first greeting or of the end of their last connection.
    known: HashMap<PeerAddress, Duration>,
    probe_at: Duration,
}

impl UnknownClients {
    pub(super) fn insert(&mut self, peer: PeerAddress, now: Duration) {
        if self.known.is_empty() {
            self.probe_at = now + PROBE_EVERY;
        }
        self.known.insert(peer, now);
    }

    /// Records that a client is not connected from now on; ignores other peers.
    pub(super) fn unconnected(&mut self, peer: PeerAddress, now: Duration) {
        if let Some(since) = self.known.get_mut(&peer) {
            *since = now;
        }
    }

    /// Removes a peer that was inserted or is gone. Returns whether it was an unknown client.
    pub(super) fn remove(&mut self, peer: PeerAddress) -> bool {
        self.known.remove(&peer).is_some()
    }

    /// The clients that have not connected in time.
    fn late(&self, now: Duration) -> impl Iterator<Item = PeerAddress> {
        let known = self.known.iter();
        known
            .filter(move |(_, since)| now >= **since + CONNECT_MAX)
            .map(|(peer, _)| *peer)
    }

    /// The time of the next probe, if there are clients.
    pub(super) fn next_at(&self) -> Option<Duration> {
        (!self.known.is_empty()).then_some(self.probe_at)
    }
}

impl Open {
    /// Adds the sender of a greeting as a peer, if there is room, or in the place of a client that
    /// does not connect.
    pub(super) fn admit(&mut self, now: Duration, greeting: &Greeting) -> Option<PeerAddress> {
        if self.peers.len() >= self.options.peers_max {
            let silent = self.most_silent(now)?;
            self.forget_client(silent);
        }
        let address = Address {
            identity: greeting.from,
            contact: greeting.contact,
        };
        let peer = self.insert(address).ok()?;
        self.unknown_clients.insert(peer, now);
        Some(peer)
    }

    /// The unconnected client that has been silent longest, if it has been silent for
    /// [`SILENT_AFTER`].
    fn most_silent(&self, now: Duration) -> Option<PeerAddress> {
        let unknown = self.peers.iter().filter(|peer| {
            !peer.is_established && self.unknown_clients.known.contains_key(&peer.address)
        });
        let silent = unknown.min_by_key(|peer| peer.connecting.heard_at())?;
        (now >= silent.connecting.heard_at() + SILENT_AFTER).then_some(silent.address)
    }

    /// Whether a connected client greets with a later queue pair: its connection broke, and the
    /// client has detected that first.
    pub(super) fn has_broken(&self, peer: PeerAddress, greeting: &Greeting) -> bool {
        let peer = self.peers.get(peer).filter(|peer| peer.is_established);
        peer.is_some_and(|peer| {
            self.unknown_clients.known.contains_key(&peer.address)
                && peer.connecting.generation() < Some(greeting.offer.generation)
        })
    }

    /// Probes the clients when it is time, and removes those that do not connect.
    pub(super) fn probe_clients(&mut self, now: Duration) {
        if self.unknown_clients.next_at().is_none_or(|at| now < at) {
            return;
        }
        self.unknown_clients.probe_at = now + PROBE_EVERY;
        let is_idle = |id: &PairId| {
            let pair = self.pairs.get(*id);
            pair.is_some_and(|pair| pair.state == PairState::Bound && !pair.is_marked)
        };
        let peers = self.peers.iter();
        let idle: Vec<PairId> = peers
            .filter(|peer| {
                peer.is_established && self.unknown_clients.known.contains_key(&peer.address)
            })
            .filter_map(|peer| peer.pair)
            .filter(is_idle)
            .collect();
        idle.into_iter().for_each(|id| self.mark(id));
        let is_unconnected = |address: &PeerAddress| {
            let peer = self.peers.get(*address);
            peer.is_none_or(|peer| !peer.is_established)
        };
        let late: Vec<PeerAddress> = self
            .unknown_clients
            .late(now)
            .filter(is_unconnected)
            .collect();
        for peer in late {
            self.forget_client(peer);
        }
    }

    /// Removes the client of a broken queue pair. Returns whether the peer was an unknown client.
    pub(super) fn forget_client_of(&mut self, id: PairId) -> bool {
        let peer = self.pairs.get(id).and_then(|pair| pair.peer);
        let peer = peer.and_then(|peer| self.peers.get(peer));
        // A client with another queue pair continues with that one.
        let broken = peer.filter(|peer| peer.pair.is_none());
        let address = broken.map(|peer| peer.address);
        address.is_some_and(|address| self.forget_client(address))
    }

    /// Removes an unknown client for good (FENCE-1), without waiting for the device. Returns
    /// whether the peer was one.
    pub(super) fn forget_client(&mut self, peer: PeerAddress) -> bool {
        if !self.unknown_clients.remove(peer) {
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

    /// A client that does not connect stays for one minute.
    #[test]
    fn whoever_does_not_connect_is_late_after_a_minute() {
        let peer = Peers::new(Identity([1; 16])).next_address();
        let mut clients = UnknownClients::default();
        assert_eq!(clients.next_at(), None);
        let came_at = Duration::from_secs(7);
        clients.insert(peer, came_at);
        assert_eq!(clients.next_at(), Some(came_at + PROBE_EVERY));
        let just_before = came_at + CONNECT_MAX - Duration::from_nanos(1);
        assert_eq!(clients.late(just_before).count(), 0);
        assert!(clients.late(came_at + CONNECT_MAX).eq([peer]));
        clients.unconnected(peer, just_before);
        assert_eq!(clients.late(came_at + CONNECT_MAX).count(), 0);
        assert!(clients.late(just_before + CONNECT_MAX).eq([peer]));
        assert!(clients.remove(peer) && !clients.remove(peer));
        assert_eq!(clients.late(Duration::MAX).count(), 0);
    }
}
