//! What a receiver takes out of the network, and the checks on it.

use super::LaneKind;
use super::ledger::Bytes;
use super::state::{DataFrame, State};
use super::trace::{Event, Life, Route};
use crate::control::Control;
use crate::fabric::{FabricError, Landed};
use refrain_ring::{
    HeaderError, Incarnation, Position, Rank, ReadError, RecordHeader, RecordKind, record_bytes,
};

/// Most calls that one poll makes to its sink.
pub const POLL_CALLS_MAX: usize = 32;

/// One thing for the sink.
pub(super) enum Arrived {
    Frame {
        route: Route,
        position: Position,
        header: RecordHeader,
        bytes: Bytes,
        distant: bool,
        pressed: bool,
    },
    Landed(u64, Landed),
    Control(Rank, Control),
    Lost(Rank),
}

impl State {
    /// Begins a poll: how many calls it may make.
    pub(super) fn begin_poll(&mut self, life: Life) -> usize {
        self.port(life).woken = false;
        1 + self.random.index(POLL_CALLS_MAX)
    }

    pub(super) fn has_arrivals(&self, life: Life) -> bool {
        let port = &self.ports[&life];
        let lost = port.losses.iter();
        port.landings.any_ended()
            || !self.readable(life).is_empty()
            || lost.clone().any(|(due, _)| *due <= self.now())
    }

    /// The lanes to `life` on which something has arrived.
    fn readable(&self, life: Life) -> Vec<(Route, LaneKind)> {
        let from = |rank, incarnation| Life {
            rank: Rank(rank),
            incarnation: Incarnation(incarnation),
        };
        let route = |from| Route { to: life, from };
        let fence_off = self.options.faults.fence_off;
        let port = &self.ports[&life];
        if port.closed {
            return Vec::new();
        }
        self.links
            .range(route(from(0, 0))..=route(from(u32::MAX, u32::MAX)))
            .filter(|(route, _)| {
                let from = route.from;
                fence_off || port.connected(from.rank) == Some(from.incarnation)
            })
            .flat_map(|(route, link)| {
                let lanes = [
                    (LaneKind::Data, link.data.has_arrivals()),
                    (LaneKind::Control, link.control.has_arrivals()),
                ];
                lanes.map(|(lane, any)| any.then_some((*route, lane)))
            })
            .flatten()
            .collect()
    }

    /// Takes the next arrival for `life`, from a lane chosen by chance.
    pub(super) fn take_arrival(&mut self, life: Life) -> Result<Option<Arrived>, FabricError> {
        if !self.is_alive(life) {
            return Ok(None);
        }
        if let Some(lost) = self.take_loss(life) {
            return Ok(Some(Arrived::Lost(lost)));
        }
        let readable = self.readable(life);
        // Landings are one more lane.
        let lanes = readable.len() + usize::from(self.ports[&life].landings.any_ended());
        if lanes == 0 {
            return Ok(None);
        }
        let Some((route, lane)) = readable.get(self.random.index(lanes)).copied() else {
            let ended = self.port(life).landings.take_ended();
            return Ok(ended.map(|(token, how)| Arrived::Landed(token, how)));
        };
        let taken = match lane {
            LaneKind::Data => self.take_frame(route),
            LaneKind::Control => self.take_control(route),
        };
        if taken.is_ok() {
            self.add_event(Event::Handed(route, lane));
        } else {
            self.stop(route, lane);
        }
        taken.map(Some)
    }

    /// A lane that broke the rules is not read again; the others go on.
    fn stop(&mut self, route: Route, lane: LaneKind) {
        let link = self.links.get_mut(&route).expect("readable");
        match lane {
            LaneKind::Data => link.data.stop(),
            LaneKind::Control => link.control.stop(),
        }
        self.add_event(Event::Stopped(route, lane));
    }

    fn take_loss(&mut self, life: Life) -> Option<Rank> {
        let now = self.now();
        let port = self.port(life);
        let due = port.losses.iter().position(|(due, _)| *due <= now)?;
        let (_, from) = port.losses.remove(due);
        if port.closed || port.connected(from.rank) != Some(from.incarnation) {
            return None;
        }
        self.add_event(Event::NoticedLoss(Route { to: life, from }));
        Some(from.rank)
    }

    fn take_frame(&mut self, route: Route) -> Result<Arrived, FabricError> {
        let source = route.from.rank;
        let in_place = self.options.attributes.reads_in_place;
        let any_distant = self.options.distant_bytes_min.is_some();
        let window_bytes = self.options.window_bytes;
        let link = self.links.get_mut(&route).expect("readable");
        let was_full = link.data.is_full();
        let (position, bytes) = match link.data.take_arrival().expect("readable") {
            DataFrame::Bytes(position, bytes) => (position, bytes),
            DataFrame::Broken(error) => return Err(broken(source, error)),
        };
        let header = decode(source, &bytes)?;
        let is_posted = position.is_some();
        let position = position.unwrap_or(Position(u64::MAX));
        let record = record_bytes(header.payload_bytes as usize) as u64;
        let end = Position(position.0.saturating_add(record));
        // A window of two chunks stalls when little more than one is pinned.
        let log_holds = in_place || any_distant && is_posted;
        let log_pressed = log_holds && link.ledger.pinned_bytes(end) * 4 > window_bytes;
        let pressed = log_pressed || !in_place && link.data.is_pressed();
        self.check_sender(route, header.source, header.incarnation)?;
        self.port(route.from).woken |= was_full;
        Ok(Arrived::Frame {
            route,
            position,
            header,
            distant: self.is_distant(&bytes),
            bytes,
            pressed,
        })
    }

    fn take_control(&mut self, route: Route) -> Result<Arrived, FabricError> {
        let source_rank = route.from.rank;
        let link = self.links.get_mut(&route).expect("readable");
        let was_full = link.control.is_full();
        let bytes = link.control.take_arrival().expect("readable");
        let (control, source, incarnation) = Control::decode_bytes(&bytes)
            .map_err(|error| FabricError::BadControl { source_rank, error })?;
        self.check_sender(route, source, incarnation)?;
        self.port(route.from).woken |= was_full;
        Ok(Arrived::Control(source_rank, control))
    }

    /// FENCE-1: what a frame says of its sender must be what its lane says.
    fn check_sender(
        &self,
        route: Route,
        source: Rank,
        incarnation: Incarnation,
    ) -> Result<(), FabricError> {
        let connected = route.from.incarnation;
        if source != route.from.rank {
            return Err(FabricError::WrongSource {
                lane: route.from.rank,
                claimed: source,
            });
        }
        if incarnation != connected && !self.options.faults.fence_off {
            return Err(FabricError::WrongIncarnation {
                source_rank: source,
                found: incarnation,
                connected,
            });
        }
        Ok(())
    }

    /// Whether the receiver's work with a frame releases it, not its arrival.
    fn is_held(&self, distant: bool) -> bool {
        distant || self.options.attributes.reads_in_place
    }

    /// The sink has kept a frame.
    pub(super) fn keep(&mut self, route: Route, distant: bool) {
        if !self.is_held(distant)
            && let Some(link) = self.links.get_mut(&route)
        {
            link.data.held += 1;
        }
    }

    /// A kept frame was let go.
    pub(super) fn let_go(&mut self, route: Route, position: Position, distant: bool) {
        if self.is_held(distant) {
            self.release(route, position);
            return;
        }
        let Some(link) = self.links.get_mut(&route) else {
            return;
        };
        let was_full = link.data.is_full();
        link.data.held = link.data.held.saturating_sub(1);
        self.port(route.from).woken |= was_full;
    }

    /// A frame was consumed in the sink.
    pub(super) fn consume(&mut self, route: Route, position: Position, distant: bool) {
        if self.is_held(distant) {
            self.release(route, position);
        }
    }
}

fn decode(source_rank: Rank, bytes: &[u8]) -> Result<RecordHeader, FabricError> {
    let garbage = |error| FabricError::Garbage { source_rank, error };
    let header = RecordHeader::decode(bytes).map_err(garbage)?;
    if header.kind == RecordKind::Link {
        let chunk = header.extent;
        return Err(FabricError::BrokenLog { source_rank, chunk });
    }
    if bytes.len() != RecordHeader::BYTES + header.payload_bytes as usize {
        return Err(garbage(HeaderError::Short(bytes.len())));
    }
    Ok(header)
}

fn broken(source_rank: Rank, error: ReadError) -> FabricError {
    match error {
        ReadError::Header(error) => FabricError::Garbage { source_rank, error },
        ReadError::Link(chunk) => FabricError::BrokenLog { source_rank, chunk },
        ReadError::Overrun(payload_bytes) => FabricError::Garbage {
            source_rank,
            error: HeaderError::Extent {
                payload_bytes,
                offset: 0,
            },
        },
    }
}
