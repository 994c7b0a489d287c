//! Deaths in the middle of collectives: blocking, non-blocking and persistent ones on several groups.

use super::batch::Batch;
use super::chance::Chance;

fn workload(seed: u64, more: &str) -> String {
    format!("collectives --rounds 25 --bytes-max 20000 --patience 30 --seed {seed} {more}")
}

/// Every fifth clock of a short job, one rank after the other.
// COLL-1 COLL-2 STREAM-2 STREAM-4 REC-1
#[test]
fn a_rank_that_dies_anywhere_gets_the_same_results() {
    let mut batch = Batch::new("collectives");
    for clock in (1..400).step_by(11) {
        let options = format!("--kill {}@clock={clock}", clock % 3);
        let deaths = batch.survives(3, &options, &workload(1, ""));
        assert_eq!(deaths, 1, "{options}");
    }
    batch.finish(36);
}

/// Several ranks at once, and again while they recover.
// COLL-2 REC-6
#[test]
fn several_ranks_get_the_same_results() {
    let mut batch = Batch::new("collectives, several");
    let mut chance = Chance::new(21);
    for seed in 0..24 {
        let ranks = 2 + chance.below(4) as u32;
        let clocks = (0..ranks).map(|rank| format!("{rank}@clock={}", 1 + chance.below(300)));
        let mut kills: Vec<_> = clocks.collect();
        kills.push(format!(
            "{}@{}",
            chance.below(ranks.into()),
            chance.seconds(300)
        ));
        if chance.below(3) == 0 {
            kills.push(format!("eventlogger.0@{}", chance.seconds(200)));
        }
        let check = chance.one_of(&["", "--check-collectives"]);
        let options = format!("--max-restarts 50 {check} --kill {}", kills.join(","));
        batch.survives(ranks, &options, &workload(seed, ""));
    }
    batch.finish(24);
}

/// Long messages to all members, which are logged once: with the log in memory and on disk, with
/// checkpoints, with algorithms that publish everything. Memory with shared payload goes with its
/// rank; all ranks die at once, too.
// LOG-6 REC-1
#[test]
fn what_is_published_is_sent_again() {
    let mut batch = Batch::new("collectives, published");
    let table = batch.file("table");
    std::fs::write(&table, "bcast flat\nallgather flat\nallreduce flat\n").expect("a new file");
    let more = [
        String::new(),
        format!("--spill-dir {} --log-memory 4M", batch.spilled().display()),
        format!("--collectives-table {}", table.display()),
    ];
    for seed in 0..24u64 {
        let clock = 20 + 11 * seed;
        let kills = match seed % 4 {
            0 => format!("{}@clock={clock}", seed / 4 % 4),
            1 => format!("0@clock={clock},3@clock={}", clock + 30),
            2 => format!("1@clock={clock},2@clock={clock},0@clock={}", clock + 3),
            _ => format!("0@clock={clock},1@clock={clock},2@clock={clock},3@clock={clock}"),
        };
        let options = format!(
            "--max-restarts 50 {} --kill {kills}",
            more[seed as usize % 3]
        );
        let every = ["", "--checkpoint-every 3"][seed as usize / 12];
        let workload = format!(
            "collectives --rounds 20 --bytes-max 100000 --patience 30 --seed {seed} {every}"
        );
        batch.survives(4, &options, &workload);
    }
    batch.finish(24);
}

/// A later life goes on with the groups of its checkpoint.
// COLL-3 LOG-5
#[test]
fn groups_survive_in_checkpoints() {
    let mut batch = Batch::new("collectives, checkpoints");
    for seed in 0..24u64 {
        let more = format!("--checkpoint-every {}", 1 + seed % 5);
        let options = format!(
            "--kill {}@clock={},{}@clock={}",
            seed % 4,
            60 + seed * 13,
            (seed + 1) % 4,
            90 + seed * 9
        );
        batch.survives(4, &options, &workload(seed, &more));
    }
    batch.finish(24);
}

/// Results are kept instead of messages: every few clocks of a short job, one rank after the other.
// WHOLE-1 WHOLE-3 WHOLE-5
#[test]
fn a_rank_that_dies_anywhere_takes_results() {
    let mut batch = Batch::new("whole collectives");
    for clock in (1..400).step_by(11) {
        let options = format!("--collectives whole --kill {}@clock={clock}", clock % 3);
        let deaths = batch.survives(3, &options, &workload(1, ""));
        assert_eq!(deaths, 1, "{options}");
    }
    batch.finish(36);
}

/// As many ranks at once as the results survive, all ranks, and again while they recover; with
/// checkpoints, with results that go to disk, and with calls that are compared.
// WHOLE-2 WHOLE-4 WHOLE-5 LOG-5
#[test]
fn several_ranks_take_results() {
    let mut batch = Batch::new("whole collectives, several");
    let mut chance = Chance::new(27);
    let spilled = batch.spilled().display().to_string();
    for seed in 0..24 {
        let ranks = 2 + chance.below(4) as u32;
        let clocks = (0..ranks).map(|rank| format!("{rank}@clock={}", 1 + chance.below(400)));
        let mut kills: Vec<_> = clocks.collect();
        kills.push(format!(
            "{}@{}",
            chance.below(ranks.into()),
            chance.seconds(300)
        ));
        let spill = format!("--spill-dir {spilled} --log-memory {}M", 4 + ranks);
        let more = chance.one_of(&["", "--check-collectives", &spill]);
        let options = format!(
            "--collectives whole --collective-failures {} --max-restarts 50 {more} --kill {}",
            ranks - 1,
            kills.join(",")
        );
        let every = chance.one_of(&["", "--checkpoint-every 2", "--checkpoint-every 5"]);
        batch.survives(ranks, &options, &workload(seed, every));
    }
    batch.finish(24);
}

/// More ranks die at once than the results survive. The messages of the first collectives are freed, so
/// their results are lost: the job ends with an error.
// WHOLE-5
#[test]
fn results_that_no_rank_keeps_are_an_error() {
    let mut batch = Batch::new("lost results");
    let table = batch.file("table");
    std::fs::write(&table, "scan recursive-doubling\n").expect("a new file");
    let options = format!(
        "--collectives whole --collectives-table {} --protocol pessimist --kill",
        table.display()
    );
    for (operation, kills) in [
        ("allgather", "0@clock=3000,2@clock=3000"),
        ("scan", "1@clock=3000,2@clock=3000"),
        ("reduce-scatter", "1@clock=3000,2@clock=3000"),
    ] {
        let workload = ["refrain-workload", "collective-loop", operation];
        let workload = [&workload[..], &["60", "0", "false", "64:100"]].concat();
        let ended = batch.run_program(4, &format!("{options} {kills}"), &workload);
        assert_eq!(ended.status, Some(1), "{operation}: {ended:?}");
        let told = ended.out.contains("(--collective-failures)")
            || ended.err.contains("(--collective-failures)");
        assert!(told, "{operation}: {ended:?}");
    }
}
