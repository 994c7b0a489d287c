//! Whole jobs: the launcher, real processes, every workload.
//!
//! `REFRAIN_CHAOS_SEEDS=1,2,3` runs chaos with other seeds.

use std::process::{Command, Output};

const RANKS: [u32; 4] = [1, 2, 3, 5];
const PROTOCOLS: [&str; 2] = ["none", "pessimist"];

/// Runs a workload to its end.
fn start(ranks: u32, protocol: &str, workload: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_refrain"))
        .args([
            "run",
            "--no-prefix",
            "-n",
            &ranks.to_string(),
            "--protocol",
            protocol,
            "--",
        ])
        .arg(env!("CARGO_BIN_EXE_refrain-workload"))
        .args(workload)
        .output()
        .expect("the launcher was built with this test")
}

/// Runs a workload that must succeed; returns its output.
fn printed(ranks: u32, protocol: &str, workload: &[&str]) -> String {
    let output = start(ranks, protocol, workload);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{workload:?} on {ranks} ranks with {protocol}: {}\n{complaint}",
        output.status
    );
    let printed = String::from_utf8(output.stdout).expect("workloads print text");
    assert!(
        printed.contains(&format!("{}:", workload[0])),
        "{workload:?} printed {printed:?}"
    );
    printed
}

/// The workload prints the same for every number of ranks and protocol.
fn prints_the_same_everywhere(workload: &[&str]) {
    let expected = printed(1, "none", workload);
    for protocol in PROTOCOLS {
        for ranks in RANKS {
            let found = printed(ranks, protocol, workload);
            assert_eq!(
                found, expected,
                "{workload:?} on {ranks} ranks with {protocol}"
            );
        }
    }
}

/// The workload prints the same with every protocol.
fn prints_the_same_with_every_protocol(ranks: u32, workload: &[&str]) {
    let expected = printed(ranks, PROTOCOLS[0], workload);
    for protocol in &PROTOCOLS[1..] {
        let found = printed(ranks, protocol, workload);
        assert_eq!(
            found, expected,
            "{workload:?} on {ranks} ranks with {protocol}"
        );
    }
}

#[test]
fn token_ring_comes_round() {
    for ranks in RANKS {
        let workload = ["token-ring", "--rounds", "100", "--bytes", "100"];
        let line = printed(ranks, "none", &workload);
        assert!(
            line.contains(&format!("counter {} ", 100 * ranks)),
            "{line}"
        );
        prints_the_same_with_every_protocol(ranks, &workload);
    }
}

#[test]
fn token_ring_carries_long_tokens() {
    prints_the_same_with_every_protocol(2, &["token-ring", "--rounds", "5", "--bytes", "3000001"]);
}

#[test]
fn stencil_in_two_dimensions_does_not_depend_on_the_job() {
    let size = [
        "--size",
        "40",
        "--iterations",
        "30",
        "--verify",
        "--print-grid-hash",
    ];
    prints_the_same_everywhere(&[&["stencil", "--dimensions", "2"], &size[..]].concat());
}

#[test]
fn stencil_in_three_dimensions_does_not_depend_on_the_job() {
    let size = [
        "--size",
        "14",
        "--iterations",
        "20",
        "--verify",
        "--reduce-every",
        "3",
    ];
    prints_the_same_everywhere(&[&["stencil", "--dimensions", "3"], &size[..]].concat());
}

#[test]
fn stencil_with_persistent_requests_is_the_same_stencil() {
    let workload = [
        "stencil",
        "--dimensions",
        "3",
        "--size",
        "12",
        "--iterations",
        "15",
    ];
    let expected = printed(1, "none", &workload);
    let persistent = [&workload[..], &["--persistent"]].concat();
    for protocol in PROTOCOLS {
        for ranks in RANKS {
            assert_eq!(
                printed(ranks, protocol, &persistent),
                expected,
                "{ranks} ranks, {protocol}"
            );
        }
    }
}

#[test]
fn any_source_takes_all_results() {
    prints_the_same_everywhere(&["any-source", "--tasks", "200", "--bytes", "500"]);
    prints_the_same_everywhere(&["any-source", "--tasks", "12", "--bytes", "300000"]);
}

#[test]
fn chaos_is_survived() {
    let seeds = std::env::var("REFRAIN_CHAOS_SEEDS").unwrap_or_else(|_| "1,2,3".into());
    for seed in seeds.split(',') {
        println!("seed {seed}");
        for ranks in RANKS {
            let workload = [
                "chaos",
                "--seed",
                seed,
                "--operations",
                "3000",
                "--patience",
                "20",
            ];
            prints_the_same_with_every_protocol(ranks, &workload);
        }
    }
}

#[test]
fn all_to_all_prints_the_same_with_every_protocol() {
    for ranks in [1, 2, 5] {
        prints_the_same_with_every_protocol(ranks, &["all-to-all", "--rounds", "40"]);
    }
}

#[test]
fn a_grid_that_is_too_small_is_refused() {
    let output = start(5, "none", &["stencil", "--size", "2"]);
    assert!(!output.status.success());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("give a larger --size"), "{complaint}");
}

#[test]
fn a_token_that_is_too_short_is_refused() {
    let output = start(2, "none", &["token-ring", "--bytes", "15"]);
    assert!(!output.status.success());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("give --bytes 16 or more"), "{complaint}");
}

#[test]
fn collectives_give_the_same_with_every_protocol() {
    for ranks in 1..=8 {
        let seed = ranks.to_string();
        let workload = ["collectives", "--rounds", "15", "--seed", &seed];
        prints_the_same_with_every_protocol(ranks, &workload);
    }
}

#[test]
fn other_algorithms_give_the_same_collectives() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("table");
    let rules = "bcast chain\nallgather bruck\nalltoall bruck\nreduce binomial\ngather binomial\n\
                 allreduce rabenseifner\nscatter linear\n\
                 segment-bytes 1000\nwindow 1\n";
    std::fs::write(&file, rules).expect("a file");
    let workload = ["collectives", "--rounds", "15", "--seed", "3"];
    let ended = Command::new(env!("CARGO_BIN_EXE_refrain"))
        .args(["run", "--no-prefix", "-n", "5", "--collectives-table"])
        .arg(&file)
        .arg(env!("CARGO_BIN_EXE_refrain-workload"))
        .args(workload)
        .output()
        .expect("the launcher was built with this test");
    let printed_by = String::from_utf8(ended.stdout).expect("workloads print text");
    assert_eq!(printed_by, printed(5, "none", &workload));
}
