//! Queries the properties of devices.

#![allow(
    unsafe_code,
    reason = "calls the library, which fills plain structures"
)]

use crate::context::{Context, DeviceList};
use crate::device::{Device, DeviceLimits, Transport};
use crate::error::Error;
use crate::gid::{Gid, GidType};
use crate::library::Library;
use crate::namespace;
use crate::port::{LinkLayer, Port, PortState};
use crate::sys::constants::*;
use crate::sys::types::{ibv_device, ibv_device_attr, ibv_gid, ibv_port_attr};
use crate::sysfs::{self, DeviceFolder};
use core::ffi::{CStr, c_int};
use core::mem::zeroed;
use core::ptr::NonNull;

/// `IBV_QPF_GRH_REQUIRED` of the flags of a port.
const GRH_REQUIRED: u8 = 1;

impl Library {
    /// The devices of this machine, sorted by name (numbers within names count as numbers). The
    /// call opens each device for a moment, which takes some milliseconds.
    ///
    /// A device that cannot be opened is in the list, with the error.
    ///
    /// # Errors
    /// When the kernel module is missing, or the kernel has devices and this library lists none.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        let list = DeviceList::new(self)?;
        let mut devices: Vec<Device> = list.iter().map(|device| found(&list, device)).collect();
        if devices.is_empty() {
            let of_kernel = sysfs::kernel_devices();
            if !of_kernel.is_empty() {
                return Err(no_driver(&of_kernel, sysfs::has_files()));
            }
        }
        devices.sort_by_cached_key(|device| by_number(&device.name));
        Ok(devices)
    }
}

/// The error when the kernel has devices and the library lists none.
fn no_driver(of_kernel: &[String], has_files: bool) -> Error {
    let remedy = if has_files {
        "its drivers are not installed (Debian: ibverbs-providers)"
    } else {
        "there is no /dev/infiniband/uverbs* (modprobe ib_uverbs; a container must be given them: \
         --device /dev/infiniband)"
    };
    Error::invalid(
        "list the RDMA devices",
        format!(
            "the kernel has {}, and libibverbs shows none: {remedy}",
            of_kernel.join(", ")
        ),
    )
}

/// A sort key by which `mlx5_2` comes before `mlx5_10`.
fn by_number(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let words = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (word, behind) = rest.split_at(words);
        let digits = behind
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(behind.len());
        let (number, behind) = behind.split_at(digits);
        parts.push((word.to_owned(), number.parse().unwrap_or(0)));
        rest = behind;
    }
    parts
}

/// Describes one device; opens and closes it.
fn found(list: &DeviceList, device: NonNull<ibv_device>) -> Device {
    // SAFETY: a device of the list.
    let transport = match unsafe { device.as_ref() }.transport_type as u32 {
        IBV_TRANSPORT_IB => Transport::InfiniBand,
        IBV_TRANSPORT_IWARP => Transport::Iwarp,
        _ => Transport::Other,
    };
    let mut found = Device {
        name: list.name(device),
        transport,
        node_guid: list.guid(device),
        ..Device::default()
    };
    let opened = list.open(device);
    let filled = opened.and_then(|context| fill(&mut found, &context));
    found.refusal = filled.err();
    found
}

/// Fills in the properties of an open device.
fn fill(found: &mut Device, context: &Context) -> Result<(), Error> {
    let attributes = attributes(context, &found.name)?;
    found.system_guid = u64::from_be(attributes.sys_image_guid);
    found.vendor_id = attributes.vendor_id;
    found.vendor_part_id = attributes.vendor_part_id;
    found.hardware_version = attributes.hw_ver;
    let firmware = attributes.fw_ver.map(|byte| byte as u8);
    found.firmware = CStr::from_bytes_until_nul(&firmware)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default();
    found.limits = limits(&attributes);
    let folder = DeviceFolder::of(&found.name);
    found.ports = (1..=attributes.phys_port_cnt)
        .map(|number| port(context, &found.name, number, &folder))
        .collect::<Result<_, _>>()?;
    Ok(())
}

fn attributes(context: &Context, name: &str) -> Result<ibv_device_attr, Error> {
    // SAFETY: the structure has plain numbers, for which 0 is a value.
    let mut attributes: ibv_device_attr = unsafe { zeroed() };
    // SAFETY: the device is open; the structure is that of this version.
    let status =
        unsafe { (context.library().functions().query_device)(context.raw(), &raw mut attributes) };
    match status {
        0 => Ok(attributes),
        errno => Err(Error::system(format!("ask {name} for its limits"), errno)),
    }
}

fn limits(attributes: &ibv_device_attr) -> DeviceLimits {
    let count = |number: c_int| u32::try_from(number).unwrap_or(0);
    let reads = |number: c_int| u8::try_from(number.max(0)).unwrap_or(u8::MAX);
    DeviceLimits {
        queue_pairs: count(attributes.max_qp),
        work_requests: count(attributes.max_qp_wr),
        pieces: count(attributes.max_sge),
        completion_queues: count(attributes.max_cq),
        completions: count(attributes.max_cqe),
        shared_queues: count(attributes.max_srq),
        shared_requests: count(attributes.max_srq_wr),
        shared_pieces: count(attributes.max_srq_sge),
        registrations: count(attributes.max_mr),
        registration_bytes: attributes.max_mr_size,
        address_handles: count(attributes.max_ah),
        reads_answered: reads(attributes.max_qp_rd_atom),
        reads_begun: reads(attributes.max_qp_init_rd_atom),
    }
}

fn port(context: &Context, device: &str, number: u8, folder: &DeviceFolder) -> Result<Port, Error> {
    // The function of this version writes only a part of the structure: see `sys`.
    // SAFETY: the structure has plain numbers, for which 0 is a value.
    let mut attributes: ibv_port_attr = unsafe { zeroed() };
    // SAFETY: the device is open; the structure is at least as long as the bytes that are written.
    let status = unsafe {
        (context.library().functions().query_port)(context.raw(), number, &raw mut attributes)
    };
    if status != 0 {
        return Err(Error::system(
            format!("ask {device} for its port {number}"),
            status,
        ));
    }
    let link_layer = link_layer(&attributes);
    let gids = gids(context, &attributes, number, link_layer, folder);
    let interface = gids
        .iter()
        .find_map(|gid| gid.interface.clone())
        .or_else(|| folder.interface(number, link_layer == LinkLayer::Ethernet));
    Ok(Port {
        number,
        state: state(attributes.state),
        physical_state: attributes.phys_state,
        link_layer,
        mtu_max_bytes: mtu_bytes(attributes.max_mtu),
        mtu_active_bytes: mtu_bytes(attributes.active_mtu),
        message_max_bytes: attributes.max_msg_sz,
        lid: attributes.lid,
        subnet_manager_lid: attributes.sm_lid,
        grh_required: attributes.flags & GRH_REQUIRED != 0,
        partition_keys: attributes.pkey_tbl_len,
        speed_mbit_s: speed_mbit_s(attributes.active_speed, attributes.active_width)
            .or_else(|| folder.rate_mbit_s(number))
            .unwrap_or(0),
        gids,
        interface,
    })
}

fn state(state: u32) -> PortState {
    match state {
        IBV_PORT_DOWN => PortState::Down,
        IBV_PORT_INIT => PortState::Initialising,
        IBV_PORT_ARMED => PortState::Armed,
        IBV_PORT_ACTIVE => PortState::Active,
        IBV_PORT_ACTIVE_DEFER => PortState::ActiveDeferred,
        other => PortState::Unknown(other),
    }
}

/// Devices older than RoCE report no link layer: they are InfiniBand.
fn link_layer(attributes: &ibv_port_attr) -> LinkLayer {
    match u32::from(attributes.link_layer) {
        IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
        IBV_LINK_LAYER_INFINIBAND | IBV_LINK_LAYER_UNSPECIFIED => LinkLayer::InfiniBand,
        _ => LinkLayer::Unknown,
    }
}

/// Converts the number of an MTU to bytes. Omni-Path has larger ones, which a queue pair cannot
/// have.
fn mtu_bytes(number: u32) -> u32 {
    match number {
        IBV_MTU_256 => 256,
        IBV_MTU_512 => 512,
        IBV_MTU_1024 => 1024,
        IBV_MTU_2048 => 2048,
        0 => 0,
        _ => 4096,
    }
}

/// Number of lanes times their speed, from the encoding of the interface; `None` for newer speeds,
/// which do not fit into its field.
fn speed_mbit_s(speed: u8, width: u8) -> Option<u32> {
    let lane = match speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => return None,
    };
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => return None,
    };
    Some(lane * lanes)
}

/// The entries of the table that are not empty. A queue pair can use the first 256.
fn gids(
    context: &Context,
    attributes: &ibv_port_attr,
    port: u8,
    link_layer: LinkLayer,
    folder: &DeviceFolder,
) -> Vec<Gid> {
    let entries = attributes.gid_tbl_len.clamp(0, 1 + c_int::from(u8::MAX));
    (0..entries)
        .filter_map(|index| {
            let bytes = gid(context, port, index)?;
            let index = u8::try_from(index).ok()?;
            let mut gid = Gid {
                index,
                bytes,
                kind: GidType::InfiniBand,
                interface: folder.interface_of_gid(port, index),
                is_here: true,
            };
            if link_layer != LinkLayer::InfiniBand {
                gid.kind = folder.roce_type(port, index);
                gid.is_here = namespace::has(&gid);
            }
            Some(gid)
        })
        .collect()
}

/// One entry of the table, if it is not empty.
fn gid(context: &Context, port: u8, index: c_int) -> Option<[u8; 16]> {
    let mut gid = ibv_gid { raw: [0; 16] };
    // SAFETY: the device is open, and there is room for one entry.
    let status = unsafe {
        (context.library().functions().query_gid)(context.raw(), port, index, &raw mut gid)
    };
    // SAFETY: all 16 bytes are initialised, before and by the call.
    let bytes = unsafe { gid.raw };
    (status == 0 && bytes != [0; 16]).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_within_names_count_as_numbers() {
        let mut names = ["rxe0", "mlx5_10", "mlx5_2", "ibp24s0", "mlx5_2x", "mlx5"];
        names.sort_by_cached_key(|name| by_number(name));
        assert_eq!(
            names,
            ["ibp24s0", "mlx5", "mlx5_2", "mlx5_2x", "mlx5_10", "rxe0"]
        );
    }

    #[test]
    fn speeds_are_lanes_times_their_speed() {
        for (speed, width, expected) in [
            (32, 2, Some(100_000)),
            (128, 2, Some(400_000)),
            (1, 1, Some(2_500)),
            (64, 16, Some(100_000)),
            (16, 8, Some(168_000)),
            (0, 2, None),
            (32, 0, None),
        ] {
            assert_eq!(speed_mbit_s(speed, width), expected, "{speed} {width}");
        }
    }

    #[test]
    fn without_devices_of_the_library_the_reason_is_told() {
        let kernel = ["rxe0".to_owned()];
        let words = no_driver(&kernel, true).to_string();
        assert!(words.contains("ibverbs-providers"), "{words}");
        let words = no_driver(&kernel, false).to_string();
        assert!(
            words.contains("rxe0") && words.contains("--device /dev/infiniband"),
            "{words}"
        );
    }
}
