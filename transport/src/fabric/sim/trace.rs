//! The events of a network, in order: two runs with one seed have the same trace.

use super::LaneKind;
use refrain_ring::{Incarnation, Position, Rank};
use std::hash::{DefaultHasher, Hash, Hasher};

/// One life of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// The direction from one life to another; each has two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The receiver. First, so that a receiver's routes lie together.
    pub to: Life,
    /// The sender.
    pub from: Life,
}

impl Life {
    pub(super) fn new(rank: Rank, incarnation: Incarnation) -> Self {
        Self { rank, incarnation }
    }
}

impl Route {
    pub(super) fn new(from: Life, to: Life) -> Self {
        Self { to, from }
    }
}

/// An event in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A frame was taken.
    Posted(Route, LaneKind, Position),
    /// A frame was taken before it was in its log; it is posted next.
    Staged(Route, Position),
    /// A frame was refused because the lane was full, or by chance.
    Refused(Route, LaneKind),
    /// A frame has arrived at its receiver.
    Arrived(Route, LaneKind),
    /// A frame arrived at a receiver that is gone, or has fenced its sender.
    Dropped(Route, LaneKind),
    /// A frame was handed to the sink.
    Handed(Route, LaneKind),
    /// A lane broke the rules and is not read any more.
    Stopped(Route, LaneKind),
    /// The sender was informed that it need not hold its log up to this position.
    Released(Route, Position),
    /// The payload of a distant frame has completely arrived at its receiver.
    Landed(Route, Position),
    /// The payload of a distant frame will never arrive completely.
    LandingLost(Route, Position),
    /// A rank was connected with another.
    Connected(Route),
    /// The receiver has fenced the sender.
    Fenced(Route),
    /// A rank was killed.
    Killed(Life),
    /// The loss of a rank was reported to another.
    NoticedLoss(Route),
}

/// The events so far: a running hash, and the events themselves if they are kept.
#[derive(Debug)]
pub(super) struct Trace {
    digest: DefaultHasher,
    kept: Option<Vec<(u64, Event)>>,
}

impl Trace {
    pub(super) fn new(keep: bool) -> Self {
        Self {
            // `new` has fixed keys.
            digest: DefaultHasher::new(),
            kept: keep.then(Vec::new),
        }
    }

    pub(super) fn add(&mut self, now: u64, event: Event) {
        (now, event).hash(&mut self.digest);
        if let Some(kept) = &mut self.kept {
            kept.push((now, event));
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    pub(super) fn events(&self) -> &[(u64, Event)] {
        self.kept.as_deref().unwrap_or_default()
    }
}
