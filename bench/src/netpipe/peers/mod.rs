//! What else is installed on the machine and measures the same thing:
//! NetPIPE over Open MPI and MPICH, `fi_pingpong`, `ucx_perftest`.
//!
//! Each fabric is compared with what uses the same wire. On shared memory these
//! are all of them; on a provider of libfabric `fi_pingpong` on the same
//! provider of the same library, and Open MPI where it can be held to that wire.
//!
//! Peers have their turn in the same sweep, after the protocols. None of them
//! tells more than one time per size. They are measured at the sizes of the
//! series without perturbation; NetPIPE, whose start through `mpirun` takes a
//! second, has up to four neighbouring sizes per start.

mod fi_pingpong;
mod netpipe;
mod pace;
mod process;
pub mod trampoline;
mod ucx;

use super::arguments::{Receive, Settings};
use super::fabrics::provider;
use crate::interrupt::Interrupt;
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
#[derive(Default)]
pub struct Found {
    pub peers: Vec<Box<dyn Peer>>,
    /// A line for each one that is not there.
    pub missing: Vec<String>,
}

/// What can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Candidate {
    OpenMpi,
    OpenMpiTcp,
    Mpich,
    /// With this provider.
    FiPingpong(String),
    Ucx,
}

/// libfabric's providers below which is TCP, also as the lower part of a name.
const OVER_TCP: [&str; 3] = ["tcp", "net", "sockets"];

/// What uses the same wires as `fabrics`, each once.
fn comparable(fabrics: &[&str]) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for fabric in fabrics {
        let wanted = match provider(fabric) {
            None => vec![
                Candidate::OpenMpi,
                Candidate::Mpich,
                Candidate::FiPingpong("shm".into()),
                Candidate::Ucx,
            ],
            Some(provider) => {
                let own = Candidate::FiPingpong(provider.into());
                let core = provider.split(';').next().unwrap_or_default();
                if core == "shm" {
                    vec![Candidate::OpenMpi, own]
                } else if OVER_TCP.contains(&core) {
                    vec![Candidate::OpenMpiTcp, own]
                } else {
                    vec![own]
                }
            }
        };
        for candidate in wanted {
            if !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        }
    }
    candidates
}

/// Looks for all peers that `fabrics`, by the names of those in use, can be
/// compared with.
pub fn find(settings: &Settings, fabrics: &[&str], interrupt: &Interrupt) -> Found {
    let time = settings.round_time * settings.rounds;
    let library = settings.libfabric.as_deref().map(Path::new);
    let receive = settings.receive;
    let mut found = Found::default();
    for candidate in comparable(fabrics) {
        let starter = Starter::new(interrupt.clone());
        let peer = match &candidate {
            Candidate::OpenMpi => netpipe::open_mpi(starter, receive).map(boxed),
            Candidate::OpenMpiTcp => netpipe::open_mpi_tcp(starter, receive).map(boxed),
            Candidate::Mpich => netpipe::mpich(starter, receive).map(boxed),
            Candidate::FiPingpong(provider) => {
                fi_pingpong::find(starter, provider, library, time).map(boxed)
            }
            Candidate::Ucx => ucx::find(starter, time).map(boxed),
        };
        match peer {
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
    fn only_what_uses_the_same_wire_is_compared() {
        let pingpong = |provider: &str| Candidate::FiPingpong(provider.into());
        assert_eq!(
            comparable(&["shm"]),
            [
                Candidate::OpenMpi,
                Candidate::Mpich,
                pingpong("shm"),
                Candidate::Ucx
            ]
        );
        for provider in ["tcp", "tcp;ofi_rxm", "net", "sockets"] {
            assert_eq!(
                comparable(&[&format!("ofi:{provider}")]),
                [Candidate::OpenMpiTcp, pingpong(provider)]
            );
        }
        assert_eq!(
            comparable(&["ofi:shm", "ofi:verbs;ofi_rxm"]),
            [
                Candidate::OpenMpi,
                pingpong("shm"),
                pingpong("verbs;ofi_rxm")
            ]
        );
        let both = comparable(&["shm", "shm", "ofi:shm", "ofi:tcp"]);
        assert_eq!(both.len(), 6, "each once: {both:?}");
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
