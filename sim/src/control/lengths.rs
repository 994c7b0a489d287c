//! The lengths of the messages: those of the real types, encoded.

use refrain_job::config::JobConfig;
use refrain_job::control::host::HostIdentity;
use refrain_job::control::message::{ToLauncher, ToRank};
use serde::Serialize;

/// Length of a card with an address for ranks on other hosts: that of the fabric `verbs`.
const CARD_BYTES: usize = 33 + 5 + 52 + 5 + 49;

/// What an agent adds to a message of a rank: kind, rank and incarnation.
const ENVELOPE_BYTES: u64 = 8;

/// Lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    pub setup: u64,
    pub meet: u64,
    pub up: u64,
    pub down: u64,
    pub fence: u64,
}

fn of(message: &impl Serialize) -> u64 {
    let bytes = postcard::to_stdvec(message).expect("it can be encoded");
    bytes.len() as u64 + ENVELOPE_BYTES
}

impl Lengths {
    pub fn new() -> Self {
        let rank = u32::MAX / 2;
        Self {
            setup: of(&ToRank::Welcome {
                job: u64::MAX,
                rank,
                size: rank,
                incarnation: 0,
                config: Box::new(JobConfig::default()),
                begins_with: None,
                met: None,
                alone: false,
            }),
            // The agent of the peer answers with its card: the card of this rank comes along.
            meet: of(&ToLauncher::Meet(rank)) + CARD_BYTES as u64,
            up: of(&ToRank::Up {
                rank,
                incarnation: 1,
                card: vec![0; CARD_BYTES],
                memory: false,
            }),
            down: of(&ToRank::Down {
                rank,
                incarnation: 0,
            }),
            fence: of(&ToLauncher::Fence {
                generation: 1,
                last: false,
            }),
        }
    }

    /// The table of hosts, of this number of hosts in rows of ranks.
    pub fn hosts(hosts: u32, ranks_per_host: u32) -> u64 {
        let rows: Vec<(u32, u32)> = (0..hosts).map(|host| (host, ranks_per_host)).collect();
        let identity = vec![0; HostIdentity::BYTES];
        of(&ToRank::Hosts {
            hosts: vec![identity; hosts as usize],
            rows,
        })
    }
}
