//! The connections of agents as a tree (`--fan-out`): jobs over hosts of which most are below others.
//! Hosts as in `lost_hosts`: each is this one, with an agent of its own.

use crate::launched::{Launched, Process, processes_of, refrain, run};
use crate::lost_hosts::{Hosts, LEASE, expected, lines};
use crate::scripted;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

/// One rank on each. With a fan-out of 2, c and d are below a, and e and f below b.
const RANKS: [&str; 4] = ["-n", "6", "--host", "a,b,c,d,e,f"];

/// Number of connections by TCP of a process.
fn connections(process: u32) -> usize {
    let table = |name| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let established: Vec<String> = [table("tcp"), table("tcp6")]
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
        .filter(|words| words[3] == "01")
        .map(|words| words[9].to_owned())
        .collect();
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    let inodes = descriptors.flatten().filter_map(|descriptor| {
        let inode = fs::metadata(descriptor.path()).ok()?.ino();
        Some(inode.to_string())
    });
    inodes.filter(|inode| established.contains(inode)).count()
}

fn agent(hosts: &Hosts, host: &str) -> u32 {
    let text = hosts.0.text(&format!("agent-{host}"));
    text.trim().parse().expect("a process")
}

/// Ranks were killed, and no others.
#[track_caller]
fn expect_killed(err: &str, ranks: &[u32]) {
    for rank in 0..6 {
        let words = format!("rank {rank} was killed");
        assert_eq!(
            err.contains(&words),
            ranks.contains(&rank),
            "{words}: {err}"
        );
    }
}

#[test]
fn a_tree_has_the_connections_of_its_fan_out_and_the_output_of_a_star() {
    let expected = expected("6");
    for (options, of_launcher, of_a) in [("", 6, 1), ("--fan-out 2", 2, 3), ("--fan-out 1", 1, 2)] {
        let Some(hosts) = Hosts::new() else { return };
        let launched = Launched::start(&mut hosts.job(&RANKS, options, "2,5"));
        hosts.holds(&launched, 2, 0);
        hosts.holds(&launched, 5, 0);
        assert_eq!(connections(launched.id()), of_launcher, "{options}");
        assert_eq!(connections(agent(&hosts, "a")), of_a, "{options}");
        hosts.go(0);
        let ended = launched.end().expect(0);
        assert_eq!(lines(&ended), expected, "{}", ended.err);
        for host in ["a", "b", "c", "d", "e", "f"] {
            hosts.0.agent(host).expect_end();
        }
    }
}

// REC-1
#[test]
fn a_rank_far_below_is_restarted() {
    for fan_out in ["--fan-out 1", "--fan-out 2"] {
        let Some(hosts) = Hosts::new() else { return };
        let launched = Launched::start(&mut hosts.job(&RANKS, fan_out, "5"));
        let rank = Process::of(hosts.holds(&launched, 5, 0));
        hosts.go(1);
        rank.kill();
        let ended = launched.end().expect(0);
        assert_eq!(lines(&ended), expected("6"), "{}", ended.err);
        expect_killed(&ended.err, &[5]);
    }
}

/// The agents below a lost one call the launcher; their ranks do not notice.
// REC-1 FENCE-2
#[test]
fn a_lost_host_takes_no_host_below_it_along() {
    // Of the chain, c calls, and brings those below it along.
    for (fan_out, host, rank, of_launcher) in [
        ("--fan-out 1", "b", 1, 3),
        ("--fan-out 2", "a", 0, 4),
        ("--fan-out 2", "f", 5, 3),
    ] {
        let Some(hosts) = Hosts::new() else { return };
        let options = format!("{LEASE} {fan_out}");
        let launched = Launched::start(&mut hosts.job(&RANKS, &options, &rank.to_string()));
        hosts.lose(&launched, host, rank);
        hosts.holds(&launched, rank, 1);
        // On a slow machine others may have called, too.
        let found = connections(launched.id());
        assert!(found >= of_launcher, "{fan_out} {host}: {found}");
        let ended = launched.end().expect(0);
        assert_eq!(lines(&ended), expected("6"), "{}", ended.err);
        expect_killed(&ended.err, &[rank]);
    }
}

/// Its connections stay, but bring no answers: those below call the launcher before their leases end.
// FENCE-1 FENCE-2
#[test]
fn a_stopped_host_takes_no_host_below_it_along() {
    let Some(hosts) = Hosts::new() else { return };
    let options = format!("{LEASE} --fan-out 1");
    let launched = Launched::start(&mut hosts.job(&RANKS, &options, "1"));
    let stopped = [hosts.holds(&launched, 1, 0), agent(&hosts, "b")];
    let id = |process: u32| Pid::from_raw(process as i32).expect("not 0");
    for process in stopped {
        kill_process(id(process), Signal::STOP).unwrap();
    }
    hosts.holds(&launched, 1, 1);
    let processes = stopped.map(Process::of);
    for process in stopped {
        kill_process(id(process), Signal::CONT).unwrap();
    }
    processes.iter().for_each(Process::expect_end);
    hosts.go(1);
    let ended = launched.end().expect(0);
    assert_eq!(lines(&ended), expected("6"), "{}", ended.err);
    expect_killed(&ended.err, &[1]);
}

/// What an agent in the middle has swallowed comes again, also for those that are not directly below it:
/// without the launcher's words that it has taken output, rank 3 would print no more.
#[test]
fn messages_that_a_lost_agent_had_come_again() {
    const LINES: usize = 20_000;
    let hosts = scripted::Hosts::new();
    let steps = format!("1:process hello finalize 3:lines={LINES}");
    let mut launched =
        Launched::start(&mut hosts.job("-n 4 --host a,b,c,d --fan-out 1 --no-prefix", &steps));
    let line = launched.wait_for("process", 1).remove(0);
    let rank = line.rsplit(' ').next().expect("a number").to_owned();
    let agents: Vec<u32> = ["a", "b"]
        .map(|host| hosts.text(&format!("agent-{host}")).trim().parse().unwrap())
        .into();
    // The rank on b has ended, and its agents have said so: they are asleep at each look.
    let mut looks = 0;
    while looks < 3000 {
        let stat = |agent: &u32| fs::read_to_string(format!("/proc/{agent}/stat")).unwrap();
        let are_asleep = agents.iter().all(|agent| stat(agent).contains(") S "));
        let stat_of_rank = fs::read_to_string(format!("/proc/{rank}/stat"));
        let has_ended = stat_of_rank.map_or(true, |stat| stat.contains(") Z "));
        assert!(launched.is_running(), "rank 3 waits for a reader");
        looks = if are_asleep && has_ended {
            looks + 1
        } else {
            0
        };
        std::thread::yield_now();
    }
    let b = Pid::from_raw(agents[1] as i32).unwrap();
    kill_process(b, Signal::STOP).unwrap();
    let mut first = vec![0; 256 << 10];
    launched
        .out()
        .read_exact(&mut first)
        .expect("more than the window");
    kill_process(b, Signal::KILL).unwrap();
    let mut rest = String::new();
    launched.out().read_to_string(&mut rest).expect("the rest");
    let ended = launched.end().expect(0);
    let text = String::from_utf8(first).unwrap() + &rest;
    let lines = text.lines().filter(|line| line.starts_with("line "));
    assert_eq!(lines.count(), LINES, "{}", ended.err);
    assert!(ended.err.contains("host b:"), "{}", ended.err);
}

#[test]
fn a_killed_launcher_leaves_no_process_in_the_tree() {
    for options in ["--fan-out 1", "--fan-out 2 --max-restarts 0"] {
        let Some(hosts) = Hosts::new() else { return };
        let launched = Launched::start(&mut hosts.job(&RANKS, options, "0,1,2,3,4,5"));
        let ranks = (0..6).map(|rank| hosts.holds(&launched, rank, 0));
        let ranks: Vec<Process> = ranks.map(Process::of).collect();
        let agents = ["a", "b", "c", "d", "e", "f"].map(|host| hosts.0.agent(host));
        launched.signal(Signal::KILL);
        let _ = launched.end();
        agents.iter().chain(&ranks).for_each(Process::expect_end);
        assert_eq!(processes_of(&hosts.0.file("")), Vec::<String>::new());
    }
}

/// The host of services is the last one, below all others.
// EL-3 LOG-4
#[test]
fn services_below_other_agents_serve_the_job() {
    let Some(hosts) = Hosts::new() else { return };
    let ranks = ["-n", "6", "--host", "a,b,c,d,e:2,f", "--service-nodes", "1"];
    let options = format!("{LEASE} --fan-out 1");
    let mut command = hosts.job(&ranks, &options, "2 4");
    let launched = Launched::start(command.env("TMPDIR", hosts.0.file("")));
    let rank = Process::of(hosts.holds(&launched, 2, 0));
    hosts.go(1);
    // The agents below it are those of the services.
    let lost = hosts.0.agent("e");
    lost.kill();
    lost.expect_end();
    rank.kill();
    let ended = launched.end().expect(0);
    assert_eq!(lines(&ended), expected("6"), "{}", ended.err);
    expect_killed(&ended.err, &[2, 4, 5]);
    let left = fs::read_dir(hosts.0.file("")).expect("a folder").flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    let is_ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("refrain-");
    assert!(!left.iter().any(is_ours), "{left:?}");
}

/// A reader that does not read delays the rank, and no agent on the way keeps the output.
#[test]
fn output_through_other_agents_is_bounded() {
    const BYTES: usize = 48 << 20;
    let hosts = scripted::Hosts::new();
    let options = "-n 3 --host a,b,c --fan-out 1";
    let steps = format!("hello 2:lines={} finalize", BYTES / 90);
    let mut launched = Launched::start(&mut hosts.job(options, &steps));
    let mut first = vec![0; BYTES / 2];
    launched.out().read_exact(&mut first).expect("half of it");
    for host in ["a", "b", "c"] {
        let agent: u32 = hosts.text(&format!("agent-{host}")).trim().parse().unwrap();
        let status = fs::read_to_string(format!("/proc/{agent}/status")).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.expect("a line").trim().trim_end_matches(" kB");
        let peak_kib: usize = peak.parse().expect("a number");
        assert!(peak_kib << 10 < BYTES / 2, "{host}: {peak_kib} KiB");
    }
    let mut rest = Vec::new();
    launched.out().read_to_end(&mut rest).expect("the rest");
    launched.end().expect(0);
    assert!(first.len() + rest.len() >= BYTES);
}

#[test]
fn a_fan_out_of_no_agent_is_refused() {
    for fan_out in ["0", "1025", "x"] {
        let mut command = refrain();
        command.args(["run", "-n", "1", "--fan-out", fan_out, "--", "true"]);
        let ended = run(&mut command);
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains("--fan-out"), "{ended:?}");
    }
}
