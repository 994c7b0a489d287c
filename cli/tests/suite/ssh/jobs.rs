//! Jobs that end well although ranks are killed.

use super::server::Ssh;
use crate::launched::{Ended, job, refrain, run};
use crate::libfabric::installed::{has, libraries};
use crate::two_hosts::Hosts;
use std::path::PathBuf;
use std::process::Command;

const WORKLOAD: &str = "token-ring --rounds 300 --bytes 100";

/// A job of 4 ranks: 0 and 1 on `a`, 2 and 3 on `b`.
fn workload(mut launcher: Command, ssh: &Ssh, options: &str, library: Option<&PathBuf>) -> Ended {
    launcher
        .args(["run", "-n", "4", "--no-prefix", "--host", "a:2,b:2"])
        .args(["--ssh", &ssh.command()])
        .args(options.split_whitespace())
        .env("TMPDIR", ssh.temporary());
    if let Some(library) = library {
        launcher.arg("--libfabric").arg(library);
    }
    launcher.args(["--", "refrain-workload"]);
    run(launcher.args(WORKLOAD.split_whitespace()))
}

fn expected() -> String {
    let mut alone = refrain();
    alone.args(["run", "-n", "4", "--no-prefix", "--fabric", "shm", "--"]);
    alone.arg("refrain-workload");
    run(alone.args(WORKLOAD.split_whitespace())).expect(0).out
}

/// One rank of each host is killed; both are restarted on their hosts. REC-1
fn runs_and_survives(ssh: &Ssh, launcher: impl Fn() -> Command) {
    let libraries = libraries().into_iter();
    for library in libraries.filter(|library| has(library.as_ref(), "tcp")) {
        let expected = expected();
        let ended = workload(launcher(), ssh, "--fabric auto", library.as_ref()).expect(0);
        assert_eq!(ended.out, expected);
        ssh.expect_nothing_left();
        let killed = "--fabric ofi:tcp --protocol pessimist --kill 1@clock=40,3@clock=90";
        let ended = workload(launcher(), ssh, killed, library.as_ref()).expect(0);
        assert_eq!(ended.out, expected);
        for rank in [1, 3] {
            let words = format!("rank {rank} was killed by SIGKILL (incarnation 0, by --kill)");
            assert!(ended.err.contains(&words), "{}", ended.err);
        }
        ssh.expect_nothing_left();
    }
}

#[test]
fn ranks_of_both_hosts_are_killed_and_come_again() {
    let Some(ssh) = Ssh::start() else { return };
    runs_and_survives(&ssh, refrain);
}

/// As before, with messages of agents and ranks between two networks.
#[test]
fn ssh_leads_into_another_network() {
    let Some(hosts) = Hosts::make() else { return };
    let Some(ssh) = Ssh::start_on(&hosts) else {
        return;
    };
    runs_and_survives(&ssh, || hosts.enter(0, env!("CARGO_BIN_EXE_refrain")));
}

/// Output, standard error and statuses pass through ssh as from ranks of this host.
#[test]
fn output_and_status_are_those_of_the_ranks() {
    let Some(ssh) = Ssh::start() else { return };
    let over_ssh = |steps: &str| {
        let mut command = job("-n 3 --host a:2,b", steps);
        run(with_ssh(&mut command, &ssh))
    };
    let ended = over_ssh("say=in 2:lines=9000 complain=woe fence finalize").expect(0);
    for rank in 0..3 {
        let lines = ended.of_rank(rank);
        assert_eq!((lines[0], lines.len()), ("in", [1, 1, 9001][rank as usize]));
    }
    assert_eq!(ended.err.matches("woe").count(), 3, "{}", ended.err);
    let ended = over_ssh("hello 2:exit=7 hang").expect(7);
    let words = "rank 2 exited with status 7";
    assert!(ended.err.contains(words), "{ended:?}");
    ssh.expect_nothing_left();
}

/// Environment variables of libraries reach ranks on other hosts, other variables do not.
#[test]
fn variables_of_fabrics_are_passed_on() {
    let Some(ssh) = Ssh::start() else { return };
    let mut launcher = refrain();
    launcher
        .args(["run", "-n", "1", "--no-prefix", "--host", "a"])
        .args(["--ssh", &ssh.command()])
        .args(["--", "sh", "-c"])
        .arg("echo $FI_TCP_IFACE $IBV_FORK_SAFE $RDMAV_FORK_SAFE $REFRAIN_MARK [$TELLS_NOBODY]")
        .env("TMPDIR", ssh.temporary());
    for (name, value) in [
        ("FI_TCP_IFACE", "lo"),
        ("IBV_FORK_SAFE", "1"),
        ("RDMAV_FORK_SAFE", "2"),
        ("REFRAIN_MARK", "here"),
        ("TELLS_NOBODY", "woe"),
    ] {
        launcher.env(name, value);
    }
    assert_eq!(run(&mut launcher).expect(0).out, "lo 1 2 here []\n");
    ssh.expect_nothing_left();
}

/// Puts `--ssh` before all other options.
pub fn with_ssh<'a>(command: &'a mut Command, ssh: &Ssh) -> &'a mut Command {
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let program = command.get_program().to_owned();
    *command = Command::new(program);
    command
        .arg("run")
        .args(["--ssh", &ssh.command()])
        .args(&arguments[1..])
        .env("TMPDIR", ssh.temporary())
        .stdin(std::process::Stdio::null())
}
