//! Jobs that are ended from outside: no process is left behind ssh.

use super::jobs::with_ssh;
use super::server::Ssh;
use crate::launched::{Ended, Launched, Process, job};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt as _;

const OPTIONS: &str = "-n 3 --host a:2,b";

/// A job whose ranks run until they are ended.
struct Endless {
    launched: Launched,
    ranks: Vec<Process>,
}

impl Endless {
    fn start(ssh: &Ssh, steps: &str) -> Self {
        let mut command = job(OPTIONS, steps);
        // As a shell starts a foreground process of a terminal.
        let command = with_ssh(&mut command, ssh).process_group(0);
        let mut launched = Launched::start(command);
        let ranks = launched.processes("process", 3);
        assert!(ranks.iter().all(Process::is_running));
        Self { launched, ranks }
    }

    fn expect_ended(self, ssh: &Ssh, status: Option<i32>) -> Ended {
        let ended = self.launched.end();
        assert_eq!(ended.status, status, "{ended:?}");
        self.ranks.iter().for_each(Process::expect_end);
        ssh.expect_nothing_left();
        ended
    }
}

#[test]
fn a_signal_to_the_launcher_ends_the_ranks_behind_ssh() {
    let Some(ssh) = Ssh::start() else { return };
    let job = Endless::start(&ssh, "hello process hang");
    job.launched.signal(Signal::TERM);
    job.expect_ended(&ssh, Some(143));
}

/// A terminal sends Ctrl-C to the launcher's whole process group. The launcher signals the ranks,
/// twice if necessary; if the signal reached ssh, agents would be lost.
#[test]
fn ctrl_c_is_for_the_launcher_and_not_for_ssh() {
    let Some(ssh) = Ssh::start() else { return };
    for (steps, times) in [
        ("hello process hang", 1),
        ("hello ignore-interrupt process hang", 2),
    ] {
        let job = Endless::start(&ssh, steps);
        let group = Pid::from_raw(job.launched.id() as i32).expect("not 0");
        for _ in 0..times {
            kill_process_group(group, Signal::INT).expect("it runs");
        }
        let ended = job.expect_ended(&ssh, Some(130));
        assert!(!ended.err.contains("lost"), "{ended:?}");
    }
}

#[test]
fn a_killed_launcher_leaves_no_process_behind_ssh() {
    let Some(ssh) = Ssh::start() else { return };
    for steps in ["process hang", "hello ignore-term process hang"] {
        let job = Endless::start(&ssh, steps);
        let agents = ssh.agents();
        job.launched.signal(Signal::KILL);
        assert_eq!(agents.len(), 2);
        agents.iter().for_each(Process::expect_end);
        job.expect_ended(&ssh, None);
    }
}
