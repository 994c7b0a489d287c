//! One [`Lane`]: what is on its way, and what has arrived and was not polled.

use std::collections::VecDeque;

/// A FIFO with a delay and room for so many frames.
#[derive(Debug)]
pub(super) struct Lane<T> {
    in_flight: VecDeque<(u64, T)>,
    arrived: VecDeque<T>,
    last_due: u64,
    /// Frames that went to a dead receiver: they take room for ever.
    buried: usize,
    /// Polled frames that still take room (kept, where frames are copied).
    pub(super) held: usize,
    frames_max: usize,
    stopped: bool,
}

impl<T> Lane<T> {
    pub(super) fn new(frames_max: usize) -> Self {
        Self {
            in_flight: VecDeque::new(),
            arrived: VecDeque::new(),
            last_due: 0,
            buried: 0,
            held: 0,
            frames_max,
            stopped: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() + self.arrived.len() + self.buried + self.held >= self.frames_max
    }

    /// Whether more than half of the room is held by polled frames.
    pub(super) fn is_pressed(&self) -> bool {
        self.held * 2 >= self.frames_max
    }

    /// Sends a frame that is due at `due`, or with the one before it if that
    /// is later: never overtaking.
    pub(super) fn send(&mut self, due: u64, frame: T) {
        self.last_due = self.last_due.max(due);
        self.in_flight.push_back((self.last_due, frame));
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.in_flight.front().map(|(due, _)| *due)
    }

    pub(super) fn take_due(&mut self, now: u64) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.in_flight.pop_front().map(|(_, frame)| frame)
    }

    /// The first frame on its way, whenever it is due.
    pub(super) fn take_first(&mut self) -> Option<T> {
        self.in_flight.pop_front().map(|(_, frame)| frame)
    }

    /// What is on its way, in order.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &T> {
        self.in_flight.iter().map(|(_, frame)| frame)
    }

    pub(super) fn arrive(&mut self, frame: T) {
        if !self.stopped {
            self.arrived.push_back(frame);
        }
    }

    pub(super) fn bury(&mut self) {
        self.buried += 1;
    }

    pub(super) fn has_arrivals(&self) -> bool {
        !self.arrived.is_empty()
    }

    pub(super) fn take_arrival(&mut self) -> Option<T> {
        self.arrived.pop_front()
    }

    /// Never reads this lane again.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.arrived.clear();
    }

    /// The receiver forgets what arrived.
    pub(super) fn clear_arrivals(&mut self) {
        self.arrived.clear();
        self.held = 0;
    }

    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Loses all but the first `survivors` frames in flight, and lets those
    /// come up to `later` ticks late.
    pub(super) fn cut(&mut self, survivors: usize, later: u64) {
        self.in_flight.truncate(survivors);
        for (due, _) in &mut self.in_flight {
            *due += later;
        }
    }
}
