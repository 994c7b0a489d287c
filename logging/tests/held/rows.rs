//! Rows agree with lists of batches, and have one encoding.

use crate::batches::{Stored, batches_of, put, row_of};
use crate::fixed_seed::cases;
use proptest::prelude::*;
use proptest::sample::Index;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{
    BatchHeader, COUNT_MAX, HEADER_BYTES, PAYLOAD_BYTES_MAX, job_tag,
};
use refrain_logging::held::{Batch, Row};
use refrain_ring::Rank;

/// Numbers at critical values: small, near 2^32, near 2^64, any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..200u64,
        1 => u64::from(u32::MAX) - 3..u64::from(u32::MAX) + 4,
        1 => u64::MAX - 4..=u64::MAX,
        1 => any::<u64>(),
    ]
}

fn incarnation() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..4u32, 1 => u32::MAX - 2..=u32::MAX, 1 => any::<u32>()]
}

fn batch() -> impl Strategy<Value = Stored> {
    let count = prop_oneof![6 => 1..5u16, 1 => 1..=COUNT_MAX];
    let payload = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 1..20),
        1 => prop::collection::vec(any::<u8>(), 100..300),
    ];
    (
        incarnation(),
        number(),
        count,
        (number(), number()),
        payload,
    )
        .prop_map(
            |(incarnation, first, count, (clock, lasts), payload)| Stored {
                incarnation,
                first: first.min(u64::MAX - u64::from(count)),
                count,
                clocks: (clock, clock.saturating_add(lasts)),
                payload,
            },
        )
}

#[derive(Clone, Debug)]
enum Step {
    Push(Stored),
    /// Keeps the batches whose places are set.
    Retain(u64),
    Trim(u64),
    /// Trims behind a batch.
    TrimAt(Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => batch().prop_map(Step::Push),
        1 => any::<u64>().prop_map(Step::Retain),
        1 => number().prop_map(Step::Trim),
        1 => any::<Index>().prop_map(Step::TrimAt),
    ]
}

fn trim(row: &mut Row, list: &mut Vec<Stored>, first: u64) {
    row.trim(EventIndex(first));
    list.retain(|batch| batch.end() > first);
}

fn assert_agrees(row: &Row, list: &[Stored]) {
    assert_eq!(batches_of(row), list);
    assert_eq!(row.count(), list.len());
    assert_eq!(Row::read(row.as_bytes()).as_ref(), Ok(row));
    assert_eq!(&row_of(list), row, "a row depends only on its batches");
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_row_agrees_with_a_list(steps in prop::collection::vec(step(), 1..40)) {
        let (mut row, mut list) = (Row::default(), Vec::<Stored>::new());
        for step in steps {
            match step {
                Step::Push(batch) => {
                    row.push(&batch.as_batch());
                    list.push(batch);
                }
                Step::Retain(places) => {
                    let is_set = |place: u32| places >> (place % 64) & 1 == 1;
                    let mut place = 0..;
                    row.retain(|_| place.next().is_some_and(is_set));
                    let mut place = 0..;
                    list.retain(|_| place.next().is_some_and(is_set));
                }
                Step::Trim(before) => trim(&mut row, &mut list, before),
                Step::TrimAt(place) if !list.is_empty() => {
                    let before = place.get(&list).end();
                    trim(&mut row, &mut list, before);
                }
                Step::TrimAt(_) => {}
            }
            assert_agrees(&row, &list);
        }
    }

    #[test]
    fn other_bytes_are_refused_or_are_another_row(
        batches in prop::collection::vec(batch(), 1..6),
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<Index>()),
        tail in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut bytes = row_of(&batches).as_bytes().to_vec();
        for (place, value) in damage {
            *place.get_mut(&mut bytes) = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend(tail);
        if let Ok(row) = Row::read(&bytes) {
            prop_assert_eq!(row.as_bytes(), &bytes);
            assert_agrees(&row, &batches_of(&row));
        }
    }

    #[test]
    fn a_batch_is_sealed_and_read_again(batch in batch(), job: u64, rank: u32) {
        let sealed = batch.as_batch().sealed(job, Rank(rank));
        let (header, payload) = BatchHeader::read(&sealed).expect("it was sealed");
        prop_assert_eq!((header.job_tag, header.rank), (job_tag(job), Rank(rank)));
        prop_assert_eq!(payload, &batch.payload);
        prop_assert_eq!(header.end().0, batch.end());
        // The bytes behind a batch belong to another.
        let longer = [&sealed[..], &[7; 9]].concat();
        prop_assert_eq!(Stored::of(&Batch::of(&header, &longer)), batch);
    }
}

#[test]
fn a_row_passes_2_to_the_32_and_reaches_2_to_the_64() {
    for near in [u64::from(u32::MAX) - 3, u64::MAX - 6] {
        let list: Vec<_> = (0..6)
            .map(|step| Stored {
                incarnation: u32::MAX - 3 + (step / 2) as u32,
                first: near + step,
                count: 1,
                clocks: (near + step, near + step + 1),
                payload: vec![step as u8],
            })
            .collect();
        assert_agrees(&row_of(&list), &list);
    }
    let batch = |incarnation, first, clocks| Stored {
        incarnation,
        first,
        count: 1,
        clocks,
        payload: vec![1],
    };
    let list = [
        batch(0, u64::MAX - 1, (0, u64::MAX)),
        batch(u32::MAX, 0, (u64::MAX, u64::MAX)),
        batch(1 << 31, 1 << 63, (1 << 63, 1 << 63)),
        batch(0, 0, (0, 0)),
    ];
    assert_agrees(&row_of(&list), &list);
}

#[test]
fn a_row_holds_the_largest_batch() {
    let list = [Stored {
        incarnation: 3,
        first: 5,
        count: COUNT_MAX,
        clocks: (1, 2),
        payload: vec![9; PAYLOAD_BYTES_MAX],
    }];
    assert_agrees(&row_of(&list), &list);
    let sealed = list[0].as_batch().sealed(7, Rank(0));
    assert_eq!(sealed.len(), HEADER_BYTES + PAYLOAD_BYTES_MAX);
    assert!(BatchHeader::read(&sealed).is_ok());
}

/// The numbers of a batch in their order, then this number of bytes.
fn bytes_of(numbers: [u64; 5], payload_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        put(&mut bytes, number);
    }
    put(&mut bytes, payload_bytes as u64);
    bytes.resize(bytes.len() + payload_bytes, 1);
    bytes
}

#[test]
fn what_no_batch_says_is_refused() {
    let read = |numbers, payload_bytes| Row::read(&bytes_of(numbers, payload_bytes));
    assert_eq!(read([0, 0, 1, 0, 0], 1).map(|row| row.count()), Ok(1));
    // Differences are zigzag numbers: 1 is -1.
    let wrong: [([u64; 5], usize); 8] = [
        ([0, 0, 0, 0, 0], 1),                        // no determinant
        ([0, 0, u64::from(COUNT_MAX) + 1, 0, 0], 1), // too many
        ([0, 0, 65537, 0, 0], 1),                    // too many, of 17 bits
        ([0, 0, 1, 0, 0], 0),                        // no payload
        ([0, 0, 1, 0, 0], PAYLOAD_BYTES_MAX + 1),    // a payload that no batch has
        ([1, 0, 1, 0, 0], 1),                        // its end is 2^64
        ([0, 0, 1, 1, 1], 1),                        // its last clock is 2^64
        ([0, 1 << 33, 1, 0, 0], 1),                  // an incarnation of 33 bits
    ];
    for (numbers, payload_bytes) in wrong {
        assert!(read(numbers, payload_bytes).is_err(), "{numbers:?}");
    }
    let right = bytes_of([4, 2, 3, 200, 5], 9);
    assert!(Row::read(&right).is_ok());
    for cut in 1..right.len() {
        assert!(Row::read(&right[..cut]).is_err(), "{cut} bytes");
    }
}
