//! A rank's end of the simulated network with something between: a [`Between`] sees
//! what leaves and what comes, and may bend it. All else is the network's.

use core::time::Duration;
use refrain_ring::{Frame, Incarnation, Position, Rank, RecordHeader};
use refrain_transport::control::Control;
use refrain_transport::fabric::sim::SimFabric;
use refrain_transport::fabric::{
    Address, Attributes, Fabric, FabricError, Landing, Place, Refusal, Sink,
};
use refrain_transport::gate::Pass;

/// What stands between a rank and its end of the network. The methods are those of
/// [`Fabric`], and have to pass on what they are called with.
pub trait Between {
    /// See [`Fabric::post`].
    ///
    /// # Errors
    /// As there.
    fn post(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        frame: &Frame,
    ) -> Result<(), Refusal>;

    /// See [`Fabric::stage`].
    ///
    /// # Errors
    /// As there.
    fn stage(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        let _ = (end, pass, peer, header, fill);
        Err(Refusal::Busy)
    }

    /// See [`Fabric::staged`].
    fn staged(&mut self, end: &mut SimFabric, peer: Rank, frame: &Frame) {
        end.staged(peer, frame);
    }

    /// See [`Fabric::post_control`].
    ///
    /// # Errors
    /// As there.
    fn post_control(
        &mut self,
        end: &mut SimFabric,
        pass: Pass,
        peer: Rank,
        control: Control,
    ) -> Result<(), Refusal>;

    /// See [`Fabric::poll`].
    ///
    /// # Errors
    /// As there.
    fn poll(&mut self, end: &mut SimFabric, sink: &mut dyn Sink) -> Result<usize, FabricError>;
}

/// See the [module](self).
#[derive(Debug)]
pub struct Interposed<B> {
    /// The end of the network.
    pub end: SimFabric,
    /// What is between.
    pub between: B,
}

impl<B: Between> Fabric for Interposed<B> {
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
        self.between.post(&mut self.end, pass, peer, frame)
    }

    fn stage(
        &mut self,
        pass: Pass,
        peer: Rank,
        header: &RecordHeader,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Refusal> {
        self.between.stage(&mut self.end, pass, peer, header, fill)
    }

    fn staged(&mut self, peer: Rank, frame: &Frame) {
        self.between.staged(&mut self.end, peer, frame);
    }

    fn post_control(&mut self, pass: Pass, peer: Rank, control: Control) -> Result<(), Refusal> {
        self.between
            .post_control(&mut self.end, pass, peer, control)
    }

    fn released(&mut self, peer: Rank) -> Position {
        self.end.released(peer)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> Result<usize, FabricError> {
        self.between.poll(&mut self.end, sink)
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
