//! The sockets of connections that come in.

use crate::watched::watch;
use refrain_wire::Accepted;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A connection's socket; does not block.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Of a connection that was let in and does not block. Over a Unix socket memory is
    /// shared, too, and a process that shares it can end the server (by cutting the file
    /// short): the listener lets in only processes that could also send it a signal.
    pub(super) fn new(accepted: Accepted) -> io::Result<Self> {
        match accepted {
            Accepted::Unix(stream) => Ok(Self::Unix(stream)),
            Accepted::Tcp(stream) => {
                watch(&stream)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Whether descriptors can be sent with it.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Reads what is there; 0: the other side has closed.
    pub(super) fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(to),
            Self::Tcp(stream) => stream.read(to),
        }
    }

    /// Sends some of `bytes`; the descriptors go with the first.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        descriptors: Option<&[OwnedFd; 2]>,
    ) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let borrowed = descriptors.map(|both| both.each_ref().map(OwnedFd::as_fd));
        if let Some(both) = &borrowed {
            let fits = ancillary.push(SendAncillaryMessage::ScmRights(both));
            debug_assert!(fits, "the space is made for two");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let bytes = [IoSlice::new(bytes)];
        rustix::io::retry_on_intr(|| sendmsg(self, &bytes, &mut ancillary, flags))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}
