//! Receives and messages in arrangements in which a wrong message could be taken.

use crate::job::{Batches, JOB, Life, payload, to_rank_0};
use crate::room::Room;
use refrain_logging::Member;
use refrain_logging::determinant::recorded::recorded_events;
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::row::determinants;
use refrain_logging::determinant::{Determinant, EventIndex, Match, Matched};
use refrain_rank::calls::{self, Handle, NoAnswer};
use refrain_ring::recorded::RecordedOutcome;
use refrain_ring::{Clock, Incarnation, Rank, Ssn};
use refrain_transport::engine::EngineError;
use refrain_transport::matching::Pattern;

/// Rounds in which all messages arrive.
const ROUNDS: usize = 400;
const ROOM_BYTES: usize = 64;

/// A later life of rank 0 in a job of three ranks, whose program is the test.
pub struct Player {
    pub life: Life,
    rooms: Vec<(Handle, Room)>,
}

impl Player {
    /// A life with these records.
    pub fn new(record: impl FnOnce(&mut Recorder)) -> Self {
        Self::of(Member::Pessimist, record)
    }

    pub fn of(member: Member, record: impl FnOnce(&mut Recorder)) -> Self {
        let identity = Identity {
            job: JOB,
            rank: Rank(0),
            incarnation: Incarnation(0),
        };
        let mut recorder = Recorder::new(identity, EventIndex(0));
        record(&mut recorder);
        let mut batch = Vec::new();
        let batches = match recorder.take_batch(true, &mut batch) {
            Some(_) => vec![batch],
            None => Vec::new(),
        };
        Self {
            life: Life::new(member, 1, &batches),
            rooms: Vec::new(),
        }
    }

    pub fn receive(&mut self, from: Pattern) -> Handle {
        let room = Room::empty(ROOM_BYTES);
        let handle = calls::post_receive(self.engine(), room.to_receive(), from);
        self.rooms.push((handle, room));
        handle
    }

    pub fn engine(&mut self) -> &mut crate::job::LoggedEngine {
        &mut self.life.engines[0]
    }

    /// The next message of a source arrives.
    pub fn comes(&mut self, source: u32, ssn: u64, tag: i32) {
        let bytes = payload(source, ssn, ROOM_BYTES);
        self.life
            .send(source as usize, to_rank_0(tag, false), &bytes);
        self.settle();
    }

    pub fn settle(&mut self) {
        self.try_settle().expect("nothing differs");
    }

    pub fn try_settle(&mut self) -> Result<(), EngineError> {
        for _ in 0..ROUNDS {
            self.life.round()?;
        }
        Ok(())
    }

    /// The source and number of the message that a receive has got.
    pub fn got(&mut self, handle: Handle) -> Option<(u32, u64)> {
        let outcome = handle.outcome(self.engine())?;
        assert!(!outcome.status.cancelled);
        let of_it = |(of, _): &&(Handle, Room)| of.posted_at() == handle.posted_at();
        let (_, room) = self.rooms.iter().find(of_it).expect("it was posted here");
        let bytes = room.read(ROOM_BYTES);
        let source = u32::from_le_bytes(bytes[..4].try_into().expect("four"));
        let ssn = u64::from_le_bytes(bytes[4..12].try_into().expect("eight"));
        Some((source, ssn))
    }

    /// The determinants that were recorded in this life.
    pub fn recorded(&mut self) -> Vec<Determinant> {
        self.life.flush();
        let batches: Batches = self.life.batches.clone();
        let all = batches.all();
        let row = determinants(Rank(0), JOB, all.iter().map(Vec::as_slice), None);
        let is_new = |it: &Determinant| it.at() >= Clock(0);
        row.expect("complete").into_iter().filter(is_new).collect()
    }
}

pub fn any(tag: i32) -> Pattern {
    Pattern {
        context: 0,
        source: None,
        tag: Some(tag),
    }
}

pub fn from(source: u32, tag: i32) -> Pattern {
    Pattern {
        source: Some(Rank(source)),
        ..any(tag)
    }
}

pub fn matched(request: u64, source: u32, ssn: u64) -> Matched {
    Matched {
        request: Clock(request),
        source: Rank(source),
        ssn: Ssn(ssn),
    }
}

/// A receive gets the message of its record, even if other messages that match it arrive first;
/// those wait for other receives.
// REC-4
#[test]
fn a_receive_gets_the_message_of_its_record() {
    for comes_first in [false, true] {
        let mut player = Player::new(|recorder| {
            recorder.matched(Clock(3), matched(1, 2, 1), false);
            recorder.matched(Clock(3), matched(2, 1, 0), false);
        });
        let mut posted = Vec::new();
        if !comes_first {
            posted = vec![player.receive(any(0)), player.receive(any(0))];
        }
        for (source, ssn) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            player.comes(source, ssn, 0);
        }
        if comes_first {
            posted = vec![player.receive(any(0)), player.receive(any(0))];
        }
        player.settle();
        assert_eq!(player.got(posted[0]), Some((2, 1)));
        assert_eq!(player.got(posted[1]), Some((1, 0)));
        assert_eq!(player.engine().statistics().events, 0);
        // The remaining messages match in order.
        let next = [player.receive(from(1, 0)), player.receive(from(2, 0))];
        assert_eq!(next.map(|it| player.got(it)), [Some((1, 1)), Some((2, 0))]);
        assert!(!player.engine().is_replaying());
    }
}

/// An undecided receive takes nothing while there are records, and no receive posted later gets
/// its message or one after it. After the last record it takes its message, which is recorded,
/// and the other messages match in order.
// REC-4, REC-5
#[test]
fn a_receive_in_limbo_keeps_its_place() {
    for comes_first in [false, true] {
        // The last record is of operation 4.
        let mut player = Player::new(|recorder| recorder.nothing(Clock(4)));
        if comes_first {
            player.comes(1, 0, 0);
            player.comes(1, 1, 1);
        }
        let limbo = player.receive(any(0));
        if !comes_first {
            player.comes(1, 0, 0);
            player.comes(1, 1, 1);
        }
        let late = player.receive(from(1, 0));
        // This receive follows a held one, although the undecided receive would not take its
        // message.
        let other = player.receive(from(1, 1));
        // Messages of another source are not held.
        player.comes(2, 0, 1);
        player.settle();
        let all = [limbo, late, other];
        assert_eq!(all.map(|it| player.got(it)), [None; 3]);
        let clock = player.engine().tick();
        assert_eq!(clock, Clock(4));
        let mut tested = limbo;
        assert_eq!(
            calls::test(player.engine(), clock, &mut tested),
            Err(NoAnswer::Nothing)
        );
        assert!(player.engine().is_replaying());
        let quick = player.receive(from(2, 1));
        assert!(!player.engine().is_replaying());
        player.comes(1, 2, 0);
        let got = [limbo, late, other, quick].map(|it| player.got(it));
        assert_eq!(
            got,
            [Some((1, 0)), Some((1, 2)), Some((1, 1)), Some((2, 0))]
        );
        let recorded = player.recorded();
        let expected = Determinant::Match(Match {
            at: Clock(5),
            matched: matched(1, 1, 0),
            is_named: false,
            is_completed: false,
        });
        assert_eq!(
            recorded[1..],
            [expected],
            "it is new, the others were named"
        );
    }
}

/// A receive that was cancelled by the records gets no message, even if one arrives before it is
/// cancelled: the next receive gets it. The same for named and wildcard receives.
// REC-4
#[test]
fn a_receive_that_was_cancelled_gets_nothing() {
    for pattern in [any(0), from(1, 0)] {
        for comes_first in [false, true] {
            let mut player = Player::new(|recorder| {
                recorder.cancelled(Clock(3), Clock(1));
            });
            if comes_first {
                player.comes(1, 0, 0);
            }
            let cancelled = player.receive(pattern);
            player.comes(1, u64::from(comes_first), 0);
            let next = player.receive(from(1, 0));
            player.settle();
            assert_eq!(player.got(next), Some((1, 0)));
            calls::cancel(player.engine(), &cancelled);
            let outcome = cancelled.outcome(player.engine()).expect("it is over");
            assert!(outcome.status.cancelled);
            assert_eq!(player.engine().statistics().events, 0);
            player.settle();
        }
    }
}

/// A cancel that came too late has no effect again, though the message has not arrived yet.
// REC-4
#[test]
fn a_cancel_that_came_too_late_comes_too_late_again() {
    let mut player = Player::new(|recorder| recorder.nothing(Clock(2)));
    let receive = player.receive(from(1, 0));
    calls::cancel(player.engine(), &receive);
    assert_eq!(receive.outcome(player.engine()), None);
    player.comes(1, 0, 0);
    assert_eq!(player.got(receive), Some((1, 0)));
}

/// A probe finds only the message of its record, once that has arrived; a matched probe takes it.
// REC-4
#[test]
fn a_probe_finds_the_message_of_its_record() {
    for takes in [false, true] {
        let mut player = Player::new(|recorder| {
            recorder.probed(Clock(1), Rank(2), Ssn(0), 0, ROOM_BYTES as u64);
        });
        player.comes(1, 0, 0);
        let clock = player.engine().tick();
        let ask = |player: &mut Player| match takes {
            true => calls::take_now(player.engine(), clock, &any(0))
                .ok()
                .map(|taken| taken.status.source),
            false => calls::look_now(player.engine(), clock, &any(0))
                .ok()
                .map(|status| status.source),
        };
        assert_eq!(ask(&mut player), None, "it has not come");
        player.comes(2, 0, 0);
        assert_eq!(ask(&mut player), Some(Rank(2)));
        assert_eq!(player.engine().statistics().events, 0);
        let rest = [player.receive(any(0)), player.receive(any(0))];
        let expected = [Some((1, 0)), (!takes).then_some((2, 0))];
        assert_eq!(rest.map(|it| player.got(it)), expected);
    }
}

/// A wait for some ends the requests of its record, in their order, when all of them are
/// complete: not fewer, and not more.
// REC-4; known trap: cut to one completion
#[test]
fn a_wait_for_some_ends_what_it_ended() {
    let mut player = Player::new(|recorder| {
        recorder.completed(Clock(4), &[Clock(3), Clock(1)]);
    });
    let mut handles = [0, 1, 2].map(|tag| player.receive(from(1, tag)));
    let clock = player.engine().tick();
    player.comes(1, 0, 0);
    player.comes(1, 1, 1);
    let mut indices = Vec::new();
    let mut try_some = |player: &mut Player, handles: &mut [Handle]| {
        calls::try_some(player.engine(), clock, handles, |index, _| {
            indices.push(index)
        })
    };
    assert_eq!(try_some(&mut player, &mut handles), None);
    player.comes(1, 2, 2);
    assert_eq!(try_some(&mut player, &mut handles), Some(2));
    assert_eq!(indices, [2, 0]);
    assert!(!handles[1].is_null());
    assert_eq!(player.engine().statistics().events, 0);
}

/// A set whose last part is not recorded does not count: the wait ends with a new result.
// REC-5
#[test]
fn a_set_without_its_end_is_not_told() {
    let whole = |recorder: &mut Recorder| {
        recorder.completed(Clock(301), &(1..301).map(Clock).collect::<Vec<_>>());
    };
    let mut player = Player::new(whole);
    assert!(player.engine().is_replaying());
    let row = Batches::of(&player.life.batches.all()).row();
    assert!(matches!(row[..], [_, _]));
    let recorded = recorded_events(&row[..1]).expect("they agree");
    assert_eq!(recorded.before(), Clock(301));
    assert_eq!(recorded.at(Clock(301)), RecordedOutcome::Open);
}

/// Messages of a rank to itself match by the records, too.
// REC-4
#[test]
fn a_message_to_itself_goes_where_it_went() {
    let mut player = Player::new(|recorder| {
        recorder.matched(Clock(3), matched(1, 1, 0), false);
        recorder.matched(Clock(3), matched(2, 0, 0), false);
    });
    let receives = [player.receive(any(0)), player.receive(any(0))];
    let bytes = payload(0, 0, ROOM_BYTES);
    player.life.send(0, to_rank_0(0, false), &bytes);
    assert_eq!(receives.map(|it| player.got(it)), [None, Some((0, 0))]);
    player.comes(1, 0, 0);
    assert_eq!(player.got(receives[0]), Some((1, 0)));
}

/// If every reception is recorded, a named receive without a record is undecided, too; one with a
/// record is not recorded again.
// REC-4, REC-5
#[test]
fn every_reception_is_told_where_every_one_was_recorded() {
    let mut player = Player::of(Member::PessimistClassic, |recorder| {
        recorder.matched(Clock(1), matched(1, 1, 0), true);
        recorder.nothing(Clock(3));
    });
    let told = player.receive(from(1, 0));
    let limbo = player.receive(from(2, 0));
    player.comes(1, 0, 0);
    player.comes(2, 0, 0);
    assert_eq!([told, limbo].map(|it| player.got(it)), [Some((1, 0)), None]);
    let clock = player.engine().tick();
    let mut tested = limbo;
    assert_eq!(
        calls::test(player.engine(), clock, &mut tested),
        Err(NoAnswer::Nothing)
    );
    player.engine().tick();
    assert_eq!(player.got(limbo), Some((2, 0)));
    assert_eq!(player.engine().statistics().events, 1);
}

/// Undecided receives that ask for messages of one source in another order than it sent them:
/// after the last record each message goes to the first receive that takes it, and none is
/// overtaken by a later one of its tag.
// REC-5
#[test]
fn messages_that_were_held_keep_the_order_of_their_source() {
    for comes_first in [false, true] {
        let mut player = Player::of(Member::PessimistClassic, |recorder| {
            recorder.nothing(Clock(3));
        });
        let sent = [0, 1, 0];
        let come = |player: &mut Player| {
            for (ssn, tag) in (0..).zip(sent) {
                player.comes(1, ssn, tag);
            }
        };
        if comes_first {
            come(&mut player);
        }
        let limbo = [player.receive(from(1, 1)), player.receive(from(1, 0))];
        if !comes_first {
            come(&mut player);
        }
        let clock = player.engine().tick();
        let mut tested = limbo[0];
        assert_eq!(
            calls::test(player.engine(), clock, &mut tested),
            Err(NoAnswer::Nothing)
        );
        player.engine().tick();
        assert_eq!(
            limbo.map(|it| player.got(it)),
            [Some((1, 1)), Some((1, 0))],
            "messages come first: {comes_first}"
        );
        let rest = player.receive(from(1, 0));
        assert_eq!(player.got(rest), Some((1, 2)));
    }
}

/// The last record is of a match in an operation that has not begun when the operation before it is
/// answered: later matches are recorded after it. Records whose clocks decrease are refused.
// REC-2, REC-5
#[test]
fn what_is_new_is_recorded_behind_the_last_record() {
    let mut player = Player::of(Member::PessimistClassic, |recorder| {
        recorder.nothing(Clock(3));
        recorder.matched(Clock(4), matched(1, 2, 0), true);
    });
    let told = player.receive(from(2, 0));
    let limbo = player.receive(from(1, 0));
    player.comes(1, 0, 0);
    player.comes(2, 0, 0);
    let clock = player.engine().tick();
    let mut tested = limbo;
    assert_eq!(
        calls::test(player.engine(), clock, &mut tested),
        Err(NoAnswer::Nothing)
    );
    calls::found_nothing(player.engine(), clock);
    assert_eq!(
        [told, limbo].map(|it| player.got(it)),
        [Some((2, 0)), Some((1, 0))]
    );
    let new = Determinant::Match(Match {
        at: Clock(4),
        matched: matched(2, 1, 0),
        is_named: true,
        is_completed: false,
    });
    assert_eq!(player.recorded().last(), Some(&new));
}

/// After the last record no receive is undecided, also if the program makes no further
/// operation: it may wait at the end of a scope.
// REC-5
#[test]
fn a_rank_runs_freely_behind_the_last_record() {
    type Record = fn(&mut Recorder);
    type End = fn(&mut Player);
    let endings: [(Record, End); 4] = [
        (
            |recorder| recorder.nothing(Clock(3)),
            |player| {
                let clock = player.engine().tick();
                let mut null = player.rooms[0].0;
                let told = calls::test(player.engine(), clock, &mut null);
                assert_eq!(told, Err(NoAnswer::Nothing));
                calls::found_nothing(player.engine(), clock);
            },
        ),
        (
            |recorder| recorder.completed(Clock(3), &[Clock(2)]),
            |player| {
                player.comes(2, 0, 1);
                let clock = player.engine().tick();
                let mut handle = player.rooms[1].0;
                let told = calls::test(player.engine(), clock, &mut handle);
                assert!(told.ok().is_some());
            },
        ),
        (
            |recorder| recorder.probed(Clock(3), Rank(2), Ssn(0), 3, ROOM_BYTES as u64),
            |player| {
                player.comes(2, 0, 3);
                let clock = player.engine().tick();
                let told = calls::look_now(player.engine(), clock, &any(3));
                assert!(told.ok().is_some());
            },
        ),
        (
            |recorder| recorder.cancelled(Clock(3), Clock(2)),
            |player| {
                let handle = player.rooms[1].0;
                calls::cancel(player.engine(), &handle);
            },
        ),
    ];
    for (record, end) in endings {
        let mut player = Player::new(record);
        let limbo = player.receive(any(0));
        player.receive(from(2, 1));
        player.comes(1, 0, 0);
        assert_eq!(player.got(limbo), None);
        end(&mut player);
        assert!(!player.engine().is_replaying());
        player.settle();
        assert_eq!(player.got(limbo), Some((1, 0)));
        assert_eq!(player.engine().statistics().events, 1);
    }
}
