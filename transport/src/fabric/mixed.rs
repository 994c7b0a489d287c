//! Two fabrics behind one: the near one for peers on this host, the far one for
//! all others, chosen per peer.
//!
//! Each peer is on one side for its whole life, so every clause of the [contract](super) holds for
//! it because it holds on that side. This module only polls both sides:
//!
//! - A poll always looks at the near side. The far side costs system calls (a socket, a NIC's
//!   queue); while the near side is busy, every fourth poll includes the far side, else every one
//!   does.
//! - A process cannot sleep on the near side's word in memory and on the far side's descriptors at
//!   once. It sleeps on the near side, for a slice of 50 µs that doubles up to 2 ms while nothing
//!   arrives, and the caller polls both sides between the slices. So a sleeping rank may see a
//!   message from another host up to 2 ms late, and an idle rank wakes 500 times a second, which
//!   takes about 2 % of a processor; messages on this host wake it at once.
//!
//! Both fabrics send from the same log: they are created over one region.

pub mod address;

use super::{Address, Attributes, Fabric, FabricError, Landing, Place, Refusal, Sink};
use crate::control::Control;
use crate::gate::Pass;
use address::Pair;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, Region};
use std::borrow::Cow;

/// While the near side is busy, one of this many polls includes the far side.
const NEAR_POLLS_MAX: u32 = 4;
/// The first slice of a wait, and the longest.
const SLICE_MIN: Duration = Duration::from_micros(50);
const SLICE_MAX: Duration = Duration::from_millis(2);

/// Which of the two fabrics leads to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// On this host.
    Near,
    /// On another host.
    Far,
}

/// A near and a far fabric of one rank, over one region.
#[derive(Debug)]
pub struct Mixed<N, F> {
    near: N,
    far: F,
    sides: Vec<Side>,
    attributes: Attributes,
    /// Consecutive polls without the far side.
    near_polls: u32,
    slice: Duration,
}

impl<N: Fabric, F: Fabric> Mixed<N, F> {
    /// Combines both fabrics; `sides` gives the side of each rank of the job (the entry of this
    /// rank has no effect).
    pub fn new(near: N, far: F, sides: Vec<Side>) -> Self {
        let attributes = common(near.attributes(), far.attributes());
        Self {
            near,
            far,
            sides,
            attributes,
            near_polls: 0,
            slice: SLICE_MIN,
        }
    }

    /// As another fabric is named.
    #[must_use]
    pub fn with_name(mut self, name: Cow<'static, str>) -> Self {
        self.attributes.name = name;
        self
    }

    /// The fabric to peers on other hosts.
    pub fn far_mut(&mut self) -> &mut F {
        &mut self.far
    }

    #[inline]
    fn side(&self, peer: Rank) -> Side {
        // Either side refuses a rank that does not exist.
        self.sides.get(peer.index()).copied().unwrap_or(Side::Far)
    }

    #[inline]
    fn of(&self, peer: Rank) -> &dyn Fabric {
        match self.side(peer) {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    #[inline]
    fn of_mut(&mut self, peer: Rank) -> &mut dyn Fabric {
        match self.side(peer) {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
        }
    }
}

/// The address that a rank publishes: one part for its own host, one for other hosts. A part that
/// no peer needs may be left out.
///
/// # Panics
/// For parts above 64 KiB, and a far address with memory (which cannot be passed
/// to another host): no fabric has such an address.
pub fn join(near: Option<Address>, far: Option<Address>) -> Address {
    Pair { near, far }.encode()
}

/// Attributes that hold towards every peer.
fn common(near: &Attributes, far: &Attributes) -> Attributes {
    Attributes {
        name: format!("{}+{}", near.name, far.name).into(),
        reads_in_place: near.reads_in_place && far.reads_in_place,
        follows_references: near.follows_references && far.follows_references,
        frame_payload_bytes_max: near
            .frame_payload_bytes_max
            .min(far.frame_payload_bytes_max),
        attached_bytes_max: near.attached_bytes_max.min(far.attached_bytes_max),
        fragment_bytes: near.fragment_bytes.min(far.fragment_bytes),
        eager_bytes_max: near.eager_bytes_max.min(far.eager_bytes_max),
        staged_bytes: 0..0,
    }
}

impl<N: Fabric, F: Fabric> Fabric for Mixed<N, F> {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn attributes_to(&self, peer: Rank) -> &Attributes {
        self.of(peer).attributes_to(peer)
    }

    fn address(&self) -> Address {
        join(Some(self.near.address()), Some(self.far.address()))
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        let refuse = |reason: String| FabricError::Attach { peer, reason };
        let pair = Pair::decode(address).map_err(|error| refuse(error.to_string()))?;
        let (part, what) = match self.side(peer) {
            Side::Near => (pair.near, "for its own host"),
            Side::Far => (pair.far, "for other hosts"),
        };
        let part = part.ok_or_else(|| refuse(format!("it has published no address {what}")))?;
        self.of_mut(peer).connect(peer, incarnation, &part)
    }

    fn disconnect(&mut self, peer: Rank) {
        self.of_mut(peer).disconnect(peer);
    }

    #[inline]
    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        match self.side(peer) {
            Side::Near => self.near.post(pass, peer, frame),
            Side::Far => self.far.post(pass, peer, frame),
        }
    }

    fn stage(
        &mut self,
        pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        self.of_mut(peer).stage(pass, peer, header, fill)
    }

    fn staged(&mut self, peer: Rank, frame: &Frame) {
        self.of_mut(peer).staged(peer, frame);
    }

    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        self.of_mut(peer).leave_chunk(region, peer, link)
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        self.of_mut(peer).post_control(pass, peer, control)
    }

    #[inline]
    fn released(&mut self, peer: Rank) -> Position {
        match self.side(peer) {
            Side::Near => self.near.released(peer),
            Side::Far => self.far.released(peer),
        }
    }

    #[inline]
    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let near_calls = self.near.poll(sink)?;
        self.near_polls += 1;
        if near_calls > 0 && self.near_polls < NEAR_POLLS_MAX {
            self.slice = SLICE_MIN;
            return Ok(near_calls);
        }
        self.near_polls = 0;
        let calls = near_calls + self.far.poll(sink)?;
        if calls > 0 {
            self.slice = SLICE_MIN;
        }
        Ok(calls)
    }

    fn why_lost(&self, peer: Rank) -> Option<String> {
        self.of(peer).why_lost(peer)
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        self.of(place.source).kept(place, payload_bytes)
    }

    fn is_drained(&mut self) -> bool {
        self.near.is_drained() && self.far.is_drained()
    }

    fn let_go(&mut self, place: Place) {
        self.of_mut(place.source).let_go(place);
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        self.of_mut(place.source).fetch(place, landing);
    }

    fn close(&mut self) {
        self.near.close();
        self.far.close();
    }

    /// Sleeps one slice on the near side, then the caller polls both sides: the contract lets a
    /// wait return early.
    fn wait(&mut self, timeout: Duration) {
        self.near.wait(timeout.min(self.slice));
        // Does not sleep, but does the work before a sleep: timers and acknowledgements.
        self.far.wait(Duration::ZERO);
        self.slice = SLICE_MAX.min(2 * self.slice);
    }
}

#[cfg(test)]
mod tests;
