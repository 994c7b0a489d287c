//! Connects to the launcher, or to another agent, and waits until that has proved the secret.

use crate::hosts::message::{AGENT, FromAgent};
use crate::polling;
use refrain_wire::{Connection, Secret, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// Time limit for a connection to one address.
const ADDRESS_MAX: Duration = Duration::from_secs(5);

/// Tries all addresses `rounds` times: other clients may fill a door. `first` is the first message.
/// `None`: the standard input is closed, the launcher no longer waits.
///
/// # Errors
/// What was tried, and what failed.
pub(super) fn call(
    addresses: &[SocketAddr],
    rounds: u32,
    secret: &Secret,
    first: &FromAgent,
) -> Result<Option<Connection>, String> {
    let mut tried = Vec::new();
    for _ in 0..rounds {
        tried.clear();
        for address in addresses {
            match try_at(*address, secret, first) {
                Ok(wire) => return Ok(Some(wire)),
                Err(_) if is_dismissed() => return Ok(None),
                Err(error) => tried.push(format!("{address}: {error}")),
            }
        }
    }
    Err(tried.join("; "))
}

fn try_at(
    address: SocketAddr,
    secret: &Secret,
    first: &FromAgent,
) -> Result<Connection, WireError> {
    let until = Instant::now() + ADDRESS_MAX;
    let mut wire = Connection::begin_tcp(address, Some(secret), &AGENT)?;
    wire.say(first)?;
    while !wire.is_proven() || wire.unsent_bytes() > 0 {
        wait(&wire, until)?;
        wire.flush()?;
        wire.receive()?;
    }
    Ok(wire)
}

/// Sleeps until the connection can be read or written, or until a time.
fn wait(wire: &Connection, until: Instant) -> io::Result<()> {
    let stdin = io::stdin();
    let mut polled = [
        PollFd::from_borrowed_fd(wire.as_fd(), wire.interest()),
        PollFd::new(&stdin, PollFlags::IN),
    ];
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    match rustix::io::retry_on_intr(|| poll(&mut polled, Some(&left)))? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ if polled[0].revents().is_empty() => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Whether stdin is closed: the launcher no longer waits.
fn is_dismissed() -> bool {
    polling::is_ready(&io::stdin(), PollFlags::IN)
}
