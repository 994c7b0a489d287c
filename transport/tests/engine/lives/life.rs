//! One life of a rank: an engine, and its endpoint.

use crate::disk::MemoryDisk;
use crate::recorder::{Recorder, TestProtocol};
use refrain_ring::{Arena, Incarnation, Rank};
use refrain_transport::engine::{Engine, EngineError, EngineOptions};
use refrain_transport::fabric::sim::{Network, SimFabric};
use refrain_transport::fabric::{Address, Fabric};

/// The log of a rank.
#[derive(Clone, Copy, Debug)]
pub struct LogMeans {
    pub bytes: usize,
    pub has_disk: bool,
}

pub struct Life {
    pub rank: Rank,
    pub incarnation: Incarnation,
    pub engine: Engine<TestProtocol>,
    pub address: Address,
    pub protocol: Recorder,
}

impl Life {
    /// Begins a life of one of two ranks, without peers.
    pub fn begin(network: &Network, log: LogMeans, rank: Rank, incarnation: Incarnation) -> Self {
        let (fabric, arena) = network.start(rank, incarnation, log.bytes);
        Self::over((fabric, arena), log, (rank, incarnation))
    }

    /// Begins a life over a fabric on which peers may be connected.
    pub fn over(
        (fabric, arena): (SimFabric, Arena),
        log: LogMeans,
        (rank, incarnation): (Rank, Incarnation),
    ) -> Self {
        let address = fabric.address();
        let protocol = Recorder::default();
        let options = EngineOptions {
            rank,
            incarnation,
            size: 2,
            window_bytes: log.bytes as u64,
        };
        let kept = TestProtocol {
            recorder: protocol.clone(),
            keeps_payload: true,
        };
        let mut engine = Engine::new(options, arena, Box::new(fabric), kept);
        if log.has_disk {
            engine = engine.with_spill(Box::new(MemoryDisk::default()));
        }
        Self {
            rank,
            incarnation,
            engine,
            address,
            protocol,
        }
    }

    /// The payload of published messages is shared.
    pub fn sharing(self, bytes: u64) -> Self {
        let engine = self.engine.with_shared_payload(bytes, 64);
        Self { engine, ..self }
    }

    /// Makes progress. The test itself handles lost peers.
    pub fn progress(&mut self) -> bool {
        match self.engine.progress() {
            Ok(arrived) => arrived,
            Err(EngineError::PeerLost { .. }) => true,
            Err(error) => panic!("{:?} life {:?}: {error}", self.rank, self.incarnation),
        }
    }
}
