//! The launcher's own stdout and stderr, written without blocking: a reader that does not read
//! must not stop the launcher from serving ranks or handling signals.
//!
//! The descriptors are shared with other processes (of a terminal, a shell's pipe), so they stay
//! in blocking mode; no more is written than poll(2) guarantees to be accepted at once.

use crate::polling;
use rustix::event::PollFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;

/// A pipe that polls as writable accepts this many bytes (PIPE_BUF, see pipe(7)).
const WRITE_BYTES: usize = 4096;
/// With more bytes than this waiting, no more output is read from ranks.
const FULL_BYTES: usize = 256 << 10;

/// One of the launcher's two output streams.
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
    /// The stream.
    pub stream: Stream,
    /// The error of the last write.
    pub error: Errno,
}

/// Output that waits to be written to one stream.
#[derive(Debug)]
pub struct Sink {
    stream: Stream,
    bytes: Vec<u8>,
    written: usize,
    /// The reader is gone: output is dropped.
    closed: bool,
}

impl Sink {
    /// A sink without output.
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
            written: 0,
            closed: false,
        }
    }

    /// The buffer to which output is appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.written);
        self.written = 0;
        if self.closed {
            self.bytes.clear();
        }
        &mut self.bytes
    }

    /// All output is written, or the reader is gone.
    pub fn is_empty(&self) -> bool {
        self.closed || self.written == self.bytes.len()
    }

    /// All output is written. With a reader that is gone it never is. JOB-5
    pub fn is_written(&self) -> bool {
        !self.closed && self.written == self.bytes.len()
    }

    /// The buffer is full: ranks have to wait.
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

    /// Writes as much as is accepted now.
    ///
    /// # Errors
    /// The stream cannot be written any more; reported once.
    pub fn flush(&mut self) -> Result<(), LostStream> {
        // Errors of the descriptor are returned by the write.
        while !self.is_empty() && polling::is_ready(&self.descriptor(), PollFlags::OUT) {
            let piece = whole_lines(&self.bytes[self.written..]);
            match rustix::io::write(self.descriptor(), piece) {
                Ok(bytes) => self.written += bytes,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // EPIPE, or the terminal is gone, or the disk is full.
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

/// The whole lines of the first [`WRITE_BYTES`], which are written at once: lines of standard output
/// and error do not mix where both go to one place.
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

    // JOB-5
    #[test]
    fn output_that_is_dropped_is_not_written() {
        let mut sink = Sink::new(Stream::Out);
        assert!(sink.is_written());
        sink.buffer().extend(b"a\n");
        sink.closed = true;
        assert!(sink.is_empty() && !sink.is_written());
        assert!(sink.buffer().is_empty() && !sink.is_written());
    }

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
