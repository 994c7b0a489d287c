//! Jobs over several hosts, played by network namespaces of this one.

use crate::installed::{has, libraries};
use crate::launched::{Ended, refrain, run};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two namespaces, joined by a cable. Gone when this is dropped.
struct Hosts {
    name: String,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl Hosts {
    /// `None`, with the reason printed, where this user may not make any.
    fn make() -> Option<Self> {
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
            let address = format!("10.213.{}.{}/24", number % 250, host + 1);
            ip(&format!("{inside} addr add {address} dev {cable}{end}"))?;
            ip(&format!("{inside} link set {cable}{end} up"))?;
            ip(&format!("{inside} link set lo up"))?;
        }
        Ok(())
    }

    /// Nothing passes between them any more.
    fn cut(&self) {
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

    /// Runs a job of 4 ranks: 0 and 1 on one host, 2 and 3 on the other.
    fn run(&self, options: &[&str], library: Option<&PathBuf>, workload: &str) -> Ended {
        let mut command = refrain();
        command
            .args(["run", "-n", "4", "--no-prefix"])
            .args(options);
        if let Some(library) = library {
            command.arg("--libfabric").arg(library);
        }
        let enter = format!(
            r#"exec nsenter --net=/run/netns/{}-$((REFRAIN_RANK / 2)) "$@""#,
            self.name
        );
        command.args(["--", "sh", "-c", &enter, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_refrain-workload"));
        run(command.args(workload.split_whitespace()))
    }
}

impl Hosts {
    /// Runs a job of 4 ranks with an agent in each namespace; the launcher is in the
    /// first.
    fn run_by_agents(&self, options: &[&str], library: Option<&PathBuf>, workload: &str) -> Ended {
        let folder = tempfile::tempdir().expect("a folder");
        let ssh = folder.path().join("ssh");
        let name = &self.name;
        let script = format!("host=$1; shift; exec nsenter --net=/run/netns/{name}-$host \"$@\"\n");
        std::fs::write(&ssh, script).expect("a new file");
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{name}-0"))
            .arg(env!("CARGO_BIN_EXE_refrain"))
            .args([
                "run",
                "-n",
                "4",
                "--no-prefix",
                "--host",
                "0:2,1:2",
                "--ssh",
            ])
            .arg(format!("sh {}", ssh.display()))
            .args(options);
        if let Some(library) = library {
            command.arg("--libfabric").arg(library);
        }
        command.args(["--", "refrain-workload"]);
        run(command.args(workload.split_whitespace()))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..2 {
            // Not there if it could not be made.
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

/// Namespaces of tests that were killed.
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

#[test]
fn auto_takes_shm_inside_a_host_and_libfabric_between_hosts() {
    let Some(hosts) = Hosts::make() else { return };
    for library in libraries() {
        if !has(library.as_ref(), "tcp") {
            continue;
        }
        for workload in [
            "token-ring --rounds 50 --bytes 100",
            "stencil --dimensions 2 --size 40 --iterations 30 --verify --print-grid-hash",
            "any-source --tasks 60 --bytes 30000",
            "chaos --seed 7 --operations 1500 --patience 30",
        ] {
            let mut alone = refrain();
            alone.args(["run", "-n", "4", "--no-prefix", "--fabric", "shm", "--"]);
            alone.arg("refrain-workload");
            let expected = run(alone.args(workload.split_whitespace())).expect(0).out;
            for protocol in ["none", "pessimist"] {
                let options = ["--verbose", "--protocol", protocol];
                let ended = hosts.run(&options, library.as_ref(), workload).expect(0);
                assert_eq!(ended.out, expected, "{workload} with {protocol}");
                let words = "2 pairs on one host by shm, 4 pairs between hosts by ofi:tcp";
                assert!(ended.err.contains(words), "{}", ended.err);
            }
        }
    }
}

#[test]
fn shared_memory_alone_does_not_lead_to_other_hosts() {
    let Some(hosts) = Hosts::make() else { return };
    let ended = hosts.run(&["--fabric", "shm"], None, "token-ring");
    assert_eq!(ended.status, Some(1), "{ended:?}");
    assert!(ended.err.contains("another host") && ended.err.contains("auto"));
}

#[test]
fn an_address_without_a_route_is_one_clear_error() {
    let Some(hosts) = Hosts::make() else { return };
    hosts.cut();
    for library in libraries() {
        let options = ["--peer-timeout", "2"];
        let ended = hosts.run(&options, library.as_ref(), "token-ring");
        assert_eq!(ended.status, Some(1), "{ended:?}");
        let verdict: Vec<&str> = ended
            .err
            .lines()
            .filter(|line| line.starts_with("refrain: "))
            .collect();
        assert!(
            verdict.len() == 1 && verdict[0].contains("does not answer after 2 s"),
            "{}",
            ended.err
        );
    }
}

/// A rank of the launcher's host and one of the other are killed; both come again
/// where they were. REC-1
#[test]
fn agents_start_ranks_and_start_them_again() {
    let Some(hosts) = Hosts::make() else { return };
    for library in libraries() {
        if !has(library.as_ref(), "tcp") {
            continue;
        }
        let workload = "token-ring --rounds 300 --bytes 100";
        let mut alone = refrain();
        alone.args(["run", "-n", "4", "--no-prefix", "--fabric", "shm", "--"]);
        alone.arg("refrain-workload");
        let expected = run(alone.args(workload.split_whitespace())).expect(0).out;
        for fabric in ["auto", "ofi:tcp"] {
            let options = ["--fabric", fabric];
            let ended = hosts.run_by_agents(&options, library.as_ref(), workload);
            assert_eq!(ended.expect(0).out, expected, "{fabric}");
        }
        let killed = "--fabric ofi:tcp --protocol pessimist --kill 1@clock=40,3@clock=90";
        let options: Vec<&str> = killed.split(' ').collect();
        let ended = hosts
            .run_by_agents(&options, library.as_ref(), workload)
            .expect(0);
        assert_eq!(ended.out, expected);
        for rank in [1, 3] {
            let words = format!("rank {rank} was killed by SIGKILL (incarnation 0, by --kill)");
            assert!(ended.err.contains(&words), "{}", ended.err);
        }
    }
}
