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
use std::time::{Duration, Instant};

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
    /// Nobody reads any more: what comes is dropped.
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

/// Lines at once.
const BURST: u32 = 8;
/// Between two lines from then on.
const EVERY: Duration = Duration::from_secs(1);

/// How many lines about a rank may be printed now.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    left: u32,
    /// When `left` grew last.
    since: Instant,
    /// Lines that were left out since the last printed one.
    unsaid: u64,
}

impl RateLimit {
    /// No line was printed yet.
    pub fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
            unsaid: 0,
        }
    }

    /// The line to print now, with the count of those left out before it; `None`: it is
    /// left out.
    pub fn pass(&mut self, line: String, now: Instant) -> Option<String> {
        while self.left < BURST && now.saturating_duration_since(self.since) >= EVERY {
            self.left += 1;
            self.since += EVERY;
        }
        if self.left == BURST {
            self.since = now;
        }
        if self.left == 0 {
            self.unsaid += 1;
            return None;
        }
        self.left -= 1;
        Some(match std::mem::take(&mut self.unsaid) {
            0 => line,
            unsaid => format!("{line} ({unsaid} earlier lines about this rank were omitted)"),
        })
    }

    /// How many lines were left out since the last printed one.
    pub fn take_unsaid(&mut self) -> u64 {
        std::mem::take(&mut self.unsaid)
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

#[cfg(test)]
mod hush_tests {
    use super::*;

    #[test]
    fn lines_that_repeat_are_counted() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut hush = RateLimit::new(begin);
        let mut said = Vec::new();
        for milliseconds in (0..3000).step_by(10) {
            said.extend(hush.pass("x".into(), at(milliseconds)));
        }
        assert_eq!(said.len(), 8 + 2, "{said:?}");
        assert!(said[..8].iter().all(|line| line == "x"));
        assert_eq!(said[8], "x (92 earlier lines about this rank were omitted)");
        assert_eq!(said[9], "x (99 earlier lines about this rank were omitted)");
        assert_eq!(hush.take_unsaid(), 99);
        let line = hush.pass("y".into(), at(60_000));
        assert_eq!(line.as_deref(), Some("y"));
    }
}
