//! Sends and output that wait too long: for loggers that do not answer, or for a full log. The job
//! reports it or continues without them, and never waits for ever.

use crate::launched::{Ended, Launched, refrain};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn job(options: &str, argument: &str) -> Command {
    let refrain_path = PathBuf::from(env!("CARGO_BIN_EXE_refrain"));
    let program = refrain_path
        .with_file_name("examples")
        .join("refrain-test-gated-output");
    let mut command = refrain();
    command
        .args(["run", "--no-prefix", "--protocol", "pessimist"])
        .args(options.split_whitespace())
        .arg("--")
        .arg(program)
        .arg(argument)
        .stdin(Stdio::null());
    command
}

/// The only event logger of a job.
fn logger(launcher: &Launched) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", launcher.id());
    let children = std::fs::read_to_string(children).expect("it runs");
    let is_logger = |id: &&str| {
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"eventlogger")
    };
    let id = children.split_whitespace().find(is_logger);
    Pid::from_raw(id.expect("a logger").parse().expect("a number")).expect("not 0")
}

/// The end of a job whose logger stops before the first event.
fn without_logger(options: &str, argument: &str) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = job(&format!("--event-way messages {options}"), argument);
    command.env("REFRAIN_TEST_FOLDER", folder.path());
    let mut launcher = Launched::start(&mut command);
    launcher.wait_for("begun", 1);
    kill_process(logger(&launcher), Signal::STOP).expect("it runs");
    std::fs::write(folder.path().join("go"), "").expect("a file");
    launcher.end()
}

/// The last events of a rank are sent to no logger that answers: no visible output depends on
/// them, and the job ends.
#[test]
fn a_rank_leaves_though_no_logger_answers() {
    let ended = without_logger("-n 1", "leave").expect(0);
    assert!(ended.out.contains("left"), "{ended:?}");
}

/// A rank that reaches a fence would make its events visible to others.
// GATE-1
#[test]
fn a_fence_is_not_passed_without_loggers() {
    let ended = without_logger("-n 1 --event-wait 0.2", "fence");
    assert_ne!(ended.status, Some(0), "{ended:?}");
    assert!(ended.out.contains("--event-wait"), "{ended:?}");
}

/// A program that only tests waits in no call, and still gets the error: of a full log, and of
/// loggers that do not answer, with any other calls between its tests.
#[test]
fn a_rank_that_only_tests_gets_an_error_about_what_waits() {
    let options = "-n 2 --log-memory 1M --log-disk 0 --log-full stop --log-full-wait 0.2";
    let ended = crate::launched::run(&mut job(options, "test"));
    assert_ne!(ended.status, Some(0), "{ended:?}");
    assert!(ended.out.contains("log of this rank is full"), "{ended:?}");
    for argument in ["probe-even", "probe-odd"] {
        let options = "-n 2 --log-memory 256M --event-wait 0.05";
        let ended = without_logger(options, argument);
        assert_ne!(ended.status, Some(0), "{argument}: {ended:?}");
        assert!(ended.out.contains("--event-wait"), "{argument}: {ended:?}");
    }
}

/// A waiting rank sleeps until there is something for it, also if ranks may be restarted: it
/// checks its launcher ten times a second, and not more often.
#[test]
fn idle_ranks_sleep_until_something_is_for_them() {
    let mut fabrics = vec!["shm"];
    match crate::libfabric::installed::providers(None)
        .iter()
        .any(|name| name.starts_with("tcp"))
    {
        true => fabrics.push("ofi:tcp"),
        false => println!("skipped idle ranks over ofi:tcp: libfabric has no tcp here"),
    }
    for fabric in fabrics {
        let options = format!("-n 2 --fabric {fabric}");
        let ended = crate::launched::run(&mut job(&options, "idle")).expect(0);
        let counts = ended.out.lines().filter_map(|line| {
            let words = line.strip_prefix("slept ")?;
            words.split_once(' ')?.0.parse::<u64>().ok()
        });
        let counts: Vec<u64> = counts.collect();
        assert_eq!(counts.len(), 2, "{ended:?}");
        // 2 s each: 20 checks of the launcher, and some at the beginning of the waits.
        assert!(
            counts.iter().all(|count| *count < 200),
            "{fabric}: {ended:?}"
        );
    }
}
