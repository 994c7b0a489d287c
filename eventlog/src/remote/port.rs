//! What brings the bytes to the logger.

use super::libfabric::LibfabricPort;
use super::refusals::Refusals;
use super::verbs::VerbsPort;
use super::{Delivery, RemoteError, image};
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
    /// Why it does not work any more.
    type Error: Clone + Debug + Into<RemoteError>;

    /// Begins to write `bytes` bytes from `offset` of the data on. `token` comes
    /// back with its completion. Says whether it could be begun now.
    ///
    /// # Errors
    /// What was under way has an unknown outcome.
    fn write(
        &mut self,
        image: &RingMemory,
        offset: usize,
        bytes: usize,
        token: u64,
    ) -> Result<bool, Self::Error>;

    /// Takes in completions: that write is in the logger's memory. EL-1
    ///
    /// # Errors
    /// As with [`Port::write`].
    fn poll(&mut self, completed: impl FnMut(u64)) -> Result<(), Self::Error>;

    /// Whether writes find a connection. Until then it is polled, also where there is
    /// nothing to write: only so does one come about.
    fn is_connected(&self) -> bool {
        true
    }
}

/// RMA writes, over whatever was chosen.
#[derive(Debug)]
pub enum ProviderPort {
    /// A provider of libfabric.
    Libfabric(LibfabricPort),
    /// Verbs themselves.
    Verbs(VerbsPort),
}

/// Why RMA writes do not work any more.
#[derive(Clone, Debug)]
pub enum PortError {
    /// libfabric's words.
    Libfabric(refrain_libfabric::Error),
    /// Those of verbs.
    Verbs(refrain_verbs::Error),
    /// The logger's socket lives, its port of verbs does not answer.
    Unconnected {
        /// For how long, in seconds.
        seconds: u64,
    },
}

/// RMA writes by an endpoint into one ring.
#[derive(Debug)]
pub struct EndpointPort<E: MessageEndpoint> {
    endpoint: E,
    logger: E::Peer,
    ring: RemoteMemory,
    memory: MemoryId,
    /// A write that could not be begun for so long, while it was tried, never will be;
    /// `None`: the endpoint says itself when it never will.
    refused_max: Option<Duration>,
    refusals: Refusals,
    opened: Instant,
    completions: Vec<CompletionOf<E>>,
}

impl<E: MessageEndpoint<Error: Into<PortError>>> EndpointPort<E> {
    /// For writing out of that image into that ring.
    pub(super) fn over(
        mut endpoint: E,
        refused_max: Option<Duration>,
        remote: &RemoteRing,
        (image, writes_max): (&RingMemory, usize),
    ) -> Result<Self, PortError> {
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

    /// Whether it may be tried again.
    #[cold]
    fn refused(&mut self) -> Result<bool, PortError> {
        let Some(refused_max) = self.refused_max else {
            return Ok(false);
        };
        if self.refusals.refused(self.opened.elapsed()) < refused_max {
            return Ok(false);
        }
        Err(PortError::Unconnected {
            seconds: refused_max.as_secs(),
        })
    }
}

impl<E: MessageEndpoint<Error: Into<PortError>>> Port for EndpointPort<E> {
    type Error = PortError;

    #[inline]
    fn write(
        &mut self,
        _image: &RingMemory,
        offset: usize,
        bytes: usize,
        token: u64,
    ) -> Result<bool, PortError> {
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
    fn poll(&mut self, mut completed: impl FnMut(u64)) -> Result<(), PortError> {
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

/// Looks whether this side has the provider that the logger's ring is reached by, and
/// whether its completions mean anything.
pub(super) fn check_provider(
    ours: &str,
    remote: &RemoteRing,
    delivery: Delivery,
) -> Result<(), RemoteError> {
    if ours != remote.provider {
        return Err(RemoteError::OtherProvider {
            theirs: remote.provider.clone(),
            ours: ours.to_owned(),
        });
    }
    delivery.believed(ours)
}

impl Port for ProviderPort {
    type Error = PortError;

    #[inline]
    fn write(
        &mut self,
        image: &RingMemory,
        offset: usize,
        bytes: usize,
        token: u64,
    ) -> Result<bool, PortError> {
        match self {
            Self::Libfabric(port) => port.write(image, offset, bytes, token),
            Self::Verbs(port) => port.write(image, offset, bytes, token),
        }
    }

    #[inline]
    fn poll(&mut self, completed: impl FnMut(u64)) -> Result<(), PortError> {
        match self {
            Self::Libfabric(port) => port.poll(completed),
            Self::Verbs(port) => port.poll(completed),
        }
    }

    fn is_connected(&self) -> bool {
        match self {
            Self::Libfabric(port) => port.is_connected(),
            Self::Verbs(port) => port.is_connected(),
        }
    }
}

impl From<refrain_libfabric::Error> for PortError {
    fn from(error: refrain_libfabric::Error) -> Self {
        Self::Libfabric(error)
    }
}

impl From<refrain_verbs::Error> for PortError {
    fn from(error: refrain_verbs::Error) -> Self {
        Self::Verbs(error)
    }
}

impl From<PortError> for RemoteError {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Libfabric(error) => Self::Provider(error),
            PortError::Verbs(error) => Self::Verbs(error),
            PortError::Unconnected { seconds } => Self::Unconnected { seconds },
        }
    }
}
