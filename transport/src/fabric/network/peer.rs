//! One connected peer.

use super::address::NetworkAddress;
use super::lane::{Patience, Receiving, Sending};
use crate::fabric::Place;
use core::time::Duration;
use refrain_libfabric::native::MessageEndpoint;
use refrain_ring::{Incarnation, Rank};
use std::collections::BTreeMap;

/// A connection with a peer. Each connection has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub rank: Rank,
    pub number: u32,
}

/// The peer at the other end of a connection, while it lasts.
#[inline]
pub fn peer_of<E: MessageEndpoint>(
    peers: &mut [Option<Box<FabricPeer<E>>>],
    connection: Connection,
) -> Option<&mut FabricPeer<E>> {
    peers[connection.rank.index()]
        .as_deref_mut()
        .filter(|peer| peer.connection == connection)
}

/// One connected peer: its address, and the lanes with it.
#[derive(Debug)]
pub struct FabricPeer<E: MessageEndpoint> {
    pub rank: Rank,
    pub incarnation: Incarnation,
    pub address: E::Peer,
    pub published: NetworkAddress,
    /// Distinguishes completions of this connection from those of earlier ones.
    pub connection: Connection,
    pub sending: Sending,
    pub receiving: Receiving,
    pub patience: Patience,
    /// Whether its data or control frames broke the rules: then no more are taken.
    pub is_broken: bool,
    /// Whether it was reported as lost.
    pub is_lost: bool,
    /// Whether it is on the list of peers that need attention.
    pub has_attention: bool,
    /// Whether it has greeted and was answered.
    pub was_answered: bool,
    /// Whether it has answered a greeting.
    pub has_answered: bool,
    /// The last error of the provider about it.
    pub last_error: Option<String>,
    /// Payload of kept frames, by their number.
    pub kept: BTreeMap<u64, Box<[u8]>>,
}

impl<E: MessageEndpoint> FabricPeer<E> {
    /// Whether anything may be transmitted to it now.
    #[inline]
    pub fn can_be_sent_to(&self) -> bool {
        !self.is_lost && !self.patience.holds_back()
    }

    /// Whether a frame with this place came on this connection.
    pub fn holds(&self, place: Place) -> bool {
        u64::from(self.incarnation.0) == place.locator
    }

    /// Notes that the provider reports an error about the peer.
    #[cold]
    pub fn failed(&mut self, error: &E::Error, now: Duration) {
        self.last_error = Some(error.to_string());
        self.patience.failed(now);
    }

    /// Whether the log need not hold frames for it.
    pub fn is_drained(&self) -> bool {
        self.is_lost || self.patience.is_troubled() || !self.sending.is_needed()
    }
}
