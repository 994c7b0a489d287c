//! Loads the log of a checkpoint into the engine of a later life.

use super::log_part::{LogPartError, LogReader, Transfer, saved_until};
use refrain_ring::{Frontier, Rank, RecordHeader, Ssn};
use refrain_transport::engine::{Engine, EngineError};
use refrain_transport::protocol::Protocol;
use std::io::Read;
use thiserror::Error;

/// Most records that one step puts into the log.
const RECORDS_MAX: usize = 64;

/// A log cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The part is not a log, or is damaged.
    #[error(transparent)]
    Part(#[from] LogPartError),
    /// The part is the log of other ranks or another state.
    #[error(
        "the checkpoint's log is from rank {found_source} to rank {found_destination} until message {found_until}, not what its engine part says"
    )]
    Another {
        /// The source of the log.
        found_source: Rank,
        /// The destination of the log.
        found_destination: Rank,
        /// The SSN of the program's stream at which the log ends.
        found_until: Ssn,
    },
    /// The engine has no memory for the log.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The log to one rank while it is loaded from a checkpoint.
#[derive(Debug)]
pub struct LogLoading {
    reader: LogReader,
    /// A record that did not fit into the log yet.
    waiting: Option<(RecordHeader, Vec<u8>)>,
    is_done: bool,
}

impl LogLoading {
    /// Begins to load the log of `source` to `destination`. `until`: of each stream, the SSN of the
    /// next message to `destination` in this checkpoint.
    ///
    /// # Errors
    /// When the part is another log, or none.
    pub fn begin(
        from: &mut dyn Read,
        (source, destination): (Rank, Rank),
        until: &Frontier,
    ) -> Result<Self, LoadError> {
        let reader = LogReader::begin(from)?;
        let found = (reader.source(), reader.destination(), reader.until());
        let until = saved_until((source, destination), until);
        if found != (source, destination, &until) {
            return Err(LoadError::Another {
                found_source: found.0,
                found_destination: found.1,
                found_until: found.2.program,
            });
        }
        Ok(Self {
            reader,
            waiting: None,
            is_done: false,
        })
    }

    /// Puts the next records into the log of an engine that began with the same checkpoint.
    ///
    /// # Errors
    /// When the checkpoint is damaged or cannot be read, or there is no memory.
    pub fn step(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        from: &mut dyn Read,
    ) -> Result<Transfer, LoadError> {
        let to = self.reader.destination();
        if let Some((header, payload)) = &self.waiting {
            if !engine.log_again(to, header, payload)? {
                return Ok(Transfer::Waiting);
            }
            self.waiting = None;
        }
        for _ in 0..RECORDS_MAX {
            if self.is_done {
                return Ok(Transfer::Done);
            }
            match self.reader.next(from)? {
                None => self.is_done = true,
                Some((header, payload)) => {
                    if !engine.log_again(to, &header, payload)? {
                        self.waiting = Some((header, payload.to_vec()));
                        return Ok(Transfer::Waiting);
                    }
                }
            }
        }
        Ok(Transfer::More)
    }
}
