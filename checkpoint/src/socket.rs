//! Streams between ranks and a checkpoint server.

use crate::place::PURPOSE;
use refrain_wire::{Accepted, Guest, STRANGER_WAIT, SealedStream, ServerAddress, unix};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// After how long without a word a host is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long something may stay unacknowledged: the kernel does not ask meanwhile, but
/// repeats it, by itself for a quarter of an hour.
const UNACKNOWLEDGED_MAX_MS: u32 = 60_000;

/// How long one address may take to let somebody in. The kernel by itself tries for
/// two minutes, with a host that is gone.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// One conversation's.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    /// Both sides have proved that they know the secret.
    Sealed(Box<SealedStream>),
}

impl Stream {
    /// Reaches a server.
    pub fn connect(address: &ServerAddress) -> io::Result<Self> {
        match address {
            ServerAddress::Unix(path) => unix::connect(path).map(Self::Unix),
            ServerAddress::Tcp(address) => Self::tcp(reach(address)?),
            ServerAddress::Sealed { address, secret } => {
                let stream = reach(address)?;
                set_up(&stream)?;
                stream.set_read_timeout(Some(STRANGER_WAIT))?;
                let sealed = SealedStream::call(stream, secret, PURPOSE)?;
                sealed.socket().set_read_timeout(None)?;
                Ok(Self::Sealed(Box::new(sealed)))
            }
        }
    }

    /// From now on, waits no longer than this for what the other side says; `None`: for
    /// ever.
    pub fn set_patience(&self, longest: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(longest),
            Self::Tcp(stream) => stream.set_read_timeout(longest),
            Self::Sealed(stream) => stream.socket().set_read_timeout(longest),
        }
    }

    /// Of a connection that was let in. Checkpoints are memory of programs: on the same
    /// host, the listener lets in processes of the same user only.
    pub fn new(guest: Guest) -> io::Result<Self> {
        match (guest.stream, guest.session) {
            (Accepted::Unix(stream), _) => {
                stream.set_nonblocking(false)?;
                Ok(Self::Unix(stream))
            }
            (Accepted::Tcp(stream), None) => {
                stream.set_nonblocking(false)?;
                Self::tcp(stream)
            }
            (Accepted::Tcp(stream), Some(session)) => {
                set_up(&stream)?;
                let sealed = SealedStream::proven(stream, session)?;
                Ok(Self::Sealed(Box::new(sealed)))
            }
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        set_up(&stream)?;
        Ok(Self::Tcp(stream))
    }

    /// A second way to a connection's socket, to shut it down.
    pub fn to_shut_down(guest: &Guest) -> io::Result<Self> {
        match &guest.stream {
            Accepted::Unix(stream) => stream.try_clone().map(Self::Unix),
            Accepted::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Ends it, in one direction or both; the other side may have done so before.
    pub fn shut_down(&self, how: Shutdown) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Sealed(stream) => stream.socket().shutdown(how),
        };
    }

    /// Whether there is something to read, or the end, without waiting for it.
    pub fn is_readable(&self) -> io::Result<bool> {
        if let Self::Sealed(stream) = self
            && stream.has_heard()
        {
            return Ok(true);
        }
        let mut polled = [PollFd::new(self, PollFlags::IN)];
        let now = Timespec::default();
        let ready = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&now)))?;
        Ok(ready > 0)
    }
}

/// Connects to host and port, by the first of the host's addresses that answers.
fn reach(address: &str) -> io::Result<TcpStream> {
    let mut failure = io::Error::other("the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// With what is wanted of it.
fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // A host that has vanished says no goodbye.
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, KEEP_ALIVE)?;
    set_tcp_keepintvl(stream, KEEP_ALIVE / 4)?;
    set_tcp_user_timeout(stream, UNACKNOWLEDGED_MAX_MS)?;
    Ok(())
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Sealed(stream) => stream.socket().as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
            Self::Sealed(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Writing to a socket that was closed is an error, and no signal: the
        // standard library sees to that.
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
            Self::Sealed(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::tcp_user_timeout;
    use std::net::TcpListener;

    /// A rank that stores a checkpoint has always something unacknowledged on its way.
    #[test]
    fn what_nobody_acknowledges_ends_a_conversation() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let Ok(Stream::Tcp(stream)) = Stream::tcp(stream) else {
            panic!("it is one over TCP");
        };
        let unacknowledged_ms = tcp_user_timeout(&stream).unwrap();
        assert!((1..=60_000).contains(&unacknowledged_ms));
    }
}
