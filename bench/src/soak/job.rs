//! Random choice of a job from a seed and the job's number.

use crate::job::Job;
use crate::workload::prng::{Prng, combine};
use refrain_logging::{EventStore, Member};

/// Of the jobs whose protocol survives one death at a time, one in this many loses two ranks at
/// once.
const TWO_AT_ONCE_IN: usize = 6;

/// How a job must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// With the line of the same job without faults.
    Line,
    /// With the launcher's error that these ranks are gone at once. TICKET-4
    Gone(u32, u32),
}

/// The job of this number, with faults, and how it must end. Its output does not depend on the
/// faults. `protocols`: those to choose from.
pub fn job(
    seed: u64,
    number: u64,
    ranks_max: u32,
    fabric: &str,
    protocols: &[Member],
) -> (Job, Expected) {
    let mut prng = Prng::new(combine(&[seed, number]));
    let protocol = prng.pick(protocols);
    let is_one_at_a_time = protocol.holds_events_at_ranks();
    let ranks_min = 1 + u32::from(is_one_at_a_time);
    let ranks = prng.between(ranks_min as usize, ranks_max.max(ranks_min) as usize) as u32;
    let only_clocks = fabric.starts_with("ofi");
    let mut workload = workload(&mut prng);
    let mut options = format!(
        "--fabric {fabric} --protocol {} {} --max-restarts 100000",
        protocol.name(),
        setting(&mut prng, protocol)
    );
    let mut expected = Expected::Line;
    if is_one_at_a_time && !only_clocks && prng.chance(TWO_AT_ONCE_IN) {
        let (one, other) = two(&mut prng, ranks);
        // Later than all ranks have joined: before, they hold nothing.
        let at = format!("{}.{:03}", prng.between(1, 2), prng.below(1000));
        options += &format!(" --kill {one}@{at},{other}@{at}");
        workload = "chaos --duration 60 --bytes-max 20000".into();
        expected = Expected::Gone(one, other);
    } else if is_one_at_a_time && ranks > 2 && !only_clocks && prng.chance(4) {
        let (one, other) = two(&mut prng, ranks);
        let at = format!("0.{:04}", prng.below(3000));
        options += &format!(" --causal-f 2 --kill {one}@{at},{other}@{at}");
    } else if is_one_at_a_time {
        options += &faults_in_turn(&mut prng, ranks, only_clocks);
    } else {
        options += &faults(&mut prng, ranks, only_clocks);
    }
    if prng.chance(6) {
        options += " --spill-dir SPILLED --log-memory 6M";
        options += prng.pick(&["", " --spill-after 0"]);
    }
    (Job::new(ranks, &options, &workload), expected)
}

/// Two ranks, in order.
fn two(prng: &mut Prng, ranks: u32) -> (u32, u32) {
    let one = prng.below(ranks as usize) as u32;
    let other = prng.below(ranks as usize - 1) as u32;
    let other = if other < one { other } else { other + 1 };
    (one.min(other), one.max(other))
}

fn workload(prng: &mut Prng) -> String {
    let checkpoints = match prng.below(2) {
        0 => String::new(),
        _ => format!("--checkpoint-every {}", prng.pick(&[1, 3, 10, 40])),
    };
    match prng.below(6) {
        5 => format!("all-to-all --rounds {}", prng.pick(&[60, 500])),
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

fn setting(prng: &mut Prng, protocol: Member) -> &'static str {
    match protocol.events() {
        EventStore::Loggers => prng.pick(&[
            "",
            "",
            "--gate-output",
            "--event-replicas 3",
            "--event-loggers 2",
            "--stable durable",
            "--event-way messages",
        ]),
        EventStore::Ranks(_) if protocol.takes_loggers() => prng.pick(&[
            "",
            "",
            "--gate-output",
            "--event-loggers 1",
            "--event-loggers 2 --event-way messages",
            "--event-loggers 1 --event-replicas 3 --stable durable",
        ]),
        EventStore::Ranks(_) | EventStore::Nowhere => prng.pick(&["", "", "--gate-output"]),
    }
}

/// Deaths of which each is made good before the next.
fn faults_in_turn(prng: &mut Prng, ranks: u32, only_clocks: bool) -> String {
    let rank = prng.below(ranks as usize);
    match if only_clocks { 0 } else { prng.below(6) } {
        0 | 1 => {
            let clocks = prng.pick(&[30, 300]);
            format!(" --kill {rank}@clock={}", prng.between(1, clocks))
        }
        2 | 3 => {
            let deaths = prng.between(2, 6);
            let mut kill = || format!("{}@0.{:04}", prng.below(ranks as usize), prng.below(3000));
            let kills: Vec<String> = (0..deaths).map(|_| kill()).collect();
            format!(" --kill {} --kill-in-turn", kills.join(","))
        }
        4 => {
            let mean = prng.pick(&["0.05", "0.5"]);
            let seed = prng.below(10_000);
            format!(" --kill-random {mean},{seed} --kill-in-turn")
        }
        _ => pause(prng, ranks),
    }
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
        faults += &pause(prng, ranks);
    }
    faults
}

/// A rank stops: for a while, or so long that it counts as lost.
fn pause(prng: &mut Prng, ranks: u32) -> String {
    let rank = prng.below(ranks as usize);
    let length = prng.pick(&["0.05", "100"]);
    let at = prng.below(1000);
    format!(" --pause {rank}@0.0{at:03}:{length} --suspect-ranks-after 0.3")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGGING: [Member; 3] = [Member::Pessimist, Member::Ticket, Member::CausalClassic];

    #[test]
    fn a_job_is_made_of_its_seed_and_number() {
        let text = |seed, number| job(seed, number, 4, "auto", &LOGGING).0.to_string();
        assert_eq!(text(1, 7), text(1, 7));
        assert_ne!(text(1, 7), text(1, 8));
        assert_ne!(text(1, 7), text(2, 7));
    }

    #[test]
    fn every_job_has_a_fault_and_ranks_in_its_bounds() {
        for number in 0..500 {
            let (job, expected) = job(3, number, 4, "ofi:tcp;ofi_rxm", &LOGGING);
            assert!((1..=4).contains(&job.ranks), "{job}");
            let text = job.to_string();
            assert!(text.contains("--kill ") && text.contains("'ofi:tcp;ofi_rxm'"));
            assert!(!text.contains("@0.") && !text.contains("--kill-random"));
            assert_eq!(expected, Expected::Line);
        }
    }

    // TICKET-4
    #[test]
    fn ranks_that_hold_events_die_one_at_a_time_or_two_at_once() {
        let (mut at_once, mut survived_at_once) = (0, 0);
        for number in 0..600 {
            let (job, expected) = job(3, number, 1 + number as u32 % 4, "auto", &LOGGING[1..]);
            let text = job.to_string();
            let (kills, pauses) = (text.matches('@').count(), text.matches("--pause").count());
            assert!(job.ranks >= 2 && !text.contains("eventlogger"), "{text}");
            assert!(kills + text.matches("--kill-random").count() > 0, "{text}");
            match expected {
                Expected::Line => {
                    let in_turn = text.contains("--kill-in-turn");
                    let both = kills == 2 && text.contains("--causal-f 2") && job.ranks > 2;
                    survived_at_once += u32::from(both);
                    assert!(in_turn || kills == 1 || both, "{text}");
                    assert!(
                        !(in_turn && (text.contains("clock=") || pauses > 0)),
                        "{text}"
                    );
                }
                Expected::Gone(one, other) => {
                    assert!(one < other && other < job.ranks, "{text}");
                    assert!(kills == 2 && !text.contains("in-turn"), "{text}");
                    at_once += 1;
                }
            }
        }
        assert!((60..=140).contains(&at_once), "{at_once}");
        assert!(survived_at_once > 20, "{survived_at_once}");
    }
}
