//! The launcher's end of one rank's control socket: never blocks. That of a rank
//! on another host is with its agent, which passes the messages on.

use super::hosts::Arm;
use super::memory::Memory;
use refrain_job::control::framing::{self, FrameError};
use refrain_job::control::message::{ToLauncher, ToRank};
use refrain_job::control::socket::{self, ReceiveError, Receiver};
use refrain_transport::fabric::shm::Caller;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A frame that waits to be sent.
#[derive(Debug)]
struct Outgoing {
    frame: Vec<u8>,
    sent: usize,
    memory: Option<Memory>,
}

/// The launcher's end of a socketpair.
#[derive(Debug)]
struct Near {
    /// `None`: the rank's end is closed, by the rank or by its death.
    socket: Option<OwnedFd>,
    receiver: Receiver,
    outgoing: VecDeque<Outgoing>,
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
                socket: Some(socket),
                receiver: Receiver::default(),
                outgoing: VecDeque::new(),
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
        let socket = near.socket.as_ref()?;
        let sending = if near.outgoing.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        Some((socket.as_fd(), PollFlags::IN | sending))
    }

    /// Nothing will be heard from, or said to, the rank any more.
    pub fn close(&mut self) {
        match &mut self.way {
            Way::Near(near) => near.close(),
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
    pub fn send(&mut self, message: &ToRank, memory: Option<Memory>) -> Result<(), FrameError> {
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
    pub fn receive(&mut self) -> Result<Option<(ToLauncher, Option<Memory>)>, ReceiveError> {
        match &mut self.way {
            Way::Near(near) => near.receive(),
            Way::Far(far) => Ok(far.heard.pop_front()),
        }
    }
}

impl Near {
    fn close(&mut self) {
        self.socket = None;
        self.outgoing.clear();
    }

    fn send(&mut self, message: &ToRank, memory: Option<Memory>) -> Result<(), FrameError> {
        let frame = framing::encode(message)?;
        if self.socket.is_some() {
            self.outgoing.push_back(Outgoing {
                frame,
                sent: 0,
                memory,
            });
            self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) {
        while let (Some(socket), Some(first)) = (&self.socket, self.outgoing.front_mut()) {
            let memory = match &first.memory {
                Some(Memory::Here(memory)) => Some(memory.as_fd()),
                _ => None,
            };
            match socket::send(
                socket.as_fd(),
                &first.frame[first.sent..],
                memory,
                SendFlags::DONTWAIT,
            ) {
                Ok(bytes) => {
                    first.sent += bytes;
                    first.memory = None;
                    if first.sent == first.frame.len() {
                        self.outgoing.pop_front();
                        // The rank may sleep without watching the socket.
                        self.caller.iter().for_each(Caller::call);
                    }
                }
                // Too many descriptors under way counts as full: it passes as
                // soon as ranks take theirs.
                Err(Errno::AGAIN | Errno::TOOMANYREFS) => return,
                // The rank is gone. What it said before is still to be read.
                Err(_) => self.outgoing.clear(),
            }
        }
    }

    fn receive(&mut self) -> Result<Option<(ToLauncher, Option<Memory>)>, ReceiveError> {
        loop {
            if let Some((message, memory)) = self.receiver.next_message()? {
                let memory = memory.map(Arc::new);
                if let Some(memory) = &memory {
                    // Other memory than a segment has no bell.
                    let caller = Caller::new(Arc::clone(memory)).ok();
                    self.caller = caller.or(self.caller.take());
                }
                return Ok(Some((message, memory.map(Memory::Here))));
            }
            let Some(socket) = &self.socket else {
                return Ok(None);
            };
            match self.receiver.read(socket.as_fd(), RecvFlags::DONTWAIT) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(ReceiveError::Closed) => self.close(),
                Err(error) => return Err(error),
            }
        }
    }
}
