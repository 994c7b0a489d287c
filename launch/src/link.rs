//! The launcher's end of a rank's control socket, which never blocks; for a rank on another host,
//! the connection to its agent. Memory that ranks share by passing descriptors is held here or by
//! the agent.

use super::hosts::far::AgentHandle;
use super::hosts::message::{Life, ToAgent};
use refrain_job::control::message::{Accompanied as _, CONTROL, ToLauncher, ToRank};
use refrain_transport::fabric::shm::Caller;
use refrain_wire::{Connection, WireError};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// The launcher's end of a control socket.
#[derive(Debug)]
pub struct Near {
    /// `None`: the rank has closed its end, or has died.
    connection: Option<Connection>,
    /// The rank accepts no more messages. Its earlier messages are still to be read.
    is_gone: bool,
    /// Wakes the rank; set when the rank has published its segment.
    caller: Option<Caller>,
}

/// A rank that is reached through an agent.
#[derive(Debug)]
pub struct Far {
    agent: AgentHandle,
    life: Life,
    heard: VecDeque<(ToLauncher, Option<Memory>)>,
    is_open: bool,
}

/// The connection to one rank.
#[derive(Debug)]
pub enum Link {
    /// To a rank on this host.
    Near(Box<Near>),
    /// To a rank on another host.
    Far(Far),
}

impl Link {
    /// A connection over the launcher's end of a control socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self::Near(Box::new(Near {
            connection: Some(Connection::new(socket, &CONTROL)),
            is_gone: false,
            caller: None,
        }))
    }

    /// A connection through an agent.
    pub fn far(agent: AgentHandle, life: Life) -> Self {
        Self::Far(Far {
            agent,
            life,
            heard: VecDeque::new(),
            is_open: true,
        })
    }

    /// The socket to poll; `None` if it is closed, or if the rank is on another host.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let Self::Near(near) = self else {
            return None;
        };
        let connection = near.connection.as_ref()?;
        let interest = match near.is_gone {
            true => PollFlags::IN,
            false => connection.interest(),
        };
        Some((connection.as_fd(), interest))
    }

    /// Stops receiving from the rank and sending to it.
    pub fn close(&mut self) {
        match self {
            Self::Near(near) => near.connection = None,
            Self::Far(far) => {
                far.is_open = false;
                far.heard.clear();
            }
        }
    }

    /// Adds a message that an agent has forwarded.
    pub fn pass_on(&mut self, message: ToLauncher, memory: Option<Memory>) {
        if let Self::Far(far) = self
            && far.is_open
        {
            far.heard.push_back((message, memory));
        }
    }

    /// Sends `message` as soon as the rank accepts it. Sends nothing to a rank that has closed its
    /// end: the end of its process is handled elsewhere.
    ///
    /// # Errors
    /// The message is too long.
    pub fn send(&mut self, message: &ToRank, memory: Option<Memory>) -> Result<(), WireError> {
        match self {
            Self::Near(near) => near.send(message, memory),
            Self::Far(far) => {
                if far.is_open {
                    far.agent.push(ToAgent::Say {
                        life: far.life,
                        message: Box::new(message.clone()),
                        memory: memory.and_then(|memory| memory.number_at(&far.agent)),
                    });
                }
                Ok(())
            }
        }
    }

    /// Sends as much as the rank accepts now.
    pub fn flush(&mut self) {
        if let Self::Near(near) = self {
            near.flush();
        }
    }

    /// Whether descriptors for the rank wait until other processes have received theirs: flush again
    /// after [`HELD_BACK_RETRY`](refrain_wire::HELD_BACK_RETRY).
    pub fn is_held_back(&self) -> bool {
        match self {
            Self::Near(near) if !near.is_gone => {
                (near.connection.as_ref()).is_some_and(Connection::is_held_back)
            }
            _ => false,
        }
    }

    /// Reads once, and returns the next message. `None`: no message now.
    ///
    /// # Errors
    /// The bytes are not a message; nothing more can be decoded.
    pub fn receive(&mut self) -> Result<Option<(ToLauncher, Option<Memory>)>, WireError> {
        match self {
            Self::Near(near) => near.receive(),
            Self::Far(far) => Ok(far.heard.pop_front()),
        }
    }
}

impl Near {
    fn send(&mut self, message: &ToRank, memory: Option<Memory>) -> Result<(), WireError> {
        let Some(connection) = self.connection.as_mut().filter(|_| !self.is_gone) else {
            return Ok(());
        };
        let memory = match memory {
            Some(Memory::Here(memory)) => vec![memory],
            _ => Vec::new(),
        };
        connection.say_with(message, memory)?;
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        let Some(connection) = self.connection.as_mut().filter(|_| !self.is_gone) else {
            return;
        };
        let before = connection.unsent_bytes();
        self.is_gone = connection.flush().is_err();
        if connection.unsent_bytes() < before {
            // The rank may sleep without watching the socket.
            self.caller.iter().for_each(Caller::call);
        }
    }

    fn receive(&mut self) -> Result<Option<(ToLauncher, Option<Memory>)>, WireError> {
        let Some(connection) = &mut self.connection else {
            return Ok(None);
        };
        let message: ToLauncher = match connection.hear() {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(None),
            Err(WireError::Closed) => {
                self.connection = None;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let memory = message.take_memory(connection)?.map(Arc::new);
        if let Some(memory) = &memory {
            // Memory that is not a segment has no doorbell.
            let caller = Caller::new(Arc::clone(memory)).ok();
            self.caller = caller.or(self.caller.take());
        }
        Ok(Some((message, memory.map(Memory::Here))))
    }
}

/// Shared memory, held here or by an agent. It is released with the last clone.
#[derive(Clone, Debug)]
pub enum Memory {
    /// The descriptor, on this host.
    Here(Arc<OwnedFd>),
    /// Memory on another host.
    There(Rc<Token>),
}

/// Stands for a descriptor that an agent holds.
#[derive(Debug)]
pub struct Token {
    agent: AgentHandle,
    /// The agent's number for the memory.
    number: u64,
}

impl Memory {
    /// Memory that came with a message of a rank on another host.
    pub fn there(agent: &AgentHandle, number: u64) -> Self {
        let agent = agent.clone();
        Self::There(Rc::new(Token { agent, number }))
    }

    /// The number that the agent of `agent` uses for the memory; `None`: the memory is not on that
    /// host.
    pub fn number_at(&self, agent: &AgentHandle) -> Option<u64> {
        match self {
            Self::There(token) if token.agent.is(agent) => Some(token.number),
            _ => None,
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let number = self.number;
        self.agent.push(ToAgent::LetGo(number));
    }
}
