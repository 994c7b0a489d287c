//! A new life takes over: no batch of the old one that counted is lost, and
//! no later one is taken. FENCE-1, EL-3

use crate::batches::Life;
use crate::rank::{Rank, Wire, hello_behind};
use crate::serving::{Threaded, files};
use refrain_eventlog::Level;
use refrain_eventlog::message::{CommitPath, ToLogger};

const OLD: Life = Life::new(9, 1, 0);
const NEW: Life = Life::new(9, 1, 1);

#[test]
fn what_the_old_life_placed_counts_and_what_it_places_late_does_not() {
    for level in [Level::Placed, Level::Durable] {
        let server = Threaded::new(level);
        let mut old = Rank::join(&server.socket, OLD, 0, CommitPath::SharedMemory);
        for first in 0..50 {
            assert!(old.place(first, 1), "the ring is open");
        }
        let mut new = Rank::join(&server.socket, NEW, 50, CommitPath::SharedMemory);
        assert_eq!(new.welcome.end.0, 50, "all that was placed");
        assert_eq!(new.welcome.last_clock.0, 490);
        assert!(!old.place(50, 1), "its ring is closed");
        old.ring_bell();
        assert!(old.wire.refusal().contains("incarnation 1"));
        assert!(new.place(50, 3));
        let read = server.reader().read(&[OLD, NEW], 50);
        assert_eq!(read, [(50, 3, 1)]);
        // One ring: the old one has no name any more.
        assert_eq!(
            files(&server.data(), "ring-"),
            ["ring-0000000000000009-r1-i1"]
        );
        let refused = Rank::try_join(Wire::unix(&server.socket), OLD, 0, CommitPath::Messages);
        assert!(refused.err().expect("refused").contains("fenced"));
        // Too late: it is not taken after a restart either.
        assert!(!old.place(51, 1));
        drop(new);
        let server = Threaded::in_folder(server.end(), level, |_| {});
        assert_eq!(server.reader().read(&[OLD, NEW], 50), [(50, 3, 1)]);
        let refused = Rank::try_join(Wire::unix(&server.socket), OLD, 0, CommitPath::Messages);
        assert!(refused.err().expect("refused").contains("fenced"));
    }
}

#[test]
fn messages_of_the_old_life_are_refused() {
    let server = Threaded::new(Level::Placed);
    let mut old = Rank::join(&server.socket, OLD, 0, CommitPath::Messages);
    old.commit(0, 4);
    old.await_stable(4);
    let hello = hello_behind(NEW, (4, 3), 4, CommitPath::Messages);
    let mut new = Rank::try_join_with(Wire::unix(&server.socket), NEW, hello).expect("a welcome");
    old.commit(4, 1);
    assert!(old.wire.refusal().contains("incarnation 1"));
    new.commit(4, 2);
    new.await_stable(6);
    assert_eq!(server.reader().read(&[OLD, NEW], 4), [(4, 2, 1)]);
}

#[test]
fn a_new_life_cuts_what_its_predecessor_wrote_beyond_its_recovery() {
    for way in [CommitPath::Messages, CommitPath::SharedMemory] {
        for level in [Level::Placed, Level::Durable] {
            let server = Threaded::new(level);
            let mut old = Rank::join(&server.socket, OLD, 0, way);
            for first in 0..20 {
                match way {
                    CommitPath::Messages => old.commit(first, 1),
                    _ => assert!(old.place(first, 1)),
                }
            }
            old.wire.say(&ToLogger::Leave);
            old.await_stable(20);
            // The new life has recovered 12 of them, and no more.
            let mut new = Rank::join(&server.socket, NEW, 12, way);
            assert_eq!(new.welcome.end.0, 12);
            assert_eq!(new.welcome.last_clock.0, 110);
            let place = new.ring.as_ref().map(|ring| ring.durable().0.0);
            assert!(place.is_none_or(|end| end == 12), "20 are none of its");
            match way {
                CommitPath::Messages => new.commit(12, 3),
                _ => assert!(new.place(12, 3)),
            }
            new.wire.say(&ToLogger::Leave);
            new.await_stable(15);
            let read = server.reader().read(&[OLD, NEW], 11);
            assert_eq!(read, [(11, 1, 0), (12, 3, 1)]);
        }
    }
}

#[test]
fn the_same_life_may_come_back_over_another_connection() {
    let server = Threaded::new(Level::Placed);
    let mut first = Rank::join(&server.socket, OLD, 0, CommitPath::SharedMemory);
    assert!(first.place(0, 5));
    let mut again = Rank::join(&server.socket, OLD, 0, CommitPath::SharedMemory);
    assert_eq!(again.welcome.end.0, 5);
    assert!(!first.place(5, 1));
    assert!(first.wire.refusal().contains("joined again"));
    // It sends again the batches that it did not know to be stable. GATE-3
    assert!(again.place(0, 5));
    assert!(again.place(5, 2));
    assert_eq!(server.reader().read(&[OLD], 0), [(0, 5, 0), (5, 2, 0)]);
}
