//! Correlated sets: their ranks keep nothing for each other, and go back to their checkpoints together.

use super::batch::{Batch, seeds};

/// Where events are at ranks, those of other sets hold them.
const AT_RANKS: [&str; 4] = ["ticket", "ticket-classic", "causal", "causal-classic"];

const CHAOS: &str = "chaos --operations 3000 --bytes-max 20000 --patience 30";
const STENCIL: &str = "stencil --iterations 1500 --size 24 --checkpoint-every 50";

/// From the beginning of the program: what members sent each other, they send again.
// SET-1 SET-4
#[test]
fn a_set_goes_back_to_its_beginning() {
    let mut batch = Batch::new("sets, from the beginning");
    for protocol in ["pessimist", "pessimist-classic"] {
        for sets in ["2", "3", "host"] {
            for (rank, clock) in [(0, 150), (1, 60), (2, 400), (3, 10)] {
                let options =
                    format!("--protocol {protocol} --sets {sets} --kill {rank}@clock={clock}");
                batch.survives(4, &options, CHAOS);
            }
        }
    }
    batch.finish(24);

    // Which need a second set.
    let mut batch = Batch::new("sets, events at ranks");
    for protocol in AT_RANKS {
        for (sets, failures) in [("2", 1), ("3", 1), ("2", 2)] {
            for (rank, clock) in [(0, 150), (1, 60), (3, 10)] {
                let ranks = 4 + 2 * (failures - 1);
                let options = format!(
                    "--protocol {protocol} --sets {sets} --causal-f {failures} --kill {rank}@clock={clock}"
                );
                batch.survives(ranks, &options, CHAOS);
                batch.survives(ranks, &options, "any-source --tasks 1200");
            }
        }
    }
    batch.finish(54);
}

/// From the checkpoints of the last complete round. A rank outside of the set does not go back.
// SET-2 SET-3 SET-4
#[test]
fn a_set_goes_back_to_its_checkpoints() {
    let mut batch = Batch::new("sets, from checkpoints");
    for (case, (rank, clock)) in [(0, 2500), (1, 3100), (2, 2900), (4, 3300)]
        .iter()
        .enumerate()
    {
        for (sets, protocol) in [
            ("2", "pessimist"),
            ("5", "pessimist"),
            ("2", "ticket"),
            ("3", "causal"),
        ] {
            let folder = batch.file(&format!("checkpoints-{case}-{sets}-{protocol}"));
            std::fs::create_dir(&folder).expect("a new folder");
            let folder = folder.display();
            let options = format!(
                "--protocol {protocol} --sets {sets} --checkpoint-dir {folder} --kill {rank}@clock={clock}"
            );
            batch.survives(5, &options, STENCIL);
        }
    }
    batch.finish(16);

    // Both members continue from a checkpoint, the ranks of the other set are not restarted.
    let program = [env!("CARGO_BIN_EXE_refrain-workload")];
    let program: Vec<_> = program
        .into_iter()
        .chain(STENCIL.split_whitespace())
        .collect();
    let mut batch = Batch::new("sets, who goes back");
    let ended = batch.run_program(4, "--sets 2 --kill 2@clock=3000", &program);
    let restarted = |rank: u32| {
        let of_rank = format!("rank {rank} was killed");
        ended.err.lines().find(|line| line.contains(&of_rank))
    };
    for rank in [0, 1] {
        assert!(restarted(rank).is_none(), "{ended:?}");
    }
    for (rank, why) in [(2, "by --kill"), (3, "to go back with its set")] {
        let line = restarted(rank).unwrap_or_default();
        assert!(
            line.contains(why) && line.contains(" checkpoint "),
            "{ended:?}"
        );
    }
}

/// Policies choose sets; ranks are killed at any time, in rounds and in recoveries, in several sets at
/// once.
// SET-2 SET-4 REC-6
#[test]
fn members_of_several_sets_die_at_any_time() {
    let mut batch = Batch::new("sets, any time");
    for seed in seeds(3) {
        let policy = ["round-robin", "adaptive", "interval"][seed as usize % 3];
        let options = format!(
            "--protocol pessimist --max-restarts 100 --sets 2 --checkpoint-policy {policy} --checkpoint-every 0.01 --kill-random 0.15,{seed}"
        );
        batch.survives(4, &options, "stencil --iterations 6000 --size 24");
    }
    // By clocks: these jobs end sooner than any time that is sure to be within them.
    for (second, clock) in [(3, 1000), (1, 1000), (2, 1100)] {
        let options =
            format!("--protocol pessimist --sets 2 --kill 0@clock=1000,{second}@clock={clock}");
        batch.survives(4, &options, CHAOS);
    }
    for seed in seeds(2) {
        let protocol = ["ticket", "causal"][seed as usize % 2];
        let options = format!(
            "--protocol {protocol} --max-restarts 100 --sets 2 --causal-f {} --kill-in-turn --checkpoint-policy round-robin --checkpoint-every 0.01 --kill-random 0.15,{seed}",
            1 + seed % 2
        );
        batch.survives(6, &options, "stencil --iterations 6000 --size 24 --any");
    }
    // Two sets at once, and both ranks of one.
    for protocol in ["ticket", "causal"] {
        for (second, failures) in [(3, 2), (1, 1)] {
            let options = format!(
                "--protocol {protocol} --sets 2 --causal-f {failures} --kill 0@clock=1000,{second}@clock=1000"
            );
            batch.survives(6, &options, CHAOS);
        }
    }
    batch.finish(6);
}

/// Over a network, with spilled logs, with results of collectives instead of messages.
// SET-1 SET-3 WHOLE-1
#[test]
fn sets_go_with_the_other_options() {
    let mut batch = Batch::new("sets, other options");
    let folder = batch.spilled();
    let spill = format!(
        "--log-memory 4M --spill-dir {} --spill-after 1M",
        folder.display()
    );
    let options = [
        ("--fabric ofi:tcp", CHAOS),
        (&spill, "chaos --operations 3000 --bytes-max 100000"),
        (
            "--collectives whole --collective-failures 2",
            "collectives --rounds 60",
        ),
        ("--gate-output", CHAOS),
    ];
    for (options, program) in options {
        for (protocol, clock) in [
            ("pessimist", 100),
            ("pessimist", 500),
            ("ticket", 300),
            ("causal", 400),
        ] {
            let options =
                format!("--protocol {protocol} --sets 2 {options} --kill 1@clock={clock}");
            batch.survives(4, &options, program);
        }
    }
    batch.finish(12);
}

/// Choices that could not be kept are refused at the start, with what to do.
// SET-1
#[test]
fn sets_that_cannot_go_back_are_refused() {
    let mut batch = Batch::new("sets, refused");
    let file = batch.file("sets.txt");
    std::fs::write(&file, "0 1\n1 2\n").expect("a new file");
    let twice = format!("--sets {}", file.display());
    let program = [env!("CARGO_BIN_EXE_refrain-workload"), "ring"];
    for (options, expected) in [
        (
            "--sets 2 --protocol none",
            "--sets: has no effect without restarts",
        ),
        (
            "--sets 4 --protocol ticket",
            "held in 1 other set, and this job has 1 set: choose pessimist",
        ),
        (
            "--sets 2 --protocol causal --causal-f 2",
            "held in 2 other sets, and this job has 2 sets: choose --causal-f 1 or pessimist",
        ),
        (
            "--sets 3 --collectives whole",
            "choose --collective-failures 3",
        ),
        (
            "--sets nowhere",
            "neither host, nor a number of ranks from 1 on, nor a file",
        ),
        (&twice, "sets.txt line 2: rank 1 is in a set already"),
    ] {
        let refused = batch.run_program(4, options, &program);
        assert_eq!(refused.status, Some(2), "{options}: {refused:?}");
        assert!(refused.err.contains(expected), "{options}: {refused:?}");
    }
}
