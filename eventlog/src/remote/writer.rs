//! The client's part: batches go into the logger's ring by RMA writes.

use super::delivery::{Delivery, VERBS};
use super::error::RemoteError;
use super::port::Port;
use super::transit::{Transit, WRITE_BYTES_MAX};
use super::{libfabric, verbs};
use crate::LoggerId;
use crate::message::RemoteRing;
use crate::ring::{Cursor, DATA_BYTES, Full, RingIdentity, RingMemory};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use refrain_ring::{Incarnation, Rank};
use refrain_verbs::PortChoice;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::path::Path;

/// Writes under way at most; what comes meanwhile goes out together.
const WRITES_MAX: usize = 64;

/// Writes batches into a ring in a logger's memory, for one connection to one
/// logger.
///
/// Batches are copied into an image of the ring that is registered with the provider, and
/// written from there to the same offset of the logger's ring. An error is the end of a
/// writer: what was under way has an unknown outcome. The client joins the logger again,
/// learns where to continue, and writes into another ring with another writer. The same
/// batch again does no harm. GATE-3
///
/// Not every provider says that the logger has died (see docs/design/event-remote.md).
/// The owner of the writer holds a socket to the same logger, whose end shows it.
#[derive(Debug)]
pub struct RemoteWriter {
    port: Box<dyn Port>,
    image: RingMemory,
    transit: Transit,
    /// No write would find a connection yet.
    is_connecting: bool,
    failure: Option<RemoteError>,
}

impl RemoteWriter {
    /// Prepares writing into a ring, as the logger's welcome describes it. By verbs it
    /// begins to connect, and is to be polled until [`RemoteWriter::is_connected`]: the
    /// logger forgets a client that greets and then is silent. libfabric connects when
    /// the first batch is written.
    ///
    /// `provider`: this side's choice, one of libfabric or [`VERBS`]; the logger
    /// may not talk us into another. `delivery`: what is known of the provider,
    /// [`Delivery::of`] unless the caller knows better. `library`: the file of
    /// libfabric or libibverbs, by default the installed one; call it before
    /// other threads run (see [`refrain_libfabric::Library::load`]). `port`: which
    /// port of which device is used by verbs.
    ///
    /// # Errors
    /// Completions of the provider say nothing; no library, no such provider or
    /// port, or another provider than the logger's; an address or key that cannot
    /// be; the provider's.
    pub fn open(
        library: Option<&Path>,
        provider: &str,
        port: &PortChoice,
        remote: &RemoteRing,
        delivery: Delivery,
    ) -> Result<Self, RemoteError> {
        if remote.base.checked_add(DATA_BYTES as u64).is_none() {
            return Err(RemoteError::Refused(format!(
                "the logger's ring cannot begin at {:#x}: it would not fit behind that",
                remote.base
            )));
        }
        let image = new_image().map_err(|error| {
            RemoteError::Refused(format!("cannot make the memory of an event ring: {error}"))
        })?;
        let room = (&image, WRITES_MAX);
        let port = match provider {
            VERBS => verbs::open_port(library, port, remote, delivery, room)?,
            _ => libfabric::open_port(library, provider, remote, delivery, room)?,
        };
        Ok(Self::over(port, image))
    }

    /// Writes over any port. `image`: memory from which the port writes, used by this
    /// writer alone.
    pub fn over(port: Box<dyn Port>, image: RingMemory) -> Self {
        Self {
            is_connecting: !port.is_connected(),
            port,
            image,
            transit: Transit::default(),
            failure: None,
        }
    }

    /// Begins to place a batch. It has been taken unless the ring is full; where
    /// the provider has no room now, [`RemoteWriter::poll`] posts it.
    ///
    /// # Errors
    /// [`Full`]: nothing was done; write it again after
    /// [`RemoteWriter::consumed`]. Outside: see the type.
    #[inline]
    pub fn write(&mut self, batch: &[u8]) -> Result<Result<(), Full>, RemoteError> {
        self.check()?;
        if batch.is_empty() || batch.len() > BATCH_BYTES_MAX {
            return Err(RemoteError::Refused(format!(
                "a batch of {} bytes: they have 1 to {BATCH_BYTES_MAX}",
                batch.len()
            )));
        }
        let Ok(at) = self.transit.admit(batch.len()) else {
            return Ok(Err(Full));
        };
        // These bytes are free: `admit` gives them out only when the write that used them
        // last is over.
        self.image.write(at.offset(), batch);
        self.post()?;
        Ok(Ok(()))
    }

    /// Moves writes along. Everything before the returned place is in the
    /// logger's memory, in order. EL-1
    ///
    /// # Errors
    /// See the type; again at every later call.
    #[inline]
    pub fn poll(&mut self) -> Result<Cursor, RemoteError> {
        self.check()?;
        if self.transit.is_idle() && !self.is_connecting {
            return Ok(self.transit.placed());
        }
        let transit = &mut self.transit;
        let polled = self.port.poll(&mut |token| {
            transit.completed(token);
        });
        if let Err(error) = polled {
            return Err(self.fail(error));
        }
        if self.is_connecting {
            self.is_connecting = !self.port.is_connected();
        }
        self.post()?;
        Ok(self.transit.placed())
    }

    /// Whether a write would find a connection, as far as was known when it was polled
    /// last. Until then it has to be polled though there is nothing to write.
    pub fn is_connected(&self) -> bool {
        !self.is_connecting
    }

    /// The logger has stored everything before that place elsewhere
    /// ([`ToClient::Consumed`](crate::message::ToClient::Consumed)).
    ///
    /// # Errors
    /// That much was never written.
    pub fn consumed(&mut self, told: Cursor) -> Result<(), RemoteError> {
        if self.transit.consume(told) {
            return Ok(());
        }
        Err(RemoteError::Refused(format!(
            "the logger has stored the ring up to {}, only {} were written",
            told.0,
            self.transit.written().0
        )))
    }

    /// The place behind everything that was written.
    pub fn position(&self) -> Cursor {
        self.transit.written()
    }

    /// Posts what waits, as far as the provider takes it.
    #[inline]
    fn post(&mut self) -> Result<(), RemoteError> {
        while let Some((span, token)) = self.transit.to_post() {
            debug_assert!(span.bytes <= WRITE_BYTES_MAX, "{span:?}");
            let offset = span.at.offset();
            match self.port.write(&self.image, offset, span.bytes, token) {
                Ok(true) => self.transit.posted(),
                Ok(false) => return Ok(()),
                Err(error) => return Err(self.fail(error)),
            }
        }
        Ok(())
    }

    #[inline]
    fn check(&self) -> Result<(), RemoteError> {
        match &self.failure {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    #[cold]
    fn fail(&mut self, error: RemoteError) -> RemoteError {
        self.failure.get_or_insert(error).clone()
    }
}

/// Memory of the layout of a ring, of this process alone: of its control page
/// nothing is used.
fn new_image() -> std::io::Result<RingMemory> {
    let file = File::from(memfd_create("refrain-event-image", MemfdFlags::CLOEXEC)?);
    let identity = RingIdentity {
        job: 0,
        rank: Rank(0),
        incarnation: Incarnation(0),
        logger: LoggerId(0),
        start: EventIndex(0),
    };
    RingMemory::create(&file, &identity)
}
