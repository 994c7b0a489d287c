//! The logbook on a disk on which everything goes wrong: at every step of it the
//! process dies or the power is lost, and what was acknowledged must be there.
//! EL-1, EL-2, EL-3, EL-5, FENCE-1, GC-1
//!
//! Other cases than the usual ones: `EVENTLOG_SEED=7 cargo test -p
//! refrain-eventlog --test store`.

mod batches;
mod damage;
mod dice;
mod driver;
mod failures;

use driver::{Driver, End};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;

fn seed() -> u64 {
    let given = std::env::var("EVENTLOG_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    eprintln!("again with: EVENTLOG_SEED={seed}");
    seed
}

fn disk(seed: u64) -> SimulatedDisk {
    SimulatedDisk::new(seed)
}

/// What is found after a loss of power: the watermark is never synced, and may be gone.
fn after_power_loss(disk: &SimulatedDisk, seed: u64) -> SimulatedDisk {
    let after = disk.after_power_loss(seed);
    let directory = Directory::from(after.clone());
    directory.remove("watermark").expect("a disk that works");
    after
}

const STEPS: u32 = 250;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disaster {
    Death,
    PowerLoss,
}

fn run_until(stop_at: Option<u64>, seed: u64, sync: bool, disaster: Disaster) -> u64 {
    let mut driver = Driver::new(disk(seed), sync, seed).expect("nothing was written yet");
    let begun = driver.disk.steps();
    if let Some(step) = stop_at {
        driver.disk.stop_at(begun + step);
    }
    let mut end = driver.work(STEPS);
    let steps = driver.disk.steps() - begun;
    // Three lives, the later ones ended at other steps.
    for life in 1..4 {
        let seed = seed ^ life << 32 ^ stop_at.unwrap_or(0) << 8;
        let disk = match disaster {
            Disaster::Death => driver.disk.after_death(seed),
            Disaster::PowerLoss => after_power_loss(&driver.disk, seed),
        };
        if let Err(wrong) = driver.restart(disk, disaster == Disaster::PowerLoss) {
            panic!("step {stop_at:?} of seed {seed}, life {life}, {disaster:?}: {wrong}");
        }
        driver.check_reading();
        driver.disk.stop_at(driver.disk.steps() + 3 + seed % 40);
        end = driver.work(STEPS / 4);
    }
    if stop_at.is_none() {
        assert!(driver.cuts > 0, "no row was ever cut");
    }
    let _ = end;
    steps
}

fn run_all(sync: bool, disaster: Disaster) {
    let seed = seed();
    let steps = run_until(None, seed, sync, disaster);
    assert!(steps > 50, "{steps} steps");
    for step in 0..steps {
        run_until(Some(step), seed, sync, disaster);
    }
}

#[test]
fn whenever_the_process_dies_what_was_written_is_there() {
    run_all(false, Disaster::Death);
}

#[test]
fn whenever_the_process_dies_what_was_synced_is_there() {
    run_all(true, Disaster::Death);
}

#[test]
fn whenever_the_power_is_lost_what_was_synced_is_there() {
    run_all(true, Disaster::PowerLoss);
}

#[test]
fn what_is_read_is_what_was_written() {
    for sync in [false, true] {
        for case in 0..20 {
            let seed = seed() ^ case << 16;
            let mut driver = Driver::new(disk(seed), sync, seed).expect("nothing was written yet");
            for _ in 0..10 {
                assert_eq!(driver.work(STEPS / 5), End::Done);
                driver.check_reading();
            }
        }
    }
}
