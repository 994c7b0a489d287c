//! The files that a job's ranks have spilled their logs to: the launcher removes
//! them, as ranks may be killed.

use crate::leftovers;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use refrain_logging::segment;
use refrain_ring::{Incarnation, Rank};
use std::io;
use std::path::{Path, PathBuf};

/// Removes the files when it is dropped, unless the job keeps them.
#[derive(Debug)]
pub struct SpilledFiles {
    of: Option<(PathBuf, String)>,
    /// By rank: the first life whose files may be there.
    first_lives: Vec<u32>,
}

impl SpilledFiles {
    /// On this host nobody spills.
    pub fn none(ranks: usize) -> Self {
        Self {
            of: None,
            first_lives: vec![0; ranks],
        }
    }

    /// As the settings say.
    pub fn of(config: &JobConfig, ranks: usize) -> Self {
        let directory = config.spill_dir.as_ref().filter(|_| !config.keep_log);
        Self {
            of: directory.map(|directory| (directory.into(), config.spill_prefix.clone())),
            first_lives: vec![0; ranks],
        }
    }

    /// A life has caught up: it has in its own log what the lives before it had,
    /// and nobody reads theirs any more. Returns what is to be said. LOG-3
    pub fn caught_up(&mut self, rank: usize, incarnation: u32) -> Vec<String> {
        let first = std::mem::replace(&mut self.first_lives[rank], incarnation);
        let Some((directory, prefix)) = &self.of else {
            return Vec::new();
        };
        let source = Rank(rank as u32);
        let lives = (first..incarnation).map(Incarnation);
        let names = lives.map(|life| segment::name_of_life(source, life));
        names
            .flat_map(|name| remove(directory, &format!("{prefix}{name}")))
            .collect()
    }
}

/// Returns what is to be said of those that are still there.
fn remove(directory: &Path, prefix: &str) -> Vec<String> {
    let failed = leftovers::remove_with_prefix(directory, prefix).failed;
    let line = |(path, error): (PathBuf, io::Error)| {
        format!("{} cannot be removed: {error}", path.display())
    };
    failed.into_iter().map(line).collect()
}

impl Drop for SpilledFiles {
    fn drop(&mut self) {
        if let Some((directory, prefix)) = &self.of {
            remove(directory, prefix).iter().for_each(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Files of two lives of ranks 1 and 11, and of another job.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for prefix in ["refrain-7-8-", "refrain-7-9-"] {
            for life in ["r1i0", "r1i1", "r1i11", "r11i0"] {
                let name = format!("{prefix}{life}-to-r0-000000000000.log");
                std::fs::write(folder.path().join(name), "").expect("a new file");
            }
        }
        folder
    }

    fn spilled(folder: &Path, keep_log: bool) -> SpilledFiles {
        let config = JobConfig {
            spill_dir: Some(folder.to_str().expect("no odd name").into()),
            spill_prefix: "refrain-7-8-".into(),
            keep_log,
            ..JobConfig::default()
        };
        SpilledFiles::of(&config, 12)
    }

    fn lives(folder: &Path) -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).expect("it is there").flatten();
        let names = entries.map(|entry| entry.file_name().into_string().expect("UTF-8"));
        let life = |name: String| name.split("-to-").next().map(str::to_owned);
        names.filter_map(life).collect()
    }

    const OTHERS: [&str; 4] = [
        "refrain-7-9-r11i0",
        "refrain-7-9-r1i0",
        "refrain-7-9-r1i1",
        "refrain-7-9-r1i11",
    ];

    fn expect(folder: &Path, of_the_job: &[&str]) {
        let of_the_job = of_the_job.iter().map(|life| format!("refrain-7-8-{life}"));
        let others = OTHERS.map(str::to_owned);
        assert_eq!(
            lives(folder),
            others.into_iter().chain(of_the_job).collect()
        );
    }

    /// The earlier lives' files go when a life has caught up, nobody else's.
    // LOG-3
    #[test]
    fn a_life_that_caught_up_needs_no_files_of_earlier_ones() {
        let folder = folder();
        let mut spilled = spilled(folder.path(), false);
        assert!(spilled.caught_up(1, 1).is_empty());
        expect(folder.path(), &["r1i1", "r1i11", "r11i0"]);
        assert!(spilled.caught_up(1, 11).is_empty());
        expect(folder.path(), &["r1i11", "r11i0"]);
        drop(spilled);
        expect(folder.path(), &[]);
    }

    #[test]
    fn files_are_kept_when_they_are_wanted() {
        let folder = folder();
        let mut spilled = spilled(folder.path(), true);
        assert!(spilled.caught_up(1, 11).is_empty());
        drop(spilled);
        expect(folder.path(), &["r1i0", "r1i1", "r1i11", "r11i0"]);
    }
}
