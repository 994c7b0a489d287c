//! A rank's end of the network, cut off at the death of the process.

use super::stage::Stage;
use crate::crash_point::CrashPoint;
use crate::happening::{Happening, Life};
use crate::planted::Planted;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, RecordKind, Region, Ssn};
use refrain_transport::control::{Control, Report};
use refrain_transport::fabric::sim::SimFabric;
use refrain_transport::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landed, Landing, Place,
    Refusal, Sink,
};
use refrain_transport::gate::Pass;
use std::rc::Rc;

/// A rank's end of the simulated network in a process that may die before or after each of its
/// effects. Planted bugs change the frames that leave and arrive.
#[derive(Debug)]
pub struct RankFabric {
    /// The end of the network.
    pub end: SimFabric,
    /// The life that owns the end.
    pub life: Life,
    /// The death of the process.
    pub crash_point: CrashPoint,
    /// Where frames are reported.
    pub stage: Rc<Stage>,
    /// The planted bug, if any.
    pub planted: Option<Planted>,
    /// By sender: one past the last message that began to arrive.
    pub begun: Vec<Ssn>,
}

impl RankFabric {
    /// Runs an effect, unless the life is dead. A dead life posts nothing and takes nothing; frames
    /// that it has posted arrive or not, as the network decides.
    fn act(
        &mut self,
        effect: impl FnOnce(&mut SimFabric) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let acted = self.crash_point.act(|| effect(&mut self.end));
        if self.crash_point.is_dead() {
            let Life { rank, incarnation } = self.life;
            self.end.network().kill_life(rank, incarnation);
        }
        acted.unwrap_or(Err(Refusal::Busy))
    }

    /// The control frame to post, as a planted bug changes it; `None`: post none.
    fn bent(&self, peer: Rank, control: Control) -> Option<Control> {
        let Control::Restart { ssn, others } = control else {
            return match (self.planted, control) {
                (Some(Planted::MatchNotAsked), Control::AskMatched { .. }) => None,
                (
                    Some(Planted::FinishedEarly),
                    Control::Collective {
                        report: Report::Finished,
                        context,
                        name,
                    },
                ) => Some(Control::Collective {
                    report: Report::Finished,
                    context,
                    // The kind is in the lowest bit.
                    name: name + 16,
                }),
                _ => Some(control),
            };
        };
        let ssn = match self.planted {
            Some(Planted::RestartTooFar) => ssn.next(),
            Some(Planted::VoidForgotten) if ssn.is_program() => ssn.max(self.begun[peer.index()]),
            Some(Planted::RestartFromStart | Planted::DuplicateCounts) => Ssn(0),
            _ => ssn,
        };
        Some(Control::Restart { ssn, others })
    }

    fn tell_posted(&self, peer: Rank) {
        let posted = self.end.network().last_posted();
        let header = posted.as_deref().map(RecordHeader::decode);
        if let (Some(bytes), Some(Ok(header))) = (&posted, header) {
            let (header, payload, attachment) = header.detach(&bytes[RecordHeader::BYTES..]);
            if !attachment.is_empty() {
                let attached = Happening::Attached(self.life, peer, attachment);
                self.stage.tell(&attached);
            }
            self.stage
                .tell(&Happening::Posted(self.life, peer, &header, payload));
        }
    }
}

impl Fabric for RankFabric {
    fn attributes(&self) -> &Attributes {
        self.end.attributes()
    }

    fn address(&self) -> Address {
        self.end.address()
    }

    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        self.end.connect(peer, incarnation, address)
    }

    fn disconnect(&mut self, peer: Rank) {
        self.end.disconnect(peer);
    }

    fn post(&mut self, pass: Pass, peer: Rank, frame: &Frame) -> Result<(), Refusal> {
        self.act(|end| end.post(pass, peer, frame))?;
        self.tell_posted(peer);
        Ok(())
    }

    fn stage(
        &mut self,
        pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        // The frame leaves in `staged`: if the process dies before, the frame is lost.
        match self.crash_point.is_dead() {
            true => Err(Refusal::Busy),
            false => self.end.stage(pass, peer, header, fill),
        }
    }

    fn staged(&mut self, peer: Rank, frame: &Frame) {
        let left = self.act(|end| {
            end.staged(peer, frame);
            Ok(())
        });
        if left.is_ok() {
            self.tell_posted(peer);
        }
    }

    fn leave_chunk(&mut self, region: &Region, peer: Rank, link: &Frame) -> bool {
        self.end.leave_chunk(region, peer, link)
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        let Some(control) = self.bent(peer, control) else {
            return Ok(());
        };
        self.act(|end| end.post_control(pass, peer, control))?;
        let told = Happening::PostedControl(self.life, peer, control);
        self.stage.tell(&told);
        Ok(())
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.end.released(peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        self.end.poll(&mut Listening {
            sink,
            to: self.life,
            stage: &self.stage,
            begun: &mut self.begun,
            planted: self.planted,
        })
    }

    fn kept(&self, place: Place, payload_bytes: usize) -> &[u8] {
        self.end.kept(place, payload_bytes)
    }

    fn is_drained(&mut self) -> bool {
        self.end.is_drained()
    }

    fn let_go(&mut self, place: Place) {
        self.end.let_go(place);
    }

    fn fetch(&mut self, place: Place, landing: Landing) {
        self.end.fetch(place, landing);
    }

    fn close(&mut self) {
        self.end.close();
    }

    fn wait(&mut self, timeout: Duration) {
        self.end.wait(timeout);
    }
}

/// Reports the sender of each frame that a rank takes.
struct Listening<'a> {
    sink: &'a mut dyn Sink,
    to: Life,
    stage: &'a Rc<Stage>,
    begun: &'a mut [Ssn],
    planted: Option<Planted>,
}

impl Sink for Listening<'_> {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        let mut header = *arrival.header;
        let from = Life {
            rank: header.source,
            incarnation: header.incarnation,
        };
        self.stage.tell(&Happening::Heard { from, to: self.to });
        if header.kind != RecordKind::Fragment && header.ssn.is_program() {
            let begun = &mut self.begun[from.rank.index()];
            if self.planted == Some(Planted::DuplicateCounts) {
                header.ssn = header.ssn.max(*begun);
            }
            *begun = header.ssn.next().max(*begun);
        }
        self.sink.frame(Arrival {
            header: &header,
            ..arrival
        })
    }

    fn control(&mut self, source: Rank, control: Control) {
        let forgets = self.planted == Some(Planted::SuppressionLeftOut)
            && self.to.incarnation > Incarnation(0);
        let control = match control {
            Control::Restart { ssn, others } if forgets => Control::Restart {
                ssn: Ssn::first(ssn.stream()),
                others,
            },
            control => control,
        };
        self.sink.control(source, control);
    }

    fn landed(&mut self, token: u64, landed: Landed) {
        self.sink.landed(token, landed);
    }

    /// Ignored: only the launcher decides that a peer is lost.
    fn peer_lost(&mut self, _peer: Rank) {}
}
