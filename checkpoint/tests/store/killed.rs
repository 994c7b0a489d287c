//! A process that writes checkpoints is killed, at any time.

use crate::content::{RANK, check, job, write};
use refrain_checkpoint::{CheckpointStoreSpec, Store};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const FOLDER: &str = "REFRAIN_TEST_CHECKPOINTS";
const BYTES: usize = 3 << 20;

/// Not a test by itself: the process that the other test kills. It prints each number when it is
/// stable.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let store = Store::open(&CheckpointStoreSpec::Folder(folder.into()), job()).unwrap();
    let found = store.newest(RANK).unwrap();
    let first = found.map_or(1, |reading| reading.next_number());
    for number in first.. {
        write(&store, number as u32, number, BYTES).unwrap();
        println!("stable {number}");
    }
}

// GC-1, REC-1
#[test]
fn after_a_kill_there_is_what_was_stable_or_one_more() {
    let folder = tempfile::tempdir().unwrap();
    let place = CheckpointStoreSpec::Folder(folder.path().into());
    let mut stable = 0;
    for kill in 0..12_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::writes_until_it_is_killed",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        for line in lines.map_while(Result::ok) {
            let Some((_, number)) = line.split_once("stable ") else {
                continue;
            };
            stable = number.parse().unwrap();
            heard += 1;
            if heard == 1 + kill % 3 {
                // By now it writes the next checkpoint.
                spin(kill * 40_000);
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(heard > kill % 3, "it was to be killed, and ended before");
        let store = Store::open(&place, job()).unwrap();
        let mut reading = store.newest(RANK).unwrap().expect("some were stable");
        let number = reading.number();
        assert!(
            number == stable || number == stable + 1,
            "{stable}, then {number}"
        );
        assert!(reading.passed_over().is_empty());
        check(&mut reading, BYTES);
        let names = std::fs::read_dir(folder.path()).unwrap().flatten();
        let wholes = names.filter(|entry| entry.path().extension().is_some_and(|it| it == "ckpt"));
        assert!((1..=3).contains(&wholes.count()), "two are kept");
        stable = number;
    }
}

/// Waits for a varying time, so that kills hit different steps.
fn spin(times: u64) {
    let mut sum = 0_u64;
    for number in 0..times {
        sum = std::hint::black_box(sum.wrapping_add(number));
    }
}
