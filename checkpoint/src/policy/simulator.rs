//! Compares policies on patterns of traffic, as in MPICH-V2. Pure; time is counted in turns.
//!
//! In each turn messages are sent and received at once, and their senders log them. One checkpoint
//! at a time is written, with a limited bandwidth. When it is stable, everything that its rank had
//! received when it began is freed.

use super::choice::Choice;
use super::order::{Policy, RankStatus};
use super::traffic::Pattern;
use refrain_ring::Rank;

/// The settings of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of ranks.
    pub ranks: usize,
    /// Number of turns.
    pub turns: u64,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Bytes of a rank's memory, which each of its checkpoints contains.
    pub state_bytes: u64,
    /// Bytes of checkpoints that are written in a turn.
    pub bandwidth_bytes: u64,
    /// The interval of [`Choice::Interval`], in turns.
    pub interval_turns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ranks: 16,
            turns: 20_000,
            message_bytes: 64 << 10,
            state_bytes: 64 << 20,
            bandwidth_bytes: 16 << 20,
            interval_turns: 400,
        }
    }
}

/// The result of one policy on one pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The traffic.
    pub pattern: Pattern,
    /// The policy.
    pub policy: Choice,
    /// Bytes of all logs together, mean over all turns.
    pub mean_log_bytes: f64,
    /// Bytes of all logs together, maximum.
    pub peak_log_bytes: u64,
    /// Bytes of all logs together, at the end.
    pub last_log_bytes: u64,
    /// Bytes of all checkpoints that became stable.
    pub checkpoint_bytes: u64,
    /// Number of these checkpoints.
    pub checkpoints: u64,
    /// Log bytes that these checkpoints freed.
    pub freed_bytes: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
}

/// The results of all policies on all patterns.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The settings of the simulation.
    pub settings: Settings,
    /// By pattern, then by policy.
    pub rows: Vec<Row>,
}

/// A checkpoint that is being written.
#[derive(Clone, Debug)]
struct UnderWay {
    rank: usize,
    bytes: u64,
    left_bytes: u64,
    /// From each source, the bytes that had been received when the checkpoint began.
    covers: Vec<u64>,
}

struct Job {
    settings: Settings,
    pattern: Pattern,
    /// Bytes in the log of each source for each destination.
    log: Vec<Vec<u64>>,
    ranks: Vec<RankStatus>,
    under_way: Option<UnderWay>,
    row: Row,
}

impl Job {
    fn new(settings: Settings, pattern: Pattern, policy: Choice) -> Self {
        let status = |rank: usize| RankStatus {
            rank: Rank(rank as u32),
            received_bytes: 0,
            sent_bytes: 0,
            log_bytes: 0,
            state_bytes: 0,
            since: 0,
            is_ready: true,
        };
        Self {
            settings,
            pattern,
            log: vec![vec![0; settings.ranks]; settings.ranks],
            ranks: (0..settings.ranks).map(status).collect(),
            under_way: None,
            row: Row {
                pattern,
                policy,
                mean_log_bytes: 0.0,
                peak_log_bytes: 0,
                last_log_bytes: 0,
                checkpoint_bytes: 0,
                checkpoints: 0,
                freed_bytes: 0,
                sent_bytes: 0,
            },
        }
    }

    fn send_all(&mut self) {
        for source in 0..self.settings.ranks {
            for destination in 0..self.settings.ranks {
                let message = self.settings.message_bytes;
                let bytes = self.pattern.bytes(message, source, destination);
                self.log[source][destination] += bytes;
                self.ranks[source].log_bytes += bytes;
                self.ranks[source].sent_bytes += bytes;
                self.ranks[destination].received_bytes += bytes;
                self.row.sent_bytes += bytes;
            }
        }
    }

    fn begin(&mut self, rank: usize) {
        let bytes = self.settings.state_bytes + self.ranks[rank].log_bytes;
        self.under_way = Some(UnderWay {
            rank,
            bytes,
            left_bytes: bytes,
            covers: self.log.iter().map(|log| log[rank]).collect(),
        });
        let status = &mut self.ranks[rank];
        status.received_bytes = 0;
        status.sent_bytes = 0;
        status.is_ready = false;
    }

    /// Writes for one turn; when the checkpoint is stable, frees log bytes (LOG-4).
    fn write(&mut self, now: u64) {
        let Some(under_way) = &mut self.under_way else {
            return;
        };
        let bandwidth = self.settings.bandwidth_bytes;
        under_way.left_bytes = under_way.left_bytes.saturating_sub(bandwidth);
        if under_way.left_bytes > 0 {
            return;
        }
        for (source, covered) in under_way.covers.iter().enumerate() {
            self.log[source][under_way.rank] -= covered;
            self.ranks[source].log_bytes -= covered;
            self.row.freed_bytes += covered;
        }
        let status = &mut self.ranks[under_way.rank];
        status.since = now;
        status.state_bytes = self.settings.state_bytes;
        status.is_ready = true;
        self.row.checkpoints += 1;
        self.row.checkpoint_bytes += under_way.bytes;
        self.under_way = None;
    }

    fn log_bytes(&self) -> u64 {
        self.ranks.iter().map(|status| status.log_bytes).sum()
    }
}

/// Simulates one policy on one pattern.
pub fn simulate(settings: Settings, pattern: Pattern, choice: Choice) -> Row {
    let mut policy = Policy::new(choice);
    let mut job = Job::new(settings, pattern, choice);
    let mut sum_bytes = 0.0;
    for now in 1..=settings.turns {
        job.send_all();
        if job.under_way.is_none()
            && let Some(rank) = policy.next(now, &job.ranks)
        {
            job.begin(rank.index());
        }
        job.write(now);
        let bytes = job.log_bytes();
        sum_bytes += bytes as f64;
        job.row.peak_log_bytes = job.row.peak_log_bytes.max(bytes);
    }
    job.row.mean_log_bytes = sum_bytes / settings.turns.max(1) as f64;
    job.row.last_log_bytes = job.log_bytes();
    job.row
}

/// Simulates all policies on all patterns.
pub fn compare(settings: Settings) -> Comparison {
    let every = settings.interval_turns;
    let policies = [
        Choice::None,
        Choice::Interval { every },
        Choice::RoundRobin,
        Choice::Ratio,
        Choice::Adaptive,
    ];
    let rows = Pattern::ALL.into_iter().flat_map(|pattern| {
        let of_policy = move |policy| simulate(settings, pattern, policy);
        policies.into_iter().map(of_policy)
    });
    Comparison {
        settings,
        rows: rows.collect(),
    }
}
