//! Logs of any determinants are decoded as they were encoded.

use crate::batches::{a_match, batch_of, cancelled, completion, header_of, merged, nothing};
use crate::fixed_seed::cases;
use proptest::prelude::*;
use refrain_logging::determinant::batch::{BatchHeader, PAYLOAD_BYTES_MAX};
use refrain_logging::determinant::record::{decode, encode};
use refrain_logging::determinant::{Determinant, Match, Matched};
use refrain_ring::{Clock, Rank, Ssn};

/// Numbers at critical values: small, near 2^32, near 2^64, any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..20u64,
        1 => u64::from(u32::MAX) - 3..u64::from(u32::MAX) + 4,
        1 => u64::MAX - 4..=u64::MAX,
        1 => any::<u64>(),
    ]
}

fn rank() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..5u32, 2 => 0..200u32, 1 => any::<u32>()]
}

/// One determinant `step` after the previous one, if the clock has room.
fn determinant() -> impl Strategy<Value = (u64, Determinant)> {
    let step = prop_oneof![8 => 0..4u64, 1 => number()];
    let numbers = (number(), number(), number(), any::<i32>());
    let set = prop::collection::vec(number(), 1..20);
    let kind = (0..11u8, rank(), any::<bool>());
    (step, kind, numbers, set).prop_map(|(step, (kind, source, flag), numbers, set)| {
        let (request, ssn, count, tag) = numbers;
        let at = Clock(0);
        let matched = Matched {
            request: Clock(request),
            source: Rank(source),
            ssn: Ssn(ssn),
        };
        let is_named = flag;
        let determinant = match kind {
            0..5 => Determinant::Match(Match {
                at,
                matched,
                is_named,
                is_completed: kind >= 2,
            }),
            5 => Determinant::Probe {
                at,
                source: Rank(source),
                ssn: Ssn(ssn),
                tag: if flag { tag } else { 3 },
                bytes: count,
            },
            6 => completion(0, &set),
            7 => cancelled(0, request),
            8 => Determinant::Number {
                at,
                series: (source % 16) as u8,
                value: count as i64,
            },
            9 => Determinant::Bytes {
                at,
                bytes: (0..=request % 256).map(|n| (n ^ ssn) as u8).collect(),
            },
            _ => nothing(request, 0, count.max(1)),
        };
        (step, determinant)
    })
}

/// Assigns clocks to a log.
fn row(begin: u64, steps: Vec<(u64, Determinant)>) -> Vec<Determinant> {
    let mut clock = begin;
    let mut row = Vec::new();
    for (step, mut determinant) in steps {
        clock = clock.checked_add(step).unwrap_or(clock);
        match &mut determinant {
            Determinant::Match(Match { at, .. })
            | Determinant::Probe { at, .. }
            | Determinant::Completion { at, .. }
            | Determinant::Cancelled { at, .. }
            | Determinant::Number { at, .. }
            | Determinant::Bytes { at, .. } => *at = Clock(clock),
            Determinant::Nothing { at, first, .. } => {
                (*at, *first) = (Clock(clock), Clock(first.0.min(clock)));
            }
        }
        row.push(determinant);
    }
    row
}

fn assert_comes_back(row: &[Determinant]) {
    let batch = batch_of(row, 0);
    let (header, payload) = BatchHeader::read(&batch).expect("sealed");
    assert_eq!(decode(&header, payload).as_deref(), Ok(row));
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_row_comes_back(
        begin in number(),
        steps in prop::collection::vec(determinant(), 1..40),
    ) {
        assert_comes_back(&row(begin, steps));
    }

    /// Every readable payload is encoded to the same bytes again, and takes no more
    /// memory than its length allows.
    #[test]
    fn any_bytes_are_refused_or_written_the_same_again(
        payload in prop::collection::vec(any::<u8>(), 1..60),
        count in 1..9u16,
        begin in number(),
        lasts in 0..20u64,
    ) {
        let header = BatchHeader {
            count,
            first_clock: Clock(begin),
            last_clock: Clock(begin.saturating_add(lasts)),
            payload_bytes: payload.len() as u32,
            ..header_of(&[a_match(0, 0, 0, 0)], 0)
        };
        if let Ok(row) = decode(&header, &payload) {
            prop_assert_eq!(encode(&row), payload);
        }
    }
}

/// docs/design/protocol.md, Traps: "A batch of several determinants of which only the
/// first is kept. Round trips are tested with 0, 1, 2 and many."
#[test]
fn trap_every_determinant_of_a_batch_is_kept() {
    assert_eq!(encode(&[]), [0u8; 0], "of none there is nothing to read");
    for count in [1, 2, 3, 63, 64, 65, 200, 1024u64] {
        let row: Vec<_> = (0..count)
            .map(|n| merged(10 + 3 * n, 9 + 3 * n, (n % 3) as u32, n / 3))
            .collect();
        assert_comes_back(&row);
    }
}

/// docs/design/protocol.md, Traps: "32-bit counters, and sentinels inside the range of
/// a counter. Tests start near 2³² and 2⁶⁴."
#[test]
fn trap_clocks_and_numbers_pass_2_to_the_32_and_reach_2_to_the_64() {
    for near in [u64::from(u32::MAX) - 2, u64::MAX - 5] {
        for step in [0, 1] {
            let row: Vec<_> = (0..6)
                .flat_map(|n| {
                    let at = near + step * n;
                    [
                        a_match(at, at - 1, 3, near + n),
                        merged(at, at, u32::MAX, near + n),
                        completion(at, &[at, at - 3, 0, u64::MAX]),
                        nothing(at - 2, at, 3),
                        Determinant::Number {
                            at: Clock(at),
                            series: 15,
                            value: if n % 2 == 0 { i64::MIN } else { i64::MAX },
                        },
                        Determinant::Probe {
                            at: Clock(at),
                            source: Rank(3),
                            ssn: Ssn(u64::MAX - n),
                            tag: if n % 2 == 0 { i32::MIN } else { i32::MAX },
                            bytes: near + n,
                        },
                    ]
                })
                .collect();
            assert_comes_back(&row);
        }
    }
    assert_comes_back(&[nothing(0, u64::MAX, u64::MAX)]);
    assert_comes_back(&[a_match(0, 0, 0, u64::MAX), a_match(u64::MAX, 7, 0, 0)]);
}

/// A new source takes the place of the one met first: no source is mistaken for
/// another.
#[test]
fn more_sources_than_are_remembered() {
    let random = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    for sources in [12, 13, 14, 63, 64, 65, 200] {
        let row: Vec<_> = (0..900)
            .map(|n| a_match(n, n, (random(n) % sources) as u32, n / 7))
            .collect();
        assert_comes_back(&row[..500.min(row.len())]);
        assert_comes_back(&row[450..]);
    }
}

#[test]
fn the_largest_set_fits_a_batch() {
    let worst: Vec<u64> = (0..Determinant::REQUESTS_MAX as u64)
        .map(|n| if n % 2 == 0 { u64::MAX / 3 * 2 } else { 0 })
        .collect();
    let row = [completion(1, &worst)];
    assert!(encode(&row).len() > 2500 && encode(&row).len() <= PAYLOAD_BYTES_MAX);
    assert_comes_back(&row);
    let above = completion(1, &vec![0; Determinant::REQUESTS_MAX + 1]);
    let header = header_of(core::slice::from_ref(&above), 0);
    assert!(decode(&header, &encode(&[above])).is_err());
}

#[test]
fn what_does_not_fit_the_header_is_refused() {
    let row = [a_match(5, 4, 1, 0), merged(9, 8, 1, 1)];
    let right = header_of(&row, 0);
    let payload = encode(&row);
    assert!(decode(&right, &payload).is_ok());
    let wrong = [
        BatchHeader { count: 1, ..right },
        BatchHeader { count: 3, ..right },
        BatchHeader { count: 0, ..right },
        BatchHeader {
            first_clock: Clock(4),
            ..right
        },
        BatchHeader {
            last_clock: Clock(8),
            ..right
        },
        BatchHeader {
            last_clock: Clock(10),
            ..right
        },
        BatchHeader {
            payload_bytes: 1,
            ..right
        },
    ];
    for header in wrong {
        let error = decode(&header, &payload).expect_err("it does not fit");
        assert!(error.to_string().starts_with("determinant "), "{error}");
    }
    let longer = [&payload[..], &[0]].concat();
    let header = BatchHeader {
        payload_bytes: longer.len() as u32,
        ..right
    };
    assert!(decode(&header, &longer).is_err(), "something follows");
}

/// Only the shortest encoding is accepted.
#[test]
fn other_ways_to_say_it_are_refused() {
    let header = header_of(&[a_match(5, 5, 1, 0)], 0);
    let read = |payload: &[u8]| {
        let payload_bytes = payload.len() as u32;
        decode(
            &BatchHeader {
                payload_bytes,
                ..header
            },
            payload,
        )
    };
    assert!(read(&[0x8f, 1, 0]).is_ok());
    // A set that the pair or the list says, though the short form does.
    let set = header_of(&[completion(5, &[5, 6])], 0);
    assert!(decode(&set, &[0x42]).is_ok());
    for payload in [&[0x62, 0][..], &[0x52, 2]] {
        let payload_bytes = payload.len() as u32;
        let header = BatchHeader {
            payload_bytes,
            ..set
        };
        assert!(decode(&header, payload).is_err(), "{payload:02x?}");
    }
    let others: [&[u8]; 10] = [
        &[0xaf, 0, 1, 0],          // the step, though it is the one expected
        &[0x9f, 1, 0],             // the lag, though the request is as predicted
        &[0xbf, 0, 1, 0],          // a pair, though both are as predicted
        &[0x8f, 0x81, 0, 0],       // a long number
        &[0x80],                   // a source that no earlier determinant names
        &[0x10, 0x10, 0x8f, 1, 0], // two changes
        &[0x10, 0x41],             // a change without a match
        &[0x11, 0x8f, 1, 0],       // a match that continues
        &[0x00],                   // no kind
        &[0x1f],
    ];
    for payload in others {
        assert!(read(payload).is_err(), "{payload:02x?}");
    }
}

#[test]
fn a_set_that_continues_does_so_at_once() {
    let part = |at, continues| Determinant::Completion {
        at: Clock(at),
        requests: vec![Clock(1)],
        continues,
    };
    let read = |row: &[Determinant]| decode(&header_of(row, 0), &encode(row));
    assert!(read(&[part(5, true), part(5, false)]).is_ok());
    assert!(
        read(&[part(5, false), part(5, true)]).is_ok(),
        "in the next batch"
    );
    assert!(read(&[part(5, true), part(6, false)]).is_err());
    assert!(read(&[part(5, true), a_match(5, 5, 0, 0)]).is_err());
}

/// The 65th source takes the first one's place, the 66th the second one's: bytes
/// written today must be readable later.
#[test]
fn places_are_given_in_turn() {
    let mut row: Vec<_> = (0..66).map(|n| a_match(0, 0, n, 0)).collect();
    row.push(a_match(0, 0, 64, 1));
    row.push(a_match(0, 0, 65, 1));
    assert!(encode(&row).ends_with(&[0x80, 0x81]));
}
