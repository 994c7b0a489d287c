//! The logs of a rank that is dead: its segment, which lives as long as some
//! process of the host holds it, and the files that it spilled to. LOG-2

use crate::Error;
use refrain_logging::image::{LogImage, RankMemory, Selection};
use refrain_ring::Rank;
use refrain_transport::fabric::shm;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// All that can be read of the logs of the rank whose memory file (memfd) is
/// `segment`, together with what it spilled to `spill_dir`. The rank must be
/// dead: what it still wrote would be read torn, or not at all.
///
/// # Errors
/// [`Error::Config`] when the file is no rank's segment, or the folder cannot be
/// listed.
pub fn open_log(segment: OwnedFd, spill_dir: Option<&Path>) -> Result<LogImage, Error> {
    open_log_to(segment, spill_dir, None)
}

/// As [`open_log`], of the log to one rank alone.
///
/// # Errors
/// As [`open_log`].
pub fn open_log_to(
    segment: OwnedFd,
    spill_dir: Option<&Path>,
    destination: Option<Rank>,
) -> Result<LogImage, Error> {
    let dead = shm::open_dead_log(Arc::new(segment))
        .map_err(|error| Error::Config(format!("the segment of a dead rank: {error}")))?;
    let selection = Selection {
        job: Some(dead.job),
        source: Some(dead.rank),
        incarnation: Some(dead.incarnation),
        destination,
    };
    let mut image = match spill_dir {
        Some(folder) => LogImage::open(folder, selection)
            .map_err(|error| Error::Config(format!("the log of a dead rank: {error}")))?,
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
