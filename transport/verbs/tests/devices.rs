//! Real devices: two of soft-RoCE in the guest of `ci/softroce`, elsewhere those of the machine.

use refrain_verbs::{
    Device, GidType, Library, LinkLayer, PACKET_BYTES, PortChoice, PortState, Transport, choose,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::env;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The devices; `None` if there are none.
fn devices(what: &str) -> Option<(Library, Vec<Device>)> {
    let found = Library::load(None)
        .map_err(|error| error.to_string())
        .and_then(|library| match library.devices() {
            Ok(devices) if devices.is_empty() => Err("this machine has no RDMA device".into()),
            Ok(devices) => Ok((library, devices)),
            Err(error) => Err(error.to_string()),
        });
    found.map_err(|why| println!("skipped {what}: {why}")).ok()
}

/// The devices of the guest; `None` elsewhere.
fn guest(what: &str) -> Option<(Library, Vec<Device>)> {
    if env::var_os("SOFTROCE_DEV0").is_none() {
        println!("skipped {what}: not in the guest of ci/softroce");
        return None;
    }
    let found = devices(what);
    assert!(found.is_some(), "the guest has devices");
    found
}

#[test]
fn what_devices_say_fits_together() {
    let Some((_, devices)) = devices("what devices say") else {
        return;
    };
    for device in &devices {
        if let Some(error) = &device.refusal {
            println!("skipped {}: {error}", device.name);
            continue;
        }
        assert!(
            device.node_guid != 0 && !device.ports.is_empty(),
            "{device:?}"
        );
        let limits = device.limits;
        assert!(
            limits.queue_pairs > 0 && limits.work_requests > 0,
            "{limits:?}"
        );
        assert!(limits.completions > 0 && limits.pieces > 0, "{limits:?}");
        for port in &device.ports {
            assert!(port.mtu_active_bytes <= port.mtu_max_bytes, "{port:?}");
            assert!(PACKET_BYTES.contains(&port.mtu_max_bytes), "{port:?}");
            assert!(port.gids.iter().all(|gid| gid.bytes != [0; 16]), "{port:?}");
        }
    }
}

/// One test, since its parts change the state that others check.
#[test]
fn soft_roce_is_found_as_it_is_whole_and_broken() {
    let Some((library, devices)) = guest("soft-RoCE") else {
        return;
    };
    for end in 0..2 {
        in_namespace_of(end, || is_whole(&library, end));
    }
    let error = library.inline_bytes("rxe99", 64).unwrap_err().to_string();
    assert!(error.contains(&devices[0].name), "{error}");
    elsewhere(&library, &variable("DEV", 0));
    in_namespace_of(0, || {
        breaks_and_mends(
            &library,
            &variable("DEV", 0),
            &variable("IF", 0),
            &variable("IP", 0),
        );
    });
}

fn variable(name: &str, end: usize) -> String {
    env::var(format!("SOFTROCE_{name}{end}")).unwrap()
}

/// If the guest's ends are two hosts, each chooses its own device.
fn in_namespace_of(end: usize, check: impl FnOnce() + Send) {
    let namespace = env::var(format!("SOFTROCE_NS{end}")).ok();
    thread::scope(|scope| {
        let outcome = scope.spawn(|| {
            if let Some(name) = namespace.filter(|name| !name.is_empty()) {
                enter(&name);
                let chosen = choose(
                    &Library::load(None).unwrap().devices().unwrap(),
                    &PortChoice::default(),
                );
                assert_eq!(chosen.unwrap().device, variable("DEV", end));
            }
            check();
        });
        outcome.join().unwrap();
    });
}

/// Moves this thread to a network namespace.
fn enter(namespace: &str) {
    let file = File::open(format!("/run/netns/{namespace}")).unwrap();
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// In a new network namespace, as of a container, no GID can be used.
fn elsewhere(library: &Library, device: &str) {
    run("ip", &["netns", "add", "elsewhere"]);
    thread::scope(|scope| {
        let outcome = scope.spawn(|| {
            enter("elsewhere");
            let devices = library.devices().unwrap();
            if !devices.iter().any(|found| found.name == device) {
                return println!("skipped another namespace: devices are not shared");
            }
            let error = choose(&devices, &on(device)).unwrap_err();
            assert!(
                error.words().contains("of other network namespaces"),
                "{error}"
            );
        });
        outcome.join().unwrap();
    });
    run("ip", &["netns", "delete", "elsewhere"]);
}

fn on(device: &str) -> PortChoice {
    PortChoice {
        device: Some(device.into()),
        ..PortChoice::default()
    }
}

fn is_whole(library: &Library, end: usize) {
    let expected: u8 = env::var("SOFTROCE_GID").unwrap().parse().unwrap();
    let name = variable("DEV", end);
    let devices = library.devices().unwrap();
    let device = devices.iter().find(|device| device.name == name).unwrap();
    assert_eq!(device.transport, Transport::InfiniBand);
    assert!(device.limits.shared_queues > 0 && device.limits.reads_begun > 0);
    let port = device.port(1).unwrap();
    assert_eq!(port.state, PortState::Active);
    assert_eq!(port.link_layer, LinkLayer::Ethernet);
    assert_eq!(port.interface, Some(variable("IF", end)));
    assert!(port.speed_mbit_s > 0, "{port:?}");
    assert!(port.message_max_bytes >= 1 << 20, "{port:?}");
    assert!(
        port.gids.iter().all(|gid| gid.kind == GidType::RoceV2),
        "{port:?}"
    );
    let chosen = choose(&devices, &on(&name)).unwrap();
    assert_eq!(chosen.gid_index, Some(expected));
    let gid = port.gid(expected).unwrap();
    assert_eq!(gid.to_string(), variable("IP", end));
    assert_eq!(chosen.gid, gid.bytes);
    assert_eq!(chosen.mtu_bytes, port.mtu_active_bytes);
    let bytes = library.inline_bytes(&name, 4096).unwrap();
    println!("{chosen}; {bytes} bytes inline");
    assert!(bytes >= 32, "{bytes}");
    let wished = library.inline_bytes(&name, 16).unwrap();
    assert!((16..=bytes).contains(&wished), "{wished}");
}

/// Interface down, up, without its address, with a smaller MTU: each state is reported.
fn breaks_and_mends(library: &Library, device: &str, interface: &str, address: &str) {
    let choice = || choose(&library.devices().unwrap(), &on(device));
    let whole = choice().unwrap();
    run("softroce-link", &["down", "0"]);
    let remedy = format!("port 1 of {device} is DOWN: ip link set {interface} up");
    eventually(&remedy, || {
        choice().is_err_and(|error| error.words().contains(&remedy))
    });
    run("softroce-link", &["up", "0"]);
    eventually("up again", || choice().is_ok_and(|chosen| chosen == whole));

    run("ip", &["-4", "address", "flush", "dev", interface]);
    eventually("no IPv4 GID", || {
        choice().is_ok_and(|chosen| {
            chosen
                .cautions()
                .iter()
                .any(|words| words.contains("link-local"))
        })
    });
    run(
        "ip",
        &[
            "address",
            "add",
            &format!("{address}/24"),
            "dev",
            interface,
            "noprefixroute",
        ],
    );
    run("softroce-link", &["up", "0"]);
    eventually("its address again", || {
        choice().is_ok_and(|chosen| chosen == whole)
    });

    run("ip", &["link", "set", interface, "mtu", "1500"]);
    eventually("small packets", || {
        choice().is_ok_and(|chosen| chosen.mtu_bytes == 1024)
    });
    run("ip", &["link", "set", interface, "mtu", "4200"]);
    eventually("large packets", || {
        choice().is_ok_and(|chosen| chosen.mtu_bytes == 4096)
    });
    eventually("as it was", || choice().is_ok_and(|chosen| chosen == whole));
}

/// The kernel updates its table of GIDs some time after the interface changed.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("not within 30 s: {what}");
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
}
