//! The senders whose greetings are taken.

use super::wire::{Greeting, Identity};
use std::collections::{HashMap, HashSet};
use thiserror::Error;

/// The peers of an endpoint by their identities. One that was removed never comes
/// back (FENCE-1): 16 bytes of it are kept as long as the endpoint.
#[derive(Clone, Debug)]
pub struct Directory<P> {
    own: Identity,
    known: HashMap<Identity, P>,
    gone: HashSet<Identity>,
}

/// The sender of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<P> {
    /// A peer.
    Known(P),
    /// Not known, and never was.
    Unknown,
    /// Removed: it gets no answer.
    Gone,
    /// The greeting is for an earlier endpoint with this address.
    ForAnother,
}

/// The endpoint of that identity was removed, is known, or is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the endpoint {0:?} was known before: a peer that comes back needs a new one")]
pub struct Gone(pub Identity);

impl<P: Copy> Directory<P> {
    /// For an endpoint without peers.
    pub fn new(own: Identity) -> Self {
        Self {
            own,
            known: HashMap::new(),
            gone: HashSet::new(),
        }
    }

    /// From now on greetings of that endpoint count.
    ///
    /// # Errors
    /// When it is known, was removed, or is this one.
    pub fn insert(&mut self, identity: Identity, peer: P) -> Result<(), Gone> {
        let was_known = self.known.contains_key(&identity) || self.gone.contains(&identity);
        if was_known || identity == self.own {
            return Err(Gone(identity));
        }
        self.known.insert(identity, peer);
        Ok(())
    }

    /// From now on no greeting of that endpoint counts, however late it comes
    /// (FENCE-1). Whether it was known does not matter.
    pub fn remove(&mut self, identity: Identity) -> Option<P> {
        self.gone.insert(identity);
        self.known.remove(&identity)
    }

    /// Looks up the sender.
    pub fn of(&self, greeting: &Greeting) -> Standing<P> {
        if greeting.to != self.own {
            return Standing::ForAnother;
        }
        match self.known.get(&greeting.from) {
            Some(&peer) => Standing::Known(peer),
            None if self.gone.contains(&greeting.from) => Standing::Gone,
            None => Standing::Unknown,
        }
    }
}
