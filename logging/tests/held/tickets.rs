//! Tickets of a job under random delays and deaths.

use crate::batches::{Stored, batches_of_answer};
use crate::fixed_seed::cases;
use crate::network::Network;
use proptest::prelude::*;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::held::{Gives, Holdings, Tolerance};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Incarnation, Rank};

/// What happens next. Numbers choose among the ranks.
#[derive(Clone, Debug)]
enum Step {
    Commit {
        rank: u8,
        source: u8,
        step: u64,
        count: u16,
        payload: Vec<u8>,
    },
    /// Event loggers, if there are any, store some batches of a rank.
    Log(u8, usize),
    Tell(u8, usize),
    Deliver(u8, u8),
    /// Pieces of a length are sent and arrive until none is left.
    Drain(usize),
    Trim(u8, usize),
    Kill(u8),
    Notice(u8, u8),
    Restore(u8),
    Begin(u8, bool),
    Connect(u8, u8),
    /// All learn of a death, and the next life begins.
    Replace(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let payload = prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 1..8),
        1 => prop::collection::vec(any::<u8>(), 100..300),
    ];
    let commit = (any::<(u8, u8)>(), 0..6u64, 1..4u16, payload);
    let commit = commit.prop_map(|((rank, source), step, count, payload)| Step::Commit {
        rank,
        source,
        step,
        count,
        payload,
    });
    let pair = || any::<(u8, u8)>();
    prop_oneof![
        8 => commit,
        4 => (any::<u8>(), 1..4usize).prop_map(|(rank, batches)| Step::Log(rank, batches)),
        8 => (any::<u8>(), 1..=40usize).prop_map(|(rank, bytes)| Step::Tell(rank, bytes)),
        12 => pair().prop_map(|(from, to)| Step::Deliver(from, to)),
        3 => (1..=40usize).prop_map(Step::Drain),
        2 => (any::<u8>(), 0..4usize).prop_map(|(rank, back)| Step::Trim(rank, back)),
        3 => any::<u8>().prop_map(Step::Kill),
        3 => pair().prop_map(|(survivor, dead)| Step::Notice(survivor, dead)),
        3 => any::<u8>().prop_map(Step::Restore),
        2 => any::<(u8, bool)>().prop_map(|(rank, reversed)| Step::Begin(rank, reversed)),
        6 => pair().prop_map(|(rank, peer)| Step::Connect(rank, peer)),
        2 => any::<u8>().prop_map(Step::Replace),
    ]
}

fn happen(network: &mut Network, step: &Step) {
    let size = network.size();
    let of = |number: u8| usize::from(number) % size;
    match step {
        Step::Commit {
            rank,
            source,
            step,
            count,
            payload,
        } => network.commit(of(*rank), of(*source), *step, *count, payload),
        Step::Log(rank, batches) => network.log(of(*rank), *batches),
        Step::Tell(rank, bytes) => drop(network.tell(of(*rank), *bytes)),
        Step::Deliver(from, to) => drop(network.deliver(of(*from), of(*to))),
        Step::Drain(bytes) => network.drain(*bytes),
        Step::Trim(rank, back) => network.trim(of(*rank), *back),
        Step::Kill(rank) => network.kill(of(*rank)),
        Step::Notice(survivor, dead) => network.notice(of(*survivor), of(*dead)),
        Step::Restore(rank) => network.restore(of(*rank)),
        Step::Begin(rank, reversed) => network.begin(of(*rank), *reversed),
        Step::Connect(rank, peer) => network.connect(of(*rank), of(*peer)),
        Step::Replace(rank) => {
            (0..size).for_each(|survivor| network.notice(survivor, of(*rank)));
            network.begin(of(*rank), false);
            (0..size).for_each(|survivor| network.restore(survivor));
        }
    }
}

fn run(tolerance: Tolerance, size: usize, clock: u64, steps: &[Step]) {
    play(Network::tolerating(tolerance, size, clock), steps);
}

fn play(mut network: Network, steps: &[Step]) {
    let size = network.size();
    for step in steps {
        happen(&mut network, step);
        network.assert_stable_is_held();
        network.assert_stands_deaths();
    }
    network.heal();
    network.assert_is_at_rest();
    network.assert_stable_is_held();
    network.assert_stands_deaths();
    // Without deaths, nothing is held that a checkpoint covers. What only loggers cover is dropped later.
    (0..size).for_each(|rank| network.trim(rank, 0));
    network.drain(40);
    if network.deaths == 0 && !network.has_loggers() {
        assert_eq!(network.held_bytes(), 0);
    }
}

/// First clocks, low enough that clocks do not overflow within the test.
fn begin() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just((1u64 << 32) - 100), Just(u64::MAX - 100_000)]
}

proptest! {
    #![proptest_config(cases(1500))]

    // TICKET-1, TICKET-2, TICKET-3, TICKET-4
    #[test]
    fn one_death_at_a_time_loses_nothing_stable(
        size in 2..=5usize,
        begin in begin(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        run(Tolerance::default(), size, begin, &steps);
    }

    // CAUSAL-5
    #[test]
    fn what_loggers_have_no_rank_has_to_hold(
        (size, failures) in prop_oneof![(3..=5usize, Just(1)), (4..=5usize, Just(2))],
        begin in begin(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        let tolerance = Tolerance::new(failures, &[]);
        play(Network::beside_loggers(tolerance, size, begin), &steps);
    }

    // TICKET-1, TICKET-2, TICKET-3, TICKET-4: two deaths at once, and those of sets
    #[test]
    fn deaths_at_once_lose_nothing_stable(
        (failures, sets) in prop_oneof![
            Just((2, vec![])),
            Just((3, vec![])),
            Just((1, vec![0, 0, 1, 2, 1])),
            Just((2, vec![0, 1, 1, 2, 0])),
        ],
        begin in begin(),
        steps in prop::collection::vec(step(), 1..250),
    ) {
        run(Tolerance::new(failures, &sets), 5, begin, &steps);
    }
}

const BATCH: &[u8] = &[1, 2, 3];

/// A job in which each rank has a stable batch that the next rank holds.
fn at_rest(size: usize) -> Network {
    let mut network = Network::new(size, 0);
    for rank in 0..size {
        network.commit(rank, (rank + 1) % size, 1, 1, BATCH);
    }
    network.heal();
    network.assert_is_at_rest();
    network.assert_stable_is_held();
    network
}

// TICKET-1
#[test]
fn a_batch_is_stable_when_the_sender_of_its_message_has_confirmed_it() {
    let mut network = Network::new(3, 0);
    network.commit(0, 2, 1, 2, BATCH);
    while network.tell(0, 3) {}
    while network.deliver(0, 2) {}
    assert_eq!(network.stable_end(0), 0, "it is held, and not confirmed");
    while network.tell(2, 3) {}
    assert!(!network.deliver(1, 0), "only the sender holds it");
    while network.deliver(2, 0) {}
    assert_eq!(network.stable_end(0), 2);
    network.assert_stable_is_held();
}

// TICKET-1
#[test]
fn what_a_rank_sends_itself_is_held_by_the_next_rank() {
    let mut network = Network::new(2, 0);
    network.commit(1, 1, 1, 1, BATCH);
    network.drain(40);
    assert_eq!((network.stable_end(1), network.copies(1)), (1, 1));
}

/// An earlier batch at a slow holder: a later one alone is not stable.
// TICKET-1
#[test]
fn a_batch_is_stable_only_behind_stable_ones() {
    let mut network = Network::new(3, 0);
    network.commit(0, 1, 1, 1, BATCH);
    network.commit(0, 2, 1, 1, BATCH);
    while network.tell(0, 40) {}
    while network.deliver(0, 2) {}
    while network.tell(2, 40) {}
    while network.deliver(2, 0) {}
    assert_eq!(network.stable_end(0), 0);
    network.drain(40);
    assert_eq!(network.stable_end(0), 2);
}

/// Rank 2 cannot give away what rank 1 held when it learns of that death, because rank 0 has not
/// been connected again. The loss is good only when rank 0 holds it.
// TICKET-4
#[test]
fn a_loss_is_not_good_before_another_rank_holds_it() {
    let mut network = at_rest(3);
    for rank in [0, 1] {
        network.kill(rank);
        for survivor in [0, 1, 2] {
            network.notice(survivor, rank);
        }
        network.drain(40);
        network.restore(1);
        network.restore(2);
        network.begin(rank, false);
        network.restore(rank);
    }
    for (one, other) in [(0, 2), (2, 0)] {
        network.connect(one, other);
    }
    for survivor in [0, 2] {
        network.restore(survivor);
    }
    network.assert_stable_is_held();
    network.drain(40);
    for survivor in [0, 2] {
        network.restore(survivor);
    }
    network.assert_stable_is_held();
    network.kill(2);
    assert_eq!(network.deaths, 3, "the losses are good");
    network.heal();
    network.assert_is_at_rest();
    assert_eq!(network.stable_end(2), 1);
}

/// Rank 0 has trimmed a batch, and rank 2 does not know yet. Without its holder, that batch would be
/// taken for a missing one, and all behind it for unstable.
// TICKET-3, TICKET-4
#[test]
fn a_loss_is_not_good_before_another_rank_knows_what_is_trimmed() {
    let mut network = Network::new(3, 0);
    network.commit(0, 1, 0, 1, BATCH);
    network.commit(0, 2, 2, 1, BATCH);
    network.drain(40);
    network.trim(0, 1);
    while network.tell(0, 40) {}
    network.kill(1);
    for survivor in [0, 2] {
        network.notice(survivor, 1);
        network.restore(survivor);
    }
    network.begin(1, false);
    network.restore(1);
    network.kill(0);
    assert_eq!(network.deaths, 1, "rank 0 has not made the loss good");
    network.drain(40);
    network.restore(0);
    network.kill(0);
    assert_eq!(network.deaths, 2, "it has");
    network.heal();
    network.assert_is_at_rest();
    assert_eq!(network.stable_end(0), 2);
}

/// Rank 0 makes two batches and dies when only rank 2 has its own, the second. The next life makes another first one.
fn lose_the_first_of_two_batches(network: &mut Network) {
    network.commit(0, 1, 1, 2, BATCH);
    network.commit(0, 2, 100, 1, BATCH);
    while network.tell(0, 40) {}
    while network.deliver(0, 2) {}
    network.kill(0);
    network.heal();
    assert_eq!(network.stable_end(0), 0, "the first batch is lost");
    network.commit(0, 1, 1, 2, BATCH);
}

/// Rank 2 keeps a batch of rank 0's first life that was never stable. The second life has other
/// events in its place, and a checkpoint covers those: the third life must not take it for its own.
// TICKET-3
#[test]
fn a_batch_behind_a_missing_one_does_not_come_back_after_a_checkpoint() {
    let mut network = Network::new(3, 0);
    lose_the_first_of_two_batches(&mut network);
    network.drain(40);
    network.trim(0, 0);
    network.drain(40);
    network.kill(0);
    network.heal();
    assert_eq!(network.stable_end(0), 2);
    network.assert_is_at_rest();
}

/// As before, where event loggers have the second life's events, and no rank does.
// TICKET-3, CAUSAL-5
#[test]
fn a_batch_behind_a_missing_one_does_not_come_back_behind_what_loggers_have() {
    let mut network = Network::beside_loggers(Tolerance::default(), 3, 0);
    lose_the_first_of_two_batches(&mut network);
    network.log(0, 1);
    assert_eq!(network.stable_end(0), 2);
    network.kill(0);
    network.heal();
    assert_eq!(network.stable_end(0), 2);
    network.assert_is_at_rest();
}

/// A second life dies while loggers store what it has taken over: the rest was made by the first life, too.
// CAUSAL-5
#[test]
fn what_a_later_life_has_taken_over_is_not_its_own() {
    let mut network = Network::beside_loggers(Tolerance::default(), 3, 0);
    for step in 0..2 {
        network.commit(0, 1, step, 1, BATCH);
    }
    network.drain(40);
    network.kill(0);
    network.heal();
    network.log(0, 1);
    network.kill(0);
    network.heal();
    assert_eq!(network.stable_end(0), 2);
    network.log(0, 1);
    network.assert_is_at_rest();
}

fn commit(tickets: &mut Holdings, rank: Rank, batch: &Stored) {
    let sealed = batch.as_batch().sealed(7, rank);
    let (header, _) = BatchHeader::read(&sealed).expect("it was sealed");
    tickets.commit(&header, &sealed);
}

/// A piece of a dead life is late.
// FENCE-1
#[test]
fn a_fenced_life_is_not_heard() {
    let [mut owner, mut holder] = [0, 1].map(|rank| {
        Holdings::new(
            (Gives::AtCommit, Tolerance::default()),
            (Rank(rank), Incarnation(0)),
            2,
            None,
        )
    });
    let batch = Stored {
        incarnation: 0,
        first: 0,
        count: 1,
        clocks: (1, 1),
        payload: BATCH.into(),
    };
    commit(&mut owner, Rank(0), &batch);
    let mut piece = [0; 40];
    let (to, bytes) = owner.tell(&mut piece).expect("it gives the batch away");
    assert_eq!(to, Rank(1));
    holder.fenced(Rank(0));
    assert_eq!(holder.hear(Rank(0), &piece[..bytes]), Ok(()));
    assert_eq!(batches_of_answer(&holder.answer(Rank(0))), []);
    assert_eq!(holder.tell(&mut piece), None);
    holder.connected(Rank(0));
    assert_eq!(holder.hear(Rank(0), &piece[..bytes]), Ok(()));
    assert_eq!(batches_of_answer(&holder.answer(Rank(0))), [batch]);
}

#[test]
fn a_wait_is_explained() {
    let mut network = Network::new(2, 0);
    network.commit(0, 1, 1, 1, BATCH);
    let explained = |network: &Network| network.explain(0).expect("it waits");
    assert!(
        explained(&network).starts_with("rank 1 "),
        "its peer is slow"
    );
    network.kill(1);
    network.notice(0, 1);
    assert!(explained(&network).starts_with("too few other ranks "));
}
