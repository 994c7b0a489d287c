//! What brings the bytes to the logger.

use super::RemoteError;
use super::libfabric::LibfabricPort;
use super::verbs::VerbsPort;
use crate::ring::RingMemory;
use core::fmt::Debug;

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
            Self::Libfabric(port) => port
                .write(image, offset, bytes, token)
                .map_err(PortError::Libfabric),
            Self::Verbs(port) => port.write(image, offset, bytes, token),
        }
    }

    #[inline]
    fn poll(&mut self, completed: impl FnMut(u64)) -> Result<(), PortError> {
        match self {
            Self::Libfabric(port) => port.poll(completed).map_err(PortError::Libfabric),
            Self::Verbs(port) => port.poll(completed),
        }
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
