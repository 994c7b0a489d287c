use super::*;
use refrain_verbs::{Gid, GidType, PortState};
use std::net::Ipv4Addr;

fn port(number: u8) -> Port {
    Port {
        number,
        state: PortState::Active,
        physical_state: 5,
        link_layer: LinkLayer::Ethernet,
        mtu_max_bytes: 4096,
        mtu_active_bytes: 4096,
        message_max_bytes: 1 << 30,
        lid: 0,
        subnet_manager_lid: 0,
        grh_required: false,
        partition_keys: 1,
        speed_mbit_s: 200_000,
        gids: vec![Gid {
            index: 3,
            bytes: Ipv4Addr::new(10, 0, 0, 4).to_ipv6_mapped().octets(),
            kind: GidType::RoceV2,
            interface: Some("eth7".into()),
            is_here: true,
        }],
        interface: Some("eth7".into()),
    }
}

fn device(name: &str, ports: Vec<Port>) -> Device {
    Device {
        name: name.into(),
        transport: Transport::InfiniBand,
        node_guid: 0xb859_9f03_0012_3456,
        system_guid: 0,
        vendor_id: 0x2c9,
        vendor_part_id: 4123,
        hardware_version: 0,
        firmware: "20.31.1014".into(),
        limits: DeviceLimits {
            queue_pairs: 262_144,
            shared_queues: 4096,
            reads_begun: 16,
            registration_bytes: u64::MAX,
            ..DeviceLimits::default()
        },
        ports,
        refusal: None,
    }
}

fn shown(devices: &[Device], memory_lock: MemoryLock) -> String {
    let around = Environment {
        file: Some("/lib/libibverbs.so.1".into()),
        memory_lock,
        log_bytes: 512 << 20,
        inline_bytes: &|_| Ok(220),
    };
    text(Ok(devices), &around)
}

#[test]
fn everything_about_a_device_is_shown() {
    let infiniband = Port {
        link_layer: LinkLayer::InfiniBand,
        lid: 77,
        speed_mbit_s: 2500,
        ..port(2)
    };
    let devices = [device("mlx5_0", vec![port(1), infiniband])];
    let text = shown(&devices, MemoryLock::Unlimited);
    for words in [
        "verbs takes   mlx5_0:1, Ethernet, GID 3 (10.0.0.4), 4096 bytes a packet",
        "memory lock   unlimited",
        "b859:9f03:0012:3456",
        "vendor 0x2c9, part 4123, revision 0, firmware 20.31.1014",
        "inline        220 bytes",
        "10.0.0.4, RoCE v2, eth7, chosen",
        "messages to 1 GiB",
        "16 begun",
        "LID 77",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    for word in [
        "ACTIVE",
        "Ethernet",
        "eth7",
        "200 Gbit/s",
        "4096",
        "10.0.0.4 (GID 3, RoCE v2)",
    ] {
        assert!(row("mlx5_0:1 ").contains(word), "{word} in {text}");
    }
    assert!(row("mlx5_0:2 ").contains("2.5 Gbit/s"), "{text}");
    assert!(row("mlx5_0:2 ").ends_with("LID 77"), "{text}");
}

#[test]
fn what_is_in_the_way_is_shown_once_with_the_remedy() {
    let down = Port {
        state: PortState::Down,
        ..port(1)
    };
    let near = Port {
        mtu_active_bytes: 1024,
        ..port(1)
    };
    let devices = [device("a", vec![down]), device("b", vec![near])];
    let text = shown(&devices, MemoryLock::Unlimited);
    for words in [
        "port 1 of a is DOWN: ip link set eth7 up",
        "port 1 of b carries only 1024",
    ] {
        assert_eq!(text.matches(words).count(), 1, "{words} in {text}");
    }
    let row = text.lines().find(|line| line.starts_with("a:1 ")).unwrap();
    assert!(row.contains("DOWN") && row.ends_with('-'), "{text}");
    let nothing = shown(&devices[..1], MemoryLock::Unlimited);
    assert!(nothing.contains("verbs takes   nothing"), "{nothing}");
    let short = summary(&devices);
    assert!(
        short.contains("b:1 ") && short.contains("only 1024"),
        "{short}"
    );
    assert!(!short.contains("is DOWN"), "{short}");
}

#[test]
fn without_devices_or_library_there_is_one_line() {
    let around = Environment {
        file: None,
        memory_lock: MemoryLock::Unlimited,
        log_bytes: 0,
        inline_bytes: &|_| unreachable!("there is no device"),
    };
    assert_eq!(text(Err("install it"), &around), "install it\n");
    let none = text(Ok(&[]), &around);
    assert!(none.ends_with('\n') && none.lines().count() == 1, "{none}");
    assert!(none.contains("rdma link add"), "{none}");
    assert_eq!(summary(&[]), "");
}

#[test]
fn a_memory_lock_that_is_too_small_for_the_log_is_reported() {
    let small = memory_lock_words(MemoryLock::Bytes(8 << 20), 512 << 20);
    assert!(
        small.starts_with("8192 KiB") && small.contains("512 MiB"),
        "{small}"
    );
    assert!(small.contains("raise"), "{small}");
    let large = memory_lock_words(MemoryLock::Bytes(1 << 30), 512 << 20);
    assert!(!large.contains("raise"), "{large}");
    let text = shown(&[device("a", vec![port(1)])], MemoryLock::Bytes(8 << 20));
    assert!(text.contains(&small), "{text}");
}
