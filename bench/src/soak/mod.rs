//! `refrain bench soak`: random jobs with random deaths, again and again, each
//! compared with the same job in which nothing fails.
//!
//! A job is made of the seed and its number alone. What is looked at after each:
//! its status and its line, the memory that its launcher had, processes and files
//! that it left. The first failure ends the soak, unless told otherwise; it says
//! how to see it again and keeps the output.

mod failure;
mod job;
mod launched;
mod residue;
mod stacks;
mod tally;

use crate::interrupt::{Interrupt, STATUS_INTERRUPTED};
use failure::{Failure, Kept};
use job::Job;
use launched::{Ended, Place};
use std::collections::HashMap;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tally::Tally;

/// A ring of one rank does nothing that can fail.
const RANKS_MAX: u32 = 64;

/// Random jobs with random deaths.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Time in which jobs are started, in minutes
    #[arg(long, value_name = "M", default_value_t = 10.0, value_parser = minutes)]
    pub minutes: f64,
    /// Seed of all random choices [default: random, printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Number of the first job
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub first: u64,
    /// Maximum number of ranks per job
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    pub ranks: u32,
    /// Fabric of all jobs; on ofi ranks are killed at clocks only
    #[arg(long, default_value = "auto")]
    pub fabric: String,
    /// Time after which a job hangs; stacks of its processes are written to the file `stacks`
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub patience: u64,
    /// Continue after a failure
    #[arg(long)]
    pub keep_going: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(minutes) if (0.0..1e6).contains(&minutes) => Ok(minutes),
        _ => Err("say minutes, like 10 or 0.5".into()),
    }
}

/// Runs the soak; its status is 1 when anything failed.
///
/// # Errors
/// When jobs cannot be started, or their output cannot be kept.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    soak(arguments).map_err(|error| miette::miette!("the soak cannot go on: {error}"))
}

fn soak(arguments: &Arguments) -> io::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let seed = arguments.seed.unwrap_or_else(seed_of_now);
    println!("soak: seed {seed}");
    let place = Place::new(Duration::from_secs(arguments.patience))?;
    let mut kept = Kept::default();
    let mut expected = Expected::default();
    let mut tally = Tally::new();
    let end = Instant::now() + Duration::from_secs_f64(arguments.minutes * 60.0);
    let mut number = arguments.first;
    while Instant::now() < end && !interrupt.requested() {
        let job = Job::of(seed, number, arguments.ranks, &arguments.fabric);
        number += 1;
        let (ended, failure) = judge(&job, &place, &mut expected)?;
        if interrupt.requested() {
            break;
        }
        tally.add(&ended, failure.is_some());
        if let Some(failure) = failure {
            kept.keep(&place, &job, number - 1, &failure, &ended)?;
            if !arguments.keep_going {
                break;
            }
        }
        tally.tell_sometimes();
    }
    println!("{}", tally.summary());
    Ok(match (tally.failures(), interrupt.requested()) {
        (0, false) => ExitCode::SUCCESS,
        (0, true) => ExitCode::from(STATUS_INTERRUPTED),
        _ => ExitCode::FAILURE,
    })
}

/// Short ones are better to type.
fn seed_of_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_micros()))
}

/// Lines that were printed when nothing failed, by ranks and workload.
type Expected = HashMap<(u32, Vec<String>), String>;

fn judge(
    job: &Job,
    place: &Place,
    expected: &mut Expected,
) -> io::Result<(Ended, Option<Failure>)> {
    let key = (job.ranks, job.workload.clone());
    if !expected.contains_key(&key) {
        let calm = job.without_faults();
        let ended = place.run(&calm)?;
        if ended.status != Some(0) {
            return Ok((ended, Some(Failure::WithoutFaults)));
        }
        expected.insert(key.clone(), ended.out);
    }
    let ended = place.run(job)?;
    let failure = Failure::of(&ended, &expected[&key], place);
    Ok((ended, failure))
}
