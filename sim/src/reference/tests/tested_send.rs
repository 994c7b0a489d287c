//! Two lives that differ in the result of a test of a send, and therefore in their records.

use super::choices;
use crate::choices::{Outcome, Recorded};
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

/// A rank sends (clock 1), tests the send (2) and waits for any of the send and a receive that is
/// complete (3). Timing decides whether the log had room for the send. If it had, the test finds
/// the send complete: an event. If it had not, the test finds nothing, and the wait that finds the
/// receive makes a record of that unnecessary. The records of one case do not replay as the other.
/// REC-4
#[test]
fn records_tell_whether_a_tested_send_was_complete() {
    let (receive, send) = (Clock(0), Clock(1));
    let (test, wait) = (Clock(2), Clock(3));
    let complete = records(|recorder| {
        recorder.completed(test, &[send]);
        recorder.completed(wait, &[receive]);
    });
    let pending = records(|recorder| {
        recorder.nothing(test);
        recorder.completed(wait, &[receive]);
    });
    assert_ne!(complete, pending);
    let found = Outcome::Completed(vec![send]);
    assert_eq!(choices(&complete).at(test), Recorded::Outcome(&found));
    assert_eq!(choices(&pending).at(test), Recorded::Nothing);
}
