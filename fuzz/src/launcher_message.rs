//! The messages between launcher and ranks (docs/formats/wire-format.md).

use crate::frames;
use refrain_job::control::message::{CONTROL, ToLauncher, ToRank};

/// Checks both directions of both kinds of messages.
pub fn check(bytes: &[u8]) {
    frames::check::<ToLauncher>(&CONTROL, bytes);
    frames::check::<ToRank>(&CONTROL, bytes);
}

/// One message of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        frames::seeds::<ToLauncher>(&CONTROL),
        frames::seeds::<ToRank>(&CONTROL),
    ]
    .concat()
}
