//! One connection in the server's loop.

use super::host::Channel;
use crate::message::{ToClient, ToLogger};
use refrain_wire::{Connection, FrameError, WireError};
use rustix::event::epoll::EventFlags;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Over a Unix socket memory is shared, too, and a process that shares it can crash the
/// server (by truncating the file): the listener accepts only processes that could
/// also send it a signal.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) connection: Connection,
    /// The interest that is registered with epoll.
    pub(super) interest: EventFlags,
}

impl Channel for Socket {
    type Handle = [OwnedFd; 2];

    fn is_local(&self) -> bool {
        self.connection.is_local()
    }

    fn next_message(&mut self) -> Result<Option<ToLogger>, WireError> {
        self.connection.next_message()
    }

    fn say(&mut self, message: &ToClient, both: Option<[OwnedFd; 2]>) -> Result<(), FrameError> {
        let descriptors = both.into_iter().flatten().map(Arc::new).collect();
        match self.connection.say_with(message, descriptors) {
            Err(WireError::Frame(error)) => Err(error),
            // The connection is over; the next operation notices it.
            _ => Ok(()),
        }
    }

    fn unsent_bytes(&self) -> usize {
        self.connection.unsent_bytes()
    }

    fn send(&mut self, bytes_max: usize) -> bool {
        self.connection.flush().is_ok() && self.connection.unsent_bytes() <= bytes_max
    }
}
