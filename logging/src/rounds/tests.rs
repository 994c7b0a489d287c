use super::*;

const NOW: Duration = Duration::from_secs(5);
const RUNS: [bool; 4] = [true; 4];

/// Ranks 0 and 2 are a set; 1 and 3 are alone.
fn rounds() -> Rounds {
    Rounds::new(&[7, 1, 7, 9])
}

/// Both members may take their checkpoints.
fn begun(rounds: &mut Rounds, now: Duration) -> u64 {
    let orders = rounds.wanted(Rank(2), now, &RUNS);
    let [Order::Begin(Rank(0), round), Order::Begin(Rank(2), same)] = orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!(round, same);
    assert_eq!(rounds.keeping(Rank(0), round), []);
    let take = [Order::Take(Rank(0)), Order::Take(Rank(2))];
    assert_eq!(rounds.keeping(Rank(2), round), take);
    round
}

// SET-2, SET-4
#[test]
fn a_round_is_complete_when_all_members_have_a_checkpoint() {
    let mut rounds = rounds();
    let first = begun(&mut rounds, NOW);
    assert_eq!(rounds.stable(Rank(2), 4), []);
    assert_eq!(rounds.goes_back_to(Rank(2)), Some(0), "rank 0 has none yet");
    let end = |round| {
        [
            Order::End(Rank(0), round, true),
            Order::End(Rank(2), round, true),
        ]
    };
    assert_eq!(rounds.stable(Rank(0), 9), end(first));
    assert_eq!(rounds.goes_back_to(Rank(0)), Some(9));
    assert_eq!(rounds.goes_back_to(Rank(2)), Some(4));
    assert_eq!(rounds.goes_back_to(Rank(1)), None);
    assert_eq!(rounds.members(Rank(0)), [Rank(0), Rank(2)]);
    assert_eq!(rounds.members(Rank(3)), []);
    assert_eq!(rounds.order(Rank(1), NOW, &RUNS), None);
    let second = begun(&mut rounds, NOW);
    assert!(second > first);
    assert_eq!(rounds.wanted(Rank(0), NOW, &RUNS), [], "it is open");
}

// SET-4
#[test]
fn a_death_makes_the_round_void() {
    let mut rounds = rounds();
    let round = begun(&mut rounds, NOW);
    rounds.stable(Rank(0), 1);
    rounds.died(Rank(2));
    assert_eq!(rounds.stable(Rank(2), 1), [], "of the life that died");
    assert_eq!(rounds.keeping(Rank(0), round), []);
    assert_eq!(rounds.goes_back_to(Rank(0)), Some(0));
    let recovers = [true, true, false, true];
    let refused = [Order::End(Rank(0), 0, false)];
    assert_eq!(rounds.wanted(Rank(0), NOW, &recovers), refused);
    begun(&mut rounds, NOW);
}

// SET-4
#[test]
fn a_round_that_a_member_holds_up_ends_and_the_next_one_begins_later() {
    let mut rounds = rounds();
    let round = begun(&mut rounds, NOW);
    rounds.stable(Rank(0), 3);
    let late = rounds.next_due().unwrap();
    assert_eq!(rounds.step(late - Duration::from_millis(1)), []);
    let end = [
        Order::End(Rank(0), round, false),
        Order::End(Rank(2), round, false),
    ];
    assert_eq!(rounds.step(late), end);
    assert_eq!(rounds.next_due(), None);
    assert_eq!(
        rounds.wanted(Rank(0), late, &RUNS),
        [Order::End(Rank(0), 0, false)]
    );
    let later = late + Duration::from_secs(1);
    let again = begun(&mut rounds, later);
    assert_eq!(rounds.cannot_keep(Rank(2), again - 1, later), []);
    assert_eq!(rounds.cannot_keep(Rank(2), again, later).len(), 2);
    let soon = later + Duration::from_secs(1);
    assert_eq!(
        rounds.wanted(Rank(0), soon, &RUNS),
        [Order::End(Rank(0), 0, false)]
    );
}
