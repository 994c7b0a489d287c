//! The launcher's end of a rank's control socket, which never blocks; of a rank on another
//! host, the connection to its agent. Memory that ranks share by passing descriptors is held
//! here, or by the agent.

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

/// The launcher's end of a socketpair.
#[derive(Debug)]
pub struct Near {
    /// `None`: the rank's end is closed, by the rank or by its death.
    connection: Option<Connection>,
    /// The rank takes nothing any more. Its earlier messages are still to be read.
    is_gone: bool,
    /// Wakes the rank, from when it has published its segment.
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
    /// On this host.
    Near(Box<Near>),
    /// On another host.
    Far(Far),
}

impl Link {
    /// Over the launcher's end of a socketpair.
    pub fn new(socket: OwnedFd) -> Self {
        Self::Near(Box::new(Near {
            connection: Some(Connection::new(socket, &CONTROL)),
            is_gone: false,
            caller: None,
        }))
    }

    /// Through an agent.
    pub fn far(agent: AgentHandle, life: Life) -> Self {
        Self::Far(Far {
            agent,
            life,
            heard: VecDeque::new(),
            is_open: true,
        })
    }

    /// What to poll for; `None` when the socket is closed, or not here.
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

    /// Nothing is received from the rank, or sent to it, any more.
    pub fn close(&mut self) {
        match self {
            Self::Near(near) => near.connection = None,
            Self::Far(far) => {
                far.is_open = false;
                far.heard.clear();
            }
        }
    }

    /// An agent has passed this on.
    pub fn pass_on(&mut self, message: ToLauncher, memory: Option<Memory>) {
        if let Self::Far(far) = self
            && far.is_open
        {
            far.heard.push_back((message, memory));
        }
    }

    /// Sends `message` as soon as the rank takes it. To a rank that has closed
    /// its end nothing is sent: the end of its process is handled elsewhere.
    ///
    /// # Errors
    /// When the message is too long to be one.
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

    /// Sends what the rank takes now.
    pub fn flush(&mut self) {
        if let Self::Near(near) = self {
            near.flush();
        }
    }

    /// Reads once, and hands out the next message. `None`: nothing more now.
    ///
    /// # Errors
    /// What came is no message; nothing more will be understood.
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
            // Other memory than a segment has no bell.
            let caller = Caller::new(Arc::clone(memory)).ok();
            self.caller = caller.or(self.caller.take());
        }
        Ok(Some((message, memory.map(Memory::Here))))
    }
}

/// Shared memory: here, or at an agent. It is released with the last clone.
#[derive(Clone, Debug)]
pub enum Memory {
    /// Its descriptor.
    Here(Arc<OwnedFd>),
    /// On another host.
    There(Rc<Token>),
}

/// Stands for a descriptor that an agent holds.
#[derive(Debug)]
pub struct Token {
    agent: AgentHandle,
    /// As the agent calls it.
    number: u64,
}

impl Memory {
    /// What came with a message of a rank of another host.
    pub fn there(agent: &AgentHandle, number: u64) -> Self {
        let agent = agent.clone();
        Self::There(Rc::new(Token { agent, number }))
    }

    /// What the agent of `agent` calls it; `None`: it is not on that host.
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
