//! Installed programs that measure the same: NetPIPE over Open MPI and MPICH,
//! `fi_pingpong`, `ucx_perftest`.
//!
//! Each fabric is compared with programs that use the same wire. On shared memory these
//! are all of them; on a provider of libfabric `fi_pingpong` on the same
//! provider of the same library, and Open MPI where it can be held to that wire.
//!
//! Peers have their turn in the same sweep, after the protocols. Each reports one time
//! per size. They are measured at the sizes of the
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
use crate::error::BenchError;
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

/// Measures a group of sizes. After an error nothing of the peer runs any more.
type Measure = Box<dyn FnMut(&[u64]) -> Result<Vec<PeerFigure>, BenchError>>;

/// Another program that measures two processes.
pub struct Peer {
    /// As in the JSON, such as `openmpi/NetPIPE`.
    pub name: String,
    /// How its receiving side receives.
    pub receive: Receive,
    /// Splits ascending sizes into groups that are measured by one start each.
    pub groups: fn(&[u64]) -> Vec<Vec<u64>>,
    pub measure: Measure,
}

impl Peer {
    /// A peer with a blocking receive that measures one size per start; `time_us` returns
    /// half a round trip.
    fn by_size(
        name: String,
        mut time_us: impl FnMut(u64) -> Result<f64, BenchError> + 'static,
    ) -> Self {
        Self {
            name,
            receive: Receive::Named,
            groups: |sizes| sizes.iter().map(|&bytes| vec![bytes]).collect(),
            measure: Box::new(move |group| {
                let figure = |&bytes: &u64| {
                    let time_us = time_us(bytes)?;
                    Ok(PeerFigure { bytes, time_us })
                };
                group.iter().map(figure).collect()
            }),
        }
    }
}

/// The peers that were found.
#[derive(Default)]
pub struct Found {
    pub peers: Vec<Peer>,
    /// A line for each one that is not there.
    pub missing: Vec<String>,
}

/// A program that may be compared with.
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
                match core {
                    "shm" => vec![Candidate::OpenMpi, own],
                    core if OVER_TCP.contains(&core) => vec![Candidate::OpenMpiTcp, own],
                    _ => vec![own],
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
    let time = Duration::from_secs_f64(settings.arguments.time_per_size);
    let library = settings.arguments.libfabric.as_deref().map(Path::new);
    let receive = settings.arguments.receive;
    let mut found = Found::default();
    for candidate in comparable(fabrics) {
        let starter = Starter::new(interrupt.clone());
        let peer = match &candidate {
            Candidate::OpenMpi => netpipe::find(starter, receive, &netpipe::OPEN_MPI),
            Candidate::OpenMpiTcp => netpipe::find(starter, receive, &netpipe::OPEN_MPI_TCP),
            Candidate::Mpich => netpipe::find(starter, receive, &netpipe::MPICH),
            Candidate::FiPingpong(provider) => fi_pingpong::find(starter, provider, library, time),
            Candidate::Ucx => ucx::find(starter, time),
        };
        match peer {
            Ok(peer) => found.peers.push(peer),
            Err(reason) => found.missing.push(reason),
        }
    }
    found
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
