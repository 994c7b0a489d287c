//! `causal` with event loggers: ranks hold only events that loggers do not have yet. CAUSAL-5

use super::batch::Batch;
use serde_json::Value;

const CHAOS: &str = "chaos --operations 3000 --bytes-max 20000 --patience 30";
/// Ways to the loggers: from those that have an event at once to those that have it late.
const LOGGERS: [&str; 5] = [
    "--event-loggers 1",
    "--event-loggers 1 --event-way messages",
    "--event-loggers 2 --event-way ofi:tcp",
    "--event-loggers 1 --event-replicas 3 --event-way messages --stable-quorum all",
    "--event-loggers 1 --stable durable",
];

/// Each life takes what loggers have, and what ranks hold behind it.
// CAUSAL-5
#[test]
fn any_one_rank_dies() {
    let mut batch = Batch::new("events at ranks and loggers, one rank");
    for loggers in LOGGERS {
        for (rank, clock) in [(0, 150), (1, 60), (3, 10)] {
            let options = format!("--protocol causal {loggers} --kill {rank}@clock={clock}");
            match rank {
                0 => batch.survives(4, &options, CHAOS),
                _ => batch.survives(4, &options, "any-source --tasks 1200"),
            };
        }
        let options = format!("--protocol causal-classic {loggers} --kill 1@clock=100");
        batch.survives(2, &options, CHAOS);
        let options = format!("--protocol causal {loggers} --causal-f 2 --kill 0@0.1,1@0.1");
        batch.survives(4, &options, "any-source --tasks 6000");
    }
    batch.finish(18);
}

// CAUSAL-5 GC-1
#[test]
fn a_rank_dies_after_checkpoints() {
    let mut batch = Batch::new("events at ranks and loggers, checkpoints");
    for (loggers, (rank, clock)) in
        LOGGERS
            .into_iter()
            .zip([(0, 900), (0, 1500), (1, 250), (2, 350), (0, 1200)])
    {
        let folder = batch.file(&format!("checkpoints-{rank}-{clock}"));
        std::fs::create_dir(&folder).expect("a new folder");
        let folder = folder.display();
        let options = format!(
            "--protocol causal {loggers} --checkpoint-dir {folder} --kill {rank}@clock={clock}"
        );
        batch.survives(3, &options, "any-source --tasks 1200 --checkpoint-every 5");
    }
    batch.finish(5);
}

/// Ranks die and die again while loggers store what the life before has taken over; loggers die, too.
// CAUSAL-5 TICKET-4
#[test]
fn ranks_and_loggers_die_in_turn() {
    let mut batch = Batch::new("events at ranks and loggers, in turn");
    for loggers in LOGGERS {
        for kills in [
            "--kill 0@0,1@0,2@0.01,1@0.01",
            "--kill 0@0.02,eventlogger.0@0.02,1@0.05,eventlogger.0@0.1,2@0.1",
        ] {
            let options =
                format!("--protocol causal {loggers} --max-restarts 1000 --kill-in-turn {kills}");
            batch.survives(3, &options, CHAOS);
        }
    }
    batch.finish(10);
}

/// Without loggers, ranks hold all events until a checkpoint.
// CAUSAL-5 LOG-7
#[test]
fn loggers_free_the_memory_of_events() {
    let mut batch = Batch::new("events at ranks and loggers, memory");
    let file = batch.file("statistics");
    let program = "refrain-workload any-source --bytes 8 --tasks 20000";
    let program: Vec<_> = program.split(' ').collect();
    let mut held = |loggers: &str| {
        let options = format!(
            "--protocol causal {loggers} --stats-file {}",
            file.display()
        );
        let ended = batch.run_program(2, &options, &program);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        let statistics = std::fs::read(&file).expect("statistics");
        let statistics: Value = serde_json::from_slice(&statistics).expect("JSON");
        let ranks = statistics["ranks"].as_array().expect("ranks");
        let held = ranks.iter().map(|rank| {
            let at_ranks = &rank["logged"]["at_ranks"];
            ["own", "held"].map(|name| at_ranks[name].as_u64().expect("a number"))
        });
        held.flatten().sum::<u64>()
    };
    let without = held("");
    assert!(without > 30_000, "{without}");
    for loggers in LOGGERS {
        let with = held(loggers);
        assert!(with < without / 4, "{loggers}: {with} of {without}");
    }
}

#[test]
fn loggers_that_a_protocol_does_not_use_are_refused() {
    let mut batch = Batch::new("event loggers, refused");
    let workload = ["refrain-workload", "token-ring"];
    for (options, expected) in [
        ("--protocol ticket --event-loggers 1", "ticket uses none"),
        (
            "--event-loggers 0",
            "pessimist needs at least one event logger",
        ),
    ] {
        let ended = batch.run_program(3, options, &workload);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains(expected), "{ended:?}");
    }
    for options in [
        "--protocol ticket --event-loggers 0",
        "--protocol causal --event-loggers 0",
    ] {
        let ended = batch.run_program(3, options, &workload);
        assert_eq!(ended.status, Some(0), "{ended:?}");
    }
}
