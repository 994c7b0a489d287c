//! The payload log on disk: real jobs, files and kills.

use crate::launched::{Ended, Launched, Process, job, refrain, run};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The job's files in the folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

/// `refrain run --protocol pessimist` with little memory and this folder.
fn spilling(options: &str, folder: &Path, steps: &str) -> Command {
    let options = format!(
        "--no-prefix --protocol pessimist --log-memory 2M {options} --spill-dir {}",
        folder.display()
    );
    job(&options, steps)
}

fn chaos(options: &str, folder: &Path, arguments: &str) -> Command {
    let mut command = refrain();
    command
        .args(["run", "--no-prefix", "--protocol", "pessimist"])
        .args(["--log-memory", "3M", "--spill-dir"])
        .arg(folder)
        .args(options.split_whitespace())
        .arg("--")
        .arg(env!("CARGO_BIN_EXE_refrain-workload"))
        .arg("chaos")
        .args(arguments.split_whitespace());
    command
}

fn verify(folder: &Path) -> Ended {
    run(refrain().args(["log", "verify"]).arg(folder))
}

/// LOG-3: the part of the log that exceeds memory is written to disk, and nothing is lost; at the
/// end no file is left.
#[test]
fn chaos_goes_through_a_small_memory() {
    for (ranks, fabric) in [(2, "shm"), (4, "shm"), (3, "ofi:tcp")] {
        for io in ["uring", "plain"] {
            let folder = folder();
            let options = format!("-n {ranks} --fabric {fabric} --spill-io {io} --spill-after 0");
            let ended = run(&mut chaos(&options, folder.path(), "--operations 4000"));
            let ended = ended.expect(0);
            assert!(ended.out.contains("chaos: seed"), "{ended:?}");
            assert_eq!(files(folder.path()), Vec::<String>::new(), "{options}");
        }
    }
}

/// LOG-2: every message that was sent is read back bit for bit, from memory alone, from disk, and
/// from both, after memory was reused many times.
#[test]
fn all_that_chaos_sent_is_read_back() {
    let seeds = std::env::var("REFRAIN_CHAOS_SEEDS").unwrap_or("5,6".into());
    for seed in seeds.split(',') {
        let arguments = format!("--check-log --operations 3000 --seed {seed}");
        for (options, in_memory) in [
            ("-n 3", true),
            ("-n 3", false),
            ("-n 4 --spill-after 0", false),
            ("-n 2 --fabric ofi:tcp --spill-io plain", false),
        ] {
            let folder = folder();
            let mut command = match in_memory {
                true => Command::new(env!("CARGO_BIN_EXE_refrain")),
                false => chaos(options, folder.path(), &arguments),
            };
            if in_memory {
                command
                    .args([
                        "run",
                        "--protocol",
                        "pessimist",
                        "--log-memory",
                        "256M",
                        "-n",
                        "3",
                    ])
                    .arg("--")
                    .arg(env!("CARGO_BIN_EXE_refrain-workload"))
                    .arg("chaos")
                    .args(arguments.split_whitespace());
            }
            let ended = run(&mut command).expect(0);
            assert!(ended.err.contains("read back from the logs"), "{ended:?}");
        }
    }
}

/// The log does not limit the length of a message: here it is four times as long as all log
/// memory.
#[test]
fn kept_files_are_whole_and_cleaned_on_request() {
    let folder = folder();
    let ended = run(&mut chaos(
        "-n 3 --keep-log --spill-after 0",
        folder.path(),
        "--operations 3000 --bytes-max 8000000",
    ));
    ended.expect(0);
    assert!(!files(folder.path()).is_empty());
    verify(folder.path()).expect(0);
    let cleaned = run(refrain().args(["clean", "--spill-dir"]).arg(folder.path())).expect(0);
    assert!(cleaned.out.contains("removed"), "{cleaned:?}");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

/// Data that was written when a rank or the launcher was killed is complete, except for a torn
/// tail; the launcher removes it unless it has to keep it. LOG-2
#[test]
fn killed_ranks_leave_whole_records() {
    for moment in [1, 3, 8, 20] {
        for (keeps, victim_is_launcher) in [("", false), ("--keep-log", false), ("", true)] {
            let folder = folder();
            let options = format!("-n 2 --max-restarts 0 --spill-after 0 {keeps}");
            let mut launched = Launched::start(&mut spilling(
                &options,
                folder.path(),
                "process flood=100000",
            ));
            let ranks = launched.processes("process", 2);
            launched.wait_for("sent", moment);
            match victim_is_launcher {
                true => launched.signal(Signal::KILL),
                false => ranks[0].kill(),
            }
            let ended = launched.end();
            ranks.iter().for_each(Process::expect_end);
            assert!(!ended.err.contains("panicked"), "{ended:?}");
            if keeps.is_empty() && !victim_is_launcher {
                assert_eq!(files(folder.path()), Vec::<String>::new());
                continue;
            }
            let verified = verify(folder.path()).expect(0);
            // A rank that was killed at once had spilled nothing.
            let good = ["damaged   0 chunks, 0 files", "no logs are in"];
            let is_good = good.iter().any(|words| verified.out.contains(words));
            assert!(is_good, "{verified:?}");
            run(refrain().args(["clean", "--spill-dir"]).arg(folder.path())).expect(0);
            assert_eq!(files(folder.path()), Vec::<String>::new());
        }
    }
}

/// LOG-3: when the disk's budget is used up, the sender waits, and reports what is full.
#[test]
fn a_full_budget_is_a_clear_error() {
    let folder = folder();
    let options = "-n 2 --log-disk 4M --log-full stop --log-full-wait 0.3";
    let ended = run(&mut spilling(options, folder.path(), "flood=1000")).expect(9);
    for words in ["payload log of this rank is full", "raise --log-disk"] {
        assert!(ended.out.contains(words), "{words:?} in {ended:?}");
    }
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

/// LOG-3: the same without a disk, also when one receiver may use all of it.
#[test]
fn a_full_memory_is_a_clear_error() {
    for ranks in [2, 3] {
        let options = format!(
            "-n {ranks} --no-prefix --protocol pessimist --log-memory 2M --log-disk 0 --log-full stop --log-full-wait 0.3"
        );
        let ended = run(&mut job(&options, "flood=1000")).expect(9);
        for words in ["payload log of this rank is full", "--spill-dir"] {
            assert!(ended.out.contains(words), "{words:?} in {ended:?}");
        }
    }
}

/// LOG-7: a job whose log is full says so once, and continues unprotected.
#[test]
fn a_job_whose_log_is_full_continues_unprotected() {
    for disk in ["--log-disk 0", "--log-disk 4M"] {
        for ranks in [2, 3] {
            let options =
                format!("-n {ranks} --no-prefix --protocol pessimist --log-memory 2M {disk}");
            let ended = run(&mut job(&options, "flood=1000")).expect(0);
            assert_eq!(ended.err.matches("UNPROTECTED").count(), 1, "{ended:?}");
        }
    }
}

/// LOG-7 REC-3: a receiver that died gets its messages from the disk although the log has filled
/// memory and disk meanwhile.
#[test]
fn a_full_log_is_recalled_before_the_job_continues_unprotected() {
    for number in [100, 150, 200] {
        let options = format!(
            "-n 2 --no-prefix --protocol pessimist --log-memory 4M --log-disk 16M --kill 1@clock={number}"
        );
        let ended = run(&mut job(&options, "flood=2000")).expect(0);
        assert!(ended.err.contains("incarnation 1 continues"), "{ended:?}");
        assert_eq!(ended.err.matches("UNPROTECTED").count(), 1, "{ended:?}");
    }
}

/// LOG-7: the same where ranks hold events for each other, and have no room for more.
#[test]
fn a_job_without_room_for_events_continues_unprotected() {
    for protocol in ["ticket", "causal"] {
        let options = format!("-n 2 --no-prefix --protocol {protocol} --log-memory 4M");
        let ended = run(&mut job(&options, "answers=100000")).expect(0);
        assert_eq!(ended.err.matches("UNPROTECTED").count(), 1, "{ended:?}");
        assert!(ended.err.contains("has no room for events"), "{ended:?}");
        let ended = run(&mut job(
            &format!("{options} --log-full stop"),
            "answers=100000",
        ))
        .expect(9);
        let told = "this rank has no room for events";
        assert!(ended.out.contains(told), "{ended:?}");
    }
}

/// LOG-7: before a log is full a death is survived; afterwards it ends the job, with the reason.
#[test]
fn an_unprotected_job_ends_with_its_first_dead_rank() {
    let options = "-n 2 --no-prefix --protocol pessimist --log-memory 2M --log-disk 0";
    let before = format!("{options} --kill 1@clock=3");
    let ended = run(&mut job(&before, "flood=1000")).expect(0);
    assert!(ended.err.contains("incarnation 1 continues"), "{ended:?}");
    assert!(ended.err.contains("UNPROTECTED"), "{ended:?}");
    let after = format!("{options} --kill 0@clock=900");
    let ended = run(&mut job(&after, "flood=1000"));
    assert_ne!(ended.status, Some(0), "{ended:?}");
    assert!(
        ended.err.contains("has gone on unprotected since"),
        "{ended:?}"
    );
}

/// LOG-3: a disk without space is reported once; the job continues in memory, and ends with a
/// clear message when that is full, too.
#[test]
fn a_full_disk_is_reported_and_the_job_continues_in_memory() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let options = "-n 2 --spill-after 0 --log-disk 8M --log-full stop --log-full-wait 0.3";
    // More than the disk holds, less than disk and memory together.
    let enough = run(&mut spilling(options, disk.path(), "flood=50")).expect(0);
    let told = enough.err.matches("continues in memory").count();
    assert_eq!(told, 1, "{enough:?}");
    assert!(enough.err.contains("No space left"), "{enough:?}");
    let ended = run(&mut spilling(options, disk.path(), "flood=1000")).expect(9);
    assert!(ended.out.contains("make room there"), "{ended:?}");
    assert_eq!(files(disk.path()), Vec::<String>::new());
}

/// A file system of three megabytes: one segment file.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = folder();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"])
            .arg(folder.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(folder)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                eprintln!(
                    "skipped a full disk: no file system may be mounted: {}",
                    why.trim()
                );
                None
            }
            Err(error) => {
                eprintln!("skipped a full disk: mount: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let (here, file) = (folder.path().display(), file.display());
    for (options, status, words) in [
        (
            format!("--log-disk 0 --spill-dir {here}"),
            1,
            "--log-disk 0 keeps the log in memory",
        ),
        (
            "--log-disk 0 --keep-log".to_owned(),
            2,
            "has no effect without --spill-dir",
        ),
        (
            "--spill-dir /no/such/folder".to_owned(),
            2,
            "create the folder",
        ),
        (format!("--spill-dir {file}"), 2, "not a folder"),
        (
            format!("--spill-dir {here} --log-disk 1K"),
            2,
            "the minimum is",
        ),
        (
            format!("--spill-dir {here} --spill-io aio"),
            2,
            "auto, uring, plain",
        ),
        (
            format!("--spill-dir {here} --log-memory 1M -n 4"),
            9,
            "the least for 3 peers is",
        ),
    ] {
        let ranks = if options.contains("-n") { "" } else { "-n 2" };
        let options = format!("--protocol pessimist {ranks} {options}");
        let ended = run(&mut job(&options, "flood=1")).expect(status);
        let told = format!("{}{}", ended.out, ended.err);
        assert!(told.contains(words), "{words:?} for {options} in {ended:?}");
    }
}
