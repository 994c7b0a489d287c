//! Wrong answers to readers, which must be rejected. EL-5

use crate::batches::{JOB, RANK, batch};
use crate::scripted::{PATIENCE, Scripted};
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::client::read::{
    RankEvents, ReadError, ReadRequest, list, read_events, read_from,
};
use refrain_eventlog::message::{Holding, ToClient};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation};
use tempfile::tempdir;

fn request(quorum: usize) -> ReadRequest {
    ReadRequest {
        job: JOB,
        rank: RANK,
        from: EventIndex(0),
        after_clock: None,
        until: EventIndex(0),
        follows: None,
        quorum,
        timeout: PATIENCE,
    }
}

fn sealed(incarnation: u32, first: u64, clock: u64) -> Vec<u8> {
    batch(incarnation, EventIndex(first), 1, clock, 20).1
}

/// Each logger has one answer for one reader; one without an answer is not
/// asked.
fn serve<T>(answers: &[Vec<ToClient>], ask: impl FnOnce(&[ServerAddress]) -> T) -> T {
    let folder = tempdir().unwrap();
    let loggers: Vec<_> = (0..answers.len() as u32)
        .map(|index| Scripted::listen(folder.path(), index))
        .collect();
    let addresses: Vec<_> = loggers
        .iter()
        .map(|logger| logger.address.clone())
        .collect();
    std::thread::scope(|scope| {
        for (logger, answers) in loggers.iter().zip(answers) {
            scope.spawn(move || {
                if !answers.is_empty() {
                    let mut reader = logger.accept_any();
                    reader.hear();
                    answers.iter().for_each(|answer| reader.say(answer));
                }
            });
        }
        ask(&addresses)
    })
}

fn read_one(answers: &[ToClient]) -> Result<RankEvents, ReadError> {
    serve(&[answers.to_vec()], |addresses| {
        read_from(&addresses[0], &request(1))
    })
}

fn events(batches: &[Vec<u8>]) -> Vec<ToClient> {
    vec![ToClient::Events {
        batches: batches.concat(),
        is_last: true,
    }]
}

#[test]
fn a_row_comes_in_pieces_and_is_put_together() {
    for pieces in 0..4 {
        let mut answers: Vec<_> = (0..pieces)
            .map(|piece| ToClient::Events {
                batches: sealed(0, piece, piece),
                is_last: false,
            })
            .collect();
        answers.push(ToClient::Events {
            batches: Vec::new(),
            is_last: true,
        });
        let row = read_one(&answers).unwrap();
        assert_eq!(row.end(), EventIndex(pieces));
        assert_eq!(row.batches().count(), pieces as usize);
        assert_eq!(row.is_empty(), pieces == 0);
    }
}

#[test]
fn rows_that_are_not_whole_are_refused_with_the_reason() {
    let mut torn = sealed(0, 1, 1);
    let last = torn.len() - 1;
    torn[last] ^= 1;
    let mut stranger = batch(0, EventIndex(0), 1, 0, 20);
    stranger.0.rank.0 += 1;
    stranger.0.seal(&mut stranger.1);
    let mut other_job = batch(0, EventIndex(0), 1, 0, 20);
    other_job.0.job_tag += 1;
    other_job.0.seal(&mut other_job.1);
    let cases: Vec<(Vec<ToClient>, &str)> = vec![
        (
            events(&[sealed(0, 0, 0), sealed(0, 2, 2)]),
            "events are missing",
        ),
        (events(&[sealed(0, 1, 1)]), "events are missing"),
        (
            events(&[sealed(0, 0, 0), sealed(0, 0, 0)]),
            "events are missing",
        ),
        (events(&[sealed(0, 0, 5), sealed(0, 1, 4)]), "go back"),
        (events(&[sealed(1, 0, 0), sealed(0, 1, 1)]), "go back"),
        (events(&[sealed(0, 0, 0), torn]), "checksum"),
        (events(&[sealed(0, 0, 0)[..50].to_vec()]), "cut short"),
        (events(&[stranger.1]), "its job or rank is another one"),
        (events(&[other_job.1]), "its job or rank is another one"),
        (
            vec![ToClient::Refused {
                reason: "dropped at a checkpoint".into(),
            }],
            "dropped at a checkpoint",
        ),
        (
            vec![ToClient::Consumed { position: 1 }],
            "to another request",
        ),
        // It closes the connection before the end.
        (
            vec![ToClient::Events {
                batches: Vec::new(),
                is_last: false,
            }],
            "closed",
        ),
    ];
    for (answers, words) in cases {
        let error = read_one(&answers).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

/// The longest row was never stable when a later life went on before its end.
#[test]
fn of_several_rows_the_one_of_the_latest_life_is_taken() {
    let dead: Vec<_> = (0..5).map(|number| sealed(0, number, number)).collect();
    let mut alive = dead[..3].to_vec();
    alive.push(sealed(1, 3, 9));
    let read = |answers: &[Vec<ToClient>], quorum| {
        let row = serve(answers, |addresses| {
            read_events(addresses, &request(quorum))
        });
        row.unwrap().end()
    };
    let two_of_three = read(&[events(&dead), events(&alive), vec![]], 2);
    assert_eq!(two_of_three, EventIndex(4));
    // One of two makes a commit stable: both have to be asked.
    let both = read(&[events(&dead[..2]), events(&dead)], 1);
    assert_eq!(both, EventIndex(5));
}

/// A replica that has not let the new life in yet still has what the dead one wrote
/// behind where the new one begins. That is overwritten: a life that was told of it
/// would do what no life after it knows of. EL-5
#[test]
fn what_a_dead_life_wrote_behind_the_beginning_is_not_given() {
    let dead: Vec<_> = (0..5).map(|number| sealed(0, number, number)).collect();
    let read = |until: usize, after_clock: Option<u64>| {
        let request = ReadRequest {
            until: EventIndex(until as u64),
            follows: Some(Incarnation(0)),
            after_clock: after_clock.map(Clock),
            ..request(2)
        };
        // One has let it in, the other has not.
        let answers = [events(&dead[..until]), events(&dead), vec![]];
        let row = serve(&answers, |addresses| read_events(addresses, &request));
        row.unwrap()
    };
    for until in 1..=dead.len() {
        let row = read(until, None);
        assert_eq!(row.end(), EventIndex(until as u64));
        assert_eq!(row.batches().count(), until);
    }
    assert!(read(0, None).is_empty());
    assert_eq!(read(3, Some(0)).batches().count(), 2);
}

#[test]
fn what_a_logger_has_is_listed() {
    let holding = Holding {
        job: JOB,
        rank: RANK.0,
        incarnation: 2,
        first: 1,
        clock_before: 10,
        end: 7,
        last_clock: 70,
    };
    let ranks = ToClient::Ranks {
        ranks: vec![holding.clone()],
    };
    let listed = serve(&[vec![ranks]], |addresses| list(&addresses[0], PATIENCE));
    assert_eq!(listed.unwrap(), [holding]);
}
