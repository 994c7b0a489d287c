use super::*;
use crate::{PortState, Transport};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn gid(index: u8, kind: GidType, address: &str) -> Gid {
    let address: Ipv6Addr = match address.parse::<Ipv4Addr>() {
        Ok(address) => address.to_ipv6_mapped(),
        Err(_) => address.parse().unwrap(),
    };
    Gid {
        index,
        bytes: address.octets(),
        kind,
        interface: Some("eth0".into()),
        is_here: true,
    }
}

fn roce_port(number: u8, state: PortState, gids: Vec<Gid>) -> Port {
    Port {
        number,
        state,
        physical_state: 5,
        link_layer: LinkLayer::Ethernet,
        mtu_max_bytes: 4096,
        mtu_active_bytes: 1024,
        message_max_bytes: 1 << 30,
        lid: 0,
        subnet_manager_lid: 0,
        grh_required: false,
        partition_keys: 1,
        speed_mbit_s: 100_000,
        gids,
        interface: Some("eth0".into()),
    }
}

fn infiniband_port(number: u8, state: PortState, lid: u16) -> Port {
    Port {
        link_layer: LinkLayer::InfiniBand,
        mtu_active_bytes: 4096,
        lid,
        gids: vec![gid(0, GidType::InfiniBand, "fe80::1")],
        interface: None,
        ..roce_port(number, state, Vec::new())
    }
}

fn device(name: &str, ports: Vec<Port>) -> Device {
    Device {
        name: name.into(),
        transport: Transport::InfiniBand,
        node_guid: 1,
        system_guid: 1,
        vendor_id: 0,
        vendor_part_id: 0,
        hardware_version: 0,
        firmware: String::new(),
        limits: DeviceLimits {
            shared_queues: 1,
            ..DeviceLimits::default()
        },
        ports,
        refusal: None,
    }
}

fn words(devices: &[Device], wanted: &PortChoice) -> String {
    choose(devices, wanted).unwrap_err().to_string()
}

fn all_kinds() -> Vec<Gid> {
    vec![
        gid(0, GidType::RoceV1, "10.0.0.4"),
        gid(1, GidType::RoceV2, "fe80::4"),
        gid(2, GidType::RoceV2, "fd00::4"),
        gid(3, GidType::RoceV2, "169.254.0.4"),
        gid(5, GidType::RoceV2, "10.0.0.4"),
        gid(6, GidType::RoceV2, "10.1.0.4"),
    ]
}

#[test]
fn the_first_port_that_can_be_used_is_taken() {
    let devices = [
        device("a", vec![roce_port(1, PortState::Down, all_kinds())]),
        device(
            "b",
            vec![
                roce_port(1, PortState::Active, Vec::new()),
                roce_port(2, PortState::Active, all_kinds()),
            ],
        ),
        device("c", vec![infiniband_port(1, PortState::Active, 7)]),
    ];
    let chosen = choose(&devices, &PortChoice::default()).unwrap();
    assert_eq!(
        chosen.to_string(),
        "b:2, Ethernet, GID 5 (10.0.0.4), 1024 bytes a packet"
    );
    let wanted = PortChoice {
        device: Some("c".into()),
        ..PortChoice::default()
    };
    let chosen = choose(&devices, &wanted).unwrap();
    assert_eq!(
        chosen.to_string(),
        "c:1, InfiniBand, LID 7, 4096 bytes a packet"
    );
    assert_eq!(chosen.gid_index, None);
}

/// As in a container that sees the GIDs of its host.
#[test]
fn gids_of_other_namespaces_are_left_out() {
    let mut gids = all_kinds();
    gids[4].is_here = false;
    let port = roce_port(1, PortState::Active, gids.clone());
    assert_eq!(port.best_gid().map(|gid| gid.index), Some(6));
    gids.iter_mut().for_each(|gid| gid.is_here = false);
    let port = roce_port(1, PortState::Active, gids);
    let obstacle = port.obstacle("a").unwrap();
    assert!(
        obstacle.contains("of other network namespaces"),
        "{obstacle}"
    );
}

/// IPv4, then IPv6, then link-local; RoCE v1 never by default.
#[test]
fn gids_are_preferred_by_how_far_they_reach() {
    let mut gids = all_kinds();
    for expected in [5, 6, 2, 1, 3] {
        let port = roce_port(1, PortState::Active, gids.clone());
        assert_eq!(port.best_gid().map(|gid| gid.index), Some(expected));
        gids.retain(|gid| gid.index != expected);
    }
    let port = roce_port(1, PortState::Active, gids);
    assert_eq!(port.best_gid(), None);
    let message = words(&[device("mlx5_0", vec![port])], &PortChoice::default());
    assert_eq!(
        message,
        "cannot choose an RDMA port: port 1 of mlx5_0 has no RoCE v2 GID, only RoCE v1 ones, which \
         no router takes: give eth0 an address (ip address add 192.168.1.4/24 dev eth0); every \
         address becomes a GID"
    );
}

#[test]
fn a_gid_may_be_asked_for_by_its_index() {
    let devices = [device(
        "a",
        vec![
            roce_port(1, PortState::Active, all_kinds()),
            infiniband_port(2, PortState::Active, 3),
        ],
    )];
    let wanted = |port, index| PortChoice {
        port: Some(port),
        gid_index: Some(index),
        ..PortChoice::default()
    };
    assert_eq!(choose(&devices, &wanted(1, 0)).unwrap().gid_index, Some(0));
    assert_eq!(choose(&devices, &wanted(2, 0)).unwrap().gid_index, Some(0));
    let message = words(&devices, &wanted(1, 4));
    assert!(
        message.contains(
            "port 1 of a has no GID 4; there is 0 (RoCE v1 10.0.0.4), 1 (RoCE v2 fe80::4)"
        ),
        "{message}"
    );
}

#[test]
fn packets_are_as_large_as_the_port_carries_or_smaller() {
    let devices = [device(
        "a",
        vec![roce_port(1, PortState::Active, all_kinds())],
    )];
    let wanted = |bytes| PortChoice {
        mtu_bytes: Some(bytes),
        ..PortChoice::default()
    };
    assert_eq!(
        choose(&devices, &PortChoice::default()).unwrap().mtu_bytes,
        1024
    );
    assert_eq!(choose(&devices, &wanted(256)).unwrap().mtu_bytes, 256);
    let message = words(&devices, &wanted(2048));
    assert!(
        message.contains("packets of 1024 bytes, not of 2048"),
        "{message}"
    );
    assert!(words(&devices, &wanted(1500)).contains("256, 512"));
}

#[test]
fn virtual_functions_on_infiniband_use_a_gid() {
    let mut port = infiniband_port(1, PortState::Active, 0);
    assert!(port.obstacle("a").unwrap().contains("no LID"));
    port.grh_required = true;
    let devices = [device("a", vec![port.clone()])];
    let chosen = choose(&devices, &PortChoice::default()).unwrap();
    assert_eq!(chosen.gid_index, Some(0));
    port.gids.clear();
    assert!(port.obstacle("a").unwrap().contains("has none"));
}

#[test]
fn what_is_in_the_way_is_named_with_the_remedy() {
    assert!(words(&[], &PortChoice::default()).contains("rdma link add rxe0 type rxe netdev"));
    let denied = Error::system("open c", libc::EACCES);
    let devices = [
        device("a", vec![roce_port(1, PortState::Down, all_kinds())]),
        device("b", vec![infiniband_port(1, PortState::Initialising, 0)]),
        Device {
            refusal: Some(denied),
            ..device("c", Vec::new())
        },
        Device {
            transport: Transport::Iwarp,
            ..device("d", vec![roce_port(1, PortState::Active, all_kinds())])
        },
        Device {
            limits: DeviceLimits::default(),
            ..device("e", vec![roce_port(1, PortState::Active, all_kinds())])
        },
    ];
    let message = words(&devices, &PortChoice::default());
    for part in [
        "port 1 of a is DOWN: ip link set eth0 up",
        "port 1 of b is INIT: no subnet manager",
        "cannot open c: Permission denied",
        "d speaks iWARP",
        "e has no shared receive queues",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let wanted = PortChoice {
        device: Some("z".into()),
        ..PortChoice::default()
    };
    assert!(words(&devices, &wanted).contains("no device z; there is a, b, c, d, e"));
    let wanted = PortChoice {
        device: Some("a".into()),
        port: Some(2),
        ..PortChoice::default()
    };
    let message = words(&devices, &wanted);
    assert!(
        message.contains("a has no port 2; there is a:1, b:1"),
        "{message}"
    );
}

#[test]
fn what_could_be_better_is_said() {
    let cautions = |port: Port| {
        choose(&[device("a", vec![port])], &PortChoice::default())
            .unwrap()
            .cautions()
    };
    let mut port = roce_port(1, PortState::Active, all_kinds());
    let small = cautions(port.clone());
    assert!(
        small.len() == 1 && small[0].contains("MTU of 4200"),
        "{small:?}"
    );
    port.mtu_active_bytes = 4096;
    assert!(cautions(port.clone()).is_empty());
    port.gids = vec![gid(0, GidType::RoceV2, "fe80::4")];
    let near = cautions(port);
    assert!(
        near.len() == 1 && near[0].contains("give eth0 an IPv4"),
        "{near:?}"
    );
    assert!(cautions(infiniband_port(1, PortState::Active, 1)).is_empty());
}

// ---- any devices ---------------------------------------------------------

fn any_gid() -> impl Strategy<Value = Gid> {
    let kind = prop_oneof![
        1 => Just(GidType::InfiniBand),
        1 => Just(GidType::RoceV1),
        4 => Just(GidType::RoceV2),
        1 => Just(GidType::Unknown)
    ];
    let address = prop_oneof![
        any::<u32>().prop_map(|bits| Ipv4Addr::from(bits).to_ipv6_mapped()),
        any::<u64>().prop_map(|low| Ipv6Addr::from((0xfe80_u128 << 112) | u128::from(low))),
        any::<u128>().prop_map(Ipv6Addr::from),
    ];
    let is_here = prop::bool::weighted(0.6);
    (0..4_u8, kind, address, is_here).prop_map(|(index, kind, address, is_here)| Gid {
        index,
        bytes: address.octets(),
        kind,
        interface: None,
        is_here,
    })
}

fn any_port() -> impl Strategy<Value = Port> {
    let state = prop_oneof![
        1 => Just(PortState::Down),
        1 => Just(PortState::Initialising),
        1 => Just(PortState::Armed),
        4 => Just(PortState::Active),
        1 => Just(PortState::ActiveDeferred),
        1 => Just(PortState::Unknown(9)),
    ];
    let layer = prop_oneof![
        3 => Just(LinkLayer::Ethernet),
        2 => Just(LinkLayer::InfiniBand),
        1 => Just(LinkLayer::Unknown)
    ];
    let packets = prop::sample::select([0, 256, 512, 1024, 2048, 4096].as_slice());
    let gids = prop::collection::vec(any_gid(), 0..4);
    (state, layer, packets, 0..3_u16, any::<bool>(), gids).prop_map(
        |(state, link_layer, mtu_active_bytes, lid, grh_required, mut gids)| {
            gids.sort_by_key(|gid| gid.index);
            gids.dedup_by_key(|gid| gid.index);
            Port {
                link_layer,
                mtu_active_bytes,
                lid,
                grh_required,
                ..roce_port(0, state, gids)
            }
        },
    )
}

fn any_devices() -> impl Strategy<Value = Vec<Device>> {
    let one = (
        prop::collection::vec(any_port(), 0..4),
        prop::sample::select([Transport::InfiniBand, Transport::Iwarp].as_slice()),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(one, 0..4).prop_map(|devices| {
        devices
            .into_iter()
            .enumerate()
            .map(|(index, (mut ports, transport, refused))| {
                for (number, port) in ports.iter_mut().enumerate() {
                    port.number = number as u8 + 1;
                }
                Device {
                    transport,
                    refusal: refused.then(|| Error::system("open it", libc::EACCES)),
                    ..device(&format!("d{index}"), ports)
                }
            })
            .collect()
    })
}

fn any_wish() -> impl Strategy<Value = PortChoice> {
    (
        prop::option::of((0..4_u8).prop_map(|index| format!("d{index}"))),
        prop::option::weighted(0.3, 0..4_u8),
        prop::option::weighted(0.3, 0..5_u8),
        prop::option::weighted(
            0.3,
            prop::sample::select([256, 1000, 1024, 4096].as_slice()),
        ),
    )
        .prop_map(|(device, port, gid_index, mtu_bytes)| PortChoice {
            device,
            port,
            gid_index,
            mtu_bytes,
        })
}

/// Whether a port may be chosen, computed in another way than by the choice.
fn fits(device: &Device, port: &Port, wanted: &PortChoice) -> bool {
    let gid_is_there = match (wanted.gid_index, port.link_layer) {
        (Some(index), _) => port.gids.iter().any(|gid| gid.index == index),
        (None, LinkLayer::Ethernet) => port
            .gids
            .iter()
            .any(|gid| gid.is_here && gid.kind == GidType::RoceV2),
        (None, LinkLayer::InfiniBand) if port.grh_required => !port.gids.is_empty(),
        (None, LinkLayer::InfiniBand) => port.lid != 0,
        (None, LinkLayer::Unknown) => false,
    };
    let carries = wanted
        .mtu_bytes
        .is_none_or(|bytes| bytes <= port.mtu_active_bytes.max(256) && bytes != 1000);
    device.refusal.is_none()
        && device.transport == Transport::InfiniBand
        && wanted
            .device
            .as_ref()
            .is_none_or(|name| *name == device.name)
        && wanted.port.is_none_or(|number| number == port.number)
        && port.state == PortState::Active
        && gid_is_there
        && carries
}

proptest! {
    /// The first port that fits is chosen.
    #[test]
    fn what_is_chosen_is_there_and_fits(devices in any_devices(), wanted in any_wish()) {
        let first = devices
            .iter()
            .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
            .find(|(device, port)| fits(device, port, &wanted));
        match (choose(&devices, &wanted), first) {
            (Ok(chosen), Some((device, port))) => {
                prop_assert_eq!(&chosen.device, &device.name);
                prop_assert_eq!(chosen.port, port.number);
                prop_assert!(PACKET_BYTES.contains(&chosen.mtu_bytes));
                prop_assert_eq!(chosen.mtu_bytes, wanted.mtu_bytes.unwrap_or(port.mtu_active_bytes.max(256)));
                if let Some(index) = chosen.gid_index {
                    let gid = port.gid(index).expect("a GID that is there");
                    prop_assert_eq!(gid.bytes, chosen.gid);
                    prop_assert!(wanted.gid_index.is_none_or(|wish| wish == index));
                    let is_v2 = gid.kind == GidType::RoceV2 && gid.is_here;
                    let is_free = wanted.gid_index.is_none() && port.link_layer == LinkLayer::Ethernet;
                    prop_assert!(is_v2 || !is_free);
                } else {
                    prop_assert_eq!(port.link_layer, LinkLayer::InfiniBand);
                    prop_assert!(chosen.lid != 0);
                }
                // The same result again, and from that device alone.
                prop_assert_eq!(&choose(&devices, &wanted).unwrap(), &chosen);
                let alone = PortChoice { device: Some(chosen.device.clone()), port: Some(chosen.port), ..wanted };
                prop_assert_eq!(choose(&devices, &alone).unwrap(), chosen);
            }
            (Err(error), None) => prop_assert!(!error.words().is_empty()),
            (got, first) => prop_assert!(false, "{got:?} instead of {first:?}"),
        }
    }
}
