//! The rank that a policy chooses, for any statuses.

use crate::fixed_seed::cases;
use proptest::collection::vec;
use proptest::prelude::*;
use refrain_checkpoint::policy::{Choice, Policy, RankStatus};
use refrain_ring::Rank;
use std::collections::BTreeMap;

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0_u64),
        4 => 0..1_000_000_u64,
        1 => (1_u64 << 32) - 2..(1 << 32) + 2,
        1 => u64::MAX - 2..=u64::MAX,
    ]
}

fn status() -> impl Strategy<Value = RankStatus> {
    let bytes = (amount(), amount(), amount(), amount());
    (bytes, 0..1000_u64, any::<bool>()).prop_map(|(bytes, since, is_ready)| RankStatus {
        rank: Rank(0),
        received_bytes: bytes.0,
        sent_bytes: bytes.1,
        log_bytes: bytes.2,
        state_bytes: bytes.3,
        since,
        is_ready,
    })
}

fn ranks() -> impl Strategy<Value = Vec<RankStatus>> {
    vec(status(), 0..9).prop_map(|mut ranks| {
        for (number, status) in ranks.iter_mut().enumerate() {
            status.rank = Rank(number as u32);
        }
        ranks
    })
}

/// Compares `received / cost` exactly.
fn is_better(a: (u64, u64), b: (u64, u64)) -> bool {
    match (a.1, b.1) {
        (_, 0) if b.0 > 0 => false,
        (0, _) => a.0 > 0,
        _ => u128::from(a.0) * u128::from(b.1.max(1)) > u128::from(b.0) * u128::from(a.1),
    }
}

fn worth(now: u64, status: &RankStatus) -> f64 {
    let cost = status.log_bytes.saturating_add(status.state_bytes);
    let waited = now.saturating_sub(status.since).max(1);
    status.received_bytes as f64 * waited as f64 / cost.max(64 << 10) as f64
}

#[test]
fn whoever_is_ordered_is_ready_and_the_best() {
    proptest!(cases(2000), |(ranks in ranks(), now in 0..2000_u64)| {
        for choice in [Choice::Ratio, Choice::Adaptive] {
            let useful = |status: &&RankStatus| status.is_ready && status.received_bytes > 0;
            let ordered = Policy::new(choice).next(now, &ranks);
            let Some(ordered) = ordered else {
                prop_assert_eq!(ranks.iter().find(useful), None);
                continue;
            };
            let chosen = &ranks[ordered.index()];
            prop_assert!(useful(&chosen));
            for other in ranks.iter().filter(useful) {
                let ratio = |status: &RankStatus| (status.received_bytes, status.sent_bytes);
                let better = match choice {
                    Choice::Ratio => is_better(ratio(other), ratio(chosen)),
                    _ => worth(now, other) > worth(now, chosen),
                };
                prop_assert!(!better, "{:?}", other);
            }
        }
        prop_assert_eq!(Policy::new(Choice::None).next(now, &ranks), None);
    });
}

#[test]
fn in_turn_all_ready_ones_have_theirs() {
    proptest!(cases(500), |(ranks in ranks(), rounds in 1..4_usize)| {
        let ready = ranks.iter().filter(|status| status.is_ready).count();
        let mut policy = Policy::new(Choice::RoundRobin);
        let mut counts: BTreeMap<Rank, usize> = BTreeMap::new();
        for _ in 0..ready * rounds {
            let rank = policy.next(0, &ranks).expect("some are ready");
            prop_assert!(ranks[rank.index()].is_ready);
            *counts.entry(rank).or_default() += 1;
        }
        prop_assert_eq!(counts.len(), ready);
        prop_assert!(counts.values().all(|count| *count == rounds));
        prop_assert_eq!(policy.next(0, &ranks).is_none(), ready == 0);
    });
}

#[test]
fn nobody_comes_before_its_time_and_everybody_after_it() {
    proptest!(cases(300), |(mut ranks in ranks(), every in 1..500_u64)| {
        let mut policy = Policy::new(Choice::Interval { every });
        let count = ranks.len() as u64;
        for now in 1000..1000 + 3 * every {
            if let Some(rank) = policy.next(now, &ranks) {
                let status = &mut ranks[rank.index()];
                prop_assert!(status.is_ready && now - status.since >= every);
                status.since = now;
            }
            let late = ranks.iter().filter(|it| it.is_ready && now >= 1000 + count);
            for status in late {
                prop_assert!(now - status.since <= every + count, "{:?} at {}", status, now);
            }
        }
    });
}

/// A rank that receives very little and sends nothing always has the highest ratio of all.
#[test]
fn what_costs_little_and_frees_nothing_does_not_come_first() {
    let status = |rank, received_bytes, sent_bytes| RankStatus {
        rank: Rank(rank),
        received_bytes,
        sent_bytes,
        log_bytes: sent_bytes,
        state_bytes: 1 << 20,
        since: 0,
        is_ready: true,
    };
    let ranks = [status(0, 8, 0), status(1, 1 << 30, 1 << 20)];
    assert_eq!(Policy::new(Choice::Ratio).next(1, &ranks), Some(Rank(0)));
    assert_eq!(Policy::new(Choice::Adaptive).next(1, &ranks), Some(Rank(1)));
}
