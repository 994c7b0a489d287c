//! A peer in trouble: what shows that the trouble is over.

use super::sparse_endpoint::{SparseEndpoint, Trouble, over};
use super::{Bench, NoSink};
use crate::fabric::Fabric;
use core::time::Duration;
use std::time::Instant;

/// Short enough for a test, and long enough for a retry before the loss.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// The token of no operation: for an injected message.
const INJECTED: u64 = u64::MAX;

/// All short messages are injected, as with verbs and most providers.
fn bench() -> Bench {
    let endpoint = SparseEndpoint {
        inject_bytes: 220,
        ..SparseEndpoint::default()
    };
    let mut bench = Bench::over(endpoint, LOST_AFTER);
    bench.connect(0);
    bench
}

impl Bench {
    fn ends(&mut self, token: u64, outcome: Result<(), Trouble>) {
        self.network.endpoint.tokens.retain(|(of, _)| *of != token);
        self.network.endpoint.over.push(over(token, 1, outcome));
        self.poll().unwrap();
    }

    /// Polls until operations were begun. (If none is ever begun, the peer is lost.)
    fn until_begun(&mut self) -> Vec<u64> {
        while self.network.endpoint.tokens.is_empty() {
            self.poll().unwrap();
        }
        let tokens = self.network.endpoint.tokens.iter();
        tokens.map(|(token, _)| *token).collect()
    }

    /// The peer computes and is connected: it does not count as lost.
    fn outlives_its_trouble(&mut self) {
        assert!(!self.patience().is_troubled());
        let began = Instant::now();
        while began.elapsed() < 2 * LOST_AFTER {
            self.network.poll(&mut NoSink).unwrap();
        }
    }
}

/// A short frame was under way when the link was cut: it is sent again with a completion.
#[test]
fn a_frame_that_is_sent_again_ends_the_trouble() {
    let mut bench = bench();
    let frame = bench.frame();
    bench.post(&frame).unwrap();
    assert!(bench.network.endpoint.tokens.is_empty(), "injected");
    bench.ends(INJECTED, Err(Trouble));
    assert!(bench.patience().holds_back());
    for token in bench.until_begun() {
        bench.ends(token, Ok(()));
    }
    bench.outlives_its_trouble();
    bench.post(&frame).unwrap();
    assert!(bench.network.endpoint.tokens.is_empty(), "injected again");
}

/// A read was under way: its success ends the trouble, though no send completes.
#[test]
fn a_read_that_ends_well_ends_the_trouble() {
    let mut memory = vec![0_u8; 9000];
    let mut bench = bench();
    bench.fetch(&mut memory, 5);
    let read = bench.until_begun()[0];
    bench.ends(read, Err(Trouble));
    assert!(bench.patience().holds_back());
    while !bench.until_begun().contains(&read) {
        bench.poll().unwrap();
    }
    bench.ends(read, Ok(()));
    bench.outlives_its_trouble();
}

/// An acknowledgement was under way, and there is nothing to send again: the peer is asked as soon
/// as the endpoint takes the question.
#[test]
fn a_rank_with_nothing_to_send_again_asks() {
    let mut bench = bench();
    bench.ends(INJECTED, Err(Trouble));
    bench.network.endpoint.refuses = true;
    while bench.patience().holds_back() {
        bench.poll().unwrap();
    }
    for _ in 0..100 {
        bench.poll().unwrap();
    }
    bench.network.endpoint.refuses = false;
    for token in bench.until_begun() {
        bench.ends(token, Ok(()));
    }
    bench.outlives_its_trouble();
}
