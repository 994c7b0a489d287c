//! The log of a dead rank: its segment, which exists as long as a process of the host holds it, and
//! its spilled segment files. LOG-2

use refrain_logging::LeftInLogs;
use refrain_logging::image::{LogImage, LogKey, OpenError, RankMemory, ReadFailure, Selection};
use refrain_ring::{Frontier, Rank, Ssn, Stream};
use refrain_transport::engine::CARRIER_CONTEXT;
use refrain_transport::fabric::shm::{self, DeadLogError};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// Why the log of a dead rank cannot be read.
#[derive(Debug, Error)]
pub enum DeadRankError {
    /// The memory file is not the segment of a rank.
    #[error("the segment of a dead rank: {0}")]
    Segment(#[from] DeadLogError),
    /// The folder cannot be listed.
    #[error("the log of a dead rank: {0}")]
    Spilled(#[from] OpenError),
}

/// Opens the logs of the rank whose memory file (memfd) is `segment`, together with the files that
/// it spilled to `spill_dir`: of all channels, or of the channel to `destination`. The rank must be
/// dead: records that it still writes are read torn, or not at all.
///
/// # Errors
/// [`DeadRankError`].
pub fn open_log(
    segment: OwnedFd,
    spill_dir: Option<&Path>,
    destination: Option<Rank>,
) -> Result<LogImage, DeadRankError> {
    let dead = shm::open_dead_log(Arc::new(segment))?;
    let selection = Selection {
        job: Some(dead.job),
        source: Some(dead.rank),
        incarnation: Some(dead.incarnation),
        destination,
    };
    let mut image = match spill_dir {
        Some(folder) => LogImage::open(folder, selection)?,
        None => LogImage::empty(selection),
    };
    image.add_memory(RankMemory {
        region: dead.region,
        arena: dead.arena,
        job: dead.job,
        source: dead.rank,
        incarnation: dead.incarnation,
    });
    Ok(image)
}

/// Why the events that a dead rank's messages carried cannot be read.
#[derive(Debug, Error)]
pub enum CarriedError {
    /// A log is damaged.
    #[error(transparent)]
    Log(#[from] ReadFailure),
    /// A record carries something else.
    #[error("what message {ssn} of {log} carries: {why}")]
    Record {
        /// Whose log.
        log: LogKey,
        /// The message.
        ssn: Ssn,
        /// What is wrong.
        why: &'static str,
    },
}

/// Adds the events in the logs of a dead rank: those that it gave to others with its messages. CAUSAL-4
///
/// # Errors
/// [`CarriedError`].
pub fn add_carried(image: &LogImage, events: &mut LeftInLogs) -> Result<(), CarriedError> {
    for (log, _) in image.logs() {
        let mut records = image.records(&log, Frontier::default())?;
        events.begin_log();
        while let Some(record) = records.next()? {
            let (header, payload) = (record.header, record.payload.unwrap_or_default());
            let carried = match is_carrier(header.context, header.ssn) {
                true => payload,
                false => header.detach(payload).2,
            };
            let ssn = header.ssn;
            if !carried.is_empty() {
                let taken = events.take(carried, None);
                taken.map_err(|why| CarriedError::Record { log, ssn, why })?;
            }
        }
    }
    Ok(())
}

/// Whether a record with this context and SSN is no message, but carries events. CAUSAL-1
pub fn is_carrier(context: u32, ssn: Ssn) -> bool {
    context == CARRIER_CONTEXT && ssn.stream() == Stream::RESULTS
}
