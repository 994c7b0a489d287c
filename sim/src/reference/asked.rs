//! The answer to each call.

use super::{Halt, Reference, RequestState, SentMessage};
use crate::choices::{Outcome, Recorded};
use crate::program::{Answer, Call, Ended, Found, From, RequestNumber, TakenNumber};
#[cfg(test)]
use crate::saved::Beginning;
use refrain_ring::{Clock, Rank, Ssn};
use std::rc::Rc;

impl Reference {
    /// The answer to a call. After a missing message, the same call is asked again.
    pub(super) fn answer_to(&mut self, call: &Call) -> Result<Answer, Halt> {
        match call {
            Call::Isend {
                to, tag, payload, ..
            } => Ok(self.send(*to, *tag, payload)),
            Call::Irecv { from, room_bytes } => {
                let number = self.post(receive(*from, *room_bytes));
                Ok(Answer::Posted(number))
            }
            Call::Collective(collective) => {
                self.contributions.borrow_mut().set(collective);
                let number = self.post(RequestState::Collective(Rc::clone(collective)));
                Ok(Answer::Posted(number))
            }
            Call::Imrecv(number) => self.receive_taken(*number),
            Call::Recv { from, room_bytes } => self.receive(*from, *room_bytes),
            Call::Wait(number) => self.wait_all(&[*number]),
            Call::WaitAll(numbers) => self.wait_all(numbers),
            Call::WaitAny(numbers) | Call::WaitSome(numbers) => match self.completed(numbers)? {
                Some(ended) => Ok(Answer::Ended(ended)),
                None => Err(Halt::Diverged(format!("{call:?} has no record"))),
            },
            Call::Test(number) => {
                let ended = self.completed(&[*number])?;
                Ok(Answer::Ended(ended.unwrap_or_default()))
            }
            Call::TestAny(numbers) | Call::TestSome(numbers) | Call::TestAll(numbers) => {
                let ended = self.completed(numbers)?;
                Ok(Answer::Ended(ended.unwrap_or_default()))
            }
            Call::Probe(from) | Call::Mprobe(from) => match self.probe(from)? {
                None => Err(Halt::Diverged(format!("{call:?} has no record"))),
                found => self.tell_found(found, matches!(call, Call::Mprobe(_))),
            },
            Call::Iprobe(from) | Call::Improbe(from) => {
                let found = self.probe(from)?;
                self.tell_found(found, matches!(call, Call::Improbe(_)))
            }
            Call::Cancel(number) => self.cancel(*number),
            Call::Number { .. } | Call::Bytes { .. } => self.given(call),
            Call::Print(word) => {
                self.prints.push(*word);
                Ok(Answer::Done)
            }
            Call::Checkpoint => {
                #[cfg(test)]
                self.checkpoints.push(Beginning {
                    program: self.program.clone(),
                    answer: Answer::Done,
                    clock: self.clock,
                    tally: self.tally.clone(),
                });
                Ok(Answer::Done)
            }
            Call::Finish => {
                self.is_over = true;
                Ok(Answer::Done)
            }
        }
    }

    /// The recorded value from outside.
    fn given(&self, call: &Call) -> Result<Answer, Halt> {
        match (self.choices.at(self.clock), call) {
            (Recorded::Open, _) => Err(Halt::Records),
            (
                Recorded::Outcome(Outcome::Number {
                    series: told,
                    value,
                }),
                Call::Number { series },
            ) if told == series => Ok(Answer::Number(*value)),
            (Recorded::Outcome(Outcome::Bytes(bytes)), Call::Bytes { count })
                if bytes.len() == *count =>
            {
                Ok(Answer::Bytes(bytes.clone()))
            }
            (told, _) => Err(Halt::Diverged(format!("{call:?} has the record {told:?}"))),
        }
    }

    fn send(&mut self, to: Rank, tag: i32, payload: &[u8]) -> Answer {
        let clock = self.clock;
        // The tally has counted the call already.
        let ssn = Ssn(self.tally.next_ssn_to[to.index()].0 - 1);
        self.sends.push(SentMessage {
            to,
            ssn,
            clock,
            tag,
            payload: Rc::from(payload),
        });
        if to == self.rank {
            self.deliver(to, ssn, tag, Rc::from(payload));
        }
        let number = self.post(RequestState::Send {
            to,
            tag,
            bytes: payload.len() as u64,
        });
        Answer::Posted(number)
    }

    fn receive(&mut self, from: From, room_bytes: usize) -> Result<Answer, Halt> {
        // The first attempt posts the receive.
        let latest = self.open.last().map(|open| open.posted_at);
        if latest != Some(self.clock) {
            self.post(receive(from, room_bytes));
        }
        let at = self.open.len() - 1;
        self.complete(at)?;
        Ok(Answer::Ended(vec![self.end(at)]))
    }

    fn receive_taken(&mut self, number: TakenNumber) -> Result<Answer, Halt> {
        let taken = self.taken.get_mut(number.0 as usize);
        let Some((source, message)) = taken.and_then(Option::take) else {
            return Err(Halt::Diverged(format!("{number:?} is no message")));
        };
        let from = From {
            source: Some(source),
            tag: Some(message.tag),
        };
        Ok(Answer::Posted(self.post(RequestState::Receive {
            from,
            room_bytes: message.payload.len(),
            got: Some((source, message)),
        })))
    }

    fn wait_all(&mut self, numbers: &[RequestNumber]) -> Result<Answer, Halt> {
        for number in numbers {
            let at = self.place(*number)?;
            self.complete(at)?;
        }
        self.end_all(numbers).map(Answer::Ended)
    }

    fn end_all(&mut self, numbers: &[RequestNumber]) -> Result<Vec<Ended>, Halt> {
        let end = |number: &RequestNumber| Ok(self.place(*number)?).map(|at| self.end(at));
        numbers.iter().map(end).collect()
    }

    /// The requests that ended by the record; `None`: none ended.
    fn completed(&mut self, among: &[RequestNumber]) -> Result<Option<Vec<Ended>>, Halt> {
        let clocks = match self.choices.at(self.clock) {
            Recorded::Nothing => return Ok(None),
            Recorded::Open => return Err(Halt::Records),
            Recorded::Outcome(Outcome::Completed(clocks)) => clocks.clone(),
            Recorded::Outcome(other) => {
                return Err(Halt::Diverged(format!(
                    "the record of this operation is {other:?}"
                )));
            }
        };
        let mut numbers = Vec::with_capacity(clocks.len());
        for posted_at in clocks {
            let number = self.number_of(posted_at, among)?;
            let at = self.place(number)?;
            self.complete(at)?;
            numbers.push(number);
        }
        self.end_all(&numbers).map(Some)
    }

    fn number_of(&self, posted_at: Clock, among: &[RequestNumber]) -> Result<RequestNumber, Halt> {
        let its = self.open.iter().find(|open| open.posted_at == posted_at);
        let its = its.map(|open| open.number);
        its.filter(|number| among.contains(number)).ok_or_else(|| {
            Halt::Diverged(format!(
                "the record ends the request posted at {posted_at}, which the call does not name"
            ))
        })
    }

    fn probe(&self, from: &From) -> Result<Option<(Found, Ssn)>, Halt> {
        match self.choices.at(self.clock) {
            Recorded::Nothing => Ok(None),
            Recorded::Open => Err(Halt::Records),
            Recorded::Outcome(&Outcome::Found {
                source,
                ssn,
                tag,
                bytes,
            }) => {
                self.found(from, (source, ssn), (tag, bytes))?;
                Ok(Some((Found { source, tag, bytes }, ssn)))
            }
            Recorded::Outcome(other) => Err(Halt::Diverged(format!(
                "the record of this operation is {other:?}"
            ))),
        }
    }

    fn tell_found(&mut self, found: Option<(Found, Ssn)>, takes: bool) -> Result<Answer, Halt> {
        let Some((found, ssn)) = found else {
            return Ok(match takes {
                true => Answer::Taken(None),
                false => Answer::Found(None),
            });
        };
        if !takes {
            return Ok(Answer::Found(Some(found)));
        }
        let number = TakenNumber(self.taken.len() as u32);
        let message = self.channels[found.source.index()].take(ssn);
        self.taken
            .push(message.map(|message| (found.source, message)));
        Ok(Answer::Taken(Some((number, found))))
    }

    fn cancel(&mut self, number: RequestNumber) -> Result<Answer, Halt> {
        let at = self.place(number)?;
        let posted_at = self.open[at].posted_at;
        if matches!(self.open[at].state, RequestState::Send { .. }) {
            // Sends are never cancelled: this is no event.
            return Ok(Answer::Done);
        }
        match self.choices.at(self.clock) {
            Recorded::Nothing => Ok(Answer::Done),
            Recorded::Open => Err(Halt::Records),
            Recorded::Outcome(Outcome::Cancelled(request)) if *request == posted_at => {
                let has_message = matches!(
                    self.open[at].state,
                    RequestState::Receive { got: Some(_), .. }
                );
                if has_message {
                    return Err(Halt::Diverged(
                        "the record cancels a receive that has a message".into(),
                    ));
                }
                self.open[at].state = RequestState::Cancelled;
                Ok(Answer::Done)
            }
            Recorded::Outcome(other) => Err(Halt::Diverged(format!(
                "the record of this operation is {other:?}"
            ))),
        }
    }
}

fn receive(from: From, room_bytes: usize) -> RequestState {
    RequestState::Receive {
        from,
        room_bytes,
        got: None,
    }
}
