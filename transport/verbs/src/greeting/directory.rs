//! The known senders of greetings.

use super::wire::{Greeting, Identity};
use std::collections::{HashMap, HashSet};
use thiserror::Error;

/// The peers of an endpoint by their identities. A removed peer never comes back (FENCE-1): its
/// identity of 16 bytes is kept as long as the endpoint.
#[derive(Clone, Debug)]
pub struct Directory<P> {
    own: Identity,
    known: HashMap<Identity, P>,
    gone: HashSet<Identity>,
}

/// What is known about the sender of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<P> {
    /// A peer.
    Known(P),
    /// The sender is not known, and never was.
    Unknown,
    /// The sender was removed, and gets no answer.
    Gone,
    /// The greeting is for an earlier endpoint with this address.
    ForAnother,
}

/// The endpoint with that identity was removed, is known already, or is this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the endpoint {0:?} is already known: a restarted peer needs a new endpoint")]
pub struct Gone(pub Identity);

impl<P: Copy> Directory<P> {
    /// A directory without peers, of the endpoint with identity `own`.
    pub fn new(own: Identity) -> Self {
        Self {
            own,
            known: HashMap::new(),
            gone: HashSet::new(),
        }
    }

    /// Adds an endpoint: its greetings count from now on.
    ///
    /// # Errors
    /// When the endpoint is known, was removed, or is this one.
    pub fn insert(&mut self, identity: Identity, peer: P) -> Result<(), Gone> {
        let was_known = self.known.contains_key(&identity) || self.gone.contains(&identity);
        if was_known || identity == self.own {
            return Err(Gone(identity));
        }
        self.known.insert(identity, peer);
        Ok(())
    }

    /// Removes an endpoint: its greetings do not count from now on, however late they arrive
    /// (FENCE-1). It need not be known.
    pub fn remove(&mut self, identity: Identity) -> Option<P> {
        self.gone.insert(identity);
        self.known.remove(&identity)
    }

    /// Looks up the sender of a greeting.
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
