//! Events that ranks hold for each other: rows, answers, what the protocol `ticket` tells other
//! ranks, and what messages carry with `causal` (docs/design/events-at-ranks.md).

use crate::input::Input;
use refrain_logging::LeftInLogs;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::record;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_logging::held::{Batch, Collected, Gives, Holdings, Row, Tolerance};
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::{Carriage, Clock, Incarnation, Rank, Ssn};

const ROW: u8 = 0;
const ANSWERS: u8 = 1;
const STREAM: u8 = 2;
const ATTACHMENTS: u8 = 3;

/// Checks any row, any answers of two holders, any stream of another rank, or what its messages carry.
pub fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        ROW => any_row(bytes),
        ANSWERS => any_answers(bytes),
        STREAM => any_stream(bytes),
        _ => any_attachments(bytes),
    }
}

/// Bytes that are read are those of the row.
fn any_row(bytes: &[u8]) {
    match Row::read(bytes) {
        Ok(row) => {
            assert_eq!(row.as_bytes(), bytes);
            let mut again = Row::default();
            row.batches().for_each(|batch| again.push(&batch));
            assert_eq!(again, row);
            assert_eq!(row.batches().count(), row.count());
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Batches that are collected follow each other.
fn any_answers(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let first = input.bytes();
    let second = bytes.get(first.len() + 1..).unwrap_or_default();
    match Collected::of([(Rank(1), &*first), (Rank(2), second)]) {
        Ok(collected) => {
            let mut end = collected.floor;
            for batch in collected.row.batches() {
                assert_eq!(batch.first, end);
                end = batch.end();
            }
            assert_eq!(end, collected.end);
            assert_eq!(collected.holders.len(), collected.row.count());
            assert_eq!(collected.sealed(3, Rank(0)).len(), collected.row.count());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A rank that has a batch at the sender hears the stream in pieces of any lengths, and answers. It
/// still can after an error.
fn any_stream(bytes: &[u8]) {
    let mut tickets = job()[0].clone();
    let (cuts, mut stream) = bytes.split_at(bytes.len().min(CUTS));
    let mut cuts = cuts.iter().cycle();
    while !stream.is_empty() {
        let piece_bytes = 1 + cuts
            .next()
            .map_or(0, |cut| usize::from(*cut) % PIECE_BYTES_MAX);
        let (piece, rest) = stream.split_at(stream.len().min(piece_bytes));
        if let Err(why) = tickets.hear(Rank(1), piece) {
            assert!(!why.is_empty());
        }
        stream = rest;
        tell_all(&mut tickets);
    }
    let answer = tickets.answer(Rank(1));
    assert!(Collected::of([(Rank(0), &*answer)]).is_ok());
    tickets.fenced(Rank(1));
    tickets.connected(Rank(1));
    tickets.trim(Clock(u64::MAX));
    tell_all(&mut tickets);
}

/// Attachments, each behind its length. The batches that are read are those of a row, and their determinants can
/// be read. A receiver holds the same batches, and can go on after an error.
fn any_attachments(bytes: &[u8]) {
    let mut left = LeftInLogs::default();
    let (rank, life) = (Rank(0), Incarnation(0));
    let mut receiver = Holdings::new(
        (Gives::WithMessages, Tolerance::default()),
        (rank, life),
        2,
        None,
    );
    let mut rest = bytes;
    let mut is_broken = false;
    while let Some((length, behind)) = rest.split_first() {
        let (attachment, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = behind;
        let taken = left.take(attachment, Some(life));
        is_broken |= taken.is_err();
        if let Err(why) = receiver.take_carried(Rank(1), attachment) {
            assert!(!why.is_empty());
        }
    }
    let row = left.row();
    assert_eq!(Row::read(row.as_bytes()).as_ref(), Ok(row));
    for batch in row.batches() {
        let sealed = batch.sealed(3, Rank(1));
        let (header, payload) = BatchHeader::read(&sealed).expect("it was sealed");
        let read = record::decode(&header, payload);
        assert!(
            read.is_ok_and(|it| it.len() == usize::from(batch.count)) || is_unfinished(payload)
        );
    }
    if !is_broken {
        assert_eq!(receiver.held_of(Rank(1)).as_ref(), row);
    }
    receiver.idle();
    tell_all(&mut receiver);
}

/// Whether a batch may have a set that continues: what follows it is checked when the rank replays.
fn is_unfinished(payload: &[u8]) -> bool {
    payload.contains(&0x11)
}

/// What the messages of a rank carry: two events, another one, and many.
fn attachments() -> Vec<u8> {
    let identity = Identity {
        job: 3,
        rank: Rank(1),
        incarnation: Incarnation(0),
    };
    let holdings = Holdings::new(
        (Gives::WithMessages, Tolerance::default()),
        (Rank(1), Incarnation(0)),
        2,
        None,
    );
    let mut sender = Pessimist::new(identity, EventIndex(0), holdings);
    let mut attachments = Vec::new();
    let mut clock = 0;
    for count in [2, 1, 1, 5, 1] {
        for _ in 0..count {
            clock += 3;
            let matched = Matched {
                request: Clock(clock - 1),
                source: Rank(0),
                ssn: Ssn(clock),
            };
            sender.record().matched(Clock(clock), matched, false);
        }
        let carriage = Carriage {
            to: Rank(0),
            life: Incarnation(0),
            may_be_first: false,
            bytes_max: 255,
        };
        let mut attachment = Vec::new();
        sender.carry(carriage, &mut attachment);
        sender.carried(Rank(0));
        attachments.push(u8::try_from(attachment.len()).expect("it is short"));
        attachments.extend(attachment);
    }
    attachments
}

/// Number of first bytes that give the lengths of pieces.
const CUTS: usize = 4;
const PIECE_BYTES_MAX: usize = 40;

fn tell_all(tickets: &mut Holdings) -> Vec<u8> {
    let mut told = Vec::new();
    let mut piece = [0; PIECE_BYTES_MAX];
    while let Some((_, bytes)) = tickets.tell(&mut piece) {
        told.extend(&piece[..bytes]);
    }
    told
}

/// Two ranks; each has committed two batches, and the other has not heard of them.
fn job() -> [Holdings; 2] {
    [Rank(0), Rank(1)].map(|rank| {
        let mut tickets = Holdings::new(
            (Gives::AtCommit, Tolerance::default()),
            (rank, Incarnation(0)),
            2,
            None,
        );
        for batch in &BATCHES[..2] {
            let sealed = batch.sealed(3, rank);
            let (header, _) = BatchHeader::read(&sealed).expect("it was sealed");
            tickets.commit(&header, &sealed);
        }
        tickets
    })
}

const BATCHES: [Batch<'_>; 3] = [
    batch(0, 0, (7, 9), &[0x8f, 0x03, 0x0e]),
    batch(0, 2, (9, 300), &[1]),
    batch(1, 4, (300, 1 << 33), &[2; 9]),
];

const fn batch(life: u32, first: u64, clocks: (u64, u64), payload: &[u8]) -> Batch<'_> {
    Batch {
        incarnation: Incarnation(life),
        first: EventIndex(first),
        count: 2,
        first_clock: Clock(clocks.0),
        last_clock: Clock(clocks.1),
        payload,
    }
}

/// A row; the answers of two holders, with a floor and without; a stream with every kind of message.
pub fn seeds() -> Vec<Vec<u8>> {
    let row = |batches: &[Batch<'_>]| {
        let mut row = Row::default();
        batches.iter().for_each(|batch| row.push(batch));
        row.as_bytes().to_vec()
    };
    let all = row(&BATCHES);
    let answers = |first: &[u8], second: &[u8]| {
        let length = u8::try_from(first.len()).expect("it is short");
        [&[ANSWERS, length], first, second].concat()
    };
    let without_floor = [&[0, 0][..], &row(&BATCHES[..2])].concat();
    let with_floor = [&[2, 0][..], &row(&BATCHES[1..])].concat();
    vec![
        [&[ROW][..], &all].concat(),
        answers(&without_floor, &with_floor),
        answers(&[9, 1], &[0, 0]),
        [&[STREAM, 39, 2, 0, 11], &stream()[..]].concat(),
        [&[ATTACHMENTS][..], &attachments()].concat(),
    ]
}

/// What rank 1 tells rank 0: batches, what it holds, what it trims, what it has trimmed.
fn stream() -> Vec<u8> {
    let [mut zero, mut one] = job();
    let told = tell_all(&mut zero);
    let mut stream = tell_all(&mut one);
    one.hear(Rank(0), &told).expect("rank 0 has told it");
    stream.extend(tell_all(&mut one));
    zero.hear(Rank(1), &stream).expect("rank 1 has told it");
    let told = tell_all(&mut zero);
    one.hear(Rank(0), &told).expect("rank 0 has told it");
    one.trim(Clock(9));
    stream.extend(tell_all(&mut one));
    zero.trim(Clock(9));
    let told = tell_all(&mut zero);
    one.hear(Rank(0), &told).expect("rank 0 has told it");
    stream.extend(tell_all(&mut one));
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused seed would be a poor start.
    #[test]
    fn the_seeds_are_read() {
        let seeds = seeds();
        assert_eq!(Row::read(&seeds[0][1..]).map(|row| row.count()), Ok(3));
        let (first, second) = seeds[1][2..].split_at(seeds[1][1].into());
        let collected = Collected::of([(Rank(1), first), (Rank(2), second)]);
        let collected = collected.expect("they are readable");
        assert_eq!((collected.floor.0, collected.end.0), (2, 6));
        let mut left = LeftInLogs::default();
        let mut rest = &seeds[4][1..];
        while let Some((length, behind)) = rest.split_first() {
            let (attachment, behind) = behind.split_at(usize::from(*length));
            left.take(attachment, None).expect("it was carried");
            rest = behind;
        }
        assert_eq!(left.row().count(), 5);
        let [mut zero, _] = job();
        zero.hear(Rank(1), &stream()).expect("rank 1 tells it");
        assert_eq!(zero.stable_end(), EventIndex(4));
    }
}
