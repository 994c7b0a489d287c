//! How a server comes to be: what it finds, before anybody may speak to it.

use super::listener::Listener;
use super::remote::Remote;
use super::ring_file::{self, Found};
use super::served_ring::OldRing;
use super::waits::{FIRST_CONNECTION, LISTENERS_MAX, Waits};
use super::{Server, ServerError, ServerOptions, system};
use crate::Level;
use crate::logbook::{Logbook, LogbookOptions, Refusal};
use crate::ring::RingRemains;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

impl Server {
    /// Opens the folder, takes what lies in the rings of an earlier server,
    /// stores it, and listens. EL-3
    ///
    /// `report` is told what people should know: rings that cannot be believed,
    /// clients that were cut off, a full disk.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn bind(
        options: ServerOptions,
        report: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self, ServerError> {
        let logbook = Logbook::open(
            &options.folder,
            LogbookOptions {
                logger: options.logger,
                sync: options.level == Level::Durable,
                io: options.io,
                segment_bytes: options.segment_bytes,
            },
        )?;
        let waits = Waits::new().map_err(system("making an epoll"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(system("making an eventfd"))?;
        waits
            .add_wake(&wake)
            .map_err(system("waiting for threads"))?;
        if let Some(descriptor) = logbook.descriptor() {
            waits
                .add_logbook(descriptor)
                .map_err(system("waiting for the files"))?;
        }
        let remote = Remote::new(options.remote.clone(), options.limits.ranks);
        let mut server = Self {
            options,
            remote,
            report: Box::new(report),
            logbook,
            listeners: Vec::new(),
            waits,
            wake: Arc::new(wake),
            connections: HashMap::new(),
            next_id: FIRST_CONNECTION,
            ranks: HashMap::new(),
            joining: Vec::new(),
            ready: Vec::new(),
            sweeping: HashSet::new(),
            trouble: None,
            accepts: true,
        };
        server.take_over_rings()?;
        server.listen()?;
        Ok(server)
    }

    fn take_over_rings(&mut self) -> Result<(), ServerError> {
        for holding in self.logbook.holdings() {
            let key = (holding.job, refrain_ring::Rank(holding.rank));
            self.ranks.entry(key).or_default();
        }
        let found = ring_file::find(&self.options.folder)
            .map_err(system("looking for rings in the folder"))?;
        for found in &found {
            self.take_over(found)?;
            // All of it, one ring at a time: their rooms together may be more
            // than what the store holds unwritten.
            self.logbook.settle()?;
        }
        Ok(())
    }

    fn take_over(&mut self, found: &Found) -> Result<(), ServerError> {
        let (memory, identity) = match ring_file::open(found) {
            Ok(opened) => opened,
            Err(error) => {
                set_aside(&found.path, &error, &mut self.report);
                return Ok(());
            }
        };
        let name = found.name;
        if identity.logger != self.options.logger {
            let reason = format!("it is of event logger {}", identity.logger.0);
            set_aside(&found.path, &reason, &mut self.report);
            return Ok(());
        }
        let old = OldRing::new(RingRemains::new(memory, identity), found.path.clone());
        let hello = self.logbook.hello(name.job, name.rank, name.incarnation);
        let taken = hello.and_then(|_| old.salvage(&mut self.logbook));
        match taken {
            Ok(0) => {}
            Ok(batches) => (self.report)(&format!("{batches} batches were taken from {name}")),
            // FENCE-1: it was emptied before its rank's next life was welcomed.
            Err(Refusal::Stale { .. }) => {
                let _ = std::fs::remove_file(&found.path);
                return Ok(());
            }
            Err(Refusal::Store { reason }) => {
                let error = std::io::Error::other(reason);
                return Err(system("taking what a dead server left")(error));
            }
            Err(refusal) => {
                set_aside(&found.path, &refusal, &mut self.report);
                return Ok(());
            }
        }
        let rank = self.ranks.entry((name.job, name.rank)).or_default();
        rank.old.push(old);
        Ok(())
    }

    fn listen(&mut self) -> Result<(), ServerError> {
        for address in &self.options.listen {
            if self.listeners.len() as u64 >= LISTENERS_MAX {
                let error = format!("at most {LISTENERS_MAX} addresses");
                return Err(system("listening")(std::io::Error::other(error)));
            }
            let listener = Listener::bind(address)?;
            self.waits
                .add_listener(&listener, self.listeners.len())
                .map_err(system("waiting for connections"))?;
            self.listeners.push(listener);
        }
        Ok(())
    }
}

/// Moves a ring aside that cannot be believed, and says so.
pub(super) fn set_aside(
    path: &Path,
    why: &dyn core::fmt::Display,
    report: &mut (impl FnMut(&str) + ?Sized),
) {
    let told = match ring_file::move_aside(path) {
        Ok(aside) => format!(
            "the ring {} is damaged: {why}; what was placed there and not stored is lost here, \
             the ring is kept as {}",
            path.display(),
            aside.display()
        ),
        Err(error) => format!(
            "the ring {} is damaged: {why}; it cannot be moved aside: {error}",
            path.display()
        ),
    };
    report(&told);
}
