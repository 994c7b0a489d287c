//! The launcher's end of one rank's control socket: never blocks. That of a rank
//! on another host is with its agent, which passes the messages on.

use super::hosts::Arm;
use super::memory::Memory;
use refrain_job::control::message::{Accompanied as _, CONTROL, ToLauncher, ToRank};
use refrain_transport::fabric::shm::Caller;
use refrain_wire::{Connection, WireError};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The launcher's end of a socketpair.
#[derive(Debug)]
struct Near {
    /// `None`: the rank's end is closed, by the rank or by its death.
    connection: Option<Connection>,
    /// The rank takes nothing any more. What it said before is still to be read.
    is_gone: bool,
    /// Wakes the rank, from when it has published its segment.
    caller: Option<Caller>,
}

/// What an agent passes on.
#[derive(Debug)]
struct Far {
    arm: Arm,
    /// The rank, and which life of it.
    life: (u32, u32),
    heard: VecDeque<(ToLauncher, Option<Memory>)>,
    is_open: bool,
}

/// The way to one rank.
#[derive(Debug)]
pub struct Link {
    way: Way,
}

#[derive(Debug)]
enum Way {
    Near(Near),
    Far(Far),
}

impl Link {
    /// Over the launcher's end of a socketpair.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            way: Way::Near(Near {
                connection: Some(Connection::new(socket, &CONTROL)),
                is_gone: false,
                caller: None,
            }),
        }
    }

    /// By way of an agent, to this life (rank, incarnation).
    pub fn far(arm: Arm, life: (u32, u32)) -> Self {
        Self {
            way: Way::Far(Far {
                arm,
                life,
                heard: VecDeque::new(),
                is_open: true,
            }),
        }
    }

    /// What to poll for; `None` when the socket is closed, or not here.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let Way::Near(near) = &self.way else {
            return None;
        };
        let connection = near.connection.as_ref()?;
        let interest = match near.is_gone {
            true => PollFlags::IN,
            false => connection.interest(),
        };
        Some((connection.as_fd(), interest))
    }

    /// Nothing will be heard from, or said to, the rank any more.
    pub fn close(&mut self) {
        match &mut self.way {
            Way::Near(near) => near.connection = None,
            Way::Far(far) => {
                far.is_open = false;
                far.heard.clear();
            }
        }
    }

    /// An agent has passed this on.
    pub fn pass_on(&mut self, message: ToLauncher, memory: Option<Memory>) {
        if let Way::Far(far) = &mut self.way
            && far.is_open
        {
            far.heard.push_back((message, memory));
        }
    }

    /// Sends `message` as soon as the rank takes it. To a rank that has closed
    /// its end nothing is sent: its process's end says the rest.
    ///
    /// # Errors
    /// When the message is too long to be one.
    pub fn send(&mut self, message: &ToRank, memory: Option<Memory>) -> Result<(), WireError> {
        match &mut self.way {
            Way::Near(near) => near.send(message, memory),
            Way::Far(far) => {
                if far.is_open {
                    far.arm.say(far.life, message, memory.as_ref());
                }
                Ok(())
            }
        }
    }

    /// Sends what the rank takes now.
    pub fn flush(&mut self) {
        if let Way::Near(near) = &mut self.way {
            near.flush();
        }
    }

    /// Reads once, and hands out the next message. `None`: nothing more now.
    ///
    /// # Errors
    /// What came is no message; nothing more will be understood.
    pub fn receive(&mut self) -> Result<Option<(ToLauncher, Option<Memory>)>, WireError> {
        match &mut self.way {
            Way::Near(near) => near.receive(),
            Way::Far(far) => Ok(far.heard.pop_front()),
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
