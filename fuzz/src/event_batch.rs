//! Batches of determinants (docs/formats/event-format.md).

use crate::input::Input;
use refrain_logging::determinant::batch::{
    BatchHeader, COUNT_MAX, HEADER_BYTES, PAYLOAD_BYTES_MAX,
};
use refrain_logging::determinant::record::{decode, encode};
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};

/// Checks any bytes, any payload after a valid header, or any sequence of events.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.u8() % 3 {
        0 => any_batch(bytes.get(1..).unwrap_or_default()),
        1 => any_payload(&mut input, bytes.get(20..).unwrap_or_default()),
        _ => any_program(&mut input, bytes.len()),
    }
}

fn any_batch(bytes: &[u8]) {
    match BatchHeader::read(bytes) {
        Ok((header, payload)) => {
            let batch = &bytes[..header.batch_bytes()];
            let mut again = batch.to_vec();
            again[..HEADER_BYTES].fill(0);
            header.seal(&mut again);
            assert_eq!(again, batch);
            any_row(&header, payload);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn any_payload(input: &mut Input<'_>, payload: &[u8]) {
    let payload = &payload[..payload.len().min(PAYLOAD_BYTES_MAX)];
    let (count, first_clock, lasts) = (input.u16(), input.u64(), input.u64());
    let header = BatchHeader {
        job_tag: 0,
        rank: Rank(0),
        incarnation: Incarnation(0),
        lives_before: 0,
        first: EventIndex(0),
        count: count % (COUNT_MAX + 1),
        first_clock: Clock(first_clock),
        last_clock: Clock(first_clock.saturating_add(lasts)),
        payload_bytes: payload.len() as u32,
    };
    any_row(&header, payload);
}

/// Checks that decoded events are encoded to the same bytes.
fn any_row(header: &BatchHeader, payload: &[u8]) {
    match decode(header, payload) {
        Ok(row) => {
            assert_eq!(row.len(), usize::from(header.count));
            assert!(row.is_sorted_by_key(|determinant| determinant.at()));
            assert_eq!(encode(&row), payload);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Checks that recorded events can be decoded, without a gap.
fn any_program(input: &mut Input<'_>, length: usize) {
    let identity = Identity {
        job: 3,
        rank: Rank(1),
        incarnation: Incarnation(0),
    };
    let mut recorder = Recorder::new(identity, EventIndex(0));
    let mut clock = input.u64() >> 1;
    let mut batch = Vec::new();
    for _ in 0..length / 2 {
        let (what, number) = (input.u8(), u64::from(input.u8()));
        clock += u64::from(what >> 4);
        let (at, request) = (Clock(clock), Clock(clock.wrapping_sub(number % 8)));
        match what % 8 {
            0..3 => {
                let (source, ssn) = (Rank(number as u32 / 8), Ssn(clock / 3));
                let matched = Matched {
                    request,
                    source,
                    ssn,
                };
                recorder.matched(at, matched, what & 8 != 0);
            }
            3 => recorder.completed(at, &[request]),
            4 => recorder.completed(at, &vec![request; number as usize * 4]),
            5 => recorder.probed(at, Rank(7), Ssn(clock), number as i32 - 9, input.u64()),
            6 if what & 8 != 0 => recorder.cancelled(at, request),
            6 => recorder.nothing(at),
            7 if what & 8 != 0 && number < 64 => {
                recorder.number(at, number as u8 % 16, 1 << number)
            }
            7 if what & 8 != 0 => recorder.bytes(at, &vec![what; number as usize - 63]),
            _ => take(&mut recorder, number % 2 == 0, &mut batch),
        }
    }
    while recorder.has_pending(true) {
        take(&mut recorder, true, &mut batch);
    }
}

fn take(recorder: &mut Recorder, flush: bool, batch: &mut Vec<u8>) {
    let first = recorder.next();
    if let Some(taken) = recorder.take_batch(flush, batch) {
        let (header, payload) = BatchHeader::read(batch).expect("it was sealed");
        assert_eq!((header, header.first), (taken, first));
        decode(&header, payload).expect("it was encoded");
    }
}

/// A batch of all kinds, its payload, and a program.
pub fn seeds() -> Vec<Vec<u8>> {
    let header = BatchHeader {
        job_tag: 0,
        rank: Rank(0),
        incarnation: Incarnation(0),
        lives_before: 0,
        first: EventIndex(0),
        count: 12,
        first_clock: Clock(1000),
        last_clock: Clock(1029),
        payload_bytes: PAYLOAD.len() as u32,
    };
    let mut batch = [&[0; HEADER_BYTES][..], PAYLOAD].concat();
    header.seal(&mut batch);
    let mut payload = vec![1, 12, 0];
    payload.extend(1000u64.to_le_bytes());
    payload.extend(29u64.to_le_bytes());
    payload.push(0);
    payload.extend(PAYLOAD);
    let mut program = vec![2, 9, 0, 0, 0, 0, 0, 0, 0];
    for what in 0..64_u8 {
        program.extend([
            (what % 8) | ((what & 32) >> 2) | (what << 4),
            what.wrapping_mul(5),
        ]);
    }
    vec![[&[0][..], &batch].concat(), payload, program]
}

/// The payload of the example in the document.
const PAYLOAD: &[u8] = &[
    0x8f, 0x03, 0x0e, 0xaf, 0x03, 0x04, 0xca, 0x04, 0x80, 0x81, 0xf0, 0x61, 0x72, 0x4c, 0x06, 0x21,
    0x1f, 0x05, 0x40, 0x12, 0x23, 0x30, 0x01, 0x80, 0xf8, 0x82, 0xad, 0x16, 0x30, 0x01, 0x88, 0x0e,
    0x13, 0x01, 0x03, 0x73, 0x65, 0x65, 0x64, 0x14, 0xe9, 0x03,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused seed would be a poor start.
    #[test]
    fn the_seed_is_read() {
        let seed = &seeds()[0];
        let (header, payload) = BatchHeader::read(&seed[1..]).expect("sealed");
        assert_eq!(decode(&header, payload).expect("encoded").len(), 12);
    }
}
