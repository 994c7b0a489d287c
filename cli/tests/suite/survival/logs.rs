//! Logs that are longer than memory.

use super::batch::Batch;

/// Messages that the next life needs are on disk only: they are recalled.
// REC-3
#[test]
fn messages_come_again_from_disk() {
    let mut batch = Batch::new("log on disk");
    for clock in [3, 60, 119] {
        for options in ["", "--spill-after 0", "--spill-io plain --spill-after 0"] {
            let options = format!(
                "--log-memory 2M --spill-dir {} {options} --kill 1@clock={clock}",
                batch.spilled().display()
            );
            let workload = "token-ring --rounds 60 --bytes 150000";
            assert_eq!(batch.survives(2, &options, workload), 1, "{options}");
        }
    }
    batch.finish(9);
}

/// A log that exceeds memory, and checkpoints that free it.
// REC-3 GC-1 LOG-5
#[test]
fn checkpoints_keep_the_log_short() {
    let mut batch = Batch::new("short log");
    for clock in [20, 61, 110] {
        let options = format!(
            "--log-memory 2M --spill-dir {} --kill 0@clock={clock},1@clock={clock}",
            batch.spilled().display()
        );
        let workload = "token-ring --rounds 60 --bytes 150000 --checkpoint-every 10";
        assert_eq!(batch.survives(2, &options, workload), 2, "{options}");
        let workload = "chaos --operations 600 --patience 30";
        batch.survives(2, &options, workload);
    }
    batch.finish(6);
}
