//! How a process ended, and what that means for the job. Pure, except for the count of processes
//! that the kernel killed for lack of memory.

use serde::{Deserialize, Serialize};
use signal_hook::consts::{
    SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGPIPE, SIGSEGV, SIGXCPU, SIGXFSZ,
};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Killed(signal),
            None => Self::Exited(status.code().unwrap_or(1)),
        }
    }
}

/// For people, after the name of the process.
impl Display for End {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(to, "exited with status {status}"),
            Self::Killed(signal) => write!(to, "was killed by {}", signal_name(*signal)),
        }
    }
}

/// Why a rank was killed, as far as its launcher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// By another process, or by the rank itself.
    Unknown,
    /// `--kill`.
    Kill,
    /// `--kill-random`.
    KillRandom,
    /// `--suspect-ranks-after`.
    Suspected,
    /// The fabric of another rank has given it up.
    Lost,
    /// The rank had to close all its connections, and asked to be killed.
    Disconnected,
    /// Another rank of its correlated set has died. SET-4
    WithItsSet,
    /// The host of the rank was lost.
    HostLost,
}

impl Cause {
    /// The cause for people; empty if it is not known.
    pub(super) fn by(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Kill => "by --kill",
            Self::KillRandom => "by --kill-random",
            Self::Suspected => "by --suspect-ranks-after: it was stopped",
            Self::Lost => "as another rank did not reach it any more",
            Self::Disconnected => "as a transfer into its memory did not end",
            Self::WithItsSet => "to go back with its set",
            Self::HostLost => "as its host was lost",
        }
    }
}

/// State of a rank in the control protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The rank has not joined; the program may not use Refrain.
    Stranger,
    /// The rank has joined.
    Member,
    /// The rank has left in order.
    Left,
}

/// Exit status of the launcher for a job that was ended by `signal`.
pub fn signal_status(signal: i32) -> i32 {
    128 + signal
}

/// The name of a signal, or its number.
pub fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}

/// A rank's end that ends the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Exit status of the launcher.
    pub status: i32,
    /// The rank, what happened, and what to do.
    pub failure: String,
    /// Of several ends seen at the same moment, the one with the highest weight is the likely
    /// cause.
    pub weight: u8,
}

/// Judges the end of `rank`; `None`: the rank ended well. `cause`: what the launcher knows of the
/// signal.
pub fn judge(rank: usize, end: End, membership: Membership, cause: Cause) -> Option<Verdict> {
    let (status, weight, what) = match end {
        End::Killed(signal) => (signal_status(signal), 3, killed(signal, cause)),
        End::Exited(0) if membership == Membership::Member => (
            1,
            1,
            "exited with status 0 without leaving the job: a program has to finalize (World::finalize, MPI_Finalize) before it ends".into(),
        ),
        End::Exited(0) => return None,
        End::Exited(status) => (status, 2, format!("{end}: see its output")),
    };
    Some(Verdict {
        status,
        failure: format!("rank {rank} {what}"),
        weight,
    })
}

fn killed(signal: i32, cause: Cause) -> String {
    let advice = match signal {
        _ if cause != Cause::Unknown => cause.by(),
        // The kernel does not report which process has sent the signal.
        SIGKILL => "by another process, or by the kernel for lack of memory: see dmesg",
        SIGSEGV | SIGILL | SIGFPE => {
            "it crashed: allow core dumps (ulimit -c unlimited) and look at it with a debugger"
        }
        SIGBUS => {
            "often shared memory without space left: see df /dev/shm and the memory limit of the container"
        }
        SIGABRT => "it aborted: see its output",
        SIGPIPE => "it wrote to a pipe or socket without a reader",
        SIGXFSZ => "it wrote a file beyond the limit for files: raise it with ulimit -f",
        SIGXCPU => "it used more processor time than it may: raise the limit with ulimit -t",
        _ => "by another process, or by itself",
    };
    format!("{} ({advice})", End::Killed(signal))
}

/// The end of a rank, for a sentence about a rank that waits for it.
pub fn describe(end: End, membership: Membership) -> String {
    match membership {
        Membership::Stranger => {
            format!("{end} before it joined the job (does it call World::init?)")
        }
        Membership::Member => end.to_string(),
        Membership::Left => "has left the job".into(),
    }
}

/// Count of killed processes when the job began.
#[derive(Debug)]
pub struct OutOfMemory {
    /// `None`: there is no control group (version 2), or it has no memory controller.
    events: Option<PathBuf>,
    before: u64,
}

impl OutOfMemory {
    /// Counts from now on.
    pub fn new() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::counted_in(events_of(&groups))
    }

    fn counted_in(events: Option<PathBuf>) -> Self {
        let before = events.as_deref().and_then(kills).unwrap_or(0);
        Self { events, before }
    }

    /// A hint for a SIGKILL; `None`: the kernel has killed no process of the group.
    pub fn hint(&self) -> Option<String> {
        let since = kills(self.events.as_deref()?)?.saturating_sub(self.before);
        (since > 0).then(|| {
            format!(
                "the kernel killed {since} process(es) of the job's control group for lack of memory: raise the group's memory limit, or lower --log-memory"
            )
        })
    }
}

/// The events file of a process's group.
fn events_of(groups: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let file = Path::new("/sys/fs/cgroup").join(path).join("memory.events");
    file.is_file().then_some(file)
}

fn kills(events: &Path) -> Option<u64> {
    let text = fs::read_to_string(events).ok()?;
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_end_is_no_failure() {
        let judged = |membership| judge(0, End::Exited(0), membership, Cause::Unknown);
        assert_eq!(judged(Membership::Stranger), None);
        assert_eq!(judged(Membership::Left), None);
    }

    #[test]
    fn every_other_end_names_rank_and_status() {
        for (end, membership, status, text) in [
            (End::Exited(0), Membership::Member, 1, "finalize"),
            (End::Exited(7), Membership::Left, 7, "status 7"),
            (End::Exited(255), Membership::Stranger, 255, "status 255"),
            (End::Killed(SIGKILL), Membership::Member, 137, "SIGKILL"),
            (End::Killed(SIGSEGV), Membership::Stranger, 139, "SIGSEGV"),
            (End::Killed(40), Membership::Stranger, 168, "signal 40"),
        ] {
            let verdict = judge(12, end, membership, Cause::Unknown).unwrap();
            assert_eq!(verdict.status, status);
            assert!(
                verdict.failure.contains("rank 12") && verdict.failure.contains(text),
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn the_cause_of_a_kill_is_reported_as_far_as_it_is_known() {
        let failure = |signal, cause| {
            let verdict = judge(3, End::Killed(signal), Membership::Member, cause);
            verdict.unwrap().failure
        };
        assert_eq!(
            failure(SIGKILL, Cause::KillRandom),
            "rank 3 was killed by SIGKILL (by --kill-random)"
        );
        assert!(failure(SIGKILL, Cause::Unknown).contains("another process"));
        assert!(failure(SIGXFSZ, Cause::Unknown).contains("ulimit -f"));
    }

    #[test]
    fn a_kill_weighs_more_than_what_it_makes_others_do() {
        let weight = |end, membership| judge(0, end, membership, Cause::Unknown).unwrap().weight;
        let killed = weight(End::Killed(SIGKILL), Membership::Member);
        let failed = weight(End::Exited(1), Membership::Member);
        let silent = weight(End::Exited(0), Membership::Member);
        assert!(killed > failed && failed > silent);
    }
}

#[cfg(test)]
mod out_of_memory_tests {
    use super::*;

    #[test]
    fn what_the_group_has_counted_since_is_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.events");
        fs::write(&file, "low 0\noom 3\noom_kill 2\noom_group_kill 0\n").unwrap();
        let counted = OutOfMemory::counted_in(Some(file.clone()));
        assert_eq!(counted.hint(), None);
        fs::write(&file, "low 0\noom 3\noom_kill 3\n").unwrap();
        assert!(counted.hint().unwrap().contains("killed 1 process(es)"));
        assert_eq!(OutOfMemory::counted_in(None).hint(), None);
        assert_eq!(events_of("1:cpu:/x\n0::/no/such/group\n"), None);
    }
}
