//! `refrain info --verbs`: RDMA devices, and obstacles to their use.

use crate::table;
use comfy_table::Table;
use refrain_launch::size::Size;
use refrain_verbs::{
    Chosen, Device, DeviceLimits, LinkLayer, MemoryLock, Port, PortChoice, Transport, choose,
};
use std::fmt::Write as _;

/// Facts besides the devices.
pub struct Environment<'a> {
    /// The file from which libibverbs was loaded.
    pub file: Option<String>,
    /// The limit of memory that a process may lock.
    pub memory_lock: MemoryLock,
    /// Default log memory of one rank, in bytes.
    pub log_bytes: u64,
    /// Bytes that a queue pair of a device can send inline, or why the number is not known.
    pub inline_bytes: &'a dyn Fn(&str) -> Result<u32, String>,
}

/// Describes every device; or, in one line, what is missing.
pub fn text(found: Result<&[Device], &str>, around: &Environment<'_>) -> String {
    let devices = match found {
        Ok(devices) => devices,
        Err(why) => return format!("{why}\n"),
    };
    let chosen = choose(devices, &PortChoice::default());
    if devices.is_empty() {
        return chosen.map_or_else(|error| format!("{}\n", error.words()), |_| String::new());
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    line("libibverbs", around.file.as_deref().unwrap_or("loaded"));
    match &chosen {
        Ok(chosen) => line("verbs takes", &chosen.to_string()),
        Err(_) => line("verbs takes", "nothing: see below"),
    }
    line(
        "memory lock",
        &memory_lock_words(around.memory_lock, around.log_bytes),
    );
    let _ = writeln!(text, "\n{}", table(devices).trim_fmt());
    for device in devices.iter().filter(|device| device.refusal.is_none()) {
        let _ = write!(text, "\n{}", details(device, around));
    }
    let notes = notes(devices);
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// A row for each port, for `refrain info`; empty without devices.
pub fn summary(devices: &[Device]) -> String {
    if devices.is_empty() {
        return String::new();
    }
    let mut text = "\nverbs ports\n".to_owned();
    for row in table(devices).trim_fmt().lines() {
        let _ = writeln!(text, "  {row}");
    }
    // Obstacles of all ports are already shown with the fabric.
    let chosen = choose(devices, &PortChoice::default());
    for caution in chosen.iter().flat_map(Chosen::cautions) {
        let _ = writeln!(text, "  {caution}");
    }
    text
}

/// Obstacles to the use of the ports, and possible improvements.
fn notes(devices: &[Device]) -> Vec<String> {
    let mut notes = Vec::new();
    for device in devices {
        if let Some(obstacle) = device.obstacle() {
            notes.push(obstacle);
            continue;
        }
        for port in &device.ports {
            notes.extend(port.obstacle(&device.name));
            notes.extend(chosen_on(device, port).iter().flat_map(Chosen::cautions));
        }
    }
    notes
}

/// The settings with which the port would be used.
fn chosen_on(device: &Device, port: &Port) -> Option<Chosen> {
    let wanted = PortChoice {
        port: Some(port.number),
        ..PortChoice::default()
    };
    choose(std::slice::from_ref(device), &wanted).ok()
}

fn table(devices: &[Device]) -> Table {
    let of_port = |device: &Device, port: &Port| {
        vec![
            format!("{}:{}", device.name, port.number),
            port.state.to_string(),
            port.link_layer.to_string(),
            port.interface.clone().unwrap_or_else(|| "-".into()),
            speed(port.speed_mbit_s),
            port.mtu_active_bytes.to_string(),
            address(device, port),
        ]
    };
    let mut rows = Vec::new();
    for device in devices {
        if device.ports.is_empty() {
            rows.push(vec![device.name.clone(), "not opened".into()]);
        }
        rows.extend(device.ports.iter().map(|port| of_port(device, port)));
    }
    let header = [
        "port",
        "state",
        "link",
        "interface",
        "speed",
        "packet",
        "address",
    ];
    table::words(header, rows)
}

/// The address at which peers reach the port.
fn address(device: &Device, port: &Port) -> String {
    match chosen_on(device, port) {
        None => "-".into(),
        Some(Chosen {
            gid_index: Some(index),
            ..
        }) => port.gid(index).map_or_else(
            || "-".into(),
            |gid| format!("{gid} (GID {index}, {})", gid.kind),
        ),
        Some(chosen) => format!("LID {}", chosen.lid),
    }
}

fn speed(mbit_s: u32) -> String {
    match mbit_s {
        0 => "-".into(),
        _ if mbit_s.is_multiple_of(1000) => format!("{} Gbit/s", mbit_s / 1000),
        _ => format!("{:.1} Gbit/s", f64::from(mbit_s) / 1000.0),
    }
}

fn details(device: &Device, around: &Environment<'_>) -> String {
    let mut text = format!("{}\n", device.name);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    line("GUID", guid(device.node_guid));
    line("made by", maker(device));
    for (name, value) in limits(&device.limits) {
        line(name, value);
    }
    let inline = (around.inline_bytes)(&device.name);
    let inline = inline.map(|bytes| format!("{bytes} bytes in a work request"));
    line("inline", inline.unwrap_or_else(|why| why));
    for port in &device.ports {
        line(&format!("port {}", port.number), port_line(port));
        let chosen = chosen_on(device, port).and_then(|chosen| chosen.gid_index);
        for gid in &port.gids {
            let remark = match gid.is_here {
                _ if chosen == Some(gid.index) => ", chosen",
                true => "",
                false => ", of another network namespace",
            };
            let interface = gid.interface.as_deref().unwrap_or("-");
            line(
                &format!("  GID {}", gid.index),
                format!("{gid}, {}, {interface}{remark}", gid.kind),
            );
        }
    }
    text
}

fn port_line(port: &Port) -> String {
    let mut words = format!(
        "{} ({}), {}, {}, packets of {} bytes ({} at most), messages to {}",
        port.state,
        port.physical_state_words(),
        port.link_layer,
        speed(port.speed_mbit_s),
        port.mtu_active_bytes,
        port.mtu_max_bytes,
        Size(port.message_max_bytes.into()),
    );
    if port.link_layer == LinkLayer::InfiniBand {
        let _ = write!(
            words,
            ", LID {}, subnet manager's LID {}",
            port.lid, port.subnet_manager_lid
        );
    }
    words
}

fn limits(limits: &DeviceLimits) -> [(&'static str, String); 5] {
    let queues = |count, requests, pieces| {
        format!("{count}, each with {requests} work requests of {pieces} pieces of memory")
    };
    let sizes = match limits.registration_bytes {
        u64::MAX => "of any size".to_owned(),
        bytes => format!("of {} at most", Size(bytes)),
    };
    [
        (
            "queue pairs",
            queues(limits.queue_pairs, limits.work_requests, limits.pieces),
        ),
        (
            "shared queues",
            queues(
                limits.shared_queues,
                limits.shared_requests,
                limits.shared_pieces,
            ),
        ),
        (
            "completions",
            format!(
                "{} queues, each with {}",
                limits.completion_queues, limits.completions
            ),
        ),
        (
            "reads",
            format!(
                "{} begun, {} answered at a time by a queue pair",
                limits.reads_begun, limits.reads_answered
            ),
        ),
        (
            "registrations",
            format!("{}, {sizes}", limits.registrations),
        ),
    ]
}

/// A GUID in the format of ibstat(8).
fn guid(guid: u64) -> String {
    let part = |shift: u32| (guid >> shift) & 0xffff;
    let [a, b, c, d] = [48, 32, 16, 0].map(part);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

fn maker(device: &Device) -> String {
    let speaks = match device.transport {
        Transport::InfiniBand => "",
        Transport::Iwarp => ", iWARP",
        Transport::Other => ", of its own protocol",
    };
    let firmware = match device.firmware.as_str() {
        "" => String::new(),
        version => format!(", firmware {version}"),
    };
    format!(
        "vendor {:#x}, part {}, revision {}{firmware}{speaks}",
        device.vendor_id, device.vendor_part_id, device.hardware_version
    )
}

/// The limit of locked memory, and whether a payload log fits.
pub fn memory_lock_words(lock: MemoryLock, log_bytes: u64) -> String {
    let MemoryLock::Bytes(bytes) = lock else {
        return "unlimited".into();
    };
    let mut words = format!(
        "{} KiB a process (ulimit -l); shm needs none, a NIC locks the log",
        bytes >> 10
    );
    if !lock.allows(log_bytes) {
        let log_mib = log_bytes >> 20;
        words += &format!(
            ", {log_mib} MiB unless --log-memory says less: raise the limit (docs/guide/rdma.md)"
        );
    }
    words
}

#[cfg(test)]
mod tests;
