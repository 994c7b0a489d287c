//! What can be wrong with a job, and what is kept of it.

use super::job::Job;
use super::launched::{Ended, Place};
use super::residue;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

/// A launcher has a few megabytes, whatever happens.
const LAUNCHER_BYTES_MAX: u64 = 64 << 20;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Already without any fault.
    WithoutFaults,
    /// It did not end.
    Hung,
    /// It ended with this status; `None`: it was killed.
    Status(Option<i32>),
    /// It printed something else than this.
    Line(String),
    /// Its launcher had so much memory.
    LauncherMemory(u64),
    /// These files are left.
    Files(Vec<String>),
    /// These processes are left.
    Processes(Vec<String>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutFaults => write!(f, "it fails without any fault"),
            Self::Hung => write!(f, "it did not end"),
            Self::Status(Some(status)) => write!(f, "it ended with status {status}"),
            Self::Status(None) => write!(f, "its launcher was killed"),
            Self::Line(expected) => write!(f, "it did not print: {}", expected.trim_end()),
            Self::LauncherMemory(bytes) => {
                write!(f, "its launcher had {} MiB", bytes >> 20)
            }
            Self::Files(files) => write!(f, "it left the files {files:?}"),
            Self::Processes(processes) => write!(f, "it left the processes {processes:?}"),
        }
    }
}

impl Failure {
    /// What is wrong with a job that had to print this.
    pub fn of(ended: &Ended, expected: &str, place: &Place) -> Option<Self> {
        if ended.hung.is_some() {
            return Some(Self::Hung);
        }
        if ended.status != Some(0) {
            return Some(Self::Status(ended.status));
        }
        if ended.out != expected {
            return Some(Self::Line(expected.to_owned()));
        }
        if ended.launcher_bytes > LAUNCHER_BYTES_MAX {
            return Some(Self::LauncherMemory(ended.launcher_bytes));
        }
        let mut files = residue::files(&place.temporary());
        files.extend(residue::files(&place.spilled()));
        if !files.is_empty() {
            return Some(Self::Files(files));
        }
        let processes = residue::processes(&place.mark());
        (!processes.is_empty()).then_some(Self::Processes(processes))
    }
}

/// The folder that the outputs of failures are kept in, once there is one.
#[derive(Debug, Default)]
pub struct Kept(Option<PathBuf>);

impl Kept {
    /// Keeps what a job printed and left, and tells how to see it again.
    ///
    /// # Errors
    /// When there is no folder for it.
    pub fn keep(
        &mut self,
        place: &Place,
        job: &Job,
        number: u64,
        failure: &Failure,
        ended: &Ended,
    ) -> io::Result<()> {
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
        fs::write(folder.join("out"), &ended.out)?;
        fs::write(folder.join("err"), &ended.err)?;
        if let Some(stacks) = &ended.hung {
            fs::write(folder.join("stacks"), stacks)?;
        }
        for (left, name) in [
            (place.temporary(), "temporary"),
            (place.spilled(), "spilled"),
        ] {
            fs::rename(&left, folder.join(name))?;
            fs::create_dir(left)?;
        }
        println!("soak: job {number} failed: {failure}");
        println!("  to see it again: {job}");
        println!("  kept: {}", folder.display());
        Ok(())
    }
}
