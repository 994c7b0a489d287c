//! The messages of each source: which receive gets which of them, and what the program learns.

use super::{Halt, Open, Reference, RequestState};
use crate::program::{Ended, From, RequestNumber};
use crate::saved::Delivered;
use refrain_ring::{Clock, Rank, Ssn};
use std::collections::VecDeque;
use std::rc::Rc;

impl Reference {
    pub(super) fn post(&mut self, state: RequestState) -> RequestNumber {
        // The tally has counted the call already.
        let number = RequestNumber(self.tally.requests - 1);
        self.open.push(Open {
            number,
            posted_at: self.clock,
            state,
        });
        number
    }

    /// The index of an open request.
    pub(super) fn place(&self, number: RequestNumber) -> Result<usize, Halt> {
        let at = self.open.iter().position(|open| open.number == number);
        at.ok_or_else(|| Halt::Diverged(format!("{number:?} has already ended")))
    }

    /// Completes a request, or says why it cannot.
    pub(super) fn complete(&mut self, at: usize) -> Result<(), Halt> {
        let posted_at = self.open[at].posted_at;
        let (from, got) = match &self.open[at].state {
            RequestState::Receive { from, got, .. } => (from, got),
            RequestState::Collective(collective) => {
                let result = self.contributions.borrow().result(collective);
                return result.map(drop).ok_or(Halt::Message);
            }
            RequestState::Send { .. } | RequestState::Cancelled => return Ok(()),
        };
        match (got, from.source) {
            (Some(_), _) => Ok(()),
            (None, Some(source)) => self.complete_named(at, source),
            (None, None) => self.complete_any(at, posted_at),
        }
    }

    /// Assigns messages, in the order of the channel, each to the first receive that matches, until
    /// this receive has its message.
    fn complete_named(&mut self, at: usize, source: Rank) -> Result<(), Halt> {
        let mut index = 0;
        loop {
            let waiting = &self.channels[source.index()].waiting;
            let Some(message) = waiting.get(index) else {
                return Err(Halt::Message);
            };
            let first = (!message.is_reserved)
                .then(|| self.first_named(source, message.tag))
                .flatten();
            let Some(first) = first else {
                index += 1;
                continue;
            };
            self.check_named(first, source, message.ssn)?;
            let message = self.channels[source.index()].waiting.remove(index);
            if let RequestState::Receive { got, .. } = &mut self.open[first].state {
                *got = message.map(|message| (source, message));
            }
            if first == at {
                return Ok(());
            }
        }
    }

    /// The first receive without a message that names this source and matches the tag.
    fn first_named(&self, source: Rank, tag: i32) -> Option<usize> {
        let choices = &self.choices;
        self.open.iter().position(|open| match &open.state {
            // A receive that will be cancelled gets no message.
            RequestState::Receive { .. } if choices.is_cancelled(open.posted_at) => false,
            RequestState::Receive {
                from, got: None, ..
            } => from.source.is_some() && fits(from, source, tag),
            _ => false,
        })
    }

    /// With `pessimist-classic` the record must agree.
    fn check_named(&self, at: usize, source: Rank, ssn: Ssn) -> Result<(), Halt> {
        let posted_at = self.open[at].posted_at;
        match self.choices.match_of(posted_at, true) {
            Some(recorded) if recorded != (source, ssn) => Err(Halt::Diverged(format!(
                "the receive posted at {posted_at} gets message {ssn} of {source}; its record names {} of {}",
                recorded.1, recorded.0
            ))),
            _ => Ok(()),
        }
    }

    fn complete_any(&mut self, at: usize, posted_at: Clock) -> Result<(), Halt> {
        let Some((source, ssn)) = self.choices.match_of(posted_at, false) else {
            return Err(self.without_record(format_args!(
                "the receive posted at {posted_at} from any source has no record"
            )));
        };
        let RequestState::Receive { from, got, .. } = &mut self.open[at].state else {
            return Ok(());
        };
        let channel = &mut self.channels[source.index()];
        let Some(message) = channel.take(ssn) else {
            return Err(match channel.is_to_come(ssn) {
                true => Halt::Message,
                false => Halt::Diverged(format!("message {ssn} of {source} is received twice")),
            });
        };
        if !fits(from, source, message.tag) {
            return Err(Halt::Diverged(format!(
                "the receive posted at {posted_at} does not fit message {ssn} of {source}"
            )));
        }
        *got = Some((source, message));
        Ok(())
    }

    /// An operation needs a record and has none.
    pub(super) fn without_record(&self, what: std::fmt::Arguments<'_>) -> Halt {
        if self.clock < self.choices.complete_before() {
            Halt::Diverged(what.to_string())
        } else {
            Halt::Records
        }
    }

    /// Checks that the message that a probe found is there, with this tag and length.
    pub(super) fn found(
        &self,
        from: &From,
        (source, ssn): (Rank, Ssn),
        (tag, bytes): (i32, u64),
    ) -> Result<(), Halt> {
        let channel = &self.channels[source.index()];
        let Some(message) = channel.find(ssn) else {
            return Err(match channel.is_to_come(ssn) {
                true => Halt::Message,
                false => Halt::Diverged(format!("message {ssn} of {source} was received before")),
            });
        };
        let is_it = message.tag == tag && message.payload.len() as u64 == bytes;
        if is_it && fits(from, source, tag) {
            Ok(())
        } else {
            Err(Halt::Diverged(format!(
                "a probe for {from:?} found message {ssn} of {source} with tag {tag} and {bytes} bytes; it has tag {} and {} bytes",
                message.tag,
                message.payload.len()
            )))
        }
    }

    /// Ends a complete request and returns the result for the program.
    pub(super) fn end(&mut self, at: usize) -> Ended {
        let Open { number, state, .. } = self.open.remove(at);
        let mut ended = Ended {
            request: number,
            collective: None,
            peer: self.rank,
            tag: 0,
            bytes: 0,
            cancelled: false,
            payload: Vec::new(),
        };
        match state {
            RequestState::Send { to, tag, bytes } => {
                (ended.peer, ended.tag, ended.bytes) = (to, tag, bytes);
            }
            RequestState::Receive {
                got: Some((source, message)),
                room_bytes,
                ..
            } => {
                (ended.peer, ended.tag) = (source, message.tag);
                ended.bytes = message.payload.len() as u64;
                let received = message.payload.len().min(room_bytes);
                ended.payload = message.payload[..received].to_vec();
            }
            RequestState::Collective(collective) => {
                let result = self.contributions.borrow().result(&collective);
                ended.collective = Some(collective.id);
                ended.payload = result.unwrap_or_default();
            }
            RequestState::Receive { got: None, .. } | RequestState::Cancelled => {
                ended.cancelled = true
            }
        }
        ended
    }
}

/// A message at its receiver.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub ssn: Ssn,
    pub tag: i32,
    pub payload: Rc<[u8]>,
    /// Whether a receive from any source gets it.
    pub is_reserved: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Channel {
    /// Messages that no receive has got yet, by number.
    pub waiting: VecDeque<Message>,
    /// The number of the next message.
    next: Ssn,
    /// What the program had received when the reference began.
    delivered: Delivered,
}

impl Channel {
    pub fn after(delivered: &Delivered) -> Self {
        Self {
            waiting: VecDeque::new(),
            next: delivered.before,
            delivered: delivered.clone(),
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
        if !self.delivered.has(message.ssn) {
            self.waiting.push_back(message);
        }
        true
    }

    /// A waiting message by its number.
    pub fn find(&self, ssn: Ssn) -> Option<&Message> {
        self.waiting.iter().find(|message| message.ssn == ssn)
    }

    pub fn take(&mut self, ssn: Ssn) -> Option<Message> {
        let at = self.waiting.iter().position(|message| message.ssn == ssn)?;
        self.waiting.remove(at)
    }

    /// Whether a message that does not wait will still arrive.
    pub fn is_to_come(&self, ssn: Ssn) -> bool {
        ssn >= self.next
    }
}

/// Whether a pattern matches a message.
pub(super) fn fits(from: &From, source: Rank, tag: i32) -> bool {
    from.source.is_none_or(|named| named == source) && from.tag.is_none_or(|named| named == tag)
}
