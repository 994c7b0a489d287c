//! A connection: messages of a protocol over a stream socket, sealed or plain, with descriptors
//! over Unix sockets. A call blocks only if its documentation says that it waits.

use crate::address::ServerAddress;
use crate::framing::{FRAME_HEADER_BYTES, Frame, FrameError, Protocol};
use crate::secret::Secret;
use crate::session::{SecureError, Session};
use crate::unix::{ShortPath, check_server, moved_up};
use bytes::{Buf as _, BytesMut};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, connect, getpeername, getsockname, ipproto, recv, recvmsg, sendmsg, shutdown,
    socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// Most bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Most descriptors of one message.
const DESCRIPTORS_MAX: usize = 2;
/// Most descriptors that one read may deliver: those of two messages.
const DESCRIPTORS_PER_READ: usize = 2 * DESCRIPTORS_MAX;
/// Time without traffic after which the kernel probes the other host.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
/// Interval of these probes. They end after [`Protocol::unacknowledged_max`] or
/// [`KEEPALIVE_PROBES`].
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 3;
/// Time after which descriptors are sent again that the kernel has not taken: processes of this user
/// have too many in flight, and no event tells when they have received some.
pub const HELD_BACK_RETRY: Duration = Duration::from_millis(10);

/// The reason why a connection has ended.
#[derive(Debug, Error)]
pub enum WireError {
    /// The other side has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The other side has closed before it has proved that it knows the secret.
    #[error(
        "the other side has closed the connection before it has proved that it knows the secret: give both sides the same secret"
    )]
    Unproven,
    /// The received bytes are no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side does not know the secret, or the connection was tampered with.
    #[error(transparent)]
    Secure(#[from] SecureError),
    /// The kernel could not install a descriptor.
    #[error("a descriptor could not be received: raise the limit of open files with ulimit -n")]
    DescriptorLimit,
    /// A message arrived without its descriptor.
    #[error("a message came without the descriptor that belongs to it")]
    DescriptorMissing,
    /// No answer arrived in time.
    #[error("no answer in time")]
    Timeout,
    /// An error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for WireError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// An incoming frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<M> {
    /// A message.
    Message(M),
    /// Data, with their number of bytes.
    Data(usize),
    /// The other side has closed the connection, between two frames.
    End,
}

/// A connection over a socket, sealed or plain.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    protocol: &'static Protocol,
    /// With a secret: all bytes pass through this session.
    session: Option<Session>,
    incoming: BytesMut,
    /// Descriptors that arrived with messages.
    descriptors: VecDeque<OwnedFd>,
    /// Bytes to be sent; with a session, they are in the session instead.
    outgoing: BytesMut,
    /// Number of bytes sent so far from `outgoing`.
    sent: usize,
    /// Descriptors to be sent with the byte at this offset, counted as `sent` is.
    attached: VecDeque<(usize, Vec<Arc<OwnedFd>>)>,
    /// Whether the next descriptors were refused because too many are in flight.
    is_held_back: Cell<bool>,
    /// Buffer for reads.
    read: Box<[u8]>,
}

impl Connection {
    /// A connection over a connected socket.
    pub fn new(socket: OwnedFd, protocol: &'static Protocol) -> Self {
        Self {
            socket,
            protocol,
            session: None,
            incoming: BytesMut::new(),
            descriptors: VecDeque::new(),
            outgoing: BytesMut::new(),
            sent: 0,
            attached: VecDeque::new(),
            is_held_back: Cell::new(false),
            read: vec![0; READ_BYTES].into(),
        }
    }

    /// The answering side of a connection; sealed if there is a secret.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn answer(
        socket: OwnedFd,
        protocol: &'static Protocol,
        secret: Option<&Secret>,
    ) -> io::Result<Self> {
        let mut connection = Self::new(socket, protocol);
        if !connection.is_local() {
            watch(&connection, protocol)?;
        }
        if let Some(secret) = secret {
            let session = Session::answerer(secret, protocol.purpose);
            connection.session = Some(session.map_err(io::Error::other)?);
        }
        Ok(connection)
    }

    /// Begins to connect. Messages can be queued at once; if the connection fails, the next
    /// operation returns the error. Resolves a host name, which may take long
    /// ([`ServerAddress::look_up`]).
    ///
    /// # Errors
    /// Errors of the system; `PermissionDenied` when a process of another user listens at a path.
    pub fn begin(address: &ServerAddress, protocol: &'static Protocol) -> Result<Self, WireError> {
        let (host, secret) = match address {
            ServerAddress::Unix(path) => {
                return Self::begin_unix(path, protocol, SocketFlags::NONBLOCK);
            }
            ServerAddress::Tcp(address) => (address, None),
            ServerAddress::Sealed { address, secret } => (address, Some(secret)),
        };
        let found = crate::address::look_up(host)?;
        Self::begin_tcp(found[0], secret, protocol)
    }

    fn begin_unix(
        path: &Path,
        protocol: &'static Protocol,
        flags: SocketFlags,
    ) -> Result<Self, WireError> {
        let flags = SocketFlags::CLOEXEC | flags;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let short = ShortPath::of(path)?;
        connect(&socket, &SocketAddrUnix::new(short.path())?)?;
        check_server(&socket, path)?;
        Ok(Self::new(socket, protocol))
    }

    /// Begins to connect to an address; with a secret, the connection is sealed.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn begin_tcp(
        address: SocketAddr,
        secret: Option<&Secret>,
        protocol: &'static Protocol,
    ) -> Result<Self, WireError> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        watch(&socket, protocol)?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let mut connection = Self::new(socket, protocol);
        if let Some(secret) = secret {
            connection.session = Some(Session::caller(secret, protocol.purpose)?);
        }
        Ok(connection)
    }

    /// Connects, and waits until the other side has proved that it knows the secret, if there is
    /// one. `longest`: limit for each address of the host.
    ///
    /// # Errors
    /// Errors of the system; [`WireError::Unproven`] and other errors of a sealed connection.
    pub fn connect(
        address: &ServerAddress,
        protocol: &'static Protocol,
        longest: Duration,
    ) -> Result<Self, WireError> {
        let (host, secret) = match address {
            // Blocks if the server is slow to accept.
            ServerAddress::Unix(path) => {
                return Self::begin_unix(path, protocol, SocketFlags::empty());
            }
            ServerAddress::Tcp(address) => (address, None),
            ServerAddress::Sealed { address, secret } => (address, Some(secret)),
        };
        let mut failure = None;
        for address in crate::address::look_up(host)? {
            let until = Instant::now() + longest;
            let connected = Self::begin_tcp(address, secret, protocol)
                .and_then(|it| it.wait_until_connected(until).map(|()| it));
            match connected {
                Ok(mut connection) => {
                    connection.wait_for_proof(until)?;
                    return Ok(connection);
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(WireError::Closed))
    }

    fn wait_until_connected(&self, until: Instant) -> Result<(), WireError> {
        let waited = self.wait_for(PollFlags::OUT, Some(until));
        waited.map_err(|error| match error {
            WireError::Timeout => io::Error::from(io::ErrorKind::TimedOut).into(),
            error => error,
        })?;
        Ok(sockopt::socket_error(&self.socket)??)
    }

    fn wait_for_proof(&mut self, until: Instant) -> Result<(), WireError> {
        self.flush()?;
        while !self.is_proven() {
            if !self.receive()? {
                self.wait(Some(until))?;
            }
        }
        self.wait_flushed(Some(until))
    }

    /// Whether the other side has proved that it knows the secret, if there is one.
    pub fn is_proven(&self) -> bool {
        self.session.as_ref().is_none_or(Session::is_proven)
    }

    /// Whether both sides are on one host, so that descriptors can be sent.
    pub fn is_local(&self) -> bool {
        sockopt::socket_domain(&self.socket) == Ok(AddressFamily::UNIX)
    }

    /// The process or host at the other end, for messages.
    pub fn peer(&self) -> String {
        let address = getpeername(&self.socket).ok().flatten();
        match address.and_then(|it| SocketAddr::try_from(it).ok()) {
            Some(address) => address.to_string(),
            None if self.is_local() => "this host".into(),
            None => "a host that has gone".into(),
        }
    }

    /// This side's address of a connection over TCP.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn own_address(&self) -> io::Result<IpAddr> {
        let address = SocketAddr::try_from(getsockname(&self.socket)?)?;
        Ok(address.ip().to_canonical())
    }

    /// The address of the other host, of a connection by TCP.
    ///
    /// # Errors
    /// Of the system.
    pub fn peer_address(&self) -> io::Result<IpAddr> {
        let address = getpeername(&self.socket)?;
        let address = address.ok_or(io::ErrorKind::NotConnected)?;
        Ok(SocketAddr::try_from(address)?.ip().to_canonical())
    }

    /// Queues a message; [`flush`](Self::flush) sends it.
    ///
    /// # Errors
    /// When the message is too long; the connection has ended then.
    pub fn say(&mut self, message: &impl Serialize) -> Result<(), WireError> {
        self.say_with(message, Vec::new())
    }

    /// As [`say`](Self::say) with descriptors, at most 2; only if the connection [is
    /// local](Self::is_local).
    ///
    /// # Errors
    /// As [`say`](Self::say).
    pub fn say_with(
        &mut self,
        message: &impl Serialize,
        descriptors: Vec<Arc<OwnedFd>>,
    ) -> Result<(), WireError> {
        let at = self.sent + self.outgoing.len();
        self.protocol.encode(message, &mut self.outgoing)?;
        if let Some(session) = &mut self.session {
            let said = session.say(&self.outgoing);
            self.outgoing.clear();
            return Ok(said?);
        }
        if !descriptors.is_empty() {
            self.attached.push_back((at, descriptors));
        }
        Ok(())
    }

    /// Sends data, and waits until the socket has taken all bytes.
    ///
    /// # Errors
    /// When the connection has ended, or the time is over.
    pub fn send_data(&mut self, data: &[u8], until: Option<Instant>) -> Result<(), WireError> {
        let header = self.protocol.header(Frame::Data(data.len()));
        if let Some(session) = &mut self.session {
            session.say(&header)?;
            session.say(data)?;
            return self.wait_flushed(until);
        }
        self.outgoing.extend_from_slice(&header);
        self.wait_flushed(until)?;
        let mut rest = data;
        while !rest.is_empty() {
            match self.send(rest, &[])? {
                Some(count) => rest = &rest[count..],
                None => self.wait_for(PollFlags::OUT, until)?,
            }
        }
        Ok(())
    }

    fn unsent(&self) -> &[u8] {
        self.session
            .as_ref()
            .map_or(&self.outgoing, Session::unsent)
    }

    /// Number of bytes that wait to be sent.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent().len()
    }

    /// Sends as many bytes as the socket takes.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn flush(&mut self) -> Result<(), WireError> {
        while !self.unsent().is_empty() {
            let next = self.attached.front();
            let (end, descriptors): (usize, &[_]) = match next {
                Some((at, descriptors)) if *at == self.sent => {
                    let behind = self.attached.get(1).map(|(at, _)| at - self.sent);
                    (behind.unwrap_or(usize::MAX), descriptors)
                }
                Some((at, _)) => (at - self.sent, &[]),
                None => (usize::MAX, &[]),
            };
            let unsent = self.unsent();
            let bytes = &unsent[..end.min(unsent.len())];
            let has_descriptors = !descriptors.is_empty();
            let Some(count) = self.send(bytes, descriptors)? else {
                return Ok(());
            };
            if has_descriptors {
                self.attached.pop_front();
            }
            match &mut self.session {
                Some(session) => session.note_sent(count),
                None => {
                    self.outgoing.advance(count);
                    self.sent += count;
                }
            }
        }
        // Releases the memory of a burst.
        if self.outgoing.try_reclaim(READ_BYTES + 1) {
            self.outgoing = BytesMut::new();
        }
        Ok(())
    }

    /// Sends some of `bytes`; `None`: the socket takes no bytes now. Descriptors go with the first
    /// byte.
    fn send(&self, bytes: &[u8], descriptors: &[Arc<OwnedFd>]) -> Result<Option<usize>, WireError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptors.iter().map(|it| it.as_fd()).collect();
        if !descriptors.is_empty() {
            let fits = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            debug_assert!(fits, "more descriptors than the limit");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let bytes = [IoSlice::new(bytes)];
        let sent =
            rustix::io::retry_on_intr(|| sendmsg(&self.socket, &bytes, &mut ancillary, flags));
        self.is_held_back.set(sent == Err(Errno::TOOMANYREFS));
        match sent {
            Ok(count) => Ok(Some(count)),
            // The socket is full, or not connected yet. Too many descriptors in flight count as
            // full: other processes will receive theirs.
            Err(Errno::AGAIN | Errno::NOTCONN | Errno::TOOMANYREFS) => Ok(None),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(self.closed()),
            Err(error) => Err(error.into()),
        }
    }

    /// The error when the other side has closed.
    fn closed(&self) -> WireError {
        match self.is_proven() {
            true => WireError::Closed,
            false => WireError::Unproven,
        }
    }

    /// Reads the available bytes once. `false`: there were none.
    ///
    /// # Errors
    /// When the connection has ended; messages that arrived before can still be taken.
    pub fn receive(&mut self) -> Result<bool, WireError> {
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
            // Also if the other side died with unread bytes.
            Err(Errno::CONNRESET) => return Err(self.closed()),
            other => other?,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors.map(moved_up));
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(WireError::DescriptorLimit);
        }
        if received.bytes == 0 {
            return Err(self.closed());
        }
        let bytes = &self.read[..received.bytes];
        let Some(session) = &mut self.session else {
            self.incoming.extend_from_slice(bytes);
            return Ok(true);
        };
        let understood = session.receive(bytes);
        self.incoming.unsplit(session.heard.split());
        understood?;
        // Sends the answer of the handshake, and messages that have waited for it.
        self.flush()?;
        Ok(true)
    }

    /// The next message that has arrived.
    ///
    /// # Errors
    /// When the received bytes are no message.
    pub fn next_message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, WireError> {
        Ok(self.protocol.decode(&mut self.incoming)?)
    }

    /// Reads until the next message is complete or no more bytes are available.
    ///
    /// # Errors
    /// As [`receive`](Self::receive) and [`next_message`](Self::next_message).
    pub fn hear<M: DeserializeOwned>(&mut self) -> Result<Option<M>, WireError> {
        loop {
            if let Some(message) = self.next_message()? {
                return Ok(Some(message));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    /// The next descriptor that arrived with a message.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Waits for the next message, and sends queued messages meanwhile.
    ///
    /// # Errors
    /// As [`hear`](Self::hear), and when the time is over.
    pub fn wait_message<M: DeserializeOwned>(
        &mut self,
        until: Option<Instant>,
    ) -> Result<M, WireError> {
        loop {
            self.flush()?;
            if let Some(message) = self.hear()? {
                return Ok(message);
            }
            self.wait(until)?;
        }
    }

    /// Waits for a message, or for data, which are put at the beginning of `data`.
    ///
    /// # Errors
    /// As [`wait_message`](Self::wait_message).
    pub fn wait_frame<M: DeserializeOwned>(
        &mut self,
        data: &mut [u8],
        until: Option<Instant>,
    ) -> Result<Incoming<M>, WireError> {
        loop {
            if let Some(Frame::Data(bytes)) = self.protocol.peek(&self.incoming)? {
                let bytes_max = data.len();
                let room = data.get_mut(..bytes);
                let room = room.ok_or(FrameError::Length { bytes, bytes_max })?;
                self.incoming.advance(FRAME_HEADER_BYTES);
                self.fill(room, until)?;
                return Ok(Incoming::Data(bytes));
            }
            if let Some(message) = self.next_message()? {
                return Ok(Incoming::Message(message));
            }
            match self.receive() {
                Ok(true) => {}
                Ok(false) => self.wait(until)?,
                Err(WireError::Closed) if self.incoming.is_empty() => return Ok(Incoming::End),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until `data` is full.
    fn fill(&mut self, mut data: &mut [u8], until: Option<Instant>) -> Result<(), WireError> {
        while !data.is_empty() {
            if !self.incoming.is_empty() {
                let count = self.incoming.len().min(data.len());
                self.incoming.copy_to_slice(&mut data[..count]);
                data = &mut data[count..];
            } else if self.session.is_some() {
                if !self.receive()? {
                    self.wait(until)?;
                }
            } else {
                match self.receive_into(data) {
                    Ok(0) => return Err(WireError::Closed),
                    Ok(count) => data = &mut data[count..],
                    Err(Errno::AGAIN) => self.wait(until)?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn receive_into(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| recv(&self.socket, &mut *bytes, RecvFlags::DONTWAIT))
            .map(|(count, _)| count)
    }

    /// Reads once, and drops the bytes. `Ok(0)`: the other side has closed.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn discard(&mut self) -> Result<usize, Errno> {
        let mut read = core::mem::take(&mut self.read);
        let received = self.receive_into(&mut read);
        self.read = read;
        received
    }

    /// Ends sending, then reads and drops bytes until the other side has closed; otherwise the
    /// other side would lose the last message.
    ///
    /// # Errors
    /// As [`wait_flushed`](Self::wait_flushed).
    pub fn wait_end(&mut self) -> Result<(), WireError> {
        self.wait_flushed(None)?;
        self.shut_down(Shutdown::Write);
        loop {
            match self.discard() {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(Errno::AGAIN) => self.wait(None)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the socket has taken all queued bytes.
    ///
    /// # Errors
    /// When the connection has ended, or the time is over.
    pub fn wait_flushed(&mut self, until: Option<Instant>) -> Result<(), WireError> {
        loop {
            self.flush()?;
            if self.unsent().is_empty() {
                return Ok(());
            }
            self.wait_for(PollFlags::OUT, until)?;
        }
    }

    /// Whether the next message waits until descriptors in flight are received, of whatever
    /// connection of this user. Nothing announces that: [`flush`](Self::flush) again after
    /// [`HELD_BACK_RETRY`].
    pub fn is_held_back(&self) -> bool {
        self.is_held_back.get()
    }

    /// The events to poll for. A socket that [holds back](Self::is_held_back) descriptors is writable
    /// all the time.
    pub fn interest(&self) -> PollFlags {
        match self.unsent().is_empty() || self.is_held_back() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        }
    }

    /// Waits until bytes can be read, or queued bytes can be sent or be tried again.
    ///
    /// # Errors
    /// Errors of the system, or the time is over.
    pub fn wait(&self, until: Option<Instant>) -> Result<(), WireError> {
        self.wait_for(self.interest(), until)
    }

    fn wait_for(&self, flags: PollFlags, until: Option<Instant>) -> Result<(), WireError> {
        let (flags, retry_at) = match self.is_held_back() {
            true => (
                flags - PollFlags::OUT,
                Some(Instant::now() + HELD_BACK_RETRY),
            ),
            false => (flags, None),
        };
        let wake_at = until.into_iter().chain(retry_at).min();
        let mut polled = [PollFd::new(&self.socket, flags)];
        let ready = rustix::io::retry_on_intr(|| {
            let left = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            poll(&mut polled, left.as_ref())
        })?;
        match ready {
            0 if wake_at == until => Err(WireError::Timeout),
            _ => Ok(()),
        }
    }

    /// Ends one direction or both. The other side may have ended it before, which is no error.
    pub fn shut_down(&self, how: Shutdown) {
        let _ = shutdown(&self.socket, how);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends small messages at once, and ends a connection whose other side cannot be reached any more.
/// A host that is gone sends nothing, so the kernel probes it. While data are not acknowledged, the
/// kernel retransmits instead of probing, by default for a quarter of an hour, so that time is
/// limited, too.
fn watch(socket: impl AsFd, protocol: &Protocol) -> Result<(), Errno> {
    let unacknowledged_max_ms = protocol.unacknowledged_max.as_millis();
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(&socket, unacknowledged_max_ms as u32)
}

#[cfg(test)]
mod tests;
