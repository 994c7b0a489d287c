use super::*;
use bytes::BytesMut;
use refrain_job::control::message::CONTROL;
use rustix::event::{PollFd, poll};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// A rank that has printed two lines, which are in the pipes, and prints no more; and the rank's
/// end of the control socket.
fn printer() -> (AgentRank, UnixStream) {
    let mut command = Command::new("sh");
    command.args(["-c", "echo out; echo err >&2; exec cat"]);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.process_group(0).spawn().expect("there is a shell");
    let pipes = [
        child.stdout.as_ref().map(AsFd::as_fd),
        child.stderr.as_ref().map(AsFd::as_fd),
    ];
    for pipe in pipes.into_iter().flatten() {
        let mut polled = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut polled, None)).expect("poll");
    }
    let (own, of_rank) = UnixStream::pair().expect("sockets");
    let rank = AgentRank::new((3, 1), child, Link::new(own.into())).expect("it runs");
    (rank, of_rank)
}

/// The messages as text: `out` and `err` for output, else the message.
fn told(words: &[FromAgent]) -> Vec<String> {
    let told = words.iter().map(|word| match word {
        FromAgent::Output { bytes, .. } => String::from_utf8_lossy(bytes).trim().to_owned(),
        FromAgent::Heard { message, .. } => format!("{message:?}"),
        other => format!("{other:?}"),
    });
    told.collect()
}

/// A rank has printed and then reports its position. The launcher has to get the output first, or
/// it cuts the output of the next life in the wrong place. REC-4
#[test]
fn output_is_passed_on_before_the_mark_that_follows_it() {
    let marks = [
        ToLauncher::Mark(4),
        ToLauncher::Beginning {
            checkpoint: 4,
            fences: 0,
        },
    ];
    for mark in marks {
        let (mut rank, mut of_rank) = printer();
        let mut frame = BytesMut::new();
        CONTROL.encode(&mark, &mut frame).expect("short");
        of_rank.write_all(&frame).expect("there is room");
        let words = rank.look(&mut Shared::default(), None);
        let expected = ["out".to_owned(), "err".to_owned(), format!("{mark:?}")];
        assert_eq!(told(&words), expected);
    }
}
