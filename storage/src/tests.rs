//! Runs the conformance suite on every engine, and tests of single engines.

mod conformance;

use crate::directory::{Directory, File};
use crate::engine::{Bytes, Ended, Engine, Inline, Io, Transfer};
use crate::simulated::{Dice, SimulatedDisk};
use crate::system::SystemFile;
use crate::uring::Uring;
use conformance::{Block, Subject, run_all};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn directory(parent: &Path, is_direct: bool) -> Directory {
    let directory = tempfile::tempdir_in(parent).unwrap().keep();
    let directory = Directory::open(&directory).unwrap();
    match is_direct {
        true => directory.past_the_page_cache().unwrap(),
        false => directory,
    }
}

fn conforms_in(parent: &Path) {
    for is_direct in [false, true] {
        for io in [Io::Auto, Io::Uring, Io::Thread, Io::Plain] {
            let folder = tempfile::tempdir_in(parent).unwrap();
            let probe = directory(folder.path(), is_direct);
            if let Err(error) = probe.engine::<Block>(io, 4) {
                assert_eq!(io, Io::Uring, "everything else goes everywhere: {error}");
                println!("SKIP io_uring: {error}");
                continue;
            }
            run_all(|| {
                let directory = directory(folder.path(), is_direct);
                let engine = directory.engine(io, 4).unwrap();
                Subject { directory, engine }
            });
        }
    }
}

#[test]
fn engines_conform_on_the_disk() {
    conforms_in(Path::new("/tmp"));
}

#[test]
fn engines_conform_on_shared_memory() {
    conforms_in(Path::new("/dev/shm"));
}

#[test]
fn the_simulated_disk_conforms() {
    for seed in 0..20 {
        run_all(|| {
            let directory = Directory::from(SimulatedDisk::new(seed));
            let engine = directory.engine(Io::Auto, 4).unwrap();
            Subject { directory, engine }
        });
    }
}

/// A readable descriptor means that there is something to collect; if nothing ends, it is not
/// readable.
#[test]
fn descriptors_tell_when_there_is_something_to_collect() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let folder = tempfile::tempdir().unwrap();
    let directory = directory(folder.path(), true);
    let mut engines = vec![directory.engine::<Block>(Io::Thread, 4).unwrap()];
    match directory.engine(Io::Uring, 4) {
        Ok(uring) => engines.push(uring),
        Err(error) => println!("SKIP io_uring: {error}"),
    }
    for (number, mut engine) in engines.into_iter().enumerate() {
        let is_ready = |engine: &dyn Engine<Block>, patience: &Timespec| {
            let descriptor = engine.descriptor().unwrap();
            let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
            poll(&mut watched, Some(patience)).unwrap() == 1
        };
        let (none, long) = (
            Timespec::default(),
            Timespec {
                tv_sec: 60,
                tv_nsec: 0,
            },
        );
        assert!(!is_ready(&*engine, &none));
        let file = directory.create(&number.to_string()).unwrap();
        let bytes = Block::full(1).bytes().len();
        for sync in [true, false] {
            engine.begin(Transfer::new(file.clone(), 0, bytes, sync, Block::full(1)));
            let mut ended = Vec::new();
            while engine.under_way() > 0 {
                assert!(is_ready(&*engine, &long), "{}", engine.name());
                engine.collect(false, &mut ended).unwrap();
            }
        }
    }
}

/// The result of one part of a transfer.
#[derive(Clone, Copy)]
enum Fate {
    Moves(usize),
    Fails(Errno),
}

/// Carries a transfer out, with these results for its first parts.
fn carry_out(transfer: Transfer<Block>, fates: &[Fate]) -> (Block, Option<io::ErrorKind>) {
    let mut fates: VecDeque<Fate> = fates.iter().copied().collect();
    let mut over = None;
    let call = |file: &File, place: u64, rest: Bytes<'_>| match (fates.pop_front(), rest) {
        (None, rest) => file.transfer(place, rest),
        (Some(Fate::Fails(error)), _) => Err(error.into()),
        // A direct file moves only whole blocks.
        (Some(Fate::Moves(bytes)), Bytes::Write(rest)) => file
            .transfer(place, Bytes::Write(&rest[..bytes & !4095]))
            .map(|_| bytes),
        (Some(Fate::Moves(bytes)), Bytes::Read(rest)) => file
            .transfer(
                place,
                Bytes::Read(&mut rest[..bytes.next_multiple_of(4096)]),
            )
            .map(|_| bytes),
    };
    transfer.carry_out(call, |ended| over = Some(ended));
    match over {
        Some(Ended::Done { memory, result }) => {
            (memory, result.err().map(|failed| failed.1.kind()))
        }
        other => panic!("not over: {other:?}"),
    }
}

#[test]
fn cut_and_interrupted_transfers_are_continued() {
    let folder = tempfile::tempdir().unwrap();
    for is_direct in [false, true] {
        let directory = directory(folder.path(), is_direct);
        let file = directory.create("a").unwrap();
        let bytes = Block::full(1).bytes().len();
        let fates = [
            Fate::Fails(Errno::AGAIN),
            Fate::Moves(4096),
            Fate::Fails(Errno::INTR),
            Fate::Moves(4096 + 512 * usize::from(is_direct)),
        ];
        let write = Transfer::new(file.clone(), 0, bytes, false, Block::full(1));
        assert_eq!(carry_out(write, &fates).1, None);
        let read = Transfer::new(file.clone(), 0, bytes, false, Block::empty(1));
        let (block, failed) = carry_out(read, &fates);
        assert_eq!(failed, None);
        assert!(block.bytes() == Block::full(1).bytes());
        // A write that moves 0 bytes fails; a read that moves 0 bytes is at the end of the file.
        let write = Transfer::new(file.clone(), 0, bytes, false, Block::full(1));
        let failed = carry_out(write, &[Fate::Moves(4096), Fate::Moves(0)]).1;
        assert_eq!(failed, Some(io::ErrorKind::WriteZero));
        let read = Transfer::new(file.clone(), 0, bytes, false, Block::empty(1));
        let (block, failed) = carry_out(read, &[Fate::Moves(4096), Fate::Moves(0)]);
        assert_eq!(failed, None);
        assert!(block.bytes()[..4096] == Block::full(1).bytes()[..4096]);
        assert!(block.bytes()[4096..].iter().all(|byte| *byte == 0));
    }
}

/// The kernel uses the memory of a read from an empty pipe until the pipe is written; so must the
/// engine.
#[test]
fn a_ring_that_is_dropped_waits_for_the_kernel() {
    let (reader, writer) = std::io::pipe().unwrap();
    let file = File::from(SystemFile::new(OwnedFd::from(reader), false));
    let mut uring = match Uring::new(8) {
        Ok(uring) => uring,
        Err(error) => return println!("SKIP io_uring: {error}"),
    };
    uring.begin(Transfer::new(file.clone(), 0, 4096, false, Block::empty(1)));
    assert_eq!(uring.room(), 7);
    let dropped = Arc::new(AtomicBool::new(false));
    let dropper = rustix::thread::gettid();
    let watcher = std::thread::spawn({
        let dropped = dropped.clone();
        move || {
            let status = format!("/proc/self/task/{dropper}/stat");
            let sleeps = || std::fs::read_to_string(&status).unwrap().contains(") S ");
            while !dropped.load(Ordering::Acquire) && !sleeps() {
                std::thread::yield_now();
            }
            let was_early = dropped.load(Ordering::Acquire);
            (&writer).write_all(b"now").unwrap();
            was_early
        }
    });
    drop(uring);
    dropped.store(true, Ordering::Release);
    assert!(!watcher.join().unwrap(), "the kernel had the memory still");
    assert!(!file.is_shared());
}

#[test]
fn engines_say_how_they_write() {
    let folder = tempfile::tempdir().unwrap();
    let disk = directory(folder.path(), true);
    let name = |io| disk.engine::<Block>(io, 4).map(|engine| engine.name());
    assert_eq!(name(Io::Plain).unwrap(), "plain writes");
    assert_eq!(name(Io::Thread).unwrap(), "plain writes in a thread");
    match name(Io::Uring) {
        Ok(uring) => {
            assert_eq!(uring, "io_uring, 4 at once");
            assert_eq!(name(Io::Auto).unwrap(), uring);
        }
        Err(error) => {
            let expected = format!("plain writes in a thread (no io_uring: {error})");
            assert_eq!(name(Io::Auto).unwrap(), expected);
        }
    }
    let memory = directory(Path::new("/dev/shm"), true);
    assert!(memory.is_memory() && !disk.is_memory());
    let engine = memory.engine::<Block>(Io::Auto, 4).unwrap();
    assert_eq!(engine.name(), "plain writes (tmpfs)");
    std::fs::remove_dir(memory.path("")).unwrap();
    let inline = Inline::<Block>::new(None);
    assert_eq!(inline.room(), 1);
}

#[test]
fn what_was_synced_survives_and_the_rest_may() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..60 {
        let disk = SimulatedDisk::new(seed);
        let directory = Directory::from(disk.clone());
        let synced = directory.create("synced").unwrap();
        synced.write_at(0, &[7; 2000]).unwrap();
        synced.sync().unwrap();
        directory.sync().unwrap();
        synced.write_at(4096, &[9; 4096]).unwrap();
        directory.create("unsynced").unwrap();
        assert_eq!(disk.after_death(seed).files(), disk.files());
        let after = disk.after_power_loss(seed);
        let bytes = after.bytes("synced").expect("its name was synced");
        assert_eq!(bytes[..2000], [7; 2000]);
        match bytes.get(4096..) {
            None => lost += 1,
            Some(rest) if rest == [9; 4096] => kept += 1,
            Some(_) => torn += 1,
        }
        kept += usize::from(after.bytes("unsynced").is_some());
        // Everything that was found is stable.
        assert_eq!(after.after_power_loss(seed).files(), after.files());
    }
    assert!(lost > 5 && kept > 5 && torn > 5, "{lost} {kept} {torn}");
}

#[test]
fn the_same_seed_gives_the_same_story_and_another_another() {
    let order = |seed| {
        let directory = Directory::from(SimulatedDisk::new(seed));
        let mut engine = directory.engine(Io::Auto, 12).unwrap();
        let file = directory.create("a").unwrap();
        for number in 0..12_u64 {
            let bytes = vec![number as u8; 10];
            engine.begin(Transfer::new(file.clone(), number * 10, 10, false, bytes));
        }
        let mut ended = Vec::new();
        while engine.under_way() > 0 {
            engine.collect(false, &mut ended).unwrap();
        }
        let bytes = ended.into_iter().map(|ended| match ended {
            Ended::Done { memory, .. } => memory[0],
            Ended::Written => panic!("no sync was asked for"),
        });
        bytes.collect::<Vec<u8>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert!(!order(1).is_sorted());
    assert_ne!(Dice::new(1).any(), Dice::new(2).any());
}
