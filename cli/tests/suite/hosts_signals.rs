//! Signals to a launcher of ranks on other hosts (a script in place of ssh; each "host" is this
//! one).

use crate::launched::{Launched, Process};
use crate::scripted::Hosts;
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

/// Time limit, far longer than any wait here.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
fn expect(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LONGEST, "{what}");
        std::thread::yield_now();
    }
}

fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.expect("it is there").contains(") T ")
}

/// As by Ctrl-Z: messages to agents are sent before the launcher stops.
#[test]
fn ranks_of_other_hosts_stop_with_the_launcher() {
    let hosts = Hosts::new();
    let mut launched = Launched::start(&mut hosts.job("-n 2 --host a,b", "process hang"));
    let lines = launched.wait_for("process", 2);
    let id = |line: &String| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap();
    let ranks: Vec<u32> = lines.iter().map(id).collect();
    launched.signal(Signal::TSTP);
    expect("the launcher stops", || is_stopped(launched.id()));
    expect("the ranks stop", || {
        ranks.iter().all(|rank| is_stopped(*rank))
    });
    launched.signal(Signal::CONT);
    expect("the ranks go on", || {
        !ranks.iter().any(|rank| is_stopped(*rank))
    });
    launched.signal(Signal::TERM);
    assert_eq!(launched.end().status, Some(143));
}

/// An ssh that does not return (a host that drops packets): the user can end the job while it
/// waits.
#[test]
fn a_job_that_waits_for_its_hosts_can_be_interrupted() {
    let hosts = Hosts::with("echo $$ >waits; exec sleep 1000");
    let launched = Launched::start(&mut hosts.job("-n 1 --host a", "hello finalize"));
    let waits = hosts.file("waits");
    expect("ssh is started", || {
        fs::read_to_string(&waits).is_ok_and(|text| text.ends_with('\n'))
    });
    let ssh = Process::of(hosts.text("waits").trim().parse().unwrap());
    launched.signal(Signal::INT);
    let ended = launched.end().expect(130);
    assert!(ended.err.contains("SIGINT"), "{ended:?}");
    ssh.expect_end();
}
