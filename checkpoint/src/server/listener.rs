//! Where the server listens.

use super::ServerError;
use crate::socket::Stream;
use refrain_secure::Secret;
use refrain_secure::ServerAddress;
use rustix::net::sockopt::socket_peercred;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Bytes of a Unix socket's path at most, by `sockaddr_un`.
const PATH_BYTES_MAX: usize = 107;

#[derive(Debug)]
enum Socket {
    /// Its file goes with it.
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: Socket,
    address: ServerAddress,
}

impl Listener {
    pub fn bind(address: &ServerAddress) -> Result<Self, ServerError> {
        Self::try_bind(address).map_err(|error| ServerError::Listen {
            address: address.to_string(),
            error,
        })
    }

    fn try_bind(address: &ServerAddress) -> io::Result<Self> {
        let (socket, address) = match address {
            ServerAddress::Unix(path) => {
                free_path(path)?;
                let socket = UnixListener::bind(path)?;
                socket.set_nonblocking(true)?;
                (Socket::Unix(socket, path.clone()), address.clone())
            }
            ServerAddress::Tcp(wanted) => {
                let (socket, bound) = listen(wanted)?;
                (Socket::Tcp(socket), ServerAddress::Tcp(bound))
            }
            ServerAddress::Sealed { address, secret } => {
                let (socket, bound) = listen(address)?;
                (
                    Socket::Tcp(socket),
                    ServerAddress::Tcp(bound).sealed(secret),
                )
            }
        };
        Ok(Self { socket, address })
    }

    /// The next conversation, if one waits. Its calls block.
    pub fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Unix(socket, _) => {
                let (stream, _) = socket.accept()?;
                check_user(&stream)?;
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }
            Socket::Tcp(socket) => {
                let (stream, _) = socket.accept()?;
                stream.set_nonblocking(false)?;
                Stream::tcp(stream)
            }
        }
    }

    /// What somebody who has connected has to know.
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

/// Removes a socket that a dead server has left.
fn free_path(path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().len();
    if bytes > PATH_BYTES_MAX {
        let reason = format!(
            "the path has {bytes} bytes, a Unix socket's may have {PATH_BYTES_MAX}: take a \
             shorter one"
        );
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    let is_socket =
        || std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "another server listens there",
        )),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket() => {
            std::fs::remove_file(path)
        }
        // Nothing is there, or something that bind will complain about.
        Err(_) => Ok(()),
    }
}

/// Checkpoints are memory of programs: they are for processes of the same user.
fn check_user(stream: &UnixStream) -> io::Result<()> {
    let theirs = socket_peercred(stream)?.uid;
    if theirs == rustix::process::geteuid() || theirs.is_root() {
        return Ok(());
    }
    let reason = format!("a process of user {} knocked", theirs.as_raw());
    Err(io::Error::new(ErrorKind::PermissionDenied, reason))
}
