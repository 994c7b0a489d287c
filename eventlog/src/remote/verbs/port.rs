//! The client's part over verbs.

use super::refusals::Refusals;
use super::{VERBS, choose_port};
use crate::message::RemoteRing;
use crate::remote::{Delivery, Port, PortError, RemoteError, image};
use crate::ring::{DATA_BYTES, RingMemory};
use core::time::Duration;
use refrain_verbs::{
    Access, Completion, Endpoint, EndpointOptions, MemoryId, Part, PeerAddress, PortChoice, Refused,
};
use std::path::Path;
use std::time::Instant;

/// A write that could not be begun for so long, while it was tried, never will be: the device takes
/// none, or the logger's port is not connected.
const REFUSED_MAX: Duration = Duration::from_secs(10);
/// A write and the read behind it.
const REQUESTS_EACH: usize = 2;

/// RMA writes over verbs, each with a read of its last bytes behind it: when that
/// completes, the bytes are in the logger's memory. EL-1
#[derive(Debug)]
pub struct VerbsPort {
    endpoint: Endpoint,
    logger: PeerAddress,
    base: u64,
    key: u64,
    memory: MemoryId,
    refusals: Refusals,
    opened: Instant,
    completions: Vec<Completion>,
}

impl VerbsPort {
    /// Opens an endpoint for writing out of that image, and begins to connect.
    pub(in crate::remote) fn open(
        library: Option<&Path>,
        port: &PortChoice,
        remote: &RemoteRing,
        delivery: Delivery,
        (image, writes_max): (&RingMemory, usize),
    ) -> Result<Self, RemoteError> {
        if remote.provider != VERBS {
            return Err(RemoteError::OtherProvider {
                theirs: remote.provider.clone(),
                ours: VERBS.to_owned(),
            });
        }
        delivery.believed(VERBS)?;
        let (library, chosen) = choose_port(library, port)?;
        let options = EndpointOptions {
            operations_max: REQUESTS_EACH * writes_max,
            peers_max: 1,
            receives_max: 1,
            inject_bytes: 0,
            ..EndpointOptions::default()
        };
        let mut endpoint = Endpoint::open(&library, &chosen, &options)?;
        let memory = endpoint.register(&image::region_of(image), 0, DATA_BYTES, Access::LOCAL)?;
        let logger = endpoint.insert(&remote.address)?;
        let mut completions = Vec::with_capacity(writes_max);
        // The first greeting leaves now, not with the first batch.
        endpoint.poll(&mut completions)?;
        Ok(Self {
            endpoint,
            logger,
            base: remote.base,
            key: remote.key,
            memory,
            refusals: Refusals::default(),
            opened: Instant::now(),
            completions,
        })
    }

    /// Whether it may be tried again.
    #[cold]
    fn refused(&mut self) -> Result<bool, PortError> {
        if self.refusals.refused(self.opened.elapsed()) < REFUSED_MAX {
            return Ok(false);
        }
        Err(PortError::Unconnected {
            seconds: REFUSED_MAX.as_secs(),
        })
    }
}

impl Port for VerbsPort {
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
        let to = self.base + offset as u64;
        let posted = self
            .endpoint
            .write(self.logger, part, to, self.key, true, token);
        match posted {
            Ok(()) => {
                self.refusals.taken();
                Ok(true)
            }
            Err(Refused::Again | Refused::Full) => self.refused(),
            Err(Refused::Failed(error)) => Err(PortError::Verbs(error)),
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
        outcome.map_err(PortError::Verbs)
    }
}
