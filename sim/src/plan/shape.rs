//! Loggers, network and log of a plan.

use super::messages::Lengths;
use super::{LevelPlan, LogPlan, LoggersPlan, NetworkPlan, Plan, WayPlan};
use fastrand::Rng;
use refrain_logging::spill::SpillOptions;
use refrain_ring::{CHUNK_BYTES, Rank};

/// Log bytes of a frame beside its payload, at most.
const FRAME_BYTES: u64 = 256;
/// Least payload of a frame of many, in bytes.
const FRAGMENT_BYTES: u64 = 4 << 10;

/// All shapes that a job may have.
pub(super) fn loggers(rng: &mut Rng) -> LoggersPlan {
    let replicas = [1, 2, 3, 3][rng.usize(0..4)];
    // A majority, or all.
    let majority = replicas / 2 + 1;
    let quorum = if rng.bool() { majority } else { replicas };
    let level = if rng.bool() {
        LevelPlan::Placed
    } else {
        LevelPlan::Durable
    };
    let way = if rng.bool() {
        WayPlan::Messages
    } else {
        WayPlan::OneSided
    };
    LoggersPlan {
        replicas,
        quorum,
        level,
        way,
    }
}

pub(super) fn network(rng: &mut Rng) -> NetworkPlan {
    let (is_rough, reads_in_place) = (rng.u32(0..3) > 0, rng.bool());
    let distant_bytes_min = (rng.u32(0..3) == 0).then(|| [64, 512, 4096][rng.usize(0..3)]);
    NetworkPlan {
        is_rough,
        reads_in_place,
        distant_bytes_min,
        is_staged: !reads_in_place && distant_bytes_min.is_none() && rng.bool(),
    }
}

/// Room for everything that is ever sent, in memory, or, where messages are long
/// so that it comes to it, in memory and on disk: a job must not stand still
/// because of its plan.
pub(super) fn log(plan: &Plan, lengths: Lengths) -> LogPlan {
    let peers = u64::from(plan.ranks - 1);
    let chunk = CHUNK_BYTES as u64;
    let most = (0..plan.ranks).map(|rank| needed_bytes(plan, Rank(rank)));
    let most = most.max().unwrap_or_default();
    if lengths == Lengths::Long {
        LogPlan {
            // As little as a real rank may have: two chunks a channel, and one to
            // bring back what a peer misses.
            memory_bytes: (2 * peers + 1) * chunk,
            disk_bytes: (peers * SpillOptions::DISK_BYTES_MIN).max(2 * most)
                + SpillOptions::DISK_BYTES_MIN,
        }
    } else {
        LogPlan {
            memory_bytes: (most + 2 * peers * chunk).next_multiple_of(chunk),
            disk_bytes: 0,
        }
    }
}

/// What the messages of a rank take in its log, at most.
fn needed_bytes(plan: &Plan, rank: Rank) -> u64 {
    let messages = plan.rounds.iter().flat_map(|round| &round.messages);
    let its = messages.filter(|message| message.from == rank);
    its.map(|message| {
        let bytes = u64::from(message.bytes);
        bytes + bytes / 2 + FRAME_BYTES * (1 + bytes / FRAGMENT_BYTES)
    })
    .sum()
}
