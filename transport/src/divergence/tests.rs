//! How differing bytes are counted, and when they are another history. REC-8

use super::*;

fn sent(payload: &[u8]) -> SentAgain<'_> {
    SentAgain {
        to: Rank(2),
        ssn: Ssn(5),
        context: 0,
        tag: 7,
        synchronous: false,
        payload,
    }
}

/// Structs of `bytes`, of which the last `garbage` bytes differ.
fn structs(count: usize, bytes: usize, garbage: usize) -> (Vec<u8>, Vec<u8>) {
    let of = |life: u8| {
        let one = (0..bytes).map(move |at| if at < bytes - garbage { 3 } else { life });
        (0..count).flat_map(|_| one.clone()).collect()
    };
    (of(10), of(20))
}

fn note(comparison: &mut Comparison, (before, now): &(Vec<u8>, Vec<u8>)) -> Result<(), Stops> {
    comparison.note_difference(Clock(9), &sent(now), before)
}

#[test]
fn every_byte_and_the_first_ranges_are_counted() {
    let before: Vec<u8> = (0..40).collect();
    let mut now = before.clone();
    for at in [4, 5, 6, 11, 16, 20, 39] {
        now[at] ^= 1;
    }
    let mut comparison = Comparison::new(DivergencePolicy::Auto);
    comparison.note_same(&sent(&before));
    assert_eq!(note(&mut comparison, &(before, now)), Ok(()));
    assert_eq!((comparison.messages, comparison.bytes), (2, 80));
    let differing = (comparison.differing_messages, comparison.differing_bytes);
    assert_eq!(differing, (1, 7));
    let first = comparison.first.expect("there is one");
    assert_eq!(first.clock, Clock(9));
    assert_eq!(
        first.to_string(),
        "message 5 to rank 2 (context 0, tag 7, 40 bytes) has other bytes at 4..6, 11, 16, 20 and more"
    );
}

#[test]
fn the_first_difference_stays_the_first() {
    let mut comparison = Comparison::new(DivergencePolicy::Warn);
    note(&mut comparison, &structs(1, 8, 1)).unwrap();
    let later = structs(1, 8, 4);
    comparison
        .note_difference(Clock(10), &sent(&later.1), &later.0)
        .unwrap();
    let first = comparison.first.expect("there is one");
    assert_eq!((first.clock, first.ranges), (Clock(9), vec![(7, 8)]));
    assert_eq!(comparison.differing_bytes, 5);
}

/// Padding in any number of structs, in messages of any length; dummy words and timings in any
/// number of messages.
#[test]
fn what_means_nothing_is_no_other_history() {
    for (count, bytes, garbage) in [
        (1, 24, 4),
        (1000, 24, 4),
        (1000, 16, 4),
        (1, 4, 4),
        (4, 8, 7),
    ] {
        let message = structs(count, bytes, garbage);
        let mut comparison = Comparison::new(DivergencePolicy::Auto);
        for _ in 0..5000 {
            assert_eq!(note(&mut comparison, &message), Ok(()));
        }
        assert_eq!(comparison.differing_messages, 5000);
    }
}

/// From this many bytes on: not a few bytes, and not if most messages are the same.
#[test]
fn long_messages_that_are_wholly_different_are_another_history() {
    let message = structs(32, 8, 7);
    let stopped_at = |policy, same: u64| {
        let mut comparison = Comparison::new(policy);
        for number in 1..100 {
            for _ in 0..same {
                comparison.note_same(&sent(&message.0));
                comparison.note_same(&sent(&message.0[..8]));
            }
            if let Err(stops) = note(&mut comparison, &message) {
                return Some((number, stops));
            }
        }
        None
    };
    let auto = DivergencePolicy::Auto;
    let bytes = OTHER_HISTORY_BYTES_MIN.div_ceil(32 * 7);
    assert_eq!(stopped_at(auto, 0), Some((bytes, Stops::AsAnotherHistory)));
    assert_eq!(stopped_at(auto, 3), Some((bytes, Stops::AsAnotherHistory)));
    assert_eq!(stopped_at(auto, 4), None);
    assert_eq!(stopped_at(DivergencePolicy::Warn, 0), None);
    let stop = stopped_at(DivergencePolicy::Stop, 100);
    assert_eq!(stop, Some((1, Stops::AtAnyDifference)));
}
