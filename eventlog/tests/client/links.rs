//! Joining, committing and losing, against scripted loggers.

use crate::batches::{JOB, RANK, batch};
use crate::scripted::{Clockwork, Joined, Scripted, Shared, connect, options};
use refrain_eventlog::client::{Client, ClientError};
use refrain_eventlog::message::{CommitPath, PROTOCOL, ToClient, ToLogger};
use refrain_eventlog::ring::{DATA_BYTES, RingIdentity};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_wire::Protocol;
use std::time::Duration;
use tempfile::{TempDir, tempdir};

/// A client of one logger over shared memory.
pub struct OverRing {
    pub client: Client,
    logger: Scripted,
    joined: Joined,
    pub shared: Shared,
    clockwork: Clockwork,
    _folder: TempDir,
}

impl OverRing {
    pub fn new(level: Level) -> Self {
        let folder = tempdir().unwrap();
        let logger = Scripted::listen(folder.path(), 0);
        let mut options = options(&[&logger], 1);
        options.level = level;
        let (client, (joined, shared)) = connect(options, || {
            let mut joined = logger.accept();
            let shared = logger.share(&mut joined, 0, 0);
            (joined, shared)
        });
        Self {
            client: client.unwrap(),
            logger,
            joined,
            shared,
            clockwork: Clockwork(Duration::ZERO),
            _folder: folder,
        }
    }

    pub fn commit(&mut self, payload_bytes: usize) -> Vec<u8> {
        commit(&mut self.client, payload_bytes)
    }

    pub fn hang_up(&self) {
        let stream = &self.joined.stream;
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// The client notices that it is alone, and says hello again.
    pub fn await_hello(&mut self) {
        self.client.check();
        self.clockwork.poll(&mut self.client);
        self.joined = self.logger.accept();
    }

    pub fn rejoin(&mut self, end: u64, clock: u64) {
        self.shared = self.logger.share(&mut self.joined, end, clock);
        self.clockwork
            .poll_until(&mut self.client, |client| client.live() == 1);
    }
}

/// Commits one determinant; its clock is ten times its number.
pub fn commit(client: &mut Client, payload_bytes: usize) -> Vec<u8> {
    let next = client.end();
    let (header, bytes) = batch(0, next, 1, next.0 * 10, payload_bytes);
    client.commit(&header, &bytes);
    bytes
}

pub fn firsts(taken: &[(EventIndex, Vec<u8>)]) -> Vec<u64> {
    taken.iter().map(|(first, _)| first.0).collect()
}

/// EL-1
#[test]
fn over_shared_memory_a_commit_is_stable_when_it_returns() {
    let mut over = OverRing::new(Level::Placed);
    assert_eq!(over.client.next(), EventIndex(0));
    assert_eq!(over.joined.hello.way, CommitPath::SharedMemory);
    assert_eq!(over.joined.hello.first_kept, EventIndex(0));
    let mut placed = Vec::new();
    for number in 0..3 * (DATA_BYTES as u64 / 64) {
        placed.push((EventIndex(number), over.commit(1 + number as usize % 300)));
        assert_eq!(over.client.stable_end(), EventIndex(number + 1));
        assert_eq!(over.client.explain(), None);
        if number % 100 == 0 {
            assert_eq!(over.shared.drain(), std::mem::take(&mut placed));
        }
    }
    assert_eq!(over.shared.drain(), placed);
    assert!(!over.client.needs_poll());
}

#[test]
fn the_server_is_rung_at_a_quarter_of_the_ring_and_not_before() {
    let mut over = OverRing::new(Level::Placed);
    let mut placed_bytes = 0;
    while placed_bytes + 4096 < DATA_BYTES / 4 {
        placed_bytes += over.commit(4096 - 48).len();
    }
    assert!(!over.shared.was_rung());
    over.commit(4096 - 48);
    assert!(over.shared.was_rung());
    over.commit(4096 - 48);
    assert!(!over.shared.was_rung());
}

#[test]
fn a_full_ring_shuts_the_gate_until_the_server_has_made_room() {
    let mut over = OverRing::new(Level::Placed);
    let fit = DATA_BYTES as u64 / 4096;
    let mut bytes = Vec::new();
    for _ in 0..fit + 10 {
        bytes.push(over.commit(4096 - 48));
    }
    assert_eq!(over.client.stable_end(), EventIndex(fit));
    let why = over.client.explain().expect("something is not stable");
    assert!(why.contains("has not confirmed"), "{why}");
    assert!(over.shared.was_rung());
    assert_eq!(over.clockwork.poll(&mut over.client), fit);
    let mut taken = over.shared.drain();
    assert_eq!(over.clockwork.poll(&mut over.client), fit + 10);
    taken.extend(over.shared.drain());
    let taken: Vec<_> = taken.into_iter().map(|(_, bytes)| bytes).collect();
    assert!(taken == bytes, "everything, once, in order");
    assert_eq!(over.client.explain(), None);
}

/// The server has looked for the last time: what is stored now does not count.
/// EL-3
#[test]
fn a_commit_into_a_closed_ring_is_not_stable_and_is_sent_again() {
    let mut over = OverRing::new(Level::Placed);
    over.commit(10);
    assert_eq!(firsts(&over.shared.drain()), [0]);
    over.shared.reader.close();
    over.commit(10);
    over.commit(10);
    assert_eq!(over.client.stable_end(), EventIndex(1));
    over.await_hello();
    assert_eq!(over.joined.hello.first_kept, EventIndex(1));
    over.rejoin(1, 0);
    assert_eq!(over.client.stable_end(), EventIndex(3));
    assert_eq!(firsts(&over.shared.drain()), [1, 2]);
}

/// A batch that was placed before any process noticed the server's death is found by the
/// next server; the client then continues behind it. EL-3
#[test]
fn what_a_dead_server_never_saw_is_in_its_ring_and_counts() {
    let mut over = OverRing::new(Level::Placed);
    drop(over.joined);
    for _ in 0..5 {
        commit(&mut over.client, 10);
    }
    assert_eq!(over.client.stable_end(), EventIndex(5));
    assert_eq!(firsts(&over.shared.drain()), [0, 1, 2, 3, 4]);
    over.client.check();
    assert_eq!(over.client.live(), 0, "the closed socket was seen");
    assert!(over.client.needs_poll());
    // Now the death is known: nothing more counts before the client has joined again.
    commit(&mut over.client, 10);
    assert_eq!(over.client.stable_end(), EventIndex(5));
    over.clockwork.poll(&mut over.client);
    let mut joined = over.logger.accept();
    assert_eq!(joined.hello.first_kept, EventIndex(5));
    let mut shared = over.logger.share(&mut joined, 5, 40);
    over.clockwork.poll_until(&mut over.client, |client| {
        client.stable_end() == EventIndex(6)
    });
    assert_eq!(firsts(&shared.drain()), [5]);
}

/// EL-3
#[test]
fn a_server_that_lost_what_was_placed_does_not_count_any_more() {
    let mut over = OverRing::new(Level::Placed);
    over.commit(10);
    over.commit(10);
    over.hang_up();
    over.await_hello();
    over.shared = over.logger.share(&mut over.joined, 1, 0);
    assert!(
        over.joined
            .has_hung_up_after(&mut over.client, &mut over.clockwork)
    );
    over.commit(10);
    let why = over.client.explain().expect("not stable");
    assert!(why.contains("lost acknowledged events"), "{why}");
}

#[test]
fn a_dead_server_is_noticed_when_a_quarter_of_the_ring_was_written() {
    let mut over = OverRing::new(Level::Placed);
    over.hang_up();
    for _ in 0..=DATA_BYTES / 4 / 4096 {
        over.commit(4096 - 48);
    }
    assert_eq!(over.client.live(), 0);
}

#[test]
fn a_durable_commit_is_stable_when_the_ring_says_so_and_wakes_a_sleeper() {
    let mut over = OverRing::new(Level::Durable);
    over.commit(10);
    over.commit(10);
    assert_eq!(over.clockwork.poll(&mut over.client), 0);
    assert!(!over.shared.was_rung(), "it does not sleep");
    over.shared.reader.set_sleeps(true);
    over.commit(10);
    assert!(over.shared.was_rung());
    over.shared.drain();
    over.shared.reader.tell_durable(EventIndex(2), Clock(10));
    assert_eq!(over.clockwork.poll(&mut over.client), 2);
    over.shared.reader.tell_durable(EventIndex(3), Clock(20));
    assert_eq!(over.clockwork.poll(&mut over.client), 3);
}

/// GATE-3
#[test]
fn a_ring_with_nonsense_is_not_believed() {
    for (end, clock) in [(2, 0), (1, 7)] {
        let mut over = OverRing::new(Level::Durable);
        over.commit(10);
        over.shared
            .reader
            .tell_durable(EventIndex(end), Clock(clock));
        assert_eq!(over.clockwork.poll(&mut over.client), 0);
        assert_eq!(over.client.live(), 0);
    }
}

pub fn over_messages(
    quorum: usize,
    loggers: usize,
    level: Level,
) -> (Client, Vec<(Scripted, Joined)>, TempDir) {
    let folder = tempdir().unwrap();
    let loggers: Vec<_> = (0..loggers as u32)
        .map(|index| Scripted::listen(folder.path(), index))
        .collect();
    let mut options = options(&loggers.iter().collect::<Vec<_>>(), quorum);
    options.way = Some(CommitPath::Messages);
    options.level = level;
    let (client, joined) = connect(options, || {
        let joined = loggers.iter().map(|logger| {
            let mut joined = logger.accept();
            joined.say(&logger.welcome(0, 0));
            joined
        });
        joined.collect::<Vec<_>>()
    });
    let mut client = client.unwrap();
    Clockwork(Duration::ZERO).poll_until(&mut client, |client| client.live() == loggers.len());
    (client, loggers.into_iter().zip(joined).collect(), folder)
}

/// GATE-2
#[test]
fn commits_as_messages_are_stable_when_they_are_acknowledged() {
    let (mut client, mut loggers, _folder) = over_messages(1, 1, Level::Placed);
    let mut clockwork = Clockwork(Duration::ZERO);
    let batches: Vec<_> = (0..200).map(|_| commit(&mut client, 1000)).collect();
    let (logger, joined) = &mut loggers[0];
    for (number, batch) in batches.iter().enumerate() {
        clockwork.poll(&mut client);
        let batch = batch.clone();
        assert_eq!(joined.hear(), ToLogger::Commit { batch });
        if number % 50 == 49 {
            let end = number as u64 + 1;
            joined.say(&joined.stable(logger.id, end, number as u64 * 10, Level::Placed));
            clockwork.poll_until(&mut client, |client| client.stable_end() == EventIndex(end));
        }
    }
    assert_eq!(client.explain(), None);
}

/// GATE-3: one field of an acknowledgement is wrong.
#[test]
fn a_wrong_acknowledgement_opens_no_gate_and_ends_the_connection() {
    let right = |logger: LoggerId| (logger, RANK.0, 0, 10, 2);
    type Fields = (LoggerId, u32, u32, u64, u64);
    let lies: [fn(&mut Fields); 5] = [
        |ack| ack.0.0 += 1,
        |ack| ack.1 += 1,
        |ack| ack.2 += 1,
        |ack| ack.3 += 1,
        |ack| ack.4 += 1,
    ];
    for (which, lie) in lies.iter().enumerate() {
        let (mut client, mut loggers, _folder) = over_messages(1, 1, Level::Placed);
        commit(&mut client, 10);
        commit(&mut client, 10);
        let (logger, joined) = &mut loggers[0];
        let mut said = right(logger.id);
        lie(&mut said);
        let (from, rank, incarnation, clock, end) = said;
        joined.say(&ToClient::Stable {
            logger: from,
            rank,
            incarnation,
            clock,
            end,
            level: Level::Placed,
        });
        Clockwork(Duration::ZERO).poll_until(&mut client, |client| client.live() == 0);
        assert_eq!(client.stable_end(), EventIndex(0), "lie {which}");
        assert!(client.explain().is_some());
    }
}

/// EL-1: placed is not durable.
#[test]
fn an_acknowledgement_of_less_than_asked_for_opens_no_gate() {
    let (mut client, mut loggers, _folder) = over_messages(1, 1, Level::Durable);
    let mut clockwork = Clockwork(Duration::ZERO);
    commit(&mut client, 10);
    let (logger, joined) = &mut loggers[0];
    joined.say(&joined.stable(logger.id, 1, 0, Level::Placed));
    clockwork.poll_until(&mut client, |client| {
        client
            .explain()
            .is_some_and(|why| why.contains("--level durable"))
    });
    assert_eq!(client.stable_end(), EventIndex(0));
    joined.say(&joined.stable(logger.id, 1, 0, Level::Durable));
    clockwork.poll_until(&mut client, |client| client.stable_end() == EventIndex(1));
}

#[test]
fn two_of_three_are_enough_and_one_is_not() {
    let (mut client, mut loggers, _folder) = over_messages(2, 3, Level::Placed);
    let mut clockwork = Clockwork(Duration::ZERO);
    commit(&mut client, 10);
    let ack = |(logger, joined): &mut (Scripted, Joined)| {
        joined.say(&joined.stable(logger.id, 1, 0, Level::Placed));
    };
    ack(&mut loggers[2]);
    for _ in 0..10 {
        assert_eq!(clockwork.poll(&mut client), 0);
    }
    // The one that has acknowledged dies: it has the event still.
    loggers.pop();
    clockwork.poll_until(&mut client, |client| client.live() == 2);
    ack(&mut loggers[0]);
    clockwork.poll_until(&mut client, |client| client.stable_end() == EventIndex(1));
}

#[test]
fn a_trim_is_told_again_to_those_who_join_later() {
    let mut over = OverRing::new(Level::Placed);
    over.client.trim(Clock(20));
    over.client.trim(Clock(10));
    let clocks = [over.joined.hear(), over.joined.hear()];
    assert_eq!(
        clocks,
        [ToLogger::Trim { clock: 20 }, ToLogger::Trim { clock: 10 }]
    );
    over.joined
        .stream
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    over.await_hello();
    over.rejoin(0, 0);
    assert_eq!(over.joined.hear(), ToLogger::Trim { clock: 20 });
}

#[test]
fn a_client_has_left_when_the_logger_says_that_it_stored_everything() {
    let mut over = OverRing::new(Level::Placed);
    over.commit(10);
    over.client.leave();
    assert!(!over.client.has_left());
    over.clockwork.poll(&mut over.client);
    assert_eq!(over.joined.hear(), ToLogger::Leave);
    assert!(over.shared.was_rung());
    assert!(!over.client.has_left());
    over.joined
        .say(&over.joined.stable(over.logger.id, 1, 0, Level::Placed));
    over.clockwork
        .poll_until(&mut over.client, Client::has_left);
}

fn refused(script: impl FnOnce(&Scripted, &mut Joined) + Send) -> ClientError {
    let folder = tempdir().unwrap();
    let logger = Scripted::listen(folder.path(), 0);
    let (client, ()) = connect(options(&[&logger], 1), || {
        let mut joined = logger.accept();
        script(&logger, &mut joined);
    });
    client.expect_err("refused")
}

fn assert_refused_because(error: &ClientError, words: &str) {
    assert!(matches!(error, ClientError::Refused { .. }), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn the_words_of_a_refusal_reach_the_caller() {
    let error = refused(|_, joined| {
        let reason = "incarnation 3 took over".to_owned();
        joined.say(&ToClient::Refused { reason });
    });
    assert_refused_because(&error, "incarnation 3 took over");
}

#[test]
fn another_version_is_refused() {
    let error = refused(|logger, joined| {
        let newer = Protocol {
            version: PROTOCOL.version + 1,
            ..PROTOCOL
        };
        joined.say_in(&newer, &logger.welcome(0, 0));
    });
    assert_refused_because(&error, "version");
}

#[test]
fn a_welcome_without_its_ring_is_refused() {
    let error = refused(|logger, joined| joined.say(&logger.welcome(0, 0)));
    assert_refused_because(&error, "no ring");
}

#[test]
fn the_ring_of_somebody_else_is_refused() {
    let right = |logger: &Scripted| RingIdentity {
        job: JOB,
        rank: RANK,
        incarnation: Incarnation(0),
        logger: logger.id,
        start: EventIndex(0),
    };
    let wrongs: [fn(&mut RingIdentity); 5] = [
        |ring| ring.job += 1,
        |ring| ring.rank = Rank(RANK.0 + 1),
        |ring| ring.incarnation.0 += 1,
        |ring| ring.logger.0 += 1,
        |ring| ring.start.0 += 1,
    ];
    for wrong in wrongs {
        let error = refused(|logger, joined| {
            let mut identity = right(logger);
            wrong(&mut identity);
            logger.share_as(joined, 0, 0, identity);
        });
        assert_refused_because(&error, "its ring is");
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let error = refused(|_, joined| {
        use std::io::Write;
        joined.stream.write_all(&[255; 100]).unwrap();
    });
    assert_refused_because(&error, "frame");
}

#[test]
fn nobody_there_is_said_with_addresses_and_reasons() {
    let folder = tempdir().unwrap();
    let logger = Scripted::listen(folder.path(), 0);
    let mut options = options(&[&logger], 1);
    options.connect_wait = Duration::from_millis(20);
    let address = logger.address.to_string();
    drop(logger);
    let error = Client::connect(options).expect_err("nobody");
    assert!(
        matches!(
            error,
            ClientError::NoQuorum {
                answered: 0,
                quorum: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains(&address), "{error}");
}
