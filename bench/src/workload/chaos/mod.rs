//! A seeded random mix of every operation, in rounds, with verification of
//! every byte. All ranks derive the same plan from the seed.

mod buffers;
mod generate;
mod ledger;
mod pending;
mod plan;
mod run;
mod sizes;
mod verify;

use super::error::{WorkloadError, ensure};
use super::prng::combine;
use super::total;
use super::watchdog::Watchdog;
use generate::{EPOCH_ROUNDS, Parameters};
use ledger::Ledger;
use plan::{Ending, Round};
use refrain::World;
use std::time::{Duration, Instant};

/// Options of `chaos`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of operations of all ranks, after which the round is the last.
    #[arg(long, default_value_t = 2000)]
    operations: u64,
    /// Length of the longest message in bytes; rare ones are up to eight times as long,
    /// 8 MiB at most.
    #[arg(long, default_value_t = 1 << 20)]
    bytes_max: usize,
    /// Time of the run, instead of a number of operations. The last line then depends on
    /// the speed of the job.
    #[arg(long, value_name = "SECONDS", conflicts_with = "operations")]
    duration: Option<u64>,
    /// Run only this round; with the seed of a failure.
    #[arg(long, value_name = "ROUND", conflicts_with_all = ["operations", "duration"])]
    only_round: Option<u64>,
    /// Time without progress of a rank after which it gives up; 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Free nothing, and at the end read every rank's payload log from its first
    /// message on and compare it with what was sent.
    #[arg(long)]
    check_log: bool,
    /// Describe each round on standard error.
    #[arg(long)]
    verbose: bool,
}

/// Counts of the rounds so far; the same on every rank except for the checksum.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rounds: u64,
    operations: u64,
    messages: u64,
    bytes: u64,
    checksum: u64,
}

impl Tally {
    fn add(&mut self, round: &Round, checksum: u64) {
        self.rounds += 1;
        self.operations += round.operations() as u64;
        self.messages += round.messages.len() as u64;
        let bytes = round.messages.iter().map(|message| message.bytes as u64);
        self.bytes += bytes.sum::<u64>();
        let checksum = combine(&[round.number, checksum]);
        self.checksum = self.checksum.wrapping_add(checksum);
    }
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, and every violation of the plan or of MPI's rules, with the command that
/// repeats it.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    let rank = world.rank().0;
    if rank == 0 {
        let (size, protocol, fabric) = (world.size(), world.protocol(), world.fabric());
        eprintln!(
            "chaos: seed {} with {size} ranks, protocol {protocol}, fabric {fabric}",
            options.seed
        );
    }
    ensure!(
        !options.check_log || world.protocol() != "none",
        "--check-log: protocol none keeps nothing to be read"
    );
    let mut chaos = Chaos {
        options,
        watchdog: Watchdog::start(options.patience),
        ledger: Ledger::new(if options.check_log { world.size() } else { 0 }),
    };
    let tally = chaos.rounds(world)?;
    let Chaos {
        watchdog, ledger, ..
    } = chaos;
    if options.check_log {
        watchdog.place(format!("seed {}, reading the log", options.seed));
        let own = ledger.check(world)?;
        let checked = total::sum(world, own)?;
        if rank == 0 {
            eprintln!("chaos: {checked} messages read back from the logs");
        }
    }
    watchdog.place(format!("seed {}, after the last round", options.seed));
    let checksum = total::sum(world, tally.checksum)?;
    Ok((rank == 0).then(|| {
        format!(
            "chaos: seed {} rounds {} operations {} messages {} bytes {} checksum {checksum:016x}",
            options.seed, tally.rounds, tally.operations, tally.messages, tally.bytes
        )
    }))
}

/// State that a rank keeps from round to round.
struct Chaos<'a> {
    options: &'a Options,
    watchdog: Watchdog,
    ledger: Ledger,
}

impl Chaos<'_> {
    fn rounds(&mut self, world: &mut World) -> Result<Tally, WorkloadError> {
        let options = self.options;
        let parameters = Parameters {
            seed: options.seed,
            ranks: world.size(),
            bytes_max: options.bytes_max,
        };
        let started = Instant::now();
        let mut tally = Tally::default();
        for number in options.only_round.unwrap_or(0).. {
            let round = generate::round(parameters, number);
            if options.verbose && world.rank().0 == 0 {
                eprintln!(
                    "chaos: round {number}, {} messages, ends with {:?}",
                    round.messages.len(),
                    round.ends_with
                );
            }
            let checksum = self.round(world, &round);
            let checksum =
                checksum.map_err(|error| error.at(&reproduction(world, options, number)))?;
            tally.add(&round, checksum);
            if is_over(world, options, &tally, number, started)? {
                break;
            }
        }
        Ok(tally)
    }

    fn round(&mut self, world: &mut World, round: &Round) -> Result<u64, WorkloadError> {
        let before = world.statistics();
        let seed = self.options.seed;
        let checksum = run::round(world, round, seed, &self.watchdog, &mut self.ledger)?;
        let sent = world.statistics().messages_sent - before.messages_sent;
        let own = |message: &&plan::Message| message.source == world.rank().0;
        let planned = round.messages.iter().filter(own).count() as u64;
        // Barriers send messages in addition to the plan.
        ensure!(
            sent >= planned,
            "the plan has {planned} messages, the statistics count {sent}"
        );
        let publishes = round.publishes[world.rank().index()] && !self.options.check_log;
        if publishes && world.protocol() != "none" && !world.recovers() {
            world.publish_horizon()?;
        }
        match round.ends_with {
            Ending::Open => {}
            Ending::Barrier => world.barrier()?,
            Ending::Fence => world.fence()?,
        }
        Ok(checksum)
    }
}

/// Whether the run is over; all ranks get the same answer. Only rank 0 reads the clock, at the end
/// of an epoch, and sends the answer as a message.
fn is_over(
    world: &mut World,
    options: &Options,
    tally: &Tally,
    number: u64,
    started: Instant,
) -> Result<bool, WorkloadError> {
    if options.only_round.is_some() {
        return Ok(true);
    }
    let Some(seconds) = options.duration else {
        return Ok(tally.operations >= options.operations);
    };
    if !(number + 1).is_multiple_of(EPOCH_ROUNDS) {
        return Ok(false);
    }
    let over = world.rank().0 == 0 && started.elapsed() >= Duration::from_secs(seconds);
    Ok(total::sum(world, u64::from(over))? > 0)
}

/// The command that repeats a failure.
fn reproduction(world: &World, options: &Options, number: u64) -> String {
    let Options {
        seed, bytes_max, ..
    } = options;
    let (rank, size, protocol) = (world.rank(), world.size(), world.protocol());
    format!(
        "chaos, seed {seed}, round {number}, rank {rank} of {size} (again: refrain run -n {size} --protocol {protocol} \
         -- refrain-workload chaos --seed {seed} --bytes-max {bytes_max}, with --operations {} or --only-round {number})",
        options.operations
    )
}

#[cfg(test)]
mod tests;
