//! The start of a server: it takes over existing files and rings, then listens.

use super::catch_up::CatchUps;
use super::remote::Remote;
use super::service::{Service, ServiceOptions};
use super::system::System;
use super::waits::{DOOR, EDGE, FIRST_CONNECTION, WAKE, Waits};
use super::{Server, ServerError, ServerOptions, system};
use crate::Level;
use crate::client::ServerAddress;
use crate::logbook::{Logbook, LogbookOptions};
use crate::message::PROTOCOL;
use refrain_wire::{Door, Listener};
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::sync::Arc;

impl Server {
    /// Opens the folder, takes the batches in the rings of an earlier server,
    /// stores them, and listens. EL-3
    ///
    /// `report` takes messages for people: damaged rings, disconnected clients, a full
    /// disk.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn bind(
        options: ServerOptions,
        report: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, ServerError> {
        // Before the logbook starts its thread.
        let remote = Remote::new(options.remote, options.limits.ranks, options.level);
        let logbook = Logbook::open(
            &options.folder,
            LogbookOptions {
                logger: options.logger,
                sync: options.level == Level::Durable,
                io: options.io,
                continues: options.continues,
                segment_bytes: options.segment_bytes,
            },
        )?;
        let waits = Waits::new().map_err(system("making an epoll"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(system("making an eventfd"))?;
        waits
            .add(&wake, WAKE, EDGE)
            .map_err(system("waiting for threads"))?;
        if let Some(descriptor) = logbook.descriptor() {
            waits
                .add(descriptor, WAKE, EDGE)
                .map_err(system("waiting for the files"))?;
        }
        let terms = ServiceOptions {
            logger: options.logger,
            level: options.level,
            peers: options.peers.len(),
            limits: options.limits,
        };
        let rings = options.rings.unwrap_or(options.folder);
        refrain_storage::make_private(&rings).map_err(system("making the folder of rings"))?;
        let host = System {
            folder: rings,
            peers: options.peers,
            report: Box::new(report),
            remote,
            waits,
            wake: Arc::new(wake),
            ties: HashMap::new(),
            catch_ups: CatchUps::default(),
        };
        let mut server = Self {
            service: Service::open(terms, logbook, host, FIRST_CONNECTION)?,
            door: None,
        };
        server.listen(&options.listen)?;
        Ok(server)
    }

    fn listen(&mut self, listen: &[ServerAddress]) -> Result<(), ServerError> {
        let listeners = listen.iter().map(|address| {
            Listener::bind(address).map_err(|error| ServerError::Listen {
                address: address.to_string(),
                error,
            })
        });
        let listeners = listeners.collect::<Result<_, _>>()?;
        let door = Door::new(listeners, &PROTOCOL).map_err(system("making an epoll"))?;
        let waits = &self.service.host.waits;
        waits
            .add(&door, DOOR, EventFlags::IN)
            .map_err(system("waiting for connections"))?;
        self.door = Some(door);
        Ok(())
    }
}
