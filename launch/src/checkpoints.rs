//! The place for a job's checkpoints: found or made before the ranks start, emptied
//! when the job is over.

use crate::leftovers;
use refrain_checkpoint::{JobName, Place, Store};
use refrain_job::JobError;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Checkpoints of a job. Dropping it removes them: they are of no use to another
/// job.
#[derive(Debug, Default)]
pub struct CheckpointPlace {
    store: Option<Store>,
    /// A folder that was made for this job alone, and its lock: whoever cleans up
    /// elsewhere may not know this process.
    made: Option<(PathBuf, File)>,
}

impl CheckpointPlace {
    /// Finds or makes the place, and fills the settings in.
    ///
    /// # Errors
    /// When there is none.
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
        let launcher = leftovers::file_prefix(std::process::id()).ok_or_else(|| {
            JobError::Config("/proc is missing, which names of checkpoints need: mount it".into())
        })?;
        recovery.checkpoint_prefix = format!("{launcher}{job:016x}-");
        // Dropped where anything fails below.
        let mut prepared = Self::default();
        let place = match &recovery.checkpoint_dir {
            Some(text) => absolute(text)?,
            None => {
                let name = format!("{launcher}{job:016x}{}", leftovers::CHECKPOINTS_SUFFIX);
                let path = std::env::temp_dir().join(name);
                prepared.made = Some((path.clone(), make(&path)?));
                Place::Folder(path)
            }
        };
        recovery.checkpoint_dir = Some(text_of(&place)?);
        let name = JobName::new(job, recovery.checkpoint_prefix.clone());
        let wrong = |error| JobError::Config(format!("--checkpoint-dir: {error}"));
        let store = name.and_then(|name| Store::open(&place, name));
        let store = store.map_err(wrong)?;
        // Before there are ranks, and not at their first checkpoint.
        store.reach().map_err(wrong)?;
        prepared.store = Some(store);
        Ok(prepared)
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
        if let Some((path, _)) = &self.made {
            // What cannot be removed is for `refrain clean`.
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn absolute(text: &str) -> Result<Place, JobError> {
    let wrong = |error: &dyn core::fmt::Display| {
        JobError::Config(format!("--checkpoint-dir {}: {error}", shown(text)))
    };
    match text.parse().map_err(|error| wrong(&error))? {
        Place::Folder(path) => {
            let path = path
                .canonicalize()
                .map_err(|error| wrong(&format!("{error}: create the folder")))?;
            Ok(Place::Folder(path))
        }
        server => Ok(server),
    }
}

/// A place for eyes: an address without its secret.
fn shown(text: &str) -> String {
    let parsed: Result<Place, _> = text.parse();
    parsed.map_or_else(|error| error.text, |place| place.to_string())
}

/// Makes the folder, and locks it.
fn make(path: &Path) -> Result<File, JobError> {
    let made = fs::DirBuilder::new().mode(0o700).create(path);
    let lock = |()| {
        leftovers::lock(path).inspect_err(|_| {
            // It is empty; if it stays, it is for `refrain clean`.
            let _ = fs::remove_dir_all(path);
        })
    };
    made.and_then(lock).map_err(|error| {
        JobError::Config(format!(
            "the checkpoint folder {} cannot be created: {error}: name one with --checkpoint-dir",
            path.display()
        ))
    })
}

fn text_of(place: &Place) -> Result<String, JobError> {
    match place {
        Place::Folder(path) => path.to_str().map(str::to_owned).ok_or_else(|| {
            JobError::Config(format!("--checkpoint-dir {}: not UTF-8", path.display()))
        }),
        Place::Server(address) => Ok(address.to_secret_text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    /// Whoever cleans up in another container does not know this process, and the
    /// folder may be old.
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
        assert!(!foreign.exists(), "nobody locks it");
    }
}
