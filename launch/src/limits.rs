//! Limits of a job on one host.

use core::fmt;
use refrain_job::JobError;
use refrain_wire::STRANGERS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ranks that one host may run: a descriptor each for the control socket, two
/// pipes, the process and its published memory stays within what systems
/// allow without asking an administrator.
pub const RANKS_MAX: u32 = 1024;
/// Descriptors that the launcher holds for one rank, and one more than once
/// while the rank is started.
const DESCRIPTORS_PER_RANK: u64 = 6;
/// More for a rank that may be restarted: the log memory of two earlier lives, and
/// the file of `clocks`.
const DESCRIPTORS_PER_RESTARTED_RANK: u64 = 3;
/// For a host: the way to its agent, and the process that has started that with its
/// standard input.
const DESCRIPTORS_PER_HOST: u64 = 3;
/// Descriptors that it holds besides.
const DESCRIPTORS_BESIDES: u64 = 64;

/// Checks the number of ranks.
///
/// # Errors
/// [`JobError::Argument`], with the limit.
pub fn check_ranks(ranks: u32) -> Result<(), JobError> {
    match ranks {
        1..=RANKS_MAX => Ok(()),
        _ => Err(JobError::Argument(format!(
            "a job cannot have {ranks} ranks: use 1 to {RANKS_MAX} on one host"
        ))),
    }
}

/// Raises the limit of open files to what a job of `ranks`, which may be started
/// again, needs; returns the limit as it was, for the ranks.
///
/// # Errors
/// [`JobError::Argument`] when the system does not allow as many.
pub fn raise_open_files(ranks: u32, restarts: bool) -> Result<Rlimit, JobError> {
    let more = if restarts {
        DESCRIPTORS_PER_RESTARTED_RANK
    } else {
        0
    };
    let needed = DESCRIPTORS_BESIDES + (DESCRIPTORS_PER_RANK + more) * u64::from(ranks);
    raise_to(needed, format_args!("{ranks} ranks"), "ranks")
}

/// The same, for a launcher with ranks on `hosts` other hosts.
///
/// # Errors
/// [`JobError::Argument`] when the system does not allow as many.
pub fn raise_open_files_of_hosts(hosts: usize) -> Result<(), JobError> {
    // While agents call, others may stand at the door.
    let besides = DESCRIPTORS_BESIDES + STRANGERS_MAX as u64;
    let needed = besides + DESCRIPTORS_PER_HOST * hosts as u64;
    raise_to(needed, format_args!("{hosts} hosts"), "hosts").map(|_| ())
}

/// Raises the limit to what is needed. Returns the limit as it was.
fn raise_to(needed: u64, size: fmt::Arguments<'_>, what: &str) -> Result<Rlimit, JobError> {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_none_or(|current| current >= needed) {
        return Ok(before);
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        let allowed = before
            .maximum
            .map_or("without limit".into(), |maximum| maximum.to_string());
        JobError::Argument(format!(
            "a job of {size} needs {needed} open files, the limit is {allowed} ({error}): \
             raise the hard limit (ulimit -Hn), or use fewer {what}"
        ))
    })?;
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_inside_and_named() {
        assert!(check_ranks(1).is_ok() && check_ranks(RANKS_MAX).is_ok());
        for ranks in [0, RANKS_MAX + 1, 100_000, u32::MAX] {
            let message = check_ranks(ranks).unwrap_err().to_string();
            assert!(
                message.contains("1024") && message.contains(&ranks.to_string()),
                "{message}"
            );
        }
    }
}
