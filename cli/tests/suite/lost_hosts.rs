//! Hosts that are lost while their job runs (a script in place of ssh; each "host" is this one, with
//! its own agent): their ranks start again on other hosts.

use crate::launched::{Ended, Launched, Process, refrain, run};
use crate::libfabric::installed::has;
use crate::scripted;
use crate::two_hosts;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Ranks 0 and 1 are on a, 2 on b.
const RANKS: [&str; 4] = ["-n", "3", "--host", "a:2,b"];
pub const LEASE: &str = "--host-lease 3";

/// Hosts, with a folder for the files of a job.
pub struct Hosts(pub scripted::Hosts);

impl Hosts {
    /// `None`, with the reason printed, if messages cannot leave a host.
    pub fn new() -> Option<Self> {
        Self::with(r#"echo $$ >"agent-$host"; exec "$@""#)
    }

    fn with(script: &str) -> Option<Self> {
        has(None, "tcp").then(|| Self(scripted::Hosts::with(script)))
    }

    /// A job in which the ranks of `holders` wait in the middle.
    pub fn job(&self, ranks: &[&str], options: &str, holders: &str) -> Command {
        self.job_of(refrain(), ranks, options, holders)
    }

    /// As [`job`](Self::job), with this launcher.
    fn job_of(&self, launcher: Command, ranks: &[&str], options: &str, holders: &str) -> Command {
        let mut command = launcher;
        command
            .arg("run")
            .args(ranks)
            .arg("--ssh")
            .arg(self.0.file("ssh"))
            .args([
                "--no-prefix",
                "--fabric",
                "ofi:tcp",
                "--protocol",
                "pessimist",
            ])
            .args(options.split_whitespace())
            .arg("--")
            .arg(program())
            .arg("hold")
            .arg(self.0.file(""))
            .args(holders.split_whitespace());
        command
    }

    /// Waits until a life of a rank waits in the middle; returns the id of its process.
    #[track_caller]
    pub fn holds(&self, launched: &Launched, rank: u32, life: u32) -> u32 {
        let file = self.0.file(&format!("holds-{rank}-{life}"));
        while !file.exists() {
            assert!(launched.is_running(), "the job ended before {file:?}");
            std::thread::yield_now();
        }
        fs::read_to_string(file).unwrap().parse().unwrap()
    }

    pub fn go(&self, life: u32) {
        fs::write(self.0.file(&format!("go-{life}")), "").unwrap();
    }

    /// Kills a host: its agent, and so its ranks, when `rank` waits in the middle. Its next life does
    /// not wait.
    pub fn lose(&self, launched: &Launched, host: &str, rank: u32) {
        let process = Process::of(self.holds(launched, rank, 0));
        self.go(1);
        let agent = self.0.agent(host);
        agent.kill();
        agent.expect_end();
        process.expect_end();
    }
}

fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.expect("it is there").contains(") T ")
}

pub fn program() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_refrain"));
    folder
        .with_file_name("examples")
        .join("refrain-test-survivor")
}

/// The output of the same job on this host, in which no rank waits.
pub fn expected(ranks: &str) -> Vec<String> {
    let mut alone = refrain();
    alone.args(["run", "-n", ranks, "--no-prefix", "--"]);
    alone.arg(program()).args(["hold", "/", "7"]);
    lines(&run(&mut alone).expect(0))
}

pub fn lines(ended: &Ended) -> Vec<String> {
    let mut lines: Vec<String> = ended.out.lines().map(Into::into).collect();
    lines.sort();
    lines
}

#[track_caller]
pub fn expect_moved(ended: &Ended, ranks: &[u32], to: &str) {
    assert_eq!(lines(ended), expected("3"), "{}", ended.err);
    let words = format!("start again on {to}");
    assert!(ended.err.contains(&words), "{}", ended.err);
    for rank in ranks {
        let words =
            format!("rank {rank} was killed by SIGKILL (incarnation 0, as its host was lost)");
        assert!(ended.err.contains(&words), "{}", ended.err);
    }
}

// REC-1
#[test]
fn a_spare_host_takes_the_ranks_of_a_lost_one() {
    let Some(hosts) = Hosts::new() else { return };
    let ranks = ["-n", "3", "--host", "a:2,b,c", "--spare-nodes", "1"];
    let launched = Launched::start(&mut hosts.job(&ranks, LEASE, "2"));
    hosts.holds(&launched, 2, 0);
    assert!(!hosts.0.file("agent-c").exists(), "it is spare");
    hosts.lose(&launched, "b", 2);
    expect_moved(&launched.end().expect(0), &[2], "c");
    hosts.0.agent("c").expect_end();
}

/// Several ranks die at once, and the least busy of the other hosts takes them.
#[test]
fn without_a_spare_host_another_one_takes_the_ranks() {
    let Some(hosts) = Hosts::new() else { return };
    let launched = Launched::start(&mut hosts.job(&RANKS, LEASE, "0"));
    hosts.lose(&launched, "a", 0);
    expect_moved(&launched.end().expect(0), &[0, 1], "b");
}

#[test]
fn a_spare_host_that_cannot_be_used_is_passed_over() {
    let script = r#"[ "$host" != c ] || exit 255; echo $$ >"agent-$host"; exec "$@""#;
    let Some(hosts) = Hosts::with(script) else {
        return;
    };
    let ranks = ["-n", "3", "--host", "a:2,b,c,d", "--spare-nodes", "2"];
    let launched = Launched::start(&mut hosts.job(&ranks, LEASE, "2"));
    hosts.lose(&launched, "b", 2);
    let ended = launched.end().expect(0);
    expect_moved(&ended, &[2], "c");
    assert!(ended.err.contains("start on d instead"), "{}", ended.err);
}

#[test]
fn the_last_host_takes_the_job_along() {
    let Some(hosts) = Hosts::new() else { return };
    let ranks = ["-n", "3", "--host", "a:3"];
    let launched = Launched::start(&mut hosts.job(&ranks, LEASE, "2"));
    hosts.lose(&launched, "a", 2);
    let ended = launched.end().expect(75);
    assert!(ended.err.contains("no host is left"), "{}", ended.err);
    assert!(ended.err.contains("--spare-nodes"), "{}", ended.err);
}

/// The host is only stopped, for longer than its lease. When it continues, its ranks have later lives
/// elsewhere: it ends them. FENCE-1, FENCE-2
#[test]
fn a_host_that_was_stopped_ends_its_ranks() {
    let Some(hosts) = Hosts::new() else { return };
    let launched = Launched::start(&mut hosts.job(&RANKS, LEASE, "2"));
    let rank = hosts.holds(&launched, 2, 0);
    let agent: u32 = hosts.0.text("agent-b").trim().parse().unwrap();
    let stopped = [agent, rank].map(|id| Pid::from_raw(id as i32).unwrap());
    let processes = [agent, rank].map(Process::of);
    for id in stopped {
        kill_process(id, Signal::STOP).unwrap();
    }
    hosts.holds(&launched, 2, 1);
    assert!(
        processes.iter().all(Process::is_running),
        "they are stopped"
    );
    for id in stopped.iter().rev() {
        kill_process(*id, Signal::CONT).unwrap();
    }
    processes.iter().for_each(Process::expect_end);
    hosts.go(1);
    let ended = launched.end().expect(0);
    expect_moved(&ended, &[2], "a");
    assert!(ended.err.contains("no answer for 3 s"), "{}", ended.err);
}

/// The host lives, but no message gets through any more. Its ranks have stopped before their next lives
/// begin. FENCE-1, FENCE-2
#[test]
fn a_host_that_is_cut_off_stops_its_ranks() {
    let Some(cable) = two_hosts::Hosts::make() else {
        return;
    };
    // The end of ssh's standard input does not get through either.
    let script = format!(
        r#"echo $$ >"agent-$host"
        [ "$host" = b ] || exec "$@"
        read -r line; mkfifo pipe; exec 9<>pipe; echo "$line" >&9
        exec nsenter --net=/run/netns/{}-1 "$@" <&9"#,
        cable.name
    );
    let Some(hosts) = Hosts::with(&script) else {
        return;
    };
    let launcher = cable.enter(0, env!("CARGO_BIN_EXE_refrain"));
    let launched = Launched::start(&mut hosts.job_of(launcher, &RANKS, LEASE, "2"));
    let rank = hosts.holds(&launched, 2, 0);
    cable.cut();
    hosts.holds(&launched, 2, 1);
    assert!(is_stopped(rank), "its next life runs");
    // Otherwise it would end some seconds later.
    hosts.0.agent("b").kill();
    Process::of(rank).expect_end();
    hosts.go(1);
    expect_moved(&launched.end().expect(0), &[2], "a");
}

/// Agents stop ranks when the launcher is silent for a lease, and let them go on when it answers.
#[test]
fn a_job_outlasts_a_launcher_that_was_stopped() {
    let Some(hosts) = Hosts::new() else { return };
    let launched = Launched::start(&mut hosts.job(&RANKS, LEASE, "2"));
    let rank = hosts.holds(&launched, 2, 0);
    launched.signal(Signal::STOP);
    while !is_stopped(rank) {
        std::thread::yield_now();
    }
    launched.signal(Signal::CONT);
    while is_stopped(rank) {
        std::thread::yield_now();
    }
    hosts.go(0);
    let ended = launched.end().expect(0);
    assert_eq!(lines(&ended), expected("3"), "{}", ended.err);
    assert!(!ended.err.contains("lost"), "{}", ended.err);
}

#[test]
fn options_without_sense_are_refused() {
    let hosts = scripted::Hosts::new();
    for (options, words) in [
        ("-n 1 --spare-nodes 1", "runs on this host alone"),
        (
            "-n 1 --host a --spare-nodes 1 --protocol pessimist",
            "the job has 1 host",
        ),
        (
            "-n 2 --host a,b,c --spare-nodes 2 --protocol pessimist",
            "2 ranks do not fit on 1 host",
        ),
        (
            "-n 1 --host a,b --spare-nodes 1",
            "no effect without restarts",
        ),
        ("-n 1 --host a --host-lease 0.5", "--host-lease 0.5"),
    ] {
        let ended = run(&mut hosts.job(options, "hello"));
        assert!(matches!(ended.status, Some(1 | 2)), "{ended:?}");
        assert!(ended.err.contains(words), "{ended:?}");
    }
    assert!(!hosts.file("agent-a").exists(), "nothing was started");
}

// LOG-4
#[test]
fn ranks_go_on_elsewhere_only_from_checkpoints_that_are_there() {
    let Some(hosts) = Hosts::new() else { return };
    let files = hosts.0.file("files");
    fs::create_dir(&files).unwrap();
    let shared = format!("{LEASE} --stats --checkpoint-dir {}", files.display());
    let launched = Launched::start(&mut hosts.job(&RANKS, &shared, "2 4"));
    hosts.lose(&launched, "b", 2);
    expect_moved(&launched.end().expect(0), &[2], "a");
    assert_eq!(
        fs::read_dir(&files).unwrap().count(),
        0,
        "checkpoints go with the job"
    );

    let Some(hosts) = Hosts::new() else { return };
    // Each agent has a folder of its own.
    let launched = Launched::start(&mut hosts.job(&RANKS, LEASE, "2 4"));
    hosts.lose(&launched, "b", 2);
    let ended = launched.end().expect(1);
    for words in [
        "rank 2 was started again on another host",
        "--checkpoint-dir",
    ] {
        assert!(ended.err.contains(words), "{}", ended.err);
    }
}
