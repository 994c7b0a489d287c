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
    added_bytes: u64,
    /// Payload of it is gone.
    is_lost: bool,
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
    /// Adds the next record of the log, whose payload is gone: its message will not be whole. LOG-6
    ///
    /// # Errors
    /// As [`Assembly::add`].
    pub fn lose(&mut self, header: &RecordHeader, position: Position) -> Result<(), &'static str> {
        self.put(header, None, position).map(drop)
    }

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
        self.put(header, Some(payload), position)
    }

    fn put(
        &mut self,
        header: &RecordHeader,
        payload: Option<&[u8]>,
        position: Position,
    ) -> Result<Added, &'static str> {
        let (header, payload) = match payload {
            Some(payload) => {
                let (header, message, _) = header.detach(payload);
                (header, Some(message))
            }
            None => (*header, None),
        };
        let ssn = header.ssn;
        if header.kind != RecordKind::Fragment {
            let message = Message {
                ssn,
                context: header.context,
                tag: header.tag,
                flags: header.flags,
                kind: header.kind,
                position,
                bytes: payload.unwrap_or_default().to_vec(),
            };
            let begun = Begun {
                message,
                message_bytes: header.extent,
                added_bytes: header.payload_bytes.into(),
                is_lost: payload.is_none(),
            };
            if self.begun.insert(ssn, begun).is_some() {
                return Err("the log has its first record twice");
            }
        } else if let Some(begun) = self.begun.get_mut(&ssn) {
            append(begun, &header, payload)?;
        } else {
            return Ok(Added::WithoutBeginning);
        }
        let is_complete = |begun: &Begun| begun.added_bytes == begun.message_bytes;
        if !self.begun.get(&ssn).is_some_and(is_complete) {
            return Ok(Added::Part);
        }
        let whole = self.begun.remove(&ssn).filter(|begun| !begun.is_lost);
        Ok(whole.map_or(Added::Part, |begun| Added::Whole(begun.message)))
    }

    /// Messages that have begun and are not complete.
    pub fn incomplete(&self) -> impl Iterator<Item = &Message> {
        self.begun.values().map(|begun| &begun.message)
    }
}

/// Adds a fragment. A sender packs a message from its beginning to its end.
fn append(
    begun: &mut Begun,
    header: &RecordHeader,
    payload: Option<&[u8]>,
) -> Result<(), &'static str> {
    if header.extent != begun.added_bytes {
        return Err("one of its fragments does not continue the previous one");
    }
    if u64::from(header.payload_bytes) > begun.message_bytes - begun.added_bytes {
        return Err("its fragments have more bytes than its first record announces");
    }
    begun.added_bytes += u64::from(header.payload_bytes);
    begun.is_lost |= payload.is_none();
    if !begun.is_lost {
        begun
            .message
            .bytes
            .extend_from_slice(payload.unwrap_or_default());
    }
    Ok(())
}
