//! The logbook in real folders: every way to write, locks, folders that cannot
//! be written, an archive beside a living server. EL-3, EL-5

#[path = "../store/batches.rs"]
mod batches;
mod folders;
mod speed;

use batches::Which;
use core::ops::ControlFlow;
use refrain_eventlog::LoggerId;
use refrain_eventlog::acceptor::Beginning;
use refrain_eventlog::logbook::{Archive, Logbook, LogbookOptions, ReadError, Verdict};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_storage::Io;
use rustix::event::{PollFd, PollFlags, poll};

const JOB: u64 = 77 << 33 | 5;

fn options(sync: bool, io: Io) -> LogbookOptions {
    LogbookOptions {
        logger: LoggerId(2),
        sync,
        io,
        continues: false,
        segment_bytes: 256 << 10,
    }
}

/// All I/O engines that are available here.
fn ways() -> Vec<(bool, Io)> {
    let all = [
        (false, Io::Auto),
        (true, Io::Auto),
        (false, Io::Plain),
        (true, Io::Plain),
        (false, Io::Uring),
        (true, Io::Uring),
    ];
    let can = |way: &(bool, Io)| {
        let folder = tempfile::tempdir().expect("a folder");
        match Logbook::open(folder.path(), options(way.0, way.1)) {
            Ok(_) => true,
            Err(error) => {
                println!("skipped {way:?}: {error}");
                assert_eq!(way.1, Io::Uring, "everything else goes everywhere");
                false
            }
        }
    };
    all.into_iter().filter(can).collect()
}

fn which(rank: u32, incarnation: u32, first: u64, count: u16) -> Which {
    Which {
        job: JOB,
        rank,
        incarnation,
        first,
        count,
        first_clock: first,
        last_clock: first + u64::from(count) - 1,
    }
}

fn read(
    logbook: &Logbook,
    rank: u32,
    from: u64,
    after: Option<u64>,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut batches = Vec::new();
    let after = after.map(Clock);
    logbook.read(JOB, Rank(rank), EventIndex(from), after, &mut |batch| {
        batches.push(batch.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(batches)
}

/// Waits as a server does, until everything is stored.
fn serve(logbook: &mut Logbook) {
    loop {
        logbook.progress().expect("a disk that works");
        if logbook.is_settled() {
            return;
        }
        let bell = logbook.descriptor().expect("something is under way");
        poll(&mut [PollFd::new(&bell, PollFlags::IN)], None).expect("poll");
    }
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    for (sync, io) in ways() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut expected = vec![Vec::new(); 4];
        let mut ends = [0; 4];
        for incarnation in 0..3 {
            let mut logbook = Logbook::open(folder.path(), options(sync, io)).expect("a folder");
            for rank in 0..4 {
                let standing = logbook.hello(JOB, Rank(rank), Incarnation(incarnation));
                assert_eq!(
                    standing.expect("a new life").end,
                    EventIndex(ends[rank as usize])
                );
            }
            for round in 0..200_u64 {
                for rank in 0..4_u32 {
                    let end = &mut ends[rank as usize];
                    let count = 1 + (round * 7 + u64::from(rank)) % 100;
                    let batch = which(rank, incarnation, *end, count as u16).bytes();
                    assert_eq!(logbook.accept(JOB, &batch), Ok(Verdict::Taken));
                    expected[rank as usize].push(batch);
                    *end += count;
                }
                if round % 3 == 0 {
                    logbook.progress().expect("a disk that works");
                }
            }
            serve(&mut logbook);
            for rank in 0..4 {
                let end = EventIndex(ends[rank as usize]);
                assert_eq!(logbook.written(JOB, Rank(rank)).0, end);
                let durable = logbook.durable(JOB, Rank(rank)).0;
                assert_eq!(durable, if sync { end } else { EventIndex(0) });
            }
        }
        let logbook = Logbook::open(folder.path(), options(sync, io)).expect("a folder");
        let archive = Archive::open(folder.path()).expect("the same folder");
        assert_eq!(archive.holdings(), logbook.holdings());
        for rank in 0..4 {
            assert!(read(&logbook, rank, 0, None).expect("EL-5") == expected[rank as usize]);
            let mut archived = Vec::new();
            let all = archive.read(JOB, Rank(rank), EventIndex(0), None, &mut |batch| {
                archived.push(batch.to_vec());
                ControlFlow::Continue(())
            });
            all.expect("EL-5");
            assert!(archived == expected[rank as usize]);
        }
    }
}

#[test]
fn settled_without_syncs_is_durable_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logbook = Logbook::open(folder.path(), options(false, Io::Auto)).expect("new");
    logbook.hello(JOB, Rank(0), Incarnation(0)).expect("new");
    logbook
        .accept(JOB, &which(0, 0, 0, 5).bytes())
        .expect("the first");
    logbook.settle().expect("a disk that works");
    assert_eq!(logbook.durable(JOB, Rank(0)), (EventIndex(5), Clock(4)));
}

#[test]
fn a_rank_reads_from_a_number_or_a_clock_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logbook = Logbook::open(folder.path(), options(false, Io::Auto)).expect("new");
    logbook.hello(JOB, Rank(0), Incarnation(0)).expect("new");
    let batches: Vec<_> = (0..1000).map(|n| which(0, 0, n * 10, 10).bytes()).collect();
    for batch in &batches {
        logbook.accept(JOB, batch).expect("in order");
    }
    assert!(
        read(&logbook, 0, 0, None)
            .expect("nothing is written yet")
            .is_empty()
    );
    logbook.settle().expect("a disk that works");
    for from in [0, 1, 9, 10, 4999, 9999, 10_000, u64::MAX] {
        let skipped = usize::try_from(from / 10).map_or(1000, |skipped| skipped.min(1000));
        assert!(read(&logbook, 0, from, None).expect("EL-5") == batches[skipped..]);
        // Its last clock is not above that.
        let skipped = usize::try_from(from.saturating_add(1) / 10).map_or(1000, |n| n.min(1000));
        assert!(read(&logbook, 0, 0, Some(from)).expect("EL-5") == batches[skipped..]);
    }
    let unknown = read(&logbook, 9, 0, None);
    assert!(
        matches!(unknown, Err(ReadError::Unknown { .. })),
        "{unknown:?}"
    );
    let mut given = 0;
    let stopped = logbook.read(JOB, Rank(0), EventIndex(0), None, &mut |_| {
        given += 1;
        ControlFlow::Break(())
    });
    stopped.expect("no error");
    assert_eq!(given, 1);
}

#[test]
fn what_is_trimmed_is_said_and_its_files_go() {
    for sync in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let io = Io::Auto;
        let mut logbook = Logbook::open(folder.path(), options(sync, io)).expect("new");
        let files = || {
            std::fs::read_dir(folder.path())
                .expect("it is there")
                .count()
        };
        for rank in 0..2 {
            logbook.hello(JOB, Rank(rank), Incarnation(0)).expect("new");
        }
        logbook
            .accept(JOB, &which(1, 0, 0, 1).bytes())
            .expect("the first");
        for n in 0..1000 {
            logbook
                .accept(JOB, &which(0, 0, n * 1000, 1000).bytes())
                .expect("in order");
            logbook.progress().expect("a disk that works");
        }
        serve(&mut logbook);
        let before = files();
        assert!(before > 8, "{before} files");
        // GC-1: rank 1 holds the first file, and only that.
        logbook.trim(JOB, Rank(0), Clock(899_999));
        serve(&mut logbook);
        logbook.progress().expect("a disk that works");
        assert!(files() < 6, "{} of {before} files", files());
        let said = read(&logbook, 0, 0, None);
        assert!(matches!(said, Err(ReadError::Trimmed { .. })), "{said:?}");
        let said = read(&logbook, 0, 0, Some(899_998));
        assert!(matches!(said, Err(ReadError::Trimmed { .. })), "{said:?}");
        assert_eq!(
            read(&logbook, 0, 0, Some(899_999)).expect("EL-5").len(),
            100
        );
        assert_eq!(read(&logbook, 1, 0, None).expect("EL-5").len(), 1);
        drop(logbook);
        let mut logbook = Logbook::open(folder.path(), options(sync, io)).expect("EL-3");
        assert_eq!(
            read(&logbook, 0, 0, Some(899_999)).expect("EL-5").len(),
            100
        );
        assert_eq!(read(&logbook, 1, 0, None).expect("EL-5").len(), 1);
        logbook.trim(JOB, Rank(0), Clock(u64::MAX));
        logbook.trim(JOB, Rank(1), Clock(u64::MAX));
        serve(&mut logbook);
        logbook.progress().expect("a disk that works");
        assert_eq!(files(), 3, "the last file, the lock and the watermark");
        let standing = logbook
            .hello(JOB, Rank(0), Incarnation(1))
            .expect("a new life");
        assert_eq!(
            (standing.first, standing.end),
            (EventIndex(1_000_000), EventIndex(1_000_000))
        );
        assert_eq!(standing.last_clock, Clock(999_999));
    }
}

#[test]
fn a_replica_that_was_away_is_brought_up_to_date() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [mut up, mut away] = [0, 1]
        .map(|n: usize| Logbook::open(folders[n].path(), options(false, Io::Auto)).expect("new"));
    for logbook in [&mut up, &mut away] {
        logbook.hello(JOB, Rank(0), Incarnation(0)).expect("new");
        for n in 0..10 {
            logbook
                .accept(JOB, &which(0, 0, n * 3, 3).bytes())
                .expect("in order");
        }
    }
    // Determinants that only the replica has that was away were never stable.
    away.accept(JOB, &which(0, 0, 30, 3).bytes())
        .expect("in order");
    up.hello(JOB, Rank(0), Incarnation(1)).expect("new");
    for n in 9..20 {
        up.accept(JOB, &which(0, 1, n * 3, 3).bytes())
            .expect("cut at 27");
    }
    up.settle().expect("a disk that works");
    away.hello(JOB, Rank(0), Incarnation(1))
        .expect("it is back");
    // A life that follows what `up` has of the first.
    let life = Beginning {
        incarnation: Incarnation(1),
        start: EventIndex(27),
        clock_before: Clock(26),
        follows: Incarnation(0),
        first_kept: EventIndex(60),
    };
    let source = up.row(JOB, Rank(0)).expect("it has it").clone();
    away.follow(JOB, Rank(0), &source, &life)
        .expect("a batch ends there");
    let mut verdicts = Vec::new();
    let read_out = up.read(JOB, Rank(0), EventIndex(0), None, &mut |batch| {
        verdicts.push(away.adopt(JOB, batch).expect("EL-3"));
        ControlFlow::Continue(())
    });
    read_out.expect("EL-5");
    assert_eq!(verdicts[..9], [Verdict::Known; 9]);
    assert_eq!(verdicts[9..], [Verdict::Taken; 11]);
    away.settle().expect("a disk that works");
    assert!(read(&away, 0, 0, None).expect("EL-5") == read(&up, 0, 0, None).expect("EL-5"));
    // A new replica, when the others have given up the beginning. GC-1
    up.trim(JOB, Rank(0), Clock(1 << 40));
    let folder = tempfile::tempdir().expect("a folder");
    let mut new = Logbook::open(folder.path(), options(false, Io::Auto)).expect("new");
    new.hello(JOB, Rank(0), Incarnation(1)).expect("new");
    let source = up.row(JOB, Rank(0)).expect("it has it");
    new.follow(JOB, Rank(0), source, &life)
        .expect("it said hello");
    new.admit(
        JOB,
        Rank(0),
        &Beginning {
            start: EventIndex(60),
            clock_before: Clock(59),
            ..life
        },
    )
    .expect("it begins there");
    new.accept(JOB, &which(0, 1, 60, 3).bytes())
        .expect("goes on there");
    new.settle().expect("a disk that works");
    assert_eq!(new.written(JOB, Rank(0)), (EventIndex(63), Clock(62)));
}

#[test]
fn a_logbook_that_cannot_keep_up_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut logbook = Logbook::open(folder.path(), options(false, Io::Auto)).expect("new");
    logbook.hello(JOB, Rank(0), Incarnation(0)).expect("new");
    let refused = (0..100_000).find_map(|n| {
        let batch = which(0, 0, n * 1024, 1024).bytes();
        logbook
            .accept(JOB, &batch)
            .err()
            .map(|refused| (n, refused))
    });
    let (n, refused) = refused.expect("it takes what it cannot hold");
    assert!(refused.is_temporary(), "{refused}");
    logbook.progress().expect("a disk that works");
    let batch = which(0, 0, n * 1024, 1024).bytes();
    assert_eq!(logbook.accept(JOB, &batch), Ok(Verdict::Taken));
}
