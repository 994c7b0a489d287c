//! The client's part over verbs.

use super::{VERBS, choose_port};
use crate::message::RemoteRing;
use crate::remote::port::{EndpointPort, check_provider};
use crate::remote::{Delivery, Port, RemoteError};
use crate::ring::RingMemory;
use core::time::Duration;
use refrain_verbs::{Endpoint, EndpointOptions, PortChoice};
use std::path::Path;

/// A write and the read behind it.
const REQUESTS_EACH: usize = 2;
/// Behind that, the device takes no writes, or the logger's port is not connected.
const REFUSED_MAX: Duration = Duration::from_secs(10);

/// RMA writes over verbs, each with a read of its last bytes behind it: when that
/// completes, the bytes are in the logger's memory. EL-1
pub type VerbsPort = EndpointPort<Endpoint>;

impl VerbsPort {
    /// Opens an endpoint for writing out of that image, and begins to connect.
    pub(in crate::remote) fn open(
        library: Option<&Path>,
        port: &PortChoice,
        remote: &RemoteRing,
        delivery: Delivery,
        room: (&RingMemory, usize),
    ) -> Result<Self, RemoteError> {
        check_provider(VERBS, remote, delivery)?;
        let (library, chosen) = choose_port(library, port)?;
        let (_, writes_max) = room;
        let options = EndpointOptions {
            operations_max: REQUESTS_EACH * writes_max,
            peers_max: 1,
            receives_max: 1,
            inject_bytes: 0,
            ..EndpointOptions::default()
        };
        let endpoint = Endpoint::open(&library, &chosen, &options)?;
        let mut port = Self::over(endpoint, Some(REFUSED_MAX), remote, room)?;
        // The first greeting leaves now, not with the first batch.
        port.poll(|_| ())?;
        Ok(port)
    }
}
