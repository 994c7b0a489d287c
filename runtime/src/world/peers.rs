//! Finds the addresses of other ranks in the business cards that they publish.

use crate::Error;
use refrain_job::control::business_card::BusinessCard;
use refrain_job::control::host::HostIdentity;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::network::address::NetworkAddress;
use refrain_transport::fabric::{Address, FabricError, mixed};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The fabric to reach other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Shared memory for all ranks.
    Near,
    /// A network fabric for all ranks.
    Far,
    /// Shared memory for ranks of this host, a network fabric for all others.
    Mixed,
    /// Shared memory for the members of the rank's set, which have the same launcher on the same host.
    /// No other rank is reached.
    Set,
    /// No other rank is reached.
    None,
}

/// How this rank reaches the other ranks of its job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peers {
    pub(super) host: HostIdentity,
    pub(super) reach: Reach,
}

/// The business card of another rank.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) card: BusinessCard,
    /// The rank's address for ranks on its host, with its memory.
    pub(super) near: Address,
}

impl Published {
    /// Decodes the value that `rank` has published under its address key.
    pub(super) fn read(rank: Rank, bytes: &[u8], memory: Option<OwnedFd>) -> Result<Self, Error> {
        let card = BusinessCard::decode(bytes).map_err(|error| {
            refused(
                rank,
                format!("what it has published cannot be read: {error}"),
            )
        })?;
        let near = Address {
            bytes: card.near.clone(),
            memory: memory.map(Arc::new),
        };
        Ok(Self { card, near })
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.card.incarnation
    }

    /// Sets the address for ranks on other hosts, which was published separately. A rank that died
    /// meanwhile may have published it in another life than the card. The life of the address is
    /// connected; the launcher announces later lives.
    pub(super) fn has_far(&mut self, far: Vec<u8>) {
        if let Ok(address) = NetworkAddress::decode(&far) {
            self.card.incarnation = address.incarnation;
        }
        self.card.far = far;
    }
}

impl Peers {
    /// The address of `rank` for this rank's fabric; `None` if it has not yet published one that
    /// this rank can use.
    pub(super) fn address_of(
        &self,
        rank: Rank,
        published: &Published,
    ) -> Result<Option<Address>, Error> {
        let is_near = published.card.host == self.host;
        let far = || (!published.card.far.is_empty()).then(|| bare(&published.card.far));
        match self.reach {
            Reach::None => Ok(None),
            Reach::Set => Ok(Some(mixed::join(Some(published.near.clone()), None))),
            Reach::Near if is_near => Ok(Some(published.near.clone())),
            Reach::Near => Err(refused(rank, STRANGER.into())),
            Reach::Far => Ok(far()),
            Reach::Mixed if is_near => Ok(Some(mixed::join(Some(published.near.clone()), None))),
            Reach::Mixed => Ok(far().map(|far| mixed::join(None, Some(far)))),
        }
    }
}

/// The reason why shared memory alone is not enough.
pub(super) const STRANGER: &str = "it runs on another host (or in another network namespace), where shared memory does not reach: use --fabric auto";

fn refused(peer: Rank, reason: String) -> Error {
    FabricError::Attach { peer, reason }.into()
}

/// An address without memory.
pub(super) fn bare(bytes: &[u8]) -> Address {
    Address {
        bytes: bytes.to_vec(),
        memory: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card_of(life: u32) -> Published {
        let card = BusinessCard {
            incarnation: Incarnation(life),
            host: HostIdentity::of_this_process().unwrap(),
            near: vec![1],
            far: Vec::new(),
        };
        Published::read(Rank(1), &card.encode(), None).unwrap()
    }

    fn address_of(life: u32) -> Vec<u8> {
        NetworkAddress {
            rank: Rank(1),
            incarnation: Incarnation(life),
            job: 7,
            provider: "tcp;ofi_rxm".into(),
            name: vec![2; 16],
            message_bytes_max: 1 << 16,
            credits: 8,
            window_bytes: 1 << 20,
            key: 0,
            base: 0,
        }
        .encode()
    }

    /// A rank dies while others join: its card is from one life, its address from another.
    #[test]
    fn the_life_that_is_connected_is_the_one_whose_address_it_is() {
        for (card, address) in [(0, 0), (0, 1), (1, 0)] {
            let mut published = card_of(card);
            published.has_far(address_of(address));
            assert_eq!(published.incarnation(), Incarnation(address));
            assert_eq!(published.card.far, address_of(address));
        }
    }
}
