//! Batches and answers for the tests.

use refrain_logging::determinant::EventIndex;
use refrain_logging::held::{Batch, Row};
use refrain_ring::{Clock, Incarnation};

/// A batch that owns its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub incarnation: u32,
    pub first: u64,
    pub count: u16,
    pub clocks: (u64, u64),
    pub payload: Vec<u8>,
}

impl Stored {
    pub fn of(batch: &Batch<'_>) -> Self {
        Self {
            incarnation: batch.incarnation.0,
            first: batch.first.0,
            count: batch.count,
            clocks: (batch.first_clock.0, batch.last_clock.0),
            payload: batch.payload.to_vec(),
        }
    }

    pub fn as_batch(&self) -> Batch<'_> {
        Batch {
            incarnation: Incarnation(self.incarnation),
            first: EventIndex(self.first),
            count: self.count,
            first_clock: Clock(self.clocks.0),
            last_clock: Clock(self.clocks.1),
            payload: &self.payload,
        }
    }

    pub fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// The batches of a row.
pub fn batches_of(row: &Row) -> Vec<Stored> {
    row.batches().map(|batch| Stored::of(&batch)).collect()
}

pub fn row_of(batches: &[Stored]) -> Row {
    let mut row = Row::default();
    for batch in batches {
        row.push(&batch.as_batch());
    }
    row
}

/// Appends a number as the format encodes it.
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 127 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

/// An answer as a holder gives it.
pub fn answer((floor, life): (u64, u32), row: &Row) -> Vec<u8> {
    let mut answer = Vec::new();
    put(&mut answer, floor);
    put(&mut answer, life.into());
    answer.extend(row.as_bytes());
    answer
}

/// The batches of an answer.
pub fn batches_of_answer(answer: &[u8]) -> Vec<Stored> {
    let mut rest = answer;
    for _number in 0..NUMBERS_OF_ANSWER {
        let last = rest.iter().position(|byte| *byte < 128);
        rest = &rest[last.expect("a number has an end") + 1..];
    }
    batches_of(&Row::read(rest).expect("a row follows the numbers"))
}

/// Number of numbers before the row of an answer.
const NUMBERS_OF_ANSWER: usize = 2;
