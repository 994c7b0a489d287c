//! A rank's determinants in order, from the batches that event loggers hold.

use super::batch::{BatchError, BatchHeader, job_tag};
use super::record::{self, RecordError};
use super::{Determinant, EventIndex};
use refrain_ring::{Clock, Incarnation, Rank};
use thiserror::Error;

/// Why the determinants of a rank are not complete.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CollectError {
    /// The bytes are not a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A batch whose payload cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A batch of another rank or job, or made by an earlier incarnation than the previous batch.
    #[error("a batch that does not continue the log of this rank: {0:?}")]
    Foreign(BatchHeader),
    /// Determinants are missing.
    #[error("determinant {expected} is missing: the next batch begins with {found}")]
    Gap {
        /// Number of the missing determinant.
        expected: EventIndex,
        /// First number of the next batch.
        found: EventIndex,
    },
    /// The first determinants are missing, and there is no checkpoint.
    #[error("determinants before {0} are missing, and there is no checkpoint")]
    Beginning(EventIndex),
}

/// The determinants of a rank after the clock of its checkpoint (`None`: from the
/// rank's beginning), from batches in their order. EL-5, REC-2
///
/// # Errors
/// When a gap is found. With a checkpoint, determinants missing directly after it are not
/// detected.
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
        if (header.rank, header.job_tag) != (rank, job_tag(job)) || header.made_by() < life {
            return Err(CollectError::Foreign(header));
        }
        match next {
            Some(expected) if expected != header.first => {
                let found = header.first;
                return Err(CollectError::Gap { expected, found });
            }
            // The checkpoint contains the outcomes of trimmed determinants.
            None if header.first > EventIndex(0) && after.is_none() => {
                return Err(CollectError::Beginning(header.first));
            }
            _ => {}
        }
        if header.made_by() > life {
            drop_part(&mut collected);
        }
        life = header.made_by();
        next = Some(header.end());
        collected.extend(record::decode(&header, payload)?);
    }
    collected.retain(|determinant| Some(determinant.at()) > after);
    Ok(collected)
}

/// Drops a set whose end is missing because its life died: the later life's
/// determinants give the whole outcome of that operation. REC-4
fn drop_part(row: &mut Vec<Determinant>) {
    while let Some(Determinant::Completion {
        continues: true, ..
    }) = row.last()
    {
        row.pop();
    }
}
