//! Output of `refrain log ls`, `show` and `verify`.

#[allow(dead_code, reason = "the logging tests use the rest")]
#[path = "../../../logging/tests/image/written.rs"]
mod written;

use crate::launched::{Ended, refrain, run};
use refrain_launch::leftovers;
use refrain_logging::image::LogKey;
use refrain_logging::segment::{FileHeader, slot_offset};
use refrain_ring::{LoanEnd, RecordKind};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use written::{Writing, chunks_of, file, key, name};

fn log(command: &str, folder: &Path, options: &str) -> Ended {
    let mut refrain = refrain();
    refrain.args(["log", command]).arg(folder);
    run(refrain.args(options.split_whitespace()))
}

/// Four complete chunks of rank 0 to rank 1, of a job whose launcher is dead.
fn folder_with(change: impl Fn(&mut Vec<u8>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = file(key(1), 0, 8, &chunks_of(key(1), 4, 0, 0));
    change(&mut bytes);
    fs::write(folder.path().join(name(key(1), 0)), bytes).unwrap();
    folder
}

#[track_caller]
fn assert_has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} in\n{text}");
    }
}

/// A line without its alignment: blanks between columns do not matter.
fn words_of(text: &str) -> Vec<String> {
    let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect()
}

#[test]
fn every_log_is_a_row() {
    let folder = folder_with(|_| ());
    let own = leftovers::file_prefix(std::process::id()).unwrap();
    let other = LogKey { job: 7, ..key(2) };
    let bytes = file(other, 0, 1, &chunks_of(other, 1, 5, 0));
    let header = FileHeader::decode(&bytes).unwrap();
    fs::write(folder.path().join(format!("{own}{}", header.name())), bytes).unwrap();
    let broken = folder.path().join(name(key(3), 0));
    fs::write(&broken, "x").unwrap();
    let ended = log("ls", folder.path(), "").expect(0);
    let lines = words_of(&ended.out);
    let row = |row: &str| assert!(lines.iter().any(|line| line == row), "{row}\n{}", ended.out);
    row("from life to files on disk chunks SSN log");
    row("0 2 1 1 2 MiB 0-3 0-11 3.5 KiB");
    row("0 2 2 1 260 KiB 0 5-7 896 B");
    let own = std::process::id();
    assert_has(
        &ended.out,
        &[
            "job 0000000000000007, started by",
            &format!("process {own}, which runs"),
            "process 4194999, which has ended",
            broken.to_str().unwrap(),
            "cut short",
        ],
    );
    let widest = ended.out.lines().filter(|line| !line.contains('/'));
    assert!(widest.map(str::len).max() <= Some(80), "{}", ended.out);

    let ended = log("ls", folder.path(), "--json").expect(0);
    let lines: Vec<serde_json::Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["running"], true);
    assert_eq!(
        (&lines[1]["ssn_low"], &lines[1]["ssn_end"]),
        (&0.into(), &12.into())
    );
    assert_eq!(lines[1]["chunks"], 4);
    assert_eq!(lines[2]["strange_file"], broken.to_str().unwrap());
}

#[test]
fn damage_and_torn_tails_have_different_statuses() {
    let whole = folder_with(|_| ());
    let ended = log("verify", whole.path(), "").expect(0);
    assert_has(
        &ended.out,
        &["whole     4 chunks with 12 records (2.3 KiB of payload), in 1 file of 1 log"],
    );
    let torn = folder_with(|bytes| bytes[slot_offset(3) as usize + 600] ^= 1);
    let ended = log("verify", torn.path(), "").expect(0);
    assert_has(
        &ended.out,
        &["chunk 3 is torn", "slot 3", "torn      1 chunk\n"],
    );
    let damaged = folder_with(|bytes| bytes[slot_offset(1) as usize + 600] ^= 1);
    let ended = log("verify", damaged.path(), "").expect(1);
    let damage = [
        "chunk 1 is damaged",
        "slot 1",
        "record 1 (at byte 128)",
        "damaged   1 chunk, 0 files",
    ];
    assert_has(&ended.out, &damage);
    let ended = log("verify", damaged.path(), "--json").expect(1);
    let line: serde_json::Value = serde_json::from_str(ended.out.trim()).unwrap();
    assert_eq!(line["damaged"][0]["chunk"], 1);
    assert_eq!(line["whole_chunks"], 3);
    let hidden = folder_with(|bytes| bytes[30] ^= 1);
    let ended = log("verify", hidden.path(), "").expect(1);
    assert_has(
        &ended.out,
        &["does not match its checksum", "damaged   0 chunks, 1 file"],
    );
}

#[test]
fn records_are_shown_with_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut writing = Writing::new(key(1), 2);
    writing.message(0, b"hello, log");
    writing.record(RecordKind::Rendezvous, 1, 20, &[]);
    writing.message(2, &[0xff; 17]);
    writing.record(RecordKind::Fragment, 1, 0, b"0123456789");
    writing.record(RecordKind::Eager, 3, 100, &[7; 50]);
    writing.record(RecordKind::Fragment, 1, 10, b"abcdefghij");
    writing.end_chunk();
    let bytes = file(key(1), 0, 1, &writing.seal(1, LoanEnd::OnDisk));
    fs::write(folder.path().join(name(key(1), 0)), bytes).unwrap();
    let show = |options: &str| {
        let options = format!("--source 0 --destination 1 {options}");
        log("show", folder.path(), &options).expect(0).out
    };
    let end = "the log ends with chunk 0, it begins with chunk 0";
    let records = show("");
    assert_eq!(
        words_of(&records),
        [
            "position SSN kind context tag bytes",
            "64 0 eager 7 -3 10",
            "128 1 rendezvous 7 -3 0 of 20",
            "192 2 eager 7 -3 17",
            "320 1 fragment 7 -3 10 at 0",
            "384 3 eager 7 -3 50 of 100",
            "512 1 fragment 7 -3 10 at 10",
            end,
        ]
    );
    let messages = words_of(&show("--messages --from-ssn 1"));
    let expected = [
        "192 2 eager 7 -3 17",
        "128 1 rendezvous 7 -3 20",
        "384 3 eager 7 -3 50 so far",
        end,
    ];
    assert_eq!(messages[1..], expected);
    let payload = show("--payload --limit 1");
    assert_has(
        &payload,
        &["00000000  68 65 6c 6c 6f 2c 20 6c 6f 67", "|hello, log|"],
    );
    assert_eq!(payload.lines().count(), 3);
    let all = show("--payload --messages");
    assert_has(&all, &["|0123456789abcdef|", "00000010  67 68 69 6a"]);
    assert!(all.lines().all(|line| line.len() <= 80), "{all}");
}

#[test]
fn what_cannot_be_shown_is_reported_once() {
    let folder = folder_with(|bytes| bytes[slot_offset(1) as usize + 600] ^= 1);
    let path = folder.path();
    let ended = log("show", path, "--source 0 --destination 1").expect(1);
    assert_eq!(
        ended.out.lines().count(),
        4,
        "three records come before it\n{}",
        ended.out
    );
    assert_has(
        &words_of(&ended.err).join(" "),
        &["chunk 1", "slot 1", "record 1"],
    );
    let ended = log("show", path, "--source 0 --destination 5").expect(1);
    assert_has(
        &words_of(&ended.err).join(" "),
        &["no such log of rank 0 to rank 5"],
    );
    let other = LogKey { job: 7, ..key(1) };
    fs::write(
        path.join("other"),
        file(other, 0, 1, &chunks_of(other, 1, 0, 0)),
    )
    .unwrap();
    let ended = log("show", path, "--source 0 --destination 1").expect(1);
    assert_has(
        &ended.err,
        &["there are 2 logs", "--job 0000000000000007 --incarnation 2"],
    );
    let ended = log("show", path, "--source 0 --destination 1 --job 7").expect(0);
    assert_eq!(ended.out.lines().count(), 5);
    for (options, words) in [
        ("--source 0", &["--destination"][..]),
        ("--source x --destination 1", &["--source"]),
        ("--source 0 --destination 1 --job job", &["hexadecimal"]),
        ("--source 0 --destination 1 --limit -1", &["-1"]),
    ] {
        assert_has(&log("show", path, options).expect(2).err, words);
    }
}

#[test]
fn a_folder_that_is_none_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let a_file = folder.path().join("file");
    for command in ["ls", "verify"] {
        let ended = log(command, folder.path(), "").expect(0);
        assert_has(
            &ended.out,
            &["no logs are in", folder.path().to_str().unwrap()],
        );
        assert_eq!(ended.out.lines().count(), 1);
    }
    fs::write(&a_file, "").unwrap();
    for (path, words) in [
        (folder.path().join("missing"), "does not exist"),
        (a_file, "is not a folder"),
    ] {
        for (command, options) in [
            ("ls", ""),
            ("verify", ""),
            ("show", "--source 0 --destination 1"),
        ] {
            let ended = log(command, &path, options).expect(1);
            assert_has(&words_of(&ended.err).join(" "), &[words]);
            assert_eq!(ended.out, "");
        }
    }
    assert_has(
        &run(refrain().args(["log", "ls"])).expect(2).err,
        &["<DIR>"],
    );
}

/// Output whose reader closes its end early, as with `| head`.
#[test]
fn a_closed_pipe_is_no_error() {
    let folder = folder_with(|_| ());
    let mut child = refrain()
        .args([
            "log",
            "show",
            "--source",
            "0",
            "--destination",
            "1",
            "--payload",
        ])
        .arg(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stderr, b"");
}
