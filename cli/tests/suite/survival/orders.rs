//! Checkpoints that the launcher requests: by a policy, and for logs that are full.

use super::batch::Batch;
use std::fs;

/// Each policy, with deaths before, between and after the requested checkpoints.
// REC-1 REC-3 GC-1
#[test]
fn ranks_survive_under_each_policy() {
    let mut batch = Batch::new("policies");
    for policy in ["round-robin", "adaptive", "ratio", "interval"] {
        for (workload, kills) in [
            ("token-ring --rounds 3000", "1@clock=900,0@clock=4000"),
            (
                "stencil --size 24 --iterations 600",
                "1@clock=500,0@clock=2500",
            ),
            // The slowest worker is sure of one task and the end only: two deliveries.
            (
                "any-source --tasks 1500 --bytes 2000",
                "1@clock=2,0@clock=900",
            ),
        ] {
            let options =
                format!("--checkpoint-policy {policy} --checkpoint-every 0.005 --kill {kills}");
            let deaths = batch.survives(3, &options, workload);
            assert_eq!(deaths, 2, "{options} {workload}");
        }
    }
    batch.finish(12);
}

/// The counts of a job by rank: requests, stable checkpoints.
fn counts(batch: &Batch, name: &str) -> Vec<(u64, u64)> {
    let file = fs::read(batch.file(name)).expect("the file that was asked for");
    let read: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    let ranks = read["checkpoints"].as_array().expect("counts");
    let of = |rank: &serde_json::Value, name: &str| rank[name].as_u64().expect("a number");
    ranks
        .iter()
        .map(|rank| (of(rank, "orders"), of(rank, "stable")))
        .collect()
}

/// Requested checkpoints are taken, with any policy but none.
#[test]
fn policies_order_checkpoints_and_none_does_not() {
    let mut batch = Batch::new("orders");
    let file = batch.file("stats.json").display().to_string();
    for policy in ["round-robin", "adaptive", "ratio", "interval", "none"] {
        let options =
            format!("--checkpoint-policy {policy} --checkpoint-every 0.001 --stats-file {file}");
        batch.survives(3, &options, "token-ring --rounds 1500 --bytes 1000");
        let counts = counts(&batch, "stats.json");
        if policy == "none" {
            assert_eq!(counts, [], "{policy}");
            continue;
        }
        let stable: u64 = counts.iter().map(|(_, stable)| stable).sum();
        assert!(stable > 0, "{policy}: {counts:?}");
        assert!(
            counts.iter().all(|(orders, stable)| stable <= orders),
            "{counts:?}"
        );
    }
    batch.finish(0);
}

/// A log that cannot hold the job's messages, no disk, and a program that takes a checkpoint only
/// on request: without the requests every send would wait until it fails.
// LOG-3 LOG-4
#[test]
fn a_job_whose_logs_are_full_continues_by_checkpoints() {
    let mut batch = Batch::new("full logs");
    let file = batch.file("stats.json").display().to_string();
    let workloads = [
        (3, "token-ring --rounds 100 --bytes 150000"),
        (2, "stencil --size 64 --dimensions 3 --iterations 200"),
        (3, "any-source --tasks 400 --bytes 100000"),
    ];
    for (ranks, workload) in workloads {
        for kills in ["", "--kill 1@clock=90", "--kill 0@clock=90,1@clock=91"] {
            let options = format!("--log-memory 4M --log-disk 0 {kills} --stats-file {file}");
            batch.survives(ranks, &options, workload);
            let counts = counts(&batch, "stats.json");
            let orders: u64 = counts.iter().map(|(orders, _)| orders).sum();
            assert!(orders > 0, "{workload}: {counts:?}");
        }
    }
    batch.finish(4);
}

/// The same with a disk that is full.
// LOG-3
#[test]
fn a_full_disk_is_made_up_for_by_checkpoints() {
    let mut batch = Batch::new("full disk");
    let file = batch.file("stats.json").display().to_string();
    let spilled = batch.spilled().display().to_string();
    for kills in ["", "--kill 1@clock=150"] {
        let options = format!(
            "--log-memory 4M --spill-dir {spilled} --log-disk 4M {kills} --stats-file {file}"
        );
        batch.survives(2, &options, "token-ring --rounds 200 --bytes 150000");
        let counts = counts(&batch, "stats.json");
        let orders: u64 = counts.iter().map(|(orders, _)| orders).sum();
        assert!(orders > 0, "{counts:?}");
    }
    batch.finish(1);
}
