//! What arrives: checked, counted, handed over.

use super::endpoint::{CompletionOf, MessageEndpoint};
use super::lane::Verdict;
use super::peer::Peer;
use super::waiting::Greetings;
use super::wire::{
    BRIEF_BYTES, BRIEF_KIND, BriefHeader, Kind, WIRE_BYTES, WireHeader, nearest, nearest_u16,
};
use super::{Network, Operation};
use crate::control::{CONTROL_BYTES, Control};
use crate::fabric::{Arrival, Disposition, FabricError, Payload, Place, Sink};
use refrain_ring::{
    HeaderError, Incarnation, Position, Rank, RecordHeader, RecordKind, payload_offset,
};

impl<E: MessageEndpoint> Network<E> {
    /// An operation of the provider is over. Returns how many calls were made to
    /// the sink.
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
                    // A message that is too long is none of ours.
                    Err(_) => 0,
                };
                self.to_post.push(slot);
                calls
            }
            Operation::Send(slot) => {
                self.sent(slot, &completion);
                0
            }
            Operation::Read(fetch) => {
                self.read(fetch, &completion);
                0
            }
            Operation::Injected => {
                self.injected(&completion);
                0
            }
        }
    }

    #[inline]
    fn sent(&mut self, slot: usize, completion: &CompletionOf<E>) {
        let Some(under_way) = self.transmitter.completed(slot) else {
            return;
        };
        let peer = self.peers[under_way.rank.index()]
            .as_mut()
            .filter(|peer| peer.connection == under_way.connection);
        let Some(peer) = peer else {
            return;
        };
        if let Some(sequence) = under_way.sequence {
            peer.sending.completed(sequence);
        }
        match &completion.outcome {
            Ok(()) => peer.patience.succeeded(),
            Err(error) => peer.failed(error, self.started.elapsed()),
        }
    }

    /// Where it is not known whom it was meant for, whoever has not acknowledged
    /// everything may have missed it.
    #[cold]
    fn injected(&mut self, completion: &CompletionOf<E>) {
        if let Err(error) = &completion.outcome {
            let now = self.now();
            if let Some(fetch) = self.fetching.failed_namelessly() {
                return self.read(fetch, completion);
            }
            if let Some((rank, connection)) = self.fetching.refused_namelessly() {
                let peer = self.peers[rank.index()].as_mut();
                if let Some(peer) = peer.filter(|peer| peer.connection == connection) {
                    peer.failed(error, now);
                }
                return;
            }
            let named = completion.peer;
            for peer in self.peers.iter_mut().flatten() {
                let is_meant = match named {
                    Some(address) => peer.address == address,
                    None => peer.sending.is_unanswered(),
                };
                if is_meant {
                    peer.failed(error, now);
                }
            }
        }
    }

    fn read(&mut self, fetch: usize, completion: &CompletionOf<E>) {
        let fetched = self
            .fetching
            .completed(fetch, completion.outcome.is_ok(), &self.peers);
        let now = self.now();
        let Some(fetched) = fetched else { return };
        let Some(peer) = self.peers[fetched.rank.index()]
            .as_mut()
            .filter(|peer| peer.connection == fetched.connection)
        else {
            return;
        };
        match &completion.outcome {
            Ok(()) => peer.receiving.let_go(fetched.sequence),
            Err(error) => peer.failed(error, now),
        }
        self.note_attention(fetched.rank);
    }

    /// A message lies in a slot.
    #[inline]
    fn arrived(&mut self, slot: usize, bytes: usize, sink: Option<&mut dyn Sink>) -> usize {
        let message = self.slots.arrived(slot, bytes);
        // What is not ours is not answered: it may come from anybody.
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
            // FENCE-1: nothing of an older life is looked at. A later one is not
            // connected yet: it will be asked to send again.
            if u64::from(header.incarnation.0) >= self.acceptable[index] {
                self.early[index] = Some(header.incarnation);
            }
            return 0;
        };
        let handed = take(peer, &header, body, sink);
        self.note_attention(header.source);
        match header.kind {
            Kind::Hello if self.send_bare(header.source, Kind::HelloAnswer) => {
                Greetings::note(&mut self.greetings.answered, header.source);
            }
            Kind::HelloAnswer => Greetings::note(&mut self.greetings.answers, header.source),
            _ => {}
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
}

/// What follows a header.
#[derive(Clone, Copy)]
enum Body<'a> {
    /// As the header's kind says.
    Wire(&'a [u8]),
    /// A record and its payload, out of a short header.
    Whole(BriefHeader, &'a [u8]),
}

impl<E: MessageEndpoint> Network<E> {
    /// The header that a short one stands for.
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

/// What came of a message.
enum Handed {
    Nothing,
    Called,
    Fetch(u64, crate::fabric::Landing),
}

/// Takes a message of a connected peer.
#[inline]
fn take<E: MessageEndpoint>(
    peer: &mut Peer<E>,
    header: &WireHeader,
    body: Body<'_>,
    sink: Option<&mut dyn Sink>,
) -> Result<Handed, (FabricError, usize)> {
    let counters = super::lane::Counters {
        taken: header.taken,
        held: header.held,
        control_taken: header.control_taken,
    };
    match peer.sending.acknowledged(counters) {
        Ok(has_news) => peer.patience.heard(has_news),
        Err(overclaim) => {
            let is_first = !core::mem::replace(&mut peer.is_broken, true);
            return if is_first {
                Err((rule_broken(peer.rank, overclaim.to_string()), 0))
            } else {
                Ok(Handed::Nothing)
            };
        }
    }
    if peer.is_broken {
        return Ok(Handed::Nothing);
    }
    let handed = match (header.kind, sink) {
        (Kind::Frame | Kind::Distant, Some(sink)) => {
            if peer.receiving.data(header.sequence) == Verdict::Drop {
                return Ok(Handed::Nothing);
            }
            take_frame(peer, header, body, sink)
        }
        (Kind::Control, Some(sink)) => {
            if peer.receiving.control(header.sequence) == Verdict::Drop {
                return Ok(Handed::Nothing);
            }
            take_control(peer, body, sink)
        }
        (Kind::Ask, _) => {
            peer.receiving.asked(header.sequence, header.offset);
            Ok(Handed::Nothing)
        }
        (Kind::Again, _) => {
            peer.sending.go_back();
            Ok(Handed::Nothing)
        }
        _ => Ok(Handed::Nothing),
    };
    handed.map_err(|error| {
        peer.is_broken = true;
        (error, 0)
    })
}

#[inline]
fn take_frame<E: MessageEndpoint>(
    peer: &mut Peer<E>,
    wire: &WireHeader,
    body: Body<'_>,
    sink: &mut dyn Sink,
) -> Result<Handed, FabricError> {
    let is_distant = wire.kind == Kind::Distant;
    let (record, payload) = match body {
        Body::Whole(brief, payload) => (record_of(peer, &brief, payload)?, Payload::Here(payload)),
        Body::Wire(body) => record_in(peer, body, is_distant)?,
    };
    let bytes = record.payload_bytes as usize;
    let sequence = wire.sequence;
    if is_distant {
        peer.receiving.took_distant(wire.offset, bytes);
    } else {
        peer.receiving.took(bytes);
    }
    let disposition = sink.frame(Arrival {
        header: &record,
        payload,
        place: Place {
            source: peer.rank,
            position: Position(sequence),
            locator: u64::from(peer.incarnation.0),
        },
        // A window is two chunks at least, and a held frame holds its chunk.
        pressed: is_distant && peer.receiving.held_bytes() > peer.published.window_bytes / 4,
    });
    Ok(match (disposition, payload) {
        (Disposition::Fetch(landing), _) => Handed::Fetch(sequence, landing),
        (Disposition::Consumed, Payload::Distant(_)) => {
            peer.receiving.let_go(sequence);
            Handed::Called
        }
        (Disposition::Keep, Payload::Here(payload)) => {
            peer.kept.insert(sequence, payload.into());
            Handed::Called
        }
        _ => Handed::Called,
    })
}

/// The record behind a full header, and its payload.
#[inline]
fn record_in<'a, E: MessageEndpoint>(
    peer: &Peer<E>,
    body: &'a [u8],
    is_distant: bool,
) -> Result<(RecordHeader, Payload<'a>), FabricError> {
    let record = RecordHeader::decode(body).map_err(|error| garbage(peer.rank, error))?;
    check_identity(peer, &record)?;
    let bytes = record.payload_bytes as usize;
    if is_distant {
        return Ok((record, Payload::Distant(bytes)));
    }
    let begin = payload_offset(bytes);
    let short = HeaderError::Short(body.len());
    let payload = body.get(begin..begin + bytes);
    let payload = payload.ok_or_else(|| garbage(peer.rank, short))?;
    Ok((record, Payload::Here(payload)))
}

/// The record that a short header stands for.
#[inline]
fn record_of<E: MessageEndpoint>(
    peer: &Peer<E>,
    brief: &BriefHeader,
    payload: &[u8],
) -> Result<RecordHeader, FabricError> {
    let flags = u16::from(brief.flags);
    if flags & !RecordHeader::WANT_ACK != 0 {
        return Err(garbage(peer.rank, HeaderError::Flags(flags)));
    }
    Ok(RecordHeader {
        payload_bytes: payload.len() as u32,
        kind: RecordKind::Eager,
        flags,
        incarnation: peer.incarnation,
        source: peer.rank,
        ssn: brief.ssn,
        context: brief.context,
        tag: brief.tag,
        extent: payload.len() as u64,
    })
}

fn take_control<E: MessageEndpoint>(
    peer: &mut Peer<E>,
    body: Body<'_>,
    sink: &mut dyn Sink,
) -> Result<Handed, FabricError> {
    let source_rank = peer.rank;
    let Body::Wire(body) = body else {
        return Ok(Handed::Nothing);
    };
    let body = &body[..body.len().min(CONTROL_BYTES)];
    let (control, source, incarnation) = Control::decode_bytes(body)
        .map_err(|error| FabricError::BadControl { source_rank, error })?;
    check_life(peer, source, incarnation)?;
    peer.receiving.took_control();
    sink.control(source, control);
    Ok(Handed::Called)
}

#[inline]
fn check_identity<E: MessageEndpoint>(
    peer: &Peer<E>,
    record: &RecordHeader,
) -> Result<(), FabricError> {
    if record.kind == RecordKind::Link {
        // Links lead through memory, never over a wire.
        return Err(FabricError::BrokenLog {
            source_rank: peer.rank,
            chunk: record.extent,
        });
    }
    check_life(peer, record.source, record.incarnation)
}

#[inline]
fn check_life<E: MessageEndpoint>(
    peer: &Peer<E>,
    source: Rank,
    incarnation: refrain_ring::Incarnation,
) -> Result<(), FabricError> {
    if source != peer.rank {
        return Err(FabricError::WrongSource {
            lane: peer.rank,
            claimed: source,
        });
    }
    if incarnation != peer.incarnation {
        return Err(FabricError::WrongIncarnation {
            source_rank: source,
            found: incarnation,
            connected: peer.incarnation,
        });
    }
    Ok(())
}

fn garbage(source_rank: Rank, error: HeaderError) -> FabricError {
    FabricError::Garbage { source_rank, error }
}

fn rule_broken(source_rank: Rank, rule: String) -> FabricError {
    FabricError::RuleBroken { source_rank, rule }
}
