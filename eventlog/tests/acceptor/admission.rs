//! Lives that begin, are admitted, and die. Whichever two of three logs are asked,
//! the next life continues with everything that a quorum had of an admitted life.

use proptest::prelude::*;
use refrain_eventlog::acceptor::{Beginning, Fit, Life, RankLog, Refusal};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};

const RANK: Rank = Rank(3);

/// A row and, at each number, which life wrote it. Clocks are numbers.
#[derive(Clone, Debug, Default)]
struct Replica {
    row: RankLog,
    writers: Vec<u32>,
}

type ClockAt<'a> = &'a dyn Fn(EventIndex) -> Result<Option<Clock>, Refusal>;

impl Replica {
    fn change(&mut self, change: impl FnOnce(&mut RankLog, ClockAt<'_>) -> Result<bool, Refusal>) {
        change(&mut self.row, &|at| Ok(Some(Clock(at.0)))).expect("it can be");
        self.writers.truncate(self.row.end.0 as usize);
        assert!(self.row.is_sound(), "{:?}", self.row);
    }

    fn append(&mut self, writer: u32) {
        let last = self.row.last_life().map(|life| life.incarnation);
        if last != Some(Incarnation(writer)) {
            self.row.incarnation = self.row.incarnation.max(Incarnation(writer));
            let (incarnation, start) = (Incarnation(writer), self.row.end);
            self.row.lives.push(Life { incarnation, start });
        }
        self.writers.push(writer);
        self.row.end = EventIndex(self.row.end.0 + 1);
        self.row.last_clock = Clock(self.row.end.0);
        assert!(self.row.is_sound(), "{:?}", self.row);
    }

    /// As a server does: becomes like another, if need be and it lends, then
    /// lets the life in. Says whether it has.
    fn admit(&mut self, others: &[Self], life: &Beginning) -> bool {
        let _ = self.row.hello(RANK, life.incarnation);
        for other in others {
            if self.row.fit(life) != Fit::Lacks {
                break;
            }
            let Some(until) = other.row.can_supply(life) else {
                continue;
            };
            self.change(|row, at| row.follow(RANK, &other.row, life, at));
            for number in self.writers.len()..until.0 as usize {
                self.append(other.writers[number]);
            }
        }
        let fits = self.row.fit(life) != Fit::Lacks;
        if fits {
            self.change(|row, at| row.admit(RANK, life, at));
        }
        fits
    }
}

/// One life: the log that it does not ask, those that admit it, and how much each gets of it.
type Story = (usize, [bool; 3], [usize; 3]);

fn run(stories: &[Story], keeps_marks: bool) -> Result<(), String> {
    let mut replicas: [Replica; 3] = Default::default();
    let mut stable: Vec<u32> = Vec::new();
    for (incarnation, &(unasked, joined, written)) in (1..).zip(stories) {
        let asked = (0..3).filter(|replica| *replica != unasked);
        for replica in asked.clone() {
            let hello = replicas[replica].row.hello(RANK, Incarnation(incarnation));
            hello.expect("the latest");
        }
        let source =
            asked.max_by_key(|&it| (replicas[it].row.last_incarnation(), replicas[it].row.end));
        let source = replicas[source.expect("two")].clone();
        if !source.writers.starts_with(&stable) {
            return Err(format!(
                "EL-3: {stable:?} was stable, {source:?} is gone on from"
            ));
        }
        let start = source.row.end;
        let life = Beginning {
            incarnation: Incarnation(incarnation),
            start,
            clock_before: source.row.last_clock,
            follows: source.row.writer_before(start).unwrap_or_default(),
            first_kept: start,
        };
        let mut live = Vec::new();
        for replica in (0..3).filter(|replica| joined[*replica]) {
            let others = replicas.clone();
            if replicas[replica].admit(&others, &life) {
                assert_eq!(
                    replicas[replica].writers, source.writers,
                    "what it begins with"
                );
                live.push(replica);
            }
        }
        // The life runs once a quorum has admitted it.
        if live.len() >= 2 {
            for &replica in &live {
                (0..written[replica]).for_each(|_| replicas[replica].append(incarnation));
            }
            let mut ends: Vec<usize> = live.iter().map(|it| replicas[*it].writers.len()).collect();
            ends.sort_unstable();
            let quorum_end = ends[ends.len() - 2];
            let longest = live.iter().max_by_key(|it| replicas[**it].writers.len());
            stable = replicas[*longest.expect("two")].writers[..quorum_end].to_vec();
        }
        if !keeps_marks {
            for replica in &mut replicas {
                let end = replica.row.end;
                replica.row.lives.retain(|life| life.start < end);
            }
        }
    }
    Ok(())
}

fn stories() -> impl Strategy<Value = Vec<Story>> {
    let story = (0..3_usize, any::<[bool; 3]>(), [0..3_usize, 0..3, 0..3]);
    prop::collection::vec(story, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// EL-3, EL-5, FENCE-1
    #[test]
    fn what_a_quorum_has_of_a_life_that_it_let_in_stays(stories in stories()) {
        prop_assert_eq!(run(&stories, true), Ok(()));
    }
}

/// A quorum has what a life took over, which dies before it writes: a shorter tail
/// of an earlier life must not be preferred to it. EL-3
#[test]
fn without_marks_what_was_taken_over_is_lost() {
    let all = [true; 3];
    let stories = [
        // Only row 0 has something of the first, which was let in by all.
        (2, all, [1, 0, 0]),
        // The second does not ask row 0; only row 1 has something of it.
        (0, [false, true, true], [0, 1, 0]),
        // The third continues log 0 without asking log 1, and writes nothing.
        (1, [true, false, true], [0, 0, 0]),
        // The fourth asks row 0 and row 1.
        (2, all, [1, 1, 1]),
    ];
    assert_eq!(run(&stories, true), Ok(()));
    let lost = run(&stories, false).expect_err("no marks");
    assert!(lost.starts_with("EL-3"), "{lost}");
}

/// Two rows with the same longer tail of a dead life, and one that is right: they
/// do not confirm each other. EL-3
#[test]
fn a_row_with_a_dead_tail_becomes_like_the_one_that_was_chosen() {
    let mut dead = Replica::default();
    (0..5).for_each(|_| dead.append(0));
    let mut right = Replica::default();
    (0..2).for_each(|_| right.append(0));
    right.append(1);
    let life = Beginning {
        incarnation: Incarnation(2),
        start: EventIndex(3),
        clock_before: Clock(3),
        follows: Incarnation(1),
        first_kept: EventIndex(3),
    };
    let mut joins = dead.clone();
    assert!(!joins.admit(&[dead.clone()], &life), "asked again later");
    assert_eq!(joins.writers, dead.writers, "nothing is cut for nothing");
    assert!(joins.admit(&[dead, right.clone()], &life));
    assert_eq!(joins.writers, right.writers);
    assert_eq!(joins.row.last_incarnation(), Incarnation(2));
}

/// The other row has less of the same life. EL-1, EL-3
#[test]
fn a_row_of_the_life_is_not_cut_to_a_shorter_one() {
    let mut longer = Replica::default();
    (0..5).for_each(|_| longer.append(0));
    let mut shorter = Replica::default();
    (0..2).for_each(|_| shorter.append(0));
    let life = Beginning {
        first_kept: EventIndex(6),
        ..Beginning::default()
    };
    assert!(!longer.admit(&[shorter], &life), "both lack the last");
    assert_eq!(longer.row.end, EventIndex(5));
}

/// GC-1
#[test]
fn a_row_that_was_given_up_wholly_still_names_its_last_life() {
    let mut row = RankLog::default();
    row.hello(RANK, Incarnation(1)).expect("new");
    let life = Beginning {
        incarnation: Incarnation(1),
        ..Beginning::default()
    };
    let none = |_| Ok::<_, Refusal>(None);
    row.admit(RANK, &life, none).expect("nothing is before it");
    let mut replica = Replica {
        row,
        writers: Vec::new(),
    };
    (0..4).for_each(|_| replica.append(1));
    replica.row.drop_before(EventIndex(4), Clock(4));
    assert_eq!(replica.row.last_incarnation(), Incarnation(1));
    assert_eq!(
        replica.row.writer_before(EventIndex(4)),
        Some(Incarnation(1))
    );
    // Another log, which ends before that, continues there.
    let mut behind = RankLog::default();
    behind.hello(RANK, Incarnation(1)).expect("new");
    behind
        .follow(RANK, &replica.row, &life, none)
        .expect("forward");
    assert_eq!((behind.first, behind.end), (EventIndex(4), EventIndex(4)));
    assert_eq!(behind.common_end(&replica.row), Some(EventIndex(4)));
}

#[test]
fn a_log_that_contradicts_itself_is_not_believed() {
    let lives = |lives: &[(u32, u64)]| {
        let life = |&(incarnation, start): &(u32, u64)| Life {
            incarnation: Incarnation(incarnation),
            start: EventIndex(start),
        };
        lives.iter().map(life).collect()
    };
    let mut log = RankLog {
        incarnation: Incarnation(2),
        end: EventIndex(5),
        lives: lives(&[(0, 0), (2, 5)]),
        ..RankLog::default()
    };
    assert!(log.is_sound());
    for wrong in [&[(0, 0), (2, 6)][..], &[(1, 2), (1, 3)], &[(3, 0)]] {
        log.lives = lives(wrong);
        assert!(!log.is_sound(), "{log:?}");
    }
}
