//! `refrain bench`: the experiments' options, and their end by Ctrl-C.

use crate::launched::{Launched, Process, processes_of, refrain, run};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn wrong_options_are_reported_with_what_to_do() {
    for (options, words) in [
        ("re-execution --ranks 2 --tokens 3", "3 tokens for 2 ranks"),
        ("re-execution --sizes 8", "8 bytes hold no token"),
        (
            "re-execution --sizes 4K --volume 1K",
            "not one token of 4K fits",
        ),
        (
            "faults --json /nowhere/faults.json",
            "cannot write /nowhere/faults.json",
        ),
        (
            "survivors --repetitions 1 --svg /nowhere/it.svg",
            "cannot write /nowhere/it.svg",
        ),
        ("rollback --protocol none", "choose of pessimist, "),
        ("collectives --sizes 6", "6 bytes are no elements"),
        ("collectives --protocol optimist", "none, pessimist"),
    ] {
        let ended = run(refrain().arg("bench").args(options.split(' '))).expect(1);
        assert!(ended.err.contains(words), "{options}: {}", ended.err);
        assert_eq!(ended.out, "", "{options}");
    }
    for (options, words) in [
        ("re-execution --ranks 1", "2..=16"),
        ("re-execution --sizes 1X", "--sizes"),
        ("rollback --at 1.5", "between 0 and 1"),
        ("survivors --every 0", "at least 0.05"),
        ("faults --faults 0", "1..=1000"),
        ("collectives --ranks 1", "2..=64"),
        ("collectives --operations allsum", "reduce-scatter"),
    ] {
        let ended = run(refrain().arg("bench").args(options.split(' '))).expect(2);
        assert!(ended.err.contains(words), "{options}: {}", ended.err);
    }
}

/// The launcher and both ranks have these words in their command lines; so do forked children of
/// the launcher before their exec.
fn wait_for_ranks(bench: Launched, folder: &Path) -> Launched {
    let begin = Instant::now();
    let process = Process::of(bench.id());
    let is_rank = |line: &String| line.contains("refrain-workload\0ring");
    while processes_of(folder)
        .iter()
        .filter(|line| is_rank(line))
        .count()
        < 3
    {
        let running = processes_of(folder);
        if !process.is_running() {
            panic!("it has ended: {:?}", bench.end());
        }
        let is_late = begin.elapsed() > Duration::from_secs(60);
        assert!(!is_late, "no ranks run, only {running:?}");
        std::thread::yield_now();
    }
    bench
}

#[test]
fn an_interrupted_experiment_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = refrain();
        command
            .args(["bench", "re-execution", "--sizes", "64", "--volume", "1G"])
            .args(["--turns", "2000000"])
            .env("TMPDIR", folder.path());
        let bench = Launched::start(&mut command);
        let bench = wait_for_ranks(bench, folder.path());
        bench.signal(signal);
        let ended = bench.end().expect(130);
        assert!(ended.err.contains("interrupted"), "{ended:?}");
        assert_eq!(processes_of(folder.path()), [""; 0]);
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Also verifies the results: each rank checks what it has received.
#[test]
fn collectives_of_two_ranks_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let [json, svg] = ["it.json", "it.svg"].map(|name| folder.path().join(name));
    let mut command = refrain();
    command
        .args([
            "bench",
            "collectives",
            "--sizes",
            "8,64K",
            "--time",
            "0.001",
        ])
        .args(["--repetitions", "1", "--log-memory", "32M", "--tests", "1"])
        .arg("--json")
        .arg(&json)
        .arg("--svg")
        .arg(&svg);
    let ended = run(&mut command).expect(0);
    for words in ["barrier", "reduce-scatter", "64K", "÷ none", "hidden"] {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    let check = [json.as_os_str(), "collectives".as_ref()];
    run(refrain().args(["bench", "check-experiment"]).args(check)).expect(0);
    assert!(fs::read_to_string(&svg).is_ok_and(|text| text.contains("</svg>")));
}
