//! Finding the launcher: its addresses are tried one by one, until somebody there
//! proves that it knows the secret. Gives up when the standard input is closed: there
//! is no launcher any more that waits.

use super::AgentError;
use crate::hosts::invitation::{Invitation, PURPOSE};
use crate::hosts::message::FromAgent;
use crate::hosts::wire::{Wire, WireError};
use refrain_secure::Session;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// How long one address may take.
const ADDRESS_MAX: Duration = Duration::from_secs(5);
/// How often all are tried: strangers may have been in front of the door.
const ROUNDS: u32 = 3;

/// Says hello to the launcher. `None`: it does not wait any more.
pub(super) fn call(invitation: &Invitation) -> Result<Option<Wire>, AgentError> {
    let mut addresses: Vec<IpAddr> = where_ssh_came_from().into_iter().collect();
    for address in &invitation.addresses {
        if !addresses.contains(address) {
            addresses.push(*address);
        }
    }
    let mut tried = Vec::new();
    for _ in 0..ROUNDS {
        tried.clear();
        for address in &addresses {
            let address = SocketAddr::new(*address, invitation.port);
            match try_at(address, invitation) {
                Ok(wire) => return Ok(Some(wire)),
                Err(_) if is_dismissed() => return Ok(None),
                Err(error) => tried.push(format!("{address}: {error}")),
            }
        }
    }
    Err(AgentError::Unreachable(tried.join("; ")))
}

fn try_at(address: SocketAddr, invitation: &Invitation) -> Result<Wire, WireError> {
    let until = Instant::now() + ADDRESS_MAX;
    let stream = TcpStream::connect_timeout(&address, ADDRESS_MAX)?;
    let session = Session::caller(&invitation.secret, PURPOSE)?;
    let mut wire = Wire::new(stream, session)?;
    wire.say(&FromAgent::Hello {
        host: invitation.host,
    })?;
    while !wire.is_proven() || wire.is_sending() {
        wait(&wire, until)?;
        wire.flush()?;
        wire.receive()?;
    }
    Ok(wire)
}

/// Sleeps until there is something to read or to send.
fn wait(wire: &Wire, until: Instant) -> io::Result<()> {
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

/// Whether the standard input is closed: nobody says anything there any more.
fn is_dismissed() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let at_once = Timespec::default();
    let ready = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&at_once)));
    ready.is_ok() && !polled[0].revents().is_empty()
}

/// The launcher's host, as sshd has seen it: the way back that is known to exist.
fn where_ssh_came_from() -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split_ascii_whitespace().next()?.parse().ok()
}
