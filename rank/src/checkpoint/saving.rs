//! Writes the log to one rank that is not freed into a checkpoint, while the rank continues.

use super::log_part::{LogWriter, Transfer, saved_until};
use refrain_ring::{Frontier, Position, Rank, RecordHeader, RecordKind};
use refrain_transport::engine::{Beginning, Engine, Progress, ReadBack, ReadBackError};
use refrain_transport::protocol::Protocol;
use std::io::{self, Write};
use thiserror::Error;

/// A log cannot be saved; the checkpoint is given up.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadBackError),
    /// The checkpoint cannot be written.
    #[error("the log of a checkpoint cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// The log to one rank while it is written into a checkpoint. Messages that are sent after the
/// checkpoint's state was taken are not included.
#[derive(Debug)]
pub struct LogSaving {
    reader: ReadBack,
    writer: Option<LogWriter>,
    position: Written,
    until: Frontier,
    /// Where the log ended at the checkpoint.
    end: Position,
}

/// The messages that are written.
#[derive(Debug)]
struct Written {
    /// All messages below are written, or free.
    next: Frontier,
    /// All messages below are free.
    kept_from: Frontier,
    /// Bytes of the present message that are not yet written.
    left_bytes: u64,
}

impl LogSaving {
    /// Begins to save the log of `source` to `destination`. The log belongs to the state
    /// `beginning` of `engine`.
    ///
    /// # Errors
    /// When the checkpoint cannot be written.
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn begin(
        engine: &Engine<impl Protocol>,
        (source, destination): (Rank, Rank),
        beginning: &Beginning,
        out: &mut dyn Write,
    ) -> Result<Self, SaveError> {
        let until = saved_until((source, destination), &beginning.next[destination.index()]);
        let kept_from = engine.log_kept_from(destination);
        Ok(Self {
            reader: engine.read_back(destination, &kept_from),
            writer: Some(LogWriter::begin(out, source, destination, &until)?),
            position: Written {
                next: kept_from.clone(),
                kept_from,
                left_bytes: 0,
            },
            until,
            end: engine.log_end(destination),
        })
    }

    /// Writes the next records, a few hundred KiB at most.
    ///
    /// # Errors
    /// When the log cannot be read or the checkpoint not be written.
    pub fn step(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        out: &mut dyn Write,
    ) -> Result<Transfer, SaveError> {
        if self.end_if_done(out)? {
            return Ok(Transfer::Done);
        }
        let Some(writer) = &mut self.writer else {
            return Ok(Transfer::Done);
        };
        let to = self.reader.destination();
        let (until, position) = (&self.until, &mut self.position);
        let mut written = Ok(());
        let progress = engine.read_on(&mut self.reader, &mut |header, payload| {
            if until.is_beyond(header.ssn) && written.is_ok() {
                written = writer.record(out, header, payload);
                position.pass(header);
            }
        })?;
        written?;
        Ok(match progress {
            Progress::Passed(_) => {
                position.kept_from = self.reader.from().clone();
                position.next.raise(&position.kept_from);
                Transfer::More
            }
            Progress::Records(_) => Transfer::More,
            Progress::End if engine.keeps_results() && engine.is_posted(to, self.end) => {
                self.pass_left_out();
                self.end_if_done(out)?;
                Transfer::Done
            }
            Progress::End | Progress::Waiting if self.end_if_done(out)? => Transfer::Done,
            Progress::End | Progress::Waiting => Transfer::Waiting,
        })
    }

    /// The last messages of a stream may have been left out: they are as good as freed. WHOLE-5
    fn pass_left_out(&mut self) {
        let Written {
            next, kept_from, ..
        } = &mut self.position;
        for until in self.until.all() {
            if next.of(until.stream()) < until && !until.is_program() {
                kept_from.raise_to(until);
                next.raise_to(until);
            }
        }
    }

    /// Ends the part if all records are written; returns whether they are.
    fn end_if_done(&mut self, out: &mut dyn Write) -> Result<bool, SaveError> {
        let is_done = self.until.is_within(&self.position.next);
        if let Some(writer) = self.writer.take_if(|_| is_done) {
            writer.end(out, &self.position.kept_from)?;
        }
        Ok(is_done)
    }
}

impl Written {
    fn pass(&mut self, header: &RecordHeader) {
        if header.kind != RecordKind::Fragment {
            self.left_bytes = header.extent;
        }
        self.left_bytes -= u64::from(header.payload_bytes).min(self.left_bytes);
        if self.left_bytes == 0 {
            self.next.raise_to(header.ssn.next());
        }
    }
}
