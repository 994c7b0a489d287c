//! Event loggers on the hosts of ranks (`--spread-loggers`). Hosts as in `lost_hosts`: each is this one,
//! with an agent of its own.

use crate::launched::{Launched, Process, refrain, run};
use crate::lost_hosts::{Hosts, LEASE, expected, lines};
use crate::scripted;
use crate::service_nodes::children;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

const HOSTS: [&str; 4] = ["a", "b", "c", "d"];
/// A rank on each.
const RANKS: [&str; 4] = ["-n", "4", "--host", "a,b,c,d"];

/// By host, the numbers of its event loggers.
fn loggers(hosts: &Hosts) -> [Vec<u32>; 4] {
    HOSTS.map(|host| {
        let all = children(hosts, host).into_iter();
        let numbers = all.filter_map(|(_, line)| {
            let number = line
                .split_once(" eventlogger ")?
                .1
                .split_once("--logger ")?
                .1;
            number.split(' ').next()?.parse().ok()
        });
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    })
}

fn lose(hosts: &Hosts, host: &str) {
    let agent = hosts.0.agent(host);
    agent.kill();
    agent.expect_end();
}

/// Each host has the logger of the rank on the host before; a killed one comes back, and so does a killed
/// rank, with the events that are on another host.
// EL-3 EL-4 EL-5
#[test]
fn loggers_are_beside_other_ranks_than_their_own() {
    let Some(hosts) = Hosts::new() else { return };
    let files = hosts.0.file("events");
    let options = format!("{LEASE} --spread-loggers --event-dir {}", files.display());
    let mut command = hosts.job(&RANKS, &options, "2");
    let launched = Launched::start(command.env("TMPDIR", hosts.0.file("")));
    let rank = hosts.holds(&launched, 2, 0);
    assert_eq!(loggers(&hosts), [[3], [0], [1], [2]]);
    let all = children(&hosts, "d").into_iter();
    let of_rank = |(_, line): &(u32, String)| line.contains("--logger 2 ");
    let (logger, _) = all.into_iter().find(of_rank).expect("a logger");
    let logger = Process::of(logger);
    logger.kill();
    logger.expect_end();
    while loggers(&hosts)[3] != [2] {
        assert!(launched.is_running(), "it is restarted");
        std::thread::yield_now();
    }
    hosts.go(1);
    let rank = Pid::from_raw(rank as i32).expect("not 0");
    kill_process(rank, Signal::KILL).expect("it waits");
    let ended = launched.end().expect(0);
    assert_eq!(lines(&ended), expected("4"), "{}", ended.err);
    for words in [
        "event logger 2 was killed by SIGKILL: it is restarted",
        "rank 2 was killed by SIGKILL",
    ] {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
    // Events of a rank are in its shard only.
    for shard in 0..4 {
        let mut show = refrain();
        show.args(["events", "stats"])
            .arg(files.join(shard.to_string()));
        let shown = run(&mut show).expect(0).out;
        let ranks: Vec<&str> = (shown.lines())
            .filter_map(|line| line.split_whitespace().next())
            .filter(|word| word.parse::<u32>().is_ok())
            .collect();
        assert_eq!(ranks, [shard.to_string()], "{shown}");
    }
    let left = fs::read_dir(hosts.0.file("")).expect("a folder").flatten();
    let left: Vec<_> = left.map(|it| it.file_name()).collect();
    let is_ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("refrain-");
    assert!(!left.iter().any(is_ours), "{left:?}");
    for host in HOSTS {
        hosts.0.agent(host).expect_end();
    }
}

/// A host takes a rank and three of twelve loggers along: the rank starts elsewhere, and each shard has a
/// quorum. Then a rank of another shard is killed, which reads from what is left of its shard.
// EL-1 EL-3 REC-1
#[test]
fn a_job_with_replicas_outlives_any_host() {
    for host in ["b", "c"] {
        let Some(hosts) = Hosts::new() else { return };
        let options = format!("{LEASE} --spread-loggers --event-replicas 3");
        let launched = Launched::start(&mut hosts.job(&RANKS, &options, "1,2"));
        let holders = [hosts.holds(&launched, 1, 0), hosts.holds(&launched, 2, 0)];
        let all = loggers(&hosts);
        for (rank, loggers) in (0u32..).zip(&all) {
            let own = 3 * rank..3 * (rank + 1);
            assert!(
                loggers.len() == 3 && !loggers.iter().any(|it| own.contains(it)),
                "{all:?}"
            );
        }
        lose(&hosts, host);
        let survivor = match host {
            "b" => holders[1],
            _ => holders[0],
        };
        let survivor = Pid::from_raw(survivor as i32).expect("not 0");
        kill_process(survivor, Signal::KILL).expect("it waits");
        hosts.go(1);
        let ended = launched.end().expect(0);
        assert_eq!(lines(&ended), expected("4"), "{}", ended.err);
        let gone = "is lost with its host: the job continues with 2 of its shard";
        assert_eq!(ended.err.matches(gone).count(), 3, "{}", ended.err);
        assert!(ended.err.contains("start again on a"), "{}", ended.err);
    }
}

/// No quorum of a shard is left: the job ends at once, and says what helps.
// EL-1
#[test]
fn without_replicas_a_host_takes_the_job_along() {
    let Some(hosts) = Hosts::new() else { return };
    let options = format!("{LEASE} --spread-loggers");
    let launched = Launched::start(&mut hosts.job(&RANKS, &options, "2"));
    hosts.holds(&launched, 2, 0);
    lose(&hosts, "b");
    let ended = launched.end().expect(75);
    for words in ["event logger 0 is lost with its host", "--event-replicas 3"] {
        assert!(ended.err.contains(words), "{}", ended.err);
    }
    for host in HOSTS {
        hosts.0.agent(host).expect_end();
    }
}

/// With a folder of the job a later run goes on, on other hosts, and each rank has its shard.
// EL-4 JOB-3 JOB-4
#[test]
fn a_later_run_has_the_shards_of_the_first() {
    let Some(hosts) = Hosts::new() else { return };
    let folder = hosts.0.file("job");
    let job = |on, options: &str| {
        let options = format!("{LEASE} --job-dir {} {options}", folder.display());
        Launched::start(&mut hosts.job(&["-n", "4", "--host", on], &options, "2"))
    };
    let launched = job("a:2,b:2", "--spread-loggers");
    hosts.holds(&launched, 2, 0);
    lose(&hosts, "b");
    let first = launched.end().expect(75);
    hosts.go(1);
    // Both shards would have ranks on both hosts.
    let refused = job("c:1,d:2,c:1", "--spread-loggers").end().expect(2);
    let words = "shard 0 has ranks on 2 of 2 hosts";
    assert!(refused.err.contains(words), "{}", refused.err);
    let refused = job("c:2,d:2", "--event-loggers 2").end().expect(2);
    assert!(
        refused.err.contains("--spread-loggers on"),
        "{}",
        refused.err
    );
    let second = job("c:2,d:1,b:1", "--spread-loggers --event-loggers 2")
        .end()
        .expect(0);
    let mut all = [lines(&first), lines(&second)].concat();
    all.sort();
    assert_eq!(all, expected("4"), "{}", second.err);
}

#[test]
fn what_cannot_be_spread_is_refused() {
    let hosts = scripted::Hosts::new();
    for (options, words) in [
        ("-n 2", "all ranks are on one host"),
        ("-n 2 --host a:2,b", "all ranks are on one host"),
        (
            "-n 2 --host a,b --event-replicas 2",
            "leaves 1 for its 2 replicas",
        ),
        (
            "-n 3 --host a,b,c --event-loggers 1",
            "leaves 0 for its 1 replicas",
        ),
        (
            "-n 2 --host a,b,c --service-nodes 1",
            "cannot be combined with --service-nodes",
        ),
        ("-n 2 --host a,b --protocol none", "has no effect"),
        ("-n 2 --host a,b --protocol causal", "has no effect"),
        ("-n 2 --host a,b --event-loggers tcp:h:1", "has no effect"),
    ] {
        let protocol = match options.contains("--protocol") {
            true => "",
            false => "--protocol pessimist",
        };
        let ended = run(&mut hosts.job(&format!("{options} --spread-loggers {protocol}"), "hello"));
        assert_eq!(ended.status, Some(2), "{ended:?}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
    assert!(!hosts.file("agent-a").exists(), "nothing was started");
}
