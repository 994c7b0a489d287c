//! [`Assembly`]: puts records together to messages.

use refrain_ring::{Position, RecordHeader, RecordKind, Ssn};
use std::collections::BTreeMap;

/// A complete message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its SSN.
    pub ssn: Ssn,
    /// Communication context.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// [`RecordHeader::WANT_ACK`] or 0.
    pub flags: u16,
    /// The kind of its first record: [`RecordKind::Eager`] or [`RecordKind::Rendezvous`].
    pub kind: RecordKind,
    /// Position of its first record in the channel's log.
    pub position: Position,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct Begun {
    message: Message,
    message_bytes: u64,
}

/// Incomplete messages of one channel. Records must be added in the order
/// of the log; fragments of different messages may be mixed.
#[derive(Debug, Default)]
pub struct Assembly {
    begun: BTreeMap<Ssn, Begun>,
}

/// The result of adding a record.
#[derive(Debug)]
pub enum Added {
    /// The record's message is not complete.
    Part,
    /// The record completes its message.
    Whole(Message),
    /// A fragment of a message whose beginning was not added.
    WithoutBeginning,
}

impl Assembly {
    /// Adds the next record of the log.
    ///
    /// # Errors
    /// When the record does not fit those before it: the problem of its message.
    pub fn add(
        &mut self,
        header: &RecordHeader,
        payload: &[u8],
        position: Position,
    ) -> Result<Added, &'static str> {
        let ssn = header.ssn;
        if header.kind != RecordKind::Fragment {
            let message = Message {
                ssn,
                context: header.context,
                tag: header.tag,
                flags: header.flags,
                kind: header.kind,
                position,
                bytes: payload.to_vec(),
            };
            let begun = Begun {
                message,
                message_bytes: header.extent,
            };
            if self.begun.insert(ssn, begun).is_some() {
                return Err("the log has its first record twice");
            }
        } else if let Some(begun) = self.begun.get_mut(&ssn) {
            append(begun, header, payload)?;
        } else {
            return Ok(Added::WithoutBeginning);
        }
        let is_complete = |begun: &Begun| begun.message.bytes.len() as u64 == begun.message_bytes;
        if !self.begun.get(&ssn).is_some_and(is_complete) {
            return Ok(Added::Part);
        }
        let whole = self.begun.remove(&ssn);
        Ok(whole.map_or(Added::Part, |begun| Added::Whole(begun.message)))
    }

    /// Messages that have begun and are not complete.
    pub fn incomplete(&self) -> impl Iterator<Item = &Message> {
        self.begun.values().map(|begun| &begun.message)
    }
}

/// Adds a fragment. A sender packs a message from its beginning to its end.
fn append(begun: &mut Begun, header: &RecordHeader, payload: &[u8]) -> Result<(), &'static str> {
    let bytes = &mut begun.message.bytes;
    if header.extent != bytes.len() as u64 {
        return Err("one of its fragments does not continue the previous one");
    }
    if payload.len() as u64 > begun.message_bytes - bytes.len() as u64 {
        return Err("its fragments have more bytes than its first record announces");
    }
    bytes.extend_from_slice(payload);
    Ok(())
}
