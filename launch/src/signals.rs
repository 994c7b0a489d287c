//! The signals that the launcher passes on to its ranks.
//!
//! Only on request ([`Job::start_forwarding_signals`](super::Job::start_forwarding_signals)): a
//! program that embeds a job keeps its own handlers.

use super::verdict;
use crate::error::LaunchError;
use refrain_job::JobError;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Signals that end the job. They stay ignored if the launcher was started with them ignored
/// (nohup, a background job of a shell).
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// Signals that are only passed on. SIGTSTP also stops the launcher.
const PASSED_ON: [i32; 4] = [SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP];

/// Whether `signal` ends the job.
pub fn ends_job(signal: i32) -> bool {
    ENDING.contains(&signal)
}

/// Caught signals, readable through a descriptor.
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    /// Signals caught before there were ranks.
    kept: Vec<i32>,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// Of the system.
    pub fn install() -> Result<Self, LaunchError> {
        let ignored = ignored_signals();
        let caught = ENDING
            .into_iter()
            .chain(PASSED_ON)
            .filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let failed = |error| JobError::control("catching signals", error);
        let (read, write) = UnixStream::pair().map_err(failed)?;
        let delivery =
            SignalDelivery::with_pipe(read, write, SignalOnly, caught).map_err(failed)?;
        Ok(Self {
            delivery,
            kept: Vec::new(),
        })
    }

    /// Readable when a signal was caught.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// The signals caught since the last call; several of one kind may count as one.
    pub fn take(&mut self) -> Vec<i32> {
        let kept = std::mem::take(&mut self.kept);
        kept.into_iter().chain(self.delivery.pending()).collect()
    }

    /// Whether the job is to end before its ranks are started. Other signals are kept for the
    /// ranks.
    ///
    /// # Errors
    /// [`LaunchError::Interrupted`]: a signal ends the job.
    pub fn look(&mut self) -> Result<(), LaunchError> {
        self.kept.extend(self.delivery.pending());
        let ending = self.kept.iter().find(|signal| ends_job(**signal));
        ending.map_or(Ok(()), |signal| {
            Err(LaunchError::Interrupted {
                status: u8::try_from(verdict::signal_status(*signal)).unwrap_or(1),
                name: verdict::signal_name(*signal),
            })
        })
    }
}

/// The mask of ignored signals: bit n - 1 for signal n.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
