//! Ends of all kinds: a fenced client, a killed logger.

use crate::client;
use crate::harness::{Batches, RingFile, Setup, place, take, until, with_every_provider};
use refrain_eventlog::remote::{RemoteError, RemoteWriter};
use refrain_eventlog::ring::Cursor;
use std::time::{Duration, Instant};

/// A provider that has reported no failure by then never does: the caller must
/// suspect the death by itself.
const SILENCE: Duration = Duration::from_secs(2);

/// The outcome of an attempt to write what must not be taken.
enum Outcome {
    Error(RemoteError),
    Silence,
    /// It counts as placed.
    Completed,
}

/// Writes to a target that must not take it.
fn writes_in_vain(writer: &mut RemoteWriter, batches: &mut Batches) -> Outcome {
    let placed = writer.poll().unwrap();
    let begin = Instant::now();
    let mut is_written = false;
    while begin.elapsed() < SILENCE {
        if !is_written {
            match writer.write(&batches.of(100)) {
                Ok(written) => is_written = written.is_ok(),
                Err(error) => return Outcome::Error(error),
            }
        }
        match writer.poll() {
            Ok(now) if now == placed => {}
            Ok(_) => return Outcome::Completed,
            Err(error) => return Outcome::Error(error),
        }
        std::thread::yield_now();
    }
    Outcome::Silence
}

impl core::fmt::Display for Outcome {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Error(error) => write!(f, "{error}"),
            Self::Silence => write!(f, "says nothing within {SILENCE:?}"),
            Self::Completed => write!(f, "COMPLETES AS IF IT WERE THERE"),
        }
    }
}

/// FENCE-1: after the revocation no byte changes, whatever the fenced client
/// does; its successor has a ring and a key of its own.
#[test]
fn a_fenced_client_changes_nothing() {
    with_every_provider(fence_a_client);
}

pub fn fence_a_client(setup: &Setup) {
    let folder = tempfile::tempdir().unwrap();
    let mut logger = setup.logger();
    let old = RingFile::create(folder.path(), 0);
    let mut fenced = setup.writer(&logger.register(&old.path));
    let mut batches = Batches::new(old.identity);
    for _ in 0..5 {
        place(&mut fenced, &batches.any());
    }
    logger.revoke(0);
    let before = old.all_bytes();
    let new = RingFile::create(folder.path(), 1);
    let mut successor = setup.writer(&logger.register(&new.path));
    let mut successors = Batches::new(new.identity);
    place(&mut successor, &successors.any());
    let both = new.all_bytes();
    let outcome = writes_in_vain(&mut fenced, &mut batches);
    println!("  fenced: {outcome}");
    if setup.is_believed() {
        assert!(matches!(outcome, Outcome::Error(_)), "FENCE-1: {outcome}");
    }
    assert!(old.all_bytes() == before, "FENCE-1: the ring has changed");
    assert!(new.all_bytes() == both, "FENCE-1: the successor's has");
    if let Outcome::Error(_) = outcome {
        // An error is permanent.
        assert!(fenced.poll().is_err() && fenced.write(&batches.of(1)).is_err());
    }
    // The successor is not affected.
    for _ in 0..5 {
        place(&mut successor, &successors.any());
    }
    let mut reader = new.reader();
    let taken = core::iter::from_fn(|| take(&mut reader)).count();
    assert_eq!((taken, reader.position()), (6, successor.position()));
}

/// EL-3: what a killed logger had acknowledged is in its ring's file. The writer
/// learns of its death, or hears nothing and the caller suspects; what is written
/// after it is never acknowledged. Another logger then takes the same again.
#[test]
fn a_killed_logger_has_what_it_acknowledged() {
    with_every_provider(kill_a_logger);
}

pub fn kill_a_logger(setup: &Setup) {
    for is_in_the_middle in [false, true] {
        if setup.provider == "shm" && is_in_the_middle {
            println!(
                "  skipped a kill in the middle: shm leaves locks behind (docs/design/event-remote.md)"
            );
            continue;
        }
        kill(setup, is_in_the_middle);
    }
}

fn kill(setup: &Setup, is_in_the_middle: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut logger = setup.logger();
    let ring = RingFile::create(folder.path(), 0);
    let mut writer = setup.writer(&logger.register(&ring.path));
    let mut batches = Batches::new(ring.identity);
    let mut written = vec![batches.any()];
    place(&mut writer, &written[0]);
    let mut placed = writer.position();
    if is_in_the_middle {
        for _ in 0..40 {
            written.push(batches.any());
            writer.write(written.last().unwrap()).unwrap().unwrap();
            placed = writer.poll().unwrap();
        }
    } else {
        logger.pause();
    }
    logger.kill();
    let written_to_the_living = written.len();
    // Completions that had left the logger before it died may still come in.
    let begin = Instant::now();
    let mut outcome = Outcome::Silence;
    while begin.elapsed() < SILENCE && matches!(outcome, Outcome::Silence) {
        if written.len() < 45 {
            let batch = batches.any();
            match writer.write(&batch) {
                Ok(taken) => {
                    taken.expect("there is room");
                    written.push(batch);
                }
                Err(error) => outcome = Outcome::Error(error),
            }
        }
        match writer.poll() {
            Ok(now) => placed = now,
            Err(error) => outcome = Outcome::Error(error),
        }
    }
    println!(
        "  killed{}: {outcome}",
        if is_in_the_middle {
            " in the middle"
        } else {
            ""
        },
    );
    drop(writer);
    let mut reader = ring.reader();
    let mut taken = Vec::new();
    while let Some(batch) = take(&mut reader) {
        taken.push(batch);
    }
    assert!(reader.position() >= placed, "EL-3: acknowledged, and lost");
    assert!(written.starts_with(&taken), "read what was not written");
    assert!(taken.len() <= written_to_the_living, "a dead logger takes");
    assert!(is_in_the_middle || taken.len() == 1, "it did not look");

    // A logger that starts again drains the ring, then gives a new one. It has
    // no need to know which of the batches the client sends again.
    let mut logger = setup.logger();
    let again = RingFile::create(folder.path(), 1);
    let mut writer = setup.writer(&logger.register(&again.path));
    for batch in &written {
        writer.write(batch).unwrap().expect("there is room");
    }
    let end = writer.position();
    until("all to be placed", || {
        (writer.poll().unwrap() == end).then_some(())
    });
    let mut at = Cursor::default();
    for batch in &written {
        assert!(again.bytes_at(at, batch.len()) == *batch);
        at = at.after(batch.len());
    }
}

/// Clients killed in the middle of their writes: the logger and other clients continue.
#[test]
fn killed_clients_disturb_nobody() {
    with_every_provider(|setup| {
        if setup.provider == "shm" {
            println!("  skipped: shm leaves locks behind (docs/design/event-remote.md)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let mut writer = setup.writer(&logger.register(&ring.path));
        let mut batches = Batches::new(ring.identity);
        let mut reader = ring.reader();
        for life in 1..4 {
            let theirs = RingFile::create(folder.path(), life);
            let remote = logger.register(&theirs.path);
            let mut victim = client::start(setup, &remote);
            // The last of its ring has been written: it is in full swing.
            let last = Cursor(refrain_eventlog::ring::DATA_BYTES as u64 - 4096);
            until("the victim to write", || {
                (theirs.bytes_at(last, 8) != [0; 8]).then_some(())
            });
            victim.kill().unwrap();
            victim.wait().unwrap();
            for _ in 0..20 {
                let batch = batches.any();
                place(&mut writer, &batch);
                assert!(take(&mut reader) == Some(batch));
                writer.consumed(reader.position()).unwrap();
            }
            logger.revoke(life as usize);
        }
    });
}
