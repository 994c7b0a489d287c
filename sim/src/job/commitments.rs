//! Where the events of a simulated rank become stable: the real client, and what
//! a planted bug makes of it.

use crate::loggers::LoggerClient;
use crate::planted::Planted;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_ring::Clock;

/// The client of a life.
#[derive(Debug)]
pub struct SimCommitments {
    client: LoggerClient,
    /// One past the last that was begun to be committed.
    begun: EventIndex,
    planted: Option<Planted>,
    /// The batch that may be the next.
    prepared: Option<Vec<u8>>,
    /// Output waits for these events, counted from the first.
    pub wanted: u64,
}

impl SimCommitments {
    /// Over a client whose life has begun.
    pub fn new(client: LoggerClient, start: EventIndex, planted: Option<Planted>) -> Self {
        Self {
            client,
            begun: start,
            planted,
            prepared: None,
            wanted: 0,
        }
    }

    fn waits_behind_gate(&self) -> bool {
        self.planted == Some(Planted::CommitBehindGate) && self.client.stable_end() < self.begun
    }
}

impl Commits for SimCommitments {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.begun = header.end();
        self.prepared = None;
        self.client.commit(header, batch);
    }

    fn prepare(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(header.first, self.begun, "it may be the next");
        self.prepared = Some(batch.to_vec());
    }

    fn commit_prepared(&mut self, header: &BatchHeader, batch: &[u8]) {
        assert_eq!(self.prepared.as_deref(), Some(batch), "the very one");
        self.commit(header, batch);
    }

    fn stable_end(&self) -> EventIndex {
        self.client.stable_end()
    }

    fn poll(&mut self) -> EventIndex {
        match self.waits_behind_gate() {
            true => self.client.stable_end(),
            false => self.client.poll(),
        }
    }

    fn is_instant(&self) -> bool {
        self.client.is_instant()
    }

    fn wanted(&self) -> u64 {
        self.wanted
    }

    fn trim(&mut self, before: Clock) {
        self.client.trim(before);
    }

    fn leave(&mut self) -> bool {
        self.client.leave()
    }

    fn explain(&self) -> Option<String> {
        self.client.explain()
    }
}
