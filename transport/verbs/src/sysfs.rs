//! Properties of devices in `/sys` that the library does not report.

use crate::gid::GidType;
use std::fs;
use std::path::PathBuf;

/// `ARPHRD_INFINIBAND`: the type of interfaces of IP over InfiniBand.
const TYPE_OF_IPOIB: &str = "32";

/// The folder of one device.
pub(crate) struct DeviceFolder(PathBuf);

impl DeviceFolder {
    pub(crate) fn of(device: &str) -> Self {
        Self::within(PathBuf::from("/sys/class/infiniband").join(device))
    }

    fn within(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn line(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.0.join(file)).ok()?;
        let line = text.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// The protocol of packets for an entry of the table of GIDs, on Ethernet.
    pub(crate) fn roce_type(&self, port: u8, index: u8) -> GidType {
        match self
            .line(&format!("ports/{port}/gid_attrs/types/{index}"))
            .as_deref()
        {
            Some("RoCE v2") => GidType::RoceV2,
            // The kernel has one text for InfiniBand and RoCE v1, and this is Ethernet.
            Some("IB/RoCE v1") => GidType::RoceV1,
            _ => GidType::Unknown,
        }
    }

    /// The network interface of an entry of the table of GIDs.
    pub(crate) fn interface_of_gid(&self, port: u8, index: u8) -> Option<String> {
        self.line(&format!("ports/{port}/gid_attrs/ndevs/{index}"))
    }

    /// The network interface that a soft-RoCE device is made of, or the interface of the same card
    /// and port.
    pub(crate) fn interface(&self, port: u8, is_ethernet: bool) -> Option<String> {
        if let Some(parent) = self.line("parent") {
            return Some(parent);
        }
        let mut names: Vec<String> = fs::read_dir(self.0.join("device/net"))
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| {
                let setting = |file: &str| self.line(&format!("device/net/{name}/{file}"));
                let is_ipoib = setting("type").as_deref() == Some(TYPE_OF_IPOIB);
                let of_port = setting("dev_port").and_then(|number| number.parse::<u8>().ok());
                is_ipoib != is_ethernet && of_port == port.checked_sub(1)
            })
            .collect();
        names.sort();
        names.into_iter().next()
    }

    /// The number of lanes times their speed, in Mbit/s, from a text such as `100 Gb/sec (4X EDR)`
    /// or `2.5 Gb/sec (1X SDR)`.
    pub(crate) fn rate_mbit_s(&self, port: u8) -> Option<u32> {
        let line = self.line(&format!("ports/{port}/rate"))?;
        let gigabits: f64 = line.split(' ').next()?.parse().ok()?;
        let megabits = gigabits * 1000.0;
        (megabits >= 0.0 && megabits < f64::from(u32::MAX)).then_some(megabits as u32)
    }
}

/// The devices of the kernel, also those that programs cannot use.
pub(crate) fn kernel_devices() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/class/infiniband")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Whether there is a file by which programs can open a device.
pub(crate) fn has_files() -> bool {
    fs::read_dir("/dev/infiniband")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .any(|name| name.starts_with("uverbs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn put(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn types_and_interfaces_of_gids_are_read() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
        put(folder.path(), "ports/1/gid_attrs/types/1", "RoCE v2\n");
        put(folder.path(), "ports/1/gid_attrs/ndevs/1", "eth0.7\n");
        let device = DeviceFolder::within(folder.path().to_owned());
        assert_eq!(device.roce_type(1, 0), GidType::RoceV1);
        assert_eq!(device.roce_type(1, 1), GidType::RoceV2);
        assert_eq!(device.roce_type(1, 2), GidType::Unknown);
        assert_eq!(device.interface_of_gid(1, 1).as_deref(), Some("eth0.7"));
        assert_eq!(device.interface_of_gid(2, 1), None);
    }

    #[test]
    fn the_interface_is_the_parent_or_that_of_the_same_port() {
        let folder = tempfile::tempdir().unwrap();
        let device = DeviceFolder::within(folder.path().to_owned());
        assert_eq!(device.interface(1, true), None);
        for (name, kind, port) in [("eth4", "1", "0"), ("eth5", "1", "1"), ("ib0", "32", "0")] {
            put(folder.path(), &format!("device/net/{name}/type"), kind);
            put(folder.path(), &format!("device/net/{name}/dev_port"), port);
        }
        assert_eq!(device.interface(1, true).as_deref(), Some("eth4"));
        assert_eq!(device.interface(2, true).as_deref(), Some("eth5"));
        assert_eq!(device.interface(1, false).as_deref(), Some("ib0"));
        assert_eq!(device.interface(2, false), None);
        put(folder.path(), "parent", "rx0\n");
        assert_eq!(device.interface(1, true).as_deref(), Some("rx0"));
    }

    #[test]
    fn rates_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let device = DeviceFolder::within(folder.path().to_owned());
        for (text, rate) in [
            ("800 Gb/sec (4X XDR)\n", Some(800_000)),
            ("2.5 Gb/sec (1X SDR)\n", Some(2500)),
            ("fast\n", None),
            ("-1 Gb/sec\n", None),
        ] {
            put(folder.path(), "ports/1/rate", text);
            assert_eq!(device.rate_mbit_s(1), rate, "{text}");
        }
    }
}
