//! A job without failures on an engine of lists: what timing decides is chance.
//! It records as a real engine does.

use super::super::{Choices, Final};
use crate::plan::{Plan, ProtocolPlan};
use crate::program::{Answer, Call, Ended, Found, From, Program, RequestNumber, TakenNumber};
use fastrand::Rng;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES};
use refrain_logging::determinant::record::decode;
use refrain_logging::determinant::recorder::{Identity, Recorder};
use refrain_logging::determinant::{Determinant, EventIndex, Matched};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};
use std::collections::VecDeque;

/// Turns of one job, at most.
const TURNS_MAX: u32 = 2_000_000;

#[derive(Clone, Debug)]
struct Message {
    source: Rank,
    ssn: Ssn,
    tag: i32,
    payload: Vec<u8>,
    /// Its send, where that waits for the match.
    completes: Option<RequestNumber>,
}

#[derive(Debug)]
struct Request {
    number: RequestNumber,
    posted_at: Clock,
    /// Of a receive that waits: what it wants.
    wants: Option<From>,
    is_receive: bool,
    room_bytes: usize,
    done: Option<Ended>,
}

/// One rank.
struct Ideal {
    rank: Rank,
    program: Program,
    clock: Clock,
    asked: Call,
    requests: Vec<Request>,
    posts: u32,
    unexpected: Vec<Message>,
    taken: Vec<Option<Message>>,
    next_ssn: Vec<u64>,
    prints: Vec<u64>,
    is_classic: bool,
    recorder: Recorder,
    records: Vec<Determinant>,
    batch: Vec<u8>,
    /// Sends of others that wait for a match which a later receive made.
    late: Vec<(Rank, RequestNumber)>,
    is_over: bool,
}

/// All ranks, and what is on its way between them.
pub struct Job {
    ranks: Vec<Ideal>,
    /// By source and destination.
    ways: Vec<Vec<VecDeque<Message>>>,
    rng: Rng,
}

/// What a job came to.
pub struct Outcome {
    pub finals: Vec<Final>,
    pub choices: Vec<Choices>,
    pub records: Vec<Vec<Determinant>>,
    pub programs: Vec<Program>,
}

impl Job {
    pub fn new(plan: &Plan, seed: u64) -> Self {
        let ranks = plan.ranks as usize;
        let ideal = |rank: u32| {
            let identity = Identity {
                job: 1,
                rank: Rank(rank),
                incarnation: Incarnation(0),
            };
            let mut program = Program::new(plan, Rank(rank));
            let asked = program.next(&Answer::Begin);
            let mut ideal = Ideal {
                rank: Rank(rank),
                program,
                clock: Clock(plan.first_clock),
                asked: Call::Finish,
                requests: Vec::new(),
                posts: 0,
                unexpected: Vec::new(),
                taken: Vec::new(),
                next_ssn: vec![0; ranks],
                prints: Vec::new(),
                is_classic: plan.protocol == ProtocolPlan::PessimistClassic,
                recorder: Recorder::new(identity, EventIndex(0)),
                records: Vec::new(),
                batch: Vec::new(),
                late: Vec::new(),
                is_over: false,
            };
            ideal.ask(asked);
            ideal
        };
        Self {
            ranks: (0..plan.ranks).map(ideal).collect(),
            ways: vec![vec![VecDeque::new(); ranks]; ranks],
            rng: Rng::with_seed(seed),
        }
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Result<Outcome, String> {
        let ranks = self.ranks.len();
        for _ in 0..TURNS_MAX {
            if self.ranks.iter().all(|rank| rank.is_over) {
                return Ok(self.end());
            }
            let at = self.rng.usize(0..ranks);
            if self.rng.u32(0..3) == 0 {
                self.arrive(at);
            } else {
                self.ranks[at].turn(&mut self.ways[at], &mut self.rng);
            }
        }
        let asked: Vec<_> = self.ranks.iter().map(|rank| &rank.asked).collect();
        Err(format!("they never end: {asked:?}"))
    }

    fn arrive(&mut self, at: usize) {
        let source = self.rng.usize(0..self.ranks.len());
        for _ in 0..self.rng.u32(0..4) {
            let Some(message) = self.ways[source][at].pop_front() else {
                return;
            };
            let completes = message.completes;
            if self.ranks[at].arrived(message)
                && let Some(number) = completes
            {
                self.ranks[source].sent(number);
            }
        }
        // Those that a receive took later.
        let matched: Vec<(Rank, RequestNumber)> = self.ranks[at].late_matches();
        for (source, number) in matched {
            self.ranks[source.index()].sent(number);
        }
    }

    fn end(self) -> Outcome {
        let mut ended = Outcome {
            finals: Vec::new(),
            choices: Vec::new(),
            records: Vec::new(),
            programs: Vec::new(),
        };
        for mut rank in self.ranks {
            rank.flush(true);
            let choices = Choices::new(&rank.records);
            ended.finals.push(Final {
                state: rank.program.state(),
                prints: rank.prints,
                clock: rank.clock,
            });
            ended.choices.push(choices);
            ended.records.push(rank.records);
            ended.programs.push(rank.program);
        }
        ended
    }
}

impl Ideal {
    fn ask(&mut self, call: Call) {
        if !matches!(call, Call::Print(_) | Call::Checkpoint | Call::Finish) {
            self.clock = Clock(self.clock.0 + 1);
        }
        self.asked = call;
        if let Call::Recv { from, room_bytes } = self.asked {
            self.post(Some(from), room_bytes, true);
        }
    }

    fn turn(&mut self, ways: &mut [VecDeque<Message>], rng: &mut Rng) {
        // Sends that the log had no room for.
        for request in &mut self.requests {
            let is_for_log = request.wants.is_some_and(|wants| wants.tag.is_none());
            if !request.is_receive && is_for_log && rng.u32(0..3) == 0 {
                request.wants = None;
            }
        }
        if rng.u32(0..8) == 0 {
            self.flush(rng.bool());
        }
        let call = self.asked.clone();
        if let Some(answer) = self.answer(&call, ways, rng) {
            let next = self.program.next(&answer);
            self.ask(next);
        }
        while self.is_printing() {
            if let Call::Print(word) = self.asked {
                self.prints.push(word);
            }
            let next = self.program.next(&Answer::Done);
            self.ask(next);
        }
        self.is_over = self.asked == Call::Finish;
    }

    fn is_printing(&self) -> bool {
        matches!(self.asked, Call::Print(_) | Call::Checkpoint)
    }

    fn flush(&mut self, all: bool) {
        while let Some(header) = self.recorder.take_batch(all, &mut self.batch) {
            let (read, _) = BatchHeader::read(&self.batch).expect("as it was written");
            assert_eq!(read, header);
            let records = decode(&header, &self.batch[HEADER_BYTES..]);
            self.records.extend(records.expect("as they were written"));
        }
    }

    fn answer(
        &mut self,
        call: &Call,
        ways: &mut [VecDeque<Message>],
        rng: &mut Rng,
    ) -> Option<Answer> {
        Some(match call {
            Call::Isend {
                to,
                tag,
                payload,
                synchronous,
            } => self.send((*to, *tag, *synchronous), payload, ways, rng),
            Call::Irecv { from, room_bytes } => {
                Answer::Posted(self.post(Some(*from), *room_bytes, true))
            }
            Call::Imrecv(number) => {
                let message = self.taken[number.0 as usize].take()?;
                let posted = self.post(None, message.payload.len(), true);
                self.give(self.requests.len() - 1, message, false);
                Answer::Posted(posted)
            }
            Call::Recv { .. } => {
                let latest = self.requests.last()?;
                latest.done.as_ref()?;
                Answer::Ended(vec![self.take(self.requests.len() - 1)])
            }
            Call::Wait(number) => self.wait_all(&[*number])?,
            Call::WaitAll(numbers) => self.wait_all(numbers)?,
            Call::Test(number) => Answer::Ended(self.done_or_nothing(&[*number], 1)),
            Call::WaitAny(numbers) => self.some_done(numbers, 1)?,
            Call::WaitSome(numbers) => self.some_done(numbers, usize::MAX)?,
            Call::TestAny(numbers) => Answer::Ended(self.done_or_nothing(numbers, 1)),
            Call::TestSome(numbers) => Answer::Ended(self.done_or_nothing(numbers, usize::MAX)),
            Call::TestAll(numbers) => {
                if !numbers.iter().all(|number| self.is_done(*number)) {
                    self.recorder.nothing(self.clock);
                    return Some(Answer::Ended(Vec::new()));
                }
                Answer::Ended(self.done_or_nothing(numbers, usize::MAX))
            }
            Call::Probe(from) => Answer::Found(Some(self.find(from)?.1)),
            Call::Iprobe(from) => {
                let found = self.find(from).map(|(_, found)| found);
                self.note_unless(found.is_some());
                Answer::Found(found)
            }
            Call::Mprobe(from) => {
                let (at, found) = self.find(from)?;
                self.take_out(Some((at, found)))
            }
            Call::Improbe(from) => {
                let found = self.find(from);
                self.note_unless(found.is_some());
                self.take_out(found)
            }
            Call::Cancel(number) => self.cancel(*number),
            Call::Number { lane } => {
                let number = rng.i64(..);
                self.recorder.number(self.clock, *lane, number);
                Answer::Number(number)
            }
            Call::Bytes { count } => {
                let bytes: Vec<u8> = (0..*count).map(|_| rng.u8(..)).collect();
                self.recorder.bytes(self.clock, &bytes);
                Answer::Bytes(bytes)
            }
            Call::Print(_) | Call::Checkpoint | Call::Finish => return None,
        })
    }

    fn note_unless(&mut self, has_found: bool) {
        if !has_found {
            self.recorder.nothing(self.clock);
        }
    }

    fn send(
        &mut self,
        (to, tag, synchronous): (Rank, i32, bool),
        payload: &[u8],
        ways: &mut [VecDeque<Message>],
        rng: &mut Rng,
    ) -> Answer {
        let is_at_once = !synchronous && rng.u32(0..4) > 0;
        let number = self.post(None, 0, false);
        let ended = Ended {
            request: number,
            peer: to,
            tag,
            bytes: payload.len() as u64,
            cancelled: false,
            payload: Vec::new(),
        };
        let request = self.requests.last_mut().expect("just posted");
        // A mark that it is not complete, and what it will end with.
        request.done = Some(ended);
        request.wants = (!is_at_once).then_some(From {
            source: None,
            tag: synchronous.then_some(0),
        });
        let ssn = &mut self.next_ssn[to.index()];
        ways[to.index()].push_back(Message {
            source: self.rank,
            ssn: Ssn(*ssn),
            tag,
            payload: payload.to_vec(),
            completes: synchronous.then_some(number),
        });
        *ssn += 1;
        Answer::Posted(number)
    }

    fn post(&mut self, wants: Option<From>, room_bytes: usize, is_receive: bool) -> RequestNumber {
        let number = RequestNumber(self.posts);
        self.posts += 1;
        self.requests.push(Request {
            number,
            posted_at: self.clock,
            wants,
            is_receive,
            room_bytes,
            done: None,
        });
        if let Some(from) = wants {
            let fits = |message: &Message| is_meant(&from, message.source, message.tag);
            if let Some(at) = self.unexpected.iter().position(fits) {
                let message = self.unexpected.remove(at);
                self.give(self.requests.len() - 1, message, from.source.is_none());
            }
        }
        number
    }

    /// Whether a receive took it.
    fn arrived(&mut self, message: Message) -> bool {
        let wants = |request: &Request| {
            request.is_receive
                && request
                    .wants
                    .is_some_and(|from| is_meant(&from, message.source, message.tag))
        };
        let Some(at) = self.requests.iter().position(wants) else {
            self.unexpected.push(message);
            return false;
        };
        let is_any = self.requests[at]
            .wants
            .is_some_and(|from| from.source.is_none());
        self.give(
            at,
            Message {
                completes: None,
                ..message
            },
            is_any,
        );
        true
    }

    fn give(&mut self, at: usize, message: Message, is_any: bool) {
        if let Some(number) = message.completes {
            self.late.push((message.source, number));
        }
        let request = &mut self.requests[at];
        request.wants = None;
        let received = message.payload.len().min(request.room_bytes);
        request.done = Some(Ended {
            request: request.number,
            peer: message.source,
            tag: message.tag,
            bytes: message.payload.len() as u64,
            cancelled: false,
            payload: message.payload[..received].to_vec(),
        });
        if is_any || self.is_classic {
            let matched = Matched {
                request: request.posted_at,
                source: message.source,
                ssn: message.ssn,
            };
            self.recorder.matched(self.clock, matched, !is_any);
        }
    }

    fn late_matches(&mut self) -> Vec<(Rank, RequestNumber)> {
        std::mem::take(&mut self.late)
    }

    /// A synchronous send was matched.
    fn sent(&mut self, number: RequestNumber) {
        if let Some(request) = self
            .requests
            .iter_mut()
            .find(|request| request.number == number)
        {
            request.wants = None;
        }
    }

    fn place(&self, number: RequestNumber) -> usize {
        let its = self
            .requests
            .iter()
            .position(|request| request.number == number);
        its.expect("a program names open requests only")
    }

    fn is_done(&self, number: RequestNumber) -> bool {
        let request = &self.requests[self.place(number)];
        request.done.is_some() && request.wants.is_none()
    }

    fn take(&mut self, at: usize) -> Ended {
        self.requests.remove(at).done.expect("it is done")
    }

    fn wait_all(&mut self, numbers: &[RequestNumber]) -> Option<Answer> {
        if !numbers.iter().all(|number| self.is_done(*number)) {
            return None;
        }
        let take = |number: &RequestNumber| self.take(self.place(*number));
        Some(Answer::Ended(numbers.iter().map(take).collect()))
    }

    fn some_done(&mut self, numbers: &[RequestNumber], most: usize) -> Option<Answer> {
        let has_any = numbers.iter().any(|number| self.is_done(*number));
        has_any.then(|| Answer::Ended(self.done_or_nothing(numbers, most)))
    }

    fn done_or_nothing(&mut self, numbers: &[RequestNumber], most: usize) -> Vec<Ended> {
        let done = numbers
            .iter()
            .copied()
            .filter(|number| self.is_done(*number));
        let done: Vec<RequestNumber> = done.take(most).collect();
        let posted = done
            .iter()
            .map(|number| self.requests[self.place(*number)].posted_at);
        let posted: Vec<Clock> = posted.collect();
        self.recorder.completed(self.clock, &posted);
        let take = |number: &RequestNumber| self.take(self.place(*number));
        done.iter().map(take).collect()
    }

    fn find(&mut self, from: &From) -> Option<(usize, Found)> {
        let fits = |message: &Message| is_meant(from, message.source, message.tag);
        let at = self.unexpected.iter().position(fits)?;
        let message = &self.unexpected[at];
        let found = Found {
            source: message.source,
            tag: message.tag,
            bytes: message.payload.len() as u64,
        };
        self.recorder.probed(
            self.clock,
            found.source,
            message.ssn,
            found.tag,
            found.bytes,
        );
        Some((at, found))
    }

    fn take_out(&mut self, found: Option<(usize, Found)>) -> Answer {
        Answer::Taken(found.map(|(at, found)| {
            let number = TakenNumber(self.taken.len() as u32);
            self.taken.push(Some(self.unexpected.remove(at)));
            (number, found)
        }))
    }

    fn cancel(&mut self, number: RequestNumber) -> Answer {
        let at = self.place(number);
        let request = &mut self.requests[at];
        if request.wants.take().is_none() {
            self.recorder.nothing(self.clock);
        } else {
            request.done = Some(Ended {
                request: number,
                peer: self.rank,
                tag: 0,
                bytes: 0,
                cancelled: true,
                payload: Vec::new(),
            });
            self.recorder.cancelled(self.clock, request.posted_at);
        }
        Answer::Done
    }
}

fn is_meant(from: &From, source: Rank, tag: i32) -> bool {
    from.source.is_none_or(|named| named == source) && from.tag.is_none_or(|named| named == tag)
}
