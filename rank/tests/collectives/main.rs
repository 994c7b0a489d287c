//! Collectives over engines and a simulated network: many at once, on groups that overlap.

mod job;
mod plain;

use job::{Job, Running};
use plain::{Case, KINDS};
use refrain_ring::Rank;
use std::sync::Arc;

/// Groups of a job of `size` ranks: all of them, and every second one from the last.
fn groups(size: u32) -> [Arc<[Rank]>; 2] {
    let all = (0..size).map(Rank).collect();
    let some = (0..size).rev().step_by(2).map(Rank).collect();
    [all, some]
}

fn many_at_once(size: u32, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut job = Job::new(size, seed);
    let groups = groups(size);
    // Of each group, in the order in which its members begin them.
    let cases: [Vec<Case>; 2] = [0, 1].map(|of| {
        let members = groups[of].len() as u32;
        (0..6).map(|_| Case::random(members, &mut rng)).collect()
    });
    let mut begun = vec![[0; 2]; size as usize];
    let mut running: Vec<Running> = Vec::new();
    for _ in 0..100_000 {
        let rank = rng.usize(..size as usize);
        let of = rng.usize(..2);
        let me = groups[of].iter().position(|it| it.index() == rank);
        if let Some(me) = me
            && let Some(case) = cases[of].get(begun[rank][of])
            && rng.u8(..4) == 0
        {
            let name = job::name(&groups[of], me, of as u32, begun[rank][of] as i32);
            running.push(job.begin(rank, name, case));
            begun[rank][of] += 1;
        }
        job.step();
        running = (running.into_iter())
            .filter_map(|it| job.advance(it))
            .collect();
        let all_begun = (0..size as usize).all(|rank| {
            (0..2).all(|of| begun[rank][of] == 6 || !groups[of].contains(&Rank(rank as u32)))
        });
        if all_begun && running.is_empty() {
            return;
        }
    }
    panic!("{} collectives do not end", running.len());
}

#[test]
fn results_are_right_whatever_is_under_way() {
    for size in 1..=9 {
        for seed in 0..6 {
            many_at_once(size, 1000 * u64::from(size) + seed);
        }
    }
}

#[test]
fn each_kind_runs() {
    for kind in KINDS {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut job = Job::new(5, 7);
        let [all, _] = groups(5);
        let case = Case::new(kind, 5, &mut rng);
        let mut running: Vec<_> = (0..5)
            .map(|rank| job.begin(rank, job::name(&all, rank, 0, 0), &case))
            .collect();
        while !running.is_empty() {
            job.step();
            running = (running.into_iter())
                .filter_map(|it| job.advance(it))
                .collect();
        }
    }
}

#[test]
fn counts_that_do_not_fit_are_an_error_that_names_them() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut job = Job::new(2, 1);
    let [all, _] = groups(2);
    let cases = [12, 16].map(|count| Case::bcast(2, 0, count, &mut rng));
    let sender = job.begin(0, job::name(&all, 0, 0, 9), &cases[0]);
    assert!(job.advance(sender).is_none(), "the root does not wait");
    let mut receiver = job.begin(1, job::name(&all, 1, 0, 9), &cases[1]);
    let error = loop {
        job.step();
        match job.try_advance(receiver) {
            Ok(Some(waits)) => receiver = waits,
            Ok(None) => panic!("it got another length"),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(
        error,
        "collective 9 of the group with context 0: rank 0 sent 48 bytes where 64 were expected: \
         do all members call the same operation with the same counts?"
    );
}
