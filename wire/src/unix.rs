//! Unix sockets at paths of any length.
//!
//! `sockaddr_un` has room for 107 bytes, and some machines have longer paths of folders for
//! temporary files. For a longer path, the folder is opened and named as `/proc/self/fd/N`, which
//! is always short.

use rustix::fs::{Mode, OFlags, fchmod, open};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Resource, getrlimit};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Most bytes of a Unix socket's path in `sockaddr_un`.
const PATH_BYTES_MAX: usize = 107;
/// The folder with names for this process's open files.
const OPEN_FILES: &str = "/proc/self/fd";
/// Most bytes of a longer path's last component, after a descriptor number of seven digits.
const NAME_BYTES_MAX: usize = PATH_BYTES_MAX - OPEN_FILES.len() - "/1234567/".len();

/// The lowest number for descriptors of a rank's library: the program's own files then get the same
/// low numbers in each life of the rank.
pub fn first_number() -> i32 {
    const NUMBER_MAX: u64 = 256;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    i32::try_from((limit / 8).min(NUMBER_MAX)).expect("at most NUMBER_MAX")
}

/// The same file under a number from [`first_number`] on; unchanged if no such number is free.
pub fn moved_up(descriptor: OwnedFd) -> OwnedFd {
    match descriptor.as_raw_fd() >= first_number() {
        true => descriptor,
        false => fcntl_dupfd_cloexec(&descriptor, first_number()).unwrap_or(descriptor),
    }
}

/// A path that is short enough for a socket's address, valid as long as this value lives.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    /// The open folder that the path names.
    _folder: Option<OwnedFd>,
}

impl ShortPath {
    /// A short path to `path`; `path` itself if it is short enough.
    ///
    /// # Errors
    /// When the folder cannot be opened, the last component is too long, or there is no `/proc`.
    pub fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self {
                path: path.to_owned(),
                _folder: None,
            });
        }
        let name = path.file_name().filter(|it| it.len() <= NAME_BYTES_MAX);
        let (Some(folder), Some(name)) = (path.parent(), name) else {
            return Err(too_long(path));
        };
        let opened = open(folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let named = PathBuf::from(format!("{OPEN_FILES}/{}", opened.as_raw_fd()));
        if !named.exists() {
            return Err(too_long(path));
        }
        Ok(Self {
            path: named.join(name),
            _folder: Some(opened),
        })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn too_long(path: &Path) -> io::Error {
    let bytes = path.as_os_str().len();
    let reason = format!(
        "the path has {bytes} bytes, a Unix socket's may have {PATH_BYTES_MAX}, or where there is \
         /proc its last part {NAME_BYTES_MAX}: take a shorter one"
    );
    io::Error::new(ErrorKind::InvalidInput, reason)
}

/// Number of connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 128;

/// Checks that the process that listens at the other end of a connected socket has the same user or
/// is root's.
///
/// # Errors
/// `PermissionDenied` when the process has another user.
pub(crate) fn check_server(stream: impl AsFd, path: &Path) -> io::Result<()> {
    check_user(stream).map_err(|theirs| {
        let own = rustix::process::geteuid().as_raw();
        let reason = format!(
            "a process of user {theirs} listens at {}, this one is of user {own}: only a server of \
             the same user or of root is trusted, start one or name another socket",
            path.display()
        );
        io::Error::new(ErrorKind::PermissionDenied, reason)
    })
}

/// Listens at a path, and replaces the socket of a dead server. Only the owner can access the
/// socket, whatever the umask.
pub(crate) fn listen(path: &Path) -> io::Result<OwnedFd> {
    let short = ShortPath::of(path)?;
    free_path(short.path())?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    // Linux gives the mode of the socket to the file that `bind` creates.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(short.path())?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Removes a socket that a dead server has left.
fn free_path(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "another server listens there",
        )),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path)
        }
        // The path is free, or `bind` will return the error.
        Err(_) => Ok(()),
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Checks that the process at the other end has the same user, or is root's.
///
/// # Errors
/// The user of the process, or the error of the system as text.
pub(crate) fn check_user(stream: impl AsFd) -> Result<(), String> {
    let theirs = socket_peercred(stream)
        .map_err(|error| format!("unknown ({error})"))?
        .uid;
    match theirs == rustix::process::geteuid() || theirs.is_root() {
        true => Ok(()),
        false => Err(theirs.as_raw().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listener, ServerAddress};
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    /// A folder whose path has more bytes than a socket's address has room for.
    fn long_folder(inside: &Path) -> PathBuf {
        let folder = inside.join("f".repeat(200)).join("g".repeat(200));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn bind(path: &Path) -> io::Result<Listener> {
        Listener::bind(&ServerAddress::Unix(path.to_owned()))
    }

    #[test]
    fn a_long_path_is_listened_at_and_reached() {
        let temporary = tempfile::tempdir().unwrap();
        let path = long_folder(temporary.path()).join("socket");
        let listener = bind(&path).unwrap();
        let mut caller = UnixStream::connect(ShortPath::of(&path).unwrap().path()).unwrap();
        check_server(&caller, &path).unwrap();
        let mut accepted = UnixStream::from(listener.accept().unwrap());
        caller.write_all(b"word").unwrap();
        drop(caller);
        let mut heard = Vec::new();
        accepted.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"word");
        let error = bind(&path).unwrap_err().to_string();
        assert_eq!(error, "another server listens there");
        drop(listener);
        assert!(!path.exists(), "removed at the end");
    }

    /// With the umask of this test, the group could access the socket.
    #[test]
    fn a_socket_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("socket");
        let _listener = bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_a_dead_server_left_at_a_long_path_is_taken_over_and_a_file_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = long_folder(temporary.path());
        let path = folder.join("socket");
        drop(UnixListener::bind(ShortPath::of(&path).unwrap().path()).unwrap());
        assert!(is_socket(&path), "left behind");
        drop(bind(&path).unwrap());
        fs::write(&path, b"mine").unwrap();
        assert!(bind(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn paths_up_to_the_limit_are_taken_as_they_are() {
        for (bytes, is_short) in [(107, true), (108, false)] {
            let path = PathBuf::from(format!("/tmp/{}", "x".repeat(bytes - 5)));
            assert_eq!(path.as_os_str().len(), bytes);
            match ShortPath::of(&path) {
                Ok(short) => assert!(is_short && short.path() == path),
                Err(error) => assert!(!is_short && error.to_string().contains("108 bytes")),
            }
        }
        let error = ShortPath::of(Path::new(&"/nowhere".repeat(20))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let temporary = tempfile::tempdir().unwrap();
        let folder = long_folder(temporary.path());
        for (bytes, fits) in [(NAME_BYTES_MAX, true), (NAME_BYTES_MAX + 1, false)] {
            let bound = bind(&folder.join("n".repeat(bytes)));
            assert_eq!(bound.is_ok(), fits, "{bytes}: {bound:?}");
        }
        let error = ShortPath::of(Path::new(&"n".repeat(200))).unwrap_err();
        assert!(error.to_string().contains("200 bytes"), "{error}");
    }
}
