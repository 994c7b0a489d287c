//! Each rank sends a message to each other rank, and receives one of each from any source, several
//! times.

use super::error::{WorkloadError, ensure};
use super::prng::combine;
use super::total;
use refrain::{Status, World, from_any, to};

const CONTEXT: u32 = 1;
/// Bytes of a message: its sender and its round.
const BYTES: usize = 16;

/// Options of `all-to-all`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Number of rounds.
    #[arg(long, default_value_t = 100)]
    rounds: u64,
}

fn message(rank: u32, round: u64) -> [u8; BYTES] {
    let mut message = [0; BYTES];
    message[..8].copy_from_slice(&u64::from(rank).to_le_bytes());
    message[8..].copy_from_slice(&round.to_le_bytes());
    message
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, and wrong messages.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    let (own, size) = (world.rank().0, world.size());
    let mut checksum = 0u64;
    for round in 0..options.rounds {
        let mut received = vec![[0; BYTES]; size as usize - 1];
        let statuses = exchange(world, round, &mut received)?;
        let mut has_sent = vec![false; size as usize];
        for (bytes, Status { source, .. }) in received.iter().zip(statuses) {
            let is_right = *bytes == message(source.0, round) && source.0 != own;
            let is_first = !core::mem::replace(&mut has_sent[source.index()], true);
            ensure!(
                is_right && is_first,
                "round {round}: rank {own} got a wrong message of rank {source}: {bytes:?}"
            );
            // Does not depend on the order.
            checksum = checksum.wrapping_add(combine(&[round, source.0.into(), own.into()]));
        }
    }
    let checksum = total::sum(world, checksum)?;
    let rounds = options.rounds;
    Ok((own == 0).then(|| format!("all-to-all: rounds {rounds} checksum {checksum:016x}")))
}

/// Sends and receives the messages of a round; returns the statuses of the receives.
fn exchange(
    world: &mut World,
    round: u64,
    received: &mut [[u8; BYTES]],
) -> Result<Vec<Status>, refrain::Error> {
    let (own, size) = (world.rank().0, world.size());
    // A rank is at most one round ahead of another, which has to answer it.
    let tag = (round % 2) as i32;
    let sent = message(own, round);
    world.scope(|scope| {
        let count = received.len();
        let mut requests = Vec::with_capacity(2 * count);
        for buffer in received {
            requests.push(scope.irecv(buffer, from_any().tag(tag).context(CONTEXT))?);
        }
        for step in 1..size {
            let peer = (own + step) % size;
            requests.push(scope.isend(&sent, to(peer).tag(tag).context(CONTEXT))?);
        }
        let mut statuses = scope.wait_all(&mut requests)?;
        statuses.truncate(count);
        Ok(statuses)
    })
}
