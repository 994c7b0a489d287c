//! Requirements of an application on providers.

use crate::sys::constants::*;

/// The kind of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointType {
    /// Reliable, without connections: the type that [`crate::Endpoint`] opens.
    #[default]
    Rdm,
    /// Any kind.
    Any,
}

/// Requirements for [`crate::Library::infos`]. Meanings as in fi_getinfo(3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints {
    /// `tcp`, `tcp;ofi_rxm`, `shm`, …; a leading `^` excludes. `None`: any.
    pub provider: Option<String>,
    /// Required type of the endpoint.
    pub endpoint: EndpointType,
    /// Required capabilities, `FI_MSG`, `FI_RMA`, …
    pub caps: u64,
    /// Required order of messages in both directions, `FI_ORDER_SAS`, …; 0: none.
    pub msg_order: u64,
    /// Own host name or address (`FI_SOURCE`). Without it, providers over sockets offer each
    /// interface with its address, those to other hosts first, and choose a free port when opened.
    pub node: Option<String>,
}

/// Requirements on registered memory that [`crate::Endpoint`] fulfils, and always declares.
/// Providers clear those that they do not need.
pub const MR_MODES_HANDLED: u64 =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

impl Default for Hints {
    fn default() -> Self {
        Self {
            provider: None,
            endpoint: EndpointType::Rdm,
            caps: FI_MSG,
            msg_order: 0,
            node: None,
        }
    }
}
