//! Claiming the inherited control socket.
//!
//! The launcher leaves one end of a socketpair open in the rank, with its number in the
//! environment. The environment outlives the descriptor (children of a rank inherit the
//! environment, not the descriptor). The launcher therefore writes a greeting into the socket
//! before it starts the rank, and the environment has the greeting's text: a number of any other
//! descriptor is recognised before a byte is written to it or taken from it.
//!
//! Number and greeting are the same in each life of a rank, since the environment is on the
//! program's stack.

#![allow(
    unsafe_code,
    reason = "a descriptor inherited by number can only be taken over with from_raw_fd"
)]

use crate::JobError;
use refrain_wire::unix::moved_up;
use rustix::fs::FileType;
use rustix::io::{Errno, FdFlags};
use rustix::net::{RecvFlags, SendFlags};
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of the rank's end of the control socket.
pub const FD_VARIABLE: &str = "REFRAIN_CONTROL_FD";
/// The first bytes in that socket: they distinguish the control socket from another descriptor
/// with the same number.
pub const GREETING_VARIABLE: &str = "REFRAIN_CONTROL_GREETING";
/// Maximum length of a greeting.
const GREETING_BYTES_MAX: usize = 64;

/// The greeting of a rank, in each of its lives.
pub fn greeting(job: u64, rank: u32) -> String {
    format!("refrain job {job:016x} rank {rank}")
}

/// Writes the greeting into a new control socket.
///
/// # Errors
/// Of the system.
pub fn greet(socket: BorrowedFd<'_>, greeting: &str) -> Result<(), Errno> {
    // A new socket has room for the greeting.
    rustix::net::send(socket, greeting.as_bytes(), SendFlags::NOSIGNAL).map(drop)
}

/// Set once a process has joined its job: afterwards the number belongs to the [`OwnedFd`] that
/// was made of it.
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// Number and greeting from the environment. `None`: there is no launcher.
///
/// # Errors
/// The variables have values that no launcher sets.
fn parse(
    number: Option<OsString>,
    greeting: Option<OsString>,
) -> Result<Option<(RawFd, Vec<u8>)>, JobError> {
    let Some(number) = number else {
        return Ok(None);
    };
    let parsed = number
        .to_str()
        .and_then(|text| text.parse::<RawFd>().ok())
        .filter(|fd| *fd > 2);
    let greeting = greeting
        .map(OsString::into_encoded_bytes)
        .unwrap_or_default();
    match parsed {
        Some(number) if matches!(greeting.len(), 1..=GREETING_BYTES_MAX) => {
            Ok(Some((number, greeting)))
        }
        _ => Err(JobError::Config(format!(
            "{FD_VARIABLE} is {number:?} with {GREETING_VARIABLE} {:?}: no launcher has set them; \
             unset {FD_VARIABLE} to run alone, or start the program with refrain run",
            String::from_utf8_lossy(&greeting),
        ))),
    }
}

/// Whether `greeting` is the next data in this socket; if so, it is read.
fn takes_greeting(socket: BorrowedFd<'_>, greeting: &[u8]) -> bool {
    let mut bytes = [0; GREETING_BYTES_MAX];
    let bytes = &mut bytes[..greeting.len()];
    let looked = rustix::net::recv(socket, &mut *bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    looked == Ok((greeting.len(), greeting.len()))
        && *bytes == *greeting
        && rustix::net::recv(socket, &mut *bytes, RecvFlags::DONTWAIT).is_ok()
}

fn stale(number: RawFd, what: &str) -> JobError {
    JobError::Config(format!(
        "{FD_VARIABLE} names descriptor {number}, which {what}: the variable was inherited from a job \
         that this process is not a rank of; unset it to run alone, or start the program with refrain run"
    ))
}

/// Takes over the control socket that the environment names, and closes it to the children of this
/// process. `None`: no launcher has started this process.
///
/// # Errors
/// The variable does not name this process's own control socket.
pub fn claim() -> Result<Option<OwnedFd>, JobError> {
    let Some((number, greeting)) = parse(
        std::env::var_os(FD_VARIABLE),
        std::env::var_os(GREETING_VARIABLE),
    )?
    else {
        return Ok(None);
    };
    if CLAIMED.load(Ordering::Relaxed) {
        return Err(JobError::Config(
            "this process has joined its job already: it can do so once".into(),
        ));
    }
    // SAFETY: `number` is > 2 and so not -1. The borrow ends in this function
    // and is only used to ask what it is; a closed number answers EBADF.
    let candidate = unsafe { BorrowedFd::borrow_raw(number) };
    let stat = rustix::fs::fstat(candidate).map_err(|_| stale(number, "is not open"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(stale(number, "is not a socket"));
    }
    if CLAIMED.swap(true, Ordering::Relaxed) {
        return Err(JobError::Config("two threads join the job at once".into()));
    }
    if !takes_greeting(candidate, &greeting) {
        CLAIMED.store(false, Ordering::Relaxed);
        return Err(stale(
            number,
            "is another socket, or another process has joined as this rank \
             (a wrapper may start only one program that joins)",
        ));
    }
    rustix::io::fcntl_setfd(candidate, FdFlags::CLOEXEC)
        .map_err(|error| JobError::control("closing the control socket to children", error))?;
    // SAFETY: it is the socket that the launcher left for this process (it
    // held the greeting); nothing else in the process knows of it, and `CLAIMED` makes
    // this the only owner.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(Some(moved_up(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(number: &str, greeting: &str) -> Result<Option<(RawFd, Vec<u8>)>, String> {
        parse(Some(number.into()), Some(greeting.into())).map_err(|error| error.to_string())
    }

    #[test]
    fn no_variable_means_no_launcher() {
        assert!(parse(None, None).unwrap().is_none());
        assert!(parse(None, Some("hello".into())).unwrap().is_none());
    }

    #[test]
    fn only_what_a_launcher_writes_is_taken() {
        assert_eq!(parsed("5", "hello"), Ok(Some((5, b"hello".to_vec()))));
        for number in ["", "x", "-1", "0", "2", "5 ", "99999999999"] {
            let message = parsed(number, "hello").unwrap_err();
            assert!(
                message.contains("REFRAIN_CONTROL_FD") && message.contains("refrain run"),
                "{message}"
            );
        }
        for greeting in ["", &"x".repeat(GREETING_BYTES_MAX + 1)] {
            let message = parsed("5", greeting).unwrap_err();
            assert!(message.contains(GREETING_VARIABLE), "{message}");
        }
        assert!(parse(Some("5".into()), None).is_err());
    }

    #[test]
    fn only_a_whole_greeting_is_taken_and_nothing_else() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        use std::os::fd::AsFd;

        let longest = greeting(u64::MAX, u32::MAX);
        assert!(longest.len() <= GREETING_BYTES_MAX);
        let pair = || {
            let flags = SocketFlags::CLOEXEC;
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
        };
        for other in ["", "refrain job", &greeting(u64::MAX, 7)] {
            let (ours, theirs) = pair();
            greet(ours.as_fd(), other).unwrap();
            assert!(!takes_greeting(theirs.as_fd(), longest.as_bytes()));
            drop(ours);
            let mut left = [0; GREETING_BYTES_MAX];
            let (left, _) = rustix::net::recv(&theirs, &mut left, RecvFlags::empty()).unwrap();
            assert_eq!(left, other.len(), "it is all there still");
        }
        let (ours, theirs) = pair();
        greet(ours.as_fd(), &longest).unwrap();
        greet(ours.as_fd(), "rest").unwrap();
        assert!(takes_greeting(theirs.as_fd(), longest.as_bytes()));
        let mut left = [0; GREETING_BYTES_MAX];
        let (length, _) = rustix::net::recv(&theirs, &mut left, RecvFlags::empty()).unwrap();
        assert_eq!(left[..length], *b"rest");
    }
}
