//! Fabrics with one planted bug each: the checks must find every one.

#![allow(
    unsafe_code,
    reason = "planted bugs write where and when they must not"
)]

use super::on_sim::SimHarness;
use super::{Endpoint, Harness, run, start_all, to_check};
use core::ptr::NonNull;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, Region};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::{LaneKind, Options, SimFabric};
use refrain_transport::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landed, Landing, Payload,
    Place, RELEASED_WHOLLY, Refusal, Sink,
};
use refrain_transport::gate::Pass;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    LosesAFrame,
    DoublesAControl,
    FlipsABit,
    NeverPresses,
    NeverReleases,
    ReleasesBack,
    ForgetsToLetGo,
    DataStopsControl,
    PollsWithoutBound,
    MiscountsCalls,
    SleepsThroughAll,
    IgnoresDisconnect,
    SwallowsErrors,
    TakesPostsWithoutPeer,
    SharesPlaces,
    LandsOtherBytes,
    LandsTwice,
    NeverLands,
    LosesTheLast,
    WritesAfterDisconnect,
    CallsTheLostWhole,
    ReleasesDistantEarly,
    FramesWaitForLandings,
    OldPlacesNameNewFrames,
    SleepsThroughLandings,
    ClosesNothing,
    IsAlwaysDrained,
    IsNeverDrained,
    HoldsForTheGone,
    ReleasesWhatComes,
    LosesWhereItBegins,
    KeepsTheOldControl,
    ConnectsTwice,
}

/// Each bug, and a check that must find it.
const FOUND_BY: [(Bug, &str); 20] = [
    (Bug::LosesAFrame, "check_data_lane_is_fifo"),
    (Bug::DoublesAControl, "check_control_lane_is_fifo"),
    (Bug::FlipsABit, "check_payload_sizes"),
    (Bug::NeverPresses, "check_pressed_before_a_stall"),
    (Bug::NeverReleases, "check_released_reaches_the_tail"),
    (Bug::ReleasesBack, "check_log_memory_is_reused"),
    (Bug::ForgetsToLetGo, "check_released_stops_at_kept"),
    (
        Bug::DataStopsControl,
        "check_control_passes_a_full_data_lane",
    ),
    (Bug::PollsWithoutBound, "check_poll_is_bounded"),
    (Bug::MiscountsCalls, "check_data_lane_is_fifo"),
    (
        Bug::SleepsThroughAll,
        "check_wait_sees_what_was_posted_before",
    ),
    (Bug::IgnoresDisconnect, "check_disconnect_fences"),
    (Bug::SwallowsErrors, "check_wrong_source_is_refused"),
    (Bug::TakesPostsWithoutPeer, "check_unconnected_is_refused"),
    (Bug::SharesPlaces, "check_keep_and_let_go_in_any_order"),
    (
        Bug::HoldsForTheGone,
        "check_released_of_a_peer_that_is_gone",
    ),
    (
        Bug::ReleasesWhatComes,
        "check_kept_frames_hold_a_lane_that_began_again",
    ),
    (Bug::LosesWhereItBegins, "check_lane_begins_in_the_middle"),
    (Bug::KeepsTheOldControl, "check_both_sides_begin_again"),
    (Bug::ConnectsTwice, "check_connected_incarnation_is_refused"),
];

/// As `FOUND_BY`, for bugs in distant frames.
const DISTANT_FOUND_BY: [(Bug, &str); 15] = [
    (Bug::LandsOtherBytes, "check_payload_sizes"),
    (Bug::LandsOtherBytes, "check_landings_end_once"),
    (Bug::LandsTwice, "check_landings_end_once"),
    (Bug::NeverLands, "check_landings_end_once"),
    (Bug::LosesTheLast, "check_landings_end_once"),
    (Bug::WritesAfterDisconnect, "check_disconnect_ends_landings"),
    (Bug::CallsTheLostWhole, "check_disconnect_ends_landings"),
    (Bug::ReleasesDistantEarly, "check_released_stops_at_distant"),
    (
        Bug::FramesWaitForLandings,
        "check_frames_do_not_wait_for_a_landing",
    ),
    (
        Bug::OldPlacesNameNewFrames,
        "check_old_distant_places_are_lost",
    ),
    (Bug::SleepsThroughLandings, "check_wait_sees_a_landing"),
    (Bug::ClosesNothing, "check_close_ends_everything"),
    (Bug::IsAlwaysDrained, "check_drained_when_all_has_come"),
    (Bug::IsNeverDrained, "check_drained_when_all_has_come"),
    (Bug::NeverReleases, "check_released_stops_at_distant"),
];

fn find(found_by: &[(Bug, &str)], distant_bytes_min: Option<usize>) {
    for (bug, check) in found_by {
        let mut options = Options::calm(1).reading_in_place(true);
        options.data_lane_frames = 64;
        options.distant_bytes_min = distant_bytes_min;
        let report = run(&mut FaultyHarness {
            sim: SimHarness::new(options),
            bug: *bug,
        });
        let failed: Vec<_> = report.failed.iter().map(|(check, _)| *check).collect();
        eprintln!("{bug:?}: {failed:?}");
        assert!(failed.contains(check), "{bug:?} made {failed:?} fail");
    }
}

#[test]
fn every_planted_bug_is_found() {
    find(&FOUND_BY, None);
}

#[test]
fn every_planted_bug_in_what_is_distant_is_found() {
    find(&DISTANT_FOUND_BY, Some(1000));
}

struct FaultyHarness {
    sim: SimHarness,
    bug: Bug,
}

impl FaultyHarness {
    fn start(&self, rank: Rank, incarnation: Incarnation) -> Endpoint<Faulty> {
        let endpoint = self.sim.start(rank, incarnation);
        let fabric = Faulty {
            sim: endpoint.fabric,
            bug: self.bug,
            busy: false,
            calls: 0,
            last_place: None,
            memory: BTreeMap::new(),
            last_posted: Position(0),
            waits: false,
            landed: 0,
            old_control: None,
            life: Incarnation(0),
        };
        Endpoint {
            fabric,
            rank: endpoint.rank,
            incarnation: endpoint.incarnation,
            arena: endpoint.arena,
            window_bytes: endpoint.window_bytes,
        }
    }
}

impl Harness for FaultyHarness {
    fn make(&mut self, ranks: u32) -> Vec<Endpoint> {
        self.sim.clear();
        to_check(start_all(ranks, |rank| self.start(rank, Incarnation(0))))
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint {
        self.start(rank, incarnation).to_check()
    }

    fn kill(&mut self, endpoint: Endpoint) {
        let network = self.sim.network();
        network.kill_life(endpoint.rank, endpoint.incarnation);
    }

    fn progress(&mut self) -> bool {
        self.sim.progress()
    }

    fn now(&self) -> Duration {
        self.sim.now()
    }

    fn poll_calls_max(&self) -> usize {
        self.sim.poll_calls_max()
    }

    fn inject(&mut self, from: Rank, to: Rank, lane: LaneKind, bytes: &[u8]) -> bool {
        self.sim.inject(from, to, lane, bytes)
    }
}

#[derive(Debug)]
struct Faulty {
    sim: SimFabric,
    bug: Bug,
    /// Whether the last post was refused.
    busy: bool,
    /// Calls to the sink so far.
    calls: usize,
    last_place: Option<Place>,
    /// Where payload lands or has landed, by token. It is freed after the fabric.
    memory: BTreeMap<u64, Ground>,
    last_posted: Position,
    /// Whether a distant frame is kept.
    waits: bool,
    /// Landings that have ended.
    landed: usize,
    /// The control frame that was posted last.
    old_control: Option<Control>,
    /// The incarnation of the peer that was connected last.
    life: Incarnation,
}

/// Memory lent to the fabric.
#[derive(Clone, Copy, Debug)]
struct Ground {
    to: NonNull<u8>,
    bytes: usize,
    lost: bool,
}

impl Ground {
    fn of(landing: &Landing) -> Self {
        Self {
            to: landing.to(),
            bytes: landing.bytes(),
            lost: false,
        }
    }

    fn flip_last(self) {
        // SAFETY: the checks keep the memory longer than any fabric; it is the
        // bug that it is not the fabric's any more.
        unsafe {
            let last = self.to.add(self.bytes - 1);
            last.write(!last.read());
        }
    }
}

/// A sink between the fabric and the real sink.
struct Bent<'a> {
    sink: &'a mut dyn Sink,
    bug: Bug,
    calls: &'a mut usize,
    last_place: &'a mut Option<Place>,
    memory: &'a mut BTreeMap<u64, Ground>,
    waits: &'a mut bool,
    landed: &'a mut usize,
}

impl Sink for Bent<'_> {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        *self.calls += 1;
        if self.bug == Bug::LosesAFrame && *self.calls == 100 {
            return Disposition::Consumed;
        }
        let Payload::Here(payload) = arrival.payload else {
            *self.last_place = Some(arrival.place);
            let disposition = self.sink.frame(arrival);
            match &disposition {
                Disposition::Fetch(landing) => {
                    self.memory.insert(landing.token(), Ground::of(landing));
                }
                Disposition::Keep => *self.waits = true,
                Disposition::Consumed => {}
            }
            return disposition;
        };
        let mut payload = payload.to_vec();
        if self.bug == Bug::FlipsABit && payload.len() > 70_000 {
            payload[70_000] ^= 0x10;
        }
        *self.last_place = Some(arrival.place);
        self.sink.frame(Arrival {
            payload: Payload::Here(&payload),
            pressed: arrival.pressed && self.bug != Bug::NeverPresses,
            ..arrival
        })
    }

    fn control(&mut self, source: Rank, control: Control) {
        *self.calls += 1;
        if self.bug == Bug::DoublesAControl && *self.calls == 100 {
            self.sink.control(source, control);
        }
        self.sink.control(source, control);
    }

    fn landed(&mut self, token: u64, landed: Landed) {
        *self.landed += 1;
        let ground = self.memory.get_mut(&token).expect("it was begun");
        match (self.bug, landed) {
            (Bug::NeverLands, _) => return,
            (Bug::LandsOtherBytes, Landed::Whole) => ground.flip_last(),
            (Bug::LosesTheLast, Landed::Whole) if token % 8 == 7 => {
                return self.sink.landed(token, Landed::Lost);
            }
            (Bug::CallsTheLostWhole, _) => return self.sink.landed(token, Landed::Whole),
            (Bug::LandsTwice, _) => self.sink.landed(token, landed),
            (_, Landed::Lost) => ground.lost = true,
            _ => {}
        }
        self.sink.landed(token, landed);
    }

    fn peer_lost(&mut self, peer: Rank) {
        self.sink.peer_lost(peer);
    }
}

impl Faulty {
    fn poll_once(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        self.sim.poll(&mut Bent {
            sink,
            bug: self.bug,
            calls: &mut self.calls,
            last_place: &mut self.last_place,
            memory: &mut self.memory,
            waits: &mut self.waits,
            landed: &mut self.landed,
        })
    }
}

impl Fabric for Faulty {
    fn attributes(&self) -> &Attributes {
        self.sim.attributes()
    }

    fn address(&self) -> Address {
        self.sim.address()
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        self.life = incarnation;
        let connected = self.sim.connect(peer, incarnation, address);
        match (self.bug, self.old_control) {
            (Bug::ConnectsTwice, _) => Ok(()),
            (Bug::KeepsTheOldControl, Some(control)) => {
                let posted = self.sim.post_control(super::seat::pass(), peer, control);
                posted.or(Ok(()))
            }
            _ => connected,
        }
    }

    fn disconnect(&mut self, peer: Rank) {
        if self.bug != Bug::IgnoresDisconnect {
            self.sim.disconnect(peer);
        }
    }

    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let begins = self.life > Incarnation(0) && self.sim.released(peer) == Position(0);
        if self.bug == Bug::LosesWhereItBegins && begins && frame.position.0 > 100_000 {
            self.life = Incarnation(0);
            return Ok(());
        }
        let posted = self.sim.post(pass, peer, frame);
        self.busy = matches!(posted, Err(Refusal::Busy));
        if posted.is_ok() {
            self.last_posted = frame.position;
        }
        if self.bug == Bug::TakesPostsWithoutPeer {
            return Ok(());
        }
        posted
    }

    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        self.sim.leave_chunk(region, peer, link)
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        if self.bug == Bug::DataStopsControl && self.busy {
            return Err(Refusal::Busy);
        }
        let posted = self.sim.post_control(pass, peer, control);
        if posted.is_ok() {
            self.old_control = Some(control);
        }
        posted
    }

    fn released(&mut self, peer: Rank) -> Position {
        let released = self.sim.released(peer);
        match self.bug {
            Bug::NeverReleases => Position(0),
            Bug::HoldsForTheGone if released == RELEASED_WHOLLY => Position(0),
            Bug::ReleasesWhatComes if self.life > Incarnation(0) => released.max(self.last_posted),
            Bug::ReleasesDistantEarly => released.max(self.last_posted),
            Bug::ReleasesBack if released.0 > 700_000 => Position(released.0 - 600_000),
            _ => released,
        }
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        if self.bug == Bug::FramesWaitForLandings && self.waits {
            return Ok(0);
        }
        if self.bug == Bug::WritesAfterDisconnect {
            let lost = self.memory.values().filter(|ground| ground.lost);
            lost.for_each(|ground| ground.flip_last());
        }
        let mut polled = self.poll_once(sink);
        match self.bug {
            Bug::PollsWithoutBound => {
                let mut calls = polled?;
                loop {
                    match self.poll_once(sink)? {
                        0 => return Ok(calls),
                        more => calls += more,
                    }
                }
            }
            Bug::MiscountsCalls => polled = polled.map(|calls| calls.min(1)),
            Bug::SwallowsErrors => polled = polled.or(Ok(0)),
            _ => {}
        }
        polled
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        let place = match self.last_place {
            Some(last) if self.bug == Bug::SharesPlaces => last,
            _ => place,
        };
        self.sim.kept(place, payload_bytes)
    }

    fn let_go(&mut self, place: Place) {
        self.waits = false;
        if self.bug != Bug::ForgetsToLetGo {
            self.sim.let_go(place);
        }
    }

    fn is_drained(&mut self) -> bool {
        match self.bug {
            Bug::IsAlwaysDrained => true,
            Bug::IsNeverDrained => false,
            _ => self.sim.is_drained(),
        }
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        self.waits = false;
        self.memory.insert(landing.token(), Ground::of(&landing));
        let place = match self.last_place {
            Some(last) if self.bug == Bug::OldPlacesNameNewFrames => last,
            _ => place,
        };
        self.sim.fetch(place, landing);
    }

    fn close(&mut self) {
        if self.bug != Bug::ClosesNothing {
            self.sim.close();
        }
    }

    fn wait(&mut self, timeout: Duration) {
        let ticks = timeout.as_micros() as u64;
        let landing = self.memory.len() > self.landed;
        let sleeps = self.bug == Bug::SleepsThroughLandings && landing;
        if self.bug == Bug::SleepsThroughAll || sleeps {
            self.sim.network().advance(ticks);
        } else {
            self.sim.wait(timeout);
        }
    }
}
