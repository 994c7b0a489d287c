//! Results that are kept instead of messages: where they are, and what is freed.

use crate::job::{Job, Member, Running};
use crate::plain::{Case, KINDS};
use refrain_collectives::{Operation, Results};
use refrain_ring::Rank;
use refrain_transport::control::Report;
use std::sync::Arc;

/// Collectives of each kind: more than a member finishes before it tells so.
const ROUNDS: i32 = 40;

fn begin(job: &mut Job, members: &Arc<[Rank]>, me: usize, (number, case): (i32, &Case)) -> Running {
    let member = Member {
        members: Arc::clone(members),
        me,
        context: 0,
    };
    job.begin(&member, number, case).expect("few are open")
}

fn run(job: &mut Job, members: &Arc<[Rank]>, number: i32, case: &Case) {
    let places = 0..members.len();
    let begin = |me| begin(job, members, me, (number, case));
    let mut running: Vec<Running> = places.map(begin).collect();
    while !running.is_empty() {
        job.step().expect("all call the same");
        running.retain_mut(|it| !job.has_ended(it));
    }
}

/// The results that a place keeps of one collective.
fn kept_by(case: &Case, size: u32, me: u32, failures: u32) -> u64 {
    let closers = size.min(failures + 1);
    let is_closer = (0..closers).any(|index| index * size / closers == me);
    match case.algorithm.results(&case.call(me)) {
        _ if size == 1 => 0,
        None => 0,
        Some(Results::Same(_)) => u64::from(is_closer),
        Some(Results::Own(own)) => {
            let owners = (0..=failures.min(size - 1)).map(|by| (me + size - by) % size);
            owners.filter(|owner| own.count(*owner) > 0).count() as u64
        }
    }
}

fn check(kind: Operation, size: u32, failures: u32) {
    let mut rng = fastrand::Rng::with_seed(9);
    let mut job = Job::keeping(size, 3, size.is_multiple_of(2), Some(failures));
    let members: Arc<[Rank]> = (0..size).map(Rank).collect();
    let mut kept = vec![0; size as usize];
    let mut has_results = true;
    // Results stand for the messages of some algorithms of a scan only.
    let mut algorithm = None;
    for number in 0..ROUNDS {
        let mut case = Case::new(kind, size, &mut rng);
        if kind == Operation::Scan {
            case.algorithm = *algorithm.get_or_insert(case.algorithm);
        }
        run(&mut job, &members, number, &case);
        has_results = case.algorithm.results(&case.call(0)).is_some();
        for me in 0..size {
            kept[me as usize] += kept_by(&case, size, me, failures);
        }
    }
    // Members that wait tell how far they are.
    (0..200).for_each(|_| job.step().expect("nothing is under way"));
    for rank in 0..size {
        let case = format!("{kind} of {size} ranks, {failures} failures, rank {rank}");
        assert_eq!(job.results(rank), kept[rank as usize], "{case}");
        for to in (0..size).filter(|to| *to != rank) {
            let [sent, freed] = job.freed(rank, to);
            assert_eq!(freed, if has_results { sent } else { 0 }, "{case} to {to}");
        }
    }
}

// WHOLE-1 WHOLE-2 WHOLE-3 WHOLE-4
#[test]
fn results_are_where_they_belong_and_messages_are_freed() {
    for kind in KINDS {
        for size in 1..=6 {
            for failures in 1..=3 {
                check(kind, size, failures);
            }
        }
    }
}

/// Later lives of all ranks execute a collective again of which an earlier life has said that its messages
/// are gone. Place 1 sends to place 0, and place 0 to the root. Their calls end. They keep these messages until
/// they have the result, since the root may begin later.
// WHOLE-4 WHOLE-5
#[test]
fn messages_that_are_sent_again_are_kept_until_the_result_is_there() {
    let (size, root, failures) = (3, 2, 2);
    let mut rng = fastrand::Rng::with_seed(5);
    let case = Case::reduce(size, root, 7, &mut rng);
    let members: Arc<[Rank]> = (0..size).map(Rank).collect();
    let job = Job::keeping(size, 11, false, Some(failures));
    let mut job = job.in_later_lives(failures);
    let mut running: Vec<Running> = (0..2)
        .map(|me| begin(&mut job, &members, me, (0, &case)))
        .collect();
    for report in [Report::Gone, Report::Closed] {
        job.report(0, 1, report, 1);
        job.report(1, 0, report, 1);
        (0..200).for_each(|_| job.step_first(2).expect("both wait for the root"));
    }
    running.retain_mut(|it| !job.has_ended(it));
    assert!(running.is_empty(), "they only send");
    let freed = |job: &Job| [(1, 0), (0, root)].map(|(from, to)| job.freed(from, to));
    assert_eq!(freed(&job), [[1, 0]; 2]);
    let mut last = begin(&mut job, &members, root as usize, (0, &case));
    while !job.has_ended(&mut last) {
        job.step().expect("all call the same");
    }
    (0..200).for_each(|_| job.step().expect("nothing is under way"));
    assert_eq!([0, 1, 2].map(|rank| job.results(rank)), [1; 3]);
    assert_eq!(freed(&job), [[1, 1]; 2]);
}
