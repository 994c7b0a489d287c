//! Logs that are read in pieces.

use super::*;
use crate::LoggerId;
use crate::acceptor::Beginning;
use crate::logbook::{Logbook, LogbookOptions, Refusal};
use crate::store::replay::replay;
use refrain_logging::determinant::batch::{HEADER_BYTES, job_tag};
use refrain_ring::Incarnation;
use refrain_storage::simulated::SimulatedDisk;
use refrain_storage::{Directory, Io};

const JOB: u64 = 7;
const RANKS: u32 = 2;
const BATCHES: u64 = 3000;
const PIECE_BYTES: usize = 64 << 10;

/// A batch of two determinants.
fn batch(rank: u32, number: u64) -> Vec<u8> {
    let header = BatchHeader {
        job_tag: job_tag(JOB),
        rank: Rank(rank),
        incarnation: Incarnation(0),
        lives_before: 0,
        first: EventIndex(number * 2),
        count: 2,
        first_clock: Clock(number * 2),
        last_clock: Clock(number * 2 + 1),
        payload_bytes: 900,
    };
    let mut batch = vec![number as u8; HEADER_BYTES + 900];
    header.seal(&mut batch);
    batch
}

/// An empty logbook, with files of a megabyte.
fn begun(disk: &SimulatedDisk) -> Logbook {
    let options = LogbookOptions {
        logger: LoggerId(2),
        sync: false,
        io: Io::Plain,
        continues: false,
        segment_bytes: 1 << 20,
    };
    Logbook::open_on(disk.clone().into(), &options).expect("an empty disk")
}

/// Logs of some ranks.
fn written() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let mut logbook = begun(&disk);
    for rank in 0..RANKS {
        logbook.hello(JOB, Rank(rank), Incarnation(0)).expect("new");
    }
    for number in 0..BATCHES {
        for rank in 0..RANKS {
            while let Err(refused) = logbook.accept(JOB, &batch(rank, number)) {
                assert!(matches!(refused, Refusal::Busy { .. }), "{refused}");
                logbook.progress().expect("a disk that works");
            }
        }
        if number % 10 == 9 {
            logbook.progress().expect("a disk that works");
        }
    }
    logbook.settle().expect("a disk that works");
    disk
}

/// Reads a whole log in pieces, from a number on.
fn read_in_pieces(reader: &Reader<'_>, from: u64) -> Vec<u8> {
    let mut question = Question {
        job: JOB,
        rank: Rank(1),
        from: EventIndex(from),
        after_clock: None,
    };
    let mut position = GroupPosition::default();
    let mut all = Vec::new();
    let mut is_last = false;
    while !is_last {
        is_last = true;
        let (mut piece, mut next) = (Vec::new(), question.from);
        let mut each = |batch: &[u8]| {
            if piece.len() + batch.len() > PIECE_BYTES {
                is_last = false;
                return ControlFlow::Break(());
            }
            next = BatchHeader::peek(batch).expect("a batch").end();
            piece.extend_from_slice(batch);
            ControlFlow::Continue(())
        };
        let read = reader.read(&question, &mut position, &mut each);
        read.expect("it is complete");
        question.from = next;
        all.extend(piece);
    }
    all
}

/// The pieces together are the log, and no piece reads again what earlier pieces have read.
// EL-5
#[test]
fn pieces_go_on_where_the_last_has_ended() {
    let disk = written();
    let files = Folder::from(Directory::from(disk.clone()));
    let found = replay(&files).expect("they are whole");
    let mut contents = found.contents;
    for tracked in &mut contents.rows {
        tracked.written = tracked.end();
    }
    assert!(contents.files.len() > 3, "the row goes through files");
    let there: u64 = contents.files.values().map(|file| file.written_end).sum();
    let reader = Reader {
        files: &files,
        contents: &contents,
    };
    for from in [0, 1001] {
        let before = disk.read_bytes();
        let all = read_in_pieces(&reader, from);
        // A batch that begins before `from` is given whole.
        let expected: Vec<u8> = (from / 2..BATCHES)
            .flat_map(|number| batch(1, number))
            .collect();
        assert!(all == expected, "the row from {from} on");
        let bytes = disk.read_bytes() - before;
        assert!(bytes < there * 3 / 2, "{bytes} bytes of {there}");
    }
}

/// A log is cut for a life that no quorum admits. For the next life it gets the same batches again:
/// they lie twice in the file.
// EL-5
#[test]
fn batches_that_lie_twice_in_a_file_are_read_once() {
    let mut logbook = begun(&SimulatedDisk::new(1));
    let rank = Rank(1);
    let life = |incarnation, batches: u64| Beginning {
        incarnation: Incarnation(incarnation),
        start: EventIndex(batches * 2),
        clock_before: Clock(batches * 2 - 1),
        follows: Incarnation(0),
        first_kept: EventIndex(batches * 2),
    };
    logbook.hello(JOB, rank, Incarnation(0)).expect("new");
    for number in 0..6 {
        logbook.accept(JOB, &batch(1, number)).expect("the next");
    }
    let whole = logbook.row(JOB, rank).cloned().expect("it is there");
    logbook.hello(JOB, rank, Incarnation(1)).expect("new");
    logbook.admit(JOB, rank, &life(1, 2)).expect("it fits");
    logbook.hello(JOB, rank, Incarnation(2)).expect("new");
    let followed = logbook.follow(JOB, rank, &whole, &life(2, 6));
    followed.expect("it can be cut");
    for number in 2..6 {
        logbook.adopt(JOB, &batch(1, number)).expect("the next");
    }
    logbook.settle().expect("a disk that works");
    let mut read = Vec::new();
    let mut each = |batch: &[u8]| {
        read.extend_from_slice(batch);
        ControlFlow::Continue(())
    };
    let complete = logbook.read(JOB, rank, EventIndex(0), None, &mut each);
    complete.expect("nothing is missing");
    let expected: Vec<u8> = (0..6).flat_map(|number| batch(1, number)).collect();
    assert!(read == expected);
}

/// If the log was cut meanwhile, the position is ignored.
#[test]
fn a_bookmark_that_is_nowhere_is_passed_over() {
    let files = Folder::from(Directory::from(written()));
    let mut contents = replay(&files).expect("they are whole").contents;
    for tracked in &mut contents.rows {
        tracked.written = tracked.end();
    }
    let reader = Reader {
        files: &files,
        contents: &contents,
    };
    let mut question = Question {
        job: JOB,
        rank: Rank(0),
        from: EventIndex(10),
        after_clock: None,
    };
    let mut position = GroupPosition::default();
    let first_of = |question: &Question, position: &mut GroupPosition| {
        let mut first = None;
        let mut each = |batch: &[u8]| {
            first = BatchHeader::peek(batch).ok().map(|header| header.first);
            ControlFlow::Break(())
        };
        let read = reader.read(question, position, &mut each);
        read.expect("it is there");
        first
    };
    assert_eq!(first_of(&question, &mut position), Some(EventIndex(10)));
    // In another file, and again at the same place.
    question.from = EventIndex(2 * BATCHES - 3);
    let expected = Some(EventIndex(2 * BATCHES - 4));
    assert_eq!(first_of(&question, &mut position), expected);
    assert_eq!(first_of(&question, &mut position), expected);
    question.from = EventIndex(10);
    assert_eq!(first_of(&question, &mut position), Some(EventIndex(10)));
}
