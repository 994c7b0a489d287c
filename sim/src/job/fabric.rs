//! A rank's end of the network, as a process has it that may die before and
//! after everything that it does.

use super::stage::Stage;
use crate::happening::{Happening, Life};
use crate::interposed::{Between, Interposed};
use crate::mortal::Mortal;
use crate::planted::Planted;
use refrain_ring::{Frame, Incarnation, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::SimFabric;
use refrain_transport::fabric::{Arrival, Disposition, Fabric, FabricError, Landed, Refusal, Sink};
use refrain_transport::gate::Pass;
use std::collections::BTreeMap;

/// A simulated fabric under a process that may die.
pub type MortalFabric = Interposed<Mortality>;

/// What a process that may die does to its end of the network.
#[derive(Debug)]
pub struct Mortality {
    life: Life,
    mortal: Mortal,
    stage: Stage,
    planted: Option<Planted>,
    /// By sender: one past the last message that began to come.
    begun: BTreeMap<Rank, Ssn>,
}

impl MortalFabric {
    /// The end of `life`.
    pub fn new(end: SimFabric, life: Life, mortal: Mortal, stage: Stage) -> Self {
        let between = Mortality {
            life,
            mortal,
            stage,
            planted: None,
            begun: BTreeMap::new(),
        };
        Self { end, between }
    }

    /// With a planted bug.
    #[must_use]
    pub fn with_bug(mut self, planted: Option<Planted>) -> Self {
        self.between.planted = planted;
        self
    }
}

impl Mortality {
    /// Has an effect; the dead have none, and are not told. They say nothing and hear
    /// nothing more, and what they had posted comes to an end as the network likes.
    fn act(
        &mut self,
        end: &mut SimFabric,
        effect: impl FnOnce(&mut SimFabric) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let acted = self.mortal.act(|| effect(end));
        if self.mortal.is_dead() {
            let Life { rank, incarnation } = self.life;
            end.network().kill_life(rank, incarnation);
        }
        acted.unwrap_or(Err(Refusal::Busy))
    }

    /// What a planted bug makes of it.
    fn bent(&self, peer: Rank, control: Control) -> Control {
        let Control::Restart { ssn, others } = control else {
            return control;
        };
        let begun = self.begun.get(&peer).copied().unwrap_or(Ssn(0));
        let ssn = match self.planted {
            Some(Planted::RestartTooFar) => ssn.next(),
            Some(Planted::VoidForgotten) => ssn.max(begun),
            _ => ssn,
        };
        Control::Restart { ssn, others }
    }

    fn tell_posted(&self, end: &SimFabric, peer: Rank) {
        let posted = end.network().last_posted();
        let header = posted.as_deref().map(RecordHeader::decode);
        if let (Some(bytes), Some(Ok(header))) = (&posted, header) {
            self.stage.tell(&Happening::Posted {
                from: self.life,
                to: peer,
                header: &header,
                payload: &bytes[RecordHeader::BYTES..],
            });
        }
    }
}

impl Between for Mortality {
    fn post(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        frame: &Frame,
    ) -> Result<(), Refusal> {
        self.act(end, |end| end.post(pass, peer, frame))?;
        self.tell_posted(end, peer);
        Ok(())
    }

    fn stage(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        self.act(end, |end| end.stage(pass, peer, header, fill))
    }

    fn staged(&mut self, end: &mut SimFabric, peer: Rank, frame: &Frame) {
        end.staged(peer, frame);
        self.tell_posted(end, peer);
    }

    fn post_control(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        control: Control,
    ) -> Result<(), Refusal> {
        let control = match (self.planted, control) {
            (Some(Planted::NobodyAsked), Control::AskMatched { .. }) => return Ok(()),
            (_, control) => self.bent(peer, control),
        };
        self.act(end, |end| end.post_control(pass, peer, control))?;
        let told = Happening::PostedControl(self.life, peer, control);
        self.stage.tell(&told);
        Ok(())
    }

    fn poll(&mut self, end: &mut SimFabric, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        end.poll(&mut Listening {
            sink,
            to: self.life,
            stage: &self.stage,
            begun: &mut self.begun,
            forgets: self.planted == Some(Planted::SuppressionLeftOut),
        })
    }
}

/// Tells of whom a rank hears.
struct Listening<'a> {
    sink: &'a mut dyn Sink,
    to: Life,
    stage: &'a Stage,
    begun: &'a mut BTreeMap<Rank, Ssn>,
    /// As [`Planted::SuppressionLeftOut`] has it.
    forgets: bool,
}

impl Sink for Listening<'_> {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        let header = arrival.header;
        let from = Life {
            rank: header.source,
            incarnation: header.incarnation,
        };
        self.stage.tell(&Happening::Heard { from, to: self.to });
        if header.kind != RecordKind::Fragment {
            let begun = self.begun.entry(from.rank).or_insert(Ssn(0));
            *begun = header.ssn.next().max(*begun);
        }
        self.sink.frame(arrival)
    }

    fn control(&mut self, source: Rank, control: Control) {
        let is_later = self.to.incarnation > Incarnation(0);
        let control = match control {
            Control::Restart { ssn, others } if self.forgets && is_later => Control::Restart {
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

    /// Nobody may rely on it: the launcher is who says so.
    fn peer_lost(&mut self, _peer: Rank) {}
}
