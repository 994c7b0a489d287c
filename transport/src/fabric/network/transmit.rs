//! Sending: header and body go in one message. The provider copies a small one (inject)
//! and sends others from registered memory.

use super::lane::Counters;
use super::operation::Operation;
use super::peer::{Connection, FabricPeer};
use super::slots::Slots;
use super::wire::{BRIEF_BYTES, BriefHeader, Kind, WIRE_BYTES, WireHeader, connection_key};
use crate::control::{CONTROL_BYTES, CONTROL_WORDS};
use refrain_libfabric::native::{MemoryId, MessageEndpoint, Part, Refused};
use refrain_ring::{Incarnation, Rank, RecordHeader};
use std::time::Instant;

/// The bytes that follow a header.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Nothing.
    Nothing,
    /// `bytes` bytes of the log from `offset` on.
    Log {
        /// Offset in the region.
        offset: usize,
        /// Length.
        bytes: usize,
    },
    /// A control frame.
    Words([u64; CONTROL_WORDS]),
    /// The payload, from `offset` on, of a message that is whole in one record. It follows a short
    /// header.
    Whole {
        /// The record's header.
        record: RecordHeader,
        /// Offset of the payload in the region.
        offset: usize,
    },
}

/// A message to transmit.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// The header's kind.
    pub kind: Kind,
    /// The header's number.
    pub sequence: u64,
    /// The header's offset.
    pub offset: u64,
    /// What follows it.
    pub body: Body,
}

/// A message that the provider reads until its completion.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay {
    pub connection: Connection,
    /// For a data frame: its number, if the log must hold the frame until then.
    pub sequence: Option<u64>,
}

/// The slot for the headers of messages that the provider copies at once.
const SCRATCH: usize = 0;

/// The sending half of the endpoint.
#[derive(Debug)]
pub struct Transmitter {
    pub job: u64,
    pub rank: Rank,
    pub incarnation: Incarnation,
    /// The instant from which times of the fabric count.
    pub started: Instant,
    log: MemoryId,
    headers: Slots,
    /// Header slots that no operation uses.
    free: Vec<usize>,
    under_way: Vec<Option<UnderWay>>,
    inject_bytes: usize,
    /// Memory for frames that are sent before they are in the log.
    stages: Option<Slots>,
    free_stages: Vec<usize>,
}

/// Header and record header, with the gap before the payload.
const FULL_HEAD_BYTES: usize = WIRE_BYTES + refrain_ring::payload_offset(usize::MAX >> 1);

/// Maximum number of staged frames in flight: they are sent from memory of the fabric.
pub const STAGES: usize = 8;

impl Transmitter {
    /// Creates a transmitter with room for `messages_max` messages in flight.
    ///
    /// # Errors
    /// When the provider does not register the memory for headers.
    pub fn new<E: MessageEndpoint>(
        endpoint: &mut E,
        (job, rank, incarnation): (u64, Rank, Incarnation),
        log: MemoryId,
        messages_max: usize,
        staged_bytes_max: usize,
    ) -> Result<Self, E::Error> {
        let slots = messages_max + 1;
        let stages = match staged_bytes_max {
            0 => None,
            bytes => Some(Slots::new(endpoint, FULL_HEAD_BYTES + bytes, STAGES)?),
        };
        Ok(Self {
            job,
            rank,
            incarnation,
            started: Instant::now(),
            log,
            headers: Slots::new(endpoint, WIRE_BYTES + CONTROL_BYTES, slots)?,
            free: (SCRATCH + 1..slots).rev().collect(),
            under_way: vec![None; slots + STAGES],
            free_stages: (0..stages.as_ref().map_or(0, Slots::count)).collect(),
            stages,
            inject_bytes: endpoint.inject_bytes(),
        })
    }

    /// Transmits one message. Returns how many operations of the provider read the body from now on
    /// (0 or 1). `None`: the provider did not take the message. An error of the provider is noted
    /// for the peer.
    #[inline]
    pub fn transmit<E: MessageEndpoint>(
        &mut self,
        endpoint: &mut E,
        peer: &mut FabricPeer<E>,
        outgoing: &Outgoing,
    ) -> Option<u32> {
        let counters = peer.receiving.counters();
        let words;
        let mut tail: &[u8] = &[];
        let (brief, full);
        let (head, log_offset, log_bytes): (&[u8], usize, usize) = match &outgoing.body {
            Body::Whole { record, offset } => {
                brief = self.brief_header(peer.incarnation, outgoing.sequence, record, counters);
                (&brief, *offset, record.payload_bytes as usize)
            }
            body => {
                let numbers = (outgoing.kind, outgoing.sequence, outgoing.offset);
                full = self.header(peer.incarnation, numbers, counters).encode();
                let mut log = (0, 0);
                match body {
                    Body::Log { offset, bytes } => log = (*offset, *bytes),
                    Body::Words(control) => {
                        words = control.map(u64::to_le_bytes);
                        tail = words.as_flattened();
                    }
                    Body::Nothing | Body::Whole { .. } => {}
                }
                (&full, log.0, log.1)
            }
        };
        let head_bytes = head.len() + tail.len();
        // Injected messages have no completion. After an error a completion is needed, to
        // know that the error is over.
        let is_injected =
            head_bytes + log_bytes <= self.inject_bytes && !peer.patience.is_troubled();
        let slot = if is_injected {
            SCRATCH
        } else {
            *self.free.last()?
        };
        self.headers.write(slot, head, tail);
        let log = Part {
            memory: self.log,
            offset: log_offset,
            bytes: log_bytes,
        };
        let parts = [self.headers.part(slot, head_bytes), log];
        let parts = &parts[..1 + usize::from(log_bytes > 0)];
        let sent = if is_injected {
            endpoint.inject(peer.address, parts)
        } else {
            endpoint.send(peer.address, parts, Operation::Send(slot).token())
        };
        self.was_taken(peer, sent).then_some(())?;
        peer.receiving
            .reported(counters, outgoing.kind == Kind::Again);
        if is_injected {
            return Some(0);
        }
        peer.patience.begun();
        self.free.pop();
        let is_data = matches!(outgoing.kind, Kind::Frame | Kind::Distant);
        let holds_log = is_data && !E::TAKEN_IS_FREE;
        self.under_way[slot] = Some(UnderWay {
            connection: peer.connection,
            sequence: holds_log.then_some(outgoing.sequence),
        });
        Some(u32::from(holds_log))
    }

    /// Transmits a frame that is not in the log yet.
    pub fn stage<E: MessageEndpoint>(
        &mut self,
        endpoint: &mut E,
        peer: &mut FabricPeer<E>,
        record: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Option<()> {
        let counters = peer.receiving.counters();
        let sequence = peer.sending.next();
        let (brief, full);
        let head: &[u8] = if record.is_whole() {
            brief = self.brief_header(peer.incarnation, sequence, record, counters);
            &brief
        } else {
            full = self.full_head(peer.incarnation, sequence, record, counters);
            &full
        };
        let stage = *self.free_stages.last()?;
        let stages = self.stages.as_mut()?;
        let bytes = record.payload_bytes as usize;
        stages.fill(stage, head, bytes, fill);
        let slot = self.headers.count() + stage;
        let part = stages.part(stage, head.len() + bytes);
        let sent = endpoint.send(peer.address, &[part], Operation::Send(slot).token());
        self.was_taken(peer, sent).then_some(())?;
        peer.receiving.reported(counters, false);
        peer.patience.begun();
        self.free_stages.pop();
        self.under_way[slot] = Some(UnderWay {
            connection: peer.connection,
            // This operation does not read the log.
            sequence: None,
        });
        Some(())
    }

    #[inline]
    fn brief_header(
        &self,
        to_incarnation: Incarnation,
        sequence: u64,
        record: &RecordHeader,
        counters: Counters,
    ) -> [u8; BRIEF_BYTES] {
        BriefHeader {
            flags: record.flags as u8,
            attached_bytes: record.attached_bytes() as u8,
            source: self.rank,
            key: connection_key(self.job, self.incarnation, to_incarnation),
            sequence: sequence as u32,
            taken: counters.taken as u32,
            control_taken: counters.control_taken as u16,
            held: counters.held as u16,
            ssn: record.ssn,
            context: record.context,
            tag: record.tag,
        }
        .encode()
    }

    fn full_head(
        &self,
        to_incarnation: Incarnation,
        sequence: u64,
        record: &RecordHeader,
        counters: Counters,
    ) -> [u8; FULL_HEAD_BYTES] {
        let mut head = [0; FULL_HEAD_BYTES];
        let header = self.header(to_incarnation, (Kind::Frame, sequence, 0), counters);
        head[..WIRE_BYTES].copy_from_slice(&header.encode());
        head[WIRE_BYTES..][..RecordHeader::BYTES].copy_from_slice(&record.encode());
        head
    }

    fn header(
        &self,
        to_incarnation: Incarnation,
        (kind, sequence, offset): (Kind, u64, u64),
        counters: Counters,
    ) -> WireHeader {
        WireHeader {
            kind,
            source: self.rank,
            incarnation: self.incarnation,
            to_incarnation,
            job: self.job,
            sequence,
            taken: counters.taken,
            control_taken: counters.control_taken,
            held: counters.held,
            offset,
        }
    }

    /// Frees the slot of a message that has left, or failed.
    #[inline]
    pub fn completed(&mut self, slot: usize) -> Option<UnderWay> {
        let under_way = self.under_way.get_mut(slot)?.take()?;
        match slot.checked_sub(self.headers.count()) {
            None => self.free.push(slot),
            Some(stage) => self.free_stages.push(stage),
        }
        Some(under_way)
    }

    /// Frees the slots of a connection of which no operation is in flight any more.
    pub fn removed(&mut self, connection: Connection) {
        for slot in 0..self.under_way.len() {
            if self.under_way[slot].is_some_and(|message| message.connection == connection) {
                self.completed(slot);
            }
        }
    }

    /// Whether the provider still reads messages of connections that `counts` accepts. Messages to
    /// peers that are gone may never complete.
    pub fn is_busy(&self, counts: impl Fn(Connection) -> bool) -> bool {
        let stages = self.stages.as_ref().map_or(0, Slots::count);
        let any_under_way =
            self.free.len() + 1 < self.headers.count() || self.free_stages.len() < stages;
        let mut under_way = self.under_way.iter().flatten();
        any_under_way && under_way.any(|message| counts(message.connection))
    }

    /// Whether the provider took a message. Its error is noted for the peer.
    #[inline]
    fn was_taken<E: MessageEndpoint>(
        &self,
        peer: &mut FabricPeer<E>,
        sent: Result<(), Refused<E::Error>>,
    ) -> bool {
        if let Err(Refused::Failed(error)) = &sent {
            peer.failed(error, self.started.elapsed());
        }
        sent.is_ok()
    }
}
