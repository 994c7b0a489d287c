//! The simulated network: it is deterministic, its faults happen, and it catches an
//! engine that breaks its promises.

use super::on_sim::SimHarness;
use super::{check_killed_peer_leaves_a_prefix, check_peers_interleaved};
use core::time::Duration;
use refrain_ring::{Arena, ChannelLog, Frame, Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::{Event, LaneKind, Network, Options, SimFabric};
use refrain_transport::fabric::{Arrival, Disposition, Fabric, Sink};
use refrain_transport::gate::{Gate, Pass};

const WINDOW_BYTES: u64 = 512 << 10;

fn pass() -> Pass {
    Gate::default().pass_unseen()
}

/// Records arrivals.
#[derive(Default)]
struct Notes {
    frames: Vec<(Rank, Incarnation, u64)>,
    controls: usize,
    lost: Vec<Rank>,
    /// Frames and control frames by lane, in order of arrival.
    lanes: Vec<LaneKind>,
}

impl Sink for Notes {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        let header = arrival.header;
        self.frames
            .push((header.source, header.incarnation, header.ssn.0));
        self.lanes.push(LaneKind::Data);
        Disposition::Consumed
    }

    fn control(&mut self, _source: Rank, _control: Control) {
        self.controls += 1;
        self.lanes.push(LaneKind::Control);
    }

    fn landed(&mut self, _token: u64, _landed: refrain_transport::fabric::Landed) {
        unreachable!("no frame was fetched");
    }

    fn peer_lost(&mut self, peer: Rank) {
        self.lost.push(peer);
    }
}

/// One rank that sends to rank 0.
struct Sender {
    fabric: SimFabric,
    arena: Arena,
    log: ChannelLog,
    ssn: u64,
}

impl Sender {
    fn start(network: &Network, rank: u32, incarnation: u32) -> Self {
        let (rank, incarnation) = (Rank(rank), Incarnation(incarnation));
        let (fabric, arena) = network.start(rank, incarnation, 4 << 20);
        Self {
            fabric,
            arena,
            log: ChannelLog::new(rank, incarnation, Rank(0), WINDOW_BYTES),
            ssn: 0,
        }
    }

    fn pack(&mut self, payload_bytes: usize) -> Frame {
        let header = RecordHeader {
            payload_bytes: 0,
            kind: RecordKind::Eager,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn: Ssn(self.ssn),
            context: 0,
            tag: 0,
            extent: payload_bytes as u64,
        };
        self.ssn += 1;
        self.log
            .append(&mut self.arena, payload_bytes, true, header, |_| {})
            .expect("there is room")
    }

    fn post(&mut self, frame: &Frame) {
        while self.fabric.post(pass(), Rank(0), frame).is_err() {}
    }

    fn send(&mut self) {
        let frame = self.pack(100);
        self.post(&frame);
    }
}

/// A network in which rank 0 receives from ranks 1 and up.
fn job(options: Options, senders: u32) -> (Network, SimFabric, Vec<Sender>) {
    let network = Network::new(options);
    let (mut receiver, _) = network.start(Rank(0), Incarnation(0), 4 << 20);
    let mut senders: Vec<Sender> = (1..=senders)
        .map(|rank| Sender::start(&network, rank, 0))
        .collect();
    for (rank, sender) in (1..).zip(&mut senders) {
        join(&mut receiver, sender, rank, 0);
    }
    (network, receiver, senders)
}

fn join(receiver: &mut SimFabric, sender: &mut Sender, rank: u32, incarnation: u32) {
    let address = receiver.address();
    sender
        .fabric
        .connect(Rank(0), Incarnation(0), &address)
        .expect("it was started");
    let address = sender.fabric.address();
    receiver
        .connect(Rank(rank), Incarnation(incarnation), &address)
        .expect("it was started");
}

fn drain(network: &Network, receiver: &mut SimFabric, notes: &mut Notes) {
    while network.step() || receiver.poll(notes).expect("no garbage") > 0 {}
}

fn rough_with_trace(seed: u64) -> Options {
    Options {
        keeps_trace: true,
        ..Options::rough(seed)
    }
}

fn trace_of(seed: u64) -> Vec<Vec<(u64, Event)>> {
    let mut harness = SimHarness::new(rough_with_trace(seed));
    check_peers_interleaved(&mut harness);
    let interleaved = harness.network().events();
    check_killed_peer_leaves_a_prefix(&mut harness);
    vec![interleaved, harness.network().events()]
}

#[test]
fn one_seed_makes_one_run() {
    for seed in [1, 2, u64::MAX] {
        let first = trace_of(seed);
        assert!(first.iter().all(|events| events.len() > 100));
        assert_eq!(first, trace_of(seed), "seed {seed}");
    }
    assert_ne!(trace_of(1), trace_of(2));
}

#[test]
fn digest_follows_the_trace() {
    let digest = |seed| {
        let mut harness = SimHarness::new(Options::rough(seed));
        check_killed_peer_leaves_a_prefix(&mut harness);
        harness.network().digest()
    };
    assert_eq!(digest(5), digest(5));
    assert_ne!(digest(5), digest(6));
}

#[test]
fn lanes_and_pairs_overtake_each_other() {
    let (mut control_first, mut second_first) = (0, 0);
    for seed in 0..50 {
        let (network, mut receiver, mut senders) = job(Options::rough(seed), 2);
        let mut notes = Notes::default();
        senders[0].send();
        while senders[0]
            .fabric
            .post_control(pass(), Rank(0), Control::Horizon { ssn: Ssn(0) })
            .is_err()
        {}
        senders[1].send();
        while network.step() {
            while receiver.poll(&mut notes).expect("no garbage") > 0 {}
        }
        assert_eq!(notes.lanes.len(), 3, "seed {seed}");
        control_first += usize::from(notes.lanes[0] == LaneKind::Control);
        second_first += usize::from(notes.frames[0].0 == Rank(2));
    }
    assert!((1..50).contains(&control_first), "{control_first} of 50");
    assert!((1..50).contains(&second_first), "{second_first} of 50");
}

#[test]
fn killed_rank_leaves_any_prefix_and_late_frames_stay_out() {
    let mut prefixes = [0; 11];
    let mut dropped_late = 0;
    for seed in 0..200 {
        let (network, mut receiver, mut senders) = job(rough_with_trace(seed), 1);
        for _ in 0..10 {
            senders[0].send();
        }
        network.kill(Rank(1));
        let mut notes = Notes::default();
        if seed % 2 == 0 {
            drain(&network, &mut receiver, &mut notes);
            let numbers: Vec<u64> = notes.frames.iter().map(|(.., ssn)| *ssn).collect();
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
            prefixes[numbers.len()] += 1;
            continue;
        }
        let mut next = Sender::start(&network, 1, 1);
        join(&mut receiver, &mut next, 1, 1);
        let restarted_at = network.now();
        next.send();
        drain(&network, &mut receiver, &mut notes);
        assert_eq!(notes.frames, [(Rank(1), Incarnation(1), 0)], "FENCE-1");
        dropped_late += network
            .events()
            .iter()
            .filter(|(at, event)| {
                *at >= restarted_at && matches!(event, Event::Dropped(route, LaneKind::Data) if route.from.incarnation.0 == 0)
            })
            .count();
    }
    assert!(
        prefixes.iter().all(|count| *count > 0),
        "prefixes by length: {prefixes:?}"
    );
    assert!(
        dropped_late > 100,
        "late frames surfaced only {dropped_late} times"
    );
}

#[test]
fn loss_is_reported_once_or_never() {
    for (notice, reports) in [(Some(100), 1), (None, 0)] {
        let mut options = Options::calm(3);
        options.faults.loss_notice_ticks_max = notice;
        let (network, mut receiver, _senders) = job(options, 2);
        network.kill(Rank(2));
        network.advance(1000);
        let mut notes = Notes::default();
        drain(&network, &mut receiver, &mut notes);
        assert_eq!(notes.lost, vec![Rank(2); reports]);
    }
}

#[test]
fn full_lane_refuses_until_there_is_room() {
    let mut options = Options::calm(0);
    options.data_lane_frames = 3;
    let (network, mut receiver, mut senders) = job(options, 1);
    for _ in 0..3 {
        let frame = senders[0].pack(10);
        assert!(senders[0].fabric.post(pass(), Rank(0), &frame).is_ok());
    }
    let frame = senders[0].pack(10);
    assert!(senders[0].fabric.post(pass(), Rank(0), &frame).is_err());
    drain(&network, &mut receiver, &mut Notes::default());
    assert!(senders[0].fabric.post(pass(), Rank(0), &frame).is_ok());
}

#[test]
fn wait_goes_to_the_next_delivery_or_the_time_out() {
    let mut options = Options::calm(0);
    options.faults.delay_ticks_max = 40;
    let (network, mut receiver, mut senders) = job(options, 1);
    receiver.wait(Duration::from_millis(1));
    assert_eq!(network.now(), 1000, "nothing is on its way");
    senders[0].send();
    receiver.wait(Duration::from_secs(3600));
    assert!(network.now() <= 1040);
    let mut notes = Notes::default();
    assert_eq!(receiver.poll(&mut notes).expect("no garbage"), 1);
}

/// The engine writes into a frame that is posted and not released.
fn change_before_release(reads_in_place: bool) {
    let options = Options::calm(0).reading_in_place(reads_in_place);
    let (network, mut receiver, mut senders) = job(options, 1);
    let sender = &mut senders[0];
    let frame = sender.pack(1000);
    sender.post(&frame);
    let last_word = frame.offset + frame.bytes - 8;
    sender.arena.region().store_word(last_word, 1);
    drain(&network, &mut receiver, &mut Notes::default());
}

#[test]
#[should_panic(expected = "changed or freed before it was released")]
fn change_before_release_is_caught() {
    change_before_release(false);
}

#[test]
#[should_panic(expected = "changed or freed before it was released")]
fn change_before_release_is_caught_in_place() {
    change_before_release(true);
}

#[test]
#[should_panic(expected = "out of order")]
fn post_out_of_order_is_caught() {
    let (_network, _receiver, mut senders) = job(Options::calm(0), 1);
    let _skipped = senders[0].pack(10);
    let second = senders[0].pack(10);
    senders[0].post(&second);
}
