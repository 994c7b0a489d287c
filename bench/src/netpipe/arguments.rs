//! The options of `refrain netpipe`, and what must hold for them.

use super::log_budget::{LogRoom, default_budget_bytes, message_cost_bytes};
use super::sizes::{Point, format_size, series};
use super::{NetpipeError, fabrics};
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::choice::{self, Choice};
use refrain_job::machine;
use refrain_launch::seconds::{self, Limit};
use refrain_launch::size;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Messages beyond this are a typing error.
const SIZE_BYTES_MAX: u64 = 1 << 40;

/// How the receiving side receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    /// A blocking receive from the other rank.
    Named,
    /// A receive from any source, completed by `wait_any`.
    Any,
}

/// What the two ranks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One message at a time, back and forth.
    PingPong,
    /// Both send at once.
    Bidirectional,
    /// Windows of messages in one direction, each acknowledged.
    Stream,
}

impl Mode {
    /// As in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PingPong => "ping-pong",
            Self::Bidirectional => "bidirectional",
            Self::Stream => "stream",
        }
    }
}

impl Receive {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Any => "any",
        }
    }
}

/// Latency and bandwidth between two ranks, size by size, protocol beside
/// protocol.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Fabrics to compare, interleaved size by size: auto, shm, ofi:PROVIDER
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "auto"
    )]
    pub fabric: Vec<String>,
    /// File of libfabric, also for fi_pingpong [default: $REFRAIN_LIBFABRIC or libfabric.so.1]
    #[arg(long, value_name = "FILE")]
    pub libfabric: Option<String>,
    /// File of libibverbs [default: $REFRAIN_LIBIBVERBS or libibverbs.so.1]
    #[arg(long, value_name = "FILE")]
    pub libibverbs: Option<String>,
    /// Time limit for the peer to answer at the start, and for a provider's error about it; of
    /// ofi and verbs
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds::milliseconds)]
    pub peer_timeout: u64,
    /// Silence after which the peer is taken for dead; of ofi and verbs
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = seconds::limit)]
    pub suspect_after: Limit,
    /// Protocols to compare, interleaved size by size: none, pessimist
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "none,pessimist"
    )]
    pub protocol: Vec<String>,
    /// Source of receives: the other rank, or any with wait_any
    #[arg(long, value_enum, default_value_t = Receive::Named)]
    pub receive: Receive,
    /// Smallest message, such as 64 or 4MiB
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = size::parse)]
    pub min: u64,
    /// Largest message
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size::parse)]
    pub max: u64,
    /// Also measure each size plus and minus BYTES; 0: do not
    #[arg(long, value_name = "BYTES", default_value_t = 3)]
    pub perturbation: u64,
    /// Time per size, fabric and protocol, divided by the rounds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25)]
    pub time_per_size: f64,
    /// Rounds per size, in which fabrics and protocols alternate
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Send from both ranks at once
    #[arg(long, conflicts_with = "stream")]
    pub bidirectional: bool,
    /// Send windows of messages in one direction
    #[arg(long)]
    pub stream: bool,
    /// Write one JSON object per size, fabric and protocol
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Plot latency and bandwidth
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Also measure installed peers: NetPIPE over MPI, fi_pingpong, ucx_perftest
    #[arg(long)]
    pub peers: bool,
    /// Memory of the payload log per rank [default: 512M, or 1/8 of the available memory]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub log_memory: Option<u64>,
    /// Where the log goes beyond its memory, and how far.
    #[command(flatten)]
    pub spill: spill::Options,
    /// Where events become stable.
    #[command(flatten)]
    pub events: events::Options,
    /// Print perturbed sizes in the table
    #[arg(long)]
    pub all_sizes: bool,
    /// Print no progress bar and no remarks
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options that have been checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub fabrics: Vec<String>,
    pub libfabric: Option<String>,
    pub libibverbs: Option<String>,
    pub peer_timeout_ms: u64,
    pub suspect_after_ms: Option<u64>,
    pub protocols: Vec<String>,
    pub receive: Receive,
    pub mode: Mode,
    pub points: Vec<Point>,
    pub round_time: Duration,
    pub rounds: u32,
    pub json: Option<PathBuf>,
    pub plot: Option<PathBuf>,
    pub peers: bool,
    pub log_room: LogRoom,
    pub spill: Option<Spill>,
    pub events: EventSettings,
    pub all_sizes: bool,
    pub quiet: bool,
}

impl Settings {
    pub fn largest_bytes(&self) -> u64 {
        self.points.last().map_or(0, |point| point.bytes)
    }
}

pub(super) fn wrong(
    option: &'static str,
    problem: impl Into<String>,
    help: impl Into<String>,
) -> NetpipeError {
    NetpipeError::Option {
        option,
        problem: problem.into(),
        help: help.into(),
    }
}

impl Arguments {
    /// Checks every option against the others and the machine.
    ///
    /// # Errors
    /// One error for the first option that cannot be used.
    pub fn check(self) -> Result<Settings, NetpipeError> {
        self.check_with(machine::available_memory_bytes())
    }

    fn check_with(self, available_bytes: Option<u64>) -> Result<Settings, NetpipeError> {
        fabrics::check(&self.fabric)?;
        let libfabric = fabrics::library(&LIBFABRIC, self.libfabric.clone())?;
        let libibverbs = fabrics::library(&LIBIBVERBS, self.libibverbs.clone())?;
        let protocols = check_protocols(&self.protocol)?;
        self.check_times()?;
        let mode = match (self.bidirectional, self.stream) {
            (true, _) => Mode::Bidirectional,
            (_, true) => Mode::Stream,
            _ => Mode::PingPong,
        };
        if self.peers && mode != Mode::PingPong {
            return Err(wrong(
                "--peers",
                format!("peers are measured by ping-pong only, not {}", mode.name()),
                "leave out --peers, or --bidirectional and --stream",
            ));
        }
        let points = self.points()?;
        let largest = points.last().map_or(0, |point| point.bytes);
        let ranks = 2 * (self.fabric.len() * protocols.len()) as u64;
        let log_memory_bytes = self
            .log_memory
            .unwrap_or_else(|| default_budget_bytes(available_bytes, ranks));
        check_memory(largest, log_memory_bytes, ranks, available_bytes)?;
        let keeping = protocols.iter().filter(|name| *name != "none").count();
        let logs = 2 * (self.fabric.len() * keeping) as u64;
        let (log_room, spill) = self.spill.clone().check(log_memory_bytes, logs)?;
        check_folder("--json", self.json.as_deref())?;
        check_folder("--plot", self.plot.as_deref())?;
        Ok(Settings {
            fabrics: self.fabric,
            libfabric,
            libibverbs,
            peer_timeout_ms: self.peer_timeout,
            suspect_after_ms: self.suspect_after.milliseconds,
            protocols,
            receive: self.receive,
            mode,
            points,
            round_time: Duration::from_secs_f64(self.time_per_size / f64::from(self.rounds)),
            rounds: self.rounds,
            json: self.json,
            plot: self.plot,
            peers: self.peers,
            log_room,
            spill,
            events: self.events.check()?,
            all_sizes: self.all_sizes,
            quiet: self.quiet,
        })
    }

    fn check_times(&self) -> Result<(), NetpipeError> {
        if !(self.time_per_size > 0.0 && self.time_per_size <= 3600.0) {
            return Err(wrong(
                "--time-per-size",
                format!("{} seconds cannot be measured", self.time_per_size),
                "give more than 0 and at most 3600 seconds",
            ));
        }
        if !(1..=1000).contains(&self.rounds) {
            return Err(wrong(
                "--rounds",
                format!("{} rounds cannot be made", self.rounds),
                "give 1 to 1000",
            ));
        }
        Ok(())
    }

    fn points(&self) -> Result<Vec<Point>, NetpipeError> {
        if self.min == 0 {
            return Err(wrong(
                "--min",
                "messages of 0 bytes have no bandwidth",
                "give at least 1",
            ));
        }
        if self.max == 0 {
            return Err(wrong(
                "--max",
                "messages of 0 bytes have no bandwidth",
                "give at least 1",
            ));
        }
        if self.min > self.max {
            return Err(wrong(
                "--min",
                format!(
                    "{} is more than --max {}",
                    format_size(self.min),
                    format_size(self.max)
                ),
                "the sweep goes from --min to --max",
            ));
        }
        if self.max > SIZE_BYTES_MAX {
            return Err(wrong(
                "--max",
                format!("messages of {} are too large", format_size(self.max)),
                format!("at most {}", format_size(SIZE_BYTES_MAX)),
            ));
        }
        Ok(series(self.min, self.max, self.perturbation))
    }
}

fn exists(choices: &[Choice], name: &str) -> bool {
    choices.iter().any(|choice| choice.name == name)
}

fn names(choices: &[Choice]) -> String {
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    names.join(", ")
}

fn check_protocols(wanted: &[String]) -> Result<Vec<String>, NetpipeError> {
    let exist = format!("there are {}", names(choice::PROTOCOLS));
    if wanted.is_empty() {
        return Err(wrong("--protocol", "no protocol is named", exist));
    }
    for (index, name) in wanted.iter().enumerate() {
        if !exists(choice::PROTOCOLS, name) {
            return Err(wrong(
                "--protocol",
                format!("there is no protocol `{name}`"),
                exist,
            ));
        }
        if wanted[..index].contains(name) {
            return Err(wrong(
                "--protocol",
                format!("`{name}` is named twice"),
                "each protocol is measured once",
            ));
        }
    }
    Ok(wanted.to_vec())
}

fn check_memory(
    largest_bytes: u64,
    log_memory_bytes: u64,
    ranks: u64,
    available_bytes: Option<u64>,
) -> Result<(), NetpipeError> {
    // Two messages may be in the log before the first horizon has arrived.
    if message_cost_bytes(largest_bytes).saturating_mul(2) > log_memory_bytes {
        return Err(wrong(
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
        Some(available) if needed > available => Err(wrong(
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

/// A wrong folder should be known before minutes of measuring, not after.
fn check_folder(option: &'static str, file: Option<&Path>) -> Result<(), NetpipeError> {
    let Some(file) = file else {
        return Ok(());
    };
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(wrong(
            option,
            format!("there is no folder {}", folder.display()),
            "create it first",
        ));
    }
    if file.is_dir() || file.file_name().is_none() {
        return Err(wrong(
            option,
            format!("{} is a folder", file.display()),
            "name a file",
        ));
    }
    Ok(())
}

mod events;
mod spill;

pub use events::EventSettings;
#[cfg(test)]
pub use events::Options as EventOptions;
pub use spill::Spill;

#[cfg(test)]
mod tests;
