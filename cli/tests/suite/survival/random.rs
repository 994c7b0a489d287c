//! Random jobs with random deaths, from seeds.

use super::batch::Batch;
use super::chance::Chance;

const JOBS_OF_A_SEED: u32 = 20;

fn workload(chance: &mut Chance) -> String {
    let checkpoints = chance.one_of(&["", "", "--checkpoint-every 1", "--checkpoint-every 6"]);
    match chance.below(5) {
        0 => format!("token-ring --rounds 150 {checkpoints}"),
        1 => {
            let persistent = chance.one_of(&["", "--persistent"]);
            format!("stencil --size 12 --iterations 40 {persistent} {checkpoints}")
        }
        2 => {
            let bytes = chance.one_of(&["100", "20000"]);
            format!("any-source --tasks 150 --bytes {bytes} {checkpoints}")
        }
        3 => {
            let seed = chance.below(6);
            format!("collectives --rounds 20 --patience 30 --seed {seed} {checkpoints}")
        }
        _ => {
            let seed = chance.below(6);
            format!("chaos --operations 500 --bytes-max 50000 --patience 30 --seed {seed}")
        }
    }
}

fn kills(chance: &mut Chance, ranks: u32) -> String {
    let mut kills = Vec::new();
    for rank in 0..ranks {
        if chance.below(2) == 0 {
            kills.push(format!("{rank}@clock={}", 1 + chance.below(150)));
        }
        if chance.below(4) == 0 {
            kills.push(format!("{rank}@{}", chance.seconds(200)));
        }
    }
    match kills.is_empty() {
        true => "--kill 0@clock=20".into(),
        false => format!("--kill {}", kills.join(",")),
    }
}

fn options(chance: &mut Chance) -> &'static str {
    chance.one_of(&[
        "--protocol pessimist",
        "--protocol pessimist",
        "--protocol pessimist-classic",
        "--protocol pessimist --gate-output",
        "--protocol pessimist --event-replicas 3",
        "--protocol pessimist-classic --event-loggers 2",
        "--protocol pessimist --stable durable",
        "--protocol pessimist --event-way messages",
    ])
}

// REC-1 REC-2 REC-3 REC-4 REC-5 REC-6
#[test]
fn random_jobs_survive_random_deaths() {
    let more = std::env::var("REFRAIN_SURVIVAL_SEEDS").unwrap_or_default();
    let more = more.split(',').filter(|seed| !seed.is_empty());
    let more = more.map(|seed| seed.trim().parse().expect("a number"));
    for seed in [1, 2].into_iter().chain(more) {
        println!("seed {seed}");
        let mut batch = Batch::new("random");
        let mut chance = Chance::new(seed);
        for _ in 0..JOBS_OF_A_SEED {
            let ranks = 1 + chance.below(4) as u32;
            let kills = kills(&mut chance, ranks);
            let options = format!("--max-restarts 100 {} {kills}", options(&mut chance));
            let workload = workload(&mut chance);
            batch.survives(ranks, &options, &workload);
        }
        batch.finish(JOBS_OF_A_SEED / 2);
    }
}
