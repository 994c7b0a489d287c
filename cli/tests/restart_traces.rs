//! Fifty restarts leave no open descriptor and no unreaped child in the launcher. The test has its
//! own process, since it counts those of the process.

#[path = "suite/embedded/spec.rs"]
mod spec;

use refrain_launch::Job;
use spec::restarting;
use std::fs;
use std::time::Duration;

/// Number of descriptors and children of this process while a job runs whose rank 1 has died a
/// number of times.
fn left_after(deaths: u32) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let steps = format!(
        "address later:begin=0 first:ask later:meet later:recovered=1 1:die={deaths}{path}/d \
         0:wait-up=1.{deaths} 0:touch={path}/done fence 1:hang hang"
    );
    let steps = match deaths {
        0 => steps.replace("0:wait-up=1.0 ", ""),
        _ => steps,
    };
    let mut job = Job::start(restarting(2, 100, &steps)).unwrap();
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
