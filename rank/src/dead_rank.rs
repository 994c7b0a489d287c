//! The log of a dead rank: its segment, which exists as long as a process of the host holds it, and
//! its spilled segment files. LOG-2

use refrain_logging::image::{LogImage, OpenError, RankMemory, ReadFailure, Selection};
use refrain_ring::{Rank, Ssn, Stream};
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

/// The carriers in the logs of a dead rank: the events that it gave to others with its messages.
/// CAUSAL-4
///
/// # Errors
/// When a log is damaged.
pub fn carriers(image: &LogImage) -> Result<Vec<Vec<u8>>, ReadFailure> {
    let mut carriers = Vec::new();
    for (key, _) in image.logs() {
        let mut messages = image.messages(&key, Ssn::first(Stream::RESULTS))?;
        while let Some(message) = messages.next()? {
            if message.context == CARRIER_CONTEXT && message.ssn.stream() == Stream::RESULTS {
                carriers.push(message.bytes);
            }
        }
    }
    Ok(carriers)
}
