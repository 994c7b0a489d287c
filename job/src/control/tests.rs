//! A rank's side of the control plane against a launcher played by the test.

use super::*;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

/// The launcher's end.
struct Launcher(Connection);

impl Launcher {
    fn hear(&mut self) -> ToLauncher {
        self.0.wait_message(None).unwrap()
    }

    fn say(&mut self, message: &ToRank) {
        assert!(!message.has_memory());
        self.0.say(message).unwrap();
        self.0.wait_flushed(None).unwrap();
    }

    fn stop(&mut self, reason: &str) {
        self.say(&ToRank::Stop(reason.into()));
    }
}

fn welcome() -> ToRank {
    ToRank::Welcome {
        job: u64::MAX,
        rank: 3,
        size: 5,
        incarnation: 2,
        config: Box::default(),
        begins_with: None,
        met: None,
        alone: false,
    }
}

/// A rank that has joined, and the launcher's end of its socket.
fn joined() -> (ControlPlane, Launcher) {
    let (here, there) = UnixStream::pair().unwrap();
    let mut launcher = Launcher(Connection::new(there.into(), &CONTROL));
    launcher.say(&welcome());
    let control = ControlPlane::join(here.into()).unwrap();
    assert_eq!(launcher.hear(), ToLauncher::Hello(std::process::id()));
    (control, launcher)
}

#[test]
fn a_welcome_names_rank_and_job() {
    let (control, _launcher) = joined();
    assert_eq!(
        (control.rank(), control.size(), control.incarnation()),
        (Rank(3), 5, Incarnation(2))
    );
    assert_eq!(
        (control.job(), control.config()),
        (u64::MAX, &JobConfig::default())
    );
}

#[test]
fn a_rank_blocked_in_a_get_or_a_fence_learns_why_the_job_ends() {
    for fence in [false, true] {
        let (mut control, mut launcher) = joined();
        let rank = thread::spawn(move || {
            let error = if fence {
                control.fence()
            } else {
                control.get("k").map(|_| ())
            };
            (error, control)
        });
        launcher.hear();
        launcher.stop("rank 1 was killed");
        let (error, mut control) = rank.join().unwrap();
        assert!(matches!(error, Err(JobError::Aborted(reason)) if reason == "rank 1 was killed"));
        // and in all later calls, without a request to the launcher
        assert!(matches!(control.check(), Err(JobError::Aborted(_))));
        assert!(matches!(
            control.put("k", b"", None),
            Err(JobError::Aborted(_))
        ));
    }
}

/// `check` in a fence may already read the message that all ranks have reached the fence.
#[test]
fn a_look_in_a_fence_keeps_the_answer() {
    let (mut control, mut launcher) = joined();
    for generation in 0..3 {
        control.begin_fence(false).unwrap();
        assert!(!control.fence_passed().unwrap());
        launcher.say(&ToRank::FenceDone(generation));
        control.check().unwrap();
        assert!(control.fence_passed().unwrap());
    }
    // No fence with this number was begun.
    launcher.say(&ToRank::FenceDone(3));
    assert!(matches!(control.check(), Err(JobError::Control { .. })));
}

#[test]
fn check_sees_a_stop_and_a_dead_launcher_and_else_nothing() {
    let (mut control, mut launcher) = joined();
    for _ in 0..3 {
        control.check().unwrap();
    }
    launcher.stop("enough");
    assert!(matches!(control.check(), Err(JobError::Aborted(reason)) if reason == "enough"));

    let (mut control, launcher) = joined();
    drop(launcher);
    let message = control.check().unwrap_err().to_string();
    assert!(message.contains("launcher"), "{message}");
}

#[test]
fn a_stop_that_came_with_the_answer_before_it_is_not_missed() {
    let (mut control, mut launcher) = joined();
    launcher.say(&ToRank::FenceDone(0));
    launcher.stop("both in one read");
    control.fence().unwrap();
    assert!(matches!(control.check(), Err(JobError::Aborted(_))));
}

#[test]
fn a_send_to_a_launcher_that_has_closed_still_finds_its_reason() {
    let (mut control, mut launcher) = joined();
    launcher.stop("the reason");
    drop(launcher);
    assert!(matches!(control.fence(), Err(JobError::Aborted(reason)) if reason == "the reason"));
}

#[test]
fn a_launcher_killed_while_a_rank_waits_is_an_error() {
    let (mut control, mut launcher) = joined();
    let rank = thread::spawn(move || control.fence());
    launcher.hear();
    drop(launcher);
    assert!(matches!(
        rank.join().unwrap(),
        Err(JobError::Control { .. })
    ));
}

#[test]
fn an_answer_to_another_question_is_refused() {
    let (mut control, mut launcher) = joined();
    launcher.say(&ToRank::FenceDone(7));
    assert!(matches!(control.fence(), Err(JobError::Control { .. })));
    let (mut control, mut launcher) = joined();
    launcher.say(&ToRank::Value {
        key: "other".into(),
        value: vec![],
        memory: false,
    });
    assert!(matches!(control.get("k"), Err(JobError::Control { .. })));
}

#[test]
fn a_stranger_on_the_socket_is_refused() {
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(b"220 mail.example ESMTP").unwrap();
    let message = match ControlPlane::join(here.into()).unwrap_err() {
        JobError::Control { error, .. } => error.to_string(),
        other => panic!("{other}"),
    };
    assert!(message.contains("not a frame of the protocol"), "{message}");
}

#[test]
fn a_value_that_is_too_long_is_refused_and_does_no_harm() {
    let (mut control, mut launcher) = joined();
    let message = control
        .put("k", &vec![0; CONTROL.message_bytes_max], None)
        .unwrap_err()
        .to_string();
    assert!(message.contains("at most 1048576 are allowed"), "{message}");
    control.put("k", b"short", None).unwrap();
    assert!(matches!(launcher.hear(), ToLauncher::Put { value, .. } if value == b"short"));
}

/// The launcher announces a segment with its answer, and sends none.
#[test]
fn a_message_without_its_descriptor_is_refused() {
    let (mut control, mut launcher) = joined();
    launcher.0.say(&ToRank::Remains(0)).unwrap();
    launcher.0.flush().unwrap();
    let message = match control.check().unwrap_err() {
        JobError::Control { error, .. } => error.to_string(),
        other => panic!("{other}"),
    };
    assert!(message.contains("without the descriptor"), "{message}");
}
