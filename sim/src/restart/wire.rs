//! A rank's end of the simulated network, as the explorer has it: what leaves is
//! noted, and planted bugs lie here.

use super::ghost::Ghost;
use super::size::Bug;
use crate::interposed::Between;
use refrain_ring::{Frame, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::SimFabric;
use refrain_transport::fabric::{Arrival, Disposition, Fabric, FabricError, Landed, Refusal, Sink};
use refrain_transport::gate::Pass;
use std::cell::RefCell;
use std::rc::Rc;

/// Messages of each rank that have begun to come, in this life or before the
/// checkpoint with which it began.
pub(super) type Begun = Rc<RefCell<Vec<u64>>>;

/// What is between a rank and its end of the network.
pub(super) struct Wire {
    pub ghost: Rc<RefCell<Ghost>>,
    pub begun: Begun,
    pub bug: Option<Bug>,
}

impl Wire {
    /// What is said instead, if anything is.
    fn spoilt(&self, peer: Rank, control: Control) -> Option<Control> {
        let Control::Restart { ssn, others } = control else {
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
        Some(Control::Restart { ssn, others })
    }
}

impl Between for Wire {
    fn post(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        frame: &Frame,
    ) -> Result<(), Refusal> {
        end.post(pass, peer, frame)?;
        let posted = end.network().last_posted();
        if let Some(bytes) = &posted
            && let Ok(header) = RecordHeader::decode(bytes)
        {
            let payload = &bytes[RecordHeader::BYTES..];
            self.ghost.borrow_mut().say(peer.index(), &header, payload);
        }
        Ok(())
    }

    fn post_control(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        control: Control,
    ) -> Result<(), Refusal> {
        match self.spoilt(peer, control) {
            Some(control) => end.post_control(pass, peer, control),
            None => Ok(()),
        }
    }

    fn poll(&mut self, end: &mut SimFabric, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        end.poll(&mut Counting {
            sink,
            begun: &self.begun,
            bug: self.bug,
        })
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
