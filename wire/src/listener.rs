//! A server's listening socket.

use crate::unix::{self, check_user};
use crate::{Secret, ServerAddress};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// Listens at a [`ServerAddress`]; a Unix socket's file goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: ServerAddress,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// Who has connected; nobody has proved anything yet.
#[derive(Debug)]
pub enum Accepted {
    /// A process of this host: of the same user, or root's.
    Unix(UnixStream),
    /// Anybody who reaches the port.
    Tcp(TcpStream),
}

impl Accepted {
    /// Does not block from now on, and sends small pieces at once.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)
            }
        }
    }

    /// Which process or host is at the other end, for people.
    pub(crate) fn peer(&self) -> String {
        match self {
            Self::Unix(_) => "this host".into(),
            Self::Tcp(stream) => stream
                .peer_addr()
                .map_or_else(|_| "a host that has gone".into(), |it| it.to_string()),
        }
    }

    /// Ends it, in one direction or both; the other side may have done so before.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl AsFd for Accepted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Accepted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }
}

impl Write for Accepted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Listener {
    /// Listens there, without blocking; in the place of a dead server's Unix socket,
    /// but not of one that lives.
    ///
    /// # Errors
    /// As the system's, and when another server listens there.
    pub fn bind(address: &ServerAddress) -> io::Result<Self> {
        match address {
            ServerAddress::Unix(path) => {
                let socket = unix::listen(path)?;
                socket.set_nonblocking(true)?;
                Ok(Self {
                    socket: Socket::Unix(socket, path.clone()),
                    address: address.clone(),
                })
            }
            ServerAddress::Tcp(wanted) => Self::of_tcp(TcpListener::bind(wanted)?, None),
            ServerAddress::Sealed { address, secret } => {
                Self::of_tcp(TcpListener::bind(address)?, Some(secret))
            }
        }
    }

    /// Of a socket that listens already.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) fn of_tcp(socket: TcpListener, secret: Option<&Secret>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let bound = ServerAddress::Tcp(socket.local_addr()?.to_string());
        Ok(Self {
            socket: Socket::Tcp(socket),
            address: match secret {
                Some(secret) => bound.sealed(secret),
                None => bound,
            },
        })
    }

    /// The next connection, if one waits.
    ///
    /// # Errors
    /// As the system's (`WouldBlock`: nobody waits), and when it is of another user.
    pub fn accept(&self) -> io::Result<Accepted> {
        match &self.socket {
            Socket::Unix(socket, _) => {
                let (stream, _) = socket.accept()?;
                check_user(&stream).map_err(|theirs| {
                    let reason = format!("it is of a process of user {theirs}");
                    io::Error::new(ErrorKind::PermissionDenied, reason)
                })?;
                Ok(Accepted::Unix(stream))
            }
            Socket::Tcp(socket) => Ok(Accepted::Tcp(socket.accept()?.0)),
        }
    }

    /// What those who come have to know.
    pub fn secret(&self) -> Option<&Secret> {
        match &self.address {
            ServerAddress::Sealed { secret, .. } => Some(secret),
            ServerAddress::Unix(_) | ServerAddress::Tcp(_) => None,
        }
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket, _) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, file) = &self.socket {
            // Gone already, or not ours to remove: nobody is worse off.
            let _ = std::fs::remove_file(file);
        }
    }
}
