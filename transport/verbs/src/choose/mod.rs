//! Chooses device, port, GID and packet size.

use crate::device::{Device, DeviceLimits};
use crate::error::Error;
use crate::gid::{Address, Gid, GidType, Reach};
use crate::obstacle::SOFT_ROCE;
use crate::port::{LinkLayer, Port};
use core::fmt;

/// Possible payload sizes of a queue pair's packets, in bytes.
pub const PACKET_BYTES: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// The largest payload of a packet, in bytes.
const LARGE_PACKET_BYTES: u32 = 4096;
/// The MTU of a network interface that carries the largest payload with all headers.
const LARGE_PACKET_MTU: u32 = 4200;

/// Constraints of the choice; by default there are none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PortChoice {
    /// A device by name.
    pub device: Option<String>,
    /// A port of the device; the first is 1.
    pub port: Option<u8>,
    /// An entry of the port's table of GIDs. On InfiniBand, an index also forces the use of a GID
    /// (a GRH), as between subnets.
    pub gid_index: Option<u8>,
    /// Payload of a packet in bytes: one of [`PACKET_BYTES`].
    pub mtu_bytes: Option<u32>,
}

/// The chosen port, with everything that is needed to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The device's name.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// The network of the port.
    pub link_layer: LinkLayer,
    /// Index of the GID that packets carry; `None` on InfiniBand within a subnet, where packets
    /// have no GRH.
    pub gid_index: Option<u8>,
    /// That GID, or on InfiniBand the first of the table, in network byte order.
    pub gid: [u8; 16],
    /// The port's address in its InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Largest payload of a packet in bytes: one of [`PACKET_BYTES`].
    pub mtu_bytes: u32,
    /// Bytes of the longest message.
    pub message_max_bytes: u32,
    /// The network interface, if it is known.
    pub interface: Option<String>,
    /// The limits of the device.
    pub limits: DeviceLimits,
}

/// Chooses a port, and on it a GID and a packet size.
///
/// Of several ports that satisfy the constraints, it is the first usable one: its device can be
/// opened, it is active, and on Ethernet it has a GID of RoCE v2. On Ethernet, the GID is the first
/// one of RoCE v2 with an IPv4 address, else the first with an IPv6 address, else a link-local one.
/// RoCE v1 cannot be routed, and current devices may not support it. Both sides of a connection
/// must use addresses of one family: most hosts have an IPv4 address on every interface of the
/// cluster's network, while link-local addresses always exist but do not pass a router. GIDs of
/// other network namespaces, which a container may see, are skipped.
///
/// Devices are considered in the given order. [`Library::devices`] sorts them by name, so that
/// hosts of the same kind choose the same device.
///
/// [`Library::devices`]: crate::Library::devices
///
/// # Errors
/// When no port fits; the error names all devices and ports, and the remedy.
pub fn choose(devices: &[Device], wanted: &PortChoice) -> Result<Chosen, Error> {
    check_packet_bytes(wanted)?;
    let mut obstacles = Vec::new();
    for device in named(devices, wanted)? {
        if let Some(obstacle) = device.obstacle() {
            obstacles.push(obstacle);
            continue;
        }
        for port in &device.ports {
            if wanted.port.is_some_and(|number| number != port.number) {
                continue;
            }
            match chosen(device, port, wanted) {
                Ok(chosen) => return Ok(chosen),
                Err(obstacle) => obstacles.push(obstacle),
            }
        }
    }
    Err(none_fits(devices, wanted, &obstacles))
}

fn error(words: impl Into<String>) -> Error {
    Error::invalid("choose an RDMA port", words)
}

fn check_packet_bytes(wanted: &PortChoice) -> Result<(), Error> {
    match wanted.mtu_bytes {
        Some(bytes) if !PACKET_BYTES.contains(&bytes) => Err(error(format!(
            "packets of {bytes} bytes do not exist: their payload is 256, 512, 1024, 2048 or 4096 bytes"
        ))),
        _ => Ok(()),
    }
}

/// The devices that satisfy the constraint on the name.
fn named<'a>(devices: &'a [Device], wanted: &PortChoice) -> Result<Vec<&'a Device>, Error> {
    if devices.is_empty() {
        return Err(error(format!(
            "libibverbs finds no RDMA device; {SOFT_ROCE}"
        )));
    }
    let found: Vec<&Device> = devices
        .iter()
        .filter(|device| {
            wanted
                .device
                .as_ref()
                .is_none_or(|name| *name == device.name)
        })
        .collect();
    if found.is_empty() {
        return Err(error(format!(
            "there is no device {}; there is {}",
            wanted.device.as_deref().unwrap_or_default(),
            list(devices.iter().map(|device| device.name.clone()))
        )));
    }
    Ok(found)
}

/// The port with its properties, or the reason why it cannot be used.
fn chosen(device: &Device, port: &Port, wanted: &PortChoice) -> Result<Chosen, String> {
    // A GID that is requested by its index may be one that the default choice skips.
    let gid = match wanted.gid_index {
        Some(index) => {
            if !port.is_active() {
                return Err(port.obstacle(&device.name).unwrap_or_default());
            }
            Some(port.gid(index).ok_or_else(|| no_gid(device, port, index))?)
        }
        None => match port.obstacle(&device.name) {
            Some(obstacle) => return Err(obstacle),
            None => port.best_gid(),
        },
    };
    // Every port carries the smallest size.
    let carries = port.mtu_active_bytes.max(PACKET_BYTES[0]);
    let mtu_bytes = match wanted.mtu_bytes {
        Some(bytes) if bytes > carries => {
            return Err(format!(
                "port {} of {} carries packets of {carries} bytes, not of {bytes}: raise the MTU of \
                 its network interface, or choose packets of at most that length",
                port.number, device.name
            ));
        }
        wish => wish.unwrap_or(carries),
    };
    let has_header = port.needs_gid() || wanted.gid_index.is_some();
    Ok(Chosen {
        device: device.name.clone(),
        port: port.number,
        link_layer: port.link_layer,
        gid_index: gid.filter(|_| has_header).map(|gid| gid.index),
        gid: gid.map_or([0; 16], |gid| gid.bytes),
        lid: port.lid,
        mtu_bytes,
        message_max_bytes: port.message_max_bytes,
        interface: gid
            .and_then(|gid| gid.interface.clone())
            .or_else(|| port.interface.clone()),
        limits: device.limits,
    })
}

impl Port {
    /// The GID that is chosen by default: see [`choose`]; `None` if no GID fits.
    pub fn best_gid(&self) -> Option<&Gid> {
        match self.link_layer {
            LinkLayer::InfiniBand => self.gids.iter().min_by_key(|gid| gid.index),
            _ => self
                .gids
                .iter()
                .filter(|gid| gid.kind == GidType::RoceV2 && gid.is_here)
                .min_by_key(|gid| (gid.reach(), gid.index)),
        }
    }
}

fn no_gid(device: &Device, port: &Port, index: u8) -> String {
    let there_is = list(
        port.gids
            .iter()
            .map(|gid| format!("{} ({} {gid})", gid.index, gid.kind)),
    );
    format!(
        "port {} of {} has no GID {index}; there is {there_is}",
        port.number, device.name
    )
}

/// The error when no port can be used.
fn none_fits(devices: &[Device], wanted: &PortChoice, obstacles: &[String]) -> Error {
    if !obstacles.is_empty() {
        return error(obstacles.join("; "));
    }
    // Only the constraint on the port number can have excluded all ports.
    let ports = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
        .map(|(device, port)| format!("{}:{}", device.name, port.number));
    error(format!(
        "{} has no port {}; there is {}",
        wanted.device.as_deref().unwrap_or("every device"),
        wanted.port.unwrap_or_default(),
        list(ports)
    ))
}

/// The names, separated by commas, or "none".
fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}

impl Chosen {
    /// Warnings about a port that works, but would work better or farther after a change.
    pub fn cautions(&self) -> Vec<String> {
        let mut cautions = Vec::new();
        if self.link_layer != LinkLayer::Ethernet {
            return cautions;
        }
        let what = format!("port {} of {}", self.port, self.device);
        let interface = self.interface.as_deref().unwrap_or("its interface");
        if self.reach() == Reach::LinkLocal {
            cautions.push(format!(
                "{what} has a link-local GID only, which is not routed beyond the switch: give \
                 {interface} an IPv4 address"
            ));
        }
        if self.mtu_bytes < LARGE_PACKET_BYTES {
            cautions.push(format!(
                "{what} carries only {} bytes a packet: with an MTU of {LARGE_PACKET_MTU} (or 9000) \
                 on {interface}, and on every switch between, it is {LARGE_PACKET_BYTES}",
                self.mtu_bytes
            ));
        }
        cautions
    }

    /// The kind of addresses that the GID reaches.
    pub fn reach(&self) -> Reach {
        Address(self.gid).reach()
    }
}

/// The text for messages: `rxe0:1, Ethernet, GID 1 (10.0.0.4), 1024 bytes a packet`.
impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}, {}, ", self.device, self.port, self.link_layer)?;
        match self.gid_index {
            Some(index) => {
                write!(f, "GID {index} ({})", Address(self.gid))?;
            }
            None => write!(f, "LID {}", self.lid)?,
        }
        write!(f, ", {} bytes a packet", self.mtu_bytes)
    }
}

#[cfg(test)]
mod tests;
