//! The store's thread.

use super::{ENGINES, driver, options};
use crate::store::disk::{DiskOptions, DiskStore};
use crate::store::tests::{Chunks, Place, header};
use refrain_storage::Io;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The threads of all stores of this process: tests may run beside each other.
fn spill_threads() -> BTreeSet<PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let paths = tasks.map(|task| task.unwrap().path());
    let is_ours = |path: &PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "refrain-spill\n")
    };
    paths.filter(is_ours).collect()
}

/// What `status` says of a thread.
fn status(thread: &std::path::Path, field: &str) -> String {
    let text = std::fs::read_to_string(thread.join("status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap().trim().to_owned()
}

#[test]
fn it_has_a_name_sleeps_when_idle_keeps_to_its_cores_and_ends() {
    if !super::child::is_child() {
        return super::child::run(
            "threads::it_has_a_name_sleeps_when_idle_keeps_to_its_cores_and_ends",
        );
    }
    let mine = sched_getaffinity(None).unwrap();
    let core = (0..CpuSet::MAX_CPU)
        .find(|core| mine.is_set(*core))
        .unwrap();
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let mut cores = CpuSet::new();
        cores.set(core);
        let mut driver = driver(DiskOptions {
            cores: Some(cores),
            ..options(directory.path(), engine)
        });
        let threads = spill_threads();
        assert_eq!(threads.len(), 1);
        let thread = threads.first().unwrap();
        assert_eq!(status(thread, "Cpus_allowed_list:"), core.to_string());
        let file = driver.open(header(0, 0, 4), None);
        driver.write_all(file, Chunks::new(1, 0, 4, Place::OnAPage).take(4));
        // One that spins never sleeps: this would not end.
        while !status(thread, "State:").starts_with('S') {
            std::thread::yield_now();
        }
        drop(driver);
        assert_eq!(spill_threads().len(), 0);
    }
}

/// A program's handlers run in its own threads, and those stay as they were.
#[test]
fn it_blocks_all_signals() {
    if !super::child::is_child() {
        return super::child::run("threads::it_blocks_all_signals");
    }
    let mine = std::path::Path::new("/proc/thread-self");
    let before = status(mine, "SigBlk:");
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let driver = driver(options(directory.path(), engine));
        let threads = spill_threads();
        let blocked = status(threads.first().unwrap(), "SigBlk:");
        let blocked = u64::from_str_radix(&blocked, 16).unwrap();
        // Of 1 to 31, all but those that cannot be: KILL and STOP.
        let standard = 0x7fff_ffff & !(1 << (9 - 1)) & !(1 << (19 - 1));
        assert_eq!(blocked & standard, standard, "{blocked:x}");
        assert_eq!(status(mine, "SigBlk:"), before);
        drop(driver);
    }
}

#[test]
fn cores_that_do_not_exist_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let options = DiskOptions {
        cores: Some(CpuSet::new()),
        ..options(directory.path(), Io::Plain)
    };
    let error = DiskStore::new(options).unwrap_err();
    assert!(error.to_string().contains("chosen cores"), "{error}");
}
