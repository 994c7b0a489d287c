//! The client's part over libfabric.

use super::offer;
use crate::message::RemoteRing;
use crate::remote::port::{EndpointPort, check_provider};
use crate::remote::{Delivery, RemoteError};
use crate::ring::RingMemory;
use refrain_libfabric::{Endpoint, EndpointOptions};
use std::path::Path;

/// RMA writes over libfabric, asked for with *delivery complete*.
pub type LibfabricPort = EndpointPort<Endpoint>;

impl LibfabricPort {
    /// Opens an endpoint for writing out of that image. Connects with the first
    /// write.
    pub(in crate::remote) fn open(
        library: Option<&Path>,
        provider: &str,
        remote: &RemoteRing,
        delivery: Delivery,
        room: (&RingMemory, usize),
    ) -> Result<Self, RemoteError> {
        let (library, info) = offer::open(library, provider)?;
        check_provider(&info.provider(), remote, delivery)?;
        let (_, writes_max) = room;
        let options = EndpointOptions {
            cq_depth: 2 * writes_max,
            av_count: 1,
            wants_fd: false,
            operations_max: writes_max,
        };
        let endpoint = Endpoint::open(&library, &info, &options)?;
        Ok(Self::over(endpoint, None, remote, room)?)
    }
}
