//! `refrain run --host` with a script in place of ssh: each "host" is this one, with its own
//! agent.

use crate::launched::{Launched, Process, run};
use crate::scripted::Hosts;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

#[test]
fn output_statuses_and_fences_are_as_on_one_host() {
    let hosts = Hosts::new();
    // More than is in flight at a time.
    let steps = "say=a 1:lines=9000 complain=woe fence 2:mutter=unfinished finalize";
    let ended = run(&mut hosts.job("-n 3 --host a:2,b", steps)).expect(0);
    for rank in 0..3 {
        let lines = ended.of_rank(rank);
        assert_eq!(lines[0], "a");
        assert_eq!(lines.len(), [1, 9001, 2][rank as usize], "{rank}");
    }
    assert_eq!(ended.of_rank(2)[1], "unfinished");
    assert_eq!(ended.err.matches("woe").count(), 3, "{}", ended.err);
    let ended = run(&mut hosts.job("-n 2 --host a,b", "hello 1:exit=7 hang")).expect(7);
    assert!(
        ended.err.contains("rank 1 exited with status 7"),
        "{ended:?}"
    );
    let killed = "hello 0:kill-myself=9 hang";
    let ended = run(&mut hosts.job("-n 2 --host a,b", killed)).expect(137);
    assert!(
        ended.err.contains("rank 0 was killed by SIGKILL"),
        "{ended:?}"
    );
}

/// A reader that waits until no process can continue, and then reads everything at once.
#[test]
fn output_continues_when_all_that_waits_is_read_at_once() {
    let hosts = Hosts::new();
    let steps = "process lines=9000 fence finalize";
    let mut launched = Launched::start(&mut hosts.job("-n 3 --host a:2,b", steps));
    let ranks = launched.wait_for("process", 3);
    let states: Vec<String> = ranks
        .iter()
        .map(|line| format!("/proc/{}/stat", line.rsplit(' ').next().unwrap()))
        .collect();
    // All are asleep at each check: they write, and the output is not read.
    let sleeps = |file: &String| fs::read_to_string(file).unwrap().contains(") S ");
    let mut looks = 0;
    while looks < 3000 {
        looks = if states.iter().all(sleeps) {
            looks + 1
        } else {
            0
        };
        std::thread::yield_now();
    }
    // Room for everything that the launcher buffers, in one write.
    rustix::pipe::fcntl_setpipe_size(launched.out().get_ref(), 1 << 20).unwrap();
    let ended = launched.end().expect(0);
    for rank in 0..3 {
        assert_eq!(ended.of_rank(rank).len(), 9001);
    }
}

/// Memory is passed between ranks of one agent, as without agents.
#[test]
fn memory_is_shared_on_each_host() {
    let hosts = Hosts::new();
    run(&mut hosts.job("-n 3 --host a:3", "exchange=5 finalize")).expect(0);
}

/// The file of a job of PBS has a line for each task.
#[test]
fn nodes_of_pbs_get_a_rank_for_each_line() {
    let hosts = Hosts::new();
    let file = hosts.file("nodes");
    fs::write(&file, "a\nb\na\n").unwrap();
    let job = |options: &str, steps: &str| {
        let mut command = hosts.job(options, steps);
        command
            .env("PBS_JOBID", "7.here")
            .env("PBS_NODEFILE", &file);
        // The machine of the tests may have a Slurm.
        command.env_remove("SLURM_JOB_ID");
        command
    };
    for options in ["", "--launcher pbs"] {
        let ended = run(&mut job(options, "say=hello fence finalize")).expect(0);
        assert_eq!(ended.out.matches("hello").count(), 3, "{options}");
    }
    assert!(hosts.file("agent-a").exists() && hosts.file("agent-b").exists());
    let ended = run(&mut job("-n 4", "hello finalize")).expect(2);
    let words = "4 ranks are asked for, and the job 7.here of PBS has 2 nodes with 3 tasks";
    assert!(ended.err.contains(words), "{}", ended.err);
    let ended = run(&mut job("--launcher pbs --host a", "hello finalize")).expect(2);
    assert!(ended.err.contains("-l of qsub"), "{}", ended.err);
    // This host needs no ssh.
    let nodename = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    fs::write(&file, format!("{nodename}.some.domain\n{nodename}\n")).unwrap();
    fs::remove_file(hosts.file("agent-a")).unwrap();
    let mut by_no_ssh = job("", "say=hello fence finalize");
    by_no_ssh.env("REFRAIN_SSH", "false");
    let ended = run(&mut by_no_ssh).expect(0);
    assert_eq!(ended.out.matches("hello").count(), 2);
    fs::remove_file(&file).unwrap();
    let ended = run(&mut job("", "hello finalize")).expect(2);
    assert!(ended.err.contains("nodes"), "{}", ended.err);
    let ended = run(hosts
        .job("-n 1 --launcher pbs", "hello")
        .env_remove("PBS_JOBID"))
    .expect(2);
    assert!(ended.err.contains("use qsub"), "{}", ended.err);
}

/// With a script in place of `flux`: two brokers, the second with two cores.
#[test]
fn nodes_of_flux_get_a_rank_for_each_core() {
    let hosts = Hosts::new();
    let flux = "#!/bin/bash
cd \"${0%/*}\"
case $1 in
resource) cat resources ;;
exec) echo $$ >\"agent-$3\"; shift 3; exec \"$@\" ;;
esac
";
    fs::write(hosts.file("flux"), flux).unwrap();
    fs::set_permissions(hosts.file("flux"), fs::Permissions::from_mode(0o700)).unwrap();
    let resources = r#"{"execution": {"nodelist": ["n[1-2]"], "R_lite": [
        {"rank": "0", "children": {"core": "4"}}, {"rank": "7", "children": {"core": "0-1"}}]}}"#;
    fs::write(hosts.file("resources"), resources).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", hosts.file("").display());
    let job = |options: &str, steps: &str| {
        let mut command = hosts.job(options, steps);
        command.env("PATH", &path).env("FLUX_URI", "local:///here");
        for other in ["SLURM_JOB_ID", "FLUX_JOB_ID"] {
            command.env_remove(other);
        }
        command
    };
    for options in ["", "--launcher flux"] {
        let ended = run(&mut job(options, "say=hello fence finalize")).expect(0);
        assert_eq!(ended.out.matches("hello").count(), 3, "{options}");
    }
    assert!(hosts.file("agent-0").exists() && hosts.file("agent-7").exists());
    let ended = run(&mut job("-n 4", "hello finalize")).expect(2);
    let words = "4 ranks are asked for, and the Flux instance has 2 nodes with 3 tasks";
    assert!(ended.err.contains(words), "{}", ended.err);
    let ended = run(&mut job("--launcher flux --host a", "hello finalize")).expect(2);
    assert!(ended.err.contains("leave out --host"), "{}", ended.err);
    // A part of an instance: its other nodes are not this job's.
    let ended = run(job("-n 1 --launcher flux", "hello").env("FLUX_JOB_ID", "f1")).expect(2);
    assert!(ended.err.contains("flux alloc"), "{}", ended.err);
    fs::write(hosts.file("resources"), "none").unwrap();
    let ended = run(&mut job("", "hello finalize")).expect(2);
    assert!(ended.err.contains("printed \"none\""), "{}", ended.err);
    fs::write(hosts.file("flux"), "#!/bin/bash\necho broken >&2; exit 3\n").unwrap();
    let ended = run(&mut job("", "hello finalize")).expect(2);
    assert!(ended.err.contains("broken"), "{}", ended.err);
    fs::remove_file(hosts.file("flux")).unwrap();
    let ended = run(job("", "hello finalize").env("PATH", hosts.file(""))).expect(2);
    assert!(ended.err.contains("cannot be run"), "{}", ended.err);
}

#[test]
fn a_host_without_ranks_gets_no_agent() {
    let hosts = Hosts::new();
    run(&mut hosts.job("-n 1 --host a,b", "hello finalize")).expect(0);
    assert!(hosts.file("agent-a").exists() && !hosts.file("agent-b").exists());
}

#[test]
fn a_killed_launcher_leaves_no_process_on_any_host() {
    let hosts = Hosts::new();
    for steps in ["process hang", "hello ignore-term process hang"] {
        let mut launched = Launched::start(&mut hosts.job("-n 3 --host a:2,b", steps));
        let ranks = launched.processes("process", 3);
        let agents = ["a", "b"].map(|host| hosts.agent(host));
        assert!(ranks.iter().chain(&agents).all(Process::is_running));
        launched.signal(Signal::KILL);
        ranks.iter().chain(&agents).for_each(Process::expect_end);
        assert_eq!(launched.end().status, None);
    }
}

#[test]
fn a_lost_agent_takes_its_ranks_and_ends_the_job() {
    let hosts = Hosts::new();
    let mut launched = Launched::start(&mut hosts.job("-n 3 --host a:2,b", "hello process hang"));
    let ranks = launched.processes("process", 3);
    let agent = hosts.agent("b");
    agent.kill();
    agent.expect_end();
    let ended = launched.end().expect(75);
    ranks.iter().for_each(Process::expect_end);
    hosts.agent("a").expect_end();
    assert!(
        ended
            .err
            .contains("host b: the connection to the agent is lost"),
        "{ended:?}"
    );
    assert!(ended.err.contains("(2)"), "{ended:?}");
}

#[test]
fn an_interrupted_job_ends_on_all_hosts() {
    let hosts = Hosts::new();
    let steps = "hello ignore-term process hang";
    let mut launched = Launched::start(&mut hosts.job("-n 2 --host a,b", steps));
    let ranks = launched.processes("process", 2);
    launched.signal(Signal::TERM);
    launched.signal(Signal::TERM);
    assert_eq!(launched.end().status, Some(143));
    ranks.iter().for_each(Process::expect_end);
    ["a", "b"]
        .iter()
        .for_each(|host| hosts.agent(host).expect_end());
}

/// The launcher has three open files for each of its hosts.
#[test]
fn many_hosts_need_no_higher_limit_of_open_files() {
    let hosts = Hosts::new();
    let names: Vec<String> = (0..12).map(|host| format!("h{host}")).collect();
    let options = format!("-n 12 --host {}", names.join(","));
    let job = hosts.job(&options, "hello finalize");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -Sn 32; exec "$@""#, "sh"]);
    command.arg(job.get_program()).args(job.get_args());
    command.stdin(std::process::Stdio::null());
    let ended = run(&mut command).expect(0);
    assert_eq!(ended.out.lines().count(), 12, "{ended:?}");
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let hosts = Hosts::with(r#"[ "$host" != b ] || exit 255; exec "$@""#);
    let ended = run(&mut hosts.job("-n 2 --host a,b", "hello finalize")).expect(2);
    // The command that was tried, across the end of a line.
    let words = ["host b", "status 255", "/ssh b true`"];
    assert!(
        words.iter().all(|word| ended.err.contains(word)),
        "{ended:?}"
    );
    let ended = run(&mut hosts.job("-n 2 --host a --fabric auto", "hello")).expect(2);
    assert!(ended.err.contains("do not fit"), "{ended:?}");
    let file = hosts.file("list");
    fs::write(&file, "a\nb slot=3\n").unwrap();
    let ended = run(&mut hosts.job(&format!("-n 2 --hostfile {}", file.display()), "hello"));
    assert!(
        ended.status == Some(2) && ended.err.contains("list:2"),
        "{ended:?}"
    );
}

#[test]
fn what_does_not_work_over_hosts_is_refused() {
    let hosts = Hosts::new();
    for option in [
        "--gate-output --protocol pessimist",
        "--fabric shm",
        "--suspect-ranks-after 3",
    ] {
        let ended = run(&mut hosts.job(&format!("-n 1 --host a {option}"), "hello")).expect(2);
        assert!(ended.err.contains("--host"), "{ended:?}");
    }
    assert!(!hosts.file("agent-a").exists(), "nothing was started");
}

/// Other clients connect before the agent: one sends something else, one has another secret, and
/// one sends nothing and stays. None gets an answer, and the job runs.
#[test]
fn strangers_at_the_door_get_nothing_and_block_no_agent() {
    let hosts = Hosts::with(
        r#"read -r line
        words=($line)
        port=${words[5]}
        exec 7<>/dev/tcp/127.0.0.1/$port
        exec 8<>/dev/tcp/127.0.0.1/$port
        printf 'GET / HTTP/1.1\r\n\r\n' >&8
        cat <&8 >told 2>/dev/null
        wrong=${line/${words[4]}/$(printf '%064d' 7)}
        mkfifo pipe; exec 9<>pipe; echo "$wrong" >&9
        "$@" <&9 2>wrong
        echo $? >status
        { echo "$line"; cat; } | "$@" 7>&- 8>&- 9>&-
        cat <&7 >silent 2>/dev/null; true"#,
    );
    let ended = run(&mut hosts.job("-n 1 --host a", "say=in hello finalize")).expect(0);
    assert_eq!(ended.of_rank(0)[0], "in");
    assert_eq!(hosts.text("told"), "");
    assert_eq!(hosts.text("silent"), "");
    assert_eq!(hosts.text("status"), "1\n");
    assert!(
        hosts.text("wrong").contains("cannot be reached"),
        "{}",
        hosts.text("wrong")
    );
}

/// The secret is passed over standard input: no command line and no environment has it.
#[test]
fn no_process_shows_the_secret() {
    let hosts = Hosts::with(r#"read -r line; echo "$line" >line; { echo "$line"; cat; } | "$@""#);
    let mut launched = Launched::start(&mut hosts.job("-n 1 --host a", "process hang"));
    let rank = launched.processes("process", 1);
    let line = hosts.text("line");
    let secret = line.split(' ').nth(4).unwrap();
    assert_eq!(secret.len(), 64);
    let (mut seen, mut launcher) = (0, false);
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            seen += usize::from(!bytes.is_empty());
            launcher |= shows(&bytes, "--host\0a");
            assert!(!shows(&bytes, secret), "{}", entry.path().display());
        }
    }
    assert!(seen > 2 && launcher, "something was looked at");
    launched.signal(Signal::TERM);
    assert_eq!(launched.end().status, Some(143));
    rank[0].expect_end();
}

fn shows(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// A user who starts `refrain agent` by hand gets an explanation.
#[test]
fn an_agent_without_a_launcher_fails() {
    let mut command = crate::launched::refrain();
    command.arg("agent").stdin(std::process::Stdio::null());
    let ended = run(&mut command).expect(1);
    assert!(ended.err.contains("refrain run"), "{ended:?}");
}
