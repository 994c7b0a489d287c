//! Jobs of one kind, compared with the same jobs without failures.

use super::leftovers;
use crate::launched::{Ended, Launched, refrain};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// Beginning of a line about a rank's death.
pub const DEATH: &str = "was killed by SIGKILL (incarnation";

/// As many seeds, times those that are asked for by `REFRAIN_TEST_SEEDS`.
pub fn seeds(usual: u64) -> core::ops::Range<u64> {
    let times = std::env::var("REFRAIN_TEST_SEEDS").ok();
    let times = times.and_then(|times| times.parse().ok());
    0..usual * times.unwrap_or(1)
}

/// Jobs, the lines that they have to print, and the number of deaths that they survived.
pub struct Batch {
    name: &'static str,
    folder: TempDir,
    expected: HashMap<(u32, String), String>,
    begin: Instant,
    jobs: u32,
    with_deaths: u32,
    deaths: usize,
}

impl Batch {
    pub fn new(name: &'static str) -> Self {
        let batch = Self {
            name,
            folder: tempfile::tempdir().expect("a folder"),
            expected: HashMap::new(),
            begin: Instant::now(),
            jobs: 0,
            with_deaths: 0,
            deaths: 0,
        };
        for folder in [batch.temporary(), batch.spilled()] {
            std::fs::create_dir(folder).expect("a new folder");
        }
        batch
    }

    /// The jobs' folder for temporary files; empty between jobs.
    fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    /// A file for the output of a job.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A folder for the payload log: empty between jobs.
    pub fn spilled(&self) -> PathBuf {
        self.folder.path().join("spilled")
    }

    /// Runs a workload with faults, and returns the number of ranks that died. It prints the same
    /// as without faults, and leaves nothing behind.
    #[track_caller]
    pub fn survives(&mut self, ranks: u32, options: &str, workload: &str) -> usize {
        let expected = self.line_without_failures(ranks, workload);
        let ended = self.run(ranks, options, workload);
        let told = told(self.name, ranks, options, workload, &ended);
        assert_eq!(ended.status, Some(0), "{told}");
        assert_eq!(ended.out, expected, "{told}");
        assert!(!ended.err.contains("panicked"), "{told}");
        self.count(&ended)
    }

    /// As above, for a program that is not a workload; returns the result.
    #[track_caller]
    pub fn run_program(&mut self, ranks: u32, options: &str, program: &[&str]) -> Ended {
        let mut command = self.command(ranks, options);
        command.args(program);
        let ended = self.end(command);
        self.count(&ended);
        ended
    }

    fn count(&mut self, ended: &Ended) -> usize {
        let deaths = ended.err.matches(DEATH).count();
        self.jobs += 1;
        self.with_deaths += u32::from(deaths > 0);
        self.deaths += deaths;
        deaths
    }

    /// Rank 0 prints one line, which a job without logging prints, too.
    #[track_caller]
    fn line_without_failures(&mut self, ranks: u32, workload: &str) -> String {
        let key = (ranks, workload.to_owned());
        if let Some(line) = self.expected.get(&key) {
            return line.clone();
        }
        let options = "--protocol none";
        let ended = self.run(ranks, options, workload);
        let told = told(self.name, ranks, options, workload, &ended);
        assert_eq!(ended.status, Some(0), "{told}");
        assert_eq!(ended.out.lines().count(), 1, "{told}");
        self.expected.insert(key, ended.out.clone());
        ended.out
    }

    #[track_caller]
    fn run(&self, ranks: u32, options: &str, workload: &str) -> Ended {
        let mut command = self.command(ranks, options);
        command
            .arg(env!("CARGO_BIN_EXE_refrain-workload"))
            .args(workload.split_whitespace());
        self.end(command)
    }

    fn command(&self, ranks: u32, options: &str) -> Command {
        let mut command = refrain();
        command
            .args(["run", "--no-prefix", "-n", &ranks.to_string()])
            .args(options.split_whitespace());
        if !options.contains("--protocol") {
            command.args(["--protocol", "pessimist"]);
        }
        command
            .arg("--")
            .env("TMPDIR", self.temporary())
            .env(leftovers::MARK, self.folder.path())
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn end(&self, mut command: Command) -> Ended {
        let ended = Launched::start(&mut command).end();
        for folder in [self.temporary(), self.spilled()] {
            let left = leftovers::files(&folder);
            assert!(left.is_empty(), "{command:?} left {left:?}: {ended:?}");
        }
        let left = leftovers::processes(self.folder.path());
        assert!(left.is_empty(), "{command:?} left {left:?}: {ended:?}");
        ended
    }

    /// Ends a batch in which ranks died in at least this number of jobs.
    #[track_caller]
    pub fn finish(self, with_deaths_min: u32) {
        let Self {
            name,
            jobs,
            with_deaths,
            deaths,
            ..
        } = self;
        let seconds = self.begin.elapsed().as_secs_f64();
        println!("{name}: {jobs} jobs, {with_deaths} with {deaths} deaths, {seconds:.1} s");
        assert!(
            with_deaths >= with_deaths_min,
            "{name}: {with_deaths} of {jobs} jobs had deaths; at least {with_deaths_min} should"
        );
    }
}

/// Everything that is needed to reproduce a failure.
fn told(name: &str, ranks: u32, options: &str, workload: &str, ended: &Ended) -> String {
    format!(
        "{name}: refrain run --no-prefix -n {ranks} {options} -- refrain-workload {workload} \
         (--protocol pessimist unless given)\n{}{}",
        ended.out, ended.err
    )
}
