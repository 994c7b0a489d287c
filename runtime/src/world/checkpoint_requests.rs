//! Checkpoint requests of a rank whose log fills up. They go to the receivers of the messages that
//! fill the log, since checkpoints of those ranks free it. Pure; time is an argument. LOG-3

use core::time::Duration;
use refrain_ring::{CHUNK_BYTES, Rank, Ssn};
use std::time::Instant;

/// A request is repeated after this time: the checkpoint that answered it covered no message of
/// this rank, or the request was lost.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Least memory of a channel for which a checkpoint is requested while sends find memory: the chunk
/// that a busy channel fills is not freed, and such a request would be repeated for ever.
const HELD_BYTES_MIN: u64 = 2 * CHUNK_BYTES as u64;
/// As above, while a send waits for memory: the last chunk of a channel that is idle is freed, too.
const HELD_BYTES_MIN_STALLED: u64 = CHUNK_BYTES as u64;

/// The log memory of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) used_bytes: u64,
    pub(super) budget_bytes: u64,
    /// Bytes that stay in memory while the disk keeps up; 0 without a disk.
    pub(super) stays_bytes: u64,
    /// Chunks are being written to disk.
    pub(super) is_writing: bool,
    /// A send waits for memory.
    pub(super) is_exhausted: bool,
}

/// The part of the log memory that holds the messages to one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    pub(super) to: Rank,
    pub(super) held_bytes: u64,
    /// Maximum of `held_bytes`.
    pub(super) share_bytes: u64,
    /// All messages below it are free.
    pub(super) horizon: Ssn,
}

/// How short of log memory a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shortage {
    /// Enough memory is free.
    None,
    /// Half of the memory above `stays_bytes` is in use.
    Some,
    /// Three quarters of the memory above `stays_bytes` are in use.
    Much,
}

impl Memory {
    /// The shortage when `held` of at most `of` bytes are in use.
    fn shortage_of(self, held: u64, of: u64) -> Shortage {
        let part = |bytes: u64| bytes as f64 / of.max(1) as f64;
        let stays = self.stays_bytes as f64 / self.budget_bytes.max(1) as f64;
        match (part(held) - stays) / (1.0 - stays) {
            above if above < 0.5 => Shortage::None,
            above if above < 0.75 => Shortage::Some,
            _ => Shortage::Much,
        }
    }

    /// Least memory of a channel that a checkpoint can free.
    fn held_bytes_min(self) -> u64 {
        match self.is_exhausted {
            true => HELD_BYTES_MIN_STALLED,
            false => HELD_BYTES_MIN,
        }
    }

    /// The highest shortage: of the whole memory, and of each channel's share.
    pub(super) fn shortage(self, channels: &[Channel]) -> Shortage {
        let may_free = |channel: &&Channel| channel.held_bytes >= self.held_bytes_min();
        if self.is_writing || !channels.iter().any(|it| may_free(&it)) {
            return Shortage::None;
        }
        let of_channel = |it: &Channel| self.shortage_of(it.held_bytes, it.share_bytes);
        let most = channels.iter().filter(may_free).map(of_channel).max();
        let of_all = self.shortage_of(self.used_bytes, self.budget_bytes);
        of_all.max(most.unwrap_or(Shortage::None))
    }
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct CheckpointRequest {
    of: Rank,
    /// The horizon of the channel when the request was sent.
    horizon: Ssn,
    at: Instant,
}

/// The unanswered requests of a rank.
#[derive(Debug, Default)]
pub(super) struct CheckpointRequests {
    sent: Vec<CheckpointRequest>,
}

impl CheckpointRequests {
    /// The ranks to send a request to now: the one whose messages take the most memory; when little
    /// memory is left, also those whose messages take at least half as much.
    pub(super) fn next(&mut self, now: Instant, memory: Memory, channels: &[Channel]) -> Vec<Rank> {
        self.sent.retain(|request| {
            let channel = channels.iter().find(|channel| channel.to == request.of);
            let is_answered = channel.is_none_or(|channel| channel.horizon > request.horizon);
            !is_answered && now.duration_since(request.at) < AGAIN_AFTER
        });
        let most = channels.iter().map(|it| it.held_bytes).max().unwrap_or(0);
        let takes_much: fn(u64, u64) -> bool = match memory.shortage(channels) {
            Shortage::None => return Vec::new(),
            Shortage::Some => |held, most| held == most,
            Shortage::Much => |held, most| held >= most / 2,
        };
        let mut requested = Vec::new();
        for channel in channels {
            let is_sent = self.sent.iter().any(|request| request.of == channel.to);
            let held_bytes = channel.held_bytes;
            if !is_sent && held_bytes >= memory.held_bytes_min() && takes_much(held_bytes, most) {
                requested.push(channel.to);
                self.sent.push(CheckpointRequest {
                    of: channel.to,
                    horizon: channel.horizon,
                    at: now,
                });
            }
        }
        requested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = CHUNK_BYTES as u64;

    fn memory(used_chunks: u64) -> Memory {
        Memory {
            used_bytes: used_chunks * CHUNK,
            budget_bytes: 16 * CHUNK,
            stays_bytes: 0,
            is_writing: false,
            is_exhausted: false,
        }
    }

    fn channel(to: u32, held_chunks: u64) -> Channel {
        Channel {
            to: Rank(to),
            held_bytes: held_chunks * CHUNK,
            share_bytes: 16 * CHUNK,
            horizon: Ssn(5),
        }
    }

    // LOG-3
    #[test]
    fn the_checkpoint_of_the_rank_that_fills_the_log_is_requested() {
        let now = Instant::now();
        let channels = [channel(0, 2), channel(1, 5), channel(2, 1)];
        assert_eq!(
            CheckpointRequests::default().next(now, memory(7), &channels),
            []
        );
        let mut requests = CheckpointRequests::default();
        assert_eq!(requests.next(now, memory(8), &channels), [Rank(1)]);
        assert_eq!(requests.next(now, memory(9), &channels), [], "it was sent");
        let channels = [channel(0, 4), channel(1, 6), channel(2, 2)];
        assert_eq!(requests.next(now, memory(12), &channels), [Rank(0)]);
    }

    // LOG-3
    #[test]
    fn a_wish_is_over_when_the_horizon_moves_and_is_sent_again_in_time() {
        let now = Instant::now();
        let mut channels = [channel(1, 9)];
        let mut requests = CheckpointRequests::default();
        assert_eq!(requests.next(now, memory(9), &channels), [Rank(1)]);
        let soon = now + AGAIN_AFTER / 2;
        assert_eq!(requests.next(soon, memory(9), &channels), []);
        channels[0].horizon = Ssn(6);
        assert_eq!(requests.next(soon, memory(9), &channels), [Rank(1)]);
        assert_eq!(requests.next(soon, memory(9), &channels), []);
        let late = soon + AGAIN_AFTER;
        assert_eq!(requests.next(late, memory(9), &channels), [Rank(1)]);
    }

    // LOG-3
    #[test]
    fn a_log_with_a_disk_is_full_when_the_disk_takes_nothing() {
        let channels = [channel(0, 2)];
        let on_disk = |used_chunks, is_writing| Memory {
            stays_bytes: 8 * CHUNK,
            is_writing,
            ..memory(used_chunks)
        };
        for (memory, shortage) in [
            (on_disk(8, false), Shortage::None),
            (on_disk(11, false), Shortage::None),
            (on_disk(12, false), Shortage::Some),
            (on_disk(14, false), Shortage::Much),
            (on_disk(16, true), Shortage::None),
        ] {
            assert_eq!(memory.shortage(&channels), shortage, "{memory:?}");
        }
        // One channel's share is full.
        let full = Channel {
            share_bytes: 2 * CHUNK,
            ..channels[0]
        };
        assert_eq!(on_disk(2, false).shortage(&[full]), Shortage::Much);
    }

    // LOG-3
    #[test]
    fn chunks_that_are_written_are_no_reason_for_a_checkpoint() {
        let now = Instant::now();
        let channels = [channel(0, 1), channel(1, 1)];
        assert_eq!(memory(15).shortage(&channels), Shortage::None);
        assert_eq!(
            CheckpointRequests::default().next(now, memory(15), &channels),
            []
        );
    }

    // LOG-3
    #[test]
    fn when_memory_is_exhausted_the_chunks_of_idle_channels_are_wanted() {
        let now = Instant::now();
        let channels = [channel(0, 1), channel(1, 1)];
        let exhausted = Memory {
            is_exhausted: true,
            ..memory(16)
        };
        let requested = CheckpointRequests::default().next(now, exhausted, &channels);
        assert_eq!(requested, [Rank(0), Rank(1)]);
    }
}
