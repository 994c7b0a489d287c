//! The settings of a job: set by the launcher, the same on every rank.

use crate::same_memory::SameMemory;
use refrain_eventlog::Level;
use refrain_logging::Member;
use refrain_logging::held::Tolerance;
use refrain_transport::divergence::DivergencePolicy;
use serde::{Deserialize, Serialize};

/// Settings of event loggers, and of operations that wait for stable events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventConfig {
    /// Addresses of the event loggers: by shard, its replicas. Rank r belongs to shard r modulo
    /// the number of shards (EL-4). The launcher fills them in if none are given.
    pub shards: Vec<Vec<String>>,
    /// `--stable`: the state in which one logger acknowledges a commit. EL-1
    pub level: Level,
    /// `--stable-quorum`: number of a shard's loggers that must acknowledge it.
    pub quorum: Quorum,
    /// `--event-way`: `auto`, `shm`, `messages`, `verbs`, `ofi:PROVIDER`.
    pub way: String,
    /// `--event-wait`: time that a send may wait for its events before it fails, in milliseconds.
    pub wait_ms: u64,
    /// `--gate-output`: printed output is an emission, too. GATE-1
    pub gate_output: bool,
    /// `--stats`: ranks send their statistics to the launcher when they leave.
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

/// Settings of recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryConfig {
    /// `--max-restarts`: maximum number of restarts of one rank. 0: the death of a rank ends the
    /// job.
    pub max_restarts: u32,
    /// `--checkpoint-dir`: folder or server for checkpoints. The launcher makes a path absolute,
    /// and fills one in if ranks may be restarted. `None`: checkpoints cannot be stored.
    pub checkpoint_dir: Option<String>,
    /// Prefix of the names of the job's checkpoints; filled in by the launcher.
    pub checkpoint_prefix: String,
    /// `--job-dir`: the job's folder. A later run of the job goes on from its checkpoints, so hosts
    /// leave them. The launcher makes the path absolute.
    pub job_dir: Option<String>,
    /// `--checkpoint-policy`: the policy that chooses ranks for checkpoint requests.
    pub checkpoint_policy: String,
    /// `--checkpoint-every`: time between two checkpoint requests, or with `interval` between two
    /// checkpoints of one rank; in milliseconds.
    pub checkpoint_every_ms: u64,
    /// `--kill RANK@clock=N`: the clock at which this rank kills itself (SIGKILL). Sent only to
    /// the first life of the rank; `None` for all others.
    pub kill_at_clock: Option<u64>,
    /// `--same-memory`: parts of a rank's memory that are the same in each life.
    pub same_memory: SameMemory,
    /// `--record-clocks`: times and other values that differ in each life are recorded, and a
    /// later life gets the recorded values in its replay.
    pub record_clocks: bool,
    /// `--divergence`: the action when a replayed message has other bytes.
    pub divergence: Divergence,
    /// `--sets`: by rank, the number of its correlated set; empty: each rank is a set of its own.
    /// The launcher fills it in. SET-1
    pub set_of_rank: Vec<u32>,
    /// `--causal-f`: where ranks hold each other's events, how many ranks, or sets, may be dead at
    /// once. `None`: one. TICKET-4
    pub failures_at_once: Option<u32>,
}

impl RecoveryConfig {
    /// Where ranks hold each other's events: the deaths at once that the job survives. TICKET-4
    ///
    /// # Panics
    /// When the launcher has not checked `failures_at_once`.
    pub fn tolerance(&self) -> Tolerance {
        let failures = self.failures_at_once.unwrap_or(1);
        Tolerance::new(failures as usize, &self.set_of_rank)
    }
}

/// What a rank does whose log is full. LOG-7
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogFullPolicy {
    /// It keeps no messages any more, and the job continues: a death ends it.
    Unprotected,
    /// The send that finds no room fails.
    Stop,
}

impl LogFullPolicy {
    /// All policies, with their names.
    pub const ALL: [(&str, Self); 2] = [("unprotected", Self::Unprotected), ("stop", Self::Stop)];
}

/// The action when a replayed message has other bytes than in the earlier life. REC-8
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Divergence {
    /// The rank stops.
    Stop,
    /// The rank continues.
    Warn,
    /// The rank continues, unless most bytes of its long messages differ.
    #[default]
    Auto,
}

impl Divergence {
    /// Names on the command line.
    pub const ALL: [(&str, Divergence); 3] = [
        ("stop", Divergence::Stop),
        ("warn", Divergence::Warn),
        ("auto", Divergence::Auto),
    ];

    /// The same policy as a value of the engine.
    pub fn policy(self) -> DivergencePolicy {
        match self {
            Divergence::Stop => DivergencePolicy::Stop,
            Divergence::Warn => DivergencePolicy::Warn,
            Divergence::Auto => DivergencePolicy::Auto,
        }
    }
}

impl JobConfig {
    /// Whether all ranks are introduced to each other at the start: ranks tell all others what they
    /// hold or have finished. Otherwise two ranks are introduced when one has something to send to
    /// the other.
    pub fn introduces_all(&self) -> bool {
        let member = self.protocol.parse::<Member>();
        member.is_ok_and(Member::holds_events_at_ranks)
            || self.collectives.whole.is_some()
            || !self.recovery.set_of_rank.is_empty()
    }
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            max_restarts: 0,
            checkpoint_dir: None,
            checkpoint_prefix: String::new(),
            job_dir: None,
            checkpoint_policy: "none".into(),
            checkpoint_every_ms: 1000,
            kill_at_clock: None,
            same_memory: SameMemory::default(),
            record_clocks: true,
            divergence: Divergence::default(),
            set_of_rank: Vec::new(),
            failures_at_once: None,
        }
    }
}

/// Number of a shard's loggers that must have a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quorum {
    /// More than half of the loggers.
    Majority,
    /// All loggers.
    All,
}

impl Quorum {
    /// Names on the command line.
    pub const ALL: [(&str, Quorum); 2] = [("majority", Quorum::Majority), ("all", Quorum::All)];

    /// The number of loggers in a quorum of `replicas` loggers.
    pub fn of(self, replicas: usize) -> usize {
        match self {
            Quorum::Majority => replicas / 2 + 1,
            Quorum::All => replicas,
        }
    }
}

/// Settings of collectives, the same at all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CollectivesConfig {
    /// `--collectives-table`: rules, as text, that go before those of the default table.
    pub table: String,
    /// `--check-collectives`: members compare their calls before each collective.
    pub check: bool,
    /// `--collectives whole`: results are kept instead of the messages inside collectives, and
    /// survive this many failures at a time (`--collective-failures`). `None`: messages are kept.
    pub whole: Option<u32>,
    /// The number of each rank's host when the job began, if ranks of one host can read each other's
    /// memory; filled in by the launcher. It decides about algorithms, and so does not change when
    /// a rank is restarted. COLL-1
    pub host_of_rank: Vec<u32>,
}

/// Choice of the RDMA port of the fabric `verbs`, as far as it is given.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerbsConfig {
    /// `--libibverbs`: the library's file. The launcher takes it from `REFRAIN_LIBIBVERBS` if it
    /// is not given. `None`: `libibverbs.so.1` as the loader finds it.
    pub library: Option<String>,
    /// `--verbs-device`: name of the device. `None`: each rank uses the device in its
    /// `REFRAIN_VERBS_DEVICE`, else the first usable one.
    pub device: Option<String>,
    /// `--verbs-port`: number of the device's port.
    pub port: Option<u8>,
    /// `--verbs-gid-index`: index in the port's table of addresses.
    pub gid_index: Option<u8>,
    /// `--verbs-mtu`: bytes per packet.
    pub mtu_bytes: Option<u32>,
}

/// The settings that the launcher sends to every rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobConfig {
    /// `--fabric`: `auto`, `shm`, `verbs`, `ofi:PROVIDER`. The launcher replaces `ofi` by one with
    /// a provider.
    pub fabric: String,
    /// `--protocol`: `none`, `pessimist`.
    pub protocol: String,
    /// `--log-memory`: maximum memory of one rank's payload log, in bytes. `None`: chosen from the
    /// machine.
    pub log_memory_bytes: Option<u64>,
    /// Whether the launcher has chosen this size.
    pub log_memory_is_default: bool,
    /// Touch all log memory at the start instead of when it is first used.
    pub log_prefault: bool,
    /// `--log-full`: what a rank does whose log is full, and that no checkpoint frees.
    pub log_full: LogFullPolicy,
    /// Time that a send may wait for log memory before the log counts as full, in milliseconds.
    pub log_full_wait_ms: u64,
    /// `--spill-dir`: the folder for the part of the payload log that does not stay in memory.
    /// `None`: the log stays in memory. The launcher makes the path absolute.
    pub spill_dir: Option<String>,
    /// `--spill-dir` was not given: if that folder cannot be used, the log stays in memory.
    pub spill_dir_is_default: bool,
    /// `--log-disk`: maximum disk space of one rank's log, in bytes. The launcher fills it in:
    /// half of the free space, shared by its ranks.
    pub log_disk_bytes: Option<u64>,
    /// `--spill-after`: bytes of one rank's log in memory above which it is written to disk.
    /// `None`: half of the log memory.
    pub spill_after_bytes: Option<u64>,
    /// `--spill-io`: `auto`, `uring`, `plain`.
    pub spill_io: String,
    /// `--keep-log`: the files in the spill folder are kept after the job.
    pub keep_log: bool,
    /// Prefix of the names of the job's files in the spill folder; filled in by the launcher.
    pub spill_prefix: String,
    /// The cores that the launcher may use, for threads that must not share their rank's core;
    /// filled in by the launcher.
    pub cores: Vec<u32>,
    /// Number of the job's ranks on this host, for choices that depend on whether each rank has
    /// its own core.
    pub ranks_on_host: u32,
    /// Number of this host's cores that the launcher may use. A rank cannot count them itself: it
    /// may be pinned to one.
    pub cores_on_host: u32,
    /// Time that a waiting rank polls before it sleeps, in microseconds. `None`: chosen from the
    /// machine.
    pub spin_us: Option<u64>,
    /// `--libfabric`: the library's file. The launcher takes it from `REFRAIN_LIBFABRIC` if it is
    /// not given. `None`: `libfabric.so.1` as the loader finds it.
    pub libfabric: Option<String>,
    /// The RDMA port of the fabric `verbs`.
    pub verbs: VerbsConfig,
    /// `--peer-timeout`: time that a rank on another host may take to answer the greeting at the
    /// start, and time that a provider's error about it may last, before the rank counts as lost;
    /// in milliseconds.
    pub peer_timeout_ms: u64,
    /// `--suspect-after`: time that a rank may leave frames unanswered before it counts as lost,
    /// in milliseconds. `None`: no limit. A computing rank does not answer meanwhile.
    pub suspect_after_ms: Option<u64>,
    /// Settings of event loggers, and of operations that wait for stable events.
    pub events: EventConfig,
    /// Settings of recovery.
    pub recovery: RecoveryConfig,
    /// Settings of collectives.
    pub collectives: CollectivesConfig,
    /// `--verbose`: rank 0 prints its choices with their reasons on standard error.
    pub verbose: bool,
    /// The start of the job, in nanoseconds since 1970: `World::time` counts from it. The launcher
    /// fills it in. 0: each process counts from its own start.
    pub began_unix_ns: u64,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self {
            fabric: "auto".into(),
            protocol: "none".into(),
            log_memory_bytes: None,
            log_memory_is_default: false,
            log_prefault: false,
            log_full: LogFullPolicy::Stop,
            log_full_wait_ms: 10_000,
            spill_dir: None,
            spill_dir_is_default: false,
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
            collectives: CollectivesConfig::default(),
            verbose: false,
            began_unix_ns: 0,
        }
    }
}
