//! Complete client and server over libfabric: the server in another process, which
//! is killed and started again.

use crate::harness::{Batches, End, JOB, LIMIT, Setup, port, until, with_every_provider};
use refrain_eventlog::client::{Client, ClientError, ClientOptions, ServerAddress};
use refrain_eventlog::logbook::Archive;
use refrain_eventlog::message::CommitPath;
use refrain_eventlog::ring::{DATA_BYTES, RingIdentity};
use refrain_eventlog::server::{RemoteOptions, Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Incarnation, Rank};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const ROLE: &str = "REFRAIN_TEST_SERVER";
const NAME: &str = "whole::a_server_in_another_process";
const RANK: Rank = Rank(7);

/// Not a test by itself: the other process, until its standard input ends.
#[test]
fn a_server_in_another_process() {
    let Ok(role) = std::env::var(ROLE) else {
        println!("skipped the server: no test of its own, the others start it");
        return;
    };
    let words: Vec<&str> = role.split('|').collect();
    let level = match words[4] {
        "durable" => Level::Durable,
        _ => Level::Placed,
    };
    let mut options = ServerOptions::new(words[2].into(), LoggerId(1), level);
    options.listen = vec![ServerAddress::Unix(words[3].into())];
    options.rings = (level == Level::Placed).then(|| words[5].into());
    options.remote = Some(RemoteOptions {
        library: Some(words[0].into()),
        provider: words[1].to_owned(),
        port: port(words[1], End::Logger),
    });
    let mut server = Server::bind(options, |line| eprintln!("server: {line}")).unwrap();
    server.serve_until(std::io::stdin()).unwrap();
}

/// The other process; it is killed when a test fails.
pub struct Serving(Child);

impl Serving {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends the process regularly.
    pub fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Place<'a> {
    pub setup: &'a Setup,
    folder: PathBuf,
    /// Of the level placed; else they are in the folder.
    rings: PathBuf,
    socket: PathBuf,
    pub level: Level,
}

impl Place<'_> {
    pub fn serve(&self) -> Serving {
        self.serve_at(self.level)
    }

    fn serve_at(&self, level: Level) -> Serving {
        let level = if level == Level::Durable {
            "durable"
        } else {
            "placed"
        };
        let role = format!(
            "{}|{}|{}|{}|{level}|{}",
            self.setup.library.display(),
            self.setup.provider,
            self.folder.display(),
            self.socket.display(),
            self.rings.display()
        );
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Serving(child)
    }

    pub fn client(&self, incarnation: u32) -> Client {
        self.try_client(incarnation).unwrap()
    }

    fn try_client(&self, incarnation: u32) -> Result<Client, ClientError> {
        Client::connect(ClientOptions {
            job: JOB,
            rank: RANK,
            incarnation: Incarnation(incarnation),
            loggers: vec![ServerAddress::Unix(self.socket.clone())],
            quorum: 1,
            level: self.level,
            way: Some(CommitPath::Libfabric),
            connect_wait: LIMIT,
            libfabric: Some(self.setup.library.display().to_string()),
            libibverbs: None,
            verbs_port: port(&self.setup.provider, End::Client),
            provider: Some(self.setup.provider.clone()),
        })
    }
}

/// Commits batches until that many bytes were written; returns the committed bytes.
fn commit(client: &mut Client, batches: &mut Batches, bytes: usize) -> Vec<Vec<u8>> {
    let mut committed = Vec::new();
    let mut sum = 0;
    while sum < bytes {
        let batch = batches.any();
        let (header, _) = BatchHeader::read(&batch).unwrap();
        client.commit(&header, &batch);
        sum += batch.len();
        committed.push(batch);
    }
    committed
}

fn settle(place: &Place<'_>, client: &mut Client, committed: &[Vec<u8>]) {
    let end = end_of(committed.last().unwrap());
    let began = Instant::now();
    while client.poll() < end {
        assert!(
            began.elapsed() < LIMIT,
            "{}, {:?}, after {LIMIT:?}: {:?}",
            place.setup.provider,
            place.level,
            client.explain()
        );
        std::thread::yield_now();
    }
    assert_eq!(client.stable_end(), end);
}

fn end_of(batch: &[u8]) -> EventIndex {
    BatchHeader::read(batch).unwrap().0.end()
}

pub fn leave(mut client: Client) {
    until("the client to leave", || client.leave().then_some(()));
}

/// The batches in the logger's files.
fn stored(folder: &Path) -> Vec<u8> {
    let mut found = Vec::new();
    let mut each = |batch: &[u8]| {
        found.extend_from_slice(batch);
        ControlFlow::Continue(())
    };
    Archive::open(folder)
        .unwrap()
        .read(JOB, RANK, EventIndex(0), None, &mut each)
        .unwrap();
    found
}

fn batches(incarnation: u32, start: EventIndex) -> Batches {
    Batches::new(RingIdentity {
        job: JOB,
        rank: RANK,
        incarnation: Incarnation(incarnation),
        logger: LoggerId(1),
        start,
    })
}

pub fn with_every_level(test: impl Fn(&Place<'_>)) {
    with_every_provider(|setup| {
        if !setup.is_believed() {
            println!("  skipped: its completions are not believed");
            return;
        }
        for level in [Level::Placed, Level::Durable] {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("events");
            std::fs::create_dir(&folder).unwrap();
            test(&Place {
                setup,
                folder,
                rings: root.path().join("rings"),
                socket: root.path().join("socket"),
                level,
            });
        }
    });
}

/// EL-1, EL-5: laps of the ring, at both levels; all of it is in the files, in
/// order.
#[test]
fn what_is_committed_is_in_the_files() {
    with_every_level(|place| {
        let server = place.serve();
        let mut client = place.client(0);
        assert!(!client.needs_poll(), "it may compute now");
        let mut batches = batches(0, EventIndex(0));
        let committed = commit(&mut client, &mut batches, 3 * DATA_BYTES);
        settle(place, &mut client, &committed);
        leave(client);
        server.end();
        assert!(stored(&place.folder) == committed.concat());
    });
}

/// EL-3: the server is killed while commits are under way, and started again;
/// the client comes back, and nothing that was stable is lost (it is not kept any
/// more: the row would have a gap), nothing comes twice.
#[test]
fn a_server_is_killed_and_started_again() {
    with_every_level(|place| {
        let mut server = place.serve();
        let mut client = place.client(0);
        let mut batches = batches(0, EventIndex(0));
        let mut committed = commit(&mut client, &mut batches, 40_000);
        settle(place, &mut client, &committed);
        for _ in 0..3 {
            committed.extend(commit(&mut client, &mut batches, 60_000));
            client.poll();
            server.kill();
            server = place.serve();
            settle(place, &mut client, &committed);
        }
        leave(client);
        server.end();
        assert!(stored(&place.folder) == committed.concat());
    });
}

/// FENCE-1: once a successor is welcomed, no batch of the life before it becomes stable
/// any more. The successor continues behind all that was stable, and perhaps behind batches that
/// were placed before the fence.
#[test]
fn a_fenced_life_gets_no_further() {
    with_every_level(|place| {
        let server = place.serve();
        let mut old = place.client(0);
        let mut first = batches(0, EventIndex(0));
        let committed = commit(&mut old, &mut first, 50_000);
        settle(place, &mut old, &committed);
        let stable = old.stable_end();
        let mut new = place.client(1);
        let late = commit(&mut old, &mut first, 10_000);
        until("the fenced life to be refused", || {
            let now = old.poll();
            assert_eq!(now, stable, "FENCE-1: a fenced life has got further");
            old.explain()?.contains("incarnation").then_some(())
        });
        let start = new.next();
        assert!(start >= stable, "EL-3: {start} of {stable}");
        let is_before = |batch: &&Vec<u8>| end_of(batch) <= start;
        let mut row: Vec<Vec<u8>> = committed.iter().chain(&late).cloned().collect();
        row.truncate(row.iter().filter(is_before).count());
        let committed = commit(&mut new, &mut batches(1, start), 50_000);
        settle(place, &mut new, &committed);
        leave(new);
        server.end();
        assert!(stored(&place.folder) == [row.concat(), committed.concat()].concat());
    });
}

/// EL-1: a client that requires durable does not count placed.
#[test]
fn placed_is_not_durable() {
    with_every_level(|place| {
        if place.level == Level::Placed {
            return;
        }
        let server = place.serve_at(Level::Placed);
        let error = place.try_client(0).expect_err("refused").to_string();
        assert!(error.contains("--level durable"), "{error}");
        server.end();
    });
}
