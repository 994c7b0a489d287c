//! [`Messages`]: records put together to messages.

use super::records::{LogExtent, LogRecord, ReadFailure, Records};
use refrain_ring::{Position, RecordHeader, RecordKind, Ssn};
use std::collections::BTreeMap;

/// A whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number in its channel.
    pub ssn: Ssn,
    /// Communication context.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// [`RecordHeader::WANT_ACK`] or 0.
    pub flags: u16,
    /// How it began: [`RecordKind::Eager`] or [`RecordKind::Rendezvous`].
    pub kind: RecordKind,
    /// Where it begins in the channel's log.
    pub position: Position,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct Begun {
    message: Message,
    message_bytes: u64,
}

/// A stream of messages in the order in which they become complete in the log.
///
/// Not by SSN: an announced message may be completed any time later, and
/// everything sent meanwhile would have to be held back in memory for it. So
/// only messages are held that the sender, too, had under way at once. Whoever
/// needs the order of sending sorts by SSN, or reads [`Records`], where messages
/// begin in that order.
#[derive(Debug)]
pub struct Messages<'a> {
    records: Records<'a>,
    begun: BTreeMap<Ssn, Begun>,
    fragments_without_beginning: u64,
}

impl<'a> Messages<'a> {
    pub(super) fn new(records: Records<'a>) -> Self {
        Self {
            records,
            begun: BTreeMap::new(),
            fragments_without_beginning: 0,
        }
    }

    /// Which chunks the log is made of.
    pub fn extent(&self) -> &LogExtent {
        self.records.extent()
    }

    /// Messages that have begun and are not complete: at the end of the log, those
    /// that the sender had not packed wholly.
    pub fn incomplete(&self) -> impl Iterator<Item = &Message> {
        self.begun.values().map(|begun| &begun.message)
    }

    /// Fragments that were left out because their message began in a part of the
    /// log that is freed.
    pub fn fragments_without_beginning(&self) -> u64 {
        self.fragments_without_beginning
    }

    /// The next message that is complete; `None` at the end of the log.
    ///
    /// # Errors
    /// As [`Records::next`]; or when records make no message.
    #[expect(
        clippy::should_implement_trait,
        reason = "an error ends it, as that of the records"
    )]
    pub fn next(&mut self) -> Result<Option<Message>, ReadFailure> {
        let key = self.records.key();
        let begins_at_0 = self.records.extent().chunks.start == 0;
        while let Some(record) = self.records.next()? {
            let ssn = record.header.ssn;
            let fail = |what| ReadFailure::Message { key, ssn, what };
            if record.header.kind != RecordKind::Fragment {
                if self.begun.insert(ssn, begin(&record)).is_some() {
                    return Err(fail("it begins twice"));
                }
            } else if let Some(begun) = self.begun.get_mut(&ssn) {
                go_on(begun, &record).map_err(fail)?;
            } else if begins_at_0 {
                return Err(fail("a fragment of it comes before its beginning"));
            } else {
                self.fragments_without_beginning += 1;
                continue;
            }
            let is_complete =
                |begun: &Begun| begun.message.bytes.len() as u64 == begun.message_bytes;
            if self.begun.get(&ssn).is_some_and(is_complete) {
                return Ok(self.begun.remove(&ssn).map(|begun| begun.message));
            }
        }
        Ok(None)
    }
}

fn begin(record: &LogRecord<'_>) -> Begun {
    let RecordHeader {
        ssn,
        context,
        tag,
        flags,
        kind,
        extent,
        ..
    } = *record.header;
    let message = Message {
        ssn,
        context,
        tag,
        flags,
        kind,
        position: record.position,
        bytes: record.payload.to_vec(),
    };
    Begun {
        message,
        message_bytes: extent,
    }
}

/// A sender packs a message from its beginning to its end.
fn go_on(begun: &mut Begun, record: &LogRecord<'_>) -> Result<(), &'static str> {
    let bytes = &mut begun.message.bytes;
    if record.header.extent != bytes.len() as u64 {
        return Err("a fragment of it does not follow the one before");
    }
    if record.payload.len() as u64 > begun.message_bytes - bytes.len() as u64 {
        return Err("its fragments are longer than it is");
    }
    bytes.extend_from_slice(record.payload);
    Ok(())
}
