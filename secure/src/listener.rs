//! A server's listening socket.

use crate::unix::{self, check_user};
use crate::{Secret, ServerAddress};
use std::io;
use std::net::{TcpListener, TcpStream};
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

impl Listener {
    /// Listens there, without blocking; in the place of a dead server's Unix socket,
    /// but not of one that lives.
    ///
    /// # Errors
    /// As the system's, and when another server listens there.
    pub fn bind(address: &ServerAddress) -> io::Result<Self> {
        let (socket, address) = match address {
            ServerAddress::Unix(path) => {
                let socket = unix::listen(path)?;
                socket.set_nonblocking(true)?;
                (Socket::Unix(socket, path.clone()), address.clone())
            }
            ServerAddress::Tcp(wanted) => {
                let (socket, bound) = listen(wanted)?;
                (Socket::Tcp(socket), ServerAddress::Tcp(bound))
            }
            ServerAddress::Sealed { address, secret } => {
                let (socket, bound) = listen(address)?;
                let bound = ServerAddress::Tcp(bound).sealed(secret);
                (Socket::Tcp(socket), bound)
            }
        };
        Ok(Self { socket, address })
    }

    /// The next connection, if one waits.
    ///
    /// # Errors
    /// As the system's (`WouldBlock`: nobody waits), and when it is of another user.
    pub fn accept(&self) -> io::Result<Accepted> {
        match &self.socket {
            Socket::Unix(socket, _) => {
                let (stream, _) = socket.accept()?;
                check_user(&stream)?;
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

/// At host and port; returns those that it has come to.
fn listen(wanted: &str) -> io::Result<(TcpListener, String)> {
    let socket = TcpListener::bind(wanted)?;
    socket.set_nonblocking(true)?;
    let bound = socket.local_addr()?.to_string();
    Ok((socket, bound))
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
