//! LOG-1, LOG-2, LOG-4, LOG-5, GC-1

use super::super::log::Logs;
use super::*;
use std::collections::BTreeMap;

/// Rank 0 sent five messages to rank 1.
fn stage() -> Stage<Logs> {
    let mut stage = Stage::new(Logs::new(2));
    for number in 0..5 {
        stage.called(0, number, &isend(0, number, 30)).unwrap();
    }
    stage
}

impl Stage<Logs> {
    fn deliver(&mut self, number: u64) {
        let got = received(100 + number as u32, 0, payload(0, number, 30));
        self.answered(1, 9, &got).unwrap();
    }

    fn take(&mut self, number: u32, clock: u64) {
        let taken = Happening::CheckpointTaken(life(1), number, Clock(clock));
        self.see(taken).unwrap();
    }

    fn stable(&mut self, number: u32) -> Result<(), Breach> {
        self.see(Happening::CheckpointStable(Rank(1), number))
    }

    fn supersede(&mut self, number: u32) -> Result<(), Breach> {
        self.see(Happening::CheckpointsSuperseded(Rank(1), number))
    }

    fn free(&mut self, first: u64) -> Result<(), Breach> {
        self.see(Happening::Freed(Rank(0), Rank(1), Ssn(first)))
    }
}

/// Messages delivered before the older of two remaining checkpoints may be freed, once both
/// checkpoints are stable; others may not.
// LOG-4, GC-1; known trap: freeing from a checkpoint that is not yet stable
#[test]
fn only_what_no_restart_asks_for_is_freed() {
    let mut stage = stage();
    stage.deliver(0);
    stage.free(0).unwrap();
    assert_breach(stage.free(1), "log", "checkpoint 0");
    stage.take(1, 10);
    stage.deliver(1);
    stage.take(2, 20);
    stage.stable(1).unwrap();
    assert_breach(stage.free(1), "log", "from checkpoint 0 on");
    stage.supersede(0).unwrap();
    stage.free(1).unwrap();
    assert_breach(stage.free(2), "log", "from checkpoint 1 on 1 asks for 1");
    stage.stable(2).unwrap();
    assert_breach(stage.free(2), "log", "from checkpoint 1 on");
    stage.supersede(1).unwrap();
    stage.free(2).unwrap();
    assert_breach(stage.free(3), "log", "from checkpoint 2 on");
}

/// Messages that were only received, or delivered after a missing one, are asked for again.
// LOG-4; known trap: freeing when the receiver has received
#[test]
fn a_gap_in_what_was_delivered_is_kept() {
    let mut stage = stage();
    stage.deliver(0);
    stage.deliver(2);
    stage.take(1, 10);
    stage.stable(1).unwrap();
    stage.supersede(0).unwrap();
    stage.free(1).unwrap();
    assert_breach(stage.free(2), "log", "asks for 1");
}

/// A checkpoint is superseded only by a stable one, and becomes stable only if it was taken.
// GC-1
#[test]
fn a_checkpoint_is_superseded_by_a_stable_one() {
    let mut stage = stage();
    assert_breach(stage.stable(1), "log", "was not taken");
    stage.take(1, 10);
    assert_breach(stage.supersede(0), "log", "superseded by none");
    stage.stable(1).unwrap();
    assert_breach(stage.supersede(1), "log", "superseded by none");
    stage.supersede(0).unwrap();
}

/// Determinants are kept as long as a restart asks for them.
// GC-1
#[test]
fn determinants_that_a_restart_asks_for_are_kept() {
    let mut stage = stage();
    stage.take(1, 10);
    stage.world.forgotten = Some(Clock(3));
    assert_breach(stage.stable(1), "log", "have forgotten");
    stage.world.forgotten = None;
    stage.stable(1).unwrap();
    stage.world.forgotten = Some(Clock(10));
    assert_breach(stage.at_end(), "log", "checkpoint 0 is of None");
    stage.supersede(0).unwrap();
    // No determinants of rank 0 may be trimmed: it took no checkpoint.
    assert_breach(stage.at_end(), "log", "happened to 0 up to clock 10");
    let mut stage = Stage::new(Logs::new(2));
    stage.take(1, 10);
    stage.stable(1).unwrap();
    stage.world.forgotten = Some(Clock(11));
    assert_breach(stage.supersede(0), "log", "up to clock 11; checkpoint 1");
}

/// Messages that have left completely or were delivered are read back as they were sent.
// LOG-1, LOG-2
#[test]
fn what_has_left_can_be_read_back() {
    let mut stage = stage();
    let all = |numbers: &[u64]| -> BTreeMap<Ssn, Vec<u8>> {
        let message = |number: &u64| (Ssn(*number), payload(0, *number, 30));
        numbers.iter().map(message).collect()
    };
    let read = |stage: &Stage<Logs>, from, messages: &BTreeMap<_, _>| {
        stage
            .oracle
            .read_back(Rank(0), Rank(1), Ssn(from), messages)
    };
    // Nothing has left yet: any subset is right.
    read(&stage, 0, &all(&[])).unwrap();
    read(&stage, 0, &all(&[0, 1])).unwrap();
    stage.posted(0, &first_frame(0, 2, 24, 30), &[]).unwrap();
    read(&stage, 0, &all(&[])).unwrap();
    stage.posted(0, &first_frame(0, 2, 6, 24), &[]).unwrap();
    assert_breach(read(&stage, 0, &all(&[0, 1])), "log", "cannot be read");
    read(&stage, 0, &all(&[2])).unwrap();
    read(&stage, 3, &all(&[])).unwrap();
    stage.deliver(3);
    assert_breach(read(&stage, 0, &all(&[2])), "log", "message 3");
    let mut changed = all(&[2, 3]);
    changed.get_mut(&Ssn(2)).unwrap()[29] ^= 1;
    assert_breach(read(&stage, 0, &changed), "log", "not what was sent");
    let mut invented = all(&[2, 3]);
    invented.insert(Ssn(9), Vec::new());
    assert_breach(read(&stage, 0, &invented), "log", "never sent");
}

/// A life starts from the newest stable checkpoint, or from a newer one.
// REC-1, known trap: a checkpoint store that does not sync
#[test]
fn a_stable_checkpoint_is_not_passed_over() {
    let mut stage = stage();
    stage.oracle.restarted(Rank(1), 0).unwrap();
    stage.take(1, 10);
    stage.take(2, 20);
    stage.oracle.restarted(Rank(1), 0).unwrap();
    stage.stable(1).unwrap();
    let restarted = |number| stage.oracle.restarted(Rank(1), number);
    assert_breach(restarted(0), "log", "though 1 was called stable");
    restarted(1).unwrap();
    restarted(2).unwrap();
    assert_breach(restarted(3), "log", "checkpoint 3");
}

/// Freed messages need not be read back.
// LOG-4
#[test]
fn what_was_freed_is_not_asked_for() {
    let mut stage = stage();
    stage.deliver(0);
    stage.take(1, 10);
    stage.stable(1).unwrap();
    stage.supersede(0).unwrap();
    let none = BTreeMap::new();
    let read = |stage: &Stage<Logs>| stage.oracle.read_back(Rank(0), Rank(1), Ssn(0), &none);
    assert_breach(read(&stage), "log", "message 0");
    stage.free(1).unwrap();
    assert_eq!(stage.oracle.kept(Rank(0), Rank(1)), Ssn(1));
    read(&stage).unwrap();
}
