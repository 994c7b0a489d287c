//! Writing the un-freed log to one rank into a checkpoint, while the rank goes on.

use super::log_part::LogWriter;
use core::ops::ControlFlow;
use refrain_ring::{Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::engine::{Beginning, Engine, Progress, ReadBack, ReadBackError};
use refrain_transport::protocol::Protocol;
use std::io::{self, Write};
use thiserror::Error;

/// How far a step came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// A part was written; there is more.
    Some,
    /// The next part comes from disk, or waits until events are stable: make
    /// progress, and go on.
    Waiting,
    /// All of it is written.
    Done,
}

/// Why a log cannot be saved. The checkpoint has to be given up.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] ReadBackError),
    /// The checkpoint cannot be written.
    #[error("the log of a checkpoint cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// The log to one rank, on its way into a checkpoint. Nothing that is sent after
/// the checkpoint's state was taken comes with it.
#[derive(Debug)]
pub struct LogSaving {
    reader: ReadBack,
    writer: Option<LogWriter>,
    position: Written,
    until: Ssn,
}

/// How far the messages are written.
#[derive(Debug)]
struct Written {
    /// All messages before are written, or free.
    next: Ssn,
    /// All before are free.
    kept_from: Ssn,
    /// Bytes of the present message that are still to come.
    left_bytes: u64,
}

impl LogSaving {
    /// Begins to save the log of `source` to `destination` as it belongs to the
    /// state `beginning` of `engine`.
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
        let until = beginning.next_ssns[destination.index()];
        let kept_from = engine.log_kept_from(destination);
        Ok(Self {
            reader: engine.read_back(destination, kept_from),
            writer: Some(LogWriter::begin(out, source, destination, until)?),
            position: Written {
                next: kept_from,
                kept_from,
                left_bytes: 0,
            },
            until,
        })
    }

    /// Writes the next part of it, a few hundred KiB at most.
    ///
    /// # Errors
    /// When the log cannot be read or the checkpoint not be written.
    pub fn step(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        out: &mut dyn Write,
    ) -> Result<Saved, SaveError> {
        if let ControlFlow::Break(saved) = self.end_if_done(out)? {
            return Ok(saved);
        }
        let Some(writer) = &mut self.writer else {
            return Ok(Saved::Done);
        };
        let (until, position) = (self.until, &mut self.position);
        let mut written = Ok(());
        let progress = engine.read_on(&mut self.reader, &mut |header, payload| {
            if header.ssn < until && written.is_ok() {
                written = writer.record(out, header, payload);
                position.pass(header);
            }
        })?;
        written?;
        Ok(match progress {
            Progress::Passed(kept_from) => {
                position.kept_from = kept_from;
                position.next = position.next.max(kept_from);
                Saved::Some
            }
            Progress::Records(_) => Saved::Some,
            Progress::End | Progress::Waiting => match self.end_if_done(out)? {
                ControlFlow::Break(saved) => saved,
                ControlFlow::Continue(()) => Saved::Waiting,
            },
        })
    }

    fn end_if_done(&mut self, out: &mut dyn Write) -> Result<ControlFlow<Saved>, SaveError> {
        if self.position.next < self.until {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(writer) = self.writer.take() {
            writer.end(out, self.position.kept_from)?;
        }
        Ok(ControlFlow::Break(Saved::Done))
    }
}

impl Written {
    fn pass(&mut self, header: &RecordHeader) {
        if header.kind != RecordKind::Fragment {
            self.left_bytes = header.extent;
        }
        self.left_bytes -= u64::from(header.payload_bytes).min(self.left_bytes);
        if self.left_bytes == 0 {
            self.next = self.next.max(header.ssn.next());
        }
    }
}
