//! Killed ranks are restarted. The ranks speak the control protocol as a later life does, and
//! check the launcher's messages.

use super::spec::restarting;
use refrain_job::JobError;
use refrain_launch::LaunchError;
use refrain_launch::{Cause, Job, JobSpec, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A job of the test program with a folder for its files, for which `$` stands in `steps`, which
/// are separated by blanks.
struct Play {
    folder: TempDir,
    spec: JobSpec,
}

impl Play {
    fn new(ranks: u32, max_restarts: u32, steps: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let spec = restarting(ranks, max_restarts, &steps.replace('$', path));
        Self { folder, spec }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the job; the folder is kept.
    fn run(self) -> (TempDir, Outcome) {
        let outcome = Job::start(self.spec).unwrap().wait().unwrap();
        (self.folder, outcome)
    }
}

/// The job ends well after the deaths of these lives: (rank, incarnation), in any order.
#[track_caller]
fn expect_good(outcome: &Outcome, deaths: &[(u32, u32)]) {
    assert_eq!(
        (outcome.status, &outcome.failure),
        (0, &None),
        "{outcome:?}"
    );
    let mut died: Vec<(u32, u32)> = outcome
        .recoveries
        .iter()
        .map(|recovery| (recovery.rank, recovery.incarnation))
        .collect();
    died.sort_unstable();
    assert_eq!(died, deaths, "{outcome:?}");
}

fn deaths(folder: &Path, name: &str) -> u64 {
    fs::metadata(folder.join(name)).map_or(0, |file| file.len())
}

fn serve_until(job: &mut Job, mut done: impl FnMut(&Job) -> bool) {
    while !done(job) {
        let over = job.serve(Duration::from_millis(5)).unwrap();
        assert_eq!(over, None, "it ends too early");
    }
}

fn descriptor_of(process: u32) -> OwnedFd {
    let process = Pid::from_raw(process as i32).unwrap();
    pidfd_open(process, PidfdFlags::empty()).unwrap()
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&now)) == Ok(1)
}

/// Steps of a rank after its start-up, in any life.
const START: &str = "address first:ask later:begin=0 later:meet later:recovered=7";

// REC-1, REC-6
#[test]
fn a_rank_that_is_killed_comes_again_wherever_it_was() {
    for (name, steps) in [
        ("before hello", format!("1:die=1/$/d {START} last-fence")),
        (
            "behind hello",
            format!("hello 1:die=1/$/d {START} last-fence"),
        ),
        (
            "behind its address",
            format!("address 1:die=1/$/d {START} last-fence"),
        ),
        (
            "running",
            format!("{START} 1:die=1/$/d 0:wait-down=1.0 0:wait-up=1.1 2:wait-up=1.1 last-fence"),
        ),
    ] {
        let (_folder, outcome) = Play::new(3, 8, &steps).run();
        expect_good(&outcome, &[(1, 0)]);
        let recovery = &outcome.recoveries[0];
        assert_eq!(
            (recovery.signal, recovery.cause),
            (9, Cause::Unknown),
            "{name}"
        );
        assert_eq!(recovery.figures.as_ref().unwrap().events, 7, "{name}");
        assert!(recovery.total_us.unwrap() >= recovery.started_us, "{name}");
    }
}

/// Its connections are closed for ever; its next life has new ones.
#[test]
fn a_rank_that_asks_for_its_next_life_gets_it() {
    let steps = format!("{START} 1:first:next-life 0:wait-up=1.1 last-fence");
    let (_folder, outcome) = Play::new(2, 8, &steps).run();
    expect_good(&outcome, &[(1, 0)]);
    assert_eq!(outcome.recoveries[0].cause, Cause::Disconnected);

    // No restart is left: the job ends.
    let steps = format!("{START} 1:next-life 0:wait-up=1.3 last-fence");
    let (_folder, outcome) = Play::new(2, 1, &steps).run();
    assert_ne!(outcome.status, 0);
    let failure = outcome.failure.unwrap();
    assert!(
        failure.contains("a transfer into its memory did not end"),
        "{failure}"
    );
}

/// Processes that a dead life has started are killed with it: they could still store into the
/// shared memory. FENCE-1
#[test]
fn a_dead_life_takes_its_own_children_with_it() {
    let steps = format!("{START} 1:first:grandchild 1:die=1/$/d 0:wait-up=1.1 last-fence");
    let (_folder, outcome) = Play::new(2, 8, &steps).run();
    expect_good(&outcome, &[(1, 0)]);
}

// REC-6
#[test]
fn a_rank_that_is_killed_again_comes_again() {
    for (name, steps) in [
        ("before hello", format!("1:die=3/$/d {START}")),
        ("behind hello", format!("hello 1:die=3/$/d {START}")),
        ("behind its address", format!("address 1:die=3/$/d {START}")),
        ("running", format!("{START} 1:die=3/$/d")),
    ] {
        let steps = format!("{steps} 0:wait-up=1.3 2:wait-up=1.3 last-fence");
        let (folder, outcome) = Play::new(3, 8, &steps).run();
        expect_good(&outcome, &[(1, 0), (1, 1), (1, 2)]);
        assert_eq!(deaths(folder.path(), "d"), 3, "{name}");
    }
}

// REC-6
#[test]
fn all_ranks_at_once_come_again() {
    for moment in [
        "hello fence DIE address first:ask later:begin=0 later:meet",
        "address first:ask fence DIE later:begin=0 later:meet",
        "address fence DIE first:ask later:begin=0 later:meet",
    ] {
        let die = "0:die=1/$/a 1:die=2/$/b 2:die=1/$/c 3:die=1/$/d";
        let steps = format!(
            "{} later:recovered=1 last-fence",
            moment.replace("DIE", die)
        );
        let (_folder, outcome) = Play::new(4, 8, &steps).run();
        expect_good(&outcome, &[(0, 0), (1, 0), (1, 1), (2, 0), (3, 0)]);
    }
}

#[test]
fn a_fence_waits_for_the_next_life_and_those_that_are_passed_do_not() {
    let steps = "hello address meet later:begin=0 fence fence \
                 1:first:begin-fence 1:die=1/$/d 1:touch=$/second-life \
                 0:wait-down=1.0 2:wait-down=1.0 fence exists=$/second-life last-fence";
    let (_folder, outcome) = Play::new(3, 8, steps).run();
    expect_good(&outcome, &[(1, 0)]);
}

/// Ranks 0 and 1 are introduced. The launcher reports the death of 1 and its next life to 0 only, and
/// introduces that life to 0 only.
// REC-3
#[test]
fn a_death_is_told_to_those_that_were_introduced() {
    let steps = "address 0:meet-one=1 1:wait-up=0.0 fence 1:die=1/$/d later:begin=0 \
                 0:wait-down=1.0 0:wait-up=1.1 later:recovered=7 fence 2:untold 3:untold last-fence";
    let (_folder, outcome) = Play::new(4, 8, steps).run();
    expect_good(&outcome, &[(1, 0)]);
}

#[test]
fn a_last_fence_that_was_passed_is_the_end_of_a_later_life_too() {
    let steps = "join 0:last-fence 1:first:fence 1:die=1/$/d 1:last-fence";
    let (_folder, outcome) = Play::new(2, 8, steps).run();
    expect_good(&outcome, &[(1, 0)]);
}

#[test]
fn what_lives_leave_in_memory_goes_to_the_next_until_one_has_caught_up() {
    let steps = "remains=none,0,0,0+2 address die=2/$/d later:begin=0 die=3/$/d \
                 recovered=1 last-fence";
    let (_folder, outcome) = Play::new(1, 20, steps).run();
    expect_good(&outcome, &[(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn restarts_have_an_end_that_is_explained() {
    // The first death costs one restart, each death without progress two.
    let (folder, outcome) = Play::new(2, 3, "1:die=99/$/d hello fence").run();
    assert_eq!(outcome.status, 137);
    let failure = outcome.failure.unwrap();
    assert!(
        failure.contains("rank 1 was killed by SIGKILL"),
        "{failure}"
    );
    assert!(failure.contains("--max-restarts 3"), "{failure}");
    assert_eq!(deaths(folder.path(), "d"), 3);
    assert_eq!(outcome.recoveries.len(), 2);

    let steps = format!("{START} 1:die=99/$/d fence");
    let (folder, outcome) = Play::new(2, 3, &steps).run();
    assert_eq!(outcome.status, 137);
    assert_eq!(deaths(folder.path(), "d"), 4);
}

#[test]
fn a_crash_is_forgiven_once() {
    let (_folder, outcome) = Play::new(2, 8, "hello 1:first:kill-myself=11 last-fence").run();
    expect_good(&outcome, &[(1, 0)]);
    let (_folder, outcome) = Play::new(2, 8, "hello 1:kill-myself=11 last-fence").run();
    assert_eq!((outcome.status, outcome.recoveries.len()), (139, 1));
    let failure = outcome.failure.unwrap();
    assert!(
        failure.contains("SIGSEGV") && failure.contains("second crash"),
        "{failure}"
    );
}

#[test]
fn a_rank_that_gives_up_is_not_started_again() {
    for (steps, status, words) in [
        ("hello 1:exit=7 fence", 7, "status 7"),
        ("hello 1:exit=0 fence", 1, "finalize"),
        ("hello 1:abort=enough 1:exit=3 fence", 3, "enough"),
        ("1:exit=137 hello fence", 137, "status 137"),
    ] {
        let (_folder, outcome) = Play::new(2, 8, steps).run();
        assert_eq!(
            (outcome.status, outcome.recoveries.len()),
            (status, 0),
            "{steps}"
        );
        assert!(outcome.failure.unwrap().contains(words), "{steps}");
    }
}

#[test]
fn without_restarts_a_kill_ends_the_job() {
    let (_folder, outcome) = Play::new(2, 0, "hello 1:kill-myself=9 fence").run();
    assert_eq!((outcome.status, outcome.recoveries.len()), (137, 0));
}

#[test]
fn a_protocol_that_cannot_recover_is_refused_with_those_that_can() {
    let mut play = Play::new(2, 1, "hello");
    play.spec.config.protocol = "none".into();
    let Err(LaunchError::Job(JobError::Config(message))) = Job::start(play.spec) else {
        panic!("it must not start");
    };
    assert!(message.contains("pessimist"), "{message}");
}

/// After its last fence a rank is no longer needed: others continue, and the job's status reports
/// the death.
#[test]
fn a_rank_that_is_killed_after_it_has_left_is_not_missed() {
    let play = Play::new(
        2,
        8,
        "hello last-fence 1:touch=$/left 1:hang wait-for=$/go touch=$/done",
    );
    let (left, go, done) = (play.path("left"), play.path("go"), play.path("done"));
    let mut job = Job::start(play.spec).unwrap();
    serve_until(&mut job, |_| left.exists());
    let process = job.processes()[1];
    let descriptor = descriptor_of(process);
    kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL).unwrap();
    serve_until(&mut job, |_| has_ended(&descriptor));
    assert_eq!(job.serve(Duration::from_millis(20)).unwrap(), None);
    fs::write(go, "").unwrap();
    let outcome = job.wait().unwrap();
    assert_eq!((outcome.status, outcome.recoveries.len()), (137, 0));
    assert!(outcome.failure.unwrap().contains("had left"));
    assert!(done.exists(), "rank 0 was not told to stop");
}

/// A shell between the launcher and the rank reports the signal by its status, or is killed
/// itself.
#[test]
fn a_rank_behind_a_wrapper_comes_again() {
    let behind_shell = |mut play: Play| {
        let program = &mut play.spec.programs[0];
        let line = format!("{} \"$@\"; exit $?", program.path.display());
        let mut arguments = vec!["-c".into(), line.into(), "sh".into()];
        arguments.append(&mut program.arguments);
        program.arguments = arguments;
        program.path = "sh".into();
        play
    };
    let steps = format!("{START} 1:die=1/$/d 0:wait-up=1.1 last-fence");
    let (_folder, outcome) = behind_shell(Play::new(2, 8, &steps)).run();
    expect_good(&outcome, &[(1, 0)]);

    let steps = format!("{START} 1:first:touch=$/up 1:first:hang 0:wait-up=1.1 last-fence");
    let play = behind_shell(Play::new(2, 8, &steps));
    let up = play.path("up");
    let mut job = Job::start(play.spec).unwrap();
    serve_until(&mut job, |_| up.exists());
    let wrapper = Pid::from_raw(job.processes()[1] as i32).unwrap();
    kill_process(wrapper, Signal::KILL).unwrap();
    expect_good(&job.wait().unwrap(), &[(1, 0)]);
}
