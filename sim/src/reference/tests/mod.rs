mod tested_send;

use super::*;
use crate::plan::Plan;
use crate::plan::generate::PlanOptions;
use proptest::prelude::*;
use refrain_logging::determinant::Determinant;

/// The results of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Final {
    /// A hash of the program's answers.
    pub state: u64,
    /// The printed words.
    pub prints: Vec<u64>,
    /// The clock of the last operation.
    pub clock: Clock,
}

fn choices<'a>(records: impl IntoIterator<Item = &'a Determinant>) -> Choices {
    Choices::of(records).expect("records of one life")
}

/// Plays all ranks to their ends.
pub(crate) fn play(plan: &Plan, choices: Vec<Choices>) -> Result<Vec<Reference>, Vec<Stop>> {
    let mut ranks = begin_all(plan, choices);
    let stops = play_all(&mut ranks);
    match stops.iter().all(|stop| *stop == Stop::Finished) {
        true => Ok(ranks),
        false => Err(stops),
    }
}

fn run_job(plan: &Plan, choices: Vec<Choices>) -> Result<Vec<Final>, Vec<Stop>> {
    let end = |rank: &Reference| Final {
        state: rank.state(),
        prints: rank.prints().to_vec(),
        clock: rank.clock(),
    };
    Ok(play(plan, choices)?.iter().map(end).collect())
}

fn plan(seed: u64) -> Plan {
    let options = PlanOptions {
        operations: 100,
        ..PlanOptions::default()
    };
    Plan::generate(seed, &options)
}

/// The results of a job without faults.
pub(crate) struct Ended {
    pub finals: Vec<Final>,
    pub choices: Vec<Choices>,
    pub records: Vec<Vec<Determinant>>,
    pub programs: Vec<Program>,
}

pub(crate) fn ended(plan: &Plan, chance: u64) -> Ended {
    let run = crate::world::record(plan, chance);
    let ends = run.programs.iter().zip(run.prints).zip(run.clocks);
    Ended {
        finals: ends
            .map(|((program, prints), clock)| Final {
                state: program.state(),
                prints,
                clock,
            })
            .collect(),
        choices: run.records.iter().map(choices).collect(),
        records: run.records,
        programs: run.programs,
    }
}

/// One rank alone, with all that the other ranks sent to it and gave to collectives.
fn alone(rank: usize, beginning: &Beginning, choices: Choices, whole: &[Reference]) -> Reference {
    let contributions = Rc::new(RefCell::new(whole[rank].contributions()));
    let reference = Reference::new(Rank(rank as u32), beginning, choices);
    let mut reference = reference.with_contributions(contributions);
    for (source, other) in whole.iter().enumerate() {
        for sent in other.sends().iter().filter(|sent| sent.to.index() == rank) {
            let source = Rank(source as u32);
            assert!(reference.deliver(source, sent.ssn, sent.tag, sent.payload.clone()));
        }
    }
    reference
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 80,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(6),
        ..ProptestConfig::default()
    })]

    /// For any timing, every program ends, has received every message once, and replays from its
    /// records to the same end. REC-4
    #[test]
    fn programs_end_and_are_played_again(seed: u64, chance: u64) {
        let plan = plan(seed);
        let ended = ended(&plan, chance);
        for program in &ended.programs {
            prop_assert_eq!(program.complaint(), None);
            prop_assert_eq!(program.messages_received(), program.messages_expected());
        }
        let again = run_job(&plan, ended.choices);
        let again = again.unwrap_or_else(|why| panic!("{plan}{why:?}"));
        prop_assert_eq!(again, ended.finals);
    }

    /// A prefix of the records, however short, replays to a prefix of the sends. REC-2, REC-4,
    /// REC-5
    #[test]
    fn the_first_records_tell_the_first_part(seed: u64, chance: u64, cut: prop::sample::Index) {
        let plan = plan(seed);
        let ended = ended(&plan, chance);
        let whole = play(&plan, ended.choices).expect("it ends");
        for (rank, records) in ended.records.iter().enumerate() {
            let kept = &records[..cut.index(records.len() + 1)];
            let choices = choices(kept);
            let program = Program::new(&plan, Rank(rank as u32));
            let beginning = Beginning::new(program, plan.ranks, Clock(plan.first_clock));
            let complete_before = choices.complete_before();
            let mut part = alone(rank, &beginning, choices, &whole);
            match part.run() {
                Stop::EndOfRecords { clock } => prop_assert!(clock >= complete_before),
                Stop::Finished => {}
                other => prop_assert!(false, "{}rank {rank}: {other:?}", plan),
            }
            let sends = part.sends();
            prop_assert_eq!(sends, &whole[rank].sends()[..sends.len()]);
        }
    }

    /// A replay from any checkpoint has the same end. REC-1
    #[test]
    fn checkpoints_lead_to_the_same_end(seed: u64, chance: u64) {
        let plan = plan(seed);
        let ended = ended(&plan, chance);
        let whole = play(&plan, ended.choices).expect("it ends");
        for (rank, first) in whole.iter().enumerate() {
            for beginning in &first.checkpoints {
                let choices = choices(&ended.records[rank]);
                let mut later = alone(rank, beginning, choices, &whole);
                prop_assert_eq!(later.run(), Stop::Finished);
                prop_assert_eq!(later.state(), first.state());
                let sends = later.sends();
                let before = first.sends().len() - sends.len();
                prop_assert_eq!(sends, &first.sends()[before..]);
            }
        }
    }
}

/// Records of another program, and a program that diverges, are noticed: by the reference, or by
/// different sends. REC-8
#[test]
fn divergence_is_seen() {
    let mut seen = 0;
    for seed in 0..40 {
        let mut plan = plan(seed);
        let ended = ended(&plan, seed);
        let whole = play(&plan, ended.choices.clone()).expect("it ends");
        // The second life makes other random choices.
        let has_messages = plan
            .rounds
            .iter()
            .position(|round| round.messages.len() > 4);
        let Some(round) = has_messages else {
            continue;
        };
        plan.rounds[round].style_seed ^= 1;
        let is_same = match play(&plan, ended.choices) {
            Err(_) => false,
            Ok(other) => {
                let pairs = whole.iter().zip(&other);
                pairs.into_iter().all(|(a, b)| a.sends() == b.sends())
            }
        };
        seen += u32::from(!is_same);
    }
    assert!(seen > 30, "{seen}");
}

/// A record of a wrong match of a receive from any source is noticed.
#[test]
fn a_wrong_record_is_seen() {
    let plan = (0..).map(plan).find(|plan| plan.messages() > 50);
    let plan = plan.expect("there are long ones");
    let ended = ended(&plan, 1);
    let mut wrong = 0;
    for (rank, records) in ended.records.iter().enumerate() {
        let mut records = records.clone();
        let matched = records.iter_mut().find_map(|record| match record {
            Determinant::Match(it) if !it.is_named && !it.is_completed => Some(&mut it.matched),
            _ => None,
        });
        let Some(matched) = matched else {
            continue;
        };
        matched.ssn = Ssn(matched.ssn.0 + 1);
        let mut all = ended.choices.clone();
        all[rank] = choices(&records);
        let other = run_job(&plan, all);
        assert_ne!(other.ok().as_ref(), Some(&ended.finals), "rank {rank}");
        wrong += 1;
    }
    assert!(wrong > 0);
}
