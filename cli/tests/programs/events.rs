//! A program for the tests of events: rank 0 executes the rows of the table in
//! docs/design/protocol.md, and prints what was sent to the event logger.

use refrain::{Error, World, from, from_any, to};
use refrain_job::statistics::EventStatistics;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Tag of the messages of a row.
const TAG: i32 = 1;
/// Tag of the number of messages that rank 1 has to send now.
const ORDER: i32 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = World::init().and_then(|world| match arguments.first().map(String::as_str) {
        Some("table") => table(world),
        Some("rounds") => rounds(world, number(&arguments)),
        Some("wander") => wander(world, number(&arguments)),
        Some("print") => print(world),
        Some("pause") => pause(world, number(&arguments)),
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

fn number(arguments: &[String]) -> u64 {
    let text = arguments.get(1).expect("how many");
    text.parse().expect("a number")
}

/// Operations of rank 0 in one row.
type Row = fn(&mut World) -> Result<(), Error>;

const ROWS: &[(&str, Row)] = &[
    ("recv-named", |world| {
        order(world, 1)?;
        world.recv(&mut [0; 8], from(1).tag(TAG)).map(drop)
    }),
    ("wait-named", |world| {
        order(world, 2)?;
        let (mut a, mut b) = ([0; 8], [0; 8]);
        world.scope(|scope| {
            let mut both = [
                scope.irecv(&mut a, from(1).tag(TAG))?,
                scope.irecv(&mut b, from(1).tag(TAG))?,
            ];
            scope.wait(&mut both[0])?;
            scope.wait_all(&mut both).map(drop)
        })
    }),
    ("recv-any", |world| {
        order(world, 1)?;
        world.recv(&mut [0; 8], from_any().tag(TAG)).map(drop)
    }),
    ("wait-of-any", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut request = scope.irecv(&mut a, from_any().tag(TAG))?;
            scope.wait(&mut request).map(drop)
        })
    }),
    ("wait-any-of-any", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut requests = [scope.irecv(&mut a, from_any().tag(TAG))?];
            scope.wait_any(&mut requests).map(drop)
        })
    }),
    ("wait-any-named", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut requests = [scope.irecv(&mut a, from(1).tag(TAG))?];
            scope.wait_any(&mut requests).map(drop)
        })
    }),
    ("time", |world| {
        let before = world.time()?;
        assert!(world.time()? >= before, "the time goes back");
        Ok(())
    }),
    ("wait-some", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut requests = [scope.irecv(&mut a, from(1).tag(TAG))?];
            scope.wait_some(&mut requests).map(drop)
        })
    }),
    ("test-until", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut request = scope.irecv(&mut a, from(1).tag(TAG))?;
            while scope.test(&mut request)?.is_none() {}
            Ok(())
        })
    }),
    ("test-any-until", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut requests = [scope.irecv(&mut a, from(1).tag(TAG))?];
            while scope.test_any(&mut requests)?.is_none() {}
            Ok(())
        })
    }),
    ("test-some-until", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut requests = [scope.irecv(&mut a, from(1).tag(TAG))?];
            while scope.test_some(&mut requests)?.is_empty() {}
            Ok(())
        })
    }),
    ("test-all-until", |world| {
        order(world, 1)?;
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut requests = [scope.irecv(&mut a, from(1).tag(TAG))?];
            while scope.test_all(&mut requests)?.is_none() {}
            Ok(())
        })
    }),
    ("test-send-done", |world| {
        world.scope(|scope| {
            let mut request = scope.isend(&[0; 8], to(1).tag(ORDER + 1))?;
            scope.test(&mut request).map(drop)
        })
    }),
    ("test-in-vain", |world| {
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut request = scope.irecv(&mut a, from(1).tag(TAG))?;
            for _ in 0..3 {
                assert!(scope.test(&mut request)?.is_none());
            }
            // The request makes rank 1 send: its message must not overtake the found one.
            scope.send_order(1)?;
            scope.wait(&mut request).map(drop)
        })
    }),
    ("probe", |world| {
        order(world, 1)?;
        world.probe(from(1).tag(TAG))?;
        world.recv(&mut [0; 8], from(1).tag(TAG)).map(drop)
    }),
    ("iprobe-until", |world| {
        order(world, 1)?;
        while world.iprobe(from_any().tag(TAG))?.is_none() {}
        world.recv(&mut [0; 8], from(1).tag(TAG)).map(drop)
    }),
    ("iprobe-in-vain", |world| {
        assert!(world.iprobe(from(1).tag(TAG))?.is_none());
        Ok(())
    }),
    ("mprobe", |world| {
        order(world, 1)?;
        let message = world.mprobe(from_any().tag(TAG))?;
        world.mrecv(&mut [0; 8], message).map(drop)
    }),
    ("improbe-until", |world| {
        order(world, 1)?;
        let message = loop {
            if let Some(message) = world.improbe(from_any().tag(TAG))? {
                break message;
            }
        };
        world.mrecv(&mut [0; 8], message).map(drop)
    }),
    ("cancel-in-time", |world| {
        let mut a = [0; 8];
        world.scope(|scope| {
            let mut request = scope.irecv(&mut a, from(1).tag(TAG))?;
            scope.cancel(&mut request)?;
            assert!(scope.wait(&mut request)?.cancelled);
            Ok(())
        })
    }),
    ("cancel-too-late", |world| {
        order(world, 2)?;
        let (mut a, mut b) = ([0; 8], [0; 8]);
        world.scope(|scope| {
            let mut first = scope.irecv(&mut a, from(1).tag(TAG))?;
            let mut second = scope.irecv(&mut b, from(1).tag(TAG))?;
            // Messages of one channel arrive in order.
            scope.wait(&mut second)?;
            scope.cancel(&mut first)?;
            assert!(!scope.wait(&mut first)?.cancelled);
            Ok(())
        })
    }),
];

/// Operations of a scope besides its requests.
trait Order {
    fn send_order(&mut self, messages: u8) -> Result<(), Error>;
}

impl Order for refrain::Scope<'_, '_> {
    fn send_order(&mut self, messages: u8) -> Result<(), Error> {
        self.world().send(&[messages], to(1).tag(ORDER))
    }
}

fn order(world: &mut World, messages: u8) -> Result<(), Error> {
    world.send(&[messages], to(1).tag(ORDER))
}

fn table(mut world: World) -> Result<(), Error> {
    if world.rank().0 == 0 {
        for (name, row) in ROWS {
            let before = world.statistics().logged;
            row(&mut world)?;
            // A send flushes outcomes that are only counted.
            order(&mut world, 0)?;
            println!(
                "{name}: {}",
                difference(&before, &world.statistics().logged)
            );
        }
        order(&mut world, u8::MAX)?;
    } else {
        loop {
            let mut messages = [0];
            world.recv(&mut messages, from(0).tag(ORDER))?;
            if messages[0] == u8::MAX {
                break;
            }
            for _ in 0..messages[0] {
                world.send(&[7; 8], to(0).tag(TAG))?;
            }
        }
        world.recv(&mut [0; 8], from(0).tag(ORDER + 1))?;
    }
    world.finalize()
}

fn difference(before: &EventStatistics, after: &EventStatistics) -> String {
    let counts = |of: &EventStatistics| {
        [
            ("match", of.matches),
            ("merged", of.merged),
            ("named", of.named),
            ("complete", of.completions),
            ("cancel", of.cancelled),
            ("probe", of.probes),
            ("given", of.given),
            ("nothing", of.nothing),
        ]
    };
    let (before, after) = (counts(before), counts(after));
    let pairs = before.iter().zip(after);
    let texts: Vec<String> = pairs
        .filter(|((_, before), (_, after))| after > before)
        .map(|((name, before), (_, after))| format!("{name} {}", after - before))
        .collect();
    texts.join(", ")
}

/// Rank 0 receives messages from any source and answers them, a number of times; each answer
/// depends on all receptions before it.
fn rounds(mut world: World, rounds: u64) -> Result<(), Error> {
    let (rank, peers) = (world.rank().0, u64::from(world.size() - 1));
    println!("begun {rank}");
    let mut word = [0; 8];
    let mut digest = 0_u64;
    if rank == 0 {
        for round in 0..rounds * peers {
            let status = world.recv(&mut word, from_any())?;
            let source = status.source.0;
            digest = digest.rotate_left(5) ^ u64::from_le_bytes(word) ^ u64::from(source);
            world.send(&digest.to_le_bytes(), to(source))?;
            if round == rounds * peers / 4 {
                println!("a quarter");
            }
        }
    } else {
        for round in 0..rounds {
            world.send(&(round * 31 + u64::from(rank)).to_le_bytes(), to(0))?;
            world.recv(&mut word, from(0))?;
        }
    }
    println!("done {rank}");
    world.finalize()
}

/// A call of `rounds` on another thread: the world is moved there and back.
fn elsewhere(
    mut world: World,
    call: impl FnOnce(&mut World) -> Result<(), Error> + Send,
) -> Result<World, Error> {
    std::thread::scope(|threads| {
        let thread = threads.spawn(move || call(&mut world).map(|()| world));
        thread.join().expect("calls do not panic")
    })
}

/// As `rounds`, but another thread makes each call.
fn wander(mut world: World, rounds: u64) -> Result<(), Error> {
    let (rank, peers) = (world.rank().0, u64::from(world.size() - 1));
    let mut word = [0; 8];
    for _ in 0..rounds * if rank == 0 { peers } else { 1 } {
        if rank == 0 {
            let mut source = 0;
            world = elsewhere(world, |world| {
                source = world.recv(&mut word, from_any())?.source.0;
                Ok(())
            })?;
            world = elsewhere(world, |world| world.send(&word, to(source)))?;
        } else {
            let mut answer = [0; 8];
            word = (rounds + u64::from(rank)).to_le_bytes();
            world = elsewhere(world, |world| world.send(&word, to(0)))?;
            world = elsewhere(world, |world| world.recv(&mut answer, from(0)).map(drop))?;
            assert_eq!(answer, word);
        }
    }
    println!("done {rank}");
    elsewhere(world, |_| Ok(()))?.finalize()
}

/// Rank 0 answers its peers in the order of their requests; after `rounds` of them it waits,
/// without a call of the library, for the file `go`, and repeats the same.
fn pause(mut world: World, rounds: u64) -> Result<(), Error> {
    let folder = PathBuf::from(std::env::var("REFRAIN_TEST_FOLDER").expect("a folder"));
    let (rank, peers) = (world.rank().0, u64::from(world.size() - 1));
    let mut word = [0; 8];
    for round in 0..2 * rounds * if rank == 0 { peers } else { 1 } {
        if rank > 0 {
            world.send(&round.to_le_bytes(), to(0))?;
            world.recv(&mut word, from(0))?;
            continue;
        }
        if round == rounds * peers {
            println!("paused {}", std::process::id());
            while !folder.join("go").exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let status = world.recv(&mut word, from_any())?;
        world.send(&round.to_le_bytes(), to(status.source.0))?;
    }
    println!("done {rank}");
    world.finalize()
}

/// Rank 0 prints a line that depends on an event, and sends nothing. Rank 1 reports when that has
/// happened.
fn print(mut world: World) -> Result<(), Error> {
    let folder = PathBuf::from(std::env::var("REFRAIN_TEST_FOLDER").expect("a folder"));
    if world.rank().0 == 0 {
        println!("before");
        world.recv(&mut [0; 8], from_any())?;
        println!("after");
        std::fs::write(folder.join("printed"), "").expect("a file");
        world.recv(&mut [0; 8], from(1))?;
    } else {
        println!("ready");
        wait_for(&mut world, &folder.join("go"))?;
        world.send(&[1; 8], to(0))?;
        wait_for(&mut world, &folder.join("printed"))?;
        println!("printed");
        wait_for(&mut world, &folder.join("end"))?;
        world.send(&[1; 8], to(0))?;
    }
    world.finalize()
}

/// Waits until the test lets it continue; messages are sent meanwhile.
fn wait_for(world: &mut World, file: &Path) -> Result<(), Error> {
    while !file.exists() {
        world.progress()?;
        std::thread::yield_now();
    }
    Ok(())
}
