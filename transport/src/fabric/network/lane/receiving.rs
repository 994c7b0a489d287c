//! The receiving side of one peer.

use std::collections::VecDeque;

/// The counters of a receiver. Every message carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Number of data frames taken.
    pub taken: u64,
    /// How many of the last data frames taken the log has to hold.
    pub held: u32,
    /// Number of control frames taken.
    pub control_taken: u64,
}

/// Maximum bytes of a record in the log besides its payload.
const RECORD_BYTES: usize = 128;

/// A taken frame whose payload is still in the sender's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldFrame {
    /// Its number on the lane.
    pub sequence: u64,
    /// Where its payload begins in the sender's region.
    pub offset: u64,
    /// Bytes of its payload.
    pub bytes: usize,
    /// Bytes of log that were taken before it.
    begin: u64,
    let_go: bool,
}

/// Whether the peer is owed an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owed {
    /// The sender knows the counters.
    Nothing,
    /// When the rank is idle: the next message would carry the acknowledgement.
    WhenIdle,
    /// Now: the sender may be waiting for the acknowledgement.
    Now,
}

/// The frames taken, and the counters that the sender knows.
#[derive(Debug)]
pub struct Receiving {
    credits: u64,
    control_credits: u64,
    /// Payload bytes after which the counters are reported at once.
    report_bytes: u64,
    taken: u64,
    control_taken: u64,
    held: VecDeque<HeldFrame>,
    /// Bytes of log taken, approximately.
    taken_bytes: u64,
    reported: Counters,
    /// Payload bytes consumed since the last report.
    unreported_bytes: u64,
    /// Whether the sender does not know the counters: it sent a frame twice, or asked.
    asked: bool,
    /// Whether frames are missing and the sender has to be asked for them.
    missing: bool,
    /// The counters with which the sender was last asked for missing frames.
    missed: Option<(u64, u64)>,
}

impl Receiving {
    /// Creates a fresh lane. The counters are reported after half of the credits, or after
    /// `report_bytes`.
    pub fn new(credits: u64, control_credits: u64, report_bytes: u64) -> Self {
        Self {
            credits,
            control_credits,
            report_bytes,
            taken: 0,
            control_taken: 0,
            held: VecDeque::new(),
            taken_bytes: 0,
            reported: Counters::default(),
            unreported_bytes: 0,
            asked: false,
            missing: false,
            missed: None,
        }
    }

    /// Number of the next data frame.
    #[inline]
    pub fn next(&self) -> u64 {
        self.taken
    }

    /// Checks an arrived data frame. Returns whether it is the next one, which is to be taken.
    #[inline]
    pub fn is_next(&mut self, sequence: u64) -> bool {
        sequence == self.taken || self.out_of_order(sequence, self.taken)
    }

    /// Checks an arrived control frame. Returns whether it is the next one, which is to be taken.
    #[inline]
    pub fn is_next_control(&mut self, sequence: u64) -> bool {
        sequence == self.control_taken || self.out_of_order(sequence, self.control_taken)
    }

    /// Notes a frame out of order. A repeated frame is acknowledged again. Of several frames that
    /// are too far ahead only the first one is answered: the others have the same cause.
    #[cold]
    fn out_of_order(&mut self, found: u64, expected: u64) -> bool {
        if found < expected {
            self.asked = true;
        } else if self.missed != Some((self.taken, self.control_taken)) {
            self.missing = true;
        }
        false
    }

    /// Counts the next data frame, which was taken with its payload.
    #[inline]
    pub fn took(&mut self, payload_bytes: usize) {
        self.taken += 1;
        self.taken_bytes += (payload_bytes + RECORD_BYTES) as u64;
        self.unreported_bytes += payload_bytes as u64;
    }

    /// Counts the next data frame, whose payload stays in the sender's log: it is held. Returns its
    /// number.
    pub fn took_distant(&mut self, offset: u64, bytes: usize) -> u64 {
        let sequence = self.taken;
        self.held.push_back(HeldFrame {
            sequence,
            offset,
            bytes,
            begin: self.taken_bytes,
            let_go: false,
        });
        self.taken_bytes += (bytes + RECORD_BYTES) as u64;
        self.taken += 1;
        sequence
    }

    /// Counts the next control frame.
    pub fn took_control(&mut self) {
        self.control_taken += 1;
    }

    /// Notes that the sender asks, with the numbers of its next frames.
    pub fn asked(&mut self, next: u64, control_next: u64) {
        self.asked = true;
        if next > self.taken || control_next > self.control_taken {
            self.missing = true;
        }
    }

    /// Notes that frames were dropped before this lane was open.
    pub fn missed_the_beginning(&mut self) {
        self.missing = true;
    }

    /// Bytes of the sender's log that held frames prevent from being freed.
    pub fn held_bytes(&self) -> u64 {
        let begin = self.held.front().map(|held| held.begin);
        begin.map_or(0, |begin| self.taken_bytes - begin)
    }

    /// The held frame with this number.
    pub fn held(&self, sequence: u64) -> Option<HeldFrame> {
        let index = self.held_index(sequence)?;
        Some(self.held[index]).filter(|held| !held.let_go)
    }

    fn held_index(&self, sequence: u64) -> Option<usize> {
        let found = self
            .held
            .binary_search_by_key(&sequence, |held| held.sequence);
        found.ok()
    }

    /// Notes that a held frame's payload is not needed any more.
    pub fn let_go(&mut self, sequence: u64) {
        let Some(index) = self.held_index(sequence) else {
            return;
        };
        let held = &mut self.held[index];
        if !held.let_go {
            held.let_go = true;
            self.unreported_bytes += held.bytes as u64;
        }
        while self.held.front().is_some_and(|held| held.let_go) {
            self.held.pop_front();
        }
    }

    /// The counters that every message carries.
    #[inline]
    pub fn counters(&self) -> Counters {
        let oldest = self.held.front();
        let held = oldest.map_or(0, |held| self.taken - held.sequence);
        Counters {
            taken: self.taken,
            held: u32::try_from(held).unwrap_or(u32::MAX),
            control_taken: self.control_taken,
        }
    }

    /// Notes that the counters were sent. `again`: together with the request for missing frames.
    #[inline]
    pub fn reported(&mut self, counters: Counters, again: bool) {
        self.reported = counters;
        self.unreported_bytes = 0;
        self.asked = false;
        if again {
            self.missing = false;
            self.missed = Some((counters.taken, counters.control_taken));
        }
    }

    /// Whether the sender has to be asked for missing frames.
    #[inline]
    pub fn misses(&self) -> bool {
        self.missing
    }

    /// Whether the sender is owed an acknowledgement.
    #[inline]
    pub fn owed(&self) -> Owed {
        let now = self.counters();
        if now == self.reported && !self.asked && !self.missing {
            return Owed::Nothing;
        }
        let is_due = self.asked
            || self.missing
            || now.taken - self.reported.taken >= self.credits.div_ceil(2)
            || now.control_taken - self.reported.control_taken >= self.control_credits.div_ceil(2)
            || self.unreported_bytes >= self.report_bytes;
        if is_due { Owed::Now } else { Owed::WhenIdle }
    }
}
