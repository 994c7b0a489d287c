//! Reasons why a device or port cannot be used, with remedies.

use crate::device::{Device, Transport};
use crate::gid::GidType;
use crate::port::{LinkLayer, Port, PortState};

/// The remedy for a machine without RDMA hardware.
pub(crate) const SOFT_ROCE: &str = "soft-RoCE makes a device of any network interface: \
     modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE (see docs/guide/rdma.md)";

impl Device {
    /// The reason why no port of the device can be used, with a remedy; `None` if one can.
    pub fn obstacle(&self) -> Option<String> {
        let name = &self.name;
        if let Some(error) = &self.refusal {
            return Some(error.to_string());
        }
        match self.transport {
            Transport::InfiniBand => {}
            Transport::Iwarp => {
                return Some(format!(
                    "{name} speaks iWARP, which the verbs fabric does not: use libfabric (ofi:verbs)"
                ));
            }
            Transport::Other => {
                return Some(format!(
                    "{name} speaks a protocol of its maker's own: use libfabric, if it has a \
                     provider for it (refrain info --providers)"
                ));
            }
        }
        if self.limits.shared_queues == 0 {
            return Some(format!(
                "{name} has no shared receive queues, which the verbs fabric needs: use libfabric \
                 (ofi:verbs)"
            ));
        }
        self.ports
            .is_empty()
            .then(|| format!("{name} has no ports"))
    }
}

impl Port {
    /// The reason why the port cannot be used, with a remedy; `None` if it can. `device`: the name
    /// of its device.
    pub fn obstacle(&self, device: &str) -> Option<String> {
        let what = format!("port {} of {device}", self.number);
        if !self.is_active() {
            return Some(format!("{what} is {}: {}", self.state, self.awakening()));
        }
        match self.link_layer {
            LinkLayer::InfiniBand if self.needs_gid() && self.gids.is_empty() => Some(format!(
                "{what} must use a GID and has none: is a subnet manager running (opensm)?"
            )),
            LinkLayer::InfiniBand if !self.needs_gid() && self.lid == 0 => Some(format!(
                "{what} has no LID: is a subnet manager running (opensm)?"
            )),
            LinkLayer::Ethernet if self.best_gid().is_none() => Some(format!(
                "{what} has no RoCE v2 GID{}: {}",
                self.others(),
                self.addressing()
            )),
            LinkLayer::Unknown => Some(format!("{what} is neither on InfiniBand nor on Ethernet")),
            _ => None,
        }
    }

    /// The remedy for a port that is not active.
    fn awakening(&self) -> String {
        let interface = self.interface_words();
        match (self.link_layer, self.state) {
            (LinkLayer::InfiniBand, PortState::Initialising | PortState::Armed) => {
                "no subnet manager has configured it; start one in the subnet (opensm, or the \
                 switch's own)"
                    .into()
            }
            (LinkLayer::InfiniBand, _) => format!(
                "its link is in the state \"{}\"; look at the cable and the switch (ibstat, iblinkinfo)",
                self.physical_state_words()
            ),
            _ => format!("ip link set {interface} up, and look at the cable"),
        }
    }

    /// The remedy for a port without a RoCE v2 GID.
    fn addressing(&self) -> String {
        let interface = self.interface_words();
        format!(
            "give {} an address (ip address add 192.168.1.4/24 dev {interface}); every address \
             becomes a GID",
            if self.interface.is_some() {
                &*interface
            } else {
                "its network interface"
            }
        )
    }

    fn interface_words(&self) -> String {
        self.interface.clone().unwrap_or_else(|| "INTERFACE".into())
    }

    /// Describes the port's GIDs, if none of RoCE v2 can be used.
    fn others(&self) -> &'static str {
        let has = |kind| self.gids.iter().any(|gid| gid.kind == kind);
        if has(GidType::RoceV2) {
            ", only such of other network namespaces"
        } else if has(GidType::RoceV1) {
            ", only RoCE v1 ones, which no router takes"
        } else if has(GidType::Unknown) {
            ", or the kernel does not report their types"
        } else {
            ""
        }
    }
}
