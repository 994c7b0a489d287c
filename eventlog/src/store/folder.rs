//! Files in a real folder.

use super::disk::{Disk, Ended, ReadFiles, Write};
use super::engine::{Engine, Inline};
use super::plain::Threaded;
use super::uring::Uring;
use super::{StoreError, StoreIo, watermark};
use rustix::fs::{
    CWD, Dir, FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, ftruncate, openat,
};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PREFIX: &str = "events-";
const LOCK: &str = "lock";
const WATERMARK: &str = "watermark";
/// Reads before the watermark counts as damaged: the logger that runs may overwrite it
/// during a read.
const WATERMARK_TRIES: u32 = 8;

/// A folder that is only looked at.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The program may go elsewhere later.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let opened = std::path::absolute(path).and_then(|path| {
            entries(&path)?;
            Ok(Self { path })
        });
        opened.map_err(|error| StoreError::Io {
            attempted: format!("looking into {}", path.display()),
            error,
        })
    }
}

/// Not by `std::fs::read_dir`: that allocates from the heap of the rank's program, in
/// later lives only.
fn entries(folder: &Path) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Dir::new(openat(CWD, folder, flags, Mode::empty())?)?)
}

impl ReadFiles for Folder {
    fn files(&self) -> io::Result<Vec<u64>> {
        let mut files = Vec::new();
        for entry in entries(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_str().ok();
            let number = name.and_then(|name| name.strip_prefix(PREFIX));
            files.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        Ok(files)
    }

    fn length(&self, file: u64) -> io::Result<u64> {
        Ok(std::fs::metadata(self.path(file))?.len())
    }

    fn read_at(&self, file: u64, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let opened = File::open(self.path(file))?;
        let mut done = 0;
        while done < into.len() {
            match opened.read_at(&mut into[done..], place + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn watermark(&self) -> io::Result<Option<u64>> {
        let path = self.path.join(WATERMARK);
        let mut tries = WATERMARK_TRIES;
        loop {
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            tries -= 1;
            match watermark::read(&bytes) {
                Ok(group) => return Ok(Some(group)),
                Err(reason) if tries == 0 => {
                    let reason = format!("{} is damaged: {reason}", path.display());
                    return Err(io::Error::other(reason));
                }
                Err(_) => {}
            }
        }
    }

    fn path(&self, file: u64) -> PathBuf {
        self.path.join(format!("{PREFIX}{file:012}"))
    }

    fn folder(&self) -> PathBuf {
        self.path.clone()
    }
}

/// A folder of which this process is the only writer.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    folder: Folder,
    engine: Box<dyn Engine>,
    watermark: File,
    /// The file that is written.
    open: Option<(u64, Arc<File>)>,
    /// Held by being open.
    _lock: File,
}

/// Mode of each file, whatever the umask: events tell what a program did, and a lock that
/// another user may open can be held by that user.
const OWNER_ONLY: u32 = 0o600;

/// Makes a folder, and those above it, of the owner alone; one that is there stays as it
/// is.
///
/// # Errors
/// Of the system.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

impl OwnFolder {
    /// Makes the folder if it is not there, unless it `continues`, and locks it.
    ///
    /// # Errors
    /// When it cannot be written, another process has it, or it continues and was
    /// never [begun](begin).
    pub fn open(path: &Path, sync: bool, io: StoreIo, continues: bool) -> Result<Self, StoreError> {
        let refused = |doing: &str, error: io::Error| StoreError::Io {
            attempted: format!("{doing} {}", path.display()),
            error,
        };
        if !continues {
            begin(path)?;
        } else if !path.join(WATERMARK).exists() {
            return Err(StoreError::NotBegun {
                folder: path.to_owned(),
            });
        }
        let folder = Folder::open(path)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(OWNER_ONLY)
            .open(folder.path.join(LOCK))
            .map_err(|error| refused("locking", error))?;
        // One that an earlier version made could be locked by any user.
        lock.set_permissions(Permissions::from_mode(OWNER_ONLY))
            .map_err(|error| refused("locking", error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(StoreError::Locked {
                    folder: folder.path,
                });
            }
            Err(error) => return Err(refused("locking", error.into())),
        }
        let mut options = OpenOptions::new();
        let watermark = options.write(true).open(folder.path.join(WATERMARK));
        let engine = make_engine(sync, io);
        Ok(Self {
            watermark: watermark.map_err(|error| refused("writing the watermark of", error))?,
            engine: engine.map_err(|error| refused("preparing to write into", error))?,
            folder,
            open: None,
            _lock: lock,
        })
    }

    fn opened(&mut self, file: u64) -> io::Result<Arc<File>> {
        if let Some((number, open)) = &self.open
            && *number == file
        {
            return Ok(open.clone());
        }
        let path = self.folder.path(file);
        let open = OpenOptions::new().read(true).write(true).open(path)?;
        let open = Arc::new(open);
        self.open = Some((file, open.clone()));
        Ok(open)
    }

    fn fill_new(&self, file: &File, bytes: u64, header: &[u8], sync: bool) -> io::Result<()> {
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
            // File systems that cannot: an error comes when a write does not fit.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => ftruncate(file, bytes)?,
            other => other?,
        }
        file.write_all_at(header, 0)?;
        if sync {
            file.sync_all()?;
            self.sync_folder()?;
        }
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder.path)?.sync_all()
    }
}

/// Makes the folder of a logger if it is not there, and the file in it without which
/// the folder [counts as lost](StoreError::NotBegun) from then on.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn begin(path: &Path) -> Result<(), StoreError> {
    let made = make(path).and_then(|()| {
        let file = path.join(WATERMARK);
        if file.exists() {
            return Ok(());
        }
        // Under another name first: it is there wholly or not at all.
        let unfinished = path.join(format!("{WATERMARK}.new"));
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(OWNER_ONLY);
        let mut made = options.open(&unfinished)?;
        made.write_all(&watermark::encode(0))?;
        made.sync_all()?;
        std::fs::rename(unfinished, file)?;
        File::open(path)?.sync_all()
    });
    made.map_err(|error| StoreError::Io {
        attempted: format!("making {}", path.display()),
        error,
    })
}

fn make_engine(sync: bool, io: StoreIo) -> io::Result<Box<dyn Engine>> {
    match (io, sync) {
        (StoreIo::Auto | StoreIo::Plain, false) => Ok(Box::new(Inline::default())),
        (StoreIo::Plain, true) => Ok(Box::new(Threaded::start("asked for")?)),
        (StoreIo::Uring, _) => Ok(Box::new(Uring::new()?)),
        (StoreIo::Auto, true) => match Uring::new() {
            Ok(uring) => Ok(Box::new(uring)),
            // Not there, or not allowed.
            Err(error) => {
                let reason = format!("io_uring: {error}");
                Ok(Box::new(Threaded::start(&reason)?))
            }
        },
    }
}

impl ReadFiles for OwnFolder {
    fn files(&self) -> io::Result<Vec<u64>> {
        self.folder.files()
    }

    fn length(&self, file: u64) -> io::Result<u64> {
        self.folder.length(file)
    }

    fn read_at(&self, file: u64, place: u64, into: &mut [u8]) -> io::Result<usize> {
        self.folder.read_at(file, place, into)
    }

    fn watermark(&self) -> io::Result<Option<u64>> {
        self.folder.watermark()
    }

    fn path(&self, file: u64) -> PathBuf {
        self.folder.path(file)
    }

    fn folder(&self) -> PathBuf {
        self.folder.folder()
    }
}

impl Disk for OwnFolder {
    fn create(&mut self, file: u64, bytes: u64, header: &[u8], sync: bool) -> io::Result<()> {
        let path = self.folder.path(file);
        let mut options = OpenOptions::new();
        let made = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(OWNER_ONLY)
            .open(&path)?;
        if let Err(error) = self.fill_new(&made, bytes, header, sync) {
            // It would take room that is needed.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        self.open = Some((file, Arc::new(made)));
        Ok(())
    }

    fn sync(&mut self, file: u64) -> io::Result<()> {
        self.opened(file)?.sync_all()?;
        self.sync_folder()
    }

    fn overwrite(&mut self, file: u64, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.opened(file)?.write_all_at(bytes, place)
    }

    fn shorten(&mut self, file: u64, bytes: u64) -> io::Result<()> {
        let path = self.folder.path(file);
        OpenOptions::new().write(true).open(path)?.set_len(bytes)
    }

    fn remove(&mut self, file: u64, sync: bool) -> io::Result<()> {
        std::fs::remove_file(self.folder.path(file))?;
        if sync {
            self.sync_folder()?;
        }
        Ok(())
    }

    fn set_watermark(&mut self, group: u64) -> io::Result<()> {
        self.watermark.write_all_at(&watermark::encode(group), 0)
    }

    fn begin(&mut self, write: Write) {
        match self.opened(write.file) {
            Ok(file) => self.engine.begin(file, write),
            Err(error) => self.engine.refuse(write, error),
        }
    }

    fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended>> {
        self.engine.take_ended(wait)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.engine.descriptor()
    }

    fn name(&self) -> String {
        self.engine.name()
    }
}
