//! The endpoint of one rank on a provider.

mod completion;
mod contract;
mod message;
mod neighbours;
mod objects;
mod operations;
mod peers;
mod registration;
mod remote_memory;

pub use completion::Completion;
pub use message::PARTS_MAX;
pub use peers::PeerAddress;

use crate::error::{Error, Refused};
use crate::info::Info;
use crate::library::Library;
use crate::native::{Kind, MessageEndpoint};
use neighbours::Remains;
use objects::Objects;
use operations::Operations;
use registration::Registration;

/// Options for opening an [`Endpoint`].
#[derive(Debug, Clone)]
pub struct EndpointOptions {
    /// Entries of the completion queue; 0: the provider chooses. With fewer entries than operations
    /// in flight, some providers lose completions.
    pub cq_depth: usize,
    /// Number of expected peers; 0: the provider chooses.
    pub av_count: usize,
    /// Requests a file descriptor to wait on, if the provider has one.
    pub wants_fd: bool,
    /// Most operations in flight, of all kinds, including posted receives. Each takes 96 bytes of
    /// memory from the start.
    pub operations_max: usize,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            cq_depth: 0,
            av_count: 0,
            wants_fd: false,
            operations_max: 1024,
        }
    }
}

/// One rank's fabric, domain, address vector, completion queue (for both directions) and enabled
/// endpoint.
///
/// Completions of sends and reads report only that the operation has ended and its memory is free
/// again. Whether the peer has the data by then depends on the provider (`ofi_rxm` ignores
/// `FI_DELIVERY_COMPLETE` on messages).
///
/// With manual progress, operations of this endpoint and of its peers progress only during
/// [`MessageEndpoint::poll`].
///
/// An endpoint can move to another thread, but threads cannot share it: providers rely on accesses
/// that exclude each other.
pub struct Endpoint {
    // `None` after `close`.
    objects: Option<Objects>,
    registrations: Vec<Registration>,
    operations: Operations,
    limits: Limits,
    info: Info,
    has_polled: bool,
    // Names of neighbours that were inserted before the first poll.
    greeted: Vec<Vec<u8>>,
}

/// The limits of the provider. Providers do not check all of them.
struct Limits {
    inject_bytes: usize,
    parts: usize,
    message_bytes: usize,
    must_register: bool,
    adds_virtual_address: bool,
    binds_registrations: bool,
    has_neighbours: bool,
    /// Closing may crash: in libfabric 1.17's `verbs` provider, if a peer has ended or is ending.
    stays_open: bool,
}

impl Limits {
    fn of(info: &Info) -> Self {
        use crate::sys::constants::{FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_VIRT_ADDR};
        let has = |mode| info.mr_mode() & mode != 0;
        Self {
            inject_bytes: info.inject_bytes(),
            parts: info.tx_iov_max().min(PARTS_MAX),
            message_bytes: info.message_bytes_max(),
            must_register: has(FI_MR_LOCAL),
            adds_virtual_address: has(FI_MR_VIRT_ADDR),
            binds_registrations: has(FI_MR_ENDPOINT),
            has_neighbours: neighbours::exist_for(info),
            stays_open: info.provider().starts_with("verbs") && info.library().version().major < 2,
        }
    }
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint")
            .field("info", &self.info)
            .field("operations_in_flight", &self.operations.in_flight())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Opens and enables all objects of an endpoint.
    ///
    /// A process can have several endpoints of the `shm` provider if each inserts the others before
    /// its first poll; otherwise libfabric 2.5 crashes. Their memory is freed when all of them are
    /// closed.
    ///
    /// # Errors
    /// Errors of the provider. `info` must come from `library` and describe an endpoint of type
    /// `FI_EP_RDM`.
    pub fn open(library: &Library, info: &Info, options: &EndpointOptions) -> Result<Self, Error> {
        if !library.is_same(info.library()) {
            return Err(Error::invalid(
                "open an endpoint",
                "the offer comes from another library: query the library that opens the endpoint",
            ));
        }
        if !info.is_rdm() {
            return Err(Error::invalid(
                "open an endpoint",
                "the offer is not for a reliable endpoint without connections (FI_EP_RDM)",
            ));
        }
        let endpoint = Self {
            objects: Some(Objects::open(info, options)?),
            registrations: Vec::new(),
            operations: Operations::new(options.operations_max),
            limits: Limits::of(info),
            info: info.clone(),
            has_polled: false,
            greeted: Vec::new(),
        };
        if endpoint.limits.has_neighbours {
            neighbours::opened(endpoint.name().unwrap_or_default());
        }
        Ok(endpoint)
    }

    /// The offer that the endpoint was opened from.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Number of operations in flight, including posted receives.
    pub fn operations_in_flight(&self) -> usize {
        self.operations.in_flight()
    }

    /// Keeps the objects, and all memory that they may use, until the end of the process.
    fn leave_open(&mut self, objects: Objects) {
        core::mem::forget(objects);
        core::mem::forget(core::mem::replace(&mut self.operations, Operations::new(0)));
        core::mem::forget(core::mem::take(&mut self.registrations));
    }

    fn close_objects(&mut self, objects: Objects) -> Result<(), Error> {
        let remains = Remains {
            objects,
            operations: core::mem::replace(&mut self.operations, Operations::new(0)),
            info: self.info.clone(),
        };
        if self.limits.has_neighbours {
            self.close_registrations().and(neighbours::closed(remains))
        } else if self.limits.binds_registrations {
            // Registrations that are bound to the endpoint are closed before it;
            self.close_registrations().and(remains.close(|| Ok(())))
        } else {
            // other registrations are closed after the operations that use them.
            remains.close(|| self.close_registrations())
        }
    }

    fn close_registrations(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        for registration in &mut self.registrations {
            result = result.and(registration.close(&self.info));
        }
        result
    }

    fn objects(&self) -> Result<&Objects, Error> {
        self.objects.as_ref().ok_or_else(closed)
    }

    /// The result of a call that should have started an operation.
    #[inline]
    fn started(&mut self, index: Option<u32>, kind: Kind, status: isize) -> Result<(), Refused> {
        if status == 0 {
            return Ok(());
        }
        self.not_started(index, kind, status)
    }

    fn not_started(
        &mut self,
        index: Option<u32>,
        kind: Kind,
        status: isize,
    ) -> Result<(), Refused> {
        if let Some(index) = index {
            self.operations.take_back(index);
        }
        if status == -(crate::sys::constants::FI_EAGAIN as isize) {
            return Err(Refused::Again);
        }
        let library = self.info.library();
        Err(library.error(kind.attempted(), status as i64).into())
    }
}

#[cold]
fn closed() -> Error {
    Error::new(
        "use an endpoint",
        crate::sys::constants::FI_EOPBADSTATE,
        "it is closed",
    )
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Objects that cannot be closed are leaked.
        let _ = self.close();
    }
}
