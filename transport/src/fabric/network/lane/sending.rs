//! The sending side of one peer.

use super::receiving::Counters;
use crate::control::CONTROL_WORDS;
use refrain_ring::Position;
use std::collections::VecDeque;
use thiserror::Error;

/// A data frame that may have to be sent again, or whose payload may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Offset of its record in the region, in bytes.
    pub offset: usize,
    /// Bytes of its record.
    pub bytes: usize,
    /// Whether the receiver reads its payload.
    pub distant: bool,
    /// The position behind it in the log.
    pub end: Position,
    /// Number of transmissions that the provider has not completed.
    pub under_way: u32,
}

/// A peer acknowledges frames that were never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it acknowledges {claimed} frames of {sent} that were sent")]
pub struct Overclaim {
    /// The claimed number of frames.
    pub claimed: u64,
    /// The number of frames sent so far.
    pub sent: u64,
}

/// Numbers, credits and unacknowledged frames.
#[derive(Debug)]
pub struct Sending {
    credits: u64,
    control_credits: u64,
    /// The frames from the oldest that is not released.
    frames: VecDeque<Sent>,
    /// Number of `frames[0]`.
    first: u64,
    /// Number of the frame to be transmitted next.
    cursor: u64,
    taken: u64,
    let_go: u64,
    released: Position,
    /// Control frames that are not acknowledged, from number `control_taken` on.
    controls: VecDeque<[u64; CONTROL_WORDS]>,
    control_taken: u64,
    control_cursor: u64,
}

impl Sending {
    /// Creates a fresh lane with credits for data and control frames.
    pub fn new(credits: u64, control_credits: u64) -> Self {
        Self {
            credits,
            control_credits,
            frames: VecDeque::with_capacity(credits as usize),
            first: 0,
            cursor: 0,
            taken: 0,
            let_go: 0,
            released: Position(0),
            controls: VecDeque::with_capacity(control_credits as usize),
            control_taken: 0,
            control_cursor: 0,
        }
    }

    /// Number of the next frame to be posted.
    #[inline]
    pub fn next(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    fn control_next(&self) -> u64 {
        self.control_taken + self.controls.len() as u64
    }

    /// Numbers of the next data and control frames.
    pub fn next_numbers(&self) -> (u64, u64) {
        (self.next(), self.control_next())
    }

    /// Whether a frame may be transmitted when it is posted: there is credit, and no frame waits to
    /// be sent again.
    #[inline]
    pub fn may_post(&self) -> bool {
        let next = self.next();
        self.cursor == next && next - self.taken < self.credits
    }

    /// Notes that a frame was transmitted for the first time.
    #[inline]
    pub fn posted(&mut self, sent: Sent) {
        self.frames.push_back(sent);
        self.cursor = self.next();
    }

    /// The frame that is to be sent again next.
    pub fn to_resend(&self) -> Option<(u64, Sent)> {
        let index = usize::try_from(self.cursor.checked_sub(self.first)?).ok()?;
        Some((self.cursor, *self.frames.get(index)?))
    }

    /// Notes that the frame of [`to_resend`](Self::to_resend) was transmitted.
    pub fn resent(&mut self, under_way: u32) {
        let index = (self.cursor - self.first) as usize;
        self.frames[index].under_way += under_way;
        self.cursor += 1;
    }

    /// Notes that the provider has completed a transmission of frame `sequence`.
    #[inline]
    pub fn completed(&mut self, sequence: u64) {
        let index = sequence.wrapping_sub(self.first) as usize;
        if let Some(sent) = self.frames.get_mut(index) {
            sent.under_way = sent.under_way.saturating_sub(1);
        }
        self.release();
    }

    /// Takes a control frame, if there is credit.
    pub fn push_control(&mut self, words: [u64; CONTROL_WORDS]) -> bool {
        let has_room = (self.controls.len() as u64) < self.control_credits;
        if has_room {
            self.controls.push_back(words);
        }
        has_room
    }

    /// The control frame that is to be transmitted next.
    pub fn next_control(&self) -> Option<(u64, [u64; CONTROL_WORDS])> {
        let index = usize::try_from(self.control_cursor - self.control_taken).ok()?;
        Some((self.control_cursor, *self.controls.get(index)?))
    }

    /// Notes that the frame of [`next_control`](Self::next_control) was transmitted.
    pub fn control_sent(&mut self) {
        self.control_cursor += 1;
    }

    /// Whether frames wait to be transmitted.
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.cursor != self.next() || self.control_cursor != self.control_next()
    }

    /// Handles the counters that the peer reports. Counters older than the known ones change
    /// nothing. Returns whether anything was new.
    ///
    /// # Errors
    /// When the peer claims frames that were never sent; then nothing changes.
    #[inline]
    pub fn acknowledged(&mut self, counters: Counters) -> Result<bool, Overclaim> {
        if counters.taken > self.next() || counters.control_taken > self.control_next() {
            return Err(self.overclaim(counters));
        }
        let let_go = counters.taken - u64::from(counters.held);
        let is_new = counters.taken > self.taken
            || let_go > self.let_go
            || counters.control_taken > self.control_taken;
        self.taken = self.taken.max(counters.taken);
        self.cursor = self.cursor.max(self.taken);
        self.let_go = self.let_go.max(let_go);
        while self.control_taken < counters.control_taken {
            self.controls.pop_front();
            self.control_taken += 1;
        }
        self.control_cursor = self.control_cursor.max(self.control_taken);
        self.release();
        Ok(is_new)
    }

    #[cold]
    fn overclaim(&self, counters: Counters) -> Overclaim {
        let (next, control_next) = self.next_numbers();
        if counters.taken > next {
            Overclaim {
                claimed: counters.taken,
                sent: next,
            }
        } else {
            Overclaim {
                claimed: counters.control_taken,
                sent: control_next,
            }
        }
    }

    /// Sends all frames again that are not taken: frames were lost.
    pub fn go_back(&mut self) {
        self.cursor = self.taken;
        self.control_cursor = self.control_taken;
    }

    #[inline]
    fn release(&mut self) {
        while self.first < self.let_go
            && let Some(front) = self.frames.front()
            && front.under_way == 0
        {
            self.released = front.end;
            self.frames.pop_front();
            self.first += 1;
        }
    }

    /// The position before which the log is not needed: the receiver has taken the frames and
    /// let them go, and the provider has completed their transmissions.
    #[inline]
    pub fn released(&self) -> Position {
        self.released
    }

    /// Whether the peer has not acknowledged all that was sent.
    #[inline]
    pub fn is_unanswered(&self) -> bool {
        self.taken != self.next() || !self.controls.is_empty()
    }

    /// Whether posted frames or control frames are still needed.
    pub fn is_needed(&self) -> bool {
        !self.frames.is_empty() || !self.controls.is_empty()
    }
}
