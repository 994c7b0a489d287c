//! Collectives: results, contexts, and the steps on the network.
//!
//! A member's result is the plain one of the contributions of all members, and it does not end before
//! those that it depends on have been given; so it is the same in all lives, and at all members
//! that get the same. A later life gives what earlier ones have given, as soon as a step of theirs has
//! left. Groups with other members have other contexts (COLL-3).
//!
//! A step that has left a rank is sent again by later lives with the same SSN and the same bytes
//! (STREAM-1 to STREAM-4). A collective has one stream of its rank, and no other that begins before
//! the program has seen its end has the same one (STREAM-2). A step that has left completely can be
//! read back from its sender's log as long as a checkpoint of the receiver may need it (LOG-1, LOG-4).

use super::rule::{Oracle, Witness};
use crate::collective::{Collective, Contributions};
use crate::happening::{Happening, Life};
use crate::plan::Process;
use crate::program::{Answer, Call, Ended};
use refrain_ring::{Clock, Rank, RecordHeader, RecordKind, Ssn, Stream};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Collectives {
    contributions: Contributions,
    /// By context.
    members: BTreeMap<u32, Arc<[Rank]>>,
    /// By rank and number in the plan: the call of the newest life that made it.
    begun: BTreeMap<(Rank, u32), Begun>,
    /// By rank, context and number in the group: the number in the plan.
    names: BTreeMap<(Rank, u32, i32), u32>,
    /// By sender, receiver and number in the plan: the steps that have left, in order.
    steps: BTreeMap<(Rank, Rank, u32), Vec<Step>>,
    /// By sender, receiver and SSN of a step: the number in the plan.
    ssns: BTreeMap<(Rank, Rank, Ssn), u32>,
}

#[derive(Debug)]
struct Begun {
    call: Rc<Collective>,
    at: Clock,
    /// When the program saw the end.
    ended: Option<Clock>,
    /// The stream of the steps that have left in the present life.
    stream: Option<Stream>,
}

/// A message of a collective.
#[derive(Debug)]
struct Step {
    ssn: Ssn,
    /// The bytes that have left.
    bytes: Vec<u8>,
    extent: u64,
}

impl Collectives {
    /// The contributions of all members.
    pub fn contributions(&self) -> &Contributions {
        &self.contributions
    }

    /// Whether this message of an internal stream has left its sender.
    pub fn has_left(&self, from: Rank, to: Rank, ssn: Ssn) -> bool {
        self.ssns.contains_key(&(from, to, ssn))
    }

    /// Judges the steps in what the real readers returned from a log. `is_needed`: whether a restart
    /// of the receiver may need the steps of this collective.
    ///
    /// # Errors
    /// When a step is missing or differs. LOG-1, LOG-4
    pub fn read_back(
        &self,
        (sender, receiver): (Rank, Rank),
        is_needed: impl Fn(u32) -> bool,
        messages: &BTreeMap<Ssn, Vec<u8>>,
    ) -> Result<(), String> {
        let all = (sender, receiver, 0)..=(sender, receiver, u32::MAX);
        for ((.., id), steps) in self.steps.range(all) {
            for step in steps {
                let is_whole = step.bytes.len() as u64 == step.extent;
                let wrong = match messages.get(&step.ssn) {
                    None if is_whole && is_needed(*id) => "has left, and cannot be read back",
                    Some(bytes) if !bytes.starts_with(&step.bytes) => "is not what was sent",
                    _ => continue,
                };
                return Err(format!(
                    "message {} in the log of {sender} to {receiver}, a step of collective {id}: it {wrong}",
                    step.ssn
                ));
            }
        }
        Ok(())
    }

    /// A life begins or ends: which of its collectives have a stream is not known yet.
    fn began(&mut self, rank: Rank) {
        let its = self.begun.range_mut((rank, 0)..=(rank, u32::MAX));
        its.for_each(|(_, begun)| begun.stream = None);
    }

    fn called(&mut self, life: Life, at: Clock, call: &Rc<Collective>) -> Result<(), String> {
        let (rank, id) = (life.rank, call.id);
        let members = self.members.entry(call.context);
        let members = members.or_insert_with(|| Arc::clone(&call.members));
        if *members != call.members {
            let context = call.context;
            return Err(format!("{life}: context {context} is that of two groups"));
        }
        let before = self.contributions.of(id, call.part.me);
        let has_left = call
            .members
            .iter()
            .any(|to| self.steps.contains_key(&(rank, *to, id)));
        if has_left && before != Some(&call.input) {
            return Err(format!(
                "{life} gives something else to collective {id} than the life before"
            ));
        }
        self.contributions.set(call);
        self.names.insert((rank, call.context, call.number), id);
        let begun = Begun {
            call: Rc::clone(call),
            at,
            ended: None,
            stream: None,
        };
        self.begun.insert((rank, id), begun);
        Ok(())
    }

    fn posted(
        &mut self,
        life: Life,
        to: Rank,
        header: &RecordHeader,
        payload: &[u8],
    ) -> Result<(), String> {
        let (rank, ssn) = (life.rank, header.ssn);
        let known = self.ssns.get(&(rank, to, ssn)).copied();
        let name = (rank, header.context, header.tag);
        let is_first = header.kind != RecordKind::Fragment;
        let id = match is_first {
            true => self.names.get(&name).copied(),
            false => known,
        };
        let id = id.ok_or("it belongs to no collective")?;
        if known.is_some_and(|known| known != id) {
            return Err(format!("collective {id} has the SSN of another one's step"));
        }
        let steps = self.steps.entry((rank, to, id)).or_default();
        let follows = steps.last().is_none_or(|last| last.ssn.next() == ssn);
        let at = steps.iter().position(|step| step.ssn == ssn);
        let step = match at {
            Some(at) => &mut steps[at],
            None if follows => {
                steps.push(Step {
                    ssn,
                    bytes: Vec::new(),
                    extent: header.extent,
                });
                self.ssns.insert((rank, to, ssn), id);
                steps.last_mut().ok_or("no step")?
            }
            None => {
                return Err(format!(
                    "a step of collective {id} has another SSN than before"
                ));
            }
        };
        if is_first && step.extent != header.extent {
            return Err(format!(
                "a step of collective {id} has another length than before"
            ));
        }
        let start = if is_first { 0 } else { header.extent as usize };
        let known = step.bytes.get(start..).unwrap_or_default();
        let both = known.len().min(payload.len());
        if known[..both] != payload[..both] {
            return Err(format!(
                "a step of collective {id} has other bytes than before"
            ));
        }
        if step.bytes.len() == start + both {
            step.bytes.extend_from_slice(&payload[both..]);
        }
        self.judge_stream(life, id, ssn.stream())
    }

    /// No two collectives have one stream at the same time.
    fn judge_stream(&mut self, life: Life, id: u32, stream: Stream) -> Result<(), String> {
        let rank = life.rank;
        let Some(begun) = self.begun.get_mut(&(rank, id)) else {
            return Ok(());
        };
        if begun.stream.replace(stream) == Some(stream) {
            return Ok(());
        }
        let is_before = |one: &Begun, other: &Begun| one.ended.is_some_and(|end| end < other.at);
        let begun = &self.begun[&(rank, id)];
        let its = self.begun.range((rank, 0)..=(rank, u32::MAX));
        let mut others = its.filter(|((_, other), it)| *other != id && it.stream == Some(stream));
        match others.find(|(_, other)| !is_before(begun, other) && !is_before(other, begun)) {
            Some(((_, other), _)) => Err(format!(
                "collectives {id} and {other} have stream {stream} of {life} at the same time"
            )),
            None => Ok(()),
        }
    }

    fn ended(&mut self, life: Life, at: Clock, id: u32, ended: &Ended) -> Result<(), String> {
        let Some(begun) = self.begun.get_mut(&(life.rank, id)) else {
            return Err(format!("{life}: collective {id} ends, and has not begun"));
        };
        begun.ended = Some(at);
        let part = begun.call.part;
        match self.contributions.result(&begun.call) {
            None => Err(format!(
                "{life}: collective {id} ends before all have given what it needs: {part:?}"
            )),
            Some(result) if result == ended.payload => Ok(()),
            Some(result) => Err(format!(
                "{life}: collective {id} gives {:?} instead of {result:?}: {part:?}",
                ended.payload
            )),
        }
    }
}

impl Oracle for Collectives {
    fn name(&self) -> &'static str {
        "collective"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        match happening {
            Happening::Began(Life { rank, .. }) | Happening::Died(Process::Rank(rank)) => {
                self.began(*rank);
            }
            Happening::Called(life, ..)
            | Happening::Answered(life, ..)
            | Happening::Posted(life, ..)
                if !world.is_present(*life) => {}
            Happening::Called(life, at, Call::Collective(call)) => {
                return self.called(*life, *at, call);
            }
            Happening::Posted(.., header, _) if header.ssn.stream() == Stream::RESULTS => {}
            Happening::Posted(from, to, header, payload) if !header.ssn.is_program() => {
                let judged = self.posted(*from, *to, header, payload);
                return judged
                    .map_err(|what| format!("a frame of {from} to {to}: {what} ({header:?})"));
            }
            Happening::Answered(life, at, Answer::Ended(all)) => {
                for ended in all {
                    if let Some(id) = ended.collective {
                        self.ended(*life, *at, id, ended)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
