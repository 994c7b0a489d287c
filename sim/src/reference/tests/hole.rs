//! Two lives with the same records in which a program was told different things.

use super::super::Choices;
use refrain_logging::determinant::batch::HEADER_BYTES;
use refrain_logging::determinant::record::decode;
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_ring::{Clock, Incarnation, Rank};

const IDENTITY: Identity = Identity {
    job: 1,
    rank: Rank(0),
    incarnation: Incarnation(0),
};

fn records(record: impl FnOnce(&mut Recorder)) -> Vec<Determinant> {
    let mut recorder = Recorder::new(IDENTITY, EventIndex(0));
    record(&mut recorder);
    let mut batch = Vec::new();
    let header = recorder.take_batch(true, &mut batch);
    let header = header.expect("something was recorded");
    decode(&header, &batch[HEADER_BYTES..]).expect("as it was written")
}

/// A rank sends (clock 1), tests the send (2) and waits for any of it and a receive
/// that is there (3). Whether the log had room for the send is timing. If it had,
/// the test finds it, and that is no event. If it had not, the test finds
/// nothing; the wait that finds the receive makes that record unnecessary.
/// The records are the same: a program that then does something else is not played
/// again as it was. So a life has to tell which sends were not complete when their
/// calls returned.
#[test]
fn records_do_not_tell_whether_a_send_was_complete_at_once() {
    let receive = Clock(0);
    let (test, wait) = (Clock(2), Clock(3));
    let at_once = records(|recorder| recorder.completed(wait, &[receive]));
    let pending = records(|recorder| {
        recorder.nothing(test);
        recorder.completed(wait, &[receive]);
    });
    assert_eq!(at_once, pending);
    let mut told = Choices::new(&pending);
    assert!(!told.was_pending(Clock(1)));
    told.add_pending_send(Clock(1));
    assert!(told.was_pending(Clock(1)));
}
