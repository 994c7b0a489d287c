//! REC-4, REC-5

use super::*;
use crate::collective::Contributions;
use crate::plan::Plan;
use crate::plan::generate::PlanOptions;
use crate::program::{Answer, Call, Ended, Found, Program, RequestNumber, Stamp, TakenNumber};
use crate::reference::SentMessage;
use crate::reference::tests::{ended, play};
use crate::saved::{Beginning, Delivered, Saved, Tally};
use refrain_logging::determinant::Determinant;
use refrain_ring::{Clock, Rank};

/// A job that has ended, with its records, messages and output.
struct Past {
    plan: Plan,
    records: Vec<Vec<Determinant>>,
    sends: Vec<Vec<SentMessage>>,
    prints: Vec<Vec<u64>>,
    checkpoints: Vec<Vec<Beginning>>,
    contributions: Contributions,
}

impl Past {
    fn new(seed: u64) -> Self {
        let options = PlanOptions {
            operations: 100,
            ..PlanOptions::default()
        };
        let plan = Plan::generate(seed, &options);
        let ended = ended(&plan, seed);
        let references = play(&plan, ended.choices).expect("it ends");
        let of_each = references.iter();
        let contributions = references[0].contributions();
        Self {
            plan,
            records: ended.records,
            sends: of_each.clone().map(|it| it.sends().to_vec()).collect(),
            prints: of_each.clone().map(|it| it.prints().to_vec()).collect(),
            checkpoints: of_each.map(|it| it.checkpoints.clone()).collect(),
            contributions,
        }
    }

    /// What a later life of `rank` collects if it begins at `beginning`.
    fn collected(&self, rank: usize, beginning: Beginning) -> Recollection {
        let clock = beginning.clock;
        let saved = Saved {
            beginning,
            engine: None,
        };
        let messages = |source: usize| {
            let wanted = Recollection::first_wanted(&saved, Rank(source as u32));
            self.sends[source]
                .iter()
                .filter(|sent| sent.to.index() == rank && sent.ssn >= wanted)
                .map(|sent| {
                    let message = Message {
                        tag: sent.tag,
                        payload: sent.payload.to_vec(),
                    };
                    (sent.ssn, message)
                })
                .collect()
        };
        let messages = (0..self.sends.len()).map(messages).collect();
        let behind = self.records[rank].iter().filter(|it| it.at() > clock);
        Recollection {
            rank: Rank(rank as u32),
            determinants: behind.cloned().collect(),
            messages,
            saved,
            contributions: self.contributions.clone(),
        }
    }

    fn whole_past(&self, rank: usize) -> Recollection {
        self.collected(rank, beginning(&self.plan, rank as u32))
    }

    fn made(&self, rank: usize) -> Vec<(Rank, i32, Vec<u8>)> {
        let sends = self.sends[rank].iter();
        sends
            .map(|sent| (sent.to, sent.tag, sent.payload.to_vec()))
            .collect()
    }
}

fn beginning(plan: &Plan, rank: u32) -> Beginning {
    let program = Program::new(plan, Rank(rank));
    Beginning::new(program, plan.ranks, Clock(plan.first_clock))
}

/// With all records, the replay makes all emissions again; with the first half of the records, a
/// prefix of them.
// REC-4, REC-5
#[test]
fn what_is_collected_makes_the_same_again() {
    for seed in 0..20 {
        let past = Past::new(seed);
        for rank in 0..past.sends.len() {
            let mut collected = past.whole_past(rank);
            let again = collected.play(false).unwrap();
            assert_eq!(again.sent, past.made(rank));
            assert_eq!(again.printed, past.prints[rank]);
            let some = collected.determinants.len() / 2;
            collected.determinants.truncate(some);
            let less = collected.play(false).unwrap();
            assert!(again.sent.starts_with(&less.sent));
            assert!(again.printed.starts_with(&less.printed));
        }
    }
}

/// From a checkpoint on, the replay makes the remaining emissions again.
// REC-1, REC-4
#[test]
fn what_is_collected_behind_a_checkpoint_makes_the_rest() {
    let mut checkpoints = 0;
    for seed in 0..30 {
        let past = Past::new(seed);
        for rank in 0..past.sends.len() {
            for beginning in &past.checkpoints[rank] {
                checkpoints += 1;
                let sent: u64 = beginning.tally.next_ssn_to.iter().map(|ssn| ssn.0).sum();
                let again = past.collected(rank, beginning.clone()).play(false).unwrap();
                assert_eq!(again.sent, past.made(rank)[sent as usize..]);
                assert!(past.prints[rank].ends_with(&again.printed));
            }
        }
    }
    assert!(checkpoints > 10, "{checkpoints}");
}

/// A missing message leaves records unused.
// REC-3, REC-8, LOG-4
#[test]
fn what_is_missing_leaves_records_over() {
    let (mut missing, mut found) = (0, 0);
    for seed in 0..20 {
        let past = Past::new(seed);
        for rank in 0..past.sends.len() {
            let mut collected = past.whole_past(rank);
            let matched = collected
                .determinants
                .iter()
                .find_map(|record| match record {
                    Determinant::Match(it) => Some(it.matched),
                    _ => None,
                });
            let Some(matched) = matched else {
                continue;
            };
            missing += 1;
            collected.messages[matched.source.index()].remove(&matched.ssn);
            found += u32::from(collected.play(false).is_err());
        }
    }
    // Few exceptions: no later operation may depend on the very last match.
    assert!(
        missing > 20 && found * 10 >= missing * 9,
        "{found} of {missing}"
    );
}

/// A tally holds the state of the channels as the program has seen it.
// LOG-4
#[test]
fn a_tally_knows_what_a_program_had() {
    let plan = Plan::generate(1, &PlanOptions::default());
    let mut tally = Tally::new(plan.ranks);
    let send = Call::Isend {
        to: Rank(1),
        tag: 3,
        payload: Vec::new(),
        synchronous: false,
    };
    for call in [&send, &send, &Call::Imrecv(TakenNumber(0)), &Call::Print(9)] {
        tally.called(call);
    }
    let found = Found {
        source: Rank(1),
        tag: 3,
        bytes: 24,
    };
    tally.answered(&Answer::Taken(None));
    tally.answered(&Answer::Taken(Some((TakenNumber(0), found))));
    for (number, cancelled) in [(0, false), (2, false), (1, true)] {
        let stamp = Stamp {
            source: Rank(1),
            destination: Rank(0),
            number,
            state: 0,
        };
        tally.answered(&Answer::Ended(vec![Ended {
            request: RequestNumber(0),
            collective: None,
            peer: Rank(1),
            tag: 3,
            bytes: 24,
            cancelled,
            payload: stamp.encode().to_vec(),
        }]));
    }
    let Tally {
        requests,
        taken,
        next_ssn_to,
        delivered,
        printed,
    } = tally;
    assert_eq!((requests, taken, printed), (3, 1, 1));
    assert_eq!(next_ssn_to[1], Ssn(2));
    let expected = Delivered {
        before: Ssn(1),
        and: [Ssn(2)].into(),
    };
    assert_eq!(delivered[1], expected);
    assert_eq!(delivered[0], Delivered::default());
}
