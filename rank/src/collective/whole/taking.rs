//! Results that stand for the messages of a collective in a later life. WHOLE-5

use super::group::{Name, names, owner_tag};
use super::{News, Whole};
use crate::collective::sharing::Sharing;
use crate::collective::{Collective, CollectiveError, Plan, UnderWay};
use refrain_collectives::Results;
use refrain_ring::{Rank, Ssn};
use refrain_transport::control::Report;
use refrain_transport::engine::{Engine, InternalOperation, ResultPart};
use refrain_transport::protocol::Protocol;
use std::collections::BTreeMap;

/// The messages of a collective that begins in a later life, and the results that stand for them.
#[derive(Debug)]
pub(in crate::collective) struct Taking {
    /// By receiver: the first message behind those of the collective.
    sends: Vec<(Rank, Ssn)>,
    /// The rank waits in this collective, or has waited.
    has_waited: bool,
    has_asked: bool,
    /// The other members that keep one of the results.
    keepers: Vec<Rank>,
    /// All others.
    others: Vec<Rank>,
    has_asked_others: bool,
    /// The keepers were asked twice: one may have got a result from another that has died since.
    has_asked_again: bool,
    /// How far others are.
    answers: BTreeMap<Rank, Report>,
    /// The results that this member gets or keeps; its own is the first one.
    results: Vec<Taken>,
}

/// A result that is given to this rank.
#[derive(Debug)]
struct Taken {
    owner: Option<u32>,
    /// The other members that keep it.
    keepers: Vec<Rank>,
    bytes: u64,
    data: Vec<u8>,
    /// By giver: bytes that have come.
    come: BTreeMap<Rank, u64>,
    is_whole: bool,
}

/// Most bytes of results that are given ahead of their collectives.
const AHEAD_BYTES_MAX: usize = 4 << 20;

/// Parts of results, by the context and name of their collective.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    parts: BTreeMap<(u32, Name), Vec<ResultPart>>,
    bytes: usize,
}

impl Ahead {
    /// Takes in a part; those that are here are dropped if there are too many: they can be asked
    /// for.
    fn put(&mut self, part: &ResultPart, name: Name) {
        self.bytes += part.data.len();
        if self.bytes > AHEAD_BYTES_MAX {
            *self = Self::default();
            return;
        }
        let its = self.parts.entry((part.name.context, name)).or_default();
        its.push(part.clone());
    }

    /// The parts for a collective.
    pub fn take(&mut self, context: u32, name: Name) -> Vec<ResultPart> {
        let its = self.parts.remove(&(context, name)).unwrap_or_default();
        self.bytes -= its.iter().map(|part| part.data.len()).sum::<usize>();
        its
    }
}

impl Whole {
    pub(super) fn taking(
        &mut self,
        plan: &Plan,
        name: Option<Name>,
        operation: &InternalOperation,
        engine: &mut Engine<impl Protocol>,
    ) -> Option<Box<Taking>> {
        let group = &self.groups[&plan.context];
        let taken = |owner, bytes| Taken {
            owner,
            keepers: match owner {
                None => group.closers(self.failures).collect(),
                Some(place) => group.keepers(place, self.failures).collect(),
            },
            bytes,
            data: Vec::new(),
            come: BTreeMap::new(),
            // A place without a result gets none.
            is_whole: owner.is_some() && bytes == 0,
        };
        let element_bytes = plan.memory.element_bytes;
        let mut results = match plan.results(name)? {
            Results::Same(parts) => {
                let count: u64 = parts.iter().map(|part| part.count).sum();
                vec![taken(None, count * element_bytes)]
            }
            Results::Own(own) => {
                let shared = plan
                    .shares(name, self.failures)
                    .filter_map(|(_, from)| from);
                let mut results = vec![taken(Some(plan.me), own.count(plan.me) * element_bytes)];
                results.extend(shared.map(|(owner, bytes)| taken(Some(owner), bytes)));
                results
            }
        };
        let sends = plan.sends(name, self.failures).into_iter();
        let sends = sends.map(|(to, messages)| {
            let next = engine.next_of(operation, to);
            (to, Ssn(next.0 + messages))
        });
        results
            .iter_mut()
            .for_each(|it| it.keepers.retain(|keeper| *keeper != self.rank));
        let members = group.members.iter().copied();
        let (keepers, others): (Vec<Rank>, Vec<Rank>) = members
            .filter(|member| *member != self.rank)
            .partition(|member| results.iter().any(|it| it.keepers.contains(member)));
        let mut taking = Taking {
            has_waited: false,
            has_asked: false,
            sends: sends.collect(),
            others,
            has_asked_others: false,
            has_asked_again: false,
            keepers,
            answers: BTreeMap::new(),
            results,
        };
        let parts = name.map(|name| self.ahead.take(plan.context, name));
        parts.iter().flatten().for_each(|part| taking.take(part));
        Some(Box::new(taking))
    }

    /// Asks for the results of a closed collective; a rank that is not connected is asked when it is
    /// back.
    fn ask(&self, to: Rank, (context, name): (u32, Name), engine: &mut Engine<impl Protocol>) {
        // It may not know that the collective is closed.
        let known = self.groups.get(&context).map(|group| group.known_closed);
        for closed in known.into_iter().flat_map(names) {
            engine.report(to, Report::Closed, (context, closed.0));
        }
        engine.report(to, Report::Ask, (context, name.0));
    }

    /// Keeps a part of a result whose collective has not begun.
    fn keep_ahead(&mut self, part: &ResultPart, name: Name) {
        let group = self.groups.get(&part.name.context);
        let is_over = group.is_some_and(|group| group.has_finished(name));
        if self.is_later_life && !is_over {
            self.ahead.put(part, name);
        }
    }

    /// Whether all members have finished a collective, in some life.
    pub(in crate::collective) fn is_closed(&self, (context, name): (u32, Name)) -> bool {
        let group = self.groups.get(&context);
        self.all_are_closed || group.is_some_and(|group| name.is_before(&group.known_closed))
    }

    /// Whether messages of a collective are gone: then only its result is left.
    fn is_gone(&self, (context, name): (u32, Name)) -> bool {
        let group = self.groups.get(&context);
        group.is_some_and(|group| name.is_before(&group.gone))
    }
}

impl UnderWay {
    /// Handles what concerns results: of other ranks, and of collectives that a later life is in.
    pub(in crate::collective) fn attend(
        &mut self,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<(), CollectiveError> {
        let Some(whole) = &mut self.whole else {
            return Ok(());
        };
        // A result may be here while payload still lands for a step.
        let running = self.running.iter().map(|it| &it.taking);
        let mut takings = running.chain(self.sharing.iter().map(|it| &it.taking));
        let is_any_taken = takings.any(|it| it.as_ref().is_some_and(|it| it.is_whole()));
        if whole.is_calm(engine) && !is_any_taken {
            return Ok(());
        }
        let news = whole.attend(engine)?;
        if news.is_none() && !is_any_taken {
            return Ok(());
        }
        for part in &news.parts {
            let its = (part.name.context, Name(part.name.collective));
            let is_its = |context, name| (context, name) == (its.0, Some(its.1));
            let is_running = |it: &Collective| is_its(it.plan.context, it.name);
            let is_sharing = |it: &Sharing| is_its(it.context, Some(it.name));
            if !self.running.iter().any(is_running) && !self.sharing.iter().any(is_sharing) {
                whole.keep_ahead(part, its.1);
            }
        }
        for collective in &mut self.running {
            let (context, number) = (collective.plan.context, collective.number);
            if let (Some(name), Some(taking)) = (collective.name, &mut collective.taking) {
                taking.attend((context, name, number), &news, whole, engine)?;
                collective.take_results_if_whole(whole, engine);
            }
        }
        for sharing in &mut self.sharing {
            let of = (sharing.context, sharing.name, sharing.number);
            if let Some(taking) = &mut sharing.taking {
                taking.attend(of, &news, whole, engine)?;
                sharing.take_results_if_whole(whole, engine);
            }
        }
        Ok(())
    }
}

impl Taking {
    /// Handles news: asks, and takes in what comes.
    fn attend(
        &mut self,
        (context, name, number): (u32, Name, i32),
        news: &News,
        whole: &mut Whole,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<(), CollectiveError> {
        let of_it = (context, name);
        self.has_waited |= news.has_waited;
        for peer in &news.met {
            self.answers.remove(peer);
        }
        // Messages of other collectives come.
        if self.has_waited && whole.is_closed(of_it) {
            let had_asked = core::mem::replace(&mut self.has_asked, true);
            let keepers = self.keepers.iter();
            for to in keepers.filter(|to| !had_asked || news.met.contains(to)) {
                whole.ask(*to, of_it, engine);
            }
        }
        let its = news.answers.iter().filter(|it| it.2 == of_it);
        self.answers
            .extend(its.map(|(from, report, _)| (*from, *report)));
        let is_kept = !whole.is_gone(of_it) || self.are_kept();
        let had_asked = core::mem::replace(&mut self.has_asked_others, !is_kept);
        if !is_kept {
            let others = self.others.iter();
            for to in others.filter(|to| !had_asked || news.met.contains(to)) {
                whole.ask(*to, of_it, engine);
            }
            let is_past = self.answers.values().any(|it| *it == Report::Past);
            if is_past && !core::mem::replace(&mut self.has_asked_again, true) {
                self.answers.retain(|_, it| *it != Report::Behind);
                for to in &self.keepers {
                    whole.ask(*to, of_it, engine);
                }
            } else if is_past {
                return Err(CollectiveError::ResultLost {
                    number,
                    context,
                    failures: whole.failures,
                });
            }
        }
        let its = |part: &&ResultPart| (part.name.context, Name(part.name.collective)) == of_it;
        (news.parts.iter().filter(its)).for_each(|part| self.take(part));
        Ok(())
    }

    /// Whether all results are here.
    pub(in crate::collective) fn is_whole(&self) -> bool {
        self.results.iter().all(|it| it.is_whole)
    }

    /// Takes in a part.
    fn take(&mut self, part: &ResultPart) {
        let is_its = |it: &&mut Taken| owner_tag(it.owner) == part.name.owner;
        let its = self.results.iter_mut().find(is_its);
        if let Some(taken) = its.filter(|it| it.bytes == part.result_bytes) {
            taken.data.resize(taken.bytes as usize, 0);
            let come = taken.come.entry(part.source).or_insert(0);
            if part.offset == 0 {
                *come = 0;
            }
            let (begin, end) = (part.offset as usize, part.offset as usize + part.data.len());
            if part.offset == *come && end <= taken.data.len() {
                taken.data[begin..end].copy_from_slice(&part.data);
                *come = end as u64;
                taken.is_whole |= end == taken.data.len();
            }
        }
    }

    /// Whether each result that has not come has a keeper that is not behind. Otherwise members exchange
    /// messages again, unless a member that has finished the collective has freed its own. WHOLE-5
    fn are_kept(&self) -> bool {
        let is_behind = |it: &Rank| self.answers.get(it) == Some(&Report::Behind);
        let mut missing = self.results.iter().filter(|it| !it.is_whole);
        missing.all(|it| !it.keepers.iter().all(is_behind))
    }

    /// The results with their owners; the first one is that of this member.
    pub(in crate::collective) fn into_results(
        self,
    ) -> impl Iterator<Item = (Option<u32>, Box<[u8]>)> {
        let results = self.results.into_iter();
        results.map(|taken| (taken.owner, taken.data.into()))
    }

    /// Leaves out the messages.
    pub(in crate::collective) fn skip(&self, engine: &mut Engine<impl Protocol>) {
        for (to, until) in &self.sends {
            engine.skip_sends(*to, *until);
        }
    }
}
