//! Jobs of this executable, for measurements that run many jobs.

use crate::error::BenchError;
use crate::machine::readable;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Environment variable in all processes of these jobs, with the folder of the jobs.
const MARK: &str = "REFRAIN_SOAK";

/// A job to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Job {
    pub ranks: u32,
    /// Options of `refrain run`, without the number of ranks.
    pub options: Vec<String>,
    /// Arguments of `refrain-workload`.
    pub workload: Vec<String>,
}

impl Job {
    /// A job from command lines. The name of a subfolder of [`JobFolder`], in capitals, stands for
    /// its path. The log stays in memory unless the options name a folder.
    pub fn new(ranks: u32, options: &str, workload: &str) -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let mut options: Vec<String> = words(options);
        let is_given = |name: &str| options.iter().any(|option| option == name);
        let logs = !options
            .windows(2)
            .any(|pair| pair == ["--protocol", "none"]);
        if logs && !is_given("--spill-dir") && !is_given("--log-disk") {
            options.extend(["--log-disk", "0"].map(str::to_owned));
        }
        Self {
            ranks,
            options,
            workload: words(workload),
        }
    }
}

/// The job as a command line, with the names of subfolders.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refrain run -n {}", self.ranks)?;
        for option in &self.options {
            match option.contains(';') {
                true => write!(f, " '{option}'")?,
                false => write!(f, " {option}")?,
            }
        }
        write!(f, " -- refrain-workload {}", self.workload.join(" "))
    }
}

/// The result of a job.
#[derive(Debug, Default)]
pub struct Ended {
    /// Exit status; `None`: the launcher was killed.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
    /// Time in seconds from its start until the launcher had ended.
    pub wall_s: f64,
}

/// The folder in which jobs run. Dropping it removes it.
#[derive(Debug)]
pub struct JobFolder {
    folder: TempDir,
    names: &'static [&'static str],
}

impl JobFolder {
    /// A folder with a subfolder for temporary files and subfolders with the given names.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(prefix: &str, names: &'static [&'static str]) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir();
        let folder = folder.map_err(BenchError::system("cannot make a folder for jobs"))?;
        let folder = Self { folder, names };
        for name in names.iter().chain(&["temporary"]) {
            folder.empty(name)?;
        }
        Ok(folder)
    }

    /// Path of a file or subfolder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The content of a file; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Creates a subfolder, or empties it.
    ///
    /// # Errors
    /// A system call fails.
    pub fn empty(&self, name: &str) -> Result<(), BenchError> {
        let path = self.path(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(BenchError::system("cannot empty a folder of jobs"))
    }

    /// The environment variable of all processes of these jobs, as NAME=VALUE.
    pub fn mark(&self) -> String {
        format!("{MARK}={}", self.folder.path().display())
    }

    /// Runs a job. Calls `watch` with the launcher's process after every `look`.
    ///
    /// # Errors
    /// When the job cannot be started or watched.
    pub fn run(
        &self,
        job: &Job,
        look: Duration,
        mut watch: impl FnMut(Pid),
    ) -> Result<Ended, BenchError> {
        let begin = Instant::now();
        let cannot = |what| BenchError::system(format!("cannot {what} a job"));
        let mut command = self.command(job).map_err(cannot("prepare"))?;
        let mut launcher = command.spawn().map_err(cannot("start"))?;
        let process = Pid::from_child(&launcher);
        let end = pidfd_open(process, PidfdFlags::empty()).map_err(Into::into);
        let end = end.map_err(cannot("watch"))?;
        let status = loop {
            readable(&end, look).map_err(cannot("watch"))?;
            if let Some(status) = launcher.try_wait().map_err(cannot("watch"))? {
                break status;
            }
            watch(process);
        };
        Ok(Ended {
            status: status.code(),
            out: self.text("out"),
            err: self.text("err"),
            wall_s: begin.elapsed().as_secs_f64(),
        })
    }

    fn command(&self, job: &Job) -> std::io::Result<Command> {
        let word = |word: &String| {
            let folder = self.names.iter().find(|name| name.to_uppercase() == *word);
            folder.map_or(word.into(), |name| self.path(name).into_os_string())
        };
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["run", "--no-prefix", "-n", &job.ranks.to_string()])
            .args(job.options.iter().map(word))
            .args(["--", "refrain-workload"])
            .args(job.workload.iter().map(word))
            .env("TMPDIR", self.path("temporary"))
            .env(MARK, self.folder.path())
            .stdin(Stdio::null())
            .stdout(File::create(self.path("out"))?)
            .stderr(File::create(self.path("err"))?);
        Ok(command)
    }
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
}
