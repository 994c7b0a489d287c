//! Installed programs with the same measurement: NetPIPE over Open MPI and MPICH, `fi_pingpong`,
//! `ucx_perftest`.
//!
//! Each fabric is compared with programs on the same wire: on shared memory, all of them; on a
//! provider of libfabric, `fi_pingpong` on the same provider of the same library, and Open MPI if
//! it can be restricted to that wire.
//!
//! Peers have their turn in the same sweep, after the protocols. Each reports one time per size.
//! They are measured at the sizes of the series without perturbation; NetPIPE, whose start through
//! `mpirun` takes a second, measures up to four neighbouring sizes per start.

mod fi_pingpong;
mod netpipe;
mod pace;
pub mod peer;
pub mod process;
pub mod trampoline;
mod ucx;

use super::arguments::Settings;
use super::fabrics::provider;
use crate::interrupt::Interrupt;
pub use peer::{Peer, PeerFigure};
use process::Starter;
use std::path::Path;
use std::time::Duration;

/// The peers that were found.
#[derive(Default)]
pub struct Found {
    pub peers: Vec<Peer>,
    /// One line for each peer that is not installed.
    pub missing: Vec<String>,
}

/// A program to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Candidate {
    OpenMpi,
    OpenMpiTcp,
    Mpich,
    /// `fi_pingpong` on this provider.
    FiPingpong(String),
    Ucx,
}

/// libfabric's providers that use TCP, also as the lower provider of a layered name.
const OVER_TCP: [&str; 2] = ["tcp", "net"];

/// Programs on the same wires as `fabrics`, without repetitions.
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

/// Searches all peers that `fabrics` can be compared with; `fabrics` are the names of those in
/// use.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for provider in ["tcp", "tcp;ofi_rxm", "net"] {
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
}
