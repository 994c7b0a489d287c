//! The directory: making, renaming and removing files, and what its file system
//! can do.

use super::memory::{AlignedBuffer, BLOCK_BYTES};
use super::options::DiskError;
use rustix::fs::{FallocateFlags, Mode, OFlags, RenameFlags, fallocate, ftruncate};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where files are made.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    prefix: String,
    /// Whether files are written past the page cache.
    direct: bool,
}

/// Names of probes, apart from those of other stores in this process.
static PROBES: AtomicU64 = AtomicU64::new(0);

impl Directory {
    /// Makes sure that files can be made there, and finds out how.
    pub fn new(path: &Path, prefix: &str) -> Result<Self, DiskError> {
        if prefix.contains('/') {
            return Err(DiskError::Prefix(prefix.into()));
        }
        // The program may go elsewhere later.
        let path = std::path::absolute(path).map_err(|error| DiskError::Probe {
            directory: path.into(),
            error,
        })?;
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(DiskError::NotADirectory(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(DiskError::Missing(path));
            }
            Err(error) => {
                return Err(DiskError::NotWritable {
                    directory: path,
                    error,
                });
            }
        }
        let mut directory = Self {
            path,
            prefix: prefix.into(),
            direct: true,
        };
        directory
            .probe()
            .map_err(|error| directory.explain(error))?;
        Ok(directory)
    }

    fn explain(&self, error: io::Error) -> DiskError {
        let directory = self.path.clone();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                DiskError::NotWritable { directory, error }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                DiskError::NoRoom { directory, error }
            }
            _ => DiskError::Probe { directory, error },
        }
    }

    /// Writes a file of one block, directly if that goes.
    fn probe(&mut self) -> io::Result<()> {
        let number = PROBES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}probe-{}-{number}", self.prefix, std::process::id());
        match self.try_probe(&name) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.direct = false;
                self.try_probe(&name)
            }
            other => other,
        }
    }

    fn try_probe(&self, name: &str) -> io::Result<()> {
        // Some systems make the file before they find that they cannot do direct
        // I/O: it is removed in any case.
        let result = self.make(name).and_then(|descriptor| {
            let block = AlignedBuffer::new(BLOCK_BYTES);
            write_all(&descriptor, block.bytes(), 0)
        });
        match self.remove(name) {
            Err(error) if result.is_ok() => Err(error),
            _ => result,
        }
    }

    /// Whether places, lengths and addresses must be of whole blocks.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn flags(&self) -> OFlags {
        let direct = if self.direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | direct
    }

    /// Makes a file that is not there yet.
    pub fn make(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = self.flags() | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        retry(|| rustix::fs::open(self.path_of(name), flags, mode))
    }

    pub fn open(&self, name: &str) -> io::Result<OwnedFd> {
        retry(|| rustix::fs::open(self.path_of(name), self.flags(), Mode::empty()))
    }

    /// Gives a file another name, which no file has.
    pub fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        let (old, new) = (self.path_of(old), self.path_of(new));
        let here = rustix::fs::CWD;
        let flags = RenameFlags::NOREPLACE;
        let renamed = retry(
            || match rustix::fs::renameat_with(here, &old, here, &new, flags) {
                // Systems, and file systems, that cannot promise it.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
                other => other.map(|()| true),
            },
        )?;
        if renamed {
            return Ok(());
        }
        if std::fs::symlink_metadata(&new).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&old, &new)
    }

    /// Removes a file; it may be gone already.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path_of(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Whether a directory is of tmpfs.
pub(super) fn is_memory(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|statistics| is_tmpfs(&statistics))
}

fn is_tmpfs(statistics: &rustix::fs::StatFs) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    statistics.f_type as u64 == TMPFS_MAGIC
}

/// Whether there is room for `bytes` bytes of a file now. On tmpfs it is not
/// taken: that would clear memory which is then written again, twice the work.
fn has_room(descriptor: &OwnedFd, bytes: u64) -> io::Result<()> {
    let left = rustix::fs::fstatvfs(descriptor)?;
    let own = u64::try_from(rustix::fs::fstat(descriptor)?.st_blocks).unwrap_or(0) * 512;
    let free = left.f_bavail.saturating_mul(left.f_frsize);
    match bytes.saturating_sub(own) <= free {
        true => Ok(()),
        false => Err(Errno::NOSPC.into()),
    }
}

/// Takes room for `bytes` bytes of a file, now where the file system can.
pub(super) fn take_room(descriptor: &OwnedFd, bytes: u64) -> io::Result<()> {
    let in_memory = is_tmpfs(&rustix::fs::fstatfs(descriptor)?);
    if in_memory {
        has_room(descriptor, bytes)?;
    }
    let taken = !in_memory
        && retry(
            || match fallocate(descriptor, FallocateFlags::empty(), 0, bytes) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
                other => other.map(|()| true),
            },
        )?;
    if taken {
        return Ok(());
    }
    let length = rustix::fs::fstat(descriptor)?.st_size;
    if u64::try_from(length).is_ok_and(|length| length >= bytes) {
        return Ok(());
    }
    retry(|| ftruncate(descriptor, bytes))
}

/// Writes all of `bytes`.
pub(super) fn write_all(descriptor: &OwnedFd, bytes: &[u8], place: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match retry(|| rustix::io::pwrite(descriptor, &bytes[done..], place + done as u64))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            moved => done += moved,
        }
    }
    Ok(())
}

/// Until it is not cut short by a signal.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
