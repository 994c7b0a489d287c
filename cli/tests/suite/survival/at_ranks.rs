//! `ticket` and `causal`: ranks hold each other's events. One rank may be dead at a time; with
//! `--causal-f F`, F ranks.

use super::batch::{Batch, DEATH};
use crate::launched::Ended;

const PROTOCOLS: [&str; 4] = ["ticket", "ticket-classic", "causal", "causal-classic"];
const CHAOS: &str = "chaos --operations 3000 --bytes-max 20000 --patience 30";

/// Each rank of a job dies once, in a job of its own, in two different places.
// TICKET-1 TICKET-2 TICKET-3 CAUSAL-1 CAUSAL-2 CAUSAL-4
#[test]
fn any_one_rank_dies() {
    let mut batch = Batch::new("events at ranks, one rank");
    for protocol in PROTOCOLS {
        for (rank, clock) in [(0, 150), (1, 60), (2, 400), (3, 10)] {
            let options = format!("--protocol {protocol} --kill {rank}@clock={clock}");
            batch.survives(4, &options, CHAOS);
            match rank {
                0 | 2 => batch.survives(
                    4,
                    &format!("{options} --collectives whole"),
                    "collectives --rounds 30",
                ),
                _ => batch.survives(4, &options, "any-source --tasks 1200"),
            };
        }
    }
    // A worker with few tasks does not reach its clock.
    batch.finish(28);
}

/// In a job of two ranks there is no other holder: what the dead rank held waits for its next life.
// TICKET-1 TICKET-4 CAUSAL-3
#[test]
fn one_of_two_ranks_dies() {
    let mut batch = Batch::new("events at ranks, two ranks");
    for (rank, clock) in [(0, 30), (1, 30), (0, 500), (1, 500)] {
        for options in [
            "ticket",
            "ticket --gate-output",
            "causal",
            "causal --gate-output",
        ] {
            let options = format!("--protocol {options} --kill {rank}@clock={clock}");
            batch.survives(2, &options, CHAOS);
            batch.survives(2, &options, "any-source --tasks 700");
        }
    }
    batch.finish(32);
}

/// From checkpoints, holders have dropped what came before, and the next life takes the rest.
// TICKET-3 GC-1
#[test]
fn a_rank_dies_after_checkpoints() {
    let mut batch = Batch::new("events at ranks, checkpoints");
    for protocol in ["ticket", "causal"] {
        for (rank, clock) in [(0, 900), (0, 1500), (1, 250), (2, 350)] {
            let folder = batch.file(&format!("checkpoints-{protocol}-{rank}-{clock}"));
            std::fs::create_dir(&folder).expect("a new folder");
            let folder = folder.display();
            let options = format!(
                "--protocol {protocol} --checkpoint-dir {folder} --kill {rank}@clock={clock}"
            );
            batch.survives(3, &options, "any-source --tasks 1200 --checkpoint-every 5");
        }
    }
    batch.finish(8);
}

/// Over a network.
// TICKET-1 TICKET-2
#[test]
fn a_rank_dies_over_a_network() {
    let mut batch = Batch::new("events at ranks, ofi:tcp");
    for protocol in ["ticket", "causal"] {
        for (rank, clock) in [(0, 200), (1, 100), (2, 300)] {
            let options =
                format!("--protocol {protocol} --fabric ofi:tcp --kill {rank}@clock={clock}");
            batch.survives(3, &options, CHAOS);
        }
    }
    batch.finish(6);

    // A log that is spilled has its carriers on disk.
    let mut batch = Batch::new("events at ranks, spilled");
    let folder = batch.spilled();
    let folder = folder.display();
    for clock in [200, 600] {
        let options = format!(
            "--protocol causal --log-memory 4M --spill-dir {folder} --spill-after 1M --kill 1@clock={clock}"
        );
        batch.survives(3, &options, "chaos --operations 3000 --bytes-max 100000");
    }
    batch.finish(2);
}

/// A rank that dies again while it recovers is one rank that is gone.
// TICKET-4
#[test]
fn a_rank_dies_again_and_again() {
    let mut batch = Batch::new("events at ranks, again and again");
    for seed in 0..6 {
        let times = ["0.06", "0.075", "0.09", "0.12"];
        let kills: Vec<_> = times.iter().map(|at| format!("1@{at}")).collect();
        let protocol = ["ticket", "causal"][seed % 2];
        let options = format!(
            "--protocol {protocol} --max-restarts 100 --kill {}",
            kills.join(",")
        );
        batch.survives(3, &options, &format!("{CHAOS} --seed {seed}"));
    }
    batch.finish(1);
}

/// Kills in turn wait until the death before is made good: each is survived, whatever the times.
// TICKET-4
#[test]
fn ranks_that_die_in_turn_are_survived() {
    let mut batch = Batch::new("events at ranks, in turn on request");
    for protocol in PROTOCOLS {
        // Not at random until the end: where other programs have the processors, such a job has none.
        for kills in [
            "0@0,1@0,2@0.01,1@0.01",
            "1@0.02,1@0.02,0@0.03,2@0.05,1@0.05,2@0.08",
        ] {
            let options =
                format!("--protocol {protocol} --max-restarts 1000 --kill-in-turn --kill {kills}");
            batch.survives(3, &options, CHAOS);
        }
    }
    batch.finish(6);
}

/// The job ends, and names the ranks that are gone: it never goes on without their events.
#[track_caller]
fn ends_with(batch: &mut Batch, ranks: u32, options: &str, gone: &str) -> Ended {
    let workload = "refrain-workload chaos --duration 60 --bytes-max 20000";
    let workload: Vec<_> = workload.split(' ').collect();
    let ended = batch.run_program(ranks, options, &workload);
    assert_ne!(ended.status, Some(0), "{ended:?}");
    assert!(
        ended.err.contains(&format!("{gone} are gone at once")),
        "{ended:?}"
    );
    ended
}

// TICKET-4
#[test]
fn two_ranks_at_once_end_the_job() {
    let mut batch = Batch::new("events at ranks, two at once");
    for protocol in PROTOCOLS {
        for ranks in [2, 4] {
            let options = format!("--protocol {protocol} --kill 0@0.1,1@0.1");
            ends_with(&mut batch, ranks, &options, "ranks 0 and 1");
        }
    }
}

/// With more holders, as many ranks at once; one more ends the job.
// TICKET-1 TICKET-4 CAUSAL-1
#[test]
fn as_many_ranks_at_once_are_survived_as_hold_each_event() {
    let mut batch = Batch::new("events at ranks, several at once");
    for protocol in PROTOCOLS {
        for (failures, kills) in [
            (2, "0@0.1,1@0.1"),
            (2, "2@0.05,3@0.05,3@0.07"),
            (3, "0@0.1,1@0.1,3@0.1"),
        ] {
            let options = format!(
                "--protocol {protocol} --causal-f {failures} --max-restarts 100 --kill {kills}"
            );
            match failures {
                2 => batch.survives(4, &options, CHAOS),
                _ => batch.survives(4, &options, "any-source --tasks 6000"),
            };
        }
        for (rank, clock) in [(0, 200), (1, 50)] {
            let options = format!("--protocol {protocol} --causal-f 2 --kill {rank}@clock={clock}");
            batch.survives(3, &options, CHAOS);
        }
    }
    batch.finish(16);

    let mut batch = Batch::new("events at ranks, one too many at once");
    for protocol in ["ticket", "causal"] {
        let options = format!("--protocol {protocol} --causal-f 2 --kill 0@0.1,1@0.1,3@0.1");
        let ended = ends_with(&mut batch, 5, &options, "ranks 0 and 1 and 3");
        assert!(
            ended.err.contains("it survives 2 deaths at a time"),
            "{ended:?}"
        );
    }
}

/// Too few others could hold an event.
// TICKET-1
#[test]
fn more_holders_than_there_are_ranks_are_refused() {
    let mut batch = Batch::new("events at ranks, too many holders");
    let workload = ["refrain-workload", "token-ring"];
    for (options, expected) in [
        (
            "--protocol causal --causal-f 3",
            "held in 3 other ranks, and this job has 3 ranks: choose --causal-f 2 or pessimist",
        ),
        ("--causal-f 2", "has no effect with --protocol pessimist"),
        ("--protocol ticket --causal-f 9", "9 is not in 1..=8"),
    ] {
        let ended = batch.run_program(3, options, &workload);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains(expected), "{ended:?}");
    }
}

/// Checkpoints that are requested free the memory of events: a third of these would not have room.
// LOG-7
#[test]
fn checkpoints_free_the_memory_of_events() {
    let mut batch = Batch::new("events at ranks, memory");
    let program = "refrain-workload any-source --bytes 8 --tasks 80000";
    let program: Vec<_> = program.split(' ').collect();
    for protocol in ["ticket", "causal"] {
        let options = format!("--protocol {protocol} --log-memory 4M");
        let ended = batch.run_program(2, &options, &program);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        assert!(!ended.err.contains("UNPROTECTED"), "{ended:?}");
    }
}

/// One after the other: each death is either made good before the next, or the job ends with that
/// error.
// TICKET-4
#[test]
fn deaths_in_turn_are_survived_or_end_the_job() {
    let mut batch = Batch::new("events at ranks, in turn");
    let mut survived = 0;
    for seed in 0..6 {
        let protocol = ["ticket", "causal"][seed % 2];
        // The second death waits until the first is made good.
        let in_turn = if seed < 2 { "--kill-in-turn" } else { "" };
        let options = format!("--protocol {protocol} {in_turn} --kill 0@clock=20,1@0.15,2@0.3");
        let duration = if in_turn.is_empty() { "1" } else { "4" };
        let seed = seed.to_string();
        let workload = [
            "refrain-workload",
            "chaos",
            "--duration",
            duration,
            "--bytes-max",
            "20000",
            "--seed",
            &seed,
        ];
        let ended = batch.run_program(4, &options, &workload);
        let is_lost = ended.err.contains("are gone at once");
        assert_ne!(ended.status == Some(0), is_lost, "{ended:?}");
        assert!(!ended.err.contains("panicked"), "{ended:?}");
        survived += usize::from(ended.err.matches(DEATH).count() >= 2);
    }
    assert!(survived > 0, "none of these jobs survived a second death");
}

/// No other rank can hold its events.
#[test]
fn a_job_of_one_rank_is_refused() {
    let mut batch = Batch::new("events at ranks, one rank alone");
    let workload = ["refrain-workload", "token-ring"];
    for protocol in PROTOCOLS {
        let ended = batch.run_program(1, &format!("--protocol {protocol}"), &workload);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains("this job has 1 rank"), "{ended:?}");
    }
}
