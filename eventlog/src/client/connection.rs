//! A socket to a logger: messages out and in, nothing that blocks.

use super::PURPOSE;
use crate::framing::{FrameError, FrameReader, encode};
use crate::message::{ToClient, ToLogger};
use crate::watched::watch;
use refrain_wire::unix::{self, ShortPath, moved_up};
use refrain_wire::{Secret, SecureError, ServerAddress, Session};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, ipproto, recvmsg, send, socket_with,
};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Descriptors that one read may deliver: those of one welcome, twice.
const DESCRIPTORS_PER_READ: usize = 4;
const READ_BYTES: usize = 16 << 10;
/// Bytes that wait for the socket at most before no more commits are taken.
const OUT_BYTES_MAX: usize = 64 << 10;

/// Why a connection is over.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// The other side is gone.
    #[error("the connection was closed")]
    Closed,
    /// What it says is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Descriptors did not fit.
    #[error("a descriptor could not be received: raise the limit of open files with ulimit -n")]
    DescriptorLimit,
    /// The system refused.
    #[error("cannot talk to it: {0}")]
    Os(#[from] Errno),
    /// It does not know the secret, or this side does not.
    #[error(
        "it has closed the connection before it has proved that it knows the secret: give both sides the same"
    )]
    Stranger,
    /// Somebody else's words.
    #[error(transparent)]
    Secure(#[from] SecureError),
    /// No socket can be there.
    #[error("cannot reach its socket: {0}")]
    Path(std::io::Error),
    /// No such host.
    #[error("cannot find its host: {0}")]
    Host(std::io::Error),
}

/// Where to connect to, names looked up.
#[derive(Clone, Debug)]
pub enum Target {
    /// A path.
    Unix(PathBuf),
    /// Address and port; with a secret only who knows it is spoken to.
    Tcp(SocketAddr, Option<Secret>),
}

impl Target {
    /// Looks up the host's name, which may take long.
    pub fn look_up(address_of: &ServerAddress) -> Result<Self, ConnectionError> {
        match address_of {
            ServerAddress::Unix(path) => Ok(Self::Unix(path.clone())),
            ServerAddress::Tcp(address) | ServerAddress::Sealed { address, .. } => {
                let secret = match address_of {
                    ServerAddress::Sealed { secret, .. } => Some(secret.clone()),
                    _ => None,
                };
                let mut found = address.to_socket_addrs().map_err(ConnectionError::Host)?;
                let none = || ConnectionError::Host(std::io::ErrorKind::NotFound.into());
                let found = found.next().ok_or_else(none)?;
                Ok(Self::Tcp(found, secret))
            }
        }
    }
}

/// See the [module](self). A connection under way takes messages already; that
/// it cannot be made is told by whatever is tried next.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    /// With a secret: what is said goes through it.
    session: Option<Session>,
    reader: FrameReader,
    /// What is read goes here first.
    read: Box<[u8]>,
    descriptors: VecDeque<OwnedFd>,
    out: Vec<u8>,
    /// What is before this was sent.
    out_start: usize,
}

impl Connection {
    /// Begins to connect.
    pub fn begin(target: &Target) -> Result<Self, ConnectionError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = |family, protocol| socket_with(family, SocketType::STREAM, flags, protocol);
        let (socket, begun) = match target {
            Target::Unix(path) => {
                let socket = open(AddressFamily::UNIX, None)?;
                let short = ShortPath::of(path).map_err(ConnectionError::Path)?;
                let begun = connect(&socket, &SocketAddrUnix::new(short.path())?);
                if begun.is_ok() {
                    unix::check_server(&socket, path).map_err(ConnectionError::Path)?;
                }
                (socket, begun)
            }
            Target::Tcp(address, _) => {
                let family = match address {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                };
                let socket = open(family, Some(ipproto::TCP))?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                watch(&socket)?;
                let begun = connect(&socket, address);
                (socket, begun)
            }
        };
        let session = match target {
            Target::Tcp(_, Some(secret)) => Some(Session::caller(secret, PURPOSE)?),
            _ => None,
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self {
                session,
                socket,
                reader: FrameReader::default(),
                read: vec![0; READ_BYTES].into(),
                descriptors: VecDeque::new(),
                out: Vec::new(),
                out_start: 0,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether another commit may be queued.
    pub fn has_room(&self) -> bool {
        match &self.session {
            Some(session) => session.is_proven() && session.unsent().len() < OUT_BYTES_MAX,
            None => self.out.len() - self.out_start < OUT_BYTES_MAX,
        }
    }

    /// Queues a message and sends what the socket takes.
    pub fn say(&mut self, message: &ToLogger) -> Result<(), ConnectionError> {
        if self.out_start == self.out.len() {
            self.out.clear();
            self.out_start = 0;
        }
        encode(message, &mut self.out)?;
        if let Some(session) = &mut self.session {
            session.say(&self.out)?;
            self.out.clear();
        }
        self.flush()
    }

    /// Sends what the socket takes of what waits.
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
        if self.session.is_some() {
            return self.flush_sealed();
        }
        while self.out_start < self.out.len() {
            let waiting = &self.out[self.out_start..];
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::io::retry_on_intr(|| send(&self.socket, waiting, flags)) {
                Ok(bytes) => self.out_start += bytes,
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ConnectionError::Closed),
                Err(error) => return Err(error.into()),
            }
        }
        if self.out_start > OUT_BYTES_MAX {
            self.out.drain(..self.out_start);
            self.out_start = 0;
        }
        Ok(())
    }

    fn flush_sealed(&mut self) -> Result<(), ConnectionError> {
        while let Some(session) = &mut self.session
            && !session.unsent().is_empty()
        {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::io::retry_on_intr(|| send(&self.socket, session.unsent(), flags)) {
                Ok(bytes) => session.note_sent(bytes),
                // The connection is under way, or full.
                Err(Errno::AGAIN | Errno::NOTCONN) => break,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(self.closed()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Why the other side has closed.
    fn closed(&self) -> ConnectionError {
        match &self.session {
            Some(session) if !session.is_proven() => ConnectionError::Stranger,
            _ => ConnectionError::Closed,
        }
    }

    /// The next message, if it is there.
    pub fn hear(&mut self) -> Result<Option<ToClient>, ConnectionError> {
        loop {
            if let Some(message) = self.reader.next_message()? {
                return Ok(Some(message));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// The next descriptor that came with a message.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    fn read(&mut self) -> Result<bool, ConnectionError> {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_READ))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = rustix::io::retry_on_intr(|| {
            let mut into = [IoSliceMut::new(&mut self.read)];
            recvmsg(&self.socket, &mut into, &mut ancillary, flags)
        });
        let received = match received {
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::CONNRESET) => return Err(self.closed()),
            other => other?,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors.map(moved_up));
            }
        }
        if received.flags.contains(rustix::net::ReturnFlags::CTRUNC) {
            return Err(ConnectionError::DescriptorLimit);
        }
        if received.bytes == 0 {
            return Err(self.closed());
        }
        let bytes = &self.read[..received.bytes];
        match &mut self.session {
            Some(session) => {
                let understood = session.receive(bytes);
                self.reader.extend(&session.take_heard());
                understood?;
                // An answer of the handshake, and what has waited for it.
                self.flush()?;
            }
            None => self.reader.extend(bytes),
        }
        Ok(true)
    }

    /// Whether there is something left to send.
    pub fn is_sending(&self) -> bool {
        let sealed = self.session.as_ref();
        self.out_start < self.out.len() || sealed.is_some_and(|it| !it.unsent().is_empty())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sleeps until one of the connections can be heard, or `wait` is over.
pub fn wait_for(connections: &[&Connection], wait: Duration) -> Result<(), Errno> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut waiting: Vec<PollFd<'_>> = connections
        .iter()
        .map(|connection| {
            let sends = match connection.is_sending() {
                true => PollFlags::OUT,
                false => PollFlags::empty(),
            };
            PollFd::new(*connection, PollFlags::IN | sends)
        })
        .collect();
    let wait = Timespec::try_from(wait).map_err(|_| Errno::INVAL)?;
    match poll(&mut waiting, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}
