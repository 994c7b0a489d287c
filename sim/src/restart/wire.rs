//! A rank's end of the simulated network, as the explorer has it: what leaves is
//! noted, and planted bugs lie here.

use super::ghost::Ghost;
use super::size::Bug;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::SimFabric;
use refrain_transport::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landed, Landing, Place,
    Refusal, Sink,
};
use refrain_transport::gate::Pass;
use std::cell::RefCell;
use std::rc::Rc;

/// Messages of each rank that have begun to come, in this life or before the
/// checkpoint with which it began.
pub(super) type Begun = Rc<RefCell<Vec<u64>>>;

/// See the [module](self).
pub(super) struct Wire {
    pub inner: SimFabric,
    pub ghost: Rc<RefCell<Ghost>>,
    pub begun: Begun,
    pub bug: Option<Bug>,
}

impl Wire {
    /// What is said instead, if anything is.
    fn spoilt(&self, peer: Rank, control: Control) -> Option<Control> {
        let Control::Restart { ssn } = control else {
            let is_lost = self.bug == Some(Bug::NeverAnswered)
                && matches!(control, Control::AskMatched { .. });
            return (!is_lost).then_some(control);
        };
        let ssn = match self.bug {
            Some(Bug::RestartTooFar) => ssn.next(),
            Some(Bug::VoidArrived) => Ssn(self.begun.borrow()[peer.index()]),
            Some(Bug::RestartFromStart | Bug::DuplicateCounts) => Ssn(0),
            _ => ssn,
        };
        Some(Control::Restart { ssn })
    }
}

impl Fabric for Wire {
    fn attributes(&self) -> &Attributes {
        self.inner.attributes()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        self.inner.connect(peer, incarnation, address)
    }

    fn disconnect(&mut self, peer: Rank) {
        self.inner.disconnect(peer);
    }

    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        self.inner.post(pass, peer, frame)?;
        let posted = self.inner.network().last_posted();
        if let Some(bytes) = &posted
            && let Ok(header) = RecordHeader::decode(bytes)
        {
            let payload = &bytes[RecordHeader::BYTES..];
            self.ghost.borrow_mut().say(peer.index(), &header, payload);
        }
        Ok(())
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        match self.spoilt(peer, control) {
            Some(control) => self.inner.post_control(pass, peer, control),
            None => Ok(()),
        }
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.inner.released(peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        let mut counting = Counting {
            sink,
            begun: &self.begun,
            bug: self.bug,
        };
        self.inner.poll(&mut counting)
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        self.inner.kept(place, payload_bytes)
    }

    fn is_drained(&mut self) -> bool {
        self.inner.is_drained()
    }

    fn let_go(&mut self, place: Place) {
        self.inner.let_go(place);
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        self.inner.fetch(place, landing);
    }

    fn close(&mut self) {
        self.inner.close();
    }

    fn wait(&mut self, timeout: Duration) {
        self.inner.wait(timeout);
    }
}

/// Counts the messages that begin to come.
struct Counting<'a> {
    sink: &'a mut dyn Sink,
    begun: &'a Begun,
    bug: Option<Bug>,
}

impl Sink for Counting<'_> {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        let mut header = *arrival.header;
        if header.kind == RecordKind::Eager {
            let begun = &mut self.begun.borrow_mut()[header.source.index()];
            if self.bug == Some(Bug::DuplicateCounts) {
                header.ssn = header.ssn.max(Ssn(*begun));
            }
            *begun = (*begun).max(header.ssn.0 + 1);
        }
        self.sink.frame(Arrival {
            header: &header,
            ..arrival
        })
    }

    fn control(&mut self, source: Rank, control: Control) {
        self.sink.control(source, control);
    }

    fn landed(&mut self, token: u64, landed: Landed) {
        self.sink.landed(token, landed);
    }

    fn peer_lost(&mut self, peer: Rank) {
        self.sink.peer_lost(peer);
    }
}
