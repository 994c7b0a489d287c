//! Compares the calls of a group's members before the steps (`--check-collectives`).

#![allow(unsafe_code, reason = "lends the texts of calls to their messages")]

use super::{Collective, CollectiveError};
use refrain_transport::engine::{
    Engine, EngineError, ReceiveBuffer, RequestId, SendBuffer, SendTo, Started,
};
use refrain_transport::matching::Envelope;
use refrain_transport::protocol::Protocol;

/// The comparison of a call with that of the member below. Each member sends its call to the member
/// above, so that a difference is noticed by at least one.
#[derive(Debug)]
pub(super) enum Check {
    NotBegun,
    UnderWay(Box<Exchange>),
    Done,
}

#[derive(Debug)]
pub(super) struct Exchange {
    /// The text that is sent; the length of a line.
    own: Box<[u8; CHECK_BYTES]>,
    theirs: Box<[u8; CHECK_BYTES]>,
    pub requests: Vec<RequestId>,
}

/// Length of a call as text, with zeros behind it.
const CHECK_BYTES: usize = 160;

impl Collective {
    /// Makes the check, and returns whether it is complete.
    pub(super) fn is_checked(
        &mut self,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<bool, CollectiveError> {
        if let Check::NotBegun = self.check {
            self.begin_check(engine)?;
        }
        let Check::UnderWay(exchange) = &mut self.check else {
            return Ok(true);
        };
        let Exchange {
            own,
            theirs,
            requests,
        } = &mut **exchange;
        requests.retain(|request| engine.end_step(*request).is_none());
        if !requests.is_empty() {
            return Ok(false);
        }
        let text = |bytes: &[u8; CHECK_BYTES]| {
            let text = String::from_utf8_lossy(bytes);
            text.trim_end_matches('\0').to_owned()
        };
        let (own, theirs) = (text(own), text(theirs));
        self.check = Check::Done;
        if own == theirs {
            return Ok(true);
        }
        let [rank, other] = [0, 1].map(|distance| self.member_below(distance));
        Err(CollectiveError::Differs {
            number: self.number,
            context: self.plan.context,
            rank,
            own,
            other,
            theirs,
        })
    }

    fn begin_check(&mut self, engine: &mut Engine<impl Protocol>) -> Result<(), EngineError> {
        let size = self.plan.members.len();
        let mut own = Box::new([0; CHECK_BYTES]);
        let mut theirs = Box::new([0; CHECK_BYTES]);
        let text = self.plan.check.as_deref().unwrap_or_default().as_bytes();
        let length = text.len().min(CHECK_BYTES);
        own[..length].copy_from_slice(&text[..length]);
        let (context, tag) = (self.plan.context, self.number);
        let mut requests = Vec::new();
        if size == 1 {
            self.check = Check::Done;
            return Ok(());
        }
        // SAFETY: both boxes stay in `check` until the requests have ended or are detached.
        let (data, room) = unsafe {
            (
                SendBuffer::bytes(own.as_ptr(), CHECK_BYTES),
                ReceiveBuffer::bytes(theirs.as_mut_ptr(), CHECK_BYTES),
            )
        };
        let to = SendTo {
            rank: self.member_below(size - 1),
            context,
            tag,
            synchronous: false,
        };
        let from = Envelope {
            source: self.member_below(1),
            context,
            tag,
        };
        if let Started::Pending(request) = engine.send_internal(&self.operation, data, to)? {
            requests.push(request);
        }
        requests.push(engine.receive_internal(&self.operation, room, from));
        self.check = Check::UnderWay(Box::new(Exchange {
            own,
            theirs,
            requests,
        }));
        Ok(())
    }
}
