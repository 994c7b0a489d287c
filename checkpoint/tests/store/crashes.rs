//! The writer dies, or the power is lost, at every step: afterwards the previous checkpoint or this
//! one is whole, and one older than it.

use crate::content::{RANK, check, job, write};
use refrain_checkpoint::folder::Folder;
use refrain_checkpoint::{CheckpointError, Store};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;
use std::sync::Arc;

fn store(disk: &SimulatedDisk) -> Store {
    Store::on(
        Arc::new(Folder::new(Directory::from(disk.clone()), job())),
        job(),
    )
}

fn name(number: u64) -> String {
    format!("refrain-17-4-r3-{number:012}.ckpt")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    Death,
    PowerLoss,
}

/// Number of checkpoints that were reported stable before the machine stopped.
fn write_until_it_stops(disk: &SimulatedDisk, bytes: usize, numbers: u64) -> u64 {
    let store = store(disk);
    for number in 1..=numbers {
        if write(&store, 0, number, bytes).is_err() {
            return number - 1;
        }
    }
    numbers
}

/// Checks the checkpoints after the crash, and after the next life continues.
fn check_after(disk: &SimulatedDisk, stable: u64, bytes: usize, story: &str) {
    let store_after = store(disk);
    let found = store_after
        .newest(RANK)
        .unwrap_or_else(|error| panic!("{story}: {error}"));
    let number = found.as_ref().map_or(0, |reading| reading.number());
    assert!(
        number == stable || number == stable + 1,
        "{story}: {stable} was stable, {number} was found"
    );
    let Some(mut reading) = found else { return };
    assert!(reading.passed_over().is_empty(), "{story}");
    check(&mut reading, bytes);
    // GC-1: if this checkpoint were lost now, the previous one exists.
    if number > 1 {
        let copy = disk.after_death(0);
        copy.damage(&name(number), 5000);
        let mut before = store(&copy).newest(RANK).expect(story).expect(story);
        assert_eq!(before.number(), number - 1, "{story}");
        assert_eq!(before.passed_over()[0].number, number, "{story}");
        check(&mut before, bytes);
    }
    // A checkpoint that was returned survives the next loss of power, too.
    let later = disk.after_power_loss(number);
    let again = store(&later).newest(RANK).expect(story).expect(story);
    assert_eq!(
        again.number(),
        number,
        "{story}: it was given out, and is gone"
    );
    // The next life continues.
    let next = reading.next_number();
    write(&store_after, 1, next, bytes).unwrap_or_else(|error| panic!("{story}: {error}"));
    check(&mut store_after.newest(RANK).unwrap().unwrap(), bytes);
}

fn at_every_step(bytes: usize, numbers: u64, seeds: u64) {
    for seed in 0..seeds {
        let whole = SimulatedDisk::new(seed);
        assert_eq!(write_until_it_stops(&whole, bytes, numbers), numbers);
        for step in 0..=whole.steps() {
            for crash in [Crash::Death, Crash::PowerLoss] {
                let disk = SimulatedDisk::new(seed);
                disk.stop_at(step);
                let stable = write_until_it_stops(&disk, bytes, numbers);
                let after = match crash {
                    Crash::Death => disk.after_death(seed),
                    Crash::PowerLoss => disk.after_power_loss(seed),
                };
                let story = format!("{crash:?} at step {step}, seed {seed}, {bytes} bytes");
                check_after(&after, stable, bytes, &story);
            }
        }
    }
}

fn times() -> u64 {
    let times = std::env::var("PROPTEST_CASES").ok();
    times
        .and_then(|cases| cases.parse::<u64>().ok())
        .map_or(1, |cases| 1 + cases / 256)
}

// GC-1, REC-1
#[test]
fn short_ones_at_every_step() {
    at_every_step(3000, 4, 40 * times());
}

// GC-1, REC-1
#[test]
fn ones_of_many_strips_at_every_step() {
    at_every_step(3 << 20, 3, times());
}

/// A life dies again and again, at any step.
#[test]
fn many_crashes_in_a_row() {
    for seed in 0..200 * times() {
        let mut disk = SimulatedDisk::new(seed);
        let mut known = 0;
        for life in 0..12_u32 {
            let steps = seed.wrapping_mul(7).wrapping_add(u64::from(life) * 13) % 17;
            let store_now = store(&disk);
            let found = store_now.newest(RANK).expect("readable");
            let number = found.as_ref().map_or(0, |reading| reading.number());
            assert!(
                number >= known,
                "seed {seed}: {known} was stable, {number} is left"
            );
            if let Some(mut reading) = found {
                check(&mut reading, 2000);
            }
            known = number;
            disk.stop_at(disk.steps() + steps);
            let mut next = number + 1;
            while write(&store_now, life, next, 2000).is_ok() {
                known = next;
                next += 1;
            }
            let seed = seed ^ u64::from(life);
            disk = match life % 3 {
                0 => disk.after_power_loss(seed),
                _ => disk.after_death(seed),
            };
        }
    }
}

#[test]
fn the_first_one_cut_short_is_none() {
    let disk = SimulatedDisk::new(1);
    disk.stop_at(2);
    assert!(write(&store(&disk), 0, 1, 100).is_err());
    let after = store(&disk.after_death(1));
    assert!(after.newest(RANK).unwrap().is_none());
    // The number 0 does not fence the next life, either.
    assert!(matches!(
        write(&after, 0, 0, 100),
        Err(CheckpointError::NotNext { .. })
    ));
    write(&after, 0, 1, 100).unwrap();
}
