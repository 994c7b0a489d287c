//! A client's access to its loggers: messages, and writes into their memory.

use super::options::ClientOptions;
use crate::message::{PROTOCOL, RemoteRing, ToClient, ToLogger};
use crate::remote::{Delivery, RemoteWriter, VERBS};
use core::fmt::Debug;
use core::time::Duration;
use refrain_wire::{Connection, ServerAddress, WireError};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

/// Limit of bytes that wait for a socket; above it no more commits are queued.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// A session with one logger: messages in both directions, in order, without blocking.
/// When the session has ended, the next call fails.
pub trait Wire: Debug {
    /// Whether another commit may be queued.
    fn has_room(&self) -> bool;

    /// Queues a message, and sends what can be sent.
    ///
    /// # Errors
    /// The session has ended.
    fn say(&mut self, message: &ToLogger) -> Result<(), WireError>;

    /// Sends what can be sent.
    ///
    /// # Errors
    /// The session has ended.
    fn flush(&mut self) -> Result<(), WireError>;

    /// The next message, if one has come.
    ///
    /// # Errors
    /// The session has ended.
    fn hear(&mut self) -> Result<Option<ToClient>, WireError>;

    /// Takes the next descriptor that came with a message, if any.
    fn take_descriptor(&mut self) -> Option<OwnedFd>;
}

/// A client's way to open sessions and write into rings.
pub trait Network: Debug {
    /// A session.
    type Wire: Wire;

    /// Begins a session; may be called again when one has ended.
    ///
    /// # Errors
    /// There is no such logger.
    fn begin(&mut self, address: &ServerAddress) -> Result<Self::Wire, WireError>;

    /// Prepares writes into the ring of a welcome.
    ///
    /// # Errors
    /// The reason why the ring cannot be written, for people.
    fn open_writer(
        &mut self,
        options: &ClientOptions,
        ring: &RemoteRing,
    ) -> Result<RemoteWriter, String>;

    /// Time since any fixed point.
    fn now(&self) -> Duration;
}

/// Sockets, and libfabric or verbs.
#[derive(Debug)]
pub struct Sockets {
    began: Instant,
    /// Resolved names: resolution may take long and is done once.
    looked_up: HashMap<ServerAddress, ServerAddress>,
}

impl Default for Sockets {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            looked_up: HashMap::new(),
        }
    }
}

impl Network for Sockets {
    type Wire = Connection;

    fn begin(&mut self, address: &ServerAddress) -> Result<Connection, WireError> {
        let found = match self.looked_up.get(address) {
            Some(found) => found,
            None => {
                let found = address.look_up()?;
                self.looked_up.entry(address.clone()).or_insert(found)
            }
        };
        Connection::begin(found, &PROTOCOL)
    }

    fn open_writer(
        &mut self,
        options: &ClientOptions,
        ring: &RemoteRing,
    ) -> Result<RemoteWriter, String> {
        let provider = options
            .provider
            .as_deref()
            .ok_or("no provider was chosen")?;
        let library = match provider {
            VERBS => &options.libibverbs,
            _ => &options.libfabric,
        };
        let library = library.as_deref().map(Path::new);
        // The logger's provider may name more layers than the options.
        let delivery = Delivery::of(&ring.provider);
        RemoteWriter::open(library, provider, &options.verbs_port, ring, delivery)
            .map_err(|error| error.to_string())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Wire for Connection {
    fn has_room(&self) -> bool {
        self.is_proven() && self.unsent_bytes() < UNSENT_BYTES_MAX
    }

    fn say(&mut self, message: &ToLogger) -> Result<(), WireError> {
        Connection::say(self, message)?;
        Connection::flush(self)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        Connection::flush(self)
    }

    fn hear(&mut self) -> Result<Option<ToClient>, WireError> {
        Connection::hear(self)
    }

    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        Connection::take_descriptor(self)
    }
}
