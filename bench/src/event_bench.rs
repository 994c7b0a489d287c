//! `refrain events bench`: the throughput of an event logger with many clients.
//!
//! The logger is a process of its own, clients are threads of this process. Each client records
//! events as receives from any source cause them, commits them in batches of one size, and has a
//! window of commits in flight. The time ends when all events are stable: over shared memory, the
//! logger has to empty the rings many times, as they are far smaller than all batches.

use crate::report::{print, table};
use crate::summary::quantile;
use miette::{IntoDiagnostic, WrapErr, miette};
use refrain::{Incarnation, Rank, Ssn};
use refrain_eventlog::Level;
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::CommitPath;
use refrain_job::choice::events::{self, CommitPathChoice};
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS, NamedLibrary};
use refrain_logging::determinant::Matched;
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::pessimist::Commits;
use refrain_ring::Clock;
use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Commits in flight per client.
const WINDOW: u64 = 256;
/// Time that a client may wait for the logger.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Rate of commits and events of an event logger.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the logger's files, which are removed at the end [default: the temporary folder].
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Number of clients.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,
    /// Events per batch, one line each.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,64",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub batch: Vec<u64>,
    /// How clients send events, one line each: shm, messages or ofi:PROVIDER.
    #[arg(
        long,
        value_name = "WAY,…",
        value_delimiter = ',',
        default_value = "shm,messages"
    )]
    pub way: Vec<String>,
    /// When an event is stable, one line each: placed, durable.
    #[arg(
        long,
        value_name = "LEVEL,…",
        value_delimiter = ',',
        default_value = "placed,durable"
    )]
    pub stable: Vec<String>,
    /// Seconds per line.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Measurements per line, of which the median is printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Print one JSON object per line instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// One line of the table or of the JSON.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    way: String,
    stable: String,
    batch: u64,
    clients: u32,
    /// Commits per second, median over the rounds.
    commits_per_s: f64,
    /// Events per second, median over the rounds.
    events_per_s: f64,
    /// Commits per second of the slowest and the fastest round.
    commits_per_s_range: [f64; 2],
    /// Bytes of determinants per event.
    bytes_per_event: f64,
}

/// Parameters of one line.
#[derive(Clone, Debug)]
struct Case {
    way: String,
    choice: CommitPathChoice,
    stable: String,
    level: Level,
    batch: u64,
}

/// Measures every combination of the options.
///
/// # Errors
/// A logger cannot be started, or does not serve a client.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    if !(arguments.seconds > 0.0 && arguments.seconds <= 3600.0) {
        return Err(miette!("--seconds: give more than 0 and at most 3600"));
    }
    let mut cases = Vec::new();
    for way in &arguments.way {
        for stable in &arguments.stable {
            for &batch in &arguments.batch {
                cases.push(Case {
                    way: way.clone(),
                    choice: events::commit_path(way).into_diagnostic()?,
                    stable: stable.clone(),
                    level: events::level(stable).into_diagnostic()?,
                    batch,
                });
            }
        }
    }
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); cases.len()];
    for _ in 0..arguments.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            samples.push(measure(arguments, case)?);
        }
    }
    let figures = cases.into_iter().zip(&samples);
    let figures: Vec<Figures> = figures
        .filter_map(|(case, samples)| Figures::of(case, arguments.clients, samples))
        .collect();
    if !arguments.json {
        print(&show(arguments.clients, &figures))?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in &figures {
        print(&serde_json::to_string(line).into_diagnostic()?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Result of one round of one line.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    commits: u64,
    events: u64,
    payload_bytes: u64,
    seconds: f64,
}

impl Figures {
    fn of(case: Case, clients: u32, samples: &[Sample]) -> Option<Self> {
        let rates = samples.iter().map(|it| it.commits as f64 / it.seconds);
        let mut rates: Vec<f64> = rates.collect();
        let events: u64 = samples.iter().map(|it| it.events).sum();
        let bytes: u64 = samples.iter().map(|it| it.payload_bytes).sum();
        let commits_per_s = quantile(&mut rates, 0.5)?;
        Some(Self {
            way: case.way,
            stable: case.stable,
            batch: case.batch,
            clients,
            commits_per_s,
            events_per_s: commits_per_s * case.batch as f64,
            commits_per_s_range: [quantile(&mut rates, 0.0)?, quantile(&mut rates, 1.0)?],
            bytes_per_event: bytes as f64 / events.max(1) as f64,
        })
    }
}

/// The logger's process. Dropping it ends the process and waits for its end.
struct Logger {
    child: Child,
    address: ServerAddress,
    _folder: tempfile::TempDir,
}

impl Logger {
    fn start(
        folder: Option<&Path>,
        choice: &CommitPathChoice,
        level: Level,
    ) -> miette::Result<Self> {
        let made = match folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = made.into_diagnostic().wrap_err("a folder for the logger")?;
        let address = ServerAddress::Unix(folder.path().join("sock"));
        let program = std::env::current_exe().into_diagnostic()?;
        let level = Level::ALL.iter().find(|(_, known)| *known == level);
        let mut command = Command::new(program);
        command
            .arg("eventlogger")
            .arg(folder.path().join("events"))
            .args(["--listen", &address.to_string()])
            .args(["--level", level.map_or("placed", |(name, _)| name)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let CommitPathChoice::Provider(provider) = choice {
            command.args(["--provider", provider]);
        }
        let mut child = command
            .spawn()
            .into_diagnostic()
            .wrap_err("the event logger")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .into_diagnostic()?;
        }
        let logger = Self {
            child,
            address,
            _folder: folder,
        };
        match line.is_empty() {
            true => Err(miette!(
                "the event logger did not start; its error is above"
            )),
            false => Ok(logger),
        }
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(arguments: &Arguments, case: &Case) -> miette::Result<Sample> {
    let Case { choice, level, .. } = case;
    let (batch, level) = (case.batch, *level);
    let logger = Logger::start(arguments.folder.as_deref(), choice, level)?;
    let duration = Duration::from_secs_f64(arguments.seconds);
    let (way, provider) = match choice {
        CommitPathChoice::Auto => (None, None),
        CommitPathChoice::Fixed(way) => (Some(*way), None),
        CommitPathChoice::Provider(provider) => {
            (Some(CommitPath::Libfabric), Some(provider.clone()))
        }
    };
    let file = |library: NamedLibrary| library.of_environment()?.into_string().ok();
    let began = Instant::now();
    let clients: Vec<_> = (0..arguments.clients)
        .map(|rank| {
            let options = ClientOptions {
                job: 1,
                rank: Rank(rank),
                incarnation: Incarnation(0),
                loggers: vec![logger.address.clone()],
                quorum: 1,
                level,
                way,
                connect_wait: WAIT_MAX,
                libfabric: file(LIBFABRIC),
                libibverbs: file(LIBIBVERBS),
                provider: provider.clone(),
                verbs_port: Default::default(),
            };
            thread::spawn(move || commit_for(options, batch, duration))
        })
        .collect();
    let mut sum = Sample::default();
    for client in clients {
        let counts = client.join().map_err(|_| miette!("a client panicked"))?;
        let counts = counts.map_err(|error| miette!("{error}"))?;
        sum.commits += counts.commits;
        sum.events += counts.events;
        sum.payload_bytes += counts.payload_bytes;
    }
    sum.seconds = began.elapsed().as_secs_f64();
    Ok(sum)
}

/// Commits batches for `duration`.
fn commit_for(options: ClientOptions, batch: u64, duration: Duration) -> Result<Sample, String> {
    let identity = Identity {
        job: options.job,
        rank: options.rank,
        incarnation: options.incarnation,
    };
    let mut client = Client::connect(options).map_err(|error| error.to_string())?;
    let mut recorder = Recorder::new(identity, client.next());
    let mut bytes = Vec::new();
    let (mut clock, mut ssns) = (0, [0_u64; 3]);
    let mut counts = Sample::default();
    let began = Instant::now();
    let window = WINDOW * batch;
    while began.elapsed() < duration {
        for _ in 0..32 {
            for _ in 0..batch {
                clock += 2;
                let source = (clock / 2 % 3) as usize;
                let matched = Matched {
                    request: Clock(clock),
                    source: Rank(source as u32),
                    ssn: Ssn(ssns[source]),
                };
                ssns[source] += 1;
                recorder.matched(Clock(clock), matched, false);
            }
            while let Some(header) = recorder.take_batch(true, &mut bytes) {
                client.commit(&header, &bytes);
                counts.commits += 1;
                counts.events += u64::from(header.count);
            }
            wait_until(&mut client, |stable| stable + window >= counts.events)?;
        }
    }
    wait_until(&mut client, |stable| stable >= counts.events)?;
    counts.payload_bytes = recorder.counts().payload_bytes;
    Ok(counts)
}

fn wait_until(client: &mut Client, is_enough: impl Fn(u64) -> bool) -> Result<(), String> {
    if is_enough(client.stable_end().0) {
        return Ok(());
    }
    let since = Instant::now();
    while !is_enough(client.poll().0) {
        if since.elapsed() > WAIT_MAX {
            let why = client.explain().unwrap_or_default();
            return Err(format!("nothing became stable for {WAIT_MAX:?}: {why}"));
        }
        thread::yield_now();
    }
    Ok(())
}

fn show(clients: u32, figures: &[Figures]) -> String {
    let header = [
        "way",
        "stable",
        "batch",
        "commits/s",
        "events/s",
        "range",
        "B/event",
    ];
    let rows = figures.iter().map(|line| {
        let [least, most] = line.commits_per_s_range.map(thousands);
        vec![
            line.way.clone(),
            line.stable.clone(),
            line.batch.to_string(),
            thousands(line.commits_per_s),
            thousands(line.events_per_s),
            format!("{least} to {most}"),
            format!("{:.2}", line.bytes_per_event),
        ]
    });
    let table = table(header, rows, 2);
    format!(
        "{table}\n{clients} clients, {WINDOW} commits of each under way at most; medians, range of commits/s over the rounds"
    )
}

fn thousands(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate => format!("{:.1} k", rate / 1e3),
    }
}
