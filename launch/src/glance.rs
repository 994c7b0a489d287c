//! The state of a job at one moment, for the live view, the status file and metrics.

use super::Job;
use super::verdict::Membership;
use crate::size::Size;
use refrain_job::control::message::StatusFigures;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

/// Maximum number of ranks that are listed.
const NAMED_MAX: usize = 8;

/// Ranks are asked for their status this long before the state is shown.
const ASK_BEFORE: Duration = Duration::from_millis(100);

/// When the state is shown next, after ranks were asked for their status.
#[derive(Debug)]
pub struct Turn {
    at: Instant,
    has_asked: bool,
}

impl Turn {
    pub fn at(at: Instant) -> Self {
        Self {
            at,
            has_asked: false,
        }
    }

    /// When to ask, or, after that, to show.
    pub fn next_step(&self) -> Instant {
        match self.has_asked {
            true => self.at,
            false => self.at.checked_sub(ASK_BEFORE).unwrap_or(self.at),
        }
    }

    /// Whether to ask now; ranks are asked once a turn.
    pub fn must_ask(&mut self, now: Instant) -> bool {
        now >= self.next_step() && !std::mem::replace(&mut self.has_asked, true)
    }

    /// Whether to show the state now.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.at
    }
}

/// Activity of a rank, as far as the launcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankState {
    Starts,
    Replays,
    Runs,
    Left,
}

/// State of a job at one moment.
#[derive(Debug, Default)]
pub struct Glance {
    pub seconds: u64,
    pub runs: usize,
    pub left: usize,
    /// Ranks that are being started, with their incarnations.
    pub starts: Vec<(usize, u32)>,
    pub replays: Vec<(usize, u32)>,
    pub recoveries: usize,
    /// Number of pairs of ranks that were introduced to each other.
    pub introduced_pairs: usize,
    /// The newest stable checkpoint of each rank that has one: its number, and its age in seconds.
    pub checkpoints: Vec<(u64, u64)>,
    pub logs: Logs,
    /// How long the log of the first rank lasts at this rate, in seconds, if it is being filled.
    pub lasts_seconds: Option<u64>,
    pub is_unprotected: bool,
}

/// Payload logs of a job and waits for events, from the statuses of ranks.
#[derive(Debug, Default)]
pub struct Logs {
    /// Log memory in use, of all ranks, in bytes.
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    /// Bytes of log memory of the rank that uses the largest part of it: in use, and the maximum.
    pub fullest: (u64, u64),
    /// Of the rank whose log is the largest: its bytes in memory and on disk.
    pub longest_bytes: u64,
    pub gate_waits: u64,
    pub gate_wait_us: u64,
}

impl Logs {
    fn add(&mut self, figures: &StatusFigures) {
        self.memory_bytes += figures.log_bytes;
        self.disk_bytes += figures.disk_bytes;
        let one = (figures.log_bytes, figures.log_bytes_max);
        self.fullest = self.fullest.max(one);
        let bytes = figures.log_bytes + figures.disk_bytes;
        self.longest_bytes = self.longest_bytes.max(bytes);
        self.gate_waits += figures.gate_waits;
        self.gate_wait_us += figures.gate_wait_us;
    }
}

impl Display for Logs {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let (fullest_bytes, max_bytes) = self.fullest;
        if let Some(percent) = (100 * fullest_bytes).checked_div(max_bytes) {
            let memory = Size(self.memory_bytes);
            write!(to, "; logs {memory}, up to {percent} %")?;
        }
        if self.disk_bytes > 0 {
            write!(to, ", {} on disk", Size(self.disk_bytes))?;
        }
        if let Some(mean_us) = self.gate_wait_us.checked_div(self.gate_waits) {
            write!(to, "; {} waits for events of {mean_us} µs", self.gate_waits)?;
        }
        Ok(())
    }
}

impl Glance {
    fn add(&mut self, rank: usize, incarnation: u32, state: RankState) {
        match state {
            RankState::Starts => self.starts.push((rank, incarnation)),
            RankState::Replays => self.replays.push((rank, incarnation)),
            RankState::Runs => self.runs += 1,
            RankState::Left => self.left += 1,
        }
    }
}

impl Display for Glance {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{} s: {} ranks run", self.seconds, self.runs)?;
        for (ranks, what) in [(&self.starts, "start"), (&self.replays, "replay")] {
            if !ranks.is_empty() {
                write!(to, ", {} {what} ({})", ranks.len(), names(ranks))?;
            }
        }
        if self.left > 0 {
            write!(to, ", {} have left", self.left)?;
        }
        if self.recoveries > 0 {
            write!(to, "; recoveries: {}", self.recoveries)?;
        }
        let numbers = || self.checkpoints.iter().map(|(number, _)| number);
        if let (Some(first), Some(last)) = (numbers().min(), numbers().max()) {
            let oldest = self.checkpoints.iter().map(|(_, seconds)| seconds).max();
            let range = match first == last {
                true => format!("checkpoint {first}"),
                false => format!("checkpoints {first} to {last}"),
            };
            write!(to, "; {range}, up to {} s old", oldest.unwrap_or(&0))?;
        }
        write!(to, "{}", self.logs)?;
        match (self.is_unprotected, self.lasts_seconds) {
            (true, _) => to.write_str(", UNPROTECTED"),
            (false, Some(seconds)) => write!(to, ", full in {seconds} s"),
            (false, None) => Ok(()),
        }
    }
}

/// Ranks, with the incarnations of those that were restarted.
fn names(ranks: &[(usize, u32)]) -> String {
    let name = |(rank, incarnation): &(usize, u32)| match incarnation {
        0 => rank.to_string(),
        life => format!("{rank}.{life}"),
    };
    let mut names: Vec<String> = ranks.iter().take(NAMED_MAX).map(name).collect();
    if ranks.len() > NAMED_MAX {
        names.push("…".into());
    }
    names.join(" ")
}

impl Job {
    /// The state now of a job that is watched since `begin`.
    pub(super) fn glance(&self, begin: Instant, now: Instant) -> Glance {
        let mut glance = Glance {
            seconds: (now - begin).as_secs(),
            recoveries: self.recoveries.ended().len(),
            introduced_pairs: self.introductions.pairs(self.lives.len()),
            ..Glance::default()
        };
        for figures in self.schedule.scheduler.figures() {
            glance.logs.add(figures);
        }
        glance.is_unprotected = self.unprotected_since.is_some();
        let disk_bytes = self.config.log_disk_bytes.unwrap_or(0);
        let capacity_bytes = glance.logs.fullest.1 + disk_bytes;
        glance.lasts_seconds = lasts(glance.logs.longest_bytes, capacity_bytes, now - begin);
        for (rank, (process, lives)) in self.ranks.iter().zip(&self.lives).enumerate() {
            let state = match process.membership {
                _ if lives.pending.is_some() => RankState::Starts,
                _ if process.end.is_some() => RankState::Left,
                Membership::Left => RankState::Left,
                Membership::Stranger => RankState::Starts,
                Membership::Member if !lives.has_caught_up => RankState::Replays,
                Membership::Member => RankState::Runs,
            };
            glance.add(rank, lives.incarnation, state);
            if let Some((number, stable)) = lives.checkpoint {
                glance.checkpoints.push((number, (now - stable).as_secs()));
            }
        }
        glance
    }
}

/// How long a log lasts that has been filled so far in this time, in seconds. `None`: it is not
/// being filled.
fn lasts(used_bytes: u64, capacity_bytes: u64, elapsed: Duration) -> Option<u64> {
    let is_filled = used_bytes >= capacity_bytes / 64 && used_bytes > 0;
    let rest_bytes = capacity_bytes
        .checked_sub(used_bytes)
        .filter(|_| is_filled)?;
    let seconds = elapsed.as_secs_f64() * rest_bytes as f64 / used_bytes as f64;
    Some(seconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // LOG-7
    #[test]
    fn it_is_said_how_long_a_log_lasts_that_is_being_filled() {
        let lasts = |used, capacity| lasts(used, capacity, Duration::from_secs(10));
        assert_eq!(lasts(0, 0), None);
        assert_eq!(lasts(1, 1000), None);
        assert_eq!(lasts(250, 1000), Some(30));
        assert_eq!(lasts(1000, 1000), Some(0));
        let glance = |lasts_seconds, is_unprotected| {
            let glance = Glance {
                lasts_seconds,
                is_unprotected,
                ..Glance::default()
            };
            glance.to_string()
        };
        assert_eq!(glance(Some(7), false), "0 s: 0 ranks run, full in 7 s");
        assert_eq!(glance(Some(0), true), "0 s: 0 ranks run, UNPROTECTED");
    }

    #[test]
    fn a_glance_is_one_line() {
        let mut glance = Glance {
            seconds: 12,
            ..Glance::default()
        };
        for rank in 0..3 {
            glance.add(rank, 0, RankState::Runs);
        }
        assert_eq!(glance.to_string(), "12 s: 3 ranks run");
        glance.add(3, 2, RankState::Replays);
        glance.add(4, 0, RankState::Starts);
        glance.add(5, 1, RankState::Starts);
        glance.add(6, 0, RankState::Left);
        glance.recoveries = 2;
        glance.checkpoints = vec![(4, 3), (3, 30)];
        assert_eq!(
            glance.to_string(),
            "12 s: 3 ranks run, 2 start (4 5.1), 1 replay (3.2), 1 have left; recoveries: 2; \
             checkpoints 3 to 4, up to 30 s old"
        );
    }

    #[test]
    fn logs_and_waits_are_shown_where_there_are_any() {
        let told = |all: &[StatusFigures]| {
            let mut logs = Logs::default();
            all.iter().for_each(|figures| logs.add(figures));
            logs.to_string()
        };
        assert_eq!(told(&[]), "");
        let mut one = StatusFigures {
            log_bytes: 3 << 18,
            log_bytes_max: 4 << 20,
            ..StatusFigures::default()
        };
        assert_eq!(told(&[one.clone()]), "; logs 768 KiB, up to 18 %");
        one.disk_bytes = 3 << 30;
        one.gate_waits = 2;
        one.gate_wait_us = 90;
        let other = StatusFigures {
            log_bytes: 3 << 20,
            log_bytes_max: 4 << 20,
            gate_waits: 1,
            ..StatusFigures::default()
        };
        assert_eq!(
            told(&[one, other]),
            "; logs 3.8 MiB, up to 75 %, 3 GiB on disk; 3 waits for events of 30 µs"
        );
    }

    #[test]
    fn not_all_of_a_thousand_ranks_are_named() {
        let ranks: Vec<(usize, u32)> = (0..1000).map(|rank| (rank, 0)).collect();
        assert_eq!(names(&ranks), "0 1 2 3 4 5 6 7 …");
    }
}
