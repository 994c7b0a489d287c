//! Jobs of this very executable, for measurements that run many of them.

use crate::error::BenchError;
use crate::machine::readable;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// In the environment of all processes of such jobs: the folder that they belong to.
const MARK: &str = "REFRAIN_SOAK";

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Job {
    pub ranks: u32,
    /// Of `refrain run`, besides the number of ranks.
    pub options: Vec<String>,
    /// Of `refrain-workload`.
    pub workload: Vec<String>,
}

impl Job {
    /// From command lines. The name of a folder of [`JobFolder`], in capitals, stands for
    /// its path.
    pub fn new(ranks: u32, options: &str, workload: &str) -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Self {
            ranks,
            options: words(options),
            workload: words(workload),
        }
    }
}

/// As a command line, with the names of folders.
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
    /// `None`: it was killed.
    pub status: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
    /// From its start until its launcher was gone.
    pub wall_s: f64,
}

/// The folder in which jobs run, removed when dropped.
#[derive(Debug)]
pub struct JobFolder {
    folder: TempDir,
    names: &'static [&'static str],
}

impl JobFolder {
    /// A folder for temporary files, and the other ones of these names.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(prefix: &str, names: &'static [&'static str]) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir();
        let folder = folder.map_err(BenchError::system("cannot make a folder for jobs"))?;
        let folder = Self { folder, names };
        for name in names.iter().chain(&["temporary"]) {
            folder.empty(name)?;
        }
        Ok(folder)
    }

    /// A file or folder in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The content of a file; empty without one.
    pub fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Makes one of its folders, or makes it anew.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn empty(&self, name: &str) -> Result<(), BenchError> {
        let path = self.path(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(BenchError::system("cannot empty a folder of jobs"))
    }

    /// The variable in the environment of all processes of its jobs.
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
