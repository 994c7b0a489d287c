//! The events of a rank, read from a folder or from a running event logger.

use crate::job_number;
use crate::secret;
use clap::Args;
use core::time::Duration;
use miette::{Report, miette};
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::client::read::{ReadRequest, list, read_events};
use refrain_eventlog::logbook::Archive;
use refrain_eventlog::message::Holding;
use refrain_launch::seconds;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::record::decode;
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_ring::Rank;
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Source of the events.
#[derive(Args)]
pub struct Where {
    /// Folder of a job (--event-dir) or of an event logger, or addresses of a shard's replicas:
    /// unix:PATH or tcp:HOST:PORT, `+` between them.
    #[arg(value_name = "DIR|ADDRESS")]
    pub source: String,
    /// File with the --secret of the event loggers at tcp: addresses.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Number of the job, hexadecimal; required if there are several.
    #[arg(long, value_name = "HEX", value_parser = job_number::parse)]
    pub job: Option<u64>,
    /// Time limit for an event logger to answer.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds::milliseconds)]
    timeout: u64,
}

/// Source of events.
pub enum Source {
    /// Folders of event loggers, which may be running.
    Folders(Vec<PathBuf>),
    /// The replicas of one shard.
    Loggers(Vec<ServerAddress>, Duration),
}

/// One batch, decoded.
pub struct Batch {
    /// The header, as it was read.
    pub header: BatchHeader,
    /// The determinants of the batch.
    pub determinants: Vec<Determinant>,
}

impl Source {
    /// Finds the folders or event loggers that the arguments name.
    pub fn new(place: &Where) -> miette::Result<Self> {
        let mut schemes = ["unix:", "tcp:"].into_iter();
        if schemes.any(|scheme| place.source.starts_with(scheme)) {
            let addresses = place.source.split('+').map(str::parse);
            let addresses: Result<Vec<ServerAddress>, _> = addresses.collect();
            let mut addresses = addresses.map_err(Report::msg)?;
            secret::seal("--secret", place.secret.as_deref(), addresses.iter_mut())?;
            let timeout = Duration::from_millis(place.timeout);
            return Ok(Self::Loggers(addresses, timeout));
        }
        folders(Path::new(&place.source)).map(Self::Folders)
    }

    /// The longest per-rank event log that was found for each rank.
    pub fn holdings(&self) -> miette::Result<Vec<Holding>> {
        let mut longest: BTreeMap<(u64, u32), Holding> = BTreeMap::new();
        let mut add = |holdings: Vec<Holding>| {
            for holding in holdings {
                let key = (holding.job, holding.rank);
                let is_longer = |known: &Holding| {
                    (holding.incarnation, holding.end) > (known.incarnation, known.end)
                };
                if longest.get(&key).is_none_or(is_longer) {
                    longest.insert(key, holding);
                }
            }
        };
        match self {
            Self::Folders(folders) => {
                for folder in folders {
                    add(Archive::open(folder).map_err(Report::msg)?.holdings());
                }
            }
            Self::Loggers(addresses, timeout) => {
                for address in addresses {
                    add(list(address, *timeout).map_err(Report::msg)?);
                }
            }
        }
        Ok(longest.into_values().collect())
    }

    /// The holdings of the given job, or of the only one.
    pub fn of_job(&self, job: Option<u64>) -> miette::Result<Vec<Holding>> {
        let mut holdings = self.holdings()?;
        let mut jobs: Vec<u64> = holdings.iter().map(|holding| holding.job).collect();
        jobs.dedup();
        let names = || {
            let names: Vec<String> = jobs.iter().map(|job| format!("{job:x}")).collect();
            names.join(", ")
        };
        match (job, jobs.as_slice()) {
            (None, [] | [_]) => {}
            (None, _) => {
                return Err(miette!(
                    "events of several jobs: choose one with --job: {}",
                    names()
                ));
            }
            (Some(job), _) if !jobs.contains(&job) => {
                return Err(miette!(
                    "no events of job {job:x}: choose one of: {}",
                    names()
                ));
            }
            (Some(job), _) => holdings.retain(|holding| holding.job == job),
        }
        Ok(holdings)
    }

    /// Calls a function with each batch of a rank, in order.
    pub fn read(
        &self,
        holding: &Holding,
        from: EventIndex,
        each: &mut dyn FnMut(Batch) -> ControlFlow<()>,
    ) -> miette::Result<()> {
        let from = from.max(EventIndex(holding.first));
        match self {
            Self::Folders(folders) => read_folder(folders, holding, from, each),
            Self::Loggers(addresses, timeout) => {
                let request = ReadRequest {
                    job: holding.job,
                    rank: Rank(holding.rank),
                    from,
                    after_clock: None,
                    until: from,
                    follows: None,
                    quorum: addresses.len(),
                    timeout: *timeout,
                };
                let row = read_events(addresses, &request).map_err(Report::msg)?;
                for (header, payload) in row.batches() {
                    if each(decoded(header, payload)?).is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

fn read_folder(
    folders: &[PathBuf],
    holding: &Holding,
    from: EventIndex,
    each: &mut dyn FnMut(Batch) -> ControlFlow<()>,
) -> miette::Result<()> {
    for folder in folders {
        let archive = Archive::open(folder).map_err(Report::msg)?;
        if !archive.holdings().contains(holding) {
            continue;
        }
        let mut damaged = None;
        let read = archive.read(holding.job, Rank(holding.rank), from, None, &mut |bytes| {
            match BatchHeader::read(bytes)
                .map_err(Report::msg)
                .and_then(|(header, payload)| decoded(header, payload))
            {
                Ok(batch) => each(batch),
                Err(error) => {
                    damaged = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        read.map_err(Report::msg)?;
        return damaged.map_or(Ok(()), Err);
    }
    Err(miette!(
        "the events of rank {} changed during the read, since their logger is running: try again",
        holding.rank
    ))
}

fn decoded(header: BatchHeader, payload: &[u8]) -> miette::Result<Batch> {
    let determinants = decode(&header, payload).map_err(|error| {
        miette!(
            "batch of rank {} from event {}: {error}",
            header.rank,
            header.first
        )
    })?;
    Ok(Batch {
        header,
        determinants,
    })
}

/// The folder itself, if it is an event logger's, or the folders of event loggers in it.
fn folders(path: &Path) -> miette::Result<Vec<PathBuf>> {
    let cannot = |error| miette!("{} cannot be read: {error}", path.display());
    let entries: Vec<PathBuf> = fs::read_dir(path)
        .map_err(cannot)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let is_of_logger = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("events-"))
    };
    if entries.iter().any(is_of_logger) {
        return Ok(vec![path.into()]);
    }
    let mut loggers: Vec<PathBuf> = entries
        .into_iter()
        .filter(|entry| {
            let files = fs::read_dir(entry).into_iter().flatten().flatten();
            files
                .map(|file| file.path())
                .any(|file| is_of_logger(&file))
        })
        .collect();
    loggers.sort();
    if loggers.is_empty() {
        return Err(miette!(
            "{} has no files of event loggers: name the --event-dir of a job, or an event logger's own folder",
            path.display()
        ));
    }
    Ok(loggers)
}
