//! Output of ranks arrives completely and in order, with any reader.

use crate::launched::{Launched, job, refrain, run};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::PipeFlags;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::process::Stdio;

/// The 100-byte lines of the step `lines`.
fn numbered(lines: u32) -> Vec<String> {
    (0..lines)
        .map(|i| format!("line {i} {}", "x".repeat(90)))
        .collect()
}

#[test]
fn every_line_of_every_rank_arrives_in_order_with_its_prefix() {
    let ended = run(&mut job("-n 4", "lines=5000")).expect(0);
    for rank in 0..4 {
        assert_eq!(ended.of_rank(rank), numbered(5000), "rank {rank}");
    }
    assert_eq!(ended.out.lines().count(), 4 * 5000);
    assert_eq!(ended.err, "");
}

#[test]
fn prefixes_are_as_wide_as_the_widest_rank() {
    let ended = run(&mut job("-n 11", "say=x")).expect(0);
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..11).map(|rank| format!("[{rank:>2}] x")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn without_prefix_lines_are_as_written_and_not_cut_by_others() {
    let ended = run(&mut job("-n 3 --no-prefix", "lines=3000")).expect(0);
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..3).flat_map(|_| numbered(3000)).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn standard_error_stays_standard_error() {
    let ended = run(&mut job("-n 2", "1:complain=woe 0:say=joy")).expect(0);
    assert_eq!(
        (ended.out.as_str(), ended.err.as_str()),
        ("[0] joy\n", "[1] woe\n")
    );
}

#[test]
fn a_last_line_without_end_is_not_lost() {
    let ended = run(&mut job("-n 1", "say=a mutter=b")).expect(0);
    assert_eq!(ended.out, "[0] a\n[0] b\n");
    let ended = run(&mut job("-n 1 --no-prefix", "say=a mutter=b")).expect(0);
    assert_eq!(ended.out, "a\nb");
}

#[test]
fn a_line_longer_than_the_launcher_holds_comes_in_pieces() {
    let ended = run(&mut job("-n 1", "long=200000")).expect(0);
    assert!(
        ended
            .of_rank(0)
            .iter()
            .all(|piece| piece.len() <= 64 << 10 && piece.bytes().all(|b| b == b'x'))
    );
    assert_eq!(
        ended
            .of_rank(0)
            .iter()
            .map(|piece| piece.len())
            .sum::<usize>(),
        200_000
    );
    let ended = run(&mut job("-n 1 --no-prefix", "long=200000")).expect(0);
    assert_eq!(ended.out, "x".repeat(200_000));
}

/// A rank that fails right after its last output: the output is in the pipe when its end is seen.
#[test]
fn last_words_of_a_failing_rank_arrive() {
    for _ in 0..20 {
        let ended = run(&mut job("-n 2", "1:say=because 1:exit=3 hang")).expect(3);
        assert_eq!(ended.of_rank(1), ["because"]);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let mut launched = Launched::start(&mut job("-n 2", "process chatter"));
    let ranks = launched.processes("process", 2);
    launched.close_out();
    let ended = launched.end().expect(141);
    assert_eq!(ended.err, "", "nobody is told that nobody listens");
    ranks.iter().for_each(|rank| rank.expect_end());
}

#[test]
fn a_reader_that_does_not_read_does_not_keep_the_launcher_from_obeying() {
    let mut launched = Launched::start(&mut job("-n 2", "process chatter"));
    let ranks = launched.processes("process", 2);
    // Until the pipe to this process is full: 16 pages, in each of which a write may have left
    // almost half unused.
    while rustix::io::ioctl_fionread(launched.out().get_ref()).unwrap() < 33_000 {
        std::thread::yield_now();
    }
    launched.signal(Signal::TERM);
    ranks.iter().for_each(|rank| rank.expect_end());
    // Read only after the launcher has ended.
    crate::launched::Process::of(launched.id()).expect_end();
    launched.end().expect(143);
}

#[test]
fn rank_0_reads_standard_input_and_others_find_its_end() {
    let mut launched = Launched::start(job("-n 3", "stdin").stdin(Stdio::piped()));
    launched.give("for you");
    let ended = launched.end().expect(0);
    assert_eq!(ended.of_rank(0), ["stdin \"for you\""]);
    assert_eq!(ended.of_rank(1), ["stdin \"\""]);
    assert_eq!(ended.of_rank(2), ["stdin \"\""]);
}

#[test]
fn output_comes_while_the_job_runs() {
    let mut launched = Launched::start(&mut job("-n 2", "say=early hang"));
    launched.wait_for("early", 2);
    launched.signal(Signal::INT);
    launched.end().expect(130);
}

#[test]
fn plain_programs_are_jobs_too() {
    let ended = run(refrain().args(["run", "-n", "3", "echo", "-n", "hello"])).expect(0);
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] hello", "[1] hello", "[2] hello"]);
}

#[test]
fn info_is_readable_line_by_line() {
    let mut launched = Launched::start(refrain().arg("info"));
    let mut first = String::new();
    launched.out().read_line(&mut first).unwrap();
    assert!(
        first.starts_with("refrain") && first.contains(env!("CARGO_PKG_VERSION")),
        "{first}"
    );
    let ended = launched.end().expect(0);
    for word in [
        "kernel",
        "cores",
        "memory lock",
        "huge pages",
        "shm",
        "libfabric",
        "libibverbs",
        "pessimist",
    ] {
        assert!(ended.out.contains(word), "{word} in {}", ended.out);
    }
}

/// A pipe for standard error: the end to read, and the other end.
fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe")
}

/// The report of an event logger's end has no reader: the launcher ends as by SIGPIPE.
#[test]
fn a_launcher_whose_stderr_is_not_read_ends_well() {
    let (reader, writer) = pipe();
    drop(reader);
    let options = "-n 1 --protocol pessimist --kill eventlogger.0@0.1";
    let mut command = job(options, "process hang");
    command.stdout(Stdio::null()).stderr(writer);
    let status = command.status().expect("it starts");
    assert_eq!(status.code(), Some(141));
}

/// Processor time of a process, in ticks of 10 ms.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let times = fields.split(' ').skip(11).take(2);
    times
        .map(|time| time.parse::<u64>().expect("a number"))
        .sum()
}

/// The next line is due, and earlier output is not read: nothing has to be done until it is. A
/// launcher that polled continuously would use the whole two seconds.
#[test]
fn a_progress_line_after_unread_stderr_costs_nothing() {
    let (reader, writer) = pipe();
    fcntl_setfl(&writer, OFlags::NONBLOCK).expect("ours");
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).expect("ours");
    let mut command = refrain();
    // The seed is printed at the start.
    command.args(["run", "-n", "1", "--progress", "--protocol", "pessimist"]);
    command.args(["--kill-random", "100000", "--", "sh", "-c"]);
    command.arg("echo begin; sleep 2; echo end; exec sleep 1000");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(writer).spawn().expect("it starts");
    // The launcher has the writing end.
    drop(command);
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut used = Vec::new();
    for word in ["begin", "end"] {
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        assert!(line.contains(word), "{line}");
        used.push(ticks(child.id()));
    }
    drop(reader);
    assert_eq!(child.wait().expect("ours").code(), Some(141));
    assert!(used[1] - used[0] < 10, "{used:?}");
}

/// A full disk is not a closed reader: it is reported, and vice versa.
#[test]
fn output_that_cannot_be_written_is_reported() {
    let full = || Stdio::from(fs::File::create("/dev/full").unwrap());
    for to_stdout in [true, false] {
        let mut command = job("-n 2 --no-prefix", "0:say=x 0:complain=y hello fence hang");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        match to_stdout {
            true => command.stdout(full()),
            false => command.stderr(full()),
        };
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let err = String::from_utf8_lossy(&output.stderr);
        let words = "the job's standard output cannot be written: No space left on device";
        assert_eq!(err.contains(words), to_stdout, "{err}");
    }
}
