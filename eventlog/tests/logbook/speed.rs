//! How fast it is: `cargo test --release -p refrain-eventlog --test logbook --
//! --ignored --nocapture`.

use super::{JOB, Which, options, serve};
use refrain_eventlog::logbook::{Logbook, LogbookOptions, Refusal};
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Io;
use std::time::Instant;

const RANKS: u32 = 16;

fn events_per_second(sync: bool, io: Io, count: u16, rounds: u64) -> (f64, String) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let options = LogbookOptions {
        continues: false,
        segment_bytes: LogbookOptions::SEGMENT_BYTES,
        ..options(sync, io)
    };
    let mut logbook = Logbook::open(folder.path(), options).expect("a folder");
    let mut batches = Vec::new();
    for round in 0..rounds {
        for rank in 0..RANKS {
            let first = round * u64::from(count);
            let which = Which {
                job: JOB,
                rank,
                incarnation: 0,
                first,
                count,
                first_clock: first,
                last_clock: first,
            };
            batches.push(which.bytes());
        }
    }
    for rank in 0..RANKS {
        logbook.hello(JOB, Rank(rank), Incarnation(0)).expect("new");
    }
    let start = Instant::now();
    for (number, batch) in batches.iter().enumerate() {
        while let Err(refused) = logbook.accept(JOB, batch) {
            assert!(matches!(refused, Refusal::Busy { .. }), "{refused}");
            logbook.progress().expect("a disk that works");
        }
        // As often as a server that drains rings calls it.
        if number % 64 == 63 {
            logbook.progress().expect("a disk that works");
        }
    }
    serve(&mut logbook);
    let seconds = start.elapsed().as_secs_f64();
    let events = batches.len() as f64 * f64::from(count);
    (events / seconds, logbook.io_name())
}

#[test]
#[ignore = "a measurement"]
fn events_per_second_of_each_way() {
    for (sync, io) in super::ways() {
        for (count, rounds) in [(64, 20_000), (1, 40_000)] {
            let (rate, name) = events_per_second(sync, io, count, rounds);
            println!("sync {sync}, {name}: batches of {count}: {rate:.2e} events/s");
        }
    }
}
