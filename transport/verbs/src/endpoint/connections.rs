//! Connections: applies the decisions of the greetings to queue pairs.

use super::pair::{Making, PairState};
use super::work_request::PairId;
use super::{Open, PeerAddress};
use crate::Error;
use crate::greeting::{Effect, Greeting, Offer, Standing};
use core::time::Duration;
use std::collections::VecDeque;

/// Events of connections that follow from completions. They are handled after all completions are
/// read.
pub(super) enum Happening {
    /// A queue pair does not work any more, and was stopped.
    Broke(PairId),
    /// A message arrived on a queue pair that is not known to be established.
    Arrived(PairId),
    /// A greeting arrived.
    Heard(Greeting),
}

impl Open {
    /// Whether greetings or queue pairs are in progress, so that time matters.
    #[inline]
    pub(super) fn is_expecting(&self) -> bool {
        !self.progress.happenings.is_empty()
            || self.peers.unconnected > 0
            || self.pairs.draining() > 0
    }

    /// Makes a new queue pair for a peer.
    pub(super) fn make_pair(
        &mut self,
        peer: PeerAddress,
        generation: u32,
    ) -> Result<(PairId, Offer), Error> {
        let id = self.pairs.vacancy().ok_or_else(|| {
            Error::invalid(
                "make a queue pair",
                "too many stopped queue pairs are not destroyed yet: poll, and try again",
            )
        })?;
        let making = Making {
            device: &self.device,
            port: &self.port,
            sizes: &self.sizes,
            inline_bytes: self.inline_bytes,
        };
        let pair = making.pair(id, peer, generation)?;
        let offer = pair.offer;
        self.pairs.insert(pair);
        Ok((id, offer))
    }

    /// Handles the events of connections.
    pub(super) fn happened(&mut self, now: Duration) {
        for happening in core::mem::take(&mut self.progress.happenings) {
            let mut effects = Vec::new();
            let peer = match happening {
                Happening::Broke(id) if self.forget_client_of(id) => None,
                Happening::Broke(id) => self.connection_of(id, |connecting, generation| {
                    connecting.broke(now, generation, &mut effects);
                }),
                Happening::Arrived(id) => self.connection_of(id, |connecting, generation| {
                    connecting.data_arrived(now, generation, &mut effects);
                }),
                Happening::Heard(greeting) => self.heard(now, &greeting, &mut effects),
            };
            if let Some(peer) = peer {
                self.carry_out(peer, now, effects);
            }
        }
    }

    fn connection_of(
        &mut self,
        id: PairId,
        act: impl FnOnce(&mut crate::greeting::Connecting, u32),
    ) -> Option<PeerAddress> {
        let pair = self.pairs.get(id)?;
        let peer = self.peers.get_mut(pair.peer?)?;
        act(&mut peer.connecting, pair.offer.generation);
        Some(peer.address)
    }

    fn heard(
        &mut self,
        now: Duration,
        greeting: &Greeting,
        effects: &mut Vec<Effect>,
    ) -> Option<PeerAddress> {
        let address = match self.peers.directory.of(greeting) {
            Standing::Known(address) if self.has_broken(address, greeting) => {
                self.forget_client(address);
                None
            }
            Standing::Known(address) => Some(address),
            Standing::Unknown if self.options.accepts_unknown => self.admit(now, greeting),
            // FENCE-1: a greeting of a removed peer, or for an earlier endpoint with this address.
            _ => None,
        };
        let Some(peer) = address.and_then(|address| self.peers.get_mut(address)) else {
            self.counters.greetings_ignored += 1;
            return None;
        };
        self.counters.greetings_heard += 1;
        peer.connecting.heard(now, greeting, effects);
        Some(peer.address)
    }

    /// Advances the time of all connections. Those that have been due longest are greeted first, as
    /// far as buffers are free; the others are greeted by the next call.
    pub(super) fn tick(&mut self, now: Duration) {
        let mut due: Vec<(Duration, PeerAddress)> = self
            .peers
            .iter()
            .filter_map(|peer| Some((peer.connecting.next_tick_at()?, peer.address)))
            .filter(|(at, _)| *at <= now)
            .collect();
        due.sort_unstable();
        due.truncate(self.datagrams.room());
        for (_, address) in due {
            let mut effects = Vec::new();
            if let Some(peer) = self.peers.get_mut(address) {
                peer.connecting.tick(now, &mut effects);
            }
            self.carry_out(address, now, effects);
        }
    }

    fn carry_out(&mut self, peer: PeerAddress, now: Duration, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            let mut more = Vec::new();
            match effect {
                Effect::Send(greeting) => self.greet(peer, &greeting),
                Effect::Replace { generation } => self.replace(peer, now, generation, &mut more),
                Effect::Bind { theirs, contact } => {
                    if self.bind(peer, &theirs, &contact).is_err() {
                        effects.clear();
                        self.bind_failed(peer, now, theirs.generation, &mut more);
                    }
                }
                Effect::Established { .. } => {
                    self.counters.connections += 1;
                    self.peers.establish(peer, true);
                }
                Effect::Silent { .. } => {
                    self.counters.silences += 1;
                    self.datagrams.find_routes_anew();
                }
            }
            effects.extend(more);
        }
    }

    /// Sends a greeting. If it is lost or cannot be sent, it is repeated later.
    fn greet(&mut self, peer: PeerAddress, greeting: &Greeting) {
        let Some(peer) = self.peers.get(peer) else {
            return;
        };
        let sent = self
            .datagrams
            .send(&self.device, &self.port, &peer.contact, greeting);
        self.counters.greetings_sent += u64::from(sent.is_ok());
    }

    fn replace(
        &mut self,
        peer: PeerAddress,
        now: Duration,
        generation: u32,
        more: &mut Vec<Effect>,
    ) {
        if let Some(old) = self.peers.get(peer).and_then(|peer| peer.pair) {
            self.give_up(old);
        }
        // If none can be made now, the connection requests it again.
        let Ok((pair, offer)) = self.make_pair(peer, generation) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(peer) else {
            return;
        };
        if peer.connecting.offered(now, offer, more) {
            peer.pair = Some(pair);
        } else {
            self.give_up(pair);
        }
    }

    fn bind(
        &mut self,
        peer: PeerAddress,
        theirs: &Offer,
        contact: &crate::greeting::Contact,
    ) -> Result<(), Error> {
        let none = || Error::invalid("bind a queue pair", "the peer has no queue pair");
        let id = self.peers.get(peer).and_then(|peer| peer.pair);
        let pair = id.and_then(|id| self.pairs.get_mut(id)).ok_or_else(none)?;
        if pair.offer.generation != theirs.generation || pair.state != PairState::Fresh {
            return Err(none());
        }
        pair.bind(
            self.device.library(),
            &self.port,
            &self.options.retry,
            theirs,
            contact,
        )
    }

    fn bind_failed(&mut self, peer: PeerAddress, now: Duration, mine: u32, more: &mut Vec<Effect>) {
        if let Some(id) = self.peers.get(peer).and_then(|peer| peer.pair) {
            self.give_up(id);
        }
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.connecting.broke(now, mine, more);
        }
    }

    /// Stops a queue pair: it receives and sends nothing from now on. Greetings inform its peer;
    /// its requests complete with errors.
    pub(super) fn give_up(&mut self, id: PairId) {
        let now = self.clock.elapsed();
        let Some(pair) = self.pairs.get_mut(id) else {
            return;
        };
        if matches!(pair.state, PairState::Draining { .. }) {
            return;
        }
        let was_bound = pair.state == PairState::Bound;
        let peer = pair.peer;
        pair.stop(self.device.library(), now);
        self.pairs.gave_up_one();
        if was_bound {
            // The marker completes after all requests before it.
            self.mark(id);
        }
        let peer = peer.and_then(|peer| self.peers.get_mut(peer));
        if let Some(peer) = peer.filter(|peer| peer.pair == Some(id)) {
            peer.pair = None;
            let address = peer.address;
            self.peers.establish(address, false);
            self.unknown_clients.unconnected(address, now);
            self.counters.replacements += 1;
            self.progress.happenings.push(Happening::Broke(id));
        }
    }

    /// Whether messages can be sent on this queue pair.
    #[inline]
    pub(super) fn is_established(&self, id: PairId) -> bool {
        let peer = self.pairs.get(id).and_then(|pair| pair.peer);
        let peer = peer.and_then(|peer| self.peers.get(peer));
        peer.is_some_and(|peer| peer.is_established)
    }

    /// Describes the peer of a queue pair, for messages.
    pub(super) fn words_of(&self, id: PairId) -> String {
        let peer = self.pairs.get(id).and_then(|pair| pair.peer);
        match peer.and_then(|peer| self.peers.get(peer)) {
            None => format!("a peer that was removed, from {}", self.port.words),
            Some(peer) => {
                let gid = std::net::Ipv6Addr::from(peer.contact.gid);
                let host = gid
                    .to_ipv4_mapped()
                    .map_or_else(|| gid.to_string(), |host| host.to_string());
                let at = match self.port.contact.lid {
                    0 => host,
                    _ => format!("LID {}", peer.contact.lid),
                };
                format!("the peer at {at}, from {}", self.port.words)
            }
        }
    }
}
