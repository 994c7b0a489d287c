//! Jobs over several hosts, simulated by network namespaces of this host.

use crate::launched::{Ended, refrain, run};
use crate::libfabric::installed::{has, libraries};
use crate::two_hosts::Hosts;
use std::path::PathBuf;

impl Hosts {
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

    /// Runs a job of 4 ranks with an agent in each namespace; the launcher is in the first one.
    fn run_by_agents(&self, options: &[&str], library: Option<&PathBuf>, workload: &str) -> Ended {
        let folder = tempfile::tempdir().expect("a folder");
        let ssh = folder.path().join("ssh");
        let name = &self.name;
        let script = format!("host=$1; shift; exec nsenter --net=/run/netns/{name}-$host \"$@\"\n");
        std::fs::write(&ssh, script).expect("a new file");
        let mut command = self.enter(0, env!("CARGO_BIN_EXE_refrain"));
        command
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

/// What goes to ranks of both hosts is logged once for those of this host; a rank of each host is
/// killed. LOG-6 COLL-1
#[test]
fn collectives_survive_inside_and_between_hosts() {
    let Some(hosts) = Hosts::make() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("table");
    std::fs::write(&table, "bcast flat\nallgather flat\n").expect("a new file");
    let table = table.to_str().expect("it is a text");
    for library in libraries() {
        if !has(library.as_ref(), "tcp") {
            continue;
        }
        for (seed, kills) in ["1@clock=40,3@clock=60", "0@clock=80,1@clock=80"]
            .iter()
            .enumerate()
        {
            let workload =
                format!("collectives --rounds 10 --bytes-max 60000 --patience 30 --seed {seed}");
            let mut alone = refrain();
            alone.args(["run", "-n", "4", "--no-prefix", "--", "refrain-workload"]);
            let expected = run(alone.args(workload.split_whitespace())).expect(0).out;
            let options = ["--protocol", "pessimist", "--collectives-table", table];
            let options = [&options[..], &["--kill", kills]].concat();
            let ended = hosts.run(&options, library.as_ref(), &workload).expect(0);
            assert_eq!(ended.out, expected, "{kills}");
            assert_eq!(ended.err.matches("was killed by SIGKILL").count(), 2);
            // Where the launcher knows the hosts, one rank of each speaks, and sums are made by hosts.
            let by_agents = |options: &[&str]| {
                let ended = hosts.run_by_agents(options, library.as_ref(), &workload);
                ended.expect(0).out
            };
            let expected = by_agents(&["--protocol", "none"]);
            let whole = ["--collectives", "whole", "--collective-failures", "2"];
            for kept in [&[][..], &whole] {
                let options = [&["--protocol", "pessimist", "--kill", kills], kept].concat();
                assert_eq!(by_agents(&options), expected, "{kills}, {kept:?}");
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
    let protocols = ["none", "pessimist"];
    for (library, protocol) in libraries()
        .into_iter()
        .flat_map(|library| protocols.map(|protocol| (library.clone(), protocol)))
    {
        let options = ["--protocol", protocol, "--peer-timeout", "2"];
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

/// A rank of the launcher's host and a rank of the other host are killed; both are restarted on
/// their hosts. REC-1
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
