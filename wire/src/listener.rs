//! A server's listening socket.

use crate::address::ServerAddress;
use crate::secret::Secret;
use crate::unix::{self, check_user};
use rustix::net::{SocketFlags, accept_with};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A socket that listens at a [`ServerAddress`]. On drop, removes a Unix socket's file.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The address, with the port that the system chose.
    address: ServerAddress,
}

impl Listener {
    /// Listens at an address, without blocking. Replaces the Unix socket of a dead server, but not
    /// of a live one.
    ///
    /// # Errors
    /// Errors of the system, and when another server listens there.
    pub fn bind(address: &ServerAddress) -> io::Result<Self> {
        match address {
            ServerAddress::Unix(path) => Ok(Self {
                socket: unix::listen(path)?,
                address: address.clone(),
            }),
            ServerAddress::Tcp(wanted) => Self::of_tcp(TcpListener::bind(wanted)?, None),
            ServerAddress::Sealed { address, secret } => {
                Self::of_tcp(TcpListener::bind(address)?, Some(secret))
            }
        }
    }

    /// A listener over a socket that listens already.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn of_tcp(socket: TcpListener, secret: Option<&Secret>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let bound = ServerAddress::Tcp(socket.local_addr()?.to_string());
        Ok(Self {
            socket: socket.into(),
            address: match secret {
                Some(secret) => bound.sealed(secret),
                None => bound,
            },
        })
    }

    /// Accepts the next connection. Over a Unix socket, the other process has the same user or is
    /// root's; over TCP, it may be any process that reaches the port.
    ///
    /// # Errors
    /// Errors of the system (`WouldBlock`: no connection waits), and when the process is of another
    /// user.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = accept_with(&self.socket, flags)?;
        if let ServerAddress::Unix(_) = &self.address {
            check_user(&socket).map_err(|theirs| {
                let reason = format!("it is of a process of user {theirs}");
                io::Error::new(ErrorKind::PermissionDenied, reason)
            })?;
        }
        Ok(socket)
    }

    /// The secret that clients must prove.
    pub fn secret(&self) -> Option<&Secret> {
        match &self.address {
            ServerAddress::Sealed { secret, .. } => Some(secret),
            ServerAddress::Unix(_) | ServerAddress::Tcp(_) => None,
        }
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let ServerAddress::Unix(file) = &self.address {
            // The file may be removed already.
            let _ = std::fs::remove_file(file);
        }
    }
}
