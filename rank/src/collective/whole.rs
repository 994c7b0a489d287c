//! Keeps the results of collectives instead of the messages inside them (`--collectives whole`).
//! WHOLE-1 to WHOLE-5, docs/design/whole-collectives.md
//!
//! A member that has finished a collective tells the *closers* of its group so. When all members
//! have, a closer *closes* the collective, and tells the members. The messages of a collective that
//! all closers have closed are freed. A later life that waits inside a collective asks those that
//! keep its result; they give it once the collective is closed.

mod closing;
mod giving;
mod group;
mod taking;

use super::{Collective, CollectiveError, Plan};
use giving::Giving;
pub use group::Name;
use group::{Group, Until, names};
use refrain_collectives::Chosen;
use refrain_ring::{Rank, Ssn};
use refrain_transport::control::Report;
use refrain_transport::engine::{Engine, InternalOperation, ResultPart};
use refrain_transport::protocol::Protocol;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use taking::Ahead;
pub(super) use taking::Taking;

/// Polls before a rank that waits tells what it has finished, and a later
/// life asks for results.
const POLLS_MAX: u32 = 16;
/// Collectives, and 4 KiB of results, before a member tells that it has finished them.
const UNTOLD_MAX: u64 = 32;

/// Collectives of a later life before it drops messages that come too late.
const UNTIDY_MAX: u32 = 64;

/// A result that this rank keeps, of a collective of this group. `owner`: the place whose result it
/// is; `None`: it is the same at all places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Key {
    context: u32,
    name: Name,
    owner: Option<u32>,
}

/// Messages of a collective to one rank.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sent {
    context: u32,
    /// `None`: it has no result that is kept, and no closing frees its messages.
    name: Option<Name>,
    /// The first message behind them.
    until: u64,
}

/// What a checkpoint holds of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct GroupPart {
    members: Arc<[Rank]>,
    me: u32,
    finished: Until,
    closed: Until,
    gone: Until,
}

/// The part of a checkpoint. LOG-5
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WholePart {
    groups: Vec<(u32, GroupPart)>,
    sent: Vec<((Rank, u16), Vec<Sent>)>,
    /// With SSN and bytes.
    kept: Vec<(Key, u64, u64)>,
}

/// A rank has asked for the results of a collective of this group.
#[derive(Clone, Copy, Debug)]
struct Asked {
    by: Rank,
    context: u32,
    name: Name,
    /// It knows that this rank has not finished the collective either.
    knows_behind: bool,
}

/// The ranks to which a collective sends messages.
#[derive(Debug)]
struct Receivers {
    chosen: Arc<Chosen>,
    members: Arc<[Rank]>,
    is_named: bool,
    is_checked: bool,
    ranks: Vec<Rank>,
}

/// What a checkpoint covers: of each group, the collectives before these. LOG-4
#[derive(Clone, Debug)]
pub struct Covers(Vec<(u32, Until)>);

/// What a rank knows of collectives whose results are kept.
#[derive(Debug)]
pub struct Whole {
    rank: Rank,
    pub(super) failures: u32,
    is_later_life: bool,
    /// All ranks have finished all collectives of the job, in some life.
    all_are_closed: bool,
    groups: BTreeMap<u32, Group>,
    /// By receiver and stream, in the order of messages.
    sent: BTreeMap<(Rank, u16), VecDeque<Sent>>,
    /// Of the last collective.
    receivers: Option<Receivers>,
    /// In the order of the log, with the bytes of each.
    kept: VecDeque<(Key, Ssn, u64)>,
    /// The same by key, while others ask.
    index: Option<BTreeMap<Key, (Ssn, u64)>>,
    /// Parts of results that were given to this rank before it has begun their collectives.
    ahead: Ahead,
    asked: Vec<Asked>,
    giving: Vec<Giving>,
    /// Polls since a collective has begun or ended.
    polls: u32,
    /// Collectives since messages of those whose results were given to this rank were dropped; they
    /// may arrive at any time.
    untidy: u32,
    /// Whether the logs of a checkpoint are being saved.
    is_saving: bool,
}

impl Whole {
    /// For `rank`; the results survive as many failures at a time. `part`: of the checkpoint with
    /// which a later life begins.
    pub fn new(rank: Rank, failures: u32, is_later_life: bool, part: WholePart) -> Self {
        let group = |(context, part): (u32, GroupPart)| {
            let group = Group {
                members: part.members,
                me: part.me,
                finished: part.finished,
                known_closed: part.closed,
                gone: part.gone,
                ..Group::default()
            };
            (context, group)
        };
        let kept = part.kept.iter();
        let sent = part.sent.into_iter();
        Self {
            rank,
            failures,
            is_later_life,
            all_are_closed: false,
            groups: part.groups.into_iter().map(group).collect(),
            sent: sent.map(|(to, all)| (to, all.into())).collect(),
            kept: kept
                .map(|(key, ssn, bytes)| (*key, Ssn(*ssn), *bytes))
                .collect(),
            index: None,
            receivers: None,
            ahead: Ahead::default(),
            asked: Vec::new(),
            giving: Vec::new(),
            polls: 0,
            untidy: 0,
            is_saving: false,
        }
    }

    /// For a later life that begins after the last fence: no rank that has passed it says any more which
    /// collectives are closed, and all are. WHOLE-3
    #[must_use]
    pub fn with_all_closed(mut self) -> Self {
        self.all_are_closed = true;
        self
    }

    /// The part of a checkpoint that is taken now. No collective is under way. Until the logs of the
    /// checkpoint are [saved](Whole::saved), no messages are freed: they lack none that its part
    /// does not know to be gone.
    pub fn part(&mut self) -> WholePart {
        self.is_saving = true;
        let groups = self.groups.iter();
        let sent = self.sent.iter().filter(|(_, all)| !all.is_empty());
        WholePart {
            groups: groups
                .map(|(context, it)| {
                    let part = GroupPart {
                        members: Arc::clone(&it.members),
                        me: it.me,
                        finished: it.finished,
                        closed: it.known_closed,
                        gone: it.gone,
                    };
                    (*context, part)
                })
                .collect(),
            sent: sent
                .map(|(to, all)| (*to, all.iter().copied().collect()))
                .collect(),
            kept: self
                .kept
                .iter()
                .map(|(key, ssn, bytes)| (*key, ssn.0, *bytes))
                .collect(),
        }
    }

    /// The logs of the checkpoint are saved, or it is given up.
    pub fn saved(&mut self, engine: &mut Engine<impl Protocol>) {
        self.is_saving = false;
        self.free_gone(engine);
    }

    /// What a checkpoint covers that is taken now.
    pub fn covers(&self) -> Covers {
        let groups = self.groups.iter();
        Covers(
            groups
                .map(|(context, it)| (*context, it.finished))
                .collect(),
        )
    }

    /// Tells those that keep results for this rank that a stable checkpoint covers them. LOG-4
    pub fn publish(&mut self, covers: &Covers, engine: &mut Engine<impl Protocol>) {
        for (context, until) in &covers.0 {
            for name in names(*until) {
                self.tell_near(*context, Report::Covered, name, engine);
            }
        }
        self.free_results(engine);
    }

    /// Notes that this rank begins a collective. Of a later life: the messages that results may
    /// replace.
    pub(super) fn enter(
        &mut self,
        plan: &Plan,
        name: Option<Name>,
        operation: &InternalOperation,
        engine: &mut Engine<impl Protocol>,
    ) -> Option<Box<Taking>> {
        self.polls = 0;
        let group = self.groups.entry(plan.context).or_default();
        if group.members.is_empty() {
            group.members = Arc::clone(&plan.members);
            group.me = plan.me;
            self.spread_closed(plan.context, engine);
        }
        match self.is_later_life {
            true => self.taking(plan, name, operation, engine),
            false => None,
        }
    }

    /// Notes that a result is kept here.
    pub(super) fn has_kept(
        &mut self,
        (context, name, owner): (u32, Name, Option<u32>),
        ssn: Ssn,
        bytes: u64,
    ) {
        let key = Key {
            context,
            name,
            owner,
        };
        self.kept.push_back((key, ssn, bytes));
        self.index = None;
    }

    /// Notes that a collective is given up: what is kept of its results is not given to others.
    pub(super) fn give_up(&mut self, (context, name): (u32, Name)) {
        self.kept
            .retain(|(key, ..)| (key.context, key.name) != (context, name));
        self.index = None;
    }

    /// Notes that the call of a collective is over, which has sent all its messages.
    pub(super) fn end(&mut self, ended: &Collective, engine: &mut Engine<impl Protocol>) {
        let Collective {
            plan,
            name,
            operation,
            ..
        } = ended;
        let (context, name) = (plan.context, *name);
        self.polls = 0;
        if self.is_later_life {
            self.untidy += 1;
            if self.untidy >= UNTIDY_MAX {
                self.tidy(engine);
            }
        }
        let has_results = plan.results(name).is_some();
        self.find_receivers(plan, name);
        for to in self.receivers.iter().flat_map(|it| &it.ranks).copied() {
            let of = (to, operation.stream().0);
            self.sent.entry(of).or_default().push_back(Sent {
                context,
                name: name.filter(|_| has_results),
                until: engine.next_of(operation, to).0,
            });
        }
    }

    /// Notes that this rank has finished a collective: its results are kept here.
    pub(super) fn finish(
        &mut self,
        (context, name): (u32, Name),
        result_bytes: u64,
        engine: &mut Engine<impl Protocol>,
    ) {
        self.polls = 0;
        let group = self.groups.entry(context).or_default();
        group.finish(name);
        self.ahead.take(context, name);
        group.untold += 1 + result_bytes / 4096;
        if group.untold >= UNTOLD_MAX {
            self.tell_finished(context, engine);
        }
    }

    /// Whether the rank has waited for some time, now and then.
    pub(super) fn has_waited(&self) -> bool {
        self.polls.is_multiple_of(POLLS_MAX)
    }

    /// Finds the ranks to which a collective has sent messages, unless it is like the last one.
    fn find_receivers(&mut self, plan: &Plan, name: Option<Name>) {
        let is_same = self.receivers.as_ref().is_some_and(|it| {
            Arc::ptr_eq(&it.chosen, &plan.chosen)
                && Arc::ptr_eq(&it.members, &plan.members)
                && (it.is_named, it.is_checked) == (name.is_some(), plan.check.is_some())
        });
        if !is_same {
            self.receivers = Some(Receivers {
                chosen: Arc::clone(&plan.chosen),
                members: Arc::clone(&plan.members),
                is_named: name.is_some(),
                is_checked: plan.check.is_some(),
                ranks: plan.sends(name, self.failures).into_keys().collect(),
            });
        }
    }

    /// Counts a poll. Returns whether nothing is to be done.
    #[inline]
    pub(super) fn is_calm(&mut self, engine: &Engine<impl Protocol>) -> bool {
        self.polls = self.polls.wrapping_add(1);
        let is_asked = !(self.asked.is_empty() & self.giving.is_empty());
        !(engine.has_collective_news() | is_asked | (self.polls == POLLS_MAX))
    }

    /// Handles reports, peers that are back, and questions of others. Returns the parts of results
    /// that have arrived, and answers.
    pub(super) fn attend(
        &mut self,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<News, CollectiveError> {
        let mut news = News::default();
        if engine.has_collective_news() {
            while let Some(peer) = engine.next_connected_again() {
                self.meet(peer, engine);
                news.met.push(peer);
            }
            while let Some((from, report, context, name)) = engine.next_report() {
                if let Report::Past | Report::Behind = report {
                    news.answers.push((from, report, (context, Name(name))));
                }
                news.has_reports = true;
                self.told(from, report, (context, Name(name)), engine);
            }
            news.parts.extend(engine.results());
        }
        self.begin_to_give(engine);
        self.give(engine)?;
        if self.polls == POLLS_MAX {
            news.has_waited = true;
            let untold = self.groups.iter().filter(|(_, group)| group.untold > 0);
            let untold: Vec<u32> = untold.map(|(context, _)| *context).collect();
            for context in untold {
                self.tell_finished(context, engine);
            }
        }
        Ok(news)
    }

    /// Drops messages that have arrived for collectives whose results were given to this rank.
    /// WHOLE-5
    pub fn tidy(&mut self, engine: &mut Engine<impl Protocol>) {
        self.untidy = 0;
        if !self.is_later_life {
            return;
        }
        let groups = &self.groups;
        engine.drop_arrived(|envelope| {
            let group = groups.get(&envelope.context);
            group.is_some_and(|group| group.is_over(envelope.tag))
        });
    }
}

/// What has happened since the last call.
#[derive(Debug, Default)]
pub(super) struct News {
    pub met: Vec<Rank>,
    pub parts: Vec<ResultPart>,
    /// How far those are that were asked for a result.
    pub answers: Vec<(Rank, Report, (u32, Name))>,
    /// Reports have come.
    pub has_reports: bool,
    /// The rank waits.
    pub has_waited: bool,
}

impl News {
    fn is_none(&self) -> bool {
        let is_empty = self.met.is_empty() && self.parts.is_empty() && self.answers.is_empty();
        is_empty && !self.has_waited && !self.has_reports
    }
}
