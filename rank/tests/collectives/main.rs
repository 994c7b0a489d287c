//! Collectives over engines and a simulated network: many at once, on groups that overlap.

mod job;
mod laid_out;
mod plain;
mod whole;

use job::{Job, Member, Running};
use plain::{Case, KINDS};
use refrain_collectives::Operation;
use refrain_ring::{Rank, Stream};
use std::sync::Arc;

/// Groups of a job of `size` ranks: all of them, and every second one from the last.
fn groups(size: u32) -> [Arc<[Rank]>; 2] {
    let all = (0..size).map(Rank).collect();
    let some = (0..size).rev().step_by(2).map(Rank).collect();
    [all, some]
}

/// Group `of` at rank `rank`, if it is a member.
fn member(groups: &[Arc<[Rank]>; 2], of: usize, rank: usize) -> Option<Member> {
    let me = groups[of].iter().position(|it| it.index() == rank)?;
    Some(Member {
        members: Arc::clone(&groups[of]),
        me,
        context: of as u32,
    })
}

fn many_at_once(size: u32, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut job = Job::new(size, seed, seed.is_multiple_of(3));
    let groups = groups(size);
    // Of each group, in the order in which its members begin them.
    let cases: [Vec<Case>; 2] = [0, 1].map(|of| {
        let members = groups[of].len() as u32;
        (0..6).map(|_| Case::random(members, &mut rng)).collect()
    });
    let mut begun = vec![[0; 2]; size as usize];
    let mut running: Vec<Running> = Vec::new();
    for _ in 0..100_000 {
        let (rank, of) = (rng.usize(..size as usize), rng.usize(..2));
        let number = begun[rank][of];
        if let Some(member) = member(&groups, of, rank)
            && let Some(case) = cases[of].get(number)
            && rng.u8(..4) == 0
        {
            let begins = job.begin(&member, number as i32, case);
            running.push(begins.expect("few are open"));
            begun[rank][of] += 1;
        }
        job.step().expect("all call the same");
        running.retain_mut(|it| !job.has_ended(it));
        let all_begun = (0..size as usize).all(|rank| {
            (0..2).all(|of| begun[rank][of] == 6 || member(&groups, of, rank).is_none())
        });
        if all_begun && running.is_empty() {
            assert!((0..size as usize).all(|rank| job.is_idle(rank)));
            return;
        }
    }
    panic!("{} collectives do not end", running.len());
}

// COLL-2 STREAM-4
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
        let mut job = Job::new(5, 7, false);
        let groups = groups(5);
        let case = Case::new(kind, 5, &mut rng);
        let mut running: Vec<_> = (0..5)
            .map(|rank| member(&groups, 0, rank).expect("all are members"))
            .map(|member| job.begin(&member, 0, &case).expect("few are open"))
            .collect();
        while !running.is_empty() {
            job.step().expect("all call the same");
            running.retain_mut(|it| !job.has_ended(it));
        }
    }
}

#[test]
fn counts_that_do_not_fit_are_an_error_that_names_them() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut job = Job::new(2, 1, false);
    let groups = groups(2);
    let cases = [12, 16].map(|count| Case::bcast(2, 0, count, &mut rng));
    let members = [0, 1].map(|rank| member(&groups, 0, rank).expect("all are members"));
    let mut sender = job.begin(&members[0], 9, &cases[0]).expect("one is open");
    assert!(job.has_ended(&mut sender), "the root does not wait");
    let _receiver = job.begin(&members[1], 9, &cases[1]).expect("one is open");
    let error = loop {
        match job.step() {
            Ok(()) => assert!(!job.is_idle(1), "it got another length"),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(
        error,
        "collective 9 of the group with context 0: rank 0 sent 48 bytes where 64 were expected: \
         do all members call the same operation with the same counts?"
    );
    assert!(job.is_idle(1), "it was given up");
}

#[test]
fn a_check_names_both_calls() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut job = Job::new(2, 1, true);
    let groups = groups(2);
    let cases = [12, 16].map(|count| Case::bcast(2, 0, count, &mut rng));
    let members = [0, 1].map(|rank| member(&groups, 0, rank).expect("all are members"));
    let _running = [0, 1].map(|it| job.begin(&members[it], 9, &cases[it]).expect("one is open"));
    let error = loop {
        if let Err(error) = job.step() {
            break error.to_string();
        }
    };
    let [a, b] = [12, 16].map(|count| format!("bcast with root 0 and {count} elements of 4 bytes"));
    assert!(error.contains(&a) && error.contains(&b), "{error}");
}

/// Several collectives over layouts at once, each member begins them at another time.
fn over_layouts(kind: Operation, size: u32, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut job = Job::new(size, seed, seed.is_multiple_of(3));
    let groups = groups(size);
    let cases: Vec<_> = (0..3)
        .map(|_| laid_out::Case::random(kind, size, &mut rng))
        .collect();
    let mut begun = vec![0; size as usize];
    let mut running = Vec::new();
    for _ in 0..100_000 {
        let rank = rng.usize(..size as usize);
        let member = member(&groups, 0, rank).expect("all are members");
        if let Some(case) = cases.get(begun[rank]) {
            let number = begun[rank] as i32;
            let begins = case.with_part(rank as u32, |part| job.begin_part(&member, number, part));
            running.push((number, begins.expect("few are open")));
            begun[rank] += 1;
        }
        job.step().expect("all call the same");
        running.retain_mut(|(_, it)| !job.has_ended(it));
        if running.is_empty() && begun.iter().all(|it| *it == cases.len()) {
            return;
        }
    }
    let open: Vec<_> = running
        .iter()
        .map(|(number, _)| &cases[*number as usize])
        .collect();
    panic!("they do not end: {open:?}");
}

// COLL-2
#[test]
fn members_may_have_any_layouts() {
    for kind in laid_out::KINDS {
        for size in 1..=6 {
            for seed in 0..4 {
                over_layouts(kind, size, 100 * u64::from(size) + seed);
            }
        }
    }
}

// STREAM-2
#[test]
fn a_collective_that_is_given_up_keeps_its_stream() {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut job = Job::new(2, 1, false);
    let case = Case::bcast(2, 0, 12, &mut rng);
    let member = member(&groups(2), 0, 1).expect("all are members");
    let running = job.begin(&member, 0, &case).expect("one is open");
    job.give_up(running);
    assert!(job.is_idle(1));
    assert_eq!(job.begin_internal(1), Stream(Stream::FIRST_OPERATION.0 + 1));
}
