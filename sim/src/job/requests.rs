//! A program's requests on a real engine: their memory, and what calls on them
//! come to.

use super::room::Room;
use crate::program::{Ended, RequestNumber};
use refrain_rank::calls::{self, Answer, Handle, Handles};
use refrain_ring::Clock;
use refrain_transport::engine::{Engine, Outcome};
use refrain_transport::protocol::Protocol;

/// One request of a program.
#[derive(Debug)]
struct Request {
    handle: Handle,
    /// Lent to the engine until it is over.
    room: Room,
    is_receive: bool,
}

/// All requests that a program has begun, by their numbers.
#[derive(Debug, Default)]
pub struct Requests {
    all: Vec<Option<Request>>,
}

/// Those of one call.
struct Chosen<'a> {
    all: &'a mut [Option<Request>],
    chosen: &'a [RequestNumber],
}

impl Handles for Chosen<'_> {
    fn count(&self) -> usize {
        self.chosen.len()
    }

    fn get(&self, index: usize) -> &Handle {
        let request = self.all[self.chosen[index].0 as usize].as_ref();
        request.map_or(&Handle::NULL, |request| &request.handle)
    }

    fn clear(&mut self, index: usize) {
        if let Some(request) = &mut self.all[self.chosen[index].0 as usize] {
            request.handle = Handle::NULL;
        }
    }
}

/// Which requests a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Several {
    /// The first that has ended.
    Any,
    /// All that have.
    Some,
    /// All, if all have, and that is no event.
    All,
    /// All, if all have; that they have depends on timing.
    TestedAll,
}

impl Requests {
    /// Of a program that has begun, and ended, so many before.
    pub fn after(requests: u32) -> Self {
        Self {
            all: (0..requests).map(|_| None).collect(),
        }
    }

    /// The next request of the program.
    pub fn add(&mut self, handle: Handle, room: Room, is_receive: bool) -> RequestNumber {
        let number = RequestNumber(self.all.len() as u32);
        self.all.push(Some(Request {
            handle,
            room,
            is_receive,
        }));
        number
    }

    /// A request as the engine's calls have it.
    pub fn handle(&self, number: RequestNumber) -> &Handle {
        let request = self.all[number.0 as usize].as_ref();
        request.map_or(&Handle::NULL, |request| &request.handle)
    }

    /// The end of a blocking call that made this request, if it has ended.
    pub fn finish(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        number: RequestNumber,
    ) -> Option<Ended> {
        let outcome = calls::finish(engine, self.handle(number).id()?)?;
        Some(self.end(number, &outcome))
    }

    /// A wait for one, or a test.
    pub fn one(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        clock: Clock,
        number: RequestNumber,
        is_test: bool,
    ) -> Answer<Vec<Ended>> {
        let Some(request) = &mut self.all[number.0 as usize] else {
            return Answer::Nothing;
        };
        let handle = &mut request.handle;
        let outcome = match is_test {
            true => calls::test(engine, clock, handle),
            false => Answer::free(calls::try_wait(engine, handle)),
        };
        outcome.map(|outcome| vec![self.end(number, &outcome)])
    }

    /// A wait or test for several.
    pub fn several(
        &mut self,
        engine: &mut Engine<impl Protocol>,
        clock: Clock,
        chosen: &[RequestNumber],
        which: Several,
    ) -> Answer<Vec<Ended>> {
        let all = &mut self.all;
        let mut handles = Chosen { all, chosen };
        let mut ended = Vec::new();
        let mut give = |index, outcome| ended.push((index, outcome));
        let answer = match which {
            Several::Any => {
                let one = calls::test_any(engine, clock, &mut handles);
                one.map(|(index, outcome)| give(index, outcome))
            }
            Several::Some => calls::test_some(engine, clock, &mut handles, give).map(|_count| ()),
            Several::All => Answer::free(calls::try_all(engine, &mut handles, give)),
            Several::TestedAll => calls::test_all(engine, clock, &mut handles, give),
        };
        answer.map(|()| {
            let ended = ended.into_iter();
            ended
                .map(|(index, outcome)| self.end(chosen[index], &outcome))
                .collect()
        })
    }

    /// What the program is told; the engine is done with the memory.
    fn end(&mut self, number: RequestNumber, outcome: &Outcome) -> Ended {
        let request = self.all[number.0 as usize].take();
        let request = request.expect("a request ends once");
        let status = outcome.status;
        let received = match request.is_receive && !status.cancelled {
            true => outcome.truncated_to.unwrap_or(status.bytes),
            false => 0,
        };
        Ended {
            request: number,
            peer: status.source,
            tag: status.tag,
            bytes: status.bytes,
            cancelled: status.cancelled,
            payload: request.room.read(received as usize),
        }
    }
}
