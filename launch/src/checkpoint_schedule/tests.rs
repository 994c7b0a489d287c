use super::*;
use proptest::prelude::*;

const EVERY: Duration = Duration::from_millis(200);

fn scheduler(choice: Choice, ranks: usize) -> Scheduler {
    Scheduler::new(choice, EVERY, ranks)
}

fn figures(received_bytes: u64, sent_bytes: u64) -> StatusFigures {
    StatusFigures {
        received_bytes,
        sent_bytes,
        heeds_requests: true,
        ..StatusFigures::default()
    }
}

/// All ranks run, and answer at once with these statuses. Returns the ranks that are asked for a
/// checkpoint.
fn round(scheduler: &mut Scheduler, now: Duration, of: &[StatusFigures]) -> Vec<usize> {
    let runs = vec![true; of.len()];
    let asked = scheduler.step(now, &runs);
    for request in asked {
        match request {
            Request::Status(rank) => scheduler.answered(rank, of[rank].clone()),
            Request::Checkpoint(rank) => panic!("{rank} is not to be asked yet"),
        }
    }
    ordered(&scheduler.step(now, &runs))
}

fn ordered(requests: &[Request]) -> Vec<usize> {
    let rank = |request: &Request| match request {
        Request::Checkpoint(rank) => Some(*rank),
        Request::Status(_) => None,
    };
    requests.iter().filter_map(rank).collect()
}

#[test]
fn with_none_no_rank_is_asked() {
    let mut scheduler = scheduler(Choice::None, 3);
    assert!(scheduler.is_idle());
    for second in 0..100 {
        let now = Duration::from_secs(second);
        assert!(scheduler.step(now, &[true; 3]).is_empty());
        assert_eq!(scheduler.next_due(), None);
    }
    assert!(scheduler.counts().is_empty());
}

/// Time passes between a step and the call of `next_due`.
#[test]
fn what_becomes_due_behind_a_step_is_waited_for() {
    let mut scheduler = scheduler(Choice::RoundRobin, 1);
    assert!(
        scheduler
            .step(EVERY - Duration::from_nanos(1), &[true])
            .is_empty()
    );
    assert_eq!(scheduler.next_due(), Some(EVERY));
    assert_eq!(scheduler.step(EVERY, &[true]), [Request::Status(0)]);
    assert!(scheduler.next_due().is_some_and(|due| due > EVERY));
}

#[test]
fn round_robin_asks_a_rank_after_the_checkpoint_of_the_last() {
    let mut scheduler = scheduler(Choice::RoundRobin, 3);
    let of = vec![figures(0, 0); 3];
    assert!(
        scheduler.step(EVERY / 2, &[true; 3]).is_empty(),
        "it is too early"
    );
    let mut now = EVERY;
    for expected in [0, 1, 2, 0] {
        assert_eq!(round(&mut scheduler, now, &of), [expected]);
        now += EVERY;
        assert!(scheduler.step(now, &[true; 3]).is_empty(), "one at a time");
        scheduler.begun(expected, now);
        now += 10 * EVERY;
        assert!(scheduler.step(now, &[true; 3]).is_empty(), "one at a time");
        scheduler.stable(expected, (1000, 10), now);
    }
    let counts = scheduler.counts();
    assert_eq!(
        (counts[0].orders, counts[0].stable, counts[0].bytes),
        (2, 2, 2000)
    );
}

/// A reduction: rank 0 receives all messages, so its checkpoint frees the logs of the others.
#[test]
fn adaptive_asks_ranks_that_receive() {
    let mut scheduler = scheduler(Choice::Adaptive, 3);
    let of = [
        figures(1 << 20, 0),
        figures(0, 1 << 19),
        figures(0, 1 << 19),
    ];
    let mut now = EVERY;
    for _ in 0..5 {
        assert_eq!(round(&mut scheduler, now, &of), [0]);
        scheduler.stable(0, (1 << 16, 0), now);
        now += EVERY;
    }
}

/// The first rank of a set stands for it, with the traffic of all; it is asked when all can take a
/// checkpoint.
// SET-4
#[test]
fn a_policy_chooses_a_set() {
    let mut scheduler = scheduler(Choice::Adaptive, 4).with_sets(&[0, 1, 1, 2]);
    let of = [
        figures(1 << 20, 0),
        figures(0, 0),
        figures(1 << 22, 0),
        figures(1 << 21, 0),
    ];
    assert_eq!(round(&mut scheduler, EVERY, &of), [1]);
    for member in [1, 2] {
        scheduler.stable(member, (1 << 16, 0), EVERY);
    }
    let later = [
        figures(1 << 20, 0),
        figures(0, 0),
        figures(0, 0),
        figures(0, 0),
    ];
    assert_eq!(round(&mut scheduler, 2 * EVERY, &later), [0]);
}

#[test]
fn with_an_interval_no_rank_is_asked_before_it_is_over() {
    let every = 200;
    let mut scheduler = scheduler(Choice::Interval { every }, 2);
    let of = vec![figures(1, 1); 2];
    let step = EVERY / 2;
    assert!(round(&mut scheduler, step, &of).is_empty());
    assert_eq!(round(&mut scheduler, 2 * step, &of), [0]);
    scheduler.stable(0, (1, 0), 2 * step);
    assert_eq!(round(&mut scheduler, 3 * step, &of), [1]);
    scheduler.stable(1, (1, 0), 3 * step);
    assert_eq!(round(&mut scheduler, 4 * step, &of), [0]);
}

#[test]
fn ranks_that_take_no_checkpoints_are_not_asked() {
    let mut scheduler = scheduler(Choice::RoundRobin, 2);
    let deaf = StatusFigures {
        heeds_requests: false,
        ..figures(9, 9)
    };
    let of = [deaf, figures(1, 1)];
    for turn in 1..5 {
        assert_eq!(round(&mut scheduler, turn * EVERY, &of), [1]);
        scheduler.stable(1, (1, 0), turn * EVERY);
    }
}

/// Rank 0 computes and does not answer: the round ends without it.
#[test]
fn a_rank_that_does_not_answer_does_not_hold_up_others() {
    let mut scheduler = scheduler(Choice::RoundRobin, 2);
    let runs = [true, true];
    let asked = scheduler.step(EVERY, &runs);
    assert_eq!(asked, [Request::Status(0), Request::Status(1)]);
    scheduler.answered(1, figures(1, 1));
    assert!(scheduler.step(EVERY, &runs).is_empty());
    let due = EVERY + ANSWERS_WAIT;
    assert_eq!(scheduler.next_due(), Some(due));
    assert_eq!(ordered(&scheduler.step(due, &runs)), [1]);
    scheduler.stable(1, (1, 0), due);
    // It is asked once; its late answer counts.
    let next = due + EVERY;
    assert_eq!(scheduler.step(next, &runs), [Request::Status(1)]);
    scheduler.answered(0, figures(1, 1));
    scheduler.answered(1, figures(1, 1));
    assert_eq!(ordered(&scheduler.step(next, &runs)), [0]);
}

/// Rank 0 receives most and takes no checkpoint although it is asked: rank 1 gets its turn, and
/// rank 0 is asked less and less often.
#[test]
fn a_rank_that_does_not_follow_does_not_block_the_others() {
    let mut scheduler = scheduler(Choice::Adaptive, 2);
    let of = [figures(1 << 30, 0), figures(1, 1)];
    let (mut now, mut told) = (EVERY, [0, 0]);
    let end = Duration::from_secs(300);
    while now < end {
        for rank in round(&mut scheduler, now, &of) {
            told[rank] += 1;
            if rank == 1 {
                scheduler.stable(1, (1, 0), now);
            }
        }
        now += EVERY;
    }
    assert!((2..12).contains(&told[0]), "{told:?}");
    assert!(told[1] > 500, "{told:?}");
    scheduler.stable(0, (1, 0), now);
    assert_eq!(
        round(&mut scheduler, now + EVERY, &of),
        [0],
        "it does again"
    );
}

// REC-6
#[test]
fn a_death_voids_the_requests_to_that_life() {
    let mut scheduler = scheduler(Choice::RoundRobin, 2);
    let of = vec![figures(1, 1); 2];
    assert_eq!(round(&mut scheduler, EVERY, &of), [0]);
    scheduler.died(0);
    let now = 2 * EVERY;
    let asked = scheduler.step(now, &[false, true]);
    assert_eq!(asked, [Request::Status(1)]);
    scheduler.answered(1, figures(1, 1));
    assert_eq!(ordered(&scheduler.step(now, &[false, true])), [1]);
    scheduler.begun(1, now);
    scheduler.died(1);
    // In its next life, too.
    assert_eq!(round(&mut scheduler, 3 * EVERY, &of), [0]);
    // A rank that dies while it is asked is not waited for.
    scheduler.stable(0, (1, 0), 3 * EVERY);
    assert_eq!(scheduler.step(4 * EVERY, &[true; 2]).len(), 2);
    scheduler.died(0);
    scheduler.answered(1, figures(1, 1));
    assert_eq!(ordered(&scheduler.step(4 * EVERY, &[false, true])), [1]);
    scheduler.stable(1, (1, 0), 4 * EVERY);
    let asked = scheduler.step(5 * EVERY, &[true; 2]);
    assert!(
        asked.contains(&Request::Status(0)),
        "its next life is asked"
    );
}

// LOG-3
#[test]
fn a_wish_is_an_order_whatever_the_policy() {
    for choice in [Choice::None, Choice::Adaptive] {
        let mut scheduler = scheduler(choice, 3);
        scheduler.request(2);
        scheduler.request(99);
        assert!(
            scheduler
                .step(Duration::ZERO, &[true, true, false])
                .is_empty()
        );
        let now = Duration::from_millis(1);
        assert_eq!(ordered(&scheduler.step(now, &[true; 3])), [2]);
        scheduler.request(1);
        assert_eq!(
            ordered(&scheduler.step(now, &[true; 3])),
            [1],
            "a request counts at once"
        );
        scheduler.request(2);
        assert!(
            ordered(&scheduler.step(now, &[true; 3])).is_empty(),
            "it was asked"
        );
        // It dies: its request stays.
        scheduler.died(2);
        assert!(ordered(&scheduler.step(now, &[true, true, false])).is_empty());
        assert_eq!(ordered(&scheduler.step(now, &[true; 3])), [2]);
        scheduler.stable(2, (1, 0), now);
        scheduler.stable(1, (1, 0), now);
        assert!(ordered(&scheduler.step(now, &[true; 3])).is_empty());
        assert_eq!(scheduler.is_idle(), choice == Choice::None);
    }
}

/// The launcher sleeps until `next_due`: were that in the past, the launcher would never sleep.
#[test]
fn what_is_due_lies_ahead() {
    let rank = 0..3_usize;
    let step = (0..8_u8, rank, 0..700_u64, any::<[bool; 3]>());
    let choices = [
        Choice::None,
        Choice::RoundRobin,
        Choice::Adaptive,
        Choice::Interval { every: 200 },
    ];
    proptest!(|(of in 0..4_usize, steps in prop::collection::vec(step, 0..60))| {
        let mut scheduler = scheduler(choices[of], 3);
        let mut now = Duration::ZERO;
        for (kind, rank, later, runs) in steps {
            now += Duration::from_millis(later);
            match kind {
                0 => scheduler.answered(rank, figures(later, 1)),
                1 => scheduler.begun(rank, now),
                2 => scheduler.stable(rank, (later, 0), now),
                3 => scheduler.request(rank),
                4 => scheduler.died(rank),
                _ => {}
            }
            let requests = scheduler.step(now, &runs);
            for request in &requests {
                let (Request::Status(to) | Request::Checkpoint(to)) = request;
                prop_assert!(runs[*to], "a rank that does not run is asked");
            }
            let orders = ordered(&requests).len();
            prop_assert!(choices[of] != Choice::None || requests.len() == orders);
            prop_assert!(scheduler.next_due().is_none_or(|due| due > now));
        }
    });
}
