//! The common part of network fabrics: several endpoints in this process, each polled in turn, as
//! nothing moves by itself.

use super::greeting::greet_all;
use super::*;
use refrain_ring::{Arena, Incarnation, Rank, Region};
use refrain_transport::fabric::network::{MessageEndpoint, Network, NetworkOptions};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Each job of each harness has its own number: frames of another job are dropped, also when
/// addresses are used again.
static JOBS: AtomicU64 = AtomicU64::new(1);

/// The times that the checks have to allow for a network.
pub struct NetworkTiming {
    /// Longer than any frame is in flight inside one machine, and than a rank takes to find that it
    /// is idle.
    pub silence: Duration,
    /// See [`Harness::busy_rounds`].
    pub busy_rounds: u32,
    /// See [`Harness::cannot_begin_again`].
    pub cannot_begin_again: Option<&'static str>,
}

/// The harness of one kind of network; `open` opens an endpoint.
pub struct NetworkHarness<O> {
    begin: Instant,
    open: O,
    timing: NetworkTiming,
    job: u64,
    ranks: u32,
    window_bytes: u64,
    graves: Vec<Arena>,
}

impl<O> NetworkHarness<O> {
    /// For jobs of that many ranks, until [`Harness::make`] sets another number.
    pub fn new(ranks: u32, timing: NetworkTiming, open: O) -> Self {
        Self {
            begin: Instant::now(),
            open,
            timing,
            job: 0,
            ranks,
            window_bytes: 512 << 10,
            graves: Vec::new(),
        }
    }
}

impl<E, O> NetworkHarness<O>
where
    E: MessageEndpoint,
    O: FnMut(NetworkOptions, &Region) -> Network<E>,
{
    fn start(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Network<E>> {
        let window_bytes = self.window_bytes;
        let arena = Arena::heap(8 * window_bytes as usize);
        let options = NetworkOptions {
            job: self.job,
            rank,
            incarnation,
            size: self.ranks,
            window_bytes,
            lost_after: Duration::from_secs(600),
            suspect_after: None,
        };
        let fabric = (self.open)(options, arena.region());
        Endpoint {
            rank,
            incarnation,
            fabric,
            arena,
            window_bytes,
        }
    }
}

impl<E, O> Harness for NetworkHarness<O>
where
    E: MessageEndpoint + 'static,
    O: FnMut(NetworkOptions, &Region) -> Network<E>,
{
    fn cannot_begin_again(&self) -> Option<&'static str> {
        self.timing.cannot_begin_again
    }

    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.ranks = ranks;
        self.graves.clear();
        self.job = JOBS.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(std::process::id());
        let mut endpoints = start_all(ranks, |rank| self.start(rank, Incarnation(0)));
        greet_all(
            &mut endpoints,
            |one, other| one != other,
            |network| network,
            self.patience(),
        );
        to_check(endpoints)
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.start(rank, incarnation).to_check()
    }

    /// The memory of a dead process is not read any more. This process lives: its memory could
    /// still be read, with other bytes in it, so it is kept.
    fn kill(&mut self, endpoint: Endpoint) {
        drop(endpoint.fabric);
        self.graves.push(endpoint.arena);
    }

    fn progress(&mut self) -> bool {
        false
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Networks progress when they are polled, on both sides.
    fn drives_all(&self) -> bool {
        true
    }

    fn silence(&self) -> Duration {
        self.timing.silence
    }

    fn busy_rounds(&self) -> u32 {
        self.timing.busy_rounds
    }

    fn poll_calls_max(&self) -> usize {
        600
    }
}
