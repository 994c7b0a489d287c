//! Jobs that stop and go on later, with `--job-dir`.

use crate::launched::{Ended, Launched, refrain, run};
use crate::libfabric::installed::has;
use crate::scripted;
use crate::survival::{leftovers, seeds};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Exit status of a run that has stopped at checkpoints.
const STOPPED: i32 = 85;
const RANKS: u32 = 3;

/// A job's folder, and that of its files.
struct Stage {
    folder: tempfile::TempDir,
}

fn example(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_refrain"));
    folder.with_file_name("examples").join(name)
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("temporary")).expect("a new folder");
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn job_dir(&self) -> PathBuf {
        self.file("job")
    }

    /// `refrain run` of these words with the job's folder.
    fn command(&self, options: &str) -> Command {
        let mut command = refrain();
        command
            .args(["run", "--no-prefix", "--job-dir"])
            .arg(self.job_dir())
            .args(options.split_whitespace())
            .arg("--")
            .env("TMPDIR", self.file("temporary"))
            .env(leftovers::MARK, self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// The job of the test program that waits in the middle.
    fn job(&self, options: &str, every: &str) -> Command {
        let mut command = self.command(options);
        command.arg(example("refrain-test-whole-job"));
        command.arg(self.folder.path()).arg(every);
        command
    }

    /// Waits until all ranks wait in the middle.
    #[track_caller]
    fn await_middle(&self, launched: &Launched, life: u32) {
        self.await_middle_of(RANKS, launched, life);
    }

    #[track_caller]
    fn await_middle_of(&self, ranks: u32, launched: &Launched, life: u32) {
        for rank in 0..ranks {
            let file = self.file(&format!("holds-{rank}-{life}"));
            while !file.exists() {
                assert!(launched.is_running(), "the job ended before {file:?}");
                thread::yield_now();
            }
        }
    }

    fn go(&self) {
        fs::write(self.file("go"), "").expect("a file");
    }

    /// What the job prints that is not disturbed.
    fn expected(&self) -> Vec<String> {
        self.expected_of(RANKS, &[])
    }

    /// As [`expected`](Self::expected), with more arguments.
    fn expected_of(&self, ranks: u32, more: &[&str]) -> Vec<String> {
        self.go();
        let mut alone = refrain();
        alone.args(["run", "-n", &ranks.to_string(), "--no-prefix", "--"]);
        alone.arg(example("refrain-test-whole-job"));
        let ended = run(alone.arg(self.folder.path()).arg("0").args(more)).expect(0);
        fs::remove_file(self.file("go")).expect("it is there");
        for rank in 0..ranks {
            fs::remove_file(self.file(&format!("holds-{rank}-0"))).expect("it is there");
        }
        lines(&[&ended])
    }

    #[track_caller]
    fn expect_nothing_left(&self) {
        let left = leftovers::files(&self.file("temporary"));
        assert!(left.is_empty(), "{left:?}");
        let left = leftovers::processes(self.folder.path());
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The lines of several runs, sorted.
fn lines(runs: &[&Ended]) -> Vec<String> {
    let all = runs.iter().flat_map(|run| run.out.lines());
    let mut lines: Vec<String> = all.map(Into::into).collect();
    lines.sort();
    lines
}

#[track_caller]
fn expect_words(ended: &Ended, words: &[&str]) {
    for word in words {
        assert!(ended.err.contains(word), "{word:?}: {}", ended.err);
    }
}

/// Ranks that were asked take their checkpoints, and the next run prints what is left.
// JOB-3 JOB-5 JOB-7
#[test]
fn a_job_stops_at_a_signal_and_goes_on() {
    for signal in [Signal::USR1, Signal::TERM] {
        let stage = Stage::new();
        let expected = stage.expected();
        let launched = Launched::start(&mut stage.job("-n 3", "0"));
        stage.await_middle(&launched, 0);
        launched.signal(signal);
        let first = launched.end().expect(STOPPED);
        expect_words(&first, &["at checkpoints of all 3 ranks", "--job-dir"]);
        stage.expect_nothing_left();
        // And once more, before it has done anything.
        let launched = Launched::start(&mut stage.job("-n 3", "0"));
        stage.await_middle(&launched, 1);
        launched.signal(signal);
        let second = launched.end().expect(STOPPED);
        expect_words(
            &second,
            &["goes on in its run 2", "at checkpoints of all 3"],
        );
        stage.go();
        let third = run(&mut stage.job("-n 3", "0")).expect(0);
        assert_eq!(lines(&[&first, &second, &third]), expected);
        let again = run(&mut stage.job("-n 3", "0")).expect(2);
        expect_words(&again, &["has ended well", "remove this one"]);
        let left = leftovers::files(&stage.job_dir());
        assert_eq!(left.len(), 2, "state and lock: {left:?}");
        stage.expect_nothing_left();
    }
}

/// Ranks without checkpoints repeat their work, but not their output.
// JOB-3 JOB-5
#[test]
fn a_program_without_checkpoints_is_repeated() {
    let stage = Stage::new();
    let expected = stage.expected();
    let launched = Launched::start(&mut stage.job("-n 3", "none"));
    stage.await_middle(&launched, 0);
    launched.signal(Signal::USR1);
    let first = launched.end().expect(STOPPED);
    expect_words(
        &first,
        &["without checkpoints", "about as long as until now"],
    );
    stage.go();
    let second = run(&mut stage.job("-n 3", "none")).expect(0);
    assert_eq!(lines(&[&first, &second]), expected);
}

/// Ranks of a later run meet those that they have met before, and no others; unless the file with the
/// pairs is damaged.
// JOB-8 REC-3
#[test]
fn a_later_run_introduces_the_pairs_of_the_earlier_ones() {
    const RANKS: u32 = 64;
    let stage = Stage::new();
    let expected = stage.expected_of(RANKS, &["ring"]);
    let status = stage.file("status");
    let job = || {
        let options = format!("-n {RANKS} --status-file {}", status.display());
        let mut command = stage.job(&options, "0");
        command.arg("ring");
        command
    };
    let introduced = || {
        let text = fs::read_to_string(&status).expect("it was written");
        let last: serde_json::Value =
            serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!(last["ended"], true);
        last["introduced_pairs"].as_u64().expect("a number") as u32
    };
    let mut runs = Vec::new();
    for life in 0..2 {
        let launched = Launched::start(&mut job());
        stage.await_middle_of(RANKS, &launched, life);
        launched.signal(Signal::USR1);
        runs.push(launched.end().expect(STOPPED));
        assert_eq!(introduced(), RANKS, "a ring, run {life}");
    }
    let file = stage.job_dir().join("introductions");
    let whole = fs::read(&file).expect("it is there");
    fs::write(&file, &whole[..whole.len() - 1]).expect("ours");
    let launched = Launched::start(&mut job());
    stage.await_middle_of(RANKS, &launched, 2);
    launched.signal(Signal::USR1);
    runs.push(launched.end().expect(STOPPED));
    expect_words(
        &runs[2],
        &["introductions is damaged or incomplete: all ranks"],
    );
    stage.go();
    runs.push(run(&mut job()).expect(0));
    assert_eq!(introduced(), RANKS * (RANKS - 1) / 2, "all");
    assert_eq!(lines(&runs.iter().collect::<Vec<_>>()), expected);
    stage.expect_nothing_left();
}

/// Hosts are not part of the job: it goes on with others, and its loggers on one of their own. The signal comes to an agent, as with
/// `sbatch --signal=USR1`.
// COLL-1 JOB-2 JOB-3
#[test]
fn a_job_goes_on_on_other_hosts() {
    if !has(None, "tcp") {
        return;
    }
    let stage = Stage::new();
    let expected = stage.expected();
    let hosts = scripted::Hosts::new();
    let ssh = hosts.file("ssh");
    let on = |hosts: &str| format!("-n 3 --fabric ofi:tcp --ssh {} {hosts}", ssh.display());
    let launched = Launched::start(&mut stage.job(&on("--host a:2,b"), "0"));
    stage.await_middle(&launched, 0);
    let agent = fs::read_to_string(hosts.file("agent-b")).expect("it was started");
    let agent = Pid::from_raw(agent.trim().parse().expect("a number")).expect("not 0");
    kill_process(agent, Signal::USR1).expect("it runs");
    let first = launched.end().expect(STOPPED);
    let launched = Launched::start(&mut stage.job(&on("--host c,d,e,f --service-nodes 1"), "0"));
    stage.await_middle(&launched, 1);
    launched.signal(Signal::USR1);
    let second = launched.end().expect(STOPPED);
    stage.go();
    let third = run(&mut stage.job("-n 3 --fabric ofi:tcp", "0")).expect(0);
    assert_eq!(lines(&[&first, &second, &third]), expected);
    stage.expect_nothing_left();
}

/// The second signal does not wait for ranks that compute.
// JOB-4
#[test]
fn a_second_signal_stops_the_job_at_once() {
    let stage = Stage::new();
    let expected = stage.expected();
    let launched = Launched::start(&mut stage.job("-n 3", "0"));
    stage.await_middle(&launched, 0);
    // A rank that is stopped takes no checkpoint.
    let ranks = leftovers::processes_of_program(stage.folder.path(), "refrain-test-whole-job");
    let stopped = Pid::from_raw(ranks[0] as i32).expect("not 0");
    kill_process(stopped, Signal::STOP).expect("it runs");
    launched.signal(Signal::USR1);
    // Two of three.
    let checkpoints = stage.job_dir().join("checkpoints");
    while leftovers::files(&checkpoints)
        .iter()
        .filter(|file| file.extension().is_some_and(|it| it == "ckpt"))
        .count()
        < 2
    {
        assert!(launched.is_running());
        thread::yield_now();
    }
    // Not before it is another event than the first one.
    while launched.is_running() {
        launched.signal(Signal::USR1);
        thread::sleep(Duration::from_millis(10));
    }
    let first = launched.end().expect(STOPPED);
    expect_words(&first, &["the job has stopped"]);
    stage.go();
    let second = run(&mut stage.job("-n 3", "0")).expect(0);
    assert_eq!(lines(&[&first, &second]), expected);
}

// JOB-1
#[test]
fn a_job_that_does_not_fit_is_refused() {
    let stage = Stage::new();
    let launched = Launched::start(&mut stage.job("-n 3", "0"));
    stage.await_middle(&launched, 0);
    let refused = |command: &mut Command, words: &[&str]| {
        expect_words(&run(command).expect(2), words);
    };
    refused(&mut stage.job("-n 3", "0"), &["is in use", "process "]);
    launched.signal(Signal::USR1);
    launched.end().expect(STOPPED);
    for (options, every, words) in [
        (
            "-n 4",
            "0",
            [
                "number of ranks 3, and 4 is asked for",
                "name another folder",
            ],
        ),
        ("-n 3", "5", ["program", "is asked for"]),
        (
            "-n 3 --protocol pessimist-classic",
            "0",
            [
                "--protocol pessimist, and pessimist-classic",
                "start it as before",
            ],
        ),
        (
            "-n 3 --event-loggers 2",
            "0",
            ["--event-loggers 1, and 2", "start it"],
        ),
        (
            "-n 3 --record-clocks off",
            "0",
            ["--record-clocks on, and off", "start it"],
        ),
    ] {
        refused(&mut stage.job(options, every), &words);
    }
    let other = stage.file("other");
    fs::create_dir(&other).expect("a new folder");
    fs::write(other.join("thesis.tex"), "").expect("a file");
    let mut command = refrain();
    command.args(["run", "-n", "1", "--job-dir"]).arg(&other);
    refused(command.args(["--", "true"]), &["is not empty (thesis.tex)"]);
    let state = stage.job_dir().join("job.json");
    let text = fs::read_to_string(&state).expect("it is there");
    fs::write(&state, text.replace("\"version\": 1", "\"version\": 99")).expect("ours");
    refused(&mut stage.job("-n 3", "0"), &["has version 99"]);
    fs::write(&state, "{").expect("ours");
    refused(&mut stage.job("-n 3", "0"), &["is no state of a job"]);
    for (options, words) in [
        ("-n 3 --protocol none", "nothing of a job is left"),
        ("-n 3 --protocol causal", "choose pessimist"),
        ("-n 3 --max-restarts 0", "--max-restarts 0"),
        ("-n 3 --sets 3", "--sets"),
        ("-n 3 --collectives whole", "--collectives whole"),
        ("-n 3 --gate-output", "--gate-output"),
        ("-n 3 --event-dir /tmp", "--event-dir"),
        ("-n 3 --event-rings /dev/shm", "--stable durable"),
    ] {
        refused(&mut stage.job(options, "0"), &[words, "--job-dir"]);
    }
    stage.expect_nothing_left();
}

/// Everything is killed at random moments, also while the ranks take the checkpoints that a signal has
/// asked for, and later runs go on.
// JOB-2 JOB-3 JOB-4 GC-1
#[test]
fn a_job_goes_on_after_a_kill_of_everything() {
    let mut runs = 0;
    for seed in seeds(6) {
        let stage = Stage::new();
        let mut random = fastrand::Rng::with_seed(seed);
        let workloads = [
            "token-ring --rounds 6000 --checkpoint-every 100",
            "stencil --size 12 --iterations 800 --checkpoint-every 20",
            "any-source --tasks 1500 --bytes 2000 --checkpoint-every 50",
            "any-source --tasks 1500 --bytes 2000",
        ];
        let workload = workloads[random.usize(..workloads.len())];
        let options = [
            "",
            "--event-loggers 2",
            "--event-replicas 3 --protocol pessimist-classic",
        ];
        let ranks = ["3", "6"][random.usize(..2)];
        let options = format!("-n {ranks} {}", options[random.usize(..options.len())]);
        println!("seed {seed}: {options} {workload}");
        let words = || {
            let program = env!("CARGO_BIN_EXE_refrain-workload");
            std::iter::once(program).chain(workload.split_whitespace())
        };
        let mut alone = refrain();
        alone
            .args(["run", "--no-prefix", "-n", ranks, "--"])
            .args(words());
        let expected = run(&mut alone).expect(0).out;
        let mut out = String::new();
        for number in 0.. {
            runs += 1;
            let launched = Launched::start(stage.command(&options).args(words()));
            if number < 5 {
                thread::sleep(Duration::from_millis(random.u64(..400)));
                if random.bool() && launched.is_running() {
                    launched.signal(Signal::USR1);
                    thread::sleep(Duration::from_micros(random.u64(..50_000)));
                }
                kill_everything(stage.folder.path(), &mut random);
            }
            let ended = launched.end();
            let told = format!("seed {seed}, run {number}, {options} {workload}: {ended:?}");
            assert!(matches!(ended.status, None | Some(0 | STOPPED)), "{told}");
            out += &ended.out;
            if ended.status == Some(0) {
                assert_eq!(out, expected, "{told}");
                break;
            }
        }
        let left = leftovers::processes(stage.folder.path());
        assert!(left.is_empty(), "{left:?}");
    }
    println!("{runs} runs");
}

/// Kills launcher, event loggers and ranks, in any order.
fn kill_everything(mark: &Path, random: &mut fastrand::Rng) {
    let mut all = leftovers::processes_of_program(mark, "");
    random.shuffle(&mut all);
    for process in all {
        let process = Pid::from_raw(process as i32).expect("not 0");
        // It may have ended with another one.
        let _ = kill_process(process, Signal::KILL);
    }
}
