//! An agent's connection to the launcher, or to the agent above it in the tree. There its messages are
//! numbered, and come again over another connection if this one breaks.

use super::calling::call;
use super::error::AgentError;
use crate::hosts::invitation::Invitation;
use crate::hosts::message::{AGENT, AgentDoor, FromAgent};
use crate::hosts::numbered::Numbered;
use refrain_wire::{Connection, Secret, WireError};
use std::net::{IpAddr, SocketAddr};

/// With more unsent bytes than this for the launcher, the agent reads nothing from ranks, nor from
/// agents below it.
const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Number of times that all addresses of the launcher are tried.
const ROUNDS: u32 = 3;
/// Number of addresses of the agent above that are tried, 5 s each at most.
const ATTACH_ADDRESSES_MAX: usize = 4;
/// Number of connections to the launcher that may end, one after the other, before it has answered.
const CALLS_MAX: u32 = 3;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Uplink {
    wire: Connection,
    secret: Secret,
    /// Addresses of the launcher, the one that has answered first.
    launcher: Vec<SocketAddr>,
    /// With an agent's number in the tree: what it has sent and received.
    numbered: Option<(u32, Numbered)>,
    /// Why nothing more can be sent.
    failure: Option<WireError>,
    /// The connection is to the launcher.
    is_direct: bool,
    /// Calls that the launcher has not answered.
    calls: u32,
    /// A connection to the launcher that is to replace this one, which brings no answers.
    detour: Option<Connection>,
}

impl Uplink {
    /// Connects to the launcher. `None`: it no longer waits.
    ///
    /// # Errors
    /// [`AgentError::Unreachable`], with what was tried.
    pub(super) fn to_launcher(invitation: &Invitation) -> Result<Option<Self>, AgentError> {
        let mut addresses: Vec<IpAddr> = where_ssh_came_from().into_iter().collect();
        for address in &invitation.addresses {
            if !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        let with_port = |address| SocketAddr::new(address, invitation.port);
        let mut launcher: Vec<SocketAddr> = addresses.into_iter().map(with_port).collect();
        let hello = FromAgent::Hello(invitation.host);
        let called = call(&launcher, ROUNDS, &invitation.secret, &hello);
        let Some(wire) = called.map_err(AgentError::Unreachable)? else {
            return Ok(None);
        };
        if let Ok(address) = wire.peer_address() {
            launcher.insert(0, with_port(address));
        }
        Ok(Some(Self {
            wire,
            secret: invitation.secret.clone(),
            launcher,
            numbered: None,
            failure: None,
            is_direct: true,
            calls: 0,
            detour: None,
        }))
    }

    /// The secret of the job.
    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The connection.
    pub(super) fn wire(&self) -> &Connection {
        &self.wire
    }

    /// Whether more messages may be queued.
    pub(super) fn has_room(&self) -> bool {
        let kept = self.numbered.as_ref().map_or(0, |(_, it)| it.kept_bytes());
        self.wire.unsent_bytes().max(kept) < UNSENT_BYTES_MAX
    }

    /// Queues a message of this agent.
    ///
    /// # Errors
    /// As [`Connection::say`]; of a numbered one only that it is too long.
    pub(super) fn say(&mut self, message: &FromAgent) -> Result<(), WireError> {
        let Some((agent, numbered)) = &mut self.numbered else {
            return self.wire.say(message);
        };
        let frame = message.to_frame()?;
        let passed = FromAgent::Pass {
            from: *agent,
            number: numbered.send(frame.clone()),
            received: numbered.tell_received(),
            frame,
        };
        self.pass(&passed);
        Ok(())
    }

    /// Queues a message that is not numbered here. A failure is reported by [`flush`](Self::flush).
    pub(super) fn pass(&mut self, message: &FromAgent) {
        let said = self.wire.say(message);
        self.failure = said.err().or(self.failure.take());
    }

    /// Sends as much as the connection takes.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn flush(&mut self) -> Result<(), WireError> {
        if let Some((agent, numbered)) = &mut self.numbered
            && numbered.is_due()
        {
            let told = FromAgent::Received {
                agent: *agent,
                received: numbered.tell_received(),
            };
            self.pass(&told);
        }
        match self.failure.take() {
            Some(error) => Err(error),
            None => self.wire.flush(),
        }
    }

    /// Reads once.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub(super) fn receive(&mut self) -> Result<(), WireError> {
        self.wire.receive().map(drop)
    }

    /// The next message that has arrived.
    ///
    /// # Errors
    /// As [`Connection::next_message`].
    pub(super) fn next_message<M: serde::de::DeserializeOwned>(
        &mut self,
    ) -> Result<Option<M>, WireError> {
        self.wire.next_message()
    }

    /// A frame for this agent has come. `false`: it is dropped.
    pub(super) fn take(&mut self, number: u64, received: u64, bytes: usize) -> bool {
        let Some((_, numbered)) = &mut self.numbered else {
            return false;
        };
        // The launcher counts only what was sent.
        let _ = numbered.have_arrived(received);
        numbered.take(number, bytes)
    }

    /// The launcher has received this number of frames of this agent.
    pub(super) fn have_arrived(&mut self, received: u64) {
        if let Some((_, numbered)) = &mut self.numbered {
            let _ = numbered.have_arrived(received);
        }
    }

    /// The launcher has accepted the connection, and has received this number of frames.
    pub(super) fn resume(&mut self, received: u64) {
        self.calls = 0;
        self.have_arrived(received);
        let Some((agent, numbered)) = &mut self.numbered else {
            return;
        };
        let agent = *agent;
        let received = numbered.tell_received();
        let again = numbered.again();
        self.pass(&FromAgent::Resume { agent, received });
        for (number, frame) in again {
            self.pass(&FromAgent::Pass {
                from: agent,
                number,
                received,
                frame,
            });
        }
    }

    /// Connects with the agent above this one, whose number in the tree is `agent`.
    ///
    /// # Errors
    /// It cannot be reached; what was tried, for people.
    pub(super) fn attach(&mut self, agent: u32, door: &AgentDoor) -> Result<(), String> {
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in &door.addresses {
            let address = match address.is_loopback() {
                // That agent is on the launcher's host.
                true => self.wire.peer_address().unwrap_or(*address),
                false => *address,
            };
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses.truncate(ATTACH_ADDRESSES_MAX);
        let with_port = |address: IpAddr| SocketAddr::new(address, door.port);
        let addresses: Vec<SocketAddr> = addresses.into_iter().map(with_port).collect();
        let wire = call(&addresses, 1, &self.secret, &FromAgent::Attach(agent))
            .map_err(|tried| format!("the agent above it cannot be reached: {tried}"))?;
        self.wire = wire.ok_or("its standard input is closed")?;
        self.is_direct = false;
        self.numbered = Some((agent, Numbered::default()));
        Ok(())
    }

    /// Connects with the launcher, after another connection has ended. `false`: it no longer waits.
    ///
    /// # Errors
    /// The launcher cannot be reached.
    pub(super) fn call_again(&mut self) -> Result<bool, AgentError> {
        let Some((agent, _)) = self.numbered else {
            return Ok(false);
        };
        let attach = FromAgent::Attach(agent);
        let called = call(&self.launcher, ROUNDS, &self.secret, &attach);
        match called.map_err(AgentError::Unreachable)? {
            Some(wire) => {
                self.replace(wire);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Uses another connection, to the launcher.
    fn replace(&mut self, wire: Connection) {
        self.wire = wire;
        self.failure = None;
        self.is_direct = true;
        self.calls += 1;
        self.detour = None;
    }

    /// Whether no other connection is to be found, nor being made.
    pub(super) fn has_detour(&self) -> bool {
        self.is_direct || self.detour.is_some()
    }

    /// The connection to the launcher that is being made, to poll.
    pub(super) fn detour(&self) -> Option<&Connection> {
        self.detour.as_ref()
    }

    /// Connects with the launcher without waiting, while the connection through other agents brings no
    /// answers: one of them may hang, or its host may be lost.
    pub(super) fn make_detour(&mut self, is_needed: bool) {
        let (true, Some((agent, _)), Some(launcher)) = (
            is_needed && !self.is_direct,
            &self.numbered,
            self.launcher.first(),
        ) else {
            self.detour = None;
            return;
        };
        if self.detour.is_none() {
            let wire = Connection::begin_tcp(*launcher, Some(&self.secret), &AGENT);
            let attach = FromAgent::Attach(*agent);
            self.detour = wire
                .and_then(|mut wire| wire.say(&attach).map(|()| wire))
                .ok();
        }
        let Some(mut wire) = self.detour.take() else {
            return;
        };
        if wire.flush().and_then(|()| wire.receive()).is_err() {
            return;
        }
        match wire.is_proven() && wire.unsent_bytes() == 0 {
            true => self.replace(wire),
            false => self.detour = Some(wire),
        }
    }

    /// Whether the agent goes on after this end of its connection. The launcher closes the connections
    /// of an agent that it has given up.
    pub(super) fn can_call_again(&self, error: &WireError) -> bool {
        let is_of_connection = !matches!(error, WireError::Frame(_));
        self.numbered.is_some() && is_of_connection && self.calls < CALLS_MAX
    }
}

/// The launcher's host as sshd has seen it: this address is known to be reachable.
fn where_ssh_came_from() -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split_ascii_whitespace().next()?.parse().ok()
}
