//! The size of a rank's log memory, and of one channel's share of it.

use super::Membership;
use crate::Error;
use refrain_job::config::JobConfig;
use refrain_job::machine::{LOG_BYTES_MIN, default_log_bytes};
use refrain_logging::Member;
use refrain_ring::CHUNK_BYTES;

/// A channel's window when its log is reused: small enough for a second-level cache, large enough
/// to let the receiver lag a little.
const REUSED_WINDOW_BYTES: u64 = 1 << 20;

/// Messages of this length or longer share their payload if they go to several ranks: a reference
/// costs a line of the log, and its reader a second look at memory.
pub(super) const SHARED_MESSAGE_BYTES_MIN: u64 = 2048;

/// The log memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogSize {
    /// All of it, in bytes.
    pub log_bytes: u64,
    /// The most that one channel may hold of it.
    pub window_bytes: u64,
    /// The most that payload for several channels may hold of it; 0 with one channel. LOG-6
    pub shared_bytes: u64,
}

/// Returns the log memory of this rank.
pub(super) fn log_size(
    config: &JobConfig,
    membership: &Membership,
    member: Member,
) -> Result<LogSize, Error> {
    let budget = config
        .log_memory_bytes
        .unwrap_or_else(|| default_log_bytes(config.ranks_on_host));
    if budget < LOG_BYTES_MIN {
        return Err(Error::Config(format!(
            "--log-memory {budget}: the minimum is {LOG_BYTES_MIN} bytes"
        )));
    }
    let peers = channels(config, membership);
    if member.keeps_payload() && spills(config, membership, budget) {
        return spilled_size(budget, peers, config.recovery.max_restarts > 0);
    }
    if member.keeps_payload() {
        return Ok(LogSize {
            log_bytes: budget,
            window_bytes: budget,
            shared_bytes: match peers {
                1 => 0,
                _ => budget / 4,
            },
        });
    }
    let window_bytes = REUSED_WINDOW_BYTES
        .min(budget / peers)
        .max(2 * CHUNK_BYTES as u64);
    let channels_bytes = budget
        .min(peers * (window_bytes + CHUNK_BYTES as u64))
        .max(peers * 2 * CHUNK_BYTES as u64);
    // No channel waits for memory that shared payload holds.
    let shared_bytes = match peers {
        1 => 0,
        _ => (budget.saturating_sub(channels_bytes)).min(REUSED_WINDOW_BYTES),
    };
    Ok(LogSize {
        log_bytes: channels_bytes + shared_bytes,
        window_bytes,
        shared_bytes,
    })
}

/// The logs that a rank writes: one for each peer, and one for results of collectives if any are
/// kept.
fn channels(config: &JobConfig, membership: &Membership) -> u64 {
    let peers = u64::from(membership.size.saturating_sub(1).max(1));
    peers + u64::from(config.collectives.whole.is_some())
}

/// Whether the log goes to disk: to the default folder only if its memory is large enough for that.
pub(super) fn spills(config: &JobConfig, membership: &Membership, budget: u64) -> bool {
    let peers = channels(config, membership);
    let least = spilled_bytes_min(peers, config.recovery.max_restarts > 0);
    config.spill_dir.is_some() && (budget >= least || !config.spill_dir_is_default)
}

fn spilled_bytes_min(peers: u64, is_survived: bool) -> u64 {
    2 * peers * CHUNK_BYTES as u64 + recalled_bytes(is_survived)
}

/// Memory that no window has. If ranks are restarted (`is_survived`), a log is also recalled from
/// disk: the chunk that is read, and the next. All windows may be in use then, with messages that a
/// full disk does not take. REC-3, LOG-3
fn recalled_bytes(is_survived: bool) -> u64 {
    2 * u64::from(is_survived) * CHUNK_BYTES as u64
}

/// Sizes with a disk. Memory then holds only chunks that receivers have not consumed or disks have
/// not written. The windows of all channels together fit into it, so that no channel waits for
/// memory that another receiver holds, beside what is [recalled](recalled_bytes).
///
/// Payload for several channels cannot go to disk, so none is shared.
fn spilled_size(budget: u64, peers: u64, is_survived: bool) -> Result<LogSize, Error> {
    let chunk = CHUNK_BYTES as u64;
    let least = spilled_bytes_min(peers, is_survived);
    if budget < least {
        return Err(Error::Config(format!(
            "--log-memory {budget}: with --spill-dir the least for {peers} peers is {least} bytes"
        )));
    }
    Ok(LogSize {
        log_bytes: budget,
        window_bytes: (budget - recalled_bytes(is_survived)) / peers / chunk * chunk,
        shared_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With any number of peers, two chunks are left for what is recalled while all channels hold
    /// their windows: of a log that is full on disk, too, none goes back. LOG-3, REC-3
    #[test]
    fn a_log_that_comes_back_from_disk_has_room_beside_all_others() {
        let chunk = CHUNK_BYTES as u64;
        for peers in 1..40 {
            let least = (2 * peers + 2) * chunk;
            assert!(spilled_size(least - 1, peers, true).is_err());
            for budget in (2 * peers + 2..8 * peers).map(|chunks| chunks * chunk) {
                let size = spilled_size(budget, peers, true).expect("enough");
                assert!(size.window_bytes >= 2 * chunk);
                let windows = peers * size.window_bytes;
                assert!(windows + 2 * chunk <= budget, "{peers} {budget}");
            }
            // Without restarts the log is read only after the job: two chunks a channel are enough.
            assert!(spilled_size(2 * peers * chunk, peers, false).is_ok());
            assert!(spilled_size(2 * peers * chunk - 1, peers, false).is_err());
        }
    }
}
