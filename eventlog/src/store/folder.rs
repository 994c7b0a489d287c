//! The files of a logger in their folder.

use super::{StoreError, watermark};
use refrain_storage::{Directory, Ended, Engine, File, Io, Stage, Transfer, lock, make_private};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

const PREFIX: &str = "events-";
const LOCK: &str = "lock";
const WATERMARK: &str = "watermark";
/// Maximum number of reads until the watermark counts as damaged: a running logger may
/// overwrite it during a read.
const WATERMARK_TRIES: u32 = 8;

fn name(file: u64) -> String {
    format!("{PREFIX}{file:012}")
}

/// A folder, read only.
#[derive(Debug)]
pub(crate) struct Folder {
    directory: Directory,
}

impl Folder {
    /// Opens the folder; it stays valid if the program changes its working directory.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let directory = Directory::open(path);
        let directory = directory.map_err(|error| StoreError::io("looking into", path, error))?;
        Ok(Self { directory })
    }

    /// Numbers of the existing files, in any order.
    pub fn files(&self) -> io::Result<Vec<u64>> {
        let names = self.directory.names()?;
        let number = |name: &String| name.strip_prefix(PREFIX)?.parse::<u64>().ok();
        Ok(names.iter().filter_map(number).collect())
    }

    /// Length of a file in bytes.
    pub fn length(&self, file: u64) -> io::Result<u64> {
        self.directory.open_to_read(&name(file))?.length()
    }

    /// Reads at a place, up to the file's end; returns the number of bytes.
    pub fn read_at(&self, file: u64, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let directory = &self.directory;
        directory.open_to_read(&name(file))?.read_at(place, into)
    }

    /// Number of the last stored group, from the watermark file; `None`:
    /// there is no such file.
    pub fn watermark(&self) -> io::Result<Option<u64>> {
        let mut tries = WATERMARK_TRIES;
        loop {
            let file = match self.directory.open_to_read(WATERMARK) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            // One byte more than the file should have.
            let mut bytes = [0; watermark::WATERMARK_BYTES + 1];
            let length = file.read_at(0, &mut bytes)?;
            tries -= 1;
            match watermark::read(&bytes[..length]) {
                Ok(group) => return Ok(Some(group)),
                Err(reason) if tries == 0 => {
                    let path = self.directory.path(WATERMARK);
                    let reason = format!("{} is damaged: {reason}", path.display());
                    return Err(io::Error::other(reason));
                }
                Err(_) => {}
            }
        }
    }

    /// Adds the file's path to an error.
    pub fn io<T>(&self, doing: &str, file: u64, result: io::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| StoreError::io(doing, &self.path(file), error))
    }

    pub fn damaged(&self, file: u64, place: u64, reason: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            file: self.path(file),
            place,
            reason: reason.into(),
        }
    }

    /// The path of a file.
    pub fn path(&self, file: u64) -> PathBuf {
        self.directory.path(&name(file))
    }

    /// The path of the folder.
    pub fn folder(&self) -> PathBuf {
        self.directory.path("")
    }
}

impl From<Directory> for Folder {
    fn from(directory: Directory) -> Self {
        Self { directory }
    }
}

/// A folder that this process writes alone; one write at a time is under way.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    pub folder: Folder,
    engine: Box<dyn Engine<Vec<u8>>>,
    ended: Vec<Ended<Vec<u8>>>,
    watermark: File,
    /// The file that is being written.
    open: Option<(u64, File)>,
    /// The lock is held while this is open.
    _lock: Option<std::fs::File>,
}

impl OwnFolder {
    /// Opens and locks the folder; creates it if missing, unless it `continues`.
    ///
    /// # Errors
    /// When another process has locked it, or it cannot be used.
    pub fn open(path: &Path, sync: bool, io: Io, continues: bool) -> Result<Self, StoreError> {
        if continues && !path.join(WATERMARK).exists() {
            return Err(StoreError::NotBegun {
                folder: path.to_owned(),
            });
        }
        let (directory, lock) = begin_locked(path)?;
        Self::of(directory, sync, io, Some(lock))
    }

    /// As [`OwnFolder::open`], in any directory, which is not locked.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn open_in(directory: Directory, sync: bool, io: Io) -> Result<Self, StoreError> {
        begin_in(&directory)
            .map_err(|error| StoreError::io("making", &directory.path(""), error))?;
        Self::of(directory, sync, io, None)
    }

    fn of(
        directory: Directory,
        sync: bool,
        io: Io,
        lock: Option<std::fs::File>,
    ) -> Result<Self, StoreError> {
        let refused = |doing: &'static str| {
            let path = directory.path("");
            move |error| StoreError::io(doing, &path, error)
        };
        let io = match (io, sync) {
            // Into the page cache: no thread switch is needed for that.
            (Io::Auto, false) => Io::Plain,
            (Io::Plain, true) => Io::Thread,
            _ => io,
        };
        let watermark = directory.open_file(WATERMARK);
        let engine = directory.engine(io, 1);
        Ok(Self {
            watermark: watermark.map_err(refused("writing the watermark of"))?,
            engine: engine.map_err(refused("preparing to write into"))?,
            ended: Vec::new(),
            folder: Folder { directory },
            open: None,
            _lock: lock,
        })
    }

    fn opened(&mut self, file: u64) -> io::Result<File> {
        if let Some((number, open)) = &self.open
            && *number == file
        {
            return Ok(open.clone());
        }
        let open = self.folder.directory.open_file(&name(file))?;
        self.open = Some((file, open.clone()));
        Ok(open)
    }

    /// Makes a file of that length which begins with `header`, then zeros; allocates the
    /// whole room if the file system can. With `sync`, the file survives a loss of power from
    /// here on. If this fails, the file does not exist.
    pub fn create(&mut self, file: u64, bytes: u64, header: &[u8], sync: bool) -> io::Result<()> {
        let directory = &self.folder.directory;
        let made = directory.create(&name(file))?;
        let fill = || {
            made.take_room(bytes)?;
            made.write_at(0, header)?;
            if sync {
                made.sync()?;
                directory.sync()?;
            }
            Ok(())
        };
        if let Err(error) = fill() {
            // A partial file would take room that is needed.
            let _ = directory.remove(&name(file));
            return Err(error);
        }
        self.open = Some((file, made));
        Ok(())
    }

    /// Syncs a file and its directory entry.
    pub fn sync(&mut self, file: u64) -> io::Result<()> {
        self.opened(file)?.sync()?;
        self.folder.directory.sync()
    }

    /// Overwrites bytes at once, without a sync, to invalidate them.
    pub fn overwrite(&mut self, file: u64, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.opened(file)?.write_at(place, bytes)
    }

    /// Cuts a file after `bytes` bytes, which frees the rest.
    pub fn shorten(&mut self, file: u64, bytes: u64) -> io::Result<()> {
        let directory = &self.folder.directory;
        directory.open_file(&name(file))?.set_length(bytes)
    }

    /// Removes a file. With `sync`, it stays removed after a loss of power.
    pub fn remove(&mut self, file: u64, sync: bool) -> io::Result<()> {
        let directory = &self.folder.directory;
        directory.remove(&name(file))?;
        if sync { directory.sync() } else { Ok(()) }
    }

    /// Records that groups up to this one are stored. Without a sync: after a loss of power, an
    /// earlier number may be found.
    pub fn set_watermark(&mut self, group: u64) -> io::Result<()> {
        self.watermark.write_at(0, &watermark::encode(group))
    }

    /// Begins a write, optionally followed by a sync of the file's data; only while no other
    /// is under way.
    pub fn begin(&mut self, file: u64, place: u64, bytes: Vec<u8>, sync: bool) {
        match self.opened(file) {
            Ok(file) => {
                let count = bytes.len();
                let transfer = Transfer::new(file, place, count, sync, bytes);
                self.engine.begin(transfer);
            }
            Err(error) => self.ended.push(Ended::Done {
                memory: bytes,
                result: Err((Stage::Transfer, error)),
            }),
        }
    }

    /// The result of the write under way, if it has ended; with `wait`, waits for a result.
    pub fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended<Vec<u8>>>> {
        if self.ended.is_empty() {
            self.engine.collect(wait, &mut self.ended)?;
        }
        let has_news = !self.ended.is_empty();
        Ok(has_news.then(|| self.ended.remove(0)))
    }

    /// Readable when a result is available; `None` if it is available right after a write began.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.engine.descriptor()
    }

    /// The I/O engine's name, for people, such as "io_uring".
    pub fn name(&self) -> String {
        self.engine.name()
    }
}

/// Makes the folder of a logger if it is missing, and the file in it without which
/// the folder [counts as lost](StoreError::NotBegun) from then on.
///
/// # Errors
/// When it cannot be made, or another process has locked it.
pub(crate) fn begin(path: &Path) -> Result<(), StoreError> {
    begin_locked(path).map(drop)
}

/// As [`begin`]; the folder stays locked while the returned file is open. Without the lock, two
/// loggers that start at once could remove each other's unfinished files.
fn begin_locked(path: &Path) -> Result<(Directory, std::fs::File), StoreError> {
    let made = make_private(path).and_then(|()| Directory::open(path));
    let directory = made.map_err(|error| StoreError::io("making", path, error))?;
    let lock = lock(&path.join(LOCK)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StoreError::Locked {
            folder: directory.path(""),
        },
        _ => StoreError::io("locking", path, error),
    })?;
    begin_in(&directory).map_err(|error| StoreError::io("making", path, error))?;
    Ok((directory, lock))
}

fn begin_in(directory: &Directory) -> io::Result<()> {
    match directory.open_to_read(WATERMARK) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map(drop),
    }
    // Written under another name first: the file appears complete or not at all.
    let unfinished = format!("{WATERMARK}.new");
    directory.remove(&unfinished)?;
    let made = directory.create(&unfinished)?;
    made.write_at(0, &watermark::encode(0))?;
    made.sync()?;
    directory.rename(&unfinished, WATERMARK)?;
    directory.sync()
}
