//! Programs and deaths by chance: whatever dies, and whenever, each receive gets
//! what it gets in a job where nothing does.

use super::job::{Job, Trouble};
use super::life::Means;
use super::program::{Dice, Program, Shape};
use crate::networks::{self, STAGED_BYTES};
use refrain_transport::fabric::sim::Options;

const LENGTHS: &[usize] = &[0, 1, 8, 500, 5000, 20_000, 90_000, 400_000];

/// Networks that reach every way in which a message can be half there.
fn network(seed: u64, dice: &mut Dice) -> Options {
    let options = match dice.below(4) {
        0 => Options::calm(seed),
        _ => Options::rough(seed),
    };
    let mut options = options.reading_in_place(dice.once_in(2));
    options.distant_bytes_min = networks::DISTANT[dice.below(3)];
    if options.distant_bytes_min.is_none() && !options.attributes.reads_in_place {
        options.attributes.staged_bytes = STAGED_BYTES;
    }
    options.keeps_trace = false;
    options
}

fn run(seed: u64, ranks: usize, kills: usize, has_disk: bool) -> Job {
    println!("seed {seed}, {ranks} ranks, {kills} kills, disk {has_disk}");
    let mut dice = Dice::new(seed);
    let shape = Shape {
        ranks,
        messages: 40,
        lengths: LENGTHS,
        checkpoint_steps: [0, 6, 20][dice.below(3)],
    };
    let program = Program::by_chance(shape, &mut dice);
    let means = Means {
        ranks,
        log_bytes: if has_disk { 2 << 20 } else { 16 << 20 },
        has_disk,
    };
    let mut options = network(seed, &mut dice);
    options.window_bytes = means.log_bytes as u64;
    let mut job = Job::new(options, means, program);
    let trouble = Trouble {
        kills,
        kill_once_in: 300,
    };
    job.run(&mut dice, trouble);
    job
}

// REC-3
// REC-6
// REC-7
#[test]
fn two_ranks() {
    let jobs: Vec<_> = networks::seeds(1..=40)
        .into_iter()
        .map(|seed| run(seed, 2, 3, false))
        .collect();
    assert!(jobs.iter().any(|job| job.duplicates > 0));
    assert!(jobs.iter().any(|job| job.restarted_from_checkpoint > 0));
}

// REC-3
// REC-6
// REC-7
#[test]
fn three_ranks() {
    for seed in networks::seeds(101..=140) {
        run(seed, 3, 5, false);
    }
}

// LOG-2
// REC-3
#[test]
fn a_log_that_is_longer_than_memory() {
    for seed in networks::seeds(201..=220) {
        run(seed, 3, 4, true);
    }
}

/// One death after each of the job's turns, of either rank.
// REC-3
// REC-6
#[test]
fn a_death_at_every_step() {
    for network in [Options::calm(3), Options::rough(4).reading_in_place(true)] {
        for dies in [0, 1] {
            let mut turn = 0;
            while run_to(&network, dies, turn) {
                turn += 7;
            }
            assert!(turn > 100, "the job is too short");
        }
    }
}

/// Runs a job in which a rank dies after some turns; whether it was not over then.
fn run_to(network: &Options, dies: usize, turns: usize) -> bool {
    let mut dice = Dice::new(11);
    let shape = Shape {
        ranks: 2,
        messages: 10,
        lengths: LENGTHS,
        checkpoint_steps: 8,
    };
    let program = Program::by_chance(shape, &mut dice);
    let means = Means {
        ranks: 2,
        log_bytes: 4 << 20,
        has_disk: false,
    };
    let mut job = Job::new(network.clone(), means, program);
    let mut calm = Trouble {
        kills: 0,
        kill_once_in: 1,
    };
    for _ in 0..turns {
        job.turn(&mut dice, &mut calm);
    }
    let was_over = job.is_over();
    job.kill(dies);
    job.finish();
    !was_over
}
