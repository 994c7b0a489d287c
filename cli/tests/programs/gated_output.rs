//! A program for the tests of waits that are too long: for loggers that do not answer, or for a
//! full log.

use refrain::{Error, World, from, from_any, to};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let ended = World::init().and_then(|world| match argument.as_deref() {
        Some("leave") => leave(world),
        Some("fence") => fence(world),
        Some("test") => test(world),
        Some("probe-even") => probe(world, false),
        Some("probe-odd") => probe(world, true),
        Some("idle") => idle(world),
        other => panic!("no program {other:?}"),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reports that it has begun, and continues when the test allows it.
fn begin(world: &mut World) -> Result<(), Error> {
    println!("begun");
    let folder = std::env::var("REFRAIN_TEST_FOLDER").expect("a folder");
    let go = Path::new(&folder).join("go");
    while !go.exists() {
        world.progress()?;
        std::thread::yield_now();
    }
    Ok(())
}

/// An event that no logger receives.
fn have_an_event(world: &mut World) -> Result<(), Error> {
    let mut room = [0; 8];
    world.scope(|scope| {
        let mut receipt = scope.irecv(&mut room, from_any())?;
        scope.world().send(&[1; 8], to(0))?;
        scope.wait(&mut receipt).map(drop)
    })
}

fn leave(mut world: World) -> Result<(), Error> {
    begin(&mut world)?;
    have_an_event(&mut world)?;
    world.finalize()?;
    println!("left");
    Ok(())
}

fn fence(mut world: World) -> Result<(), Error> {
    begin(&mut world)?;
    have_an_event(&mut world)?;
    world.fence()
}

/// Sends more than the log holds, to a fast receiver, and only tests the sends.
fn test(mut world: World) -> Result<(), Error> {
    let mut data = [7; 64 << 10];
    loop {
        if world.rank().0 == 0 {
            world.scope(|scope| {
                let mut request = scope.isend(&data, to(1).tag(1))?;
                while scope.test(&mut request)?.is_none() {}
                Ok::<_, Error>(())
            })?;
        } else {
            world.recv(&mut data, from(0).tag(1))?;
        }
    }
}

/// Sends a message that waits for its event, and probes without success: only at odd clocks, or
/// only at even ones.
fn probe(mut world: World, odd: bool) -> Result<(), Error> {
    if world.rank().0 != 0 {
        world.recv(&mut [0; 8], from(0).tag(1))?;
        return world.finalize();
    }
    begin(&mut world)?;
    have_an_event(&mut world)?;
    if odd {
        world.iprobe(from(1).tag(3))?;
    }
    for _ in 0..2_000_000 {
        world.send(&[], to(1).tag(2))?;
        assert!(world.iprobe(from(1).tag(3))?.is_none());
    }
    println!("never heard");
    Ok(())
}

/// Rank 0 receives a message that rank 1 sends after 2 s, and prints the number of its sleeps
/// meanwhile; then both do the same in a fence.
fn idle(mut world: World) -> Result<(), Error> {
    const LATE: std::time::Duration = std::time::Duration::from_secs(2);
    world.barrier()?;
    let before = sleeps();
    if world.rank().0 == 0 {
        world.recv(&mut [0; 8], from(1))?;
        println!("slept {} times in a receive", sleeps() - before);
    } else {
        std::thread::sleep(LATE);
        world.send(&[1; 8], to(0))?;
        std::thread::sleep(LATE);
    }
    let before = sleeps();
    world.fence()?;
    if world.rank().0 == 0 {
        println!("slept {} times in a fence", sleeps() - before);
    }
    world.finalize()
}

/// Number of voluntary context switches of this thread.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("its status");
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = count.expect("Linux counts them").trim();
    count.parse().expect("a number")
}
