//! How much log memory a rank takes, and what one channel may hold of it.

use super::Membership;
use crate::Error;
use crate::config::JobConfig;
use refrain_logging::Member;
use refrain_ring::CHUNK_BYTES;

/// A channel's window when its log is reused: small enough to stay in a
/// second-level cache, large enough for the receiver to lag a little.
const REUSED_WINDOW_BYTES: u64 = 1 << 20;
/// Log memory of a rank, unless set or the machine is small.
const LOG_BYTES_DEFAULT: u64 = 512 << 20;
/// The least that a log can work with: two chunks a channel.
const LOG_BYTES_MIN: u64 = 4 * CHUNK_BYTES as u64;

/// Log memory of this rank and the most that one channel may hold of it.
pub(super) fn log_size(
    config: &JobConfig,
    membership: &Membership,
    member: Member,
) -> Result<(u64, u64), Error> {
    let available = crate::machine::available_memory_bytes();
    let ranks = u64::from(config.ranks_on_host.max(1));
    let share = available.map_or(LOG_BYTES_DEFAULT, |bytes| bytes / 2 / ranks);
    let budget = config
        .log_memory_bytes
        .unwrap_or(LOG_BYTES_DEFAULT.min(share));
    let budget = if config.log_memory_bytes.is_none() {
        budget.max(LOG_BYTES_MIN)
    } else {
        budget
    };
    if budget < LOG_BYTES_MIN {
        return Err(Error::Config(format!(
            "--log-memory {budget}: the least is {LOG_BYTES_MIN} bytes"
        )));
    }
    if let Some(available) = available.filter(|available| budget.saturating_mul(ranks) > *available)
    {
        return Err(Error::Config(format!(
            "--log-memory: {ranks} ranks × {budget} bytes are more than the {available} bytes of memory that are available: lower it"
        )));
    }
    let peers = u64::from(membership.size.saturating_sub(1).max(1));
    if member.keeps_payload() && config.spill_dir.is_some() {
        return spilled_size(budget, peers);
    }
    if member.keeps_payload() {
        return Ok((budget, budget));
    }
    let window = REUSED_WINDOW_BYTES
        .min(budget / peers)
        .max(2 * CHUNK_BYTES as u64);
    Ok((
        budget
            .min(peers * (window + CHUNK_BYTES as u64))
            .max(peers * 2 * CHUNK_BYTES as u64),
        window,
    ))
}

/// With a disk, memory is only held by what receivers have not consumed and
/// disks have not written. The windows of all channels fit into it together: so
/// no channel waits for memory that another receiver holds.
fn spilled_size(budget: u64, peers: u64) -> Result<(u64, u64), Error> {
    let chunk = CHUNK_BYTES as u64;
    let window = budget / peers / chunk * chunk;
    if window < 2 * chunk {
        return Err(Error::Config(format!(
            "--log-memory {budget}: with --spill-dir the least for {peers} peers is {} bytes",
            peers * 2 * chunk
        )));
    }
    Ok((budget, window))
}
