//! What a connected peer has sent: checked, counted, and handed to the sink.

use super::lane::{Counters, Verdict};
use super::peer::Peer;
use super::wire::{BriefHeader, Kind, WireHeader};
use crate::control::{CONTROL_BYTES, Control};
use crate::fabric::{Arrival, Disposition, FabricError, Landing, Payload, Place, Sink};
use refrain_libfabric::native::MessageEndpoint;
use refrain_ring::{
    HeaderError, Incarnation, Position, Rank, RecordHeader, RecordKind, payload_offset,
};

/// What follows a header.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// As the header's kind says.
    Wire(&'a [u8]),
    /// A record and its payload, out of a short header.
    Whole(BriefHeader, &'a [u8]),
}

/// What came of a message.
pub enum Handed {
    Nothing,
    Called,
    Fetch(u64, Landing),
}

/// Takes a message of a connected peer.
#[inline]
pub fn take<E: MessageEndpoint>(
    peer: &mut Peer<E>,
    header: &WireHeader,
    body: Body<'_>,
    sink: Option<&mut dyn Sink>,
) -> Result<Handed, (FabricError, usize)> {
    let counters = Counters {
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
    incarnation: Incarnation,
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
