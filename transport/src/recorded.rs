//! The messages that a replay is compared with, and the answers of its calls. REC-4, REC-8
//!
//! Crates above this one read the records and the logs.

use core::fmt;
use refrain_ring::{Rank, Ssn};

/// A message that is sent again.
#[derive(Clone, Copy, Debug)]
pub struct SentAgain<'a> {
    /// Its receiver.
    pub to: Rank,
    /// Its SSN.
    pub ssn: Ssn,
    /// Its context.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Whether its send waits until it is matched.
    pub synchronous: bool,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// The messages that earlier lives sent. REC-8
pub trait PreviousSends: fmt::Debug {
    /// Whether there is a message to compare this one with. Called for the messages to one rank in
    /// the order of their SSNs.
    fn has(&mut self, to: Rank, ssn: Ssn) -> bool;

    /// Whether there is any message to this rank from this SSN on. Also called in the order of
    /// SSNs.
    fn has_from(&mut self, to: Rank, ssn: Ssn) -> bool;

    /// Compares a message for which [`has`](PreviousSends::has) returned true. Each message
    /// is compared once.
    ///
    /// # Errors
    /// When it is another message, not only in its bytes. The error says what differs, for the
    /// user.
    fn compare(&mut self, sent: &SentAgain<'_>) -> Result<Compared, String>;
}

/// The result of comparing a message with that of an earlier life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// There was nothing to compare it with.
    Nothing,
    /// It is the same.
    Same,
    /// Bytes differ. Holds the bytes of the earlier life, of the same length.
    OtherBytes(Vec<u8>),
}

/// The answer to a call that does not wait.
pub type Answer<T> = Result<T, NoAnswer>;

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The call found nothing.
    Nothing,
    /// The record has a result, but its message has not arrived: call again after progress.
    NotYet,
}
