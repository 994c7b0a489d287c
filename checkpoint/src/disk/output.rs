//! A real file that is written.

use super::Output;
use super::engine::Engine;
use crate::buffer::Strip;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// Room that is taken in advance: at first, and at most at a time.
const ROOM_BYTES_FIRST: u64 = 16 << 20;
const ROOM_BYTES_MAX: u64 = 1 << 30;

/// The file.
pub(super) struct FileOutput {
    file: File,
    engine: Box<dyn Engine>,
    /// Bytes that the file has room for; `None`: it takes room as it grows.
    room_bytes: Option<u64>,
}

impl FileOutput {
    /// A file that is empty. With `takes_room`, room is taken before it is
    /// written: a full disk shows early, and writes do not wait for each other.
    pub fn new(file: File, engine: Box<dyn Engine>, takes_room: bool) -> Self {
        Self {
            file,
            engine,
            room_bytes: takes_room.then_some(0),
        }
    }

    fn make_room(&mut self, end: u64) -> io::Result<()> {
        let Some(room) = self.room_bytes.filter(|room| *room < end) else {
            return Ok(());
        };
        let step = room.clamp(ROOM_BYTES_FIRST, ROOM_BYTES_MAX);
        match take_room(&self.file, room, step) {
            // The last room on the disk may just be enough.
            Err(Errno::NOSPC | Errno::DQUOT) => take_room(&self.file, room, end - room)?,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.room_bytes = None;
                return Ok(());
            }
            other => other?,
        }
        self.room_bytes = Some(std::fs::File::metadata(&self.file)?.len());
        Ok(())
    }
}

fn take_room(file: &File, from: u64, bytes: u64) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, bytes))
}

impl Output for FileOutput {
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()> {
        self.make_room(place + bytes as u64)?;
        self.engine.exchange(place, strip, bytes)
    }

    fn finish(&mut self, bytes: u64) -> io::Result<()> {
        self.engine.wait_for_all()?;
        self.file.set_len(bytes)?;
        self.file.sync_all()
    }
}
