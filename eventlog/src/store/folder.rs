//! The files of a logger in their folder.

use super::{StoreError, watermark};
use refrain_storage::{Directory, Ended, Engine, File, Io, Stage, Transfer, lock, make_private};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

const PREFIX: &str = "events-";
const LOCK: &str = "lock";
const WATERMARK: &str = "watermark";
/// Reads before the watermark counts as damaged: the logger that runs may overwrite it
/// during a read.
const WATERMARK_TRIES: u32 = 8;

fn name(file: u64) -> String {
    format!("{PREFIX}{file:012}")
}

/// A folder that is only looked at.
#[derive(Debug)]
pub(crate) struct Folder {
    directory: Directory,
}

impl Folder {
    /// The program may go elsewhere later.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let directory = Directory::open(path);
        let directory = directory.map_err(|error| StoreError::io("looking into", path, error))?;
        Ok(Self { directory })
    }

    /// Numbers of the files that are there, in any order.
    pub fn files(&self) -> io::Result<Vec<u64>> {
        let names = self.directory.names()?;
        let number = |name: &String| name.strip_prefix(PREFIX)?.parse::<u64>().ok();
        Ok(names.iter().filter_map(number).collect())
    }

    /// Bytes of a file.
    pub fn length(&self, file: u64) -> io::Result<u64> {
        self.directory.open_to_read(&name(file))?.length()
    }

    /// Reads at a place, as far as the file goes; returns how many bytes.
    pub fn read_at(&self, file: u64, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let directory = &self.directory;
        directory.open_to_read(&name(file))?.read_at(place, into)
    }

    /// Number of the last group that was stored, as a file of its own says; `None`:
    /// there is none.
    pub fn watermark(&self) -> io::Result<Option<u64>> {
        let mut tries = WATERMARK_TRIES;
        loop {
            let file = match self.directory.open_to_read(WATERMARK) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            // One more than there should be.
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

    /// An error of a file.
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

/// A folder of which this process is the only writer; one write at a time is under way.
#[derive(Debug)]
pub(crate) struct OwnFolder {
    pub folder: Folder,
    engine: Box<dyn Engine<Vec<u8>>>,
    ended: Vec<Ended<Vec<u8>>>,
    watermark: File,
    /// The file that is written.
    open: Option<(u64, File)>,
    /// Held by being open.
    _lock: Option<std::fs::File>,
}

impl OwnFolder {
    /// Makes the folder if it is not there, unless it `continues`, and locks it.
    ///
    /// # Errors
    /// When another process has it, or it cannot be used.
    pub fn open(path: &Path, sync: bool, io: Io, continues: bool) -> Result<Self, StoreError> {
        if continues && !path.join(WATERMARK).exists() {
            return Err(StoreError::NotBegun {
                folder: path.to_owned(),
            });
        }
        let (directory, lock) = begin_locked(path)?;
        Self::of(directory, sync, io, Some(lock))
    }

    /// The same in any directory, which is not locked.
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
            // Into the page cache: no other thread is woken for that.
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

    /// Makes a file of that many bytes which begins with `header`, then zeros; takes the
    /// room for all of it if that goes. With `sync`, it survives a loss of power from
    /// here on. Where it fails, no such file is left.
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
            // It would take room that is needed.
            let _ = directory.remove(&name(file));
            return Err(error);
        }
        self.open = Some((file, made));
        Ok(())
    }

    /// Syncs a file and its name.
    pub fn sync(&mut self, file: u64) -> io::Result<()> {
        self.opened(file)?.sync()?;
        self.folder.directory.sync()
    }

    /// Overwrites bytes at once, without a sync: to take something back.
    pub fn overwrite(&mut self, file: u64, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.opened(file)?.write_at(place, bytes)
    }

    /// Gives back the room behind that many bytes.
    pub fn shorten(&mut self, file: u64, bytes: u64) -> io::Result<()> {
        let directory = &self.folder.directory;
        directory.open_file(&name(file))?.set_length(bytes)
    }

    /// Removes a file. With `sync`, no loss of power brings it back.
    pub fn remove(&mut self, file: u64, sync: bool) -> io::Result<()> {
        let directory = &self.folder.directory;
        directory.remove(&name(file))?;
        if sync { directory.sync() } else { Ok(()) }
    }

    /// Says that groups up to this one are stored. Without a sync: a loss of power may
    /// leave an earlier one.
    pub fn set_watermark(&mut self, group: u64) -> io::Result<()> {
        self.watermark.write_at(0, &watermark::encode(group))
    }

    /// Begins a write, with a sync of the file's data after it or without; only when none
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

    /// What has become of the write under way; with `wait`, waits for news.
    pub fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended<Vec<u8>>>> {
        if self.ended.is_empty() {
            self.engine.collect(wait, &mut self.ended)?;
        }
        let has_news = !self.ended.is_empty();
        Ok(has_news.then(|| self.ended.remove(0)))
    }

    /// Readable when there is news; `None` if there always is right after a write began.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.engine.descriptor()
    }

    /// For people: "io_uring".
    pub fn name(&self) -> String {
        self.engine.name()
    }
}

/// Makes the folder of a logger if it is not there, and the file in it without which
/// the folder [counts as lost](StoreError::NotBegun) from then on.
///
/// # Errors
/// When it cannot be made, or another process has it.
pub(crate) fn begin(path: &Path) -> Result<(), StoreError> {
    begin_locked(path).map(drop)
}

/// The same; the folder stays locked as long as the file is open. Without the lock, two
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
    // Under another name first: it is there wholly or not at all.
    let unfinished = format!("{WATERMARK}.new");
    directory.remove(&unfinished)?;
    let made = directory.create(&unfinished)?;
    made.write_at(0, &watermark::encode(0))?;
    made.sync()?;
    directory.rename(&unfinished, WATERMARK)?;
    directory.sync()
}
