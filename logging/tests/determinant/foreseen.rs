//! Predicted batches change nothing: the committed batches are the
//! same with and without them, whenever there was time to make them.

use crate::batches::{IDENTITY, matched, recorder};
use crate::fixed_seed::cases;
use core::cell::Cell;
use proptest::prelude::*;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorder::Recorder;
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::{Clock, Rank, Ssn};

/// Takes batches, and checks the protocol's promises about prepared ones.
#[derive(Default)]
struct Taking {
    batches: Vec<Vec<u8>>,
    /// The last prepared batch, if nothing was committed since.
    prepared: Option<Vec<u8>>,
    foreseen: usize,
    end: EventIndex,
}

impl Commits for Taking {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(header.first, self.end, "without gaps");
        assert_eq!(BatchHeader::read(batch).expect("a batch").0, *header);
        self.end = header.end();
        self.prepared = None;
        self.batches.push(batch.to_vec());
    }

    fn prepare(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(header.first, self.end, "it may be the next");
        self.prepared = Some(batch.to_vec());
    }

    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(self.prepared.as_deref(), Some(batch), "the very one");
        self.foreseen += 1;
        self.commit(header, batch);
    }

    fn stable_end(&self) -> EventIndex {
        self.end
    }

    fn poll(&mut self) -> EventIndex {
        self.end
    }

    fn is_instant(&self) -> bool {
        true
    }
}

/// The next action of a rank.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A receive is matched some operations after the last, and completed some operations
    /// later (0: at once), if at all; then something is sent, or not.
    Receive {
        source: u32,
        after: u64,
        completed: Option<u64>,
        is_named: bool,
        is_answered: bool,
    },
    /// The next message of that source is lost to us: received otherwise.
    Skip {
        source: u32,
    },
    Nothing,
    Probe,
    Send,
}

fn step() -> impl Strategy<Value = Step> {
    let receive = |(source, after, completed, is_named, is_answered)| Step::Receive {
        source,
        after,
        completed,
        is_named,
        is_answered,
    };
    let rare = (
        0..3u32,
        1..4u64,
        proptest::option::of(0..3u64),
        any::<bool>(),
        any::<bool>(),
    );
    prop_oneof![
        12 => Just(receive((1, 2, Some(0), false, true))),
        4 => rare.prop_map(receive),
        1 => (0..3u32).prop_map(|source| Step::Skip { source }),
        1 => Just(Step::Nothing),
        1 => Just(Step::Probe),
        1 => Just(Step::Send),
    ]
}

struct Ranked {
    pessimist: Pessimist<Taking>,
    clock: u64,
    ssns: [u64; 3],
}

impl Ranked {
    fn new(clock: u64, ssn: u64) -> Self {
        Self {
            pessimist: Pessimist::new(
                IDENTITY,
                EventIndex(clock),
                Taking {
                    end: EventIndex(clock),
                    ..Taking::default()
                },
            ),
            clock,
            ssns: [ssn; 3],
        }
    }

    fn send(&mut self) {
        let wanted = self.pessimist.recorded();
        assert_eq!(self.pessimist.advance(wanted), wanted);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Receive {
                source,
                after,
                completed,
                is_named,
                is_answered,
            } => {
                self.clock = self.clock.saturating_add(after);
                let request = self.clock;
                let ssn = &mut self.ssns[source as usize];
                *ssn = ssn.saturating_add(1);
                let matched = matched(request, source, *ssn);
                let recorder = self.pessimist.record();
                recorder.matched(Clock(self.clock), matched, is_named);
                if let Some(later) = completed {
                    self.clock = self.clock.saturating_add(later);
                    let at = Clock(self.clock);
                    self.pessimist.record().completed(at, &[Clock(request)]);
                }
                if is_answered {
                    self.send();
                }
            }
            Step::Skip { source } => {
                let ssn = &mut self.ssns[source as usize];
                *ssn = ssn.saturating_add(1);
            }
            Step::Nothing => self.pessimist.record().nothing(Clock(self.clock)),
            Step::Probe => {
                let at = Clock(self.clock);
                self.pessimist.record().probed(at, Rank(1), Ssn(4), 3, 8);
            }
            Step::Send => self.send(),
        }
    }
}

// GATE-2
#[test]
fn what_is_committed_is_the_same_with_time_and_without() {
    let steps = proptest::collection::vec((step(), 0..3u8), 1..200);
    // Also where numbers end.
    let begin = prop_oneof![3 => 0..1000u64, 1 => (u64::MAX - 400)..(u64::MAX - 300)];
    let foreseen = Cell::new(0);
    proptest!(cases(300), |(steps in steps, clock in begin.clone(), ssn in begin)| {
        let mut hasty = Ranked::new(clock, ssn);
        let mut idle = Ranked::new(clock, ssn);
        for (step, looks) in steps {
            hasty.step(step);
            idle.step(step);
            for _ in 0..looks {
                idle.pessimist.idle();
            }
        }
        hasty.send();
        idle.send();
        prop_assert_eq!(&idle.pessimist.commits().batches, &hasty.pessimist.commits().batches);
        prop_assert_eq!(idle.pessimist.counts(), hasty.pessimist.counts());
        prop_assert_eq!(hasty.pessimist.commits().foreseen, 0);
        foreseen.set(foreseen.get() + idle.pessimist.commits().foreseen);
    });
    assert!(foreseen.get() > 0, "nothing was foreseen in any case");
}

/// Two in the same rhythm are enough, and the first in another costs nothing but
/// itself.
#[test]
fn a_rhythm_is_foreseen_from_its_third_match_on() {
    let mut rank = Ranked::new(5, 7);
    let receive = |after| Step::Receive {
        source: 1,
        after,
        completed: Some(0),
        is_named: false,
        is_answered: true,
    };
    let mut foreseen = Vec::new();
    for after in [2, 2, 2, 2, 3, 3, 3] {
        rank.step(receive(after));
        rank.pessimist.idle();
        foreseen.push(rank.pessimist.commits().foreseen);
    }
    assert_eq!(foreseen, [0, 0, 1, 2, 2, 3, 4]);
    rank.step(Step::Skip { source: 1 });
    rank.step(receive(3));
    assert_eq!(rank.pessimist.commits().foreseen, 4, "another message");
}

/// A batch that was made before another was taken has the number of that one.
// GATE-2
#[test]
fn what_was_foreseen_before_another_batch_is_not_taken() {
    let mut recorder = recorder();
    let receive = |recorder: &mut Recorder, clock: u64| {
        recorder.matched(Clock(clock), matched(clock, 1, clock / 2), false);
    };
    let mut batch = Vec::new();
    for clock in [2, 4] {
        receive(&mut recorder, clock);
        recorder.take_batch(true, &mut batch).expect("a match");
    }
    let foreseen = recorder.foresee(&mut batch).expect("a rhythm");
    recorder.probed(Clock(5), Rank(1), Ssn(9), 3, 8);
    assert!(!recorder.take_foreseen(&foreseen), "another event");
    recorder.take_batch(true, &mut batch).expect("the probe");
    receive(&mut recorder, 6);
    assert!(!recorder.take_foreseen(&foreseen), "its number is taken");
    let header = recorder.take_batch(true, &mut batch).expect("the match");
    assert_eq!(header.first, EventIndex(3));
}
