//! Limits of a job on one host.

use core::fmt;
use refrain_job::JobError;
use refrain_wire::STRANGERS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum number of ranks on one host: the descriptors of each (control socket, two pipes,
/// process, published memory) stay within what systems allow without a change by an administrator.
pub const RANKS_MAX: u32 = 1024;
/// Descriptors that the launcher holds for one rank, and one that is held only while the rank is
/// started.
const DESCRIPTORS_PER_RANK: u64 = 6;
/// Further descriptors for a rank that may be restarted: the log memory of two earlier lives, and
/// the file of `clocks`.
const DESCRIPTORS_PER_RESTARTED_RANK: u64 = 3;
/// Descriptors for a host: the connection to its agent, the process that has started the agent,
/// and the stdin of that process.
const DESCRIPTORS_PER_HOST: u64 = 3;
/// Descriptors that the launcher holds besides.
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

/// Number of ranks, restarted if they die, that a limit of open files allows on one host.
pub fn ranks_of_open_files(limit: u64) -> u32 {
    let per_rank = DESCRIPTORS_PER_RANK + DESCRIPTORS_PER_RESTARTED_RANK;
    let ranks = limit.saturating_sub(DESCRIPTORS_BESIDES) / per_rank;
    RANKS_MAX.min(u32::try_from(ranks).unwrap_or(RANKS_MAX))
}

/// Raises the limit of open files to what a job of `ranks` ranks needs; `restarts`: they may be
/// restarted. Returns the earlier limit, for the ranks.
///
/// # Errors
/// [`JobError::Argument`] if the system allows fewer open files than the job needs.
pub fn raise_open_files(ranks: u32, restarts: bool) -> Result<Rlimit, JobError> {
    let more = if restarts {
        DESCRIPTORS_PER_RESTARTED_RANK
    } else {
        0
    };
    let needed = DESCRIPTORS_BESIDES + (DESCRIPTORS_PER_RANK + more) * u64::from(ranks);
    raise_to(needed, format_args!("{ranks} ranks"), "ranks")
}

/// As [`raise_open_files`], for a launcher with ranks on `hosts` other hosts.
///
/// # Errors
/// [`JobError::Argument`] if the system allows fewer open files than the job needs.
pub fn raise_open_files_of_hosts(hosts: usize) -> Result<(), JobError> {
    // While agents connect, other clients may hold connections that are not authenticated.
    let besides = DESCRIPTORS_BESIDES + STRANGERS_MAX as u64;
    let needed = besides + DESCRIPTORS_PER_HOST * hosts as u64;
    raise_to(needed, format_args!("{hosts} hosts"), "hosts").map(|_| ())
}

/// Raises the limit to `needed`. Returns the earlier limit.
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
