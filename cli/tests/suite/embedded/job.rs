//! Jobs driven by a program that embeds the launcher.

use super::spec::spec;
use refrain_job::JobError;
use refrain_launch::LaunchError;
use refrain_launch::{Job, JobSpec, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

fn outcome(spec: JobSpec) -> Outcome {
    Job::start(spec).unwrap().wait().unwrap()
}

fn good() -> Outcome {
    Outcome {
        status: 0,
        failure: None,
        statistics: Vec::new(),
        recoveries: Vec::new(),
        checkpoints: Vec::new(),
    }
}

fn descriptors_of(processes: &[u32]) -> Vec<OwnedFd> {
    let open =
        |id: &u32| pidfd_open(Pid::from_raw(*id as i32).unwrap(), PidfdFlags::empty()).unwrap();
    processes.iter().map(open).collect()
}

/// All ranks have ended and are reaped.
fn have_ended(processes: &[OwnedFd]) -> bool {
    processes.iter().all(|process| {
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        poll(
            &mut polled,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        ) == Ok(1)
    })
}

#[test]
fn a_job_can_be_served_bit_by_bit() {
    let mut job = Job::start(spec(3, "exchange=5 finalize")).unwrap();
    let mut rounds = 0;
    let outcome = loop {
        rounds += 1;
        if let Some(outcome) = job.serve(Duration::ZERO).unwrap() {
            break outcome;
        }
    };
    assert_eq!(outcome, good());
    assert!(rounds > 1, "processes do not come and go in no time");
    assert_eq!(
        job.serve(Duration::MAX).unwrap(),
        Some(good()),
        "what is over stays over"
    );
    assert!(job.processes().is_empty());
}

#[test]
fn serve_comes_back_while_ranks_run() {
    let mut job = Job::start(spec(2, "hang")).unwrap();
    assert_eq!(job.serve(Duration::from_millis(1)).unwrap(), None);
    let processes = job.processes();
    assert_eq!(processes.len(), 2);
    assert!(!have_ended(&descriptors_of(&processes)));
}

#[test]
fn dropping_a_job_kills_and_reaps_its_ranks() {
    let mut job = Job::start(spec(3, "ignore-term grandchild hang")).unwrap();
    job.serve(Duration::from_millis(1)).unwrap();
    let ids = job.processes();
    let processes = descriptors_of(&ids);
    drop(job);
    assert!(have_ended(&processes));
    for id in ids {
        let group = Pid::from_raw(id as i32).unwrap();
        // A grandchild, adopted by init, may still be ending: only children of this process must
        // be reaped.
        assert!(
            rustix::process::waitpid(Some(group), rustix::process::WaitOptions::NOHANG).is_err()
        );
    }
}

#[test]
fn extra_descriptors_reach_their_rank_alone() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"treasure").unwrap();
    let mut with = spec(
        3,
        "1:holds=TREASURE/treasure 0:lacks=TREASURE 2:lacks=TREASURE",
    );
    with.descriptors = vec![(1, "TREASURE".into(), file.reopen().unwrap().into())];
    assert_eq!(outcome(with), good());

    let mut without = spec(3, "1:holds=TREASURE/other");
    without.descriptors = vec![(1, "TREASURE".into(), file.reopen().unwrap().into())];
    assert_eq!(outcome(without).status, 101, "the check above can fail");
}

#[test]
fn the_environment_is_added() {
    let mut spec = spec(2, "lacks=NOT_ADDED lacks=ADDED");
    spec.environment = vec![("ADDED".into(), "1".into())];
    assert_eq!(outcome(spec).status, 101);
}

#[test]
fn a_failure_names_the_cause_not_its_consequences() {
    // Rank 0 fails because the launcher informs it that rank 2 was killed.
    for _ in 0..10 {
        let outcome = outcome(spec(3, "0:ignore-term hello fence 2:kill-myself=9 fence"));
        assert_eq!(outcome.status, 137);
        assert!(
            outcome
                .failure
                .unwrap()
                .contains("rank 2 was killed by SIGKILL")
        );
    }
}

#[test]
fn a_rank_that_does_not_stop_is_killed() {
    let outcome = outcome(spec(
        2,
        "0:ignore-term 0:put=ready 0:hang get=ready 1:exit=8",
    ));
    assert_eq!(outcome.status, 8);
}

#[test]
fn settings_outside_their_limits_are_refused_before_anything_starts() {
    let refused = |spec| match Job::start(spec) {
        Ok(_) => panic!("it must not start"),
        Err(error) => error,
    };
    assert!(
        matches!(refused(spec(0, "")), LaunchError::Job(JobError::Argument(text)) if text.contains("4096"))
    );
    assert!(
        matches!(refused(spec(100_000, "")), LaunchError::Job(JobError::Argument(text)) if text.contains("4096"))
    );
    let mut bad = spec(1, "");
    bad.config.fabric = "warp".into();
    assert!(
        matches!(refused(bad), LaunchError::Job(JobError::Config(text)) if text.contains("auto, shm"))
    );
    let mut bad = spec(1, "");
    bad.programs[0].path = "/no/such/program".into();
    assert!(matches!(
        refused(bad),
        LaunchError::Program { found: false, .. }
    ));
    let mut bad = spec(2, "");
    bad.descriptors = vec![(2, "X".into(), tempfile::tempfile().unwrap().into())];
    assert!(
        matches!(refused(bad), LaunchError::Job(JobError::Argument(text)) if text.contains("rank 2"))
    );
}
