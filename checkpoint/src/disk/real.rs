//! A real folder.

use super::engine::{DiskIo, Engine, Plain};
use super::input::FileInput;
use super::output::FileOutput;
use super::threaded::Threaded;
use super::uring::Uring;
use super::{Disk, Input, Output};
use crate::buffer::Strip;
use crate::error::CheckpointError;
use crate::format::PAGE_BYTES;
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder; see the [module](super).
#[derive(Debug)]
pub struct FolderDisk {
    path: PathBuf,
    io: DiskIo,
    /// Whether files are written past the page cache.
    is_direct: bool,
    /// Whether files lie in memory anyway.
    is_memory: bool,
    engine_name: String,
}

/// Names of first files, apart from those of other threads of this process.
static PROBES: AtomicU64 = AtomicU64::new(0);

impl FolderDisk {
    /// A folder that is there, written in the best way.
    ///
    /// # Errors
    /// When there is no such folder, or no file can be made in it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::with_io(path, DiskIo::Auto)
    }

    /// A folder that is there, written as asked.
    ///
    /// # Errors
    /// When there is no such folder, or no file can be made in it.
    pub fn with_io(path: &Path, io: DiskIo) -> Result<Self, CheckpointError> {
        let attempted = || format!("opening {} for checkpoints", path.display());
        let of_system = |error| CheckpointError::of_system(attempted(), error);
        match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(CheckpointError::Missing {
                    attempted: attempted(),
                });
            }
            Err(error) => return Err(of_system(error)),
            Ok(found) if !found.is_dir() => {
                return Err(of_system(io::ErrorKind::NotADirectory.into()));
            }
            Ok(_) => {}
        }
        // The program may go elsewhere later.
        let path = std::path::absolute(path).map_err(of_system)?;
        let is_memory = is_memory(&path);
        let mut disk = Self {
            path,
            io: match (io, is_memory) {
                (DiskIo::Auto, true) => DiskIo::Plain,
                _ => io,
            },
            is_direct: !is_memory,
            is_memory,
            engine_name: String::new(),
        };
        disk.probe().map_err(of_system)?;
        Ok(disk)
    }

    /// Writes a file of one page, directly if that goes, and removes it.
    fn probe(&mut self) -> io::Result<()> {
        let number = PROBES.fetch_add(1, Ordering::Relaxed);
        let name = format!(".probe-{}-{number}", std::process::id());
        let result = match self.try_probe(&name) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.is_direct = false;
                self.try_probe(&name)
            }
            other => other,
        };
        self.engine_name = result?;
        Ok(())
    }

    fn try_probe(&self, name: &str) -> io::Result<String> {
        // Some systems make the file before they find that they cannot do direct
        // I/O: it is removed in any case.
        let made = self.make(name).and_then(|file| {
            file.write_all_at(&Strip::new().bytes()[..PAGE_BYTES], 0)?;
            let (_, engine) = self.engine(&file)?;
            Ok(engine)
        });
        let removed = self.remove(name);
        made.and_then(|engine| removed.map(|()| engine))
    }

    fn make(&self, name: &str) -> io::Result<File> {
        let mut flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        if self.is_direct {
            flags |= OFlags::DIRECT;
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let made = rustix::io::retry_on_intr(|| openat(CWD, self.path(name), flags, mode))?;
        Ok(made.into())
    }

    fn engine(&self, file: &File) -> io::Result<(Box<dyn Engine>, String)> {
        let file = file.try_clone()?;
        let threaded = |file: File, why: String| -> io::Result<(Box<dyn Engine>, String)> {
            Ok((Box::new(Threaded::start(file)?), format!("a thread{why}")))
        };
        match self.io {
            DiskIo::Plain => Ok((Box::new(Plain(file)), "plain writes".into())),
            DiskIo::Thread => threaded(file, String::new()),
            DiskIo::Uring => Ok((Box::new(Uring::new(file)?), "io_uring".into())),
            DiskIo::Auto => match Uring::new(file.try_clone()?) {
                Ok(uring) => Ok((Box::new(uring), "io_uring".into())),
                // Not there, or not allowed.
                Err(error) => threaded(file, format!(" (no io_uring: {error})")),
            },
        }
    }
}

/// Whether a folder is of tmpfs.
fn is_memory(folder: &Path) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|found| found.f_type as u64 == TMPFS_MAGIC)
}

impl Disk for FolderDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        // Not by `std::fs::read_dir`, which allocates from the heap of the rank's program.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::new(openat(CWD, &self.path, flags, Mode::empty())?)? {
            // Names that are no text are not ours.
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn Output>> {
        let file = self.make(name)?;
        match self.engine(&file) {
            // In memory, taking room would clear it first: twice the work.
            Ok((engine, _)) => Ok(Box::new(FileOutput::new(file, engine, !self.is_memory))),
            Err(error) => {
                let _ = self.remove(name);
                Err(error)
            }
        }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Input>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened =
            rustix::io::retry_on_intr(|| openat(CWD, self.path(name), flags, Mode::empty()))?;
        Ok(Box::new(FileInput::new(opened.into())))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn describe(&self) -> String {
        let how = if self.is_direct { "direct" } else { "buffered" };
        format!("{}, {how}", self.engine_name)
    }
}
