//! Another process of the host reads the log of a killed rank from its memory and its files. LOG-2

use crate::launched::{Launched, Process, job};
use refrain::Ssn;
use refrain_rank::dead_rank;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The segment of a rank, from a process that holds it.
fn segment(holder: u32, rank: u32) -> OwnedFd {
    let folder = format!("/proc/{holder}/fd");
    let name = format!("/memfd:refrain-rank-{rank} (deleted)");
    let found = std::fs::read_dir(&folder)
        .expect("the process lives")
        .flatten()
        .find(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == Path::new(&name)))
        .expect("a neighbour holds the segment");
    let file = File::options().read(true).write(true).open(found.path());
    file.expect("it may be opened").into()
}

/// Rank 0 is killed while it floods rank 1. All messages that rank 1 has received are in the log,
/// complete and in order.
fn killed_after(mentions: usize, options: &str, spill_dir: Option<&Path>) {
    let spill = spill_dir.map_or(String::new(), |dir| {
        format!("--keep-log --spill-dir {}", dir.display())
    });
    let options =
        format!("-n 2 --no-prefix --protocol pessimist --max-restarts 0 {options} {spill}");
    let mut launched = Launched::start(&mut job(&options, "0:process 1:process flood=1000000"));
    let lines = launched.wait_for("process", 2);
    let ids: Vec<u32> = lines
        .iter()
        .filter_map(|line| line.split_whitespace().last()?.parse().ok())
        .collect();
    let lines = launched.wait_for("received", mentions);
    let last = lines.last().expect("it was waited for");
    let received: u32 = last
        .trim_start_matches("received ")
        .parse()
        .expect("a number");
    let sender = ids
        .iter()
        .copied()
        .find(|id| environment(*id).contains("REFRAIN_RANK=0"))
        .expect("rank 0 is one of them");
    let segment = segment(sender, 0);
    let process = Process::of(sender);
    process.kill();
    process.expect_end();
    launched.end();
    let image = dead_rank::open_log(segment, spill_dir, None).expect("a dead rank's log");
    let (key, _) = image.logs().next().expect("it sent to one rank");
    let mut messages = image.messages(&key, Ssn(0)).expect("the log exists");
    let mut flooded = 0_u32;
    while let Some(message) = messages.next().expect("the log is whole") {
        if message.bytes.len() == 64 << 10 {
            assert_eq!(message.bytes[..4], flooded.to_le_bytes(), "{options}");
            assert!(message.bytes[4..].iter().all(|byte| *byte == 0));
            flooded += 1;
        }
    }
    assert!(
        flooded > received,
        "{flooded} messages, message {received} was received: {options}"
    );
}

fn environment(process: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{process}/environ")).expect("the process lives");
    String::from_utf8_lossy(&bytes).replace('\0', "\n")
}

#[test]
fn a_dead_ranks_log_is_read_from_memory() {
    killed_after(3, "--log-memory 1G", None);
}

#[test]
fn a_dead_ranks_log_is_read_from_memory_and_disk() {
    for (mentions, options) in [
        (2, "--log-memory 4M"),
        (5, "--log-memory 4M --spill-after 0"),
        (9, "--log-memory 2M --spill-io plain"),
        (20, "--log-memory 16M --fabric ofi:tcp"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        killed_after(mentions, options, Some(folder.path()));
    }
}
