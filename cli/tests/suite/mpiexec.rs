//! `mpiexec`: `refrain` under another name.

use crate::launched::{Ended, run};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder with `mpiexec`.
fn installed() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mpiexec");
    symlink(env!("CARGO_BIN_EXE_refrain"), &path).unwrap();
    (folder, path)
}

fn mpiexec(words: &[&str]) -> Ended {
    let (_folder, path) = installed();
    run(Command::new(path).args(words))
}

/// The lines, sorted: ranks print in any order.
fn lines(ended: &Ended) -> Vec<&str> {
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    lines
}

const SAY: &str = "echo $REFRAIN_RANK/$REFRAIN_SIZE $REFRAIN_PROGRAM $A $B $0 $PWD";

#[test]
fn several_programs_are_one_job() {
    let first = [
        "-genv", "A", "1", "-np", "2", "-x", "B=2", "sh", "-c", SAY, "x",
    ];
    let second = [":", "-wdir", "/tmp", "-env", "A", "3", "sh", "-c", SAY, "y"];
    let words: Vec<&str> = first.into_iter().chain(second).collect();
    let ended = mpiexec(&words).expect(0);
    let here = std::env::current_dir().unwrap();
    let here = here.display();
    let expected = [
        format!("0/3 0 1 2 x {here}"),
        format!("1/3 0 1 2 x {here}"),
        "2/3 1 3 y /tmp".to_owned(),
    ];
    assert_eq!(lines(&ended), expected);
}

#[test]
fn libraries_that_a_program_preloads_stay() {
    let words = "-n 1 -x LD_PRELOAD=/no/such.so sh -c".split(' ');
    let words: Vec<&str> = words.chain(["echo $LD_PRELOAD"]).collect();
    let ended = mpiexec(&words).expect(0);
    assert!(ended.out.starts_with("/no/such.so"), "{}", ended.out);
}

#[test]
fn options_of_run_pass_and_lines_have_a_rank_by_option() {
    let ended = mpiexec(&["-l", "--log-memory", "64M", "-n", "2", "echo", "-n", "5"]).expect(0);
    assert!(
        ended.out.contains('0') && ended.out.contains("5"),
        "{}",
        ended.out
    );
    let ended = mpiexec(&["-n", "1", "--protocol", "hope", "true"]).expect(2);
    assert!(ended.err.contains("none, pessimist"), "{}", ended.err);
    let ended = mpiexec(&["-n", "1", "-wdir", "/no/such", "true"]).expect(127);
    assert!(ended.err.contains("/no/such"), "{}", ended.err);
    let ended = mpiexec(&["--help"]).expect(0);
    assert!(ended.out.contains("-np"), "{}", ended.out);
}

#[test]
fn the_first_rank_reads_the_standard_input() {
    let (_folder, path) = installed();
    let mut child = Command::new(path)
        .args(["-n", "2", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a line\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"a line\n");
}

/// Compiles a source in C; `words` are behind the names of the source and the result.
fn compile(folder: &Path, name: &str, source: &str, words: &[&str]) {
    let file = folder.join("source.c");
    std::fs::write(&file, source).unwrap();
    let mut cc = Command::new("cc");
    cc.current_dir(folder)
        .arg(&file)
        .args(["-o", name])
        .args(words);
    run(&mut cc).expect(0);
}

/// A program of another MPI library is named with it, also if another library of the program needs it.
#[test]
fn a_program_of_another_library_is_not_run_as_many_jobs_of_one_rank() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    const MAIN: &str = "int main(void) { return 0; }";
    const LIBRARY: [&str; 4] = [
        "-shared",
        "-fPIC",
        "-Wl,--no-as-needed",
        "-Wl,-rpath,$ORIGIN",
    ];
    let library = |name: &str, source: &str, words: &[&str]| {
        let soname = format!("-Wl,-soname,{name}");
        compile(here, name, source, &[&LIBRARY, words, &[&soname]].concat());
    };
    library("libmpi.so.40", "int f(void) { return 0; }", &[]);
    library(
        "libsolver.so",
        "int g(void) { return 0; }",
        &["libmpi.so.40"],
    );
    library("libmpi_abi.so.1", "int f(void) { return 0; }", &[]);
    for (needed, named) in [
        ("libmpi.so.40", "libmpi.so.40"),
        ("libsolver.so", "libmpi.so.40"),
        ("libmpi_abi.so.1", "LD_LIBRARY_PATH"),
    ] {
        let words = ["-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", needed];
        compile(here, "program", MAIN, &words);
        let program = here.join("program");
        let program = program.to_str().unwrap();
        let refused = mpiexec(&["-n", "4", program]).expect(126);
        for word in [program, named, "another MPI library", "4 jobs of one rank"] {
            assert!(refused.err.contains(word), "{word}: {}", refused.err);
        }
        let one = mpiexec(&["-n", "1", program]).expect(0);
        assert!(one.err.contains("runs without Refrain"), "{}", one.err);
        // What the user starts by a program of another kind is no concern.
        assert_eq!(mpiexec(&["-n", "2", "env", program]).expect(0).err, "");
    }
    // Refrain's own library in another folder than it was installed in.
    let own = "const char *f(void) { return \"REFRAIN_CONTROL_FD\"; }";
    library("libmpi_abi.so.1", own, &[]);
    let program = here.join("program");
    mpiexec(&["-n", "4", program.to_str().unwrap()]).expect(0);
}

#[test]
fn programs_without_mpi_run_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for program in ["true", script.to_str().unwrap()] {
        let ended = mpiexec(&["-n", "2", program]).expect(0);
        assert_eq!((&ended.out[..], &ended.err[..]), ("", ""), "{program}");
    }
}
