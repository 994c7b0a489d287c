//! The folders of a job's event loggers: of their files, and of the rings that ranks
//! write into where those lie elsewhere.

use crate::leftovers;
use refrain_job::JobError;
use refrain_job::choice::events::{WayChoice, way};
use refrain_job::choice::verbs;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A file system in memory that Linux has everywhere. Devices of verbs write into no
/// other: the kernel does not let them hold pages of files on a disk.
const MEMORY: &str = "/dev/shm";

/// A folder of a job. Dropping it removes it, unless it is to be kept.
#[derive(Debug)]
pub struct Directory {
    pub path: PathBuf,
    is_kept: bool,
    /// GatedLines by this process: what is not locked by anybody is left over.
    lock: Option<File>,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            let path = self.path.display();
            report(format_args!("{path} cannot be removed: {error}"));
        }
    }
}

impl Directory {
    /// For the loggers' files: the folder of `--event-dir`, which is kept, or one for
    /// temporary files.
    pub fn of_files(asked: Option<&Path>, job: u64) -> Result<Self, JobError> {
        let directory = match asked {
            Some(path) => Self {
                path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
                is_kept: true,
                lock: None,
            },
            None => Self::temporary(&std::env::temp_dir(), job, leftovers::EVENTS_SUFFIX)?,
        };
        // The folder for temporary files is not Refrain's to make.
        directory.make(directory.is_kept).map_err(|error| {
            JobError::Config(format!(
                "the event loggers' folder {} cannot be created: {error}: name one with --event-dir",
                directory.path.display()
            ))
        })?;
        Ok(directory)
    }

    /// For the loggers' rings: in the folder of `--event-rings`, else in memory where
    /// ranks commit by verbs. `None`: they lie beside the files.
    pub fn of_rings(
        asked: Option<&Path>,
        config: &JobConfig,
        job: u64,
    ) -> Result<Option<Self>, JobError> {
        let Some(parent) = parent_of_rings(asked, config)? else {
            return Ok(None);
        };
        if asked.is_some() {
            // Of jobs that were killed: who starts a job looks in other folders.
            leftovers::remove(std::slice::from_ref(&parent));
        }
        let mut directory = Self::temporary(&parent, job, leftovers::RINGS_SUFFIX)?;
        // Loggers lock the folders of their files, not those of their rings.
        let made = directory.make(false);
        let locked = made.and_then(|()| leftovers::lock(&directory.path));
        let lock = locked.map_err(|error| {
            JobError::Config(format!(
                "the folder {} of the event loggers' rings cannot be created: {error}: name one with --event-rings, in memory for verbs",
                directory.path.display()
            ))
        })?;
        directory.lock = Some(lock);
        Ok(Some(directory))
    }

    fn temporary(parent: &Path, job: u64, suffix: &str) -> Result<Self, JobError> {
        let launcher = leftovers::file_prefix(std::process::id()).ok_or_else(|| {
            JobError::Config(
                "/proc is missing, which names of the event loggers' folders need: mount it".into(),
            )
        })?;
        Ok(Self {
            path: parent.join(format!("{launcher}{job:016x}{suffix}")),
            is_kept: false,
            lock: None,
        })
    }

    fn make(&self, with_parents: bool) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(with_parents).mode(0o700);
        builder.create(&self.path)
    }
}

/// Where the folder of rings is to be made, if anywhere.
fn parent_of_rings(asked: Option<&Path>, config: &JobConfig) -> Result<Option<PathBuf>, JobError> {
    if let Some(path) = asked {
        return match path.canonicalize() {
            Ok(path) => Ok(Some(path)),
            Err(error) => Err(JobError::Config(format!(
                "--event-rings {}: {error}: create the folder",
                path.display()
            ))),
        };
    }
    Ok(match way(&config.events.way)? {
        WayChoice::Provider(provider) => verbs::is_under(&provider).then(|| MEMORY.into()),
        WayChoice::Auto | WayChoice::Fixed(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_in_memory_for_verbs_and_where_the_user_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().canonicalize().expect("it is there");
        let mut config = JobConfig::default();
        for (way, memory) in [
            ("auto", None),
            ("shm", None),
            ("messages", None),
            ("ofi:tcp;ofi_rxm", None),
            ("verbs", Some(MEMORY.into())),
            ("ofi:verbs;ofi_rxm", Some(MEMORY.into())),
        ] {
            config.events.way = way.into();
            let of = |asked| parent_of_rings(asked, &config).expect("a way");
            assert_eq!(of(None), memory, "{way}");
            assert_eq!(of(Some(folder.path())), Some(own.clone()), "{way}");
        }
        let error = parent_of_rings(Some(Path::new("/no/such")), &config).expect_err("missing");
        assert!(error.to_string().contains("--event-rings"), "{error}");
    }

    /// `refrain clean` in another container does not see this process.
    #[test]
    fn rings_are_gone_with_the_job_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = JobConfig::default();
        let rings = Directory::of_rings(Some(folder.path()), &config, 7).expect("made");
        let rings = rings.expect("asked for");
        let foreign = folder.path().join("refrain-4194305-1-2-rings");
        fs::rename(&rings.path, &foreign).expect("the same folder");
        leftovers::remove(&[folder.path().to_owned()]);
        assert!(foreign.exists(), "it is locked");
        fs::rename(&foreign, &rings.path).expect("the same folder");
        let path = rings.path.clone();
        drop(rings);
        assert!(!path.exists());
        fs::create_dir(&foreign).expect("a new folder");
        File::create(foreign.join(leftovers::LOCK)).expect("a new file");
        leftovers::remove(&[folder.path().to_owned()]);
        assert!(!foreign.exists(), "it is not locked any more");
    }
}
