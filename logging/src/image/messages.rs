//! [`Messages`]: puts records together to messages.

use super::records::{LogExtent, ReadFailure, Records};
use crate::assembly::{Added, Assembly, Message};

/// A stream of messages in the order in which they become complete in the log.
///
/// The order is not that of SSNs: an announced message may be completed much later, and all
/// messages sent meanwhile would have to stay in memory. So this holds only messages that the
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

    /// The chunks of the log.
    pub fn extent(&self) -> &LogExtent {
        self.records.extent()
    }

    /// Messages that have begun and are not complete: at the end of the log, those
    /// that the sender had not packed completely.
    pub fn incomplete(&self) -> impl Iterator<Item = &Message> {
        self.assembly.incomplete()
    }

    /// Number of fragments that were left out because their message began in a freed part of the
    /// log.
    pub fn fragments_without_beginning(&self) -> u64 {
        self.fragments_without_beginning
    }

    /// The next message that becomes complete; `None` at the end of the log. Messages whose payload
    /// is gone are left out.
    ///
    /// # Errors
    /// As [`Records::next`]; or when records do not make a message.
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
            let Some(payload) = record.payload else {
                let lost = self.assembly.lose(&record.header, record.position);
                lost.map_err(fail)?;
                continue;
            };
            let added = (self.assembly).add(&record.header, payload, record.position);
            match added.map_err(fail)? {
                Added::Part => {}
                Added::Whole(message) => return Ok(Some(message)),
                Added::WithoutBeginning if begins_at_0 => {
                    return Err(fail("one of its fragments comes before its first record"));
                }
                Added::WithoutBeginning => self.fragments_without_beginning += 1,
            }
        }
        Ok(None)
    }
}
