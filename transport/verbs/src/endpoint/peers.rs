//! Peers: their identities and queue pairs.

use super::Open;
use super::address::Address;
use super::work_request::PairId;
use crate::Error;
use crate::greeting::{Connecting, Contact, Directory, Identity};

/// Names a peer of one endpoint. It is never reused for another peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress(u64);

/// A peer.
pub(super) struct Peer {
    pub(super) address: PeerAddress,
    pub(super) identity: Identity,
    pub(super) contact: Contact,
    pub(super) connecting: Connecting,
    /// The present queue pair of the peer.
    pub(super) pair: Option<PairId>,
    /// Whether messages can be sent on `pair`.
    pub(super) is_established: bool,
}

/// All peers.
pub(super) struct Peers {
    slots: Vec<Option<Peer>>,
    free: Vec<u32>,
    /// Number of peers ever inserted: the upper half of the next address.
    count: u32,
    pub(super) directory: Directory<PeerAddress>,
    /// Number of peers to which messages cannot be sent now.
    pub(super) unconnected: usize,
}

impl Peers {
    pub(super) fn new(own: Identity) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            count: 0,
            directory: Directory::new(own),
            unconnected: 0,
        }
    }

    /// Number of peers.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The address that the next peer will have.
    pub(super) fn next_address(&self) -> PeerAddress {
        let slot = self.free.last().copied();
        let slot = slot.unwrap_or(self.slots.len() as u32);
        PeerAddress(u64::from(self.count) << 32 | u64::from(slot))
    }

    /// Adds a peer that has the address of [`Peers::next_address`].
    pub(super) fn insert(&mut self, peer: Peer) {
        let slot = peer.address.slot();
        match self.free.pop() {
            Some(_) => self.slots[slot] = Some(peer),
            None => self.slots.push(Some(peer)),
        }
        self.count += 1;
        self.unconnected += 1;
    }

    #[inline]
    pub(super) fn get(&self, address: PeerAddress) -> Option<&Peer> {
        let peer = self.slots.get(address.slot())?.as_ref();
        peer.filter(|peer| peer.address == address)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, address: PeerAddress) -> Option<&mut Peer> {
        let peer = self.slots.get_mut(address.slot())?.as_mut();
        peer.filter(|peer| peer.address == address)
    }

    pub(super) fn take(&mut self, address: PeerAddress) -> Option<Peer> {
        self.get(address)?;
        let peer = self.slots[address.slot()].take()?;
        self.free.push(address.slot() as u32);
        self.unconnected -= usize::from(!peer.is_established);
        self.directory.remove(peer.identity);
        Some(peer)
    }

    /// Records whether messages can be sent to a peer.
    pub(super) fn establish(&mut self, address: PeerAddress, is_established: bool) {
        let Some(peer) = self.get_mut(address) else {
            return;
        };
        if peer.is_established != is_established {
            peer.is_established = is_established;
            match is_established {
                true => self.unconnected -= 1,
                false => self.unconnected += 1,
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.slots.iter().flatten()
    }
}

impl PeerAddress {
    fn slot(self) -> usize {
        self.0 as u32 as usize
    }
}

impl Open {
    pub(super) fn insert(&mut self, address: Address) -> Result<PeerAddress, Error> {
        const ATTEMPTED: &str = "insert the address of a peer";
        if self.peers.len() >= self.options.peers_max {
            return Err(Error::invalid(
                ATTEMPTED,
                format!(
                    "the endpoint was opened for {} peers",
                    self.options.peers_max
                ),
            ));
        }
        let peer = self.peers.next_address();
        let (pair, offer) = self.make_pair(peer, 1)?;
        if let Err(error) = self.peers.directory.insert(address.identity, peer) {
            self.give_up(pair);
            return Err(Error::invalid(ATTEMPTED, error.to_string()));
        }
        let now = self.clock.elapsed();
        let own = self.port.contact;
        self.peers.insert(Peer {
            address: peer,
            identity: address.identity,
            contact: address.contact,
            connecting: Connecting::new(now, self.identity, own, address.identity, offer),
            pair: Some(pair),
            is_established: false,
        });
        // The next poll greets the peer.
        self.progress.look_soon();
        Ok(peer)
    }
}
