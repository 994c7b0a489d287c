//! The [`NetworkState`] of a network: lives, links and time.

use super::landings::Landings;
use super::lane::{Bytes, Lane, Packet};
use super::ledger::Ledger;
use super::random::Random;
use super::trace::{Event, Life, Route, Trace};
use super::{LaneKind, Options, TICK_NS};
use crate::control::CONTROL_WORDS;
use crate::fabric::{RELEASED_WHOLLY, Refusal};
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, Region};
use std::collections::BTreeMap;

/// The two lanes of a route, and which frames the sender's log still has to hold.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) data: Lane,
    pub(super) control: Lane,
    pub(super) ledger: Ledger,
}

impl Link {
    pub(super) fn new(route: Route, region: Region, options: &Options) -> Self {
        Self {
            data: Lane::new(options.data_lane_frames),
            control: Lane::new(options.control_lane_frames),
            ledger: Ledger::new(route, region),
        }
    }

    pub(super) fn lane(&mut self, lane: LaneKind) -> &mut Lane {
        match lane {
            LaneKind::Data => &mut self.data,
            LaneKind::Control => &mut self.control,
        }
    }
}

/// The state of one peer at one life.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) connected: Option<Incarnation>,
    /// FENCE-1: lower incarnations are refused.
    pub(super) accepts_from: u64,
}

/// The state of one life in the network.
#[derive(Debug, Default)]
pub(super) struct Port {
    pub(super) dead: bool,
    /// Whether its rank has closed it.
    pub(super) closed: bool,
    pub(super) woken: bool,
    pub(super) peers: BTreeMap<Rank, Peer>,
    /// Lost peers to be reported, with the ticks at which the reports are due.
    pub(super) losses: Vec<(u64, Life)>,
    pub(super) landings: Landings,
}

impl Port {
    pub(super) fn fences(&self, from: Life) -> bool {
        let peer = self.peers.get(&from.rank);
        peer.is_some_and(|peer| u64::from(from.incarnation.0) < peer.accepts_from)
    }

    pub(super) fn connected(&self, peer: Rank) -> Option<Incarnation> {
        self.peers.get(&peer).and_then(|peer| peer.connected)
    }
}

#[derive(Debug)]
pub(super) struct NetworkState {
    pub(super) options: Options,
    pub(super) random: Random,
    pub(super) trace: Trace,
    now: u64,
    pub(super) ports: BTreeMap<Life, Port>,
    pub(super) links: BTreeMap<Route, Link>,
    /// The frame that was posted last.
    pub(super) last_posted: Option<Bytes>,
}

impl NetworkState {
    pub(super) fn new(options: Options) -> Self {
        Self {
            random: Random::new(options.seed),
            trace: Trace::new(options.keeps_trace),
            now: 0,
            ports: BTreeMap::new(),
            links: BTreeMap::new(),
            last_posted: None,
            options,
        }
    }

    pub(super) fn start(&mut self, life: Life) {
        let newest = self.newest(life.rank);
        assert!(newest < Some(life), "{life:?} was started before");
        self.ports.insert(life, Port::default());
    }

    /// The newest life of a rank.
    pub(super) fn newest(&self, rank: Rank) -> Option<Life> {
        let [first, last] = [0, u32::MAX].map(|number| Life::new(rank, Incarnation(number)));
        let newest = self.ports.range(first..=last).next_back();
        newest.map(|(life, _)| *life)
    }

    pub(super) fn port(&mut self, life: Life) -> &mut Port {
        let port = self.ports.get_mut(&life);
        port.expect("an endpoint was started with its port")
    }

    pub(super) fn is_alive(&self, life: Life) -> bool {
        !self.ports[&life].dead
    }

    /// The route to a connected peer.
    pub(super) fn route_to(&self, from: Life, peer: Rank) -> Option<Route> {
        let port = &self.ports[&from];
        let incarnation = port
            .connected(peer)
            .filter(|_| !port.dead && !port.closed)?;
        Some(Route::new(from, Life::new(peer, incarnation)))
    }

    pub(super) fn add_event(&mut self, event: Event) {
        self.trace.add(self.now, event);
    }

    /// The tick at which a frame that is sent now arrives.
    pub(super) fn due(&mut self) -> u64 {
        self.now + self.random.up_to(self.options.faults.delay_ticks_max)
    }
}

/// Sending.
impl NetworkState {
    /// Sends a frame that `admit` has accepted. Returns its bytes as they lie in the log, unless
    /// the log is broken.
    pub(super) fn post_admitted(&mut self, route: Route, frame: &Frame) -> Option<Bytes> {
        let due = self.due();
        let link = self.links.get_mut(&route)?;
        let mut sent = None;
        if let Some(bytes) = link.ledger.post(frame) {
            sent = bytes.as_ref().ok().cloned();
            let position = sent.as_ref().map(|_| frame.position);
            link.data.send(due, position, bytes);
        }
        self.add_event(Event::Posted(route, LaneKind::Data, frame.position));
        self.last_posted.clone_from(&sent);
        sent
    }

    pub(super) fn post_control(
        &mut self,
        from: Life,
        to: Rank,
        words: [u64; CONTROL_WORDS],
    ) -> Result<(), Refusal> {
        let route = self.admit(from, to, LaneKind::Control)?;
        let due = self.due();
        let bytes = words.map(u64::to_le_bytes).as_flattened().into();
        self.link(route).control.send(due, None, Ok(bytes));
        self.add_event(Event::Posted(route, LaneKind::Control, Position(0)));
        Ok(())
    }

    pub(super) fn admit(&mut self, from: Life, to: Rank, lane: LaneKind) -> Result<Route, Refusal> {
        let route = self.route_to(from, to).ok_or(Refusal::NotConnected(to))?;
        let full = self.link(route).lane(lane).is_full();
        let refused_by_chance = self.random.chance(self.options.faults.busy_per_mille);
        if full || refused_by_chance {
            // After a refusal by chance the sender may try again at once.
            self.port(from).woken |= !full;
            self.add_event(Event::Refused(route, lane));
            return Err(Refusal::Busy);
        }
        Ok(route)
    }

    pub(super) fn inject(&mut self, from: Rank, to: Rank, lane: LaneKind, bytes: &[u8]) -> bool {
        let (Some(from), Some(to)) = (self.newest(from), self.newest(to)) else {
            return false;
        };
        let due = self.due();
        let link = self.links.get_mut(&Route::new(from, to));
        link.map(|link| link.lane(lane).send(due, None, Ok(bytes.into())))
            .is_some()
    }

    pub(super) fn released(&self, from: Life, to: Rank) -> Position {
        let route = self.route_to(from, to);
        route.map_or(RELEASED_WHOLLY, |route| self.links[&route].ledger.released)
    }

    pub(super) fn leave_chunk(&mut self, from: Life, to: Rank) {
        if let Some(route) = self.route_to(from, to) {
            self.link(route).ledger.leave_chunk();
        }
    }

    /// Notes that the receiver does not need a frame of the log any more.
    pub(super) fn release(&mut self, route: Route, position: Position) {
        let due = self.due();
        if let Some(link) = self.links.get_mut(&route)
            && let Some(released) = link.ledger.done(position)
        {
            link.ledger.notify(due, released);
        }
    }
}

/// Time.
impl NetworkState {
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    fn next_due(&self) -> Option<u64> {
        let on_links = self.links.values().flat_map(|link| {
            [
                link.data.next_due(),
                link.control.next_due(),
                link.ledger.next_due(),
            ]
        });
        let alive = self.ports.values().filter(|port| !port.dead);
        let at_ports = alive.flat_map(|port| {
            let losses = port.losses.iter().map(|(due, _)| *due);
            let later = losses.filter(|due| *due > self.now);
            later.chain(port.landings.next_due())
        });
        on_links.flatten().chain(at_ports).min()
    }

    pub(super) fn step(&mut self) -> bool {
        let Some(due) = self.next_due() else {
            return false;
        };
        self.now = self.now.max(due);
        self.deliver();
        true
    }

    pub(super) fn advance(&mut self, ticks: u64) {
        let end = self.now.saturating_add(ticks);
        while self.next_due().is_some_and(|due| due <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Waits until the next delivery anywhere, or until the time is over. Does not wait if this
    /// life has arrivals.
    pub(super) fn wait(&mut self, life: Life, timeout: Duration) {
        let per_mille = self.options.faults.spurious_wake_per_mille;
        let spurious = self.random.chance(per_mille);
        if spurious || self.ports[&life].woken || self.has_arrivals(life) {
            return;
        }
        let ticks = u64::try_from(timeout.as_nanos() / u128::from(TICK_NS));
        let end = self.now.saturating_add(ticks.unwrap_or(u64::MAX));
        if self.next_due().is_some_and(|due| due <= end) {
            self.step();
        } else {
            self.now = end;
        }
    }

    /// Delivers everything that is due.
    fn deliver(&mut self) {
        let now = self.now;
        let routes: Vec<Route> = self.links.keys().copied().collect();
        for route in routes {
            for lane in [LaneKind::Data, LaneKind::Control] {
                while let Some(packet) = self.link(route).lane(lane).take_due(now) {
                    self.deliver_packet(route, lane, packet);
                }
            }
            self.deliver_releases(route);
        }
        self.deliver_landings();
        for port in self.ports.values_mut() {
            port.woken |= port.losses.iter().any(|(due, _)| *due <= now);
        }
    }

    /// Whether the payload stays in the sender's log when the frame arrives.
    pub(super) fn is_distant(&self, bytes: &Bytes) -> bool {
        let payload_bytes = bytes.len().saturating_sub(RecordHeader::BYTES);
        self.options.is_distant(payload_bytes)
    }

    /// Whether all frames that a life posted to present peers have arrived, and none of their
    /// payload is still to be fetched.
    pub(super) fn is_drained(&self, life: Life) -> bool {
        let distant = |payload_bytes| self.options.is_distant(payload_bytes);
        let outward = self.links.iter().filter(|(route, _)| route.from == life);
        let mut open = outward.filter(|(route, _)| self.is_open(**route));
        open.all(|(_, link)| {
            let lanes = [&link.data, &link.control];
            lanes.iter().all(|lane| lane.in_flight.is_empty()) && !link.ledger.owes(distant)
        })
    }

    /// Whether the receiver takes frames of a route.
    pub(super) fn is_open(&self, route: Route) -> bool {
        let fence_off = self.options.faults.fence_off;
        let port = &self.ports[&route.to];
        !port.dead && !port.closed && (fence_off || !port.fences(route.from))
    }

    pub(super) fn link(&mut self, route: Route) -> &mut Link {
        let link = self.links.get_mut(&route);
        link.expect("routes come from the links")
    }

    pub(super) fn deliver_packet(&mut self, route: Route, lane: LaneKind, packet: Packet) {
        if !self.is_open(route) {
            self.link(route).lane(lane).buried += 1;
            return self.add_event(Event::Dropped(route, lane));
        }
        let is_whole = packet
            .bytes
            .as_ref()
            .is_ok_and(|bytes| !self.is_distant(bytes));
        let position = packet.position.filter(|_| is_whole);
        self.link(route).lane(lane).arrive(packet);
        self.port(route.to).woken = true;
        self.add_event(Event::Arrived(route, lane));
        if let Some(position) = position
            && !self.options.attributes.reads_in_place
        {
            self.release(route, position);
        }
    }

    pub(super) fn deliver_releases(&mut self, route: Route) {
        let now = self.now;
        let ledger = &mut self.link(route).ledger;
        if ledger.take_due(now) {
            let released = ledger.released;
            self.port(route.from).woken = true;
            self.add_event(Event::Released(route, released));
        }
    }
}
