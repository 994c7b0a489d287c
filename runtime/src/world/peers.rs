//! How the other ranks are reached, from what they publish of themselves.

use crate::Error;
use crate::control::card::Card;
use crate::control::host::HostIdentity;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::{Address, FabricError, mixed};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// By which fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Shared memory, all of them.
    Near,
    /// Libfabric, all of them.
    Far,
    /// Those of this host by shared memory, the others by libfabric.
    Mixed,
    /// There are no others.
    Nobody,
}

/// The others of a job, as this rank reaches them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peers {
    pub(super) host: HostIdentity,
    pub(super) reach: Reach,
}

/// What another rank has published.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) card: Card,
    /// Its address for ranks on its host, with the memory.
    pub(super) near: Address,
}

impl Published {
    /// Reads what `rank` has put under its address key.
    pub(super) fn read(rank: Rank, bytes: &[u8], memory: Option<OwnedFd>) -> Result<Self, Error> {
        let card = Card::decode(bytes).map_err(|error| {
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
}

impl Peers {
    /// The address of a rank, for this one's fabric; `None` when it has not said
    /// yet how it is reached from here.
    pub(super) fn address_of(
        &self,
        rank: Rank,
        published: &Published,
    ) -> Result<Option<Address>, Error> {
        let is_near = published.card.host == self.host;
        let far = || (!published.card.far.is_empty()).then(|| bare(&published.card.far));
        match self.reach {
            Reach::Nobody => Ok(None),
            Reach::Near if is_near => Ok(Some(published.near.clone())),
            Reach::Near => Err(refused(rank, STRANGER.into())),
            Reach::Far => Ok(far()),
            Reach::Mixed if is_near => Ok(Some(mixed::join(Some(published.near.clone()), None))),
            Reach::Mixed => Ok(far().map(|far| mixed::join(None, Some(far)))),
        }
    }
}

/// Why shared memory alone does not do.
pub(super) const STRANGER: &str = "it runs on another host (or in another network namespace), where shared memory does not reach: use --fabric auto";

fn refused(peer: Rank, reason: String) -> Error {
    Error::Fabric(FabricError::Attach { peer, reason })
}

/// An address without memory.
pub(super) fn bare(bytes: &[u8]) -> Address {
    Address {
        bytes: bytes.to_vec(),
        memory: None,
    }
}
