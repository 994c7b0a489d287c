use super::generate::PlanOptions;
use super::*;
use std::collections::HashSet;

/// Every plan can be run: lengths, ranks and log space are within their limits.
#[test]
fn plans_are_sound() {
    let (mut messages, mut algorithms) = (0, HashSet::new());
    for seed in 0..500 {
        let plan = Plan::generate(seed, &PlanOptions::default());
        assert_eq!(plan, Plan::generate(seed, &PlanOptions::default()));
        assert!((2..=6).contains(&plan.ranks));
        messages += plan.messages();
        for message in plan.rounds.iter().flat_map(|round| &round.messages) {
            assert!(message.from != message.to || message.is_named, "{plan}");
            assert!(message.from.0 < plan.ranks && message.to.0 < plan.ranks);
            assert!(message.bytes as usize >= crate::plan::STAMP_BYTES);
            assert!(message.is_named || !message.is_synchronous);
        }
        for collective in plan.rounds.iter().flat_map(|round| &round.collectives) {
            let shape = collective.shape;
            algorithms.insert((shape.operation, shape.algorithm));
            assert!(collective.group < plan.groups.len(), "{plan}");
        }
        let most = (0..plan.ranks).map(|rank| plan.bytes_sent(Rank(rank)));
        let room = plan.log.memory_bytes + plan.log.disk_bytes;
        assert!(most.max() < Some(room), "{plan}");
        assert!((1..=plan.loggers.replicas).contains(&plan.loggers.quorum));
    }
    assert!(messages > 500 * 50);
    let all = refrain_collectives::Operation::ALL.map(|operation| operation.algorithms().len());
    assert_eq!(algorithms.len(), all.iter().sum());
}

/// An option changes its subject only.
#[test]
fn an_option_changes_its_subject_only() {
    for seed in 0..50 {
        let options = PlanOptions {
            protocol: Some(Member::Pessimist),
            has_faults: false,
            ..PlanOptions::default()
        };
        let plan = Plan::generate(seed, &options);
        let other = Plan::generate(seed, &PlanOptions::default());
        assert_eq!(plan.protocol, Member::Pessimist);
        // Jobs that lose events print nothing.
        let has_same_rounds = plan.rounds == other.rounds || other.loses_events();
        assert_eq!((plan.faults.len(), has_same_rounds), (0, true));
        let ranks = PlanOptions {
            ranks: Some(5),
            ..options
        };
        assert_eq!(Plan::generate(seed, &ranks).ranks, 5);
    }
}

/// The printed plan shows everything.
#[test]
fn a_plan_is_told() {
    let texts: Vec<String> = (0..100)
        .map(|seed| Plan::generate(seed, &PlanOptions::default()).to_string())
        .collect();
    let all = texts.concat();
    for part in [
        "Kill",
        "PowerLoss",
        "Pause",
        "DiskFull",
        "distant_bytes_min: Some",
        "quorum: 2",
        "*",
        "!",
        "makes group",
        ", in place",
        ", ragged",
    ] {
        assert!(all.contains(part), "{part}");
    }
}
