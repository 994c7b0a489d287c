//! The same addresses in each life of a rank: turns off the kernel's randomisation.
//!
//! A container's seccomp profile may forbid that. A child tries it first, so that a profile
//! that kills the caller kills neither the launcher nor a rank.

#![allow(
    unsafe_code,
    reason = "what a child does between fork and exec (pre_exec) is the programmer's promise"
)]

use rustix::io::Errno;
use std::ffi::c_ulong;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

/// With this argument `personality` only returns the current value.
const ASK: c_ulong = 0xffff_ffff;
/// A program that exists; it is never run.
const ANY_PROGRAM: &str = "/proc/self/exe";

/// Turns off randomisation of addresses for the programs that this process, a child
/// that was just forked, executes from now on.
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
/// Why not, for people.
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
        // It never came to execute the program.
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

/// How the trial child has ended, for people.
pub fn end_of_trial(status: ExitStatus) -> String {
    format!("the child that tried it ended: {status}")
}
