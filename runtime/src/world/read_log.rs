//! Reads this rank's payload log back: the messages that it sent to a rank, in order. LOG-2

use super::World;
use crate::Error;
use refrain_logging::assembly::{Added, Assembly};
use refrain_ring::read_back::Progress;
use refrain_ring::{Position, Rank, RecordHeader, Ssn};

/// A message of the log.
#[derive(Clone, Copy, Debug)]
pub struct Logged<'a> {
    /// The SSN of the message. SSNs count all messages of the pair of ranks in the stream of the
    /// program, also those of the library (barriers).
    pub ssn: Ssn,
    /// The context in which it was sent.
    pub context: u32,
    /// The tag of the message.
    pub tag: i32,
    /// The payload, packed.
    pub payload: &'a [u8],
}

impl World {
    /// Reads the messages to `destination` that the log still holds, from message `from` on, in
    /// order, and calls `each` for each message. Returns the number of messages. They are read from
    /// memory or disk; meanwhile the rank makes progress as in any blocking call. Each message is
    /// assembled in memory. Messages of a rank to itself are not logged.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Argument`] when a horizon has passed `from`;
    /// [`Error::Config`] when messages are missing for another reason: the disk fails, or the
    /// protocol keeps no payload.
    pub fn read_log(
        &mut self,
        destination: u32,
        from: Ssn,
        mut each: impl FnMut(Logged<'_>),
    ) -> Result<u64, Error> {
        let destination = Rank(destination);
        if destination.0 >= self.size {
            return Err(Error::NoSuchRank {
                rank: destination,
                last: self.size - 1,
            });
        }
        let mut reader = self.engine.read_back(destination, from);
        let mut reading = Reading {
            assembly: Assembly::default(),
            destination,
            next: from,
            broken: None,
        };
        self.block_until(|world| {
            let mut give = |header: &RecordHeader, payload: &[u8]| {
                reading.take(header, payload, &mut each);
            };
            let progress = world.engine.read_on(&mut reader, &mut give);
            if let Some(error) = reading.broken.take() {
                return Some(Err(error));
            }
            match progress {
                Ok(Progress::Records(_) | Progress::Waiting) => None,
                Ok(Progress::End) => Some(Ok(())),
                Ok(Progress::Passed(horizon)) => Some(Err(Error::Argument(format!(
                    "messages {from} to {horizon} of the log to rank {destination} are gone: a checkpoint of the receiver covers them"
                )))),
                Err(error) => Some(Err(Error::Config(error.to_string()))),
            }
        })??;
        Ok(reading.next.0 - from.0)
    }
}

/// Assembles messages and passes them to the caller. Logged messages are eager, so they become
/// complete in the order of their SSNs.
struct Reading {
    assembly: Assembly,
    destination: Rank,
    next: Ssn,
    /// An error in the log.
    broken: Option<Error>,
}

impl Reading {
    fn take(&mut self, header: &RecordHeader, payload: &[u8], each: &mut impl FnMut(Logged<'_>)) {
        // Internal messages are not the program's.
        if self.broken.is_some() || !header.ssn.is_program() {
            return;
        }
        // Positions are not used.
        match self.assembly.add(header, payload, Position(0)) {
            Ok(Added::Part) => {}
            Ok(Added::Whole(message)) if message.ssn == self.next => {
                each(Logged {
                    ssn: message.ssn,
                    context: message.context,
                    tag: message.tag,
                    payload: &message.bytes,
                });
                self.next = message.ssn.next();
            }
            Ok(Added::Whole(_)) => self.broken = Some(self.error(self.next, "it is missing")),
            Ok(Added::WithoutBeginning) => {
                self.broken = Some(self.error(header.ssn, "its beginning is missing"));
            }
            Err(what) => self.broken = Some(self.error(header.ssn, what)),
        }
    }

    fn error(&self, ssn: Ssn, what: &str) -> Error {
        Error::Config(format!(
            "message {ssn} of the log to rank {} cannot be read back: {what}",
            self.destination
        ))
    }
}
