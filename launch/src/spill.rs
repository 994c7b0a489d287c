//! `--spill-dir`: checks its settings before a rank is started, and removes the files of the job's
//! ranks, which may be killed before they can do it.

use crate::job_folder;
use crate::leftovers;
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use refrain_job::{JobError, choice};
use refrain_logging::segment;
use refrain_logging::spill::SpillOptions;
use refrain_ring::{Incarnation, Rank};
use std::io;
use std::path::{Path, PathBuf};

/// Checks the settings and fills in defaults.
///
/// # Errors
/// [`JobError::Config`] if the settings cannot be used: the setting, and what to do.
pub fn resolve(config: &mut JobConfig, job: u64) -> Result<(), JobError> {
    choice::disk_engine("--spill-io", &config.spill_io)?;
    if config.spill_dir.is_none() {
        return nothing_without_a_folder(config);
    }
    match resolve_folder(config, job) {
        Err(why) if config.spill_dir_is_default => {
            if config.verbose {
                report(format_args!("the log stays in memory: {why}"));
            }
            config.spill_dir = None;
            nothing_without_a_folder(config)
        }
        resolved => resolved,
    }
}

fn resolve_folder(config: &mut JobConfig, job: u64) -> Result<(), JobError> {
    let dir = config.spill_dir.clone().unwrap_or_default();
    let dir = job_folder::existing("--spill-dir", dir.as_ref())?;
    let ranks = u64::from(config.ranks_on_host.max(1));
    let least = SpillOptions::DISK_BYTES_MIN;
    let bytes = match config.log_disk_bytes {
        Some(bytes) if bytes < least => {
            return Err(JobError::Config(format!(
                "--log-disk {bytes}: the minimum is {least} bytes per rank, one file"
            )));
        }
        Some(bytes) => bytes,
        None => free_bytes(&dir)? / 2 / ranks,
    };
    if bytes < least {
        return Err(JobError::Config(format!(
            "--spill-dir {}: {bytes} bytes per rank are free, {least} are needed: free space, or set --log-disk",
            dir.display()
        )));
    }
    config.log_disk_bytes = Some(bytes);
    config.spill_prefix = job_folder::prefix(job)? + "-";
    config.spill_dir =
        Some(dir.into_os_string().into_string().map_err(|dir| {
            JobError::Config(format!("--spill-dir {}: not UTF-8", dir.display()))
        })?);
    Ok(())
}

fn nothing_without_a_folder(config: &JobConfig) -> Result<(), JobError> {
    let given = [
        ("--log-disk", config.log_disk_bytes.is_some()),
        ("--spill-after", config.spill_after_bytes.is_some()),
        ("--keep-log", config.keep_log),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(JobError::Config(format!(
            "{option} has no effect without --spill-dir: name the folder for the log"
        ))),
        None => Ok(()),
    }
}

fn free_bytes(dir: &Path) -> Result<u64, JobError> {
    let statistics = rustix::fs::statvfs(dir).map_err(|error| {
        JobError::Config(format!(
            "--spill-dir {}: the free space is unknown ({error}): set --log-disk",
            dir.display()
        ))
    })?;
    Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
}

/// Removes the spilled files when it is dropped, unless the job keeps them.
#[derive(Debug)]
pub struct SpilledFiles {
    of: Option<(PathBuf, String)>,
    /// By rank: the first life whose files may exist.
    first_lives: Vec<u32>,
}

impl SpilledFiles {
    /// A job without spilled files on this host.
    pub fn none(ranks: usize) -> Self {
        Self {
            of: None,
            first_lives: vec![0; ranks],
        }
    }

    /// The files in the spill folder of the settings.
    pub fn of(config: &JobConfig, ranks: usize) -> Self {
        let directory = config.spill_dir.as_ref().filter(|_| !config.keep_log);
        Self {
            of: directory.map(|directory| (directory.into(), config.spill_prefix.clone())),
            first_lives: vec![0; ranks],
        }
    }

    /// A life has caught up: its own log has all that the logs of earlier lives had, and those are
    /// not read any more. Returns lines to report. LOG-3
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

/// Removes files. Returns lines to report about those that cannot be removed.
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

    fn config(dir: Option<&Path>) -> JobConfig {
        JobConfig {
            spill_dir: dir.map(|dir| dir.display().to_string()),
            ..JobConfig::default()
        }
    }

    fn refusal(config: JobConfig) -> String {
        let mut config = config;
        resolve(&mut config, 7).expect_err("refused").to_string()
    }

    #[test]
    fn the_rest_is_filled_in() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut config = config(Some(dir.path()));
        config.ranks_on_host = 4;
        resolve(&mut config, 7).expect("usable");
        let whole = free_bytes(dir.path()).expect("its file system");
        let share = config.log_disk_bytes.expect("filled in");
        assert!(share > 0 && share <= whole, "{share} of {whole}");
        assert!(config.spill_prefix.starts_with("refrain-"));
        // Without a folder no value is filled in.
        let mut none = JobConfig::default();
        resolve(&mut none, 7).expect("usable");
        assert_eq!(none, JobConfig::default());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_option() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("a file");
        let none = JobConfig::default();
        let few = |bytes| JobConfig {
            log_disk_bytes: Some(bytes),
            ..config(Some(dir.path()))
        };
        let keep = JobConfig {
            keep_log: true,
            ..none.clone()
        };
        let io = JobConfig {
            spill_io: "aio".into(),
            ..none
        };
        let cases = [
            (config(Some(&file)), "not a folder"),
            (
                config(Some(&dir.path().join("absent"))),
                "create the folder",
            ),
            (few(1000), "--log-disk 1000: the minimum is"),
            (keep, "--keep-log has no effect without --spill-dir"),
            (io, "--spill-io"),
        ];
        for (config, words) in cases {
            let refusal = refusal(config);
            assert!(refusal.contains(words), "{refusal}");
        }
    }
}

#[cfg(test)]
mod spilled_tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Creates files of two lives of ranks 1 and 11, and of another job.
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

    /// Only the files of earlier lives are removed when a life has caught up.
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
