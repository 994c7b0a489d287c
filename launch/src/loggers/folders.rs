//! The folders of a job's event loggers: of their files, and of the rings that ranks write into if
//! the rings are elsewhere.

use crate::job_folder::{self, JobFolder};
use crate::leftovers;
use refrain_job::JobError;
use refrain_job::choice::events::{CommitPathChoice, commit_path};
use refrain_job::choice::verbs;
use refrain_job::config::JobConfig;
use rustix::fs::FlockOperation;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A file system in memory that every Linux has. Verbs devices can write into no other: the kernel
/// does not pin pages of files on a disk for them.
const MEMORY: &str = "/dev/shm";

/// Longest wait for a logger of an earlier run on this host.
const EARLIER_MAX: Duration = Duration::from_secs(10);
/// Longest wait where its agent may still wait for a launcher that is gone: 30 s.
pub const EARLIER_OF_AGENT_MAX: Duration = Duration::from_secs(45);
/// Time between two looks for its end.
pub const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The folder of the loggers' files: that of `--event-dir`, which is kept, or a temporary one.
pub fn of_files(asked: Option<&Path>, job: u64) -> Result<JobFolder, JobError> {
    let Some(path) = asked else {
        let (parent, suffix) = (std::env::temp_dir(), leftovers::EVENTS_SUFFIX);
        return JobFolder::temporary(&parent, job, suffix, ("event loggers", "--event-dir"));
    };
    JobFolder::kept(path).map_err(|error| {
        let path = path.display();
        JobError::Config(format!("--event-dir {path}: cannot be created: {error}"))
    })
}

/// The folder of the loggers' rings: in the folder of `--event-rings`, else in memory if ranks
/// commit by verbs. `None`: the rings are with the files.
pub fn of_rings(
    asked: Option<&Path>,
    config: &JobConfig,
    job: u64,
) -> Result<Option<JobFolder>, JobError> {
    let Some(parent) = parent_of_rings(asked, config)? else {
        return Ok(None);
    };
    if asked.is_some() {
        // Removes leftovers of killed jobs: the launcher does not search this folder otherwise.
        leftovers::remove(std::slice::from_ref(&parent));
    }
    let names = (
        "the event loggers' rings",
        "--event-rings, in memory for verbs",
    );
    JobFolder::temporary(&parent, job, leftovers::RINGS_SUFFIX, names).map(Some)
}

/// Whether a logger of an earlier run of the job still uses its folder.
///
/// # Errors
/// Its files are missing.
pub fn earlier_logger_runs(folder: &Path) -> Result<bool, JobError> {
    let lock = File::open(folder.join(leftovers::LOCK)).map_err(|error| {
        JobError::Config(format!(
            "{}: the files of an event logger of the job's earlier run are missing: {error}",
            folder.display()
        ))
    })?;
    Ok(rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// The error after a wait for such a logger.
pub fn earlier_logger_stays(folder: &Path, waited: Duration) -> JobError {
    JobError::Config(format!(
        "{}: an event logger of the job's earlier run still uses these files after {} s: end it (refrain eventlogger, on the host of that run), and start the job again",
        folder.display(),
        waited.as_secs()
    ))
}

/// Waits for the end of a logger of an earlier run of the job: it is killed with its launcher, a moment
/// later.
pub fn await_earlier_logger(folder: &Path) -> Result<(), JobError> {
    let give_up_at = Instant::now() + EARLIER_MAX;
    while earlier_logger_runs(folder)? {
        if Instant::now() >= give_up_at {
            return Err(earlier_logger_stays(folder, EARLIER_MAX));
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Parent of the folder of rings. `None`: the rings are with the files.
fn parent_of_rings(asked: Option<&Path>, config: &JobConfig) -> Result<Option<PathBuf>, JobError> {
    if let Some(path) = asked {
        return job_folder::existing("--event-rings", path).map(Some);
    }
    Ok(match commit_path(&config.events.way)? {
        CommitPathChoice::Provider(provider) => verbs::is_under(&provider).then(|| MEMORY.into()),
        CommitPathChoice::Auto | CommitPathChoice::Fixed(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn rings_are_in_memory_for_verbs_and_where_the_user_wants() {
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

    #[test]
    fn a_logger_of_an_earlier_run_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = earlier_logger_runs(folder.path()).expect_err("no logger was there");
        assert!(missing.to_string().contains("are missing"), "{missing}");
        let own = File::create(folder.path().join(leftovers::LOCK)).expect("a new file");
        rustix::fs::flock(&own, FlockOperation::LockExclusive).expect("not locked");
        assert!(earlier_logger_runs(folder.path()).expect("it is there"));
        drop(own);
        assert!(!earlier_logger_runs(folder.path()).expect("it is there"));
    }

    /// `refrain clean` in another container does not see this process.
    #[test]
    fn rings_are_gone_with_the_job_and_not_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = JobConfig::default();
        let rings = of_rings(Some(folder.path()), &config, 7).expect("made");
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
