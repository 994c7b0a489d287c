//! A rank's end of the network, as a process has it that may die before and
//! after everything that it does.

use super::stage::Stage;
use crate::happening::{Happening, Life};
use crate::mortal::Mortal;
use crate::planted::Planted;
use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::SimFabric;
use refrain_transport::fabric::{
    Address, Arrival, Attributes, Disposition, Fabric, FabricError, Landed, Landing, Place,
    Refusal, Sink,
};
use refrain_transport::gate::Pass;
use std::collections::BTreeMap;

/// A simulated fabric under a process.
#[derive(Debug)]
pub struct MortalFabric {
    inner: SimFabric,
    life: Life,
    mortal: Mortal,
    stage: Stage,
    planted: Option<Planted>,
    /// By sender: one past the last message that began to come.
    begun: BTreeMap<Rank, Ssn>,
}

impl MortalFabric {
    /// The end of `life`.
    pub fn new(inner: SimFabric, life: Life, mortal: Mortal, stage: Stage) -> Self {
        Self {
            inner,
            life,
            mortal,
            stage,
            planted: None,
            begun: BTreeMap::new(),
        }
    }

    /// With a planted bug.
    #[must_use]
    pub fn with_bug(mut self, planted: Option<Planted>) -> Self {
        self.planted = planted;
        self
    }

    /// The dead say nothing and hear nothing more, and what they had posted
    /// comes to an end as the network likes.
    fn end(&self) {
        let Life { rank, incarnation } = self.life;
        self.inner.network().kill_life(rank, incarnation);
    }

    /// Has an effect; the dead have none, and are not told.
    fn act(
        &mut self,
        effect: impl FnOnce(&mut SimFabric) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let inner = &mut self.inner;
        let acted = self.mortal.act(|| effect(inner));
        if self.mortal.is_dead() {
            self.end();
        }
        acted.unwrap_or(Err(Refusal::Busy))
    }

    /// What a planted bug makes of it.
    fn bent(&self, peer: Rank, control: Control) -> Control {
        let Control::Restart { ssn } = control else {
            return control;
        };
        let begun = self.begun.get(&peer).copied().unwrap_or(Ssn(0));
        let ssn = match self.planted {
            Some(Planted::RestartTooFar) => ssn.next(),
            Some(Planted::VoidForgotten) => ssn.max(begun),
            _ => ssn,
        };
        Control::Restart { ssn }
    }

    fn tell_posted(&self, peer: Rank) {
        let posted = self.inner.network().last_posted();
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

impl Fabric for MortalFabric {
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
        self.act(|inner| inner.post(pass, peer, frame))?;
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
        self.act(|inner| inner.stage(pass, peer, header, fill))
    }

    fn staged(&mut self, peer: Rank, frame: &Frame) {
        self.inner.staged(peer, frame);
        self.tell_posted(peer);
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        let control = match (self.planted, control) {
            (Some(Planted::NobodyAsked), Control::AskMatched { .. }) => return Ok(()),
            (_, control) => self.bent(peer, control),
        };
        self.act(|inner| inner.post_control(pass, peer, control))?;
        let told = Happening::PostedControl(self.life, peer, control);
        self.stage.tell(&told);
        Ok(())
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.inner.released(peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        self.inner.poll(&mut Listening {
            sink,
            to: self.life,
            stage: &self.stage,
            begun: &mut self.begun,
            forgets: self.planted == Some(Planted::SuppressionLeftOut),
        })
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
            Control::Restart { .. } if self.forgets && is_later => Control::Restart { ssn: Ssn(0) },
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
