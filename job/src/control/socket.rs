//! Bytes and descriptors over the control socket.

use super::framing::{FrameError, Reassembly};
use super::message::Accompanied;
use refrain_secure::unix::moved_up;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use thiserror::Error;

/// Descriptors that one `recvmsg` may deliver. The kernel ends a read behind
/// the first message that carries any, and ours carry one.
const DESCRIPTORS_PER_READ: usize = 4;
/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// Why nothing more can be read.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// The other side is gone.
    #[error("the other side of the control socket is gone")]
    Closed,
    /// What came is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The message says that a descriptor comes with it, but none did.
    #[error("a control message without the descriptor that belongs to it")]
    DescriptorMissing,
    /// The kernel could not install a descriptor.
    #[error(
        "a descriptor could not be received: the limit of open files is reached, raise it with ulimit -n"
    )]
    DescriptorLimit,
    /// The system refused to read.
    #[error(transparent)]
    Os(#[from] Errno),
}

/// Sends some of `bytes` (a descriptor goes with the first byte). Returns how
/// many were taken.
///
/// # Errors
/// Of the system; [`Errno::AGAIN`] when nothing fits and `flags` or the socket
/// say not to block. Never raises SIGPIPE.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    memory: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = memory.into_iter().collect();
    if !descriptors.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        debug_assert!(fits, "the space is made for one descriptor");
    }
    let flags = flags | SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags))
}

/// The reading side of a control socket: bytes become messages, descriptors
/// are held until the message that they belong to is whole.
#[derive(Debug, Default)]
pub struct Receiver {
    reassembly: Reassembly,
    descriptors: VecDeque<OwnedFd>,
}

impl Receiver {
    /// Reads once. `Ok(false)`: nothing there now (only without blocking).
    ///
    /// # Errors
    /// When nothing more can be read.
    pub fn read(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<bool, ReceiveError> {
        let mut bytes = [0; READ_BYTES];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_READ))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(
                socket,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut ancillary,
                flags,
            )
        });
        let received = match received {
            Err(Errno::AGAIN) => return Ok(false),
            // The other side died with something of ours unread.
            Err(Errno::CONNRESET) => return Err(ReceiveError::Closed),
            other => other?,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors.map(moved_up));
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ReceiveError::DescriptorLimit);
        }
        if received.bytes == 0 {
            return Err(ReceiveError::Closed);
        }
        self.reassembly.push(&bytes[..received.bytes]);
        Ok(true)
    }

    /// The next whole message with its descriptor.
    ///
    /// # Errors
    /// When what came is no message.
    pub fn next_message<M>(&mut self) -> Result<Option<(M, Option<OwnedFd>)>, ReceiveError>
    where
        M: DeserializeOwned + Accompanied,
    {
        let Some(message) = self.reassembly.next_message::<M>()? else {
            return Ok(None);
        };
        let memory = match message.has_memory() {
            true => Some(
                self.descriptors
                    .pop_front()
                    .ok_or(ReceiveError::DescriptorMissing)?,
            ),
            false => None,
        };
        Ok(Some((message, memory)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::framing::encode;
    use crate::control::message::ToLauncher;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap()
    }

    fn put(key: &str, memory: bool) -> ToLauncher {
        ToLauncher::Put {
            key: key.into(),
            value: vec![7; 30],
            memory,
        }
    }

    #[test]
    fn each_descriptor_comes_with_its_own_message() {
        let (here, there) = pair();
        let mut expected = Vec::new();
        for i in 0..6 {
            let message = put(&i.to_string(), i % 2 == 0);
            let mut file = tempfile::tempfile().unwrap();
            write!(file, "{i}").unwrap();
            let memory = message.has_memory().then_some(file.as_fd());
            send(
                here.as_fd(),
                &encode(&message).unwrap(),
                memory,
                SendFlags::empty(),
            )
            .unwrap();
            expected.push(message);
        }
        drop(here);
        let mut receiver = Receiver::default();
        let mut got = Vec::new();
        while !matches!(
            receiver.read(there.as_fd(), RecvFlags::empty()),
            Err(ReceiveError::Closed)
        ) {
            while let Some((message, memory)) = receiver.next_message::<ToLauncher>().unwrap() {
                let content = memory.map(|fd| {
                    let mut file = std::fs::File::from(fd);
                    let mut text = String::new();
                    file.rewind().unwrap();
                    file.read_to_string(&mut text).unwrap();
                    text
                });
                let number = got.len();
                assert_eq!(content, (number % 2 == 0).then(|| number.to_string()));
                got.push(message);
            }
        }
        assert_eq!(got, expected);
    }

    #[test]
    fn a_message_without_its_descriptor_is_refused() {
        let (here, there) = pair();
        send(
            here.as_fd(),
            &encode(&put("k", true)).unwrap(),
            None,
            SendFlags::empty(),
        )
        .unwrap();
        let mut receiver = Receiver::default();
        assert!(receiver.read(there.as_fd(), RecvFlags::empty()).unwrap());
        assert!(matches!(
            receiver.next_message::<ToLauncher>(),
            Err(ReceiveError::DescriptorMissing)
        ));
    }

    #[test]
    fn a_gone_peer_is_closed_even_if_it_left_things_unread() {
        let (here, there) = pair();
        send(here.as_fd(), b"unread", None, SendFlags::empty()).unwrap();
        drop(there);
        let mut receiver = Receiver::default();
        assert!(matches!(
            receiver.read(here.as_fd(), RecvFlags::empty()),
            Err(ReceiveError::Closed)
        ));
    }
}
