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
use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, BatchHeader};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_verbs::PortChoice;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;

/// Maximum number of writes under way; batches that come meanwhile go out together.
const WRITES_MAX: usize = 64;

/// Writes batches into a ring in a logger's memory, for one connection to one
/// logger.
///
/// Batches are copied into an image of the ring that is registered with the provider, and
/// written from there to the same offset of the logger's ring. An error ends the
/// writer: the outcome of writes under way is unknown. The client then joins the logger
/// again, which gives the number to continue at, and uses another ring with another writer.
/// Sending the same batch again does no harm. GATE-3
///
/// Some providers do not report the death of the logger (see docs/design/event-remote.md).
/// The owner of the writer holds a socket to the same logger; the end of that shows it.
#[derive(Debug)]
pub struct RemoteWriter {
    port: Box<dyn Port>,
    image: RingMemory,
    transit: Transit,
    /// Batches that were written and are not known to be placed: for each, the position behind
    /// it, its end and its last clock.
    written: VecDeque<(Cursor, EventIndex, Clock)>,
    /// The last batch found no room.
    is_full: bool,
    /// The port is not yet connected.
    is_connecting: bool,
    failure: Option<RemoteError>,
}

impl RemoteWriter {
    /// Prepares to write into the ring that the logger's welcome describes. With verbs it
    /// begins to connect, and must be polled until [`RemoteWriter::is_connected`]: the
    /// logger forgets a client that greets and then is silent. libfabric connects when
    /// the first batch is written.
    ///
    /// `provider`: this side's choice, a provider of libfabric or [`VERBS`]; the logger
    /// must use the same. `delivery`: the meaning of the provider's completions,
    /// [`Delivery::of`] unless the caller knows better. `library`: the file of
    /// libfabric or libibverbs, by default the installed one; call this function before
    /// other threads run (see [`refrain_libfabric::Library::load`]). `port`: the
    /// device and port that verbs uses.
    ///
    /// # Errors
    /// The provider's completions cannot be trusted; no library, no such provider or
    /// port, or another provider than the logger's; an invalid address or key;
    /// an error of the provider.
    pub fn open(
        library: Option<&Path>,
        provider: &str,
        port: &PortChoice,
        remote: &RemoteRing,
        delivery: Delivery,
    ) -> Result<Self, RemoteError> {
        if remote.base.checked_add(DATA_BYTES as u64).is_none() {
            return Err(RemoteError::Refused(format!(
                "the logger's ring cannot begin at {:#x}: it would end beyond the last address",
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

    /// Writes over any port. `image`: the memory from which the port writes, used by this
    /// writer alone.
    pub fn over(port: Box<dyn Port>, image: RingMemory) -> Self {
        Self {
            is_connecting: !port.is_connected(),
            port,
            image,
            transit: Transit::default(),
            written: VecDeque::new(),
            is_full: false,
            failure: None,
        }
    }

    /// Begins to place a batch. The batch has been taken unless the ring is full; if
    /// the provider has no room now, [`RemoteWriter::poll`] posts it.
    ///
    /// # Errors
    /// Inner: [`Full`]: the batch was not taken; write it again after
    /// [`RemoteWriter::consumed`]. Outer: see the type.
    #[inline]
    pub fn write(&mut self, batch: &[u8]) -> Result<Result<(), Full>, RemoteError> {
        self.check()?;
        if batch.is_empty() || batch.len() > BATCH_BYTES_MAX {
            return Err(RemoteError::Refused(format!(
                "a batch of {} bytes: use 1 to {BATCH_BYTES_MAX} bytes",
                batch.len()
            )));
        }
        let admitted = self.transit.admit(batch.len());
        self.is_full = admitted.is_err();
        let Ok(at) = admitted else {
            return Ok(Err(Full));
        };
        if let Ok(header) = BatchHeader::peek(batch) {
            let position = self.transit.written();
            self.written
                .push_back((position, header.end(), header.last_clock));
        }
        // These bytes are free: `admit` reuses them only after the write that used them
        // last has completed.
        self.image.write(at.offset(), batch);
        self.post()?;
        Ok(Ok(()))
    }

    /// Advances writes. Everything before the returned position is in the
    /// logger's memory, in order. EL-1
    ///
    /// # Errors
    /// See the type; later calls return the error again.
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

    /// End and clock of the last batch that was placed since the last call. EL-1
    ///
    /// # Errors
    /// As with [`RemoteWriter::poll`].
    pub(crate) fn take_placed(&mut self) -> Result<Option<(EventIndex, Clock)>, RemoteError> {
        let placed = self.poll()?;
        let mut last = None;
        while let Some((_, end, clock)) = self.written.pop_front_if(|(at, ..)| *at <= placed) {
            last = Some((end, clock));
        }
        Ok(last)
    }

    /// Whether every written batch is placed.
    pub(crate) fn is_placed(&self) -> bool {
        self.written.is_empty()
    }

    /// Whether it waits for room, which the logger announces.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the port is connected, as of the last poll. Until then it must be polled even if
    /// there is nothing to write.
    pub fn is_connected(&self) -> bool {
        !self.is_connecting
    }

    /// The logger has stored everything before that position elsewhere
    /// ([`ToClient::Consumed`](crate::message::ToClient::Consumed)).
    ///
    /// # Errors
    /// The position is beyond what was written.
    pub fn consumed(&mut self, told: Cursor) -> Result<(), RemoteError> {
        if self.transit.consume(told) {
            return Ok(());
        }
        Err(RemoteError::Refused(format!(
            "the logger says that it has stored the ring up to byte {}, but only {} bytes were written",
            told.0,
            self.transit.written().0
        )))
    }

    /// The position behind all written batches.
    pub fn position(&self) -> Cursor {
        self.transit.written()
    }

    /// Posts waiting batches, as far as the provider takes them.
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

/// Memory with the layout of a ring, of this process alone; its control page is not used.
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
