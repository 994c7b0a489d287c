//! The options of `refrain netpipe`, and their checks.

use super::fabrics;
use super::log_budget::{LogRoom, default_budget_bytes, message_cost_bytes};
use super::protocols::{base, keeps_payload};
use super::sizes::{Point, series};
use crate::error::BenchError;
use crate::report::format_size;
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::choice::{self, events};
use refrain_job::config::EventConfig;
use refrain_job::machine;
use refrain_launch::seconds::{self, Limit};
use refrain_launch::size;
use serde::{Deserialize, Serialize};
use spill::SpillOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum message length; longer ones are typing errors.
const SIZE_BYTES_MAX: u64 = 1 << 40;

/// Receive operation of the receiving side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    /// A blocking receive from the other rank.
    #[default]
    Named,
    /// A receive from any source, completed by `wait_any`.
    Any,
}

/// Exchange of the two ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One message at a time, back and forth.
    #[default]
    PingPong,
    /// Both ranks send at the same time.
    Bidirectional,
    /// Windows of messages in one direction, each acknowledged.
    Stream,
}

impl Mode {
    /// Name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PingPong => "ping-pong",
            Self::Bidirectional => "bidirectional",
            Self::Stream => "stream",
        }
    }
}

impl Receive {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Any => "any",
        }
    }
}

/// Latency and bandwidth between two ranks, size by size, for several protocols.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Fabrics to compare, interleaved size by size: auto, shm, ofi:PROVIDER.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "auto"
    )]
    pub fabric: Vec<String>,
    /// File of libfabric, also for fi_pingpong [default: $REFRAIN_LIBFABRIC or libfabric.so.1].
    #[arg(long, value_name = "FILE")]
    pub libfabric: Option<String>,
    /// File of libibverbs [default: $REFRAIN_LIBIBVERBS or libibverbs.so.1].
    #[arg(long, value_name = "FILE")]
    pub libibverbs: Option<String>,
    /// Time limit for the peer to answer at the start, and for a provider's error about it; of
    /// ofi and verbs.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds::milliseconds)]
    pub peer_timeout: u64,
    /// Silence after which the peer is taken for dead; of ofi and verbs.
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = seconds::limit)]
    pub suspect_after: Limit,
    /// Protocols to compare, interleaved size by size; all: each of them; with +set: both ranks are
    /// in one correlated set.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "none,pessimist"
    )]
    pub protocol: Vec<String>,
    /// Source of receives: the other rank, or any with wait_any.
    #[arg(long, value_enum, default_value_t = Receive::Named)]
    pub receive: Receive,
    /// Smallest message, such as 64 or 4MiB.
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = size::parse)]
    pub min: u64,
    /// Largest message.
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size::parse)]
    pub max: u64,
    /// Also measure each size plus and minus BYTES; 0: do not.
    #[arg(long, value_name = "BYTES", default_value_t = 3)]
    pub perturbation: u64,
    /// Time per size, fabric and protocol, divided by the rounds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25)]
    pub time_per_size: f64,
    /// Rounds per size, in which fabrics and protocols alternate.
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Send from both ranks at once.
    #[arg(long, conflicts_with = "stream")]
    pub bidirectional: bool,
    /// Send windows of messages in one direction.
    #[arg(long)]
    pub stream: bool,
    /// Write one JSON object per size, fabric and protocol.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Plot latency and bandwidth.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Also measure installed peers: NetPIPE over MPI, fi_pingpong, ucx_perftest.
    #[arg(long)]
    pub peers: bool,
    /// Memory of the payload log per rank [default: 512M, or 1/8 of the available memory].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub log_memory: Option<u64>,
    /// The disk below the log.
    #[command(flatten)]
    pub spill: SpillOptions,
    /// Number of event loggers of each job whose protocol logs events.
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub event_replicas: u32,
    /// Where an event must be to be stable at a logger: placed (memory) or durable (disk).
    #[arg(long, value_name = "placed|durable", default_value = "placed")]
    pub stable: String,
    /// Loggers at which an event must be stable.
    #[arg(long, value_name = "majority|all", default_value = "majority")]
    pub stable_quorum: String,
    /// How ranks commit events: auto, shm, messages or ofi:PROVIDER.
    #[arg(long, value_name = "WAY", default_value = "auto")]
    pub event_way: String,
    /// Print perturbed sizes in the table.
    #[arg(long)]
    pub all_sizes: bool,
    /// Print no progress bar and no remarks.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Checked options, and values derived from them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub arguments: Arguments,
    pub mode: Mode,
    pub points: Vec<Point>,
    pub log_room: LogRoom,
    pub events: EventConfig,
}

impl Settings {
    pub fn largest_bytes(&self) -> u64 {
        self.points.last().map_or(0, |point| point.bytes)
    }

    /// Time of one round of one size, fabric and protocol.
    pub fn round_time(&self) -> Duration {
        let Arguments {
            time_per_size,
            rounds,
            ..
        } = self.arguments;
        Duration::from_secs_f64(time_per_size / f64::from(rounds))
    }
}

impl Arguments {
    /// Checks every option, also against the other options and the machine.
    ///
    /// # Errors
    /// The first option that cannot be used.
    pub fn check(self) -> Result<Settings, BenchError> {
        self.check_with(machine::available_memory_bytes())
    }

    pub(super) fn check_with(
        mut self,
        available_bytes: Option<u64>,
    ) -> Result<Settings, BenchError> {
        if self.protocol == ["all"] {
            self.protocol = choice::PROTOCOLS.iter().map(|it| it.name.into()).collect();
        }
        self.check_names()?;
        self.libfabric = fabrics::library(&LIBFABRIC, self.libfabric)?;
        self.libibverbs = fabrics::library(&LIBIBVERBS, self.libibverbs)?;
        self.check_times()?;
        let mode = match (self.bidirectional, self.stream) {
            (true, _) => Mode::Bidirectional,
            (_, true) => Mode::Stream,
            _ => Mode::PingPong,
        };
        if self.peers && mode != Mode::PingPong {
            return Err(BenchError::option(
                "--peers",
                format!("peers are measured by ping-pong only, not {}", mode.name()),
                "leave out --peers, or --bidirectional and --stream",
            ));
        }
        let points = self.points()?;
        let largest = points.last().map_or(0, |point| point.bytes);
        let ranks = 2 * (self.fabric.len() * self.protocol.len()) as u64;
        let memory_bytes = self
            .log_memory
            .unwrap_or_else(|| default_budget_bytes(available_bytes, ranks));
        check_memory(largest, memory_bytes, ranks, available_bytes)?;
        let keeping = self
            .protocol
            .iter()
            .filter(|name| keeps_payload(name))
            .count();
        let logs = 2 * (self.fabric.len() * keeping) as u64;
        let log_room = self.spill.check(memory_bytes, logs)?;
        check_folder("--json", self.json.as_deref())?;
        check_folder("--plot", self.plot.as_deref())?;
        Ok(Settings {
            mode,
            points,
            log_room,
            events: self.events()?,
            arguments: self,
        })
    }

    fn check_names(&self) -> Result<(), BenchError> {
        let exist: Vec<&str> = choice::PROTOCOLS.iter().map(|it| it.name).collect();
        let help = format!("there are {}", exist.join(", "));
        each_once("--fabric", &self.fabric, "`refrain info` lists them")?;
        each_once("--protocol", &self.protocol, &help)?;
        for name in &self.fabric {
            choice::check_fabric(name).map_err(|error| {
                BenchError::option("--fabric", error, "`refrain info` lists them")
            })?;
        }
        match self
            .protocol
            .iter()
            .find(|name| !exist.contains(&base(name)))
        {
            Some(name) => {
                let problem = format!("there is no protocol `{name}`");
                Err(BenchError::option("--protocol", problem, help))
            }
            None => Ok(()),
        }
    }

    fn check_times(&self) -> Result<(), BenchError> {
        let time = self.time_per_size;
        if !(time > 0.0 && time <= 3600.0) {
            return Err(BenchError::option(
                "--time-per-size",
                format!("{time} seconds cannot be measured"),
                "give more than 0 and at most 3600 seconds",
            ));
        }
        if !(1..=1000).contains(&self.rounds) {
            let problem = format!("{} rounds cannot be made", self.rounds);
            return Err(BenchError::option("--rounds", problem, "give 1 to 1000"));
        }
        Ok(())
    }

    fn points(&self) -> Result<Vec<Point>, BenchError> {
        let (min, max) = (format_size(self.min), format_size(self.max));
        let (option, problem, help) = if self.min == 0 || self.max == 0 {
            let option = if self.min == 0 { "--min" } else { "--max" };
            let problem = "messages of 0 bytes have no bandwidth".to_owned();
            (option, problem, "give at least 1")
        } else if self.min > self.max {
            let problem = format!("{min} is more than --max {max}");
            ("--min", problem, "the sweep goes from --min to --max")
        } else if self.max > SIZE_BYTES_MAX {
            let problem = format!("messages of {max} are too large");
            ("--max", problem, "give at most 1T")
        } else {
            return Ok(series(self.min, self.max, self.perturbation));
        };
        Err(BenchError::option(option, problem, help))
    }

    fn events(&self) -> Result<EventConfig, BenchError> {
        let replicas = self.event_replicas;
        if !(1..=events::REPLICAS_MAX).contains(&replicas) {
            return Err(BenchError::option(
                "--event-replicas",
                format!("{replicas} loggers cannot be started"),
                format!("give 1 to {}", events::REPLICAS_MAX),
            ));
        }
        let refused = |option| {
            move |error: refrain_job::JobError| {
                BenchError::option(option, error, "see refrain run --help")
            }
        };
        events::commit_path(&self.event_way).map_err(refused("--event-way"))?;
        Ok(EventConfig {
            level: events::level(&self.stable).map_err(refused("--stable"))?,
            quorum: events::quorum(&self.stable_quorum).map_err(refused("--stable-quorum"))?,
            way: self.event_way.clone(),
            ..EventConfig::default()
        })
    }
}

/// Checks that there is at least one name, and each only once.
fn each_once(option: &str, names: &[String], help: &str) -> Result<(), BenchError> {
    if names.is_empty() {
        return Err(BenchError::option(option, "no name is given", help));
    }
    let mut places = names.iter().enumerate();
    match places.find(|(place, name)| names[..*place].contains(name)) {
        Some((_, name)) => Err(named_twice(option, name)),
        None => Ok(()),
    }
}

/// A repeated name would give two lines with the same name.
pub fn named_twice(option: &str, name: &str) -> BenchError {
    let problem = format!("`{name}` is measured twice");
    BenchError::option(
        option,
        problem,
        "give each one once; `auto` stands for another fabric",
    )
}

fn check_memory(
    largest_bytes: u64,
    log_memory_bytes: u64,
    ranks: u64,
    available_bytes: Option<u64>,
) -> Result<(), BenchError> {
    // Two messages may be in the log before the first horizon has arrived.
    if message_cost_bytes(largest_bytes).saturating_mul(2) > log_memory_bytes {
        return Err(BenchError::option(
            "--max",
            format!(
                "two messages of {} do not fit in a payload log of {}",
                format_size(largest_bytes),
                format_size(log_memory_bytes)
            ),
            "raise --log-memory or lower --max",
        ));
    }
    let per_rank = log_memory_bytes.saturating_add(largest_bytes.saturating_mul(2));
    let needed = per_rank.saturating_mul(ranks);
    match available_bytes {
        Some(available) if needed > available => Err(BenchError::option(
            "--log-memory",
            format!(
                "{ranks} ranks with {} of payload log and two buffers of {} need more memory than the {} MiB that are available",
                format_size(log_memory_bytes),
                format_size(largest_bytes),
                available >> 20
            ),
            "lower --log-memory or --max, or compare fewer fabrics or protocols",
        )),
        _ => Ok(()),
    }
}

/// A wrong folder is reported before minutes of measuring, not after.
fn check_folder(option: &'static str, file: Option<&Path>) -> Result<(), BenchError> {
    let Some(file) = file else {
        return Ok(());
    };
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(BenchError::option(
            option,
            format!("there is no folder {}", folder.display()),
            "create it first",
        ));
    }
    if file.is_dir() || file.file_name().is_none() {
        return Err(BenchError::option(
            option,
            format!("{} is a folder", file.display()),
            "name a file",
        ));
    }
    Ok(())
}

mod spill;

#[cfg(test)]
mod tests;
