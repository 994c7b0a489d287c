//! The [`Inbox`]: a sink that verifies all arrivals.

use super::landings::Landings;
use super::pattern::{Name, incarnation_of};
use refrain_ring::{Incarnation, Rank};
use refrain_transport::control::Control;
use refrain_transport::fabric::{Arrival, Disposition, Landed, Payload, Place, Sink};
use std::collections::{BTreeMap, BTreeSet};

/// A frame that was left where it is.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub place: Place,
    pub name: Name,
    pub payload_bytes: usize,
    /// Its payload is in the sender's log.
    pub distant: bool,
}

/// One rank's sink: verifies order, header and payload of each frame.
#[derive(Debug)]
pub struct Inbox {
    rank: Rank,
    frames: BTreeMap<(Rank, Incarnation), u64>,
    controls: BTreeMap<(Rank, Incarnation), u64>,
    /// Lanes that begin in the middle: the first frame that is missed.
    begins: BTreeMap<(Rank, Incarnation), u64>,
    /// Frames that arrived before that frame, for each lane, without a gap.
    pub before: BTreeMap<Rank, Vec<u64>>,
    /// Whether arriving frames are kept.
    pub keeps: bool,
    pub kept: Vec<Kept>,
    /// Where distant frames land.
    pub landings: Landings,
    /// Lives of which a landing was lost.
    pub lost: BTreeSet<(Rank, Incarnation)>,
    /// Whether any arrival was pressed.
    pub pressed: bool,
    /// Calls made to this sink.
    pub calls: usize,
}

impl Inbox {
    pub fn new(rank: Rank) -> Self {
        Self {
            rank,
            frames: BTreeMap::new(),
            controls: BTreeMap::new(),
            begins: BTreeMap::new(),
            before: BTreeMap::new(),
            keeps: false,
            kept: Vec::new(),
            landings: Landings::default(),
            lost: BTreeSet::new(),
            pressed: false,
            calls: 0,
        }
    }

    /// Number of frames that have arrived from one life of a rank.
    pub fn frames(&self, source: Rank, incarnation: u32) -> u64 {
        let life = (source, Incarnation(incarnation));
        self.frames.get(&life).copied().unwrap_or(0)
    }

    /// Number of control frames that have arrived from one life of a rank.
    pub fn controls(&self, source: Rank, incarnation: u32) -> u64 {
        let life = (source, Incarnation(incarnation));
        self.controls.get(&life).copied().unwrap_or(0)
    }

    /// The lane from a life of a rank begins with frame `from`.
    pub fn begin_at(&mut self, source: Rank, incarnation: Incarnation, from: u64) {
        self.frames.insert((source, incarnation), from);
        self.begins.insert((source, incarnation), from);
    }

    /// Whether a frame lies before the beginning. Such frames may arrive, before all others and in
    /// order, if they lie in the same chunk.
    fn is_before(&mut self, arrival: &Arrival<'_>) -> bool {
        let life = (arrival.header.source, arrival.header.incarnation);
        let number = arrival.header.ssn.0;
        let begin = self.begins.get(&life).copied();
        let has_begun = begin != self.frames.get(&life).copied();
        if has_begun || begin.is_none_or(|begin| number >= begin) {
            return false;
        }
        let name = self.next(life.0, life.1, number);
        let bytes = arrival.payload.bytes();
        assert_eq!(*arrival.header, name.header(bytes), "{name:?}");
        let is_filled = |payload: Payload<'_>| match payload {
            Payload::Here(payload) => name.is_filled(payload),
            Payload::Distant(_) => true,
        };
        assert!(is_filled(arrival.payload), "{name:?} has other payload");
        let before = self.before.entry(life.0).or_default();
        let follows = before.last().is_none_or(|last| number == last + 1);
        assert!(follows, "{name:?} comes out of order");
        before.push(number);
        true
    }

    fn next(&self, source: Rank, incarnation: Incarnation, number: u64) -> Name {
        Name {
            source,
            incarnation,
            destination: self.rank,
            number,
        }
    }
}

impl Sink for Inbox {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        self.calls += 1;
        if self.is_before(&arrival) {
            return Disposition::Consumed;
        }
        let (source, incarnation) = (arrival.header.source, arrival.header.incarnation);
        let number = self.frames(source, incarnation.0);
        let name = self.next(source, incarnation, number);
        let payload_bytes = arrival.payload.bytes();
        assert_eq!(
            arrival.header.ssn.0, number,
            "rank {} got the wrong frame of {source}.{incarnation}: a frame is lost, doubled or out of order",
            self.rank
        );
        assert_eq!(
            *arrival.header,
            name.header(payload_bytes),
            "{name:?} arrived with another header"
        );
        let distant = match arrival.payload {
            Payload::Here(payload) => {
                assert!(
                    name.is_filled(payload),
                    "{name:?} arrived with other payload"
                );
                false
            }
            Payload::Distant(_) => true,
        };
        assert_eq!(
            arrival.place.source, source,
            "{name:?} has a place of another rank"
        );
        self.frames.insert((source, incarnation), number + 1);
        self.pressed |= arrival.pressed;
        match (self.keeps, distant) {
            (false, false) => return Disposition::Consumed,
            (false, true) => return Disposition::Fetch(self.landings.lend(name, payload_bytes)),
            (true, _) => {}
        }
        self.kept.push(Kept {
            place: arrival.place,
            name,
            payload_bytes,
            distant,
        });
        Disposition::Keep
    }

    fn control(&mut self, source: Rank, control: Control) {
        self.calls += 1;
        let incarnation = incarnation_of(control);
        let number = self.controls(source, incarnation.0);
        assert_eq!(
            control,
            self.next(source, incarnation, number).control(),
            "rank {} got the wrong control frame of {source}.{incarnation}",
            self.rank
        );
        self.controls.insert((source, incarnation), number + 1);
    }

    fn landed(&mut self, token: u64, landed: Landed) {
        self.calls += 1;
        let name = self.landings.end(token, landed);
        if landed == Landed::Lost {
            self.lost.insert((name.source, name.incarnation));
        }
    }

    fn peer_lost(&mut self, _peer: Rank) {
        self.calls += 1;
    }
}
