//! The launcher's own stdout and stderr, written without blocking: a reader that does not
//! read must not keep the launcher from serving ranks or obeying a signal.
//!
//! The descriptors are shared with others (a terminal, a shell's pipe), so they stay in
//! blocking mode; only as much is written as poll(2) promises to be taken at once.

use crate::polling;
use rustix::event::PollFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;

/// A pipe that polls as writable takes this much (PIPE_BUF, see pipe(7)).
const WRITE_BYTES: usize = 4096;
/// With more than this waiting, no more output is taken from ranks.
const FULL_BYTES: usize = 256 << 10;

/// Which of the launcher's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A stream that cannot be written any more.
#[derive(Clone, Copy, Debug)]
pub struct LostStream {
    /// Which.
    pub stream: Stream,
    /// Why not.
    pub error: Errno,
}

/// What waits to be written to one stream.
#[derive(Debug)]
pub struct Sink {
    stream: Stream,
    bytes: Vec<u8>,
    written: usize,
    /// The reader is gone: output is dropped.
    closed: bool,
}

impl Sink {
    /// Nothing waits.
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
            written: 0,
            closed: false,
        }
    }

    /// Where to append what is to be written.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.written);
        self.written = 0;
        if self.closed {
            self.bytes.clear();
        }
        &mut self.bytes
    }

    /// All is written, or the reader is gone.
    pub fn is_empty(&self) -> bool {
        self.closed || self.written == self.bytes.len()
    }

    /// Ranks have to wait.
    pub fn is_full(&self) -> bool {
        !self.closed && self.bytes.len() - self.written > FULL_BYTES
    }

    /// The descriptor, to poll for writability.
    pub fn descriptor(&self) -> BorrowedFd<'static> {
        match self.stream {
            Stream::Out => rustix::stdio::stdout(),
            Stream::Err => rustix::stdio::stderr(),
        }
    }

    /// Writes what is taken now.
    ///
    /// # Errors
    /// The stream is lost; reported once.
    pub fn flush(&mut self) -> Result<(), LostStream> {
        // Errors of the descriptor are found by the write.
        while !self.is_empty() && polling::is_ready(&self.descriptor(), PollFlags::OUT) {
            let piece = whole_lines(&self.bytes[self.written..]);
            match rustix::io::write(self.descriptor(), piece) {
                Ok(bytes) => self.written += bytes,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // EPIPE; or a terminal is gone, or a disk is full.
                Err(error) => {
                    self.closed = true;
                    let stream = self.stream;
                    return Err(LostStream { stream, error });
                }
            }
        }
        Ok(())
    }
}

/// As many whole lines as may be written at once, so that lines of standard
/// output and error that go to the same place do not cut each other.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let piece = &bytes[..bytes.len().min(WRITE_BYTES)];
    match piece.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => &piece[..=end],
        None => piece,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_whole_when_they_fit() {
        assert_eq!(whole_lines(b"a\nbc\nd"), b"a\nbc\n");
        assert_eq!(whole_lines(b"abc"), b"abc");
        let mut long = vec![b'x'; WRITE_BYTES + 1];
        assert_eq!(whole_lines(&long).len(), WRITE_BYTES);
        long[10] = b'\n';
        assert_eq!(whole_lines(&long).len(), 11);
    }
}
