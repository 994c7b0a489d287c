//! One [`Lane`]: frames that are in flight, and frames that have arrived and are not yet polled.

use refrain_ring::{Position, ReadError};
use std::collections::VecDeque;
use std::rc::Rc;

/// A frame as it was posted: a record's encoded header and payload, or a control frame.
pub(super) type Bytes = Rc<[u8]>;

/// A frame on a lane.
#[derive(Debug)]
pub(super) struct Packet {
    /// Where the record lies in the sender's log. Control frames and injected bytes have
    /// no position.
    pub(super) position: Option<Position>,
    /// The frame, or why the sender's log holds no record there.
    pub(super) bytes: Result<Bytes, ReadError>,
}

/// A FIFO with a delay and room for `frames_max` frames.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Frames with the ticks at which they are due, in order.
    pub(super) in_flight: VecDeque<(u64, Packet)>,
    pub(super) arrived: VecDeque<Packet>,
    last_due: u64,
    /// Frames that went to a dead receiver: they still take room.
    pub(super) buried: usize,
    /// Polled frames that still take room: kept ones, if frames are copied.
    pub(super) held: usize,
    frames_max: usize,
    stopped: bool,
}

impl Lane {
    pub(super) fn new(frames_max: usize) -> Self {
        Self {
            frames_max,
            ..Self::default()
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() + self.arrived.len() + self.buried + self.held >= self.frames_max
    }

    /// Whether more than half of the room is held by polled frames.
    pub(super) fn is_pressed(&self) -> bool {
        self.held * 2 >= self.frames_max
    }

    /// Sends a frame that is due at `due`, or with the frame before it if that is later:
    /// frames of one lane do not overtake each other.
    pub(super) fn send(
        &mut self,
        due: u64,
        position: Option<Position>,
        bytes: Result<Bytes, ReadError>,
    ) {
        self.last_due = self.last_due.max(due);
        let packet = Packet { position, bytes };
        self.in_flight.push_back((self.last_due, packet));
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.in_flight.front().map(|(due, _)| *due)
    }

    pub(super) fn take_due(&mut self, now: u64) -> Option<Packet> {
        let first = self.in_flight.pop_front_if(|(due, _)| *due <= now);
        first.map(|(_, packet)| packet)
    }

    /// Takes the first frame in flight, due or not.
    pub(super) fn take_first(&mut self) -> Option<Packet> {
        self.in_flight.pop_front().map(|(_, packet)| packet)
    }

    pub(super) fn arrive(&mut self, packet: Packet) {
        if !self.stopped {
            self.arrived.push_back(packet);
        }
    }

    /// Stops the lane: it is never read again.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.arrived.clear();
    }

    /// Forgets the frames that arrived.
    pub(super) fn clear_arrivals(&mut self) {
        self.arrived.clear();
        self.held = 0;
    }

    /// Loses all but the first `survivors` frames in flight, and delays these by `later` ticks.
    pub(super) fn cut(&mut self, survivors: usize, later: u64) {
        self.in_flight.truncate(survivors);
        for (due, _) in &mut self.in_flight {
            *due += later;
        }
    }
}
