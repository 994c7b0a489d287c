//! What a life that was started again collects, and what its program makes of
//! it: recovery as far as it is there. REC-1 to REC-4
//!
//! From the checkpoint store the newest stable checkpoint, from the event loggers
//! its determinants behind that ([`determinants`](refrain_logging::determinant::row::determinants)), from the logs of its peers the
//! messages that were not delivered before it: of those that live by their
//! engines ([`Asking`]), of those that are dead by what is left of their hosts'
//! memory and files ([`of_remains`], LOG-5). All by the real readers; nothing is
//! taken from the memory of the process that died. Then its program is played again
//! in the reference ([`Recollection::play`]), and has to make everything that
//! others have seen of it.

mod living;
mod play;
mod remains;
#[cfg(test)]
mod tests;

pub use living::{Asking, Heard};
pub use play::{EnginePart, Recollection, Saved, Tally};
pub use remains::{Remains, image_of, of_remains};

use refrain_ring::Ssn;
use std::collections::BTreeMap;

/// A message that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// The messages of one channel, by number.
pub type Messages = BTreeMap<Ssn, Message>;
