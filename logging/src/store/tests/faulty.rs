//! What the store in memory does on request: faults, stalls, crashes.

use super::{Chunks, Driver, Harness, JOB, Place, header, run_all};
use crate::segment::{FILE_HEADER_BYTES, FileHeader, slot_offset};
use crate::store::faulty::{Delivery, Failure, LeftFile, MemoryDisk, MemoryOptions, MemoryStore};
use crate::store::{FileNumber, Operation, Store, StoreError};
use refrain_ring::CHUNK_BYTES;
use refrain_ring::chunk::ChunkReader;
use std::io;

fn options(delivery: Delivery) -> MemoryOptions {
    MemoryOptions {
        seed: 0x5eed,
        file_prefix: "refrain-1-2-".into(),
        job: JOB,
        delivery,
        room_bytes: u64::MAX,
    }
}

fn driver(delivery: Delivery) -> (Driver, MemoryDisk) {
    let store = MemoryStore::new(options(delivery));
    let disk = store.disk();
    (Driver::new(Box::new(store), Place::Anywhere), disk)
}

struct InMemory {
    delivery: Delivery,
    disk: Option<MemoryDisk>,
}

impl Harness for InMemory {
    fn name(&self) -> String {
        format!("in memory, {:?}", self.delivery)
    }

    fn store(&mut self) -> Box<dyn Store> {
        let store = MemoryStore::new(options(self.delivery));
        self.disk = Some(store.disk());
        Box::new(store)
    }

    fn files(&mut self) -> Vec<LeftFile> {
        self.disk.as_ref().unwrap().files()
    }

    fn place(&self) -> Place {
        Place::Anywhere
    }
}

#[test]
fn it_conforms_whatever_the_order() {
    for delivery in [Delivery::InOrder, Delivery::Shuffled { late_percent: 60 }] {
        run_all(|| InMemory {
            delivery,
            disk: None,
        });
    }
}

#[test]
fn the_same_seed_gives_the_same_order_and_another_another() {
    let order = |seed| {
        let options = MemoryOptions {
            seed,
            ..options(Delivery::Shuffled { late_percent: 30 })
        };
        let mut driver = Driver::new(Box::new(MemoryStore::new(options)), Place::Anywhere);
        let file = driver.open(header(0, 0, 12), None);
        for (slot, chunk) in Chunks::new(1, 0, 12, Place::Anywhere)
            .take(12)
            .into_iter()
            .enumerate()
        {
            driver.submit_write(file, slot as u32, chunk);
        }
        let order: Vec<u64> = (0..12).map(|_| driver.written(file).0.sequence()).collect();
        order
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert!(!order(1).is_sorted());
}

fn error(result: Result<(), StoreError>) -> io::ErrorKind {
    let error = result.unwrap_err();
    let space = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    assert_eq!(
        error.is_lack_of_space(),
        space.contains(&error.error.kind())
    );
    error.error.kind()
}

#[test]
fn writes_fail_until_they_are_healed() {
    let (mut driver, disk) = driver(Delivery::InOrder);
    let mut chunks = Chunks::new(1, 0, 8, Place::Anywhere);
    let file = driver.open(header(0, 0, 8), None);
    let mut write = |driver: &mut Driver| {
        let chunk = chunks.next_chunk();
        driver.submit_write(file, chunk.sequence() as u32, chunk);
        driver.written(file).1
    };
    write(&mut driver).unwrap();
    let eio = io::Error::from(rustix::io::Errno::IO).kind();
    for (failure, kind) in [
        (Failure::Io, eio),
        (Failure::Quota, io::ErrorKind::QuotaExceeded),
    ] {
        disk.fail_writes(Some(failure));
        for _ in 0..3 {
            assert_eq!(error(write(&mut driver)), kind);
        }
    }
    driver.read(file, 0);
    disk.fail_writes(None);
    write(&mut driver).unwrap();
}

#[test]
fn the_disk_has_an_end_and_deleting_makes_room() {
    let store = MemoryStore::new(MemoryOptions {
        room_bytes: 2 * header(0, 0, 4).file_bytes(),
        ..options(Delivery::InOrder)
    });
    let disk = store.disk();
    let mut driver = Driver::new(Box::new(store), Place::Anywhere);
    let first = driver.open(header(0, 0, 4), None);
    driver.open(header(0, 4, 4), None);
    let (_, result) = driver.try_open(header(0, 8, 4), None);
    assert_eq!(error(result), io::ErrorKind::StorageFull);
    assert_eq!(disk.files().len(), 2, "nothing half made");
    driver.delete(first).unwrap();
    driver.open(header(0, 8, 4), None);
}

#[test]
fn a_stall_holds_everything_until_it_is_over() {
    let (mut driver, disk) = driver(Delivery::InOrder);
    let file = driver.open(header(0, 0, 2), None);
    disk.stall(true);
    driver.submit_write(file, 0, Chunks::new(1, 0, 1, Place::Anywhere).next_chunk());
    assert!((0..100).all(|_| driver.store.poll().is_none()));
    assert_eq!(disk.under_way(), 1);
    disk.stall(false);
    driver.written(file).1.unwrap();
}

/// What a crash leaves of one write, in many outcomes.
#[test]
fn a_crash_leaves_writes_absent_whole_or_torn_and_the_checks_tell() {
    let (mut driver, disk) = driver(Delivery::InOrder);
    let file = driver.open(header(0, 0, 2), None);
    let mut chunks = Chunks::new(1, 0, 2, Place::Anywhere);
    let before = driver.write(file, 0, chunks.next_chunk());
    disk.stall(true);
    driver.submit_write(file, 1, chunks.next_chunk());
    let (mut absent, mut whole, mut torn) = (0, 0, 0);
    for _ in 0..60 {
        let files = disk.crash();
        let bytes = &files[0].bytes;
        assert_eq!(FileHeader::decode(bytes), Ok(header(0, 0, 2)));
        let slot = |slot| &bytes[slot_offset(slot) as usize..][..CHUNK_BYTES];
        assert_eq!(slot(0)[..before.used_bytes()], *before.bytes());
        if slot(1).iter().all(|byte| *byte == 0) {
            absent += 1;
            continue;
        }
        let read_all = || {
            let mut reader = ChunkReader::sealed(slot(1))?;
            while reader.next_record()?.is_some() {}
            Ok::<_, refrain_ring::chunk::ChunkError>(())
        };
        match read_all() {
            Ok(()) => whole += 1,
            Err(_) => torn += 1,
        }
    }
    assert!(
        absent > 5 && whole > 5 && torn > 5,
        "{absent} {whole} {torn}"
    );
    disk.stall(false);
    driver.written(file).1.unwrap();
}

#[test]
fn a_crash_while_a_file_is_used_again_leaves_one_file_with_one_header() {
    let (mut driver, disk) = driver(Delivery::InOrder);
    let old = driver.open(header(0, 0, 2), None);
    disk.stall(true);
    driver.store.submit(Operation::Open {
        file: FileNumber(9),
        header: header(0, 2, 2),
        reuse: Some(old),
    });
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let files = disk.crash();
        assert_eq!(files.len(), 1);
        let header = FileHeader::decode(&files[0].bytes[..FILE_HEADER_BYTES]).unwrap();
        seen.insert((files[0].name.clone(), header.first_sequence));
    }
    let firsts: Vec<u64> = seen.iter().map(|(_, first)| *first).collect();
    assert_eq!(
        firsts,
        [0, 2, 2],
        "old, new under the old name, new: {seen:?}"
    );
}

#[test]
#[should_panic(expected = "under way")]
fn deleting_a_file_that_is_being_written_is_a_broken_contract() {
    let (mut driver, disk) = driver(Delivery::InOrder);
    let file = driver.open(header(0, 0, 2), None);
    disk.stall(true);
    driver.submit_write(file, 0, Chunks::new(1, 0, 1, Place::Anywhere).next_chunk());
    driver.store.submit(Operation::Delete { file });
}
