//! What messages carry: `causal` without a network.

use refrain_logging::LeftInLogs;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_logging::held::{Collected, Gives, Holdings, Tolerance};
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::{Carriage, Clock, Incarnation, Rank, Ssn};

pub type Process = Pessimist<Holdings>;

/// A life of a rank, with the events of its earlier lives.
pub fn life(rank: u32, incarnation: u32, ranks: u32, collected: Option<Collected>) -> Process {
    life_tolerating(Tolerance::default(), (rank, incarnation), ranks, collected)
}

fn life_tolerating(
    tolerance: Tolerance,
    (rank, incarnation): (u32, u32),
    ranks: u32,
    collected: Option<Collected>,
) -> Process {
    let of = (Rank(rank), Incarnation(incarnation));
    let identity = Identity {
        job: 1,
        rank: of.0,
        incarnation: of.1,
    };
    let next = collected.as_ref().map_or(EventIndex(0), |it| it.end);
    let holdings = Holdings::new((Gives::WithMessages, tolerance), of, ranks, collected);
    Pessimist::after_unstable(identity, next, holdings)
}

fn job(ranks: u32) -> Vec<Process> {
    (0..ranks).map(|rank| life(rank, 0, ranks, None)).collect()
}

fn carriage(to: usize) -> Carriage {
    Carriage {
        to: Rank(to as u32),
        life: Incarnation(0),
        may_be_first: false,
        bytes_max: 255,
    }
}

/// What the next message from one rank to another carries; it arrives at once.
fn send(job: &mut [Process], from: usize, to: usize) -> Vec<u8> {
    let mut attachment = Vec::new();
    assert!(job[from].carry(carriage(to), &mut attachment));
    if !attachment.is_empty() {
        job[from].carried(Rank(to as u32));
        let taken = job[to]
            .commits_mut()
            .take_carried(Rank(from as u32), &attachment);
        taken.expect("what a rank carries can be read");
    }
    attachment
}

/// All pieces on control lanes arrive.
pub fn deliver(job: &mut [Process]) {
    let mut is_over = false;
    while !is_over {
        is_over = true;
        for from in 0..job.len() {
            let mut piece = [0; 40];
            while let Some((to, bytes)) = job[from].commits_mut().tell(&mut piece) {
                let heard = job[to.index()]
                    .commits_mut()
                    .hear(Rank(from as u32), &piece[..bytes]);
                heard.expect("what a rank tells can be read");
                is_over = false;
            }
        }
    }
}

/// A rank receives a message from any source: number `count` of rank 2.
fn receive(job: &mut [Process], rank: usize, count: u64) {
    let matched = Matched {
        request: Clock(count * 3 + 1),
        source: Rank(2),
        ssn: Ssn(count),
    };
    job[rank]
        .record()
        .matched(Clock(count * 3 + 2), matched, false);
}

fn held(job: &[Process], holder: usize, of: u32) -> usize {
    job[holder].commits().held_of(Rank(of)).count()
}

fn stable_end(job: &mut [Process], rank: usize) -> EventIndex {
    job[rank].commits_mut().stable_end()
}

// CAUSAL-1
#[test]
fn each_receiver_gets_what_is_not_stable_and_gets_it_once() {
    let mut job = job(3);
    receive(&mut job, 0, 0);
    assert!(!send(&mut job, 0, 1).is_empty());
    assert!(send(&mut job, 0, 1).is_empty(), "it was carried to rank 1");
    assert!(!send(&mut job, 0, 2).is_empty(), "and not to rank 2");
    for holder in [1, 2] {
        assert_eq!(held(&job, holder, 0), 1);
    }
}

// CAUSAL-2
#[test]
fn a_confirmation_comes_with_the_next_events_and_ends_the_carrying() {
    let mut job = job(3);
    receive(&mut job, 0, 0);
    send(&mut job, 0, 1);
    assert_eq!(
        stable_end(&mut job, 0),
        EventIndex(0),
        "it is not confirmed"
    );
    receive(&mut job, 1, 0);
    send(&mut job, 1, 0);
    assert_eq!(stable_end(&mut job, 0), EventIndex(1));
    assert!(send(&mut job, 0, 2).is_empty(), "it is stable");
}

// CAUSAL-2
#[test]
fn a_rank_that_sends_nothing_confirms_when_it_is_idle() {
    let mut job = job(2);
    receive(&mut job, 0, 0);
    send(&mut job, 0, 1);
    deliver(&mut job);
    assert_eq!(stable_end(&mut job, 0), EventIndex(0));
    job[1].idle();
    deliver(&mut job);
    assert_eq!(stable_end(&mut job, 0), EventIndex(1));
}

fn job_tolerating(tolerance: &Tolerance, ranks: u32) -> Vec<Process> {
    let life = |rank| life_tolerating(tolerance.clone(), (rank, 0), ranks, None);
    (0..ranks).map(life).collect()
}

/// Two deaths at once: the owner, one rank that has confirmed, and the receiver have the events.
// CAUSAL-1
#[test]
fn with_two_failures_a_message_waits_for_a_holder_beside_its_receiver() {
    let mut job = job_tolerating(&Tolerance::new(2, &[]), 3);
    receive(&mut job, 0, 0);
    assert!(!job[0].may_carry(Rank(1)), "it is in no batch yet");
    let recorded = job[0].recorded();
    job[0].advance(recorded);
    assert!(!job[0].may_carry(Rank(1)), "no rank has confirmed it");
    let mut piece = [0; 40];
    while let Some((to, bytes)) = job[0].commits_mut().tell(&mut piece) {
        if to == Rank(2) {
            let heard = job[2].commits_mut().hear(Rank(0), &piece[..bytes]);
            heard.expect("it can be read");
        }
    }
    let (_, bytes) = job[2].commits_mut().tell(&mut piece).expect("it confirms");
    let heard = job[0].commits_mut().hear(Rank(2), &piece[..bytes]);
    heard.expect("it can be read");
    assert!(job[0].may_carry(Rank(1)));
    assert!(!job[0].may_carry(Rank(2)), "no other rank has confirmed it");
    assert_eq!(stable_end(&mut job, 0), EventIndex(0));
    send(&mut job, 0, 1);
    job[1].idle();
    deliver(&mut job);
    assert_eq!(stable_end(&mut job, 0), EventIndex(1));
}

/// It would go back with the sender.
// CAUSAL-1 SET-4
#[test]
fn a_message_to_a_member_of_the_senders_set_carries_nothing() {
    let mut job = job_tolerating(&Tolerance::new(1, &[0, 0, 1]), 3);
    receive(&mut job, 0, 0);
    assert!(!job[0].may_carry(Rank(1)));
    assert!(job[0].may_carry(Rank(2)));
    let recorded = job[0].recorded();
    job[0].advance(recorded);
    job[0].commits_mut().press();
    deliver(&mut job);
    assert_eq!((held(&job, 1, 0), held(&job, 2, 0)), (0, 1));
    assert_eq!(stable_end(&mut job, 0), EventIndex(1));
}

// LOG-7
#[test]
fn a_rank_that_has_no_room_keeps_nothing_and_waits_for_nothing() {
    let mut job = job(2);
    for count in 0..3 {
        for rank in [0, 1] {
            receive(&mut job, rank, count);
            send(&mut job, rank, 1 - rank);
        }
    }
    deliver(&mut job);
    job[0].commits_mut().stop_keeping();
    assert_eq!(job[0].commits().held_bytes(), 0);
    assert_eq!(stable_end(&mut job, 0), EventIndex(3));
    deliver(&mut job);
    assert_eq!(held(&job, 1, 0), 0, "rank 1 has dropped them");
    receive(&mut job, 0, 3);
    assert!(send(&mut job, 0, 1).is_empty());
    assert_eq!(stable_end(&mut job, 0), EventIndex(4));
    receive(&mut job, 1, 3);
    assert!(!send(&mut job, 1, 0).is_empty());
    job[0].idle();
    deliver(&mut job);
    assert_eq!(stable_end(&mut job, 1), EventIndex(4), "it does not wait");
    assert_eq!(job[0].commits().held_bytes(), 0);
}

// CAUSAL-3
#[test]
fn what_something_waits_for_goes_to_the_next_rank() {
    let mut job = job(3);
    receive(&mut job, 1, 0);
    let recorded = job[1].recorded();
    job[1].advance(recorded);
    job[1].commits_mut().press();
    deliver(&mut job);
    assert_eq!(stable_end(&mut job, 1), EventIndex(1));
    assert_eq!(held(&job, 2, 1), 1);
}

// CAUSAL-4
#[test]
fn a_later_life_takes_what_its_earlier_life_carried_and_gives_it_away() {
    let mut job = job(3);
    receive(&mut job, 0, 0);
    let first = send(&mut job, 0, 1);
    receive(&mut job, 0, 1);
    // This one is in the log, and does not arrive.
    let mut lost = Vec::new();
    assert!(job[0].carry(carriage(1), &mut lost));
    for survivor in [1, 2] {
        job[survivor].commits_mut().fenced(Rank(0));
    }
    let answers = [1, 2].map(|rank| {
        let holdings = job[rank as usize].commits();
        (Rank(rank), holdings.answer(Rank(0)))
    });
    let mut left = LeftInLogs::default();
    for attachment in [&first, &lost] {
        left.take(attachment, None).expect("it was carried");
    }
    let own = left.answer();
    let all = answers
        .iter()
        .map(|(holder, answer)| (*holder, answer.as_slice()));
    let collected = Collected::of(all.chain([(Rank(0), own.as_slice())])).expect("all are whole");
    assert_eq!(collected.end, EventIndex(2));
    job[0] = life(0, 1, 3, Some(collected));
    assert_eq!(
        stable_end(&mut job, 0),
        EventIndex(1),
        "only its log has the second one"
    );
    for survivor in [1, 2] {
        job[survivor].commits_mut().connected(Rank(0));
        job[0].commits_mut().connected(Rank(survivor as u32));
    }
    deliver(&mut job);
    assert_eq!(stable_end(&mut job, 0), EventIndex(2));
}

// CAUSAL-1
#[test]
fn what_does_not_reach_the_log_is_carried_again() {
    let mut job = job(2);
    receive(&mut job, 0, 0);
    send(&mut job, 0, 1);
    receive(&mut job, 0, 1);
    let mut refused = Vec::new();
    assert!(job[0].carry(carriage(1), &mut refused));
    assert!(!refused.is_empty());
    send(&mut job, 0, 1);
    assert_eq!(held(&job, 1, 0), 2);
}

/// A ping-pong of two ranks that receive from any source.
#[test]
fn an_event_as_the_last_one_takes_a_byte() {
    let mut job = job(2);
    let mut bytes = 0;
    for count in 0..1000 {
        for (from, to) in [(0, 1), (1, 0)] {
            receive(&mut job, from, count);
            bytes += send(&mut job, from, to).len();
            job[from].idle();
        }
    }
    assert_eq!((held(&job, 1, 0), held(&job, 0, 1)), (1000, 1000));
    assert!(bytes <= 2000 + 2 * 20, "{bytes} bytes for 2000 events");
}

/// Three ranks receive from any source in an irregular order, and send to one or the other.
#[test]
fn events_in_no_order_take_less_than_three_bytes() {
    let mut job = job(3);
    let (mut bytes, mut events) = (0, 0);
    let (mut ssns, mut clocks) = ([[0; 3]; 3], [0; 3]);
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    for _ in 0..5000 {
        let rank = next(3) as usize;
        for _ in 0..=next(3) {
            let (source, clock) = (next(3) as usize, &mut clocks[rank]);
            *clock += 2;
            let matched = Matched {
                request: Clock(*clock - 1),
                source: Rank(source as u32),
                ssn: Ssn(ssns[rank][source]),
            };
            job[rank].record().matched(Clock(*clock), matched, false);
            ssns[rank][source] += 1;
        }
        let to = (rank + 1 + next(2) as usize) % 3;
        clocks[rank] += 1;
        let determinants = |job: &[Process]| {
            let held = job[to].commits().held_of(Rank(rank as u32));
            held.batches()
                .map(|batch| u64::from(batch.count))
                .sum::<u64>()
        };
        let before = determinants(&job);
        bytes += send(&mut job, rank, to).len();
        events += determinants(&job) - before;
        if next(4) == 0 {
            job[rank].idle();
        }
    }
    let mean = bytes as f64 / events as f64;
    assert!(mean <= 2.8, "{mean} bytes for each of {events} events");
}

/// A master posts a receive from any source for each of eight results, waits for them one by one and
/// for some in turn, and sends each worker its next task, as `any-source` does.
#[test]
fn the_events_of_a_master_take_less_than_two_bytes() {
    let mut job = job(3);
    let (mut bytes, mut clock) = (0, 0);
    let mut ssns = [0; 3];
    for wave in 0..200 {
        let first = clock + 1;
        clock += 8;
        for pair in 0..4 {
            let requests = [first + 2 * pair, first + 2 * pair + 1];
            clock += 1;
            for (request, source) in requests.into_iter().zip([1, 2]) {
                let matched = Matched {
                    request: Clock(request),
                    source: Rank(source),
                    ssn: Ssn(ssns[source as usize]),
                };
                ssns[source as usize] += 1;
                job[0].record().matched(Clock(clock), matched, false);
            }
            let requests = requests.map(Clock);
            if wave % 2 == 0 {
                for (request, worker) in requests.into_iter().zip([1, 2]) {
                    job[0].record().completed(Clock(clock), &[request]);
                    bytes += send(&mut job, 0, worker).len();
                    clock += 2;
                }
            } else {
                job[0].record().completed(Clock(clock), &requests);
                for worker in [1, 2] {
                    bytes += send(&mut job, 0, worker).len();
                    clock += 1;
                }
            }
            job[2 - pair as usize % 2].idle();
            deliver(&mut job);
        }
    }
    let events: usize = [1, 2]
        .map(|holder| {
            let held = job[holder].commits().held_of(Rank(0));
            held.batches().map(|batch| usize::from(batch.count)).sum()
        })
        .iter()
        .sum();
    let mean = bytes as f64 / events as f64;
    assert!(mean <= 1.9, "{mean} bytes for each of {events} events");
}

// CAUSAL-2
#[test]
fn bytes_that_no_rank_carries_are_refused() {
    let mut job = job(2);
    receive(&mut job, 0, 0);
    let base = send(&mut job, 0, 1);
    receive(&mut job, 0, 1);
    let mut next = Vec::new();
    assert!(job[0].carry(carriage(1), &mut next));
    for (first, wrong) in [
        (None, [&[base[0], 9], &base[2..]].concat()),
        (None, base[..base.len() - 1].to_vec()),
        (None, [&base[..], &[0]].concat()),
        (Some(&base), [&next[..], &[0x80]].concat()),
        (Some(&base), vec![0x00, 0x08]),
    ] {
        let mut process = life(1, 0, 2, None);
        let commits = process.commits_mut();
        if let Some(first) = first {
            commits.take_carried(Rank(0), first).expect("it is one");
        }
        let taken = commits.take_carried(Rank(0), &wrong);
        commits.idle();
        // Determinants are read later.
        let later = commits.take_carried(Rank(0), &base);
        assert!(taken.and(later).is_err(), "{wrong:?}");
    }
}
