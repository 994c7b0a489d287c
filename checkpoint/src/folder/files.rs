//! Lists the files of a rank.

use super::names::{self, Name};
use crate::disk::Disk;
use crate::error::CheckpointError;
use crate::store::contract::JobName;
use refrain_ring::{Incarnation, Rank};

/// The files of a rank.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Numbers of complete checkpoints, newest first.
    pub wholes: Vec<u64>,
    /// Checkpoints that were begun: number and life.
    pub parts: Vec<(u64, Incarnation)>,
    /// Lives that have fenced earlier lives.
    pub fences: Vec<Incarnation>,
}

impl Files {
    pub fn look(disk: &Disk, job: &JobName, rank: Rank) -> Result<Self, CheckpointError> {
        let mut files = Self::default();
        for name in all_names(disk)? {
            match names::read(job, rank, &name) {
                Some(Name::Whole { number }) => files.wholes.push(number),
                Some(Name::Part {
                    number,
                    incarnation,
                }) => files.parts.push((number, incarnation)),
                Some(Name::Fence { incarnation }) => files.fences.push(incarnation),
                None => {}
            }
        }
        files.wholes.sort_unstable_by(|a, b| b.cmp(a));
        Ok(files)
    }

    /// The latest life that has fenced earlier lives, or has begun to write.
    pub fn latest_life(&self) -> Option<Incarnation> {
        let writers = self.parts.iter().map(|part| part.1);
        writers.chain(self.fences.iter().copied()).max()
    }
}

/// All names in the folder.
pub(super) fn all_names(disk: &Disk) -> Result<Vec<String>, CheckpointError> {
    disk.directory.names().map_err(|error| {
        let folder = disk.directory.path("");
        let attempted = format!("looking for checkpoints in {}", folder.display());
        CheckpointError::of_system(attempted, error)
    })
}
