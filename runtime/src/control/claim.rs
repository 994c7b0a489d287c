//! Claiming the inherited control socket.
//!
//! The launcher leaves one end of a socketpair open in the rank and says in
//! the environment which number it has. The environment outlives the
//! descriptor (children of a rank inherit the one, not the other), so the
//! socket's inode number goes with it: a number that leads to anything else is
//! recognised before a byte is written to it.

#![allow(
    unsafe_code,
    reason = "a descriptor inherited by number can only be taken over with from_raw_fd"
)]

use crate::Error;
use refrain_secure::unix::moved_up;
use rustix::fs::FileType;
use rustix::io::FdFlags;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of the rank's end of the control socket.
pub const FD_VARIABLE: &str = "REFRAIN_CONTROL_FD";
/// Inode number of that socket: tells a stale number from a live one.
pub const INODE_VARIABLE: &str = "REFRAIN_CONTROL_INODE";

/// A process joins its job once: afterwards the number belongs to the
/// [`OwnedFd`] that was made of it.
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// What the environment says: number and inode. `None`: no launcher.
///
/// # Errors
/// Variables that no launcher can have set.
fn parse(number: Option<OsString>, inode: Option<OsString>) -> Result<Option<(RawFd, u64)>, Error> {
    let Some(number) = number else {
        return Ok(None);
    };
    let parsed = number
        .to_str()
        .and_then(|text| text.parse::<RawFd>().ok())
        .filter(|fd| *fd > 2);
    let inode = inode
        .as_ref()
        .and_then(|text| text.to_str()?.parse::<u64>().ok());
    match (parsed, inode) {
        (Some(number), Some(inode)) => Ok(Some((number, inode))),
        _ => Err(Error::Config(format!(
            "{FD_VARIABLE} is {number:?} with {INODE_VARIABLE} {}: no launcher has set them; \
             unset {FD_VARIABLE} to run alone, or start the program with refrain run",
            inode.map_or("missing or no number".into(), |inode| inode.to_string()),
        ))),
    }
}

fn stale(number: RawFd, what: &str) -> Error {
    Error::Config(format!(
        "{FD_VARIABLE} names descriptor {number}, which {what}: the variable was inherited from a job \
         that this process is not a rank of; unset it to run alone, or start the program with refrain run"
    ))
}

/// Takes over the control socket that the environment names, and closes it to
/// the children of this process. `None`: not started by a launcher.
///
/// # Errors
/// When the variable does not lead to this process's own control socket.
pub fn claim() -> Result<Option<OwnedFd>, Error> {
    let Some((number, inode)) = parse(
        std::env::var_os(FD_VARIABLE),
        std::env::var_os(INODE_VARIABLE),
    )?
    else {
        return Ok(None);
    };
    if CLAIMED.load(Ordering::Relaxed) {
        return Err(Error::Config(
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
    if stat.st_ino != inode {
        return Err(stale(number, "is a socket of something else"));
    }
    if CLAIMED.swap(true, Ordering::Relaxed) {
        return Err(Error::Config("two threads join the job at once".into()));
    }
    rustix::io::fcntl_setfd(candidate, FdFlags::CLOEXEC).map_err(|error| Error::Control {
        attempted: "closing the control socket to children".into(),
        error: error.into(),
    })?;
    // SAFETY: it is the socket that the launcher left for this process (same
    // inode); nothing else in the process knows of it, and `CLAIMED` makes
    // this the only owner.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(Some(moved_up(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(number: &str, inode: &str) -> Result<Option<(RawFd, u64)>, String> {
        parse(Some(number.into()), Some(inode.into())).map_err(|error| error.to_string())
    }

    #[test]
    fn no_variable_means_no_launcher() {
        assert!(parse(None, None).unwrap().is_none());
        assert!(parse(None, Some("7".into())).unwrap().is_none());
    }

    #[test]
    fn only_what_a_launcher_writes_is_taken() {
        assert_eq!(parsed("5", "77"), Ok(Some((5, 77))));
        for number in ["", "x", "-1", "0", "2", "5 ", "99999999999"] {
            let message = parsed(number, "77").unwrap_err();
            assert!(
                message.contains("REFRAIN_CONTROL_FD") && message.contains("refrain run"),
                "{message}"
            );
        }
        assert!(
            parsed("5", "x")
                .unwrap_err()
                .contains("REFRAIN_CONTROL_INODE")
        );
        assert!(parse(Some("5".into()), None).is_err());
    }
}
