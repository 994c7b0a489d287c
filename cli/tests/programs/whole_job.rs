//! A program for the tests of `--job-dir`: all ranks exchange messages in rounds, receive them in the
//! order of arrival, and print a line in each round.
//!
//! `FOLDER EVERY [ring]`: rounds between two checkpoints; 0: only on request; `none`: none at all. In the
//! middle each rank makes a file `holds-RANK-LIFE` and waits until there is a file `go`. `ring`: each rank
//! sends to the next one only.

use refrain::{Error, World, from_any, to};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

const ROUNDS: u64 = 20;
/// Named in the image of a checkpoint.
const ROUND: u64 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let exchange = match arguments.get(2).map(String::as_str) {
        Some("ring") => exchange_in_ring,
        _ => exchange_with_all,
    };
    let ended = World::init()
        .and_then(|world| rounds(world, Path::new(&arguments[0]), &arguments[1], exchange));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

type Exchange = fn(&mut World, u64) -> Result<u64, Error>;

fn rounds(mut world: World, folder: &Path, every: &str, exchange: Exchange) -> Result<(), Error> {
    let every: Option<u64> = every.parse().ok();
    let (mut begin, mut sum) = (0, 0_u64);
    if let Some(mut restored) = world.restored()? {
        (begin, sum) = restored.value(ROUND)?;
    }
    for round in begin..ROUNDS {
        let state = (round, sum);
        if let Some(every) = every {
            let is_due = every > 0 && round > begin && round.is_multiple_of(every);
            if world.checkpoint_requested()? || is_due {
                world.checkpoint(|image| image.protect_value(ROUND, &state))?;
            }
        }
        if round == ROUNDS / 2 {
            hold(&mut world, folder, every.map(|_| state))?;
        }
        sum = exchange(&mut world, sum)?;
        println!("rank {} round {round}: {sum}", world.rank().0);
    }
    world.finalize()
}

fn exchange_in_ring(world: &mut World, sum: u64) -> Result<u64, Error> {
    let (own, size) = (world.rank().0, world.size());
    let mut bytes = [0; 8];
    let sent = (sum + u64::from(own)).to_le_bytes();
    world.sendrecv(&sent, to((own + 1) % size), &mut bytes, from_any())?;
    Ok((sum * 3 + u64::from_le_bytes(bytes)) % (1 << 40))
}

fn exchange_with_all(world: &mut World, sum: u64) -> Result<u64, Error> {
    let own = world.rank().0;
    let others = || (0..world.size()).filter(move |rank| *rank != own);
    let others: Vec<u32> = others().collect();
    for rank in &others {
        world.send(&(sum + u64::from(own)).to_le_bytes(), to(*rank))?;
    }
    let mut received = 0;
    for _ in &others {
        let mut bytes = [0; 8];
        world.recv(&mut bytes, from_any())?;
        received += u64::from_le_bytes(bytes);
    }
    // Messages of the next round come from the same ranks.
    world.barrier()?;
    Ok((sum * 3 + received) % (1 << 40))
}

/// Waits for the file `go`, and takes checkpoints meanwhile. A rank that replays waits, too.
fn hold(world: &mut World, folder: &Path, state: Option<(u64, u64)>) -> Result<(), Error> {
    let holds = format!("holds-{}-{}", world.rank().0, world.incarnation().0);
    fs::write(folder.join(holds), "").expect("a file");
    while !folder.join("go").exists() {
        match &state {
            Some(state) if world.checkpoint_requested()? => {
                world.checkpoint(|image| image.protect_value(ROUND, state))?;
            }
            // No operation of the clock in this life or the next: how often it is made varies.
            _ => world.progress()?,
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
