//! Completions: arriving messages, and the ends of sends and reads.

use super::Network;
use super::operation::Operation;
use super::peer::peer_of;
use super::taking::{Body, Handed};
use super::wire::{
    BRIEF_BYTES, BRIEF_KIND, BriefHeader, Kind, WIRE_BYTES, WireHeader, nearest, nearest_u16,
};
use crate::fabric::Sink;
use refrain_libfabric::native::{CompletionOf, MessageEndpoint};
use refrain_ring::Incarnation;

impl<E: MessageEndpoint> Network<E> {
    /// Handles the completion of an operation of the provider. Returns the number of calls that
    /// were made to the sink.
    #[inline]
    pub(super) fn complete(
        &mut self,
        completion: CompletionOf<E>,
        sink: Option<&mut dyn Sink>,
    ) -> usize {
        match Operation::of(completion.token) {
            Operation::Receive(slot) => {
                let calls = match &completion.outcome {
                    Ok(()) => self.arrived(slot, completion.bytes, sink),
                    // No rank of the job sends a message that is too long.
                    Err(_) => 0,
                };
                self.to_post.push(slot);
                return calls;
            }
            Operation::Send(slot) => self.sent(slot, &completion),
            Operation::Read(fetch) => self.read(fetch, &completion),
            Operation::Injected => self.injected(&completion),
        }
        0
    }

    #[inline]
    fn sent(&mut self, slot: usize, completion: &CompletionOf<E>) {
        let Some(under_way) = self.transmitter.completed(slot) else {
            return;
        };
        let Some(peer) = peer_of(&mut self.peers, under_way.connection) else {
            return;
        };
        if let Some(sequence) = under_way.sequence {
            peer.sending.completed(sequence);
        }
        match &completion.outcome {
            Ok(()) => peer.patience.succeeded(),
            Err(error) => peer.failed(error, self.transmitter.started.elapsed()),
        }
    }

    /// Handles the failure of an injected message. If its addressee is not known, it may be any
    /// peer that has not acknowledged everything.
    #[cold]
    fn injected(&mut self, completion: &CompletionOf<E>) {
        let Err(error) = &completion.outcome else {
            return;
        };
        if let Some(fetch) = self.fetching.failed_namelessly() {
            return self.read(fetch, completion);
        }
        let now = self.now();
        if let Some(connection) = self.fetching.refused_namelessly() {
            if let Some(peer) = peer_of(&mut self.peers, connection) {
                peer.failed(error, now);
            }
            return;
        }
        for peer in self.peers.iter_mut().flatten() {
            let is_meant = match completion.peer {
                Some(address) => peer.address == address,
                None => peer.sending.is_unanswered(),
            };
            if is_meant {
                peer.failed(error, now);
            }
        }
    }

    fn read(&mut self, fetch: usize, completion: &CompletionOf<E>) {
        let is_whole = completion.outcome.is_ok();
        let completed = self.fetching.completed(fetch, is_whole, &mut self.peers);
        let Some((peer, sequence)) = completed else {
            return;
        };
        match &completion.outcome {
            Ok(()) => {
                peer.receiving.let_go(sequence);
                peer.patience.succeeded();
            }
            Err(error) => peer.failed(error, self.transmitter.started.elapsed()),
        }
        let rank = peer.rank;
        self.note_attention(rank);
    }

    /// Handles a message that has arrived in a slot.
    #[inline]
    fn arrived(&mut self, slot: usize, bytes: usize, sink: Option<&mut dyn Sink>) -> usize {
        let message = self.slots.arrived(slot, bytes);
        // Other messages are not answered: any process may have sent them.
        let decoded = if message.first() == Some(&BRIEF_KIND) {
            self.decode_brief(message)
        } else {
            WireHeader::decode(message)
                .ok()
                .map(|header| (header, Body::Wire(&message[WIRE_BYTES..])))
        };
        let Some((header, body)) = decoded else {
            return 0;
        };
        let is_ours = header.job == self.transmitter.job
            && header.to_incarnation == self.transmitter.incarnation
            && header.source.0 < self.options.size;
        if !is_ours {
            return 0;
        }
        let index = header.source.index();
        let connected = self.peers[index]
            .as_mut()
            .filter(|peer| peer.incarnation == header.incarnation && !peer.is_lost);
        let Some(peer) = connected else {
            // FENCE-1: messages of an earlier life are dropped. A later life is not connected yet:
            // it will be asked to send again.
            if self.acceptable.allows(header.source, header.incarnation) {
                self.early[index] = Some(header.incarnation);
            }
            return 0;
        };
        let handed = peer.take(&header, body, sink);
        self.note_attention(header.source);
        if matches!(header.kind, Kind::Hello | Kind::HelloAnswer) {
            self.greeted(header.source, header.kind);
        }
        match handed {
            Ok(Handed::Nothing) => 0,
            Ok(Handed::Called) => 1,
            Ok(Handed::Fetch(sequence, landing)) => {
                if let Some(peer) = &self.peers[index] {
                    self.fetching.begin(peer, sequence, landing);
                }
                1
            }
            Err((error, calls)) => {
                self.failures.get_or_insert(error);
                calls
            }
        }
    }

    /// Decodes a short header into the full header that it stands for.
    #[inline]
    fn decode_brief<'a>(&self, message: &'a [u8]) -> Option<(WireHeader, Body<'a>)> {
        let brief = BriefHeader::decode(message).ok()?;
        let job = self.transmitter.job;
        let lives = brief.key.wrapping_sub(job);
        let mut header = WireHeader {
            kind: Kind::Frame,
            source: brief.source,
            incarnation: Incarnation((lives >> 32) as u32),
            to_incarnation: Incarnation(lives as u32),
            job,
            sequence: 0,
            taken: 0,
            control_taken: 0,
            held: brief.held.into(),
            offset: 0,
        };
        let peer = self.peers.get(brief.source.index())?.as_ref();
        if let Some(peer) = peer {
            let (next, control_next) = peer.sending.next_numbers();
            header.sequence = nearest(peer.receiving.next(), brief.sequence);
            header.taken = nearest(next, brief.taken);
            header.control_taken = nearest_u16(control_next, brief.control_taken);
            if u64::from(header.held) > header.taken {
                return None;
            }
        }
        Some((header, Body::Whole(brief, &message[BRIEF_BYTES..])))
    }
}
