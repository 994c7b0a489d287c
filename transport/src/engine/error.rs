//! Why an engine stops.

use crate::fabric::FabricError;
use refrain_ring::read_back::ReadBackError;
use refrain_ring::{ArenaFull, Clock, Rank, Ssn};
use thiserror::Error;

/// Why the engine cannot continue.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The fabric or a peer broke.
    #[error(transparent)]
    Fabric(Box<FabricError>),
    /// A message is missing on a channel.
    #[error("message {expected} of rank {source_rank} is missing: message {found} came instead")]
    Gap {
        /// The sender.
        source_rank: Rank,
        /// The SSN that came.
        found: Ssn,
        /// The SSN that was expected.
        expected: Ssn,
    },
    /// A message that was sent again differs from what was sent first. REC-8
    #[error(
        "message {ssn} of rank {source_rank} was sent again with another tag or length: the program behaves differently than before, its results cannot be trusted"
    )]
    Differs {
        /// The sender.
        source_rank: Rank,
        /// The SSN of the message.
        ssn: Ssn,
    },
    /// A peer was restarted and misses messages that were freed. LOG-4
    #[error(
        "rank {peer} was restarted from an older checkpoint than its newest and needs message {ssn}, but messages before {kept_from} were freed when the newest became stable: the newest checkpoint of rank {peer} is damaged or missing (the output of rank {peer} names the file): restore that file, or run the job again"
    )]
    Freed {
        /// The peer.
        peer: Rank,
        /// The first message that it misses.
        ssn: Ssn,
        /// The first message that is kept.
        kept_from: Ssn,
    },
    /// The log cannot be read for a peer that was restarted.
    #[error(transparent)]
    Resend(Box<ReadBackError>),
    /// What the protocol of a peer tells cannot be read.
    #[error(
        "the logging protocol of rank {peer} tells what cannot be read: {why}: run the same refrain on every rank"
    )]
    StrangePiece {
        /// The peer.
        peer: Rank,
        /// What is wrong.
        why: &'static str,
    },
    /// This rank or the peer is a later life, and the protocol keeps no messages.
    #[error(
        "rank {peer} was restarted, but the protocol `{protocol}` keeps no messages for its replay: choose a protocol that logs messages"
    )]
    NothingKept {
        /// The peer.
        peer: Rank,
        /// The protocol.
        protocol: &'static str,
    },
    /// A peer was restarted after this rank had stopped to keep messages. LOG-7
    #[error(
        "rank {peer} was restarted, but the log of this rank was full, and it keeps no messages since: run the job with more --log-disk, or with checkpoints"
    )]
    StoppedKeeping {
        /// The peer.
        peer: Rank,
    },
    /// The fabric noticed the end of a peer.
    #[error("rank {peer} is gone{}", why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    PeerLost {
        /// The peer.
        peer: Rank,
        /// The reason, if the fabric knows it.
        why: Option<String>,
    },
    /// A transfer into a detached receive did not end: the fabric had to be closed.
    #[error(
        "a transfer from rank {peer} into the buffer of a detached receive did not end: this rank has closed all its connections"
    )]
    Closed {
        /// The peer.
        peer: Rank,
    },
    /// A message that the log can never hold.
    #[error(
        "a message of {message_bytes} bytes and its headers are too large for the payload log of {budget_bytes} bytes, which must hold other messages too: raise --log-memory"
    )]
    LongerThanLog {
        /// The length of the message.
        message_bytes: u64,
        /// The capacity of the log.
        budget_bytes: u64,
    },
    /// The rank diverges from its earlier life in a replay. REC-8
    #[error(
        "operation {clock} is not what this rank did in its earlier life: {what}. A rank can be recovered only if it does the same again when it gets the same messages: neither what it sends nor the order of its calls may depend on time, random numbers, addresses or threads. --record-clocks and --same-memory, where they are off, make clocks, addresses and unwritten memory the same in each life"
    )]
    Diverged {
        /// The clock of the operation.
        clock: Clock,
        /// What differs.
        what: String,
    },
    /// A later life reached an event that has no record, though an earlier life sent messages after
    /// it. REC-9
    #[error(
        "operation {clock} ({what}) has no record, but an earlier life of this rank sent message \
         {first} to rank {peer} after it. Either recorded events \
         are lost: check that the files of the event logger (--event-dir) were not deleted, cut or \
         damaged. Or the program did not make this operation in the earlier life. This rank cannot \
         be recovered: run the job again"
    )]
    RecordMissing {
        /// The clock of the operation.
        clock: Clock,
        /// The kind of the operation.
        what: &'static str,
        /// The peer.
        peer: Rank,
        /// The first message to the peer that an earlier life sent and this life has not.
        first: Ssn,
    },
    /// A message has other bytes, and the policy stops the rank at any difference. REC-8
    #[error(
        "operation {clock} is not what this rank did in its earlier life: {what}. --divergence stop ends the job because of that; auto and warn continue with the bytes that the earlier life sent, for differences without a meaning (padding, memory that was never written, a time)"
    )]
    OtherBytes {
        /// The clock of the operation.
        clock: Clock,
        /// What differs.
        what: String,
    },
    /// Messages differ so widely that they belong to another history. REC-8
    #[error(
        "operation {clock} is not what this rank did in its earlier life: {what}. The difference is too large to be padding. What a rank sends must not depend on time, random numbers or addresses: seed random numbers with constants, and leave --record-clocks and --same-memory on, which make clocks, addresses and unwritten memory the same in each life. --divergence warn continues nevertheless; the results may then mix those of two different runs"
    )]
    OtherHistory {
        /// The clock of the operation.
        clock: Clock,
        /// The number of differing messages and bytes, and the first difference.
        what: String,
    },
    /// More internal operations than there are streams.
    #[error(
        "{open} internal operations are open, the maximum of a rank: complete one before starting the next"
    )]
    NoStream {
        /// The number of open internal operations.
        open: usize,
    },
    /// The system gave no log memory.
    #[error(transparent)]
    Log(ArenaFull),
}

// Each operation returns this type: a larger one costs each of them time.
const _: () = assert!(size_of::<EngineError>() <= 40);

impl From<FabricError> for EngineError {
    fn from(error: FabricError) -> Self {
        Self::Fabric(Box::new(error))
    }
}

impl From<ReadBackError> for EngineError {
    fn from(error: ReadBackError) -> Self {
        Self::Resend(Box::new(error))
    }
}
