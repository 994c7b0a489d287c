//! Clients of real event loggers that are killed.

use crate::batches::{JOB, RANK, batch};
use crate::process::{Process, poll_until, poll_until_stable, replicas};
use crate::scripted::PATIENCE;
use refrain_eventlog::Level;
use refrain_eventlog::client::read::{ReadError, ReadRequest, list, read_events};
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::message::CommitPath;
use refrain_logging::determinant::EventIndex;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation};
use std::time::Duration;
use tempfile::{TempDir, tempdir};

struct Shard {
    loggers: Vec<Process>,
    quorum: usize,
    level: Level,
    way: Option<CommitPath>,
    /// Batches committed by this life or an earlier one.
    committed: Vec<Vec<u8>>,
    incarnation: u32,
    clock: u64,
    _folder: TempDir,
}

impl Shard {
    /// All of them started.
    fn new(count: u32, quorum: usize) -> Self {
        let mut shard = Self::unstarted(count, quorum, Level::Placed, None, false);
        shard.loggers.iter_mut().for_each(Process::start);
        shard
    }

    fn unstarted(
        count: u32,
        quorum: usize,
        level: Level,
        way: Option<CommitPath>,
        over_tcp: bool,
    ) -> Self {
        let folder = tempdir().unwrap();
        Self {
            loggers: replicas(folder.path(), count, level, over_tcp),
            quorum,
            level,
            way,
            committed: Vec::new(),
            incarnation: 0,
            clock: 0,
            _folder: folder,
        }
    }

    fn addresses(&self) -> Vec<ServerAddress> {
        self.loggers
            .iter()
            .map(|logger| logger.address.clone())
            .collect()
    }

    fn options(&self) -> ClientOptions {
        ClientOptions {
            job: JOB,
            rank: RANK,
            incarnation: Incarnation(self.incarnation),
            loggers: self.addresses(),
            quorum: self.quorum,
            level: self.level,
            way: self.way,
            connect_wait: PATIENCE,
            libfabric: None,
            libibverbs: None,
            provider: None,
            verbs_port: Default::default(),
        }
    }

    fn connect(&self) -> Client {
        Client::connect(self.options()).unwrap()
    }

    /// Commits one determinant, in a batch of its own.
    fn commit(&mut self, client: &mut Client) {
        self.clock += 3;
        let bytes = 1 + (self.clock as usize * 7) % 500;
        let (header, bytes) = batch(self.incarnation, client.end(), 1, self.clock, bytes);
        client.commit(&header, &bytes);
        self.committed.push(bytes);
    }

    fn commit_many(&mut self, client: &mut Client, count: usize) {
        for _ in 0..count {
            self.commit(client);
        }
    }

    fn request(&self, from: u64, until: EventIndex) -> ReadRequest {
        ReadRequest {
            job: JOB,
            rank: RANK,
            from: EventIndex(from),
            after_clock: None,
            until,
            follows: None,
            quorum: self.quorum,
            timeout: PATIENCE,
        }
    }

    /// EL-3, EL-5: all of what was stable can be read, in order, bit-identical;
    /// nothing that was not written.
    fn check_read(&self, stable: EventIndex) {
        let row = read_events(&self.addresses(), &self.request(0, stable)).unwrap();
        let read: Vec<_> = row.batches().map(|(header, _)| header.first).collect();
        let wanted: Vec<_> = (0..row.end().0).map(EventIndex).collect();
        assert_eq!(read, wanted);
        assert!(row.end() >= stable);
        for ((header, payload), written) in row.batches().zip(&self.committed) {
            assert!(written.ends_with(payload), "{header:?}");
        }
        assert!(row.end().0 <= self.committed.len() as u64);
    }
}

#[test]
fn one_of_one_killed_and_restarted_lost_nothing() {
    let mut shard = Shard::new(1, 1);
    let mut client = shard.connect();
    let address = shard.loggers[0].address.clone();
    // The ring is never full: a client whose ring fills looks whether the logger lives, and when
    // it does so next is the same in each run.
    for end in (250..=5000).step_by(250) {
        shard.commit_many(&mut client, 250);
        poll_until(&mut client, |_| {
            list(&address, PATIENCE).unwrap()[0].end == end
        });
    }
    shard.loggers[0].kill();
    // The client has not noticed the death: batches placed now are in the ring, and count.
    shard.commit_many(&mut client, 20);
    let placed = client.stable_end();
    assert_eq!(placed, EventIndex(5020));
    client.check();
    assert_eq!(client.live(), 0);
    shard.commit_many(&mut client, 3000);
    assert_eq!(client.stable_end(), placed, "the gate is shut");
    shard.loggers[0].start();
    poll_until_stable(&mut client);
    shard.commit_many(&mut client, 3000);
    poll_until_stable(&mut client);
    shard.check_read(client.stable_end());
}

#[test]
fn logger_and_client_killed_together_lost_nothing_that_was_stable() {
    let mut shard = Shard::new(1, 1);
    let mut client = shard.connect();
    shard.commit_many(&mut client, 777);
    poll_until_stable(&mut client);
    shard.loggers[0].kill();
    // What a client's death leaves: its ring.
    drop(client);
    shard.loggers[0].start();
    // It sends its hello first, as recovering ranks do.
    shard.incarnation = 1;
    let client = shard.connect();
    assert_eq!(client.next(), EventIndex(777));
    shard.check_read(EventIndex(777));
}

#[test]
fn two_of_two_wait_for_the_one_that_was_killed() {
    let mut shard = Shard::new(2, 2);
    let mut client = shard.connect();
    shard.commit_many(&mut client, 100);
    poll_until_stable(&mut client);
    shard.loggers[1].kill();
    client.check();
    shard.commit_many(&mut client, 100);
    assert_eq!(client.stable_end(), EventIndex(100), "the gate is shut");
    let why = client.explain().expect("not stable");
    assert!(why.contains("1 of 2"), "{why}");
    shard.loggers[1].start();
    poll_until_stable(&mut client);
    for logger in &shard.loggers {
        let ranks = list(&logger.address, PATIENCE).unwrap();
        assert_eq!(ranks.len(), 1);
        assert_eq!(ranks[0].end, 200);
    }
    shard.check_read(EventIndex(200));
}

#[test]
fn three_go_on_when_one_is_killed_and_it_catches_up() {
    let mut shard = Shard::new(3, 2);
    let mut client = shard.connect();
    poll_until(&mut client, |client| client.live() == 3);
    for killed in [0, 2, 1] {
        shard.commit_many(&mut client, 500);
        shard.loggers[killed].kill();
        client.check();
        shard.commit_many(&mut client, 5000);
        poll_until_stable(&mut client);
        assert_eq!(client.live(), 2);
        shard.loggers[killed].start();
        poll_until(&mut client, |client| client.live() == 3);
    }
    shard.check_read(client.stable_end());
}

/// A replica that was never there, or has lost its disk.
#[test]
fn an_empty_replica_is_brought_up_to_date_and_then_counts() {
    let mut shard = Shard::unstarted(3, 2, Level::Placed, None, false);
    shard.loggers[0].start();
    shard.loggers[1].start();
    let mut client = shard.connect();
    shard.commit_many(&mut client, 4000);
    poll_until_stable(&mut client);
    shard.loggers[2].start();
    poll_until(&mut client, |client| client.live() == 3);
    shard.loggers[0].kill();
    client.check();
    shard.commit_many(&mut client, 10);
    poll_until_stable(&mut client);
    // It alone has everything now.
    let only = [shard.loggers[2].address.clone()];
    let row = read_events(&only, &shard.request(0, EventIndex(4010))).unwrap();
    assert_eq!(row.end(), EventIndex(4010));
    // The first comes back without its disk.
    shard.loggers[0].lose_folder();
    shard.loggers[0].start();
    poll_until(&mut client, |client| client.live() == 3);
    shard.loggers[1].kill();
    client.check();
    shard.commit_many(&mut client, 10);
    poll_until_stable(&mut client);
    shard.check_read(EventIndex(4020));
}

/// EL-3: R = 1 and its disk is gone.
#[test]
fn a_single_logger_without_its_folder_is_refused_loudly() {
    let mut shard = Shard::new(1, 1);
    let mut client = shard.connect();
    shard.commit_many(&mut client, 10);
    poll_until_stable(&mut client);
    shard.loggers[0].kill();
    shard.loggers[0].lose_folder();
    client.check();
    shard.commit(&mut client);
    shard.loggers[0].start();
    poll_until(&mut client, |client| {
        client
            .explain()
            .is_some_and(|why| why.contains("were acknowledged"))
    });
    assert_eq!(client.stable_end(), EventIndex(10));
}

/// FENCE-1: batches of a fenced life never count.
#[test]
fn a_life_that_was_replaced_commits_nothing_more() {
    for count in [1, 3] {
        let mut shard = Shard::new(count, count as usize / 2 + 1);
        let mut dead = shard.connect();
        shard.commit_many(&mut dead, 10);
        poll_until_stable(&mut dead);
        shard.incarnation = 1;
        let mut alive = shard.connect();
        assert_eq!(alive.next(), EventIndex(10));
        let (header, bytes) = batch(0, dead.end(), 1, 1000, 10);
        dead.commit(&header, &bytes);
        for _ in 0..20 {
            assert_eq!(dead.poll(), EventIndex(10));
        }
        shard.commit_many(&mut alive, 10);
        poll_until_stable(&mut alive);
        shard.check_read(EventIndex(20));
    }
}

/// EL-5: what a clock covers need not be read.
#[test]
fn events_are_read_after_a_clock_or_a_number() {
    let mut shard = Shard::new(1, 1);
    let mut client = shard.connect();
    shard.commit_many(&mut client, 100);
    poll_until_stable(&mut client);
    let mut request = shard.request(40, EventIndex(100));
    let read = |request: &ReadRequest| {
        let row = read_events(&shard.addresses(), request).unwrap();
        let first = row.batches().next().map(|(header, _)| header.first.0);
        (first, row.batches().count(), row.end().0)
    };
    assert_eq!(read(&request), (Some(40), 60, 100));
    request.after_clock = Some(Clock(3 * 70));
    assert_eq!(read(&request), (Some(70), 30, 100));
    request.after_clock = Some(Clock(3 * 100));
    assert_eq!(read(&request), (None, 0, 100));
    request.until = EventIndex(101);
    let error = read_events(&shard.addresses(), &request).expect_err("not that many");
    assert!(matches!(error, ReadError::Incomplete { .. }), "{error}");
}

/// A log that is long at one replica only was never stable; one replica alone
/// does not show that.
#[test]
fn too_few_replicas_give_no_events() {
    let mut shard = Shard::new(3, 2);
    let mut client = shard.connect();
    // A quorum is there; the one that lives on has to know the rank, too.
    poll_until(&mut client, |client| client.live() == 3);
    shard.commit_many(&mut client, 10);
    poll_until_stable(&mut client);
    shard.loggers[0].kill();
    shard.loggers[1].kill();
    let mut request = shard.request(0, EventIndex(0));
    request.timeout = Duration::from_millis(100);
    let error = read_events(&shard.addresses(), &request).expect_err("one of three");
    assert!(
        matches!(
            error,
            ReadError::TooFew {
                answered: 1,
                needed: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_client_that_leaves_has_everything_in_the_files() {
    for way in [CommitPath::SharedMemory, CommitPath::Messages] {
        let mut shard = Shard::unstarted(1, 1, Level::Placed, Some(way), false);
        shard.loggers[0].start();
        let mut client = shard.connect();
        shard.commit_many(&mut client, 300);
        client.leave();
        poll_until(&mut client, Client::has_left);
        shard.check_read(EventIndex(300));
    }
}

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// Loggers die and come back at random, a majority or not; the rank dies, too.
fn live_dangerously(seed: u64, mut shard: Shard, steps: u32) {
    println!("seed {seed}");
    let mut dice = Dice(seed);
    shard.loggers.iter_mut().for_each(Process::start);
    let mut client = shard.connect();
    let mut stable = EventIndex(0);
    for _ in 0..steps {
        let which = dice.roll(shard.loggers.len() as u64) as usize;
        match dice.roll(12) {
            0 | 1 if shard.loggers[which].is_running() => shard.loggers[which].kill(),
            0..4 if !shard.loggers[which].is_running() => shard.loggers[which].start(),
            4 => {
                start_all(&mut shard);
                poll_until_stable(&mut client);
            }
            5 if dice.roll(3) == 0 => {
                start_all(&mut shard);
                stable = client.stable_end();
                drop(client);
                shard.incarnation += 1;
                client = shard.connect();
                assert!(client.next() >= stable, "EL-3");
                shard.check_read(client.next());
                shard.committed.truncate(client.next().0 as usize);
            }
            6 => client.check(),
            _ => {
                let count = dice.roll(400) as usize;
                for _ in 0..count {
                    shard.commit(&mut client);
                    if dice.roll(20) == 0 {
                        client.poll();
                    }
                }
            }
        }
        assert!(client.stable_end() >= stable || client.next() >= stable);
    }
    start_all(&mut shard);
    poll_until_stable(&mut client);
    let count = shard.loggers.len();
    poll_until(&mut client, |client| client.live() == count);
    shard.check_read(client.stable_end());
}

fn start_all(shard: &mut Shard) {
    for logger in &mut shard.loggers {
        if !logger.is_running() {
            logger.start();
        }
    }
}

/// EL-3, EL-5
#[test]
fn whoever_dies_whenever_nothing_stable_is_lost() {
    let seed = std::env::var("REFRAIN_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(5);
    let ways = [(None, false), (Some(CommitPath::Messages), true)];
    for (count, quorum) in [(1, 1), (2, 2), (3, 2), (3, 3)] {
        for level in [Level::Placed, Level::Durable] {
            for (way, over_tcp) in ways {
                println!("{quorum} of {count}, {level:?}, {way:?}");
                let shard = Shard::unstarted(count, quorum, level, way, over_tcp);
                live_dangerously(seed, shard, 60);
            }
        }
    }
}
