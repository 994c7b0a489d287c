//! Runs one job and looks at its launcher meanwhile.

use super::job::Job;
use super::{residue, stacks};
use crate::launched_job;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between two looks at the launcher.
const LOOK: Duration = Duration::from_millis(2);

/// Where jobs run.
pub struct Place {
    folder: TempDir,
    patience: Duration,
}

/// What came of a job.
#[derive(Debug, Default)]
pub struct Ended {
    /// `None`: it was killed.
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
    /// It did not end, and was ended. What its processes were doing.
    pub hung: Option<String>,
    /// The most that its launcher was seen to have.
    pub launcher_bytes: u64,
}

impl Ended {
    /// How many ranks died.
    pub fn deaths(&self) -> usize {
        self.err
            .matches("was killed by SIGKILL (incarnation")
            .count()
    }
}

impl Place {
    /// # Errors
    /// When there is no folder for it.
    pub fn new(patience: Duration) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("refrain-soak-").tempdir()?;
        let place = Self { folder, patience };
        fs::create_dir(place.temporary())?;
        fs::create_dir(place.spilled())?;
        Ok(place)
    }

    /// The folder for temporary files of jobs: empty between them.
    pub fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    /// The folder for their logs: empty between them.
    pub fn spilled(&self) -> PathBuf {
        self.folder.path().join("spilled")
    }

    /// What the processes of jobs carry in their environment.
    pub fn mark(&self) -> String {
        format!("{}={}", launched_job::MARK, self.folder.path().display())
    }

    /// # Errors
    /// When it cannot be started or watched.
    pub fn run(&self, job: &Job) -> io::Result<Ended> {
        let (out, err) = (
            self.folder.path().join("out"),
            self.folder.path().join("err"),
        );
        let mut options = job.options.clone();
        if job.spills {
            options.push(format!("--spill-dir={}", self.spilled().display()));
        }
        let places = (self.folder.path(), &*self.temporary());
        let mut child = launched_job::command(job.ranks, &options, &job.workload, places)?
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()?;
        let mut ended = self.watch(&mut child)?;
        let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (ended.out, ended.err) = (read(out)?, read(err)?);
        Ok(ended)
    }

    fn watch(&self, child: &mut Child) -> io::Result<Ended> {
        let begin = Instant::now();
        let mut ended = Ended::default();
        loop {
            if let Some(status) = child.try_wait()? {
                ended.status = status.code();
                return Ok(ended);
            }
            let bytes = residue::resident_bytes(child.id()).unwrap_or(0);
            ended.launcher_bytes = ended.launcher_bytes.max(bytes);
            if begin.elapsed() > self.patience && ended.hung.is_none() {
                ended.hung = Some(stacks::of_processes(&self.mark()));
                let id = rustix::process::Pid::from_child(child);
                rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
            }
            std::thread::sleep(LOOK);
        }
    }
}
