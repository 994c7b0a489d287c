//! The settings of a job: made by the launcher, the same on every rank.

use crate::same_memory::SameMemory;
use refrain_eventlog::Level;
use refrain_transport::divergence::DivergencePolicy;
use serde::{Deserialize, Serialize};

/// Where a job's events become stable, and what waits for that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventConfig {
    /// The event loggers' addresses: of each shard its replicas. Rank r belongs
    /// to shard r modulo their number (EL-4). The launcher fills them in, where
    /// none are given.
    pub shards: Vec<Vec<String>>,
    /// `--stable`: what a commit has to reach at one logger. EL-1
    pub level: Level,
    /// `--stable-quorum`: at how many of a shard's.
    pub quorum: Quorum,
    /// `--event-way`: `auto`, `shm`, `messages`, `verbs`, `ofi:PROVIDER`.
    pub way: String,
    /// `--event-wait`: how long a send may wait for its events before it is an
    /// error, in milliseconds.
    pub wait_ms: u64,
    /// `--gate-output`: what a rank prints is an emission, too. GATE-1
    pub gate_output: bool,
    /// `--stats`: ranks tell the launcher their figures when they leave.
    pub statistics: bool,
}

impl Default for EventConfig {
    fn default() -> Self {
        Self {
            shards: Vec::new(),
            level: Level::Placed,
            quorum: Quorum::Majority,
            way: "auto".into(),
            wait_ms: 60_000,
            gate_output: false,
            statistics: false,
        }
    }
}

/// What happens when a rank dies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryConfig {
    /// `--max-restarts`: how often one rank is restarted. 0: its death ends
    /// the job.
    pub max_restarts: u32,
    /// `--checkpoint-dir`: where checkpoints go. The launcher makes the path
    /// absolute, and fills it in where ranks may be restarted. `None`: there
    /// is no place for them.
    pub checkpoint_dir: Option<String>,
    /// What the names of the job's checkpoints begin with; filled in by the
    /// launcher.
    pub checkpoint_prefix: String,
    /// `--checkpoint-policy`: which ranks the launcher asks for checkpoints.
    pub checkpoint_policy: String,
    /// `--checkpoint-every`: how long between two orders, or with `interval`
    /// between two checkpoints of one rank; in milliseconds.
    pub checkpoint_every_ms: u64,
    /// `--kill RANK@clock=N`: this rank kills itself (SIGKILL) when its clock is
    /// there. Sent to the first life of the rank only; all others have `None`.
    pub kill_at_clock: Option<u64>,
    /// `--same-memory`: what of a rank's memory is the same in each life.
    pub same_memory: SameMemory,
    /// `--record-clocks`: times and other values that differ in each life are recorded, and
    /// a later life gets the recorded ones in its replay.
    pub record_clocks: bool,
    /// `--divergence`: the action when a replayed message has other bytes.
    pub divergence: Divergence,
}

/// The action when a replayed message has other bytes than in the life before. REC-8
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Divergence {
    /// The rank stops.
    Stop,
    /// The rank continues.
    Warn,
    /// The rank continues, unless its messages differ widely.
    #[default]
    Auto,
}

impl Divergence {
    /// Their names on the command line.
    pub const ALL: [(&str, Divergence); 3] = [
        ("stop", Divergence::Stop),
        ("warn", Divergence::Warn),
        ("auto", Divergence::Auto),
    ];

    /// As the engine knows it.
    pub fn policy(self) -> DivergencePolicy {
        match self {
            Divergence::Stop => DivergencePolicy::Stop,
            Divergence::Warn => DivergencePolicy::Warn,
            Divergence::Auto => DivergencePolicy::Auto,
        }
    }
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            max_restarts: 0,
            checkpoint_dir: None,
            checkpoint_prefix: String::new(),
            checkpoint_policy: "none".into(),
            checkpoint_every_ms: 1000,
            kill_at_clock: None,
            same_memory: SameMemory::default(),
            record_clocks: true,
            divergence: Divergence::default(),
        }
    }
}

/// How many of a shard's loggers have to have a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quorum {
    /// More than half.
    Majority,
    /// All.
    All,
}

impl Quorum {
    /// Their names on the command line.
    pub const ALL: [(&str, Quorum); 2] = [("majority", Quorum::Majority), ("all", Quorum::All)];

    /// The number of replicas that a quorum of `replicas` needs.
    pub fn of(self, replicas: usize) -> usize {
        match self {
            Quorum::Majority => replicas / 2 + 1,
            Quorum::All => replicas,
        }
    }
}

/// Which RDMA port the fabric `verbs` uses, as far as it is not to be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerbsConfig {
    /// `--libibverbs`: the library's file. The launcher takes it from
    /// `REFRAIN_LIBIBVERBS` where it is not given. `None`: `libibverbs.so.1` as the
    /// loader finds it.
    pub library: Option<String>,
    /// `--verbs-device`: its name. `None`: each rank takes the one that its
    /// `REFRAIN_VERBS_DEVICE` names, else the first that can be used.
    pub device: Option<String>,
    /// `--verbs-port`: the device's port.
    pub port: Option<u8>,
    /// `--verbs-gid-index`: the entry of the port's table of addresses.
    pub gid_index: Option<u8>,
    /// `--verbs-mtu`: bytes that a packet carries.
    pub mtu_bytes: Option<u32>,
}

/// What the launcher tells every rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobConfig {
    /// `--fabric`: `auto`, `shm`, `verbs`, `ofi:PROVIDER`. The launcher puts a provider in
    /// the place of `ofi` alone.
    pub fabric: String,
    /// `--protocol`: `none`, `pessimist`.
    pub protocol: String,
    /// `--log-memory`: bytes that one rank's payload log may take in memory.
    /// `None`: chosen from the machine.
    pub log_memory_bytes: Option<u64>,
    /// Touch all log memory at the start instead of when it is first used.
    pub log_prefault: bool,
    /// How long a blocking send may wait for log memory before it is an error,
    /// in milliseconds.
    pub log_full_wait_ms: u64,
    /// `--spill-dir`: the folder that the payload log goes to when memory is
    /// short. `None`: it stays in memory. The launcher makes the path absolute.
    pub spill_dir: Option<String>,
    /// `--log-disk`: the most that one rank's log may take there, in bytes. The
    /// launcher fills it in: half of what is free, shared by its ranks.
    pub log_disk_bytes: Option<u64>,
    /// `--spill-after`: bytes of one rank's log that stay in memory before it
    /// begins to write. `None`: half of the memory.
    pub spill_after_bytes: Option<u64>,
    /// `--spill-io`: `auto`, `uring`, `plain`.
    pub spill_io: String,
    /// `--keep-log`: the files in the spill folder outlive the job.
    pub keep_log: bool,
    /// What the names of the job's files there begin with; filled in by the
    /// launcher.
    pub spill_prefix: String,
    /// The cores that the launcher may use, for threads that are not to share
    /// their rank's; filled in by the launcher.
    pub cores: Vec<u32>,
    /// Ranks of the job on this host, for choices that depend on whether each
    /// has a core of its own.
    pub ranks_on_host: u32,
    /// Cores of this host that the launcher may use. A rank cannot count them
    /// itself: it may be pinned to one.
    pub cores_on_host: u32,
    /// How long a waiting rank polls before it sleeps, in microseconds.
    /// `None`: chosen from the machine.
    pub spin_us: Option<u64>,
    /// `--libfabric`: the library's file. The launcher takes it from
    /// `REFRAIN_LIBFABRIC` where it is not given. `None`: `libfabric.so.1` as the
    /// loader finds it.
    pub libfabric: Option<String>,
    /// Which RDMA port the fabric `verbs` uses.
    pub verbs: VerbsConfig,
    /// `--peer-timeout`: how long a rank on another host may leave the greeting
    /// at the start unanswered, and how long a provider's error about it may
    /// last, until it counts as lost; in milliseconds.
    pub peer_timeout_ms: u64,
    /// `--suspect-after`: how long a rank may leave frames unanswered until it
    /// counts as lost, in milliseconds. `None`: for ever. A rank that computes
    /// answers nothing meanwhile.
    pub suspect_after_ms: Option<u64>,
    /// Where events become stable, and what waits for that.
    pub events: EventConfig,
    /// What happens when a rank dies.
    pub recovery: RecoveryConfig,
    /// `--verbose`: rank 0 prints on standard error what was chosen and why.
    pub verbose: bool,
    /// The start of the job, in nanoseconds since 1970: `World::time` counts from there. The
    /// launcher fills it in. 0: each process counts from its own start.
    pub began_unix_ns: u64,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self {
            fabric: "auto".into(),
            protocol: "none".into(),
            log_memory_bytes: None,
            log_prefault: false,
            log_full_wait_ms: 10_000,
            spill_dir: None,
            log_disk_bytes: None,
            spill_after_bytes: None,
            spill_io: "auto".into(),
            keep_log: false,
            spill_prefix: String::new(),
            cores: Vec::new(),
            ranks_on_host: 1,
            cores_on_host: 1,
            spin_us: None,
            libfabric: None,
            verbs: VerbsConfig::default(),
            peer_timeout_ms: 30_000,
            suspect_after_ms: None,
            events: EventConfig::default(),
            recovery: RecoveryConfig::default(),
            verbose: false,
            began_unix_ns: 0,
        }
    }
}
