//! SIGKILL of the server, of clients, of both: no acknowledged batch is lost, and
//! only written batches are read. EL-2, EL-3

use crate::batches::Life;
use crate::rank::Rank;
use crate::serving::{Process, files};
use refrain_eventlog::message::CommitPath;
use refrain_eventlog::ring::CONTROL_BYTES;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LIFE: Life = Life::new(5, 2, 0);

fn ring_of(folder: &Path) -> PathBuf {
    folder.join("data/ring-0000000000000005-r2-i0")
}

/// Places batches of one determinant, and kills the server, which no client has woken.
fn placed_and_killed(folder: &Path, count: u64) -> Rank {
    let server = Process::start(folder, "placed");
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::SharedMemory);
    for first in 0..count {
        assert!(rank.place(first, 1));
    }
    server.kill();
    rank
}

#[test]
fn what_was_placed_is_there_after_the_servers_death_and_the_clients() {
    let folder = TempDir::new().expect("a folder");
    let mut rank = placed_and_killed(folder.path(), 30);
    // The client has not noticed the death: these batches count, too.
    for first in 30..40 {
        assert!(rank.place(first, 1));
    }
    drop(rank);
    let server = Process::start(folder.path(), "placed");
    assert_eq!(server.reader().read(&[LIFE], 0).len(), 40);
    let again = Rank::join(&server.socket, LIFE, 0, CommitPath::SharedMemory);
    assert_eq!(again.welcome.end.0, 40);
}

#[test]
fn what_is_placed_between_the_servers_start_and_the_clients_return_is_taken() {
    let folder = TempDir::new().expect("a folder");
    let mut rank = placed_and_killed(folder.path(), 10);
    let server = Process::start(folder.path(), "placed");
    assert_eq!(server.reader().read(&[LIFE], 0).len(), 10);
    // The client sees that the batch does not count, and sends it again; the server would
    // take it in either case.
    assert!(!rank.place(10, 1), "closed");
    let mut again = Rank::join(&server.socket, LIFE, 10, CommitPath::SharedMemory);
    assert_eq!(again.welcome.end.0, 11);
    assert!(again.place(11, 1));
    assert_eq!(server.reader().read(&[LIFE], 0).len(), 12);
    assert_eq!(files(&folder.path().join("data"), "ring-").len(), 1);
}

#[test]
fn killed_at_random_moments_again_and_again() {
    let mut random = 0x5eed_u64;
    println!("seed {random:#x}");
    for level in ["placed", "durable"] {
        for way in [CommitPath::SharedMemory, CommitPath::Messages] {
            let folder = TempDir::new().expect("a folder");
            let mut acknowledged = 0;
            for _ in 0..6 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let server = Process::start(folder.path(), level);
                let rank = Rank::join(&server.socket, LIFE, acknowledged, way);
                assert!(rank.welcome.end.0 >= acknowledged, "lost");
                acknowledged = write_while_killed(server, rank, random, level);
            }
            let server = Process::start(folder.path(), level);
            let read = server.reader().read(&[LIFE], 0);
            let end = read
                .last()
                .map_or(0, |(first, count, _)| first + u64::from(*count));
            assert!(end >= acknowledged, "{level}: {end} of {acknowledged}");
            server.end();
        }
    }
}

/// Writes until the server is dead; returns the end of the acknowledged batches.
fn write_while_killed(server: Process, mut rank: Rank, random: u64, level: &str) -> u64 {
    let batches = 20 + (random >> 40) % 3000;
    let mut next = rank.welcome.end.0;
    let mut acknowledged = next;
    let mut server = Some(server);
    let killer = |server: &mut Option<Process>, index: u64| {
        if index >= batches
            && let Some(server) = server.take()
        {
            server.kill();
        }
    };
    for index in 0..batches + 50 {
        killer(&mut server, index);
        let count = 1 + (index % 7) as u16;
        if rank.ring.is_none() {
            rank.commit(next, count);
        } else if server.is_none() && (level == "durable" || !rank.has_room()) {
            // No server frees room or makes batches durable any more.
            break;
        } else {
            assert!(rank.place(next, count), "nobody has closed it");
            if level == "placed" {
                acknowledged = next + u64::from(count);
            }
        }
        next += u64::from(count);
        if index % 64 == 0 && rank.ring.is_some() {
            rank.ring_bell();
        }
    }
    if let (Some(ring), "durable") = (&rank.ring, level) {
        acknowledged = acknowledged.max(ring.durable().0.0);
    }
    if rank.ring.is_none() {
        while let Some(heard) = rank.wire.hear() {
            if let refrain_eventlog::message::ToClient::Stable { end, .. } = heard {
                acknowledged = end;
            }
        }
    }
    acknowledged
}

#[test]
fn torn_and_stale_slots_are_not_taken_by_the_next_server() {
    let older = Life::new(LIFE.job, LIFE.rank, 1);
    let damages: [fn(&mut Vec<u8>); 4] = [
        |batch| batch.truncate(40),
        |batch| batch[50] ^= 1,
        |batch| batch[..8].fill(0),
        |batch| batch[24] = 99,
    ];
    for (index, damage) in damages.into_iter().enumerate() {
        let folder = TempDir::new().expect("a folder");
        let rank = placed_and_killed(folder.path(), 3);
        let place = rank.ring.as_ref().expect("shared memory").position();
        let mut batch = LIFE.batch(3, 4);
        damage(&mut batch);
        let file = OpenOptions::new()
            .write(true)
            .open(ring_of(folder.path()))
            .expect("the ring");
        let at = (CONTROL_BYTES + place.offset()) as u64;
        file.write_all_at(&batch, at).expect("half a batch");
        // What another life has written into the same memory.
        file.write_all_at(&older.batch(3, 1), at + 4096)
            .expect("stale");
        let server = Process::start(folder.path(), "placed");
        let read = server.reader().read(&[LIFE], 0);
        assert_eq!(read, [(0, 1, 0), (1, 1, 0), (2, 1, 0)], "damage {index}");
        let again = Rank::join(&server.socket, LIFE, 3, CommitPath::SharedMemory);
        assert_eq!(again.welcome.end.0, 3);
    }
}

#[test]
fn a_ring_that_cannot_be_believed_is_moved_aside() {
    // Magic, job, rank, logger.
    for place in [0, 8, 16, 24] {
        let folder = TempDir::new().expect("a folder");
        drop(placed_and_killed(folder.path(), 3));
        let file = OpenOptions::new()
            .write(true)
            .open(ring_of(folder.path()))
            .expect("the ring");
        file.write_all_at(&[0xee], place).expect("damage");
        let server = Process::start(folder.path(), "placed");
        let data = folder.path().join("data");
        assert_eq!(files(&data, "ring-"), [""; 0]);
        assert_eq!(files(&data, "damaged-ring-").len(), 1);
        // The ring was rejected: acknowledged events are missing, and the server reports that.
        let wire = crate::rank::Wire::unix(&server.socket);
        let refused = Rank::try_join(wire, LIFE, 3, CommitPath::SharedMemory);
        let reason = refused.err().expect("refused");
        assert!(reason.contains("0 to 3"), "{reason}");
        assert!(reason.contains("no other replicas"), "{reason}");
    }
}

#[test]
fn a_gap_in_a_ring_is_no_guess() {
    let folder = TempDir::new().expect("a folder");
    drop(placed_and_killed(folder.path(), 3));
    // The first line is lost.
    let file = OpenOptions::new()
        .write(true)
        .open(ring_of(folder.path()))
        .expect("the ring");
    file.write_all_at(&[0; 64], CONTROL_BYTES as u64)
        .expect("damage");
    let server = Process::start(folder.path(), "placed");
    let data = folder.path().join("data");
    assert_eq!(files(&data, "damaged-ring-").len(), 1);
    let read = server.reader().try_read(&[LIFE], 0, None);
    assert!(read.is_ok_and(|read| read.is_empty()));
}

#[test]
fn rings_that_were_not_finished_and_other_files_are_no_rings() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("new-ring-0000000000000005-r2-i0"), b"half").expect("a file");
    std::fs::write(data.join("ring-of-somebody"), b"else").expect("a file");
    let server = Process::start(folder.path(), "placed");
    assert_eq!(files(&data, "new-"), [""; 0]);
    assert_eq!(files(&data, "ring-"), ["ring-of-somebody"]);
    server.end();
}

#[test]
fn an_orderly_end_loses_nothing_that_is_placed_after_it() {
    let folder = TempDir::new().expect("a folder");
    let server = Process::start(folder.path(), "placed");
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::SharedMemory);
    assert!(rank.place(0, 6));
    server.end();
    assert!(!rank.place(6, 1), "closed");
    let server = Process::start(folder.path(), "placed");
    assert_eq!(server.reader().read(&[LIFE], 0), [(0, 6, 0), (6, 1, 0)]);
}
