//! Checks that plans contain all cases that they have to test.

use super::epoch;
use crate::workload::chaos::generate::{self, Parameters};
use crate::workload::chaos::plan::{Completion, Ending, ReceiveManner, Round, SendManner, Step};
use crate::workload::shape::Shape;
use std::collections::{HashMap, HashSet};
use std::mem::discriminant;

fn rounds() -> Vec<Round> {
    (0..50).flat_map(|seed| epoch(seed, 4)).collect()
}

#[test]
fn plans_depend_on_seed_number_and_ranks_alone() {
    let plan = |seed, ranks, number| {
        format!(
            "{:?}",
            generate::round(
                Parameters {
                    seed,
                    ranks,
                    bytes_max: 1 << 20
                },
                number
            )
        )
    };
    assert_eq!(plan(1, 3, 7), plan(1, 3, 7));
    assert_ne!(plan(1, 3, 7), plan(2, 3, 7));
    assert_ne!(plan(1, 3, 7), plan(1, 3, 8));
    assert_ne!(plan(1, 3, 7), plan(1, 4, 7));
}

#[test]
fn every_manner_appears() {
    let rounds = rounds();
    let sends: HashSet<_> = rounds
        .iter()
        .flat_map(|round| &round.messages)
        .map(|message| message.manner)
        .collect();
    let all = SendManner::IMMEDIATE
        .iter()
        .chain(&SendManner::BLOCKING)
        .chain(&[SendManner::Sendrecv]);
    assert_eq!(sends, all.copied().collect());
    let receives: HashSet<_> = rounds
        .iter()
        .flat_map(|round| &round.slots)
        .map(|slot| slot.manner)
        .collect();
    let others = [ReceiveManner::CancelNever, ReceiveManner::Sendrecv];
    let all = ReceiveManner::IMMEDIATE
        .iter()
        .chain(&ReceiveManner::BLOCKING)
        .chain(&others);
    assert_eq!(receives, all.copied().collect());
}

#[test]
fn every_step_and_completion_appears() {
    let rounds = rounds();
    let steps = || rounds.iter().flat_map(|round| &round.programs).flatten();
    let kinds: HashSet<_> = steps().map(discriminant).collect();
    assert_eq!(kinds.len(), 11);
    let awaits: HashSet<_> = steps()
        .filter_map(|step| {
            if let Step::Await(kind) = step {
                Some(*kind)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(awaits, Completion::ALL.into());
    let pokes: HashSet<_> = steps()
        .filter_map(|step| {
            if let Step::Poke(kind) = step {
                Some(*kind)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(pokes, Completion::TESTS.into());
    let endings: HashSet<_> = rounds.iter().map(|round| round.ends_with).collect();
    assert_eq!(
        endings,
        [Ending::Open, Ending::Barrier, Ending::Fence].into()
    );
}

#[test]
fn every_shape_pattern_and_length_appears() {
    let rounds = rounds();
    let messages = || rounds.iter().flat_map(|round| &round.messages);
    let slots = || rounds.iter().flat_map(|round| &round.slots);
    let kinds = |shapes: &mut dyn Iterator<Item = &Shape>| {
        shapes.map(discriminant).collect::<HashSet<_>>().len()
    };
    assert_eq!(kinds(&mut messages().map(|message| &message.shape)), 5);
    assert_eq!(kinds(&mut slots().map(|slot| &slot.shape)), 5);
    let patterns: HashSet<_> = slots()
        .map(|s| (s.pattern.source.is_some(), s.pattern.tag.is_some()))
        .collect();
    assert_eq!(patterns.len(), 4);
    assert!(slots().any(|slot| slot.may_truncate));
    assert!(messages().any(|message| message.source == message.destination));
}

/// Thresholds of fabrics are powers of two minus or plus headers: inject, eager, slots of
/// receives, distant frames.
#[test]
fn every_length_around_limits_appears() {
    let rounds: Vec<Round> = (0..200).flat_map(|seed| epoch(seed, 4)).collect();
    let lengths: HashSet<usize> = rounds
        .iter()
        .flat_map(|round| &round.messages)
        .map(|message| message.bytes)
        .collect();
    let missing: Vec<usize> = [
        64,
        128,
        256,
        4 << 10,
        8 << 10,
        16 << 10,
        64 << 10,
        256 << 10,
    ]
    .into_iter()
    .flat_map(|limit| {
        [0, 1, 48, 64, 112, 128]
            .into_iter()
            .flat_map(move |distance: usize| [limit - distance.min(limit), limit + distance])
    })
    .chain([0, 1, 1 << 20])
    .filter(|bytes| !lengths.contains(bytes))
    .collect();
    assert_eq!(missing, [0; 0], "no message of these lengths");
    for limit in [1 << 20, 2 << 20, 4 << 20] {
        let longer = lengths
            .iter()
            .any(|bytes| (limit + 1..=2 * limit).contains(bytes));
        assert!(longer, "no message a little longer than {limit} bytes");
    }
    assert!(lengths.iter().all(|&bytes| bytes <= 8 << 20));
}

#[test]
fn there_are_floods_and_receives_posted_long_before() {
    let rounds = rounds();
    let flood = |round: &Round| {
        let mut pairs: HashMap<_, usize> = HashMap::new();
        round
            .messages
            .iter()
            .for_each(|m| *pairs.entry((m.source, m.destination)).or_default() += 1);
        pairs.values().any(|&count| count > 60)
    };
    assert!(rounds.iter().any(flood));
    let posts_then_barrier = |program: &Vec<Step>| {
        let barrier = program.iter().position(|step| *step == Step::Barrier);
        let first_send = program.iter().position(|step| !step.sends().is_empty());
        let first_post = program
            .iter()
            .position(|step| matches!(step, Step::Post(_)));
        barrier.is_some() && first_post < barrier && barrier < first_send
    };
    assert!(
        rounds
            .iter()
            .flat_map(|round| &round.programs)
            .any(posts_then_barrier)
    );
}

#[test]
fn every_message_has_a_sender_and_payload_of_its_own() {
    for round in rounds() {
        assert!(round.send_order().iter().all(|&place| place != usize::MAX));
        let mut seeds = HashMap::new();
        for message in &round.messages {
            let first = seeds.entry(message.seed).or_insert(message);
            let repeated = (first.source, first.tag, first.bytes)
                == (message.source, message.tag, message.bytes);
            assert!(repeated, "{first:?} and {message:?} have the same payload");
        }
    }
}
