//! Messages from a peer that lives: its engine reads its log while it goes on.

use super::{Message, Messages};
use refrain_logging::assembly::{Added, Assembly};
use refrain_ring::{Position, Rank, RecordHeader, Ssn};
use refrain_transport::engine::{Engine, Progress, ReadBack};
use refrain_transport::protocol::Protocol;

/// How far a request for messages has come.
#[derive(Debug)]
pub enum Heard {
    /// To be asked again.
    NotYet,
    /// Everything that has left the peer so far.
    All(Messages),
}

/// A request of one rank to a peer for its messages.
#[derive(Debug)]
pub struct Asking {
    reader: ReadBack,
    from: Ssn,
    assembly: Assembly,
    messages: Messages,
}

impl Asking {
    /// Asks for all messages to `receiver` from number `from` on. REC-3
    pub fn new(engine: &Engine<impl Protocol>, receiver: Rank, from: Ssn) -> Self {
        Self {
            reader: engine.read_back(receiver, from),
            from,
            assembly: Assembly::default(),
            messages: Messages::new(),
        }
    }

    /// Reads on, one chunk at most. Ask the same engine.
    ///
    /// # Errors
    /// When the log cannot be read, or does not reach back to the first message
    /// that was asked for. LOG-2, LOG-4
    pub fn step(&mut self, engine: &mut Engine<impl Protocol>) -> Result<Heard, String> {
        let (assembly, messages) = (&mut self.assembly, &mut self.messages);
        let mut damage = None;
        let mut give = |header: &RecordHeader, payload: &[u8]| match assembly.add(
            header,
            payload,
            Position(0),
        ) {
            Ok(Added::Whole(message)) => {
                let bytes = Message {
                    tag: message.tag,
                    payload: message.bytes,
                };
                messages.insert(message.ssn, bytes);
            }
            Ok(Added::Part | Added::WithoutBeginning) => {}
            Err(what) => damage = Some(format!("message {}: {what}", header.ssn)),
        };
        let progress = engine
            .read_on(&mut self.reader, &mut give)
            .map_err(|error| error.to_string())?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        match progress {
            Progress::Records(_) | Progress::Waiting => Ok(Heard::NotYet),
            Progress::Passed(first) if first <= self.from => Ok(Heard::NotYet),
            Progress::Passed(first) => Err(format!(
                "messages from {} on were asked for, those below {first} are gone",
                self.from
            )),
            Progress::End => {
                let mut messages = core::mem::take(&mut self.messages);
                messages.retain(|ssn, _| *ssn >= self.from);
                Ok(Heard::All(messages))
            }
        }
    }
}
