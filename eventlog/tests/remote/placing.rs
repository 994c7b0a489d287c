//! Acknowledged batches are in the ring, in order, lap after lap.

use crate::harness::{Batches, End, RingFile, Setup, port, take, until, with_every_provider};
use refrain_eventlog::remote::{Delivery, RemoteWriter};
use refrain_eventlog::ring::{Cursor, DATA_BYTES, Full};
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use std::collections::VecDeque;

const LAPS: u64 = 4;

/// EL-1: at the moment in which the writer says so, every byte is looked at in
/// the logger's memory. The reader then takes the same batches in order; room is
/// used again only after it was consumed.
#[test]
fn what_is_acknowledged_lies_in_the_ring_bit_by_bit() {
    with_every_provider(place_lap_after_lap);
}

pub fn place_lap_after_lap(setup: &Setup) {
    let folder = tempfile::tempdir().unwrap();
    let mut logger = setup.logger();
    let ring = RingFile::create(folder.path(), 3);
    let mut writer = setup.writer(&logger.register(&ring.path));
    let mut reader = ring.reader();
    let mut batches = Batches::new(ring.identity);
    let mut under_way: VecDeque<(Cursor, Vec<u8>)> = VecDeque::new();
    let mut placed: VecDeque<Vec<u8>> = VecDeque::new();
    let mut next = batches.any();
    let (mut fulls, mut count) = (0, 0);
    while writer.position().0 < LAPS * DATA_BYTES as u64 || !under_way.is_empty() {
        let at = writer.position();
        let is_done = at.0 >= LAPS * DATA_BYTES as u64;
        if !is_done {
            match writer.write(&next).unwrap() {
                Ok(()) => under_way.push_back((at, std::mem::replace(&mut next, batches.any()))),
                Err(Full) => fulls += 1,
            }
        }
        let is_full = writer.position() == at;
        let before = under_way.len();
        let end = until("a place in order", || {
            let end = writer.poll().unwrap();
            let has_moved = under_way.front().is_none_or(|(at, _)| end > *at);
            (!is_full && !is_done || has_moved).then_some(end)
        });
        while under_way.front().is_some_and(|(at, _)| *at < end) {
            let (at, batch) = under_way.pop_front().unwrap();
            assert!(ring.bytes_at(at, batch.len()) == batch, "EL-1: not there");
            placed.push_back(batch);
            count += 1;
        }
        if is_full && before == 0 {
            // All of it, or half of it.
            let half = placed.len() / (1 + fulls % 2);
            for batch in placed.drain(..half) {
                assert!(take(&mut reader).as_ref() == Some(&batch), "in order");
            }
            writer.consumed(reader.position()).unwrap();
        }
    }
    for batch in placed {
        assert!(take(&mut reader).as_ref() == Some(&batch), "in order");
    }
    assert_eq!(take(&mut reader), None);
    assert_eq!(reader.position(), writer.position());
    assert!(fulls > 1, "the ring was never full");
    println!("  {count} batches, {fulls} times full");
}

/// A logger that does not poll: the provider takes no more writes at some point. No batch
/// is lost or repeated, and waiting batches go out in order.
#[test]
fn a_logger_that_does_not_look_costs_nothing_but_time() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let mut writer = setup.writer(&logger.register(&ring.path));
        let mut reader = ring.reader();
        let mut batches = Batches::new(ring.identity);
        for round in 0..3 {
            logger.pause();
            let mut written = Vec::new();
            loop {
                let batch = batches.of(if round == 1 { 900 } else { 16 });
                match writer.write(&batch).unwrap() {
                    Ok(()) => written.push(batch),
                    Err(Full) => break,
                }
            }
            let while_paused = writer.poll().unwrap();
            logger.resume();
            let end = writer.position();
            until("all to be placed", || {
                (writer.poll().unwrap() == end).then_some(())
            });
            assert_eq!(writer.write(&written[0]).unwrap(), Err(Full));
            for batch in &written {
                assert!(take(&mut reader).as_ref() == Some(batch), "in order");
            }
            writer.consumed(reader.position()).unwrap();
            println!(
                "  {} batches, {} bytes placed while it did not look",
                written.len(),
                while_paused.0
            );
            // The batch that found no room was not taken.
            batches = Batches::new(refrain_eventlog::ring::RingIdentity {
                start: reader.expected(),
                ..ring.identity
            });
        }
    });
}

/// A writer that is polled connects, though it has nothing to write: the logger forgets a
/// client that greets and then is silent.
#[test]
fn a_writer_connects_without_a_batch() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let mut writer = setup.writer(&logger.register(&ring.path));
        until("a connection", || {
            assert_eq!(writer.poll().unwrap(), Cursor(0));
            writer.is_connected().then_some(())
        });
    });
}

/// The server cannot have stored bytes that were not written; old positions have no effect.
#[test]
fn what_was_never_written_is_not_consumed() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let mut writer = setup.writer(&logger.register(&ring.path));
        let batch = Batches::new(ring.identity).of(16);
        crate::harness::place(&mut writer, &batch);
        writer.consumed(Cursor(64)).unwrap();
        writer.consumed(Cursor(0)).unwrap();
        let error = writer.consumed(Cursor(128)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the logger says that it has stored the ring up to byte 128, but only 64 bytes were written"
        );
        for wrong in [vec![], vec![0; BATCH_BYTES_MAX + 1]] {
            let error = writer.write(&wrong).unwrap_err();
            let bytes = format!("a batch of {} bytes", wrong.len());
            assert!(error.to_string().starts_with(&bytes), "{error}");
        }
        assert_eq!(writer.position(), Cursor(64));
    });
}

/// Completions of a provider that was not measured are not trusted.
#[test]
fn unknown_providers_are_for_messages() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let remote = logger.register(&ring.path);
        let port = port(&setup.provider, End::Client);
        let library = Some(setup.library.as_path());
        let open =
            |delivery| RemoteWriter::open(library, &setup.provider, &port, &remote, delivery);
        // All that this goes through, but for `shm`.
        assert_eq!(setup.is_believed(), setup.provider != "shm");
        let error = open(Delivery::Unknown).unwrap_err();
        assert!(error.to_string().contains("commit by messages"), "{error}");
        let other = RemoteWriter::open(
            Some(&setup.library),
            "no-such-provider",
            &port,
            &remote,
            Delivery::Honoured,
        );
        let error = other.unwrap_err().to_string();
        assert!(error.contains(&setup.provider), "{error}");
    });
}
