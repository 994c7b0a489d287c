//! What else is installed on the machine and measures the same thing:
//! NetPIPE over Open MPI and MPICH, `fi_pingpong`, `ucx_perftest`.
//!
//! Peers have their turn in the same sweep, after the protocols. None of them
//! tells more than one time per size. They are measured at the sizes of the
//! series without perturbation; NetPIPE, whose start through `mpirun` takes a
//! second, has up to four neighbouring sizes per start.

mod fi_pingpong;
mod netpipe;
mod process;
pub mod trampoline;
mod ucx;

use super::arguments::{Receive, Settings};
use super::interrupt::Interrupt;
use process::Starter;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One size of one peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerFigure {
    /// Bytes of one message.
    pub bytes: u64,
    /// Half round trip as the peer states it, µs.
    pub time_us: f64,
}

/// Why a peer has no figures.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It did not run or said what could not be understood.
    #[error("{0}")]
    Failed(String),
    /// The sweep is to end.
    #[error("interrupted")]
    Interrupted,
}

/// Another program that measures two processes.
pub trait Peer {
    /// As in the JSON, such as `openmpi/NetPIPE`.
    fn name(&self) -> &str;

    /// How its receiving side receives.
    fn receive(&self) -> Receive;

    /// Splits ascending sizes into what is measured by one start each.
    fn groups(&self, sizes: &[u64]) -> Vec<Vec<u64>> {
        sizes.iter().map(|&bytes| vec![bytes]).collect()
    }

    /// Measures one group.
    ///
    /// # Errors
    /// When it fails, hangs or is interrupted; nothing of it runs any more.
    fn measure(&mut self, group: &[u64]) -> Result<Vec<PeerFigure>, PeerError>;
}

/// What was looked for.
pub struct Found {
    pub peers: Vec<Box<dyn Peer>>,
    /// A line for each one that is not there.
    pub missing: Vec<String>,
}

/// Looks for all peers.
pub fn find(settings: &Settings, interrupt: &Interrupt) -> Found {
    let starter = || Starter::new(interrupt.clone());
    let time = settings.round_time * settings.rounds;
    let mut found = Found {
        peers: Vec::new(),
        missing: Vec::new(),
    };
    let candidates: [Result<Box<dyn Peer>, String>; 4] = [
        netpipe::open_mpi(starter(), settings.receive).map(boxed),
        netpipe::mpich(starter(), settings.receive).map(boxed),
        fi_pingpong::find(starter(), time).map(boxed),
        ucx::find(starter(), time).map(boxed),
    ];
    for candidate in candidates {
        match candidate {
            Ok(peer) => found.peers.push(peer),
            Err(reason) => found.missing.push(reason),
        }
    }
    found
}

fn boxed<P: Peer + 'static>(peer: P) -> Box<dyn Peer> {
    Box::new(peer)
}

/// The first of `names` that is a program on the search path.
fn program(names: &[&str]) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Iterations that take about `time` at a rough guess of the peer's speed.
fn iterations(bytes: u64, time: Duration) -> u64 {
    let round_trip_us = 2.0 * (0.4 + bytes as f64 / 8_000.0);
    ((time.as_secs_f64() * 1e6 / round_trip_us) as u64).clamp(10, 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_the_first_name_that_exists() {
        let found = program(&["no-such-program-anywhere", "sh"]).expect("there is a shell");
        assert_eq!(found.file_name().unwrap(), "sh");
        assert_eq!(program(&["no-such-program-anywhere"]), None);
    }

    #[test]
    fn iterations_follow_time_and_size() {
        let time = Duration::from_millis(250);
        assert!((200_000..400_000).contains(&iterations(1, time)));
        assert!((100..500).contains(&iterations(4 << 20, time)));
        assert_eq!(iterations(1 << 40, time), 10);
        assert_eq!(iterations(1, Duration::from_secs(3600)), 1_000_000);
    }
}
