//! Fifty restarts leave no open descriptor and no unreaped child in the launcher. The test has its
//! own process, since it counts those of the process.

use refrain_job::choice::events::Loggers;
use refrain_job::config::{JobConfig, RecoveryConfig};
use refrain_launch::{EventLoggerSpec, FaultSpec, Job, JobSpec, Output};
use std::fs;
use std::time::Duration;

/// Number of descriptors and children of this process while a job runs whose rank 1 has died a
/// number of times.
fn left_after(deaths: u32) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.set_file_name("examples");
    let path = folder.path().display();
    let steps = format!(
        "address later:begin=0 first:ask later:meet later:recovered=1 1:die={deaths}{path}/d \
         0:wait-up=1.{deaths} 0:touch={path}/done fence 1:hang hang"
    );
    let steps = match deaths {
        0 => steps.replace("0:wait-up=1.0 ", ""),
        _ => steps,
    };
    let mut job = Job::start(JobSpec {
        program: program.join("refrain-test-rank"),
        arguments: steps.split_whitespace().map(Into::into).collect(),
        environment: Vec::new(),
        ranks: 2,
        config: JobConfig {
            protocol: "pessimist".into(),
            recovery: RecoveryConfig {
                max_restarts: 100,
                ..RecoveryConfig::default()
            },
            ..JobConfig::default()
        },
        output: Output::Plain,
        pin: false,
        descriptors: Vec::new(),
        event_loggers: EventLoggerSpec {
            loggers: Loggers::Running(vec![vec!["unix:/nowhere".parse().unwrap()]]),
            ..EventLoggerSpec::default()
        },
        faults: FaultSpec::default(),
        hosts: refrain_launch::HostsSpec::default(),
    })
    .unwrap();
    let done = folder.path().join("done");
    while !done.exists() {
        assert_eq!(job.serve(Duration::from_millis(5)).unwrap(), None);
    }
    // Rank 1 has sent everything when it is in the fence.
    for _ in 0..20 {
        assert_eq!(job.serve(Duration::from_millis(5)).unwrap(), None);
    }
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .map(|children| children.split_whitespace().count())
        .sum();
    (descriptors, children)
}

#[test]
fn fifty_restarts_leave_no_trace() {
    let before = left_after(0);
    assert_eq!(before.1, 2, "two ranks");
    assert_eq!(left_after(50), before);
}
