//! Tokens go round all ranks. At the end some ranks kill themselves, and their next lives replay
//! everything. Each life notes the time of its turns.

use super::error::{WorkloadError, ensure};
use super::record;
use refrain::{Scope, World, from, from_any, to};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

const TAG: i32 = 12;
const CONTEXT: u32 = 1;
/// Length of a token's number, which is at its beginning and at its end.
const NUMBER_BYTES: usize = 8;

/// Options of `ring`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Number of tokens that each rank receives and sends.
    #[arg(long, default_value_t = 1000)]
    turns: u64,
    /// Length of a token in bytes, at least 16.
    #[arg(long, default_value_t = 4096)]
    bytes: usize,
    /// Length of the tokens that rank 0 sends, if it differs from that of the others.
    #[arg(long, value_name = "BYTES")]
    answers: Option<usize>,
    /// Number of tokens in the ring, at most one per rank.
    #[arg(long, default_value_t = 1)]
    tokens: u32,
    /// Receive from any source.
    #[arg(long)]
    any: bool,
    /// Number of ranks that kill themselves at the end of their first lives.
    #[arg(long, value_name = "RANKS", default_value_t = 0)]
    again: u32,
    /// Folder for the time of each life.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

/// The time of the turns of one life.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    /// The rank.
    pub rank: u32,
    /// The incarnation.
    pub incarnation: u32,
    /// Time of its turns in seconds.
    pub seconds: f64,
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, and a token that is not the expected one.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    check(options, world.size())?;
    let rank = world.rank().0;
    // A later life waits for the other ranks here, not in its turns.
    world.barrier()?;
    let begin = Instant::now();
    let mut ring = Ring::new(rank, world.size(), options);
    for turn in 0..options.turns {
        ring.turn(world, turn)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let incarnation = world.incarnation().0;
    if let Some(folder) = &options.record {
        let name = format!("{rank}.{incarnation}");
        let turns = Turns {
            rank,
            incarnation,
            seconds,
        };
        record::write(folder, &name, &turns)?;
    }
    // No rank waits for a message of a rank that dies.
    world.barrier()?;
    if rank < options.again && incarnation == 0 {
        return Err(WorkloadError::System {
            attempted: format!("rank {rank} cannot kill itself"),
            error: end_this_life(),
        });
    }
    Ok((rank == 0).then(|| {
        format!(
            "ring: turns {} tokens {} bytes {}",
            options.turns, options.tokens, options.bytes
        )
    }))
}

/// Kills this process. Returns only if that fails.
fn end_this_life() -> std::io::Error {
    match kill_process(getpid(), Signal::KILL) {
        Ok(()) => std::io::Error::other("the signal has no effect"),
        Err(error) => error.into(),
    }
}

fn check(options: &Options, ranks: u32) -> Result<(), WorkloadError> {
    let shortest = options.answers.unwrap_or(options.bytes).min(options.bytes);
    let problem = if shortest < 2 * NUMBER_BYTES {
        "a token has at least 16 bytes"
    } else if ranks < 2 {
        "a ring has at least 2 ranks"
    } else if !(1..=ranks).contains(&options.tokens) {
        "there is at least one token, and at most one a rank"
    } else if options.again > ranks {
        "more ranks are to die than there are"
    } else {
        return Ok(());
    };
    Err(WorkloadError::Options(problem.into()))
}

impl Options {
    /// Length of the tokens that a rank sends.
    fn bytes_of(&self, rank: u32) -> usize {
        match self.answers {
            Some(bytes) if rank == 0 => bytes,
            _ => self.bytes,
        }
    }
}

/// The number of a token after `turn` turns of the rank that sends it.
fn number(rank: u32, turn: u64) -> u64 {
    (turn << 16) | u64::from(rank)
}

struct Ring {
    rank: u32,
    size: u32,
    /// Whether the rank has a token between turns: the first ranks have one each.
    holds: bool,
    any: bool,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Ring {
    fn new(rank: u32, size: u32, options: &Options) -> Self {
        Self {
            rank,
            size,
            holds: rank < options.tokens,
            any: options.any,
            outgoing: vec![0; options.bytes_of(rank)],
            incoming: vec![0; options.bytes_of((rank + size - 1) % size)],
        }
    }

    /// Receives one token and sends one; a rank that holds a token does both at once.
    fn turn(&mut self, world: &mut World, turn: u64) -> Result<(), WorkloadError> {
        let number = number(self.rank, turn).to_le_bytes();
        let end = self.outgoing.len() - NUMBER_BYTES;
        self.outgoing[..NUMBER_BYTES].copy_from_slice(&number);
        self.outgoing[end..].copy_from_slice(&number);
        let previous = (self.rank + self.size - 1) % self.size;
        let source = if self.any { from_any() } else { from(previous) };
        let source = source.tag(TAG).context(CONTEXT);
        let next = to((self.rank + 1) % self.size).tag(TAG).context(CONTEXT);
        let (outgoing, incoming) = (&self.outgoing, &mut self.incoming);
        if self.holds {
            world.scope(|scope: &mut Scope<'_, '_>| {
                let mut requests = [scope.irecv(incoming, source)?, scope.isend(outgoing, next)?];
                scope.wait_all(&mut requests)
            })?;
        } else {
            world.recv(&mut *incoming, source)?;
            world.send(&**outgoing, next)?;
        }
        self.look_at(previous, turn)
    }

    fn look_at(&self, previous: u32, turn: u64) -> Result<(), WorkloadError> {
        let expected = number(previous, turn).to_le_bytes();
        let end = self.incoming.len() - NUMBER_BYTES;
        ensure!(
            self.incoming[..NUMBER_BYTES] == expected && self.incoming[end..] == expected,
            "rank {} received a token that is not that of turn {turn} of rank {previous}",
            self.rank
        );
        Ok(())
    }
}
