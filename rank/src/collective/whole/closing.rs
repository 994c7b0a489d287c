//! Reports about collectives: which ones members have finished, which ones are closed, and what is
//! free then. WHOLE-3, WHOLE-4

use super::group::{Name, least, names, raise};
use super::{Asked, Whole};
use refrain_ring::{Rank, Ssn};
use refrain_transport::control::Report;
use refrain_transport::engine::Engine;
use refrain_transport::protocol::Protocol;
use std::sync::Arc;

impl Whole {
    /// Sends a report to those that close the group's collectives or keep this rank's results, and
    /// to this rank.
    pub(super) fn tell_near(
        &mut self,
        context: u32,
        report: Report,
        name: Name,
        engine: &mut Engine<impl Protocol>,
    ) {
        let Some(group) = self.groups.get(&context) else {
            return;
        };
        let near = group.neighbours(self.failures);
        let mut to: Vec<Rank> = group.closers(self.failures).chain(near).collect();
        to.push(self.rank);
        to.sort_unstable();
        to.dedup();
        for to in to {
            self.tell(to, report, (context, name), engine);
        }
    }

    pub(super) fn tell(
        &mut self,
        to: Rank,
        report: Report,
        (context, name): (u32, Name),
        engine: &mut Engine<impl Protocol>,
    ) {
        match to == self.rank {
            true => self.told(to, report, (context, name), engine),
            false => engine.report(to, report, (context, name.0)),
        }
    }

    pub(super) fn tell_finished(&mut self, context: u32, engine: &mut Engine<impl Protocol>) {
        let Some(group) = self.groups.get_mut(&context) else {
            return;
        };
        group.untold = 0;
        let finished = group.finished;
        let closers: Vec<Rank> = group.closers(self.failures).collect();
        for closer in closers {
            for name in names(finished).into_iter().filter(|it| it.number() > 0) {
                self.tell(closer, Report::Finished, (context, name), engine);
            }
        }
    }

    /// Handles a report.
    pub(super) fn told(
        &mut self,
        from: Rank,
        report: Report,
        (context, name): (u32, Name),
        engine: &mut Engine<impl Protocol>,
    ) {
        let group = self.groups.entry(context).or_default();
        match report {
            Report::Finished => {
                raise(group.finished_by.entry(from).or_default(), name);
                self.close(context, engine);
            }
            Report::Closed => {
                // Others than closers tell what they know when ranks are connected again.
                if group.closers(self.failures).any(|closer| closer == from) {
                    raise(group.closed_by.entry(from).or_default(), name);
                }
                raise(&mut group.known_closed, name);
                self.spread_closed(context, engine);
                self.free_messages(context, engine);
            }
            Report::Gone => raise(&mut group.gone, name),
            Report::Covered => {
                raise(group.covered_by.entry(from).or_default(), name);
                self.free_results(engine);
            }
            Report::Ask => {
                let is_it = |it: &&mut Asked| (it.by, it.context, it.name) == (from, context, name);
                if let Some(again) = self.asked.iter_mut().find(is_it) {
                    again.knows_behind = false;
                } else {
                    self.asked.push(Asked {
                        by: from,
                        context,
                        name,
                        knows_behind: false,
                    });
                }
            }
            Report::Past | Report::Behind => {}
        }
    }

    /// Whether a rank closes the collectives of a group.
    pub(in crate::collective) fn is_closer(&self, context: u32, rank: Rank) -> bool {
        let group = self.groups.get(&context);
        group.is_some_and(|it| it.closers(self.failures).any(|closer| closer == rank))
    }

    /// A closer closes what all members have finished. WHOLE-3
    fn close(&mut self, context: u32, engine: &mut Engine<impl Protocol>) {
        let Some(group) = self.groups.get_mut(&context) else {
            return;
        };
        if !group.members.is_empty() {
            let members = group.members.iter();
            let finished = least(members.map(|member| group.finished_by.get(member)));
            for name in names(finished) {
                raise(&mut group.known_closed, name);
            }
        }
        self.spread_closed(context, engine);
    }

    /// A closer tells all members what is closed, also what it has learned from others: members free
    /// messages by what closers say, so all later lives hear of it.
    pub(super) fn spread_closed(&mut self, context: u32, engine: &mut Engine<impl Protocol>) {
        let Some(group) = self.groups.get_mut(&context) else {
            return;
        };
        let is_closer = group.closers(self.failures).any(|it| it == self.rank);
        if !is_closer || group.told_closed == group.known_closed {
            return;
        }
        group.told_closed = group.known_closed;
        let (members, closed) = (Arc::clone(&group.members), group.known_closed);
        for member in members.iter() {
            for name in names(closed).into_iter().filter(|it| it.number() > 0) {
                self.tell(*member, Report::Closed, (context, name), engine);
            }
        }
    }

    /// Frees the messages of collectives that are closed. WHOLE-4
    fn free_messages(&mut self, context: u32, engine: &mut Engine<impl Protocol>) {
        let group = self.groups.get_mut(&context);
        if let Some(group) = group.filter(|group| !group.members.is_empty()) {
            for name in names(group.closed_by_all(self.failures)) {
                raise(&mut group.gone, name);
            }
        }
        self.free_gone(engine);
    }

    /// Frees the messages of collectives that all closers have closed, unless the logs of a
    /// checkpoint are being saved.
    pub(super) fn free_gone(&mut self, engine: &mut Engine<impl Protocol>) {
        if self.is_saving {
            return;
        }
        for ((to, _), sent) in &mut self.sent {
            while let Some(first) = sent.front() {
                let until = Ssn(first.until);
                let group = &self.groups[&first.context];
                // A later life may have sent messages again that were gone. Until it has finished their
                // collective it has no result to give instead.
                let is_closed = first
                    .name
                    .is_some_and(|name| name.is_before(&group.gone) && group.has_finished(name));
                if !is_closed && !engine.is_freed(*to, until) {
                    break;
                }
                engine.free_internal(*to, until);
                sent.pop_front();
            }
        }
    }

    /// Frees the results that checkpoints of all those cover that may ask for them. LOG-4
    pub(super) fn free_results(&mut self, engine: &mut Engine<impl Protocol>) {
        let mut until = None;
        while let Some((key, ssn, _)) = self.kept.front() {
            let group = &self.groups[&key.context];
            let is_covered = |member: &Rank| {
                let covered = group.covered_by.get(member);
                covered.is_some_and(|until| key.name.is_before(until))
            };
            let is_over = match key.owner {
                None => group.members.iter().all(is_covered),
                Some(owner) => {
                    // The neighbours of the owner get it again for their own part.
                    let mut keepers = group.keepers(owner, self.failures);
                    keepers.all(|it| is_covered(&it))
                }
            };
            if !is_over {
                break;
            }
            until = Some(ssn.next());
            self.index = None;
            self.kept.pop_front();
        }
        if let Some(until) = until {
            engine.free_results(until);
        }
    }

    /// Tells a peer, or a rank that knows nothing of this later life, all that it has to know.
    pub(super) fn meet(&mut self, peer: Rank, engine: &mut Engine<impl Protocol>) {
        self.asked.retain(|it| it.by != peer);
        self.giving.retain(|giving| giving.to != peer);
        let mut reports = Vec::new();
        for (context, group) in &mut self.groups {
            if !group.members.contains(&peer) {
                continue;
            }
            // What it said in an earlier life it may not know any more.
            group.closed_by.remove(&peer);
            reports.extend(names(group.finished).map(|name| (Report::Finished, *context, name)));
            for (report, until) in [
                (Report::Closed, group.known_closed),
                (Report::Gone, group.gone),
            ] {
                reports.extend(names(until).map(|name| (report, *context, name)));
            }
            let covered = group
                .covered_by
                .get(&self.rank)
                .copied()
                .unwrap_or_default();
            reports.extend(names(covered).map(|name| (Report::Covered, *context, name)));
        }
        for (report, context, name) in reports.into_iter().filter(|it| it.2.number() > 0) {
            engine.report(peer, report, (context, name.0));
        }
    }
}
