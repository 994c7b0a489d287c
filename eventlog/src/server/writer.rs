//! A rank that has joined, with the end of its batches and its acknowledgements.

use super::served_ring::Place;
use crate::message::{CommitPath, Hello, ToClient};
use crate::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Incarnation, Rank};

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) job: u64,
    pub(super) rank: Rank,
    pub(super) incarnation: Incarnation,
    pub(super) way: CommitPath,
    /// Limit of this connection's acknowledgements: the end of what it wrote, or
    /// was welcomed with. The log may reach further, with determinants that an earlier life
    /// wrote.
    reach: Place,
    /// End of the last acknowledgement.
    told: EventIndex,
    /// The end whose acknowledgement the client waits for.
    owed: Option<EventIndex>,
    leaves: bool,
}

impl Writer {
    /// `welcomed`: end of the log in its welcome.
    pub(super) fn new(hello: &Hello, welcomed: Place) -> Self {
        Self {
            job: hello.job,
            rank: hello.rank,
            incarnation: hello.incarnation,
            way: hello.way,
            reach: welcomed,
            told: welcomed.0,
            owed: None,
            leaves: false,
        }
    }

    /// The logbook took one of its batches.
    pub(super) fn took(&mut self, batch: &BatchHeader) {
        self.reach = (batch.end(), batch.last_clock);
        self.told = self.told.min(batch.first);
    }

    /// The logbook took batches out of its ring, up to this end.
    pub(super) fn drained_to(&mut self, place: Place) {
        self.reach = place;
        if self.leaves {
            self.owed = Some(place.0);
        }
    }

    /// The client sent a known batch again. GATE-3: acknowledge it again.
    pub(super) fn repeated(&mut self, batch: &BatchHeader) {
        let end = batch.end();
        self.owed = Some(self.owed.map_or(end, |owed| owed.max(end)));
    }

    /// The client writes no more.
    pub(super) fn leave(&mut self) {
        self.leaves = true;
        self.owed = Some(self.reach.0);
    }

    pub(super) fn has_left(&self) -> bool {
        self.leaves
    }

    /// The end of the writer's stable determinants, if the log is stored up to `stored`.
    pub(super) fn stable(&self, stored: Place) -> Place {
        match stored.0 >= self.reach.0 {
            true => self.reach,
            false => stored,
        }
    }

    /// The acknowledgement that is due now, if any. GATE-3
    pub(super) fn acknowledgement(
        &mut self,
        stored: Place,
        logger: LoggerId,
        level: Level,
    ) -> Option<ToClient> {
        let (end, clock) = self.stable(stored);
        let cannot_look = match self.way {
            CommitPath::Messages => true,
            // The client itself sees placed batches.
            CommitPath::Libfabric => level == Level::Durable,
            CommitPath::SharedMemory => false,
        };
        let is_new = cannot_look && end > self.told;
        let is_owed = self.owed.is_some_and(|owed| end >= owed);
        if !is_new && !is_owed {
            return None;
        }
        if is_owed {
            self.owed = None;
        }
        self.told = end;
        Some(ToClient::Stable {
            logger,
            rank: self.rank.0,
            incarnation: self.incarnation.0,
            clock: clock.0,
            end: end.0,
            level,
        })
    }
}
