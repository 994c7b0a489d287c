//! Where the server listens, and the connections that come in.

use super::ServerError;
use crate::client::ServerAddress;
use crate::watched::watch;
use refrain_secure::Secret;
use rustix::io::Errno;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::socket_peercred,
};
use std::io::{self, ErrorKind, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Bytes of a Unix socket's path at most, by `sockaddr_un`.
const PATH_BYTES_MAX: usize = 107;

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A listening socket; a Unix socket's file goes with it.
#[derive(Debug)]
pub(super) struct Listener {
    socket: Socket,
    address: ServerAddress,
    file: Option<PathBuf>,
}

impl Listener {
    pub(super) fn bind(address: &ServerAddress) -> Result<Self, ServerError> {
        let failed = |error| ServerError::Listen {
            address: address.to_string(),
            error,
        };
        match address {
            ServerAddress::Unix(path) => {
                free_path(path).map_err(failed)?;
                let socket = UnixListener::bind(path).map_err(failed)?;
                let file = Some(path.clone());
                socket.set_nonblocking(true).map_err(failed)?;
                Ok(Self {
                    socket: Socket::Unix(socket),
                    address: address.clone(),
                    file,
                })
            }
            ServerAddress::Tcp(wanted)
            | ServerAddress::Sealed {
                address: wanted, ..
            } => {
                let socket = TcpListener::bind(wanted.as_str()).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                let found = socket.local_addr().map_err(failed)?.to_string();
                let found = ServerAddress::Tcp(found);
                Ok(Self {
                    socket: Socket::Tcp(socket),
                    address: match address {
                        ServerAddress::Sealed { secret, .. } => found.sealed(secret),
                        _ => found,
                    },
                    file: None,
                })
            }
        }
    }

    /// The next connection, if one waits.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Unix(socket) => {
                let (stream, _) = socket.accept()?;
                check_user(&stream)?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }
            Socket::Tcp(socket) => {
                let (stream, _) = socket.accept()?;
                stream.set_nonblocking(true)?;
                // Acknowledgements are small, and somebody's gate waits.
                stream.set_nodelay(true)?;
                watch(&stream)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// What those who come have to know.
    pub(super) fn secret(&self) -> Option<&Secret> {
        match &self.address {
            ServerAddress::Sealed { secret, .. } => Some(secret),
            _ => None,
        }
    }

    /// Where it listens, with the port that the system chose.
    pub(super) fn address(&self) -> &ServerAddress {
        &self.address
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
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
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "another server listens there",
        )),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path)
        }
        // Nothing is there, or something that bind will complain about.
        Err(_) => Ok(()),
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Who shares memory with the server can end it (by cutting the file short):
/// that is for those who could send it a signal, too.
fn check_user(stream: &UnixStream) -> io::Result<()> {
    let theirs = socket_peercred(stream)?.uid;
    if theirs == rustix::process::geteuid() || theirs.is_root() {
        return Ok(());
    }
    let reason = format!("a process of user {} knocked", theirs.as_raw());
    Err(io::Error::new(ErrorKind::PermissionDenied, reason))
}

/// A connection's socket; does not block.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
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
