//! Acknowledged events that are lost while their logger and their rank are killed: the job
//! recovers exactly, or ends with an error that reports it. It never continues with another
//! history.

use crate::launched::{Ended, Launched, Process, events_program, refrain};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Rounds of the job; rank 0 has two events in each.
const ROUNDS: u64 = 60;
/// Time limit, far longer than any wait here; a test that reaches it has failed.
const LONGEST: Duration = Duration::from_secs(60);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A job whose rank 0 has paused: all its events are acknowledged, and no rank continues.
struct Paused {
    launcher: Launched,
    rank: Process,
    events: PathBuf,
    folder: TempDir,
    errors: PathBuf,
}

impl Paused {
    /// The job with its loggers' files in `events`.
    fn start(options: &str, events: &Path) -> Self {
        let folder = folder();
        let errors = folder.path().join("errors");
        // To a file, so that the output can be read before the end.
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"exec "$@" 2>"$ERRORS""#, "sh"])
            .arg(env!("CARGO_BIN_EXE_refrain"))
            .args(["run", "--no-prefix", "-n", "3", "--protocol", "pessimist"])
            .args(options.split_whitespace())
            .arg("--event-dir")
            .arg(events)
            .arg("--")
            .arg(events_program())
            .args(["pause", &ROUNDS.to_string()])
            .env("ERRORS", &errors)
            .env("REFRAIN_TEST_FOLDER", folder.path())
            .stdin(Stdio::null());
        let mut launcher = Launched::start(&mut command);
        let rank = launcher.processes("paused", 1).remove(0);
        Self {
            launcher,
            rank,
            events: events.to_owned(),
            folder,
            errors,
        }
    }

    fn logger(&self, number: u32) -> Process {
        let children = format!("/proc/{0}/task/{0}/children", self.launcher.id());
        let children = fs::read_to_string(children).expect("it runs");
        let found = children.split_whitespace().find(|id| {
            let words = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            words.contains("eventlogger") && words.contains(&format!("--logger\0{number}\0"))
        });
        Process::of(found.expect("it runs").parse().expect("a number"))
    }

    /// The files of a logger whose names begin with a prefix.
    fn files(&self, logger: u32, prefix: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.events.join(logger.to_string())).expect("a folder");
        let of = |path: &PathBuf| {
            let name = path.file_name().expect("a name").to_string_lossy();
            name.starts_with(prefix)
        };
        entries
            .map(|entry| entry.expect("an entry").path())
            .filter(of)
            .collect()
    }

    fn go_on(&self) {
        fs::write(self.folder.path().join("go"), "").expect("a file");
    }

    fn errors(&self) -> String {
        fs::read_to_string(&self.errors).expect("it is there")
    }

    /// Kills rank 0 and these loggers, and waits for the end of the job.
    fn kill(self, loggers: &[u32]) -> Ended {
        for number in loggers {
            self.logger(*number).kill();
        }
        self.rank.kill();
        self.go_on();
        let ended = self.launcher.end();
        Ended {
            err: fs::read_to_string(&self.errors).expect("it is there"),
            ..ended
        }
    }
}

#[track_caller]
fn expect_refusal(ended: &Ended, words: &str) {
    assert_eq!(ended.status, Some(1), "{words}: {ended:?}");
    let said = format!("{}{}", ended.out, ended.err);
    assert!(said.contains(words), "{words:?} in {ended:?}");
    assert!(!ended.err.contains("panicked"), "{ended:?}");
    assert!(!ended.out.contains("done 0"), "{ended:?}");
}

/// End of the data that was written into a file of events.
fn written_bytes(file: &Path) -> u64 {
    let bytes = fs::read(file).expect("it is there");
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.expect("something was written") as u64
}

/// Files that are deleted, cut or damaged end before the stored events: the logger reports it, and
/// the job ends.
// EL-3 EL-5
#[test]
fn files_that_end_early_are_noticed() {
    type Harm = fn(&Paused);
    let harms: [(Harm, &str); 5] = [
        (
            |job| {
                let files = job.files(0, "events-");
                files
                    .iter()
                    .for_each(|file| fs::remove_file(file).expect("it goes"));
            },
            "acknowledged events are lost",
        ),
        (
            |job| {
                let file = &job.files(0, "events-")[0];
                let open = OpenOptions::new().write(true).open(file).expect("it opens");
                open.set_len(written_bytes(file) / 2).expect("it is cut");
            },
            "acknowledged events are lost",
        ),
        (
            |job| {
                let file = &job.files(0, "events-")[0];
                let open = OpenOptions::new().write(true).open(file).expect("it opens");
                let end = written_bytes(file);
                let zeros = vec![0; (end / 2) as usize + 1];
                open.write_all_at(&zeros, end - end / 2)
                    .expect("it is damaged");
            },
            "acknowledged events are lost",
        ),
        (
            |job| {
                let file = &job.files(0, "events-")[0];
                let open = OpenOptions::new().write(true).open(file).expect("it opens");
                let middle = written_bytes(file) / 2;
                open.write_all_at(&[0x5a; 256], middle)
                    .expect("it is damaged");
            },
            "is damaged at byte",
        ),
        (
            |job| {
                let files = job.files(0, "");
                files
                    .iter()
                    .for_each(|file| fs::remove_file(file).expect("it goes"));
            },
            "has no file `watermark`",
        ),
    ];
    for (harm, words) in harms {
        let events = folder();
        let job = Paused::start("--event-way messages", events.path());
        harm(&job);
        expect_refusal(&job.kill(&[0]), words);
    }
    // The same deaths without damage.
    let events = folder();
    let job = Paused::start("--event-way messages", events.path());
    let ended = job.kill(&[0]).expect(0);
    assert!(ended.out.contains("done 0"), "{ended:?}");
}

/// No file shows the content of a deleted ring; the rank detects the loss in its replay.
// REC-9
#[test]
fn events_that_were_in_a_lost_ring_are_noticed_in_replay() {
    let events = folder();
    let job = Paused::start("--event-way shm", events.path());
    for ring in job.files(0, "ring-") {
        fs::remove_file(ring).expect("it goes");
    }
    let ended = job.kill(&[0]);
    expect_refusal(&ended, "has no record, but an earlier life");
    expect_refusal(&ended, "--event-dir");
}

/// A replica whose files are gone does not take part again: the others suffice, or the job ends.
// EL-3 EL-5
#[test]
fn replicas_without_their_files_do_not_answer_for_the_others() {
    for wiped in [1, 2] {
        let events = folder();
        let job = Paused::start("--event-replicas 3 --event-way messages", events.path());
        let loggers: Vec<u32> = (0..wiped).collect();
        for file in loggers.iter().flat_map(|logger| job.files(*logger, "")) {
            fs::remove_file(file).expect("it goes");
        }
        let ended = job.kill(&loggers);
        if wiped == 2 {
            expect_refusal(&ended, "Without 2 of its shard no event becomes stable");
            continue;
        }
        assert!(
            ended.err.contains("continues with 2 of its shard"),
            "{ended:?}"
        );
        let events = format!(" {} events", 2 * ROUNDS);
        assert!(ended.err.contains(&events), "{ended:?}");
        assert!(ended.expect(0).out.contains("done 0"));
    }
}

/// A file system in memory.
struct Disk(TempDir);

impl Disk {
    fn mount(size: &str) -> Option<Self> {
        let folder = folder();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        let mounted = command.arg(folder.path()).output();
        if mounted.as_ref().is_ok_and(|it| it.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("skipped a full disk: no file system may be mounted: {mounted:?}");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// A logger that is restarted without space for its next file waits, as a running logger does.
// EL-3
#[test]
fn a_logger_that_starts_on_a_full_disk_waits_for_room() {
    // There is space for one file of 64 MiB, besides the rings.
    let Some(disk) = Disk::mount("80m") else {
        return;
    };
    let job = Paused::start("--event-way shm --event-wait 60", disk.0.path());
    let logger = job.logger(0);
    // Nothing is written now: another file takes the space that this file does not need.
    let file = &job.files(0, "events-")[0];
    let open = OpenOptions::new().write(true).open(file).expect("it opens");
    let needed = written_bytes(file).next_multiple_of(4096);
    open.set_len(needed).expect("it is cut");
    let filler = disk.0.path().join("filler");
    let full = fs::write(&filler, vec![1; 80 << 20]).expect_err("it does not fit");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    logger.kill();
    let until = Instant::now() + LONGEST;
    while !job.errors().contains("until there is room") {
        assert!(
            Instant::now() < until && job.launcher.is_running(),
            "{}",
            job.errors()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(filler).expect("it goes");
    let ended = job.kill(&[]).expect(0);
    assert!(ended.out.contains("done 0"), "{ended:?}");
    assert!(ended.err.contains("the disk has room again"), "{ended:?}");
}

/// `--continue` means that the logger has run before.
// EL-3
#[test]
fn a_logger_of_ones_own_that_continues_needs_its_files() {
    let folder = folder();
    let events = folder.path().join("events");
    let socket = format!("unix:{}", folder.path().join("sock").display());
    let start = |continues: bool| {
        let mut command = refrain();
        command.arg("eventlogger").arg(&events);
        command.args(["--listen", &socket]);
        command.args(continues.then_some("--continue"));
        Launched::start(command.stdin(Stdio::null()))
    };
    let refused = start(true).end();
    assert_eq!(refused.status, Some(1), "{refused:?}");
    assert!(refused.err.contains("`watermark`"), "{refused:?}");
    for continues in [false, true] {
        let mut logger = start(continues);
        logger.wait_for("listening", 1);
        logger.signal(rustix::process::Signal::TERM);
        logger.end().expect(0);
    }
}
