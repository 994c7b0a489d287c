//! Event loggers and checkpoint servers on hosts of their own (`--service-nodes`). Hosts as in
//! `lost_hosts`: each is this one, with an agent of its own.

use crate::launched::{Launched, Process, run};
use crate::lost_hosts::{Hosts, LEASE, expect_moved, expected, lines};
use crate::scripted;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// The services of a host: the processes that its agent has started, and those of its ranks.
pub fn children(hosts: &Hosts, host: &str) -> Vec<(u32, String)> {
    let agent = hosts.0.text(&format!("agent-{host}"));
    let agent = agent.trim();
    let children = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children"));
    let children = children.unwrap_or_default();
    let line = |child: &str| {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        (child.parse().expect("a number"), line.replace('\0', " "))
    };
    children.split_whitespace().map(line).collect()
}

fn count(hosts: &Hosts, host: &str, what: &str) -> usize {
    let children = children(hosts, host).into_iter();
    children.filter(|(_, line)| line.contains(what)).count()
}

/// Loggers and servers are on the last hosts, and ranks are not; killed ranks and a killed logger come
/// back.
// EL-3 EL-4
#[test]
fn services_are_on_hosts_of_their_own() {
    let Some(hosts) = Hosts::new() else { return };
    let ranks = ["-n", "3", "--host", "a:2,b,c,d", "--service-nodes", "2"];
    let mut command = hosts.job(&ranks, LEASE, "2 4");
    let launched = Launched::start(command.env("TMPDIR", hosts.0.file("")));
    hosts.holds(&launched, 2, 0);
    let of = |what| ["a", "b", "c", "d"].map(|host| count(&hosts, host, what));
    assert_eq!(of("refrain-test-survivor"), [2, 1, 0, 0]);
    assert_eq!(of("eventlogger"), [0, 0, 1, 1], "a shard on each");
    assert_eq!(of("checkpointd"), [0, 0, 1, 1]);
    for what in ["eventlogger", "checkpointd"] {
        let all = children(&hosts, "c");
        let (id, _) = all
            .iter()
            .find(|(_, line)| line.contains(what))
            .expect("one");
        let process = Process::of(*id);
        process.kill();
        process.expect_end();
        while count(&hosts, "c", what) == 0 {
            assert!(launched.is_running(), "{what} is restarted");
            std::thread::yield_now();
        }
    }
    hosts.go(1);
    let rank = Pid::from_raw(hosts.holds(&launched, 2, 0) as i32).expect("not 0");
    kill_process(rank, Signal::KILL).expect("it waits");
    let ended = launched.end().expect(0);
    assert_eq!(lines(&ended), expected("3"), "{}", ended.err);
    for words in [
        "event logger 0 was killed by SIGKILL: it is restarted",
        "the checkpoint server on c was killed by SIGKILL: it is restarted",
        "rank 2 was killed by SIGKILL",
    ] {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
    let left = fs::read_dir(hosts.0.file("")).expect("a folder").flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    let is_ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("refrain-");
    assert!(!left.iter().any(is_ours), "{left:?}");
    for host in ["a", "b", "c", "d"] {
        hosts.0.agent(host).expect_end();
    }
}

/// Checkpoints on a server survive the loss of their ranks' host, without a folder that hosts share.
// REC-1 LOG-4
#[test]
fn ranks_of_a_lost_host_go_on_from_checkpoints_on_a_server() {
    let Some(hosts) = Hosts::new() else { return };
    let ranks = ["-n", "3", "--host", "a:2,b,c", "--service-nodes", "1"];
    let launched = Launched::start(&mut hosts.job(&ranks, LEASE, "2 4"));
    hosts.lose(&launched, "b", 2);
    expect_moved(&launched.end().expect(0), &[2], "a");
}

/// One of three replicas is lost with its host.
// EL-1
#[test]
fn a_quorum_outlives_a_host_of_services() {
    let Some(hosts) = Hosts::new() else { return };
    let files = hosts.0.file("files");
    fs::create_dir(&files).unwrap();
    let ranks = ["-n", "3", "--host", "a:3,b,c,d", "--service-nodes", "3"];
    let options = format!(
        "{LEASE} --event-loggers 1 --event-replicas 3 --checkpoint-dir {}",
        files.display()
    );
    let launched = Launched::start(&mut hosts.job(&ranks, &options, "2 4"));
    hosts.holds(&launched, 2, 0);
    let of = |what| ["a", "b", "c", "d"].map(|host| count(&hosts, host, what));
    assert_eq!(of("eventlogger"), [0, 1, 1, 1]);
    assert_eq!(of("checkpointd"), [0; 4], "a place is named");
    let agent = hosts.0.agent("c");
    agent.kill();
    agent.expect_end();
    hosts.go(0);
    let ended = launched.end().expect(0);
    assert_eq!(lines(&ended), expected("3"), "{}", ended.err);
    let words = "event logger 1 is lost with its host: the job continues with 2 of its shard";
    assert!(ended.err.contains(words), "{}", ended.err);
}

#[test]
fn a_job_ends_with_its_only_host_of_services() {
    let Some(hosts) = Hosts::new() else { return };
    let ranks = ["-n", "3", "--host", "a:3,b", "--service-nodes", "1"];
    let launched = Launched::start(&mut hosts.job(&ranks, LEASE, "2"));
    hosts.holds(&launched, 2, 0);
    let agent = hosts.0.agent("b");
    agent.kill();
    agent.expect_end();
    let ended = launched.end().expect(75);
    for words in ["host b", "checkpoint server", "--checkpoint-dir"] {
        assert!(ended.err.contains(words), "{}", ended.err);
    }
}

/// The loggers' files are in the job's folder, and outlive their host.
// JOB-4 JOB-5
#[test]
fn a_later_run_goes_on_without_the_host_of_services() {
    let Some(hosts) = Hosts::new() else { return };
    let folder = hosts.0.file("job");
    let options = format!("{LEASE} --job-dir {}", folder.display());
    let job = |of| {
        let ranks = ["-n", "3", "--host", of, "--service-nodes", "1"];
        Launched::start(&mut hosts.job(&ranks, &options, "2"))
    };
    let launched = job("a:3,b");
    hosts.holds(&launched, 2, 0);
    let agent = hosts.0.agent("b");
    agent.kill();
    agent.expect_end();
    let first = launched.end().expect(75);
    hosts.go(1);
    let second = job("a:3,c").end().expect(0);
    let mut all = [lines(&first), lines(&second)].concat();
    all.sort();
    assert_eq!(all, expected("3"), "{}", second.err);
    assert!(!folder.join("events").exists());
}

#[test]
fn wrong_numbers_of_hosts_are_refused() {
    let hosts = scripted::Hosts::new();
    for (options, words) in [
        ("-n 1 --service-nodes 1", "runs on this host alone"),
        (
            "-n 1 --host a --service-nodes 1",
            "--service-nodes 1: the job has 1 host",
        ),
        (
            "-n 2 --host a,b,c --service-nodes 1 --spare-nodes 1",
            "2 ranks do not fit on 1 host",
        ),
        (
            "-n 1 --host a,b --service-nodes 1 --spare-nodes 1",
            "--spare-nodes 1 and --service-nodes 1: the job has 2 hosts",
        ),
        (
            "-n 1 --host a,a --service-nodes 1",
            "host a is listed twice",
        ),
        (
            "-n 1 --host a,b,c --service-nodes 2 --event-replicas 3",
            "--service-nodes 2: 3 replicas",
        ),
        (
            "-n 1 --host a,b --service-nodes 1 --protocol none",
            "--service-nodes 1 has no effect",
        ),
    ] {
        let protocol = match options.contains("--protocol") {
            true => "",
            false => "--protocol pessimist",
        };
        let ended = run(&mut hosts.job(&format!("{options} {protocol}"), "hello"));
        assert!(matches!(ended.status, Some(1 | 2)), "{ended:?}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(!hosts.file("agent-a").exists(), "nothing was started");
}
