//! Small logs in the temporary folder.

use super::*;
use clap::Parser;
use refrain_ring::CHUNK_BYTES;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn arguments(folder: &Path, options: &[&str]) -> Arguments {
    let words = ["bench", folder.to_str().unwrap()];
    Line::try_parse_from(words.iter().chain(options))
        .expect("clap takes it")
        .arguments
}

#[test]
fn a_log_larger_than_its_memory_is_spilled_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    // 100001 bytes: messages cross the ends of chunks.
    for message in ["100001", "1M", "200"] {
        let options = [
            ["--size", "24M"],
            ["--message", message],
            ["--log-memory", "2M"],
            ["--spill-after", "1M"],
        ];
        let arguments = arguments(folder.path(), options.as_flattened());
        let files = arguments.files().unwrap();
        let report = measure(&arguments, files, &Interrupt::default()).unwrap();
        let appended = &report.appended;
        assert_eq!(report.disk_write.bytes, 24 << 20);
        assert_eq!(report.disk_read.bytes, 24 << 20);
        assert!(appended.memory_peak_bytes <= 2 << 20, "{report:?}");
        // All chunks but the one being filled, without their unused ends.
        assert!(appended.spilled.bytes >= 23 << 20, "{report:?}");
        let chunks = appended.log_bytes / CHUNK_BYTES as u64;
        assert_eq!(
            report.read_back.read.bytes,
            appended.spilled.bytes - 64 * chunks
        );
        assert!(report.read_back.payload_bytes <= appended.payload_bytes);
        assert!(appended.payload_bytes - report.read_back.payload_bytes <= CHUNK_BYTES as u64);
        let per_byte = report.log_bytes_per_payload_byte();
        let most = if message == "200" { 1.61 } else { 1.02 };
        assert!((1.0..most).contains(&per_byte), "{message}: {per_byte}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "files are left"
        );
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert!(json["spill_of_disk"].as_f64().unwrap() > 0.0);
        assert!(report.table().contains("log, read back"));
    }
}

#[test]
fn an_interrupt_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = arguments(folder.path(), &["--size", "64M", "--log-memory", "2M"]);
    let files = BenchFiles::new(folder.path(), arguments.size).unwrap();
    let interrupt = Interrupt::default();
    interrupt.request();
    let result = append_and_spill(&arguments, &files, &interrupt);
    assert!(matches!(result, Err(BenchError::Interrupted)), "{result:?}");
    let left = || std::fs::read_dir(folder.path()).unwrap().count();
    assert!(left() > 0, "it had begun");
    drop(files);
    assert_eq!(left(), 0);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: &[&str]| {
        let refused = arguments(folder.path(), options).files();
        refused.unwrap_err().to_string()
    };
    for options in [
        ["--size", "1"],
        ["--message", "0"],
        ["--in-flight", "0"],
        ["--log-memory", "1K"],
    ] {
        let error = refused(&options);
        assert!(error.starts_with(options[0]), "{error}");
    }
    let error = refused(&["--size", "8T"]);
    assert!(error.contains("MiB are needed"), "{error}");
    let nowhere = arguments(Path::new("/nowhere/at/all"), &[]).files();
    let error = nowhere.unwrap_err().to_string();
    assert!(
        error.contains("the free space in /nowhere/at/all"),
        "{error}"
    );
}
