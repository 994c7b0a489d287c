//! Bytes that are not a batch are not taken for one. EL-2

use crate::batches::{a_match, batch_of, completion, header_of, merged};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{
    BATCH_VERSION, BatchError, BatchHeader, COUNT_MAX, HEADER_BYTES, PAYLOAD_BYTES_MAX,
};
use refrain_ring::Clock;

// EL-2
#[test]
fn every_changed_byte_is_noticed() {
    for row in [
        vec![a_match(7, 7, 1, 3)],
        vec![merged(7, 6, 1, 3), completion(9, &[1, 2, 3])],
        (0..64).map(|n| merged(n, n, 1, n)).collect(),
    ] {
        let batch = batch_of(&row, 40);
        for at in 0..batch.len() {
            for change in 1..=u8::MAX {
                let mut damaged = batch.clone();
                damaged[at] ^= change;
                assert!(
                    BatchHeader::read(&damaged).is_err(),
                    "byte {at} ^ {change:02x}"
                );
            }
        }
    }
}

// EL-2
#[test]
fn a_batch_that_is_cut_or_torn_is_noticed() {
    let row: Vec<_> = (0..300).map(|n| merged(n, n, n as u32, n)).collect();
    let batch = batch_of(&row, 0);
    for bytes in 0..batch.len() {
        assert_eq!(
            BatchHeader::read(&batch[..bytes]),
            Err(BatchError::Short(bytes))
        );
    }
    // Over an older batch of the same length, line by line.
    let older = batch_of(&row, 1);
    for line in 1..batch.len() / 64 {
        let torn = [&batch[..line * 64], &older[line * 64..]].concat();
        if torn != batch {
            assert_eq!(BatchHeader::read(&torn), Err(BatchError::Checksum));
        }
        let stale = [&older[..line * 64], &batch[line * 64..]].concat();
        assert!(stale == older || BatchHeader::read(&stale).is_err());
    }
}

#[test]
fn what_follows_a_batch_is_not_looked_at() {
    let batch = batch_of(&[a_match(1, 1, 1, 1)], 0);
    let more = [&batch[..], &[0xff; 100]].concat();
    assert_eq!(BatchHeader::read(&more), BatchHeader::read(&batch));
}

#[test]
fn the_limits_of_a_header_hold() {
    let row = [a_match(5, 5, 1, 0)];
    let right = header_of(&row, u64::MAX - 1);
    let seal = |header: &BatchHeader| {
        let mut batch = vec![0; HEADER_BYTES + header.payload_bytes as usize];
        header.seal(&mut batch);
        BatchHeader::read(&batch).map(|(header, _)| header)
    };
    let accepted = [
        right,
        BatchHeader {
            count: COUNT_MAX,
            first: EventIndex(0),
            ..right
        },
        BatchHeader {
            payload_bytes: PAYLOAD_BYTES_MAX as u32,
            ..right
        },
        BatchHeader {
            last_clock: Clock(u64::MAX),
            ..right
        },
        BatchHeader {
            lives_before: right.incarnation.0 as u16,
            ..right
        },
    ];
    for header in accepted {
        assert_eq!(seal(&header), Ok(header));
    }
    let refused = [
        (BatchHeader { count: 0, ..right }, "the count"),
        (
            BatchHeader {
                count: COUNT_MAX + 1,
                first: EventIndex(0),
                ..right
            },
            "the count",
        ),
        (
            BatchHeader {
                payload_bytes: 0,
                ..right
            },
            "the length of the payload",
        ),
        (
            BatchHeader {
                payload_bytes: PAYLOAD_BYTES_MAX as u32 + 1,
                ..right
            },
            "the length of the payload",
        ),
        (
            BatchHeader {
                lives_before: right.incarnation.0 as u16 + 1,
                ..right
            },
            "the number of lives before",
        ),
        (BatchHeader { count: 2, ..right }, "the first number"),
        (
            BatchHeader {
                last_clock: Clock(4),
                ..right
            },
            "the last clock",
        ),
    ];
    for (header, name) in refused {
        let found = seal(&header);
        assert!(
            matches!(found, Err(BatchError::Field { field, .. }) if field == name),
            "{name}: {found:?}"
        );
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let mut batch = batch_of(&[a_match(5, 5, 1, 0)], 0);
    batch[4] = BATCH_VERSION + 1;
    let error = BatchHeader::read(&batch).expect_err("from the future");
    assert!(error.to_string().contains("this program reads version 5"));
    assert!(
        BatchHeader::read(&[0; 64]).is_err(),
        "memory that was never written"
    );
}
