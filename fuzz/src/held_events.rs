//! Events that ranks hold for each other: rows, answers, and what the protocol `ticket` tells other
//! ranks (docs/design/events-at-ranks.md).

use crate::input::Input;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::held::{Batch, Collected, Row};
use refrain_logging::held::{Gives, Holdings};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation, Rank};

const ROW: u8 = 0;
const ANSWERS: u8 = 1;
const STREAM: u8 = 2;

/// Checks any row, any answers of two holders, or any stream of another rank.
pub fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 3 {
        ROW => any_row(bytes),
        ANSWERS => any_answers(bytes),
        _ => any_stream(bytes),
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
        let mut tickets = Holdings::new(Gives::AtCommit, (rank, Incarnation(0)), 2, None);
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
        let [mut zero, _] = job();
        zero.hear(Rank(1), &stream()).expect("rank 1 tells it");
        assert_eq!(zero.stable_end(), EventIndex(4));
    }
}
