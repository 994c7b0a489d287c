//! The store of a job's checkpoints: opened or created before the ranks start, emptied when the
//! job is over.

use crate::job_folder::{self, JobFolder};
use crate::leftovers;
use refrain_checkpoint::{CheckpointStoreSpec, JobName, Store};
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;

/// The store of a job's checkpoints. Dropping it removes them: another job cannot use them.
#[derive(Debug, Default)]
pub struct CheckpointPlace {
    store: Option<Store>,
    /// The folder, if it was created for this job alone.
    _made: Option<JobFolder>,
}

impl CheckpointPlace {
    /// Opens or creates the store, and fills in the settings.
    ///
    /// # Errors
    /// The store cannot be opened or created.
    pub fn prepare(config: &mut JobConfig, job: u64) -> Result<Self, JobError> {
        let recovery = &mut config.recovery;
        if recovery.max_restarts == 0 {
            return match &recovery.checkpoint_dir {
                Some(dir) => Err(JobError::Config(format!(
                    "--checkpoint-dir {} has no effect without restarts: choose a logging --protocol and --max-restarts above 0",
                    shown(dir)
                ))),
                None => Ok(Self::default()),
            };
        }
        // The agent that takes the ranks of a lost host continues with that host's checkpoints.
        if recovery.checkpoint_prefix.is_empty() {
            recovery.checkpoint_prefix = job_folder::prefix(job)? + "-";
        }
        let (place, made) = match &recovery.checkpoint_dir {
            Some(text) => (absolute(text)?, None),
            None => {
                let (parent, suffix) = (std::env::temp_dir(), leftovers::CHECKPOINTS_SUFFIX);
                let names = ("checkpoints", "--checkpoint-dir");
                let folder = JobFolder::temporary(&parent, job, suffix, names)?;
                (
                    CheckpointStoreSpec::Folder(folder.path.clone()),
                    Some(folder),
                )
            }
        };
        recovery.checkpoint_dir = Some(text_of(&place)?);
        let name = JobName::new(job, recovery.checkpoint_prefix.clone());
        let wrong = |error| JobError::Config(format!("--checkpoint-dir: {error}"));
        let store = name.and_then(|name| Store::open(&place, name));
        let store = store.map_err(wrong)?;
        // Errors show before ranks exist, not at their first checkpoint.
        store.reach().map_err(wrong)?;
        Ok(Self {
            // Those of a job with a folder are for its later runs, too. JOB-3
            store: recovery.job_dir.is_none().then_some(store),
            _made: made,
        })
    }
}

impl CheckpointPlace {
    /// Leaves the checkpoints where they are, unless their folder was created for this host alone.
    pub fn leave(&mut self) {
        self.store = None;
    }
}

impl Drop for CheckpointPlace {
    fn drop(&mut self) {
        if let Some(store) = &self.store
            && let Err(error) = store.remove_all()
        {
            report(format_args!(
                "checkpoints of the job cannot be removed: {error}"
            ));
        }
    }
}

fn absolute(text: &str) -> Result<CheckpointStoreSpec, JobError> {
    match text.parse() {
        Ok(CheckpointStoreSpec::Folder(path)) => {
            job_folder::existing("--checkpoint-dir", &path).map(CheckpointStoreSpec::Folder)
        }
        Ok(server) => Ok(server),
        Err(error) => Err(JobError::Config(format!(
            "--checkpoint-dir {}: {error}",
            shown(text)
        ))),
    }
}

/// A store as messages show it: an address without its secret.
fn shown(text: &str) -> String {
    let parsed: Result<CheckpointStoreSpec, _> = text.parse();
    parsed.map_or_else(|error| error.text, |place| place.to_string())
}

fn text_of(place: &CheckpointStoreSpec) -> Result<String, JobError> {
    match place {
        CheckpointStoreSpec::Folder(path) => path.to_str().map(str::to_owned).ok_or_else(|| {
            JobError::Config(format!("--checkpoint-dir {}: not UTF-8", path.display()))
        }),
        CheckpointStoreSpec::Server(address) => Ok(address.to_secret_text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    /// `refrain clean` in another container does not see this process, and the folder may
    /// be old.
    #[test]
    fn checkpoints_are_gone_with_the_job_and_not_before() {
        let mut config = JobConfig::default();
        config.recovery.max_restarts = 1;
        let place = CheckpointPlace::prepare(&mut config, 7).expect("made");
        let own = PathBuf::from(config.recovery.checkpoint_dir.expect("filled in"));
        let folder = tempfile::tempdir().expect("a folder");
        let foreign = folder.path().join("refrain-4194305-1-2-checkpoints");
        fs::rename(&own, &foreign).expect("the same file system");
        let old = |path: &Path| {
            let opened = File::open(path).expect("it is there");
            opened.set_modified(SystemTime::UNIX_EPOCH).expect("ours");
        };
        old(&foreign);
        leftovers::remove(&[folder.path().to_owned()]);
        assert!(foreign.exists(), "it is locked");
        fs::rename(&foreign, &own).expect("the same file system");
        drop(place);
        assert!(!own.exists());
        fs::create_dir(&foreign).expect("a new folder");
        old(&foreign);
        leftovers::remove(&[folder.path().to_owned()]);
        assert!(!foreign.exists(), "it is not locked");
    }
}
