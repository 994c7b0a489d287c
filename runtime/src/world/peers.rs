//! Finds the addresses of other ranks in the business cards that they publish.

use crate::Error;
use refrain_job::control::Introduced;
use refrain_job::control::business_card::BusinessCard;
use refrain_job::control::host::HostIdentity;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::{Address, FabricError, mixed};
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
    /// Decodes what a rank has published.
    pub(super) fn read(peer: Introduced) -> Result<Self, Error> {
        let card = BusinessCard::decode(&peer.card).map_err(|error| {
            refused(
                peer.rank,
                format!("what it has published cannot be read: {error}"),
            )
        })?;
        let near = Address {
            bytes: card.near.clone(),
            memory: peer.memory.map(Arc::new),
        };
        Ok(Self { card, near })
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.card.incarnation
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
