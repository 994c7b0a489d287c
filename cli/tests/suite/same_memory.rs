//! `refrain run --same-memory`: memory addresses in two lives of a rank.

#![allow(
    unsafe_code,
    reason = "a seccomp filter for refrain is installed between fork and exec"
)]

use crate::launched::{Ended, refrain, run, test_rank};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Values that a life of rank 1 has noted, by name.
type Facts = BTreeMap<String, String>;

/// Values that are the same in each life with any options: the launcher sets them.
const TOLD: [&str; 2] = ["arguments", "environment"];
/// Values that are the same if addresses are.
const PLACES: [&str; 5] = ["stack", "heap", "large", "function", "auxiliary"];

/// Two lives of rank 1, the first killed at a clock, of the program after these words.
fn lives(options: &str, wrapper: &[&str], with: impl FnOnce(&mut Command)) -> (Ended, [Facts; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let program = test_rank().with_file_name("refrain-test-addresses");
    assert!(program.is_file(), "cargo test builds {}", program.display());
    let mut command = refrain();
    command
        .args("run -n 2 --protocol pessimist --kill 1@clock=5".split(' '))
        .args(options.split_whitespace())
        .arg("--")
        .args(wrapper)
        .arg(program)
        .arg(folder.path())
        .stdin(Stdio::null());
    with(&mut command);
    let ended = run(&mut command).expect(0);
    assert!(
        ended.err.contains("incarnation 1 continues"),
        "{}",
        ended.err
    );
    let facts = [0, 1].map(|incarnation| facts(&folder.path().join(format!("1-{incarnation}"))));
    (ended, facts)
}

fn facts(file: &Path) -> Facts {
    let text = fs::read_to_string(file).unwrap();
    let fact = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.lines().map(fact).collect()
}

/// The names of values that differ.
fn differing(lives: &[Facts; 2]) -> Vec<&str> {
    assert!(lives[0].keys().eq(lives[1].keys()));
    let names = lives[0].keys();
    let differs = |name: &&String| lives[0][*name] != lives[1][*name];
    names.filter(differs).map(String::as_str).collect()
}

/// Whether ranks can have the same addresses on this machine; prints it if not.
fn can_be_same() -> bool {
    let info = run(refrain().arg("info")).expect(0).out;
    let line = info.lines().find(|line| line.starts_with("same addresses"));
    let line = line.expect("it is told");
    let is_able = line.ends_with("yes, in each incarnation of a rank");
    if !is_able {
        println!("skipped: {line}");
    }
    is_able
}

/// Whether programs have other addresses each time on this machine.
fn is_random() -> bool {
    let setting = fs::read_to_string("/proc/sys/kernel/randomize_va_space");
    setting.is_ok_and(|setting| setting.trim() != "0")
}

#[test]
fn each_life_has_the_same_memory_also_behind_wrappers() {
    if !can_be_same() {
        return;
    }
    let shell = ["sh", "-c", "X=$((1+1)); export X; exec \"$@\"", "sh"];
    for wrapper in [&[][..], &["env", "A=b"], &shell] {
        let (_, lives) = lives("", wrapper, |_| ());
        let mut differing = differing(&lives);
        // A wrapper executes a program that is no longer traced.
        differing.retain(|name| wrapper.is_empty() || *name != "random");
        assert_eq!(differing, [""; 0], "{wrapper:?}");
    }
}

#[test]
fn addresses_differ_where_they_may_and_inherited_values_do_not() {
    for options in ["--same-memory none", "--same-memory heap,stack"] {
        let (_, lives) = lives(options, &[], |_| ());
        let differing = differing(&lives);
        for name in TOLD {
            assert!(!differing.contains(&name), "{options}: {name}");
        }
        for name in PLACES.iter().filter(|_| is_random()) {
            assert!(differing.contains(name), "{options}: {name}");
        }
        assert!(differing.contains(&"random"), "{options}");
    }
}

#[test]
fn ranks_know_what_is_the_same_if_they_may_be_restarted() {
    let told = |options: &str| {
        let print = ["--", "sh", "-c", "echo ${REFRAIN_SAME_MEMORY-nothing}"];
        let mut command = refrain();
        command
            .args(["run", "-n", "1"])
            .args(options.split(' '))
            .args(print);
        let ended = run(command
            .stdin(Stdio::null())
            .env_remove("REFRAIN_SAME_MEMORY"));
        ended.expect(0).of_rank(0)[0].to_owned()
    };
    assert_eq!(told("--protocol none"), "nothing");
    assert_eq!(told("--protocol pessimist"), "heap,stack,addresses");
    let options = "--protocol pessimist --same-memory";
    assert_eq!(told(&format!("{options} none")), "none");
    assert_eq!(told(&format!("{options} addresses,heap")), "heap,addresses");
    let wrong = run(refrain().args(["run", "-n", "1", "--same-memory", "heap,stak", "true"]));
    let wrong = wrong.expect(2);
    assert!(
        wrong
            .err
            .contains("\"stak\" is not valid: use heap, stack, addresses"),
        "{}",
        wrong.err
    );
}

/// Forbids `personality` and `ptrace` to a process and all processes that it starts.
fn forbid(command: &mut Command, action: u32) {
    let forbid = move || {
        let jump = |number: i64, to| libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: to,
            jf: 0,
            k: number as u32,
        };
        let plain = |code: u32, k| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        };
        let mut filter = [
            // The number of the system call.
            plain(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
            jump(libc::SYS_personality, 2),
            jump(libc::SYS_ptrace, 1),
            plain(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
            plain(libc::BPF_RET | libc::BPF_K, action),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: the filter lives while the kernel copies it.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        };
        installed.then_some(()).ok_or_else(io::Error::last_os_error)
    };
    // SAFETY: only system calls are made.
    unsafe { command.pre_exec(forbid) };
}

#[test]
fn a_container_that_forbids_it_is_reported_once_and_the_job_recovers() {
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    for action in [refuse, libc::SECCOMP_RET_KILL_PROCESS] {
        let (ended, lives) = lives("", &[], |command| forbid(command, action));
        let told = ended
            .err
            .matches("each incarnation of a rank has other addresses");
        assert_eq!(told.count(), 1, "{}", ended.err);
        for forbidden in ["personality", "other stack guards", "ptrace"] {
            assert!(ended.err.contains(forbidden), "{}", ended.err);
        }
        for name in TOLD {
            assert!(!differing(&lives).contains(&name), "{name}");
        }
        let mut info = refrain();
        forbid(info.arg("info"), action);
        let info = run(&mut info).expect(0).out;
        let line = info.lines().find(|line| line.starts_with("same addresses"));
        assert!(
            line.is_some_and(|line| line.contains(" no: personality")),
            "{info}"
        );
        // It is reported only where it matters.
        let mut quiet = refrain();
        let options = "run -n 1 --protocol pessimist --same-memory heap -- true";
        forbid(quiet.args(options.split(' ')).stdin(Stdio::null()), action);
        assert_eq!(run(&mut quiet).expect(0).err, "");
    }
}
