//! The files that a job's ranks have spilled their logs to: the launcher removes
//! them, as ranks may be killed.

use crate::config::JobConfig;
use crate::leftovers;
use std::path::PathBuf;

/// Removes the files when it is dropped, unless the job keeps them.
#[derive(Debug, Default)]
pub(super) struct SpilledFiles {
    of: Option<(PathBuf, String)>,
}

impl SpilledFiles {
    pub(super) fn of(config: &JobConfig) -> Self {
        let directory = config.spill_dir.as_ref().filter(|_| !config.keep_log);
        Self {
            of: directory.map(|directory| (directory.into(), config.spill_prefix.clone())),
        }
    }
}

impl Drop for SpilledFiles {
    fn drop(&mut self) {
        if let Some((directory, prefix)) = &self.of {
            let removal = leftovers::remove_with_prefix(directory, prefix);
            for (path, error) in removal.failed {
                eprintln!("refrain: {} cannot be removed: {error}", path.display());
            }
        }
    }
}
