//! The jobs of a server, with a view of the disk for each.

use crate::disk::Disk;
use crate::folder::Folder;
use crate::message::Refusal;
use crate::store::contract::JobName;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The jobs that a server knows, by prefix.
pub struct Jobs {
    disk: Disk,
    known: Mutex<BTreeMap<String, Known>>,
}

struct Known {
    id: u64,
    folder: Arc<Folder>,
}

impl Jobs {
    /// No jobs yet; their checkpoints are on `disk`.
    pub fn new(disk: impl Into<Disk>) -> Self {
        Self {
            disk: disk.into(),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of a job; all its sessions share it.
    pub(super) fn folder_of(&self, job: &JobName) -> Result<Arc<Folder>, Refusal> {
        let mut jobs = self.known();
        let known = jobs.entry(job.prefix.clone()).or_insert_with(|| Known {
            id: job.id,
            folder: Arc::new(Folder::new(self.disk.clone(), job.clone())),
        });
        match known.id == job.id {
            true => Ok(known.folder.clone()),
            false => Err(Refusal::Other(format!(
                "files with the prefix {:?} belong to another job: choose another prefix",
                job.prefix
            ))),
        }
    }

    /// Forgets a job whose files are removed.
    pub(super) fn forget(&self, job: &JobName) {
        self.known().remove(&job.prefix);
    }
}
