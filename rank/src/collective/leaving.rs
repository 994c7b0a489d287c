//! The last part of a collective whose results are kept: places that have results of their own give
//! them to their neighbours, and those that keep results write them into their logs. WHOLE-1, WHOLE-2

#![allow(
    unsafe_code,
    reason = "works on the caller's memory while the collective is under way"
)]

use super::comparing::Check;
use super::whole::{Name, Taking, Whole};
use super::{Collective, CollectiveError, Plan};
use refrain_collectives::{Action, Buffer, OwnResults, Part, Results};
use refrain_ring::Rank;
use refrain_transport::engine::{
    Engine, EngineError, ReceiveBuffer, RequestId, SendBuffer, SendTo, Started,
};
use refrain_transport::matching::Envelope;
use refrain_transport::protocol::Protocol;
use std::collections::{BTreeMap, VecDeque};

/// The results of a collective whose steps are complete.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Gives this place's result to neighbours.
    sends: Vec<RequestId>,
    /// The results of neighbours. The call does not wait for them.
    pub(super) incoming: VecDeque<Incoming>,
    /// What the results in `to_keep` consist of, unless it is the caller's memory.
    memory: Vec<Box<[u8]>>,
    /// Each with its owner, if it is not the same at all places.
    to_keep: VecDeque<(Option<u32>, SendBuffer)>,
    /// Bytes of the first one that are kept.
    kept_bytes: Option<u64>,
}

/// The result of a neighbour.
#[derive(Debug)]
pub(super) struct Incoming {
    pub owner: u32,
    pub request: RequestId,
    /// Where it arrives.
    pub bytes: Box<[u8]>,
}

impl Plan {
    /// The results that stand for the messages, if they are kept.
    pub(super) fn results(&self, name: Option<Name>) -> Option<&Results> {
        let has_others = self.members.len() > 1;
        name.and(self.chosen.results.as_ref())
            .filter(|_| has_others)
    }

    /// The number of messages that this member sends to each other one.
    pub(super) fn sends(&self, name: Option<Name>, failures: u32) -> BTreeMap<Rank, u64> {
        let mut sends = BTreeMap::new();
        let size = self.members.len() as u32;
        let mut add = |place: u32| {
            *sends.entry(self.members[place as usize]).or_insert(0) += 1;
        };
        for step in self.chosen.schedule.steps() {
            match step.action {
                Action::Send { to, .. } => add(to),
                Action::Publish { first, number, .. } => {
                    (first..first + number)
                        .filter(|place| *place != self.me)
                        .for_each(&mut add);
                }
                Action::Receive { .. }
                | Action::ReceiveReduce { .. }
                | Action::Reduce { .. }
                | Action::Copy { .. } => {}
            }
        }
        if self.check.is_some() && size > 1 {
            add((self.me + 1) % size);
        }
        let shares = self.shares(name, failures);
        shares.filter_map(|(to, _)| to).for_each(add);
        sends
    }

    /// The exchange of results that each place has for itself: at each distance the place to which
    /// this one's goes, and the place from which one comes, with its bytes.
    pub(super) fn shares(
        &self,
        name: Option<Name>,
        failures: u32,
    ) -> impl Iterator<Item = (Option<u32>, Option<(u32, u64)>)> {
        let own = match self.results(name) {
            Some(Results::Own(own)) => Some(own),
            _ => None,
        };
        let (size, me) = (self.members.len() as u32, self.me);
        let bytes = |own: &OwnResults, place| own.count(place) * self.memory.element_bytes;
        own.into_iter().flat_map(move |own| {
            (1..=failures.min(size - 1)).map(move |by| {
                let from = (me + size - by) % size;
                let to = (bytes(own, me) > 0).then_some((me + by) % size);
                let has_any = bytes(own, from) > 0;
                (to, has_any.then(|| (from, bytes(own, from))))
            })
        })
    }

    /// Bytes of the output: the work of keeping it.
    pub(super) fn result_bytes(&self) -> u64 {
        self.chosen.output_elements * self.memory.element_bytes
    }

    /// Whether this member keeps results that are the same at all places.
    pub(super) fn keeps_same(&self, whole: &Whole) -> bool {
        let own = self.members[self.me as usize];
        whole.is_closer(self.context, own)
    }
}

impl Leaving {
    /// The requests that are under way.
    pub fn requests(&self) -> impl Iterator<Item = &RequestId> {
        let incoming = self.incoming.iter().map(|it| &it.request);
        self.sends.iter().chain(incoming)
    }

    /// Keeps bytes of its own.
    pub fn keep_own(&mut self, owner: Option<u32>, bytes: Box<[u8]>) {
        // SAFETY: `memory` holds the bytes as long as the buffer is in `to_keep`.
        let buffer = unsafe { SendBuffer::bytes(bytes.as_ptr(), bytes.len()) };
        self.memory.push(bytes);
        self.to_keep.push_back((owner, buffer));
    }

    /// Keeps what is here. Returns whether all of it is kept.
    pub fn keep(
        &mut self,
        (context, name): (u32, Name),
        whole: &mut Whole,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<bool, CollectiveError> {
        while let Some((owner, result)) = self.to_keep.front() {
            let of = name.of_result(context, *owner);
            let Some(ssn) = engine.keep_result(of, result, &mut self.kept_bytes)? else {
                return Ok(false);
            };
            whole.has_kept((context, name, *owner), ssn, result.message_bytes());
            self.kept_bytes = None;
            self.to_keep.pop_front();
        }
        Ok(true)
    }

    /// Whether a part of a result is kept.
    pub fn keeps_in_part(&self) -> bool {
        self.kept_bytes.is_some()
    }
}

impl Collective {
    /// Whether a part of a result is kept.
    pub(super) fn keeps_in_part(&self) -> bool {
        let others = self.leaving.as_ref();
        self.kept_bytes.is_some() || others.is_some_and(|it| it.keeps_in_part())
    }

    /// Keeps the results that belong to this rank. Returns whether the call is over.
    pub(super) fn leaves_results(
        &mut self,
        whole: &mut Whole,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<bool, CollectiveError> {
        if self.leaving.is_none() {
            let mut leaving = Leaving::default();
            match self.plan.results(self.name) {
                None => return Ok(true),
                Some(Results::Same(_)) if !self.plan.keeps_same(whole) => return Ok(true),
                Some(Results::Same(parts)) => match parts[..] {
                    [part] if part.count > 0 => return self.keeps_piece(part, whole, engine),
                    _ => self.keep_pieces(&mut leaving),
                },
                Some(Results::Own(own)) => {
                    let result = Buffer::Output.first(own.count(self.plan.me));
                    self.share(result, whole.failures, &mut leaving, engine)?;
                }
            }
            self.leaving = Some(Box::new(leaving));
        }
        let (Some(leaving), Some(name)) = (&mut self.leaving, self.name) else {
            return Ok(true);
        };
        (leaving.sends).retain(|request| engine.end_step(*request).is_none());
        let is_kept = leaving.keep((self.plan.context, name), whole, engine)?;
        Ok(is_kept && leaving.sends.is_empty())
    }

    /// Keeps a result that is the same at all places and in one piece: nothing else is to be done.
    /// Returns whether it is kept.
    fn keeps_piece(
        &mut self,
        part: Part,
        whole: &mut Whole,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<bool, CollectiveError> {
        let (context, Some(name)) = (self.plan.context, self.name) else {
            return Ok(true);
        };
        // SAFETY: the output, which stays until the collective is complete; no step is left that
        // writes to it.
        let result = unsafe { self.data(part) };
        let of = name.of_result(context, None);
        let Some(ssn) = engine.keep_result(of, &result, &mut self.kept_bytes)? else {
            return Ok(false);
        };
        self.kept_bytes = None;
        whole.has_kept((context, name, None), ssn, result.message_bytes());
        Ok(true)
    }

    fn keep_pieces(&mut self, leaving: &mut Leaving) {
        let Some(Results::Same(parts)) = self.plan.results(self.name) else {
            return;
        };
        let parts = parts.clone();
        let mut bytes = Vec::new();
        for part in parts.into_iter().filter(|part| part.count > 0) {
            let start = bytes.len();
            bytes.resize(start + self.bytes(part), 0);
            // SAFETY: as above, and memory of this function.
            unsafe {
                let room = ReceiveBuffer::bytes(bytes[start..].as_mut_ptr(), bytes.len() - start);
                self.data(part).copy_to(&room);
            }
        }
        leaving.keep_own(None, bytes.into());
    }

    /// Gives this place's result to neighbours, and receives theirs.
    fn share(
        &mut self,
        result: Part,
        failures: u32,
        leaving: &mut Leaving,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<(), EngineError> {
        let (context, tag) = (self.plan.context, self.number);
        let shares: Vec<_> = self.plan.shares(self.name, failures).collect();
        if result.count > 0 {
            // SAFETY: as for `keeps_piece`.
            let own = unsafe { self.data(result) };
            leaving.to_keep.push_back((Some(self.plan.me), own));
        }
        for (to, from) in shares {
            if let Some(to) = to {
                let to = SendTo {
                    rank: self.plan.members[to as usize],
                    context,
                    tag,
                    synchronous: false,
                };
                // SAFETY: as for `keeps_piece`; the collective waits for this send.
                let data = unsafe { self.data(result) };
                if let Started::Pending(request) =
                    engine.send_internal(&self.operation, data, to)?
                {
                    leaving.sends.push(request);
                }
            }
            if let Some((owner, bytes)) = from {
                let mut bytes = vec![0; bytes as usize].into_boxed_slice();
                // SAFETY: `incoming` holds the bytes until the request has ended or is given up.
                let room = unsafe { ReceiveBuffer::bytes(bytes.as_mut_ptr(), bytes.len()) };
                let from = Envelope {
                    source: self.plan.members[owner as usize],
                    context,
                    tag,
                };
                let request = engine.receive_internal(&self.operation, room, from);
                leaving.incoming.push_back(Incoming {
                    owner,
                    request,
                    bytes,
                });
            }
        }
        Ok(())
    }

    /// Ends the steps of a collective if all its results were given to this rank. WHOLE-5
    pub(super) fn take_results_if_whole(
        &mut self,
        whole: &Whole,
        engine: &mut Engine<impl Protocol>,
    ) {
        // Once the steps are complete nothing is left but to keep what is here.
        let is_leaving = self.leaving.is_some() || self.kept_bytes.is_some();
        let of = self.name.map(|name| (self.plan.context, name));
        if is_leaving || !of.is_some_and(|of| whole.is_closed(of)) {
            return;
        }
        let has_all = (self.taking.as_ref()).is_some_and(|taking| taking.is_whole());
        if has_all
            && !self.under_way().any(|step| engine.is_landing(step))
            && let Some(taking) = self.taking.take()
        {
            self.take_results(*taking, whole, engine);
        }
    }

    fn take_results(&mut self, taking: Taking, whole: &Whole, engine: &mut Engine<impl Protocol>) {
        let under_way: Vec<RequestId> = self.under_way().collect();
        under_way
            .into_iter()
            .for_each(|request| engine.drop_step(request));
        taking.skip(engine);
        self.check = Check::Done;
        self.waiting.clear();
        self.mismatch = None;
        self.next = self.plan.chosen.schedule.steps().len();
        let mut leaving = Leaving::default();
        let mut results = taking.into_results();
        if let Some((owner, result)) = results.next() {
            self.put_result(&result);
            let is_kept = owner.is_some() && !result.is_empty();
            if is_kept || owner.is_none() && self.plan.keeps_same(whole) {
                leaving.keep_own(owner, result);
            }
        }
        for (owner, result) in results {
            leaving.keep_own(owner, result);
        }
        self.leaving = Some(Box::new(leaving));
    }

    /// Writes a result into the output.
    fn put_result(&mut self, result: &[u8]) {
        let parts = match self.plan.results(self.name) {
            Some(Results::Same(parts)) => parts.clone(),
            Some(Results::Own(own)) => vec![Buffer::Output.first(own.count(self.plan.me))],
            None => return,
        };
        let mut rest = result;
        for part in parts.into_iter().filter(|part| part.count > 0) {
            let Some((data, behind)) = rest.split_at_checked(self.bytes(part)) else {
                return;
            };
            rest = behind;
            // SAFETY: the output, which stays until the collective is complete; no step writes to
            // it any more.
            unsafe {
                let data = SendBuffer::bytes(data.as_ptr(), data.len());
                data.copy_to(&self.room(part));
            }
        }
    }
}
