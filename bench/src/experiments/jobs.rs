//! Runs the jobs of an experiment, one after the other, and looks at what comes of
//! them.

use super::ExperimentError;
use crate::interrupt::Interrupt;
use crate::launched_job;
use refrain_launch::Recovery;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between two looks for an interruption: seldom, since each takes a core from a
/// rank.
const LOOK: Duration = Duration::from_millis(200);
/// No job of an experiment takes so long.
const PATIENCE: Duration = Duration::from_secs(300);
/// As much of what a failed job said is shown.
const SAID_BYTES_MAX: usize = 2000;

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub ranks: u32,
    /// Of `refrain run`, besides the number of ranks.
    pub options: Vec<String>,
    /// Of `refrain-workload`. `RECORD` stands for the folder in which ranks note
    /// what they measured, `KEPT` for one that the next job finds as it was left.
    pub workload: Vec<String>,
}

impl Job {
    /// From words as they are typed.
    pub fn new(ranks: u32, options: &str, workload: &str) -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Self {
            ranks,
            options: words(options),
            workload: words(workload),
        }
    }
}

/// As it is typed, but for folders.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refrain run -n {}", self.ranks)?;
        for option in &self.options {
            write!(f, " {option}")?;
        }
        write!(f, " -- refrain-workload {}", self.workload.join(" "))
    }
}

/// What came of a job.
#[derive(Debug, Default)]
pub struct Ended {
    /// `None`: it was killed.
    pub status: Option<i32>,
    /// What it printed.
    pub out: String,
    pub err: String,
    /// From its start until it was gone, with its launcher.
    pub wall_s: f64,
    /// Of all its processes, in user and system mode; to 10 ms.
    pub cpu_s: f64,
    /// Deaths of ranks that were started again.
    pub recoveries: Vec<Recovery>,
}

impl Ended {
    /// # Errors
    /// When it did not end well, or did not print `line`, where that is known.
    pub fn expect(&self, job: &Job, line: Option<&str>) -> Result<(), ExperimentError> {
        let problem = match (self.status, line) {
            (Some(0), Some(line)) if self.out != line => format!(
                "a job printed {:?}, and without faults it prints {line:?}",
                self.out
            ),
            (Some(0), _) => return Ok(()),
            (Some(status), _) => format!("a job ended with status {status}"),
            (None, _) => "a job was killed with its launcher".into(),
        };
        Err(failed(job, problem, &self.err))
    }
}

/// Where jobs run, until dropped.
pub struct Jobs {
    folder: TempDir,
    interrupt: Interrupt,
}

const FOLDERS: [&str; 3] = ["temporary", "record", "kept"];

impl Jobs {
    /// # Errors
    /// When there is no folder for it, or no handler for Ctrl-C.
    pub fn new() -> Result<Self, ExperimentError> {
        let interrupt =
            Interrupt::install().map_err(ExperimentError::system("cannot listen for Ctrl-C"))?;
        let made = || {
            let folder = tempfile::Builder::new()
                .prefix("refrain-bench-")
                .tempdir()?;
            for name in FOLDERS {
                fs::create_dir(folder.path().join(name))?;
            }
            Ok(folder)
        };
        let folder = made().map_err(ExperimentError::system("cannot make a folder for jobs"))?;
        Ok(Self { folder, interrupt })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a job that must end well, with `line` if that is known.
    ///
    /// # Errors
    /// When it does not, or is interrupted.
    pub fn run(&self, job: &Job, line: Option<&str>) -> Result<Ended, ExperimentError> {
        let ended = self.end(job)?;
        ended.expect(job, line)?;
        Ok(ended)
    }

    /// Runs a job, whatever comes of it.
    ///
    /// # Errors
    /// When it cannot be run, or is interrupted.
    pub fn end(&self, job: &Job) -> Result<Ended, ExperimentError> {
        self.interrupt.check()?;
        self.empty("record")?;
        let _ = fs::remove_file(self.path("statistics"));
        let cpu_before = children_cpu_s();
        let begin = Instant::now();
        let mut child = self
            .start(job)
            .map_err(ExperimentError::system("cannot start a job"))?;
        let mut ended = self.wait(job, &mut child)?;
        ended.wall_s = begin.elapsed().as_secs_f64();
        ended.cpu_s = children_cpu_s() - cpu_before;
        let text = |name| {
            let bytes = fs::read(self.path(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (ended.out, ended.err) = (text("out"), text("err"));
        let file: Statistics = serde_json::from_str(&text("statistics")).unwrap_or_default();
        ended.recoveries = file.recoveries;
        Ok(ended)
    }

    fn start(&self, job: &Job) -> std::io::Result<Child> {
        let mut options = job.options.clone();
        options.push(format!(
            "--stats-file={}",
            self.path("statistics").display()
        ));
        let place = |word: &String| match word.as_str() {
            "RECORD" => self.path("record").display().to_string(),
            "KEPT" => self.path("kept").display().to_string(),
            _ => word.clone(),
        };
        let workload: Vec<String> = job.workload.iter().map(place).collect();
        let places = (self.folder.path(), &*self.path("temporary"));
        launched_job::command(job.ranks, &options, &workload, places)?
            .stdout(File::create(self.path("out"))?)
            .stderr(File::create(self.path("err"))?)
            .spawn()
    }

    /// However this ends, the job has ended.
    fn wait(&self, job: &Job, child: &mut Child) -> Result<Ended, ExperimentError> {
        let refused = ExperimentError::system;
        let id = rustix::process::Pid::from_child(child);
        let end = pidfd_open(id, PidfdFlags::empty())
            .map_err(|error| refused("cannot watch a job")(error.into()))?;
        let begin = Instant::now();
        let mut told = None;
        loop {
            let look = Timespec::try_from(LOOK).expect("a short time");
            match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&look)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(refused("cannot watch a job")(error.into())),
            }
            let status = child.try_wait().map_err(refused("cannot watch a job"))?;
            if let Some(status) = status {
                let ended = Ended {
                    status: status.code(),
                    ..Ended::default()
                };
                return told.map_or(Ok(ended), Err);
            }
            if told.is_some() {
                continue;
            }
            if self.interrupt.requested() {
                told = Some(ExperimentError::Interrupted);
            } else if begin.elapsed() > PATIENCE {
                told = Some(failed(job, "a job did not end".into(), ""));
            }
            if told.is_some() {
                // Its launcher ends the ranks.
                let _ = kill_process(id, Signal::TERM);
            }
        }
    }

    /// Reads what a rank has noted.
    ///
    /// # Errors
    /// When it has not.
    pub fn noted<T: DeserializeOwned>(&self, name: &str) -> Result<T, ExperimentError> {
        let path = self.path("record").join(name);
        fs::read(path)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(Into::into))
            .map_err(ExperimentError::system(
                "a rank has not noted what it measured",
            ))
    }

    /// Empties the folder `KEPT`.
    ///
    /// # Errors
    /// Of the system.
    pub fn forget(&self) -> Result<(), ExperimentError> {
        self.empty("kept")
    }

    fn empty(&self, name: &str) -> Result<(), ExperimentError> {
        let path = self.path(name);
        fs::remove_dir_all(&path)
            .and_then(|()| fs::create_dir(&path))
            .map_err(ExperimentError::system("cannot empty a folder of jobs"))
    }
}

/// The part of the launcher's file that is of use here.
#[derive(Default, Deserialize)]
struct Statistics {
    recoveries: Vec<Recovery>,
}

fn failed(job: &Job, problem: String, err: &str) -> ExperimentError {
    let mut from = err.len().saturating_sub(SAID_BYTES_MAX);
    while !err.is_char_boundary(from) {
        from += 1;
    }
    ExperimentError::Job {
        job: job.to_string(),
        problem,
        said: format!("it said: {}", err[from..].trim_end()),
    }
}

/// Of all processes that were children of this one, with theirs, and have ended.
fn children_cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat).unwrap_or(0) as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// From proc_pid_stat(5): cutime and cstime.
fn children_ticks(stat: &str) -> Option<u64> {
    // The name may have spaces and brackets; it is over with the last bracket.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_shown_as_it_is_typed() {
        let job = Job::new(3, "--protocol  none", "ring --record RECORD");
        assert_eq!(
            job.to_string(),
            "refrain run -n 3 --protocol none -- refrain-workload ring --record RECORD"
        );
    }

    #[test]
    fn times_of_children_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 0 0 11 12 130 14 20 0 1 0 5 6 7";
        assert_eq!(children_ticks(stat), Some(144));
        assert_eq!(children_ticks(""), None);
    }

    #[test]
    fn a_job_with_another_line_or_status_has_failed() {
        let ended = |status, out: &str| Ended {
            status,
            out: out.into(),
            ..Ended::default()
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
        let err = format!("{}ä end", "ä".repeat(SAID_BYTES_MAX));
        let ExperimentError::Job { said, .. } = failed(&Job::default(), "p".into(), &err) else {
            panic!("another error");
        };
        assert!(said.ends_with("ä end") && said.len() < SAID_BYTES_MAX + 20);
    }
}
