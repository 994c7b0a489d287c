//! Checks jobs that have ended, and keeps the output of failures.

use super::residue;
use crate::error::BenchError;
use crate::job::{Ended, Job, JobFolder};
use std::fs;
use std::path::PathBuf;

/// Maximum memory of a launcher: it needs a few megabytes.
const LAUNCHER_BYTES_MAX: u64 = 64 << 20;
/// Folders that must be empty between jobs.
const FOLDERS: [&str; 2] = ["temporary", "spilled"];

/// A job that has ended, and observations of its launcher.
#[derive(Debug)]
pub struct Watched {
    pub ended: Ended,
    /// The stacks of the job's processes, if the job did not end by itself and was ended.
    pub hung: Option<String>,
    /// Maximum of the launcher's memory that was observed.
    pub launcher_bytes: u64,
}

impl Watched {
    /// The first failed check of a job that had to print this line at its end.
    pub fn failure(&self, expected: &str, folder: &JobFolder) -> Option<String> {
        let Ended { status, out, .. } = &self.ended;
        if self.hung.is_some() {
            return Some("it did not end".into());
        }
        match status {
            Some(0) => {}
            Some(status) => return Some(format!("it ended with status {status}")),
            None => return Some("its launcher was killed".into()),
        }
        if out != expected {
            return Some(format!("it did not print: {}", expected.trim_end()));
        }
        self.leftover(folder)
    }

    /// The first failed check of a job that had to end with the error that these ranks are gone
    /// at once. TICKET-4
    pub fn failure_of_gone(&self, one: u32, other: u32, folder: &JobFolder) -> Option<String> {
        let error = format!("ranks {one} and {other} are gone at once");
        let Ended { status, err, .. } = &self.ended;
        match status {
            _ if self.hung.is_some() => Some("it did not end".into()),
            None => Some("its launcher was killed".into()),
            Some(1) if err.contains(&error) => self.leftover(folder),
            Some(status) => Some(format!(
                "it ended with status {status}, and had to say: {error}"
            )),
        }
    }

    /// What the job used or left, and should not have.
    fn leftover(&self, folder: &JobFolder) -> Option<String> {
        if self.launcher_bytes > LAUNCHER_BYTES_MAX {
            let mib = self.launcher_bytes >> 20;
            return Some(format!("its launcher had {mib} MiB"));
        }
        let files: Vec<String> = (FOLDERS.iter())
            .flat_map(|name| residue::files(&folder.path(name)))
            .collect();
        if !files.is_empty() {
            return Some(format!("it left the files {files:?}"));
        }
        let processes = residue::processes(&folder.mark());
        (!processes.is_empty()).then(|| format!("it left the processes {processes:?}"))
    }
}

/// The folder for the outputs of failures; created with the first failure.
#[derive(Debug, Default)]
pub struct Kept(Option<PathBuf>);

impl Kept {
    /// Keeps the output and leftovers of a job, and prints how to run it again.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn keep(
        &mut self,
        jobs: &JobFolder,
        job: &Job,
        number: u64,
        failure: &str,
        watched: &Watched,
    ) -> Result<(), BenchError> {
        let kept = (|| {
            let folder = match &self.0 {
                Some(folder) => folder.clone(),
                None => tempfile::Builder::new()
                    .prefix("refrain-soak-failures-")
                    .tempdir()?
                    .keep(),
            };
            self.0 = Some(folder.clone());
            let folder = folder.join(number.to_string());
            fs::create_dir(&folder)?;
            fs::write(folder.join("command"), format!("{job}\n"))?;
            fs::write(folder.join("out"), &watched.ended.out)?;
            fs::write(folder.join("err"), &watched.ended.err)?;
            if let Some(stacks) = &watched.hung {
                fs::write(folder.join("stacks"), stacks)?;
            }
            for name in FOLDERS {
                fs::rename(jobs.path(name), folder.join(name))?;
            }
            Ok::<_, std::io::Error>(folder)
        })();
        let folder = kept.map_err(BenchError::system("cannot keep the output of a job"))?;
        FOLDERS.iter().try_for_each(|name| jobs.empty(name))?;
        println!("soak: job {number} failed: {failure}");
        println!("  to repeat it: {job}");
        println!("  kept: {}", folder.display());
        Ok(())
    }
}
