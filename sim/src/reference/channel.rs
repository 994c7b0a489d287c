//! Messages of one source: those that wait, and what was delivered.

use super::Delivered;
use crate::program::From;
use refrain_ring::{Rank, Ssn};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// A message at its receiver.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub ssn: Ssn,
    pub tag: i32,
    pub payload: Rc<[u8]>,
    /// A receive from any source gets it.
    pub is_reserved: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// Those that nobody got yet, by number.
    pub waiting: VecDeque<Message>,
    /// The number of the next.
    next: Ssn,
    /// Everything before this was delivered to the program,
    before: Ssn,
    /// and these.
    and: BTreeSet<Ssn>,
}

impl Channel {
    pub fn after(delivered: &Delivered) -> Self {
        Self {
            waiting: VecDeque::new(),
            next: delivered.before,
            before: delivered.before,
            and: delivered.and.iter().copied().collect(),
        }
    }

    pub fn deliver(&mut self, message: Message) -> bool {
        if message.ssn < self.next {
            return true;
        }
        if message.ssn > self.next {
            return false;
        }
        self.next = message.ssn.next();
        if !self.and.contains(&message.ssn) {
            self.waiting.push_back(message);
        }
        true
    }

    /// A message by its number, if it waits.
    pub fn find(&self, ssn: Ssn) -> Option<&Message> {
        self.waiting.iter().find(|message| message.ssn == ssn)
    }

    pub fn take(&mut self, ssn: Ssn) -> Option<Message> {
        let at = self.waiting.iter().position(|message| message.ssn == ssn)?;
        self.waiting.remove(at)
    }

    /// Whether a message that does not wait is still to come.
    pub fn is_to_come(&self, ssn: Ssn) -> bool {
        ssn >= self.next
    }

    /// It was delivered to the program.
    pub fn ended(&mut self, ssn: Ssn) {
        self.and.insert(ssn);
        while self.and.remove(&self.before) {
            self.before = self.before.next();
        }
    }

    pub fn delivered(&self) -> Delivered {
        Delivered {
            before: self.before,
            and: self.and.iter().copied().collect(),
        }
    }
}

/// Whether a pattern means a message.
pub(super) fn fits(from: &From, source: Rank, tag: i32) -> bool {
    from.source.is_none_or(|named| named == source) && from.tag.is_none_or(|named| named == tag)
}
