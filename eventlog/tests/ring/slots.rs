//! Bytes that are not a valid batch, and valid places of batches. EL-2

use crate::batches::Life;
use refrain_eventlog::LoggerId;
use refrain_eventlog::ring::{
    CONTROL_BYTES, Cursor, DATA_BYTES, LINE_BYTES, RING_BYTES, RingIdentity, RingMemory,
    RingReader, RingRemains, RingWriter,
};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use refrain_ring::{Incarnation, Rank};
use std::fs::File;
use std::os::unix::fs::FileExt;

pub const LIFE: Life = Life::new(0xfeed_0000_0001, 3, 2);

/// A ring in a file, both of its sides, and the file.
pub struct Ring {
    pub file: File,
    pub memory: RingMemory,
    pub identity: RingIdentity,
    pub reader: RingReader,
    pub writer: RingWriter,
}

impl Ring {
    pub fn new(start: u64) -> Self {
        let file = tempfile::tempfile().expect("a file");
        let identity = RingIdentity {
            job: LIFE.job,
            rank: Rank(LIFE.rank),
            incarnation: Incarnation(LIFE.incarnation),
            logger: LoggerId(4),
            start: EventIndex(start),
        };
        let memory = RingMemory::create(&file, &identity).expect("a ring");
        let theirs = RingMemory::open(&file).expect("the same ring");
        assert_eq!(theirs.identity(), identity);
        Self {
            reader: RingReader::new(memory.clone(), identity),
            writer: RingWriter::new(theirs),
            file,
            memory,
            identity,
        }
    }

    /// Puts bytes where the batch at that place would lie.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let at = (CONTROL_BYTES + offset) as u64;
        self.file.write_all_at(bytes, at).expect("put");
    }

    pub fn take(&mut self) -> Option<Vec<u8>> {
        let mut batch = [0; BATCH_BYTES_MAX];
        self.reader
            .take(&mut batch)
            .map(|(_, batch)| batch.to_vec())
    }

    pub fn remains(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let remains = RingRemains::new(self.memory.clone(), self.identity);
        let _ = remains.each(|_, batch| {
            all.push(batch.to_vec());
            Ok::<(), ()>(())
        });
        all
    }
}

#[test]
fn nothing_of_another_job_rank_life_or_number_is_taken() {
    let others = [
        Life::new(LIFE.job ^ 1, LIFE.rank, LIFE.incarnation),
        Life::new(LIFE.job, LIFE.rank + 1, LIFE.incarnation),
        Life::new(LIFE.job, LIFE.rank, LIFE.incarnation - 1),
        Life::new(LIFE.job, LIFE.rank, LIFE.incarnation + 1),
    ];
    for other in others {
        let mut ring = Ring::new(0);
        ring.put(0, &other.batch(0, 2));
        assert_eq!(ring.take(), None, "{other:?}");
        assert!(ring.remains().is_empty(), "{other:?}");
        // The slot is not lost.
        ring.put(0, &LIFE.batch(0, 2));
        assert_eq!(ring.take(), Some(LIFE.batch(0, 2)));
        // A later batch with the right number only is not taken either.
        ring.writer.write(&LIFE.batch(0, 2)).expect("room");
        for number in [0, 1, 3, u64::MAX - 2] {
            ring.put(
                ring.writer.position().offset(),
                &LIFE.batch_at(number, 1, 5),
            );
            assert_eq!(ring.take(), None, "{number} is not the next");
        }
        ring.writer.write(&LIFE.batch(2, 1)).expect("room");
        assert_eq!(ring.take(), Some(LIFE.batch(2, 1)));
    }
}

#[test]
fn only_the_first_batch_may_begin_below_the_rings_start() {
    let mut ring = Ring::new(20);
    ring.writer.write(&LIFE.batch(10, 2)).expect("room");
    ring.writer.write(&LIFE.batch(12, 2)).expect("room");
    ring.writer.write(&LIFE.batch(10, 2)).expect("room");
    assert_eq!(ring.take(), Some(LIFE.batch(10, 2)));
    assert_eq!(ring.take(), Some(LIFE.batch(12, 2)));
    assert_eq!(ring.take(), None);
    let mut ring = Ring::new(20);
    ring.writer.write(&LIFE.batch(21, 1)).expect("room");
    assert_eq!(ring.take(), None, "a gap");
}

#[test]
fn one_flipped_bit_is_not_taken() {
    let batch = LIFE.batch(0, 2);
    for bit in 0..batch.len() * 8 {
        let mut ring = Ring::new(0);
        let mut damaged = batch.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        ring.put(0, &damaged);
        assert_eq!(ring.take(), None, "bit {bit}");
        assert!(ring.remains().is_empty(), "bit {bit}");
    }
}

#[test]
fn a_batch_cut_short_is_not_taken_until_it_is_whole() {
    let batch = LIFE.batch(0, 40);
    for bytes in 0..batch.len() {
        let mut ring = Ring::new(0);
        ring.put(0, &batch[..bytes]);
        assert_eq!(ring.take(), None, "{bytes} bytes");
        ring.put(bytes, &batch[bytes..]);
        assert_eq!(ring.take(), Some(batch.clone()));
    }
}

/// Where a batch is prepared, what lay there is no batch any more: not even when all
/// of it but its first word is the same.
#[test]
fn what_is_prepared_is_not_taken_whatever_lay_there() {
    let batch = LIFE.batch(0, 2);
    let mut ring = Ring::new(0);
    ring.put(0, &batch);
    ring.writer.prepare(&batch).expect("room");
    assert_eq!(ring.take(), None);
    assert!(ring.remains().is_empty());
    ring.writer.write_prepared(&batch).expect("it has its room");
    assert_eq!(ring.remains(), std::slice::from_ref(&batch));
    assert_eq!(ring.take(), Some(batch));
}

#[test]
fn another_batch_takes_the_place_of_what_was_prepared() {
    let mut ring = Ring::new(0);
    let (foreseen, other) = (LIFE.batch(0, 60), LIFE.batch(0, 2));
    ring.writer.prepare(&foreseen).expect("room");
    ring.writer.write(&other).expect("room");
    // It is forgotten: what was prepared is written as any other now.
    let next = LIFE.batch(2, 1);
    ring.writer.write_prepared(&next).expect("room");
    assert_eq!(ring.remains(), [other.clone(), next.clone()]);
    assert_eq!([ring.take(), ring.take()], [Some(other), Some(next)]);
}

#[test]
fn nothing_is_prepared_over_what_is_not_consumed() {
    let mut ring = Ring::new(0);
    let mut next = 0;
    while ring.writer.write(&LIFE.batch(next, 1)).is_ok() {
        next += 1;
    }
    let before = ring.remains();
    assert!(ring.writer.prepare(&LIFE.batch(next, 1)).is_err());
    assert_eq!(ring.remains(), before);
}

#[test]
fn numbers_near_the_end_are_taken() {
    for start in [(1 << 32) - 1, u64::MAX - 3] {
        let mut ring = Ring::new(start);
        for first in [start, start + 1] {
            let batch = LIFE.batch_at(first, 1, u64::MAX - 1);
            ring.writer.write(&batch).expect("room");
            assert_eq!(ring.take(), Some(batch));
        }
        assert_eq!(ring.reader.expected(), EventIndex(start + 2));
    }
}

#[test]
fn no_batch_crosses_the_end_and_none_overtakes_what_is_not_consumed() {
    for batch_bytes in [1, LINE_BYTES, 65, 1000, BATCH_BYTES_MAX] {
        let mut place = Cursor::default();
        for _ in 0..3 * DATA_BYTES / LINE_BYTES {
            assert!(place.offset() + BATCH_BYTES_MAX <= DATA_BYTES);
            assert!(place.offset().is_multiple_of(LINE_BYTES));
            assert!(!place.is_full(batch_bytes, place));
            let end = place.0 + batch_bytes.next_multiple_of(LINE_BYTES) as u64;
            let back = end - DATA_BYTES.min(end as usize) as u64;
            assert!(!place.is_full(batch_bytes, Cursor(back)));
            if back > 0 {
                assert!(place.is_full(batch_bytes, Cursor(back - 1)));
            }
            place = place.after(batch_bytes);
        }
    }
}

#[test]
fn a_file_that_is_no_ring_is_not_opened() {
    let file = tempfile::tempfile().expect("a file");
    assert!(RingMemory::open(&file).is_err(), "empty");
    file.set_len(RING_BYTES as u64).expect("length");
    assert!(RingMemory::open(&file).is_err(), "no magic");
    let ring = Ring::new(0);
    ring.file.write_all_at(&[2], 7).expect("another version");
    assert!(RingMemory::open(&ring.file).is_err());
    let ring = Ring::new(0);
    ring.file.set_len(RING_BYTES as u64 - 1).expect("length");
    assert!(RingMemory::open(&ring.file).is_err(), "cut short");
}

#[test]
fn what_the_server_writes_reaches_the_client() {
    use refrain_ring::Clock;
    let mut ring = Ring::new(7);
    assert_eq!(ring.writer.durable().0, EventIndex(7));
    ring.reader.tell_durable(EventIndex(9), Clock(90));
    assert_eq!(ring.writer.durable(), (EventIndex(9), Clock(90)));
    assert!(!ring.writer.server_sleeps());
    ring.reader.set_sleeps(true);
    assert!(ring.writer.server_sleeps());
    assert!(!ring.writer.is_closed());
    ring.reader.close();
    assert!(ring.writer.is_closed());
}
