//! When chunks of the log leave memory for the disk.
//!
//! A channel that begins a new chunk lends its complete chunks to the disk, oldest first, if more
//! than a set amount is in memory, or if this channel holds more than its share of that amount.
//! When memory is exhausted, all channels lend theirs. The rank continues meanwhile. LOG-3

use super::destination::{Destination, NewDestination};
use super::per_rank::PerRank;
use super::read_back::Reads;
use crate::spill::{Spill, SpillEvent};
use core::time::Duration;
use refrain_ring::{Arena, CHUNK_BYTES, ChannelLog, LentChunk, LoanEnd};
use std::collections::VecDeque;

/// Interval at which a waiting rank looks for writes that have ended.
const LOOK: Duration = Duration::from_micros(500);

/// The disk under the logs, if there is one.
#[derive(Default)]
pub(super) struct Spilling {
    disk: Option<Box<dyn Spill>>,
    /// Number of channels that share the memory.
    channels: u64,
    /// Nothing goes to the disk any more.
    is_stopped: bool,
    /// Chunks that came back while another channel was served.
    returned: VecDeque<(LentChunk, LoanEnd)>,
    lent: u64,
    /// Chunks written to disk so far.
    pub written: u64,
    /// Reads in progress, with the readers of the log.
    pub reads: Reads,
}

impl Spilling {
    /// Uses a disk for the logs of this number of channels.
    pub fn new(disk: Box<dyn Spill>, channels: u32) -> Self {
        Self {
            disk: Some(disk),
            channels: channels.max(1).into(),
            ..Self::default()
        }
    }

    pub fn is_on(&self) -> bool {
        self.disk.is_some() && !self.is_stopped
    }

    /// Frees the part of a channel's log that is on the disk. Nothing of any log goes there any
    /// more. LOG-7
    pub fn forget(&mut self, destination: &Destination) {
        self.is_stopped = true;
        self.drop_log(destination);
    }

    /// Frees the part of a channel's log that is on the disk.
    pub fn drop_log(&mut self, destination: &Destination) {
        if let Some(disk) = &mut self.disk {
            disk.trim(destination.rank, &destination.next);
        }
    }

    pub fn disk(&self) -> Option<&dyn Spill> {
        self.disk.as_deref()
    }

    pub fn disk_mut(&mut self) -> Option<&mut (dyn Spill + 'static)> {
        self.disk.as_deref_mut()
    }

    /// Whether chunks or reads are in progress or not yet handed back.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        let is_busy = || self.disk.as_ref().is_some_and(|disk| disk.under_way() > 0);
        self.lent > 0 || !self.returned.is_empty() || is_busy()
    }

    /// Whether the disk is writing chunks.
    pub fn is_writing(&self) -> bool {
        self.lent > 0
    }

    /// The longest time that a rank may sleep.
    pub fn sleep_max(&self, timeout: Duration) -> Duration {
        match self.is_under_way() {
            true => timeout.min(LOOK),
            false => timeout,
        }
    }

    /// Handles disk operations that have ended.
    pub fn poll(&mut self) {
        let Some(disk) = &mut self.disk else {
            return;
        };
        while let Some(event) = disk.poll() {
            match event {
                SpillEvent::Returned(chunk, end) => {
                    self.lent -= 1;
                    self.written += u64::from(end == LoanEnd::OnDisk);
                    self.returned.push_back((chunk, end));
                }
                SpillEvent::Read { token, bytes } => self.reads.ended(token, bytes),
            }
        }
    }

    /// Gives every log its chunks that have come back.
    pub fn hand_back(&mut self, destinations: &mut PerRank<NewDestination>) {
        for (chunk, end) in self.returned.drain(..) {
            let log = &mut destinations[chunk.destination().index()].log;
            log.take_back(&chunk, end);
        }
    }

    /// Called before a channel begins a new chunk: gives the channel its chunks that have come
    /// back, and lends complete ones.
    #[cold]
    pub fn before_chunk(&mut self, destination: &mut Destination, arena: &Arena) {
        let Some(after_bytes) = self.disk.as_ref().map(|disk| disk.after_bytes()) else {
            return;
        };
        self.poll();
        self.returned.retain(|(chunk, end)| {
            let is_its = chunk.destination() == destination.rank;
            if is_its {
                destination.log.take_back(chunk, *end);
            }
            !is_its
        });
        self.lend_above(after_bytes, destination, arena);
    }

    /// Lends complete chunks of a channel as long as more than `after_bytes` is in memory,
    /// and the disk takes them.
    pub fn lend_above(&mut self, after_bytes: u64, destination: &mut Destination, arena: &Arena) {
        let is_off = self.is_stopped || !destination.keeps_payload();
        let Some(disk) = self.disk.as_mut().filter(|_| !is_off) else {
            return;
        };
        let (to, posted) = (destination.rank, destination.posted());
        // A channel's share counts, too: if other channels are idle, its window is full before the
        // total is reached.
        let share_bytes = after_bytes / self.channels;
        let is_too_much = |log: &ChannelLog, lent: u64| {
            let own_bytes = log.held_bytes() - (log.lent_chunks() * CHUNK_BYTES) as u64;
            own_bytes > share_bytes || arena.used_bytes() - lent * CHUNK_BYTES as u64 > after_bytes
        };
        while is_too_much(&destination.log, self.lent)
            && let Some(sequence) = destination.log.next_to_lend(posted)
            && disk.takes(to, sequence)
            && let Some(chunk) = destination.log.lend(arena, posted)
        {
            disk.put(chunk);
            self.lent += 1;
        }
    }
}
