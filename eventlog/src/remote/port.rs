//! The transport of batches to the logger.

use super::delivery::Delivery;
use super::error::RemoteError;
use super::image;
use super::refusals::Refusals;
use crate::message::RemoteRing;
use crate::ring::RingMemory;
use core::fmt::Debug;
use core::time::Duration;
use refrain_libfabric::native::{
    Access, CompletionOf, MemoryId, MessageEndpoint, Part, Refused, RemoteMemory,
};
use std::time::Instant;

/// Writes parts of an image of a ring to the same places of the ring itself.
pub trait Port: Debug {
    /// Begins to write `bytes` bytes from `offset` of the data on. `token` is returned
    /// with the completion. Returns false if the provider does not take the write now.
    ///
    /// # Errors
    /// The outcome of writes under way is unknown.
    fn write(
        &mut self,
        image: &RingMemory,
        offset: usize,
        bytes: usize,
        token: u64,
    ) -> Result<bool, RemoteError>;

    /// Passes the token of each completed write to `completed`: its bytes are in the logger's
    /// memory. EL-1
    ///
    /// # Errors
    /// As with [`Port::write`].
    fn poll(&mut self, completed: &mut dyn FnMut(u64)) -> Result<(), RemoteError>;

    /// Whether the port is connected. Until then the port must be polled, even without
    /// writes: polling makes the connection.
    fn is_connected(&self) -> bool {
        true
    }
}

/// RMA writes by an endpoint into one ring.
#[derive(Debug)]
pub(super) struct EndpointPort<E: MessageEndpoint> {
    endpoint: E,
    logger: E::Peer,
    ring: RemoteMemory,
    memory: MemoryId,
    /// The port fails when writes were refused for this time; `None`: the endpoint itself
    /// reports its failure.
    refused_max: Option<Duration>,
    refusals: Refusals,
    opened: Instant,
    completions: Vec<CompletionOf<E>>,
}

impl<E: MessageEndpoint<Error: Into<RemoteError>>> EndpointPort<E> {
    /// A port that writes from that image into that ring.
    pub(super) fn over(
        mut endpoint: E,
        refused_max: Option<Duration>,
        remote: &RemoteRing,
        (image, writes_max): (&RingMemory, usize),
    ) -> Result<Self, RemoteError> {
        let memory = endpoint.register(&image::region_of(image), Access::LOCAL);
        let logger = endpoint.insert(&remote.address);
        Ok(Self {
            memory: memory.map_err(Into::into)?,
            logger: logger.map_err(Into::into)?,
            endpoint,
            ring: RemoteMemory {
                key: remote.key,
                base: remote.base,
            },
            refused_max,
            refusals: Refusals::default(),
            opened: Instant::now(),
            completions: Vec::with_capacity(writes_max),
        })
    }

    /// Handles a refused write; fails if writes have been refused for too long.
    #[cold]
    fn refused(&mut self) -> Result<bool, RemoteError> {
        let lasted = self.refusals.refused(self.opened.elapsed());
        match self.refused_max.filter(|max| lasted >= *max) {
            None => Ok(false),
            Some(max) => Err(RemoteError::Refused(format!(
                "the logger's port of verbs did not answer for {} s: check that both ports \
                 are on one network, or commit by messages",
                max.as_secs()
            ))),
        }
    }
}

impl<E: MessageEndpoint<Error: Into<RemoteError>>> Port for EndpointPort<E> {
    #[inline]
    fn write(
        &mut self,
        _image: &RingMemory,
        offset: usize,
        bytes: usize,
        token: u64,
    ) -> Result<bool, RemoteError> {
        let part = Part {
            memory: self.memory,
            offset,
            bytes,
        };
        let to = RemoteMemory {
            base: self.ring.base + offset as u64,
            ..self.ring
        };
        // EL-1
        match self.endpoint.write(self.logger, part, to, token) {
            Ok(()) => {
                self.refusals.taken();
                Ok(true)
            }
            Err(Refused::Again | Refused::Full) => self.refused(),
            Err(Refused::Failed(error)) => Err(error.into()),
        }
    }

    #[inline]
    fn poll(&mut self, completed: &mut dyn FnMut(u64)) -> Result<(), RemoteError> {
        let mut outcome = self.endpoint.poll(&mut self.completions);
        for completion in self.completions.drain(..) {
            match completion.outcome {
                Ok(()) => completed(completion.token),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome.map_err(Into::into)
    }

    fn is_connected(&self) -> bool {
        self.endpoint.is_connected(self.logger)
    }
}

/// Checks that this side uses the provider that reaches the logger's ring, and that its
/// completions can be trusted.
pub(super) fn check_provider(
    ours: &str,
    remote: &RemoteRing,
    delivery: Delivery,
) -> Result<(), RemoteError> {
    if ours != remote.provider {
        return Err(RemoteError::Refused(format!(
            "the logger's ring is reached by provider {:?}, this rank has {ours:?}: choose the \
             same on both sides, or commit by messages",
            remote.provider
        )));
    }
    match delivery {
        Delivery::Honoured => Ok(()),
        Delivery::Unknown => Err(RemoteError::Refused(format!(
            "provider {ours:?} is not known to complete writes only when they are in the \
             logger's memory: commit by messages"
        ))),
    }
}
