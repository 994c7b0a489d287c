//! The standard input of rank 0: each life reads the same bytes, and what the rank does not read is
//! left for others.

use crate::launched::{Ended, Launched, job, run};
use crate::scripted::Hosts;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read as _, Seek as _, Write as _, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The test program, with a protocol that can recover and this input; `$` stands for a folder.
fn reader(folder: &Path, options: &str, steps: &str, input: impl Into<OwnedFd>) -> Command {
    let steps = steps.replace('$', folder.to_str().unwrap());
    let options = format!("--no-prefix --protocol pessimist {options}");
    let mut command = job(&options, &steps);
    command.stdin(Stdio::from(input.into()));
    command
}

fn text(bytes: usize) -> String {
    let mut text: String = (0..bytes / 7)
        .map(|number| format!("{number:06} "))
        .collect();
    text.truncate(bytes);
    text
}

/// What the step `read` prints about these bytes.
fn read(bytes: &str) -> String {
    let places = bytes.bytes().zip(1..);
    let sum: u64 = places.map(|(byte, place)| u64::from(byte) * place).sum();
    let last = bytes.rsplit(' ').next().unwrap();
    format!("read {} bytes, sum {sum}, last {last}\n", bytes.len())
}

/// Kinds of input with this text, to be read from its beginning.
fn inputs(folder: &Path, text: &str) -> Vec<(&'static str, OwnedFd)> {
    let path = folder.join("input");
    std::fs::write(&path, text).unwrap();
    let file = File::open(&path).unwrap();
    let deleted = File::open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let (from, mut to) = pipe().unwrap();
    let (near, mut far) = UnixStream::pair().unwrap();
    let (for_pipe, for_socket) = (text.to_owned(), text.to_owned());
    thread::spawn(move || to.write_all(for_pipe.as_bytes()));
    thread::spawn(move || far.write_all(for_socket.as_bytes()));
    vec![
        ("file", file.into()),
        ("deleted file", deleted.into()),
        ("pipe", from.into()),
        ("socket", near.into()),
    ]
}

/// What is left of an input for its next reader.
fn rest(mut of: PipeReader) -> String {
    let mut rest = String::new();
    of.read_to_string(&mut rest).unwrap();
    rest
}

fn filled(text: &str) -> (PipeReader, PipeWriter) {
    let (from, mut to) = pipe().unwrap();
    to.write_all(text.as_bytes()).unwrap();
    (from, to)
}

#[test]
fn each_life_reads_the_same_from_the_beginning() {
    // More than a pipe holds.
    let text = text(300_001);
    let (first, second) = text.split_at(70_001);
    let steps =
        "join later:begin=0 die=1/$/a read=70001 die=3/$/a read=1000000 die=4/$/a last-fence";
    for (kind, input) in inputs(folder().path(), &text) {
        let folder = folder();
        let ended = run(&mut reader(folder.path(), "-n 1", steps, input)).expect(0);
        assert_eq!(ended.out, read(first) + &read(second), "{kind}");
        assert!(!ended.err.contains("other output"), "{kind}: {}", ended.err);
        let deaths = std::fs::read(folder.path().join("a")).unwrap().len();
        assert_eq!(deaths, 4, "{kind}: {}", ended.err);
    }
}

#[test]
fn a_life_that_began_while_its_input_was_not_whole_reads_what_comes_later() {
    let folder = folder();
    let steps = "join later:begin=0 read=4 die=2/$/a say=again read=9 die=3/$/a read=9 last-fence";
    let (from, mut to) = filled("one ");
    let mut launched = Launched::start(&mut reader(folder.path(), "-n 1", steps, from));
    launched.wait_for("again", 1);
    to.write_all(b"two three ").unwrap();
    launched.wait_for("read 9", 1);
    to.write_all(b"four").unwrap();
    drop(to);
    let out = launched.end().expect(0).out;
    assert_eq!(
        out,
        read("one ") + "again\n" + &read("two three") + &read(" four")
    );
}

#[test]
fn only_what_a_rank_reads_is_taken() {
    let text = text(100);
    let cases = [
        ("join later:begin=0 die=2/$/a last-fence", 0),
        ("join later:begin=0 read=7 die=2/$/a last-fence", 7),
        (
            "join later:begin=0 die=1/$/a read=3 die=2/$/a read=4 last-fence",
            7,
        ),
    ];
    for (steps, taken) in cases {
        let (folder, (from, to)) = (folder(), filled(&text));
        let input = from.try_clone().unwrap();
        run(&mut reader(folder.path(), "-n 2", steps, input)).expect(0);
        drop(to);
        assert_eq!(rest(from), text[taken..], "{steps}");

        let path = folder.path().join("input");
        std::fs::write(&path, &text).unwrap();
        std::fs::remove_file(folder.path().join("a")).unwrap();
        let mut file = File::open(path).unwrap();
        let input = file.try_clone().unwrap();
        run(&mut reader(folder.path(), "-n 2", steps, input)).expect(0);
        assert_eq!(file.stream_position().unwrap(), taken as u64, "{steps}");
    }
}

/// A file is read on from where the job found it.
#[test]
fn a_loop_of_a_shell_keeps_its_lines() {
    let refrain = env!("CARGO_BIN_EXE_refrain");
    let script = format!("while read x; do {refrain} run -n 1 --no-prefix echo $x; done");
    let text = "1\n2\n3\n";
    for (kind, input) in inputs(folder().path(), text) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::from(input));
        let ended = run(&mut shell).expect(0);
        assert_eq!(ended.out, text, "{kind}");
    }
    let script = format!("read x; {refrain} run -n 1 --no-prefix sh -c 'read y; echo $y'; cat");
    for (kind, input) in inputs(folder().path(), text) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::from(input));
        let ended = run(&mut shell).expect(0);
        assert_eq!(ended.out, "2\n3\n", "{kind}");
    }
}

#[test]
fn an_empty_input_is_empty_in_each_life() {
    let steps = "stdin join later:begin=0 die=2/$/a stdin last-fence";
    let empty = [
        OwnedFd::from(File::open("/dev/null").unwrap()),
        OwnedFd::from(pipe().unwrap().0),
    ];
    for input in empty {
        let folder = folder();
        let ended = run(&mut reader(folder.path(), "-n 1", steps, input)).expect(0);
        assert_eq!(ended.out, "stdin \"\"\nstdin \"\"\n");
    }
}

/// The launcher takes no input ahead, so the writer is not told that all was read.
#[test]
fn a_writer_waits_for_a_rank_that_does_not_read() {
    let folder = folder();
    let (from, to) = pipe().unwrap();
    rustix::io::ioctl_fionbio(&to, true).unwrap();
    let room = rustix::pipe::fcntl_getpipe_size(&to).unwrap();
    let part = vec![b'x'; room];
    assert_eq!(rustix::io::write(&to, &part), Ok(room));
    let steps = "join later:begin=0 die=1/$/a say=begun wait-for=$/b read=1000000 last-fence";
    let mut launched = Launched::start(&mut reader(folder.path(), "-n 1", steps, from));
    launched.wait_for("begun", 1);
    assert_eq!(rustix::io::write(&to, &part), Err(rustix::io::Errno::AGAIN));
    drop(to);
    File::create(folder.path().join("b")).unwrap();
    let Ended { out, .. } = launched.end().expect(0);
    let part = String::from_utf8(part).unwrap();
    assert_eq!(out, "begun\n".to_owned() + &read(&part));
}

/// As on one host; what is left is left, too.
#[test]
fn a_rank_on_another_host_reads_the_same() {
    let hosts = Hosts::new();
    let text = text(100_003);
    let (first, second) = text.split_at(70_001);
    let steps =
        "join later:begin=0 die=1/$/a read=70001 die=3/$/a read=1000000 die=4/$/a last-fence";
    for (kind, input) in inputs(folder().path(), &text) {
        let folder = folder();
        let steps = steps.replace('$', folder.path().to_str().unwrap());
        let mut job = hosts.job("-n 1 --host a --no-prefix --protocol pessimist", &steps);
        let ended = run(job.stdin(Stdio::from(input))).expect(0);
        assert_eq!(ended.out, read(first) + &read(second), "{kind}");
        let deaths = std::fs::read(folder.path().join("a")).unwrap().len();
        assert_eq!(deaths, 4, "{kind}: {}", ended.err);
    }
    for protocol in ["none", "pessimist"] {
        let options = format!("-n 2 --host a,b --no-prefix --protocol {protocol}");
        let (from, to) = filled(&text[..100]);
        let mut job = hosts.job(&options, "0:read=7 finalize");
        run(job.stdin(from.try_clone().unwrap())).expect(0);
        drop((job, to));
        assert_eq!(rest(from), text[7..100], "{protocol}");

        let mut job = hosts.job(&options, "stdin finalize");
        let ended = run(job.stdin(File::open("/dev/null").unwrap())).expect(0);
        assert_eq!(ended.out, "stdin \"\"\nstdin \"\"\n", "{protocol}");
    }
}
