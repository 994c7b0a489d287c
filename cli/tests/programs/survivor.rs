//! A program for the tests of survival: ranks 0 and 1 exchange messages in rounds, and either
//! print a line in each round, or diverge in a later life. Or all ranks exchange messages, and do
//! their work after the last fence, or wait in the middle for the test.

use refrain::collective::{InPlace, Operator, allreduce};
use refrain::{Error, World, from, from_any, to};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
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
        Some("behind") => behind(world, &arguments[1..]),
        Some("around") => around(world),
        Some("spread") => spread(world, argument(1).map_or(0, number)),
        Some("hold") => hold(world, &arguments[1..]),
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

/// Each rank prints its round, and takes a checkpoint every `checkpoint_every` rounds; 0: none.
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

/// All ranks send to all others, receive messages in the order of arrival, and leave the job.
/// After that each prints lines and writes a file. `FOLDER RANKS TIMES [EVERY [HOW]]`: the ranks in
/// `RANKS` (like `1,3`) kill themselves in between, in `TIMES` lives, when the processes of all
/// other ranks have ended; if `HOW` is `replaying`, later lives do so before they leave the job.
/// `EVERY`: rounds between two checkpoints. If `HOW` is `reduced`, ranks only take part in collectives,
/// whose messages are long.
fn behind(mut world: World, arguments: &[String]) -> Result<(), Error> {
    let folder = Path::new(&arguments[0]);
    let victims: Vec<u32> = arguments[1]
        .split(',')
        .map(|it| number(it) as u32)
        .collect();
    let (times, every) = (
        number(&arguments[2]),
        arguments.get(3).map_or(0, |it| number(it)),
    );
    let how = arguments.get(4).map_or("", String::as_str);
    let (own, size) = (world.rank().0, world.size());
    let is_victim = victims.contains(&own);
    let deaths = folder.join(format!("deaths-{own}"));
    let (mut begin, mut sum) = (0, 0_u64);
    if let Some(mut restored) = world.restored()? {
        (begin, sum) = restored.value(ROUND)?;
    }
    let (mut message, mut room) = (vec![0; 20_000], vec![0; 20_000]);
    for round in begin..ROUNDS {
        let is_reduced = how == "reduced";
        for count in (0..10).filter(|_| is_reduced) {
            let mut all = [sum % 1000 + u64::from(own) + count; 2048];
            world.collective(allreduce(world.all(), Operator::Sum, InPlace, &mut all))?;
            sum += all[all.len() - 1];
        }
        let others = || (0..size).filter(|rank| *rank != own && !is_reduced);
        for rank in others() {
            message[..8].copy_from_slice(&(round * 31 + u64::from(own)).to_le_bytes());
            match round % 2 {
                0 => world.send(&message, to(rank))?,
                _ => world.scope(|scope| {
                    let mut sent = scope.issend(&message, to(rank))?;
                    let mut received = scope.irecv(&mut room, from(rank))?;
                    scope.wait(&mut received)?;
                    scope.wait(&mut sent).map(drop)
                })?,
            }
            if round % 2 == 1 {
                sum += u64::from_le_bytes(room[..8].try_into().expect("8 bytes"));
            }
        }
        for _ in others().filter(|_| round % 2 == 0) {
            let status = world.recv(&mut message, from_any())?;
            let bytes = message[..8].try_into().expect("8 bytes");
            sum = sum.wrapping_mul(3) + u64::from_le_bytes(bytes) * u64::from(status.source.0 + 1);
            sum %= 1 << 40;
        }
        // What came in which order is to be the same for all.
        world.barrier()?;
        if is_victim && how == "replaying" && world.incarnation().0 > 0 && round == ROUNDS / 2 {
            die(&deaths, times);
        }
        if every > 0 && (round + 1).is_multiple_of(every) {
            world.checkpoint(|image| image.protect_value(ROUND, &(round + 1, sum)))?;
        }
    }
    std::fs::write(
        folder.join(format!("process-{own}")),
        std::process::id().to_string(),
    )
    .expect("a file");
    world.finalize()?;
    let file = folder.join(format!("out-{own}"));
    let first = format!("line 0 of {sum}");
    // An earlier life may have been killed while it wrote this line.
    if let Ok(before) = std::fs::read_to_string(&file)
        && let Some((before, _)) = before.split_once('\n')
    {
        assert_eq!(before, first, "the life before got other messages");
    }
    let mut file = File::create(file).expect("a file");
    for line in 0..10 {
        println!("rank {own} line {line}");
        writeln!(file, "line {line} of {sum}").expect("a disk");
        if line == 5 && is_victim {
            let others = (0..size).filter(|rank| !victims.contains(rank));
            others.for_each(|rank| wait_for_end(&folder.join(format!("process-{rank}"))));
            die(&deaths, times);
        }
    }
    Ok(())
}

/// All ranks exchange messages in rounds, and print a sum. `FOLDER RANKS [EVERY]`: in each life the ranks
/// in `RANKS` write their process ids to the file `holds-RANK-LIFE` in the middle, and wait for the
/// file `go-LIFE`. `EVERY`: rounds between two checkpoints.
fn hold(mut world: World, arguments: &[String]) -> Result<(), Error> {
    let folder = Path::new(&arguments[0]);
    let (own, size, life) = (world.rank().0, world.size(), world.incarnation().0);
    let mut holders = arguments[1].split(',');
    let holds = holders.any(|rank| number(rank) == u64::from(own));
    let every = arguments.get(2).map_or(0, |it| number(it));
    let (mut begin, mut sum) = (0, 0_u64);
    if let Some(mut restored) = world.restored()? {
        (begin, sum) = restored.value(ROUND)?;
    }
    for round in begin..ROUNDS {
        if holds && round == ROUNDS / 2 {
            let (part, whole) = (
                folder.join(format!("part-{own}")),
                folder.join(format!("holds-{own}-{life}")),
            );
            std::fs::write(&part, std::process::id().to_string()).expect("a file");
            std::fs::rename(part, whole).expect("a file");
            while !folder.join(format!("go-{life}")).exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        let others = || (0..size).filter(|rank| *rank != own);
        for rank in others() {
            world.send(&(sum + u64::from(own)).to_le_bytes(), to(rank))?;
        }
        let mut received = 0;
        for _ in others() {
            let mut bytes = [0; 8];
            world.recv(&mut bytes, from_any())?;
            received += u64::from_le_bytes(bytes);
        }
        sum = (sum * 3 + received) % (1 << 40);
        // Messages of the next round come from the same ranks.
        world.barrier()?;
        if every > 0 && (round + 1).is_multiple_of(every) {
            world.checkpoint(|image| image.protect_value(ROUND, &(round + 1, sum)))?;
        }
    }
    println!("rank {own} has {sum}");
    world.finalize()
}

/// Each rank sends to the next one, and receives from any.
fn around(mut world: World) -> Result<(), Error> {
    let (own, size) = (world.rank().0, world.size());
    world.send(&own.to_le_bytes(), to((own + 1) % size))?;
    let mut bytes = [0; 4];
    let status = world.recv(&mut bytes, from_any())?;
    println!("rank {own} has met {}", u32::from_le_bytes(bytes));
    assert_eq!(status.source.0, u32::from_le_bytes(bytes));
    world.finalize()
}

/// Rank 0 speaks to all others, one after the other, in `rounds` rounds. Each takes a checkpoint after
/// each of its rounds.
fn spread(mut world: World, rounds: u64) -> Result<(), Error> {
    let (own, others) = (world.rank().0, u64::from(world.size()) - 1);
    let mut begin = 0;
    if let Some(mut restored) = world.restored()? {
        begin = restored.value(ROUND)?;
    }
    for round in begin..rounds {
        let mut bytes = [0; 8];
        if own == 0 {
            for step in round * others..(round + 1) * others {
                let peer = 1 + (step % others) as u32;
                world.send(&step.to_le_bytes(), to(peer))?;
                world.recv(&mut bytes, from(peer))?;
                println!("step {step}: {}", u64::from_le_bytes(bytes));
            }
        } else {
            world.recv(&mut bytes, from(0))?;
            let answer = u64::from_le_bytes(bytes) * 2;
            world.send(&answer.to_le_bytes(), to(0))?;
        }
        world.checkpoint(|image| image.protect_value(ROUND, &(round + 1)))?;
    }
    world.finalize()
}

/// Waits until the process with the id in the file has ended; it is not reaped.
fn wait_for_end(file: &Path) {
    let process = std::fs::read_to_string(file).expect("it was written before the last fence");
    let status = format!("/proc/{process}/status");
    while std::fs::read_to_string(&status).is_ok_and(|status| !status.contains("State:\tZ")) {
        std::thread::yield_now();
    }
}

/// Kills this process, unless `times` lives have died here before; the file counts them.
fn die(file: &Path, times: u64) {
    let deaths = std::fs::metadata(file).map_or(0, |file| file.len());
    if deaths < times {
        let longer = vec![b'x'; deaths as usize + 1];
        std::fs::write(file, longer).expect("a file");
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .expect("one may kill oneself");
    }
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
            // No event, except in the later life.
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

/// Content of a message.
fn content(how: &str) -> u64 {
    match how {
        // A value of this process: practically random in another process.
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
