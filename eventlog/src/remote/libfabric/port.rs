//! The client's part over libfabric.

use super::offer;
use crate::message::RemoteRing;
use crate::remote::{Delivery, Port, RemoteError, image};
use crate::ring::{DATA_BYTES, RingMemory};
use refrain_libfabric::{
    Access, Completion, Endpoint, EndpointOptions, Error, MemoryId, Part, PeerAddress, Refused,
};
use std::path::Path;

/// RMA writes over libfabric.
#[derive(Debug)]
pub struct LibfabricPort {
    endpoint: Endpoint,
    logger: PeerAddress,
    base: u64,
    key: u64,
    memory: MemoryId,
    completions: Vec<Completion>,
}

impl Port for LibfabricPort {
    type Error = Error;

    #[inline]
    fn write(
        &mut self,
        _image: &RingMemory,
        offset: usize,
        bytes: usize,
        token: u64,
    ) -> Result<bool, Error> {
        let part = Part {
            memory: self.memory,
            offset,
            bytes,
        };
        let to = self.base + offset as u64;
        let posted = self
            .endpoint
            .write(self.logger, part, to, self.key, true, token);
        match posted {
            Ok(()) => Ok(true),
            Err(Refused::Again | Refused::Full) => Ok(false),
            Err(Refused::Failed(error)) => Err(error),
        }
    }

    #[inline]
    fn poll(&mut self, mut completed: impl FnMut(u64)) -> Result<(), Error> {
        let mut outcome = self.endpoint.poll(&mut self.completions);
        for completion in self.completions.drain(..) {
            match completion.outcome {
                Ok(()) => completed(completion.token),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }
}

impl LibfabricPort {
    /// Opens an endpoint for writing out of that image. Connects with the first
    /// write.
    pub(in crate::remote) fn open(
        library: Option<&Path>,
        provider: &str,
        remote: &RemoteRing,
        delivery: Delivery,
        (image, writes_max): (&RingMemory, usize),
    ) -> Result<Self, RemoteError> {
        let (library, info) = offer::open(library, provider)?;
        if info.provider() != remote.provider {
            return Err(RemoteError::OtherProvider {
                theirs: remote.provider.clone(),
                ours: info.provider(),
            });
        }
        delivery.believed(&remote.provider)?;
        let options = EndpointOptions {
            cq_depth: 2 * writes_max,
            av_count: 1,
            wants_fd: false,
            operations_max: writes_max,
        };
        let mut endpoint = Endpoint::open(&library, &info, &options)?;
        let memory = endpoint.register(&image::region_of(image), 0, DATA_BYTES, Access::LOCAL)?;
        Ok(Self {
            logger: endpoint.insert(&remote.address)?,
            endpoint,
            base: remote.base,
            key: remote.key,
            memory,
            completions: Vec::with_capacity(writes_max),
        })
    }
}
