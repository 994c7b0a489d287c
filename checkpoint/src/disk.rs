//! The directory of checkpoints: files that are written strip by strip, and read from beginning to
//! end.

use crate::error::CheckpointError;
use crate::packing::{Strip, empty_strip};
use refrain_storage::{Directory, Ended, Engine, File, Io, Transfer};
use std::io;
use std::path::Path;

/// Most strips that are being written at a time.
const UNDER_WAY_MAX: usize = 8;
/// Bytes that are allocated in advance: at first, and at most at a time.
const ROOM_BYTES_FIRST: u64 = 16 << 20;
const ROOM_BYTES_MAX: u64 = 1 << 30;
/// How far ahead the kernel is asked to read.
const AHEAD_BYTES: u64 = 16 << 20;

/// A directory, and how its files are written.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(crate) directory: Directory,
    io: Io,
    description: String,
}

impl From<Directory> for Disk {
    fn from(directory: Directory) -> Self {
        Self {
            directory,
            io: Io::Auto,
            description: String::new(),
        }
    }
}

impl Disk {
    /// Opens a directory; its files are written by the best engine.
    ///
    /// # Errors
    /// When the directory does not exist, or no file can be created in it.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::with_io(path, Io::Auto)
    }

    /// Opens a directory; its files are written by `io`.
    ///
    /// # Errors
    /// When the directory does not exist, or no file can be created in it.
    pub fn with_io(path: &Path, io: Io) -> Result<Self, CheckpointError> {
        let attempted = || format!("opening {} for checkpoints", path.display());
        let of_system = |error| CheckpointError::of_system(attempted(), error);
        let directory = Directory::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CheckpointError::Missing {
                attempted: attempted(),
            },
            _ => of_system(error),
        })?;
        let directory = directory.past_the_page_cache().map_err(of_system)?;
        let engine = directory.engine::<Strip>(io, UNDER_WAY_MAX);
        let engine = engine.map_err(of_system)?;
        Ok(Self {
            description: format!("{}, {}", engine.name(), directory.access()),
            directory,
            io,
        })
    }

    /// Creates a file that does not exist yet.
    pub(crate) fn create(&self, name: &str) -> io::Result<Output> {
        let file = self.directory.create(name)?;
        match self.directory.engine(self.io, UNDER_WAY_MAX) {
            Ok(engine) => Ok(Output {
                file,
                engine,
                room_bytes: 0,
                spare: Vec::new(),
            }),
            Err(error) => {
                let _ = self.directory.remove(name);
                Err(error)
            }
        }
    }

    /// Opens a file for reading from its beginning.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<Input> {
        let file = self.directory.open_to_read(name)?;
        Ok(Input {
            file,
            place: 0,
            asked: 0,
        })
    }

    /// How files are written, for messages: "io_uring, direct".
    pub fn describe(&self) -> &str {
        &self.description
    }
}

/// A file that is written strip by strip, in order and without a gap; all strips but the last are
/// whole. An error may come with any later call, and the file cannot be used then. On drop, writes
/// in progress end first.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    engine: Box<dyn Engine<Strip>>,
    /// Bytes that are allocated for the file.
    room_bytes: u64,
    spare: Vec<Strip>,
}

impl Output {
    /// Takes the first `bytes` bytes of a strip to write them at `place`, and replaces it by
    /// another strip, whose contents are undefined.
    pub fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()> {
        self.make_room(place + bytes as u64)?;
        self.collect(false)?;
        while self.engine.room() == 0 {
            self.collect(true)?;
        }
        let next = self.spare.pop().unwrap_or_else(empty_strip);
        let full = core::mem::replace(strip, next);
        let transfer = Transfer::new(self.file.clone(), place, bytes, false, full);
        self.engine.begin(transfer);
        Ok(())
    }

    /// Waits until all strips are written, sets the length of the file, and syncs it: its content
    /// survives a loss of power from here on, but its name may not.
    pub fn finish(&mut self, bytes: u64) -> io::Result<()> {
        while self.engine.under_way() > 0 {
            self.collect(true)?;
        }
        self.file.set_length(bytes)?;
        self.file.sync()
    }

    fn collect(&mut self, wait: bool) -> io::Result<()> {
        let mut ended = Vec::new();
        self.engine.collect(wait, &mut ended)?;
        for ended in ended {
            if let Ended::Done { memory, result } = ended {
                self.spare.push(memory);
                result.map_err(|(_, error)| error)?;
            }
        }
        Ok(())
    }

    /// Allocates room before it is written: a full disk is detected early, and writes do not wait
    /// for each other.
    fn make_room(&mut self, end: u64) -> io::Result<()> {
        if self.room_bytes >= end {
            return Ok(());
        }
        let step = self.room_bytes.clamp(ROOM_BYTES_FIRST, ROOM_BYTES_MAX);
        self.room_bytes = end.max(self.room_bytes + step);
        match self.file.take_room(self.room_bytes) {
            // The remaining room on the disk may just be enough.
            Err(error) if is_lack_of_room(&error) => {
                self.room_bytes = end;
                self.file.take_room(end)
            }
            other => other,
        }
    }
}

fn is_lack_of_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// A file that is read from beginning to end. The page cache stays filled for a second reading.
#[derive(Debug)]
pub(crate) struct Input {
    file: File,
    place: u64,
    /// End of the range that the kernel was asked to read.
    asked: u64,
}

impl Input {
    /// Reads the next bytes, and returns their number; less than `into.len()` at the end of the
    /// file.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.asked < self.place + AHEAD_BYTES / 2 {
            let end = self.place + AHEAD_BYTES;
            self.file.read_ahead(self.asked, end - self.asked);
            self.asked = end;
        }
        let bytes = self.file.read_at(self.place, into)?;
        self.place += bytes as u64;
        Ok(bytes)
    }
}
