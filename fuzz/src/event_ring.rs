//! A ring in an event logger's memory, filled by a hostile client: the batches that the server and
//! its successor read from it (docs/design/event-logger.md, EL-2).
//!
//! The input is a list of writes: a position (two bytes, in lines), a length (two bytes) and the
//! bytes to write, with a valid checksum if the first of these bytes is odd.

use refrain_eventlog::LoggerId;
use refrain_eventlog::ring::{
    CONTROL_BYTES, DATA_BYTES, LINE_BYTES, RingIdentity, RingMemory, RingReader, RingRemains,
};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader, HEADER_BYTES, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};
use std::fs::File;
use std::os::unix::fs::FileExt;

const IDENTITY: RingIdentity = RingIdentity {
    job: 0x0000_00aa_c0ff_ee00,
    rank: Rank(3),
    incarnation: Incarnation(2),
    logger: LoggerId(1),
    start: EventIndex((1 << 32) - 2),
};

/// Checks the batches that a reader takes from a ring with these bytes.
pub fn check(bytes: &[u8]) {
    let file = memory_file();
    let memory = RingMemory::create(&file, &IDENTITY).expect("room for a ring");
    fill(&file, bytes);
    let mut reader = RingReader::new(memory.clone(), IDENTITY);
    let mut batch = [0; BATCH_BYTES_MAX];
    let mut next: Option<EventIndex> = None;
    // Each batch takes at least one line, and event numbers increase.
    for taken in 0.. {
        let Some((header, batch)) = reader.take(&mut batch) else {
            break;
        };
        assert!(taken <= DATA_BYTES / LINE_BYTES, "a ring is not endless");
        is_ours(&header, batch);
        match next {
            Some(next) => assert_eq!(header.first, next),
            None => assert!(header.first <= IDENTITY.start),
        }
        next = Some(header.end());
        assert_eq!(reader.expected(), header.end());
    }
    let mut last = None;
    let found = RingRemains::new(memory, IDENTITY).each(|header, batch| {
        is_ours(header, batch);
        assert!(last <= Some(header.first));
        last = Some(header.first);
        Ok::<(), ()>(())
    });
    assert!(found.is_ok());
    assert!(next.is_none() || last.is_some(), "a successor finds it too");
}

fn is_ours(header: &BatchHeader, batch: &[u8]) {
    assert!(IDENTITY.is_of(header));
    let (again, payload) = BatchHeader::read(batch).expect("whole and checked");
    assert_eq!(again, *header);
    assert_eq!(batch.len(), HEADER_BYTES + payload.len());
}

fn memory_file() -> File {
    let name = c"refrain-fuzz-ring";
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC);
    file.expect("memory").into()
}

fn fill(file: &File, mut bytes: &[u8]) {
    while let [place_low, place_high, low, high, rest @ ..] = bytes {
        let line = usize::from(u16::from_le_bytes([*place_low, *place_high]));
        let place = line % (DATA_BYTES / LINE_BYTES) * LINE_BYTES;
        let wanted = usize::from(u16::from_le_bytes([*low, *high]));
        let (written, behind) = rest.split_at(wanted.min(rest.len()));
        bytes = behind;
        let mut written = written.to_vec();
        if written.first().is_some_and(|first| first % 2 == 1) {
            check_sum(&mut written);
        }
        written.truncate(DATA_BYTES - place);
        let at = (CONTROL_BYTES + place) as u64;
        file.write_all_at(&written, at).expect("in the ring");
    }
}

/// Makes the checksum valid for the header, as a hostile client would.
fn check_sum(written: &mut [u8]) {
    if let Ok(header) = BatchHeader::peek(written)
        && let Some(batch) = written.get_mut(..header.batch_bytes())
    {
        header.seal(batch);
    }
}

fn batch(first: u64, count: u16, payload_bytes: usize) -> Vec<u8> {
    let header = BatchHeader {
        job_tag: job_tag(IDENTITY.job),
        rank: IDENTITY.rank,
        incarnation: IDENTITY.incarnation,
        lives_before: 0,
        first: EventIndex(first),
        count,
        first_clock: Clock(first),
        last_clock: Clock(first),
        payload_bytes: payload_bytes as u32,
    };
    let mut batch = vec![7; HEADER_BYTES + payload_bytes];
    header.seal(&mut batch);
    batch
}

fn write(line: u16, batch: &[u8]) -> Vec<u8> {
    let mut write = line.to_le_bytes().to_vec();
    write.extend((batch.len() as u16).to_le_bytes());
    write.extend(batch);
    write
}

/// One batch, two in sequence, the largest, and one with the highest event number.
pub fn seeds() -> Vec<Vec<u8>> {
    let start = IDENTITY.start.0;
    let one = write(0, &batch(start, 2, 10));
    let two = write(1, &batch(start + 2, 1, 100));
    vec![
        one.clone(),
        [one, two].concat(),
        write(0, &batch(start, 1024, 60)),
        write(0, &batch(u64::MAX - 1, 1, 1)),
    ]
}
