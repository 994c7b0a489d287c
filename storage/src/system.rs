//! Directories and files of the operating system.

use crate::engine::Bytes;
use crate::memory::{AlignedBuffer, BLOCK_BYTES};
use rustix::fs::{
    Advice, CWD, Dir, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, fadvise,
    fallocate, flock, fstat, fstatfs, fstatvfs, fsync, ftruncate, openat, renameat_with, statfs,
};
use rustix::io::Errno;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const OWNER_ONLY: u32 = 0o600;

/// Number of the next probe file: distinguishes the threads of this process.
static PROBES: AtomicU64 = AtomicU64::new(0);

/// Creates a directory and its missing parents, accessible by the owner alone. An existing
/// directory stays unchanged.
///
/// # Errors
/// Errors of the system.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Locks a file, and creates it if it does not exist. The lock lasts as long as the returned file
/// is open.
///
/// # Errors
/// Errors of the system; `WouldBlock` if another process holds the lock.
pub fn lock(path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    let lock = options.mode(OWNER_ONLY).open(path)?;
    // Another user must not be able to open, and so to hold, the lock.
    lock.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

#[derive(Clone, Debug)]
pub(crate) struct SystemDirectory {
    path: PathBuf,
    is_direct: bool,
    is_memory: bool,
}

impl SystemDirectory {
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        if !std::fs::metadata(&path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            is_memory: statfs(&path).is_ok_and(|found| is_tmpfs(&found)),
            is_direct: false,
            path,
        })
    }

    /// Writes a file of one block, by direct I/O if that works.
    pub fn probe(mut self) -> io::Result<Self> {
        self.is_direct = true;
        match self.try_probe() {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_direct = false;
                self.try_probe()?;
            }
            other => other?,
        }
        Ok(self)
    }

    fn try_probe(&self) -> io::Result<()> {
        let flags = self.flags() | OFlags::TMPFILE;
        let file = match openat(CWD, &self.path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => SystemFile::new(file, self.is_direct),
            // File systems without unnamed files; some report it as if direct I/O failed.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::ISDIR | Errno::INVAL) => {
                let number = PROBES.fetch_add(1, Ordering::Relaxed);
                self.create_nameless(&format!(".probe-{}-{number}", std::process::id()))?
            }
            Err(error) => return Err(error.into()),
        };
        file.write_at(0, AlignedBuffer::new(BLOCK_BYTES).bytes())
    }

    /// Creates a file and removes its name at once. Removes first a file that a dead process with
    /// the same id has left.
    fn create_nameless(&self, name: &str) -> io::Result<SystemFile> {
        self.remove(name)?;
        let made = self.create(name);
        // Some systems create the file before they detect that they cannot do direct I/O.
        let removed = self.remove(name);
        made.and_then(|file| removed.map(|()| file))
    }

    fn flags(&self) -> OFlags {
        let direct = match self.is_direct {
            true => OFlags::DIRECT,
            false => OFlags::empty(),
        };
        OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | direct
    }

    pub fn is_memory(&self) -> bool {
        self.is_memory
    }

    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub fn names(&self) -> io::Result<Vec<String>> {
        // `std::fs::read_dir` is not used, since it allocates from the heap of the rank's program.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::new(openat(CWD, &self.path, flags, Mode::empty())?)? {
            // Names that are no UTF-8 belong to other programs.
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<SystemFile> {
        let path = self.path(name);
        let opened = retry(|| openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR))?;
        Ok(SystemFile::new(opened, flags.contains(OFlags::DIRECT)))
    }

    pub fn create(&self, name: &str) -> io::Result<SystemFile> {
        self.open_with(name, self.flags() | OFlags::CREATE | OFlags::EXCL)
    }

    pub fn open_file(&self, name: &str) -> io::Result<SystemFile> {
        self.open_with(name, self.flags())
    }

    pub fn open_to_read(&self, name: &str) -> io::Result<SystemFile> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        self.open_with(name, flags)
    }

    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    pub fn rename_to_new(&self, from: &str, to: &str) -> io::Result<()> {
        let (old, new) = (self.path(from), self.path(to));
        match retry(|| renameat_with(CWD, &old, CWD, &new, RenameFlags::NOREPLACE)) {
            // This system or file system cannot refuse to replace a file.
            Err(error) if is_unsupported(&error) || is(&error, Errno::INVAL) => {}
            other => return other,
        }
        match std::fs::symlink_metadata(&new) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => std::fs::rename(&old, &new),
        }
    }

    pub fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    pub fn sync(&self) -> io::Result<()> {
        std::fs::File::open(&self.path)?.sync_all()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.path.clone(),
            name => self.path.join(name),
        }
    }
}

fn is_tmpfs(found: &rustix::fs::StatFs) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    found.f_type as u64 == TMPFS_MAGIC
}

fn is(error: &io::Error, number: Errno) -> bool {
    error.raw_os_error() == Some(number.raw_os_error())
}

fn is_unsupported(error: &io::Error) -> bool {
    is(error, Errno::OPNOTSUPP) || is(error, Errno::NOSYS)
}

/// Repeats a call that a signal interrupts.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SystemFile {
    descriptor: Arc<OwnedFd>,
    is_direct: bool,
}

impl SystemFile {
    pub fn new(descriptor: OwnedFd, is_direct: bool) -> Self {
        Self {
            descriptor: Arc::new(descriptor),
            is_direct,
        }
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.descriptor) > 1
    }

    pub fn length(&self) -> io::Result<u64> {
        let length = fstat(&self.descriptor)?.st_size;
        Ok(u64::try_from(length).unwrap_or(0))
    }

    pub fn set_length(&self, bytes: u64) -> io::Result<()> {
        retry(|| ftruncate(&self.descriptor, bytes))
    }

    pub fn take_room(&self, bytes: u64) -> io::Result<()> {
        // On tmpfs, allocating clears memory that is then written again: twice the work.
        if is_tmpfs(&fstatfs(&self.descriptor)?) {
            self.check_room(bytes)?;
        } else {
            match retry(|| fallocate(&self.descriptor, FallocateFlags::empty(), 0, bytes)) {
                // Not supported: a write that does not fit fails later.
                Err(error) if is_unsupported(&error) || is(&error, Errno::PERM) => {}
                other => return other,
            }
        }
        match self.length()? >= bytes {
            true => Ok(()),
            false => self.set_length(bytes),
        }
    }

    /// Checks that there is room for `bytes` bytes of the file now.
    fn check_room(&self, bytes: u64) -> io::Result<()> {
        let found = fstatvfs(&self.descriptor)?;
        let own = u64::try_from(fstat(&self.descriptor)?.st_blocks).unwrap_or(0) * 512;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        // A file system without a limit reports 0 blocks.
        match bytes.saturating_sub(own) <= free || found.f_blocks == 0 {
            true => Ok(()),
            false => Err(Errno::NOSPC.into()),
        }
    }

    pub fn transfer(&self, place: u64, rest: Bytes<'_>) -> io::Result<usize> {
        Ok(match rest {
            Bytes::Write(bytes) => rustix::io::pwrite(&self.descriptor, bytes, place)?,
            Bytes::Read(bytes) => rustix::io::pread(&self.descriptor, bytes, place)?,
        })
    }

    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            match retry(|| rustix::io::pread(&self.descriptor, &mut *rest, place + done as u64))? {
                0 => break,
                moved => done += moved,
            }
        }
        Ok(done)
    }

    pub fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            match retry(|| rustix::io::pwrite(&self.descriptor, rest, place + done as u64))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                moved => done += moved,
            }
        }
        Ok(())
    }

    pub fn sync(&self) -> io::Result<()> {
        retry(|| fsync(&self.descriptor))
    }

    pub fn sync_data(&self) -> io::Result<()> {
        retry(|| rustix::fs::fdatasync(&self.descriptor))
    }

    pub fn read_ahead(&self, place: u64, bytes: u64) {
        // This is only a hint: without it, reading is slower.
        let _ = fadvise(
            &self.descriptor,
            place,
            NonZero::new(bytes),
            Advice::WillNeed,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process ids are reused, and containers use the same ones. A probe file of a dead process
    /// does not matter, and none remains.
    #[test]
    fn a_probe_that_a_dead_process_left_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..64 {
            let left = format!(".probe-{}-{number}", std::process::id());
            std::fs::write(folder.path().join(left), "").unwrap();
        }
        let directory = SystemDirectory::open(folder.path()).unwrap();
        let directory = directory.probe().unwrap();
        // As on a file system without unnamed files.
        directory
            .create_nameless(&format!(".probe-{}-0", std::process::id()))
            .unwrap();
        assert_eq!(directory.names().unwrap().len(), 63);
    }
}
