//! The same addresses and the same bytes at `AT_RANDOM` in each incarnation of a rank. The C
//! library derives its stack guard and its pointer guard from those bytes, and stack guards are
//! stored on stacks.
//!
//! `personality` turns off randomisation of addresses between fork and exec. The launcher writes
//! the bytes and traces the rank for that: the child asks to be traced, so it stops after its
//! `exec`, before the first instruction of the program.
//!
//! Seccomp may forbid both, and so may a debugger of the launcher. A child that never runs a
//! program tries them first, so that a seccomp profile that kills the caller kills neither the
//! launcher nor a rank.

#![allow(
    unsafe_code,
    reason = "ptrace, and what a child does between fork and exec (pre_exec)"
)]

use core::{mem, ptr};
use refrain_job::stderr::report;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::ffi::{c_int, c_uint, c_ulong};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{fs, io};

/// The bytes at `AT_RANDOM`.
pub type RandomBytes = [u8; 16];

/// Entry of the auxiliary vector with the address of the bytes.
const AT_RANDOM: u64 = 25;
/// A signal set, as the kernel represents it.
type SignalMask = u64;
/// Time limit from a child's fork to its exec. Only a child that is stopped from outside exceeds
/// it: it is killed then, since the launcher waits for the exec.
const EXEC_MAX: Duration = Duration::from_secs(300);

/// New bytes, for all lives of one rank.
///
/// # Errors
/// Of the system.
pub fn new_random_bytes() -> io::Result<RandomBytes> {
    let mut bytes = RandomBytes::default();
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether a program runs unchanged while it is traced. A program with a set-user-ID or
/// set-group-ID bit or with capabilities would lose its privileges.
pub fn can_be_traced(program: &Path) -> bool {
    const PRIVILEGED: u32 = 0o6000;
    let metadata = fs::metadata(program);
    let has_bits = metadata.is_ok_and(|found| found.permissions().mode() & PRIVILEGED != 0);
    let capabilities = rustix::fs::getxattr(program, "security.capability", &mut [0u8; 64]);
    !has_bits && capabilities.is_err()
}

/// Signals that this thread, and so its children, blocks.
fn signal_mask() -> io::Result<SignalMask> {
    let mut mask: SignalMask = 0;
    // SAFETY: the kernel writes the mask, whose size is passed.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            ptr::null::<SignalMask>(),
            &raw mut mask,
            mem::size_of::<SignalMask>(),
        )
    };
    succeeded(asked).map(|()| mask)
}

fn succeeded(returned: i64) -> io::Result<()> {
    match returned {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// In a child, as the last step before its exec: the program stops before its first instruction,
/// until the thread that has forked the child [detaches](set_random_bytes). Signals are blocked
/// until then: a signal that stops the child before its exec would block the launcher, too.
///
/// # Errors
/// Of the system; the child does not stop then.
pub fn stop_behind_exec() -> io::Result<()> {
    stop_behind_exec_within(EXEC_MAX)
}

fn stop_behind_exec_within(longest: Duration) -> io::Result<()> {
    kill_after(longest)?;
    let all_but_trap: SignalMask = !(1 << (libc::SIGTRAP - 1));
    // SAFETY: system calls; the kernel reads the mask, whose size is passed.
    unsafe {
        succeeded(libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all_but_trap,
            ptr::null::<SignalMask>(),
            mem::size_of::<SignalMask>(),
        ))?;
        succeeded(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))
    }
}

/// Makes the kernel kill this process after a time. An exec cancels it.
fn kill_after(longest: Duration) -> io::Result<()> {
    let mut timer: c_int = 0;
    // SAFETY: all zeros are a value of both; the kernel reads them, and writes the
    // timer's number.
    unsafe {
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let made = libc::syscall(
            libc::SYS_timer_create,
            libc::CLOCK_MONOTONIC,
            &raw mut event,
            &raw mut timer,
        );
        succeeded(made)?;
        let mut when: libc::itimerspec = mem::zeroed();
        when.it_value.tv_sec = longest.as_secs() as libc::time_t;
        when.it_value.tv_nsec = libc::c_long::from(longest.subsec_nanos());
        let none = ptr::null_mut::<libc::itimerspec>();
        succeeded(libc::syscall(
            libc::SYS_timer_settime,
            timer,
            0,
            &raw const when,
            none,
        ))
    }
}

/// Writes the program's bytes and detaches. Called after the spawn of a child that [stops after
/// its exec](stop_behind_exec), in the thread that has spawned it.
///
/// # Errors
/// The program has other bytes, or was killed. It is not stopped in either case.
pub fn set_random_bytes(child: Pid, bytes: RandomBytes) -> io::Result<()> {
    wait_for_exec(child)?;
    let written = write_random_bytes(child, bytes);
    let let_go = restore_signals(child).and_then(|()| request(libc::PTRACE_DETACH, child, 0, 0));
    if let Err(error) = let_go {
        // With its signals blocked it cannot serve as a rank; most likely it is dead already.
        let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        return Err(error);
    }
    written
}

/// Returns when the child is stopped after its exec. Takes no longer than the exec.
fn wait_for_exec(child: Pid) -> io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    loop {
        let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(child), options))?;
        match status.and_then(|status| status.trapping_signal()) {
            Some(libc::SIGTRAP) => return Ok(()),
            Some(signal) => request(libc::PTRACE_CONT, child, 0, signal as usize)?,
            // The child has ended. It is not reaped.
            None => return Err(Errno::SRCH.into()),
        }
    }
}

fn restore_signals(child: Pid) -> io::Result<()> {
    let mask = signal_mask()?;
    let address = (&raw const mask).expose_provenance();
    request(
        libc::PTRACE_SETSIGMASK,
        child,
        mem::size_of::<SignalMask>(),
        address,
    )
}

/// Writes into the memory of a stopped child.
fn write_random_bytes(child: Pid, bytes: RandomBytes) -> io::Result<()> {
    let vector = fs::read(format!("/proc/{}/auxv", child.as_raw_nonzero()))?;
    let missing = || io::Error::other("the program has no AT_RANDOM");
    let address = address_of_random_bytes(&vector).ok_or_else(missing)?;
    let words = bytes.as_chunks::<8>().0.iter();
    for (word, at) in words.zip((address..).step_by(8)) {
        let word = usize::from_ne_bytes(*word);
        request(libc::PTRACE_POKEDATA, child, at, word)?;
    }
    Ok(())
}

/// The address of the bytes, from the auxiliary vector.
fn address_of_random_bytes(vector: &[u8]) -> Option<usize> {
    let entries = vector.as_chunks::<16>().0.iter();
    let mut entries = entries.map(|entry| entry.as_chunks::<8>().0);
    let entry = entries.find(|entry| u64::from_ne_bytes(entry[0]) == AT_RANDOM)?;
    usize::try_from(u64::from_ne_bytes(entry[1])).ok()
}

/// A ptrace request to a stopped child.
fn request(request: c_uint, child: Pid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: none of the requests above writes this process's memory; the mask that
    // PTRACE_SETSIGMASK reads lives through the call.
    succeeded(unsafe { libc::ptrace(request, child.as_raw_nonzero().get(), address, data) })
}

/// Whether ranks of this host can have the same bytes in each life.
///
/// # Errors
/// The reason why not, for people.
pub fn can_set_random_bytes() -> Result<(), String> {
    let mut command = trial();
    // SAFETY: only system calls are made; nothing is allocated or freed.
    unsafe { command.pre_exec(stop_behind_exec) };
    let refused = |why: String| {
        Err(format!(
            "ptrace fails ({why}): allow it in the container's seccomp profile and kernel.yama.ptrace_scope, and run refrain without a debugger"
        ))
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return refused(error.to_string()),
    };
    let process = Pid::from_child(&child);
    let stopped = wait_for_exec(process);
    let written = stopped
        .and_then(|()| write_random_bytes(process, RandomBytes::default()))
        .and_then(|()| restore_signals(process));
    // The child is killed before the program's first instruction.
    let _ = child.kill();
    match (written, child.wait()) {
        (Ok(()), _) => Ok(()),
        (Err(error), Ok(status)) if error.raw_os_error() == Some(libc::ESRCH) => {
            refused(end_of_trial(status))
        }
        (Err(error), _) => refused(error.to_string()),
    }
}

/// With this argument `personality` only returns the current value.
const ASK: c_ulong = 0xffff_ffff;
/// A program that exists; it is never executed.
const ANY_PROGRAM: &str = "/proc/self/exe";

/// Turns off randomisation of addresses for the programs that this process executes from now on.
/// Called in a child that was just forked.
///
/// # Errors
/// Of the system.
pub fn fix_layout() -> io::Result<()> {
    // SAFETY: system calls without pointers.
    let set = unsafe {
        match libc::personality(ASK) {
            -1 => -1,
            others => libc::personality(others as c_ulong | libc::ADDR_NO_RANDOMIZE as c_ulong),
        }
    };
    match set {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether ranks of this host can have the same addresses in each life.
///
/// # Errors
/// The reason why not, for people.
pub fn can_fix_layout() -> Result<(), String> {
    const DONE: Errno = Errno::CANCELED;
    let mut command = trial();
    // SAFETY: only system calls are made; nothing is allocated or freed.
    unsafe { command.pre_exec(|| fix_layout().and(Err(DONE.into()))) };
    let refused = |why: String| {
        Err(format!(
            "personality(ADDR_NO_RANDOMIZE) fails ({why}): allow it in the container's seccomp profile"
        ))
    };
    match command.spawn() {
        Err(error) if error.raw_os_error() == Some(DONE.raw_os_error()) => Ok(()),
        Err(error) => refused(error.to_string()),
        // The child did not reach the exec.
        Ok(mut killed) => refused(
            killed
                .wait()
                .map_or_else(|error| error.to_string(), end_of_trial),
        ),
    }
}

/// The command of a child that tries a system call and never runs its program.
pub fn trial() -> Command {
    let mut command = Command::new(ANY_PROGRAM);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Reports that addresses differ although `--same-memory` has `addresses`.
pub fn report_differing_addresses(host: &str, why: &str) {
    report(format_args!(
        "{host}each incarnation of a rank has other {why}; or leave addresses out of --same-memory"
    ));
}

/// How the trial child has ended, for people.
pub fn end_of_trial(status: ExitStatus) -> String {
    format!("the child that tried it ended: {status}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Starts a child that prints its bytes and the signals that it blocks; the child is stopped.
    fn started(before: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> std::process::Child {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "exec grep -E 'Sig(Blk|Pnd)|ShdPnd|TracerPid' /proc/self/status",
            ])
            .stdout(Stdio::piped());
        // SAFETY: only system calls are made.
        unsafe { command.pre_exec(before) };
        command.spawn().unwrap()
    }

    #[test]
    fn a_program_that_was_let_go_is_not_traced_and_holds_no_signal_back() {
        let child = started(stop_behind_exec);
        set_random_bytes(Pid::from_child(&child), [7; 16]).unwrap();
        let said = child.wait_with_output().unwrap();
        assert!(said.status.success());
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.lines().count(), 4, "{said}");
        let is_zero = |line: &str| {
            line.split_whitespace()
                .nth(1)
                .unwrap()
                .trim_matches('0')
                .is_empty()
        };
        assert!(said.lines().all(is_zero), "{said}");
    }

    #[test]
    fn a_signal_that_comes_while_it_is_stopped_is_delivered() {
        let child = started(stop_behind_exec);
        let process = Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        set_random_bytes(process, [7; 16]).unwrap();
        let ended = child.wait_with_output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
        assert_eq!((signal, ended.stdout), (Some(libc::SIGTERM), Vec::new()));
    }

    /// The launcher waits for the exec, and cannot release a child that is stopped before it.
    #[test]
    fn a_child_that_is_stopped_before_its_exec_does_not_stop_the_launcher_for_ever() {
        let child = started(|| {
            stop_behind_exec_within(Duration::from_millis(50))?;
            // SAFETY: a system call without pointers.
            succeeded(i64::from(unsafe { libc::raise(libc::SIGSTOP) }))
        });
        let set = set_random_bytes(Pid::from_child(&child), [7; 16]);
        assert!(set.is_err());
        let ended = child.wait_with_output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
        assert_eq!(signal, Some(libc::SIGKILL));
    }

    #[test]
    fn programs_with_privileges_are_not_traced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(can_be_traced(file.path()));
        for bit in [0o4755, 0o2755] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(bit)).unwrap();
            assert!(!can_be_traced(file.path()));
        }
    }

    #[test]
    fn the_auxiliary_vector_is_read() {
        let vector: Vec<u8> = [6u64, 4096, AT_RANDOM, 0x7fff_1234, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(address_of_random_bytes(&vector), Some(0x7fff_1234));
        assert_eq!(address_of_random_bytes(&vector[..16]), None);
        assert_eq!(address_of_random_bytes(&vector[..30]), None);
    }
}
