//! Finding the launcher: its addresses are tried one by one, until somebody there
//! proves that it knows the secret.

use super::AgentError;
use crate::launcher::hosts::invitation::{Invitation, PURPOSE};
use crate::launcher::hosts::message::FromAgent;
use crate::launcher::hosts::wire::{Wire, WireError};
use refrain_secure::Session;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one address may take.
const ADDRESS_MAX: Duration = Duration::from_secs(5);
/// How often all are tried: strangers may have been in front of the door.
const ROUNDS: u32 = 3;

/// Says hello to the launcher.
pub(super) fn call(invitation: &Invitation) -> Result<Wire, AgentError> {
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
                Ok(wire) => return Ok(wire),
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
        wire.wait(until)?;
        wire.flush()?;
        wire.receive()?;
    }
    Ok(wire)
}

/// The launcher's host, as sshd has seen it: the way back that is known to exist.
fn where_ssh_came_from() -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split_ascii_whitespace().next()?.parse().ok()
}
