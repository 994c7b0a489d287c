//! Limits of a job on one host.

use core::fmt;
use refrain_job::JobError;
use refrain_wire::STRANGERS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum number of ranks of a job. Each rank keeps a few bytes for each other one, and the
/// launcher a process and some descriptors (docs/design/many-ranks.md).
pub const RANKS_MAX: u32 = 4096;
/// Descriptors that the launcher needs for one rank: control socket, two pipes, published memory.
const DESCRIPTORS_PER_RANK: u64 = 4;
/// A further descriptor for a rank, if the system allows as many: its process. Without it, SIGCHLD
/// announces that some rank has ended, and the launcher looks at all.
const DESCRIPTORS_OF_END: u64 = 1;
/// A further descriptor for a rank that may be restarted and whose clocks are recorded.
const DESCRIPTORS_OF_CLOCKS: u64 = 1;
/// Further descriptors for a rank that was restarted: the log memory of two earlier lives.
const DESCRIPTORS_OF_RESTART: u64 = 2;
/// Ranks that are restarted at the same time, at most, if the system allows no more descriptors.
const RESTARTED_MAX: u64 = 256;
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
            "a job cannot have {ranks} ranks: use 1 to {RANKS_MAX}"
        ))),
    }
}

/// What the launcher of ranks on its host opens.
#[derive(Clone, Copy, Debug)]
pub struct OpenFiles {
    /// Number of ranks.
    pub ranks: u32,
    /// They may be restarted.
    pub restarts: bool,
    /// Their clocks are recorded.
    pub clocks: bool,
    /// Number of agents that are connected through this one.
    pub agents: u32,
}

impl OpenFiles {
    /// Descriptors, if the end of each rank has one (`ends`), and all ranks may be restarted at the
    /// same time.
    fn needed(self, ends: bool) -> u64 {
        let ranks = u64::from(self.ranks);
        let restarted = match (self.restarts, ends) {
            (false, _) => 0,
            (true, true) => ranks,
            (true, false) => ranks.min(RESTARTED_MAX),
        };
        let clocks = u64::from(self.restarts && self.clocks) * DESCRIPTORS_OF_CLOCKS;
        let of_rank = DESCRIPTORS_PER_RANK + u64::from(ends) * DESCRIPTORS_OF_END + clocks;
        let agents = match self.agents {
            0 => 0,
            agents => STRANGERS_MAX as u64 + u64::from(agents),
        };
        DESCRIPTORS_BESIDES + agents + of_rank * ranks + DESCRIPTORS_OF_RESTART * restarted
    }
}

/// Number of ranks, restarted if they die, that a limit of open files allows on one host.
pub fn ranks_of_open_files(limit: u64) -> u32 {
    let fits = |ranks: &u32| {
        let files = OpenFiles {
            ranks: *ranks,
            restarts: true,
            clocks: true,
            agents: 0,
        };
        files.needed(false) <= limit
    };
    (1..=RANKS_MAX).rev().find(fits).unwrap_or(0)
}

/// Raises the limit of open files to what a job needs; `ends`: each rank needs a descriptor for its
/// end. Returns the earlier limit, for the ranks, and whether there are descriptors for the ends.
///
/// # Errors
/// [`JobError::Argument`] if the system allows fewer open files than the job needs.
pub fn raise_open_files(files: OpenFiles, ends: bool) -> Result<(Rlimit, bool), JobError> {
    let limit = getrlimit(Resource::Nofile).maximum;
    let ends = ends || limit.is_none_or(|limit| limit >= files.needed(true));
    let size = format_args!("{} ranks", files.ranks);
    let advice = match files.restarts && files.clocks {
        true => "use --record-clocks off, or fewer ranks",
        false => "or use fewer ranks",
    };
    Ok((raise_to(files.needed(ends), size, advice)?, ends))
}

/// As [`raise_open_files`], for a launcher with ranks on `hosts` other hosts.
///
/// # Errors
/// [`JobError::Argument`] if the system allows fewer open files than the job needs.
pub fn raise_open_files_of_hosts(hosts: usize) -> Result<(), JobError> {
    // While agents connect, other clients may hold connections that are not authenticated.
    let besides = DESCRIPTORS_BESIDES + STRANGERS_MAX as u64;
    let needed = besides + DESCRIPTORS_PER_HOST * hosts as u64;
    raise_to(needed, format_args!("{hosts} hosts"), "or use fewer hosts").map(|_| ())
}

/// Raises the limit to `needed`. Returns the earlier limit.
fn raise_to(needed: u64, size: fmt::Arguments<'_>, advice: &str) -> Result<Rlimit, JobError> {
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
             raise the hard limit (ulimit -Hn), {advice}"
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
                message.contains("4096") && message.contains(&ranks.to_string()),
                "{message}"
            );
        }
    }

    /// 4,096 ranks fit into the hard limit of 20,000 descriptors if their clocks are not recorded.
    #[test]
    fn many_ranks_need_few_descriptors() {
        let files = |ranks, clocks| OpenFiles {
            ranks,
            restarts: true,
            clocks,
            agents: 0,
        };
        assert!(files(4096, false).needed(false) <= 20_000);
        assert_eq!(files(1000, true).needed(true), 64 + 8 * 1000);
        for ranks in [1, 100, 4096] {
            assert!(files(ranks, true).needed(false) <= files(ranks, true).needed(true));
        }
        let ranks = ranks_of_open_files(20_000);
        assert!(files(ranks, true).needed(false) <= 20_000, "{ranks}");
        assert!(files(ranks + 1, true).needed(false) > 20_000, "{ranks}");
    }
}
