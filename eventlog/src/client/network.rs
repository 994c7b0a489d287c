//! What a client needs of the world: conversations with loggers, and writes into
//! their memory.

use super::connection::{Connection, ConnectionError, Target};
use super::{ClientOptions, ServerAddress};
use crate::message::{RemoteRing, ToClient, ToLogger};
use crate::remote::{Delivery, Port, ProviderPort, RemoteWriter, VERBS};
use core::fmt::Debug;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A conversation with one logger: messages out and in, in order, nothing that
/// blocks. When it is over, that is said by whatever is tried next.
pub trait Wire: Debug {
    /// Whether another commit may be queued.
    fn has_room(&self) -> bool;

    /// Queues a message, and sends what can be sent.
    ///
    /// # Errors
    /// The conversation is over.
    fn say(&mut self, message: &ToLogger) -> Result<(), ConnectionError>;

    /// Sends what can be sent of what waits.
    ///
    /// # Errors
    /// The conversation is over.
    fn flush(&mut self) -> Result<(), ConnectionError>;

    /// The next message, if it is there.
    ///
    /// # Errors
    /// The conversation is over.
    fn hear(&mut self) -> Result<Option<ToClient>, ConnectionError>;

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
    fn begin(&mut self, address: &ServerAddress) -> Result<Self::Wire, ConnectionError>;

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
    targets: HashMap<ServerAddress, Target>,
}

impl Network for Sockets {
    type Wire = Connection;
    type Port = ProviderPort;

    fn begin(&mut self, address: &ServerAddress) -> Result<Connection, ConnectionError> {
        let target = match self.targets.get(address) {
            Some(target) => target,
            None => {
                let target = Target::look_up(address)?;
                self.targets.entry(address.clone()).or_insert(target)
            }
        };
        Connection::begin(target)
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
        self.has_room()
    }

    fn say(&mut self, message: &ToLogger) -> Result<(), ConnectionError> {
        self.say(message)
    }

    fn flush(&mut self) -> Result<(), ConnectionError> {
        self.flush()
    }

    fn hear(&mut self) -> Result<Option<ToClient>, ConnectionError> {
        self.hear()
    }

    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.take_descriptor()
    }
}
