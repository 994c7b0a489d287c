//! A plan for people: complete and short.

use super::{
    FaultKind, FaultPlan, LevelPlan, MessagePlan, Moment, Plan, Process, ProtocolPlan, RoundPlan,
    WayPlan,
};
use std::fmt;

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Logger(logger) => write!(f, "logger {logger}"),
            Self::Checkpoints => f.write_str("checkpoint store"),
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "at step {step}"),
            Self::Effect { number, before } => {
                let when = if *before { "before" } else { "after" };
                write!(f, "{when} its effect {number}")
            }
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("is killed"),
            Self::PowerLoss => f.write_str("loses power"),
            Self::Forget => f.write_str("loses all that it has"),
            Self::Pause(steps) => write!(f, "pauses for {steps} steps"),
            Self::Suspect => f.write_str("is taken for dead"),
            Self::DiskFull(steps) => write!(f, "has a full disk for {steps} steps"),
            Self::DiskSlow(steps) => write!(f, "has a slow disk for {steps} steps"),
            Self::Disconnect => f.write_str("loses its connections to loggers"),
            Self::LoseEvents(percent) => {
                write!(
                    f,
                    "dies with all loggers, which keep {percent} % of its events"
                )
            }
        }
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            moment,
            kind,
        } = self;
        write!(f, "{process} {kind} {moment}")
    }
}

impl fmt::Display for ProtocolPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pessimist => "pessimist",
            Self::PessimistClassic => "pessimist-classic",
        })
    }
}

/// `0>1:24`; `*` instead of `>`: received from any source; `!`: synchronous.
impl fmt::Display for MessagePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_named { '>' } else { '*' };
        write!(f, "{}{kind}{}:{}", self.from, self.to, self.bytes)?;
        f.write_str(if self.is_synchronous { "!" } else { "" })
    }
}

impl fmt::Display for RoundPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "style {:016x}", self.style_seed)?;
        for message in &self.messages {
            write!(f, " {message}")?;
        }
        for (what, ranks) in [("checkpoint", &self.checkpoints), ("print", &self.prints)] {
            for (index, rank) in ranks.iter().enumerate() {
                match index {
                    0 => write!(f, ", {what} {rank}")?,
                    _ => write!(f, " {rank}")?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (loggers, network, log) = (&self.loggers, &self.network, &self.log);
        let level = match loggers.level {
            LevelPlan::Placed => "placed",
            LevelPlan::Durable => "durable",
        };
        let way = match loggers.way {
            WayPlan::Messages => "by messages",
            WayPlan::OneSided => "one-sided",
        };
        let mode = if network.is_rough { "rough" } else { "calm" };
        let reads = if network.reads_in_place {
            ", read in place"
        } else {
            ""
        };
        writeln!(
            f,
            "seed {}: {} ranks, {}, first clock {}",
            self.seed, self.ranks, self.protocol, self.first_clock
        )?;
        writeln!(
            f,
            "  loggers: {}, quorum {}, {level}, {way}",
            loggers.replicas, loggers.quorum
        )?;
        write!(f, "  network: {mode}{reads}")?;
        if let Some(bytes) = network.distant_bytes_min {
            write!(f, ", distant from {bytes} B")?;
        }
        if network.is_staged {
            f.write_str(", short frames staged")?;
        }
        let (memory_bytes, disk_bytes) = (log.memory_bytes, log.disk_bytes);
        writeln!(f, "\n  log: {memory_bytes} B memory, {disk_bytes} B disk")?;
        if let Some(planted) = self.planted {
            writeln!(f, "  planted: {planted:?}")?;
        }
        for (index, round) in self.rounds.iter().enumerate() {
            writeln!(f, "  round {index}: {round}")?;
        }
        for fault in &self.faults {
            writeln!(f, "  fault: {fault}")?;
        }
        Ok(())
    }
}
