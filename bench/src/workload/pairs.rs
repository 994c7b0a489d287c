//! Two pairs of ranks that exchange no messages with each other: ranks 0 and 1, and ranks 2 and 3.
//! The even rank of each pair sends, the odd one sends back. Rank 0 notes the progress of its
//! pair; rank 2 notes the standstills of its own pair.

use super::error::{WorkloadError, ensure};
use super::horizon::Horizon;
use super::record;
use refrain::{World, from, to};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

const TAG: i32 = 13;
const CONTEXT: u32 = 1;
const RANKS: u32 = 4;
/// Section of a checkpoint: the number of messages sent back.
const STATE: u64 = 1;
/// Time between two notes of the progress of a pair.
const NOTE_EVERY: Duration = Duration::from_micros(200);
/// Minimum length of a standstill: round trips that take longer are noted.
const STANDSTILL: Duration = Duration::from_micros(500);
/// Name of the file of rank 0.
pub const COURSE_FILE: &str = "course";
/// Name of the file of rank 2.
pub const STANDSTILLS_FILE: &str = "standstills";
/// Number of the last message.
const LAST: u64 = u64::MAX;

/// Options of `pairs`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Length of the run in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Length of a message in bytes, at least 8.
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    /// Numbers of two cores, one for each pair.
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Folder for the notes.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    #[command(flatten)]
    horizon: Horizon,
}

/// The progress of a pair at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Time in nanoseconds since 1970, by the clock of the host.
    pub at_ns: u64,
    /// Round trips since the beginning.
    pub round_trips: u64,
}

/// A time during which a pair completed no round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standstill {
    /// Beginning, in nanoseconds since 1970.
    pub begin_ns: u64,
    /// End, in nanoseconds since 1970.
    pub end_ns: u64,
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, and an answer that is not the expected one.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    if world.size() != RANKS || options.bytes < 8 {
        return Err(WorkloadError::Options(
            "the pairs are 4 ranks, and a message has at least 8 bytes".into(),
        ));
    }
    let rank = world.rank().0;
    if let Some(core) = options.cores.get(rank as usize / 2) {
        stay_on(*core)?;
    }
    match rank {
        0 => {
            let mut course = Vec::new();
            drive(world, options, |note, _| course.push(note))?;
            write(options, COURSE_FILE, &course)?;
        }
        2 => {
            let mut standstills = Vec::new();
            drive(world, options, |_, standstill| {
                standstills.extend(standstill)
            })?;
            write(options, STANDSTILLS_FILE, &standstills)?;
        }
        _ => echo(world, options)?,
    }
    Ok((rank == 0).then(|| "pairs: every answer was right".into()))
}

/// Pins this process to the core with this number.
fn stay_on(core: usize) -> Result<(), WorkloadError> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).map_err(|error| WorkloadError::System {
        attempted: format!("cannot stay on core {core}"),
        error: error.into(),
    })
}

fn write(options: &Options, name: &str, value: &impl Serialize) -> Result<(), WorkloadError> {
    match &options.record {
        Some(folder) => record::write(folder, name, value),
        None => Ok(()),
    }
}

/// The even rank: counts, sends, and waits for the answer.
fn drive(
    world: &mut World,
    options: &Options,
    mut note: impl FnMut(Note, Option<Standstill>),
) -> Result<(), WorkloadError> {
    let mut pair = Pair::new(world, options);
    let begin = Instant::now();
    let length = Duration::from_secs_f64(options.seconds);
    let (mut last, mut noted) = (begin, begin);
    for number in 0.. {
        let is_last = last - begin >= length;
        let number_sent = if is_last { LAST } else { number };
        pair.send(world, number_sent)?;
        let answer = pair.receive(world)?;
        ensure!(
            answer == number_sent,
            "got {answer} back, not {number_sent}"
        );
        let now = Instant::now();
        let still = now - last;
        if still >= STANDSTILL || now - noted >= NOTE_EVERY {
            let end_ns = now_ns();
            let standstill = (still >= STANDSTILL).then(|| Standstill {
                begin_ns: end_ns.saturating_sub(still.as_nanos() as u64),
                end_ns,
            });
            let round_trips = number + 1;
            note(
                Note {
                    at_ns: end_ns,
                    round_trips,
                },
                standstill,
            );
            noted = now;
        }
        last = now;
        if is_last {
            break;
        }
    }
    Ok(())
}

/// The odd rank: sends each message back.
fn echo(world: &mut World, options: &Options) -> Result<(), WorkloadError> {
    let mut pair = Pair::new(world, options);
    let begin = match world.restored()? {
        Some(mut restored) => restored.value(STATE)?,
        None => 0,
    };
    for expected in begin.. {
        let number = pair.receive(world)?;
        ensure!(
            number == expected || number == LAST,
            "message {number} came, not {expected}"
        );
        pair.send(world, number)?;
        if number == LAST {
            break;
        }
        (options.horizon).after(world, expected, |image| {
            image.protect_value(STATE, &(expected + 1))
        })?;
    }
    Ok(())
}

struct Pair {
    other: u32,
    message: Vec<u8>,
}

impl Pair {
    fn new(world: &World, options: &Options) -> Self {
        Self {
            other: world.rank().0 ^ 1,
            message: vec![0; options.bytes],
        }
    }

    fn send(&mut self, world: &mut World, number: u64) -> Result<(), WorkloadError> {
        self.message[..8].copy_from_slice(&number.to_le_bytes());
        let to = to(self.other).tag(TAG).context(CONTEXT);
        Ok(world.send(&self.message, to)?)
    }

    fn receive(&mut self, world: &mut World) -> Result<u64, WorkloadError> {
        let from = from(self.other).tag(TAG).context(CONTEXT);
        world.recv(&mut self.message, from)?;
        let (number, _) = self.message.split_first_chunk().expect("8 bytes");
        Ok(u64::from_le_bytes(*number))
    }
}
