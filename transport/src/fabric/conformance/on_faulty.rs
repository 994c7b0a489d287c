//! Fabrics with one planted bug each: the checks must find every one.

use super::on_sim::SimHarness;
use super::{Endpoint, Harness, connect_all, run};
use crate::control::Control;
use crate::fabric::sim::{LaneKind, Options, SimFabric};
use crate::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landed, Landing, Payload,
    Place, Refusal, Sink,
};
use crate::gate::Pass;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank};

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
    TakesPostsToNobody,
    SharesPlaces,
}

/// Each bug, and a check that must find it.
const FOUND_BY: [(Bug, &str); 15] = [
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
    (Bug::TakesPostsToNobody, "check_unconnected_is_refused"),
    (Bug::SharesPlaces, "check_keep_and_let_go_in_any_order"),
];

#[test]
fn every_planted_bug_is_found() {
    for (bug, check) in FOUND_BY {
        let mut options = Options::calm(1).reading_in_place(true);
        options.data_lane_frames = 64;
        let report = run(&mut FaultyHarness {
            sim: SimHarness::new(options),
            bug,
        });
        let failed: Vec<_> = report.failed.iter().map(|(check, _)| *check).collect();
        eprintln!("{bug:?}: {failed:?}");
        assert!(failed.contains(&check), "{bug:?} made {failed:?} fail");
    }
}

struct FaultyHarness {
    sim: SimHarness,
    bug: Bug,
}

impl FaultyHarness {
    fn wrap(&self, endpoint: Endpoint<SimFabric>) -> Endpoint<Faulty> {
        let fabric = Faulty {
            sim: endpoint.fabric,
            bug: self.bug,
            busy: false,
            calls: 0,
            last_place: None,
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
    type F = Faulty;

    fn make(&mut self, ranks: u32) -> Vec<Endpoint<Faulty>> {
        self.sim.clear();
        let mut endpoints: Vec<_> = (0..ranks)
            .map(|rank| self.restart(Rank(rank), Incarnation(0)))
            .collect();
        connect_all(&mut endpoints);
        endpoints
    }

    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint<Faulty> {
        let endpoint = self.sim.restart(rank, incarnation);
        self.wrap(endpoint)
    }

    fn kill(&mut self, endpoint: Endpoint<Faulty>) {
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
    /// The last post was refused.
    busy: bool,
    /// Calls to the sink so far.
    calls: usize,
    last_place: Option<Place>,
}

/// Stands between the fabric and the sink.
struct Bent<'a> {
    sink: &'a mut dyn Sink,
    bug: Bug,
    calls: &'a mut usize,
    last_place: &'a mut Option<Place>,
}

impl Sink for Bent<'_> {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        *self.calls += 1;
        if self.bug == Bug::LosesAFrame && *self.calls == 100 {
            return Disposition::Consumed;
        }
        let Payload::Here(payload) = arrival.payload else {
            return self.sink.frame(arrival);
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
        self.sim.connect(peer, incarnation, address)
    }

    fn disconnect(&mut self, peer: Rank) {
        if self.bug != Bug::IgnoresDisconnect {
            self.sim.disconnect(peer);
        }
    }

    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        let posted = self.sim.post(pass, peer, frame);
        self.busy = matches!(posted, Err(Refusal::Busy));
        if self.bug == Bug::TakesPostsToNobody {
            return Ok(());
        }
        posted
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        if self.bug == Bug::DataStopsControl && self.busy {
            return Err(Refusal::Busy);
        }
        self.sim.post_control(pass, peer, control)
    }

    fn released(&mut self, peer: Rank) -> Position {
        let released = self.sim.released(peer);
        match self.bug {
            Bug::NeverReleases => Position(0),
            Bug::ReleasesBack if released.0 > 700_000 => Position(released.0 - 600_000),
            _ => released,
        }
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
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
        if self.bug != Bug::ForgetsToLetGo {
            self.sim.let_go(place);
        }
    }

    fn is_drained(&mut self) -> bool {
        self.sim.is_drained()
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        self.sim.fetch(place, landing);
    }

    fn close(&mut self) {
        self.sim.close();
    }

    fn wait(&mut self, timeout: Duration) {
        let ticks = timeout.as_micros() as u64;
        if self.bug == Bug::SleepsThroughAll {
            self.sim.network().advance(ticks);
        } else {
            self.sim.wait(timeout);
        }
    }
}
