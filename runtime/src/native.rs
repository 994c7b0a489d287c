//! Native libraries that are looked for at run time (their absence is a line in
//! `refrain info`, never a program that does not start), and what they change
//! in a process.

#![allow(
    unsafe_code,
    reason = "loading a library runs its initialisers, and signal actions are raw"
)]

use core::mem::MaybeUninit;
use libloading::Library;

/// Whether libibverbs is installed.
///
/// # Errors
/// Why it cannot be loaded, in the loader's words.
pub fn has_libibverbs() -> Result<(), String> {
    // SAFETY: libibverbs' initialisers only prepare its own state; drivers are
    // loaded when devices are asked for, which nobody does here.
    unsafe { Library::new("libibverbs.so.1") }
        .map(drop)
        .map_err(short)
}

/// The loader's words without the name that the caller gives anyway.
fn short(error: libloading::Error) -> String {
    let text = error.to_string();
    text.split_once(": ")
        .map_or(text.clone(), |(_, reason)| reason.to_owned())
}

/// Signals below the real-time ones.
const SIGNALS: core::ops::Range<i32> = 1..32;

/// Calls `run`, and puts back what signals did before: libraries that install
/// handlers of their own have no business with those of a launcher.
pub fn keeping_signal_actions<T>(run: impl FnOnce() -> T) -> T {
    let before: Vec<(i32, libc::sigaction)> = SIGNALS
        .filter_map(|signal| Some((signal, action_of(signal)?)))
        .collect();
    let result = run();
    for (signal, action) in &before {
        // SAFETY: the action was in force when it was read, so its handler is
        // code of this process that handles signals.
        unsafe { libc::sigaction(*signal, action, core::ptr::null_mut()) };
    }
    result
}

/// What a signal does now; `None` for numbers that have no action.
fn action_of(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: a null new action changes nothing, and there is room for the old.
    let status = unsafe { libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: written when the call succeeded.
    (status == 0).then(|| unsafe { action.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_installed_meanwhile_is_gone_afterwards() {
        let handler = |signal| action_of(signal).unwrap().sa_sigaction;
        let (before, other_before) = (handler(libc::SIGWINCH), handler(libc::SIGURG));
        let inside = keeping_signal_actions(|| {
            // SAFETY: ignoring a signal runs no code.
            unsafe { libc::signal(libc::SIGWINCH, libc::SIG_IGN) };
            handler(libc::SIGWINCH)
        });
        assert_eq!(inside, libc::SIG_IGN);
        assert_ne!(before, libc::SIG_IGN);
        assert_eq!(handler(libc::SIGWINCH), before);
        assert_eq!(handler(libc::SIGURG), other_before);
    }
}
