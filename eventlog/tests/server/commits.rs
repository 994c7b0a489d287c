//! Commits by every commit path, at every level, and reading them back. EL-1, EL-5

use crate::batches::Life;
use crate::rank::{Rank, Wire};
use crate::serving::{Threaded, files};
use refrain_eventlog::Level;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::message::{CommitPath, ToClient, ToLogger};

const LIFE: Life = Life::new(0xabcd_0000_0000_0001, 7, 0);

#[test]
fn messages_are_acknowledged_and_read_back() {
    for level in [Level::Placed, Level::Durable] {
        let server = Threaded::new(level);
        let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::Messages);
        assert_eq!(rank.welcome.end.0, 0);
        let mut first = 0;
        let mut written = Vec::new();
        for count in [1, 2, 64, 1024, 1] {
            rank.commit(first, count);
            written.push((first, count, 0));
            first += u64::from(count);
            let ToClient::Stable {
                clock, level: said, ..
            } = rank.await_stable(first)
            else {
                unreachable!("await_stable returns those only");
            };
            let (last_first, last_count, _) = written[written.len() - 1];
            assert_eq!(clock, last_first * 10 + u64::from(last_count) - 1);
            assert_eq!(said, level);
        }
        assert_eq!(server.reader().read(&[LIFE], 0), written);
        assert_eq!(server.reader().read(&[LIFE], 3)[0], (3, 64, 0));
        assert_eq!(server.reader().read(&[LIFE], first), []);
    }
}

#[test]
fn many_commits_may_be_under_way_and_a_repeated_one_is_acknowledged_again() {
    let server = Threaded::new(Level::Durable);
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::Messages);
    for first in 0..3000 {
        rank.commit(first, 1);
    }
    rank.await_stable(3000);
    // GATE-3
    rank.commit(2999, 1);
    rank.await_stable(3000);
    assert_eq!(server.reader().read(&[LIFE], 0).len(), 3000);
}

#[test]
fn what_lies_in_a_ring_is_read_though_nobody_rang() {
    let server = Threaded::new(Level::Placed);
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::SharedMemory);
    assert!(rank.place(0, 3));
    assert!(rank.place(3, 5));
    assert_eq!(server.reader().read(&[LIFE], 0), [(0, 3, 0), (3, 5, 0)]);
    assert_eq!(server.reader().ranks()[0].end, 8);
}

#[test]
fn a_ring_is_emptied_as_fast_as_it_fills() {
    for level in [Level::Placed, Level::Durable] {
        let server = Threaded::new(level);
        let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::SharedMemory);
        // Several times the ring, in batches of all lengths.
        let mut first = 0;
        for step in 0..6000_u64 {
            let count = 1 + (step * 37 % 200) as u16;
            assert!(rank.place(first, count));
            first += u64::from(count);
        }
        rank.wire.say(&ToLogger::Leave);
        rank.await_stable(first);
        if level == Level::Durable {
            let ring = rank.ring.as_ref().expect("shared memory");
            assert_eq!(ring.durable().0.0, first);
        }
        let read = server.reader().read(&[LIFE], 0);
        assert_eq!(read.len(), 6000);
        drop(rank);
        let folder = server.end();
        assert_eq!(files(&folder.path().join("data"), "ring-"), [""; 0]);
    }
}

#[test]
fn the_durable_watermark_comes_without_anything_else_being_said() {
    let server = Threaded::new(Level::Durable);
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::SharedMemory);
    for first in 0..200 {
        assert!(rank.place(first, 1));
        let ring = rank.ring.as_ref().expect("shared memory");
        // As the client does: wakes the server only when it shows that it sleeps.
        while ring.durable().0.0 <= first {
            if ring.server_sleeps() {
                rank.ring_bell();
            }
            std::thread::yield_now();
        }
    }
}

#[test]
fn leaving_without_having_written_is_answered() {
    let server = Threaded::new(Level::Placed);
    for way in [CommitPath::Messages, CommitPath::SharedMemory] {
        let mut rank = Rank::join(&server.socket, LIFE, 0, way);
        rank.wire.say(&ToLogger::Leave);
        rank.await_stable(0);
    }
}

#[test]
fn clocks_and_numbers_near_their_ends() {
    let server = Threaded::new(Level::Placed);
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::Messages);
    let mut end = 0;
    for clock in [(1 << 32) - 1, 1 << 32, u64::MAX - 1] {
        let batch = LIFE.batch_at(end, 1, clock);
        rank.wire.say(&ToLogger::Commit { batch });
        end += 1;
        let heard = rank.await_stable(end);
        assert!(matches!(heard, ToClient::Stable { clock: said, .. } if said == clock));
    }
    let after = |clock| {
        let read = server.reader().try_read(&[LIFE], 0, Some(clock));
        read.expect("an answer").len()
    };
    assert_eq!(after(0), 3);
    assert_eq!(after((1 << 32) - 1), 2);
    assert_eq!(after(u64::MAX - 1), 0);
}

#[test]
fn two_jobs_and_many_ranks_do_not_mix() {
    let server = Threaded::new(Level::Placed);
    let lives: Vec<Life> = (0..16)
        .map(|index| Life::new(1 + index / 8, index as u32 % 8, 0))
        .collect();
    let ways = [CommitPath::Messages, CommitPath::SharedMemory];
    let mut ranks: Vec<Rank> = (0..16)
        .map(|index| Rank::join(&server.socket, lives[index], 0, ways[index % 2]))
        .collect();
    for first in 0..100 {
        for rank in &mut ranks {
            match rank.ring {
                Some(_) => assert!(rank.place(first, 1)),
                None => rank.commit(first, 1),
            }
        }
    }
    for rank in &mut ranks {
        rank.wire.say(&ToLogger::Leave);
        rank.await_stable(100);
        // Every byte is compared with what this rank of this job has written.
        assert_eq!(server.reader().read(&[rank.life], 0).len(), 100);
    }
    assert_eq!(server.reader().ranks().len(), 16);
}

#[test]
fn answers_longer_than_a_frame_come_in_pieces() {
    let server = Threaded::new(Level::Placed);
    let mut rank = Rank::join(&server.socket, LIFE, 0, CommitPath::Messages);
    for index in 0..400 {
        rank.commit(index * 1000, 1000);
    }
    rank.await_stable(400_000);
    let read = server.reader().read(&[LIFE], 0);
    assert_eq!(read.len(), 400);
    // 2 kB each: no single frame holds them.
    assert_eq!(server.reader().read(&[LIFE], 399_500), [(399_000, 1000, 0)]);
}

#[test]
fn commits_over_tcp() {
    let any = ServerAddress::Tcp("127.0.0.1:0".into());
    let server = Threaded::with(Level::Placed, |options| options.listen.push(any));
    let ServerAddress::Tcp(address) = &server.addresses[1] else {
        panic!("{:?}", server.addresses);
    };
    let mut rank =
        Rank::try_join(Wire::tcp(address), LIFE, 0, CommitPath::Messages).expect("a welcome");
    rank.commit(0, 9);
    rank.await_stable(9);
    let other = Life::new(1, 1, 1);
    let refused = Rank::try_join(Wire::tcp(address), other, 0, CommitPath::SharedMemory);
    assert!(refused.err().expect("refused").contains("Unix socket"));
}
