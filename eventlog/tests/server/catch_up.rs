//! A replica that lacks determinants that its client cannot send again. EL-3

use crate::batches::Life;
use crate::rank::{Rank, Wire, hello_behind};
use crate::serving::Threaded;
use refrain_eventlog::Level;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::message::{CommitPath, ToLogger};
use std::path::PathBuf;

const OLD: Life = Life::new(3, 4, 0);
const NEW: Life = Life::new(3, 4, 1);

fn with_peers(peers: &[&PathBuf]) -> Threaded {
    let peers = peers
        .iter()
        .map(|path| ServerAddress::Unix(path.to_path_buf()));
    let peers: Vec<_> = peers.collect();
    Threaded::with(Level::Durable, |options| options.peers = peers)
}

fn write(server: &Threaded, life: Life, from: u64, to: u64) {
    let mut rank = Rank::join(&server.socket, life, from, CommitPath::Messages);
    for first in from..to {
        rank.commit(first, 1);
    }
    rank.wire.say(&ToLogger::Leave);
    rank.await_stable(to);
}

#[test]
fn an_empty_replica_gets_it_from_another() {
    let whole = Threaded::new(Level::Durable);
    write(&whole, OLD, 0, 5000);
    let dead = PathBuf::from("/nonexistent/socket");
    let empty = with_peers(&[&dead, &whole.socket]);
    // Other clients are served meanwhile.
    let mut rank = Rank::join(&empty.socket, OLD, 4000, CommitPath::SharedMemory);
    assert!(rank.welcome.end.0 >= 4000);
    let read = empty.reader().read(&[OLD], 0);
    assert_eq!(read.len() as u64, rank.welcome.end.0);
    let end = rank.welcome.end.0;
    assert!(rank.place(end, 1));
    assert_eq!(empty.reader().read(&[OLD], end), [(end, 1, 0)]);
}

#[test]
fn nobody_is_welcomed_with_less_than_was_acknowledged() {
    let alone = Threaded::new(Level::Placed);
    write(&alone, OLD, 0, 10);
    let refused = Rank::try_join(Wire::unix(&alone.socket), OLD, 12, CommitPath::Messages);
    let reason = refused.err().expect("refused");
    assert!(reason.contains("10 to 12 of rank 4"), "{reason}");
    // Two replicas that lack the determinants, one that is dead.
    let dead = PathBuf::from("/nonexistent/socket");
    let other = with_peers(&[&alone.socket, &dead]);
    let refused = Rank::try_join(Wire::unix(&other.socket), OLD, 12, CommitPath::Messages);
    let reason = refused.err().expect("refused");
    assert!(reason.contains("10 to 12 of rank 4"), "{reason}");
    assert!(reason.contains("/nonexistent/socket"), "{reason}");
}

#[test]
fn a_replica_that_missed_a_life_is_given_that_lifes_determinants() {
    let whole = Threaded::new(Level::Durable);
    write(&whole, OLD, 0, 10);
    let behind = with_peers(&[&whole.socket]);
    // It has more of the old life than any other replica …
    write(&behind, OLD, 0, 30);
    // … and nothing of the new one.
    write(&whole, NEW, 10, 20);
    let hello = hello_behind(NEW, (10, 90), 20, CommitPath::Messages);
    let mut rank = Rank::try_join_with(Wire::unix(&behind.socket), NEW, hello).expect("a welcome");
    assert_eq!(rank.welcome.end.0, 20, "30 of the old life are none of its");
    rank.commit(20, 2);
    rank.await_stable(22);
    let read = behind.reader().read(&[OLD, NEW], 0);
    let lives: Vec<u32> = read
        .iter()
        .map(|(_, _, incarnation)| *incarnation)
        .collect();
    assert_eq!(lives, [[0; 10].as_slice(), &[1; 11]].concat());
}

#[test]
fn other_clients_are_served_while_a_replica_is_asked_that_does_not_answer() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let silent = folder.path().join("silent");
    let listener = std::os::unix::net::UnixListener::bind(&silent).expect("a socket");
    let server = with_peers(&[&silent]);
    let mut waiting = Wire::unix(&server.socket);
    waiting.say(&ToLogger::Hello(crate::rank::hello(
        OLD,
        7,
        CommitPath::Messages,
    )));
    let (asked, _) = listener.accept().expect("it is asked");
    write(&server, Life::new(3, 5, 0), 0, 50);
    drop((asked, listener));
    assert!(waiting.refusal().contains("0 to 7"));
}
