//! Bugs of event loggers, planted around the real parts.

use refrain_eventlog::message::ToClient;
use refrain_logging::determinant::batch::BatchHeader;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoggerBug {
    /// A logger acknowledges when a batch has come, or was posted to its memory:
    /// before it is where it is to be. EL-1
    AckEarly,
    /// Batches of a fenced life are taken for those of the latest. FENCE-1
    FenceForgotten,
    /// A client takes an acknowledgement for one of all that it sent, whatever
    /// its fields say. GATE-3
    AckUnchecked,
    /// A client gives up batches before they are stable: who lacks them when it
    /// joins gets them from nobody. EL-3
    FreedBeforeStable,
    /// Of a batch only the first determinant is given back. EL-5
    OnlyFirstKept,
    /// A reader of a ring does not look at checksums. EL-2
    TornAccepted,
    /// Everything up to the newest determinant is trimmed, instead of the
    /// generation before. GC-1
    TrimTooFar,
    /// A logger that starts again does not look into the rings of the one
    /// before. EL-3
    RingsForgotten,
    /// A life that recovers is also told what a dead one wrote behind its
    /// beginning. EL-5
    TailRead,
    /// A server looks into its rings before it asks its provider whether it may
    /// sleep, and not behind that.
    SleepsOnWrites,
}

impl LoggerBug {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::AckEarly,
        Self::FenceForgotten,
        Self::AckUnchecked,
        Self::FreedBeforeStable,
        Self::OnlyFirstKept,
        Self::TornAccepted,
        Self::TrimTooFar,
        Self::RingsForgotten,
        Self::TailRead,
        Self::SleepsOnWrites,
    ];
}

/// An acknowledgement that says that it is of this batch.
pub(super) fn forged(ack: &ToClient, batch: &BatchHeader) -> Option<ToClient> {
    let ToClient::Stable { logger, level, .. } = ack else {
        return None;
    };
    Some(ToClient::Stable {
        logger: *logger,
        rank: batch.rank.0,
        incarnation: batch.incarnation.0,
        clock: batch.last_clock.0,
        end: batch.end().0,
        level: *level,
    })
}

/// The same batch, as if of another life.
pub(super) fn of_life(batch: &[u8], incarnation: refrain_ring::Incarnation) -> Option<Vec<u8>> {
    let (mut header, _) = BatchHeader::read(batch).ok()?;
    header.incarnation = incarnation;
    let mut changed = batch[..header.batch_bytes()].to_vec();
    header.seal(&mut changed);
    Some(changed)
}
