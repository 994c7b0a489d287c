//! `refrain bench soak`: random jobs with random deaths, each compared with the same job
//! without faults.
//!
//! A job follows from the seed and its number. With protocols whose events are at ranks, each death
//! is made good before the next, but of one job in six two ranks are killed at once: it must end
//! with the launcher's error. After each job the soak checks its status
//! and its line, the memory of its launcher, and the processes and files that it left. The
//! first failure ends the soak unless `--keep-going` is given; the soak prints how to run
//! the job again and keeps its output.

mod failure;
mod job;
mod residue;

use crate::error::{BenchError, STATUS_INTERRUPTED};
use crate::interrupt::Interrupt;
use crate::job::{Job, JobFolder};
use crate::machine::resident_bytes;
use failure::{Kept, Watched};
use job::Expected;
use refrain_logging::Member;
use rustix::process::{Signal, kill_process};
use std::collections::HashMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time between two checks of the launcher.
const LOOK: Duration = Duration::from_millis(2);
/// Time between two lines of progress.
const LINE_EVERY: Duration = Duration::from_secs(10);
const RANKS_MAX: u32 = 64;

/// Random jobs with random deaths.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Time in which jobs are started, in minutes.
    #[arg(long, value_name = "M", default_value_t = 10.0, value_parser = minutes)]
    pub minutes: f64,
    /// Seed of all random choices [default: random, printed].
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of the first job.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub first: u64,
    /// Maximum number of ranks per job.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    pub ranks: u32,
    /// Protocols of the jobs [default: all that log messages].
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub protocol: Vec<String>,
    /// Fabric of all jobs; on ofi ranks are killed at clocks only.
    #[arg(long, default_value = "auto")]
    pub fabric: String,
    /// Time after which a job counts as hung; stacks of its processes are written to `stacks`.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub patience: u64,
    /// Continue after a failure.
    #[arg(long)]
    pub keep_going: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.0..1e6).contains(&minutes) => Ok(minutes),
        _ => Err("give minutes, such as 10 or 0.5".into()),
    }
}

impl Arguments {
    /// The protocols to choose from.
    fn protocols(&self) -> Result<Vec<Member>, BenchError> {
        let logging = || Member::ALL.into_iter().filter(|it| it.keeps_payload());
        if self.protocol.is_empty() {
            return Ok(logging().collect());
        }
        let named = |name: &String| {
            logging().find(|it| it.name() == name).ok_or_else(|| {
                let problem = format!("`{name}` is no protocol that logs messages");
                let names: Vec<&str> = logging().map(Member::name).collect();
                BenchError::option(
                    "--protocol",
                    problem,
                    format!("there are {}", names.join(", ")),
                )
            })
        };
        self.protocol.iter().map(named).collect()
    }
}

/// Runs the soak; the exit status is 1 if a job failed.
///
/// # Errors
/// Jobs cannot be started, or their output cannot be kept.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    let protocols = arguments.protocols()?;
    let interrupt = Interrupt::install()?;
    let seed = arguments.seed.unwrap_or_else(seed_of_now);
    println!("soak: seed {seed}");
    let mut soak = Soak {
        jobs: JobFolder::new("refrain-soak-", &["spilled"])?,
        patience: Duration::from_secs(arguments.patience),
        expected: HashMap::new(),
    };
    let mut kept = Kept::default();
    let mut tally = Tally::default();
    let begin = Instant::now();
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let mut printed = begin;
    for number in arguments.first.. {
        if begin.elapsed() >= length || interrupt.requested() {
            break;
        }
        let (ranks, fabric) = (arguments.ranks, &arguments.fabric);
        let (job, expected) = job::job(seed, number, ranks, fabric, &protocols);
        let (watched, failure) = match expected {
            Expected::Line => soak.judge(&job)?,
            Expected::Gone(one, other) => {
                let watched = soak.watched(&job)?;
                let failure = watched.failure_of_gone(one, other, &soak.jobs);
                (watched, failure)
            }
        };
        if interrupt.requested() {
            break;
        }
        tally.add(&watched, failure.is_some());
        tally.at_once += u64::from(expected != Expected::Line);
        if let Some(failure) = failure {
            kept.keep(&soak.jobs, &job, number, &failure, &watched)?;
            if !arguments.keep_going {
                break;
            }
        }
        if printed.elapsed() >= LINE_EVERY {
            printed = Instant::now();
            println!("{}", tally.line(begin.elapsed()));
        }
    }
    println!("{}", tally.line(begin.elapsed()));
    Ok(match (tally.failures, interrupt.requested()) {
        (0, false) => ExitCode::SUCCESS,
        (0, true) => ExitCode::from(STATUS_INTERRUPTED),
        _ => ExitCode::FAILURE,
    })
}

/// A new seed. Short numbers are easier to type.
fn seed_of_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_micros()))
}

struct Soak {
    jobs: JobFolder,
    patience: Duration,
    /// Lines that jobs without faults printed, by job.
    expected: HashMap<Job, String>,
}

impl Soak {
    /// Runs a job and compares its line with that of the same job without faults.
    fn judge(&mut self, job: &Job) -> Result<(Watched, Option<String>), BenchError> {
        let calm = Job {
            options: Vec::new(),
            ..job.clone()
        };
        if !self.expected.contains_key(&calm) {
            let watched = self.watched(&calm)?;
            if watched.ended.status != Some(0) {
                return Ok((watched, Some("it fails without any fault".into())));
            }
            self.expected.insert(calm.clone(), watched.ended.out);
        }
        let watched = self.watched(job)?;
        let failure = watched.failure(&self.expected[&calm], &self.jobs);
        Ok((watched, failure))
    }

    fn watched(&self, job: &Job) -> Result<Watched, BenchError> {
        let begin = Instant::now();
        let (mut hung, mut launcher_bytes) = (None, 0);
        let ended = self.jobs.run(job, LOOK, |launcher| {
            let bytes = resident_bytes(launcher.as_raw_nonzero()).unwrap_or(0);
            launcher_bytes = launcher_bytes.max(bytes);
            if begin.elapsed() > self.patience && hung.is_none() {
                hung = Some(residue::stacks(&self.jobs.mark()));
                // The launcher ends the ranks.
                let _ = kill_process(launcher, Signal::TERM);
            }
        })?;
        Ok(Watched {
            ended,
            hung,
            launcher_bytes,
        })
    }
}

/// Counts of the jobs so far.
#[derive(Debug, Default)]
struct Tally {
    jobs: u64,
    with_deaths: u64,
    /// Jobs that had to end because two ranks were killed at once.
    at_once: u64,
    deaths: usize,
    failures: u64,
    launcher_bytes: u64,
}

impl Tally {
    fn add(&mut self, watched: &Watched, has_failed: bool) {
        let killed = "was killed by SIGKILL (incarnation";
        let deaths = watched.ended.err.matches(killed).count();
        self.jobs += 1;
        self.with_deaths += u64::from(deaths > 0);
        self.deaths += deaths;
        self.failures += u64::from(has_failed);
        self.launcher_bytes = self.launcher_bytes.max(watched.launcher_bytes);
    }

    fn line(&self, time: Duration) -> String {
        format!(
            "soak: {:.0} s: {} jobs, {} of them with {} deaths of ranks, {} ended by two at once, {} failures; \
             launchers had at most {:.1} MiB",
            time.as_secs_f64(),
            self.jobs,
            self.with_deaths,
            self.deaths,
            self.at_once,
            self.failures,
            self.launcher_bytes as f64 / f64::from(1 << 20),
        )
    }
}
