//! Runs the jobs of an experiment one after the other, and reads their results.

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::job::{Ended, Job, JobFolder};
use refrain_launch::Recovery;
use rustix::process::{Signal, kill_process};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::time::{Duration, Instant};

/// Time between two checks for an interruption: long, since each check takes a core from a rank.
const LOOK: Duration = Duration::from_millis(200);
/// Time limit for a job of an experiment.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes of the output of a failed job that are shown.
const OUTPUT_BYTES_MAX: usize = 2000;

/// A job that has ended, and its measurements.
#[derive(Debug, Default)]
pub struct Measured {
    pub ended: Ended,
    /// Processor time of all its processes, user and system; to 10 ms.
    pub cpu_s: f64,
    /// Deaths of ranks that were restarted.
    pub recoveries: Vec<Recovery>,
    /// Highest use of log memory of a rank, in bytes.
    pub log_peak_bytes: u64,
}

impl Measured {
    /// # Errors
    /// The job did not end well, or did not print `line`, if that is known.
    pub fn expect(&self, job: &Job, line: Option<&str>) -> Result<(), BenchError> {
        let Ended { out, err, .. } = &self.ended;
        let problem = match (self.ended.status, line) {
            (Some(0), Some(line)) if out != line => {
                format!("a job printed {out:?}, and without faults it prints {line:?}")
            }
            (Some(0), _) => return Ok(()),
            (Some(status), _) => format!("a job ended with status {status}"),
            (None, _) => "a job was killed with its launcher".into(),
        };
        Err(failed(job, problem, err))
    }
}

/// Runs jobs in a folder. Ranks write their measurements to the subfolder RECORD; the subfolder
/// KEPT is kept from job to job.
pub struct Jobs {
    folder: JobFolder,
    interrupt: Interrupt,
}

impl Jobs {
    /// # Errors
    /// The folder, or a handler for Ctrl-C, cannot be created.
    pub fn new() -> Result<Self, BenchError> {
        Ok(Self {
            interrupt: Interrupt::install()?,
            folder: JobFolder::new("refrain-bench-", &["record", "kept"])?,
        })
    }

    /// Whether a signal has asked for the end.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Runs a job that must end well, and print `line` if that is known.
    ///
    /// # Errors
    /// The job fails, or is interrupted.
    pub fn run(&self, job: &Job, line: Option<&str>) -> Result<Measured, BenchError> {
        let measured = self.end(job)?;
        measured.expect(job, line)?;
        Ok(measured)
    }

    /// Runs a job; it may end in any way.
    ///
    /// # Errors
    /// The job cannot be run, or is interrupted.
    pub fn end(&self, job: &Job) -> Result<Measured, BenchError> {
        self.interrupt.check()?;
        self.folder.empty("record")?;
        let statistics = self.folder.path("statistics");
        let _ = fs::remove_file(&statistics);
        let mut with_statistics = job.clone();
        let option = format!("--stats-file={}", statistics.display());
        with_statistics.options.push(option);
        let cpu_before = children_cpu_s();
        let begin = Instant::now();
        let mut stopped = None;
        let ended = self.folder.run(&with_statistics, LOOK, |launcher| {
            if stopped.is_none() {
                let is_late = begin.elapsed() > PATIENCE;
                stopped = self.interrupt.check().err();
                stopped = stopped
                    .take()
                    .or_else(|| is_late.then(|| failed(job, "a job did not end".into(), "")));
                if stopped.is_some() {
                    // The launcher ends the ranks.
                    let _ = kill_process(launcher, Signal::TERM);
                }
            }
        })?;
        let file = self.folder.text("statistics");
        let file: Statistics = serde_json::from_str(&file).unwrap_or_default();
        let measured = Measured {
            ended,
            cpu_s: children_cpu_s() - cpu_before,
            recoveries: file.recoveries,
            log_peak_bytes: file.total.log_bytes_peak,
        };
        stopped.map_or(Ok(measured), Err)
    }

    /// Reads the measurement that a rank has written.
    ///
    /// # Errors
    /// The rank has not written it.
    pub fn noted<T: DeserializeOwned>(&self, name: &str) -> Result<T, BenchError> {
        let path = self.folder.path("record").join(name);
        fs::read(path)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(Into::into))
            .map_err(BenchError::system("a rank has not noted what it measured"))
    }

    /// Reads the lines that a rank has written; none if it has written no file.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let path = self.folder.path("record").join(name);
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Empties the folder KEPT.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn forget(&self) -> Result<(), BenchError> {
        self.folder.empty("kept")
    }
}

/// The part of the launcher's statistics file that is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Statistics {
    recoveries: Vec<Recovery>,
    total: refrain_job::Statistics,
}

fn failed(job: &Job, problem: String, err: &str) -> BenchError {
    let from = err.ceil_char_boundary(err.len().saturating_sub(OUTPUT_BYTES_MAX));
    BenchError::Failed {
        problem: format!("{problem}: {job}"),
        help: Some(format!("its output: {}", err[from..].trim_end())),
    }
}

/// Processor time of all children that have ended, and of their children.
fn children_cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat).unwrap_or(0) as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// From proc_pid_stat(5): cutime and cstime.
fn children_ticks(stat: &str) -> Option<u64> {
    // The name may contain spaces and parentheses; it ends at the last parenthesis.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_children_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 0 0 11 12 130 14 20 0 1 0 5 6 7";
        assert_eq!(children_ticks(stat), Some(144));
        assert_eq!(children_ticks(""), None);
    }

    #[test]
    fn a_job_with_another_line_or_status_has_failed() {
        let ended = |status, out: &str| Measured {
            ended: Ended {
                status,
                out: out.into(),
                ..Ended::default()
            },
            ..Measured::default()
        };
        let job = Job::default();
        assert!(ended(Some(0), "a\n").expect(&job, Some("a\n")).is_ok());
        assert!(ended(Some(0), "a\n").expect(&job, None).is_ok());
        assert!(ended(Some(0), "b\n").expect(&job, Some("a\n")).is_err());
        assert!(ended(Some(0), "").expect(&job, Some("a\n")).is_err());
        assert!(ended(Some(1), "a\n").expect(&job, Some("a\n")).is_err());
        assert!(ended(None, "a\n").expect(&job, None).is_err());
    }

    #[test]
    fn the_end_of_what_a_job_said_is_shown() {
        let err = format!("{}ä end", "ä".repeat(OUTPUT_BYTES_MAX));
        let BenchError::Failed { help, .. } = failed(&Job::default(), "p".into(), &err) else {
            panic!("another error");
        };
        let said = help.unwrap();
        assert!(said.ends_with("ä end") && said.len() < OUTPUT_BYTES_MAX + 20);
    }
}
