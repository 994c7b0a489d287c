//! Limits of the process.

use super::{ENGINES, child, driver, options};
use crate::store::Store;
use crate::store::disk::{DiskOptions, DiskStore};
use crate::store::tests::{Chunks, Place, header};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn limit(resource: Resource, value: u64) {
    let limit = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    setrlimit(resource, limit).unwrap();
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// Many channels, few descriptors.
#[test]
fn files_are_closed_and_opened_again() {
    if !child::is_child() {
        return child::run("limits::files_are_closed_and_opened_again");
    }
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let before = descriptors();
        let mut driver = driver(DiskOptions {
            descriptors_max: 5,
            ..options(directory.path(), engine)
        });
        let fixed = descriptors() - before;
        let mut logs: Vec<Chunks> = (0..40)
            .map(|life| Chunks::new(u64::from(life), life, 2, Place::OnAPage))
            .collect();
        let files: Vec<_> = (0..40)
            .map(|life| driver.open(header(life, 0, 2), None))
            .collect();
        assert!(descriptors() <= before + fixed + 5, "{}", descriptors());
        for slot in 0..2 {
            let chunks: Vec<_> = (files.iter().zip(&mut logs))
                .map(|(file, log)| driver.write(*file, slot, log.next_chunk()))
                .collect();
            assert!(descriptors() <= before + fixed + 5, "{}", descriptors());
            for (file, chunk) in files.iter().zip(&chunks) {
                let buffer = driver.read(*file, slot);
                assert_eq!(buffer.bytes()[..chunk.used_bytes()], *chunk.bytes());
            }
        }
        drop(driver);
        assert_eq!(descriptors(), before, "everything is closed");
    }
}

#[test]
fn when_descriptors_are_used_up_idle_files_are_closed() {
    if !child::is_child() {
        return child::run("limits::when_descriptors_are_used_up_idle_files_are_closed");
    }
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let mut driver = driver(options(directory.path(), engine));
        let mut chunks = Chunks::new(1, 0, 3, Place::OnAPage);
        let first = driver.open(header(0, 0, 2), None);
        let chunk = driver.write(first, 0, chunks.next_chunk());
        let former = getrlimit(Resource::Nofile);
        let few = Rlimit {
            current: Some(descriptors() as u64 + 8),
            ..former
        };
        setrlimit(Resource::Nofile, few).unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        // Uses the descriptor of the first file, which continues to work.
        let second = driver.open(header(1, 0, 2), None);
        let buffer = driver.read(first, 0);
        assert_eq!(buffer.bytes()[..chunk.used_bytes()], *chunk.bytes());
        driver.write(second, 0, chunks.next_chunk());
        driver.write(first, 1, chunks.next_chunk());
        setrlimit(Resource::Nofile, former).unwrap();
    }
}

#[test]
fn with_no_descriptor_at_all_it_says_what_to_do() {
    if !child::is_child() {
        return child::run("limits::with_no_descriptor_at_all_it_says_what_to_do");
    }
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let mut driver = driver(options(directory.path(), engine));
        let former = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(3),
            ..former
        };
        setrlimit(Resource::Nofile, none).unwrap();
        let (_, result) = driver.try_open(header(0, 0, 2), None);
        setrlimit(Resource::Nofile, former).unwrap();
        let error = result.unwrap_err();
        assert!(error.attempted.contains("ulimit -n"), "{error}");
        assert!(!error.is_lack_of_space());
        driver.open(header(0, 0, 2), None);
    }
}

#[test]
fn little_locked_memory_is_no_hindrance() {
    if !child::is_child() {
        return child::run("limits::little_locked_memory_is_no_hindrance");
    }
    limit(Resource::Memlock, 0);
    let directory = tempfile::tempdir().unwrap();
    let store = DiskStore::new(DiskOptions::new(directory.path(), "a-", 1)).unwrap();
    eprintln!("{}", store.describe());
    drop(store);
    let mut driver = driver(DiskOptions::new(directory.path(), "a-", 1));
    let file = driver.open(header(0, 0, 8), None);
    driver.write_all(file, Chunks::new(1, 0, 8, Place::OnAPage).take(8));
}
