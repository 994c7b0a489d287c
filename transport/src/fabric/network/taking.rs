//! Messages of connected peers: checked, counted, and handed to the sink.

use super::lane::Counters;
use super::peer::FabricPeer;
use super::wire::{BriefHeader, Kind, WireHeader};
use crate::control::{CONTROL_BYTES, Control};
use crate::fabric::{
    Arrival, Disposition, FabricError, Landing, Payload, Place, Sink, check_sender, decode_record,
};
use refrain_libfabric::native::MessageEndpoint;
use refrain_ring::{HeaderError, Position, RecordHeader, RecordKind, payload_offset};

/// The bytes that follow a header.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// As the kind of the header says.
    Wire(&'a [u8]),
    /// The payload of a record, after its short header.
    Whole(BriefHeader, &'a [u8]),
}

/// The outcome of a message.
pub enum Handed {
    Nothing,
    Called,
    Fetch(u64, Landing),
}

impl<E: MessageEndpoint> FabricPeer<E> {
    /// Takes a message of this peer.
    #[inline]
    pub fn take(
        &mut self,
        header: &WireHeader,
        body: Body<'_>,
        sink: Option<&mut dyn Sink>,
    ) -> Result<Handed, (FabricError, usize)> {
        let counters = Counters {
            taken: header.taken,
            held: header.held,
            control_taken: header.control_taken,
        };
        match self.sending.acknowledged(counters) {
            Ok(has_news) => self.patience.heard(has_news),
            Err(overclaim) => {
                if core::mem::replace(&mut self.is_broken, true) {
                    return Ok(Handed::Nothing);
                }
                let (source_rank, rule) = (self.rank, overclaim.to_string());
                return Err((FabricError::RuleBroken { source_rank, rule }, 0));
            }
        }
        if self.is_broken {
            return Ok(Handed::Nothing);
        }
        let handed = match (header.kind, sink) {
            (Kind::Frame | Kind::Distant, Some(sink))
                if self.receiving.is_next(header.sequence) =>
            {
                self.take_frame(header, body, sink)
            }
            (Kind::Control, Some(sink)) if self.receiving.is_next_control(header.sequence) => {
                self.take_control(body, sink)
            }
            (Kind::Ask, _) => {
                self.receiving.asked(header.sequence, header.offset);
                Ok(Handed::Nothing)
            }
            (Kind::Again, _) => {
                self.sending.go_back();
                Ok(Handed::Nothing)
            }
            _ => Ok(Handed::Nothing),
        };
        handed.map_err(|error| {
            self.is_broken = true;
            (error, 0)
        })
    }

    #[inline]
    fn take_frame(
        &mut self,
        wire: &WireHeader,
        body: Body<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Handed, FabricError> {
        let is_distant = wire.kind == Kind::Distant;
        let (record, payload) = match body {
            Body::Whole(brief, payload) => {
                (self.record_of(&brief, payload)?, Payload::Here(payload))
            }
            Body::Wire(body) => self.record_in(body, is_distant)?,
        };
        let bytes = record.payload_bytes as usize;
        let sequence = wire.sequence;
        if is_distant {
            self.receiving.took_distant(wire.offset, bytes);
        } else {
            self.receiving.took(bytes);
        }
        let disposition = sink.frame(Arrival {
            header: &record,
            payload,
            place: Place {
                source: self.rank,
                position: Position(sequence),
                locator: u64::from(self.incarnation.0),
            },
            // A window is two chunks at least, and a held frame holds its chunk.
            pressed: is_distant && self.receiving.held_bytes() > self.published.window_bytes / 4,
        });
        match (disposition, payload) {
            (Disposition::Fetch(landing), _) => return Ok(Handed::Fetch(sequence, landing)),
            (Disposition::Consumed, Payload::Distant(_)) => self.receiving.let_go(sequence),
            (Disposition::Keep, Payload::Here(payload)) => {
                self.kept.insert(sequence, payload.into());
            }
            _ => {}
        }
        Ok(Handed::Called)
    }

    /// Decodes the record that follows a full header, and its payload.
    #[inline]
    fn record_in<'a>(
        &self,
        body: &'a [u8],
        is_distant: bool,
    ) -> Result<(RecordHeader, Payload<'a>), FabricError> {
        let record = decode_record(self.rank, body)?;
        check_sender(
            (self.rank, self.incarnation),
            (record.source, record.incarnation),
        )?;
        let bytes = record.payload_bytes as usize;
        if is_distant {
            return Ok((record, Payload::Distant(bytes)));
        }
        let begin = payload_offset(bytes);
        let short = HeaderError::Short(body.len());
        let payload = body.get(begin..begin + bytes);
        let payload = payload.ok_or_else(|| self.garbage(short))?;
        Ok((record, Payload::Here(payload)))
    }

    /// The header of the record that a short header stands for.
    #[inline]
    fn record_of(&self, brief: &BriefHeader, payload: &[u8]) -> Result<RecordHeader, FabricError> {
        let flags = u16::from(brief.flags);
        let known = RecordHeader::WANT_ACK | RecordHeader::FIRST | RecordHeader::ATTACHED;
        let is_attached = flags & RecordHeader::ATTACHED != 0;
        let message_bytes = payload.len().checked_sub(brief.attached_bytes.into());
        let message_bytes = message_bytes
            .filter(|_| flags & !known == 0 && is_attached == (brief.attached_bytes > 0))
            .ok_or_else(|| self.garbage(HeaderError::Flags(flags)))?;
        Ok(RecordHeader {
            payload_bytes: payload.len() as u32,
            kind: RecordKind::Eager,
            flags,
            incarnation: self.incarnation,
            source: self.rank,
            ssn: brief.ssn,
            context: brief.context,
            tag: brief.tag,
            extent: message_bytes as u64,
        })
    }

    fn take_control(&mut self, body: Body<'_>, sink: &mut dyn Sink) -> Result<Handed, FabricError> {
        let source_rank = self.rank;
        let Body::Wire(body) = body else {
            return Ok(Handed::Nothing);
        };
        let body = &body[..body.len().min(CONTROL_BYTES)];
        let (control, source, incarnation) = Control::decode_bytes(body)
            .map_err(|error| FabricError::BadControl { source_rank, error })?;
        check_sender((source_rank, self.incarnation), (source, incarnation))?;
        self.receiving.took_control();
        sink.control(source, control);
        Ok(Handed::Called)
    }

    #[cold]
    fn garbage(&self, error: HeaderError) -> FabricError {
        FabricError::Garbage {
            source_rank: self.rank,
            error,
        }
    }
}
