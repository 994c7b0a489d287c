//! What a client needs of the world: conversations with loggers, and writes into
//! their memory.

use super::{ClientOptions, ServerAddress};
use crate::message::{PROTOCOL, RemoteRing, ToClient, ToLogger};
use crate::remote::{Delivery, Port, ProviderPort, RemoteWriter, VERBS};
use core::fmt::Debug;
use refrain_wire::{Connection, WireError};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Bytes that wait for a socket at most before no more commits are taken.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// A conversation with one logger: messages out and in, in order, nothing that
/// blocks. When it is over, that is said by whatever is tried next.
pub trait Wire: Debug {
    /// Whether another commit may be queued.
    fn has_room(&self) -> bool;

    /// Queues a message, and sends what can be sent.
    ///
    /// # Errors
    /// The conversation is over.
    fn say(&mut self, message: &ToLogger) -> Result<(), WireError>;

    /// Sends what can be sent of what waits.
    ///
    /// # Errors
    /// The conversation is over.
    fn flush(&mut self) -> Result<(), WireError>;

    /// The next message, if it is there.
    ///
    /// # Errors
    /// The conversation is over.
    fn hear(&mut self) -> Result<Option<ToClient>, WireError>;

    /// The next descriptor that came with a message.
    fn take_descriptor(&mut self) -> Option<OwnedFd>;
}

/// How a client reaches its loggers.
pub trait Network: Debug {
    /// A conversation.
    type Wire: Wire;
    /// What writes into a logger's memory.
    type Port: Port;

    /// Begins a conversation; may be called again when one is over.
    ///
    /// # Errors
    /// There is no such logger.
    fn begin(&mut self, address: &ServerAddress) -> Result<Self::Wire, WireError>;

    /// Prepares writing into the ring that came with a welcome.
    ///
    /// # Errors
    /// Why it cannot be written, for people.
    fn open_writer(
        &mut self,
        options: &ClientOptions,
        ring: &RemoteRing,
    ) -> Result<RemoteWriter<Self::Port>, String>;
}

/// Sockets, and libfabric or verbs.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Names are looked up once: it may take long.
    looked_up: HashMap<ServerAddress, ServerAddress>,
}

impl Network for Sockets {
    type Wire = Connection;
    type Port = ProviderPort;

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
            VERBS => options.libibverbs.as_deref(),
            _ => options.libfabric.as_deref(),
        };
        let library = library.map(Path::new);
        // What the logger names may have more layers than what was chosen.
        let delivery = Delivery::of(&ring.provider);
        RemoteWriter::open(library, provider, &options.verbs_port, ring, delivery)
            .map_err(|error| error.to_string())
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
