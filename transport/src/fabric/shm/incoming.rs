//! The receiver's side of one pair of lanes: reads the peer's log and control
//! slots, and keeps a list of the frames that were left in place.

#![allow(unsafe_code, reason = "reads kept records again")]

use super::segment::{CONTROL_SLOTS, Lane, Segment};
use crate::control::Control;
use crate::fabric::{Arrival, Disposition, FabricError, Payload, Place, Sink, check_sender};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use refrain_ring::{
    CHUNK_BYTES, ChannelReader, ChunkId, Incarnation, Position, Rank, ReadError, Region,
};
use std::collections::VecDeque;

/// Maximum number of frames taken from one lane in one poll, so that no peer starves the others.
const BURST_FRAMES: usize = 64;
/// Released control slots are published after this many at the latest.
const CONTROL_PUBLISH_FRAMES: u64 = CONTROL_SLOTS / 4;

/// A locator is a payload's offset in the segment (up to 1 TiB) under the low
/// bits of the incarnation.
const LOCATOR_OFFSET_BITS: u32 = 40;
const LOCATOR_OFFSET_MAX: u64 = (1 << LOCATOR_OFFSET_BITS) - 1;

fn locator(incarnation: Incarnation, payload_offset: usize) -> u64 {
    u64::from(incarnation.0) << LOCATOR_OFFSET_BITS | payload_offset as u64
}

/// The value of a lane's `for_life` that names this incarnation of its receiver.
pub(super) fn life_word(receiver: Incarnation) -> u64 {
    u64::from(receiver.0) + 1
}

#[derive(Debug)]
pub(super) struct Incoming {
    source: (Rank, Incarnation),
    pub(super) destination: Rank,
    /// The value of the lane's `for_life` if the lane is for this life of the destination.
    life: u64,
    /// Memory of the source.
    region: Region,
    arena_offset: usize,
    window_bytes: u64,
    /// Whether the lane is for this life: then everything in it is.
    pub(super) is_open: bool,
    /// `None`: no frame has come, or the log rests.
    reader: Option<ChannelReader>,
    /// Position at which the log rests.
    rests_at: Position,
    /// Frames left in place, oldest first. A frame that was let go stays listed until all
    /// older ones are let go.
    kept: VecDeque<Kept>,
    control_taken: u64,
    control_published: u64,
    released_published: Position,
    pub(super) idle_polls: u32,
    /// Whether the last poll found nothing, and the sender knows which memory it may reuse.
    settled: bool,
    pub(super) broken: bool,
}

#[derive(Debug)]
struct Kept {
    position: Position,
    let_go: bool,
}

impl Incoming {
    /// Creates the lane from `source`, which owns `segment`, to `destination`.
    pub(super) fn new(
        source: (Rank, Incarnation),
        destination: (Rank, Incarnation),
        segment: &Segment,
    ) -> Self {
        let head = segment.head();
        Self {
            source,
            destination: destination.0,
            life: life_word(destination.1),
            region: segment.region(),
            arena_offset: head.arena_offset.load(Acquire) as usize,
            window_bytes: head.window_bytes.load(Acquire),
            is_open: false,
            reader: None,
            rests_at: Position(0),
            kept: VecDeque::new(),
            control_taken: 0,
            control_published: 0,
            released_published: Position(0),
            idle_polls: 0,
            settled: false,
            broken: false,
        }
    }

    /// Checks whether the sender knows this life. Until then the lane holds frames for an
    /// earlier life. FENCE-1
    #[cold]
    pub(super) fn open(&mut self, lane: &Lane) -> bool {
        self.is_open = self.is_for_this_life(lane);
        self.is_open
    }

    /// Whether the sender knows this life, and no later one.
    pub(super) fn is_for_this_life(&self, lane: &Lane) -> bool {
        lane.for_life.load(Acquire) == self.life
    }

    /// Whether a poll would find something.
    #[inline]
    pub(super) fn ready(&self, lane: &Lane) -> bool {
        if self.broken || !self.is_open && lane.for_life.load(Acquire) != self.life {
            return false;
        }
        let data = match &self.reader {
            Some(reader) => reader.ready(),
            None => lane.first_chunk.load(Acquire) != 0,
        };
        data || self.next_control_is_there(lane)
    }

    #[inline]
    fn next_control_is_there(&self, lane: &Lane) -> bool {
        let slot = &lane.control[(self.control_taken % CONTROL_SLOTS) as usize];
        slot.sequence.load(Acquire) == self.control_taken + 1
    }

    /// Takes frames that have arrived, at most a burst, and publishes what the sender may reuse.
    /// Returns the number of frames, and whether anything was published.
    #[inline(always)]
    pub(super) fn poll(
        &mut self,
        lane: &Lane,
        sink: &mut dyn Sink,
    ) -> Result<(usize, bool), FabricError> {
        // The common case of a waiting rank.
        if self.settled && !self.ready(lane) {
            self.idle_polls = self.idle_polls.saturating_add(1);
            return Ok((0, false));
        }
        self.take_arrivals(lane, sink)
    }

    #[inline(never)]
    fn take_arrivals(
        &mut self,
        lane: &Lane,
        sink: &mut dyn Sink,
    ) -> Result<(usize, bool), FabricError> {
        let mut calls = 0;
        if self.is_open && !self.broken {
            let controls = self.poll_control(lane, sink);
            let taken = controls.and_then(|calls| Ok(calls + self.poll_data(lane, sink)?));
            calls = taken.inspect_err(|_| self.broken = true)?;
        }
        self.idle_polls = match calls {
            0 => self.idle_polls.saturating_add(1),
            _ => 0,
        };
        Ok((calls, self.publish_released(lane)))
    }

    #[inline]
    fn poll_control(&mut self, lane: &Lane, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let mut calls = 0;
        while calls < BURST_FRAMES && self.next_control_is_there(lane) {
            let slot = &lane.control[(self.control_taken % CONTROL_SLOTS) as usize];
            let words = core::array::from_fn(|word| u64::from_le(slot.words[word].load(Relaxed)));
            let source_rank = self.source.0;
            let (control, source, incarnation) = Control::decode(words)
                .map_err(|error| FabricError::BadControl { source_rank, error })?;
            self.control_taken += 1;
            calls += 1;
            check_sender(self.source, (source, incarnation))?;
            sink.control(source, control);
        }
        Ok(calls)
    }

    #[inline]
    fn poll_data(&mut self, lane: &Lane, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        if self.reader.is_none() {
            self.begin(lane)?;
        }
        let connected = self.source;
        let Some(reader) = &mut self.reader else {
            return Ok(0);
        };
        let mut calls = 0;
        while calls < BURST_FRAMES {
            let record = match reader.read() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(ReadError::Resting(at)) => {
                    self.rest(at)?;
                    break;
                }
                Err(error) => return Err(FabricError::of_log(connected.0, error)),
            };
            let (header, position) = (&record.header, record.position);
            check_sender(connected, (header.source, header.incarnation))?;
            let held_from = self.kept.front().map_or(position, |kept| kept.position);
            let disposition = sink.frame(Arrival {
                header,
                payload: Payload::Here(record.payload),
                place: Place {
                    source: connected.0,
                    position,
                    locator: locator(connected.1, record.payload_offset),
                },
                // A window is two chunks at least, and a kept frame holds its chunk.
                pressed: position.0 + u64::from(header.payload_bytes) - held_from.0
                    > self.window_bytes / 4,
            });
            match disposition {
                Disposition::Consumed => {}
                Disposition::Keep => self.kept.push_back(Kept {
                    position,
                    let_go: false,
                }),
                Disposition::Fetch(_) => unreachable!("no frame of this fabric is distant"),
            }
            calls += 1;
        }
        Ok(calls)
    }

    /// Leaves the chunk that the sender has left, which is reused once this is published.
    #[cold]
    fn rest(&mut self, at: Position) -> Result<(), FabricError> {
        if !self.kept.is_empty() {
            return Err(FabricError::RuleBroken {
                source_rank: self.source.0,
                rule: "a chunk may be left when all of its frames are released".into(),
            });
        }
        self.reader = None;
        self.rests_at = at;
        self.kept = VecDeque::new();
        Ok(())
    }

    #[cold]
    fn begin(&mut self, lane: &Lane) -> Result<(), FabricError> {
        let first = lane.first_chunk.load(Acquire);
        if first != 0 {
            let chunk = ChunkId(u32::try_from(first - 1).unwrap_or(u32::MAX));
            let broken = |error| FabricError::of_log(self.source.0, error);
            let reader = ChannelReader::new(self.region.clone(), self.arena_offset, chunk);
            let reader = reader.map_err(broken)?;
            let (source, destination, incarnation) = reader.log();
            check_sender(self.source, (source, incarnation))?;
            if destination != self.destination || reader.position() < self.rests_at {
                return Err(broken(ReadError::Link(first - 1)));
            }
            self.reader = Some(reader);
        }
        Ok(())
    }

    pub(super) fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        let index = self.kept_index(place);
        let is_kept = index.is_some_and(|index| !self.kept[index].let_go);
        let Some(reader) = self.reader.as_ref().filter(|_| is_kept) else {
            return &[];
        };
        let payload_offset = (place.locator & LOCATOR_OFFSET_MAX) as usize;
        // SAFETY: the frame is among the kept ones, so `released` has not passed
        // it; letting it go needs `&mut self`.
        unsafe { reader.payload_at(payload_offset, payload_bytes) }
    }

    pub(super) fn let_go(&mut self, place: Place) {
        if let Some(index) = self.kept_index(place) {
            self.kept[index].let_go = true;
        }
        while self.kept.front().is_some_and(|kept| kept.let_go) {
            self.kept.pop_front();
        }
        self.settled = false;
    }

    /// The index of a kept frame. A place of an earlier incarnation has none.
    fn kept_index(&self, place: Place) -> Option<usize> {
        let own = locator(self.source.1, 0);
        if place.locator >> LOCATOR_OFFSET_BITS != own >> LOCATOR_OFFSET_BITS {
            return None;
        }
        let position = |kept: &Kept| kept.position;
        // Most are let go in their order.
        match self.kept.front().map(position) {
            Some(first) if first == place.position => Some(0),
            _ => (self.kept)
                .binary_search_by_key(&place.position, position)
                .ok(),
        }
    }

    /// Publishes the position before which the sender may reuse its log: when a whole chunk has
    /// become free, and otherwise when the lane is idle. Returns whether it published anything.
    #[inline]
    pub(super) fn publish_released(&mut self, lane: &Lane) -> bool {
        let idle = self.idle_polls > 0;
        self.settled = idle;
        let reader = self.reader.as_ref();
        let position = reader.map_or(self.rests_at, ChannelReader::position);
        let oldest = self.kept.front();
        let released = oldest.map_or(position, |kept| kept.position);
        let chunk = |position: Position| position.0 / CHUNK_BYTES as u64;
        let published = released != self.released_published
            && (idle || chunk(released) != chunk(self.released_published));
        if published {
            self.released_published = released;
            lane.released.store(released.0, Release);
        }
        self.publish_control(lane) || published
    }

    #[inline]
    fn publish_control(&mut self, lane: &Lane) -> bool {
        let unpublished = self.control_taken - self.control_published;
        let published =
            unpublished >= CONTROL_PUBLISH_FRAMES || unpublished > 0 && self.idle_polls > 0;
        if published {
            self.control_published = self.control_taken;
            lane.control_taken.store(self.control_taken, Release);
        }
        published
    }
}
