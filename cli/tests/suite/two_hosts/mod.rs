//! Two hosts, simulated by network namespaces of this host.

#![allow(dead_code, reason = "each test file uses a part")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two namespaces, connected by a virtual cable. Dropping it removes them.
pub struct Hosts {
    /// Prefix of the hosts' names, which end with `-0` and `-1`.
    pub name: String,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl Hosts {
    /// `None`, with the reason printed, if this user may not create namespaces.
    pub fn make() -> Option<Self> {
        remove_stale();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("refrain-test-{}-{number}", std::process::id());
        let hosts = Self { name };
        match hosts.set_up(number) {
            Ok(()) => Some(hosts),
            Err(why) => {
                println!("skipped a job over two network namespaces: {why}");
                None
            }
        }
    }

    fn set_up(&self, number: u32) -> Result<(), String> {
        let name = &self.name;
        let cable = format!("rf{}x{number}", std::process::id());
        for host in 0..2 {
            ip(&format!("netns add {name}-{host}"))?;
        }
        ip(&format!(
            "link add {cable}a netns {name}-0 type veth peer name {cable}b netns {name}-1"
        ))?;
        for (host, end) in [(0, "a"), (1, "b")] {
            let inside = format!("-n {name}-{host}");
            let address = self.address(host);
            ip(&format!("{inside} addr add {address}/24 dev {cable}{end}"))?;
            ip(&format!("{inside} link set {cable}{end} up"))?;
            ip(&format!("{inside} link set lo up"))?;
        }
        Ok(())
    }

    /// The address of host 0 or 1.
    pub fn address(&self, host: u32) -> String {
        let number: u32 = self.number().parse().expect("it was made so");
        format!("10.213.{}.{}", number % 250, host + 1)
    }

    fn number(&self) -> &str {
        self.name.rsplit('-').next().expect("it was made so")
    }

    /// A command inside host 0 or 1.
    pub fn enter(&self, host: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}-{host}", self.name));
        command.arg(program);
        command
    }

    /// Cuts the connection between the hosts.
    pub fn cut(&self) {
        let address = format!("-n {}-1 addr flush scope global", self.name);
        ip(&address).expect("it was made");
        ip(&format!(
            "-n {}-1 addr add 10.99.99.2/24 dev {}",
            self.name,
            self.cable("b")
        ))
        .expect("it was made");
    }

    fn cable(&self, end: &str) -> String {
        let mut parts = self.name.rsplit('-');
        let (number, process) = (parts.next().unwrap(), parts.next().unwrap());
        format!("rf{process}x{number}{end}")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..2 {
            // Missing if it could not be created.
            let _ = ip(&format!("netns del {}-{host}", self.name));
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("ip cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {arguments}: {}", words.trim()))
}

/// Removes namespaces of tests that were killed.
fn remove_stale() {
    for entry in std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name
            .strip_prefix("refrain-test-")
            .and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !PathBuf::from(format!("/proc/{id}")).exists()) {
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
