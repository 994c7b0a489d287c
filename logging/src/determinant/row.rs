//! The row of a rank's determinants, from the batches that event loggers hold.

use super::batch::{BatchError, BatchHeader, job_tag};
use super::record::{self, RecordError};
use super::{Determinant, EventIndex};
use refrain_ring::{Clock, Incarnation, Rank};
use thiserror::Error;

/// Why the determinants of a rank are not complete.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CollectError {
    /// Not even a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A batch whose payload cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Of another rank or job, or of a life before that of the batch before.
    #[error("a batch that is not the next of this rank: {0:?}")]
    Foreign(BatchHeader),
    /// Some are missing.
    #[error("determinant {expected} is missing: the next batch begins with {found}")]
    Gap {
        /// The next.
        expected: EventIndex,
        /// The one that came.
        found: EventIndex,
    },
    /// Those from the beginning on are missing, and there is no checkpoint.
    #[error("the first that is there is determinant {0}, and there is no checkpoint")]
    Beginning(EventIndex),
}

/// The determinants of a rank behind the clock of its checkpoint (`None`: it
/// begins at its beginning), from batches in their order. EL-5, REC-2
///
/// # Errors
/// When they are not complete, as far as that can be seen: with a checkpoint not
/// whether those right behind it are there.
pub fn determinants<'a>(
    rank: Rank,
    job: u64,
    batches: impl IntoIterator<Item = &'a [u8]>,
    after: Option<Clock>,
) -> Result<Vec<Determinant>, CollectError> {
    let mut collected = Vec::new();
    let mut next = None;
    let mut life = Incarnation(0);
    for bytes in batches {
        let (header, payload) = BatchHeader::read(bytes)?;
        if (header.rank, header.job_tag) != (rank, job_tag(job)) || header.incarnation < life {
            return Err(CollectError::Foreign(header));
        }
        match next {
            Some(expected) if expected != header.first => {
                let found = header.first;
                return Err(CollectError::Gap { expected, found });
            }
            // Of what was given up the checkpoint has the outcome.
            None if header.first > EventIndex(0) && after.is_none() => {
                return Err(CollectError::Beginning(header.first));
            }
            _ => {}
        }
        if header.incarnation > life {
            drop_part(&mut collected);
        }
        life = header.incarnation;
        next = Some(header.end());
        collected.extend(record::decode(&header, payload)?);
    }
    collected.retain(|determinant| Some(determinant.at()) > after);
    Ok(collected)
}

/// Of a set whose end a dead life left unsaid: what the life behind it tells of that
/// operation is all of it. REC-4
fn drop_part(row: &mut Vec<Determinant>) {
    while let Some(Determinant::Completion {
        continues: true, ..
    }) = row.last()
    {
        row.pop();
    }
}
