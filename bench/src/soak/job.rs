//! Random choice of a job from a seed and the job's number.

use crate::job::Job;
use crate::workload::prng::{Prng, combine};

/// The job of this number, with faults. Its output does not depend on the faults.
pub fn job(seed: u64, number: u64, ranks_max: u32, fabric: &str) -> Job {
    let mut prng = Prng::new(combine(&[seed, number]));
    let ranks = prng.between(1, ranks_max as usize) as u32;
    let workload = workload(&mut prng);
    let mut options = format!("--fabric {fabric} {}", setting(&mut prng));
    options += &faults(&mut prng, ranks, fabric.starts_with("ofi"));
    if prng.chance(6) {
        options += " --spill-dir SPILLED --log-memory 6M";
        options += prng.pick(&["", " --spill-after 0"]);
    }
    Job::new(ranks, &options, &workload)
}

fn workload(prng: &mut Prng) -> String {
    let checkpoints = match prng.below(2) {
        0 => String::new(),
        _ => format!("--checkpoint-every {}", prng.pick(&[1, 3, 10, 40])),
    };
    match prng.below(5) {
        0 => {
            let (rounds, bytes) = prng.pick(&[(200, 64), (1500, 16), (60, 90_000)]);
            format!("token-ring --rounds {rounds} --bytes {bytes} {checkpoints}")
        }
        1 => {
            let persistent = prng.pick(&["", "--persistent"]);
            let (dimensions, size) = prng.pick(&[(2, 24), (3, 12)]);
            format!(
                "stencil --dimensions {dimensions} --size {size} --iterations 60 \
                 {persistent} {checkpoints}"
            )
        }
        2 => {
            let (tasks, bytes) = prng.pick(&[(200, 100), (1500, 10), (60, 60_000)]);
            format!("any-source --tasks {tasks} --bytes {bytes} {checkpoints}")
        }
        _ => {
            let (operations, bytes_max) = prng.pick(&[(300, 1 << 20), (1200, 20_000)]);
            let seed = prng.below(10);
            format!(
                "chaos --operations {operations} --bytes-max {bytes_max} --seed {seed} \
                 --patience 30"
            )
        }
    }
}

fn setting(prng: &mut Prng) -> String {
    let protocol = prng.pick(&["pessimist", "pessimist", "pessimist-classic"]);
    let other = prng.pick(&[
        "",
        "",
        "--gate-output",
        "--event-replicas 3",
        "--event-loggers 2",
        "--stable durable",
        "--event-way messages",
    ]);
    format!("--protocol {protocol} {other} --max-restarts 100000")
}

fn faults(prng: &mut Prng, ranks: u32, only_clocks: bool) -> String {
    let mut kills = Vec::new();
    for rank in 0..ranks {
        if prng.chance(2) {
            let clocks = prng.pick(&[30, 300]);
            kills.push(format!("{rank}@clock={}", prng.between(1, clocks)));
        }
        if !only_clocks && prng.chance(3) {
            kills.push(format!("{rank}@0.{:04}", prng.below(3000)));
        }
    }
    if !only_clocks && prng.chance(8) {
        kills.push(format!("eventlogger.0@0.{:04}", prng.below(2000)));
    }
    let mut faults = match kills.is_empty() {
        true => " --kill 0@clock=10".to_owned(),
        false => format!(" --kill {}", kills.join(",")),
    };
    if !only_clocks && prng.chance(5) {
        let mean = prng.pick(&["0.5", "2"]);
        faults += &format!(" --kill-random {mean},{}", prng.below(10_000));
    }
    if !only_clocks && prng.chance(8) {
        let rank = prng.below(ranks as usize);
        let length = prng.pick(&["0.05", "100"]);
        faults += &format!(" --pause {rank}@0.0{:03}:{length}", prng.below(1000));
        faults += " --suspect-ranks-after 0.3";
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_made_of_its_seed_and_number() {
        let text = |seed, number| job(seed, number, 4, "auto").to_string();
        assert_eq!(text(1, 7), text(1, 7));
        assert_ne!(text(1, 7), text(1, 8));
        assert_ne!(text(1, 7), text(2, 7));
    }

    #[test]
    fn every_job_has_a_fault_and_ranks_in_its_bounds() {
        for number in 0..500 {
            let job = job(3, number, 4, "ofi:tcp;ofi_rxm");
            assert!((1..=4).contains(&job.ranks), "{job}");
            let text = job.to_string();
            assert!(text.contains("--kill ") && text.contains("'ofi:tcp;ofi_rxm'"));
            assert!(!text.contains("@0.") && !text.contains("--kill-random"));
        }
    }
}
