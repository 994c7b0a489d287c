//! Where the payload log goes when memory is short: settings, checked before a
//! rank is started.

use crate::leftovers;
use refrain_job::config::JobConfig;
use refrain_job::{JobError, choice};
use refrain_logging::spill::SpillOptions;
use std::path::{Path, PathBuf};

/// Checks the settings and fills in what was left open.
///
/// # Errors
/// [`JobError::Config`] when they cannot be used: what was given, and what to do.
pub fn resolve(config: &mut JobConfig, job: u64) -> Result<(), JobError> {
    choice::spill_io(&config.spill_io)?;
    let Some(dir) = &config.spill_dir else {
        return nothing_without_a_folder(config);
    };
    let dir = folder(dir)?;
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
    let launcher = leftovers::file_prefix(std::process::id()).ok_or_else(|| {
        JobError::Config(
            "--spill-dir: /proc is missing, which names of files need: mount it".into(),
        )
    })?;
    config.spill_prefix = format!("{launcher}{job:016x}-");
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

fn folder(dir: &str) -> Result<PathBuf, JobError> {
    let path = Path::new(dir).canonicalize().map_err(|error| {
        JobError::Config(format!("--spill-dir {dir}: {error}: create the folder"))
    })?;
    match path.is_dir() {
        true => Ok(path),
        false => Err(JobError::Config(format!("--spill-dir {dir}: not a folder"))),
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
        // Without a folder nothing is.
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
