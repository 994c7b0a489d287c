//! The messages between clients and event loggers (docs/design/event-logger.md).

use crate::frames;
use refrain_eventlog::message::{PROTOCOL, ToClient, ToLogger};

/// Checks both directions of both kinds of messages.
pub fn check(bytes: &[u8]) {
    frames::check::<ToLogger>(&PROTOCOL, bytes);
    frames::check::<ToClient>(&PROTOCOL, bytes);
}

/// One message of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        frames::seeds::<ToLogger>(&PROTOCOL),
        frames::seeds::<ToClient>(&PROTOCOL),
    ]
    .concat()
}
