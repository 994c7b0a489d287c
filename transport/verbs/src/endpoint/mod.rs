//! The endpoint of one rank on a device: sends messages to many peers, over one reliable queue pair
//! each.
//!
//! One shared receive queue and one completion queue serve all queue pairs. Greetings over one
//! queue pair for datagrams connect them, and replace those that break (`greeting`).

mod address;
mod completion;
mod connections;
mod contract;
mod counters;
mod datagrams;
mod device;
mod drains;
mod events;
mod failure;
mod message;
mod open;
mod options;
mod pair;
mod pairs;
mod peers;
mod port;
mod posting;
mod random;
mod receives;
mod registration;
mod remote_memory;
mod send_queue;
mod sizes;
mod unknown_clients;
mod waiting;
mod work_request;

pub use address::{ADDRESS_BYTES, readable};
pub use completion::Completion;
pub use counters::Counters;
pub use message::PARTS_MAX;
pub use options::{EndpointOptions, Retry};
pub use peers::PeerAddress;

use crate::{Chosen, Error, Library, MessageEndpoint};
use open::Open;

/// A reliable endpoint for messages, and for reads and writes of peers' memory. It manages its
/// connections itself.
///
/// A completion of a send means that the operation has ended, its memory is free again, and the
/// peer's device has the data. Completions of sends arrive in groups, with a delay of some
/// milliseconds at most.
///
/// The endpoint replaces a connection that breaks. Operations in progress complete with an error,
/// and messages that arrived and were not polled yet may be lost.
///
/// The device alone serves peers' reads and writes of memory of this endpoint; greetings need
/// [`MessageEndpoint::poll`].
///
/// It can move to another thread, but threads cannot share it.
pub struct Endpoint {
    // `None` after `close`.
    open: Option<Box<Open>>,
    counters: Counters,
    inject_bytes: usize,
    message_bytes: usize,
    receives_max: usize,
}

impl Endpoint {
    /// Opens all objects of an endpoint.
    ///
    /// # Errors
    /// Errors of the device, or its queues cannot have the requested lengths.
    pub fn open(
        library: &Library,
        chosen: &Chosen,
        options: &EndpointOptions,
    ) -> Result<Self, Error> {
        let open = Open::new(library, chosen, options)?;
        Ok(Self {
            counters: Counters::default(),
            inject_bytes: open.inline_bytes as usize,
            message_bytes: open.message_bytes,
            receives_max: open.sizes.receives,
            open: Some(Box::new(open)),
        })
    }

    /// Bytes of the longest message, read or write.
    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes
    }

    /// Most receives that can be posted at a time.
    pub fn receives_max(&self) -> usize {
        self.receives_max
    }

    /// Number of operations in flight, including posted receives.
    pub fn operations_in_flight(&self) -> usize {
        let open = self.open.as_ref();
        open.map_or(0, |open| open.in_flight + open.receives.in_flight())
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        self.open
            .as_ref()
            .map_or(&self.counters, |open| &open.counters)
    }

    #[inline]
    fn open_mut(&mut self) -> Result<&mut Open, Error> {
        self.open.as_deref_mut().ok_or_else(closed)
    }
}

#[cold]
fn closed() -> Error {
    Error::invalid("use an endpoint", "it is closed")
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint")
            .field("port", &self.open.as_ref().map(|open| &open.port.words))
            .field("operations_in_flight", &self.operations_in_flight())
            .finish_non_exhaustive()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Objects that cannot be closed are leaked.
        let _ = self.close();
    }
}
