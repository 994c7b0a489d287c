//! Landings: payload of distant frames in flight to a receiver's memory.
//!
//! Like a device, the network writes without the receiver's help, but never into memory that was
//! taken back: a landing that has ended is removed first.

#![allow(
    unsafe_code,
    reason = "writes into memory that is lent by pointer, as a device does"
)]

use super::lane::Bytes;
use super::random::Random;
use super::state::NetworkState;
use super::trace::{Event, Life, Route};
use crate::fabric::{Landed, Landing};
use core::ptr::NonNull;
use refrain_ring::{Position, Rank, RecordHeader};
use std::collections::VecDeque;

/// A payload in flight.
#[derive(Debug)]
struct Flight {
    route: Route,
    position: Position,
    bytes: Bytes,
    landing: Landing,
    /// When and how it ends. `None`: its sender is dead, and no peer notices.
    ends: Option<(u64, Landed)>,
}

/// The landings of one life.
#[derive(Debug, Default)]
pub(super) struct Landings {
    under_way: Vec<Flight>,
    /// Landings that have ended and are not reported yet, in the order of their ends.
    pub(super) ended: VecDeque<(u64, Landed)>,
}

impl Landings {
    pub(super) fn next_due(&self) -> Option<u64> {
        let ends = self.under_way.iter().filter_map(|flight| flight.ends);
        ends.map(|(due, _)| due).min()
    }

    /// Forgets all landings: the endpoint is dropped, and the lent memory with it.
    pub(super) fn forget(&mut self) {
        self.under_way.clear();
        self.ended.clear();
    }
}

impl Flight {
    fn payload(&self) -> &[u8] {
        &self.bytes[RecordHeader::BYTES..]
    }

    fn write(&self, bytes: usize) {
        let payload = &self.payload()[..bytes];
        // SAFETY: there is room for the payload (checked by `fetch`), and the
        // memory is this landing's until it ended, its life was closed or its
        // endpoint dropped: the flight is removed then.
        unsafe {
            let from = NonNull::from(payload).cast();
            let to = self.landing.to();
            to.copy_from_nonoverlapping(from, payload.len());
        }
    }
}

impl NetworkState {
    /// Begins the landing of a distant frame.
    pub(super) fn fetch(&mut self, route: Route, position: Position, bytes: Bytes, to: Landing) {
        let payload_bytes = bytes.len() - RecordHeader::BYTES;
        assert!(
            to.bytes() >= payload_bytes,
            "{route:?}: {payload_bytes} bytes are to land where there is room for {}",
            to.bytes()
        );
        let port = &self.ports[&route.to];
        if port.dead {
            return;
        }
        if port.closed || port.connected(route.from.rank) != Some(route.from.incarnation) {
            return self.lose(route.to, &to);
        }
        let ends = if self.is_alive(route.from) {
            Some((self.due(), Landed::Whole))
        } else {
            let ticks_max = self.options.faults.loss_notice_ticks_max;
            loss(self.now(), ticks_max, &mut self.random)
        };
        self.port(route.to).landings.under_way.push(Flight {
            route,
            position,
            bytes,
            landing: to,
            ends,
        });
    }

    /// Ends a landing as lost before it has begun.
    pub(super) fn lose(&mut self, life: Life, landing: &Landing) {
        let port = self.port(life);
        port.landings
            .ended
            .push_back((landing.token(), Landed::Lost));
        port.woken = true;
    }

    /// Ends the landings that are due.
    pub(super) fn deliver_landings(&mut self) {
        let now = self.now();
        let is_due = |flight: &mut Flight| flight.ends.is_some_and(|(due, _)| due <= now);
        let mut due: Vec<Flight> = Vec::new();
        for port in self.ports.values_mut().filter(|port| !port.dead) {
            due.extend(port.landings.under_way.extract_if(.., is_due));
        }
        due.sort_by_key(|flight| flight.ends.map(|(due, _)| due));
        for flight in due {
            let how = flight.ends.map_or(Landed::Lost, |(_, how)| how);
            self.end(&flight, how);
        }
    }

    fn end(&mut self, flight: &Flight, how: Landed) {
        let all = flight.payload().len();
        let event = match how {
            Landed::Whole => {
                flight.write(all);
                self.release(flight.route, flight.position);
                Event::Landed(flight.route, flight.position)
            }
            Landed::Lost => {
                flight.write(self.random.up_to(all as u64) as usize);
                Event::LandingLost(flight.route, flight.position)
            }
        };
        let port = self.port(flight.route.to);
        port.landings.ended.push_back((flight.landing.token(), how));
        port.woken = true;
        self.add_event(event);
    }

    /// Ends landings at `life` as lost, from one rank or from all.
    pub(super) fn lose_landings(&mut self, life: Life, from: Option<Rank>) {
        let is_from = |flight: &mut Flight| from.is_none_or(|from| flight.route.from.rank == from);
        let under_way = &mut self.port(life).landings.under_way;
        let lost: Vec<Flight> = under_way.extract_if(.., is_from).collect();
        for flight in lost {
            self.end(&flight, Landed::Lost);
        }
    }

    /// Handles the kill of a rank: landings at it are forgotten, landings from it never become
    /// whole.
    pub(super) fn kill_landings(&mut self, life: Life) {
        self.port(life).landings.forget();
        let (now, ticks_max) = (self.now(), self.options.faults.loss_notice_ticks_max);
        for port in self.ports.values_mut() {
            let under_way = port.landings.under_way.iter_mut();
            for flight in under_way.filter(|flight| flight.route.from == life) {
                flight.ends = loss(now, ticks_max, &mut self.random);
            }
        }
    }

    /// Closes an endpoint: no frame leaves it or reaches it any more.
    pub(super) fn close(&mut self, life: Life) {
        if self.is_alive(life) {
            self.port(life).closed = true;
            self.lose_landings(life, None);
        }
    }
}

/// When and how a landing from a dead rank ends, if it ever does by itself.
fn loss(now: u64, ticks_max: Option<u64>, random: &mut Random) -> Option<(u64, Landed)> {
    Some((now + 1 + random.up_to(ticks_max?), Landed::Lost))
}
