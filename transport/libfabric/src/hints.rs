//! What an application asks the providers for.

use crate::constants::*;

/// The kind of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointType {
    /// Reliable, without connections: the one that [`crate::Endpoint`] opens.
    #[default]
    Rdm,
    /// Reliable, connected.
    Msg,
    /// Datagrams.
    Datagram,
    /// Whatever there is.
    Any,
}

/// What [`crate::Library::infos`] asks for. A zero or `None` asks for nothing:
/// the provider chooses. Meanings as in fi_getinfo(3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hints {
    /// `tcp`, `tcp;ofi_rxm`, `shm`, …; a leading `^` excludes.
    pub provider: Option<String>,
    /// Name of the fabric (for sockets: the network).
    pub fabric: Option<String>,
    /// Name of the domain (for sockets: the interface).
    pub domain: Option<String>,
    /// Kind of the endpoint.
    pub endpoint: EndpointType,
    /// Capabilities that must be there, `FI_MSG`, `FI_RMA`, …
    pub caps: u64,
    /// What the application takes upon itself, `FI_CONTEXT`, …; 64-byte
    /// contexts are granted by default, [`crate::Endpoint`] gives them always.
    pub mode: u64,
    /// What the application does for registered memory, `FI_MR_LOCAL`, …; all
    /// that [`crate::Endpoint`] does is granted by default. Providers clear
    /// what they do not need.
    pub mr_mode: u64,
    /// Order of messages that is needed, `FI_ORDER_SAS`, … (both directions).
    pub msg_order: u64,
    /// Default flags of operations that send.
    pub tx_op_flags: u64,
    /// Operations in flight in each direction: sends, reads, writes.
    pub tx_depth: usize,
    /// Posted receives.
    pub rx_depth: usize,
    /// Bytes that must fit an injected message.
    pub inject_bytes: usize,
    /// Format of addresses, `FI_SOCKADDR_IN`, …
    pub address_format: u32,
    /// Host name or address; the own one with `source`, else the peer's.
    pub node: Option<String>,
    /// Port or service name.
    pub service: Option<String>,
    /// `node` and `service` name the own side (`FI_SOURCE`). Without a node,
    /// providers of sockets offer each interface with its address, the outward
    /// ones first, and take a free port when opened. Do not give a service
    /// without a node: they then listen at, and give out as their name, the
    /// address that means all interfaces; `shm` takes it for a name.
    pub source: bool,
}

/// All that [`crate::Endpoint`] does for registered memory.
pub const MR_MODES_HANDLED: u64 =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

impl Default for Hints {
    fn default() -> Self {
        Self {
            provider: None,
            fabric: None,
            domain: None,
            endpoint: EndpointType::Rdm,
            caps: FI_MSG,
            mode: FI_CONTEXT | FI_CONTEXT2,
            mr_mode: MR_MODES_HANDLED,
            msg_order: 0,
            tx_op_flags: 0,
            tx_depth: 0,
            rx_depth: 0,
            inject_bytes: 0,
            address_format: FI_FORMAT_UNSPEC,
            node: None,
            service: None,
            source: false,
        }
    }
}
