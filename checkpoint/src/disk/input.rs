//! A real file that is read.

use super::Input;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;

/// How far ahead the system is asked to read.
const AHEAD_BYTES: u64 = 16 << 20;

/// The file; the page cache stays filled for the second reading.
#[derive(Debug)]
pub(super) struct FileInput {
    file: File,
    place: u64,
    /// Up to where the system was asked to read.
    asked: u64,
}

impl FileInput {
    /// From its beginning.
    pub fn new(file: File) -> Self {
        Self {
            file,
            place: 0,
            asked: 0,
        }
    }

    fn ask_ahead(&mut self) {
        if self.asked >= self.place + AHEAD_BYTES / 2 {
            return;
        }
        let end = self.place + AHEAD_BYTES;
        let bytes = NonZero::new(end - self.asked);
        // Only advice: without it, it is slower.
        let _ = fadvise(&self.file, self.asked, bytes, Advice::WillNeed);
        self.asked = end;
    }
}

impl Input for FileInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.ask_ahead();
        let mut done = 0;
        while done < into.len() {
            match self.file.read(&mut into[done..]) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.place += done as u64;
        Ok(done)
    }
}
