//! The payload of a batch: determinants as deltas to the one before.

use super::Determinant;
use super::batch::BatchHeader;
use thiserror::Error;

/// Why a payload is not a row of determinants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Not what this version writes.
    #[error("determinant {index} of the batch cannot be read: {reason}")]
    Malformed {
        /// Which of the batch, from 0.
        index: u16,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// The determinants of a batch whose checksum was right.
///
/// # Errors
/// When the payload is not what this version writes, or does not fit the
/// header (count, first and last clock).
pub fn decode(_header: &BatchHeader, _payload: &[u8]) -> Result<Vec<Determinant>, RecordError> {
    todo!("helper A")
}
