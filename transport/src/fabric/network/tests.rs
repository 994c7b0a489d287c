//! The network over an endpoint with sparse completions. The endpoint reports only what the test
//! requests, and removing a peer ends all operations with it.

#![allow(unsafe_code, reason = "lends memory to the fabric for a landing")]

mod sparse_endpoint;
mod trouble;

use super::lane::Patience;
use super::{
    Choices, Limits, Network, NetworkOptions, Overrides, PayloadPath, address::NetworkAddress,
};
use crate::control::Control;
use crate::fabric::{
    Address, Arrival, Disposition, Fabric, FabricError, Landed, Landing, Refusal, Sink,
};
use crate::gate::Gate;
use core::ptr::NonNull;
use core::time::Duration;
use refrain_ring::{Arena, ChannelLog, Frame, Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use sparse_endpoint::{SparseEndpoint, Trouble, over};

const WINDOW_BYTES: u64 = 1 << 20;
const PEER: Rank = Rank(1);

/// Rank 0 of two ranks, its log, and its endpoint behind the fabric.
struct Bench {
    network: Network<SparseEndpoint>,
    arena: Arena,
    log: ChannelLog,
}

impl Bench {
    fn new() -> Self {
        Self::over(SparseEndpoint::default(), Duration::from_secs(60))
    }

    fn over(endpoint: SparseEndpoint, lost_after: Duration) -> Self {
        let arena = Arena::heap(4 * WINDOW_BYTES as usize);
        let limits = Limits {
            message_bytes_max: 1 << 20,
            receives_max: 1 << 10,
            can_read: true,
        };
        let path = PayloadPath {
            fragment_bytes: 16 << 10,
            distant_bytes_min: Some(8 << 10),
        };
        let options = NetworkOptions {
            job: 3,
            rank: Rank(0),
            incarnation: Incarnation(0),
            size: 2,
            window_bytes: WINDOW_BYTES,
            lost_after,
            suspect_after: None,
        };
        let network = Network::over(
            endpoint,
            options,
            Choices::new(path, limits, 2, Overrides::default()),
            "sparse".into(),
            "sparse".into(),
            arena.region(),
        );
        Self {
            network: network.expect("it takes everything"),
            log: ChannelLog::new(Rank(0), Incarnation(0), PEER, WINDOW_BYTES),
            arena,
        }
    }

    fn connect(&mut self, incarnation: u32) {
        let address = NetworkAddress {
            rank: PEER,
            incarnation: Incarnation(incarnation),
            ..NetworkAddress::decode(&self.network.address().bytes).expect("its own")
        };
        let address = Address {
            bytes: address.encode(),
            memory: None,
        };
        let connected = self
            .network
            .connect(PEER, Incarnation(incarnation), &address);
        connected.expect("it is of this job");
    }

    fn patience(&self) -> &Patience {
        &self.network.peers[1].as_ref().unwrap().patience
    }

    fn frame(&mut self) -> Frame {
        let header = RecordHeader {
            payload_bytes: 8,
            kind: RecordKind::Eager,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn: Ssn(1),
            context: 0,
            tag: 0,
            extent: 8,
        };
        (self.log.append(&mut self.arena, 8, true, header, |_| {})).expect("the window has room")
    }

    fn post(&mut self, frame: &Frame) -> Result<(), Refusal> {
        self.network
            .post(Gate::default().pass_unseen(), PEER, frame)
    }

    /// Begins to read a frame of the peer into that memory, which the test lends as long as the
    /// bench exists.
    fn fetch(&mut self, memory: &mut [u8], token: u64) {
        let peer = self.network.peers[1].as_mut().unwrap();
        let sequence = peer.receiving.took_distant(0, memory.len());
        let to = NonNull::new(memory.as_mut_ptr()).unwrap();
        // SAFETY: no other code uses the memory, and it outlives the fabric's use.
        let landing = unsafe { Landing::new(to, memory.len(), token) };
        let peer = self.network.peers[1].as_ref().unwrap();
        self.network.fetching.begin(peer, sequence, landing);
        self.network.pump_fetches();
    }

    fn poll(&mut self) -> Result<usize, FabricError> {
        self.network.poll(&mut NoSink)
    }
}

struct NoSink;

impl Sink for NoSink {
    fn frame(&mut self, _arrival: Arrival<'_>) -> Disposition {
        unreachable!("nothing comes")
    }

    fn control(&mut self, _source: Rank, _control: Control) {
        unreachable!("nothing comes")
    }

    fn landed(&mut self, _token: u64, _landed: Landed) {}

    fn peer_lost(&mut self, peer: Rank) {
        panic!("rank {peer} is lost")
    }
}

/// Messages to one life after another never complete: their slots are free when their peer is
/// fenced.
#[test]
fn what_was_under_way_to_a_fenced_peer_is_free_again() {
    let mut bench = Bench::new();
    let frame = bench.frame();
    let mut posted = 0;
    for incarnation in 0..200 {
        bench.connect(incarnation);
        while bench.post(&frame).is_ok() {
            posted += 1;
        }
        let credits = bench.network.choices.credits;
        assert_eq!(bench.network.endpoint.tokens.len(), credits);
    }
    assert!(posted > 4 * Network::<SparseEndpoint>::messages_max(2));
    bench.network.disconnect(PEER);
    assert!(bench.network.is_drained(), "no operation is in flight");
}

/// Completions that were polled before a peer was fenced, and handled later, do not free slots of
/// the next life.
#[test]
fn old_completions_do_not_end_new_messages() {
    let mut bench = Bench::new();
    let frame = bench.frame();
    bench.connect(0);
    bench.post(&frame).unwrap();
    let (old, peer) = bench.network.endpoint.tokens[0];
    bench.network.endpoint.over.push(over(old, peer, Ok(())));
    // Polls the completion, and leaves it for the next poll.
    bench.network.wait(Duration::ZERO);
    bench.network.disconnect(PEER);
    bench.connect(1);
    bench.post(&frame).unwrap();
    bench.poll().unwrap();
    let mut tokens: Vec<u64> = Vec::new();
    for _ in 0..8 {
        bench.post(&frame).unwrap();
    }
    tokens.extend(bench.network.endpoint.tokens.iter().map(|(token, _)| token));
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 9, "a header was used twice at the same time");
}

/// Frames that a peer has taken are released without a completion. A rank does not end before
/// injected messages have left.
#[test]
fn a_rank_may_end_when_all_has_left() {
    let mut bench = Bench::new();
    bench.connect(0);
    bench.network.endpoint.is_behind = true;
    assert!(!bench.network.is_drained());
    bench.network.endpoint.is_behind = false;
    assert!(bench.network.is_drained());
    let frame = bench.frame();
    bench.post(&frame).unwrap();
    let peer = bench.network.peers[1].as_mut().unwrap();
    let taken = super::lane::Counters {
        taken: 1,
        ..super::lane::Counters::default()
    };
    peer.sending.acknowledged(taken).unwrap();
    assert!(bench.network.released(PEER) == bench.log.tail());
}

/// The failure of an injected message is noted for its addressee alone.
#[test]
fn an_injected_message_that_failed_troubles_its_addressee() {
    let mut bench = Bench::new();
    bench.connect(0);
    let frame = bench.frame();
    bench.post(&frame).unwrap();
    for (peer, troubled) in [(77, false), (1, true)] {
        bench
            .network
            .endpoint
            .over
            .push(over(u64::MAX, peer, Err(Trouble)));
        bench.poll().unwrap();
        assert_eq!(bench.patience().is_troubled(), troubled, "the peer {peer}");
    }
}

/// A landing in progress ends when its peer is fenced, and its slot is free.
#[test]
fn landings_of_a_fenced_peer_end_at_once() {
    struct Ended(Vec<(u64, Landed)>);
    impl Sink for Ended {
        fn frame(&mut self, _arrival: Arrival<'_>) -> Disposition {
            unreachable!("nothing comes")
        }
        fn control(&mut self, _source: Rank, _control: Control) {
            unreachable!("nothing comes")
        }
        fn landed(&mut self, token: u64, landed: Landed) {
            self.0.push((token, landed));
        }
        fn peer_lost(&mut self, _peer: Rank) {}
    }
    let mut bench = Bench::new();
    let mut memory = vec![0_u8; 9000];
    for round in 0..200 {
        bench.connect(round);
        bench.fetch(&mut memory, round.into());
        assert_eq!(bench.network.endpoint.tokens.len(), 1, "a read is begun");
        bench.network.disconnect(PEER);
        let mut ended = Ended(Vec::new());
        bench.network.poll(&mut ended).unwrap();
        assert_eq!(ended.0, [(round.into(), Landed::Lost)]);
    }
}
