//! How the suites on networks begin. Ranks greet each other, as jobs do at their start: providers
//! make connections at the first send, and refuse sends meanwhile.

use super::Endpoint;
use core::time::Duration;
use refrain_ring::Rank;
use refrain_transport::control::Control;
use refrain_transport::fabric::network::{MessageEndpoint, Network};
use refrain_transport::fabric::ofi::library_version;
use refrain_transport::fabric::{Arrival, Disposition, Fabric, Landed, Sink};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lets each rank greet the ranks that it reaches over a network, until all have answered.
pub fn greet_all<F: Fabric, E: MessageEndpoint>(
    endpoints: &mut [Endpoint<F>],
    reaches: impl Fn(Rank, Rank) -> bool,
    network: impl Fn(&mut F) -> &mut Network<E>,
    patience: Duration,
) {
    let ranks: Vec<Rank> = endpoints.iter().map(|endpoint| endpoint.rank).collect();
    let begin = Instant::now();
    loop {
        let mut are_answered = true;
        for Endpoint { rank, fabric, .. } in endpoints.iter_mut() {
            for to in ranks.iter().filter(|to| reaches(*rank, **to)) {
                let network = network(fabric);
                if !network.has_answered(*to) {
                    are_answered = false;
                    network.greet_once(*to);
                }
            }
            let calls = fabric.poll(&mut NoSink).expect("nothing is wrong");
            assert_eq!(calls, 0, "nothing was sent");
        }
        if are_answered {
            return;
        }
        assert!(begin.elapsed() < patience, "ranks do not reach each other");
    }
}

/// If all tests share a process: one test at a time. The library of the system is loaded first,
/// since its short name finds whichever library is loaded.
pub fn alone_on_libfabric() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // An absent library is noticed when it is used.
    let _ = library_version(None);
    alone
}

/// Ignores all arrivals.
struct NoSink;

impl Sink for NoSink {
    fn frame(&mut self, _arrival: Arrival<'_>) -> Disposition {
        unreachable!("no frame was sent")
    }

    fn control(&mut self, _source: Rank, _control: Control) {
        unreachable!("no control frame was sent")
    }

    fn landed(&mut self, _token: u64, _landed: Landed) {
        unreachable!("no frame was fetched")
    }

    fn peer_lost(&mut self, peer: Rank) {
        panic!("rank {peer} is lost")
    }
}
