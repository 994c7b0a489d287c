//! The launcher's end of one rank's control socket: never blocks.

use crate::control::framing::{self, FrameError};
use crate::control::message::{ToLauncher, ToRank};
use crate::control::socket::{self, ReceiveError, Receiver};
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
    memory: Option<Arc<OwnedFd>>,
}

/// The launcher's end of one rank's control socket.
#[derive(Debug)]
pub struct Link {
    /// `None`: the rank's end is closed, by the rank or by its death.
    socket: Option<OwnedFd>,
    receiver: Receiver,
    outgoing: VecDeque<Outgoing>,
}

impl Link {
    /// Over the launcher's end of a socketpair.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket: Some(socket),
            receiver: Receiver::default(),
            outgoing: VecDeque::new(),
        }
    }

    /// What to poll for; `None` when the socket is closed.
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let socket = self.socket.as_ref()?;
        let sending = if self.outgoing.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        Some((socket.as_fd(), PollFlags::IN | sending))
    }

    /// Nothing will be heard from, or said to, the rank any more.
    pub fn close(&mut self) {
        self.socket = None;
        self.outgoing.clear();
    }

    /// Sends `message` as soon as the rank takes it. To a rank that has closed
    /// its end nothing is sent: its process's end says the rest.
    ///
    /// # Errors
    /// When the message is too long to be one.
    pub fn send(
        &mut self,
        message: &ToRank,
        memory: Option<Arc<OwnedFd>>,
    ) -> Result<(), FrameError> {
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

    /// Sends what the rank takes now.
    pub fn flush(&mut self) {
        while let (Some(socket), Some(first)) = (&self.socket, self.outgoing.front_mut()) {
            let memory = first.memory.as_ref().map(|memory| memory.as_fd());
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

    /// Reads once, and hands out the next message. `None`: nothing more now.
    ///
    /// # Errors
    /// What came is no message; nothing more will be understood.
    pub fn receive(&mut self) -> Result<Option<(ToLauncher, Option<OwnedFd>)>, ReceiveError> {
        loop {
            if let Some(message) = self.receiver.next_message()? {
                return Ok(Some(message));
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
