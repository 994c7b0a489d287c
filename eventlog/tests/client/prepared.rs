//! Commits of prepared batches: stable as any other, and invisible before
//! the commit.

use crate::batches::batch;
use crate::links::{OverRing, commit, firsts, over_messages};
use crate::scripted::{Clockwork, Scripted, connect, options};
use refrain_eventlog::Level;
use refrain_eventlog::client::Client;
use refrain_eventlog::message::ToLogger;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use std::time::Duration;
use tempfile::tempdir;

/// What [`commit`] would commit.
fn next(client: &Client, payload_bytes: usize) -> (BatchHeader, Vec<u8>) {
    let next = client.end();
    batch(0, next, 1, next.0 * 10, payload_bytes)
}

fn prepare(client: &mut Client) -> (BatchHeader, Vec<u8>) {
    let (header, bytes) = next(client, 30);
    client.prepare(&header, &bytes);
    (header, bytes)
}

/// EL-1, EL-2
#[test]
fn it_is_not_there_before_its_commit_and_stable_when_that_returns() {
    let mut over = OverRing::new(Level::Placed);
    for number in 0..20_000 {
        let (header, bytes) = prepare(&mut over.client);
        assert!(over.shared.drain().is_empty(), "only prepared");
        assert_eq!(over.client.end(), EventIndex(number));
        over.client.commit_prepared(&header, &bytes);
        assert_eq!(over.client.stable_end(), EventIndex(number + 1));
        assert_eq!(over.shared.drain(), [(EventIndex(number), bytes)]);
    }
}

#[test]
fn another_may_be_committed_instead() {
    let mut over = OverRing::new(Level::Placed);
    for number in 0..100 {
        prepare(&mut over.client);
        let other = over.commit(number as usize % 3 * 60 + 1);
        assert_eq!(over.shared.drain(), [(EventIndex(number), other)]);
    }
    // Nor is it taken for one that was prepared later.
    prepare(&mut over.client);
    over.commit(7);
    let (header, bytes) = next(&over.client, 30);
    over.client.commit_prepared(&header, &bytes);
    assert_eq!(firsts(&over.shared.drain()), [100, 101]);
    // The last that was prepared is what counts.
    let (header, earlier) = next(&over.client, 90);
    over.client.prepare(&header, &earlier);
    let (header, bytes) = prepare(&mut over.client);
    over.client.commit_prepared(&header, &bytes);
    assert_eq!(over.shared.drain(), [(EventIndex(102), bytes)]);
}

/// The server has looked for the last time between the two steps. EL-3
#[test]
fn in_a_ring_that_was_closed_it_is_not_stable_and_is_sent_again() {
    let mut over = OverRing::new(Level::Placed);
    over.commit(10);
    over.shared.drain();
    let (header, bytes) = prepare(&mut over.client);
    over.shared.reader.close();
    over.client.commit_prepared(&header, &bytes);
    assert_eq!(over.client.stable_end(), EventIndex(1));
    // While it is alone, prepared ones are kept as others are.
    let (later, later_bytes) = prepare(&mut over.client);
    over.client.commit_prepared(&later, &later_bytes);
    assert_eq!(over.client.stable_end(), EventIndex(1));
    over.await_hello();
    over.rejoin(1, 0);
    assert_eq!(over.client.stable_end(), EventIndex(3));
    let placed = [(EventIndex(1), bytes), (EventIndex(2), later_bytes)];
    assert_eq!(over.shared.drain(), placed);
}

/// A batch prepared in one ring does not count as prepared in the next.
#[test]
fn a_ring_that_came_between_gets_all_of_it() {
    let mut over = OverRing::new(Level::Placed);
    over.commit(10);
    over.shared.drain();
    let (header, bytes) = prepare(&mut over.client);
    over.hang_up();
    over.await_hello();
    over.rejoin(1, 0);
    over.client.commit_prepared(&header, &bytes);
    assert_eq!(over.client.stable_end(), EventIndex(2));
    assert_eq!(over.shared.drain(), [(EventIndex(1), bytes)]);
}

/// Both of two have it, though one was closed meanwhile.
#[test]
fn one_of_two_rings_that_was_closed_gets_it_when_it_is_back() {
    let folder = tempdir().unwrap();
    let loggers = [0, 1].map(|index| Scripted::listen(folder.path(), index));
    let (client, mut shared) = connect(options(&[&loggers[0], &loggers[1]], 2), || {
        [0, 1].map(|index: usize| {
            let mut joined = loggers[index].accept();
            let shared = loggers[index].share(&mut joined, 0, 0);
            (joined, shared)
        })
    });
    let mut client = client.unwrap();
    let (header, bytes) = prepare(&mut client);
    shared[1].1.reader.close();
    client.commit_prepared(&header, &bytes);
    assert_eq!(client.stable_end(), EventIndex(0), "one of two");
    assert_eq!(shared[0].1.drain(), [(EventIndex(0), bytes.clone())]);
    client.check();
    let mut clockwork = Clockwork(Duration::ZERO);
    clockwork.poll(&mut client);
    let mut joined = loggers[1].accept();
    let mut again = loggers[1].share(&mut joined, 0, 0);
    clockwork.poll_until(&mut client, |client| client.stable_end() == EventIndex(1));
    assert_eq!(again.drain(), [(EventIndex(0), bytes)]);
}

#[test]
fn over_messages_it_goes_as_any_other() {
    let (mut client, mut loggers, _folder) = over_messages(1, 1, Level::Placed);
    let (header, bytes) = prepare(&mut client);
    client.commit_prepared(&header, &bytes);
    let later = commit(&mut client, 20);
    let (_, joined) = &mut loggers[0];
    for batch in [bytes, later] {
        Clockwork(Duration::ZERO).poll(&mut client);
        assert_eq!(joined.hear(), ToLogger::Commit { batch });
    }
}
