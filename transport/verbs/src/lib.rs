//! libibverbs, loaded at run time: InfiniBand, RoCE and soft-RoCE.
//!
//! One binary also runs without RDMA: then an error reports that the library is missing. A build
//! needs neither headers nor libclang: see `sys/generate`.
//!
//! - [`Library`] loads the library and lists the [`Device`]s.
//! - [`choose`] selects the port and its settings.
//! - [`Endpoint`] is the endpoint of one rank.
//! - [`greeting`] is the protocol by which endpoints establish connections. Pure.

mod choose;
mod context;
mod device;
mod endpoint;
mod error;
mod gid;
pub mod greeting;
mod inline_size;
mod library;
mod memory_lock;
mod namespace;
mod objects;
mod obstacle;
mod port;
mod query;
mod sys;
mod sysfs;

pub use choose::{Chosen, PACKET_BYTES, PortChoice, choose};
pub use device::{Device, DeviceLimits, Transport};
pub use endpoint::{
    ADDRESS_BYTES, Completion, Counters, Endpoint, EndpointOptions, PARTS_MAX, PeerAddress, Retry,
    readable,
};
pub use error::{Error, Refused};
pub use gid::{Gid, GidType, Reach};
pub use library::Library;
pub use memory_lock::MemoryLock;
pub use port::{LinkLayer, Port, PortState};
pub use refrain_libfabric::native::{
    Access, Kind, MemoryId, MessageEndpoint, Part, RemoteMemory, TOKEN_OF_INJECTED,
};
