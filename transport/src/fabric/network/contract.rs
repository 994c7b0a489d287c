//! The network as a [`Fabric`].

use super::address::NetworkAddress;
use super::choices::CONTROL_CREDITS;
use super::lane::{Owed, Patience, Receiving, Sending};
use super::operation::Operation;
use super::peer::{Connection, FabricPeer};
use super::{IDLE_POLLS, Network, POLLS_PER_LOOK, RECORD_HEAD_BYTES, data, native, sent, whole};
use crate::control::Control;
use crate::fabric::{
    Address, Attributes, Fabric, FabricError, Landing, Place, RELEASED_WHOLLY, Refusal, Sink,
};
use crate::gate::Pass;
use core::time::Duration;
use refrain_libfabric::native::{MessageEndpoint, Removal};
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader};
use std::collections::BTreeMap;

impl<E: MessageEndpoint> Fabric for Network<E> {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn address(&self) -> Address {
        let bytes = self.own.encode();
        Address {
            bytes,
            ..Address::default()
        }
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        let published = self.acceptable_address(peer, incarnation, address)?;
        self.disconnect(peer);
        let inserted = self.endpoint.insert(&published.name);
        let address = inserted.map_err(|error| {
            let reason = format!("{error} ({})", published.readable());
            FabricError::Attach { peer, reason }
        })?;
        self.acceptable.connected(peer, incarnation);
        self.connections = self.connections.wrapping_add(1);
        let credits = self.choices.credits as u64;
        let tell_bytes = (published.window_bytes / 4).max(1);
        let mut receiving = Receiving::new(credits, CONTROL_CREDITS as u64, tell_bytes);
        if self.early[peer.index()].take() >= Some(incarnation) {
            receiving.missed_the_beginning();
        }
        self.peers[peer.index()] = Some(Box::new(FabricPeer {
            rank: peer,
            incarnation,
            address,
            published,
            connection: Connection {
                rank: peer,
                number: self.connections,
            },
            sending: Sending::new(credits, CONTROL_CREDITS as u64),
            receiving,
            patience: Patience::new(self.options.lost_after, self.options.suspect_after),
            is_broken: false,
            is_lost: false,
            has_attention: false,
            was_answered: false,
            has_answered: false,
            last_error: None,
            kept: BTreeMap::new(),
        }));
        self.note_attention(peer);
        Ok(())
    }

    fn disconnect(&mut self, peer: Rank) {
        if let Some(Some(fenced)) = self.peers.get_mut(peer.index()).map(Option::take) {
            // FENCE-1: its operations belong to a connection that has ended.
            self.attention.retain(|rank| *rank != peer);
            self.lost.retain(|rank| *rank != peer);
            self.fetching.disconnected(fenced.connection);
            // An address that the provider cannot remove is not used again.
            if let Ok(Removal::Over) = self.endpoint.remove(fenced.address) {
                self.settle();
                self.transmitter.removed(fenced.connection);
                self.fetching.removed(fenced.connection);
            }
        }
    }

    #[inline]
    fn post(&mut self, _pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        if !state.sending.may_post() || !state.can_be_sent_to() {
            return Err(Refusal::Busy);
        }
        frame.publish(&self.region);
        let payload_bytes = frame.bytes.saturating_sub(RECORD_HEAD_BYTES);
        debug_assert!(
            payload_bytes <= self.attributes.frame_payload_bytes_max,
            "a frame of {payload_bytes} bytes of payload: no slot has room for it"
        );
        let distant_bytes_min = self.choices.distant_bytes_min;
        let distant = distant_bytes_min.is_some_and(|bytes_min| payload_bytes >= bytes_min);
        let mut sent = sent(frame, distant);
        let mut outgoing = data(state.sending.next(), &sent);
        let own = (self.options.rank, self.options.incarnation);
        if let Some(whole) = whole(frame, &self.region, &state.receiving, own, sent.distant) {
            outgoing.body = whole;
        }
        let transmitter = &mut self.transmitter;
        let transmitted = transmitter.transmit(&mut self.endpoint, state, &outgoing);
        let Some(under_way) = transmitted else {
            self.was_refused = true;
            return Err(Refusal::Busy);
        };
        sent.under_way = under_way;
        state.sending.posted(sent);
        Ok(())
    }

    fn stage(
        &mut self,
        _pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        let is_short = state.receiving.counters().held <= u32::from(u16::MAX);
        if !state.sending.may_post() || !state.can_be_sent_to() || !is_short {
            return Err(Refusal::Busy);
        }
        self.transmitter
            .stage(&mut self.endpoint, state, header, fill)
            .ok_or(Refusal::Busy)
    }

    fn staged(&mut self, peer: Rank, frame: &Frame) {
        if let Some(Some(state)) = self.peers.get_mut(peer.index()) {
            frame.publish(&self.region);
            state.sending.posted(sent(frame, false));
        }
    }

    fn post_control(&mut self, _pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        let Some(Some(state)) = self.peers.get_mut(peer.index()) else {
            return Err(Refusal::NotConnected(peer));
        };
        let words = control.encode(self.options.rank, self.options.incarnation);
        if !state.sending.push_control(words) {
            return Err(Refusal::Busy);
        }
        // Control frames that already wait go first.
        if state.can_be_sent_to() {
            self.pump_backlog(peer);
        }
        self.note_attention(peer);
        Ok(())
    }

    #[inline]
    fn released(&mut self, peer: Rank) -> Position {
        let peer = self.peers.get(peer.index()).and_then(Option::as_ref);
        peer.map_or(RELEASED_WHOLLY, |peer| peer.sending.released())
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let mut calls = 0;
        if !self.is_closed {
            if self.batch.is_empty() {
                let polled = self.endpoint.poll(&mut self.batch);
                polled.map_err(|error| native(&error))?;
            }
            if !self.batch.is_empty() {
                calls += self.take_batch(sink);
            }
            // Answers come first: empty slots can wait, unless there are many.
            if !self.to_post.is_empty() && (calls == 0 || self.to_post.len() >= self.repost_from) {
                self.post_receives();
            }
            self.pump_fetches();
            self.polls = self.polls.wrapping_add(1);
            if self.polls.is_multiple_of(POLLS_PER_LOOK) {
                self.look_at_clocks();
            }
            self.idle_polls = if calls == 0 {
                self.idle_polls.saturating_add(1)
            } else {
                0
            };
            if !self.attention.is_empty() {
                let is_idle = self.idle_polls >= IDLE_POLLS;
                self.attend(if is_idle { Owed::WhenIdle } else { Owed::Now });
            }
        }
        while let Some((token, landed)) = self.fetching.take_ended() {
            sink.landed(token, landed);
            calls += 1;
        }
        while let Some(peer) = self.lost.pop() {
            sink.peer_lost(peer);
            calls += 1;
        }
        self.failures.take().map_or(Ok(calls), Err)
    }

    fn why_lost(&self, peer: Rank) -> Option<String> {
        let peer = self.peers.get(peer.index())?.as_ref()?;
        let why = peer.last_error.as_deref().filter(|_| peer.is_lost)?;
        Some(format!("{}: {why}", peer.published.readable()))
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        let peer = self.peers.get(place.source.index());
        peer.and_then(|peer| peer.as_ref().filter(|peer| peer.holds(place)))
            .and_then(|peer| peer.kept.get(&place.position.0)?.get(..payload_bytes))
            .unwrap_or(&[])
    }

    fn let_go(&mut self, place: Place) {
        if let Some(Some(peer)) = self.peers.get_mut(place.source.index())
            && peer.holds(place)
            && peer.kept.remove(&place.position.0).is_none()
        {
            peer.receiving.let_go(place.position.0);
            self.note_attention(place.source);
        }
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        let peer = self.peers.get(place.source.index());
        match peer.and_then(|peer| peer.as_ref().filter(|peer| peer.holds(place))) {
            Some(peer) if !peer.is_lost => {
                self.fetching.begin(peer, place.position.0, landing);
                self.pump_fetches();
            }
            _ => self.fetching.lose(&landing),
        }
    }

    fn is_drained(&mut self) -> bool {
        self.attend(Owed::WhenIdle);
        let peer = |rank: Rank| self.peers[rank.index()].as_deref();
        let is_owed = |rank: &Rank| peer(*rank).is_some_and(FabricPeer::can_be_sent_to);
        let is_connected = |connection: Connection| {
            peer(connection.rank).is_some_and(|peer| peer.connection == connection && !peer.is_lost)
        };
        self.is_closed
            || self.endpoint.has_sent_all()
                && !self.transmitter.is_busy(is_connected)
                && !self.attention.iter().any(is_owed)
                && self.peers.iter().flatten().all(|peer| peer.is_drained())
    }

    fn close(&mut self) {
        self.is_closed = true;
        // On an error the endpoint leaks its objects: the memory that they use is not freed.
        let _ = self.endpoint.close();
        self.fetching.closed();
        self.batch.clear();
    }

    fn wait(&mut self, timeout: Duration) {
        self.sleep(timeout);
    }
}

impl<E: MessageEndpoint> Network<E> {
    /// Decodes the address of a life that may be connected now.
    fn acceptable_address(
        &self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<NetworkAddress, FabricError> {
        self.acceptable.check(peer, incarnation)?;
        let refuse = |reason: String| FabricError::Attach { peer, reason };
        let published = NetworkAddress::decode(&address.bytes);
        let published = published.map_err(|error| refuse(error.to_string()))?;
        let life = (published.rank, published.incarnation, published.job);
        if life != (peer, incarnation, self.own.job) {
            return Err(refuse(format!(
                "the address is of rank {} in incarnation {} of job {:x}",
                published.rank, published.incarnation, published.job
            )));
        }
        match published.mismatch(&self.own) {
            Some(mismatch) => Err(refuse(mismatch)),
            None => Ok(published),
        }
    }

    /// Handles completions of sends and reads. Arrived messages stay for the next poll.
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

    fn take_batch(&mut self, sink: &mut dyn Sink) -> usize {
        let mut calls = 0;
        let mut batch = core::mem::take(&mut self.batch);
        for completion in batch.drain(..) {
            calls += self.complete(completion, Some(sink));
        }
        self.batch = batch;
        calls
    }
}
