//! One-sided commits by a provider of libfabric.

mod offer;
mod port;
mod rings;

pub use port::LibfabricPort;
pub(super) use rings::open as open_rings;
