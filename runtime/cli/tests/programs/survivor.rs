//! A program for the tests of survival: ranks 0 and 1 exchange messages in rounds,
//! and either print a line in each, or do in a later life what they must not.

use refrain::{Error, World, from, from_any, to};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const ROUNDS: u64 = 20;
/// Named in the image of a checkpoint.
const ROUND: u64 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let ended = World::init().and_then(|world| match argument(0) {
        Some("print") => print(world, argument(1).map_or(0, number)),
        Some("stray") => stray(world, argument(1).expect("how")),
        other => panic!("no program {other:?}"),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Each rank says which round it is in; a checkpoint every so many rounds.
fn print(mut world: World, checkpoint_every: u64) -> Result<(), Error> {
    let mut begin = 0;
    if let Some(mut restored) = world.restored()? {
        begin = restored.value(ROUND)?;
    }
    let (own, peer) = (world.rank().0, 1 - world.rank().0);
    for round in begin..ROUNDS {
        println!("rank {own} begins round {round}");
        let mut bytes = [0; 8];
        world.sendrecv(&round.to_le_bytes(), to(peer), &mut bytes, from_any())?;
        assert_eq!(u64::from_le_bytes(bytes), round);
        println!("rank {own} ends round {round}");
        if checkpoint_every > 0 && (round + 1).is_multiple_of(checkpoint_every) {
            world.checkpoint(|image| image.protect_value(ROUND, &(round + 1)))?;
        }
    }
    world.finalize()
}

/// Rank 0 is not piecewise deterministic, in one way.
fn stray(mut world: World, how: &str) -> Result<(), Error> {
    let is_later = world.incarnation().0 > 0;
    for _ in 0..ROUNDS {
        let mut bytes = [0; 8];
        if world.rank().0 == 1 {
            world.recv(&mut bytes, from(0).any_tag())?;
            world.send(&bytes, to(0))?;
            continue;
        }
        let tag = i32::from(is_later && how == "tag");
        world.send(&content(how).to_le_bytes(), to(1).tag(tag))?;
        if is_later && how == "operation" {
            world.probe(from_any())?;
        }
        if how == "probe" {
            // No event, but for the later life's.
            if is_later {
                world.iprobe(from(1).any_tag())?;
            }
            world.recv(&mut bytes, from(1).any_tag())?;
            continue;
        }
        world.recv(&mut bytes, from_any())?;
    }
    world.finalize()
}

/// What is in a message.
fn content(how: &str) -> u64 {
    match how {
        // Of this process: as good as random for another.
        "number" => u64::from(std::process::id()),
        "time" => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.expect("it is past 1970").as_nanos() as u64
        }
        "address" => {
            let own: Box<u64> = Box::new(1);
            std::ptr::from_ref(own.as_ref()).addr() as u64
        }
        _ => 7,
    }
}
