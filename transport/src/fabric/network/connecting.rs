//! Peers come and go.

use super::Network;
use super::address::NetworkAddress;
use super::choices::CONTROL_CREDITS;
use super::lane::{Patience, PatienceOptions, Receiving, Sending};
use super::operation::Operation;
use super::peer::Peer;
use crate::fabric::{Address, FabricError};
use core::time::Duration;
use refrain_libfabric::native::{MessageEndpoint, Removal};
use refrain_ring::{Incarnation, Rank};
use std::collections::BTreeMap;

impl<E: MessageEndpoint> Network<E> {
    /// Exchanges a greeting with other ranks, so that an address that does not
    /// answer is found at the start: sends one to `to`, waits for its answer, and
    /// answers those of `from`. To be called by all ranks of the job at about the
    /// same time, after they connected; a rank is in `from` of the one that it
    /// greets.
    ///
    /// # Errors
    /// [`FabricError::Silent`] after `timeout`.
    pub fn greet(
        &mut self,
        to: Option<Rank>,
        from: &[Rank],
        timeout: Duration,
    ) -> Result<(), FabricError> {
        self.greet_and_answer(to, from, timeout)
    }

    pub(super) fn silent(&self, peer: Rank, waited: Duration) -> FabricError {
        let state = self.peers[peer.index()].as_ref();
        let address = state.map_or_else(String::new, |state| state.published.readable());
        let words = state.and_then(|state| state.last_error.clone());
        FabricError::Silent {
            peer,
            address: words.map_or(address.clone(), |words| format!("{address} ({words})")),
            waited_s: waited.as_secs(),
        }
    }

    pub(super) fn connect_life(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        let published = self.acceptable_address(peer, incarnation, address)?;
        self.fence(peer);
        let address = match self.endpoint.insert(&published.name) {
            Ok(address) => address,
            Err(error) => {
                let reason = format!("{} ({})", error, published.readable());
                return Err(FabricError::Attach { peer, reason });
            }
        };
        self.acceptable[peer.index()] = u64::from(incarnation.0) + 1;
        self.connections = self.connections.wrapping_add(1);
        let credits = self.choices.credits as u64;
        let tell_bytes = (published.window_bytes / 4).max(1);
        let mut receiving = Receiving::new(credits, CONTROL_CREDITS as u64, tell_bytes);
        if self.early[peer.index()].take() >= Some(incarnation) {
            receiving.missed_the_beginning();
        }
        self.peers[peer.index()] = Some(Peer {
            rank: peer,
            incarnation,
            address,
            published,
            connection: self.connections,
            sending: Sending::new(credits, CONTROL_CREDITS as u64),
            receiving,
            patience: Patience::new(PatienceOptions {
                lost_after: self.options.lost_after,
                suspect_after: self.options.suspect_after,
            }),
            is_broken: false,
            is_lost: false,
            has_attention: false,
            last_error: None,
            kept: BTreeMap::new(),
        });
        self.note_attention(peer);
        Ok(())
    }

    /// The address of a life that may be connected now.
    fn acceptable_address(
        &self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<NetworkAddress, FabricError> {
        let refuse = |reason: String| Err(FabricError::Attach { peer, reason });
        if peer == self.options.rank || peer.0 >= self.options.size {
            return refuse("only other ranks of the job can be connected".into());
        }
        if u64::from(incarnation.0) < self.acceptable[peer.index()] {
            return refuse(
                "this incarnation was connected before: only a later one may come".into(),
            );
        }
        let published = match NetworkAddress::decode(&address.bytes) {
            Ok(published) => published,
            Err(error) => return refuse(error.to_string()),
        };
        let life = (published.rank, published.incarnation, published.job);
        if life != (peer, incarnation, self.own.job) {
            return refuse(format!(
                "the address is of rank {} in incarnation {} of job {:x}",
                published.rank, published.incarnation, published.job
            ));
        }
        match published.mismatch(&self.own) {
            Some(mismatch) => refuse(mismatch),
            None => Ok(published),
        }
    }

    pub(super) fn fence(&mut self, peer: Rank) {
        if let Some(Some(fenced)) = self.peers.get_mut(peer.index()).map(Option::take) {
            // FENCE-1: what it had under way belongs to a connection that is over.
            self.attention.retain(|rank| *rank != peer);
            self.lost.retain(|rank| *rank != peer);
            self.greetings.forget(peer);
            self.fetching.disconnected(peer, fenced.connection);
            // What a provider cannot forget is never used again.
            if let Ok(Removal::Over) = self.endpoint.remove(fenced.address) {
                self.settle();
                self.transmitter.removed(peer, fenced.connection);
                self.fetching.removed(peer, fenced.connection);
            }
        }
    }

    /// Looks at what was polled and is over. What has arrived stays for the next poll.
    fn settle(&mut self) {
        for completion in core::mem::take(&mut self.batch) {
            match Operation::of(completion.token) {
                Operation::Receive(_) => self.batch.push(completion),
                _ => {
                    self.complete(completion, None);
                }
            }
        }
    }
}
