//! [`Messages`]: records put together to messages.

use super::records::{LogExtent, ReadFailure, Records};
use crate::assembly::{Added, Assembly, Message};

/// A stream of messages in the order in which they become complete in the log.
///
/// Not by SSN: an announced message may be completed any time later, and everything sent
/// meanwhile would have to stay in memory for it. So this holds only messages that the
/// sender had under way at once. For the order of sending, sort by SSN, or read
/// [`Records`], where messages begin in that order.
#[derive(Debug)]
pub struct Messages<'a> {
    records: Records<'a>,
    assembly: Assembly,
    fragments_without_beginning: u64,
}

impl<'a> Messages<'a> {
    pub(super) fn new(records: Records<'a>) -> Self {
        Self {
            records,
            assembly: Assembly::default(),
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
        self.assembly.incomplete()
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
            let added = self
                .assembly
                .add(record.header, record.payload, record.position);
            match added.map_err(fail)? {
                Added::Part => {}
                Added::Whole(message) => return Ok(Some(message)),
                Added::WithoutBeginning if begins_at_0 => {
                    return Err(fail("a fragment of it comes before its beginning"));
                }
                Added::WithoutBeginning => self.fragments_without_beginning += 1,
            }
        }
        Ok(None)
    }
}
