//! The standard input of rank 0: the launcher's. If ranks may be restarted, each life reads it from
//! the position at which the job began. What rank 0 does not read stays in the launcher's standard
//! input, for the next program that reads it: a shell may have a loop over its lines.
//!
//! A file is set back. A pipe or socket is copied for each life; the launcher takes out of it only
//! what the rank has read, and keeps that in memory.

use super::hosts::far::AgentHandle;
use super::hosts::message::{Life, ToAgent};
use super::loggers::Reach;
use super::polling::is_ready;
use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags, SeekFrom, fcntl_setfl, fstat, seek, tell};
use rustix::io::{Errno, ioctl_fionread, pread, read, write};
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, tee};
use rustix::stdio::stdin;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of bytes of a pipe or socket that are kept for later lives.
const KEPT_BYTES_MAX: usize = 1 << 30;
/// Maximum number of bytes that a life gets at once.
const PART_BYTES: usize = 4096;

/// What rank 0 reads.
#[derive(Debug)]
pub enum StandardInput {
    /// Nothing.
    Empty,
    /// The launcher's own: ranks are not restarted, or it is a device.
    Inherited,
    /// The launcher's own, a file that is set back to this position.
    File(u64),
    /// Copies of the launcher's own: a pipe, a socket, or for a rank on another host.
    Copied(Copies<BorrowedFd<'static>>),
}

impl StandardInput {
    /// The launcher's standard input, unless that is a terminal: a rank is no foreground process,
    /// and would be stopped when it reads.
    pub fn of_launcher(has_later_lives: bool, reach: Reach) -> Self {
        let (own, is_far) = (stdin(), reach == Reach::OtherHosts);
        if own.is_terminal() {
            return Self::Empty;
        }
        if !has_later_lives && !is_far {
            return Self::Inherited;
        }
        let file_type = fstat(own).map(|status| FileType::from_raw_mode(status.st_mode));
        let kind = match (tell(own), file_type) {
            (Ok(position), _) if !is_far => return Self::File(position),
            (Ok(position), _) => Kind::File(position),
            (_, Ok(FileType::Fifo)) => Kind::Pipe,
            (_, Ok(FileType::Socket)) => Kind::Socket,
            _ if is_far => return Self::Empty,
            _ => return Self::Inherited,
        };
        let kept_bytes_max = has_later_lives.then_some(KEPT_BYTES_MAX);
        Self::Copied(Copies::of(own, kind, kept_bytes_max))
    }

    /// What the next life reads; `None`: nothing. The processes of earlier lives have ended.
    ///
    /// # Errors
    /// Of the system, or the input is too long to be kept.
    pub fn of_next_life(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
        match self {
            Self::Empty => Ok(None),
            Self::Inherited => Ok(Some(stdin())),
            Self::File(position) => {
                seek(stdin(), SeekFrom::Start(*position))?;
                Ok(Some(stdin()))
            }
            Self::Copied(copies) => {
                copies.next_life(None)?;
                Ok(copies.reader.as_ref().map(AsFd::as_fd))
            }
        }
    }

    /// As [`of_next_life`](Self::of_next_life), on another host, where the life is being started.
    ///
    /// # Errors
    /// As there.
    pub fn begin_far_life(&mut self, agent: AgentHandle, life: Life) -> io::Result<()> {
        let far = Far {
            agent,
            life,
            unread: 0,
        };
        match self {
            Self::Copied(copies) => copies.next_life(Some(far)),
            _ => {
                far.give(Vec::new());
                Ok(())
            }
        }
    }

    /// The life on another host has `left` bytes to read, of those that it was given. Returns a
    /// line to report.
    pub fn was_read_far(&mut self, left: usize) -> Option<String> {
        if let Self::Copied(copies) = self
            && let Some(far) = &mut copies.far
        {
            far.unread = left;
        }
        self.advance()
    }

    /// What to wait for before [`advance`](Self::advance).
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match self {
            Self::Copied(copies) => copies.interest(),
            _ => None,
        }
    }

    /// Gives this life what it can take now. Returns a line to report.
    pub fn advance(&mut self) -> Option<String> {
        let Self::Copied(copies) = self else {
            return None;
        };
        let was_kept = copies.kept.is_some();
        if let Err(error) = copies.advance() {
            return Some(format!(
                "the standard input cannot be read any more: {error}; rank 0 finds its end"
            ));
        }
        (was_kept && copies.kept.is_none())
            .then(|| format!("{}; the death of rank 0 ends the job", copies.too_long()))
    }
}

/// A pipe that is ready for a page when it is empty: reader and writer.
pub fn pipe_of_one_page() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setpipe_size(&writer, 1)?;
    fcntl_setfl(&writer, OFlags::WRONLY | OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

/// Number of bytes in a pipe.
pub fn left_in(pipe: &OwnedFd) -> usize {
    ioctl_fionread(pipe).map_or(0, |left| left as usize)
}

/// What is copied.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Pipe,
    Socket,
    /// From this position on.
    File(u64),
}

/// A life on another host.
#[derive(Debug)]
struct Far {
    agent: AgentHandle,
    life: Life,
    /// Number of bytes that it was given and has not read, as far as is known.
    unread: usize,
}

impl Far {
    fn give(&self, bytes: Vec<u8>) {
        let life = self.life;
        self.agent.push(ToAgent::Input { life, bytes });
    }
}

/// Copies a pipe, socket or file for each life.
#[derive(Debug)]
pub struct Copies<F: AsFd> {
    source: F,
    kind: Kind,
    kept_bytes_max: usize,
    /// All that was taken out of a pipe or socket; `None`: there are no later lives, or it was too
    /// long.
    kept: Option<Vec<u8>>,
    /// The pipe of this life; its reader is open here as well, since the kernel reports a pipe
    /// without readers again and again.
    reader: Option<OwnedFd>,
    /// `None` at the end of the source.
    writer: Option<OwnedFd>,
    /// Where the bytes of the pipe go to, if the life is on another host.
    far: Option<Far>,
    /// Number of bytes that this life was given and that are not in the source any more.
    given: usize,
    /// Number of bytes at the head of the source that were also written to the pipe, last.
    lent: usize,
    /// Something was written to the pipe. It has room for one page, so it is ready for more when
    /// all was read.
    is_filled: bool,
}

impl<F: AsFd> Copies<F> {
    fn of(source: F, kind: Kind, kept_bytes_max: Option<usize>) -> Self {
        Self {
            source,
            kind,
            kept_bytes_max: kept_bytes_max.unwrap_or(0),
            kept: kept_bytes_max.map(|_| Vec::new()),
            reader: None,
            writer: None,
            far: None,
            given: 0,
            lent: 0,
            is_filled: false,
        }
    }

    fn next_life(&mut self, far: Option<Far>) -> io::Result<()> {
        self.take_what_was_read();
        if self.kept.is_none() && self.given > 0 {
            return Err(io::Error::other(self.too_long()));
        }
        if let Kind::File(begin) = self.kind {
            seek(&self.source, SeekFrom::Start(begin))?;
        }
        let (reader, writer) = pipe_of_one_page()?;
        (self.reader, self.writer, self.far) = (Some(reader), Some(writer), far);
        (self.given, self.lent, self.is_filled) = (0, 0, false);
        // A standard input that cannot be read at all is empty: not every job reads it.
        let _ = self.advance();
        Ok(())
    }

    fn too_long(&self) -> String {
        format!(
            "rank 0 has read more than {} bytes of standard input from a pipe, which are not kept: give them as a file (< file)",
            self.kept_bytes_max
        )
    }

    fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let writer = self.writer.as_ref()?;
        match self.is_filled {
            true if self.far.is_some() => None,
            true => Some((writer.as_fd(), PollFlags::OUT)),
            false => Some((self.source.as_fd(), PollFlags::IN)),
        }
    }

    fn advance(&mut self) -> rustix::io::Result<()> {
        let left = self.take_what_was_read();
        let Some(writer) = self.writer.as_ref().filter(|_| left == 0) else {
            return Ok(());
        };
        // Another process may have taken some of it.
        self.lent = 0;
        let kept = self.kept.as_deref().unwrap_or_default();
        let again = kept.get(self.given..).unwrap_or_default();
        let written = match again.is_empty() {
            true => self.lend(writer).inspect(|lent| self.lent = *lent),
            false => {
                let part = &again[..again.len().min(PART_BYTES)];
                write(writer, part).inspect(|written| self.given += written)
            }
        };
        self.is_filled = matches!(written, Ok(1..));
        if !self.is_filled && !matches!(written, Err(Errno::AGAIN | Errno::INTR)) {
            self.writer = None;
        }
        if let (Some(far), Some(reader)) = (&mut self.far, &self.reader)
            && (self.is_filled || self.writer.is_none())
        {
            let mut part = vec![0; PART_BYTES];
            far.unread = written.map_or(0, |_| read(reader, &mut part[..]).unwrap_or(0));
            part.truncate(far.unread);
            far.give(part);
        }
        match written {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes the head of the source to the pipe, and leaves it in the source.
    fn lend(&self, writer: &OwnedFd) -> rustix::io::Result<usize> {
        let mut part = [0; PART_BYTES];
        let count = match self.kind {
            Kind::Pipe => return tee(&self.source, writer, PART_BYTES, SpliceFlags::NONBLOCK),
            Kind::Socket => {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                recv(&self.source, &mut part, flags)?.1
            }
            Kind::File(begin) => pread(&self.source, &mut part, begin + self.given as u64)?,
        };
        write(writer, &part[..count])
    }

    /// Takes what the rank has read out of the source. Returns the number of bytes that are left
    /// in the pipe.
    fn take_what_was_read(&mut self) -> usize {
        let left = match &self.far {
            Some(far) => far.unread,
            None => self.writer.as_ref().map_or(0, left_in),
        };
        if let Kind::File(begin) = self.kind {
            self.given += self.lent.saturating_sub(left);
            self.lent = self.lent.min(left);
            let _ = seek(&self.source, SeekFrom::Start(begin + self.given as u64));
            return left;
        }
        let mut part = [0; PART_BYTES];
        // Another process may read the source, too: this one must not wait for what is gone.
        while self.lent > left && is_ready(&self.source, PollFlags::IN) {
            let wanted = (self.lent - left).min(PART_BYTES);
            let Ok(taken @ 1..) = read(&self.source, &mut part[..wanted]) else {
                break;
            };
            self.lent -= taken;
            self.given += taken;
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(&part[..taken]);
            }
        }
        let kept = self.kept.as_ref();
        if kept.is_some_and(|kept| kept.len() > self.kept_bytes_max) {
            self.kept = None;
        }
        left
    }
}

impl<F: AsFd> Drop for Copies<F> {
    fn drop(&mut self) {
        self.take_what_was_read();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};

    /// Copies of a pipe, and its other end.
    fn copied(kept_bytes_max: usize) -> (Copies<PipeReader>, PipeWriter) {
        let (source, to) = pipe().unwrap();
        (Copies::of(source, Kind::Pipe, Some(kept_bytes_max)), to)
    }

    fn life(copies: &mut Copies<PipeReader>) -> File {
        copies.next_life(None).unwrap();
        copies.reader.as_ref().unwrap().try_clone().unwrap().into()
    }

    /// What a life reads now, in one piece.
    fn piece(life: &mut File, bytes: usize) -> String {
        let mut piece = vec![0; bytes];
        let count = life.read(&mut piece).unwrap();
        String::from_utf8(piece[..count].to_vec()).unwrap()
    }

    fn left(copies: &Copies<PipeReader>) -> u64 {
        ioctl_fionread(&copies.source).unwrap()
    }

    #[test]
    fn what_is_lent_leaves_the_source_when_it_was_read() {
        let (mut copies, mut to) = copied(100);
        to.write_all(b"abc").unwrap();
        let mut first = life(&mut copies);
        to.write_all(b"de").unwrap();
        copies.advance().unwrap();
        assert_eq!((left(&copies), piece(&mut first, 2)), (5, "ab".into()));
        let mut second = life(&mut copies);
        assert_eq!((left(&copies), piece(&mut second, 9)), (3, "ab".into()));
        copies.advance().unwrap();
        assert_eq!(piece(&mut second, 9), "cde");
        copies.advance().unwrap();
        assert_eq!(left(&copies), 0);
        drop(to);
        copies.advance().unwrap();
        assert_eq!(piece(&mut second, 9), "");
        assert!(copies.interest().is_none());
        let mut third = life(&mut copies);
        assert_eq!(piece(&mut third, 9), "abcde");
        copies.advance().unwrap();
        assert_eq!(piece(&mut third, 9), "");
    }

    #[test]
    fn a_full_pipe_waits_for_its_reader_and_an_empty_one_for_the_source() {
        let (mut copies, mut to) = copied(100);
        let mut life = life(&mut copies);
        let events = |copies: &Copies<PipeReader>| copies.interest().unwrap().1;
        assert_eq!(events(&copies), PollFlags::IN);
        to.write_all(b"ab").unwrap();
        copies.advance().unwrap();
        let is_ready = |copies: &Copies<PipeReader>| {
            let (descriptor, events) = copies.interest().unwrap();
            is_ready(&descriptor, events)
        };
        assert_eq!(
            (events(&copies), is_ready(&copies)),
            (PollFlags::OUT, false)
        );
        assert_eq!(piece(&mut life, 1), "a");
        assert!(!is_ready(&copies), "a part was not read");
        assert_eq!(piece(&mut life, 1), "b");
        assert!(is_ready(&copies));
        copies.advance().unwrap();
        assert_eq!(events(&copies), PollFlags::IN);
    }

    #[test]
    fn another_reader_of_the_source_does_not_stop_the_launcher() {
        let (mut copies, mut to) = copied(100);
        to.write_all(b"abc").unwrap();
        let mut life = life(&mut copies);
        let mut other = copies.source.try_clone().unwrap();
        other.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(piece(&mut life, 9), "abc");
        copies.advance().unwrap();
        assert_eq!(left(&copies), 0);
        to.write_all(b"de").unwrap();
        copies.advance().unwrap();
        assert_eq!((left(&copies), piece(&mut life, 1)), (2, "d".into()));
        drop(copies);
        assert_eq!(ioctl_fionread(&other), Ok(1));
    }

    #[test]
    fn more_than_is_kept_is_passed_on_and_no_later_life_reads_it() {
        let (mut copies, mut to) = copied(3);
        to.write_all(b"abc").unwrap();
        assert_eq!(piece(&mut life(&mut copies), 9), "abc");
        let mut second = life(&mut copies);
        assert_eq!(piece(&mut second, 9), "abc");
        for part in ["de", "f"] {
            to.write_all(part.as_bytes()).unwrap();
            copies.advance().unwrap();
            assert_eq!(piece(&mut second, 9), part);
        }
        let refusal = copies.next_life(None).unwrap_err().to_string();
        assert!(refusal.contains("more than 3 bytes"), "{refusal}");
    }
}
